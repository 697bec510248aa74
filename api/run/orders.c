/* orders.c: see orders.h. */
#include "api/run/orders.h"

#include "api/run/metadata.h"

#include <assert.h>

static void move(struct cleat__run_orders *orders, enum cleat__run_orders_phase phase) {
  bool legal = phase == CLEAT__RUN_WORKING    ? orders->phase == CLEAT__RUN_IDLE
               : phase == CLEAT__RUN_STOPPING ? orders->phase == CLEAT__RUN_WORKING
                                              : orders->phase != CLEAT__RUN_IDLE;
  assert(legal);
  (void)legal; /* unused in release builds */
  orders->phase = phase;
}

void cleat__run_orders_clear(struct cleat__run_orders *orders) {
  cleat__run_saver_close(orders->saver);
  orders->saver = NULL;
}

bool cleat__run_orders_are_busy(const struct cleat__run_orders *orders) {
  return orders->phase != CLEAT__RUN_IDLE;
}

/* ---- Deciding ---------------------------------------------------------------------------------------- */

bool cleat__run_orders_have_work(const struct cleat__run_orders *orders, const struct cleat__run_items *items) {
  for (size_t i = 0; i < items->count; i++) {
    enum cleat__run_item_state state = items->items[i]->state;
    if (state == CLEAT__RUN_READY || state == CLEAT__RUN_SAVING)
      return true;
  }
  return cleat__run_orders_are_busy(orders) && orders->order.kind != CLEAT__RUN_RESTORE;
}

static bool wants_final(const struct cleat__run_orders *orders, const struct cleat__run_items *items,
                        const struct cleat__run_wants *wants) {
  return wants->final && !orders->final_settled && wants->flushing && !cleat__run_orders_have_work(orders, items);
}

/* True if rank 0 must still give the last order. The other ranks wait for it. */
static bool wants_over(const struct cleat__run_orders *orders, const struct cleat__run_items *items,
                       const struct cleat__run_wants *wants) {
  return wants->leads && wants->flushing && !orders->over_said && !cleat__run_orders_have_work(orders, items);
}

/* Decides the next order. While the store is offline, it must be asked first: a final state is numbered after its
 * newest step. */
enum cleat__run_decision cleat__run_orders_next(const struct cleat__run_orders *orders, struct cleat__run_items *items,
                                                const struct cleat__run_wants *wants, int64_t now_ms,
                                                struct cleat__run_item **item) {
  int64_t retry_ms;
  if (orders->offline)
    return now_ms >= orders->query_ms ? CLEAT__RUN_DECIDE_QUERY : CLEAT__RUN_DECIDE_NOTHING;
  /* Newest first: if the machine is lost, the work since the newest stored checkpoint is lost. */
  *item = cleat__run_items_next(items, true, now_ms, &retry_ms);
  if (*item)
    return CLEAT__RUN_DECIDE_SAVE;
  *item = cleat__run_items_outdated(items, wants->keep_local);
  if (*item)
    return CLEAT__RUN_DECIDE_DELETE;
  if (wants_final(orders, items, wants))
    return CLEAT__RUN_DECIDE_FINAL;
  return wants_over(orders, items, wants) ? CLEAT__RUN_DECIDE_SAY_OVER : CLEAT__RUN_DECIDE_NOTHING;
}

bool cleat__run_orders_yield(struct cleat__run_orders *orders, struct cleat__run_items *items, int64_t now_ms) {
  int64_t retry_ms;
  if (orders->order.kind != CLEAT__RUN_SAVE || orders->yielded)
    return false;
  struct cleat__run_item *item = cleat__run_items_next(items, true, now_ms, &retry_ms);
  if (!item || item->found.step < orders->order.step)
    return false;
  orders->yielded = true;
  return true;
}

bool cleat__run_orders_want_more(const struct cleat__run_orders *orders, struct cleat__run_items *items,
                                 const struct cleat__run_wants *wants) {
  return cleat__run_items_outdated(items, wants->keep_local) || wants_final(orders, items, wants) ||
         wants_over(orders, items, wants);
}

int64_t cleat__run_orders_due(const struct cleat__run_orders *orders, struct cleat__run_items *items, int64_t now_ms) {
  int64_t retry_ms;
  if (cleat__run_orders_are_busy(orders))
    return -1;
  if (orders->offline)
    return orders->query_ms;
  return cleat__run_items_next(items, false, now_ms, &retry_ms) ? now_ms : retry_ms;
}

/* ---- Giving ------------------------------------------------------------------------------------------ */

static void give(struct cleat__run_orders *orders, const struct cleat__run_order *order, struct cleat__run_item *item) {
  move(orders, CLEAT__RUN_WORKING);
  orders->order = *order;
  orders->item = item;
  cleat__run_saver_give(orders->saver, &orders->order);
}

void cleat__run_orders_restore(struct cleat__run_orders *orders, const struct cleat__run_restore_options *restore,
                               bool joins) {
  orders->restore = *restore;
  give(orders,
       &(struct cleat__run_order){.kind = joins ? CLEAT__RUN_JOIN : CLEAT__RUN_RESTORE, .restore = &orders->restore},
       NULL);
}

void cleat__run_orders_query(struct cleat__run_orders *orders) {
  orders->restore.query_only = true;
  give(orders, &(struct cleat__run_order){.kind = CLEAT__RUN_RESTORE, .restore = &orders->restore}, NULL);
}

void cleat__run_orders_save(struct cleat__run_orders *orders, struct cleat__run_item *item,
                            enum cleat_if_exists if_exists) {
  cleat__run_item_move(item, CLEAT__RUN_SAVING);
  cleat__run_id_copy(orders->fingerprint, item->fingerprint);
  give(orders,
       &(struct cleat__run_order){.kind = CLEAT__RUN_SAVE,
                                  .found = item->hold ? &item->hold->found : &item->found,
                                  .step = item->found.step,
                                  .fingerprint = orders->fingerprint,
                                  .hold = item->hold,
                                  .if_exists = if_exists,
                                  .again = item->committed},
       item);
}

void cleat__run_orders_delete(struct cleat__run_orders *orders, struct cleat__run_item *item) {
  item->deleting = true;
  give(orders, &(struct cleat__run_order){.kind = CLEAT__RUN_DELETE, .found = &item->found, .step = item->found.step},
       item);
}

void cleat__run_orders_final(struct cleat__run_orders *orders, struct cleat__run_items *items, int64_t step) {
  struct cleat__run_item *newest = cleat__run_items_newest(items);
  orders->final_settled = true;
  orders->lent = newest;
  if (newest)
    newest->lent = true;
  give(orders,
       &(struct cleat__run_order){.kind = CLEAT__RUN_FINAL,
                                  .found = newest ? &newest->found : NULL,
                                  .step = step,
                                  .if_exists = CLEAT_IF_EXISTS_FAIL},
       NULL);
}

void cleat__run_orders_follow(struct cleat__run_orders *orders, enum cleat_if_exists if_exists) {
  give(orders, &(struct cleat__run_order){.kind = CLEAT__RUN_FOLLOW, .if_exists = if_exists}, NULL);
}

void cleat__run_orders_say_over(struct cleat__run_orders *orders) {
  orders->over_said = true;
  give(orders, &(struct cleat__run_order){.kind = CLEAT__RUN_SAY_OVER}, NULL);
}

void cleat__run_orders_stop(struct cleat__run_orders *orders) {
  if (!cleat__run_orders_are_busy(orders))
    return;
  if (orders->phase == CLEAT__RUN_WORKING)
    move(orders, CLEAT__RUN_STOPPING);
  cleat__run_saver_cancel(orders->saver);
}

bool cleat__run_orders_take(struct cleat__run_orders *orders, struct cleat__run_result *result) {
  if (!cleat__run_orders_are_busy(orders) || !cleat__run_saver_take(orders->saver, result))
    return false;
  move(orders, CLEAT__RUN_IDLE);
  return true;
}

void cleat__run_orders_release(struct cleat__run_orders *orders) {
  orders->item = NULL;
  if (orders->lent)
    orders->lent->lent = false;
  orders->lent = NULL;
}

/* ---- The store does not answer ----------------------------------------------------------------------- */

void cleat__run_orders_go_offline(struct cleat__run_orders *orders) {
  orders->offline = true;
}

void cleat__run_orders_go_online(struct cleat__run_orders *orders) {
  orders->offline = false;
}

unsigned cleat__run_orders_query_failed(struct cleat__run_orders *orders, const struct cleat__run_deadlines *deadlines,
                                        int64_t now_ms) {
  orders->queries++;
  orders->query_ms = now_ms + cleat__run_deadlines_retry_ms(deadlines, orders->queries);
  return orders->queries;
}

void cleat__run_orders_skip_final(struct cleat__run_orders *orders) {
  orders->final_settled = true;
}
