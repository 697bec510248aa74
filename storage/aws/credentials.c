/* aws/credentials.c: the chain of places that may have keys, and the keys in use. See aws/credentials.h.
 *
 * Threading: settings, clock and log are read-only after cleat__s3_credentials_new. synced.lock guards all other
 * fields. It is held only to read and copy them. */
#include "storage/aws/credentials.h"

#include "base/mem.h"
#include "base/mutex.h"

#include <assert.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

/* How often a thread that waits for another one checks its cancel flag. */
#define CANCEL_POLL_MS 50

struct cleat__s3_chain {
  struct cleat__s3_settings settings;
  const struct cleat__clock *clock;
  struct cleat__log log;
  struct {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* signalled when a refresh has ended */
    bool renewing;          /* a thread is refreshing the keys */
    bool known;             /* there are keys, valid until ends_s */
    int64_t ends_s;         /* expiry; in this and the next two fields 0 means never */
    int64_t soon_s;         /* from this time on one thread refreshes the keys */
    int64_t now_s;          /* from this time on all threads wait for the refresh */
    int64_t pause_until_s;  /* no refresh before this time while keys can be used */
    uint64_t renewals;      /* number of refreshes that have ended */
    const char *source;     /* static */
    struct cleat__s3_credentials keys;
    struct cleat_error error; /* error of the last refresh; status CLEAT_OK: it returned keys */
  } synced;
};

/* The providers, in the order in which they are asked. */
static const struct {
  const char *source;
  cleat__s3_provider_fn *fetch;
} PROVIDERS[] = {
    {"nowhere: requests are anonymous", cleat__s3_from_anonymous},
    {"the options", cleat__s3_from_options},
    {"the environment variables", cleat__s3_from_environment},
    {"the web identity", cleat__s3_from_web_identity},
    {"the shared AWS files", cleat__s3_from_shared_files},
    {"the container endpoint", cleat__s3_from_container},
    {"the instance metadata", cleat__s3_from_instance},
};

static cleat_status no_keys(const struct cleat__s3_settings *settings, struct cleat_error *err) {
  (void)cleat__error_set(err, CLEAT_DENIED, "no S3 keys found in the options, the environment, profile '%s' of %s%s",
                         settings->profile,
                         settings->credentials_path ? settings->credentials_path : "~/.aws/credentials",
                         settings->instance_disabled ? "" : ", or the instance metadata");
  cleat__error_hint(err, "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE; "
                         "add ?anonymous=true to the URL to send unsigned requests");
  return err->status;
}

/* Asks the providers one after the other. `before`: the source of the keys used so far; "" before the first ones. */
static cleat_status fetch(const struct cleat__s3_chain *chain, const char *before, struct cleat__s3_credentials *keys,
                          const char **source, struct cleat__call call) {
  struct cleat__s3_search search = {.settings = &chain->settings, .clock = chain->clock, .cancel = call.cancel};
  for (size_t i = 0; i < sizeof PROVIDERS / sizeof PROVIDERS[0]; i++) {
    bool found = false;
    search.known = strcmp(before, PROVIDERS[i].source) == 0;
    cleat_status status = PROVIDERS[i].fetch(&search, keys, &found, call.err);
    if (status)
      return status;
    if (found) {
      *source = PROVIDERS[i].source;
      return CLEAT_OK;
    }
  }
  return no_keys(&chain->settings, call.err);
}

cleat_status cleat__s3_credentials_new(const struct cleat__s3_chain_options *options, struct cleat__s3_chain **chain,
                                       struct cleat_error *err) {
  struct cleat__s3_chain *made = cleat__calloc(1, sizeof *made);
  if (!made)
    return cleat__error_no_memory(err, "the credentials");
  pthread_condattr_t attributes;
  made->clock = options->clock;
  made->log = options->log;
  made->synced.source = "";
  cleat__mutex_init(&made->synced.lock);
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&made->synced.changed, &attributes);
  pthread_condattr_destroy(&attributes);
  cleat_status status = cleat__s3_settings_init(&made->settings, options, err);
  if (status) {
    cleat__s3_credentials_free(made);
    return status;
  }
  *chain = made;
  return CLEAT_OK;
}

/* ---- Refreshing ---- */

static int64_t wall_s(const struct cleat__s3_chain *chain) {
  return cleat__s3_now_s(&chain->settings, chain->clock);
}

static int64_t at_most(int64_t value, int64_t limit) {
  return value < limit ? value : limit;
}

static void keep_locked(struct cleat__s3_chain *chain, const struct cleat__s3_credentials *keys, const char *source,
                        int64_t now) {
  assert(cleat__mutex_is_mine(&chain->synced.lock));
  /* only one thread refreshes, and it has just ended */
  assert(!chain->synced.renewing);
  int64_t life_s = keys->expires_s - now;
  chain->synced.keys = *keys;
  chain->synced.source = source;
  chain->synced.known = true;
  chain->synced.pause_until_s = 0;
  chain->synced.ends_s = chain->synced.soon_s = chain->synced.now_s = 0;
  if (keys->expires_s == 0)
    return;
  /* The keys look expired, because of the local clock or because the place is late. The store decides. */
  if (life_s <= CLEAT__S3_RENEW_PAUSE_S) {
    chain->synced.ends_s = chain->synced.now_s = chain->synced.soon_s = now + CLEAT__S3_RENEW_PAUSE_S;
    return;
  }
  chain->synced.ends_s = keys->expires_s;
  chain->synced.soon_s = keys->expires_s - at_most(CLEAT__S3_RENEW_SOON_S, life_s / 2);
  chain->synced.now_s = keys->expires_s - at_most(CLEAT__S3_RENEW_NOW_S, life_s / 3);
  assert(chain->synced.soon_s <= chain->synced.now_s);
  assert(chain->synced.now_s <= chain->synced.ends_s);
}

static bool usable_locked(const struct cleat__s3_chain *chain, int64_t now) {
  assert(cleat__mutex_is_mine(&chain->synced.lock));
  return chain->synced.known && (chain->synced.ends_s == 0 || now < chain->synced.ends_s);
}

enum step { USE, RENEW, WAIT, FAIL };

/* Returns what the caller must do now. `seen`: how many refreshes had ended when it came. */
static enum step next_locked(const struct cleat__s3_chain *chain, int64_t now, uint64_t seen) {
  assert(cleat__mutex_is_mine(&chain->synced.lock));
  bool usable = usable_locked(chain, now);
  bool due = chain->synced.soon_s != 0 && now >= chain->synced.soon_s;
  if (usable && (!due || now < chain->synced.pause_until_s))
    return USE;
  if (!chain->synced.renewing) {
    /* A thread that waited for a failed refresh returns that error. So threads do not queue up to fail one after the
     * other. */
    bool waited = chain->synced.renewals != seen && chain->synced.error.status != CLEAT_OK;
    return !waited ? RENEW : usable ? USE : FAIL;
  }
  return usable && now < chain->synced.now_s ? USE : WAIT;
}

static void wait_locked(struct cleat__s3_chain *chain) {
  assert(cleat__mutex_is_mine(&chain->synced.lock));
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_nsec += CANCEL_POLL_MS * 1000000L;
  if (until.tv_nsec >= 1000000000L) {
    until.tv_sec++;
    until.tv_nsec -= 1000000000L;
  }
  (void)pthread_cond_timedwait(&chain->synced.changed, &chain->synced.lock, &until);
}

/* Takes the result of a refresh. A cancelled one does not count for other threads. True: the keys have changed. */
static bool end_renewal(struct cleat__s3_chain *chain, cleat_status status, const struct cleat__s3_credentials *fresh,
                        const char *source, const struct cleat_error *problem) {
  int64_t now = wall_s(chain);
  cleat__mutex_lock(&chain->synced.lock);
  assert(chain->synced.renewing);
  const struct cleat__s3_credentials *old = &chain->synced.keys;
  bool changed = !status && (strcmp(old->access_key_id, fresh->access_key_id) != 0 ||
                             strcmp(old->session_token, fresh->session_token) != 0);
  chain->synced.renewing = false;
  if (status != CLEAT_CANCELLED)
    chain->synced.renewals++;
  if (!status) {
    keep_locked(chain, fresh, source, now);
    chain->synced.error.status = CLEAT_OK;
  } else if (status != CLEAT_CANCELLED) {
    chain->synced.error = *problem;
    chain->synced.pause_until_s = now + CLEAT__S3_RENEW_PAUSE_S;
  }
  pthread_cond_broadcast(&chain->synced.changed);
  cleat__mutex_unlock(&chain->synced.lock);
  return changed;
}

/* Asks the providers, and stores the keys or the error in the chain. */
static cleat_status renew(struct cleat__s3_chain *chain, const char *before, struct cleat__call call) {
  bool first = before[0] == '\0';
  struct cleat__s3_credentials fresh = {0};
  struct cleat_error problem;
  const char *source = "";
  cleat__error_clear(&problem);
  cleat_status status = fetch(chain, before, &fresh, &source, cleat__call(call.cancel, &problem));
  bool changed = end_renewal(chain, status, &fresh, source, &problem);
  cleat__s3_credentials_wipe(&fresh);
  if (!first && changed)
    cleat__log(&chain->log, CLEAT_LOG_INFO, "new S3 keys from %s", source);
  else if (!first && status != CLEAT_OK && status != CLEAT_CANCELLED)
    cleat__log(&chain->log, CLEAT_LOG_WARNING, "no new S3 keys: %s", problem.message);
  if (status == CLEAT_CANCELLED)
    *call.err = problem;
  return status;
}

static bool is_cancelled(const atomic_bool *cancel) {
  return cancel && atomic_load(cancel);
}

cleat_status cleat__s3_credentials_get(struct cleat__s3_chain *chain, struct cleat__s3_credentials *credentials,
                                       struct cleat__call call) {
  uint64_t seen = 0;
  bool entered = false;
  for (;;) {
    int64_t now = wall_s(chain);
    cleat__mutex_lock(&chain->synced.lock);
    if (!entered)
      seen = chain->synced.renewals;
    entered = true;
    enum step step = is_cancelled(call.cancel) ? WAIT : next_locked(chain, now, seen);
    const char *before = chain->synced.source;
    if (step == USE)
      *credentials = chain->synced.keys;
    else if (step == FAIL)
      *call.err = chain->synced.error;
    else if (step == RENEW)
      chain->synced.renewing = true;
    else if (!is_cancelled(call.cancel))
      wait_locked(chain);
    cleat__mutex_unlock(&chain->synced.lock);
    if (step == USE)
      return CLEAT_OK;
    if (step == FAIL)
      return call.err->status;
    if (is_cancelled(call.cancel) && step != RENEW)
      return cleat__error_set(call.err, CLEAT_CANCELLED, "cancelled");
    /* The next round uses the new keys or the old ones, or returns the error. */
    if (step == RENEW && renew(chain, before, call) == CLEAT_CANCELLED)
      return CLEAT_CANCELLED;
  }
}

void cleat__s3_credentials_refuse(struct cleat__s3_chain *chain, const struct cleat__s3_credentials *refused) {
  cleat__mutex_lock(&chain->synced.lock);
  if (strcmp(chain->synced.keys.access_key_id, refused->access_key_id) == 0 &&
      strcmp(chain->synced.keys.session_token, refused->session_token) == 0)
    chain->synced.known = false;
  cleat__mutex_unlock(&chain->synced.lock);
}

const char *cleat__s3_credentials_source(struct cleat__s3_chain *chain) {
  cleat__mutex_lock(&chain->synced.lock);
  const char *source = chain->synced.source;
  cleat__mutex_unlock(&chain->synced.lock);
  return source;
}

void cleat__s3_credentials_free(struct cleat__s3_chain *chain) {
  if (!chain)
    return;
  assert(!chain->synced.renewing); /* no thread is refreshing */
  cleat__s3_settings_clear(&chain->settings);
  pthread_cond_destroy(&chain->synced.changed);
  cleat__mutex_destroy(&chain->synced.lock);
  explicit_bzero(chain, sizeof *chain);
  cleat__free(chain);
}
