/* Who writes what several ranks hold: the same answer on all of them, in balance. */
#include "uploader/model/replicas.h"

#include "tests/mock/run_suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REPLICAS 5u
#define TENSORS 200u

static struct cleat__replica pieces[TENSORS];
static char names[TENSORS][32];
static struct cleat_error err;

static void fill(unsigned replica, unsigned seed) {
  srand(seed);
  for (unsigned i = 0; i < TENSORS; i++) {
    snprintf(names[i], sizeof names[i], "tensor.%u", i);
    pieces[i] = (struct cleat__replica){
        .name = names[i], .bytes = (uint64_t)(rand() % 100000), .replicas = REPLICAS, .replica = replica};
  }
  /* Each rank may name them in an order of its own. */
  srand(replica);
  for (unsigned i = TENSORS; i > 1; i--) {
    unsigned with = (unsigned)rand() % i;
    struct cleat__replica held = pieces[i - 1];
    pieces[i - 1] = pieces[with];
    pieces[with] = held;
  }
}

START_TEST(one_writes_and_bytes_are_balanced) {
  unsigned seed = (unsigned)_i;
  unsigned writers[TENSORS] = {0};
  uint64_t bytes[REPLICAS] = {0};
  char digest[CLEAT__REPLICA_DIGEST_LENGTH + 1] = "";
  for (unsigned replica = 0; replica < REPLICAS; replica++) {
    struct cleat__record record = {.rank = replica};
    fill(replica, seed);
    ck_assert_int_eq(cleat__replicas_choose(pieces, TENSORS, &record, &err), CLEAT_OK);
    for (unsigned i = 0; i < TENSORS; i++) {
      writers[(size_t)(pieces[i].name - names[0]) / sizeof names[0]] += pieces[i].ours;
      bytes[replica] += pieces[i].ours ? pieces[i].bytes : 0;
    }
    ck_assert_uint_eq(record.replica_set_count, 1);
    ck_assert(replica == 0 || strcmp(digest, record.replica_sets[0].digest) == 0);
    memcpy(digest, record.replica_sets[0].digest, sizeof digest);
    cleat__record_clear(&record);
  }
  for (unsigned i = 0; i < TENSORS; i++)
    ck_assert_msg(writers[i] == 1, "seed %u: %u writers", seed, writers[i]);
  for (unsigned i = 1; i < REPLICAS; i++)
    ck_assert_msg(bytes[i] < bytes[0] + 20000 && bytes[0] < bytes[i] + 20000, "seed %u: %llu, %llu", seed,
                  (unsigned long long)bytes[i], (unsigned long long)bytes[0]);
}
END_TEST

START_TEST(what_is_ours_alone) {
  struct cleat__record record = {.rank = 0};
  struct cleat__replica own[2] = {{.name = "a", .bytes = 1}, {.name = "b", .bytes = 1, .replicas = 1}};
  ck_assert_int_eq(cleat__replicas_choose(own, 2, &record, &err), CLEAT_OK);
  ck_assert(own[0].ours && own[1].ours);
  ck_assert_uint_eq(record.replica_set_count, 0);
  cleat__record_clear(&record);
}
END_TEST

START_TEST(numbers_that_are_none) {
  struct cleat__record record = {.rank = 0};
  struct cleat__replica beyond = {.name = "a", .bytes = 1, .replicas = 4, .replica = 4};
  ck_assert_int_eq(cleat__replicas_choose(&beyond, 1, &record, &err), CLEAT_INVALID);
  struct cleat__replica many = {.name = "a", .bytes = 1, .replicas = CLEAT__WORLD_SIZE_MAX + 1};
  ck_assert_int_eq(cleat__replicas_choose(&many, 1, &record, &err), CLEAT_INVALID);
  struct cleat__replica two[2] = {{.name = "a", .bytes = 1, .replicas = 4, .replica = 1},
                                  {.name = "b", .bytes = 1, .replicas = 4, .replica = 2}};
  ck_assert_int_eq(cleat__replicas_choose(two, 2, &record, &err), CLEAT_INVALID);
  two[1].group = 1; /* they are of other ranks */
  cleat__record_clear(&record);
  ck_assert_int_eq(cleat__replicas_choose(two, 2, &record, &err), CLEAT_OK);
  ck_assert_uint_eq(record.replica_set_count, 2);
  cleat__record_clear(&record);
}
END_TEST

static char first[] = "w", digests[2][CLEAT__REPLICA_DIGEST_LENGTH + 1] = {"aa", "bb"};

START_TEST(every_replica_once) {
  struct cleat__replica_set sets[6];
  struct cleat__told_set told[6];
  for (unsigned i = 0; i < 6; i++) {
    sets[i] = (struct cleat__replica_set){3, i % 3, 0, first, digests[i / 3]};
    told[(i * 5 + 1) % 6] = (struct cleat__told_set){&sets[i], i};
  }
  ck_assert_int_eq(cleat__replicas_check(told, 6, &err), CLEAT_OK);
  ck_assert_int_eq(cleat__replicas_check(told, 0, &err), CLEAT_OK);
  sets[4].replica = 2;
  ck_assert_int_eq(cleat__replicas_check(told, 6, &err), CLEAT_MISMATCH);
  ck_assert_ptr_nonnull(strstr(err.message, "none of them is replica 1"));
  sets[4].replica = 0;
  ck_assert_int_eq(cleat__replicas_check(told, 6, &err), CLEAT_MISMATCH);
  ck_assert_ptr_nonnull(strstr(err.message, "more than one of them is replica 0"));
  sets[4].replica = 1;
  sets[4].digest = digests[0]; /* it names other tensors */
  ck_assert_int_eq(cleat__replicas_check(told, 6, &err), CLEAT_MISMATCH);
  sets[4].digest = digests[1];
  ck_assert_int_eq(cleat__replicas_check(told, 5, &err), CLEAT_MISMATCH);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("replicas", NULL, NULL, 0), TEST(one_writes_and_bytes_are_balanced, 20),
    TEST(what_is_ours_alone, 1),     TEST(numbers_that_are_none, 1),
    TEST(every_replica_once, 1),
};

int main(void) {
  return run_table("replicas", tests, COUNT(tests));
}
