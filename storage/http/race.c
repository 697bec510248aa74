/* http/race.c: the loop of curl_easy_perform(), extended by a second transfer. See http/race.h. */
#include "storage/http/race.h"

#include "base/clock.h"
#include "base/fork.h"
#include "base/mem.h"

#include <assert.h>

/* The same as in libcurl. Cancel flags and time limits are checked at least this often. */
#define POLL_MS 1000
/* Used while a second transfer may become due. */
#define POLL_DUE_MS 100

struct race {
  CURLM *multi;
  const struct cleat__http_race_ops *ops;
  void *ctx;
  CURL *curls[2];
  bool running[2];
  CURLcode codes[2];
  bool decided;
  int counts; /* the transfer that counts */
  int64_t began_ms;
  int64_t ask_ms; /* when to call is_due next */
};

static int64_t now_ms(void) {
  const struct cleat__clock *clock = cleat__clock_system();
  return clock->monotonic_ms(clock->ctx);
}

static CURLcode code_of(CURLMcode code) {
  return code == CURLM_OK ? CURLE_OK : code == CURLM_OUT_OF_MEMORY ? CURLE_OUT_OF_MEMORY : CURLE_BAD_FUNCTION_ARGUMENT;
}

static CURLcode start(struct race *race, int which, CURL *curl) {
  assert(which == 0 || which == 1);
  assert(!race->running[which] && curl != NULL);
  CURLMcode code = cleat__fault_point() ? CURLM_OUT_OF_MEMORY : curl_multi_add_handle(race->multi, curl);
  race->curls[which] = curl;
  race->running[which] = code == CURLM_OK;
  race->codes[which] = code_of(code);
  return race->codes[which];
}

/* Stops a transfer in any state. Closes its connection unless the transfer was complete. */
static void stop(struct race *race, int which) {
  cleat__fork_hold();
  if (race->running[which])
    curl_multi_remove_handle(race->multi, race->curls[which]);
  cleat__fork_release();
  race->running[which] = false;
}

static void end_all(struct race *race, int counts) {
  assert(!race->decided);
  assert(counts == 0 || counts == 1);
  race->decided = true;
  race->counts = counts;
  stop(race, 0);
  stop(race, 1);
}

/* Called when a transfer has ended. The first one that settles the request counts. Otherwise the last one counts,
 * because it had the most time. */
static void on_end(struct race *race, int which, CURLcode code) {
  assert(race->running[which]);
  race->codes[which] = code;
  stop(race, which);
  if (race->ops->relents(race->ctx, which, code) && start(race, which, race->curls[which]) == CURLE_OK)
    return;
  if (race->ops->settles(race->ctx, which, code) || !race->running[1 - which])
    end_all(race, which);
}

static void read_ends(struct race *race) {
  int left = 0;
  for (;;) {
    CURLMsg *message = curl_multi_info_read(race->multi, &left);
    if (message == NULL)
      return;
    if (message->msg != CURLMSG_DONE)
      continue;
    /* Removing the handle invalidates the message. */
    CURLcode code = message->data.result;
    int which = message->easy_handle == race->curls[1] ? 1 : 0;
    if (!race->decided)
      on_end(race, which, code);
  }
}

static void begin_second(struct race *race) {
  /* there is never a third transfer */
  assert(race->curls[1] == NULL);
  bool alone = false;
  CURL *curl = race->ops->second(race->ctx, &alone);
  if (curl == NULL || start(race, 1, curl) != CURLE_OK)
    return;
  if (alone)
    stop(race, 0);
}

/* Limits the calls: the loop runs once for every 256 KiB. */
static bool is_due(struct race *race) {
  int64_t elapsed_ms = now_ms() - race->began_ms;
  if (elapsed_ms < race->ask_ms)
    return false;
  race->ask_ms = elapsed_ms + POLL_DUE_MS;
  return race->ops->is_due(race->ctx, elapsed_ms);
}

int cleat__http_race(CURLM *multi, CURL *first, const struct cleat__http_race_ops *ops, void *ctx, CURLcode *code) {
  struct race race = {.multi = multi, .ops = ops, .ctx = ctx, .began_ms = now_ms(), .ask_ms = POLL_DUE_MS};
  bool may_second = ops->is_due != NULL;
  race.decided = start(&race, 0, first) != CURLE_OK;
  while (!race.decided) {
    int running = 0;
    cleat__fork_hold();
    CURLMcode multi_code = curl_multi_perform(multi, &running);
    cleat__fork_release();
    if (multi_code == CURLM_OK)
      read_ends(&race);
    if (!race.decided && may_second && is_due(&race)) {
      may_second = false;
      begin_second(&race);
      continue;
    }
    if (multi_code == CURLM_OK && !race.decided)
      multi_code = curl_multi_poll(multi, NULL, 0, may_second ? POLL_DUE_MS : POLL_MS, NULL);
    if (multi_code != CURLM_OK && !race.decided) {
      end_all(&race, 0);
      race.codes[0] = code_of(multi_code);
    }
  }
  assert(!race.running[0] && !race.running[1]);
  *code = race.codes[race.counts];
  return race.counts;
}
