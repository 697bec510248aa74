/* claim.c: see claim.h. */
#include "uploader/commit/claim.h"

#include "base/json_reader.h"
#include "base/json_writer.h"
#include "base/mem.h"
#include "uploader/commit/commit.h"
#include "uploader/engine/reading.h"
#include "uploader/model/document.h"
#include "uploader/model/record.h"

#include <assert.h>
#include <string.h>

#define WHAT "claim"
#define UPLOADS_MAX CLEAT__RECORD_FILES_MAX
#define READS_MAX 2

void cleat__claim_clear(struct cleat__claim *claim) {
  for (size_t i = 0; i < claim->upload_count; i++)
    cleat__free(claim->uploads[i]);
  cleat__free(claim->uploads);
  cleat__free(claim->text);
  *claim = (struct cleat__claim){0};
}

/* ---- Codec ------------------------------------------------------------------------------------ */

cleat_status cleat__claim_encode(const struct cleat__claim *claim, struct cleat__buffer *out, struct cleat_error *err) {
  assert(claim->kind == CLEAT__CLAIM_OPEN || claim->kind == CLEAT__CLAIM_CLOSED);
  assert(claim->nonce[0] != '\0');
  struct cleat__json_writer writer;
  cleat__json_writer_init(&writer, out);
  cleat__json_put_text(&writer,
                       "{\"format\":\"" CLEAT__CLAIM_FORMAT "\",\"version\":\"" CLEAT__CLAIM_VERSION "\",\"nonce\":");
  cleat__json_put_string(&writer, claim->nonce, strlen(claim->nonce));
  cleat__json_put_text(&writer, claim->kind == CLEAT__CLAIM_CLOSED ? ",\"state\":\"closed\"" : ",\"state\":\"open\"");
  cleat__json_put_text(&writer, ",\"uploads\":[");
  for (size_t i = 0; i < claim->upload_count; i++) {
    cleat__json_put_string_field(&writer, i > 0 ? "," : "", claim->uploads[i]);
  }
  cleat__json_put_text(&writer, "]}\n");
  return cleat__json_writer_end(&writer, WHAT, err);
}

static bool text_is(const struct cleat__json_text *text, const char *wanted) {
  return text->length == strlen(wanted) && memcmp(text->bytes, wanted, text->length) == 0;
}

static void read_nonce(struct cleat__json_reader *reader, struct cleat__claim *claim) {
  struct cleat__json_text text = {NULL, 0};
  struct cleat_error ignored;
  if (!cleat__json_string(reader, &text))
    return;
  if (cleat__name_check_id("nonce", text.bytes, text.length, &ignored) != CLEAT_OK) {
    cleat__json_refuse(reader, "is not a valid id");
    return;
  }
  memcpy(claim->nonce, text.bytes, text.length);
  claim->nonce[text.length] = '\0';
}

static void read_state(struct cleat__json_reader *reader, struct cleat__claim *claim) {
  struct cleat__json_text text = {NULL, 0};
  if (!cleat__json_string(reader, &text))
    return;
  /* A state of a later version does not count as open. */
  claim->kind = text_is(&text, "open") ? CLEAT__CLAIM_OPEN : CLEAT__CLAIM_CLOSED;
}

static void read_upload(struct cleat__json_reader *reader, struct cleat__claim *claim, size_t *capacity) {
  struct cleat__json_text text = {NULL, 0};
  struct cleat_error ignored;
  if (!cleat__json_string(reader, &text))
    return;
  if (cleat__name_check_file(text.bytes, text.length, &ignored) != CLEAT_OK) {
    cleat__json_refuse(reader, "is not a valid file name");
    return;
  }
  if (claim->upload_count == UPLOADS_MAX) {
    cleat__json_refuse_limit(reader, "files", UPLOADS_MAX);
    return;
  }
  void *grown = cleat__grow(claim->uploads, capacity, claim->upload_count, sizeof *claim->uploads);
  if (grown != NULL)
    claim->uploads = grown;
  char *name = grown != NULL ? cleat__strndup(text.bytes, text.length) : NULL;
  if (name == NULL)
    cleat__json_refuse_memory(reader);
  else
    claim->uploads[claim->upload_count++] = name;
}

cleat_status cleat__claim_parse(const char *json, size_t size, struct cleat__claim *claim, struct cleat_error *err) {
  static const char *const fields[] = {"nonce", "state", "uploads"};
  struct cleat__json_reader reader;
  size_t capacity = 0;
  uint32_t seen = 0;
  unsigned which = 0;
  cleat_status status = cleat__document_check(json, size, WHAT, CLEAT__CLAIM_FORMAT, err);
  if (status != CLEAT_OK)
    return status;
  cleat__json_reader_init(&reader, json, size, CLEAT__JSON_DEPTH_MAX, WHAT, err);
  cleat__json_object(&reader);
  while (cleat__json_field(&reader, fields, 3, &seen, &which)) {
    if (which == 0) {
      read_nonce(&reader, claim);
    } else if (which == 1) {
      read_state(&reader, claim);
    } else {
      cleat__json_array(&reader);
      while (cleat__json_element(&reader))
        read_upload(&reader, claim, &capacity);
    }
  }
  cleat__json_require(&reader, fields, 7, seen);
  (void)cleat__json_end(&reader);
  cleat__json_reader_clear(&reader);
  if (reader.status != CLEAT_OK)
    cleat__claim_clear(claim);
  return reader.status;
}

/* ---- In the store ------------------------------------------------------------------------------ */

cleat_status cleat__claim_read(struct cleat_client *client, const char *key, struct cleat__claim *claim,
                               struct cleat__call call) {
  struct cleat__claim found = {0};
  struct cleat_error problem;
  struct cleat__small text = {0};
  cleat_status status =
      cleat__read_document(client, key, CLEAT__RECORD_BYTES_MAX, &text, cleat__call(call.cancel, &problem));
  if (cleat__object_is_absent(status, &problem)) {
    *claim = found;
    return CLEAT_OK;
  }
  if (status == CLEAT_OK)
    status = cleat__claim_parse(text.bytes, text.size, &found, &problem);
  if (status == CLEAT_FORMAT || status == CLEAT_NEWER) {
    found = (struct cleat__claim){.kind = CLEAT__CLAIM_RECORD, .text = text.bytes, .size = text.size};
    text.bytes = NULL;
    status = CLEAT_OK;
  }
  cleat__free(text.bytes);
  if (status != CLEAT_OK) {
    *call.err = problem;
    return status;
  }
  memcpy(found.etag, text.etag, sizeof found.etag);
  *claim = found;
  return CLEAT_OK;
}

static cleat_status taken_over(const char *key, struct cleat_error *err) {
  cleat_status status = cleat__error_set(err, CLEAT_LOST, "another process has taken over this save (%s)", key);
  cleat__error_hint(err, "it was resumed elsewhere and continues there; `cleat ls` shows when it is committed");
  return status;
}

cleat_status cleat__claim_put(struct cleat_client *client, const char *key, const struct cleat__claim *claim,
                              const char *etag, struct cleat__call call) {
  struct cleat__buffer text;
  cleat__buffer_init(&text, CLEAT__CLAIM_BYTES_MAX);
  cleat_status status = cleat__claim_encode(claim, &text, call.err);
  if (status == CLEAT_OK)
    status = cleat__commit_document(client, key, &text, etag, call);
  cleat__buffer_clear(&text);
  return status == CLEAT_LOST ? taken_over(key, call.err) : status;
}

cleat_status cleat__claim_check(struct cleat_client *client, const char *key, const char *nonce,
                                char etag[CLEAT__ETAG_MAX], struct cleat__call call) {
  /* Reads twice, so that a reply damaged in transit is not taken for another process's claim. */
  for (int tries = 0; tries < READS_MAX; tries++) {
    struct cleat__claim claim = {0};
    cleat_status status = cleat__claim_read(client, key, &claim, call);
    if (status != CLEAT_OK)
      return status;
    bool ours = claim.kind == CLEAT__CLAIM_OPEN && strcmp(claim.nonce, nonce) == 0;
    if (ours)
      memcpy(etag, claim.etag, sizeof claim.etag);
    cleat__claim_clear(&claim);
    if (ours)
      return CLEAT_OK;
  }
  return taken_over(key, call.err);
}

/* A record that cannot be read may be ours, so it counts as ours. */
static bool is_record_of(const struct cleat__claim *claim, const char *nonce) {
  assert(claim->kind == CLEAT__CLAIM_RECORD && claim->text != NULL);
  struct cleat__record record = {0};
  struct cleat_error ignored;
  bool ours =
      cleat__record_parse(claim->text, claim->size, &record, &ignored) != CLEAT_OK || strcmp(record.nonce, nonce) == 0;
  cleat__record_clear(&record);
  return ours;
}

cleat_status cleat__claim_close(struct cleat_client *client, const char *key, const char *nonce, bool stood,
                                struct cleat_error *err) {
  struct cleat__claim claim = {0};
  cleat_status status = cleat__claim_read(client, key, &claim, cleat__call(&client->never, err));
  if (status != CLEAT_OK)
    return status;
  if (claim.kind == CLEAT__CLAIM_RECORD) {
    status = is_record_of(&claim, nonce)
                 ? cleat__error_set(err, CLEAT_EXISTS, "the rank record %s is already stored", key)
                 : taken_over(key, err);
  } else if (claim.kind == CLEAT__CLAIM_NONE ? stood : strcmp(claim.nonce, nonce) != 0) {
    status = taken_over(key, err);
  } else if (claim.kind == CLEAT__CLAIM_OPEN) {
    claim.kind = CLEAT__CLAIM_CLOSED;
    status = cleat__claim_put(client, key, &claim, claim.etag, cleat__call(&client->never, err));
    /* The claim could not be replaced, but if it is still ours, that is good enough. Without disk space, no other
     * process can put a claim either, and removing the attempt frees space. Without If-Match, no other process can take
     * over the claim. */
    char etag[CLEAT__ETAG_MAX];
    if (status == CLEAT_NO_SPACE || status == CLEAT_UNSUPPORTED)
      status = cleat__claim_check(client, key, nonce, etag, cleat__call(&client->never, err));
  }
  cleat__claim_clear(&claim);
  return status;
}
