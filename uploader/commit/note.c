/* note.c: see note.h. */
#include "uploader/commit/note.h"

#include "base/json_reader.h"
#include "base/json_writer.h"
#include "base/mem.h"
#include "uploader/commit/commit.h"
#include "uploader/model/document.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define NOTE "note of a rank"
#define FORMAT "cleat.note"
#define VERSION "1.0"
#define BYTES_MAX ((size_t)64 * 1024)

/* `why` NULL: a claim, which only names its owner. */
static cleat_status encode(const struct cleat_client *client, const struct cleat_error *why, struct cleat__buffer *out,
                           struct cleat_error *err) {
  assert(why == NULL || why->status != CLEAT_OK);
  struct cleat__json_writer writer;
  cleat__json_writer_init(&writer, out);
  cleat__json_put_text(&writer, "{\"format\":\"" FORMAT "\",\"version\":\"" VERSION "\",\"rank\":");
  cleat__json_put_uint(&writer, client->rank);
  cleat__json_put_string_field(&writer, ",\"nonce\":", client->nonce);
  if (why != NULL) {
    cleat__json_put_string_field(&writer, ",\"status\":", cleat_status_name(why->status));
    cleat__json_put_string_field(&writer, ",\"message\":", why->message);
    cleat__json_put_string_field(&writer, ",\"hint\":", why->hint);
  }
  cleat__json_put_text(&writer, "}\n");
  return cleat__json_writer_end(&writer, NOTE, err);
}

cleat_status cleat__note_put(struct cleat_client *client, const char *key, const struct cleat_error *why,
                             struct cleat__call call) {
  struct cleat__buffer text;
  cleat__buffer_init(&text, BYTES_MAX);
  cleat_status status = encode(client, why, &text, call.err);
  if (status == CLEAT_OK)
    status = cleat__commit_document(client, key, &text, NULL, call);
  cleat__buffer_clear(&text);
  return status;
}

static cleat_status status_by_name(const struct cleat__json_text *name) {
#define STATUS(number, status, text)                                                      \
  if (name->length == strlen(#status) && memcmp(name->bytes, #status, name->length) == 0) \
    return CLEAT_##status;
  CLEAT_STATUS_MAP(STATUS)
#undef STATUS
  return CLEAT_STORE;
}

/* Sets *err to the failure that `rank` reports. */
static void parse(const char *json, size_t size, unsigned rank, struct cleat_error *err) {
  static const char *const fields[] = {"status", "message", "hint"};
  struct cleat__json_reader reader;
  struct cleat_error ignored;
  struct cleat__json_text text = {NULL, 0};
  cleat_status status = CLEAT_STORE;
  char message[1800] = "it has failed", hint[sizeof err->hint] = "";
  uint32_t seen = 0;
  unsigned which = 0;
  cleat__json_reader_init(&reader, json, size, CLEAT__JSON_DEPTH_MAX, NOTE, &ignored);
  cleat__json_object(&reader);
  while (cleat__json_field(&reader, fields, 3, &seen, &which)) {
    if (!cleat__json_string(&reader, &text))
      break;
    if (which == 0)
      status = status_by_name(&text);
    else if (which == 1)
      (void)snprintf(message, sizeof message, "%.*s", (int)text.length, text.bytes);
    else
      (void)snprintf(hint, sizeof hint, "%.*s", (int)text.length, text.bytes);
  }
  cleat__json_reader_clear(&reader);
  /* Add "rank N: " unless the message already begins with a rank. Rank 0 passes on the failures of other ranks, and its
   * own messages about another rank begin with that rank, too. No field marks such messages. That is good enough,
   * because people read the text and no code depends on it. */
  bool passed_on = strncmp(message, "rank ", 5) == 0 && message[5] >= '0' && message[5] <= '9';
  char of[16] = "";
  if (!passed_on)
    (void)snprintf(of, sizeof of, "rank %u: ", rank);
  (void)cleat__error_set(err, status == CLEAT_OK ? CLEAT_STORE : status, "%s%s", of, message);
  cleat__error_hint(err, "%s", hint);
}

cleat_status cleat__note_read(struct cleat_client *client, const char *key, unsigned rank, bool *found,
                              struct cleat_error *failure, struct cleat__call call) {
  struct cleat__small text = {0};
  cleat_status status = cleat__store_get_small(client->store, key, BYTES_MAX, &text, call);
  *found = status == CLEAT_OK;
  if (*found)
    parse(text.bytes, text.size, rank, failure);
  cleat__free(text.bytes);
  return cleat__object_is_absent(status, call.err) ? CLEAT_OK : status;
}
