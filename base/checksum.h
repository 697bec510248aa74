/* checksum.h: CRC-32C, SHA-256, HMAC-SHA-256, MD5, and their encodings in requests. Pure, thread-safe. */
#ifndef CLEAT_BASE_CHECKSUM_H
#define CLEAT_BASE_CHECKSUM_H

#include "base/call.h"
#include "base/error.h"
#include "base/feed.h"
#include "base/span.h"

#include <stdbool.h>

#define CLEAT__SHA256_BYTES 32
#define CLEAT__SHA256_HEX (2 * CLEAT__SHA256_BYTES + 1)

/* CRC-32C (Castagnoli, RFC 3720 B.4; "123456789" gives 0xE3069283) of `size` bytes, continued from
 * `crc`; the first call passes 0. */
uint32_t cleat__crc32c(uint32_t crc, const void *bytes, size_t size);

/* Initialises OpenSSL. Otherwise it does so at the first digest, and some versions crash if that runs out of memory.
 * Cheap after the first call. Error: NO_MEMORY. */
cleat_status cleat__checksum_prepare(void) CLEAT_MUST_USE;

/* Fallible, because OpenSSL allocates memory. Returns a status without an error struct: INTERNAL or NO_MEMORY. */
cleat_status cleat__sha256(const void *bytes, size_t size, uint8_t digest[CLEAT__SHA256_BYTES]) CLEAT_MUST_USE;
cleat_status cleat__sha256_spans(struct cleat__spans spans, uint8_t digest[CLEAT__SHA256_BYTES]) CLEAT_MUST_USE;
cleat_status cleat__hmac_sha256(const void *key, size_t key_size, const void *bytes, size_t size,
                                uint8_t digest[CLEAT__SHA256_BYTES]) CLEAT_MUST_USE;

#define CLEAT__MD5_BYTES 16
/* For S3's SSE-C, which identifies a key by its MD5, and for ETags. Not used for security. Status as above. */
cleat_status cleat__md5(const void *bytes, size_t size, uint8_t digest[CLEAT__MD5_BYTES]) CLEAT_MUST_USE;
cleat_status cleat__md5_spans(struct cleat__spans spans, uint8_t digest[CLEAT__MD5_BYTES]) CLEAT_MUST_USE;

/* Checksums of the bytes that a feed reads. They fill `err`: errors of cleat__feed_each; the digests also INTERNAL. */
cleat_status cleat__crc32c_feed(const struct cleat__feed *feed, uint32_t *crc32c,
                                struct cleat__call call) CLEAT_MUST_USE;
cleat_status cleat__sha256_feed(const struct cleat__feed *feed, uint8_t digest[CLEAT__SHA256_BYTES],
                                struct cleat__call call) CLEAT_MUST_USE;
cleat_status cleat__md5_feed(const struct cleat__feed *feed, uint8_t digest[CLEAT__MD5_BYTES],
                             struct cleat__call call) CLEAT_MUST_USE;

/* Writes `size` bytes as lowercase hex into `hex`, which has room for 2 * size + 1. */
void cleat__hex(const void *bytes, size_t size, char *hex);

/* Decodes exactly 2 * size hex digits of either case. False: the text is something else. */
bool cleat__unhex(const char *hex, size_t size, void *bytes);

/* Writes `size` bytes (at most 64) as standard base64 with padding into `text`, which has room for 4 * ((size + 2) / 3)
 * + 1. */
void cleat__base64(const void *bytes, size_t size, char *text);

/* Decodes exactly `size` bytes (at most 64). False: the text is not what cleat__base64 writes. */
bool cleat__unbase64(const char *text, size_t size, void *bytes);

/* x-amz-checksum-crc32c: base64 of the four bytes, big-endian ("AAAAAA==" for 0). `text` has room for 9. */
void cleat__crc32c_base64(uint32_t crc, char text[9]);
bool cleat__crc32c_unbase64(const char *text, uint32_t *crc);

/* Writes `size` random bytes from the system's generator as lowercase hex, 2 * size + 1 characters. Status without an
 * error struct: IO. */
cleat_status cleat__random_hex(size_t size, char *hex) CLEAT_MUST_USE;

/* A uniform random double in [0, 1), for jitter. Never fails: 0.5 without random numbers. */
double cleat__random_unit(void);

#endif
