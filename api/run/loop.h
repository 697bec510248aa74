/* loop.h: the parts and the files of the loop of `cleat run`.
 *
 * Each part has its own struct, header and file. It returns an event or a decision, and knows nothing of the loop:
 * life.h (the command and the phases), deadlines.h, scanner.h (DIR), orders.h (to the saver), following.h (several
 * ranks), unsaved.h (what nobody saves), behind.h, verdict.h. The files of the loop act on the results. Each calls only
 * those below it:
 *
 *     run.c           waits, and takes one turn
 *     loop_life.c     signals, events of the command, the end
 *     loop_orders.c   gives the saver its orders, and takes their results
 *     loop_ranks.c    several ranks
 *     loop_start.c    the restore, and the start of the command
 *     loop_scan.c     scans DIR
 *     loop_open.c     opens and closes everything
 *     loop_report.c   the status, and what could not be saved
 *
 * All of it runs on the program's first thread. Times are in milliseconds of CLOCK_MONOTONIC; -1: not set. */
#ifndef CLEAT_API_RUN_LOOP_H
#define CLEAT_API_RUN_LOOP_H

#include "api/run/behind.h"
#include "api/run/following.h"
#include "api/run/life.h"
#include "api/run/orders.h"
#include "api/run/run.h"
#include "api/run/scanner.h"
#include "api/run/unsaved.h"
#include "api/run/verdict.h"

struct cleat__run_loop {
  const struct cleat__run_options *options;
  cleat__run_open_fn *open;
  void *user;
  char *dir; /* absolute */
  bool metrics_in_dir;
  int lock_file; /* DIR's lock file, before it is locked; -1: not open */
  struct cleat__run_report report;
  struct cleat__run_ranks ranks;
  struct cleat__run_signals signals;
  struct cleat__run_state state;
  struct cleat_client *client;

  struct cleat__run_life life;
  struct cleat__run_deadlines deadlines;
  struct cleat__run_scanner scanner;
  struct cleat__run_orders orders;
  struct cleat__run_following following;
  struct cleat__run_written written; /* what the command wrote into DIR */
  struct cleat__run_behind behind;
  struct cleat__run_verdict verdict;

  /* What the command resumes from. */
  bool restored;       /* the restore put it into DIR */
  int64_t resume_step; /* -1: none */
  char *resume_path;
  int64_t newest;  /* the highest step known to be in the store; -1: none */
  int64_t told_ms; /* when the restore's progress was last reported */
};

/* ---- loop_report.c ----------------------------------------------------------------------------------- */

/* Updates the status line, the metrics, a restore's progress and the lag of saving. Call it after each turn. */
void cleat__run_loop_tell(struct cleat__run_loop *loop, int64_t now_ms);

/* Reports a checkpoint that could not be saved, so that the exit status is not 0. `item` NULL: the final state. */
void cleat__run_loop_note_unsaved(struct cleat__run_loop *loop, const struct cleat__run_item *item, const char *why);

/* Reports all pending checkpoints as not saved, newest first, and gives them up. */
void cleat__run_loop_note_pending(struct cleat__run_loop *loop, const char *why);

/* ---- loop_open.c ------------------------------------------------------------------------------------- */

/* Opens everything that the loop needs. On failure *loop->verdict.err says why. */
cleat_status cleat__run_loop_open(struct cleat__run_loop *loop);

/* Locks DIR, and checks that no process of an earlier run lives. */
cleat_status cleat__run_loop_open_state(struct cleat__run_loop *loop, struct cleat_error *err);

/* Opens the place for holds in the state's folder, and recovers what an earlier start held there. */
cleat_status cleat__run_loop_open_holds(struct cleat__run_loop *loop, struct cleat_error *err);

/* The exit status for a command that cannot be started. */
int cleat__run_loop_command_status(const struct cleat_error *err);

/* Ends the guard of the command. If the command was killed, also ends its leftover processes. If processes of its group
 * are left after that, the next start can still find them. */
void cleat__run_loop_close_command(struct cleat__run_loop *loop);

void cleat__run_loop_close(struct cleat__run_loop *loop);

/* ---- loop_scan.c ------------------------------------------------------------------------------------- */

/* Scans DIR now. Ranks other than 0 do not scan. */
void cleat__run_loop_scan(struct cleat__run_loop *loop, int64_t now_ms);

/* Scans DIR after the command's end. Makes complete checkpoints ready, and reports the others. */
void cleat__run_loop_scan_last(struct cleat__run_loop *loop, int64_t now_ms);

/* ---- loop_start.c ------------------------------------------------------------------------------------ */

void cleat__run_loop_restore(struct cleat__run_loop *loop);

/* Takes the result of the restore: reports it, and starts the command. */
void cleat__run_loop_take_restore(struct cleat__run_loop *loop, struct cleat__run_result *result);

/* Ends `cleat run` because the restore failed: sets the error and the exit status. */
void cleat__run_loop_fail_restore(struct cleat__run_loop *loop, const struct cleat_error *err);

/* Ends `cleat run` before the command was started. */
void cleat__run_loop_fail(struct cleat__run_loop *loop, int exit_status);
void cleat__run_loop_fail_by_signal(struct cleat__run_loop *loop);

/* ---- loop_ranks.c ------------------------------------------------------------------------------------ */

/* The start of the job is registered. Reports it, and begins the restore. */
void cleat__run_loop_take_join(struct cleat__run_loop *loop, struct cleat__run_result *result, int64_t now_ms);

/* On a rank other than 0: asks for rank 0's next order when it is time. */
void cleat__run_loop_listen(struct cleat__run_loop *loop, int64_t now_ms);
void cleat__run_loop_take_said(struct cleat__run_loop *loop, const struct cleat__run_result *result, int64_t now_ms);

/* On a rank other than 0, at the end: warns if not everything was saved. */
void cleat__run_loop_judge_followed(struct cleat__run_loop *loop);

/* ---- loop_orders.c ----------------------------------------------------------------------------------- */

/* Gives the saver its next order, if it has none. */
void cleat__run_loop_order(struct cleat__run_loop *loop, int64_t now_ms);

/* Takes the saver's result, if there is one. */
void cleat__run_loop_take(struct cleat__run_loop *loop, int64_t now_ms);

/* True if a checkpoint is ready or waits for its retry, or the saver works. On a rank other than 0: rank 0 may give
 * more orders. */
bool cleat__run_loop_has_work(const struct cleat__run_loop *loop);

/* If there is no such work: true if a deletion or the final state is still to be done. */
bool cleat__run_loop_wants_more(struct cleat__run_loop *loop);

/* ---- loop_life.c ------------------------------------------------------------------------------------- */

/* Acts on a signal other than SIGCHLD. */
void cleat__run_loop_take_signal(struct cleat__run_loop *loop, int signo, int64_t now_ms);

/* Acts on all events of the command and on deadlines. */
void cleat__run_loop_advance(struct cleat__run_loop *loop, int64_t now_ms);

#endif
