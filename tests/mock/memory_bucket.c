/* memory_bucket.c: see memory_bucket.h and memory_store.h. One lock guards the bucket; hooks and gates are
 * asked outside it. Objects are a list in key order, uploads a list. */
#include "tests/mock/memory_bucket.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void *bucket_must(void *memory) {
  if (memory == NULL) {
    fprintf(stderr, "memory store: no memory\n");
    exit(1);
  }
  return memory;
}

struct memory_bucket *memory_bucket_new(void) {
  struct memory_bucket *bucket = bucket_must(calloc(1, sizeof *bucket));
  pthread_mutex_init(&bucket->lock, NULL);
  pthread_cond_init(&bucket->change, NULL);
  return bucket;
}

static void object_free(struct object *object) {
  free(object->key);
  free(object->bytes);
  free(object);
}

void bucket_upload_free(struct upload *upload) {
  for (size_t i = 0; i < upload->part_count; i++)
    free(upload->parts[i].bytes);
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
    bucket_upload_free(at);
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

void memory_bucket_checksums(struct memory_bucket *bucket, enum memory_checksums checksums) {
  bucket->checksums = checksums;
}

void memory_bucket_exact(struct memory_bucket *bucket) {
  bucket->exact = true;
}

void memory_bucket_now(struct memory_bucket *bucket, int64_t now_s) {
  pthread_mutex_lock(&bucket->lock);
  bucket->now_s = now_s;
  pthread_mutex_unlock(&bucket->lock);
}

void memory_bucket_clock(struct memory_bucket *bucket, int64_t offset_s) {
  bucket->tells_clock = true;
  bucket->clock_offset_s = offset_s;
}

void memory_bucket_hook(struct memory_bucket *bucket, memory_hook *hook, void *user) {
  bucket->hook = hook;
  bucket->user = user;
}

void memory_ignore(struct memory_bucket *bucket, unsigned ignored) {
  bucket->ignored = ignored;
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
  while (bucket->waiting < count)
    pthread_cond_wait(&bucket->change, &bucket->lock);
  pthread_mutex_unlock(&bucket->lock);
}

static bool is_held_locked(const struct memory_bucket *bucket, const char *op, const char *key) {
  return bucket->held && (bucket->held_op[0] == '\0' || strcmp(bucket->held_op, op) == 0) &&
         strstr(key, bucket->held_part) != NULL;
}

/* Waits at the gate. False: cancelled. The flag has no condition, so it is looked at now and then. */
static bool pass_gate_locked(struct memory_bucket *bucket, const char *op, const char *key, const atomic_bool *cancel) {
  if (!is_held_locked(bucket, op, key))
    return true;
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
    if (strcmp(at->op, op) == 0)
      return at;
  struct calls *fresh = bucket_must(calloc(1, sizeof *fresh));
  fresh->op = op;
  fresh->next = bucket->calls;
  bucket->calls = fresh;
  return fresh;
}

/* What every operation begins with. On CLEAT_OK the lock is held. */
cleat_status bucket_enter(struct memory_bucket *bucket, const char *op, const char *key, struct cleat__call call) {
  if (bucket->hook != NULL) {
    cleat_status status = bucket->hook(bucket->user, op, key, false, call);
    if (status != CLEAT_OK)
      return status;
  }
  pthread_mutex_lock(&bucket->lock);
  if (!pass_gate_locked(bucket, op, key, call.cancel) || atomic_load(call.cancel)) {
    pthread_mutex_unlock(&bucket->lock);
    return cleat__error_set(call.err, CLEAT_CANCELLED, "%s %s was cancelled", op, key);
  }
  calls_locked(bucket, op)->count++;
  return CLEAT_OK;
}

/* What every operation ends with: lets go of the lock. */
cleat_status bucket_leave(struct memory_bucket *bucket, const char *op, const char *key, cleat_status status,
                          struct cleat__call call) {
  pthread_mutex_unlock(&bucket->lock);
  if (status != CLEAT_OK || bucket->hook == NULL)
    return status;
  return bucket->hook(bucket->user, op, key, true, call);
}

unsigned memory_calls(struct memory_bucket *bucket, const char *op) {
  pthread_mutex_lock(&bucket->lock);
  unsigned count = 0;
  for (struct calls *at = bucket->calls; at != NULL; at = at->next)
    if (strcmp(at->op, op) == 0)
      count = at->count;
  pthread_mutex_unlock(&bucket->lock);
  return count;
}

/* ---- Objects ---- */

static struct object **bucket_place_locked(struct memory_bucket *bucket, const char *key) {
  struct object **link = &bucket->objects;
  while (*link != NULL && strcmp((*link)->key, key) < 0)
    link = &(*link)->next;
  return link;
}

struct object *bucket_find_locked(struct memory_bucket *bucket, const char *key) {
  struct object *at = *bucket_place_locked(bucket, key);
  return at != NULL && strcmp(at->key, key) == 0 ? at : NULL;
}

/* Takes `bytes`. */
void bucket_store_locked(struct memory_bucket *bucket, const char *key, char *bytes, size_t size) {
  struct object **link = bucket_place_locked(bucket, key);
  if (*link == NULL || strcmp((*link)->key, key) != 0) {
    struct object *fresh = bucket_must(calloc(1, sizeof *fresh));
    fresh->key = bucket_must(strdup(key));
    fresh->next = *link;
    *link = fresh;
  }
  free((*link)->bytes);
  (*link)->bytes = bytes;
  (*link)->size = size;
  (*link)->parts = 0;
  (*link)->version = ++bucket->versions;
  (*link)->modified_s = bucket->now_s;
  pthread_cond_broadcast(&bucket->change);
}

void bucket_remove_locked(struct memory_bucket *bucket, const char *key) {
  struct object **link = bucket_place_locked(bucket, key);
  struct object *at = *link;
  if (at == NULL || strcmp(at->key, key) != 0)
    return;
  *link = at->next;
  object_free(at);
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
    if (found >= count)
      break;
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
  for (struct upload *at = bucket->uploads; at != NULL; at = at->next)
    count++;
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

void memory_flip_bits(struct memory_bucket *bucket, const char *ending, size_t offset, char bits) {
  pthread_mutex_lock(&bucket->lock);
  struct object *object = by_ending_locked(bucket, ending);
  ck_assert_uint_lt(offset, object->size);
  object->bytes[offset] ^= bits;
  pthread_mutex_unlock(&bucket->lock);
}

void memory_flip(struct memory_bucket *bucket, const char *ending, size_t offset) {
  memory_flip_bits(bucket, ending, offset, 0x10);
}

void memory_resize(struct memory_bucket *bucket, const char *ending, size_t size) {
  pthread_mutex_lock(&bucket->lock);
  struct object *object = by_ending_locked(bucket, ending);
  char *bytes = bucket_must(calloc(1, size + 1));
  memcpy(bytes, object->bytes, size < object->size ? size : object->size);
  free(object->bytes);
  object->bytes = bytes;
  object->size = size;
  pthread_mutex_unlock(&bucket->lock);
}

void memory_remove(struct memory_bucket *bucket, const char *ending) {
  pthread_mutex_lock(&bucket->lock);
  bucket_remove_locked(bucket, by_ending_locked(bucket, ending)->key);
  pthread_mutex_unlock(&bucket->lock);
}

void memory_write(struct memory_bucket *bucket, const char *key, const void *bytes, size_t size) {
  char *copy = bucket_must(malloc(size + 1));
  memcpy(copy, bytes, size);
  copy[size] = '\0';
  pthread_mutex_lock(&bucket->lock);
  bucket_store_locked(bucket, key, copy, size);
  pthread_mutex_unlock(&bucket->lock);
}
