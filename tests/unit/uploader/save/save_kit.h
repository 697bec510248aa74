/* save_kit.h: what the programs of whole saves share: a bucket in memory, a scratch folder, a model without tensors.
 * Each program has its own, so that all is static. */
#ifndef CLEAT_TESTS_UNIT_UPLOADER_SAVE_SAVE_KIT_H
#define CLEAT_TESTS_UNIT_UPLOADER_SAVE_SAVE_KIT_H

#include "api/cleat.h"

#include "tests/mock/kit.h"
#include "tests/mock/memory_store.h"
#include "tests/mock/run_suite.h"
#include "tests/mock/scratch.h"
#include "tests/mock/store_check.h"

#include <check.h>

static struct cleat_error err;
static struct memory_bucket *bucket;
static struct kit_model model;

static inline void setup(void) {
  bucket = memory_bucket_new();
  scratch_make();
}

static inline void teardown(void) {
  kit_clear(&model);
  memory_bucket_free(bucket);
  scratch_remove();
}

#endif
