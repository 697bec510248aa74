/* report_metrics.c: writes the totals in Prometheus's text format 0.0.4. See report.h.
 *
 * Names follow https://prometheus.io/docs/practices/naming/: base units, and counters end in _total. An unknown value
 * has no sample, because a zero would look like a real one. The file is written under another name and renamed. It is
 * not fsynced: after a crash it is out of date anyway. */
#include "api/run/report_private.h"

#include "base/buffer.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define METRICS_MAX 65536u

struct page {
  struct cleat__buffer text;
  cleat_status status; /* the first failure */
};

static void add(struct page *page, const char *name, const char *help, const char *value) {
  static const char suffix[] = "_total";
  size_t length = strlen(name), tail = sizeof suffix - 1;
  bool counter = length > tail && strcmp(name + length - tail, suffix) == 0;
  if (!page->status)
    page->status = cleat__buffer_print(&page->text,
                                       "# HELP cleat_run_%s %s\n# TYPE cleat_run_%s %s\n"
                                       "cleat_run_%s %s\n",
                                       name, help, name, counter ? "counter" : "gauge", name, value);
}

static void add_count(struct page *page, const char *name, const char *help, uint64_t value) {
  char digits[24];
  snprintf(digits, sizeof digits, "%" PRIu64, value);
  add(page, name, help, digits);
}

static void add_int(struct page *page, const char *name, const char *help, int64_t value) {
  char digits[24];
  snprintf(digits, sizeof digits, "%" PRId64, value);
  add(page, name, help, digits);
}

static void add_seconds(struct page *page, const char *name, const char *help, double value) {
  char digits[64];
  snprintf(digits, sizeof digits, "%.3f", value >= 0 && value < 1e15 ? value : 0.0);
  add(page, name, help, digits);
}

static void add_saves(struct page *page, const struct cleat__run_totals *totals) {
  add_count(page, "saves_total", "Checkpoints committed to the store.", totals->saves);
  add_count(page, "skipped_total", "Checkpoints that were found and need no save.", totals->skipped);
  add_count(page, "save_failures_total", "Failed attempts to save.", totals->failures);
  add_count(page, "request_retries_total", "Retried requests to the store.", totals->request_retries);
  add_count(page, "save_retries_total", "Failed attempts that were to be retried.", totals->retries);
  add_count(page, "unsaved_total", "Checkpoints that could not be saved before the end.", totals->unsaved);
  add_count(page, "saved_bytes_total", "Bytes of committed checkpoints.", totals->saved_bytes);
  add_count(page, "saved_files_total", "Files of committed checkpoints.", totals->saved_files);
  add_seconds(page, "save_seconds_total", "Time spent on saves that were committed.", totals->save_seconds);
  if (totals->saves > 0) {
    add_seconds(page, "last_save_seconds", "Time that the last committed save took.", totals->last_save_seconds);
    add_count(page, "last_save_bytes", "Bytes of the last committed save.", totals->last_save_bytes);
  }
}

static void add_newest(struct page *page, const struct cleat__run_totals *totals, int64_t now_ms) {
  if (!totals->committed)
    return;
  add_int(page, "newest_commit_step", "Step of the newest committed checkpoint.", totals->newest_step);
  add_int(page, "newest_commit_timestamp_seconds", "When the newest checkpoint was committed, in seconds since 1970.",
          totals->newest_wall_s);
  add_seconds(page, "newest_commit_age_seconds", "Age of the newest committed checkpoint when this was written.",
              (double)(now_ms - totals->newest_ms) / 1000);
}

/* Adds what a loss of the folder would cost. The lag is 0 while its newest checkpoint is stored. */
static void add_local(struct page *page, const struct cleat__run_totals *totals, int64_t now_ms) {
  if (!totals->has_local)
    return;
  add_int(page, "newest_local_step", "Step of the newest complete checkpoint in the folder.", totals->local_step);
  add_seconds(page, "newest_local_age_seconds",
              "Age of the newest complete checkpoint in the folder when this was written.",
              (double)(now_ms - totals->local_ms) / 1000);
  add_seconds(page, "behind_seconds", "For how long the folder has had a checkpoint newer than any in the store.",
              (double)totals->behind_ms / 1000);
}

static void add_restore(struct page *page, const struct cleat__run_totals *totals) {
  if (!totals->restored)
    return;
  add_int(page, "restored_step", "Step that was restored at the start.", totals->restored_step);
  add_count(page, "restored_bytes", "Bytes that were restored.", totals->restored_bytes);
  add_count(page, "restored_files", "Files that were restored.", totals->restored_files);
  add_seconds(page, "restore_seconds", "Time that the restore took.", totals->restore_seconds);
}

static void add_present(struct page *page, const struct cleat__run_totals *totals) {
  add_count(page, "pending_checkpoints", "Checkpoints that wait to be saved.", totals->pending);
  add_count(page, "held_checkpoints", "Checkpoints held so that the command cannot remove them.", totals->held);
  add_count(page, "passed_by_total", "Complete checkpoints removed before they could be saved.", totals->passed_by);
  add_count(page, "saving", "1 while a checkpoint is being saved.", totals->saving);
  if (totals->saving) {
    add_int(page, "saving_step", "Step that is being saved.", totals->saving_step);
    add_count(page, "saving_done_bytes", "Bytes of that step that are stored.", totals->saving_bytes_done);
    if (totals->saving_bytes_total > 0)
      add_count(page, "saving_bytes", "Total bytes of that step.", totals->saving_bytes_total);
  }
  add_count(page, "store_reachable", "1 if the last request to the store was answered.", totals->store_reachable);
  add_count(page, "command_running", "1 while the command runs.", totals->running);
  if (totals->exit_status >= 0)
    add_int(page, "command_exit_status", "Exit status of the command; 128 + n for signal n.", totals->exit_status);
  add_count(page, "pruned_total", "Checkpoints removed from the store.", totals->pruned);
  add_count(page, "deleted_local_total", "Checkpoints removed from the folder.", totals->deleted_local);
  add_count(page, "warnings_total", "Warnings in the log.", totals->warnings);
}

/* ---- The file ---- */

/* Returns 0 or an errno value. */
static int write_all(int fd, const char *bytes, size_t length) {
  while (length > 0) {
    ssize_t put = write(fd, bytes, length);
    if (put < 0 && errno == EINTR)
      continue;
    if (put <= 0)
      return put < 0 ? errno : EIO;
    bytes += put;
    length -= (size_t)put;
  }
  return 0;
}

static int write_new(const char *path, const struct page *page) {
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (fd < 0)
    return errno;
  /* Independent of the umask: a collector of another user reads the file. */
  int code = fchmod(fd, 0644) == 0 ? 0 : errno;
  if (code == 0)
    code = write_all(fd, cleat__buffer_text(&page->text), page->text.length);
  if (close(fd) != 0 && code == 0)
    code = errno;
  return code;
}

static cleat_status replace(const char *path, const struct page *page, struct cleat_error *err) {
  struct stat info;
  /* Only a regular file is replaced. A rename would put a file in the place of /dev/stderr. */
  if (stat(path, &info) == 0 && !S_ISREG(info.st_mode))
    return cleat__error_set(err, CLEAT_INVALID, "the metrics file %s is not a regular file", path);
  /* The name does not end in .prom, which the collector would read. */
  char *fresh = cleat__strprintf("%s.new", path);
  if (!fresh)
    return cleat__error_no_memory(err, "the metrics");
  cleat_status status = CLEAT_OK;
  int code = write_new(fresh, page);
  if (code == 0 && rename(fresh, path) != 0)
    code = errno;
  if (code != 0) {
    status = cleat__error_errno(err, code, "cannot write the metrics file %s", path);
    (void)unlink(fresh);
  }
  cleat__free(fresh);
  return status;
}

cleat_status cleat__run_metrics_write(const struct cleat__run_report *report, int64_t now_ms, struct cleat_error *err) {
  struct page page = {.status = CLEAT_OK};
  cleat__buffer_init(&page.text, METRICS_MAX);
  add_saves(&page, &report->totals);
  add_newest(&page, &report->totals, now_ms);
  add_local(&page, &report->totals, now_ms);
  add_restore(&page, &report->totals);
  add_present(&page, &report->totals);
  cleat_status status =
      page.status ? cleat__error_no_memory(err, "the metrics") : replace(report->options.metrics_path, &page, err);
  cleat__buffer_clear(&page.text);
  return status;
}
