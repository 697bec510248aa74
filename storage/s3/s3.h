/* s3.h: what the files of the S3 driver share: its context, and the one way to send a request. Each file that sends
 * requests calls only those below it:
 *
 *   s3.c            opening, and the table of operations
 *   complete.c      ends an upload
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
 * Threading: a struct cleat__s3 is used by all threads of a client at once. What changes after open
 * is listed under "shared" below, each field with its own rule. */
#ifndef CLEAT_STORAGE_S3_S3_H
#define CLEAT_STORAGE_S3_S3_H

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
/* AWS takes 48.8 TiB since the end of 2025; most other stores take no more than this. Lower: large files are refused in
 * vain. Higher: a store may refuse one at its Complete, when all of it was sent. */
#define CLEAT__S3_OBJECT_MAX (UINT64_C(5) << 40)
/* Transfers in flight, at most and to begin with; how many are best is found out (base/concurrency.h). Lower: a
 * store that is far away, or that shares its rate out by connection, is used by halves. Higher: more memory for
 * buffers of the HTTP library, half a MiB each. */
#define CLEAT__S3_CONCURRENCY 64
#define CLEAT__S3_CONCURRENCY_FIRST 8

/* How long an endpoint that has never answered since open is tried. Lower: a job that starts together
 * with its store fails. Higher: a typing error in the endpoint shows late. */
#define CLEAT__S3_FIRST_CONTACT_MS 30000
/* For requests that make something. Lower: a cancelled one may leave an upload that nobody has the id of,
 * or an object that appears after it was removed. Higher: a silent server holds up a cancelled save. */
#define CLEAT__S3_GRACE_MS 5000
/* How long an object or an upload that nobody needs is tried to be removed. Lower: a store that is busy for a while
 * keeps what a failed save left. Higher: a save whose store is gone ends so much later. */
#define CLEAT__S3_CLEAN_MS 60000
/* text_cap where a 2xx reply has no body that matters; some stores send a few bytes all the same. */
#define CLEAT__S3_TEXT_IGNORED 65536
/* Tries of one operation whose 2xx reply cannot be read: what stands there is hardly an S3 store. */
#define CLEAT__S3_MALFORMED_MAX 5

/* An S3 store. */
struct cleat__s3 {
  struct cleat__store store; /* first: the table's functions get a pointer to it */
  struct cleat__http *http;
  struct cleat__crc64 *crc64; /* tables, where bodies are checked by CRC-64/NVME; else NULL */
  struct cleat__http_proxies proxies;
  struct cleat__s3_chain *chain;
  struct cleat__retry_config retry;
  struct cleat__log log;
  /* [0] as opened, [1] for the region that the store named; [1] is written once, under move_lock, and
   * read only after `moved` is true. */
  struct cleat__s3_config configs[2];
  pthread_mutex_t move_lock;

  /* shared */
  struct cleat__retry_quota quota;
  struct cleat__hedge hedge; /* has its own lock */
  atomic_bool moved;
  atomic_bool reached; /* some reply came since open */
  atomic_llong skew_s; /* the store's clock minus ours, as far as it matters */
};

/* Looks at a 2xx reply and takes its results. Results:
 *   CLEAT_OK       done; or, with error->code set, an <Error> inside a 200
 *   CLEAT_FORMAT   not the reply of an S3 store (err->message says why): tried again; where its text is an
 *                  <Error> document, that is taken instead
 *   others         end the operation with *err */
typedef cleat_status cleat__s3_accept_fn(void *ctx, const struct cleat__http_reply *reply,
                                         struct cleat__s3_reply_error *error,
                                         struct cleat_error *err);

/* Borrows everything for the call. */
struct cleat__s3_request {
  const char *operation;         /* for messages, such as "PUT" or "CompleteMultipartUpload" */
  enum cleat__s3_operation kind; /* for the headers of the bucket's options */
  const char *method;
  const char *key; /* relative to the store's folder; NULL: the bucket itself */
  const struct cleat__s3_pair *query;
  size_t query_count;
  const struct cleat__s3_pair *headers; /* lowercase; without host and what signing adds */
  size_t header_count;
  bool has_body;
  const struct cleat__span *body;
  size_t body_count;
  const struct cleat__feed *feed; /* instead of `body`, unless it is NULL */
  bool sign_body;  /* nothing else guards it: it is signed, unless the user wants none signed */
  bool into_spans; /* a 2xx body goes there */
  const struct cleat__span *into;
  size_t into_count;
  size_t text_cap;  /* of a 2xx text; longer: LIMIT */
  int64_t idle_ms;  /* 0: CLEAT__HTTP_IDLE_MS */
  bool any_pace;    /* however slow its body */
  bool repeatable;  /* may be carried out twice at once: a straggler is sent again, see hedge.h */
  int64_t grace_ms; /* as in struct cleat__http_request */
  int64_t limit_ms; /* where the client's time limit is too much; 0: that */
  cleat_status precondition_status; /* of a 412; 0: EXISTS */
  cleat__s3_accept_fn *accept;      /* NULL: every 2xx reply is a success */
  void *accept_ctx;
  /* NULL, or asked after the fourth failed answer and each later one: true ends the tries. */
  bool (*is_pointless)(void *ctx, const atomic_bool *cancel);
  void *pointless_ctx;
  unsigned *failed_tries; /* NULL, or gets the number of tries before the one that decided */
};

/* Signs, sends, classifies, waits and sends again, until the reply is a success, final, or the time
 * limit ends. On success *reply (initialised by the caller, and cleared by it in any case) is the last one. */
cleat_status cleat__s3_send(struct cleat__s3 *s3, const struct cleat__s3_request *request,
                            struct cleat__http_reply *reply, const atomic_bool *cancel,
                            struct cleat_error *err);

/* The configuration to use now: of the region as opened, or of the one the store named since. */
static inline const struct cleat__s3_config *cleat__s3_config_now(struct cleat__s3 *s3) {
  return &s3->configs[atomic_load(&s3->moved) ? 1 : 0];
}

/* ---- s3/object.c: the table's operations on single objects, and what serves others too ---- */

/* Writes the checksum of a body to send, as base64, to `text`, and its header to *header. Returns 1, or 0
 * where none is to be sent. *crc64nvme is set where that is the checksum; `wrong` makes it a wrong one. */
#define CLEAT__S3_CHECKSUM_TEXT 13
size_t cleat__s3_checksum_header(const struct cleat__s3 *s3, const struct cleat__span *body,
                                 size_t body_count, uint32_t crc32c, bool wrong,
                                 uint64_t *crc64nvme, char text[CLEAT__S3_CHECKSUM_TEXT],
                                 struct cleat__s3_pair *header);

/* UNSUPPORTED when the bucket's options ask for encryption at rest and the reply to what made `key` does not say that
 * it was done: a store that knows nothing of it ignores the header, and keeps plain bytes. */
cleat_status cleat__s3_check_encrypted(const struct cleat__s3 *s3, const char *key,
                                       const struct cleat__http_reply *reply,
                                       struct cleat_error *err);

/* One put, as `options` ask for it: the ETag is sent as it stands there. */
cleat_status cleat__s3_put(struct cleat__store *store, const char *key,
                           const struct cleat__span *body, size_t body_count,
                           const struct cleat__put_options *options, const atomic_bool *cancel,
                           struct cleat_error *err);

cleat_status cleat__s3_get(struct cleat__store *store, const char *key, uint64_t offset,
                           const struct cleat__span *into, size_t into_count, uint32_t *crc32c,
                           const atomic_bool *cancel, struct cleat_error *err);
cleat_status cleat__s3_get_small(struct cleat__store *store, const char *key, size_t cap,
                                 char **bytes, size_t *size, struct cleat__object *object,
                                 const atomic_bool *cancel, struct cleat_error *err);
cleat_status cleat__s3_head(struct cleat__store *store, const char *key,
                            struct cleat__object *object, const atomic_bool *cancel,
                            struct cleat_error *err);
cleat_status cleat__s3_remove(struct cleat__store *store, const char *key,
                              const atomic_bool *cancel, struct cleat_error *err);

/* The accept function of what removes something. */
cleat_status cleat__s3_accept_removed(void *ctx, const struct cleat__http_reply *reply,
                                      struct cleat__s3_reply_error *error, struct cleat_error *err);

/* ---- s3/learned.c: what this store lacks; `findings` are bits of enum cleat__store_finding ---- */

/* Whether the store says that it does not know an operation or a header. */
bool cleat__s3_is_refusal(cleat_status status, const struct cleat_error *err);

bool cleat__s3_lacks(const struct cleat__s3 *s3, unsigned finding);

/* Logs each that is new. */
void cleat__s3_learn(struct cleat__s3 *s3, unsigned findings);

/* UNSUPPORTED, for an operation that is not asked for again. */
cleat_status cleat__s3_lacking(const struct cleat__s3 *s3, const char *operation,
                               struct cleat_error *err);

/* How the keys of this store's lists are to be read. */
enum cleat__s3_keys cleat__s3_known_keys(const struct cleat__s3 *s3);

/* After a list was read: finds out how a doubtful key is to be read, by asking for it. True: the list was read wrongly,
 * and is to be read again with *form. */
bool cleat__s3_learn_keys(struct cleat__s3 *s3, struct cleat__s3_keys_form *form,
                          const atomic_bool *cancel);

/* EXISTS when there is an object under `key`. */
cleat_status cleat__s3_check_free(struct cleat__s3 *s3, const char *key, const atomic_bool *cancel,
                                  struct cleat_error *err);

/* A put that goes without the condition where the store refuses to be asked for it. */
cleat_status cleat__s3_put_learning(struct cleat__store *store, const char *key,
                                    const struct cleat__span *body, size_t body_count,
                                    const struct cleat__put_options *options,
                                    const atomic_bool *cancel, struct cleat_error *err);

/* ---- s3/list.c ---- */

cleat_status cleat__s3_list(struct cleat__store *store, const char *prefix, bool delimited,
                            const char *after, struct cleat__list_page *page,
                            const atomic_bool *cancel, struct cleat_error *err);

/* ---- s3/replace.c ---- */

/* The table's put. UNSUPPORTED with CLEAT__PUT_IF_MATCH: the store refuses it although the object has
 * that ETag. */
cleat_status cleat__s3_put_any(struct cleat__store *store, const char *key,
                               const struct cleat__span *body, size_t body_count,
                               const struct cleat__put_options *options, const atomic_bool *cancel,
                               struct cleat_error *err);

/* ---- s3/multipart.c, s3/complete.c ---- */

cleat_status cleat__s3_multipart_create(struct cleat__store *store, struct cleat__upload *upload,
                                        const char *content_type, const atomic_bool *cancel,
                                        struct cleat_error *err);
cleat_status cleat__s3_multipart_part(struct cleat__store *store,
                                      const struct cleat__upload *upload,
                                      const struct cleat__span *body, size_t body_count,
                                      struct cleat__stored_part *part, const atomic_bool *cancel,
                                      struct cleat_error *err);
cleat_status cleat__s3_multipart_feed(struct cleat__store *store,
                                      const struct cleat__upload *upload,
                                      const struct cleat__feed *feed,
                                      struct cleat__stored_part *part, const atomic_bool *cancel,
                                      struct cleat_error *err);
cleat_status cleat__s3_multipart_complete(struct cleat__store *store,
                                          const struct cleat__upload *upload,
                                          const struct cleat__stored_part *parts, size_t count,
                                          const atomic_bool *cancel, struct cleat_error *err);
cleat_status cleat__s3_multipart_abort(struct cleat__store *store,
                                       const struct cleat__upload *upload,
                                       const atomic_bool *cancel, struct cleat_error *err);

/* ---- s3/parts.c ---- */

cleat_status cleat__s3_multipart_list_parts(struct cleat__store *store,
                                            const struct cleat__upload *upload,
                                            struct cleat__stored_part **parts, size_t *count,
                                            const atomic_bool *cancel, struct cleat_error *err);

/* ---- s3/facts.c ---- */

cleat_status cleat__s3_describe(struct cleat__store *store, const char *key,
                                struct cleat__store_facts *facts, const atomic_bool *cancel,
                                struct cleat_error *err);

/* ---- s3/uploads.c ---- */

cleat_status cleat__s3_multipart_list(struct cleat__store *store, const char *prefix,
                                      const char *after, struct cleat__upload_page *page,
                                      const atomic_bool *cancel, struct cleat_error *err);

/* For `is_pointless` of a request for an upload. A store may answer every try with an error of its own for an upload
 * that is no more: moto does, and versitygw where another process aborted the upload while parts came (it lists the
 * parts even then, but not the upload). The lists then say what the answers do not. */
struct cleat__s3_doubt {
  struct cleat__store *store;
  const struct cleat__upload *upload;
  struct cleat_error gone; /* CLEAT_OK until the upload is known to be gone */
};
bool cleat__s3_upload_is_gone(void *ctx, const atomic_bool *cancel);

cleat_status cleat__s3_multipart_adopt(struct cleat__store *store,
                                       const struct cleat__upload *upload,
                                       const atomic_bool *cancel, struct cleat_error *err);

#endif
