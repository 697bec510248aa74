/* crc64.h: CRC-64/NVME, by which S3 can check whole objects, and its encoding. Pure, thread-safe.
 *
 * ISA-L has this polynomial only from 2.31 on. So it is computed here, eight bytes at a step, with tables that the
 * caller keeps. The library has no global tables. */
#ifndef CLEAT_BASE_CRC64_H
#define CLEAT_BASE_CRC64_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* 16 KiB; read-only after cleat__crc64_init. */
struct cleat__crc64 {
  uint64_t tables[8][256];
};

void cleat__crc64_init(struct cleat__crc64 *crc64);

/* The CRC-64/NVME (NVM Express NVM Command Set 1.0, 5.2.1.3.4; "123456789" gives 0xAE8B14860A799888) of `size` bytes,
 * continued from `crc`. The first call passes 0. */
uint64_t cleat__crc64nvme(const struct cleat__crc64 *crc64, uint64_t crc, const void *bytes, size_t size);

/* The CRC of two texts in sequence, from the CRC of each and the size of the second. */
uint64_t cleat__crc64nvme_combine(uint64_t first, uint64_t second, uint64_t second_size);

/* x-amz-checksum-crc64nvme: base64 of the eight bytes, big-endian. `text` has room for 13. */
void cleat__crc64_base64(uint64_t crc, char text[13]);
bool cleat__crc64_unbase64(const char *text, uint64_t *crc);

#endif
