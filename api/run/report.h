/* report.h: what the user of a batch job sees: lines on standard error, and a metrics file.
 *
 * People get one line per event, in local time: "cleat: 12:03:04 saved step 300: …". With --log json each line is one
 * object with "time" (RFC 3339 UTC, milliseconds), "event" and fields. The metrics file has Prometheus's text format,
 * for node_exporter's textfile collector. It is replaced as a whole, so that nobody reads half of it.
 *
 * Threads: all calls come from the main thread. The saver's thread hands its messages to the loop. The one exception is
 * cleat__run_report_log, for the client's log. Nothing here fails: a log that cannot be written must not end a training
 * job. Strings are borrowed for the call. */
#ifndef CLEAT_API_RUN_REPORT_H
#define CLEAT_API_RUN_REPORT_H

#include "base/clock.h"
#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum cleat__run_log { CLEAT__RUN_LOG_HUMAN, CLEAT__RUN_LOG_JSON };

struct cleat__run_report_options {
  FILE *out; /* standard error; borrowed; each event is written at once and flushed */
  enum cleat__run_log format;
  bool quiet;                       /* only warnings, failures and what could not be saved */
  const char *metrics_path;         /* borrowed; NULL: no metrics */
  const struct cleat__clock *clock; /* borrowed; NULL: the system's */
};

/* Counters and states of this process. Some are kept by the functions below, as marked. The caller sets the others
 * whenever they change, and cleat__run_report_tick reads them. */
struct cleat__run_totals {
  /* Kept by the functions below. */
  uint64_t saves;       /* committed saves */
  uint64_t skipped;     /* checkpoints that were already there, or are not to be saved */
  uint64_t failures;    /* failed attempts to save */
  uint64_t retries;     /* those of them that are retried */
  uint64_t unsaved;     /* checkpoints that could not be saved before the end */
  uint64_t saved_bytes; /* bytes of committed checkpoints */
  uint64_t saved_files;
  double save_seconds;      /* time of attempts that committed */
  double last_save_seconds; /* of the newest commit */
  uint64_t last_save_bytes;
  bool committed;        /* the next three are set */
  int64_t newest_step;   /* the highest committed step: ours, or found in the store at the start */
  int64_t newest_wall_s; /* when it was committed, in seconds since 1970 */
  int64_t newest_ms;     /* the same on the monotonic clock */
  bool restored;         /* the next four are set */
  int64_t restored_step;
  uint64_t restored_bytes;
  uint64_t restored_files;
  double restore_seconds;
  uint64_t pruned;        /* checkpoints removed from the store */
  uint64_t deleted_local; /* checkpoints removed from DIR */
  uint64_t warnings;
  uint64_t request_retries; /* set by the caller: requests that were retried */
  bool running;             /* the command runs */
  int exit_status;          /* of the command, once it has ended; -1 before */

  /* Set by the caller. */
  bool store_reachable; /* the store answered the last call; true at the start */
  uint64_t pending;     /* checkpoints found and not yet saved, not counting the one being saved */
  uint64_t passed_by;   /* complete checkpoints that the command removed before they could be saved */
  uint64_t held;        /* checkpoints that are held, so the command cannot remove them */
  bool has_local;       /* the next three are set */
  int64_t local_step;   /* the newest complete checkpoint that was seen in DIR */
  int64_t local_ms;     /* when it was seen complete, on the monotonic clock */
  /* for how long DIR has had a checkpoint newer than every stored one; 0: none */
  int64_t behind_ms;
  bool saving; /* the next three are set */
  int64_t saving_step;
  uint64_t saving_bytes_done;
  uint64_t saving_bytes_total; /* 0: not yet known */
};

struct cleat__run_report {
  struct cleat__run_report_options options;
  struct cleat__run_totals totals;
  /* For report.c. */
  int64_t next_status_ms;
  int64_t next_metrics_ms;
  bool changed;                     /* since the last metrics file */
  bool metrics_failing;             /* the metrics cannot be written, and that was reported */
  struct cleat__run_totals written; /* the totals of the last metrics file */
};

/* Seconds between status lines, and between metrics files if only ages change. */
#define CLEAT__RUN_STATUS_S 30
#define CLEAT__RUN_METRICS_S 15

/* Copies the options. The first status line is due after CLEAT__RUN_STATUS_S, the first metrics file at the first tick.
 * There is nothing to free. */
void cleat__run_report_init(struct cleat__run_report *report, const struct cleat__run_report_options *options);

/* What a save or a restore transferred. */
struct cleat__run_moved {
  int64_t step;
  const char *path; /* in DIR, such as "step-300"; NULL: not shown */
  uint64_t files;
  uint64_t bytes;
  double seconds;
};

/* Reports a commit: `saved step 300: 12 files, 1.2 GiB in 3.4 s, 350 MiB/s`. */
void cleat__run_report_commit(struct cleat__run_report *report, const struct cleat__run_moved *moved);

/* Reports that a step was restored into DIR. */
void cleat__run_report_restored(struct cleat__run_report *report, const struct cleat__run_moved *moved);

/* Reports that nothing was restored, which is no failure. `why` completes "nothing to restore: …", such as "the store
 * has no checkpoint yet". */
void cleat__run_report_fresh(struct cleat__run_report *report, const char *why);

/* Sets the newest checkpoint that the store already has, for its age. Writes no line. `age_s` counts from its creation
 * time; 0 if that is unknown. */
void cleat__run_report_newest(struct cleat__run_report *report, int64_t step, int64_t age_s);

/* Reports a checkpoint that is not saved and need not be. `why` is such as "it is already in the store". */
void cleat__run_report_skipped(struct cleat__run_report *report, int64_t step, const char *path, const char *why);

/* Reports a failed attempt to save. `next_try_s`: time until the retry; negative: no retry. */
void cleat__run_report_failed(struct cleat__run_report *report, int64_t step, const struct cleat_error *err,
                              double next_try_s);

/* Reports something that a person should check. */
void cleat__run_report_warning(struct cleat__run_report *report, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void cleat__run_report_warning_error(struct cleat__run_report *report, const struct cleat_error *err);

/* Reports something that may be of interest: "restoring step 300: 1.2 GiB", "SIGTERM: the command has 60 s to end". */
void cleat__run_report_note(struct cleat__run_report *report, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Reports removals: by --keep-last from the store, or by --keep-local from DIR. `path` as in DIR; may be NULL. */
void cleat__run_report_pruned(struct cleat__run_report *report, int64_t step, uint64_t bytes);
void cleat__run_report_deleted(struct cleat__run_report *report, int64_t step, const char *path);

/* Report the command's start as `pid`, and its end after `seconds`. The exit status is what a shell reports; `signal`
 * 0: it ended by itself. */
void cleat__run_report_started(struct cleat__run_report *report, const char *name, int64_t pid);
void cleat__run_report_ended(struct cleat__run_report *report, int exit_status, int signal, double seconds);

/* For the end: reports what could not be saved and why, one line each. */
struct cleat__run_unsaved {
  int64_t step;
  const char *path;
  const char *why;
};
void cleat__run_report_unsaved(struct cleat__run_report *report, const struct cleat__run_unsaved *unsaved,
                               size_t count);

/* Writes the status line now: `newest step 300 saved 26 s ago; 1 waiting, step 400 being saved: 40 % of 1.2 GiB`. */
void cleat__run_report_status(struct cleat__run_report *report);

/* Call it about once a second, with the clock's monotonic_ms. Writes the status line every CLEAT__RUN_STATUS_S, but not
 * if the command has ended and nothing is pending. Writes the metrics when totals have changed (at most once a second),
 * or after CLEAT__RUN_METRICS_S. */
void cleat__run_report_tick(struct cleat__run_report *report, int64_t now_ms);

/* Writes the metrics now. For the end. */
void cleat__run_report_metrics(struct cleat__run_report *report);

/* The cleat_log_fn of the client; `user` is the report. May be called from any thread. Warnings are written in one
 * piece in the report's format, and are not counted. Info and debug lines are dropped. */
void cleat__run_report_log(void *user, enum cleat_log_level level, const char *line);

#endif
