/* clock.c: the system's clock, and times as text. See clock.h. Stateless and thread-safe. */
#include "base/clock.h"

#include <time.h>

/* Longest delay until a wait notices its cancel flag, in milliseconds. */
#define CANCEL_POLL_MS 50

#define LAST_SECOND_OF_9999 INT64_C(253402300799)

static int64_t system_monotonic_ms(void *ctx) {
  (void)ctx;
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int64_t system_wall_s(void *ctx) {
  (void)ctx;
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec;
}

static bool is_cancelled(const atomic_bool *cancel) {
  return cancel != NULL && atomic_load(cancel);
}

static bool system_wait_ms(void *ctx, int64_t ms, const atomic_bool *cancel) {
  int64_t end = system_monotonic_ms(ctx) + ms;
  while (!is_cancelled(cancel)) {
    int64_t left = end - system_monotonic_ms(ctx);
    if (left <= 0)
      return true;
    if (left > CANCEL_POLL_MS && cancel != NULL)
      left = CANCEL_POLL_MS;
    struct timespec pause = {.tv_sec = left / 1000, .tv_nsec = left % 1000 * 1000000};
    /* A signal may end it early. The loop checks the time again. */
    clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
  }
  return false;
}

const struct cleat__clock *cleat__clock_system(void) {
  static const struct cleat__clock clock = {
      .monotonic_ms = system_monotonic_ms, .wall_s = system_wall_s, .wait_ms = system_wait_ms};
  return &clock;
}

/* The text has room for four-digit years only, so times are limited to the years 1970 to 9999. */
static void format_time(int64_t wall_s, const char *format, char *text, size_t size) {
  time_t seconds = wall_s < 0 ? 0 : wall_s > LAST_SECOND_OF_9999 ? LAST_SECOND_OF_9999 : (time_t)wall_s;
  struct tm parts = {0};
  gmtime_r(&seconds, &parts);
  if (strftime(text, size, format, &parts) == 0)
    text[0] = '\0';
}

void cleat__time_rfc3339(int64_t wall_s, char text[21]) {
  format_time(wall_s, "%Y-%m-%dT%H:%M:%SZ", text, 21);
}

void cleat__time_amz(int64_t wall_s, char text[17]) {
  format_time(wall_s, "%Y%m%dT%H%M%SZ", text, 17);
}

double cleat__seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}
