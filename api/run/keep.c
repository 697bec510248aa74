/* keep.c: see keep.h. */
#include "api/run/keep.h"

#include "api/run/metadata.h"

#include <string.h>

static bool is_waiting(const struct cleat__run_item *item) {
  return item->state == CLEAT__RUN_SEEN || item->state == CLEAT__RUN_READY;
}

/* Finds the newest complete checkpoint that is not stored. Without a sign, a checkpoint counts as complete once it is
 * ready. NULL: none. */
static struct cleat__run_item *newest_whole(const struct cleat__run_items *items) {
  for (size_t i = items->count; i-- > 0;) {
    struct cleat__run_item *item = items->items[i];
    bool whole =
        cleat__run_item_is_whole(item) && (item->found.has_sign || item->hold || item->state == CLEAT__RUN_READY);
    if (is_waiting(item) && whole && !item->deleting)
      return item;
  }
  return NULL;
}

size_t cleat__run_keep_count(const struct cleat__run_items *items) {
  size_t count = 0;
  for (size_t i = 0; i < items->count; i++)
    count += items->items[i]->hold != NULL;
  return count;
}

/* Makes room for one more hold beside `other`. Releases the newest waiting holds first. Never releases a checkpoint
 * that is being saved. */
static void make_room(struct cleat__run_items *items, const struct cleat__run_item *item,
                      const struct cleat__run_item *other) {
  for (size_t i = items->count; cleat__run_keep_count(items) >= CLEAT__RUN_HELD_MAX && i-- > 0;) {
    struct cleat__run_item *held = items->items[i];
    if (held == item || held == other || !held->hold || !is_waiting(held))
      continue;
    cleat__run_item_let_go(held);
    if (held->gone) {
      cleat__run_item_move(held, CLEAT__RUN_LEFT);
      items->passed_by++;
    }
  }
}

/* True if the held files are the ones that were checked. Our own links do not count as a change. */
static bool is_as_seen(const struct cleat__run_item *item, const struct cleat__run_hold *hold) {
  struct cleat__run_contents contents;
  struct cleat_error ignored;
  char id[CLEAT__RUN_ID_MAX];
  if (cleat__run_hold_contents(hold, &contents, &ignored) != CLEAT_OK)
    return false;
  cleat__run_contents_id(&contents, id);
  cleat__run_contents_clear(&contents);
  return strcmp(id, item->id) == 0;
}

static cleat_status hold(struct cleat__run_item *item, struct cleat__run_holds *holds, const char *dir,
                         struct cleat_error *err) {
  struct cleat__run_hold *made = NULL;
  bool settled = item->state == CLEAT__RUN_READY;
  cleat_status status = cleat__run_hold_make(holds, dir, &item->found, item->fresh, settled, &made, err);
  item->relinked = true; /* also after a failure, which may have linked some files */
  if (status != CLEAT_OK)
    return status;
  if (settled && !is_as_seen(item, made)) {
    cleat__run_hold_drop(made);
    return cleat__error_set(err, CLEAT_CHANGED, "'%s' changed before it was held", item->found.path);
  }
  item->hold = made;
  item->fresh = false;
  return CLEAT_OK;
}

/* The checkpoint is being written or removed. It may be possible to hold it later. */
static bool is_moving(cleat_status status) {
  return status == CLEAT_CHANGED || status == CLEAT_NOT_FOUND;
}

bool cleat__run_keep_newest(struct cleat__run_items *items, struct cleat__run_holds *holds, const char *dir,
                            struct cleat_error *err) {
  struct cleat__run_item *newest = newest_whole(items);
  for (size_t i = 0; i < items->count; i++) {
    struct cleat__run_item *item = items->items[i];
    /* The last checkpoint of a job may be its only copy if it could not be saved. The next start recovers it. */
    bool last = item->alone && !newest;
    if (item->hold && (item->state == CLEAT__RUN_STORED || (item->state == CLEAT__RUN_LEFT && !last)))
      cleat__run_item_let_go(item);
  }
  if (!newest || newest->hold || newest->unheld)
    return true;
  make_room(items, newest, NULL);
  cleat_status status = hold(newest, holds, dir, err);
  newest->unheld = status != CLEAT_OK && !is_moving(status);
  return !newest->unheld;
}

bool cleat__run_keep_for_save(struct cleat__run_items *items, struct cleat__run_holds *holds, const char *dir,
                              struct cleat__run_item *item) {
  struct cleat_error ignored;
  if (item->hold || item->unheld)
    return true;
  make_room(items, item, newest_whole(items));
  cleat_status status = hold(item, holds, dir, &ignored);
  item->unheld = status != CLEAT_OK && !is_moving(status);
  return !is_moving(status);
}
