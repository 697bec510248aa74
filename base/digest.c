/* digest.c: CRC-32C by ISA-L; SHA-256, MD5 and HMAC by OpenSSL. See checksum.h. Stateless and thread-safe. Owns
 * nothing. digest_plain.c does the same without libraries.
 *
 * A call that allocates memory in OpenSSL counts as fallible (cleat__fault_point), so that tests reach the error paths
 * of callers. A call that may take a lock in OpenSSL delays forks (fork.h). */
#include "base/checksum.h"

#include "base/fork.h"
#include "base/mem.h"

#include <isa-l/crc.h>
#include <limits.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

/* crc32_iscsi takes an int length. */
#define CRC_CHUNK_BYTES ((size_t)1 << 30)

uint32_t cleat__crc32c(uint32_t crc, const void *bytes, size_t size) {
  /* ISA-L only reads, but its parameter is not const. Only this cast drops the qualifier. */
  unsigned char *at = (unsigned char *)(uintptr_t)bytes;
  while (size > 0) {
    size_t chunk = size < CRC_CHUNK_BYTES ? size : CRC_CHUNK_BYTES;
    /* The caller of ISA-L inverts the CRC at both ends. */
    crc = ~crc32_iscsi(at, (int)chunk, ~crc);
    at += chunk;
    size -= chunk;
  }
  return crc;
}

/* OpenSSL queues its errors for each thread. Nobody reads that queue, so it must not grow. */
static cleat_status openssl_failure(void) {
  ERR_clear_error();
  return CLEAT_INTERNAL;
}

static cleat_status digest_spans(const EVP_MD *kind, struct cleat__spans spans, uint8_t *digest) {
  cleat_status status = CLEAT_OK;
  EVP_MD_CTX *context = cleat__fault_point() ? NULL : EVP_MD_CTX_new();
  if (context == NULL)
    return CLEAT_NO_MEMORY;
  cleat__fork_hold();
  int good = EVP_DigestInit_ex(context, kind, NULL);
  cleat__fork_release();
  for (size_t i = 0; i < spans.count && good == 1; i++)
    if (spans.items[i].length > 0)
      good = EVP_DigestUpdate(context, spans.items[i].base, spans.items[i].length);
  cleat__fork_hold();
  if (good == 1)
    good = EVP_DigestFinal_ex(context, digest, NULL);
  if (good != 1)
    status = openssl_failure();
  EVP_MD_CTX_free(context);
  cleat__fork_release();
  return status;
}

static cleat_status digest_once(const EVP_MD *kind, const void *bytes, size_t size, uint8_t *digest) {
  cleat__fork_hold();
  int good = EVP_Digest(size == 0 ? "" : bytes, size, digest, NULL, kind, NULL);
  cleat__fork_release();
  return good == 1 ? CLEAT_OK : openssl_failure();
}

cleat_status cleat__sha256_spans(struct cleat__spans spans, uint8_t digest[CLEAT__SHA256_BYTES]) {
  return digest_spans(EVP_sha256(), spans, digest);
}

cleat_status cleat__md5_spans(struct cleat__spans spans, uint8_t digest[CLEAT__MD5_BYTES]) {
  return digest_spans(EVP_md5(), spans, digest);
}

static cleat_status take_block(void *ctx, const void *bytes, size_t size, struct cleat_error *err) {
  if (EVP_DigestUpdate(ctx, bytes, size) == 1)
    return CLEAT_OK;
  return cleat__error_set(err, openssl_failure(), "a digest failed");
}

static cleat_status digest_feed(const EVP_MD *kind, const struct cleat__feed *feed, uint8_t *digest,
                                struct cleat__call call) {
  EVP_MD_CTX *context = cleat__fault_point() ? NULL : EVP_MD_CTX_new();
  if (context == NULL)
    return cleat__error_no_memory(call.err, "a digest");
  cleat__fork_hold();
  int good = EVP_DigestInit_ex(context, kind, NULL);
  cleat__fork_release();
  cleat_status status = good == 1 ? cleat__feed_each(feed, take_block, context, call) : CLEAT_OK;
  cleat__fork_hold();
  if (good == 1 && status == CLEAT_OK)
    good = EVP_DigestFinal_ex(context, digest, NULL);
  if (good != 1)
    status = cleat__error_set(call.err, openssl_failure(), "a digest failed");
  EVP_MD_CTX_free(context);
  cleat__fork_release();
  return status;
}

cleat_status cleat__sha256_feed(const struct cleat__feed *feed, uint8_t digest[CLEAT__SHA256_BYTES],
                                struct cleat__call call) {
  return digest_feed(EVP_sha256(), feed, digest, call);
}

cleat_status cleat__md5_feed(const struct cleat__feed *feed, uint8_t digest[CLEAT__MD5_BYTES],
                             struct cleat__call call) {
  return digest_feed(EVP_md5(), feed, digest, call);
}

cleat_status cleat__checksum_prepare(void) {
  if (cleat__fault_point())
    return CLEAT_NO_MEMORY;
  cleat__fork_hold();
  int good = OPENSSL_init_crypto(OPENSSL_INIT_LOAD_CRYPTO_STRINGS, NULL);
  cleat__fork_release();
  return good == 1 ? CLEAT_OK : CLEAT_NO_MEMORY;
}

cleat_status cleat__sha256(const void *bytes, size_t size, uint8_t digest[CLEAT__SHA256_BYTES]) {
  if (cleat__fault_point())
    return CLEAT_NO_MEMORY;
  return digest_once(EVP_sha256(), bytes, size, digest);
}

cleat_status cleat__md5(const void *bytes, size_t size, uint8_t digest[CLEAT__MD5_BYTES]) {
  if (cleat__fault_point())
    return CLEAT_NO_MEMORY;
  return digest_once(EVP_md5(), bytes, size, digest);
}

cleat_status cleat__hmac_sha256(const void *key, size_t key_size, const void *bytes, size_t size,
                                uint8_t digest[CLEAT__SHA256_BYTES]) {
  if (key_size > INT_MAX)
    return CLEAT_INTERNAL;
  if (cleat__fault_point())
    return CLEAT_NO_MEMORY;
  unsigned length = CLEAT__SHA256_BYTES;
  /* A NULL key would mean "the previous key" to OpenSSL. */
  cleat__fork_hold();
  const void *made = HMAC(EVP_sha256(), key_size == 0 ? "" : key, (int)key_size, size == 0 ? (const void *)"" : bytes,
                          size, digest, &length);
  cleat__fork_release();
  return made != NULL ? CLEAT_OK : openssl_failure();
}
