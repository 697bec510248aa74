/* store_file_kit.h: an empty store in a scratch folder, for test_store_file*.c, each of which has its own. */
#ifndef CLEAT_TESTS_UNIT_STORAGE_FILE_STORE_FILE_KIT_H
#define CLEAT_TESTS_UNIT_STORAGE_FILE_STORE_FILE_KIT_H

#include "storage/common/store.h"

#include "tests/mock/run_suite.h"
#include "tests/mock/scratch.h"

#include <check.h>

static struct cleat_error err;
static struct cleat__store *store;

static inline void setup(void) {
  scratch_make();
  store = scratch_store("root");
}

static inline void teardown(void) {
  cleat__store_close(store);
  scratch_remove();
}

static inline cleat_status put(const char *key, const char *text) {
  return scratch_put(store, key, text, CLEAT__PUT_ALWAYS, NULL, &err);
}

#endif
