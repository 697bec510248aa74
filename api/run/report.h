/* report.h: what the user of a batch job sees: lines on standard error, and a file of metrics.
 *
 * People get one line an event, in local time, "cleat: 12:03:04 saved step 300: …"; with --log json
 * each line is one object with "time" (RFC 3339 UTC, milliseconds), "event" and fields. The metrics
 * file has Prometheus's text format, for node_exporter's textfile collector: it is replaced as a
 * whole, so that nobody reads half of one.
 *
 * Threads: none. All calls come from the main thread; what the saver's thread has to say it hands to
 * the loop. The one exception is cleat__run_report_log, for the client's log. Nothing here fails: a
 * log that cannot be written must not end a training job. Strings are borrowed for the call. */
#ifndef CLEAT_API_RUN_REPORT_H
#define CLEAT_API_RUN_REPORT_H

#include "base/clock.h"
#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum cleat__run_log { CLEAT__RUN_LOG_HUMAN, CLEAT__RUN_LOG_JSON };

struct cleat__run_report_options {
  FILE *out; /* standard error; borrowed; each event is written in one piece and flushed */
  enum cleat__run_log format;
  bool quiet;                       /* only warnings, failures and what could not be saved */
  const char *metrics_path;         /* borrowed; NULL: no metrics */
  const struct cleat__clock *clock; /* borrowed; NULL: the system's */
};

/* What is counted, of this process. The functions below keep what is marked so; the rest the caller
 * sets whenever it changes, and cleat__run_report_tick reads it. */
struct cleat__run_totals {
  /* Kept by the functions below. */
  uint64_t saves;       /* committed */
  uint64_t skipped;     /* checkpoints that were there already, or are not to be saved */
  uint64_t failures;    /* tries at saving that failed */
  uint64_t retries;     /* of these: to be tried again */
  uint64_t unsaved;     /* checkpoints that could not be saved before the end */
  uint64_t saved_bytes; /* of committed checkpoints */
  uint64_t saved_files;
  double save_seconds;      /* spent on tries that committed */
  double last_save_seconds; /* of the newest commit */
  uint64_t last_save_bytes;
  bool committed;        /* the three below are set */
  int64_t newest_step;   /* the highest committed step, by us or found in the store at the start */
  int64_t newest_wall_s; /* when it was committed, seconds since 1970 */
  int64_t newest_ms;     /* the same on the monotonic clock, for its age */
  bool restored;         /* the four below are set */
  int64_t restored_step;
  uint64_t restored_bytes;
  uint64_t restored_files;
  double restore_seconds;
  uint64_t pruned;        /* checkpoints removed from the store */
  uint64_t deleted_local; /* checkpoints removed from DIR */
  uint64_t warnings;
  uint64_t request_retries; /* set by the caller: requests that were sent again */
  bool running;             /* the command runs */
  int exit_status;          /* of the command, once it has ended; -1 before */

  /* Set by the caller. */
  bool store_reachable; /* the last call of the store was answered; true at the start */
  uint64_t pending;     /* checkpoints found and not yet saved, without the one being saved */
  uint64_t
      passed_by; /* checkpoints that were whole, and that the command removed before they could be saved */
  uint64_t held;      /* checkpoints that are held, whatever the command removes */
  bool has_local;     /* the three below are set */
  int64_t local_step; /* the newest checkpoint that was seen whole in DIR */
  int64_t local_ms;   /* when, on the monotonic clock */
  int64_t
      behind_ms; /* for how long DIR has had one that is newer than all that is stored; 0: it has none */
  bool saving; /* the three below are set */
  int64_t saving_step;
  uint64_t saving_bytes_done;
  uint64_t saving_bytes_total; /* 0: not known yet */
};

struct cleat__run_report {
  struct cleat__run_report_options options;
  struct cleat__run_totals totals;
  /* For report.c. */
  int64_t next_status_ms;
  int64_t next_metrics_ms;
  bool changed;                     /* since the metrics were written */
  bool metrics_failing;             /* and that has been said */
  struct cleat__run_totals written; /* what the metrics file was made of */
};

/* The seconds between status lines, and between metrics files of which nothing but ages changed. */
#define CLEAT__RUN_STATUS_S 30
#define CLEAT__RUN_METRICS_S 15

/* Copies the options. The first status line is due CLEAT__RUN_STATUS_S from now, the metrics at the
 * first tick. Owns nothing: there is nothing to free. */
void cleat__run_report_init(struct cleat__run_report *report,
                            const struct cleat__run_report_options *options);

/* What a save or a restore moved. */
struct cleat__run_moved {
  int64_t step;
  const char *path; /* in DIR, such as "step-300"; NULL: not told */
  uint64_t files;
  uint64_t bytes;
  double seconds;
};

/* `saved step 300: 12 files, 1.2 GiB in 3.4 s, 350 MiB/s`: it is committed. */
void cleat__run_report_commit(struct cleat__run_report *report,
                              const struct cleat__run_moved *moved);

/* Step 300 is in DIR again. */
void cleat__run_report_restored(struct cleat__run_report *report,
                                const struct cleat__run_moved *moved);

/* Nothing was restored, and that is well: `why` completes "nothing to restore: …", such as "the store
 * has no checkpoint yet". */
void cleat__run_report_fresh(struct cleat__run_report *report, const char *why);

/* The newest checkpoint that the store has already, for its age; says nothing. `age_s` as of its
 * creation time, 0 if that is not known. */
void cleat__run_report_newest(struct cleat__run_report *report, int64_t step, int64_t age_s);

/* A checkpoint that is not saved, and need not be: `why` such as "it is in the store already". */
void cleat__run_report_skipped(struct cleat__run_report *report, int64_t step, const char *path,
                               const char *why);

/* A try at saving failed. `next_try_s`: when it is tried again; below 0: it is not. */
void cleat__run_report_failed(struct cleat__run_report *report, int64_t step,
                              const struct cleat_error *err, double next_try_s);

/* Something that a person should look at. */
void cleat__run_report_warning(struct cleat__run_report *report, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void cleat__run_report_warning_error(struct cleat__run_report *report,
                                     const struct cleat_error *err);

/* Something that people may like to know: "restoring step 300: 1.2 GiB", "SIGTERM: 60 s for the command". */
void cleat__run_report_note(struct cleat__run_report *report, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Removed by --keep-last from the store, or by --keep-local from DIR. `path` as in DIR; may be NULL. */
void cleat__run_report_pruned(struct cleat__run_report *report, int64_t step, uint64_t bytes);
void cleat__run_report_deleted(struct cleat__run_report *report, int64_t step, const char *path);

/* The command runs as `pid`; it ended with what a shell says (`signal` 0: by itself) after `seconds`. */
void cleat__run_report_started(struct cleat__run_report *report, const char *name, int64_t pid);
void cleat__run_report_ended(struct cleat__run_report *report, int exit_status, int signal,
                             double seconds);

/* The end: what could not be saved and why, a line each. */
struct cleat__run_unsaved {
  int64_t step;
  const char *path;
  const char *why;
};
void cleat__run_report_unsaved(struct cleat__run_report *report,
                               const struct cleat__run_unsaved *unsaved, size_t count);

/* `newest step 300 saved 26 s ago; 1 waiting, step 400 being saved: 40 % of 1.2 GiB`, now. */
void cleat__run_report_status(struct cleat__run_report *report);

/* Call it about once a second, with the clock's monotonic_ms: the status line each CLEAT__RUN_STATUS_S
 * (not when the command has ended and nothing is pending), the metrics when totals changed (a second
 * apart at least) or after CLEAT__RUN_METRICS_S. */
void cleat__run_report_tick(struct cleat__run_report *report, int64_t now_ms);

/* Writes the metrics now; for the end. */
void cleat__run_report_metrics(struct cleat__run_report *report);

/* cleat_log_fn for the client; `user` is the report. Called from any thread: warnings are written in
 * one piece in the report's format, nothing is counted. Info and debug lines are dropped. */
void cleat__run_report_log(void *user, enum cleat_log_level level, const char *line);

#endif
