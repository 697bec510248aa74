/* s3/multipart.c: begins an upload, sends its parts, aborts it. See store.h for the contract of each operation. No
 * state: an upload lives in the store, and the caller keeps the list of parts. */
#include "storage/s3/s3.h"

#include "base/mem.h"

#include <stdio.h>
#include <string.h>

/* How often to abort. A part that was in flight when its connection broke may arrive after an abort. */
#define ABORT_ROUNDS 6
#define ABORT_FIRST_WAIT_MS 100
#define NUMBER_TEXT 16

/* ---- create ---- */

static cleat_status accept_upload_id(void *ctx, const struct cleat__http_reply *reply,
                                     struct cleat__s3_reply_error *error, struct cleat_error *err) {
  (void)error;
  return cleat__s3_xml_upload_id(cleat__buffer_text(&reply->text), reply->text.length, ctx, err);
}

cleat_status cleat__s3_multipart_create(struct cleat__store *store, struct cleat__upload *upload,
                                        const char *content_type, struct cleat__call call) {
  struct cleat__s3 *s3 = (struct cleat__s3 *)store;
  char id[CLEAT__UPLOAD_ID_MAX + 1];
  struct cleat__s3_pair query[] = {{"uploads", ""}};
  /* If Create does not name the algorithm, the store does not keep the checksums of the parts. The type of CRC-32C
   * is COMPOSITE by default. CRC-64/NVME supports only FULL_OBJECT. */
  const struct cleat__s3_config *config = &s3->configs[0];
  struct cleat__s3_pair headers[] = {{"content-type", content_type != NULL ? content_type : "application/octet-stream"},
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
  cleat_status status = cleat__s3_send(s3, &request, &reply, call);
  if (status == CLEAT_OK)
    snprintf(upload->id, sizeof upload->id, "%s", id);
  cleat__http_reply_clear(&reply);
  return status;
}

/* ---- part ---- */

static cleat_status accept_part(void *ctx, const struct cleat__http_reply *reply, struct cleat__s3_reply_error *error,
                                struct cleat_error *err) {
  (void)ctx;
  (void)error;
  if (reply->etag[0] == '\0')
    return cleat__error_set(err, CLEAT_FORMAT, "the reply has no ETag");
  return CLEAT_OK;
}

/* The bytes of a part: `spans`, or what `feed` reads. */
struct body {
  struct cleat__spans spans;
  const struct cleat__feed *feed;
};

static cleat_status send_part(struct cleat__s3 *s3, const struct cleat__upload *upload, const struct body *body,
                              const struct cleat__s3_checksum *checksum, struct cleat__stored_part *part,
                              struct cleat__call call) {
  char number[NUMBER_TEXT], operation[32];
  snprintf(number, sizeof number, "%u", part->number);
  snprintf(operation, sizeof operation, "UploadPart %u", part->number);
  struct cleat__s3_pair query[] = {{"partNumber", number}, {"uploadId", upload->id}};
  struct cleat__s3_doubt doubt = {.store = &s3->store, .upload = upload};
  struct cleat__s3_request request = {.operation = operation,
                                      .kind = CLEAT__S3_PART,
                                      .method = "PUT",
                                      .key = upload->key,
                                      .query = query,
                                      .query_count = 2,
                                      .headers = &checksum->header,
                                      .header_count = checksum->count,
                                      .has_body = true,
                                      .body = body->spans,
                                      .feed = body->feed,
                                      .text_cap = CLEAT__S3_TEXT_IGNORED,
                                      .repeatable = true,
                                      .accept = accept_part,
                                      .is_pointless = cleat__s3_upload_is_gone,
                                      .pointless_ctx = &doubt};
  struct cleat__http_reply reply;
  cleat__http_reply_init(&reply);
  cleat_status status = cleat__s3_send(s3, &request, &reply, call);
  /* Checked here and not after Create: the reply of MinIO to Create does not confirm encryption. */
  if (status == CLEAT_OK)
    status = cleat__s3_check_encrypted(s3, upload->key, &reply, call.err);
  if (status == CLEAT_OK)
    snprintf(part->etag, sizeof part->etag, "%s", reply.etag);
  cleat__http_reply_clear(&reply);
  if (status != CLEAT_OK && doubt.gone.status != CLEAT_OK)
    *call.err = doubt.gone;
  return status == CLEAT_OK ? CLEAT_OK : call.err->status;
}

cleat_status cleat__s3_multipart_part(struct cleat__store *store, const struct cleat__upload *upload,
                                      struct cleat__spans body, struct cleat__stored_part *part,
                                      struct cleat__call call) {
  struct cleat__s3 *s3 = (struct cleat__s3 *)store;
  struct cleat__s3_checksum checksum = {.count = 0};
  struct body sent = {.spans = body};
  part->has_crc64nvme = s3->configs[0].crc64nvme;
  if (part->has_crc32c || part->has_crc64nvme)
    cleat__s3_checksum_header(s3, body, part->crc32c, part->wrong_checksum, &part->crc64nvme, &checksum);
  return send_part(s3, upload, &sent, &checksum, part, call);
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

/* Computes the CRC-64/NVME in an extra pass over the feed. */
static cleat_status feed_checksum(const struct cleat__s3 *s3, const struct cleat__feed *feed,
                                  struct cleat__stored_part *part, struct cleat__s3_checksum *checksum,
                                  struct cleat__call call) {
  struct crc64 crc64 = {.tables = s3->crc64};
  part->has_crc64nvme = s3->configs[0].crc64nvme;
  if (!part->has_crc64nvme) {
    if (part->has_crc32c)
      cleat__s3_checksum_header(s3, cleat__spans(NULL, 0), part->crc32c, part->wrong_checksum, &part->crc64nvme,
                                checksum);
    return CLEAT_OK;
  }
  cleat_status status = cleat__feed_each(feed, take_crc64, &crc64, call);
  if (status != CLEAT_OK)
    return status;
  part->crc64nvme = crc64.crc ^ (part->wrong_checksum ? 1 : 0);
  cleat__crc64_base64(part->crc64nvme, checksum->text);
  checksum->header = (struct cleat__s3_pair){"x-amz-checksum-crc64nvme", checksum->text};
  checksum->count = 1;
  return CLEAT_OK;
}

cleat_status cleat__s3_multipart_feed(struct cleat__store *store, const struct cleat__upload *upload,
                                      const struct cleat__feed *feed, struct cleat__stored_part *part,
                                      struct cleat__call call) {
  struct cleat__s3 *s3 = (struct cleat__s3 *)store;
  struct cleat__s3_checksum checksum = {.count = 0};
  struct body sent = {.feed = feed};
  cleat_status status = feed_checksum(s3, feed, part, &checksum, call);
  if (status != CLEAT_OK)
    return status;
  return send_part(s3, upload, &sent, &checksum, part, call);
}

/* ---- abort ---- */

static cleat_status send_abort(struct cleat__s3 *s3, const struct cleat__upload *upload, struct cleat__call call) {
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
  cleat_status status = cleat__s3_send(s3, &request, &reply, call);
  cleat__http_reply_clear(&reply);
  return status;
}

/* Sets *left to the number of parts that the store still holds; 0 if it cannot tell. */
static cleat_status count_parts(struct cleat__store *store, const struct cleat__upload *upload, size_t *left,
                                struct cleat__call call) {
  struct cleat__stored_part *parts = NULL;
  cleat_status status = cleat__s3_multipart_list_parts(store, upload, &parts, left, call);
  cleat__free(parts);
  if (cleat__object_is_absent(status, call.err) ||
      cleat__s3_lacks((struct cleat__s3 *)store, CLEAT__STORE_NO_LIST_PARTS)) {
    *left = 0;
    return CLEAT_OK;
  }
  return status;
}

cleat_status cleat__s3_multipart_abort(struct cleat__store *store, const struct cleat__upload *upload,
                                       struct cleat__call call) {
  struct cleat__s3 *s3 = (struct cleat__s3 *)store;
  const struct cleat__clock *clock = s3->retry.clock;
  struct cleat_error problem;
  size_t left = 0;
  for (int round = 0; round < ABORT_ROUNDS; round++) {
    cleat_status status = send_abort(s3, upload, cleat__call(call.cancel, &problem));
    if (status == CLEAT_OK || cleat__object_is_absent(status, &problem))
      status = count_parts(store, upload, &left, cleat__call(call.cancel, &problem));
    if (status != CLEAT_OK) {
      *call.err = problem;
      return status;
    }
    if (left == 0)
      return CLEAT_OK;
    clock->wait_ms(clock->ctx, (int64_t)ABORT_FIRST_WAIT_MS << round, call.cancel);
  }
  return cleat__error_set(call.err, CLEAT_STORE, "AbortMultipartUpload %s: the store still holds %zu parts of it",
                          upload->key, left);
}
