/* s3_credentials.c: the chain of places that may hold the keys. See s3_credentials.h.
 *
 * A provider is one function in the table at the end of the first half: it says whether it has keys, and a place that
 * holds half of them ends the search with an error. Threading: what cleat__s3_credentials_new set is
 * read-only; the cached keys are guarded by synced.lock, under which nothing is read or called. */
#include "storage/s3_credentials.h"

#include "base/mem.h"
#include "storage/s3_profile.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct cleat__s3_chain {
  const struct cleat__clock *clock;
  char *profile;
  bool profile_named;     /* by the user: it must exist */
  char *credentials_path; /* NULL: no home folder */
  char *config_path;
  bool has_options;
  bool has_environment;
  struct cleat__s3_credentials options;
  struct cleat__s3_credentials environment;
  struct {
    pthread_mutex_t lock;
    bool known;
    const char *source; /* static */
    struct cleat__s3_credentials keys;
  } synced;
};

/* What a set of keys is called where it stands, for messages. */
struct names {
  const char *place;
  const char *id;
  const char *secret;
  const char *token;
  cleat_status status; /* of a half-set pair */
};

static const struct names OPTION_NAMES = {"the options", "access_key_id", "secret_access_key",
                                          "session_token", CLEAT_INVALID};
static const struct names ENVIRONMENT_NAMES = {"the environment", "AWS_ACCESS_KEY_ID",
                                               "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN",
                                               CLEAT_DENIED};

/* Empty is as good as absent: that is how people unset a variable. */
static const char *or_null(const char *text) {
  return text && text[0] != '\0' ? text : NULL;
}

static cleat_status copy_key(const char *from, char *to, size_t size, const char *name,
                             const char *place, struct cleat_error *err) {
  if (!from) {
    to[0] = '\0';
    return CLEAT_OK;
  }
  size_t length = strlen(from);
  if (length >= size)
    return cleat__error_set(err, CLEAT_INVALID, "%s of %s is over %zu bytes", name, place,
                            size - 1);
  for (size_t i = 0; i < length; i++) {
    if ((unsigned char)from[i] <= 0x20 || (unsigned char)from[i] >= 0x7f) {
      (void)cleat__error_set(err, CLEAT_INVALID,
                             "%s of %s has a blank, a line end or a non-ASCII character in it",
                             name, place);
      cleat__error_hint(err, "a line end often comes with a secret that was made from a file");
      return err->status;
    }
  }
  memcpy(to, from, length + 1);
  return CLEAT_OK;
}

/* Checks that id and secret are both there or both absent, and copies them. */
static cleat_status take_keys(const struct names *names, const char *id, const char *secret,
                              const char *token, struct cleat__s3_credentials *keys, bool *found,
                              struct cleat_error *err) {
  id = or_null(id);
  secret = or_null(secret);
  token = or_null(token);
  if (!id != !secret || (token && !id)) {
    const char *missing = id ? names->secret : names->id;
    const char *present = id ? names->id : secret ? names->secret : names->token;
    (void)cleat__error_set(err, names->status, "%s: %s is set, %s is not", names->place, present,
                           missing);
    cleat__error_hint(err, "set %s too, or neither", missing);
    return err->status;
  }
  *found = id != NULL;
  if (!id)
    return CLEAT_OK;
  keys->expires_s = 0;
  cleat_status status =
      copy_key(id, keys->access_key_id, sizeof keys->access_key_id, names->id, names->place, err);
  if (!status)
    status = copy_key(secret, keys->secret_access_key, sizeof keys->secret_access_key,
                      names->secret, names->place, err);
  if (!status)
    status = copy_key(token, keys->session_token, sizeof keys->session_token, names->token,
                      names->place, err);
  return status;
}

/* ---- Providers ---- */

static cleat_status from_options(const struct cleat__s3_chain *chain,
                                 struct cleat__s3_credentials *keys, bool *found,
                                 struct cleat_error *err) {
  (void)err;
  *found = chain->has_options;
  if (*found)
    *keys = chain->options;
  return CLEAT_OK;
}

static cleat_status from_environment(const struct cleat__s3_chain *chain,
                                     struct cleat__s3_credentials *keys, bool *found,
                                     struct cleat_error *err) {
  (void)err;
  *found = chain->has_environment;
  if (*found)
    *keys = chain->environment;
  return CLEAT_OK;
}

/* Static keys of one section of one file. */
static cleat_status from_section(const struct cleat__s3_profile *section, const char *path,
                                 const char *name, struct cleat__s3_credentials *keys, bool *found,
                                 struct cleat_error *err) {
  char *place = cleat__strprintf("%s, profile '%s'", path, name);
  if (!place)
    return cleat__error_no_memory(err, "the credentials");
  const struct names names = {place, "aws_access_key_id", "aws_secret_access_key",
                              "aws_session_token", CLEAT_INVALID};
  cleat_status status = take_keys(&names, cleat__s3_profile_get(section, names.id),
                                  cleat__s3_profile_get(section, names.secret),
                                  cleat__s3_profile_get(section, names.token), keys, found, err);
  cleat__free(place);
  return status;
}

/* Ways to get keys that a section may ask for and that this chain does not know. */
static cleat_status check_supported(const struct cleat__s3_profile *section, const char *path,
                                    const char *name, struct cleat_error *err) {
  static const char *const ways[] = {"role_arn", "credential_process", "sso_session",
                                     "sso_start_url", "web_identity_token_file"};
  for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
    if (!cleat__s3_profile_get(section, ways[i]))
      continue;
    (void)cleat__error_set(err, CLEAT_DENIED, "%s, profile '%s': keys by %s are not supported",
                           path, name, ways[i]);
    cleat__error_hint(err, "export keys into the environment first: aws configure "
                           "export-credentials --format env");
    return err->status;
  }
  return CLEAT_OK;
}

static cleat_status from_file(const struct cleat__s3_chain *chain, const char *path,
                              enum cleat__s3_profile_kind kind, struct cleat__s3_credentials *keys,
                              bool *found, bool *section_found, struct cleat_error *err) {
  *found = false;
  if (!path)
    return CLEAT_OK;
  struct cleat__s3_profile section = CLEAT__S3_PROFILE_INIT;
  cleat_status status = cleat__s3_profile_load(path, kind, chain->profile, &section, NULL, err);
  if (!status)
    status = from_section(&section, path, chain->profile, keys, found, err);
  if (!status && !*found)
    status = check_supported(&section, path, chain->profile, err);
  *section_found = *section_found || section.found;
  cleat__s3_profile_clear(&section);
  return status;
}

static cleat_status from_shared_files(const struct cleat__s3_chain *chain,
                                      struct cleat__s3_credentials *keys, bool *found,
                                      struct cleat_error *err) {
  bool section_found = false;
  cleat_status status = from_file(chain, chain->credentials_path, CLEAT__S3_PROFILE_CREDENTIALS,
                                  keys, found, &section_found, err);
  if (!status && !*found)
    status = from_file(chain, chain->config_path, CLEAT__S3_PROFILE_CONFIG, keys, found,
                       &section_found, err);
  if (status || *found || section_found || !chain->profile_named)
    return status;
  (void)cleat__error_set(err, CLEAT_INVALID, "there is no profile '%s' in %s or %s", chain->profile,
                         chain->credentials_path ? chain->credentials_path : "~/.aws/credentials",
                         chain->config_path ? chain->config_path : "~/.aws/config");
  cleat__error_hint(err, "check AWS_PROFILE, AWS_SHARED_CREDENTIALS_FILE and AWS_CONFIG_FILE");
  return err->status;
}

/* In the order in which they are asked. */
static const struct {
  const char *source;
  cleat_status (*fetch)(const struct cleat__s3_chain *chain, struct cleat__s3_credentials *keys,
                        bool *found, struct cleat_error *err);
} PROVIDERS[] = {
    {"the options", from_options},
    {"the environment variables", from_environment},
    {"the shared AWS files", from_shared_files},
};

/* Asks one after the other. */
static cleat_status fetch(const struct cleat__s3_chain *chain, struct cleat__s3_credentials *keys,
                          const char **source, struct cleat_error *err) {
  for (size_t i = 0; i < sizeof PROVIDERS / sizeof PROVIDERS[0]; i++) {
    bool found = false;
    cleat_status status = PROVIDERS[i].fetch(chain, keys, &found, err);
    if (status)
      return status;
    if (found) {
      *source = PROVIDERS[i].source;
      return CLEAT_OK;
    }
  }
  (void)cleat__error_set(err, CLEAT_DENIED,
                         "no S3 keys found in the options, the environment, or "
                         "profile '%s' of %s",
                         chain->profile,
                         chain->credentials_path ? chain->credentials_path : "~/.aws/credentials");
  cleat__error_hint(err, "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE");
  return err->status;
}

/* ---- The chain ---- */

static cleat_status read_sources(struct cleat__s3_chain *chain,
                                 const struct cleat_client_options *options, const char *profile,
                                 struct cleat_error *err) {
  cleat_status status =
      take_keys(&OPTION_NAMES, options->access_key_id, options->secret_access_key,
                options->session_token, &chain->options, &chain->has_options, err);
  /* A profile named in the URL is meant more than variables that lie about. Variables that will not be
   * used need not be in order. */
  if (!status && !chain->has_options && !or_null(profile))
    status =
        take_keys(&ENVIRONMENT_NAMES, getenv("AWS_ACCESS_KEY_ID"), getenv("AWS_SECRET_ACCESS_KEY"),
                  getenv("AWS_SESSION_TOKEN"), &chain->environment, &chain->has_environment, err);
  if (status)
    return status;
  const char *name = or_null(profile) ? profile : or_null(getenv("AWS_PROFILE"));
  chain->profile_named = name != NULL;
  chain->profile = cleat__strdup(name ? name : "default");
  if (!chain->profile)
    return cleat__error_no_memory(err, "the credentials");
  status = cleat__s3_profile_path(CLEAT__S3_PROFILE_CREDENTIALS, &chain->credentials_path, err);
  return status ? status
                : cleat__s3_profile_path(CLEAT__S3_PROFILE_CONFIG, &chain->config_path, err);
}

cleat_status cleat__s3_credentials_new(const struct cleat_client_options *options,
                                       const char *profile, const struct cleat__clock *clock,
                                       struct cleat__s3_chain **chain, struct cleat_error *err) {
  struct cleat__s3_chain *made = cleat__calloc(1, sizeof *made);
  if (!made)
    return cleat__error_no_memory(err, "the credentials");
  made->clock = clock;
  made->synced.source = "";
  pthread_mutex_init(&made->synced.lock, NULL);
  cleat_status status = read_sources(made, options, profile, err);
  if (status) {
    cleat__s3_credentials_free(made);
    return status;
  }
  *chain = made;
  return CLEAT_OK;
}

/* Copies the cached keys if they are good for now. */
static bool get_cached(struct cleat__s3_chain *chain, struct cleat__s3_credentials *credentials) {
  int64_t now = chain->clock->wall_s(chain->clock->ctx);
  pthread_mutex_lock(&chain->synced.lock);
  const struct cleat__s3_credentials *keys = &chain->synced.keys;
  bool good = chain->synced.known && (keys->expires_s == 0 || keys->expires_s > now);
  if (good)
    *credentials = *keys;
  pthread_mutex_unlock(&chain->synced.lock);
  return good;
}

cleat_status cleat__s3_credentials_get(struct cleat__s3_chain *chain,
                                       struct cleat__s3_credentials *credentials,
                                       struct cleat_error *err) {
  if (get_cached(chain, credentials))
    return CLEAT_OK;
  /* Outside the lock: two threads may read the files at once, which costs little and harms nothing. */
  struct cleat__s3_credentials fresh = {0};
  const char *source = "";
  cleat_status status = fetch(chain, &fresh, &source, err);
  if (!status) {
    pthread_mutex_lock(&chain->synced.lock);
    chain->synced.keys = fresh;
    chain->synced.source = source;
    chain->synced.known = true;
    pthread_mutex_unlock(&chain->synced.lock);
    *credentials = fresh;
  }
  cleat__s3_credentials_wipe(&fresh);
  return status;
}

void cleat__s3_credentials_refuse(struct cleat__s3_chain *chain,
                                  const struct cleat__s3_credentials *refused) {
  pthread_mutex_lock(&chain->synced.lock);
  if (strcmp(chain->synced.keys.access_key_id, refused->access_key_id) == 0 &&
      strcmp(chain->synced.keys.session_token, refused->session_token) == 0)
    chain->synced.known = false;
  pthread_mutex_unlock(&chain->synced.lock);
}

const char *cleat__s3_credentials_source(struct cleat__s3_chain *chain) {
  pthread_mutex_lock(&chain->synced.lock);
  const char *source = chain->synced.source;
  pthread_mutex_unlock(&chain->synced.lock);
  return source;
}

void cleat__s3_credentials_free(struct cleat__s3_chain *chain) {
  if (!chain)
    return;
  pthread_mutex_destroy(&chain->synced.lock);
  cleat__free(chain->profile);
  cleat__free(chain->credentials_path);
  cleat__free(chain->config_path);
  explicit_bzero(chain, sizeof *chain);
  cleat__free(chain);
}

void cleat__s3_credentials_wipe(struct cleat__s3_credentials *credentials) {
  explicit_bzero(credentials, sizeof *credentials);
}
