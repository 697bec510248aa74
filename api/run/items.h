/* items.h: what is known of each checkpoint in DIR, from when its first name shows up until it is in the store.
 *
 *     seen ──(whole, unchanged long enough)──► ready ──► saving ──► stored
 *
 * left: not to be saved as it is, and why has been said.
 *
 * One that is held (hold.h) is what is held, whatever becomes of it in DIR. When DIR has it no more, nothing changes
 * it, and it is ready at once.
 *
 * Times are of a monotonic clock, in milliseconds, and come from the caller. One thread at a time. */
#ifndef CLEAT_API_RUN_ITEMS_H
#define CLEAT_API_RUN_ITEMS_H

#include "api/run/hold.h"
#include "api/run/layout.h"
#include "api/run/state.h"
#include "api/run/watch.h"

#include <stdbool.h>

/*     SEEN ────► READY     it is whole, and nothing of it has changed for long enough
 *     READY ───► SAVING    the saver has it
 *     SAVING ──► STORED    it is in the store
 *     SAVING ──► READY     the save failed
 *     SEEN ────► STORED    at the start: it is what the store has; so from READY
 *     any ─────► SEEN      its files have changed
 *     any ─────► LEFT      it is not saved as it is */
enum cleat__run_item_state {
  CLEAT__RUN_SEEN = 0,
  CLEAT__RUN_READY,
  CLEAT__RUN_SAVING,
  CLEAT__RUN_STORED,
  CLEAT__RUN_LEFT
};

struct cleat__run_item {
  struct cleat__run_found found; /* unchanged while it is being saved or deleted */
  enum cleat__run_item_state state;
  bool lent;                    /* the saver reads `found` for a final state */
  bool deleting;                /* its deletion is under way */
  bool gone;                    /* not in DIR any more */
  bool committed;               /* by this process, whatever its files are by now */
  struct cleat__run_hold *hold; /* NULL: it is not held; the saver's while it is SAVING */
  bool alone;                   /* held, and DIR has it no more, or not whole */
  bool fresh;       /* it was seen without its sign, or not at all, and was not held since */
  bool relinked;    /* it was held: its inodes have another time of change for that reason */
  bool unheld;      /* it cannot be held, and that has been said */
  int64_t whole_ms; /* when it was seen to be whole first; 0: it was not */
  bool counted;     /* by behind.h, as one that is not stored */
  char fingerprint[CLEAT__RUN_ID_MAX]; /* as last seen; "": could not be read */
  char id[CLEAT__RUN_ID_MAX];          /* the same of its id */
  struct cleat_error
      refused; /* why its files cannot be listed, such as a link to a folder; or OK */
  bool refusal_told;
  bool absence_told;    /* that files are elsewhere */
  int64_t since_ms;     /* it has been that since */
  size_t files;         /* as last seen */
  size_t settled_files; /* when it was ready first; fewer than that: it is being removed */
  char judged[CLEAT__RUN_ID_MAX]; /* STORED, LEFT: the contents that this holds for */
  unsigned tries;                 /* at saving, in a row, that failed */
  int64_t retry_ms;               /* not to be tried before */
};

/* A tool that removes its old checkpoints does so file by file, its sign perhaps last: what has been whole and has lost
 * a file since is never saved again, and never in place of what is stored. What has a sign and is stored was whole, and
 * is not saved again whatever happens to it. */
struct cleat__run_items {
  struct cleat__run_item *
      *items; /* by step, the lowest first; each stays where it is while it is busy */
  size_t count, capacity;
  bool scanned;       /* what is added from now on has come since */
  uint64_t passed_by; /* that were whole, and went before they were saved */
};

/* Holds are left for the next start. */
void cleat__run_items_clear(struct cleat__run_items *items);

/* Takes over what a scan has found (which is empty after), and checks the files of those that may have changed.
 * `watch` NULL: of all. `quiet_ms`: how long one without a sign must be unchanged. Errors: NO_MEMORY. */
cleat_status cleat__run_items_update(struct cleat__run_items *items, struct cleat__run_scan *scan,
                                     const char *dir, const struct cleat__run_watch *watch,
                                     int64_t quiet_ms, int64_t now_ms, struct cleat_error *err);

/* Makes one of the moves above. */
void cleat__run_item_move(struct cleat__run_item *item, enum cleat__run_item_state state);

/* It is not to be saved as it is. */
void cleat__run_item_leave(struct cleat__run_item *item);

/* What a person calls it: its path, or its first name if it lies in DIR itself. */
const char *cleat__run_item_name(const struct cleat__run_item *item);

/* It may be saved from now on, as it was last seen. */
void cleat__run_item_make_ready(struct cleat__run_item *item);

/* It is whole as far as its tool's sign tells, or by its rest. */
bool cleat__run_item_is_whole(const struct cleat__run_item *item);

/* Lets go of its hold, if there is one. */
void cleat__run_item_let_go(struct cleat__run_item *item);

/* When a checkpoint that is seen can be ready, if nothing of it changes: then it is to be checked again. -1: none. */
int64_t cleat__run_items_due(const struct cleat__run_items *items, int64_t quiet_ms);

/* The one to be saved next: the lowest step or the highest. NULL: none is ready now; *retry_ms (-1: never) says when
 * one will be that has to wait for its next try. */
struct cleat__run_item *cleat__run_items_next(struct cleat__run_items *items, bool newest_first,
                                              int64_t now_ms, int64_t *retry_ms);

/* The oldest that is stored when more than `keep` are; NULL: none. `keep` 0: all stay. */
struct cleat__run_item *cleat__run_items_outdated(struct cleat__run_items *items, unsigned keep);

struct cleat__run_item *cleat__run_items_find(struct cleat__run_items *items, int64_t step);

/* The newest that is ready, being saved or stored; NULL: none. */
struct cleat__run_item *cleat__run_items_newest(struct cleat__run_items *items);

/* How many are seen to be whole, ready or being saved. */
size_t cleat__run_items_pending(const struct cleat__run_items *items);

#endif
