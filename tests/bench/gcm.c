/* What AES-128-GCM alone costs, in records of TLS's size: CPU seconds to seal, and to open, BYTES of memory. Prints
 * one JSON object.
 *
 * usage: gcm BYTES */
#include "tests/bench/measure.h"

#include <openssl/evp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RECORD_BYTES 16384 /* RFC 8446 §5.1 */
#define NONCE_BYTES 12
#define TAG_BYTES 16
#define SOURCE_BYTES ((size_t)64 << 20) /* more than the caches near a core hold */

static void must(bool holds) {
  if (holds)
    return;
  fprintf(stderr, "gcm: OpenSSL failed\n");
  exit(1);
}

static void seal(EVP_CIPHER_CTX *ctx, const unsigned char *from, unsigned char *to, unsigned char *tag) {
  static const unsigned char nonce[NONCE_BYTES];
  int length = 0;
  must(EVP_EncryptInit_ex(ctx, NULL, NULL, NULL, nonce) == 1 &&
       EVP_EncryptUpdate(ctx, to, &length, from, RECORD_BYTES) == 1 &&
       EVP_EncryptFinal_ex(ctx, to + length, &length) == 1 &&
       EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_GET_TAG, TAG_BYTES, tag) == 1);
}

static void unseal(EVP_CIPHER_CTX *ctx, const unsigned char *from, unsigned char *to, unsigned char *tag) {
  static const unsigned char nonce[NONCE_BYTES];
  int length = 0;
  must(EVP_DecryptInit_ex(ctx, NULL, NULL, NULL, nonce) == 1 &&
       EVP_DecryptUpdate(ctx, to, &length, from, RECORD_BYTES) == 1 &&
       EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_SET_TAG, TAG_BYTES, tag) == 1 &&
       EVP_DecryptFinal_ex(ctx, to + length, &length) == 1);
}

int main(int argc, char **argv) {
  static const unsigned char key[16];
  unsigned char tag[TAG_BYTES], again[RECORD_BYTES], *sealed = malloc(RECORD_BYTES);
  unsigned char *source = malloc(SOURCE_BYTES);
  EVP_CIPHER_CTX *in = EVP_CIPHER_CTX_new(), *out = EVP_CIPHER_CTX_new();
  if (argc != 2) {
    fprintf(stderr, "usage: gcm BYTES\n");
    exit(2);
  }
  must(sealed != NULL && source != NULL && in != NULL && out != NULL);
  must(EVP_EncryptInit_ex(in, EVP_aes_128_gcm(), NULL, key, NULL) == 1 &&
       EVP_DecryptInit_ex(out, EVP_aes_128_gcm(), NULL, key, NULL) == 1);
  memset(source, 7, SOURCE_BYTES);
  size_t records = strtoull(argv[1], NULL, 10) / RECORD_BYTES;
  double begun = cpu_s();
  for (size_t i = 0; i < records; i++)
    seal(in, source + i * RECORD_BYTES % SOURCE_BYTES, sealed, tag);
  double done = cpu_s();
  for (size_t i = 0; i < records; i++)
    unseal(out, sealed, again, tag);
  printf("{\"seal_cpu_s\": %.6f, \"open_cpu_s\": %.6f}\n", done - begun, cpu_s() - done);
  EVP_CIPHER_CTX_free(in);
  EVP_CIPHER_CTX_free(out);
  free(sealed);
  free(source);
  return 0;
}
