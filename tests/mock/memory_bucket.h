/* memory_bucket.h: the inside of a bucket, shared by memory_store.c (the operations) and memory_bucket.c
 * (gates, hooks, and what tests look at and damage). */
#ifndef CLEAT_TESTS_MOCK_MEMORY_BUCKET_H
#define CLEAT_TESTS_MOCK_MEMORY_BUCKET_H

#include "base/call.h"
#include "tests/mock/memory_store.h"

#include <pthread.h>

struct object {
  struct object *next;
  char *key;
  char *bytes;
  size_t size;
  unsigned long version; /* its etag */
  int64_t modified_s;    /* 0: not told */
  uint32_t parts;        /* made of so many; 0: one put */
  uint32_t crc32c;       /* of the CRCs of the parts */
};

struct part {
  char *bytes;
  size_t size;
  uint32_t crc32c;
};

struct upload {
  struct upload *next;
  int64_t begun_s;
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
  unsigned ignored; /* of enum memory_ignored */
  bool held;
  char held_op[32];
  char held_part[256];
  unsigned waiting;
  enum memory_checksums checksums;
  bool exact;
  int64_t now_s;
  bool tells_clock;
  int64_t clock_offset_s;
};

/* Ends the program on NULL. */
void *bucket_must(void *memory);
void bucket_upload_free(struct upload *upload);

/* What every operation begins with: hook, gate, cancel. On CLEAT_OK the lock is held. */
cleat_status bucket_enter(struct memory_bucket *bucket, const char *op, const char *key, struct cleat__call call);

/* What it ends with: lets go of the lock, and asks the hook again. */
cleat_status bucket_leave(struct memory_bucket *bucket, const char *op, const char *key, cleat_status status,
                          struct cleat__call call);

/* Under the lock: NULL when there is none; takes `bytes`; nothing when there is none. */
struct object *bucket_find_locked(struct memory_bucket *bucket, const char *key);
void bucket_store_locked(struct memory_bucket *bucket, const char *key, char *bytes, size_t size);
void bucket_remove_locked(struct memory_bucket *bucket, const char *key);

#endif
