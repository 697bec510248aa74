/* http/encode.c: percent-encoding for paths and queries. See http/encode.h. Pure; no state. */
#include "storage/http/encode.h"

#include <stdlib.h>
#include <string.h>

/* Larger than any query of Cleat: a prefix, a continuation token and an upload id, every byte as
 * %XX. */
#define QUERY_BYTES_MAX 65536u

/* Unreserved characters of RFC 3986 §2.3. Not isalnum(), because it depends on the locale. */
static bool unreserved(unsigned char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
         c == '_' || c == '~';
}

static cleat_status append_escape(struct cleat__buffer *out, unsigned char c) {
  static const char digits[] = "0123456789ABCDEF";
  const char escape[3] = {'%', digits[c >> 4], digits[c & 15]};
  return cleat__buffer_append(out, escape, sizeof escape);
}

cleat_status cleat__s3_encode(struct cleat__buffer *out, const char *text, size_t length, bool keep_slash) {
  size_t done = 0;
  while (done < length) {
    /* Copy runs of plain characters at once. */
    size_t run = done;
    while (run < length && (unreserved((unsigned char)text[run]) || (keep_slash && text[run] == '/')))
      run++;
    if (run > done) {
      cleat_status status = cleat__buffer_append(out, text + done, run - done);
      if (status)
        return status;
    }
    if (run < length) {
      cleat_status status = append_escape(out, (unsigned char)text[run++]);
      if (status)
        return status;
    }
    done = run;
  }
  return CLEAT_OK;
}

/* A pair in its encoded form. Offsets first and pointers later, because the buffer may move
 * while it grows. */
struct encoded {
  size_t name_at;
  size_t value_at;
  const char *name;
  const char *value;
};

static int compare_encoded(const void *left, const void *right) {
  const struct encoded *a = left;
  const struct encoded *b = right;
  int order = strcmp(a->name, b->name);
  return order ? order : strcmp(a->value, b->value);
}

/* Encodes one text into the scratch buffer with its NUL, and sets *at to its offset. */
static cleat_status encode_text(struct cleat__buffer *scratch, const char *text, size_t *at) {
  *at = scratch->length;
  cleat_status status = cleat__s3_encode(scratch, text, strlen(text), false);
  return status ? status : cleat__buffer_append(scratch, "", 1);
}

static cleat_status append_sorted(struct cleat__buffer *out, const struct encoded *pairs, size_t count) {
  for (size_t i = 0; i < count; i++) {
    cleat_status status = cleat__buffer_print(out, "%s%s=%s", i ? "&" : "", pairs[i].name, pairs[i].value);
    if (status)
      return status;
  }
  return CLEAT_OK;
}

cleat_status cleat__s3_encode_query(struct cleat__buffer *out, const struct cleat__s3_pair *pairs, size_t count) {
  struct encoded encoded[CLEAT__S3_QUERY_MAX];
  if (count > CLEAT__S3_QUERY_MAX)
    return CLEAT_LIMIT;
  struct cleat__buffer scratch;
  cleat__buffer_init(&scratch, QUERY_BYTES_MAX);
  cleat_status status = CLEAT_OK;
  for (size_t i = 0; i < count && !status; i++) {
    status = encode_text(&scratch, pairs[i].name, &encoded[i].name_at);
    if (!status)
      status = encode_text(&scratch, pairs[i].value, &encoded[i].value_at);
  }
  if (!status && count > 0) {
    for (size_t i = 0; i < count; i++) {
      encoded[i].name = scratch.data + encoded[i].name_at;
      encoded[i].value = scratch.data + encoded[i].value_at;
    }
    qsort(encoded, count, sizeof encoded[0], compare_encoded);
    status = append_sorted(out, encoded, count);
  }
  cleat__buffer_clear(&scratch);
  return status;
}

static int hex_digit(char c) {
  if (c >= '0' && c <= '9')
    return c - '0';
  if (c >= 'A' && c <= 'F')
    return c - 'A' + 10;
  if (c >= 'a' && c <= 'f')
    return c - 'a' + 10;
  return -1;
}

bool cleat__s3_decode(char *text, bool plus) {
  char *to = text;
  for (const char *from = text; *from != '\0'; from++) {
    if (*from == '%') {
      int high = hex_digit(from[1]);
      int low = high < 0 ? -1 : hex_digit(from[2]);
      if (low < 0 || (high == 0 && low == 0))
        return false;
      *to++ = (char)(unsigned char)(high * 16 + low);
      from += 2;
    } else {
      *to++ = plus && *from == '+' ? ' ' : *from;
    }
  }
  *to = '\0';
  return true;
}
