/* orders.h: the orders to the saver: which one is next, and which one is under way.
 *
 * cleat__run_orders_next decides. The loop then gives the order with one of the functions below, and takes its result.
 * Times are in milliseconds of the monotonic clock. One thread at a time; the saver has its own. */
#ifndef CLEAT_API_RUN_ORDERS_H
#define CLEAT_API_RUN_ORDERS_H

#include "api/run/deadlines.h"
#include "api/run/items.h"
#include "api/run/saver.h"

/*     IDLE ──────► WORKING    the saver is given an order
 *     WORKING ───► STOPPING   the order is canceled
 *     WORKING ───► IDLE       its result was taken
 *     STOPPING ──► IDLE       the same */
enum cleat__run_orders_phase { CLEAT__RUN_IDLE = 0, CLEAT__RUN_WORKING, CLEAT__RUN_STOPPING };

struct cleat__run_orders {
  struct cleat__run_saver *saver; /* owned */
  enum cleat__run_orders_phase phase;
  struct cleat__run_order order; /* the last order */
  struct cleat__run_item *item;  /* the item that the order is for; NULL: none */
  struct cleat__run_item *lent;  /* an item that a final state reads too; NULL: none */
  char fingerprint[CLEAT__RUN_ID_MAX];
  struct cleat__run_restore_options restore;
  bool offline;       /* the store did not answer at the start: ask it before saving */
  unsigned queries;   /* failed queries while offline */
  int64_t query_ms;   /* no query before this time */
  bool yielded;       /* an older save was stopped in favor of the newest */
  bool final_settled; /* the final state was ordered, or will not be */
  bool over_said;     /* rank 0: the last order was given, so the other ranks end */
};

void cleat__run_orders_clear(struct cleat__run_orders *orders);

bool cleat__run_orders_are_busy(const struct cleat__run_orders *orders);

/* ---- Deciding ---------------------------------------------------------------------------------------- */

/* What else a decision depends on. */
struct cleat__run_wants {
  bool leads;          /* we are rank 0 of several */
  bool flushing;       /* the command has ended, and pending checkpoints are saved */
  bool final;          /* save the final state, now that the command has ended well */
  unsigned keep_local; /* how many checkpoints stay in DIR; 0: all */
};

enum cleat__run_decision {
  CLEAT__RUN_DECIDE_NOTHING = 0,
  CLEAT__RUN_DECIDE_QUERY, /* ask the store for its newest step */
  CLEAT__RUN_DECIDE_SAVE,
  CLEAT__RUN_DECIDE_DELETE,
  CLEAT__RUN_DECIDE_FINAL,
  CLEAT__RUN_DECIDE_SAY_OVER
};

/* Decides the next order while the saver is idle. *item is set for SAVE and DELETE. */
enum cleat__run_decision cleat__run_orders_next(const struct cleat__run_orders *orders, struct cleat__run_items *items,
                                                const struct cleat__run_wants *wants, int64_t now_ms,
                                                struct cleat__run_item **item);

/* True, once: time is limited, and a newer checkpoint is ready than the one being saved. The caller stops that save. */
bool cleat__run_orders_yield(struct cleat__run_orders *orders, struct cleat__run_items *items, int64_t now_ms);

/* True if an item is ready or waits for its retry, or the saver works. A query does not count. */
bool cleat__run_orders_have_work(const struct cleat__run_orders *orders, const struct cleat__run_items *items);

/* If there is no such work: true if a deletion, the final state or rank 0's last order is still to come. */
bool cleat__run_orders_want_more(const struct cleat__run_orders *orders, struct cleat__run_items *items,
                                 const struct cleat__run_wants *wants);

/* When cleat__run_orders_next will decide something if nothing else happens. -1: unknown. */
int64_t cleat__run_orders_due(const struct cleat__run_orders *orders, struct cleat__run_items *items, int64_t now_ms);

/* ---- Giving ------------------------------------------------------------------------------------------ */

/* These give an order. The saver must be idle. With `joins` the order is JOIN: several ranks first join the start of
 * the job. */
void cleat__run_orders_restore(struct cleat__run_orders *orders, const struct cleat__run_restore_options *restore,
                               bool joins);
void cleat__run_orders_query(struct cleat__run_orders *orders);
void cleat__run_orders_save(struct cleat__run_orders *orders, struct cleat__run_item *item,
                            enum cleat_if_exists if_exists);
void cleat__run_orders_delete(struct cleat__run_orders *orders, struct cleat__run_item *item);
void cleat__run_orders_final(struct cleat__run_orders *orders, struct cleat__run_items *items, int64_t step);
void cleat__run_orders_follow(struct cleat__run_orders *orders, enum cleat_if_exists if_exists);
void cleat__run_orders_say_over(struct cleat__run_orders *orders);

/* Cancels the order under way, if there is one. */
void cleat__run_orders_stop(struct cleat__run_orders *orders);

/* True: the order has ended. The caller clears the result. It calls cleat__run_orders_release once it has judged the
 * order's item. */
bool cleat__run_orders_take(struct cleat__run_orders *orders, struct cleat__run_result *result);
void cleat__run_orders_release(struct cleat__run_orders *orders);

/* The store did not answer at the start. It must be asked before anything is saved. */
void cleat__run_orders_go_offline(struct cleat__run_orders *orders);

/* The result of a query: the store answers, or it is asked again later. The second returns how many queries have
 * failed. */
void cleat__run_orders_go_online(struct cleat__run_orders *orders);
unsigned cleat__run_orders_query_failed(struct cleat__run_orders *orders, const struct cleat__run_deadlines *deadlines,
                                        int64_t now_ms);

/* Gives the final state up. */
void cleat__run_orders_skip_final(struct cleat__run_orders *orders);

#endif
