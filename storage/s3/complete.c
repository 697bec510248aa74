/* s3/complete.c: CompleteMultipartUpload of the s3:// driver, and how it finds out whether an upload was completed.
 * See store.h. */
#include "storage/s3/s3.h"

#include "base/mem.h"

#include <stdio.h>
#include <string.h>

/* AWS documents that a Complete of 10,000 parts takes minutes, without a byte until its first white space. */
#define COMPLETE_IDLE_MS 600000
#define COMPLETE_BODY_MAX (4u << 20)
/* Rounds of checks after a Complete that the store calls done although the object is absent. The waits add up to 100
 * s. */
#define COMPLETE_ROUNDS 10
#define COMPLETE_FIRST_WAIT_MS 100

static cleat_status accept_completed(void *ctx, const struct cleat__http_reply *reply,
                                     struct cleat__s3_reply_error *error, struct cleat_error *err) {
  char etag[CLEAT__ETAG_MAX];
  bool *unnamed = ctx;
  cleat_status status = cleat__s3_xml_completed(cleat__buffer_text(&reply->text), reply->text.length, etag, error, err);
  *unnamed = status == CLEAT_OK && etag[0] == '\0' && error->code[0] == '\0';
  return status;
}

/* Combines the CRC-64/NVME of the whole object from those of its parts. False if a part has none. */
static bool whole_checksum(const struct cleat__stored_part *parts, size_t count, char text[CLEAT__S3_CHECKSUM_TEXT]) {
  uint64_t crc = 0;
  for (size_t i = 0; i < count; i++) {
    if (!parts[i].has_crc64nvme)
      return false;
    crc = cleat__crc64nvme_combine(crc, parts[i].crc64nvme, parts[i].size);
  }
  cleat__crc64_base64(crc, text);
  return true;
}

/* A Complete request. Borrows everything. */
struct completion {
  struct cleat__store *store;
  const struct cleat__upload *upload;
  const struct cleat__stored_part *parts;
  size_t count;
  const struct cleat__buffer *body;
  unsigned without; /* headers to leave out, bits of enum cleat__store_finding */
  const atomic_bool *cancel;
};

static cleat_status send_complete(const struct completion *completion, unsigned *failed_tries, bool *unnamed,
                                  struct cleat_error *err) {
  struct cleat__s3 *s3 = (struct cleat__s3 *)completion->store;
  const struct cleat__upload *upload = completion->upload;
  const struct cleat__buffer *body = completion->body;
  char size[24], crc[CLEAT__S3_CHECKSUM_TEXT];
  bool has_crc = s3->configs[0].crc64nvme && whole_checksum(completion->parts, completion->count, crc);
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
  struct cleat__s3_doubt doubt = {.store = completion->store, .upload = upload};
  struct cleat__s3_request request = {.operation = "CompleteMultipartUpload",
                                      .kind = CLEAT__S3_COMPLETE,
                                      .method = "POST",
                                      .key = upload->key,
                                      .query = query,
                                      .query_count = 1,
                                      .headers = headers,
                                      .header_count = header_count,
                                      .has_body = true,
                                      .body = cleat__spans(&span, 1),
                                      .sign_body = true,
                                      .text_cap = CLEAT__XML_MAX,
                                      .idle_ms = COMPLETE_IDLE_MS,
                                      /* the reply is white space, one byte from time to time */
                                      .any_pace = true,
                                      .accept = accept_completed,
                                      .accept_ctx = unnamed,
                                      .is_pointless = cleat__s3_upload_is_gone,
                                      .pointless_ctx = &doubt,
                                      .failed_tries = failed_tries};
  struct cleat__http_reply reply;
  cleat__http_reply_init(&reply);
  cleat_status status = cleat__s3_send(s3, &request, &reply, cleat__call(completion->cancel, err));
  cleat__http_reply_clear(&reply);
  if (status != CLEAT_OK && doubt.gone.status != CLEAT_OK)
    *err = doubt.gone;
  return status == CLEAT_OK ? CLEAT_OK : err->status;
}

/* What a HEAD found under the key of an upload. */
enum found { FOUND_NOTHING = 0, FOUND_IT, FOUND_OTHER_SIZE };

/* Checks whether the object exists. Each attempt at a save uses keys of its own, so an object of this size is ours. */
static cleat_status find_object(const struct completion *completion, enum found *found, struct cleat_error *err) {
  struct cleat__object object;
  cleat_status status =
      cleat__s3_head(completion->store, completion->upload->key, &object, cleat__call(completion->cancel, err));
  *found = status != CLEAT_OK ? FOUND_NOTHING : object.size == completion->upload->size ? FOUND_IT : FOUND_OTHER_SIZE;
  return cleat__object_is_absent(status, err) ? CLEAT_OK : status;
}

/* The size was not sent to the store, and the object has another size. */
static cleat_status wrong_size(const struct cleat__upload *upload, struct cleat_error *err) {
  return cleat__error_set(err, CLEAT_INTEGRITY,
                          "CompleteMultipartUpload %s: the store made an object that does not have "
                          "the %llu bytes of its parts",
                          upload->key, (unsigned long long)upload->size);
}

/* Sends the Complete, and proves its result if that is in doubt.
 * An upload that is gone may have been completed by an earlier try whose reply was lost. A store may also answer
 * "done" to a second try while it still works on the first (versitygw). Then only the object itself proves it. The
 * same check is made if the size was not sent to the store, and if the reply has an empty ETag (radosgw 16, for the
 * first Complete of every upload). */
static cleat_status complete_surely(const struct completion *completion, struct cleat_error *err) {
  const struct cleat__upload *upload = completion->upload;
  const struct cleat__clock *clock = ((struct cleat__s3 *)completion->store)->retry.clock;
  const bool unsized = (completion->without & CLEAT__STORE_NO_OBJECT_SIZE) != 0;
  bool in_doubt = false;
  enum found found = FOUND_NOTHING;
  for (int round = 0; round < COMPLETE_ROUNDS; round++) {
    unsigned failed_tries = 0;
    bool unnamed = false;
    struct cleat_error second;
    cleat_status status = send_complete(completion, &failed_tries, &unnamed, err);
    in_doubt = in_doubt || failed_tries > 0 || unnamed || (unsized && status == CLEAT_OK);
    /* In doubt, a 404 without an error code is reason enough to check. */
    bool gone = status != CLEAT_OK && (cleat__object_is_absent(status, err) || (in_doubt && err->http_status == 404));
    if ((status != CLEAT_OK && !gone) || (status == CLEAT_OK && !in_doubt))
      return status;
    cleat_status looked = find_object(completion, &found, &second);
    if (found == FOUND_IT && gone && upload->create_only)
      return cleat__error_set(err, CLEAT_EXISTS, "%s exists already", upload->key);
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
  return cleat__error_set(err, CLEAT_STORE,
                          "CompleteMultipartUpload %s: the store reports success, but there is no object of %llu bytes",
                          upload->key, (unsigned long long)upload->size);
}

/* Leaves out the headers that this store refuses. It finds them by leaving them out one after the other, the least
 * important one first. A Complete that was refused for a header has done nothing. */
static cleat_status complete_learning(struct completion *completion, struct cleat_error *err) {
  static const unsigned trials[] = {0, CLEAT__STORE_NO_OBJECT_SIZE, CLEAT__STORE_NO_CREATE_ONLY,
                                    CLEAT__STORE_NO_OBJECT_SIZE | CLEAT__STORE_NO_CREATE_ONLY};
  struct cleat__s3 *s3 = (struct cleat__s3 *)completion->store;
  const bool create_only = completion->upload->create_only;
  const unsigned known =
      atomic_load(&s3->store.lacks) & (CLEAT__STORE_NO_OBJECT_SIZE | (create_only ? CLEAT__STORE_NO_CREATE_ONLY : 0u));
  struct cleat_error refusal;
  bool refused = false;
  for (size_t i = 0; i < sizeof trials / sizeof trials[0]; i++) {
    bool guards = (trials[i] & CLEAT__STORE_NO_CREATE_ONLY) != 0;
    if ((trials[i] & known) != known || (guards && !create_only))
      continue;
    cleat_status status =
        guards ? cleat__s3_check_free(s3, completion->upload->key, cleat__call(completion->cancel, err)) : CLEAT_OK;
    if (status == CLEAT_EXISTS)
      cleat__s3_learn(s3, CLEAT__STORE_REFUSED_CREATE_ONLY);
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
                                  const struct cleat__stored_part *parts, size_t count, struct cleat__call call) {
  const struct cleat__s3_config *config = &((struct cleat__s3 *)store)->configs[0];
  enum cleat__s3_named named = config->crc64nvme   ? CLEAT__S3_NAME_CRC64NVME
                               : config->checksums ? CLEAT__S3_NAME_CRC32C
                                                   : CLEAT__S3_NAME_NONE;
  struct cleat__buffer body;
  struct cleat_error problem;
  cleat__buffer_init(&body, COMPLETE_BODY_MAX);
  cleat_status status = cleat__s3_xml_complete_body(parts, count, named, &body);
  if (status != CLEAT_OK) {
    cleat__error_set(call.err, status, "the list of %zu parts cannot be written", count);
    goto done;
  }
  struct completion completion = {store, upload, parts, count, &body, 0, call.cancel};
  status = complete_learning(&completion, &problem);
  if (status != CLEAT_OK)
    *call.err = problem;

done:
  cleat__buffer_clear(&body);
  return status;
}

/* Whether the store holds the part that was sent, compared by checksum and not by ETag. */
static bool is_same_part(const struct cleat__stored_part *part, const struct cleat__stored_part *held) {
  bool by_crc32c = part->has_crc32c && held->has_crc32c && part->crc32c == held->crc32c;
  bool by_crc64nvme = part->has_crc64nvme && held->has_crc64nvme && part->crc64nvme == held->crc64nvme;
  return part->number == held->number && part->size == held->size && (by_crc32c || by_crc64nvme);
}

/* Returns a copy of the parts with the ETags of ListParts. NULL if these are the same, if a part is not the one that
 * was sent, or if the store did not answer. */
static struct cleat__stored_part *relist(struct cleat__store *store, const struct cleat__upload *upload,
                                         const struct cleat__stored_part *parts, size_t count,
                                         const atomic_bool *cancel) {
  struct cleat__stored_part *held = NULL;
  struct cleat_error ignored;
  size_t held_count = 0;
  bool changed = false, same = true;
  if (cleat__s3_multipart_list_parts(store, upload, &held, &held_count, cleat__call(cancel, &ignored)) != CLEAT_OK)
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

cleat_status cleat__s3_multipart_complete(struct cleat__store *store, const struct cleat__upload *upload,
                                          const struct cleat__stored_part *parts, size_t count,
                                          struct cleat__call call) {
  cleat_status status = complete_with(store, upload, parts, count, call);
  if (status == CLEAT_OK || strcmp(call.err->s3_code, "InvalidPart") != 0)
    return status;
  /* No checksum protects the headers of a reply: an ETag may have been damaged in transit. */
  struct cleat__stored_part *listed = relist(store, upload, parts, count, call.cancel);
  if (listed != NULL)
    status = complete_with(store, upload, listed, count, call);
  cleat__free(listed);
  return status;
}
