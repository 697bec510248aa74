/* store.h: the contract between Cleat and a place that stores bytes under keys.
 *
 * A driver is one constant table of operations and a context that begins with struct cleat__store. All drivers have
 * the same shape. storage/file/ is the shortest one.
 *
 * Keys are relative to the folder of the URL. Their segments are separated by '/'. A key does not begin or end with
 * '/', and has no empty, "." or ".." segment. It has at most CLEAT__KEY_MAX bytes of UTF-8 without control
 * characters. Callers check this with cleat__key_check; drivers may rely on it.
 *
 * Every operation blocks, is thread-safe and ends in bounded time. It retries what is worth retrying within the time
 * limit of the client, and fills `err` on failure. `cancel` is never NULL. Setting it ends a running operation with
 * CLEAT_CANCELLED within about a second. put and multipart_create wait a few seconds longer for the reply to a
 * request that is completely sent. Otherwise the object could appear after the cleanup, or an upload could exist
 * whose id nobody knows. */
#ifndef CLEAT_STORAGE_COMMON_STORE_H
#define CLEAT_STORAGE_COMMON_STORE_H

#include "base/call.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/feed.h"
#include "base/log.h"
#include "base/span.h"

#include <stdatomic.h>
#include <stdbool.h>

#define CLEAT__KEY_MAX 900        /* S3 allows 1,024 with the prefix; the prefix gets the rest */
#define CLEAT__ETAG_MAX 128       /* opaque; those of S3 have 34 to 70 bytes */
#define CLEAT__UPLOAD_ID_MAX 1024 /* AWS documents no limit; MinIO's have 160 bytes */
#define CLEAT__LIST_PAGE 1000     /* S3's largest page */

/* No segment of a key may start with this. The file:// driver uses such names for unfinished writes, and every
 * checkpoint must be storable in every store. */
#define CLEAT__RESERVED_PREFIX ".cleat-"

/* What a store can do, for callers that depend on it. */
enum cleat__store_capability {
  CLEAT__STORE_CREATE_ONLY = 1u << 0, /* honours CLEAT__PUT_CREATE_ONLY */
  CLEAT__STORE_IF_MATCH = 1u << 1,    /* honours CLEAT__PUT_IF_MATCH */
  CLEAT__STORE_UNPROVEN = 1u << 2     /* sends both conditions; server support must be probed */
};

/* Bits of `lacks`: what the server turned out not to support, learned from its answers. The driver continues without
 * it. */
enum cleat__store_finding {
  /* The server refuses the condition. The driver checks with a HEAD before it puts, and two concurrent writers may
   * both succeed. */
  CLEAT__STORE_NO_CREATE_ONLY = 1u << 0,
  CLEAT__STORE_NO_OBJECT_SIZE = 1u << 1,
  CLEAT__STORE_NO_LIST_PARTS = 1u << 2,   /* multipart_list_parts: UNSUPPORTED */
  CLEAT__STORE_NO_LIST_UPLOADS = 1u << 3, /* multipart_list: UNSUPPORTED */
  CLEAT__STORE_PLAIN_KEYS = 1u << 4,      /* its lists claim to be url-encoded and are not */
  CLEAT__STORE_ENCODED_KEYS = 1u << 5,    /* not a lack: its lists are url-encoded, as they claim */
  CLEAT__STORE_NO_IF_MATCH = 1u << 6,     /* the server refuses the condition: see `or_check` */
  /* A create-only request was refused while the object existed. So it is not known whether the condition was the
   * reason. */
  CLEAT__STORE_REFUSED_CREATE_ONLY = 1u << 7
};

enum cleat__put_condition {
  CLEAT__PUT_ALWAYS = 0,
  /* EXISTS when the key exists. It may have been made by an earlier try of the same put whose reply was lost. The
   * caller finds out by reading a token back. */
  CLEAT__PUT_CREATE_ONLY = 1,
  /* LOST when a check found that the object no longer has `etag`. UNSUPPORTED when the store refuses the put
   * although the object has it. */
  CLEAT__PUT_IF_MATCH = 2,
  /* used inside a driver only: create-only without the condition, for a store that refuses it */
  CLEAT__PUT_UNGUARDED = 3
};

struct cleat__put_options {
  enum cleat__put_condition condition;
  const char *etag; /* for CLEAT__PUT_IF_MATCH */
  /* For CLEAT__PUT_IF_MATCH. If the store refuses the condition, the driver may check the ETag with a HEAD and put
   * without the condition. Two concurrent writers may then both succeed. So no put that a resume depends on may set
   * this. */
  bool or_check;
  const char *content_type; /* NULL: application/octet-stream */
  uint32_t crc32c;          /* of the whole body; the store checks it if it can */
  /* For the doctor: send a checksum that does not match the body. The store must refuse it. A driver that sends
   * another checksum than crc32c sends a wrong value of that one. */
  bool wrong_checksum;
  /* NULL, or a counter. It is raised by the number of failed tries before the last one. The server may still carry
   * out any of them. */
  unsigned *failed_tries;
};

/* What `head` learned of the CRC-32C of an object. */
enum cleat__object_checksum {
  CLEAT__OBJECT_CHECKSUM_NONE = 0,
  CLEAT__OBJECT_CHECKSUM_WHOLE = 1, /* of the bytes of the object */
  CLEAT__OBJECT_CHECKSUM_PARTS = 2  /* of the CRCs of its parts: each 4 bytes, big-endian */
};

struct cleat__object {
  uint64_t size;
  char etag[CLEAT__ETAG_MAX];
  enum cleat__object_checksum checksum; /* filled only by head */
  uint32_t crc32c;
  uint32_t checksum_parts; /* number of parts, for _PARTS */
};

/* A small object as a whole. */
struct cleat__small {
  char *bytes; /* owned (cleat__free), NUL-terminated */
  size_t size;
  char etag[CLEAT__ETAG_MAX];
};

/* One entry of a page: an object, or, with a delimiter, a common prefix. A prefix ends in '/'. */
struct cleat__list_entry {
  char *key; /* relative to the store's folder, as all keys */
  uint64_t size;
  bool is_prefix;
  int64_t modified_s; /* Unix time by the clock of the store; 0 if unknown, and for every prefix */
};

struct cleat__list_page {
  struct cleat__list_entry *entries; /* owned; cleat__list_page_clear */
  size_t count;
  char *next; /* owned; token for the next page; NULL: this was the last */
};

void cleat__list_page_clear(struct cleat__list_page *page);

/* An unfinished multipart upload. Plain data. */
struct cleat__upload {
  char key[CLEAT__KEY_MAX + 1];
  char id[CLEAT__UPLOAD_ID_MAX + 1];
  uint64_t size;       /* of the whole object */
  uint64_t part_bytes; /* of every part but the last */
  /* complete must fail with EXISTS instead of replacing an object; set by the caller */
  bool create_only;
};

/* One entry of a page of unfinished uploads, whichever process began them. */
struct cleat__upload_entry {
  char *key; /* relative to the store's folder, as all keys */
  char *id;
  int64_t begun_s; /* Unix time; 0: unknown */
};

struct cleat__upload_page {
  struct cleat__upload_entry *entries; /* owned; cleat__upload_page_clear */
  size_t count;
  char *next; /* owned; token for the next page; NULL: this was the last */
};

void cleat__upload_page_clear(struct cleat__upload_page *page);

/* A part that the store holds, for complete and list_parts. */
struct cleat__stored_part {
  uint32_t number; /* from 1 */
  uint64_t size;
  uint32_t crc32c; /* valid when has_crc32c */
  bool has_crc32c;
  bool has_crc64nvme; /* filled by a driver whose store checks CRC-64/NVME instead */
  uint64_t crc64nvme;
  bool wrong_checksum; /* as in struct cleat__put_options */
  char etag[CLEAT__ETAG_MAX];
};

/* What only a driver knows of its store, for the doctor. Plain data without secrets. A field is "", 0 or false if it
 * does not apply or is not known. */
struct cleat__store_facts {
  char place[600];      /* where requests go: an endpoint, or a folder and its file system */
  char addressing[600]; /* how a request names the bucket, and the region of the bucket */
  char keys[64];        /* which place the credentials are from */
  bool needs_keys;
  int64_t keys_end_s; /* when the credentials expire, Unix time; 0: never */
  char checksum[32];  /* which checksum the store must check for each body */
  bool forgets;       /* objects are lost when the machine restarts */
  bool has_clock;
  int64_t clock_offset_s; /* clock of the store minus the local clock */
};

/* What `sweep` found. */
struct cleat__swept {
  uint64_t objects;
  uint64_t bytes;
};

struct cleat__store;

struct cleat__store_ops {
  /* Required. Stores `body` (all spans) under `key`, completely or not at all. */
  cleat_status (*put)(struct cleat__store *store, const char *key, struct cleat__spans body,
                      const struct cleat__put_options *options, struct cleat__call call);

  /* Required. Reads exactly the total length of the spans, starting at `offset`, into the spans. *crc32c is the
   * CRC-32C of all bytes read. INTEGRITY: the object has fewer bytes. NOT_FOUND: no such key. With length 0 it
   * succeeds and reads nothing. */
  cleat_status (*get)(struct cleat__store *store, const char *key, uint64_t offset, struct cleat__spans into,
                      uint32_t *crc32c, struct cleat__call call);

  /* Required. Reads a whole object of at most `cap` bytes. LIMIT: the object is larger. A failure leaves *small as it
   * was. */
  cleat_status (*get_small)(struct cleat__store *store, const char *key, size_t cap, struct cleat__small *small,
                            struct cleat__call call);

  /* Required. Gets size and ETag of an object. NOT_FOUND: no such key. */
  cleat_status (*head)(struct cleat__store *store, const char *key, struct cleat__object *object,
                       struct cleat__call call);

  /* Required. Lists one page of the keys that start with `prefix` in byte order. The prefix is "" for all keys and
   * may end in '/'. With `delimited`, keys that have a '/' after the prefix are folded into common prefixes. `after`
   * is NULL for the first page, then the `next` of the page before. An absent folder gives an empty page. An absent
   * bucket is NOT_FOUND. A common prefix may hold no key: folders of file:// can be empty. */
  cleat_status (*list)(struct cleat__store *store, const char *prefix, bool delimited, const char *after,
                       struct cleat__list_page *page, struct cleat__call call);

  /* Required. Removes an object. An absent key is a success. */
  cleat_status (*remove)(struct cleat__store *store, const char *key, struct cleat__call call);

  /* Required. Begins an upload of upload->size bytes under upload->key, in parts of upload->part_bytes. The caller
   * fills these three fields; the operation fills upload->id. */
  cleat_status (*multipart_create)(struct cleat__store *store, struct cleat__upload *upload, const char *content_type,
                                   struct cleat__call call);

  /* Required. Stores part part->number (from 1), in any order and in parallel with others. The caller fills
   * part->number, size and crc32c. The store checks the CRC if it can. The operation fills part->etag. */
  cleat_status (*multipart_part)(struct cleat__store *store, const struct cleat__upload *upload,
                                 struct cleat__spans body, struct cleat__stored_part *part, struct cleat__call call);

  /* Required. Like multipart_part, but reads the body from `feed` while it sends it, so no memory of the size of the
   * body is needed. The body is read again for each retry. It is also read once more if the store uses another
   * checksum than crc32c. part->size is feed->length. If the feed fails, its error is returned unchanged. */
  cleat_status (*multipart_feed)(struct cleat__store *store, const struct cleat__upload *upload,
                                 const struct cleat__feed *feed, struct cleat__stored_part *part,
                                 struct cleat__call call);

  /* Required. Makes the object from all parts in their order. Only then is the key visible. After a lost reply, the
   * operation itself checks whether an object of this size exists, and then succeeds. With upload->create_only it
   * returns EXISTS if there is an object, whichever process made it. The caller then compares the bytes. */
  cleat_status (*multipart_complete)(struct cleat__store *store, const struct cleat__upload *upload,
                                     const struct cleat__stored_part *parts, size_t count, struct cleat__call call);

  /* Required. Discards the upload and its parts. An upload that no longer exists is a success. The caller must have
   * no part of it in flight. If the store can list parts, the operation returns success only when the list is empty. */
  cleat_status (*multipart_abort)(struct cleat__store *store, const struct cleat__upload *upload,
                                  struct cleat__call call);

  /* Required. Lists all parts that the store holds, ordered by number (*parts: cleat__free). NOT_FOUND: no such
   * upload. UNSUPPORTED: the store cannot list parts. */
  cleat_status (*multipart_list_parts)(struct cleat__store *store, const struct cleat__upload *upload,
                                       struct cleat__stored_part **parts, size_t *count, struct cleat__call call);

  /* Required. Lists one page of the unfinished uploads whose key starts with `prefix`, ordered by key and id.
   * `after` as for list. MinIO lists only the uploads of one complete key. So callers that know the keys also ask
   * with each key as the prefix. UNSUPPORTED: the store cannot list uploads. */
  cleat_status (*multipart_list)(struct cleat__store *store, const char *prefix, const char *after,
                                 struct cleat__upload_page *page, struct cleat__call call);

  /* Required. Takes over an upload that another process began. The caller fills key, id, size and part_bytes.
   * Afterwards list_parts lists only parts whose bytes are known to be stored, and parts may be added. LOST: the
   * upload cannot be taken over, because the process that began it is alive (only file:// can know), or because the
   * upload has another size. NOT_FOUND: no such upload. */
  cleat_status (*multipart_adopt)(struct cleat__store *store, const struct cleat__upload *upload,
                                  struct cleat__call call);

  /* Optional; NULL: the store cannot know. Tells whether the process that began the upload is alive (file:// only),
   * and how many bytes the upload uses. An upload that no longer exists is not held and uses 0 bytes. */
  cleat_status (*multipart_held)(struct cleat__store *store, const char *key, const char *id, bool *held,
                                 uint64_t *bytes, struct cleat_error *err);

  /* Optional; NULL: the store has no such leftovers. Removes hidden files of unfinished writes, which no other
   * operation shows, in and below the folder `prefix` (it ends in '/'). A file is removed if it was last changed
   * before `before_s` (Unix time) and no living process holds it. Uploads that multipart_list shows are not touched.
   * With `dry_run`, nothing is removed. *found counts what was removed, or would be. After a failure it counts what
   * was removed until then. */
  cleat_status (*sweep)(struct cleat__store *store, const char *prefix, int64_t before_s, bool dry_run,
                        struct cleat__swept *found, struct cleat__call call);

  /* Optional; NULL: the driver has no facts. Requests `key`, which must not exist, to test the connection to the
   * store. Fills *facts as far as it gets, also on failure. Returns success if the key is absent. Other failures are
   * those of get_small. */
  cleat_status (*describe)(struct cleat__store *store, const char *key, struct cleat__store_facts *facts,
                           struct cleat__call call);

  /* Required. Frees the store. No operation may be running. */
  void (*close)(struct cleat__store *store);
};

/* Common to all drivers: the context of every driver begins with this. */
struct cleat__store {
  const struct cleat__store_ops *ops;
  unsigned capabilities;        /* of enum cleat__store_capability */
  uint64_t min_part_bytes;      /* smallest size of a part other than the last */
  uint64_t max_put_bytes;       /* largest single put */
  uint32_t max_parts;           /* of one upload */
  uint64_t max_object_bytes;    /* largest object, in one put or in parts */
  unsigned default_concurrency; /* most transfers in flight at a time */
  /* transfers in flight at the start, before the best number is measured; 0: always default_concurrency */
  unsigned first_concurrency;
  atomic_ulong throttles; /* number of times the server asked to slow down */
  atomic_ulong retries;   /* requests that were sent again after a failed try */
  /* The server refuses If-Match with the ETag as it returned it, and accepts another form (quotes added or removed). */
  atomic_bool other_etags;
  atomic_uint lacks; /* of enum cleat__store_finding */
  char *display;     /* URL for messages, without secrets; owned; freed by cleat__store_close */
};

/* What a driver needs to open a store. Strings are borrowed for the call. */
struct cleat__store_config {
  const struct cleat_client_options *options; /* never NULL */
  const struct cleat__clock *clock;
  struct cleat__log log;
};

/* Closes and frees the store. NULL is allowed. */
void cleat__store_close(struct cleat__store *store);

/* True if the error says that the object is absent. An absent bucket is not counted: a save would fail there too. */
bool cleat__object_is_absent(cleat_status status, const struct cleat_error *err);

/* Fails with INVALID unless `key` is valid as described at the top of this file. */
cleat_status cleat__key_check(const char *key, struct cleat_error *err);

/* What is wrong with `key`, as a static text to follow "the key ..."; NULL if the key is valid. */
const char *cleat__key_problem(const char *key);

/* ---- The operations of a store, as functions: see struct cleat__store_ops ---- */

static inline cleat_status cleat__store_put(struct cleat__store *store, const char *key, struct cleat__spans body,
                                            const struct cleat__put_options *options, struct cleat__call call) {
  return store->ops->put(store, key, body, options, call);
}

static inline cleat_status cleat__store_get(struct cleat__store *store, const char *key, uint64_t offset,
                                            struct cleat__spans into, uint32_t *crc32c, struct cleat__call call) {
  return store->ops->get(store, key, offset, into, crc32c, call);
}

static inline cleat_status cleat__store_get_small(struct cleat__store *store, const char *key, size_t cap,
                                                  struct cleat__small *small, struct cleat__call call) {
  return store->ops->get_small(store, key, cap, small, call);
}

static inline cleat_status cleat__store_head(struct cleat__store *store, const char *key, struct cleat__object *object,
                                             struct cleat__call call) {
  return store->ops->head(store, key, object, call);
}

static inline cleat_status cleat__store_list(struct cleat__store *store, const char *prefix, bool delimited,
                                             const char *after, struct cleat__list_page *page,
                                             struct cleat__call call) {
  return store->ops->list(store, prefix, delimited, after, page, call);
}

static inline cleat_status cleat__store_remove(struct cleat__store *store, const char *key, struct cleat__call call) {
  return store->ops->remove(store, key, call);
}

static inline cleat_status cleat__store_multipart_create(struct cleat__store *store, struct cleat__upload *upload,
                                                         const char *content_type, struct cleat__call call) {
  return store->ops->multipart_create(store, upload, content_type, call);
}

static inline cleat_status cleat__store_multipart_part(struct cleat__store *store, const struct cleat__upload *upload,
                                                       struct cleat__spans body, struct cleat__stored_part *part,
                                                       struct cleat__call call) {
  return store->ops->multipart_part(store, upload, body, part, call);
}

static inline cleat_status cleat__store_multipart_feed(struct cleat__store *store, const struct cleat__upload *upload,
                                                       const struct cleat__feed *feed, struct cleat__stored_part *part,
                                                       struct cleat__call call) {
  return store->ops->multipart_feed(store, upload, feed, part, call);
}

static inline cleat_status cleat__store_multipart_complete(struct cleat__store *store,
                                                           const struct cleat__upload *upload,
                                                           const struct cleat__stored_part *parts, size_t count,
                                                           struct cleat__call call) {
  return store->ops->multipart_complete(store, upload, parts, count, call);
}

static inline cleat_status cleat__store_multipart_abort(struct cleat__store *store, const struct cleat__upload *upload,
                                                        struct cleat__call call) {
  return store->ops->multipart_abort(store, upload, call);
}

static inline cleat_status cleat__store_multipart_list_parts(struct cleat__store *store,
                                                             const struct cleat__upload *upload,
                                                             struct cleat__stored_part **parts, size_t *count,
                                                             struct cleat__call call) {
  return store->ops->multipart_list_parts(store, upload, parts, count, call);
}

static inline cleat_status cleat__store_multipart_list(struct cleat__store *store, const char *prefix,
                                                       const char *after, struct cleat__upload_page *page,
                                                       struct cleat__call call) {
  return store->ops->multipart_list(store, prefix, after, page, call);
}

static inline cleat_status cleat__store_multipart_adopt(struct cleat__store *store, const struct cleat__upload *upload,
                                                        struct cleat__call call) {
  return store->ops->multipart_adopt(store, upload, call);
}

static inline cleat_status cleat__store_multipart_held(struct cleat__store *store, const char *key, const char *id,
                                                       bool *held, uint64_t *bytes, struct cleat_error *error) {
  return store->ops->multipart_held(store, key, id, held, bytes, error);
}

static inline cleat_status cleat__store_sweep(struct cleat__store *store, const char *prefix, int64_t before_s,
                                              bool dry_run, struct cleat__swept *found, struct cleat__call call) {
  return store->ops->sweep(store, prefix, before_s, dry_run, found, call);
}

static inline cleat_status cleat__store_describe(struct cleat__store *store, const char *key,
                                                 struct cleat__store_facts *facts, struct cleat__call call) {
  return store->ops->describe(store, key, facts, call);
}

#endif
