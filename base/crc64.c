/* crc64.c: CRC-64/NVME by tables. See crc64.h. Stateless; the caller owns the tables.
 *
 * A CRC is the remainder of the bits, as a polynomial, divided by POLYNOMIAL. Everything is reflected: the highest bit
 * of a word stands for x^0. */
#include "base/crc64.h"

#include "base/checksum.h"

#include <assert.h>
#include <endian.h>
#include <string.h>

#define POLYNOMIAL UINT64_C(0x9A6C9329AC4BC9B5)
#define X_0 (UINT64_C(1) << 63)
#define X_8 (UINT64_C(1) << 55)

static uint64_t times_x(uint64_t word) {
  return word >> 1 ^ ((word & 1) != 0 ? POLYNOMIAL : 0);
}

void cleat__crc64_init(struct cleat__crc64 *crc64) {
  for (unsigned byte = 0; byte < 256; byte++) {
    uint64_t word = byte;
    for (int bit = 0; bit < 8; bit++)
      word = times_x(word);
    crc64->tables[0][byte] = word;
  }
  /* Table n is for a byte that n zero bytes follow. */
  for (unsigned n = 1; n < 8; n++)
    for (unsigned byte = 0; byte < 256; byte++) {
      uint64_t word = crc64->tables[n - 1][byte];
      crc64->tables[n][byte] = word >> 8 ^ crc64->tables[0][word & 255];
    }
}

uint64_t cleat__crc64nvme(const struct cleat__crc64 *crc64, uint64_t crc, const void *bytes, size_t size) {
  /* cleat__crc64_init was called: only the byte 0 has the remainder 0. */
  assert(crc64->tables[0][1] != 0);
  const unsigned char *at = bytes;
  crc = ~crc;
  for (; size >= 8; at += 8, size -= 8) {
    uint64_t word;
    memcpy(&word, at, sizeof word);
    word = crc ^ le64toh(word);
    crc = 0;
    for (unsigned n = 0; n < 8; n++)
      crc ^= crc64->tables[7 - n][word >> (8 * n) & 255];
  }
  for (; size > 0; at++, size--)
    crc = crc >> 8 ^ crc64->tables[0][(crc ^ *at) & 255];
  return ~crc;
}

/* a * b modulo POLYNOMIAL */
static uint64_t multiply(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  for (uint64_t bit = X_0; bit != 0; bit >>= 1) {
    if ((a & bit) != 0)
      product ^= b;
    b = times_x(b);
  }
  return product;
}

uint64_t cleat__crc64nvme_combine(uint64_t first, uint64_t second, uint64_t second_size) {
  /* x^(8 * second_size), by squaring */
  uint64_t shift = X_0;
  for (uint64_t power = X_8; second_size > 0; second_size >>= 1) {
    if ((second_size & 1) != 0)
      shift = multiply(shift, power);
    power = multiply(power, power);
  }
  return multiply(first, shift) ^ second;
}

void cleat__crc64_base64(uint64_t crc, char text[13]) {
  uint64_t bytes = htobe64(crc);
  cleat__base64(&bytes, sizeof bytes, text);
}

bool cleat__crc64_unbase64(const char *text, uint64_t *crc) {
  uint64_t bytes;
  if (!cleat__unbase64(text, sizeof bytes, &bytes))
    return false;
  *crc = be64toh(bytes);
  return true;
}
