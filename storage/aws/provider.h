/* aws/provider.h: what every place that may hold keys is given, and the functions that ask them.
 * All have one shape, so that one teaches all; aws/credentials.c has them in their order.
 *
 * A provider keeps no state: it asks anew whenever it is called, on the caller's thread and in
 * bounded time, and puts nothing that is secret into an error or the log. The settings are read
 * once, at open, and read-only after. */
#ifndef CLEAT_STORAGE_AWS_PROVIDER_H
#define CLEAT_STORAGE_AWS_PROVIDER_H

#include "base/clock.h"
#include "base/log.h"
#include "storage/aws/keys.h"
#include "storage/aws/partition.h"
#include "storage/http/proxy.h"

#include <stdatomic.h>

/* What a place may answer. AWS's documents are below 3 KiB. */
#define CLEAT__S3_ANSWER_MAX 65536u
/* How long the instance metadata may take for one answer. Lower: a busy one ends a search for keys. Higher: a container
 * whose packets do not get so far waits at each start. */
#define CLEAT__S3_INSTANCE_MS 5000
/* Of a token in a file. STS takes 4 to 20,000 bytes. */
#define CLEAT__S3_TOKEN_FILE_MAX 20000u

/* How the store was opened, as far as keys depend on it. Borrows everything for the call of
 * cleat__s3_credentials_new. */
struct cleat__s3_chain_options {
  const struct cleat_client_options *client;
  const char *profile;                  /* of the URL; NULL: AWS_PROFILE, else "default" */
  const char *region;                   /* of STS */
  const char *sts_endpoint;             /* NULL: AWS's own … */
  struct cleat__s3_variant sts_variant; /* … of this kind */
  const char *ca_file;                  /* for STS; NULL: the system's */
  bool anonymous;
  const struct cleat__http_proxies *proxies; /* for STS; outlive the chain; NULL: none */
  const struct cleat__clock *clock;          /* outlives the chain */
  atomic_llong
      *skew_s; /* true time minus the clock's, as far as it is known; outlives the chain; NULL: 0 */
  struct cleat__log log;
  int64_t process_ms;  /* for a credential_process; 0: CLEAT__S3_PROCESS_MS */
  int64_t instance_ms; /* for one answer of the instance metadata; 0: CLEAT__S3_INSTANCE_MS */
};

/* Owns its strings. A text that is not set is NULL. */
struct cleat__s3_settings {
  char *profile;
  bool profile_named;     /* by the user: it must exist */
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

/* Reads options and environment. Errors: INVALID (half-set options, too long, anonymous with
 * keys), DENIED (half-set environment), NO_MEMORY; in any case cleat__s3_settings_clear. */
cleat_status cleat__s3_settings_init(struct cleat__s3_settings *settings,
                                     const struct cleat__s3_chain_options *options,
                                     struct cleat_error *err);
void cleat__s3_settings_clear(struct cleat__s3_settings *settings);

/* One search for keys. */
struct cleat__s3_search {
  const struct cleat__s3_settings *settings;
  const struct cleat__clock *clock;
  const atomic_bool *cancel; /* may be NULL */
  bool known;                /* the keys that were used so far came from the place that is asked */
};

/* Asks one place. CLEAT_OK with *found false: this place is not set up, ask the next. An error
 * ends the search: a place that is set up and cannot give keys must not be passed over for
 * others. err->retryable tells that the same may succeed later. */
typedef cleat_status cleat__s3_provider_fn(const struct cleat__s3_search *search,
                                           struct cleat__s3_credentials *keys, bool *found,
                                           struct cleat_error *err);

cleat__s3_provider_fn cleat__s3_from_anonymous;
cleat__s3_provider_fn cleat__s3_from_options;
cleat__s3_provider_fn cleat__s3_from_environment;
cleat__s3_provider_fn cleat__s3_from_web_identity;
cleat__s3_provider_fn cleat__s3_from_shared_files;
cleat__s3_provider_fn cleat__s3_from_container;
cleat__s3_provider_fn cleat__s3_from_instance;

/* Runs a credential_process. `place` is for messages. */
cleat_status cleat__s3_from_process(const struct cleat__s3_search *search, const char *command,
                                    const char *place, struct cleat__s3_credentials *keys,
                                    struct cleat_error *err);

/* The container endpoint's URL by the settings, owned, *host (for messages) too; NULL with
 * CLEAT_OK when it is not set up. INVALID for one that keys may not be asked from. */
cleat_status cleat__s3_container_url(const struct cleat__s3_settings *settings, char **url,
                                     struct cleat_error *err);

/* Splits a command line as Python's shlex does, and so the AWS CLI: quotes and backslashes,
 * nothing else. *words is ended by NULL and one block with its texts (cleat__free). INVALID: an
 * open quote, or no word. */
cleat_status cleat__s3_split_command(const char *command, char ***words, struct cleat_error *err);

/* ---- What the providers share ---- */

/* The time, as far as it is known: the clock's, put right by what stores have told. */
int64_t cleat__s3_now_s(const struct cleat__s3_settings *settings,
                        const struct cleat__clock *clock);

/* Takes the time of a server as the true one, for all who sign. */
void cleat__s3_learn_time(const struct cleat__s3_settings *settings,
                          const struct cleat__clock *clock, int64_t true_s);

/* A token from a file, without white space at its end; owned, wipe before cleat__free. `what`
 * names it in errors. INVALID (empty, too long, a line end or control character inside), and
 * those of opening. */
cleat_status cleat__s3_token_read(const char *path, const char *what, char **token,
                                  struct cleat_error *err);
void cleat__s3_wipe_text(char *text); /* wipes and frees; NULL is allowed */

/* One HTTP question. Borrows all. */
struct cleat__s3_question {
  const char *place; /* for messages: without path, query or user */
  const char *method;
  const char *url;
  const char *const *headers; /* "Name: value" */
  size_t header_count;
  const char *body; /* NULL: none */
  bool direct;      /* past any proxy: for addresses of this machine */
  const char *ca_file;
  int64_t connect_ms;
  int64_t limit_ms; /* of one try */
  unsigned tries;   /* of transport failures, 429 and 5xx */
  bool *reached;    /* NULL, or set where somebody took the question */
};

struct cleat__s3_answer {
  int http_status;
  char date[40]; /* the header, "" when there is none */
  size_t length;
  char text[CLEAT__S3_ANSWER_MAX + 1];
};

/* Asks; redirects are an error, they are never followed. CLEAT_OK: a reply of 2xx or 4xx came.
 * *answer is owned (cleat__s3_answer_free, which wipes it). Errors: NETWORK, TIMEOUT, STORE
 * (5xx), all retryable; DENIED (redirect, not HTTP, too long), CANCELLED, NO_MEMORY. */
cleat_status cleat__s3_ask(const struct cleat__s3_search *search,
                           const struct cleat__s3_question *question,
                           struct cleat__s3_answer **answer, struct cleat_error *err);
void cleat__s3_answer_free(struct cleat__s3_answer *answer);

#endif
