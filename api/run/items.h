/* items.h: what is known of each checkpoint in DIR, from the first sight of its name until it is in the store.
 *
 *     seen ──(complete, unchanged long enough)──► ready ──► saving ──► stored
 *
 * left: it is not saved in its present form, and the reason was reported.
 *
 * If a checkpoint is held (hold.h), the item describes the held files, whatever happens in DIR. When DIR no longer has
 * it, nothing can change it, and it is ready at once.
 *
 * Times are in milliseconds of a monotonic clock and come from the caller. One thread at a time. */
#ifndef CLEAT_API_RUN_ITEMS_H
#define CLEAT_API_RUN_ITEMS_H

#include "api/run/hold.h"
#include "api/run/layout.h"
#include "api/run/state.h"
#include "api/run/watch.h"

#include <stdbool.h>

/*     SEEN ────► READY     it is complete, and nothing has changed for long enough
 *     READY ───► SAVING    the saver has it
 *     SAVING ──► STORED    it is in the store
 *     SAVING ──► READY     the save failed
 *     SEEN ────► STORED    at the start: it is what the store has; also from READY
 *     any ─────► SEEN      its files have changed
 *     any ─────► LEFT      it is not saved in its present form */
enum cleat__run_item_state {
  CLEAT__RUN_SEEN = 0,
  CLEAT__RUN_READY,
  CLEAT__RUN_SAVING,
  CLEAT__RUN_STORED,
  CLEAT__RUN_LEFT
};

struct cleat__run_item {
  struct cleat__run_found found; /* not modified while the item is being saved or deleted */
  enum cleat__run_item_state state;
  bool lent;                           /* the saver reads `found` for a final state */
  bool deleting;                       /* the saver is deleting it */
  bool gone;                           /* not in DIR any more */
  bool committed;                      /* by this process, even if its files have changed since */
  struct cleat__run_hold *hold;        /* NULL: not held. The saver owns it while SAVING */
  bool alone;                          /* held, and no longer complete in DIR */
  bool fresh;                          /* seen before it had its sign, or new since the first scan; not held since */
  bool relinked;                       /* holding changed the ctime of its inodes */
  bool unheld;                         /* it cannot be held, and that was reported */
  int64_t whole_ms;                    /* when it was first seen complete; 0: never */
  bool counted;                        /* behind.h has counted it as not stored */
  char fingerprint[CLEAT__RUN_ID_MAX]; /* as last seen; "": could not be read */
  char id[CLEAT__RUN_ID_MAX];          /* the id, as last seen */
  /* why its files cannot be listed, such as a link to a folder; or OK */
  struct cleat_error refused;
  bool refusal_told;
  bool absence_told; /* missing files were reported */
  int64_t since_ms;  /* since when it has its present contents */
  size_t files;      /* number of files, as last seen */
  /* `files` when it first became ready; if there are fewer now, it is being removed */
  size_t settled_files;
  char judged[CLEAT__RUN_ID_MAX]; /* STORED, LEFT: the fingerprint for which this was decided */
  unsigned tries;                 /* failed attempts to save it, in a row */
  int64_t retry_ms;               /* no attempt before this time */
};

/* A tool removes an old checkpoint file by file, and its sign perhaps last. So a checkpoint that was complete and has
 * since lost a file is never saved again, and never replaces what is stored. A checkpoint that has a sign and is stored
 * was complete. It is not saved again, whatever happens to it. */
struct cleat__run_items {
  /* by step, lowest first; an item's address is stable while it is in use */
  struct cleat__run_item **items;
  size_t count, capacity;
  bool scanned;       /* the first scan is done: items that are added later are new */
  uint64_t passed_by; /* complete checkpoints that were removed before they could be saved */
};

/* Leaves the held files on disk for the next start. */
void cleat__run_items_clear(struct cleat__run_items *items);

/* What cleat__run_items_update compares checkpoints with. Borrowed for the call. */
struct cleat__run_settling {
  const char *dir;
  const struct cleat__run_watch *watch; /* what may have changed; NULL: everything */
  int64_t quiet_ms;                     /* how long a checkpoint without a sign must be unchanged */
  int64_t now_ms;
};

/* Takes over the findings of a scan (which is empty afterwards), and checks the files of items that may have changed.
 * Errors: NO_MEMORY. */
cleat_status cleat__run_items_update(struct cleat__run_items *items, struct cleat__run_scan *scan,
                                     const struct cleat__run_settling *settling, struct cleat_error *err);

/* Makes one of the moves above. */
void cleat__run_item_move(struct cleat__run_item *item, enum cleat__run_item_state state);

/* Moves the item to LEFT with its present contents: it is not saved in this form. */
void cleat__run_item_leave(struct cleat__run_item *item);

/* The name for messages: its path, or its first name if it lies in DIR itself. */
const char *cleat__run_item_name(const struct cleat__run_item *item);

/* Moves the item to READY: it may be saved with the contents that were last seen. */
void cleat__run_item_make_ready(struct cleat__run_item *item);

/* True if the checkpoint is complete as far as its tool's sign tells. Without a sign: if it could be read. */
bool cleat__run_item_is_whole(const struct cleat__run_item *item);

/* Drops its hold, if there is one. */
void cleat__run_item_let_go(struct cleat__run_item *item);

/* When the next seen checkpoint can become ready if nothing changes. It must be checked then. -1: none. */
int64_t cleat__run_items_due(const struct cleat__run_items *items, int64_t quiet_ms);

/* The item to save next: with the lowest or the highest step. NULL: none is ready now. *retry_ms is then the time of
 * the next retry; -1: none. */
struct cleat__run_item *cleat__run_items_next(struct cleat__run_items *items, bool newest_first, int64_t now_ms,
                                              int64_t *retry_ms);

/* The oldest stored item, if more than `keep` are stored. NULL: none. `keep` 0: all stay. */
struct cleat__run_item *cleat__run_items_outdated(struct cleat__run_items *items, unsigned keep);

struct cleat__run_item *cleat__run_items_find(struct cleat__run_items *items, int64_t step);

/* The newest item that is ready, being saved or stored. NULL: none. */
struct cleat__run_item *cleat__run_items_newest(struct cleat__run_items *items);

/* How many are complete but not stored: seen complete, ready or being saved. */
size_t cleat__run_items_pending(const struct cleat__run_items *items);

#endif
