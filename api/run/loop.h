/* loop.h: the state that the files of the loop share: run.c (phases, waiting), begin.c (up to the command's start),
 * work.c (what the saver has to do, and what came of it), finish.c (the command's end, and what is left then).
 *
 * All of it belongs to the program's first thread. Times are in milliseconds of CLOCK_MONOTONIC; -1: not set. */
#ifndef CLEAT_API_RUN_LOOP_H
#define CLEAT_API_RUN_LOOP_H

#include "api/run/behind.h"
#include "api/run/items.h"
#include "api/run/layout_lists.h"
#include "api/run/run.h"
#include "api/run/saver.h"

#include <time.h>

enum cleat__run_phase {
  CLEAT__RUN_RESTORING = 0, /* before the command */
  CLEAT__RUN_RUNNING,       /* beside it */
  CLEAT__RUN_LEAVING,       /* the command has ended, processes of its group have not */
  CLEAT__RUN_FLUSHING,      /* what is pending is being saved */
  CLEAT__RUN_OVER
};

/* Of several ranks, before the command. */
enum cleat__run_phase_of_ranks {
  CLEAT__RUN_APART = 0, /* the start of the job is not registered */
  CLEAT__RUN_WAITING,   /* rank 0, which has the same folder, restores it */
  CLEAT__RUN_TOGETHER
};

struct cleat__run_loop {
  const struct cleat__run_options *options;
  cleat__run_open_fn *open;
  void *user;
  char *dir; /* absolute */
  bool metrics_in_dir;
  struct cleat__run_report report;
  struct cleat__run_ranks ranks;
  int lock_file; /* of DIR, before the lock is taken; -1: not open */
  struct cleat__run_signals signals;
  struct cleat__run_command command;
  struct cleat__run_state state;
  struct cleat__run_watch watch;
  struct cleat__run_items items;
  struct cleat__run_holds holds;
  struct cleat__run_behind behind;
  struct cleat_client *client;
  struct cleat__run_saver *saver;

  enum cleat__run_phase phase;
  bool ordered; /* the saver works */
  struct cleat__run_order order;
  struct cleat__run_item *item; /* that it works on; NULL: none */
  struct cleat__run_item *lent; /* that it reads beside a final state; NULL: none */
  char fingerprint[CLEAT__RUN_ID_MAX];
  struct cleat__run_restore_options restore;
  bool restored_now; /* DIR has been given what the command goes on from */
  bool
      offline; /* the store could not be asked at the start; it is asked before anything is saved */
  unsigned looks;      /* that failed, while it is offline */
  int64_t ask_ms;      /* not to be asked before */
  int64_t told_ms;     /* when the user was told of the restore's progress */
  int64_t newest;      /* the highest step that is in the store, as far as is known; -1: none */
  int64_t resume_step; /* -1: none */
  char *resume_path;

  bool looked;      /* DIR was looked at once */
  int64_t look_ms;  /* when DIR is to be looked at again */
  int64_t heard_ms; /* when the first of the changes was heard that were not looked at yet */
  int64_t sign_ms;  /* when to look for a sign that may have come; -1: none has */
  int64_t rest_ms;  /* no look for a sign before: looking must not be all that is done */
  int64_t
      recovered; /* the step that an earlier start held when it was killed, and that is in DIR again; -1: none */
  bool blind; /* the last look failed, and that was said */
  bool told_limited, told_duplicate;
  struct cleat__run_lists lists; /* of files, which checkpoints have */

  /* What the command writes into DIR, for unsaved.h. */
  struct {
    bool known;            /* since when */
    struct timespec since; /* by the clock of DIR's file system */
    bool saved;            /* something of it is in the store */
    bool seen;             /* by the look before, and nothing of it was a checkpoint */
    bool told, told_doubt;
    int64_t next_ms; /* no look at all of it before */
  } written;

  enum cleat__run_phase_of_ranks phase_of_ranks;
  int64_t follow_ms;       /* a rank other than 0: when rank 0 is to be heard next */
  int64_t follow_until_ms; /* and until when it has to say something; -1: no limit now */
  int64_t follow_failed;   /* the step whose last save failed; -1: none */
  bool follow_deaf;        /* the last try to hear failed, and that was told */
  bool over;               /* rank 0 has said that nothing more is to be saved */

  int64_t started_ms;
  int asked_by;       /* the signal that asked for the end; 0: none */
  int64_t grace_ms;   /* until when the command may run on */
  int64_t leave_ms;   /* until when its group may */
  int64_t flush_ms;   /* until when pending checkpoints may be saved */
  bool hurried;       /* nothing is waited for any more */
  bool stepped_aside; /* an older save was stopped for the newest */
  bool final_done;
  unsigned late_changes; /* checkpoints that changed while they were read after the command's end */
  bool killed;           /* SIGKILL was sent to the command */
  bool told_unguarded;   /* the guard was killed, and the user was told */
  bool swept;            /* and to what it left behind */
  bool unsaved;          /* something could not be saved; the user was told */
  bool stuck;            /* the saver hangs where it cannot be stopped */
  int exit_status;
  struct cleat_error *err;
};

int64_t cleat__run_now_ms(void);

/* ---- begin.c: up to the command's start ----------------------------------------------------------- */

/* Opens all that the loop needs and begins the restore. On failure *loop->err says why. */
cleat_status cleat__run_begin(struct cleat__run_loop *loop);

/* Locks DIR, and looks whether something of an earlier run lives. */
cleat_status cleat__run_open_state(struct cleat__run_loop *loop, struct cleat_error *err);

/* Finds the place for holds in the state's folder, and what an earlier start held there. */
cleat_status cleat__run_open_holds(struct cleat__run_loop *loop, struct cleat_error *err);

void cleat__run_begin_restore(struct cleat__run_loop *loop);

/* It failed before the command: *loop->err, and the exit status. */
void cleat__run_fail_restore(struct cleat__run_loop *loop, const struct cleat_error *err);

/* The restore has ended: reports it, and starts the command. */
void cleat__run_take_restore(struct cleat__run_loop *loop, struct cleat__run_result *result);

/* The same of a look at a store that did not answer at the start. */
void cleat__run_take_look(struct cleat__run_loop *loop, const struct cleat__run_result *result,
                          int64_t now_ms);

/* Ends it before there was a command. */
void cleat__run_fail(struct cleat__run_loop *loop, int exit_status);

/* Ends the guard of the command, and what a command that was killed has left. What of the command's group is left then stays known to the next start. */
void cleat__run_let_go(struct cleat__run_loop *loop);

void cleat__run_end(struct cleat__run_loop *loop);

/* ---- with_ranks.c: several ranks ------------------------------------------------------------------- */

/* Which of how many we are, and whether the options go with that. */
cleat_status cleat__run_find_ranks(struct cleat__run_loop *loop, struct cleat_error *err);

/* The start of the job is registered: says so, and goes on to the restore. */
void cleat__run_take_join(struct cleat__run_loop *loop, struct cleat__run_result *result,
                          int64_t now_ms);

/* What a rank other than 0 does in place of cleat__run_work, and what came of it. */
void cleat__run_listen(struct cleat__run_loop *loop, int64_t now_ms);
void cleat__run_take_said(struct cleat__run_loop *loop, const struct cleat__run_result *result,
                          int64_t now_ms);

/* Of such a rank, at the end: whether all is saved; says so if it is not. */
void cleat__run_judge_followed(struct cleat__run_loop *loop);

static inline bool cleat__run_is_other_rank(const struct cleat__run_loop *loop) {
  return loop->ranks.role == CLEAT__RUN_FOLLOWER || loop->ranks.role == CLEAT__RUN_BYSTANDER;
}

/* ---- work.c: DIR, and the saver -------------------------------------------------------------------- */

/* Looks at DIR, if it is time to, and gives the saver its next order, if it has none. */
void cleat__run_work(struct cleat__run_loop *loop, int64_t now_ms);

/* Looks at DIR now. */
void cleat__run_look(struct cleat__run_loop *loop, int64_t now_ms);

/* Takes the saver's result, if there is one. */
void cleat__run_take(struct cleat__run_loop *loop, int64_t now_ms);

/* How long to wait before the next try, after so many that failed in a row. */
int64_t cleat__run_backoff_ms(const struct cleat__run_loop *loop, unsigned tries);

/* When cleat__run_work has something to do if nothing else happens. -1: not known. */
int64_t cleat__run_work_due(struct cleat__run_loop *loop, int64_t now_ms);

/* Something is ready, waits for its next try, or the saver works. */
bool cleat__run_has_work(const struct cleat__run_loop *loop);

/* With nothing of that: there is still something to begin, a deletion or the final state. */
bool cleat__run_wants_more(struct cleat__run_loop *loop);

/* ---- finish.c: the end ----------------------------------------------------------------------------- */

/* What a signal other than SIGCHLD means. */
void cleat__run_take_signal(struct cleat__run_loop *loop, int signo, int64_t now_ms);

/* Whether a try that failed was the last. */
bool cleat__run_gives_up(const struct cleat__run_loop *loop, unsigned tries);

/* Names all that waits to be saved, newest first, and leaves it. */
void cleat__run_note_pending(struct cleat__run_loop *loop, const char *why);

/* Tells the user; `item` NULL: the final state. The exit status is not 0 then. */
void cleat__run_note_unsaved(struct cleat__run_loop *loop, const struct cleat__run_item *item,
                             const struct cleat_error *err);

/* Looks at DIR, where nothing of the command writes any more, and makes ready what is seen to be whole; tells of the rest. */
void cleat__run_judge_rest(struct cleat__run_loop *loop, int64_t now_ms);

/* Deadlines, and whether a phase has come to its end. */
void cleat__run_advance(struct cleat__run_loop *loop, int64_t now_ms);

/* The next deadline; -1: none. */
int64_t cleat__run_deadline(const struct cleat__run_loop *loop);

#endif
