/* s3/object.c: the operations on single objects of the s3:// driver. See store.h for the contract of each, and
 * s3/request.c for how a request is sent.
 *
 * Any thread: every operation uses only its own stack. */
#include "storage/s3/s3.h"

#include "base/checksum.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NUMBER_TEXT 24 /* a 64-bit number and its NUL */

/* ---- put ---- */

/* Gateways and proxies may answer 200 to anything. Without an ETag, nothing was stored. */
static cleat_status accept_etag(void *ctx, const struct cleat__http_reply *reply, struct cleat__s3_reply_error *error,
                                struct cleat_error *err) {
  (void)ctx;
  (void)error;
  if (reply->etag[0] == '\0')
    return cleat__error_set(err, CLEAT_FORMAT, "the reply has no ETag");
  return CLEAT_OK;
}

void cleat__s3_checksum_header(const struct cleat__s3 *s3, struct cleat__spans body, uint32_t crc32c, bool wrong,
                               uint64_t *crc64nvme, struct cleat__s3_checksum *checksum) {
  checksum->count = s3->configs[0].checksums ? 1 : 0;
  if (checksum->count == 0)
    return;
  if (!s3->configs[0].crc64nvme) {
    cleat__crc32c_base64(crc32c, checksum->text);
    checksum->header = (struct cleat__s3_pair){"x-amz-checksum-crc32c", checksum->text};
    return;
  }
  uint64_t crc = 0;
  for (size_t i = 0; i < body.count; i++)
    crc = cleat__crc64nvme(s3->crc64, crc, body.items[i].base, body.items[i].length);
  crc ^= wrong ? 1 : 0;
  *crc64nvme = crc;
  cleat__crc64_base64(crc, checksum->text);
  checksum->header = (struct cleat__s3_pair){"x-amz-checksum-crc64nvme", checksum->text};
}

static size_t put_headers(const struct cleat__put_options *options, struct cleat__s3_pair *headers) {
  size_t count = 0;
  const char *type = options->content_type;
  headers[count++] = (struct cleat__s3_pair){"content-type", type != NULL ? type : "application/octet-stream"};
  if (options->condition == CLEAT__PUT_CREATE_ONLY)
    headers[count++] = (struct cleat__s3_pair){"if-none-match", "*"};
  if (options->condition == CLEAT__PUT_IF_MATCH)
    headers[count++] = (struct cleat__s3_pair){"if-match", options->etag};
  return count;
}

cleat_status cleat__s3_check_encrypted(const struct cleat__s3 *s3, const char *key,
                                       const struct cleat__http_reply *reply, struct cleat_error *err) {
  const struct cleat__s3_config *config = &s3->configs[0];
  const char *asked = config->options.values[CLEAT__S3_SSE] != NULL ? config->options.values[CLEAT__S3_SSE]
                                                                    : config->options.values[CLEAT__S3_SSE_C_ALGORITHM];
  if (asked == NULL || strcmp(reply->encryption, asked) == 0)
    return CLEAT_OK;
  (void)cleat__error_set(err, CLEAT_UNSUPPORTED, "s3://%s/%s%s: the store did not encrypt it with %s as requested",
                         config->bucket, config->root, key, asked);
  cleat__error_hint(err,
                    "%s does not support this encryption: save there without sse and SSE-C key, or "
                    "save to another store",
                    config->endpoint);
  return err->status;
}

cleat_status cleat__s3_put(struct cleat__store *store, const char *key, struct cleat__spans body,
                           const struct cleat__put_options *options, struct cleat__call call) {
  struct cleat__s3 *s3 = (struct cleat__s3 *)store;
  struct cleat__s3_pair headers[4];
  struct cleat__http_reply reply;
  struct cleat__s3_checksum checksum;
  uint64_t crc64nvme = 0;
  size_t header_count = put_headers(options, headers);
  cleat__s3_checksum_header(s3, body, options->crc32c, options->wrong_checksum, &crc64nvme, &checksum);
  if (checksum.count > 0)
    headers[header_count++] = checksum.header;
  struct cleat__s3_request request = {.operation = "PUT",
                                      .kind = CLEAT__S3_PUT,
                                      .method = "PUT",
                                      .key = key,
                                      .headers = headers,
                                      .header_count = header_count,
                                      .has_body = true,
                                      .body = body,
                                      .text_cap = CLEAT__S3_TEXT_IGNORED,
                                      .grace_ms = CLEAT__S3_GRACE_MS,
                                      .repeatable = options->condition == CLEAT__PUT_ALWAYS,
                                      .accept = accept_etag,
                                      .failed_tries = options->failed_tries,
                                      .precondition_status =
                                          options->condition == CLEAT__PUT_IF_MATCH ? CLEAT_LOST : CLEAT_EXISTS};
  cleat__http_reply_init(&reply);
  cleat_status status = cleat__s3_send(s3, &request, &reply, call);
  if (status == CLEAT_OK)
    status = cleat__s3_check_encrypted(s3, key, &reply, call.err);
  cleat__http_reply_clear(&reply);
  /* An object that no longer exists does not have that ETag. */
  if (status == CLEAT_NOT_FOUND && options->condition == CLEAT__PUT_IF_MATCH &&
      strcmp(call.err->s3_code, "NoSuchBucket") != 0)
    status = call.err->status = CLEAT_LOST;
  return status;
}

/* ---- get ---- */

/* The requested range. */
struct range {
  uint64_t offset;
  uint64_t length;
};

/* "bytes FIRST-LAST/TOTAL" */
static bool read_content_range(const char *text, uint64_t *first, uint64_t *last) {
  if (strncmp(text, "bytes ", 6) != 0 || text[6] < '0' || text[6] > '9')
    return false;
  char *end = NULL;
  *first = strtoull(text + 6, &end, 10);
  if (end[0] != '-' || end[1] < '0' || end[1] > '9')
    return false;
  *last = strtoull(end + 1, &end, 10);
  return end[0] == '/' && *last >= *first && *last != UINT64_MAX;
}

/* Refuses a reply with other bytes than the requested range. */
static cleat_status accept_range(void *ctx, const struct cleat__http_reply *reply, struct cleat__s3_reply_error *error,
                                 struct cleat_error *err) {
  const struct range *range = ctx;
  uint64_t first = 0, last = 0;
  (void)error;
  if (reply->status == 206 &&
      (!read_content_range(reply->content_range, &first, &last) || last - first + 1 != reply->body_bytes))
    return cleat__error_set(err, CLEAT_FORMAT, "the reply's Content-Range is missing or wrong");
  /* Not an object, but probably a page from a gateway or proxy. */
  if (reply->status == 200 && reply->etag[0] == '\0')
    return cleat__error_set(err, CLEAT_FORMAT, "the reply has no ETag");
  if ((reply->status != 206 && reply->status != 200) || first != range->offset)
    return cleat__error_set(err, CLEAT_FORMAT, "the store did not send the requested range");
  if (reply->body_bytes < range->length)
    return cleat__error_set(err, CLEAT_INTEGRITY, "the object has only %llu bytes after offset %llu, expected %llu",
                            (unsigned long long)reply->body_bytes, (unsigned long long)range->offset,
                            (unsigned long long)range->length);
  return CLEAT_OK;
}

cleat_status cleat__s3_get(struct cleat__store *store, const char *key, uint64_t offset, struct cleat__spans into,
                           uint32_t *crc32c, struct cleat__call call) {
  struct range range = {offset, cleat__spans_length(into)};
  struct cleat__http_reply reply;
  char text[8 + 2 * NUMBER_TEXT];
  if (range.length == 0) {
    *crc32c = 0;
    return CLEAT_OK;
  }
  snprintf(text, sizeof text, "bytes=%llu-%llu", (unsigned long long)offset,
           (unsigned long long)(offset + range.length - 1));
  struct cleat__s3_pair headers[] = {{"range", text}};
  struct cleat__s3_request request = {.operation = "GET",
                                      .kind = CLEAT__S3_GET,
                                      .method = "GET",
                                      .key = key,
                                      .headers = headers,
                                      .header_count = 1,
                                      .into_spans = true,
                                      .into = into,
                                      .repeatable = true,
                                      .accept = accept_range,
                                      .accept_ctx = &range};
  cleat__http_reply_init(&reply);
  cleat_status status = cleat__s3_send((struct cleat__s3 *)store, &request, &reply, call);
  if (status == CLEAT_OK)
    *crc32c = reply.crc32c;
  else if (call.err->http_status == 416) /* the range begins at or after the end of the object */
    status = call.err->status = CLEAT_INTEGRITY;
  cleat__http_reply_clear(&reply);
  return status;
}

static void fill_object(struct cleat__object *object, uint64_t size, const char *etag) {
  *object = (struct cleat__object){.size = size};
  snprintf(object->etag, sizeof object->etag, "%s", etag);
}

/* True if the header holds a checksum of a whole object, whose text has the length of `made`. A checksum of parts (with
 * a "-") is not one. Neither is what moto sends as the CRC-64/NVME of an upload: four bytes. */
static bool is_of_whole(const char *header, const char *made) {
  return strchr(header, '-') == NULL && strlen(header) == strlen(made);
}

/* Compares the body with the checksum that the store returned, if it is of the whole object and of a known kind. False:
 * the body differs. */
static bool has_its_checksum(const struct cleat__s3 *s3, const struct cleat__http_reply *reply) {
  const char *bytes = cleat__buffer_text(&reply->text);
  const char *crc32c = reply->checksum_crc32c, *crc64nvme = reply->checksum_crc64nvme;
  char made[CLEAT__S3_CHECKSUM_TEXT];
  if (crc32c[0] != '\0') {
    cleat__crc32c_base64(cleat__crc32c(0, bytes, reply->text.length), made);
    if (is_of_whole(crc32c, made))
      return strcmp(made, crc32c) == 0;
  }
  if (s3->crc64 == NULL || crc64nvme[0] == '\0')
    return true;
  cleat__crc64_base64(cleat__crc64nvme(s3->crc64, 0, bytes, reply->text.length), made);
  return !is_of_whole(crc64nvme, made) || strcmp(made, crc64nvme) == 0;
}

/* Accepts a document only if it is complete and unchanged. */
static cleat_status accept_small(void *ctx, const struct cleat__http_reply *reply, struct cleat__s3_reply_error *error,
                                 struct cleat_error *err) {
  if (reply->status != 200)
    return cleat__error_set(err, CLEAT_FORMAT, "the store did not send the whole object");
  if (reply->content_length < 0 && reply->transfer_encoding[0] == '\0')
    return cleat__error_set(err, CLEAT_FORMAT, "the reply does not say where its body ends");
  if (!has_its_checksum(ctx, reply)) {
    /* The same code that a store answers if the body it received was damaged. */
    snprintf(error->code, sizeof error->code, "BadDigest");
    snprintf(error->message, sizeof error->message, "the received bytes differ from the stored ones");
    return CLEAT_OK;
  }
  return accept_etag(NULL, reply, error, err);
}

cleat_status cleat__s3_get_small(struct cleat__store *store, const char *key, size_t cap, struct cleat__small *small,
                                 struct cleat__call call) {
  struct cleat__s3 *s3 = (struct cleat__s3 *)store;
  struct cleat__s3_pair headers[] = {{"x-amz-checksum-mode", "ENABLED"}};
  struct cleat__http_reply reply;
  struct cleat__s3_request request = {.operation = "GET",
                                      .kind = CLEAT__S3_GET,
                                      .method = "GET",
                                      .key = key,
                                      .headers = headers,
                                      .header_count = s3->configs[0].checksums ? 1 : 0,
                                      .text_cap = cap,
                                      .accept = accept_small,
                                      .accept_ctx = s3};
  cleat__http_reply_init(&reply);
  cleat_status status = cleat__s3_send(s3, &request, &reply, call);
  if (status != CLEAT_OK)
    goto done;
  size_t length = reply.text.length;
  char *text = cleat__buffer_take(&reply.text);
  if (text == NULL) {
    status = cleat__error_no_memory(call.err, "an object");
    goto done;
  }
  small->bytes = text;
  small->size = length;
  snprintf(small->etag, sizeof small->etag, "%s", reply.etag);

done:
  cleat__http_reply_clear(&reply);
  return status;
}

/* ---- head ---- */

static cleat_status accept_head(void *ctx, const struct cleat__http_reply *reply, struct cleat__s3_reply_error *error,
                                struct cleat_error *err) {
  if (reply->content_length < 0)
    return cleat__error_set(err, CLEAT_FORMAT, "the reply has no Content-Length");
  return accept_etag(ctx, reply, error, err);
}

/* Parses a checksum: "AAAAAA==" of the whole object, or "AAAAAA==-3" of its three parts. Other texts are ignored. */
static void read_checksum(const char *text, struct cleat__object *object) {
  char base64[9];
  char *end = NULL;
  if (snprintf(base64, sizeof base64, "%s", text) < 8 || !cleat__crc32c_unbase64(base64, &object->crc32c))
    return;
  if (text[8] == '\0') {
    object->checksum = CLEAT__OBJECT_CHECKSUM_WHOLE;
  } else if (text[8] == '-' && text[9] >= '1' && text[9] <= '9') {
    unsigned long parts = strtoul(text + 9, &end, 10);
    if (*end == '\0' && parts <= CLEAT__S3_PARTS_MAX) {
      object->checksum = CLEAT__OBJECT_CHECKSUM_PARTS;
      object->checksum_parts = (uint32_t)parts;
    }
  }
}

cleat_status cleat__s3_head(struct cleat__store *store, const char *key, struct cleat__object *object,
                            struct cleat__call call) {
  struct cleat__s3 *s3 = (struct cleat__s3 *)store;
  struct cleat__http_reply reply;
  struct cleat__s3_pair mode = {"x-amz-checksum-mode", "ENABLED"};
  struct cleat__s3_request request = {.operation = "HEAD",
                                      .kind = CLEAT__S3_HEAD,
                                      .method = "HEAD",
                                      .key = key,
                                      .headers = &mode,
                                      .header_count = s3->configs[0].checksums ? 1 : 0,
                                      .accept = accept_head};
  cleat__http_reply_init(&reply);
  cleat_status status = cleat__s3_send(s3, &request, &reply, call);
  if (status == CLEAT_OK) {
    fill_object(object, (uint64_t)reply.content_length, reply.etag);
    read_checksum(reply.stored_crc32c, object);
  }
  cleat__http_reply_clear(&reply);
  return status;
}

/* ---- remove ---- */

/* S3 answers 204 without a body. A gateway that answers 200 for an unreachable store sends a page. */
cleat_status cleat__s3_accept_removed(void *ctx, const struct cleat__http_reply *reply,
                                      struct cleat__s3_reply_error *error, struct cleat_error *err) {
  (void)ctx;
  (void)error;
  if (reply->status != 204 && reply->body_bytes > 0)
    return cleat__error_set(err, CLEAT_FORMAT, "the reply has a body where S3 sends none");
  return CLEAT_OK;
}

cleat_status cleat__s3_remove(struct cleat__store *store, const char *key, struct cleat__call call) {
  struct cleat__http_reply reply;
  struct cleat_error problem;
  struct cleat__s3_request request = {.operation = "DELETE",
                                      .kind = CLEAT__S3_DELETE,
                                      .method = "DELETE",
                                      .key = key,
                                      .limit_ms = CLEAT__S3_CLEAN_MS,
                                      .text_cap = CLEAT__S3_TEXT_IGNORED,
                                      .accept = cleat__s3_accept_removed};
  cleat__http_reply_init(&reply);
  cleat_status status = cleat__s3_send((struct cleat__s3 *)store, &request, &reply, cleat__call(call.cancel, &problem));
  cleat__http_reply_clear(&reply);
  /* S3 answers 204 for an absent key. Some stores answer 404. */
  if (status == CLEAT_NOT_FOUND && strcmp(problem.s3_code, "NoSuchBucket") != 0)
    return CLEAT_OK;
  if (status != CLEAT_OK)
    *call.err = problem;
  return status;
}
