/* loop.h: the loop of `cleat run`: what it is made of, and its files.
 *
 * A thing has a struct, a header and a file of its own. It returns an event or a decision and knows no loop:
 * life.h (the command and the phases), deadlines.h, scanner.h (DIR), orders.h (to the saver), following.h (several
 * ranks), unsaved.h (what nobody saves), behind.h, verdict.h. The files of the loop act on it. Each calls only those
 * below it:
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
 * All of it belongs to the program's first thread. Times are in milliseconds of CLOCK_MONOTONIC; -1: not set. */
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
  int lock_file; /* of DIR, before the lock is taken; -1: not open */
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
  struct cleat__run_written written; /* by the command into DIR */
  struct cleat__run_behind behind;
  struct cleat__run_verdict verdict;

  /* What the command goes on from. */
  bool restored;       /* DIR has been given it */
  int64_t resume_step; /* -1: none */
  char *resume_path;
  int64_t newest;  /* the highest step that is in the store, as far as is known; -1: none */
  int64_t told_ms; /* when the user was told of the restore's progress */
};

/* ---- loop_report.c ----------------------------------------------------------------------------------- */

/* After each turn: status line, metrics, the progress of a restore, whether saving keeps up. */
void cleat__run_loop_tell(struct cleat__run_loop *loop, int64_t now_ms);

/* Tells the user that it could not be saved; `item` NULL: the final state. The exit status is not 0 then. */
void cleat__run_loop_note_unsaved(struct cleat__run_loop *loop, const struct cleat__run_item *item,
                                  const char *why);

/* Names all that waits to be saved, newest first, and leaves it. */
void cleat__run_loop_note_pending(struct cleat__run_loop *loop, const char *why);

/* ---- loop_open.c ------------------------------------------------------------------------------------- */

/* Opens all that the loop needs. On failure *loop->verdict.err says why. */
cleat_status cleat__run_loop_open(struct cleat__run_loop *loop);

/* Locks DIR, and checks whether something of an earlier run lives. */
cleat_status cleat__run_loop_open_state(struct cleat__run_loop *loop, struct cleat_error *err);

/* Finds the place for holds in the state's folder, and what an earlier start held there. */
cleat_status cleat__run_loop_open_holds(struct cleat__run_loop *loop, struct cleat_error *err);

/* The exit status for a command that cannot be started. */
int cleat__run_loop_command_status(const struct cleat_error *err);

/* Ends the guard of the command, and what a command that was killed has left. What of the command's group is left then
 * stays known to the next start. */
void cleat__run_loop_close_command(struct cleat__run_loop *loop);

void cleat__run_loop_close(struct cleat__run_loop *loop);

/* ---- loop_scan.c ------------------------------------------------------------------------------------- */

/* Scans DIR now. A rank other than 0 does not. */
void cleat__run_loop_scan(struct cleat__run_loop *loop, int64_t now_ms);

/* Scans DIR, where nothing of the command writes any more, and makes ready what is whole; tells of the rest. */
void cleat__run_loop_scan_last(struct cleat__run_loop *loop, int64_t now_ms);

/* ---- loop_start.c ------------------------------------------------------------------------------------ */

void cleat__run_loop_restore(struct cleat__run_loop *loop);

/* The restore has ended: reports it, and starts the command. */
void cleat__run_loop_take_restore(struct cleat__run_loop *loop, struct cleat__run_result *result);

/* It failed before the command: the error, and the exit status. */
void cleat__run_loop_fail_restore(struct cleat__run_loop *loop, const struct cleat_error *err);

/* Ends it before there was a command. */
void cleat__run_loop_fail(struct cleat__run_loop *loop, int exit_status);
void cleat__run_loop_fail_by_signal(struct cleat__run_loop *loop);

/* ---- loop_ranks.c ------------------------------------------------------------------------------------ */

/* The start of the job is registered: says so, and goes on to the restore. */
void cleat__run_loop_take_join(struct cleat__run_loop *loop, struct cleat__run_result *result,
                               int64_t now_ms);

/* Of a rank other than 0: asks what rank 0 says, if it is time to, and takes the answer. */
void cleat__run_loop_listen(struct cleat__run_loop *loop, int64_t now_ms);
void cleat__run_loop_take_said(struct cleat__run_loop *loop, const struct cleat__run_result *result,
                               int64_t now_ms);

/* Of such a rank, at the end: whether all is saved; says so if it is not. */
void cleat__run_loop_judge_followed(struct cleat__run_loop *loop);

/* ---- loop_orders.c ----------------------------------------------------------------------------------- */

/* Gives the saver its next order, if it has none. */
void cleat__run_loop_order(struct cleat__run_loop *loop, int64_t now_ms);

/* Takes the saver's result, if there is one. */
void cleat__run_loop_take(struct cleat__run_loop *loop, int64_t now_ms);

/* Something is ready, waits for its next try, or the saver works; of a rank other than 0: rank 0 may say more. */
bool cleat__run_loop_has_work(const struct cleat__run_loop *loop);

/* With nothing of that: there is still something to begin, a deletion or the final state. */
bool cleat__run_loop_wants_more(struct cleat__run_loop *loop);

/* ---- loop_life.c ------------------------------------------------------------------------------------- */

/* What a signal other than SIGCHLD means. */
void cleat__run_loop_take_signal(struct cleat__run_loop *loop, int signo, int64_t now_ms);

/* Acts on all events of the command and on deadlines. */
void cleat__run_loop_advance(struct cleat__run_loop *loop, int64_t now_ms);

#endif
