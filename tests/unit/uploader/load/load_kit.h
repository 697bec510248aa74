/* load_kit.h: a client on an empty store in memory, and a model: for test_load.c and test_load_damage.c, each of which
 * has its own. Every test must leave the client idle. */
#ifndef CLEAT_TESTS_UNIT_UPLOADER_LOAD_LOAD_KIT_H
#define CLEAT_TESTS_UNIT_UPLOADER_LOAD_LOAD_KIT_H

#include "tests/mock/kit.h"
#include "tests/mock/memory_store.h"

#include <check.h>

static struct cleat_error err;
static struct memory_bucket *bucket;
static struct cleat_client *client;
static struct kit_model model;

static inline void setup(void) {
  bucket = memory_bucket_new();
  client = kit_open(bucket, NULL);
}

static inline void teardown(void) {
  kit_close_idle(client);
  memory_bucket_free(bucket);
  kit_clear(&model);
}

#endif
