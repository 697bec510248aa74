/* retry.c: backoff with jitter, the time limit of an operation, the retry quota of a client. See retry.h. Waits only
 * through the injected clock. The quota is one atomic. All other state belongs to the thread that runs the
 * operation. */
#include "storage/common/retry.h"

#include "base/checksum.h"

#include <assert.h>
#include <string.h>
#include <time.h>

double cleat__retry_random(void *ctx) {
  (void)ctx;
  return cleat__random_unit();
}

void cleat__retry_quota_init(struct cleat__retry_quota *quota) {
  atomic_init(&quota->tokens, CLEAT__RETRY_QUOTA);
}

/* Takes `cost` tokens, or none if there are fewer. */
static bool quota_take(struct cleat__retry_quota *quota, int cost) {
  assert(cost > 0);
  int tokens = atomic_load(&quota->tokens);
  while (tokens >= cost) {
    if (atomic_compare_exchange_weak(&quota->tokens, &tokens, tokens - cost))
      return true;
  }
  return false;
}

static void quota_return(struct cleat__retry_quota *quota, int cost) {
  assert(cost > 0);
  int tokens = atomic_load(&quota->tokens);
  for (;;) {
    int after = tokens + cost < CLEAT__RETRY_QUOTA ? tokens + cost : CLEAT__RETRY_QUOTA;
    if (atomic_compare_exchange_weak(&quota->tokens, &tokens, after))
      return;
  }
}

static int64_t now_ms(const struct cleat__retry *retry) {
  const struct cleat__clock *clock = retry->config->clock;
  return clock->monotonic_ms(clock->ctx);
}

void cleat__retry_begin(struct cleat__retry *retry, const struct cleat__retry_config *config) {
  assert(config->clock != NULL && config->quota != NULL);
  memset(retry, 0, sizeof *retry);
  retry->config = config;
  retry->deadline_ms = now_ms(retry) + (config->budget_ms > 0 ? config->budget_ms : CLEAT__RETRY_BUDGET_MS);
}

int64_t cleat__retry_remaining_ms(const struct cleat__retry *retry) {
  int64_t left = retry->deadline_ms - now_ms(retry);
  return left > 0 ? left : 0;
}

int64_t cleat__retry_backoff_ms(unsigned retry, int64_t base_ms, double random) {
  assert(base_ms > 0);
  assert(random >= 0 && random <= 1);
  int64_t limit = base_ms;
  for (unsigned i = 0; i < retry && limit < CLEAT__RETRY_CAP_MS; i++)
    limit *= 2;
  if (limit > CLEAT__RETRY_CAP_MS)
    limit = CLEAT__RETRY_CAP_MS;
  return (int64_t)((double)limit * random);
}

/* Classes that are retried without a wait, because their cause was repaired. The number of retries is limited. */
static bool repeats_at_once(enum cleat__retry_class class) {
  return class == CLEAT__RETRY_CREDENTIALS || class == CLEAT__RETRY_CLOCK || class == CLEAT__RETRY_REGION;
}

/* Whether this class ends the operation now. Counts the retries of the classes with a limit. */
static bool is_final(struct cleat__retry *retry, enum cleat__retry_class class) {
  if (class == CLEAT__RETRY_FATAL || class == CLEAT__RETRY_DONE)
    return true;
  if (!repeats_at_once(class) && class != CLEAT__RETRY_DIGEST)
    return false;
  /* Counted separately: a request may meet a wrong clock first and a wrong region after it. */
  if (class == CLEAT__RETRY_REGION)
    return retry->regions++ > 0;
  return retry->few++ >= CLEAT__RETRY_FEW;
}

/* Returns how long to wait before the next try. Takes tokens from the quota. */
static int64_t delay_ms(struct cleat__retry *retry, enum cleat__retry_class class, int64_t retry_after_ms) {
  /* Only called after a failed try. */
  assert(retry->tries > 0);
  const struct cleat__retry_config *config = retry->config;
  double random = config->random ? config->random(config->random_ctx) : cleat__retry_random(NULL);
  int64_t base = class == CLEAT__RETRY_THROTTLED ? CLEAT__RETRY_THROTTLED_BASE_MS : CLEAT__RETRY_BASE_MS;
  int64_t delay = cleat__retry_backoff_ms(retry->tries - 1, base, random);
  int cost = class == CLEAT__RETRY_TIMEOUT ? CLEAT__RETRY_TIMEOUT_COST : CLEAT__RETRY_COST;
  retry->taken = 0;
  if (quota_take(config->quota, cost))
    retry->taken = cost;
  else
    /* The quota is empty: wait half of the cap or more, with jitter, so that the threads do not retry together. */
    delay = (int64_t)(0.5 * CLEAT__RETRY_CAP_MS * (1.0 + random));
  if (retry_after_ms > CLEAT__RETRY_AFTER_MAX_MS)
    retry_after_ms = CLEAT__RETRY_AFTER_MAX_MS;
  return retry_after_ms > delay ? retry_after_ms : delay;
}

static bool stop_for(enum cleat__retry_stop reason, enum cleat__retry_stop *stop) {
  *stop = reason;
  return false;
}

bool cleat__retry_wait(struct cleat__retry *retry, enum cleat__retry_class class, int64_t retry_after_ms,
                       const atomic_bool *cancel, enum cleat__retry_stop *stop) {
  /* cleat__retry_begin was called */
  assert(retry->config != NULL);
  const struct cleat__clock *clock = retry->config->clock;
  retry->tries++;
  *stop = CLEAT__RETRY_STOP_NONE;
  if (cancel && atomic_load(cancel))
    return stop_for(CLEAT__RETRY_STOP_CANCELLED, stop);
  if (is_final(retry, class))
    return stop_for(CLEAT__RETRY_STOP_FATAL, stop);
  int64_t delay = repeats_at_once(class) ? 0 : delay_ms(retry, class, retry_after_ms);
  /* Do not wait for a try that could only begin after the deadline. */
  if (delay >= cleat__retry_remaining_ms(retry))
    return stop_for(CLEAT__RETRY_STOP_BUDGET, stop);
  if (delay > 0 && !clock->wait_ms(clock->ctx, delay, cancel))
    return stop_for(CLEAT__RETRY_STOP_CANCELLED, stop);
  return true;
}

void cleat__retry_succeeded(struct cleat__retry *retry) {
  assert(retry->taken >= 0);
  quota_return(retry->config->quota, retry->taken > 0 ? retry->taken : 1);
  retry->taken = 0;
}

/* Parses one to nine digits without sign or blanks, so that it cannot overflow. -1 if the text is anything else. */
static int64_t small_number(const char *text, size_t length) {
  int64_t value = 0;
  if (length == 0 || length > 9)
    return -1;
  for (size_t i = 0; i < length; i++) {
    if (text[i] < '0' || text[i] > '9')
      return -1;
    value = value * 10 + (text[i] - '0');
  }
  return value;
}

int64_t cleat__retry_after_ms(const char *value, int64_t wall_s) {
  size_t digits = strspn(value, "0123456789");
  int64_t seconds = -1;
  int64_t until = 0;
  if (digits > 0 && value[digits] == '\0')
    seconds = digits > 9 ? CLEAT__RETRY_AFTER_MAX_MS : small_number(value, digits);
  else if (cleat__http_date(value, &until))
    seconds = until > wall_s ? until - wall_s : 0;
  if (seconds < 0)
    return -1;
  return seconds > CLEAT__RETRY_AFTER_MAX_MS / 1000 ? CLEAT__RETRY_AFTER_MAX_MS : seconds * 1000;
}

/* Returns 0 to 11, or -1. Not strptime(), because it depends on the locale. */
static int month_number(const char *name) {
  static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
  for (int i = 0; i < 12; i++) {
    if (strncmp(name, months + 3 * i, 3) == 0)
      return i;
  }
  return -1;
}

bool cleat__http_date(const char *text, int64_t *wall_s) {
  /* "Sun, 06 Nov 1994 08:49:37 GMT": every field has a fixed position. */
  if (strlen(text) != 29 || strncmp(text + 3, ", ", 2) != 0 || strcmp(text + 25, " GMT") != 0 || text[7] != ' ' ||
      text[11] != ' ' || text[16] != ' ' || text[19] != ':' || text[22] != ':')
    return false;
  struct tm parts = {0};
  parts.tm_mday = (int)small_number(text + 5, 2);
  parts.tm_mon = month_number(text + 8);
  parts.tm_year = (int)small_number(text + 12, 4) - 1900;
  parts.tm_hour = (int)small_number(text + 17, 2);
  parts.tm_min = (int)small_number(text + 20, 2);
  parts.tm_sec = (int)small_number(text + 23, 2);
  if (parts.tm_mday < 1 || parts.tm_mday > 31 || parts.tm_mon < 0 || parts.tm_year < 70 || parts.tm_hour < 0 ||
      parts.tm_hour > 23 || parts.tm_min < 0 || parts.tm_min > 59 || parts.tm_sec < 0 || parts.tm_sec > 60)
    return false;
  *wall_s = timegm(&parts);
  return true;
}
