/* json_scan.c: a strict reader of JSON's grammar (RFC 8259) that builds nothing. See json.h.
 *
 * cJSON is lenient (control characters in strings, numbers such as 01, texts cut at an escaped
 * NUL), recurses as deep as the input asks, and does not say whether it failed for want of memory.
 * What has passed here can fail in cJSON for want of memory only. Pure; recursion is bounded by
 * max_depth. */
#include "base/json_scan.h"

#include "base/utf8.h"

#include <string.h>

struct scan {
  const unsigned char *at;
  const unsigned char *end;
  unsigned depth; /* that may still be opened */
  const char *problem;
};

/* cJSON copies a number into a buffer of 64 bytes. */
#define NUMBER_BYTES_MAX 63

static bool scan_value(struct scan *scan);

static bool fail(struct scan *scan, const char *problem) {
  scan->problem = problem;
  return false;
}

/* The byte at hand; 0, which no JSON text holds, at the end. */
static unsigned char peek(const struct scan *scan) {
  return scan->at < scan->end ? *scan->at : 0;
}

static void skip_space(struct scan *scan) {
  while (peek(scan) == ' ' || peek(scan) == '\t' || peek(scan) == '\n' || peek(scan) == '\r')
    scan->at++;
}

static bool is_digit(unsigned char c) {
  return c >= '0' && c <= '9';
}

static bool scan_digits(struct scan *scan) {
  if (!is_digit(peek(scan)))
    return fail(scan, "malformed number");
  while (is_digit(peek(scan)))
    scan->at++;
  return true;
}

static bool scan_number(struct scan *scan) {
  const unsigned char *start = scan->at;
  if (peek(scan) == '-')
    scan->at++;
  if (peek(scan) == '0')
    scan->at++;
  else if (!scan_digits(scan))
    return false;
  if (peek(scan) == '.') {
    scan->at++;
    if (!scan_digits(scan))
      return false;
  }
  if (peek(scan) == 'e' || peek(scan) == 'E') {
    scan->at++;
    if (peek(scan) == '+' || peek(scan) == '-')
      scan->at++;
    if (!scan_digits(scan))
      return false;
  }
  return scan->at - start <= NUMBER_BYTES_MAX || fail(scan, "a number of over 63 characters");
}

static bool scan_hex4(struct scan *scan, unsigned *unit) {
  *unit = 0;
  for (int i = 0; i < 4; i++, scan->at++) {
    unsigned char c = peek(scan);
    unsigned char lower = c | 0x20;
    if (is_digit(c))
      *unit = *unit << 4 | (unsigned)(c - '0');
    else if (lower >= 'a' && lower <= 'f')
      *unit = *unit << 4 | (unsigned)(lower - 'a' + 10);
    else
      return fail(scan, "malformed \\u escape");
  }
  return true;
}

/* After "\u": one unit, or a pair of surrogates. */
static bool scan_unicode_escape(struct scan *scan) {
  unsigned unit = 0;
  if (!scan_hex4(scan, &unit))
    return false;
  if (unit == 0)
    return fail(scan, "an escaped NUL");
  if (unit < 0xd800 || unit > 0xdfff)
    return true;
  if (unit > 0xdbff || scan->end - scan->at < 2 || memcmp(scan->at, "\\u", 2) != 0)
    return fail(scan, "half a surrogate pair");
  scan->at += 2;
  if (!scan_hex4(scan, &unit))
    return false;
  return (unit >= 0xdc00 && unit <= 0xdfff) || fail(scan, "half a surrogate pair");
}

static bool scan_escape(struct scan *scan) {
  scan->at++;
  unsigned char c = peek(scan);
  if (c == 0 || strchr("\"\\/bfnrtu", c) == NULL)
    return fail(scan, "unknown escape");
  scan->at++;
  return c != 'u' || scan_unicode_escape(scan);
}

/* One character beyond ASCII. */
static bool scan_utf8(struct scan *scan) {
  uint32_t code = 0;
  size_t length = cleat__utf8_next((const char *)scan->at, (const char *)scan->end, &code);
  if (length == 0)
    return fail(scan, "text that is not UTF-8");
  scan->at += length;
  return true;
}

static bool scan_string(struct scan *scan) {
  if (peek(scan) != '"')
    return fail(scan, "a string was expected");
  scan->at++;
  for (;;) {
    unsigned char c = peek(scan);
    bool good = true;
    if (scan->at == scan->end)
      return fail(scan, "a string without end");
    if (c < 0x20)
      return fail(scan, "a control character in a string");
    if (c == '"') {
      scan->at++;
      return true;
    }
    if (c == '\\')
      good = scan_escape(scan);
    else if (c >= 0x80)
      good = scan_utf8(scan);
    else
      scan->at++;
    if (!good)
      return false;
  }
}

static bool scan_member(struct scan *scan) {
  skip_space(scan);
  if (!scan_string(scan))
    return false;
  skip_space(scan);
  if (peek(scan) != ':')
    return fail(scan, "':' was expected");
  scan->at++;
  return scan_value(scan);
}

/* An object or array, up to and with `close`. */
static bool scan_container(struct scan *scan, unsigned char close,
                           bool (*scan_element)(struct scan *scan)) {
  if (scan->depth == 0)
    return fail(scan, "nested too deep");
  scan->depth--;
  scan->at++;
  skip_space(scan);
  if (peek(scan) == close)
    goto closed;
  for (;;) {
    if (!scan_element(scan))
      return false;
    skip_space(scan);
    if (peek(scan) == close)
      goto closed;
    if (peek(scan) != ',')
      return fail(scan, scan->at == scan->end ? "cut off" : "',' was expected");
    scan->at++;
  }
closed:
  scan->at++;
  scan->depth++;
  return true;
}

static bool scan_word(struct scan *scan, const char *word) {
  size_t length = strlen(word);
  if ((size_t)(scan->end - scan->at) < length || memcmp(scan->at, word, length) != 0)
    return fail(scan, "an unknown word");
  scan->at += length;
  return true;
}

static bool scan_value(struct scan *scan) {
  skip_space(scan);
  if (scan->at == scan->end)
    return fail(scan, "cut off");
  switch (*scan->at) {
  case '{':
    return scan_container(scan, '}', scan_member);
  case '[':
    return scan_container(scan, ']', scan_value);
  case '"':
    return scan_string(scan);
  case 't':
    return scan_word(scan, "true");
  case 'f':
    return scan_word(scan, "false");
  case 'n':
    return scan_word(scan, "null");
  default:
    return scan_number(scan);
  }
}

const char *cleat__json_scan(const char *text, size_t size, unsigned max_depth, size_t *offset) {
  const unsigned char *start = (const unsigned char *)text;
  struct scan scan = {.at = start, .end = start + size, .depth = max_depth};
  if (scan_value(&scan)) {
    skip_space(&scan);
    if (scan.at == scan.end)
      return NULL;
    scan.problem = "something after the value";
  }
  *offset = (size_t)(scan.at - start);
  return scan.problem;
}
