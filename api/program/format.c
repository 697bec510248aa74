/* format.c: numbers and times for people.
 *
 * No state; local times depend on TZ. Every text fits into its buffer of CLEAT__CLI_FORMAT_MAX
 * bytes. */
#include "api/program/format.h"

#include "base/clock.h"
#include "base/utf8.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

void cleat__cli_format_size(double bytes, char text[CLEAT__CLI_FORMAT_MAX]) {
  static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) {
    snprintf(text, CLEAT__CLI_FORMAT_MAX, "%.0f B", bytes);
    return;
  }
  double value = bytes / 1024;
  size_t unit = 0;
  /* 1023.5 and not 1024: otherwise it would be printed as "1024 KiB" instead of 1 MiB. */
  for (; value >= 1023.5 && unit < 5; unit++)
    value /= 1024;
  snprintf(text, CLEAT__CLI_FORMAT_MAX, value < 99.95 ? "%.1f %s" : "%.0f %s", value, units[unit]);
}

void cleat__cli_format_duration(double seconds, char text[CLEAT__CLI_FORMAT_MAX]) {
  uint64_t whole = seconds < 1e15 ? (uint64_t)(seconds + 0.5) : 0;
  if (seconds < 9.95)
    snprintf(text, CLEAT__CLI_FORMAT_MAX, seconds < 0.995 ? "%.2f s" : "%.1f s", seconds);
  else if (whole < 60)
    snprintf(text, CLEAT__CLI_FORMAT_MAX, "%" PRIu64 " s", whole);
  else if (whole < 3600)
    snprintf(text, CLEAT__CLI_FORMAT_MAX, "%" PRIu64 " min %02" PRIu64 " s", whole / 60, whole % 60);
  else
    snprintf(text, CLEAT__CLI_FORMAT_MAX, "%" PRIu64 " h %02" PRIu64 " min", whole / 3600, whole % 3600 / 60);
}

void cleat__cli_format_clock(double seconds, char text[CLEAT__CLI_FORMAT_MAX]) {
  uint64_t whole = seconds < 359999 ? (uint64_t)(seconds + 0.5) : 359999;
  if (whole < 3600)
    snprintf(text, CLEAT__CLI_FORMAT_MAX, "%" PRIu64 ":%02" PRIu64, whole / 60, whole % 60);
  else
    snprintf(text, CLEAT__CLI_FORMAT_MAX, "%" PRIu64 ":%02" PRIu64 ":%02" PRIu64, whole / 3600, whole % 3600 / 60,
             whole % 60);
}

/* Reads a UTC time as the manifest writes it, in seconds since 1970. False: another format. */
static bool read_time(const char *rfc3339, time_t *seconds) {
  struct tm fields = {0};
  const char *end = strptime(rfc3339, "%Y-%m-%dT%H:%M:%S", &fields);
  if (!end)
    return false;
  if (*end == '.')
    end += 1 + strspn(end + 1, "0123456789");
  if (strcmp(end, "Z") != 0)
    return false;
  *seconds = timegm(&fields);
  return true;
}

void cleat__cli_format_local(const char *rfc3339, char text[CLEAT__CLI_FORMAT_MAX]) {
  time_t seconds;
  struct tm local;
  if (!read_time(rfc3339, &seconds) || !localtime_r(&seconds, &local) ||
      !strftime(text, CLEAT__CLI_FORMAT_MAX, "%Y-%m-%d %H:%M:%S", &local))
    snprintf(text, CLEAT__CLI_FORMAT_MAX, "%s", rfc3339);
}

void cleat__cli_format_age(const char *rfc3339, char text[CLEAT__CLI_FORMAT_MAX]) {
  static const struct {
    int64_t seconds;
    const char *noun;
  } units[] = {{86400, "day"}, {3600, "hour"}, {60, "minute"}, {1, "second"}};
  const struct cleat__clock *clock = cleat__clock_system();
  time_t then;
  text[0] = '\0';
  if (!read_time(rfc3339, &then))
    return;
  int64_t age = clock->wall_s(clock->ctx) - (int64_t)then;
  if (age < 0) {
    snprintf(text, CLEAT__CLI_FORMAT_MAX, "in the future");
    return;
  }
  size_t unit = 0;
  /* A unit is used from two of it on: "47 hours ago" is more precise than "1 day ago". */
  while (unit < 3 && age < 2 * units[unit].seconds)
    unit++;
  char count[CLEAT__CLI_FORMAT_MAX];
  cleat__cli_format_count((uint64_t)(age / units[unit].seconds), units[unit].noun, count);
  snprintf(text, CLEAT__CLI_FORMAT_MAX, "%.48s ago", count);
}

void cleat__cli_format_count(uint64_t count, const char *noun, char text[CLEAT__CLI_FORMAT_MAX]) {
  snprintf(text, CLEAT__CLI_FORMAT_MAX, "%" PRIu64 " %s%s", count, noun, count == 1 ? "" : "s");
}

size_t cleat__cli_format_columns(const char *text) {
  const char *end = text + strlen(text);
  size_t columns = 0;
  for (; text < end; columns++) {
    uint32_t code;
    size_t length = cleat__utf8_next(text, end, &code);
    text += length ? length : 1;
  }
  return columns;
}

/* The power of two of a unit. -1: not a unit. */
static int unit_shift(const char *unit) {
  static const char letters[] = "KMGT";
  if (!*unit || strcmp(unit, "B") == 0)
    return 0;
  char letter = *unit >= 'a' ? (char)(*unit - 'a' + 'A') : *unit;
  const char *found = strchr(letters, letter);
  if (!found || (unit[1] && strcmp(unit + 1, "iB") != 0))
    return -1;
  return 10 * (int)(found - letters + 1);
}

bool cleat__cli_format_read_size(const char *text, uint64_t *bytes) {
  uint64_t value = 0;
  const char *at = text;
  for (; *at >= '0' && *at <= '9'; at++) {
    if (value > (UINT64_MAX - 9) / 10)
      return false;
    value = 10 * value + (uint64_t)(*at - '0');
  }
  int shift = unit_shift(at);
  if (at == text || shift < 0 || value == 0 || value > (uint64_t)INT64_MAX >> shift)
    return false;
  *bytes = value << shift;
  return true;
}

bool cleat__cli_format_read_age(const char *text, uint64_t *seconds) {
  static const struct {
    char letter;
    uint64_t seconds;
  } units[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}};
  /* a larger age is a mistake; this limit cannot overflow */
  static const uint64_t max_s = 100ull * 365 * 86400;
  uint64_t value = 0;
  const char *at = text;
  for (; *at >= '0' && *at <= '9' && value <= max_s; at++)
    value = 10 * value + (uint64_t)(*at - '0');
  for (size_t i = 0; i < sizeof units / sizeof units[0] && at != text; i++) {
    if (*at != units[i].letter || at[1] != '\0' || value == 0 || value > max_s / units[i].seconds)
      continue;
    *seconds = value * units[i].seconds;
    return true;
  }
  return false;
}

void cleat__cli_put_text(FILE *out, const char *text) {
  const char *end = text + strlen(text);
  while (text < end) {
    uint32_t code;
    size_t length = cleat__utf8_next(text, end, &code);
    if (!length || cleat__utf8_is_control(code))
      fputc('?', out);
    else
      fwrite(text, 1, length, out);
    text += length ? length : 1;
  }
}
