/* memory_store.h: a store in memory, for tests: exact, fast, and open to damage, faults and delays.
 *
 * A bucket outlives the stores that are opened on it, so that two clients can share one. All
 * functions are thread-safe. Memory of the bucket comes from malloc, so that armed faults of
 * base/mem.h strike Cleat and not the test's server. */
#ifndef CLEAT_TESTS_MOCK_MEMORY_STORE_H
#define CLEAT_TESTS_MOCK_MEMORY_STORE_H

#include "base/call.h"
#include "storage/common/store.h"

struct memory_bucket;

struct memory_bucket *memory_bucket_new(void);

/* Every store on it must be closed. */
void memory_bucket_free(struct memory_bucket *bucket);

/* Limits of a store on the bucket; 0: no limit (min_part_bytes: 4096, concurrency: 4). */
struct memory_limits {
  uint64_t min_part_bytes;
  uint64_t max_put_bytes;
  uint32_t max_parts;
  uint64_t max_object_bytes;
  unsigned concurrency;
};

/* Owned by the caller, or by the client that takes it. */
struct cleat__store *memory_store_open(struct memory_bucket *bucket, const struct memory_limits *limits);

/* Asked with no lock held before (`done` false) and after (`done` true) each operation; `op` is the
 * name in the table of operations. A status other than CLEAT_OK is the operation's answer: before, it
 * is not carried out; after, its success is withheld. The hook fills err. Set while no store is in
 * use. */
typedef cleat_status memory_hook(void *user, const char *op, const char *key, bool done, struct cleat__call call);
void memory_bucket_hook(struct memory_bucket *bucket, memory_hook *hook, void *user);

/* What the store tells of the bytes that it holds. Set while no store is in use. */
enum memory_checksums {
  MEMORY_CHECKSUMS_ALL = 0,  /* CRC-32C of parts and objects */
  MEMORY_CHECKSUMS_ETAG = 1, /* none, but the ETag of a part is its MD5 */
  MEMORY_CHECKSUMS_NONE = 2  /* nothing */
};
void memory_bucket_checksums(struct memory_bucket *bucket, enum memory_checksums checksums);

/* From now on unfinished uploads are listed by whole keys alone, as MinIO does. */
void memory_bucket_exact(struct memory_bucket *bucket);

/* The time of what is stored from now on, as lists tell it; 0, as in the beginning: they tell none. */
void memory_bucket_now(struct memory_bucket *bucket, int64_t now_s);

/* Stores that are opened from now on tell that their clock is so many seconds before ours. */
void memory_bucket_clock(struct memory_bucket *bucket, int64_t offset_s);

/* Operations whose name is `op` (NULL: any) and whose key holds `part` wait before they begin, until
 * memory_release or their cancel flag. One such gate at a time. */
void memory_hold(struct memory_bucket *bucket, const char *op, const char *part);
/* Returns when `count` operations wait at the gate. */
void memory_wait_held(struct memory_bucket *bucket, unsigned count);
void memory_release(struct memory_bucket *bucket);

/* What the bucket takes and ignores from now on, as some real stores do; 0: nothing. Set while no store
 * is in use. */
enum memory_ignored {
  MEMORY_IGNORES_CREATE_ONLY = 1,
  MEMORY_IGNORES_IF_MATCH = 2,
  MEMORY_IGNORES_CHECKSUMS = 4,
  MEMORY_IGNORES_REMOVALS = 8,
  MEMORY_IGNORES_COMPLETE = 16 /* create-only, of uploads */
};
void memory_ignore(struct memory_bucket *bucket, unsigned ignored);

/* ---- What is in it ---- */

/* Keys that hold `part` ("" for all). */
size_t memory_count(struct memory_bucket *bucket, const char *part);
/* Returns when there are `count` of them. */
void memory_wait_count(struct memory_bucket *bucket, const char *part, size_t count);
size_t memory_uploads(struct memory_bucket *bucket);
/* Blocks of the heap that the bucket holds now. */
long memory_blocks(struct memory_bucket *bucket);
/* How many operations of that name were begun. */
unsigned memory_calls(struct memory_bucket *bucket, const char *op);

/* The object whose key ends in `ending` (there must be exactly one); its bytes live until it is
 * written to or removed. */
const char *memory_find(struct memory_bucket *bucket, const char *ending, size_t *size);
/* The same object's key, in static memory. */
const char *memory_key(struct memory_bucket *bucket, const char *ending);

/* Damage: flips a bit, cuts or stretches, removes, replaces, or adds. */
void memory_flip(struct memory_bucket *bucket, const char *ending, size_t offset);
void memory_flip_bits(struct memory_bucket *bucket, const char *ending, size_t offset, char bits);
void memory_resize(struct memory_bucket *bucket, const char *ending, size_t size);
void memory_remove(struct memory_bucket *bucket, const char *ending);
void memory_write(struct memory_bucket *bucket, const char *key, const void *bytes, size_t size);

#endif
