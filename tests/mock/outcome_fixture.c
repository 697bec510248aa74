/* outcome_fixture.c: see outcome_fixture.h. */
#include "tests/mock/outcome_fixture.h"

#include "tests/mock/checkpoint_fixture.h"
#include "tests/mock/scratch.h"

#include <stdio.h>

struct kit_model first[OUTCOME_RANKS], second[OUTCOME_RANKS];
static char url[5000]; /* "": the bucket */

const struct expected expected[] = {
    [CLEAT_IF_EXISTS_FAIL] = {CLEAT_EXISTS, CLEAT_OUTCOME_PENDING, false},
    [CLEAT_IF_EXISTS_SKIP] = {CLEAT_OK, CLEAT_OUTCOME_SKIPPED, false},
    [CLEAT_IF_EXISTS_REPLACE] = {CLEAT_OK, CLEAT_OUTCOME_COMMITTED, true},
};

void outcome_make_models(void) {
  for (unsigned i = 0; i < OUTCOME_RANKS; i++) {
    char name[16];
    snprintf(name, sizeof name, "rank.%u", i);
    kit_add_bytes(&first[i], name, 3 * KIT_PART + 7, 10 + i);
    kit_add_bytes(&second[i], name, 3 * KIT_PART + 7, 20 + i);
  }
}

void outcome_clear_models(void) {
  for (unsigned i = 0; i < OUTCOME_RANKS; i++) {
    kit_clear(&first[i]);
    kit_clear(&second[i]);
  }
}

void outcome_setup(void) {
  bucket = memory_bucket_new();
  url[0] = '\0';
  outcome_make_models();
}

void outcome_teardown(void) {
  outcome_clear_models();
  memory_bucket_free(bucket);
}

void outcome_setup_folder(void) {
  snprintf(url, sizeof url, "file://%s/store", scratch_make());
  outcome_make_models();
}

void outcome_teardown_folder(void) {
  outcome_clear_models();
  scratch_remove();
  url[0] = '\0'; /* the next test, in the same process, is of memory */
}

struct cleat_client *outcome_open(const char *start, unsigned rank, unsigned world_size) {
  struct kit_setup setup = {.start = start, .rank = rank, .world_size = world_size, .rank_timeout_s = 20};
  return url[0] != '\0' ? kit_open_url(url, &setup) : kit_open(bucket, &setup);
}
