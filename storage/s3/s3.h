/* s3.h: what the files of the S3 driver share: its context, and the one function that sends a request. Each file
 * that sends requests calls only files below it in this list:
 *
 *   s3.c            opening, and the table of operations
 *   complete.c      completes an upload
 *   multipart.c     begins an upload, sends its parts, aborts it
 *   uploads.c       which uploads are unfinished
 *   parts.c         which parts an upload has
 *   replace.c       replaces an object by its ETag
 *   list.c          lists objects
 *   learned.c       what this store lacks
 *   object.c        operations on single objects
 *   facts.c         facts about the endpoint
 *   request.c       sends one request, and retries it
 *
 * Threading: all threads of a client use one struct cleat__s3 at the same time. The fields that change after open
 * are listed under "shared" below, each with its own rule. */
#ifndef CLEAT_STORAGE_S3_S3_H
#define CLEAT_STORAGE_S3_S3_H

#include "base/call.h"
#include "base/crc64.h"
#include "storage/aws/credentials.h"
#include "storage/common/hedge.h"
#include "storage/common/retry.h"
#include "storage/common/store.h"
#include "storage/http/encode.h"
#include "storage/http/http.h"
#include "storage/s3/config.h"
#include "storage/s3/xml.h"

#include <pthread.h>

/* Amazon S3 User Guide, "Amazon S3 multipart upload limits". */
#define CLEAT__S3_PART_MIN (UINT64_C(5) << 20)
#define CLEAT__S3_PUT_MAX (UINT64_C(5) << 30)
#define CLEAT__S3_PARTS_MAX 10000
/* AWS accepts 48.8 TiB since the end of 2025; most other stores accept no more than this. Lower: large files are
 * refused although the store would accept them. Higher: a store may refuse a file at its Complete, after all of it
 * was sent. */
#define CLEAT__S3_OBJECT_MAX (UINT64_C(5) << 40)
/* Transfers in flight: the maximum, and the number at the start. base/concurrency.h finds the best number. Lower: a
 * distant store, or one that limits the rate of each connection, is not fully used. Higher: more memory for the
 * buffers of the HTTP library, half a MiB for each transfer. */
#define CLEAT__S3_CONCURRENCY 64
#define CLEAT__S3_CONCURRENCY_FIRST 8

/* How long to try an endpoint that has never answered since open. Lower: a job that starts together with its store
 * fails. Higher: a typing error in the endpoint is reported late. */
#define CLEAT__S3_FIRST_CONTACT_MS 30000
/* How long a cancelled request that creates something waits for its reply. Lower: it may leave an upload whose id
 * nobody knows, or an object that appears after the cleanup. Higher: a silent server delays a cancelled save. */
#define CLEAT__S3_GRACE_MS 5000
/* How long to try to remove an unneeded object or upload. Lower: a store that is busy for a while keeps the
 * leftovers of a failed save. Higher: a save whose store is gone ends that much later. */
#define CLEAT__S3_CLEAN_MS 60000
/* text_cap for 2xx replies whose body does not matter; some stores send a few bytes. */
#define CLEAT__S3_TEXT_IGNORED 65536
/* Limit of tries whose 2xx reply cannot be read. After so many, the server is probably not an S3 store. */
#define CLEAT__S3_MALFORMED_MAX 5

/* An S3 store. */
struct cleat__s3 {
  struct cleat__store store; /* must be first: the operations get a pointer to it */
  struct cleat__http *http;
  struct cleat__crc64 *crc64; /* tables for CRC-64/NVME; NULL if bodies are not checked by it */
  struct cleat__http_proxies proxies;
  struct cleat__s3_chain *chain;
  struct cleat__retry_config retry;
  struct cleat__log log;
  /* [0] is as opened, [1] is for the region that the store named. [1] is written once under move_lock, and read only
   * after `moved` is true. */
  struct cleat__s3_config configs[2];
  pthread_mutex_t move_lock;

  /* shared */
  struct cleat__retry_quota quota;
  struct cleat__hedge hedge; /* has its own lock */
  atomic_bool moved;
  atomic_bool reached; /* a reply has arrived since open */
  atomic_llong skew_s; /* clock of the store minus the local clock, as far as it matters */
};

/* Checks a 2xx reply and takes its results. It returns:
 *   CLEAT_OK       done; or, with error->code set, an <Error> inside a 200
 *   CLEAT_FORMAT   not the reply of an S3 store (err->message says why). It is retried. If its text is an <Error>
 *                  document, that error counts instead.
 *   others         end the operation with *err */
typedef cleat_status cleat__s3_accept_fn(void *ctx, const struct cleat__http_reply *reply,
                                         struct cleat__s3_reply_error *error, struct cleat_error *err);

/* Borrows everything for the call. */
struct cleat__s3_request {
  const char *operation;         /* for messages, such as "PUT" or "CompleteMultipartUpload" */
  enum cleat__s3_operation kind; /* for the headers of the bucket's options */
  const char *method;
  const char *key; /* relative to the folder of the store; NULL: the bucket itself */
  const struct cleat__s3_pair *query;
  size_t query_count;
  /* lowercase names; without host and the headers that signing adds */
  const struct cleat__s3_pair *headers;
  size_t header_count;
  bool has_body;
  struct cleat__spans body;
  const struct cleat__feed *feed; /* used instead of `body` if not NULL */
  /* the body has no other protection: sign it unless the user wants no body signed */
  bool sign_body;
  bool into_spans; /* a 2xx body goes into the spans */
  struct cleat__spans into;
  size_t text_cap;                  /* limit of bytes of a 2xx text; longer: LIMIT */
  int64_t idle_ms;                  /* 0: CLEAT__HTTP_IDLE_MS */
  bool any_pace;                    /* do not give up a slow body */
  bool repeatable;                  /* may run twice at the same time: a straggler is sent again, see hedge.h */
  int64_t grace_ms;                 /* as in struct cleat__http_request */
  int64_t limit_ms;                 /* time limit if that of the client is too long; 0: that of the client */
  cleat_status precondition_status; /* status for a 412; 0: EXISTS */
  cleat__s3_accept_fn *accept;      /* NULL: every 2xx reply is a success */
  void *accept_ctx;
  /* NULL, or called after the fourth failed answer and after each later one. True stops the retries. */
  bool (*is_pointless)(void *ctx, const atomic_bool *cancel);
  void *pointless_ctx;
  unsigned *failed_tries; /* NULL, or set to the number of failed tries before the last one */
};

/* Signs and sends the request, classifies the result, waits and retries. Ends at a success, a final error or the
 * time limit. The caller initialises *reply and clears it in every case. On success it is the last reply. */
cleat_status cleat__s3_send(struct cleat__s3 *s3, const struct cleat__s3_request *request,
                            struct cleat__http_reply *reply, struct cleat__call call);

/* The configuration to use now: as opened, or for the region that the store has named since. */
static inline const struct cleat__s3_config *cleat__s3_config_now(struct cleat__s3 *s3) {
  return &s3->configs[atomic_load(&s3->moved) ? 1 : 0];
}

/* ---- s3/object.c: operations on single objects, and helpers for other files ---- */

/* The header that tells the checksum of a body. Must not be copied: the header points into it. */
#define CLEAT__S3_CHECKSUM_TEXT 13
struct cleat__s3_checksum {
  char text[CLEAT__S3_CHECKSUM_TEXT]; /* base64 */
  struct cleat__s3_pair header;
  size_t count; /* of headers to send: 0 or 1 */
};

/* Computes the checksum, or takes `crc32c` if that is the checksum to send. *crc64nvme is set if CRC-64/NVME is.
 * `wrong` makes a CRC-64/NVME wrong on purpose. */
void cleat__s3_checksum_header(const struct cleat__s3 *s3, struct cleat__spans body, uint32_t crc32c, bool wrong,
                               uint64_t *crc64nvme, struct cleat__s3_checksum *checksum);

/* UNSUPPORTED if the options of the bucket ask for encryption at rest and the reply to the request that made `key`
 * does not confirm it. A store that does not know the header ignores it and stores plain bytes. */
cleat_status cleat__s3_check_encrypted(const struct cleat__s3 *s3, const char *key,
                                       const struct cleat__http_reply *reply, struct cleat_error *err);

/* One put as `options` ask for. The ETag is sent exactly as given. */
cleat_status cleat__s3_put(struct cleat__store *store, const char *key, struct cleat__spans body,
                           const struct cleat__put_options *options, struct cleat__call call);

cleat_status cleat__s3_get(struct cleat__store *store, const char *key, uint64_t offset, struct cleat__spans into,
                           uint32_t *crc32c, struct cleat__call call);
cleat_status cleat__s3_get_small(struct cleat__store *store, const char *key, size_t cap, struct cleat__small *small,
                                 struct cleat__call call);
cleat_status cleat__s3_head(struct cleat__store *store, const char *key, struct cleat__object *object,
                            struct cleat__call call);
cleat_status cleat__s3_remove(struct cleat__store *store, const char *key, struct cleat__call call);

/* The accept function of requests that remove something. */
cleat_status cleat__s3_accept_removed(void *ctx, const struct cleat__http_reply *reply,
                                      struct cleat__s3_reply_error *error, struct cleat_error *err);

/* ---- s3/learned.c: what this store lacks; `findings` are bits of enum cleat__store_finding ---- */

/* Whether the error says that the store does not know an operation or a header. */
bool cleat__s3_is_refusal(cleat_status status, const struct cleat_error *err);

bool cleat__s3_lacks(const struct cleat__s3 *s3, unsigned finding);

/* Sets the bits, and logs each one that is new. */
void cleat__s3_learn(struct cleat__s3 *s3, unsigned findings);

/* Fails with UNSUPPORTED: the store refused this operation before, so it is not sent again. */
cleat_status cleat__s3_lacking(const struct cleat__s3 *s3, const char *operation, struct cleat_error *err);

/* How to read the keys in lists of this store. */
enum cleat__s3_keys cleat__s3_known_keys(const struct cleat__s3 *s3);

/* Called after a list was read. If a key has two readings, it asks the store which one exists. True: the list was
 * read wrongly, and must be read again with *form. */
bool cleat__s3_learn_keys(struct cleat__s3 *s3, struct cleat__s3_keys_form *form, const atomic_bool *cancel);

/* Fails with EXISTS if there is an object under `key`. */
cleat_status cleat__s3_check_free(struct cleat__s3 *s3, const char *key, struct cleat__call call);

/* A put that is repeated without the condition if the store refuses the condition. */
cleat_status cleat__s3_put_learning(struct cleat__store *store, const char *key, struct cleat__spans body,
                                    const struct cleat__put_options *options, struct cleat__call call);

/* ---- s3/list.c ---- */

cleat_status cleat__s3_list(struct cleat__store *store, const char *prefix, bool delimited, const char *after,
                            struct cleat__list_page *page, struct cleat__call call);

/* ---- s3/replace.c ---- */

/* The put of the table. UNSUPPORTED with CLEAT__PUT_IF_MATCH: the store refuses it although the object has that
 * ETag. */
cleat_status cleat__s3_put_any(struct cleat__store *store, const char *key, struct cleat__spans body,
                               const struct cleat__put_options *options, struct cleat__call call);

/* ---- s3/multipart.c, s3/complete.c ---- */

cleat_status cleat__s3_multipart_create(struct cleat__store *store, struct cleat__upload *upload,
                                        const char *content_type, struct cleat__call call);
cleat_status cleat__s3_multipart_part(struct cleat__store *store, const struct cleat__upload *upload,
                                      struct cleat__spans body, struct cleat__stored_part *part,
                                      struct cleat__call call);
cleat_status cleat__s3_multipart_feed(struct cleat__store *store, const struct cleat__upload *upload,
                                      const struct cleat__feed *feed, struct cleat__stored_part *part,
                                      struct cleat__call call);
cleat_status cleat__s3_multipart_complete(struct cleat__store *store, const struct cleat__upload *upload,
                                          const struct cleat__stored_part *parts, size_t count,
                                          struct cleat__call call);
cleat_status cleat__s3_multipart_abort(struct cleat__store *store, const struct cleat__upload *upload,
                                       struct cleat__call call);

/* ---- s3/parts.c ---- */

cleat_status cleat__s3_multipart_list_parts(struct cleat__store *store, const struct cleat__upload *upload,
                                            struct cleat__stored_part **parts, size_t *count, struct cleat__call call);

/* ---- s3/facts.c ---- */

cleat_status cleat__s3_describe(struct cleat__store *store, const char *key, struct cleat__store_facts *facts,
                                struct cleat__call call);

/* ---- s3/uploads.c ---- */

cleat_status cleat__s3_multipart_list(struct cleat__store *store, const char *prefix, const char *after,
                                      struct cleat__upload_page *page, struct cleat__call call);

/* For `is_pointless` of requests on an upload. A store may answer every try with an error of its own if the upload
 * no longer exists. moto does so. versitygw does so if another process aborted the upload while parts were arriving:
 * it still lists the parts, but not the upload. So the list of uploads is asked. */
struct cleat__s3_doubt {
  struct cleat__store *store;
  const struct cleat__upload *upload;
  struct cleat_error gone; /* CLEAT_OK until the upload is known to be gone */
};
bool cleat__s3_upload_is_gone(void *ctx, const atomic_bool *cancel);

cleat_status cleat__s3_multipart_adopt(struct cleat__store *store, const struct cleat__upload *upload,
                                       struct cleat__call call);

#endif
