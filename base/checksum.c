/* checksum.c: random numbers from the kernel, the encodings of checksums, and the CRC-32C of a feed. digest.c computes
 * the checksums. See checksum.h. Stateless and thread-safe. Owns nothing.
 *
 * A request to the kernel counts as a fallible call (cleat__fault_point), so that tests reach the error paths of
 * callers. */
#include "base/checksum.h"

#include "base/mem.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/random.h>

/* ---- CRC-32C of a feed ---- */

static cleat_status take_crc32c(void *ctx, const void *bytes, size_t size, struct cleat_error *err) {
  uint32_t *crc32c = ctx;
  (void)err;
  *crc32c = cleat__crc32c(*crc32c, bytes, size);
  return CLEAT_OK;
}

cleat_status cleat__crc32c_feed(const struct cleat__feed *feed, uint32_t *crc32c, struct cleat__call call) {
  uint32_t crc = 0;
  cleat_status status = cleat__feed_each(feed, take_crc32c, &crc, call);
  if (status == CLEAT_OK)
    *crc32c = crc;
  return status;
}

/* ---- encodings ---- */

void cleat__hex(const void *bytes, size_t size, char *hex) {
  static const char digits[] = "0123456789abcdef";
  const unsigned char *from = bytes;
  for (size_t i = 0; i < size; i++) {
    hex[2 * i] = digits[from[i] >> 4];
    hex[2 * i + 1] = digits[from[i] & 15];
  }
  hex[2 * size] = '\0';
}

static int hex_digit(char c) {
  if (c >= '0' && c <= '9')
    return c - '0';
  if (c >= 'a' && c <= 'f')
    return c - 'a' + 10;
  if (c >= 'A' && c <= 'F')
    return c - 'A' + 10;
  return -1;
}

bool cleat__unhex(const char *hex, size_t size, void *bytes) {
  unsigned char *to = bytes;
  /* Checks all digits before it writes. A NUL is not a digit, so the loop never reads past the end. */
  for (size_t i = 0; i < 2 * size; i++)
    if (hex_digit(hex[i]) < 0)
      return false;
  if (hex[2 * size] != '\0')
    return false;
  for (size_t i = 0; i < size; i++)
    to[i] = (unsigned char)(hex_digit(hex[2 * i]) * 16 + hex_digit(hex[2 * i + 1]));
  return true;
}

static const char base64_digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void cleat__base64(const void *bytes, size_t size, char *text) {
  const unsigned char *from = bytes;
  for (size_t i = 0; i < size; i += 3) {
    size_t have = size - i < 3 ? size - i : 3;
    unsigned group = (unsigned)from[i] << 16;
    if (have > 1)
      group |= (unsigned)from[i + 1] << 8;
    if (have > 2)
      group |= from[i + 2];
    *text++ = base64_digits[group >> 18];
    *text++ = base64_digits[group >> 12 & 63];
    *text++ = have > 1 ? base64_digits[group >> 6 & 63] : '=';
    *text++ = have > 2 ? base64_digits[group & 63] : '=';
  }
  *text = '\0';
}

void cleat__crc32c_base64(uint32_t crc, char text[9]) {
  unsigned char bytes[4] = {(unsigned char)(crc >> 24), (unsigned char)(crc >> 16), (unsigned char)(crc >> 8),
                            (unsigned char)crc};
  cleat__base64(bytes, sizeof bytes, text);
}

bool cleat__unbase64(const char *text, size_t size, void *bytes) {
  unsigned char *to = bytes;
  unsigned long group = 0;
  size_t digits = (size * 8 + 5) / 6;
  size_t length = (size + 2) / 3 * 4;
  if (strnlen(text, length + 1) != length || strspn(text + digits, "=") != length - digits)
    return false;
  for (size_t i = 0, bits = 0; i < digits; i++) {
    const char *digit = strchr(base64_digits, text[i]);
    if (digit == NULL)
      return false;
    group = (group << 6 | (unsigned long)(digit - base64_digits)) & 0xFFFF;
    bits += 6;
    if (bits >= 8) {
      bits -= 8;
      *to++ = (unsigned char)(group >> bits);
    }
  }
  /* The bits of the last digit that are not part of a byte must be zero. */
  return (group & ((1ul << (digits * 6 - size * 8)) - 1)) == 0;
}

bool cleat__crc32c_unbase64(const char *text, uint32_t *crc) {
  unsigned char bytes[4];
  if (!cleat__unbase64(text, sizeof bytes, bytes))
    return false;
  *crc = (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
  return true;
}

/* ---- randomness ---- */

static bool random_bytes(void *bytes, size_t size) {
  size_t done = 0;
  while (done < size) {
    ssize_t got = getrandom((char *)bytes + done, size - done, 0);
    if (got < 0 && errno != EINTR)
      return false;
    if (got > 0)
      done += (size_t)got;
  }
  return true;
}

cleat_status cleat__random_hex(size_t size, char *hex) {
  assert(size > 0);
  unsigned char chunk[64];
  if (cleat__fault_point())
    return CLEAT_IO;
  for (size_t done = 0; done < size; done += sizeof chunk) {
    size_t part = size - done < sizeof chunk ? size - done : sizeof chunk;
    if (!random_bytes(chunk, part))
      return CLEAT_IO;
    cleat__hex(chunk, part, hex + 2 * done);
  }
  return CLEAT_OK;
}

double cleat__random_unit(void) {
  uint64_t bits = 0;
  /* Without random numbers the jitter is the middle: a delay must never make a request fail. */
  if (!random_bytes(&bits, sizeof bits))
    return 0.5;
  return (double)(bits >> 11) * 0x1p-53;
}
