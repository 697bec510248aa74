/* aws/provider.h: the interface of all places that may have keys: their settings, and the functions that ask them.
 * All functions have the same shape. aws/credentials.c lists them in their order.
 *
 * A provider has no state. It asks its place whenever it is called, on the thread of the caller and in bounded time.
 * It puts no secret into an error or the log. The settings are read once at open and read-only afterwards. */
#ifndef CLEAT_STORAGE_AWS_PROVIDER_H
#define CLEAT_STORAGE_AWS_PROVIDER_H

#include "base/clock.h"
#include "base/log.h"
#include "storage/aws/keys.h"
#include "storage/aws/partition.h"
#include "storage/http/proxy.h"

#include <stdatomic.h>

/* Limit of bytes in an answer. Documents of AWS are below 3 KiB. */
#define CLEAT__S3_ANSWER_MAX 65536u
/* Time limit for one answer of the instance metadata. Lower: a busy service ends a search for keys. Higher: a
 * container whose packets do not reach the service waits longer at each start. */
#define CLEAT__S3_INSTANCE_MS 5000
/* Limit of bytes of a token in a file. STS accepts 4 to 20,000 bytes. */
#define CLEAT__S3_TOKEN_FILE_MAX 20000u

/* The options of the store that affect keys. Everything is borrowed for the call of cleat__s3_credentials_new. */
struct cleat__s3_chain_options {
  const struct cleat_client_options *client;
  const char *profile;                  /* profile of the URL; NULL: AWS_PROFILE, else "default" */
  const char *region;                   /* region of STS */
  const char *sts_endpoint;             /* NULL: that of AWS */
  struct cleat__s3_variant sts_variant; /* kind of the STS endpoint of AWS */
  const char *ca_file;                  /* for STS; NULL: that of the system */
  bool anonymous;
  /* for STS; must live longer than the chain; NULL: none */
  const struct cleat__http_proxies *proxies;
  const struct cleat__clock *clock; /* must live longer than the chain */
  /* true time minus that of the clock, as far as it is known; must live longer than the chain; NULL: 0 */
  atomic_llong *skew_s;
  struct cleat__log log;
  int64_t process_ms; /* time limit of a credential_process; 0: CLEAT__S3_PROCESS_MS */
  /* time limit of one answer of the instance metadata; 0: CLEAT__S3_INSTANCE_MS */
  int64_t instance_ms;
};

/* Owns its strings. Unset texts are NULL. */
struct cleat__s3_settings {
  char *profile;
  bool profile_named;     /* the user has set it, so it must exist */
  bool profile_in_url;    /* comes before the environment */
  char *credentials_path; /* NULL: no home folder */
  char *config_path;
  char *web_token_file;
  char *role_arn;
  char *role_session_name;
  char *container_relative;
  char *container_full;
  char *container_token;
  char *container_token_file;
  char *instance_endpoint; /* always set */
  bool instance_disabled;
  char *region;
  char *sts_endpoint;
  struct cleat__s3_variant sts_variant;
  char *ca_file;
  const struct cleat__http_proxies *proxies; /* borrowed; NULL: none */
  atomic_llong *skew_s;                      /* borrowed, shared with the store; NULL: 0 */
  bool anonymous;
  bool has_options;
  bool has_environment;
  struct cleat__s3_credentials options;
  struct cleat__s3_credentials environment;
  int64_t process_ms;
  int64_t instance_ms;
};

/* Reads the options and the environment. Errors: INVALID (incomplete options, a value too long, anonymous together
 * with keys), DENIED (incomplete environment), NO_MEMORY. Call cleat__s3_settings_clear in every case. */
cleat_status cleat__s3_settings_init(struct cleat__s3_settings *settings, const struct cleat__s3_chain_options *options,
                                     struct cleat_error *err);
void cleat__s3_settings_clear(struct cleat__s3_settings *settings);

/* One search for keys. */
struct cleat__s3_search {
  const struct cleat__s3_settings *settings;
  const struct cleat__clock *clock;
  const atomic_bool *cancel; /* may be NULL */
  bool known;                /* the keys used so far came from the place that is asked now */
};

/* Asks one place. CLEAT_OK with *found false: the place is not configured, ask the next one. An error ends the
 * search: a configured place that cannot give keys must not be skipped. err->retryable: a later call may succeed. */
typedef cleat_status cleat__s3_provider_fn(const struct cleat__s3_search *search, struct cleat__s3_credentials *keys,
                                           bool *found, struct cleat_error *err);

cleat__s3_provider_fn cleat__s3_from_anonymous;
cleat__s3_provider_fn cleat__s3_from_options;
cleat__s3_provider_fn cleat__s3_from_environment;
cleat__s3_provider_fn cleat__s3_from_web_identity;
cleat__s3_provider_fn cleat__s3_from_shared_files;
cleat__s3_provider_fn cleat__s3_from_container;
cleat__s3_provider_fn cleat__s3_from_instance;

/* Runs a credential_process and reads its keys. `place` is for messages. */
cleat_status cleat__s3_from_process(const struct cleat__s3_search *search, const char *command, const char *place,
                                    struct cleat__s3_credentials *keys, struct cleat_error *err);

/* Gets the URL of the container endpoint from the settings, owned, and *host for messages, owned. NULL with CLEAT_OK
 * if it is not configured. INVALID: keys must not be requested from this URL. */
cleat_status cleat__s3_container_url(const struct cleat__s3_settings *settings, char **url, struct cleat_error *err);

/* Splits a command line like Python's shlex, which the AWS CLI uses: only quotes and backslashes are special. *words
 * ends with NULL, and is one block together with its texts (cleat__free). INVALID: an open quote, or no word. */
cleat_status cleat__s3_split_command(const char *command, char ***words, struct cleat_error *err);

/* ---- What the providers share ---- */

/* The current Unix time: the clock, corrected by what servers have told. */
int64_t cleat__s3_now_s(const struct cleat__s3_settings *settings, const struct cleat__clock *clock);

/* Takes the time of a server as the true time, for everything that signs. */
void cleat__s3_learn_time(const struct cleat__s3_settings *settings, const struct cleat__clock *clock, int64_t true_s);

/* Reads a token from a file, without white space at its end. The caller owns it and wipes it before cleat__free.
 * `what` names it in errors. Errors: INVALID (empty, too long, contains a line end or control character), those of
 * opening the file. */
cleat_status cleat__s3_token_read(const char *path, const char *what, char **token, struct cleat_error *err);
void cleat__s3_wipe_text(char *text); /* wipes and frees; NULL is allowed */

/* One HTTP request. Borrows everything. */
struct cleat__s3_question {
  const char *place; /* for messages: without path, query or user */
  const char *method;
  const char *url;
  const char *const *headers; /* "Name: value" */
  size_t header_count;
  const char *body; /* NULL: none */
  bool direct;      /* do not use a proxy: for addresses of this machine */
  const char *ca_file;
  int64_t connect_ms;
  int64_t limit_ms; /* time limit of one try */
  unsigned tries;   /* how often to try after transport failures, 429 and 5xx */
  bool *reached;    /* NULL, or set if a server accepted the request */
};

struct cleat__s3_answer {
  int http_status;
  char date[40]; /* the Date header; "" if there is none */
  size_t length;
  char text[CLEAT__S3_ANSWER_MAX + 1];
};

/* Sends the request. A redirect is an error and is not followed. CLEAT_OK: a reply with 2xx or 4xx has come. The
 * caller owns *answer (cleat__s3_answer_free, which wipes it). Errors: NETWORK, TIMEOUT, STORE (5xx), all retryable;
 * DENIED (redirect, not HTTP, too long), CANCELLED, NO_MEMORY. */
cleat_status cleat__s3_ask(const struct cleat__s3_search *search, const struct cleat__s3_question *question,
                           struct cleat__s3_answer **answer, struct cleat_error *err);
void cleat__s3_answer_free(struct cleat__s3_answer *answer);

#endif
