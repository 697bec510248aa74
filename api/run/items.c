/* items.c: see items.h. */
#include "api/run/items.h"

#include "api/run/metadata.h"
#include "base/mem.h"

#include <assert.h>
#include <string.h>
#include <sys/stat.h>

static void item_free(struct cleat__run_item *item) {
  cleat__run_hold_drop(item->hold);
  cleat__run_found_clear(&item->found);
  cleat__free(item);
}

void cleat__run_items_clear(struct cleat__run_items *items) {
  for (size_t i = 0; i < items->count; i++) {
    cleat__run_hold_leave(items->items[i]->hold);
    items->items[i]->hold = NULL;
    item_free(items->items[i]);
  }
  cleat__free(items->items);
  *items = (struct cleat__run_items){0};
}

/* Finds the first item whose step is not below `step`. */
static size_t at_step(const struct cleat__run_items *items, int64_t step) {
  size_t low = 0, high = items->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (items->items[middle]->found.step < step)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

struct cleat__run_item *cleat__run_items_find(struct cleat__run_items *items, int64_t step) {
  size_t at = at_step(items, step);
  return at < items->count && items->items[at]->found.step == step ? items->items[at] : NULL;
}

/* ---- States --------------------------------------------------------------------------------------- */

static bool is_legal(enum cleat__run_item_state from, enum cleat__run_item_state to) {
  switch (to) {
  case CLEAT__RUN_SEEN:
  case CLEAT__RUN_LEFT:
    return true;
  case CLEAT__RUN_READY:
    return from == CLEAT__RUN_SEEN || from == CLEAT__RUN_SAVING;
  case CLEAT__RUN_SAVING:
    return from == CLEAT__RUN_READY;
  case CLEAT__RUN_STORED:
    return from != CLEAT__RUN_LEFT && from != CLEAT__RUN_STORED;
  }
  return false;
}

void cleat__run_item_move(struct cleat__run_item *item, enum cleat__run_item_state state) {
  bool legal = is_legal(item->state, state);
  assert(legal);
  (void)legal; /* unused in release builds */
  item->state = state;
}

void cleat__run_item_leave(struct cleat__run_item *item) {
  cleat__run_item_move(item, CLEAT__RUN_LEFT);
  cleat__run_id_copy(item->judged, item->fingerprint);
}

const char *cleat__run_item_name(const struct cleat__run_item *item) {
  const struct cleat__run_found *found = &item->found;
  return strcmp(found->path, ".") == 0 && found->entry_count ? found->entries[0] : found->path;
}

/* ---- Checking ----------------------------------------------------------------------------------- */

static bool is_busy(const struct cleat__run_item *item) {
  return item->state == CLEAT__RUN_SAVING || item->deleting || item->lent;
}

static bool may_have_changed(const struct cleat__run_item *item, const struct cleat__run_watch *watch) {
  if (!watch || item->relinked || item->state == CLEAT__RUN_SEEN || item->state == CLEAT__RUN_READY)
    return true;
  for (size_t i = 0; i < item->found.entry_count; i++) {
    if (cleat__run_watch_has(watch, item->found.entries[i]))
      return true;
  }
  return false;
}

/* Decides the new state after the contents have changed. */
static void take_change(struct cleat__run_item *item) {
  if (item->state == CLEAT__RUN_STORED && item->found.has_sign)
    return;
  if (item->state == CLEAT__RUN_LEFT && strcmp(item->fingerprint, item->judged) == 0)
    return;
  bool shrunk = item->files < item->settled_files;
  if (shrunk && item->state != CLEAT__RUN_STORED)
    cleat__run_item_move(item, CLEAT__RUN_LEFT);
  else if (!shrunk)
    cleat__run_item_move(item, CLEAT__RUN_SEEN);
}

/* True if only ctime has changed, because our hold was made or released. The bytes have not changed: see hold.c. */
static bool is_relinked(struct cleat__run_item *item, const char *now, const char *id) {
  bool relinked = item->relinked && id[0] && strcmp(id, item->id) == 0;
  item->relinked = false;
  if (!relinked)
    return false;
  if (strcmp(item->judged, item->fingerprint) == 0)
    cleat__run_id_copy(item->judged, now);
  cleat__run_id_copy(item->fingerprint, now);
  return true;
}

/* Checks the files for changes. A checkpoint that cannot be read counts as changed: it is being written or removed, or
 * it has files that are never saved. */
static cleat_status check_files(struct cleat__run_item *item, const char *dir, int64_t now_ms,
                                struct cleat_error *err) {
  struct cleat__run_contents contents;
  char now[CLEAT__RUN_ID_MAX] = "", id[CLEAT__RUN_ID_MAX] = "";
  size_t files = 0;
  cleat_status status = cleat__run_contents_read(dir, &item->found, &contents, err);
  if (status == CLEAT_NO_MEMORY)
    return status;
  if (status == CLEAT_OK) {
    cleat__run_fingerprint(&contents, now);
    cleat__run_contents_id(&contents, id);
    files = contents.file_count;
    cleat__run_contents_clear(&contents);
  }
  if (status == CLEAT_OK || status == CLEAT_NOT_FOUND)
    cleat__error_clear(&item->refused);
  else
    item->refused = *err;
  if (is_relinked(item, now, id) || strcmp(now, item->fingerprint) == 0)
    return CLEAT_OK;
  cleat__run_id_copy(item->fingerprint, now);
  cleat__run_id_copy(item->id, id);
  item->unheld = false;
  item->files = files;
  item->since_ms = now_ms;
  item->tries = 0;
  item->retry_ms = 0;
  take_change(item);
  return CLEAT_OK;
}

/* ---- What is held -------------------------------------------------------------------------------- */

void cleat__run_item_let_go(struct cleat__run_item *item) {
  item->relinked = item->relinked || item->hold;
  item->alone = false;
  cleat__run_hold_drop(item->hold);
  item->hold = NULL;
}

/* Starts the settle time again. */
static void restart_settling(struct cleat__run_item *item, int64_t now_ms) {
  item->since_ms = now_ms;
  item->tries = 0;
  item->retry_ms = 0;
  if (item->state == CLEAT__RUN_READY)
    cleat__run_item_move(item, CLEAT__RUN_SEEN);
}

static cleat_status see_hold(struct cleat__run_item *item, struct cleat_error *err) {
  struct cleat__run_contents contents;
  cleat_status status = cleat__run_hold_contents(item->hold, &contents, err);
  if (status != CLEAT_OK)
    return status;
  cleat__run_fingerprint(&contents, item->fingerprint);
  cleat__run_contents_id(&contents, item->id);
  item->files = contents.file_count;
  cleat__run_contents_clear(&contents);
  return CLEAT_OK;
}

/* Compares the held files with a complete checkpoint in DIR. False: DIR has another one now. */
static bool check_beside(struct cleat__run_item *item, const char *dir, bool *touched) {
  struct cleat_error ignored;
  bool sure = item->hold->sure && !item->hold->rewrote;
  switch (cleat__run_hold_compare(item->hold, dir, &item->found)) {
  case CLEAT__RUN_BESIDE_MORE:
    *touched = true;
    (void)cleat__run_hold_extend(item->hold, dir, &item->found, &ignored);
    return true;
  case CLEAT__RUN_BESIDE_MOVED:
    item->fresh = sure;
    return false;
  case CLEAT__RUN_BESIDE_OTHER:
    return false;
  case CLEAT__RUN_BESIDE_LESS:
    /* It is being removed. If it was never known to be complete, the removal may have begun before the hold. */
    return sure;
  default:
    return true;
  }
}

/* False: the hold is released. `newer`: DIR has a newer complete checkpoint. */
static bool check_held(struct cleat__run_item *item, const char *dir, bool newer, int64_t now_ms) {
  enum cleat__run_hold_news news = cleat__run_hold_check(item->hold);
  bool touched = news == CLEAT__RUN_HOLD_TOUCHED, good = news != CLEAT__RUN_HOLD_LOST;
  item->alone = item->gone || (item->found.has_sign && !item->found.whole);
  if (good && !item->alone)
    good = check_beside(item, dir, &touched);
  else if (good)
    good = cleat__run_hold_stands_alone(item->hold, newer);
  if (good && touched)
    restart_settling(item, now_ms);
  if (!good)
    cleat__run_item_let_go(item);
  return good;
}

bool cleat__run_item_is_whole(const struct cleat__run_item *item) {
  return item->fingerprint[0] && (item->alone || !item->found.has_sign || item->found.whole);
}

/* When the checkpoint becomes ready if nothing changes. -1: it cannot, in its present state. */
static int64_t ready_ms(const struct cleat__run_item *item, int64_t quiet_ms) {
  if (item->alone)
    return item->since_ms;
  if (!item->fingerprint[0] || (item->found.has_sign && !item->found.whole))
    return -1;
  return item->since_ms + (item->found.has_sign ? item->found.settle_ms : quiet_ms);
}

void cleat__run_item_make_ready(struct cleat__run_item *item) {
  cleat__run_item_move(item, CLEAT__RUN_READY);
  if (item->settled_files == 0)
    item->settled_files = item->files;
  if (item->hold && !item->alone)
    cleat__run_hold_settle(item->hold);
}

static void judge(struct cleat__run_item *item, int64_t quiet_ms, int64_t now_ms) {
  int64_t due_ms = ready_ms(item, quiet_ms);
  if (item->state == CLEAT__RUN_SEEN && due_ms >= 0 && now_ms >= due_ms)
    cleat__run_item_make_ready(item);
  else if (item->state == CLEAT__RUN_READY && due_ms < 0)
    cleat__run_item_move(item, CLEAT__RUN_SEEN); /* its sign was removed */
}

/* ---- Updating ---------------------------------------------------------------------------------- */

static cleat_status add(struct cleat__run_items *items, size_t at, struct cleat__run_found *found,
                        struct cleat_error *err) {
  struct cleat__run_item **grown =
      cleat__grow(items->items, &items->capacity, items->count, sizeof(struct cleat__run_item *));
  if (grown)
    items->items = grown;
  struct cleat__run_item *item = grown ? cleat__calloc(1, sizeof *item) : NULL;
  if (!item)
    return cleat__error_no_memory(err, "the list of checkpoints");
  memmove(&grown[at + 1], &grown[at], (items->count - at) * sizeof(struct cleat__run_item *));
  grown[at] = item;
  item->found = *found;
  item->fresh = items->scanned;
  items->count++;
  *found = (struct cleat__run_found){0};
  return CLEAT_OK;
}

/* Another name now stands for the step, and the old name still exists. So this is a newer version, and not the rest of
 * a removal. It is treated like a checkpoint that is seen for the first time. */
static void take_name(struct cleat__run_item *item, const struct cleat__run_found *found, const char *dir) {
  struct stat info;
  if (strcmp(item->found.path, found->path) == 0)
    return;
  char *before = cleat__strprintf("%s/%s", dir, item->found.path);
  if (before && lstat(before, &info) == 0) {
    cleat__run_item_move(item, CLEAT__RUN_SEEN);
    item->settled_files = 0;
  }
  cleat__free(before);
}

static cleat_status enter(struct cleat__run_items *items, struct cleat__run_found *found, const char *dir,
                          struct cleat_error *err) {
  size_t at = at_step(items, found->step);
  if (at == items->count || items->items[at]->found.step != found->step)
    return add(items, at, found, err);
  struct cleat__run_item *item = items->items[at];
  item->gone = false;
  if (is_busy(item))
    return CLEAT_OK;
  take_name(item, found, dir);
  cleat__run_found_clear(&item->found);
  item->found = *found;
  item->fresh = item->fresh || (found->has_sign && !found->whole);
  *found = (struct cleat__run_found){0};
  return CLEAT_OK;
}

/* Forgets items that are gone from DIR, unless they are in use or held. */
static void drop_gone(struct cleat__run_items *items) {
  size_t kept = 0;
  for (size_t i = 0; i < items->count; i++) {
    struct cleat__run_item *item = items->items[i];
    if (!item->gone || is_busy(item) || item->hold) {
      items->items[kept++] = item;
      continue;
    }
    items->passed_by += item->whole_ms > 0 && (item->state == CLEAT__RUN_SEEN || item->state == CLEAT__RUN_READY);
    item_free(item);
  }
  items->count = kept;
}

static bool has_newer(const struct cleat__run_items *items, size_t than) {
  for (size_t i = than + 1; i < items->count; i++) {
    const struct cleat__run_item *item = items->items[i];
    if (!item->gone && cleat__run_item_is_whole(item))
      return true;
  }
  return false;
}

static cleat_status check_item(struct cleat__run_items *items, size_t at, const struct cleat__run_settling *settling,
                               struct cleat_error *err) {
  struct cleat__run_item *item = items->items[at];
  int64_t now_ms = settling->now_ms;
  cleat_status status = CLEAT_OK;
  if (item->hold && check_held(item, settling->dir, has_newer(items, at), now_ms))
    status = see_hold(item, err);
  else if (!item->gone && may_have_changed(item, settling->watch))
    status = check_files(item, settling->dir, now_ms, err);
  judge(item, settling->quiet_ms, now_ms);
  bool is_signed = item->found.has_sign && cleat__run_item_is_whole(item);
  if (item->whole_ms == 0 && (is_signed || item->state == CLEAT__RUN_READY))
    item->whole_ms = now_ms;
  return status;
}

cleat_status cleat__run_items_update(struct cleat__run_items *items, struct cleat__run_scan *scan,
                                     const struct cleat__run_settling *settling, struct cleat_error *err) {
  cleat_status status = CLEAT_OK;
  for (size_t i = 0; i < items->count; i++)
    items->items[i]->gone = true;
  for (size_t i = 0; status == CLEAT_OK && i < scan->count; i++)
    status = enter(items, &scan->items[i], settling->dir, err);
  if (status != CLEAT_OK)
    return status;
  drop_gone(items);
  /* Newest first: for an item that is gone it matters whether a newer one exists. */
  for (size_t i = items->count; status == CLEAT_OK && i-- > 0;) {
    if (!is_busy(items->items[i]))
      status = check_item(items, i, settling, err);
  }
  drop_gone(items);
  items->scanned = true;
  return status;
}

int64_t cleat__run_items_due(const struct cleat__run_items *items, int64_t quiet_ms) {
  int64_t first = -1;
  for (size_t i = 0; i < items->count; i++) {
    const struct cleat__run_item *item = items->items[i];
    int64_t due_ms = item->state == CLEAT__RUN_SEEN ? ready_ms(item, quiet_ms) : -1;
    if (due_ms >= 0 && (first < 0 || due_ms < first))
      first = due_ms;
  }
  return first;
}

/* ---- Choosing ---------------------------------------------------------------------------------- */

struct cleat__run_item *cleat__run_items_next(struct cleat__run_items *items, bool newest_first, int64_t now_ms,
                                              int64_t *retry_ms) {
  struct cleat__run_item *next = NULL;
  *retry_ms = -1;
  for (size_t i = 0; i < items->count; i++) {
    struct cleat__run_item *item = items->items[i];
    if (item->state != CLEAT__RUN_READY)
      continue;
    if (item->retry_ms > now_ms) {
      if (*retry_ms < 0 || item->retry_ms < *retry_ms)
        *retry_ms = item->retry_ms;
    } else if (!next || newest_first) {
      next = item;
    }
  }
  return next;
}

struct cleat__run_item *cleat__run_items_outdated(struct cleat__run_items *items, unsigned keep) {
  struct cleat__run_item *oldest = NULL;
  size_t stored = 0;
  for (size_t i = 0; keep > 0 && i < items->count; i++) {
    struct cleat__run_item *item = items->items[i];
    if (item->state != CLEAT__RUN_STORED || item->deleting || item->gone)
      continue;
    stored++;
    if (!oldest)
      oldest = item;
  }
  return stored > keep ? oldest : NULL;
}

struct cleat__run_item *cleat__run_items_newest(struct cleat__run_items *items) {
  for (size_t i = items->count; i-- > 0;) {
    struct cleat__run_item *item = items->items[i];
    if (!item->gone && item->state != CLEAT__RUN_SEEN && item->state != CLEAT__RUN_LEFT)
      return item;
  }
  return NULL;
}

size_t cleat__run_items_pending(const struct cleat__run_items *items) {
  size_t pending = 0;
  for (size_t i = 0; i < items->count; i++) {
    const struct cleat__run_item *item = items->items[i];
    bool whole = item->state == CLEAT__RUN_SEEN && cleat__run_item_is_whole(item);
    pending += whole || item->state == CLEAT__RUN_READY || item->state == CLEAT__RUN_SAVING;
  }
  return pending;
}
