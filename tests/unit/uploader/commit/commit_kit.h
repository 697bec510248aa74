/* commit_kit.h: a client on a store in memory, the record and the manifest of one attempt at step 5, and calls that put
 * them. For test_commit.c and test_commit_looked.c, each of which has its own. */
#ifndef CLEAT_TESTS_UNIT_UPLOADER_COMMIT_COMMIT_KIT_H
#define CLEAT_TESTS_UNIT_UPLOADER_COMMIT_COMMIT_KIT_H

#include "base/call.h"
#include "uploader/commit/commit.h"

#include "tests/mock/kit.h"
#include "tests/mock/memory_store.h"

#include <check.h>
#include <string.h>

static struct cleat_error err;
static struct memory_bucket *bucket;
static struct cleat_client *client;
static atomic_bool cancel;

static char attempt[] = "attempt-1";
static char nonce[] = "nonce-1";
static char file_name[] = "a.bin";
static uint32_t crc = 7;
static struct cleat__file_entry file = {file_name, 100, KIT_PART, &crc, 1};
static struct cleat__record record = {.attempt = attempt, .nonce = nonce, .files = &file, .file_count = 1};

static char token[] = "00112233445566778899aabbccddeeff";
static char other_token[] = "ffeeddccbbaa99887766554433221100";
static char other_attempt[] = "attempt-2";
static char other_key[] = "attempt-2/rank-00000.json";
static char start[] = "start-a";
static char created[] = "2026-11-21T12:00:00Z";
static char version[] = "0.1.0";
static struct cleat__manifest manifest;
static struct cleat__rank_ref ref;

static inline void commit_setup(void) {
  bucket = memory_bucket_new();
  client = kit_open(bucket, NULL);
  atomic_init(&cancel, false);
  manifest = (struct cleat__manifest){.step = 5,
                                      .attempt = attempt,
                                      .token = token,
                                      .start = start,
                                      .created = created,
                                      .cleat_version = version,
                                      .ranks = &ref,
                                      .world_size = 1};
}

static inline void commit_teardown(void) {
  memory_bucket_hook(bucket, NULL, NULL);
  cleat__manifest_clear(&manifest);
  cleat_client_close(client);
  memory_bucket_free(bucket);
}

static inline cleat_status put_record(void) {
  return cleat__commit_record(client, 5, &record, NULL, &manifest, &ref, cleat__call(&cancel, &err));
}

static inline cleat_status put_manifest(const char *etag, bool *in_doubt) {
  return cleat__commit_manifest(client, &manifest, etag, in_doubt, &err);
}

/* From here on the manifest is another writer's, of an attempt of its own. */
static inline void become_another(void) {
  manifest.token = other_token;
  manifest.attempt = other_attempt;
  ref.key = other_key;
}

static bool resumed; /* the other writer goes on with our attempt */

/* Another writer's manifest takes the place of ours. */
static inline void write_others(void) {
  char text[2048];
  size_t size = 0;
  const char *ours = memory_find(bucket, "manifest.json", &size);
  ck_assert_uint_lt(size, sizeof text);
  memcpy(text, ours, size + 1);
  char *at = strstr(text, token);
  ck_assert_ptr_nonnull(at);
  memcpy(at, other_token, strlen(other_token));
  while (!resumed && (at = strstr(text, attempt)) != NULL)
    memcpy(at, other_attempt, strlen(other_attempt));
  memory_write(bucket, "step-000000000005/manifest.json", text, size);
}

/* A hook: it does so once ours is there. */
static inline cleat_status overtake(void *user, const char *op, const char *key, bool done, struct cleat__call call) {
  (void)user, (void)key, (void)call.cancel, (void)call.err;
  if (strcmp(op, "put") == 0 && done)
    write_others();
  return CLEAT_OK;
}

#endif
