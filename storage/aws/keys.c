/* aws/keys.c: checks and reads keys. See aws/keys.h. Pure; decoded texts of the JSON reader are
 * wiped before they are freed. The messages of that reader quote what it found, so none of them
 * leaves this file. */
#include "storage/aws/keys.h"

#include "base/json_reader.h"

#include <string.h>
#include <time.h>

#define DEPTH_MAX 8 /* depth of skipped values; documents of AWS have one level */

void cleat__s3_credentials_wipe(struct cleat__s3_credentials *credentials) {
  explicit_bzero(credentials, sizeof *credentials);
}

/* ---- Single values ---- */

static bool is_clean(const char *text, size_t length) {
  for (size_t i = 0; i < length; i++) {
    if ((unsigned char)text[i] <= 0x20 || (unsigned char)text[i] >= 0x7f)
      return false;
  }
  return true;
}

static cleat_status copy_key(const char *from, char *to, size_t size, const char *name, const char *place,
                             struct cleat_error *err) {
  size_t length = from ? strlen(from) : 0;
  if (length >= size)
    return cleat__error_set(err, CLEAT_INVALID, "%s of %s is over %zu bytes", name, place, size - 1);
  if (!is_clean(from, length)) {
    (void)cleat__error_set(err, CLEAT_INVALID, "%s of %s contains a blank, a line end or a non-ASCII character", name,
                           place);
    cleat__error_hint(err, "a secret that was copied from a file often ends with a line end");
    return err->status;
  }
  if (length > 0)
    memcpy(to, from, length);
  to[length] = '\0';
  return CLEAT_OK;
}

/* An empty value counts as absent: people unset a variable like that. */
static bool is_set(const char *text) {
  return text && text[0] != '\0';
}

cleat_status cleat__s3_keys_set(const struct cleat__s3_key_names *names, struct cleat__s3_key_texts texts,
                                struct cleat__s3_credentials *keys, bool *found, struct cleat_error *err) {
  if (is_set(texts.id) != is_set(texts.secret) || (is_set(texts.token) && !is_set(texts.id))) {
    const char *missing = is_set(texts.id) ? names->secret : names->id;
    const char *present = is_set(texts.id) ? names->id : is_set(texts.secret) ? names->secret : names->token;
    (void)cleat__error_set(err, names->status, "%s: %s is set, but %s is not", names->place, present, missing);
    cleat__error_hint(err, "set %s too, or neither", missing);
    return err->status;
  }
  *found = is_set(texts.id);
  if (!is_set(texts.id))
    return CLEAT_OK;
  keys->expires_s = 0;
  cleat_status status =
      copy_key(texts.id, keys->access_key_id, sizeof keys->access_key_id, names->id, names->place, err);
  if (!status)
    status = copy_key(texts.secret, keys->secret_access_key, sizeof keys->secret_access_key, names->secret,
                      names->place, err);
  if (!status)
    status = copy_key(texts.token, keys->session_token, sizeof keys->session_token, names->token, names->place, err);
  return status;
}

/* ---- Secrets that come back ---- */

#define WINDOW 16    /* so many equal bytes in a row are no coincidence */
#define SECRET_MIN 6 /* a shorter text is found by coincidence, and is no secret */

static bool says(const char *text, const char *secret) {
  char window[WINDOW + 1];
  size_t length = strlen(secret);
  bool found = length >= SECRET_MIN && length <= WINDOW && strstr(text, secret);
  for (size_t i = 0; i + WINDOW <= length && !found; i++) {
    memcpy(window, secret + i, WINDOW);
    window[WINDOW] = '\0';
    found = strstr(text, window) != NULL;
  }
  explicit_bzero(window, sizeof window);
  return found;
}

void cleat__s3_keys_hide(const char *secret, char *text) {
  if (secret && text[0] != '\0' && says(text, secret))
    memcpy(text, CLEAT__S3_REDACTED, sizeof CLEAT__S3_REDACTED);
}

/* ---- Times ---- */

static int two_digits(const char *text) {
  return (text[0] - '0') * 10 + (text[1] - '0');
}

static bool has_shape(const char *text, const char *shape) {
  for (size_t i = 0; shape[i] != '\0'; i++) {
    bool digit = text[i] >= '0' && text[i] <= '9';
    if (shape[i] == '0' ? !digit : text[i] != shape[i])
      return false;
  }
  return true;
}

/* Parses the zone after the seconds: "Z", "+01:00", "-0100". */
static bool read_zone(const char *text, size_t length, int64_t *offset_s) {
  *offset_s = 0;
  if (length == 1 && text[0] == 'Z')
    return true;
  if ((length != 6 && length != 5) || (text[0] != '+' && text[0] != '-') ||
      !has_shape(text + 1, length == 6 ? "00:00" : "0000"))
    return false;
  *offset_s = two_digits(text + 1) * 3600 + two_digits(text + length - 2) * 60;
  if (text[0] == '-')
    *offset_s = -*offset_s;
  return true;
}

bool cleat__s3_keys_time(const char *text, size_t length, int64_t *wall_s) {
  static const char shape[] = "0000-00-00T00:00:00";
  size_t used = sizeof shape - 1;
  int64_t offset_s = 0;
  if (length <= used || length > 40 || !has_shape(text, shape))
    return false;
  if (text[used] == '.') {
    used++;
    while (used < length && text[used] >= '0' && text[used] <= '9')
      used++;
  }
  if (!read_zone(text + used, length - used, &offset_s))
    return false;
  struct tm parts = {.tm_year = two_digits(text) * 100 + two_digits(text + 2) - 1900,
                     .tm_mon = two_digits(text + 5) - 1,
                     .tm_mday = two_digits(text + 8),
                     .tm_hour = two_digits(text + 11),
                     .tm_min = two_digits(text + 14),
                     .tm_sec = two_digits(text + 17)};
  if (parts.tm_year < 70 || parts.tm_mon < 0 || parts.tm_mon > 11 || parts.tm_mday < 1 || parts.tm_mday > 31 ||
      parts.tm_hour > 23 || parts.tm_min > 59 || parts.tm_sec > 60)
    return false;
  *wall_s = (int64_t)timegm(&parts) - offset_s;
  return true;
}

/* ---- The JSON document ---- */

enum field { ID = 0, SECRET, TOKEN, EXPIRATION, VERSION, CODE, FIELD_COUNT };

struct document_reader {
  struct cleat__json_reader json;
  const struct cleat__s3_keys_document *document;
  struct cleat__s3_credentials *keys;
  const char *why; /* static; NULL: only the JSON itself may be wrong */
};

static bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Reads a string. A null counts as absent. */
static bool read_text(struct cleat__json_reader *json, struct cleat__json_text *text) {
  const char *at = json->at;
  while (at < json->end && is_blank(*at))
    at++;
  if (at == json->end || *at != 'n')
    return cleat__json_string(json, text);
  *text = (struct cleat__json_text){"", 0};
  return cleat__json_value(json, NULL);
}

static void take_text(struct document_reader *reader, char *to, size_t size) {
  struct cleat__json_text text = {"", 0};
  if (!read_text(&reader->json, &text))
    return;
  if (text.length >= size)
    reader->why = "a value is too long";
  else if (!is_clean(text.bytes, text.length))
    reader->why = "a value contains a blank, a line end or a non-ASCII character";
  else {
    memcpy(to, text.bytes, text.length);
    to[text.length] = '\0';
  }
}

static void take_time(struct document_reader *reader) {
  struct cleat__json_text text = {"", 0};
  if (!read_text(&reader->json, &text) || text.length == 0)
    return;
  if (!cleat__s3_keys_time(text.bytes, text.length, &reader->keys->expires_s))
    reader->why = "its Expiration is not a time";
}

static void take_version(struct document_reader *reader) {
  uint64_t version = 0;
  if (cleat__json_uint(&reader->json, &version) && version != 1)
    reader->why = "its Version is not 1";
}

static void take_code(struct document_reader *reader) {
  struct cleat__json_text text = {"", 0};
  if (read_text(&reader->json, &text) && reader->document->has_code &&
      (text.length != 7 || memcmp(text.bytes, "Success", 7) != 0))
    reader->why = "its Code is not Success";
}

static void take_field(struct document_reader *reader, unsigned field) {
  struct cleat__s3_credentials *keys = reader->keys;
  switch (field) {
  case ID:
    take_text(reader, keys->access_key_id, sizeof keys->access_key_id);
    break;
  case SECRET:
    take_text(reader, keys->secret_access_key, sizeof keys->secret_access_key);
    break;
  case TOKEN:
    take_text(reader, keys->session_token, sizeof keys->session_token);
    break;
  case EXPIRATION:
    take_time(reader);
    break;
  case VERSION:
    take_version(reader);
    break;
  default:
    take_code(reader);
    break;
  }
}

static void read_document(struct document_reader *reader) {
  /* An unused name is "". Other documents may use Version or Code for something else. */
  const char *const names[FIELD_COUNT] = {"AccessKeyId",
                                          "SecretAccessKey",
                                          reader->document->token_name,
                                          "Expiration",
                                          reader->document->needs_version ? "Version" : "",
                                          reader->document->has_code ? "Code" : ""};
  uint32_t seen = 0;
  unsigned field = 0;
  if (!cleat__json_object(&reader->json))
    return;
  while (!reader->why && cleat__json_field(&reader->json, names, FIELD_COUNT, &seen, &field))
    take_field(reader, field);
  if (reader->why || !cleat__json_end(&reader->json))
    return;
  if (reader->document->needs_version && !(seen & UINT32_C(1) << VERSION))
    reader->why = "its Version is missing";
  else if (reader->keys->access_key_id[0] == '\0')
    reader->why = "its AccessKeyId is missing";
  else if (reader->keys->secret_access_key[0] == '\0')
    reader->why = "its SecretAccessKey is missing";
}

cleat_status cleat__s3_keys_json(const char *text, size_t size, const struct cleat__s3_keys_document *document,
                                 struct cleat__s3_credentials *keys, struct cleat_error *err) {
  struct cleat__s3_credentials made = {0};
  struct cleat_error quoting; /* messages of the reader may quote a secret */
  struct document_reader reader = {.document = document, .keys = &made};
  cleat__error_clear(&quoting);
  cleat__json_reader_init(&reader.json, text, size, DEPTH_MAX, "keys", &quoting);
  read_document(&reader);
  cleat_status status = CLEAT_OK;
  if (quoting.status == CLEAT_NO_MEMORY)
    status = cleat__error_no_memory(err, "the credentials");
  else if (reader.why || quoting.status)
    status = cleat__error_set(err, CLEAT_DENIED, "%s: the answer is not a valid document with keys: %s",
                              document->place, reader.why ? reader.why : "it is not the expected JSON");
  else
    *keys = made;
  if (reader.json.value.data)
    explicit_bzero(reader.json.value.data, reader.json.value.capacity);
  cleat__json_reader_clear(&reader.json);
  explicit_bzero(&quoting, sizeof quoting);
  cleat__s3_credentials_wipe(&made);
  return status;
}
