/* progress.c: the progress line of a save or load on a terminal.
 *
 * The main thread draws it on stderr, at most ten times a second, and clears it at the end, so that
 * only the closing line stays. Nothing is drawn if stderr is not a terminal, is dumb, or belongs to
 * another job of the shell. The width is read each time, so that a resized window works. */
#include "api/cli/cli.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 512, BAR_MIN = 10, BAR_MAX = 40, GAP = 2 };

static const double redraw_s = 0.1;
/* until then the average since the start is the best estimate */
static const double settle_s = 3.0;
/* lower: the rate jumps with each part; higher: it lags behind */
static const double smooth_s = 5.0;

bool cleat__cli_progress_possible(void) {
  const char *term = getenv("TERM");
  if (!isatty(STDERR_FILENO) || !term || strcmp(term, "dumb") == 0)
    return false;
  pid_t foreground = tcgetpgrp(STDERR_FILENO);
  return foreground < 0 || foreground == getpgrp();
}

size_t cleat__cli_terminal_columns(int fd) {
  struct winsize size;
  if (!isatty(fd) || ioctl(fd, TIOCGWINSZ, &size) != 0)
    return 0;
  return size.ws_col ? size.ws_col : 80;
}

void cleat__cli_progress_init(struct cleat__cli_progress *progress, const struct cleat__cli *cli, const char *title) {
  *progress = (struct cleat__cli_progress){.active = cli->progress, .title = title};
}

static void measure_rate(struct cleat__cli_progress *progress, const struct cleat_progress *now, double seconds) {
  double passed = seconds - progress->sampled_at;
  if (now->elapsed_s < settle_s || passed <= 0) {
    progress->rate = now->elapsed_s > 0 ? (double)now->bytes_done / now->elapsed_s : 0;
  } else {
    uint64_t grown = now->bytes_done > progress->sampled_bytes ? now->bytes_done - progress->sampled_bytes : 0;
    progress->rate += ((double)grown / passed - progress->rate) * passed / (passed + smooth_s);
  }
  progress->sampled_at = seconds;
  progress->sampled_bytes = now->bytes_done;
}

static double fraction(const struct cleat_progress *now) {
  if (!now->bytes_total)
    return 1;
  double done = (double)now->bytes_done / (double)now->bytes_total;
  return done < 1 ? done : 1;
}

/* Formats "0:42 left", or a text for the end. */
static void format_left(const struct cleat__cli_progress *progress, const struct cleat_progress *now,
                        char text[CLEAT__CLI_FORMAT_MAX]) {
  if (now->phase == CLEAT_PHASE_COMMITTING) {
    snprintf(text, CLEAT__CLI_FORMAT_MAX, "committing");
    return;
  }
  if (progress->rate < 1) {
    snprintf(text, CLEAT__CLI_FORMAT_MAX, "-:-- left");
    return;
  }
  char clock[CLEAT__CLI_FORMAT_MAX];
  double left = now->bytes_total > now->bytes_done ? (double)(now->bytes_total - now->bytes_done) / progress->rate : 0;
  cleat__cli_format_clock(left, clock);
  snprintf(text, CLEAT__CLI_FORMAT_MAX, "%.32s left", clock);
}

static void format_bar(double done, size_t columns, char text[BAR_MAX + 1]) {
  size_t inner = columns - 2, filled = (size_t)((double)inner * done);
  text[0] = '[';
  for (size_t i = 0; i < inner; i++)
    text[1 + i] = i < filled ? '=' : i == filled ? '>' : ' ';
  text[columns - 1] = ']';
  text[columns] = '\0';
}

/* Writes the longest form of the line that leaves one of `columns` free. */
static void format_line(const struct cleat__cli_progress *progress, const struct cleat_progress *now, size_t columns,
                        char line[LINE_MAX_BYTES]) {
  char done[CLEAT__CLI_FORMAT_MAX], total[CLEAT__CLI_FORMAT_MAX], rate[CLEAT__CLI_FORMAT_MAX];
  char left[CLEAT__CLI_FORMAT_MAX], bar[BAR_MAX + 1], tail[LINE_MAX_BYTES / 2];
  int percent = (int)(100 * fraction(now));
  cleat__cli_format_size((double)now->bytes_done, done);
  cleat__cli_format_size((double)now->bytes_total, total);
  cleat__cli_format_size(progress->rate, rate);
  format_left(progress, now, left);
  snprintf(tail, sizeof tail, "%3d%%  %.24s of %.24s  %.24s/s  %.24s", percent, done, total, rate, left);
  size_t needed = strlen(progress->title) + GAP + strlen(tail) + 1;
  if (needed + BAR_MIN + GAP <= columns) {
    size_t room = columns - needed - GAP;
    format_bar(fraction(now), room < BAR_MAX ? room : BAR_MAX, bar);
    snprintf(line, LINE_MAX_BYTES, "%.128s  %s  %s", progress->title, bar, tail);
  } else if (needed <= columns) {
    snprintf(line, LINE_MAX_BYTES, "%.128s  %s", progress->title, tail);
  } else if (strlen(tail) < columns) {
    snprintf(line, LINE_MAX_BYTES, "%s", tail);
  } else {
    snprintf(line, LINE_MAX_BYTES, "%3d%%  %.24s/s  %.24s", percent, rate, left);
    if (strlen(line) >= columns)
      snprintf(line, LINE_MAX_BYTES, "%3d%%", percent);
  }
}

/* False: draw nothing now. */
static bool is_due(const struct cleat__cli_progress *progress, double seconds) {
  return progress->active && !(progress->drawn && seconds - progress->drawn_at < redraw_s);
}

static void put_line(struct cleat__cli_progress *progress, const char *line, double seconds) {
  fprintf(stderr, "\r%s\033[K", line);
  fflush(stderr);
  progress->drawn = true;
  progress->drawn_at = seconds;
}

void cleat__cli_progress_draw(struct cleat__cli_progress *progress, const struct cleat_progress *now) {
  double seconds = cleat__seconds();
  if (!is_due(progress, seconds))
    return;
  char line[LINE_MAX_BYTES];
  measure_rate(progress, now, seconds);
  format_line(progress, now, cleat__cli_terminal_columns(STDERR_FILENO), line);
  put_line(progress, line, seconds);
}

void cleat__cli_progress_note(struct cleat__cli_progress *progress, const char *text) {
  double seconds = cleat__seconds();
  if (!is_due(progress, seconds))
    return;
  char line[LINE_MAX_BYTES];
  size_t columns = cleat__cli_terminal_columns(STDERR_FILENO);
  snprintf(line, sizeof line, "%.128s  %.256s", progress->title, text);
  if (columns > 0 && columns <= strlen(line))
    line[columns - 1] = '\0';
  put_line(progress, line, seconds);
}

void cleat__cli_progress_clear(struct cleat__cli_progress *progress) {
  if (!progress->drawn)
    return;
  fputs("\r\033[K", stderr);
  fflush(stderr);
  progress->drawn = false;
}
