/* outcome_fixture.h: what tests of if_exists begin with: two models for each rank, a store in memory or a folder, and
 * what a save of a step that is there must come to. In globals that the test's thread owns. All functions end the test
 * on an unexpected failure. */
#ifndef CLEAT_TESTS_MOCK_OUTCOME_FIXTURE_H
#define CLEAT_TESTS_MOCK_OUTCOME_FIXTURE_H

#include "tests/mock/kit.h"

#define OUTCOME_STEP 1000
#define OUTCOME_RANKS 3u

extern struct memory_bucket *bucket; /* of checkpoint_fixture.h */

/* Of each rank: what was saved first, and what is saved after it. */
extern struct kit_model first[OUTCOME_RANKS], second[OUTCOME_RANKS];

enum { POLICIES = CLEAT_IF_EXISTS_REPLACE + 1 };

enum way { SYNC, STAGED, IN_PLACE, WAYS };
enum who { SAME_CLIENT, SAME_START, OTHER_START, WHOS };

/* The status and the outcome of a save of a step that is there, by if_exists; and whether its bytes are then the new
 * ones. */
extern const struct expected {
  cleat_status status;
  enum cleat_outcome outcome;
  bool replaced;
} expected[POLICIES];

void outcome_make_models(void);
void outcome_clear_models(void);

/* Fixtures: the bucket, or a folder; and the models. */
void outcome_setup(void);
void outcome_teardown(void);
void outcome_setup_folder(void);
void outcome_teardown_folder(void);

/* A client of a rank on the store of the fixture. */
struct cleat_client *outcome_open(const char *start, unsigned rank, unsigned world_size);

#endif
