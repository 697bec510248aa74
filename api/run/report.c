/* report.c: the lines of `cleat run`, and its counters. See report.h.
 *
 * A line is composed in memory and written at once, because the command writes to the same standard error. */
#include "api/run/report_private.h"

#include "api/program/format.h"
#include "api/program/json.h"
#include "base/mem.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TEXT_MAX 4096 /* a longer line is cut */
#define LINE_BYTES (TEXT_MAX + 256)
#define CHANGED_MS 1000 /* shortest time between metrics files */

/* ---- Time ---- */

static const struct cleat__clock *clock_of(const struct cleat__run_report *report) {
  return report->options.clock ? report->options.clock : cleat__clock_system();
}

static int64_t now_ms(const struct cleat__run_report *report) {
  const struct cleat__clock *clock = clock_of(report);
  return clock->monotonic_ms(clock->ctx);
}

static int64_t wall_s(const struct cleat__run_report *report) {
  const struct cleat__clock *clock = clock_of(report);
  return clock->wall_s(clock->ctx);
}

/* Milliseconds since 1970. An injected clock has whole seconds. */
static int64_t wall_ms(const struct cleat__run_report *report) {
  struct timespec now;
  if (clock_of(report) != cleat__clock_system() || clock_gettime(CLOCK_REALTIME, &now) != 0)
    return wall_s(report) * 1000;
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- Lines for people ---- */

static bool is_json(const struct cleat__run_report *report) {
  return report->options.format == CLEAT__RUN_LOG_JSON;
}

/* Writes a line in one piece, because the command writes to the same place. Without memory it is written in several
 * pieces: a torn line is better than none. */
static void put_line(FILE *out, const char *stamp, const char *label, const char *text) {
  char line[LINE_BYTES];
  FILE *memory = fmemopen(line, sizeof line, "w");
  FILE *to = memory ? memory : out;
  fprintf(to, "cleat: %s %s", stamp, label);
  cleat__cli_put_text(to, text);
  fputc('\n', to);
  fflush(to);
  long size = memory ? ftell(memory) : 0;
  if (size > 0)
    fwrite(line, 1, (size_t)size, out);
  if (memory)
    fclose(memory);
  fflush(out);
}

static void say(const struct cleat__run_report *report, const char *label, const char *text) {
  char stamp[16] = "--:--:--";
  time_t now = (time_t)wall_s(report);
  struct tm local;
  if (localtime_r(&now, &local))
    strftime(stamp, sizeof stamp, "%H:%M:%S", &local);
  put_line(report->options.out, stamp, label, text);
}

static void sayf(const struct cleat__run_report *report, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void sayf(const struct cleat__run_report *report, const char *format, ...) {
  char text[TEXT_MAX];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  say(report, "", text);
}

/* ---- Lines for programs ---- */

static void begin(const struct cleat__run_report *report, struct cleat__cli_json *json, const char *event) {
  char whole[21], text[32];
  int64_t now = wall_ms(report);
  cleat__time_rfc3339(now / 1000, whole);
  snprintf(text, sizeof text, "%.19s.%03dZ", whole, (int)(now % 1000));
  cleat__cli_json_init(json);
  cleat__cli_json_text(json, json->root, "time", text);
  cleat__cli_json_text(json, json->root, "event", event);
}

static void end(const struct cleat__run_report *report, struct cleat__cli_json *json) {
  FILE *out = report->options.out;
  char *text = json->failed ? NULL : cJSON_PrintUnformatted(json->root);
  char *line = text ? cleat__strprintf("%s\n", text) : NULL;
  cJSON_Delete(json->root);
  fputs(line ? line : "{\"event\":\"lost\",\"message\":\"out of memory for the log\"}\n", out);
  fflush(out);
  cleat__free(line);
  cJSON_free(text);
}

static void json_path(struct cleat__cli_json *json, const char *path) {
  if (path)
    cleat__cli_json_text(json, json->root, "path", path);
}

static void json_moved(const struct cleat__run_report *report, const char *event,
                       const struct cleat__run_moved *moved) {
  struct cleat__cli_json json;
  begin(report, &json, event);
  cleat__cli_json_int(&json, json.root, "step", moved->step);
  json_path(&json, moved->path);
  cleat__cli_json_uint(&json, json.root, "files", moved->files);
  cleat__cli_json_uint(&json, json.root, "bytes", moved->bytes);
  cleat__cli_json_seconds(&json, json.root, "seconds", moved->seconds);
  end(report, &json);
}

static void json_message(const struct cleat__run_report *report, const char *event, const char *message) {
  struct cleat__cli_json json;
  begin(report, &json, event);
  cleat__cli_json_text(&json, json.root, "message", message);
  end(report, &json);
}

/* Adds a step, its path if there is one, and a text. */
static void json_step(const struct cleat__run_report *report, const char *event, int64_t step, const char *path,
                      const char *name, const char *text) {
  struct cleat__cli_json json;
  begin(report, &json, event);
  cleat__cli_json_int(&json, json.root, "step", step);
  json_path(&json, path);
  if (text)
    cleat__cli_json_text(&json, json.root, name, text);
  end(report, &json);
}

/* ---- Saves and restores ---- */

void cleat__run_report_init(struct cleat__run_report *report, const struct cleat__run_report_options *options) {
  *report = (struct cleat__run_report){.options = *options};
  report->totals.exit_status = -1;
  report->totals.store_reachable = true;
  report->changed = true;
  report->next_status_ms = now_ms(report) + CLEAT__RUN_STATUS_S * 1000;
  report->next_metrics_ms = INT64_MIN;
}

static void say_moved(const struct cleat__run_report *report, const char *verb, const struct cleat__run_moved *moved) {
  char files[CLEAT__CLI_FORMAT_MAX], size[CLEAT__CLI_FORMAT_MAX], time[CLEAT__CLI_FORMAT_MAX];
  char rate[CLEAT__CLI_FORMAT_MAX] = "";
  cleat__cli_format_count(moved->files, "file", files);
  cleat__cli_format_size((double)moved->bytes, size);
  cleat__cli_format_duration(moved->seconds, time);
  if (moved->seconds > 0)
    cleat__cli_format_size((double)moved->bytes / moved->seconds, rate);
  sayf(report, "%s step %" PRId64 ": %s, %s in %s%s%s%s", verb, moved->step, files, size, time, rate[0] ? ", " : "",
       rate, rate[0] ? "/s" : "");
}

/* Marks the totals as changed. True if the event is to be shown. */
static bool counted(struct cleat__run_report *report) {
  report->changed = true;
  return !report->options.quiet;
}

static void tell_moved(struct cleat__run_report *report, const char *what, const struct cleat__run_moved *moved) {
  if (!counted(report))
    return;
  if (is_json(report))
    json_moved(report, what, moved);
  else
    say_moved(report, what, moved);
}

static void note_newest(struct cleat__run_report *report, int64_t step, int64_t age_s) {
  struct cleat__run_totals *totals = &report->totals;
  /* The flush at the end saves the newest first, so an older step may come later. */
  if (totals->committed && step < totals->newest_step)
    return;
  totals->committed = true;
  totals->newest_step = step;
  totals->newest_wall_s = wall_s(report) - age_s;
  totals->newest_ms = now_ms(report) - age_s * 1000;
}

void cleat__run_report_newest(struct cleat__run_report *report, int64_t step, int64_t age_s) {
  note_newest(report, step, age_s > 0 ? age_s : 0);
  report->changed = true;
}

void cleat__run_report_commit(struct cleat__run_report *report, const struct cleat__run_moved *moved) {
  struct cleat__run_totals *totals = &report->totals;
  totals->saves++;
  totals->saved_bytes += moved->bytes;
  totals->saved_files += moved->files;
  totals->save_seconds += moved->seconds;
  totals->last_save_seconds = moved->seconds;
  totals->last_save_bytes = moved->bytes;
  totals->store_reachable = true;
  note_newest(report, moved->step, 0);
  tell_moved(report, "saved", moved);
}

void cleat__run_report_restored(struct cleat__run_report *report, const struct cleat__run_moved *moved) {
  struct cleat__run_totals *totals = &report->totals;
  totals->restored = true;
  totals->restored_step = moved->step;
  totals->restored_bytes = moved->bytes;
  totals->restored_files = moved->files;
  totals->restore_seconds = moved->seconds;
  tell_moved(report, "restored", moved);
}

void cleat__run_report_fresh(struct cleat__run_report *report, const char *why) {
  if (!counted(report))
    return;
  if (is_json(report))
    json_message(report, "nothing_restored", why);
  else
    sayf(report, "nothing to restore: %s", why);
}

void cleat__run_report_skipped(struct cleat__run_report *report, int64_t step, const char *path, const char *why) {
  report->totals.skipped++;
  if (!counted(report))
    return;
  if (is_json(report))
    json_step(report, "skipped", step, path, "reason", why);
  else
    sayf(report, "step %" PRId64 " is not saved: %s", step, why);
}

static void json_failed(const struct cleat__run_report *report, int64_t step, const struct cleat_error *err,
                        double next_try_s) {
  struct cleat__cli_json json;
  begin(report, &json, "failed");
  cleat__cli_json_int(&json, json.root, "step", step);
  if (next_try_s >= 0)
    cleat__cli_json_seconds(&json, json.root, "next_try_seconds", next_try_s);
  cleat__cli_json_error(&json, cleat__cli_json_object(&json, json.root, "error"), err);
  end(report, &json);
}

static const char *message_of(const struct cleat_error *err) {
  return err->message[0] ? err->message : cleat_status_text(err->status);
}

void cleat__run_report_failed(struct cleat__run_report *report, int64_t step, const struct cleat_error *err,
                              double next_try_s) {
  report->totals.failures++;
  if (next_try_s >= 0)
    report->totals.retries++;
  report->changed = true;
  if (is_json(report)) {
    json_failed(report, step, err, next_try_s);
    return;
  }
  char wait[CLEAT__CLI_FORMAT_MAX] = "";
  if (next_try_s >= 0)
    cleat__cli_format_duration(next_try_s, wait);
  sayf(report, "step %" PRId64 " could not be saved%s%s: %s", step, wait[0] ? ", next try in " : "", wait,
       message_of(err));
  if (err->hint[0])
    say(report, "hint: ", err->hint);
}

void cleat__run_report_pruned(struct cleat__run_report *report, int64_t step, uint64_t bytes) {
  report->totals.pruned++;
  if (!counted(report))
    return;
  if (is_json(report)) {
    struct cleat__cli_json json;
    begin(report, &json, "pruned");
    cleat__cli_json_int(&json, json.root, "step", step);
    cleat__cli_json_uint(&json, json.root, "bytes", bytes);
    end(report, &json);
    return;
  }
  char size[CLEAT__CLI_FORMAT_MAX];
  cleat__cli_format_size((double)bytes, size);
  sayf(report, "removed step %" PRId64 " from the store: %s", step, size);
}

void cleat__run_report_deleted(struct cleat__run_report *report, int64_t step, const char *path) {
  report->totals.deleted_local++;
  if (!counted(report))
    return;
  if (is_json(report))
    json_step(report, "deleted_local", step, path, "", NULL);
  else
    sayf(report, "deleted step %" PRId64 " here%s%s: it is in the store", step, path ? ", " : "", path ? path : "");
}

void cleat__run_report_unsaved(struct cleat__run_report *report, const struct cleat__run_unsaved *unsaved,
                               size_t count) {
  report->totals.unsaved += count;
  report->changed = true;
  for (size_t i = 0; i < count; i++) {
    const struct cleat__run_unsaved *one = &unsaved[i];
    if (is_json(report))
      json_step(report, "unsaved", one->step, one->path, "reason", one->why);
    else
      sayf(report, "NOT SAVED: step %" PRId64 "%s%s%s: %s", one->step, one->path ? " (" : "",
           one->path ? one->path : "", one->path ? ")" : "", one->why);
  }
}

/* ---- Free text ---- */

static void warn(struct cleat__run_report *report, const char *message) {
  report->totals.warnings++;
  report->changed = true;
  if (is_json(report))
    json_message(report, "warning", message);
  else
    say(report, "warning: ", message);
}

void cleat__run_report_warning(struct cleat__run_report *report, const char *format, ...) {
  char text[TEXT_MAX];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  warn(report, text);
}

void cleat__run_report_warning_error(struct cleat__run_report *report, const struct cleat_error *err) {
  if (!is_json(report)) {
    warn(report, message_of(err));
    if (err->hint[0])
      say(report, "hint: ", err->hint);
    return;
  }
  report->totals.warnings++;
  report->changed = true;
  struct cleat__cli_json json;
  begin(report, &json, "warning");
  cleat__cli_json_text(&json, json.root, "message", message_of(err));
  cleat__cli_json_error(&json, cleat__cli_json_object(&json, json.root, "error"), err);
  end(report, &json);
}

void cleat__run_report_note(struct cleat__run_report *report, const char *format, ...) {
  if (report->options.quiet)
    return;
  char text[TEXT_MAX];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (is_json(report))
    json_message(report, "note", text);
  else
    say(report, "", text);
}

/* Reads only the report's options, which do not change. So any thread may call it. */
void cleat__run_report_log(void *user, enum cleat_log_level level, const char *line) {
  const struct cleat__run_report *report = user;
  if (level != CLEAT_LOG_WARNING)
    return;
  if (is_json(report))
    json_message(report, "warning", line);
  else
    say(report, "warning: ", line);
}

/* ---- The command ---- */

void cleat__run_report_started(struct cleat__run_report *report, const char *name, int64_t pid) {
  report->totals.running = true;
  if (!counted(report))
    return;
  if (!is_json(report)) {
    sayf(report, "started %s, process %" PRId64, name, pid);
    return;
  }
  struct cleat__cli_json json;
  begin(report, &json, "started");
  cleat__cli_json_text(&json, json.root, "command", name);
  cleat__cli_json_int(&json, json.root, "pid", pid);
  end(report, &json);
}

static void say_ended(const struct cleat__run_report *report, int exit_status, int signal, double seconds) {
  char time[CLEAT__CLI_FORMAT_MAX];
  cleat__cli_format_duration(seconds, time);
  const char *name = signal ? sigabbrev_np(signal) : NULL;
  if (name)
    sayf(report, "the command was ended by SIG%s after %s", name, time);
  else if (signal)
    sayf(report, "the command was ended by signal %d after %s", signal, time);
  else if (exit_status)
    sayf(report, "the command ended with exit status %d after %s", exit_status, time);
  else
    sayf(report, "the command ended well after %s", time);
}

void cleat__run_report_ended(struct cleat__run_report *report, int exit_status, int signal, double seconds) {
  report->totals.running = false;
  report->totals.exit_status = exit_status;
  if (!counted(report))
    return;
  if (!is_json(report)) {
    say_ended(report, exit_status, signal, seconds);
    return;
  }
  struct cleat__cli_json json;
  begin(report, &json, "ended");
  cleat__cli_json_int(&json, json.root, "exit_status", exit_status);
  if (signal)
    cleat__cli_json_int(&json, json.root, "signal", signal);
  cleat__cli_json_seconds(&json, json.root, "seconds", seconds);
  end(report, &json);
}

/* ---- The status line ---- */

static double age_s(const struct cleat__run_report *report) {
  return (double)(now_ms(report) - report->totals.newest_ms) / 1000;
}

static void json_status(const struct cleat__run_report *report) {
  const struct cleat__run_totals *totals = &report->totals;
  struct cleat__cli_json json;
  begin(report, &json, "status");
  if (totals->committed) {
    cleat__cli_json_int(&json, json.root, "newest_step", totals->newest_step);
    cleat__cli_json_seconds(&json, json.root, "newest_age_seconds", age_s(report));
  }
  if (totals->has_local) {
    cleat__cli_json_int(&json, json.root, "newest_local_step", totals->local_step);
    cleat__cli_json_seconds(&json, json.root, "behind_seconds", (double)totals->behind_ms / 1000);
  }
  cleat__cli_json_uint(&json, json.root, "pending", totals->pending);
  cleat__cli_json_uint(&json, json.root, "held", totals->held);
  cleat__cli_json_uint(&json, json.root, "passed_by", totals->passed_by);
  if (totals->saving) {
    cleat__cli_json_int(&json, json.root, "saving_step", totals->saving_step);
    cleat__cli_json_uint(&json, json.root, "saving_bytes_done", totals->saving_bytes_done);
    cleat__cli_json_uint(&json, json.root, "saving_bytes", totals->saving_bytes_total);
  }
  cleat__cli_json_bool(&json, json.root, "running", totals->running);
  cleat__cli_json_bool(&json, json.root, "store_reachable", totals->store_reachable);
  end(report, &json);
}

/* Formats "40 % of 1.2 GiB", or "512 MiB" while the total is unknown. */
static void format_share(const struct cleat__run_totals *totals, char text[2 * CLEAT__CLI_FORMAT_MAX]) {
  char size[CLEAT__CLI_FORMAT_MAX];
  uint64_t total = totals->saving_bytes_total, done = totals->saving_bytes_done;
  cleat__cli_format_size((double)(total ? total : done), size);
  /* Rounds down, so that 100 % is shown only for what is committed. */
  int share = total && done < total ? (int)(100.0 * (double)done / (double)total) : 100;
  if (total)
    snprintf(text, 2 * CLEAT__CLI_FORMAT_MAX, "%d %% of %s", share, size);
  else
    snprintf(text, 2 * CLEAT__CLI_FORMAT_MAX, "%s", size);
}

static void say_status(const struct cleat__run_report *report) {
  const struct cleat__run_totals *totals = &report->totals;
  char newest[2 * CLEAT__CLI_FORMAT_MAX] = "no checkpoint is saved yet";
  char waiting[CLEAT__CLI_FORMAT_MAX] = "", saving[4 * CLEAT__CLI_FORMAT_MAX] = "";
  char behind[2 * CLEAT__CLI_FORMAT_MAX] = "";
  if (totals->committed) {
    char age[CLEAT__CLI_FORMAT_MAX];
    cleat__cli_format_duration(age_s(report), age);
    snprintf(newest, sizeof newest, "newest step %" PRId64 " saved %s ago", totals->newest_step, age);
  }
  if (totals->pending)
    snprintf(waiting, sizeof waiting, "; %" PRIu64 " waiting", totals->pending);
  if (totals->saving) {
    char share[2 * CLEAT__CLI_FORMAT_MAX];
    format_share(totals, share);
    snprintf(saving, sizeof saving, "%s step %" PRId64 " being saved: %s", totals->pending ? "," : ";",
             totals->saving_step, share);
  }
  if (totals->behind_ms > 0) {
    char time[CLEAT__CLI_FORMAT_MAX];
    cleat__cli_format_duration((double)totals->behind_ms / 1000, time);
    snprintf(behind, sizeof behind, "; behind the folder for %s", time);
  }
  sayf(report, "%s%s%s%s%s", newest, behind, waiting, saving,
       totals->store_reachable ? "" : "; the store does not answer");
}

void cleat__run_report_status(struct cleat__run_report *report) {
  if (report->options.quiet)
    return;
  if (is_json(report))
    json_status(report);
  else
    say_status(report);
}

/* ---- Ticks ---- */

static void write_metrics(struct cleat__run_report *report, int64_t now) {
  struct cleat_error err;
  report->next_metrics_ms = now + CLEAT__RUN_METRICS_S * 1000;
  report->changed = false;
  report->written = report->totals;
  if (!report->options.metrics_path)
    return;
  cleat__error_clear(&err);
  if (cleat__run_metrics_write(report, now, &err) == CLEAT_OK) {
    report->metrics_failing = false;
  } else if (!report->metrics_failing) {
    report->metrics_failing = true;
    cleat__run_report_warning_error(report, &err);
  }
}

/* Compares the fields that the caller sets. */
static bool differs(const struct cleat__run_totals *a, const struct cleat__run_totals *b) {
  return a->store_reachable != b->store_reachable || a->pending != b->pending || a->held != b->held ||
         a->passed_by != b->passed_by || a->local_step != b->local_step || a->saving != b->saving ||
         a->saving_step != b->saving_step || a->saving_bytes_done != b->saving_bytes_done ||
         a->saving_bytes_total != b->saving_bytes_total;
}

void cleat__run_report_tick(struct cleat__run_report *report, int64_t now) {
  const struct cleat__run_totals *totals = &report->totals;
  if (now >= report->next_status_ms) {
    report->next_status_ms = now + CLEAT__RUN_STATUS_S * 1000;
    if (totals->running || totals->pending || totals->saving)
      cleat__run_report_status(report);
  }
  bool changed = report->changed || differs(totals, &report->written);
  int64_t early_ms = CLEAT__RUN_METRICS_S * 1000 - CHANGED_MS;
  if (now >= report->next_metrics_ms || (changed && now >= report->next_metrics_ms - early_ms))
    write_metrics(report, now);
}

void cleat__run_report_metrics(struct cleat__run_report *report) {
  write_metrics(report, now_ms(report));
}
