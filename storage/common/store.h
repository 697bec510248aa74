/* store.h: the contract between Cleat and a place that keeps bytes under keys.
 *
 * A driver is one constant table of operations plus a context that begins with struct
 * cleat__store. Every driver has the same shape, so that one teaches all; file.c is the shortest.
 *
 * Keys are relative to the URL's folder, '/'-separated, without leading or trailing '/', without
 * empty, "." or ".." segments, at most CLEAT__KEY_MAX bytes of UTF-8 without control characters;
 * drivers may count on it (cleat__key_check). Every operation is blocking, thread-safe, ends in
 * bounded time, retries what is worth retrying within the time limit of the client, and fills `err`
 * on failure. `cancel` (never NULL) makes a running operation end with CLEAT_CANCELLED within about
 * a second; put and multipart_create wait a few seconds longer for the answer to a request that is wholly
 * sent, since what it makes might else appear after it was removed, or never be known. */
#ifndef CLEAT_STORAGE_COMMON_STORE_H
#define CLEAT_STORAGE_COMMON_STORE_H

#include "base/clock.h"
#include "base/error.h"
#include "base/feed.h"
#include "base/log.h"
#include "base/span.h"

#include <stdatomic.h>
#include <stdbool.h>

#define CLEAT__KEY_MAX 900        /* S3 allows 1,024 with the prefix; the prefix gets the rest */
#define CLEAT__ETAG_MAX 128       /* opaque; S3's are 34 to 70 bytes */
#define CLEAT__UPLOAD_ID_MAX 1024 /* AWS documents no limit; MinIO's have 160 bytes */
#define CLEAT__LIST_PAGE 1000     /* S3's largest page */

/* No segment of a key may start with this: file.c hides its unfinished writes under such names, and
 * a checkpoint must be storable in every store. */
#define CLEAT__RESERVED_PREFIX ".cleat-"

/* What a store can do, for callers that must choose. */
enum cleat__store_capability {
  CLEAT__STORE_CREATE_ONLY = 1u << 0, /* honours CLEAT__PUT_CREATE_ONLY */
  CLEAT__STORE_IF_MATCH = 1u << 1,    /* honours CLEAT__PUT_IF_MATCH */
  CLEAT__STORE_UNPROVEN = 1u << 2     /* asks for both; whether the server heeds it, trying tells */
};

/* What a store turned out not to do, learned from its answers: bits of `lacks`. A driver that learns one goes on
 * without. */
enum cleat__store_finding {
  CLEAT__STORE_NO_CREATE_ONLY =
      1u << 0, /* refuses to be asked for it: the driver looks before it puts,
                                            and two writers at once may both succeed */
  CLEAT__STORE_NO_OBJECT_SIZE = 1u << 1,
  CLEAT__STORE_NO_LIST_PARTS = 1u << 2,   /* multipart_list_parts: UNSUPPORTED */
  CLEAT__STORE_NO_LIST_UPLOADS = 1u << 3, /* multipart_list: UNSUPPORTED */
  CLEAT__STORE_PLAIN_KEYS = 1u << 4,      /* its lists claim an encoding that they have not */
  CLEAT__STORE_ENCODED_KEYS = 1u << 5,    /* nothing that it lacks: the claim was found true */
  CLEAT__STORE_NO_IF_MATCH = 1u << 6,     /* refuses to be asked for it: see `or_check` */
  /* A create-only request was refused, and the object was there: whether the condition was the reason is not known. */
  CLEAT__STORE_REFUSED_CREATE_ONLY = 1u << 7
};

enum cleat__put_condition {
  CLEAT__PUT_ALWAYS = 0,
  CLEAT__PUT_CREATE_ONLY = 1, /* EXISTS when the key is there, perhaps by one's own lost try: the
                                 caller settles that by reading a token back */
  CLEAT__PUT_IF_MATCH =
      2, /* LOST when the object was seen not to be the one with `etag`; UNSUPPORTED when
                                 it is refused although the object is that one */
  CLEAT__PUT_UNGUARDED =
      3 /* a driver's own: create-only, of a store that refuses to be asked for it */
};

struct cleat__put_options {
  enum cleat__put_condition condition;
  const char *etag; /* for CLEAT__PUT_IF_MATCH */
  /* For CLEAT__PUT_IF_MATCH: where the store refuses to be asked for it, the driver may look at the object and put
   * without the condition. Two writers at once may both succeed then, so nothing that a resume rests on may ask for
   * this. */
  bool or_check;
  const char *content_type; /* NULL: application/octet-stream */
  uint32_t crc32c;          /* of the whole body; the store is asked to check it where it can */
  bool wrong_checksum;      /* the doctor's: the checksum is not the body's, and is to be refused; a
                               driver that sends another than crc32c spoils that one */
  /* NULL, or raised by the tries that failed before the one that decided; any may still be carried out. */
  unsigned *failed_tries;
};

/* What `head` knows of an object's CRC-32C. */
enum cleat__object_checksum {
  CLEAT__OBJECT_CHECKSUM_NONE = 0,
  CLEAT__OBJECT_CHECKSUM_WHOLE = 1, /* of its bytes */
  CLEAT__OBJECT_CHECKSUM_PARTS = 2  /* of the CRCs of its parts, each as 4 bytes, big-endian */
};

struct cleat__object {
  uint64_t size;
  char etag[CLEAT__ETAG_MAX];
  enum cleat__object_checksum checksum; /* filled by head alone */
  uint32_t crc32c;
  uint32_t checksum_parts; /* how many, for _PARTS */
};

/* One entry of a page: an object, or (with a delimiter) a common prefix, which ends in '/'. */
struct cleat__list_entry {
  char *key; /* relative to the store's folder, as all keys */
  uint64_t size;
  bool is_prefix;
  int64_t modified_s; /* Unix time, by the store's clock; 0: not told, and of every prefix */
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
  bool create_only;    /* complete must not replace an object: EXISTS. Set by the caller */
};

/* One entry of a page of unfinished uploads, by whomever they were begun. */
struct cleat__upload_entry {
  char *key; /* relative to the store's folder, as all keys */
  char *id;
  int64_t begun_s; /* Unix time; 0: not told */
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
  bool has_crc64nvme; /* filled by a driver whose store checks by that instead */
  uint64_t crc64nvme;
  bool wrong_checksum; /* as in struct cleat__put_options */
  char etag[CLEAT__ETAG_MAX];
};

/* What only a driver knows of its place, for the doctor. Plain data without secrets; "", 0 or false
 * where it does not apply or is not known. */
struct cleat__store_facts {
  char place[600];      /* where requests go: an endpoint, a folder and its file system */
  char addressing[600]; /* how the bucket is named in a request, and its region */
  char keys[64];        /* which place gave the keys */
  bool needs_keys;
  int64_t keys_end_s; /* wall clock; 0: they do not end */
  char checksum[32];  /* what the store is asked to check of each body */
  bool forgets;       /* what is stored is gone after a restart of the machine */
  bool has_clock;
  int64_t clock_offset_s; /* the store's clock minus ours */
};

/* What `sweep` found. */
struct cleat__swept {
  uint64_t objects;
  uint64_t bytes;
};

struct cleat__store;

struct cleat__store_ops {
  /* Required. Stores `body` (all spans) under `key`, whole or not at all. */
  cleat_status (*put)(struct cleat__store *store, const char *key, const struct cleat__span *body,
                      size_t body_count, const struct cleat__put_options *options,
                      const atomic_bool *cancel, struct cleat_error *err);

  /* Required. Reads exactly the spans' length from `offset` on into the spans; *crc32c is that of
   * all bytes read. Fewer bytes there: INTEGRITY. No such key: NOT_FOUND. Length 0 is a success
   * that reads nothing. */
  cleat_status (*get)(struct cleat__store *store, const char *key, uint64_t offset,
                      const struct cleat__span *into, size_t into_count, uint32_t *crc32c,
                      const atomic_bool *cancel, struct cleat_error *err);

  /* Required. A whole object of at most `cap` bytes into new memory (*bytes: cleat__free, NUL
   * after the end). Larger: LIMIT. *object, when not NULL, gets size and etag of what was read. */
  cleat_status (*get_small)(struct cleat__store *store, const char *key, size_t cap, char **bytes,
                            size_t *size, struct cleat__object *object, const atomic_bool *cancel,
                            struct cleat_error *err);

  /* Required. Size and etag; NOT_FOUND. */
  cleat_status (*head)(struct cleat__store *store, const char *key, struct cleat__object *object,
                       const atomic_bool *cancel, struct cleat_error *err);

  /* Required. One page of the keys that start with `prefix` ("" for all; may end in '/'), in byte
   * order; with `delimited`, those with a further '/' are folded into prefixes. `after` NULL for
   * the first page, else the page's `next`. A folder that is absent is an empty page; a bucket that
   * is absent is NOT_FOUND. A prefix may turn out to hold no key: folders of file:// can be
   * empty. */
  cleat_status (*list)(struct cleat__store *store, const char *prefix, bool delimited,
                       const char *after, struct cleat__list_page *page, const atomic_bool *cancel,
                       struct cleat_error *err);

  /* Required. An absent key is a success. */
  cleat_status (*remove)(struct cleat__store *store, const char *key, const atomic_bool *cancel,
                         struct cleat_error *err);

  /* Required. Begins an upload of upload->size bytes in parts of upload->part_bytes under
   * upload->key (filled by the caller); fills upload->id. */
  cleat_status (*multipart_create)(struct cleat__store *store, struct cleat__upload *upload,
                                   const char *content_type, const atomic_bool *cancel,
                                   struct cleat_error *err);

  /* Required. Stores part `number` (from 1; any order, in parallel). part->number, size, crc32c are
   * filled by the caller; the store checks the CRC where it can and fills part->etag. */
  cleat_status (*multipart_part)(struct cleat__store *store, const struct cleat__upload *upload,
                                 const struct cleat__span *body, size_t body_count,
                                 struct cleat__stored_part *part, const atomic_bool *cancel,
                                 struct cleat_error *err);

  /* Required. As multipart_part, of a body that is read while it is sent, and takes no memory of its size; once more
   * for each try, and where the store is told another checksum than crc32c, for that. part->size is feed->length. A
   * failure of the feed is that of the operation, as it is. */
  cleat_status (*multipart_feed)(struct cleat__store *store, const struct cleat__upload *upload,
                                 const struct cleat__feed *feed, struct cleat__stored_part *part,
                                 const atomic_bool *cancel, struct cleat_error *err);

  /* Required. Makes the object of all parts, in order; only then is the key visible. A lost reply
   * is settled inside (the object is there, with this size); but with upload->create_only, EXISTS
   * is the answer to an object that is there, whoever made it: the caller compares its bytes. */
  cleat_status (*multipart_complete)(struct cleat__store *store, const struct cleat__upload *upload,
                                     const struct cleat__stored_part *parts, size_t count,
                                     const atomic_bool *cancel, struct cleat_error *err);

  /* Required. Drops the upload and its parts; an upload that is gone is a success. No part of it
   * may be in flight. Returns only once list_parts finds nothing, where the store has such a list. */
  cleat_status (*multipart_abort)(struct cleat__store *store, const struct cleat__upload *upload,
                                  const atomic_bool *cancel, struct cleat_error *err);

  /* Required. All parts that the store holds, by number (*parts: cleat__free). NOT_FOUND: no such
   * upload. UNSUPPORTED: the store has no such list. */
  cleat_status (*multipart_list_parts)(struct cleat__store *store,
                                       const struct cleat__upload *upload,
                                       struct cleat__stored_part **parts, size_t *count,
                                       const atomic_bool *cancel, struct cleat_error *err);

  /* Required. One page of the unfinished uploads whose key starts with `prefix`, by key and id.
   * `after` as for list. A store may know none but those of one whole key (MinIO): callers that know
   * the keys ask again with each of them as the prefix. UNSUPPORTED: the store has no such list. */
  cleat_status (*multipart_list)(struct cleat__store *store, const char *prefix, const char *after,
                                 struct cleat__upload_page *page, const atomic_bool *cancel,
                                 struct cleat_error *err);

  /* Required. Takes over an upload that another process began: key, id, size and part_bytes are filled by
   * the caller. After it, list_parts lists what can be relied on, and parts may be added. LOST: it
   * cannot be had, since the process that began it is alive (as far as the store can know: file://), or since
   * it is of another size. NOT_FOUND: no such upload. */
  cleat_status (*multipart_adopt)(struct cleat__store *store, const struct cleat__upload *upload,
                                  const atomic_bool *cancel, struct cleat_error *err);

  /* Optional; NULL: nobody can know. Whether the process that began the upload lives, as far as the store can
   * tell (file://), and the bytes that it takes. An upload that is gone is not held, and takes none. */
  cleat_status (*multipart_held)(struct cleat__store *store, const char *key, const char *id,
                                 bool *held, uint64_t *bytes, struct cleat_error *err);

  /* Optional; NULL: the store has none. Removes what unfinished writes left hidden, which no other operation
   * shows, in and below the folder `prefix` (it ends in '/'), if it was last changed before `before_s` (Unix
   * time) and no living process holds it. Uploads that multipart_list shows stay. With `dry_run`, nothing is removed.
   * *found says how much it was, or would be; after a failure, how much until then. */
  cleat_status (*sweep)(struct cleat__store *store, const char *prefix, int64_t before_s,
                        bool dry_run, struct cleat__swept *found, const atomic_bool *cancel,
                        struct cleat_error *err);

  /* Optional; NULL: there is nothing to tell. Asks the store for `key`, which must be absent, so that
   * its answer tells about the way there, and fills *facts as far as that goes, on failure too. That the
   * key is absent is the success; a failure is that of get_small. */
  cleat_status (*describe)(struct cleat__store *store, const char *key,
                           struct cleat__store_facts *facts, const atomic_bool *cancel,
                           struct cleat_error *err);

  /* Required. Frees the store. No operation may be running. */
  void (*close)(struct cleat__store *store);
};

/* Every driver's context begins with this. */
struct cleat__store {
  const struct cleat__store_ops *ops;
  unsigned capabilities;        /* of enum cleat__store_capability */
  uint64_t min_part_bytes;      /* smallest part but for the last */
  uint64_t max_put_bytes;       /* largest single put */
  uint32_t max_parts;           /* of one upload */
  uint64_t max_object_bytes;    /* largest object, however it is stored */
  unsigned default_concurrency; /* transfers in flight, at most */
  unsigned
      first_concurrency; /* to begin with, before what is best is found out; 0: as many as may be, always */
  atomic_ulong throttles; /* how often the server has asked for less */
  atomic_ulong retries;   /* requests that were sent again after a failed try */
  /* CLEAT__PUT_IF_MATCH is refused with the ETag as it is told, and taken with it in another form. */
  atomic_bool other_etags;
  atomic_uint lacks; /* of enum cleat__store_finding */
  char *display;     /* URL for messages, without secrets; owned, freed by cleat__store_close */
};

/* What a driver needs to open. Strings are borrowed for the call. */
struct cleat__store_config {
  const struct cleat_client_options *options; /* never NULL */
  const struct cleat__clock *clock;
  struct cleat__log log;
};

/* NULL is allowed. */
void cleat__store_close(struct cleat__store *store);

/* An absent object, but not an absent bucket: there nothing could be saved either. */
bool cleat__object_is_absent(cleat_status status, const struct cleat_error *err);

/* INVALID unless `key` is as described above. */
cleat_status cleat__key_check(const char *key, struct cleat_error *err);

/* What is wrong with `key`, as a static text that follows "the key ..."; NULL: nothing. */
const char *cleat__key_problem(const char *key);

/* ---- The operations of a store, as functions: see struct cleat__store_ops ---- */

static inline cleat_status cleat__store_put(struct cleat__store *store, const char *key,
                                            const struct cleat__span *body, size_t body_count,
                                            const struct cleat__put_options *options,
                                            const atomic_bool *cancel, struct cleat_error *error) {
  return store->ops->put(store, key, body, body_count, options, cancel, error);
}

static inline cleat_status cleat__store_get(struct cleat__store *store, const char *key,
                                            uint64_t offset, const struct cleat__span *into,
                                            size_t into_count, uint32_t *crc32c,
                                            const atomic_bool *cancel, struct cleat_error *error) {
  return store->ops->get(store, key, offset, into, into_count, crc32c, cancel, error);
}

static inline cleat_status cleat__store_get_small(struct cleat__store *store, const char *key,
                                                  size_t cap, char **bytes, size_t *size,
                                                  struct cleat__object *object,
                                                  const atomic_bool *cancel,
                                                  struct cleat_error *error) {
  return store->ops->get_small(store, key, cap, bytes, size, object, cancel, error);
}

static inline cleat_status cleat__store_head(struct cleat__store *store, const char *key,
                                             struct cleat__object *object,
                                             const atomic_bool *cancel, struct cleat_error *error) {
  return store->ops->head(store, key, object, cancel, error);
}

static inline cleat_status cleat__store_list(struct cleat__store *store, const char *prefix,
                                             bool delimited, const char *after,
                                             struct cleat__list_page *page,
                                             const atomic_bool *cancel, struct cleat_error *error) {
  return store->ops->list(store, prefix, delimited, after, page, cancel, error);
}

static inline cleat_status cleat__store_remove(struct cleat__store *store, const char *key,
                                               const atomic_bool *cancel,
                                               struct cleat_error *error) {
  return store->ops->remove(store, key, cancel, error);
}

static inline cleat_status cleat__store_multipart_create(struct cleat__store *store,
                                                         struct cleat__upload *upload,
                                                         const char *content_type,
                                                         const atomic_bool *cancel,
                                                         struct cleat_error *error) {
  return store->ops->multipart_create(store, upload, content_type, cancel, error);
}

static inline cleat_status
cleat__store_multipart_part(struct cleat__store *store, const struct cleat__upload *upload,
                            const struct cleat__span *body, size_t body_count,
                            struct cleat__stored_part *part, const atomic_bool *cancel,
                            struct cleat_error *error) {
  return store->ops->multipart_part(store, upload, body, body_count, part, cancel, error);
}

static inline cleat_status
cleat__store_multipart_feed(struct cleat__store *store, const struct cleat__upload *upload,
                            const struct cleat__feed *feed, struct cleat__stored_part *part,
                            const atomic_bool *cancel, struct cleat_error *error) {
  return store->ops->multipart_feed(store, upload, feed, part, cancel, error);
}

static inline cleat_status cleat__store_multipart_complete(struct cleat__store *store,
                                                           const struct cleat__upload *upload,
                                                           const struct cleat__stored_part *parts,
                                                           size_t count, const atomic_bool *cancel,
                                                           struct cleat_error *error) {
  return store->ops->multipart_complete(store, upload, parts, count, cancel, error);
}

static inline cleat_status cleat__store_multipart_abort(struct cleat__store *store,
                                                        const struct cleat__upload *upload,
                                                        const atomic_bool *cancel,
                                                        struct cleat_error *error) {
  return store->ops->multipart_abort(store, upload, cancel, error);
}

static inline cleat_status
cleat__store_multipart_list_parts(struct cleat__store *store, const struct cleat__upload *upload,
                                  struct cleat__stored_part **parts, size_t *count,
                                  const atomic_bool *cancel, struct cleat_error *error) {
  return store->ops->multipart_list_parts(store, upload, parts, count, cancel, error);
}

static inline cleat_status cleat__store_multipart_list(struct cleat__store *store,
                                                       const char *prefix, const char *after,
                                                       struct cleat__upload_page *page,
                                                       const atomic_bool *cancel,
                                                       struct cleat_error *error) {
  return store->ops->multipart_list(store, prefix, after, page, cancel, error);
}

static inline cleat_status cleat__store_multipart_adopt(struct cleat__store *store,
                                                        const struct cleat__upload *upload,
                                                        const atomic_bool *cancel,
                                                        struct cleat_error *error) {
  return store->ops->multipart_adopt(store, upload, cancel, error);
}

static inline cleat_status cleat__store_multipart_held(struct cleat__store *store, const char *key,
                                                       const char *id, bool *held, uint64_t *bytes,
                                                       struct cleat_error *error) {
  return store->ops->multipart_held(store, key, id, held, bytes, error);
}

static inline cleat_status cleat__store_sweep(struct cleat__store *store, const char *prefix,
                                              int64_t before_s, bool dry_run,
                                              struct cleat__swept *found, const atomic_bool *cancel,
                                              struct cleat_error *error) {
  return store->ops->sweep(store, prefix, before_s, dry_run, found, cancel, error);
}

static inline cleat_status cleat__store_describe(struct cleat__store *store, const char *key,
                                                 struct cleat__store_facts *facts,
                                                 const atomic_bool *cancel,
                                                 struct cleat_error *error) {
  return store->ops->describe(store, key, facts, cancel, error);
}

#endif
