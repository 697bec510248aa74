/* digest_plain.c: CRC-32C, SHA-256, MD5 and HMAC without any library, for builds with nothing but a compiler (make
 * STANDALONE=1). See checksum.h. All other builds use digest.c, which is faster.
 *
 * CRC-32C uses the processor's instruction if there is one. Sources: RFC 3720 B.4, FIPS 180-4, RFC 1321, RFC 2104. The
 * same calls are fallible as in digest.c, for tests. Thread-safe. */
#include "base/checksum.h"
#include "base/mem.h"

#include <endian.h>
#include <pthread.h>
#include <string.h>

#define BLOCK_BYTES 64u

/* ---- CRC-32C ---------------------------------------------------------------------------------- */

#define CRC_POLYNOMIAL 0x82F63B78u /* reflected */

static pthread_once_t crc_once = PTHREAD_ONCE_INIT;
static uint32_t crc_table[256];

static void crc_table_make(void) {
  for (uint32_t byte = 0; byte < 256; byte++) {
    uint32_t word = byte;
    for (int bit = 0; bit < 8; bit++)
      word = word >> 1 ^ ((word & 1) != 0 ? CRC_POLYNOMIAL : 0);
    crc_table[byte] = word;
  }
}

static uint32_t crc_by_table(uint32_t crc, const unsigned char *at, size_t size) {
  (void)pthread_once(&crc_once, crc_table_make);
  for (; size > 0; at++, size--)
    crc = crc >> 8 ^ crc_table[(crc ^ *at) & 255];
  return crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t crc_by_instruction(uint32_t crc, const unsigned char *at,
                                                                     size_t size) {
  uint64_t word = crc;
  for (; size >= 8; at += 8, size -= 8) {
    uint64_t next;
    memcpy(&next, at, sizeof next);
    word = __builtin_ia32_crc32di(word, next);
  }
  crc = (uint32_t)word;
  for (; size > 0; at++, size--)
    crc = __builtin_ia32_crc32qi(crc, *at);
  return crc;
}
#endif

uint32_t cleat__crc32c(uint32_t crc, const void *bytes, size_t size) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2"))
    return ~crc_by_instruction(~crc, bytes, size);
#endif
  return ~crc_by_table(~crc, bytes, size);
}

/* ---- SHA-256 and MD5 -------------------------------------------------------------------------- */

/* Both process blocks of 64 bytes into a few words. They differ in the block function and in the byte order. */
struct digest {
  uint32_t words[8];
  void (*take)(uint32_t words[8], const unsigned char *block);
  uint64_t bytes;
  unsigned char block[BLOCK_BYTES];
};

static uint32_t right(uint32_t word, unsigned bits) {
  return word >> bits | word << (32 - bits);
}

static void sha256_take(uint32_t words[8], const unsigned char *block) {
  static const uint32_t k[64] = {
      0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
      0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
      0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
      0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
      0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
      0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
      0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
      0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
  uint32_t w[64];
  uint32_t v[8];
  for (int i = 0; i < 16; i++) {
    memcpy(&w[i], block + 4 * i, 4);
    w[i] = be32toh(w[i]);
  }
  for (int i = 16; i < 64; i++) {
    uint32_t s0 = right(w[i - 15], 7) ^ right(w[i - 15], 18) ^ w[i - 15] >> 3;
    uint32_t s1 = right(w[i - 2], 17) ^ right(w[i - 2], 19) ^ w[i - 2] >> 10;
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  memcpy(v, words, sizeof v);
  for (int i = 0; i < 64; i++) {
    uint32_t s1 = right(v[4], 6) ^ right(v[4], 11) ^ right(v[4], 25);
    uint32_t t1 = v[7] + s1 + ((v[4] & v[5]) ^ (~v[4] & v[6])) + k[i] + w[i];
    uint32_t s0 = right(v[0], 2) ^ right(v[0], 13) ^ right(v[0], 22);
    uint32_t t2 = s0 + ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
    memmove(v + 1, v, 7 * sizeof v[0]);
    v[4] += t1;
    v[0] = t1 + t2;
  }
  for (int i = 0; i < 8; i++)
    words[i] += v[i];
}

static void md5_take(uint32_t words[8], const unsigned char *block) {
  static const unsigned char shift[16] = {7, 12, 17, 22, 5, 9, 14, 20, 4, 11, 16, 23, 6, 10, 15, 21};
  static const uint32_t k[64] = {
      0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501,
      0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821,
      0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8,
      0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a,
      0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70,
      0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665,
      0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
      0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391};
  uint32_t a = words[0];
  uint32_t b = words[1];
  uint32_t c = words[2];
  uint32_t d = words[3];
  for (unsigned i = 0; i < 64; i++) {
    uint32_t mixed;
    unsigned at;
    uint32_t word;
    switch (i / 16) {
    case 0:
      mixed = (b & c) | (~b & d);
      at = i;
      break;
    case 1:
      mixed = (d & b) | (~d & c);
      at = (5 * i + 1) % 16;
      break;
    case 2:
      mixed = b ^ c ^ d;
      at = (3 * i + 5) % 16;
      break;
    default:
      mixed = c ^ (b | ~d);
      at = 7 * i % 16;
    }
    memcpy(&word, block + (size_t)4 * at, 4);
    mixed += a + k[i] + le32toh(word);
    a = d;
    d = c;
    c = b;
    b += right(mixed, 32u - shift[i / 16 * 4 + i % 4]);
  }
  words[0] += a;
  words[1] += b;
  words[2] += c;
  words[3] += d;
}

static const struct digest sha256_begin = {
    .words = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19},
    .take = sha256_take};
static const struct digest md5_begin = {.words = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476}, .take = md5_take};

static void digest_add(struct digest *digest, const void *bytes, size_t size) {
  const unsigned char *at = bytes;
  while (size > 0) {
    size_t filled = (size_t)(digest->bytes % BLOCK_BYTES);
    size_t part = size < BLOCK_BYTES - filled ? size : BLOCK_BYTES - filled;
    memcpy(digest->block + filled, at, part);
    digest->bytes += part;
    at += part;
    size -= part;
    if (filled + part == BLOCK_BYTES)
      digest->take(digest->words, digest->block);
  }
}

/* Adds padding and length. The words are then the digest. */
static void digest_end(struct digest *digest) {
  static const unsigned char padding[BLOCK_BYTES] = {0x80};
  uint64_t bits = digest->bytes * 8;
  bits = digest->take == sha256_take ? htobe64(bits) : htole64(bits);
  digest_add(digest, padding, (size_t)((119 - digest->bytes % BLOCK_BYTES) % BLOCK_BYTES + 1));
  digest_add(digest, &bits, sizeof bits);
}

static void sha256_end(struct digest *digest, uint8_t out[CLEAT__SHA256_BYTES]) {
  digest_end(digest);
  for (size_t i = 0; i < CLEAT__SHA256_BYTES / 4; i++) {
    uint32_t word = htobe32(digest->words[i]);
    memcpy(out + 4 * i, &word, 4);
  }
}

static void add_spans(struct digest *digest, struct cleat__spans spans) {
  for (size_t i = 0; i < spans.count; i++)
    digest_add(digest, spans.items[i].base, spans.items[i].length);
}

cleat_status cleat__checksum_prepare(void) {
  return cleat__fault_point() ? CLEAT_NO_MEMORY : CLEAT_OK;
}

cleat_status cleat__sha256_spans(struct cleat__spans spans, uint8_t digest[CLEAT__SHA256_BYTES]) {
  if (cleat__fault_point())
    return CLEAT_NO_MEMORY;
  struct digest state = sha256_begin;
  add_spans(&state, spans);
  sha256_end(&state, digest);
  return CLEAT_OK;
}

cleat_status cleat__sha256(const void *bytes, size_t size, uint8_t digest[CLEAT__SHA256_BYTES]) {
  if (cleat__fault_point())
    return CLEAT_NO_MEMORY;
  struct digest state = sha256_begin;
  digest_add(&state, bytes, size);
  sha256_end(&state, digest);
  return CLEAT_OK;
}

static void md5_end(struct digest *digest, uint8_t out[CLEAT__MD5_BYTES]) {
  digest_end(digest);
  for (size_t i = 0; i < CLEAT__MD5_BYTES / 4; i++) {
    uint32_t word = htole32(digest->words[i]);
    memcpy(out + 4 * i, &word, 4);
  }
}

cleat_status cleat__md5_spans(struct cleat__spans spans, uint8_t digest[CLEAT__MD5_BYTES]) {
  if (cleat__fault_point())
    return CLEAT_NO_MEMORY;
  struct digest state = md5_begin;
  add_spans(&state, spans);
  md5_end(&state, digest);
  return CLEAT_OK;
}

static cleat_status take_block(void *ctx, const void *bytes, size_t size, struct cleat_error *err) {
  (void)err;
  digest_add(ctx, bytes, size);
  return CLEAT_OK;
}

cleat_status cleat__sha256_feed(const struct cleat__feed *feed, uint8_t digest[CLEAT__SHA256_BYTES],
                                struct cleat__call call) {
  struct digest state = sha256_begin;
  cleat_status status = cleat__feed_each(feed, take_block, &state, call);
  if (status == CLEAT_OK)
    sha256_end(&state, digest);
  return status;
}

cleat_status cleat__md5_feed(const struct cleat__feed *feed, uint8_t digest[CLEAT__MD5_BYTES],
                             struct cleat__call call) {
  struct digest state = md5_begin;
  cleat_status status = cleat__feed_each(feed, take_block, &state, call);
  if (status == CLEAT_OK)
    md5_end(&state, digest);
  return status;
}

cleat_status cleat__md5(const void *bytes, size_t size, uint8_t digest[CLEAT__MD5_BYTES]) {
  struct cleat__span span = {(void *)(uintptr_t)bytes, size};
  return cleat__md5_spans(cleat__spans(&span, 1), digest);
}

cleat_status cleat__hmac_sha256(const void *key, size_t key_size, const void *bytes, size_t size,
                                uint8_t digest[CLEAT__SHA256_BYTES]) {
  unsigned char block[BLOCK_BYTES] = {0};
  struct digest state = sha256_begin;
  if (cleat__fault_point())
    return CLEAT_NO_MEMORY;
  if (key_size > BLOCK_BYTES) {
    digest_add(&state, key, key_size);
    sha256_end(&state, block);
  } else if (key_size > 0) {
    memcpy(block, key, key_size);
  }
  for (size_t i = 0; i < BLOCK_BYTES; i++)
    block[i] ^= 0x36;
  state = sha256_begin;
  digest_add(&state, block, BLOCK_BYTES);
  digest_add(&state, bytes, size);
  sha256_end(&state, digest);
  for (size_t i = 0; i < BLOCK_BYTES; i++)
    block[i] ^= 0x36 ^ 0x5c;
  state = sha256_begin;
  digest_add(&state, block, BLOCK_BYTES);
  digest_add(&state, digest, CLEAT__SHA256_BYTES);
  sha256_end(&state, digest);
  return CLEAT_OK;
}
