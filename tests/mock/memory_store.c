/* memory_store.c: see memory_store.h. One lock guards the bucket; hooks and gates are asked outside
 * it. Objects are a list in key order, uploads a list. */
#include "tests/mock/memory_store.h"

#include "base/checksum.h"
#include "base/mem.h"

#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct object {
  struct object *next;
  char *key;
  char *bytes;
  size_t size;
  unsigned long version; /* its etag */
};

struct part {
  char *bytes;
  size_t size;
  uint32_t crc32c;
};

struct upload {
  struct upload *next;
  char id[32];
  char *key;
  struct part *parts;
  size_t part_count;
};

struct calls {
  struct calls *next;
  const char *op;
  unsigned count;
};

struct memory_bucket {
  pthread_mutex_t lock;
  pthread_cond_t change;
  struct object *objects;
  struct upload *uploads;
  struct calls *calls;
  unsigned long versions;
  memory_hook *hook;
  void *user;
  bool held;
  char held_op[32];
  char held_part[256];
  unsigned waiting;
};

struct memory_store {
  struct cleat__store base;
  struct memory_bucket *bucket;
};

static void *must(void *memory) {
  if (memory == NULL) {
    fprintf(stderr, "memory store: no memory\n");
    exit(1);
  }
  return memory;
}

struct memory_bucket *memory_bucket_new(void) {
  struct memory_bucket *bucket = must(calloc(1, sizeof *bucket));
  pthread_mutex_init(&bucket->lock, NULL);
  pthread_cond_init(&bucket->change, NULL);
  return bucket;
}

static void object_free(struct object *object) {
  free(object->key);
  free(object->bytes);
  free(object);
}

static void upload_free(struct upload *upload) {
  for (size_t i = 0; i < upload->part_count; i++) free(upload->parts[i].bytes);
  free(upload->parts);
  free(upload->key);
  free(upload);
}

void memory_bucket_free(struct memory_bucket *bucket) {
  for (struct object *at = bucket->objects, *next; at != NULL; at = next) {
    next = at->next;
    object_free(at);
  }
  for (struct upload *at = bucket->uploads, *next; at != NULL; at = next) {
    next = at->next;
    upload_free(at);
  }
  for (struct calls *at = bucket->calls, *next; at != NULL; at = next) {
    next = at->next;
    free(at);
  }
  pthread_cond_destroy(&bucket->change);
  pthread_mutex_destroy(&bucket->lock);
  free(bucket);
}

/* ---- Gates, hooks, counts ---- */

void memory_bucket_hook(struct memory_bucket *bucket, memory_hook *hook, void *user) {
  bucket->hook = hook;
  bucket->user = user;
}

void memory_hold(struct memory_bucket *bucket, const char *op, const char *part) {
  pthread_mutex_lock(&bucket->lock);
  bucket->held = true;
  snprintf(bucket->held_op, sizeof bucket->held_op, "%s", op == NULL ? "" : op);
  snprintf(bucket->held_part, sizeof bucket->held_part, "%s", part);
  pthread_mutex_unlock(&bucket->lock);
}

void memory_release(struct memory_bucket *bucket) {
  pthread_mutex_lock(&bucket->lock);
  bucket->held = false;
  pthread_cond_broadcast(&bucket->change);
  pthread_mutex_unlock(&bucket->lock);
}

void memory_wait_held(struct memory_bucket *bucket, unsigned count) {
  pthread_mutex_lock(&bucket->lock);
  while (bucket->waiting < count) pthread_cond_wait(&bucket->change, &bucket->lock);
  pthread_mutex_unlock(&bucket->lock);
}

static bool is_held_locked(const struct memory_bucket *bucket, const char *op, const char *key) {
  return bucket->held && (bucket->held_op[0] == '\0' || strcmp(bucket->held_op, op) == 0) &&
         strstr(key, bucket->held_part) != NULL;
}

/* Waits at the gate. False: cancelled. The flag has no condition, so it is looked at now and then. */
static bool pass_gate_locked(struct memory_bucket *bucket, const char *op, const char *key,
                             const atomic_bool *cancel) {
  if (!is_held_locked(bucket, op, key)) return true;
  bucket->waiting++;
  pthread_cond_broadcast(&bucket->change);
  while (is_held_locked(bucket, op, key) && !atomic_load(cancel)) {
    struct timespec soon;
    clock_gettime(CLOCK_REALTIME, &soon);
    soon.tv_nsec += 5000000;
    if (soon.tv_nsec >= 1000000000) {
      soon.tv_nsec -= 1000000000;
      soon.tv_sec++;
    }
    pthread_cond_timedwait(&bucket->change, &bucket->lock, &soon);
  }
  bucket->waiting--;
  return !atomic_load(cancel);
}

static struct calls *calls_locked(struct memory_bucket *bucket, const char *op) {
  for (struct calls *at = bucket->calls; at != NULL; at = at->next)
    if (strcmp(at->op, op) == 0) return at;
  struct calls *fresh = must(calloc(1, sizeof *fresh));
  fresh->op = op;
  fresh->next = bucket->calls;
  bucket->calls = fresh;
  return fresh;
}

/* What every operation begins with. On CLEAT_OK the lock is held. */
static cleat_status enter(struct memory_bucket *bucket, const char *op, const char *key,
                          const atomic_bool *cancel, struct cleat_error *err) {
  if (bucket->hook != NULL) {
    cleat_status status = bucket->hook(bucket->user, op, key, false, cancel, err);
    if (status != CLEAT_OK) return status;
  }
  pthread_mutex_lock(&bucket->lock);
  if (!pass_gate_locked(bucket, op, key, cancel) || atomic_load(cancel)) {
    pthread_mutex_unlock(&bucket->lock);
    return cleat__error_set(err, CLEAT_CANCELLED, "%s %s was cancelled", op, key);
  }
  calls_locked(bucket, op)->count++;
  return CLEAT_OK;
}

/* What every operation ends with: lets go of the lock. */
static cleat_status leave(struct memory_bucket *bucket, const char *op, const char *key,
                          cleat_status status, const atomic_bool *cancel,
                          struct cleat_error *err) {
  pthread_mutex_unlock(&bucket->lock);
  if (status != CLEAT_OK || bucket->hook == NULL) return status;
  return bucket->hook(bucket->user, op, key, true, cancel, err);
}

unsigned memory_calls(struct memory_bucket *bucket, const char *op) {
  pthread_mutex_lock(&bucket->lock);
  unsigned count = 0;
  for (struct calls *at = bucket->calls; at != NULL; at = at->next)
    if (strcmp(at->op, op) == 0) count = at->count;
  pthread_mutex_unlock(&bucket->lock);
  return count;
}

/* ---- Objects ---- */

static struct object **place_of_locked(struct memory_bucket *bucket, const char *key) {
  struct object **link = &bucket->objects;
  while (*link != NULL && strcmp((*link)->key, key) < 0) link = &(*link)->next;
  return link;
}

static struct object *find_locked(struct memory_bucket *bucket, const char *key) {
  struct object *at = *place_of_locked(bucket, key);
  return at != NULL && strcmp(at->key, key) == 0 ? at : NULL;
}

/* Takes `bytes`. */
static void store_locked(struct memory_bucket *bucket, const char *key, char *bytes, size_t size) {
  struct object **link = place_of_locked(bucket, key);
  if (*link == NULL || strcmp((*link)->key, key) != 0) {
    struct object *fresh = must(calloc(1, sizeof *fresh));
    fresh->key = must(strdup(key));
    fresh->next = *link;
    *link = fresh;
  }
  free((*link)->bytes);
  (*link)->bytes = bytes;
  (*link)->size = size;
  (*link)->version = ++bucket->versions;
  pthread_cond_broadcast(&bucket->change);
}

static void remove_locked(struct memory_bucket *bucket, const char *key) {
  struct object **link = place_of_locked(bucket, key);
  struct object *at = *link;
  if (at == NULL || strcmp(at->key, key) != 0) return;
  *link = at->next;
  object_free(at);
}

static void etag_of(const struct object *object, char etag[CLEAT__ETAG_MAX]) {
  snprintf(etag, CLEAT__ETAG_MAX, "\"v%lu\"", object->version);
}

/* The spans as one block, whose checksum must be the one announced. */
static cleat_status take_body(const char *key, const struct cleat__span *body, size_t count,
                              uint32_t crc32c, char **bytes, size_t *size,
                              struct cleat_error *err) {
  *size = (size_t)cleat__spans_length(body, count);
  *bytes = must(malloc(*size + 1));
  struct cleat__span_cursor cursor;
  cleat__span_cursor_init(&cursor, body, count);
  cleat__span_cursor_read(&cursor, *bytes, *size);
  (*bytes)[*size] = '\0';
  if (cleat__crc32c(0, *bytes, *size) == crc32c) return CLEAT_OK;
  free(*bytes);
  return cleat__error_set(err, CLEAT_STORE, "%s: the body's checksum is not the one announced",
                          key);
}

static struct memory_bucket *bucket_of(struct cleat__store *store) {
  return ((struct memory_store *)store)->bucket;
}

static cleat_status memory_put(struct cleat__store *store, const char *key,
                               const struct cleat__span *body, size_t body_count,
                               const struct cleat__put_options *options,
                               const atomic_bool *cancel, struct cleat_error *err) {
  struct memory_bucket *bucket = bucket_of(store);
  char *bytes = NULL;
  size_t size = 0;
  ck_assert_msg(cleat__key_problem(key) == NULL, "a key that no store takes: %s", key);
  cleat_status status = enter(bucket, "put", key, cancel, err);
  if (status != CLEAT_OK) return status;
  const struct object *there = find_locked(bucket, key);
  char etag[CLEAT__ETAG_MAX] = "";
  if (there != NULL) etag_of(there, etag);
  if (options->condition == CLEAT__PUT_CREATE_ONLY && there != NULL) {
    status = cleat__error_set(err, CLEAT_EXISTS, "%s exists", key);
  } else if (options->condition == CLEAT__PUT_IF_MATCH && strcmp(etag, options->etag) != 0) {
    status = cleat__error_set(err, CLEAT_LOST, "%s was replaced", key);
  } else {
    status = take_body(key, body, body_count, options->crc32c, &bytes, &size, err);
  }
  if (status == CLEAT_OK && size > store->max_put_bytes) {
    free(bytes);
    status = cleat__error_set(err, CLEAT_STORE, "%s is too large for one put", key);
  }
  if (status == CLEAT_OK) store_locked(bucket, key, bytes, size);
  return leave(bucket, "put", key, status, cancel, err);
}

static cleat_status absent(const char *key, struct cleat_error *err) {
  return cleat__error_set(err, CLEAT_NOT_FOUND, "there is no %s", key);
}

static cleat_status memory_get(struct cleat__store *store, const char *key, uint64_t offset,
                               const struct cleat__span *into, size_t into_count, uint32_t *crc32c,
                               const atomic_bool *cancel, struct cleat_error *err) {
  struct memory_bucket *bucket = bucket_of(store);
  uint64_t length = cleat__spans_length(into, into_count);
  cleat_status status = enter(bucket, "get", key, cancel, err);
  if (status != CLEAT_OK) return status;
  const struct object *object = find_locked(bucket, key);
  if (object == NULL) {
    status = absent(key, err);
  } else if (offset + length > object->size) {
    status = cleat__error_set(err, CLEAT_INTEGRITY, "%s is too short", key);
  } else {
    struct cleat__span_cursor cursor;
    cleat__span_cursor_init(&cursor, into, into_count);
    cleat__span_cursor_write(&cursor, object->bytes + offset, (size_t)length);
    *crc32c = cleat__crc32c(0, object->bytes + offset, (size_t)length);
  }
  return leave(bucket, "get", key, status, cancel, err);
}

static cleat_status memory_get_small(struct cleat__store *store, const char *key, size_t cap,
                                     char **bytes, size_t *size, struct cleat__object *about,
                                     const atomic_bool *cancel, struct cleat_error *err) {
  struct memory_bucket *bucket = bucket_of(store);
  char *copy = NULL;
  cleat_status status = enter(bucket, "get_small", key, cancel, err);
  if (status != CLEAT_OK) return status;
  const struct object *object = find_locked(bucket, key);
  if (object == NULL) {
    status = absent(key, err);
  } else if (object->size > cap) {
    status = cleat__error_set(err, CLEAT_LIMIT, "%s has more than %zu bytes", key, cap);
  } else if ((copy = cleat__alloc(object->size + 1)) == NULL) {
    status = cleat__error_no_memory(err, "an object");
  } else {
    memcpy(copy, object->bytes, object->size + 1);
    *size = object->size;
    if (about != NULL) {
      about->size = object->size;
      etag_of(object, about->etag);
    }
  }
  status = leave(bucket, "get_small", key, status, cancel, err);
  if (status != CLEAT_OK) {
    cleat__free(copy);
  } else {
    *bytes = copy;
  }
  return status;
}

static cleat_status memory_head(struct cleat__store *store, const char *key,
                                struct cleat__object *about, const atomic_bool *cancel,
                                struct cleat_error *err) {
  struct memory_bucket *bucket = bucket_of(store);
  cleat_status status = enter(bucket, "head", key, cancel, err);
  if (status != CLEAT_OK) return status;
  const struct object *object = find_locked(bucket, key);
  if (object == NULL) {
    status = absent(key, err);
  } else {
    about->size = object->size;
    etag_of(object, about->etag);
  }
  return leave(bucket, "head", key, status, cancel, err);
}

static cleat_status memory_delete(struct cleat__store *store, const char *key,
                                  const atomic_bool *cancel, struct cleat_error *err) {
  struct memory_bucket *bucket = bucket_of(store);
  cleat_status status = enter(bucket, "remove", key, cancel, err);
  if (status != CLEAT_OK) return status;
  remove_locked(bucket, key);
  return leave(bucket, "remove", key, CLEAT_OK, cancel, err);
}

/* ---- Listing ---- */

/* Length of what the key is listed as: up to the '/' behind the prefix, or whole. */
static size_t listed_length(const char *key, size_t prefix_length, bool delimited) {
  const char *slash = delimited ? strchr(key + prefix_length, '/') : NULL;
  return slash != NULL ? (size_t)(slash - key) + 1 : strlen(key);
}

static bool page_add(struct cleat__list_page *page, const struct object *object, size_t length) {
  struct cleat__list_entry *entry = &page->entries[page->count];
  entry->key = cleat__strndup(object->key, length);
  if (entry->key == NULL) return false;
  entry->is_prefix = length < strlen(object->key);
  entry->size = entry->is_prefix ? 0 : object->size;
  page->count++;
  return true;
}

static bool page_fill_locked(struct memory_bucket *bucket, const char *prefix, bool delimited,
                             const char *after, struct cleat__list_page *page) {
  size_t prefix_length = strlen(prefix);
  page->entries = cleat__calloc(CLEAT__LIST_PAGE, sizeof *page->entries);
  if (page->entries == NULL) return false;
  for (struct object *at = bucket->objects; at != NULL; at = at->next) {
    if (strncmp(at->key, prefix, prefix_length) != 0) continue;
    size_t length = listed_length(at->key, prefix_length, delimited);
    const char *last = page->count > 0 ? page->entries[page->count - 1].key : after;
    if (last != NULL && strlen(last) == length && strncmp(at->key, last, length) == 0) continue;
    if (page->count == 0 && after != NULL && strncmp(at->key, after, length) < 0) continue;
    if (page->count == CLEAT__LIST_PAGE) {
      page->next = cleat__strdup(last);
      return page->next != NULL;
    }
    if (!page_add(page, at, length)) return false;
  }
  return true;
}

static cleat_status memory_list(struct cleat__store *store, const char *prefix, bool delimited,
                                const char *after, struct cleat__list_page *page,
                                const atomic_bool *cancel, struct cleat_error *err) {
  struct memory_bucket *bucket = bucket_of(store);
  struct cleat__list_page fresh = {0};
  cleat_status status = enter(bucket, "list", prefix, cancel, err);
  if (status != CLEAT_OK) return status;
  if (!page_fill_locked(bucket, prefix, delimited, after, &fresh))
    status = cleat__error_no_memory(err, "a page");
  status = leave(bucket, "list", prefix, status, cancel, err);
  if (status != CLEAT_OK) {
    cleat__list_page_clear(&fresh);
  } else {
    *page = fresh;
  }
  return status;
}

/* ---- Multipart ---- */

static struct upload **upload_place_locked(struct memory_bucket *bucket,
                                           const struct cleat__upload *wanted) {
  struct upload **link = &bucket->uploads;
  while (*link != NULL && strcmp((*link)->id, wanted->id) != 0) link = &(*link)->next;
  return link;
}

static cleat_status no_upload(const struct cleat__upload *upload, struct cleat_error *err) {
  return cleat__error_set(err, CLEAT_NOT_FOUND, "%s: there is no upload %s", upload->key,
                          upload->id);
}

static cleat_status multipart_create(struct cleat__store *store, struct cleat__upload *upload,
                                     const char *content_type, const atomic_bool *cancel,
                                     struct cleat_error *err) {
  struct memory_bucket *bucket = bucket_of(store);
  (void)content_type;
  ck_assert_msg(cleat__key_problem(upload->key) == NULL, "a bad key: %s", upload->key);
  cleat_status status = enter(bucket, "create", upload->key, cancel, err);
  if (status != CLEAT_OK) return status;
  struct upload *fresh = must(calloc(1, sizeof *fresh));
  uint64_t parts = (upload->size + upload->part_bytes - 1) / upload->part_bytes;
  ck_assert_uint_le(parts, store->max_parts);
  fresh->part_count = (size_t)parts;
  fresh->parts = must(calloc(fresh->part_count, sizeof *fresh->parts));
  fresh->key = must(strdup(upload->key));
  snprintf(fresh->id, sizeof fresh->id, "upload-%lu", ++bucket->versions);
  fresh->next = bucket->uploads;
  bucket->uploads = fresh;
  char id[32];
  memcpy(id, fresh->id, sizeof id);
  status = leave(bucket, "create", upload->key, CLEAT_OK, cancel, err);
  if (status == CLEAT_OK) snprintf(upload->id, sizeof upload->id, "%s", id);
  return status;
}

static cleat_status multipart_part(struct cleat__store *store, const struct cleat__upload *upload,
                                   const struct cleat__span *body, size_t body_count,
                                   struct cleat__stored_part *part, const atomic_bool *cancel,
                                   struct cleat_error *err) {
  struct memory_bucket *bucket = bucket_of(store);
  char *bytes = NULL;
  size_t size = 0;
  cleat_status status = enter(bucket, "part", upload->key, cancel, err);
  if (status != CLEAT_OK) return status;
  struct upload *mine = *upload_place_locked(bucket, upload);
  if (mine == NULL || part->number < 1 || part->number > mine->part_count) {
    status = no_upload(upload, err);
  } else {
    status = take_body(upload->key, body, body_count, part->crc32c, &bytes, &size, err);
  }
  if (status == CLEAT_OK) {
    struct part *place = &mine->parts[part->number - 1];
    free(place->bytes);
    *place = (struct part){bytes, size, part->crc32c};
    snprintf(part->etag, sizeof part->etag, "\"p%08x\"", part->crc32c);
  }
  return leave(bucket, "part", upload->key, status, cancel, err);
}

/* The object of all parts; NULL when one is missing, or too small. */
static char *assemble(const struct cleat__store *store, const struct upload *upload, size_t count,
                      size_t *size) {
  *size = 0;
  if (count != upload->part_count) return NULL;
  for (size_t i = 0; i < count; i++) {
    if (upload->parts[i].bytes == NULL) return NULL;
    if (i + 1 < count && upload->parts[i].size < store->min_part_bytes) return NULL;
    *size += upload->parts[i].size;
  }
  char *bytes = must(malloc(*size + 1));
  size_t at = 0;
  for (size_t i = 0; i < count; at += upload->parts[i++].size)
    memcpy(bytes + at, upload->parts[i].bytes, upload->parts[i].size);
  bytes[*size] = '\0';
  return bytes;
}

static cleat_status multipart_complete(struct cleat__store *store,
                                       const struct cleat__upload *upload,
                                       const struct cleat__stored_part *parts, size_t count,
                                       const atomic_bool *cancel, struct cleat_error *err) {
  struct memory_bucket *bucket = bucket_of(store);
  size_t size = 0;
  (void)parts;
  cleat_status status = enter(bucket, "complete", upload->key, cancel, err);
  if (status != CLEAT_OK) return status;
  struct upload **link = upload_place_locked(bucket, upload);
  struct upload *mine = *link;
  char *bytes = mine != NULL ? assemble(store, mine, count, &size) : NULL;
  if (bytes == NULL) {
    status = no_upload(upload, err);
  } else {
    store_locked(bucket, mine->key, bytes, size);
    *link = mine->next;
    upload_free(mine);
  }
  return leave(bucket, "complete", upload->key, status, cancel, err);
}

static cleat_status multipart_abort(struct cleat__store *store, const struct cleat__upload *upload,
                                    const atomic_bool *cancel, struct cleat_error *err) {
  struct memory_bucket *bucket = bucket_of(store);
  cleat_status status = enter(bucket, "abort", upload->key, cancel, err);
  if (status != CLEAT_OK) return status;
  struct upload **link = upload_place_locked(bucket, upload);
  struct upload *mine = *link;
  if (mine != NULL) {
    *link = mine->next;
    upload_free(mine);
  }
  return leave(bucket, "abort", upload->key, CLEAT_OK, cancel, err);
}

/* Cleat asks drivers for it, saves and loads do not. */
static cleat_status multipart_list_parts(struct cleat__store *store,
                                         const struct cleat__upload *upload,
                                         struct cleat__stored_part **parts, size_t *count,
                                         const atomic_bool *cancel, struct cleat_error *err) {
  (void)store;
  (void)parts;
  (void)count;
  (void)cancel;
  return cleat__error_set(err, CLEAT_UNSUPPORTED, "%s: the memory store lists no parts",
                          upload->key);
}

static void memory_close(struct cleat__store *store) {
  free(store);
}

static const struct cleat__store_ops memory_ops = {
    .put = memory_put,
    .get = memory_get,
    .get_small = memory_get_small,
    .head = memory_head,
    .list = memory_list,
    .remove = memory_delete,
    .multipart_create = multipart_create,
    .multipart_part = multipart_part,
    .multipart_complete = multipart_complete,
    .multipart_abort = multipart_abort,
    .multipart_list_parts = multipart_list_parts,
    .close = memory_close,
};

struct cleat__store *memory_store_open(struct memory_bucket *bucket,
                                       const struct memory_limits *limits) {
  static const struct memory_limits none;
  struct memory_store *store = must(calloc(1, sizeof *store));
  if (limits == NULL) limits = &none;
  store->bucket = bucket;
  store->base = (struct cleat__store){
      .ops = &memory_ops,
      .capabilities = CLEAT__STORE_CREATE_ONLY | CLEAT__STORE_IF_MATCH,
      .min_part_bytes = limits->min_part_bytes != 0 ? limits->min_part_bytes : 4096,
      .max_put_bytes = limits->max_put_bytes != 0 ? limits->max_put_bytes : UINT64_MAX,
      .max_parts = limits->max_parts != 0 ? limits->max_parts : 10000,
      .default_concurrency = limits->concurrency != 0 ? limits->concurrency : 4,
      .display = must(strdup("memory://bucket")), /* freed by cleat__store_close */
  };
  return &store->base;
}

/* ---- For tests to look at and to damage ---- */

size_t memory_count(struct memory_bucket *bucket, const char *part) {
  size_t count = 0;
  pthread_mutex_lock(&bucket->lock);
  for (struct object *at = bucket->objects; at != NULL; at = at->next)
    count += strstr(at->key, part) != NULL;
  pthread_mutex_unlock(&bucket->lock);
  return count;
}

void memory_wait_count(struct memory_bucket *bucket, const char *part, size_t count) {
  pthread_mutex_lock(&bucket->lock);
  for (;;) {
    size_t found = 0;
    for (struct object *at = bucket->objects; at != NULL; at = at->next)
      found += strstr(at->key, part) != NULL;
    if (found >= count) break;
    pthread_cond_wait(&bucket->change, &bucket->lock);
  }
  pthread_mutex_unlock(&bucket->lock);
}

long memory_blocks(struct memory_bucket *bucket) {
  long count = 1;
  pthread_mutex_lock(&bucket->lock);
  for (struct object *at = bucket->objects; at != NULL; at = at->next)
    count += 3;
  for (struct calls *at = bucket->calls; at != NULL; at = at->next)
    count++;
  for (struct upload *at = bucket->uploads; at != NULL; at = at->next) {
    count += 3;
    for (size_t i = 0; i < at->part_count; i++)
      count += at->parts[i].bytes != NULL;
  }
  pthread_mutex_unlock(&bucket->lock);
  return count;
}

size_t memory_uploads(struct memory_bucket *bucket) {
  size_t count = 0;
  pthread_mutex_lock(&bucket->lock);
  for (struct upload *at = bucket->uploads; at != NULL; at = at->next) count++;
  pthread_mutex_unlock(&bucket->lock);
  return count;
}

static struct object *by_ending_locked(struct memory_bucket *bucket, const char *ending) {
  struct object *found = NULL;
  for (struct object *at = bucket->objects; at != NULL; at = at->next) {
    size_t length = strlen(at->key);
    if (length < strlen(ending) || strcmp(at->key + length - strlen(ending), ending) != 0)
      continue;
    ck_assert_msg(found == NULL, "two keys end in %s", ending);
    found = at;
  }
  ck_assert_msg(found != NULL, "no key ends in %s", ending);
  return found;
}

const char *memory_find(struct memory_bucket *bucket, const char *ending, size_t *size) {
  pthread_mutex_lock(&bucket->lock);
  const struct object *object = by_ending_locked(bucket, ending);
  const char *bytes = object->bytes;
  *size = object->size;
  pthread_mutex_unlock(&bucket->lock);
  return bytes;
}

const char *memory_key(struct memory_bucket *bucket, const char *ending) {
  static char key[CLEAT__KEY_MAX + 1];
  pthread_mutex_lock(&bucket->lock);
  snprintf(key, sizeof key, "%s", by_ending_locked(bucket, ending)->key);
  pthread_mutex_unlock(&bucket->lock);
  return key;
}

void memory_flip(struct memory_bucket *bucket, const char *ending, size_t offset) {
  pthread_mutex_lock(&bucket->lock);
  struct object *object = by_ending_locked(bucket, ending);
  ck_assert_uint_lt(offset, object->size);
  object->bytes[offset] ^= 0x10;
  pthread_mutex_unlock(&bucket->lock);
}

void memory_resize(struct memory_bucket *bucket, const char *ending, size_t size) {
  pthread_mutex_lock(&bucket->lock);
  struct object *object = by_ending_locked(bucket, ending);
  char *bytes = must(calloc(1, size + 1));
  memcpy(bytes, object->bytes, size < object->size ? size : object->size);
  free(object->bytes);
  object->bytes = bytes;
  object->size = size;
  pthread_mutex_unlock(&bucket->lock);
}

void memory_remove(struct memory_bucket *bucket, const char *ending) {
  pthread_mutex_lock(&bucket->lock);
  remove_locked(bucket, by_ending_locked(bucket, ending)->key);
  pthread_mutex_unlock(&bucket->lock);
}

void memory_write(struct memory_bucket *bucket, const char *key, const void *bytes, size_t size) {
  char *copy = must(malloc(size + 1));
  memcpy(copy, bytes, size);
  copy[size] = '\0';
  pthread_mutex_lock(&bucket->lock);
  store_locked(bucket, key, copy, size);
  pthread_mutex_unlock(&bucket->lock);
}
