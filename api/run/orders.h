/* orders.h: orders to the saver: which one is next, and which one is under way.
 *
 * cleat__run_orders_next decides; the loop gives the order by one of the functions below, and takes its result.
 * Times are of the monotonic clock, in milliseconds. One thread at a time; the saver has its own. */
#ifndef CLEAT_API_RUN_ORDERS_H
#define CLEAT_API_RUN_ORDERS_H

#include "api/run/deadlines.h"
#include "api/run/items.h"
#include "api/run/saver.h"

/*     IDLE ──────► WORKING    the saver is given an order
 *     WORKING ───► STOPPING   the order is canceled
 *     WORKING ───► IDLE       its result is there
 *     STOPPING ──► IDLE       the same */
enum cleat__run_orders_phase { CLEAT__RUN_IDLE = 0, CLEAT__RUN_WORKING, CLEAT__RUN_STOPPING };

struct cleat__run_orders {
  struct cleat__run_saver *saver; /* owned */
  enum cleat__run_orders_phase phase;
  struct cleat__run_order order; /* the last one */
  struct cleat__run_item *item;  /* that it works on; NULL: none */
  struct cleat__run_item *lent;  /* that it reads beside a final state; NULL: none */
  char fingerprint[CLEAT__RUN_ID_MAX];
  struct cleat__run_restore_options restore;
  bool offline; /* the store did not answer at the start: it is asked before anything is saved */
  unsigned queries;   /* that failed, while it is offline */
  int64_t query_ms;   /* none before */
  bool yielded;       /* an older save was stopped for the newest */
  bool final_settled; /* the final state is saved, or will not be */
  bool over_said;     /* rank 0: the other ranks know that there is nothing more to save */
};

void cleat__run_orders_clear(struct cleat__run_orders *orders);

bool cleat__run_orders_are_busy(const struct cleat__run_orders *orders);

/* ---- Deciding ---------------------------------------------------------------------------------------- */

/* What a decision depends on besides. */
struct cleat__run_wants {
  bool leads;          /* this is rank 0 of several */
  bool flushing;       /* pending checkpoints are saved after the command's end */
  bool final;          /* the final state is to be saved, now that the command has ended well */
  unsigned keep_local; /* checkpoints in DIR; 0: all */
};

enum cleat__run_decision {
  CLEAT__RUN_DECIDE_NOTHING = 0,
  CLEAT__RUN_DECIDE_QUERY, /* ask the store what it has */
  CLEAT__RUN_DECIDE_SAVE,
  CLEAT__RUN_DECIDE_DELETE,
  CLEAT__RUN_DECIDE_FINAL,
  CLEAT__RUN_DECIDE_SAY_OVER
};

/* *item is set for SAVE and DELETE. The saver is idle. */
enum cleat__run_decision cleat__run_orders_next(const struct cleat__run_orders *orders,
                                                struct cleat__run_items *items,
                                                const struct cleat__run_wants *wants,
                                                int64_t now_ms, struct cleat__run_item **item);

/* Seconds count, and a newer checkpoint is ready than the one that is being saved: that save is to stop. Once. */
bool cleat__run_orders_yield(struct cleat__run_orders *orders, struct cleat__run_items *items,
                             int64_t now_ms);

/* Something is ready, waits for its next try, or the saver works. A query holds nobody up. */
bool cleat__run_orders_have_work(const struct cleat__run_orders *orders,
                                 const struct cleat__run_items *items);

/* With nothing of that: a deletion, the final state or the last word of rank 0 is still to come. */
bool cleat__run_orders_want_more(const struct cleat__run_orders *orders,
                                 struct cleat__run_items *items,
                                 const struct cleat__run_wants *wants);

/* When cleat__run_orders_next decides something if nothing else happens; -1: not known. */
int64_t cleat__run_orders_due(const struct cleat__run_orders *orders,
                              struct cleat__run_items *items, int64_t now_ms);

/* ---- Giving ------------------------------------------------------------------------------------------ */

/* All begin with an idle saver. JOIN with `joins`: several ranks first join the start of the job. */
void cleat__run_orders_restore(struct cleat__run_orders *orders,
                               const struct cleat__run_restore_options *restore, bool joins);
void cleat__run_orders_query(struct cleat__run_orders *orders);
void cleat__run_orders_save(struct cleat__run_orders *orders, struct cleat__run_item *item,
                            enum cleat_if_exists if_exists);
void cleat__run_orders_delete(struct cleat__run_orders *orders, struct cleat__run_item *item);
void cleat__run_orders_final(struct cleat__run_orders *orders, struct cleat__run_items *items,
                             int64_t step);
void cleat__run_orders_follow(struct cleat__run_orders *orders, enum cleat_if_exists if_exists);
void cleat__run_orders_say_over(struct cleat__run_orders *orders);

/* Cancels what is under way, if anything is. */
void cleat__run_orders_stop(struct cleat__run_orders *orders);

/* True: the order has ended; the caller clears the result, and calls cleat__run_orders_release
 * once it has judged the checkpoint that the order was for. */
bool cleat__run_orders_take(struct cleat__run_orders *orders, struct cleat__run_result *result);
void cleat__run_orders_release(struct cleat__run_orders *orders);

/* The store did not answer at the start: it is asked before anything is saved. */
void cleat__run_orders_go_offline(struct cleat__run_orders *orders);

/* What a query found: the store answers, or it is asked again later. Returns how many queries have failed. */
void cleat__run_orders_go_online(struct cleat__run_orders *orders);
unsigned cleat__run_orders_query_failed(struct cleat__run_orders *orders,
                                        const struct cleat__run_deadlines *deadlines,
                                        int64_t now_ms);

/* The final state will not be saved. */
void cleat__run_orders_skip_final(struct cleat__run_orders *orders);

#endif
