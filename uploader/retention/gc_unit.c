/* gc_unit.c: decides whether a unit may be removed: what it contains, how old its newest object is, and whether it is
 * still needed. See gc.h. Runs on threads of the pool. A unit belongs to its own task.
 *
 * First it makes sure that no process can continue the attempt: it closes open claims. After that it reads the step's
 * manifest again, right before anything is removed. */
#include "uploader/retention/gc.h"

#include "base/mem.h"
#include "uploader/catalog/checkpoint.h"
#include "uploader/commit/claim.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* State while one unit is checked. */
struct check {
  const struct cleat__gc *gc;
  struct cleat__unit *unit;
  const char *prefix;
  int64_t newest_s;
  bool undated; /* an object in it has no date, so its age is unknown */
  bool of_ranks;
  bool foreign; /* the folder is not one of Cleat's */
};

static bool is_old(const struct check *check) {
  return !check->undated && check->newest_s < check->gc->before_s;
}

static void see_time(struct check *check, int64_t time_s) {
  check->undated = check->undated || time_s <= 0;
  if (time_s > check->newest_s)
    check->newest_s = time_s;
}

static cleat_status see_object(void *user, const struct cleat__list_entry *entry, struct cleat_error *err) {
  struct check *check = user;
  int64_t rank = 0;
  see_time(check, entry->modified_s);
  check->of_ranks = check->of_ranks || cleat__name_is_of_rank(entry->key + strlen(check->prefix), &rank);
  return cleat__unit_doom(check->unit, entry->key, NULL, entry->size, err);
}

/* ---- Uploads ---------------------------------------------------------------------------------- */

/* *bytes: the size of the upload. *held: its process is alive; false if the store cannot tell. */
static cleat_status weigh_upload(const struct cleat__gc *gc, const char *key, const char *id, bool *held,
                                 uint64_t *bytes, struct cleat_error *err) {
  struct cleat__store *store = gc->client->store;
  struct cleat__upload upload = {.part_bytes = 1};
  struct cleat__stored_part *parts = NULL;
  size_t count = 0;
  *held = false;
  *bytes = 0;
  if (store->ops->multipart_held != NULL)
    return cleat__store_multipart_held(store, key, id, held, bytes, err);
  strncpy(upload.key, key, CLEAT__KEY_MAX);
  strncpy(upload.id, id, CLEAT__UPLOAD_ID_MAX);
  cleat_status status =
      cleat__store_multipart_list_parts(store, &upload, &parts, &count, cleat__call(&gc->client->never, err));
  for (size_t i = 0; status == CLEAT_OK && i < count; i++)
    *bytes += parts[i].size;
  cleat__free(parts);
  return status == CLEAT_NOT_FOUND || status == CLEAT_UNSUPPORTED ? CLEAT_OK : status;
}

/* Adds an upload to the unit. A held upload makes the whole unit too young. */
static cleat_status see_upload(struct check *check, const struct cleat__upload_entry *entry, struct cleat_error *err) {
  bool held = false;
  uint64_t bytes = 0;
  see_time(check, entry->begun_s);
  if (!is_old(check))
    return CLEAT_OK; /* too young: nothing of the unit is removed */
  cleat_status status = weigh_upload(check->gc, entry->key, entry->id, &held, &bytes, err);
  if (held)
    check->newest_s = INT64_MAX;
  return status == CLEAT_OK ? cleat__unit_doom(check->unit, entry->key, entry->id, bytes, err) : status;
}

static cleat_status see_uploads(struct check *check, size_t *count, struct cleat_error *err) {
  const struct cleat__upload_entry *uploads = cleat__gc_uploads(check->gc, check->prefix, count);
  cleat_status status = CLEAT_OK;
  for (size_t i = 0; i < *count && status == CLEAT_OK; i++)
    status = see_upload(check, &uploads[i], err);
  return status;
}

/* A key that may have uploads. */
struct named {
  struct check *check;
  const char *key;
};

static cleat_status see_upload_of(void *user, struct cleat__upload_entry *entry, struct cleat_error *err) {
  struct named *named = user;
  return strcmp(entry->key, named->key) == 0 ? see_upload(named->check, entry, err) : CLEAT_OK;
}

/* Handles the uploads of one key, for a store that lists uploads only by whole keys. */
static cleat_status see_uploads_of(struct check *check, const char *key, struct cleat_error *err) {
  struct cleat_client *client = check->gc->client;
  const struct cleat__listing uploads = {client->store, key, false, &client->never};
  struct named named = {check, key};
  cleat_status status = cleat__listing_each_upload(&uploads, see_upload_of, &named, err);
  return status == CLEAT_UNSUPPORTED ? CLEAT_OK : status; /* gc_list.c has logged it already */
}

/* ---- Claims ----------------------------------------------------------------------------------- */

/* A function that handles an open claim. */
typedef cleat_status claim_fn(struct check *check, const char *key, const struct cleat__claim *claim,
                              struct cleat_error *err);

/* Handles the uploads of the files that the claim says are sent in parts. */
static cleat_status ask_named(struct check *check, const char *key, const struct cleat__claim *claim,
                              struct cleat_error *err) {
  char named[CLEAT__OBJECT_KEY_MAX];
  cleat_status status = CLEAT_OK;
  (void)key;
  for (size_t i = 0; i < claim->upload_count && status == CLEAT_OK; i++) {
    cleat__key_file(check->unit->entry.step, check->unit->name, claim->uploads[i], named);
    status = see_uploads_of(check, named, err);
  }
  return status;
}

/* Closes the claim. After that no process can continue the attempt. If another process was faster, it needs the
 * attempt, which counts as young then. */
static cleat_status close_claim(struct check *check, const char *key, const struct cleat__claim *claim,
                                struct cleat_error *err) {
  cleat_status status = cleat__claim_close(check->gc->client, key, claim->nonce, false, err);
  if (status != CLEAT_LOST && status != CLEAT_EXISTS)
    return status;
  check->newest_s = INT64_MAX;
  return CLEAT_OK;
}

static cleat_status each_claim(struct check *check, claim_fn *fn, struct cleat_error *err) {
  struct cleat_client *client = check->gc->client;
  cleat_status status = CLEAT_OK;
  size_t count = check->unit->count; /* fn may add uploads */
  for (size_t i = 0; i < count && status == CLEAT_OK; i++) {
    const char *key = check->unit->doomed[i].key;
    struct cleat__claim claim = {0};
    int64_t rank = -1;
    if (check->unit->doomed[i].upload != NULL || !cleat__name_is_of_rank(key + strlen(check->prefix), &rank) ||
        rank < 0)
      continue;
    status = cleat__claim_read(client, key, &claim, cleat__call(&client->never, err));
    if (status == CLEAT_OK && claim.kind == CLEAT__CLAIM_OPEN)
      status = fn(check, key, &claim, err);
    cleat__claim_clear(&claim);
  }
  return status;
}

/* ---- Attempts --------------------------------------------------------------------------------- */

enum standing {
  NOBODYS, /* the step has no manifest */
  ANOTHERS,
  COMMITTED, /* the manifest names this attempt */
  UNKNOWN    /* the manifest cannot be read, so it may name this attempt */
};

/* Finds out which attempt the step's manifest names. `attempt`: its id, or "". */
static cleat_status read_standing(const struct check *check, enum standing *standing, char attempt[CLEAT__ID_MAX + 1],
                                  struct cleat_error *err) {
  struct cleat_client *client = check->gc->client;
  struct cleat__manifest manifest = {0};
  struct cleat_error problem;
  attempt[0] = '\0';
  cleat_status status = cleat__checkpoint_read_manifest(client, check->unit->entry.step, &manifest,
                                                        cleat__call(&client->never, &problem));
  if (status == CLEAT_OK) {
    bool same = strcmp(manifest.attempt, check->unit->name) == 0;
    *standing = same ? COMMITTED : ANOTHERS;
    snprintf(attempt, CLEAT__ID_MAX + 1, "%s", manifest.attempt);
  } else if (cleat__object_is_absent(status, &problem)) {
    *standing = NOBODYS;
  } else if (status == CLEAT_FORMAT || status == CLEAT_NEWER || status == CLEAT_LIMIT || status == CLEAT_INTEGRITY) {
    *standing = UNKNOWN;
    cleat__log(&client->log, CLEAT_LOG_WARNING, "left alone: %s", problem.message);
  } else {
    *err = problem;
    return status;
  }
  cleat__manifest_clear(&manifest);
  return CLEAT_OK;
}

/* Keeps the whole unit for now. */
static void keep(struct check *check) {
  cleat__unit_spare(check->unit);
  check->unit->kept = true;
}

/* For a committed attempt: removes only unfinished uploads, each by its own age. */
static cleat_status check_uploads(struct check *check, struct cleat_error *err) {
  size_t count = 0;
  const struct cleat__upload_entry *uploads = cleat__gc_uploads(check->gc, check->prefix, &count);
  cleat_status status = CLEAT_OK;
  check->unit->entry.kind = CLEAT_REMOVAL_UPLOAD;
  for (size_t i = 0; i < count && status == CLEAT_OK; i++) {
    size_t before = check->unit->count;
    check->newest_s = 0;
    check->undated = false;
    status = see_upload(check, &uploads[i], err);
    if (!is_old(check)) {
      check->unit->count = before;
      check->unit->kept = true;
    }
  }
  check->unit->found = check->unit->count > 0;
  return status;
}

/* Puts the records of ranks last. A claim among them tells where uploads may be, in case this run ends early. */
static void order(struct check *check) {
  struct cleat__unit *unit = check->unit;
  size_t first = 0;
  int64_t rank = 0;
  for (size_t i = 0; i < unit->count; i++) {
    struct cleat__doomed doomed = unit->doomed[i];
    if (doomed.upload == NULL && cleat__name_is_of_rank(doomed.key + strlen(check->prefix), &rank))
      continue;
    unit->doomed[i] = unit->doomed[first];
    unit->doomed[first++] = doomed;
  }
  unit->last_from = first;
}

/* Lists the contents of the attempt. It is foreign unless its name, or the name of an object in it, shows that Cleat
 * made it. */
static cleat_status gather(struct check *check, struct cleat_error *err) {
  struct cleat__unit *unit = check->unit;
  size_t listed = 0;
  cleat_status status = cleat__gc_each(check->gc, check->prefix, false, see_object, check, err);
  check->foreign = !check->of_ranks && !cleat__name_is_attempt(unit->name, strlen(unit->name));
  if (status == CLEAT_OK && check->foreign) {
    cleat__unit_spare(unit);
    return CLEAT_OK;
  }
  if (status == CLEAT_OK)
    status = see_uploads(check, &listed, err);
  if (status == CLEAT_OK && listed == 0 && is_old(check))
    status = each_claim(check, ask_named, err);
  return status;
}

/* The attempt is old and not committed: closes its claims and checks again. The manifest is read a second time, because
 * a name in it may have been damaged in transit. */
static cleat_status settle(struct check *check, enum standing before, const char *committed, struct cleat_error *err) {
  /* A dry run removes nothing, so it skips this check. */
  assert(!check->gc->dry_run);
  char attempt[CLEAT__ID_MAX + 1];
  enum standing now = before;
  cleat_status status = each_claim(check, close_claim, err);
  if (status == CLEAT_OK)
    status = read_standing(check, &now, attempt, err);
  if (status == CLEAT_OK && (now != before || strcmp(attempt, committed) != 0))
    check->newest_s = INT64_MAX;
  return status;
}

static cleat_status check_attempt(struct check *check, struct cleat_error *err) {
  char committed[CLEAT__ID_MAX + 1];
  enum standing standing = UNKNOWN;
  cleat_status status = read_standing(check, &standing, committed, err);
  if (status != CLEAT_OK)
    return status;
  if (standing == COMMITTED)
    return check_uploads(check, err);
  if (standing == UNKNOWN) {
    keep(check);
    return CLEAT_OK;
  }
  status = gather(check, err);
  if (status != CLEAT_OK || check->foreign || (check->unit->count == 0 && is_old(check)))
    return status;
  if (is_old(check) && !check->gc->dry_run)
    status = settle(check, standing, committed, err);
  if (status != CLEAT_OK)
    return status;
  if (is_old(check)) {
    check->unit->found = true;
    order(check);
  } else {
    keep(check);
  }
  return CLEAT_OK;
}

/* Removes nothing of a unit that could not be checked completely. */
static cleat_status spare_unless(cleat_status status, struct cleat__unit *unit) {
  if (status != CLEAT_OK)
    cleat__unit_spare(unit);
  return status;
}

cleat_status cleat__gc_begin_attempt(void *user, struct cleat__unit *unit, struct cleat_error *err) {
  char prefix[CLEAT__OBJECT_KEY_MAX];
  cleat__key_attempt(unit->entry.step, unit->name, prefix);
  struct check check = {.gc = user, .unit = unit, .prefix = prefix};
  return spare_unless(check_attempt(&check, err), unit);
}

/* ---- Steps ------------------------------------------------------------------------------------ */

struct folder {
  struct cleat__gc_step *step;
  const char *prefix;
};

static cleat_status see_in_step(void *user, const struct cleat__list_entry *entry, struct cleat_error *err) {
  const struct folder *folder = user;
  const char *name = entry->key + strlen(folder->prefix);
  if (entry->is_prefix)
    return cleat__gc_note_attempt(folder->step, name, strlen(name) - 1, err);
  if (strcmp(name, "manifest.json") == 0)
    folder->step->has_manifest = true;
  else if (strcmp(name, "pin.json") == 0)
    folder->step->has_pin = true;
  return CLEAT_OK;
}

/* "step-000000001200/" */
static void step_prefix(int64_t step, char prefix[CLEAT__STEP_FOLDER_MAX + 1]) {
  cleat__name_step_folder(step, prefix);
  memcpy(prefix + strlen(prefix), "/", 2);
}

static cleat_status sweep(const struct cleat__gc *gc, const char *prefix, struct cleat__unit *unit,
                          struct cleat_error *err) {
  struct cleat__store *store = gc->client->store;
  struct cleat__swept swept = {0};
  if (store->ops->sweep == NULL)
    return CLEAT_OK;
  cleat_status status =
      cleat__store_sweep(store, prefix, gc->before_s, gc->dry_run, &swept, cleat__call(&gc->client->never, err));
  cleat__unit_count(unit, swept.objects, swept.bytes);
  unit->found = unit->found || swept.objects > 0;
  return status;
}

cleat_status cleat__gc_begin_step(void *user, struct cleat__unit *unit, struct cleat_error *err) {
  struct cleat__gc *gc = user;
  assert(unit >= gc->units && (size_t)(unit - gc->units) < gc->step_count);
  char prefix[CLEAT__STEP_FOLDER_MAX + 1];
  struct folder folder = {&gc->steps[unit - gc->units], prefix};
  step_prefix(unit->entry.step, prefix);
  cleat_status status = cleat__gc_each(gc, prefix, true, see_in_step, &folder, err);
  size_t count = 0;
  const struct cleat__upload_entry *uploads = cleat__gc_uploads(gc, prefix, &count);
  for (size_t i = 0; i < count && status == CLEAT_OK; i++) {
    const char *name = uploads[i].key + strlen(prefix);
    size_t length = strcspn(name, "/");
    if (name[length] == '/')
      status = cleat__gc_note_attempt(folder.step, name, length, err);
  }
  return status == CLEAT_OK ? sweep(gc, prefix, unit, err) : status;
}

/* ---- The rest --------------------------------------------------------------------------------- */

/* Removes the whole unit if everything in it is old. */
static void decide(struct check *check) {
  if (is_old(check))
    check->unit->found = check->unit->found || check->unit->count > 0;
  else
    keep(check);
}

cleat_status cleat__gc_begin_scratch(void *user, struct cleat__unit *unit, struct cleat_error *err) {
  struct cleat__gc *gc = user;
  char prefix[CLEAT__OBJECT_KEY_MAX];
  size_t count = 0;
  snprintf(prefix, sizeof prefix, "%s/", unit->name);
  struct check check = {.gc = gc, .unit = unit, .prefix = prefix};
  cleat_status status = cleat__gc_each(gc, prefix, false, see_object, &check, err);
  if (status == CLEAT_OK)
    status = see_uploads(&check, &count, err);
  if (status == CLEAT_OK)
    status = sweep(gc, prefix, unit, err);
  if (status == CLEAT_OK)
    decide(&check);
  return spare_unless(status, unit);
}

/* Handles "starts/000007.json", and the objects below "starts/000007/". */
static cleat_status see_of_start(void *user, const struct cleat__list_entry *entry, struct cleat_error *err) {
  const struct check *check = user;
  const char *rest = entry->key + strlen(check->prefix);
  return strcmp(rest, ".json") == 0 || rest[0] == '/' ? see_object(user, entry, err) : CLEAT_OK;
}

cleat_status cleat__gc_begin_start(void *user, struct cleat__unit *unit, struct cleat_error *err) {
  struct cleat__gc *gc = user;
  char prefix[CLEAT__OBJECT_KEY_MAX];
  snprintf(prefix, sizeof prefix, CLEAT__STARTS "%s", unit->name);
  struct check check = {.gc = gc, .unit = unit, .prefix = prefix};
  cleat_status status = cleat__gc_each(gc, prefix, false, see_of_start, &check, err);
  if (status == CLEAT_OK)
    decide(&check);
  return spare_unless(status, unit);
}

static cleat_status see_beside_pin(void *user, const struct cleat__list_entry *entry, struct cleat_error *err) {
  struct check *check = user;
  if (strcmp(entry->key + strlen(check->prefix), "pin.json") != 0) {
    check->newest_s = INT64_MAX;
    return CLEAT_OK;
  }
  return see_object(user, entry, err);
}

cleat_status cleat__gc_begin_pin(void *user, struct cleat__unit *unit, struct cleat_error *err) {
  struct cleat__gc *gc = user;
  char prefix[CLEAT__STEP_FOLDER_MAX + 1];
  size_t uploads = 0;
  step_prefix(unit->entry.step, prefix);
  struct check check = {.gc = gc, .unit = unit, .prefix = prefix};
  cleat_status status = cleat__gc_each(gc, prefix, false, see_beside_pin, &check, err);
  if (cleat__gc_uploads(gc, prefix, &uploads) != NULL && gc->dry_run)
    check.newest_s = INT64_MAX;
  if (status == CLEAT_OK)
    decide(&check);
  return spare_unless(status, unit);
}
