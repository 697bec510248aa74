/* s3/multipart.c: the five multipart operations of the s3:// driver. See store.h for what each must
 * do. No state of its own: an upload lives in the store, its parts in the caller's hands. */
#include "storage/s3/s3.h"

#include "base/mem.h"

#include <stdio.h>
#include <string.h>

/* A Complete of 10,000 parts is documented to take minutes, in silence until its first white space. */
#define COMPLETE_IDLE_MS 600000
#define COMPLETE_BODY_MAX (4u << 20)
/* Of a Complete that the store calls done while the object is not there: the waits add up to 100 s. */
#define COMPLETE_ROUNDS 10
#define COMPLETE_FIRST_WAIT_MS 100
/* A part that was under way when its connection broke may land after an abort. */
#define ABORT_ROUNDS 6
#define ABORT_FIRST_WAIT_MS 100
#define PAGES_MAX 100 /* of ListParts; 10 hold 10,000 parts */
#define NUMBER_TEXT 16

static bool is_gone(cleat_status status, const struct cleat_error *err) {
  return status == CLEAT_NOT_FOUND && strcmp(err->s3_code, "NoSuchBucket") != 0;
}

/* ---- create ---- */

static cleat_status accept_upload_id(void *ctx, const struct cleat__http_reply *reply,
                                     struct cleat__s3_reply_error *error, struct cleat_error *err) {
  (void)error;
  return cleat__s3_xml_upload_id(cleat__buffer_text(&reply->text), reply->text.length, ctx, err);
}

cleat_status cleat__s3_multipart_create(struct cleat__store *store, struct cleat__upload *upload,
                                        const char *content_type, const atomic_bool *cancel,
                                        struct cleat_error *err) {
  struct cleat__s3 *s3 = (struct cleat__s3 *)store;
  char id[CLEAT__UPLOAD_ID_MAX + 1];
  struct cleat__s3_pair query[] = {{"uploads", ""}};
  /* Without the algorithm at Create, the store would not keep the checksums of the parts. The type of
   * CRC-32C is then COMPOSITE by default; CRC-64/NVME has that of the whole object alone. */
  const struct cleat__s3_config *config = &s3->configs[0];
  struct cleat__s3_pair headers[] = {
      {"content-type", content_type != NULL ? content_type : "application/octet-stream"},
      {"x-amz-checksum-algorithm", config->crc64nvme ? "CRC64NVME" : "CRC32C"},
      {"x-amz-checksum-type", "FULL_OBJECT"}};
  struct cleat__s3_request request = {.operation = "CreateMultipartUpload",
                                      .kind = CLEAT__S3_CREATE,
                                      .method = "POST",
                                      .key = upload->key,
                                      .query = query,
                                      .query_count = 1,
                                      .headers = headers,
                                      .header_count = config->crc64nvme   ? 3u
                                                      : config->checksums ? 2u
                                                                          : 1u,
                                      .has_body = true,
                                      .text_cap = CLEAT__XML_MAX,
                                      .grace_ms = CLEAT__S3_GRACE_MS,
                                      .accept = accept_upload_id,
                                      .accept_ctx = id};
  struct cleat__http_reply reply;
  cleat__http_reply_init(&reply);
  cleat_status status = cleat__s3_send(s3, &request, &reply, cancel, err);
  if (status == CLEAT_OK)
    snprintf(upload->id, sizeof upload->id, "%s", id);
  cleat__http_reply_clear(&reply);
  return status;
}

/* ---- part ---- */

static cleat_status accept_part(void *ctx, const struct cleat__http_reply *reply,
                                struct cleat__s3_reply_error *error, struct cleat_error *err) {
  (void)ctx;
  (void)error;
  if (reply->etag[0] == '\0')
    return cleat__error_set(err, CLEAT_FORMAT, "the reply has no ETag");
  return CLEAT_OK;
}

/* What a part is made of: `spans`, or what `feed` reads. */
struct body {
  const struct cleat__span *spans;
  size_t count;
  const struct cleat__feed *feed;
};

static cleat_status send_part(struct cleat__s3 *s3, const struct cleat__upload *upload,
                              const struct body *body, const struct cleat__s3_pair *checksum,
                              struct cleat__stored_part *part, const atomic_bool *cancel,
                              struct cleat_error *err) {
  char number[NUMBER_TEXT], operation[32];
  snprintf(number, sizeof number, "%u", part->number);
  snprintf(operation, sizeof operation, "UploadPart %u", part->number);
  struct cleat__s3_pair query[] = {{"partNumber", number}, {"uploadId", upload->id}};
  struct cleat__s3_request request = {.operation = operation,
                                      .kind = CLEAT__S3_PART,
                                      .method = "PUT",
                                      .key = upload->key,
                                      .query = query,
                                      .query_count = 2,
                                      .headers = checksum,
                                      .header_count = checksum != NULL ? 1 : 0,
                                      .has_body = true,
                                      .body = body->spans,
                                      .body_count = body->count,
                                      .feed = body->feed,
                                      .text_cap = CLEAT__S3_TEXT_IGNORED,
                                      .repeatable = true,
                                      .accept = accept_part};
  struct cleat__http_reply reply;
  cleat__http_reply_init(&reply);
  cleat_status status = cleat__s3_send(s3, &request, &reply, cancel, err);
  /* Here, not at Create, whose reply says nothing of it on MinIO. */
  if (status == CLEAT_OK)
    status = cleat__s3_check_encrypted(s3, upload->key, &reply, err);
  if (status == CLEAT_OK)
    snprintf(part->etag, sizeof part->etag, "%s", reply.etag);
  cleat__http_reply_clear(&reply);
  return status;
}

cleat_status cleat__s3_multipart_part(struct cleat__store *store,
                                      const struct cleat__upload *upload,
                                      const struct cleat__span *body, size_t body_count,
                                      struct cleat__stored_part *part, const atomic_bool *cancel,
                                      struct cleat_error *err) {
  struct cleat__s3 *s3 = (struct cleat__s3 *)store;
  char crc[CLEAT__S3_CHECKSUM_TEXT];
  struct cleat__s3_pair header;
  struct body sent = {.spans = body, .count = body_count};
  size_t header_count = 0;
  part->has_crc64nvme = s3->configs[0].crc64nvme;
  if (part->has_crc32c || part->has_crc64nvme)
    header_count = cleat__s3_checksum_header(s3, body, body_count, part->crc32c,
                                             part->wrong_checksum, &part->crc64nvme, crc, &header);
  return send_part(s3, upload, &sent, header_count > 0 ? &header : NULL, part, cancel, err);
}

struct crc64 {
  const struct cleat__crc64 *tables;
  uint64_t crc;
};

static cleat_status take_crc64(void *ctx, const void *bytes, size_t size, struct cleat_error *err) {
  struct crc64 *crc64 = ctx;
  (void)err;
  crc64->crc = cleat__crc64nvme(crc64->tables, crc64->crc, bytes, size);
  return CLEAT_OK;
}

/* The CRC-64/NVME takes a pass of its own over the feed. */
static cleat_status feed_checksum(const struct cleat__s3 *s3, const struct cleat__feed *feed,
                                  struct cleat__stored_part *part, const atomic_bool *cancel,
                                  char text[CLEAT__S3_CHECKSUM_TEXT], struct cleat__s3_pair *header,
                                  size_t *header_count, struct cleat_error *err) {
  struct crc64 crc64 = {.tables = s3->crc64};
  part->has_crc64nvme = s3->configs[0].crc64nvme;
  if (!part->has_crc64nvme) {
    if (part->has_crc32c)
      *header_count = cleat__s3_checksum_header(s3, NULL, 0, part->crc32c, part->wrong_checksum,
                                                &part->crc64nvme, text, header);
    return CLEAT_OK;
  }
  cleat_status status = cleat__feed_each(feed, cancel, take_crc64, &crc64, err);
  if (status != CLEAT_OK)
    return status;
  part->crc64nvme = crc64.crc ^ (part->wrong_checksum ? 1 : 0);
  cleat__crc64_base64(part->crc64nvme, text);
  *header = (struct cleat__s3_pair){"x-amz-checksum-crc64nvme", text};
  *header_count = 1;
  return CLEAT_OK;
}

cleat_status cleat__s3_multipart_feed(struct cleat__store *store,
                                      const struct cleat__upload *upload,
                                      const struct cleat__feed *feed,
                                      struct cleat__stored_part *part, const atomic_bool *cancel,
                                      struct cleat_error *err) {
  struct cleat__s3 *s3 = (struct cleat__s3 *)store;
  char crc[CLEAT__S3_CHECKSUM_TEXT];
  struct cleat__s3_pair header;
  struct body sent = {.feed = feed};
  size_t header_count = 0;
  cleat_status status = feed_checksum(s3, feed, part, cancel, crc, &header, &header_count, err);
  if (status != CLEAT_OK)
    return status;
  return send_part(s3, upload, &sent, header_count > 0 ? &header : NULL, part, cancel, err);
}

/* ---- complete ---- */

static cleat_status accept_completed(void *ctx, const struct cleat__http_reply *reply,
                                     struct cleat__s3_reply_error *error, struct cleat_error *err) {
  char etag[CLEAT__ETAG_MAX];
  (void)ctx;
  return cleat__s3_xml_completed(cleat__buffer_text(&reply->text), reply->text.length, etag, error,
                                 err);
}

/* The CRC-64/NVME of the whole object, from those of its parts; false where one lacks it. */
static bool whole_checksum(const struct cleat__stored_part *parts, size_t count,
                           char text[CLEAT__S3_CHECKSUM_TEXT]) {
  uint64_t crc = 0;
  for (size_t i = 0; i < count; i++) {
    if (!parts[i].has_crc64nvme)
      return false;
    crc = cleat__crc64nvme_combine(crc, parts[i].crc64nvme, parts[i].size);
  }
  cleat__crc64_base64(crc, text);
  return true;
}

/* A Complete that is to be sent. Borrows everything. */
struct completion {
  struct cleat__store *store;
  const struct cleat__upload *upload;
  const struct cleat__stored_part *parts;
  size_t count;
  const struct cleat__buffer *body;
  unsigned without; /* of enum cleat__store_finding: headers that are left out */
  const atomic_bool *cancel;
};

static cleat_status send_complete(const struct completion *completion, unsigned *failed_tries,
                                  struct cleat_error *err) {
  struct cleat__s3 *s3 = (struct cleat__s3 *)completion->store;
  const struct cleat__upload *upload = completion->upload;
  const struct cleat__buffer *body = completion->body;
  char size[24], crc[CLEAT__S3_CHECKSUM_TEXT];
  bool has_crc =
      s3->configs[0].crc64nvme && whole_checksum(completion->parts, completion->count, crc);
  snprintf(size, sizeof size, "%llu", (unsigned long long)upload->size);
  struct cleat__span span = {body->data, body->length};
  struct cleat__s3_pair query[] = {{"uploadId", upload->id}};
  size_t header_count = 0;
  struct cleat__s3_pair headers[5];
  headers[header_count++] = (struct cleat__s3_pair){"content-type", "application/xml"};
  if ((completion->without & CLEAT__STORE_NO_OBJECT_SIZE) == 0)
    headers[header_count++] = (struct cleat__s3_pair){"x-amz-mp-object-size", size};
  if (upload->create_only && (completion->without & CLEAT__STORE_NO_CREATE_ONLY) == 0)
    headers[header_count++] = (struct cleat__s3_pair){"if-none-match", "*"};
  if (has_crc) {
    headers[header_count++] = (struct cleat__s3_pair){"x-amz-checksum-type", "FULL_OBJECT"};
    headers[header_count++] = (struct cleat__s3_pair){"x-amz-checksum-crc64nvme", crc};
  }
  struct cleat__s3_request request = {.operation = "CompleteMultipartUpload",
                                      .kind = CLEAT__S3_COMPLETE,
                                      .method = "POST",
                                      .key = upload->key,
                                      .query = query,
                                      .query_count = 1,
                                      .headers = headers,
                                      .header_count = header_count,
                                      .has_body = true,
                                      .body = &span,
                                      .body_count = 1,
                                      .sign_body = true,
                                      .text_cap = CLEAT__XML_MAX,
                                      .idle_ms = COMPLETE_IDLE_MS,
                                      .any_pace = true, /* white space, a byte now and then */
                                      .accept = accept_completed,
                                      .failed_tries = failed_tries};
  struct cleat__http_reply reply;
  cleat__http_reply_init(&reply);
  cleat_status status = cleat__s3_send(s3, &request, &reply, completion->cancel, err);
  cleat__http_reply_clear(&reply);
  return status;
}

/* What stands under the key of an upload. */
enum found { FOUND_NOTHING = 0, FOUND_IT, FOUND_OTHER_SIZE };

/* Whether the object is there. Keys are unique to one attempt at saving, so one of this size is ours. */
static cleat_status look_for(const struct completion *completion, enum found *found,
                             struct cleat_error *err) {
  struct cleat__object object;
  cleat_status status =
      cleat__s3_head(completion->store, completion->upload->key, &object, completion->cancel, err);
  *found = status != CLEAT_OK                        ? FOUND_NOTHING
           : object.size == completion->upload->size ? FOUND_IT
                                                     : FOUND_OTHER_SIZE;
  return is_gone(status, err) ? CLEAT_OK : status;
}

/* The store was not told the size, and made an object of another. */
static cleat_status wrong_size(const struct cleat__upload *upload, struct cleat_error *err) {
  return cleat__error_set(err, CLEAT_INTEGRITY,
                          "CompleteMultipartUpload %s: the object that the store made has not the "
                          "%llu bytes of its parts",
                          upload->key, (unsigned long long)upload->size);
}

/* An upload that is gone may have been completed by an earlier try, whose reply was lost. And a store may call a second
 * try done while it still works at the first (versitygw does): then only the object itself says that it is. So it does
 * where the store was not told the size. */
static cleat_status complete_surely(const struct completion *completion, struct cleat_error *err) {
  const struct cleat__upload *upload = completion->upload;
  const struct cleat__clock *clock = ((struct cleat__s3 *)completion->store)->retry.clock;
  const bool unsized = (completion->without & CLEAT__STORE_NO_OBJECT_SIZE) != 0;
  bool in_doubt = false;
  enum found found = FOUND_NOTHING;
  for (int round = 0; round < COMPLETE_ROUNDS; round++) {
    unsigned failed_tries = 0;
    struct cleat_error second;
    cleat_status status = send_complete(completion, &failed_tries, err);
    in_doubt = in_doubt || failed_tries > 0 || (unsized && status == CLEAT_OK);
    /* A 404 whose reason did not arrive says enough to look. */
    bool gone =
        status != CLEAT_OK && (is_gone(status, err) || (in_doubt && err->http_status == 404));
    if ((status != CLEAT_OK && !gone) || (status == CLEAT_OK && !in_doubt))
      return status;
    cleat_status looked = look_for(completion, &found, &second);
    if (found == FOUND_IT && gone && upload->create_only)
      return cleat__error_set(err, CLEAT_EXISTS, "%s is there already", upload->key);
    if (found == FOUND_IT)
      return CLEAT_OK;
    if (found == FOUND_OTHER_SIZE && unsized)
      return wrong_size(upload, err);
    if (gone)
      return status;
    if (looked != CLEAT_OK) {
      *err = second;
      return looked;
    }
    clock->wait_ms(clock->ctx, (int64_t)COMPLETE_FIRST_WAIT_MS << round, completion->cancel);
  }
  return cleat__error_set(
      err, CLEAT_STORE,
      "CompleteMultipartUpload %s: the store says that it is done, but there is "
      "no object of %llu bytes",
      upload->key, (unsigned long long)upload->size);
}

/* Without the headers that this store refuses. Which they are is found out by leaving them out, the harmless one first;
 * a Complete that was refused for a header has done nothing. */
static cleat_status complete_learning(struct completion *completion, struct cleat_error *err) {
  static const unsigned trials[] = {0, CLEAT__STORE_NO_OBJECT_SIZE, CLEAT__STORE_NO_CREATE_ONLY,
                                    CLEAT__STORE_NO_OBJECT_SIZE | CLEAT__STORE_NO_CREATE_ONLY};
  struct cleat__s3 *s3 = (struct cleat__s3 *)completion->store;
  const bool create_only = completion->upload->create_only;
  const unsigned known =
      atomic_load(&s3->store.lacks) &
      (CLEAT__STORE_NO_OBJECT_SIZE | (create_only ? CLEAT__STORE_NO_CREATE_ONLY : 0u));
  struct cleat_error refusal;
  bool refused = false;
  for (size_t i = 0; i < sizeof trials / sizeof trials[0]; i++) {
    bool guards = (trials[i] & CLEAT__STORE_NO_CREATE_ONLY) != 0;
    if ((trials[i] & known) != known || (guards && !create_only))
      continue;
    cleat_status status =
        guards ? cleat__s3_look_free(s3, completion->upload->key, completion->cancel, err)
               : CLEAT_OK;
    completion->without = trials[i];
    if (status == CLEAT_OK)
      status = complete_surely(completion, err);
    if (!cleat__s3_is_refusal(status, err)) {
      if (status == CLEAT_OK)
        cleat__s3_learn(s3, trials[i]);
      return status;
    }
    if (!refused)
      refusal = *err;
    refused = true;
  }
  *err = refusal;
  return refusal.status;
}

static cleat_status complete_with(struct cleat__store *store, const struct cleat__upload *upload,
                                  const struct cleat__stored_part *parts, size_t count,
                                  const atomic_bool *cancel, struct cleat_error *err) {
  const struct cleat__s3_config *config = &((struct cleat__s3 *)store)->configs[0];
  enum cleat__s3_named named = config->crc64nvme   ? CLEAT__S3_NAME_CRC64NVME
                               : config->checksums ? CLEAT__S3_NAME_CRC32C
                                                   : CLEAT__S3_NAME_NONE;
  struct cleat__buffer body;
  struct cleat_error problem;
  cleat__buffer_init(&body, COMPLETE_BODY_MAX);
  cleat_status status = cleat__s3_xml_complete_body(parts, count, named, &body);
  if (status != CLEAT_OK) {
    cleat__error_set(err, status, "the list of %zu parts cannot be written", count);
    goto done;
  }
  struct completion completion = {store, upload, parts, count, &body, 0, cancel};
  status = complete_learning(&completion, &problem);
  if (status != CLEAT_OK)
    *err = problem;

done:
  cleat__buffer_clear(&body);
  return status;
}

/* Whether the store holds what was sent as `part`, by checksum and not by ETag. */
static bool is_same_part(const struct cleat__stored_part *part,
                         const struct cleat__stored_part *held) {
  bool by_crc32c = part->has_crc32c && held->has_crc32c && part->crc32c == held->crc32c;
  bool by_crc64nvme =
      part->has_crc64nvme && held->has_crc64nvme && part->crc64nvme == held->crc64nvme;
  return part->number == held->number && part->size == held->size && (by_crc32c || by_crc64nvme);
}

/* A copy of the parts with the ETags that the store lists, or NULL: where these are the same, a part is not the one that
 * was sent, or no answer came. */
static struct cleat__stored_part *relist(struct cleat__store *store,
                                         const struct cleat__upload *upload,
                                         const struct cleat__stored_part *parts, size_t count,
                                         const atomic_bool *cancel) {
  struct cleat__stored_part *held = NULL;
  struct cleat_error ignored;
  size_t held_count = 0;
  bool changed = false, same = true;
  if (cleat__s3_multipart_list_parts(store, upload, &held, &held_count, cancel, &ignored) !=
      CLEAT_OK)
    return NULL;
  same = held_count == count;
  for (size_t i = 0; same && i < count; i++) {
    same = is_same_part(&parts[i], &held[i]);
    changed = changed || strcmp(parts[i].etag, held[i].etag) != 0;
  }
  if (!same || !changed) {
    cleat__free(held);
    return NULL;
  }
  return held;
}

cleat_status cleat__s3_multipart_complete(struct cleat__store *store,
                                          const struct cleat__upload *upload,
                                          const struct cleat__stored_part *parts, size_t count,
                                          const atomic_bool *cancel, struct cleat_error *err) {
  cleat_status status = complete_with(store, upload, parts, count, cancel, err);
  if (status == CLEAT_OK || strcmp(err->s3_code, "InvalidPart") != 0)
    return status;
  /* No checksum guards the headers of a reply: an ETag may have been damaged on its way. */
  struct cleat__stored_part *listed = relist(store, upload, parts, count, cancel);
  if (listed != NULL)
    status = complete_with(store, upload, listed, count, cancel, err);
  cleat__free(listed);
  return status;
}

/* ---- list parts ---- */

static cleat_status accept_parts(void *ctx, const struct cleat__http_reply *reply,
                                 struct cleat__s3_reply_error *error, struct cleat_error *err) {
  (void)error;
  return cleat__s3_xml_parts(cleat__buffer_text(&reply->text), reply->text.length, ctx, err);
}

static cleat_status list_page(struct cleat__s3 *s3, const struct cleat__upload *upload,
                              uint32_t marker, struct cleat__s3_parts_page *page,
                              const atomic_bool *cancel, struct cleat_error *err) {
  char number[NUMBER_TEXT];
  snprintf(number, sizeof number, "%u", marker);
  struct cleat__s3_pair query[] = {
      {"max-parts", "1000"}, {"part-number-marker", number}, {"uploadId", upload->id}};
  struct cleat__s3_request request = {.operation = "ListParts",
                                      .kind = CLEAT__S3_LIST_PARTS,
                                      .method = "GET",
                                      .key = upload->key,
                                      .query = query,
                                      .query_count = 3,
                                      .text_cap = CLEAT__XML_MAX,
                                      .accept = accept_parts,
                                      .accept_ctx = page};
  struct cleat__http_reply reply;
  cleat__http_reply_init(&reply);
  cleat_status status = cleat__s3_send(s3, &request, &reply, cancel, err);
  cleat__http_reply_clear(&reply);
  return status;
}

/* Appends the page's parts to the array. */
static cleat_status add_parts(const struct cleat__s3_parts_page *page,
                              struct cleat__stored_part **parts, size_t *count,
                              struct cleat_error *err) {
  if (page->count > CLEAT__S3_PARTS_MAX - *count)
    return cleat__error_set(err, CLEAT_STORE, "ListParts: the store lists more than %d parts",
                            CLEAT__S3_PARTS_MAX);
  struct cleat__stored_part *grown =
      cleat__realloc_array(*parts, *count + page->count, sizeof *grown);
  if (grown == NULL)
    return cleat__error_no_memory(err, "a list of parts");
  if (page->count > 0)
    memcpy(grown + *count, page->parts, page->count * sizeof *grown);
  *parts = grown;
  *count += page->count;
  return CLEAT_OK;
}

cleat_status cleat__s3_multipart_list_parts(struct cleat__store *store,
                                            const struct cleat__upload *upload,
                                            struct cleat__stored_part **parts, size_t *count,
                                            const atomic_bool *cancel, struct cleat_error *err) {
  struct cleat__s3 *s3 = (struct cleat__s3 *)store;
  struct cleat__stored_part *found = NULL;
  size_t found_count = 0;
  uint32_t marker = 0;
  if (cleat__s3_lacks(s3, CLEAT__STORE_NO_LIST_PARTS))
    return cleat__s3_lacking(s3, "ListParts", err);
  for (unsigned pages = 0; pages < PAGES_MAX; pages++) {
    struct cleat__s3_parts_page page = {0};
    cleat_status status = list_page(s3, upload, marker, &page, cancel, err);
    if (cleat__s3_is_refusal(status, err))
      cleat__s3_learn(s3, CLEAT__STORE_NO_LIST_PARTS);
    if (status == CLEAT_OK)
      status = add_parts(&page, &found, &found_count, err);
    cleat__free(page.parts);
    if (status != CLEAT_OK) {
      cleat__free(found);
      return status;
    }
    if (!page.truncated) {
      *parts = found;
      *count = found_count;
      return CLEAT_OK;
    }
    marker = page.next_marker;
  }
  cleat__free(found);
  return cleat__error_set(err, CLEAT_STORE, "ListParts %s: the store's pages have no end",
                          upload->key);
}

/* ---- abort ---- */

static cleat_status send_abort(struct cleat__s3 *s3, const struct cleat__upload *upload,
                               const atomic_bool *cancel, struct cleat_error *err) {
  struct cleat__s3_pair query[] = {{"uploadId", upload->id}};
  struct cleat__s3_request request = {.operation = "AbortMultipartUpload",
                                      .kind = CLEAT__S3_ABORT,
                                      .method = "DELETE",
                                      .key = upload->key,
                                      .query = query,
                                      .query_count = 1,
                                      .limit_ms = CLEAT__S3_CLEAN_MS,
                                      .text_cap = CLEAT__S3_TEXT_IGNORED,
                                      .accept = cleat__s3_accept_removed};
  struct cleat__http_reply reply;
  cleat__http_reply_init(&reply);
  cleat_status status = cleat__s3_send(s3, &request, &reply, cancel, err);
  cleat__http_reply_clear(&reply);
  return status;
}

/* *left: parts that the store still holds; 0 where it cannot tell. */
static cleat_status count_parts(struct cleat__store *store, const struct cleat__upload *upload,
                                size_t *left, const atomic_bool *cancel, struct cleat_error *err) {
  struct cleat__stored_part *parts = NULL;
  cleat_status status = cleat__s3_multipart_list_parts(store, upload, &parts, left, cancel, err);
  cleat__free(parts);
  if (is_gone(status, err) ||
      cleat__s3_lacks((struct cleat__s3 *)store, CLEAT__STORE_NO_LIST_PARTS)) {
    *left = 0;
    return CLEAT_OK;
  }
  return status;
}

cleat_status cleat__s3_multipart_abort(struct cleat__store *store,
                                       const struct cleat__upload *upload,
                                       const atomic_bool *cancel, struct cleat_error *err) {
  struct cleat__s3 *s3 = (struct cleat__s3 *)store;
  const struct cleat__clock *clock = s3->retry.clock;
  struct cleat_error problem;
  size_t left = 0;
  for (int round = 0; round < ABORT_ROUNDS; round++) {
    cleat_status status = send_abort(s3, upload, cancel, &problem);
    if (status == CLEAT_OK || is_gone(status, &problem))
      status = count_parts(store, upload, &left, cancel, &problem);
    if (status != CLEAT_OK) {
      *err = problem;
      return status;
    }
    if (left == 0)
      return CLEAT_OK;
    clock->wait_ms(clock->ctx, (int64_t)ABORT_FIRST_WAIT_MS << round, cancel);
  }
  return cleat__error_set(err, CLEAT_STORE,
                          "AbortMultipartUpload %s: the store still holds %zu parts of it",
                          upload->key, left);
}
