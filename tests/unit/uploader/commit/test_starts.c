/* Starts of a job: which step all ranks go on from, who was superseded, and names that were used before. */
#include "api/cleat.h"
#include "tests/mock/kit.h"
#include "tests/mock/run_suite.h"

#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define RANKS 4u

static struct memory_bucket *bucket;
static struct kit_model model;

static void setup(void) {
  bucket = memory_bucket_new();
  memset(&model, 0, sizeof model);
  kit_add_bytes(&model, "tensor", 9000, 1);
}

static void teardown(void) {
  kit_clear(&model);
  memory_bucket_free(bucket);
}

static struct cleat_client *open_as(const char *start, unsigned rank, unsigned world_size) {
  struct kit_setup as = {.start = start, .rank = rank, .world_size = world_size, .rank_timeout_s = 20};
  return kit_open(bucket, &as);
}

/* One rank of a start, on a thread of its own. */
struct one {
  struct cleat_client *client;
  struct cleat_resume_options options;
  cleat_status status;
  int64_t step; /* -1: none */
  struct cleat_error err;
};

static void *resume_one(void *arg) {
  struct one *one = arg;
  struct cleat_checkpoint *checkpoint = NULL;
  one->step = -1;
  one->status = cleat_resume(one->client, &one->options, &checkpoint, &one->err);
  if (one->status == CLEAT_OK && checkpoint != NULL)
    one->step = cleat_checkpoint_info(checkpoint)->step;
  cleat_checkpoint_free(checkpoint);
  return NULL;
}

static void resume_all(struct one *all, unsigned count) {
  pthread_t threads[RANKS];
  for (unsigned i = count; i-- > 0;) /* rank 0 last */
    ck_assert_int_eq(pthread_create(&threads[i], NULL, resume_one, &all[i]), 0);
  for (unsigned i = 0; i < count; i++)
    pthread_join(threads[i], NULL);
}

static void open_all(struct one *all, const char *start) {
  const struct cleat_resume_options options = CLEAT_RESUME_OPTIONS_INIT;
  for (unsigned i = 0; i < RANKS; i++)
    all[i] = (struct one){.client = open_as(start, i, RANKS), .options = options};
}

static void close_all(struct one *all) {
  for (unsigned i = 0; i < RANKS; i++)
    kit_close_idle(all[i].client);
}

static void save_alone(const char *start, int64_t step) {
  struct cleat_client *client = open_as(start, 0, 1);
  kit_save(client, &model, step);
  kit_close_idle(client);
}

START_TEST(all_go_on_from_one_step) {
  struct one all[RANKS];
  open_all(all, "first");
  resume_all(all, RANKS);
  for (unsigned i = 0; i < RANKS; i++) {
    ck_assert_msg(all[i].status == CLEAT_OK, "%s", all[i].err.message);
    ck_assert_int_eq(all[i].step, -1);
  }
  close_all(all);
  save_alone("somebody", 10);
  save_alone("somebody-else", 30);
  open_all(all, "second");
  resume_all(all, RANKS);
  for (unsigned i = 0; i < RANKS; i++)
    ck_assert_int_eq(all[i].step, 30);
  close_all(all);
  ck_assert_uint_eq(memory_count(bucket, "starts/000001.json"), 1);
  ck_assert_uint_eq(memory_count(bucket, "starts/000002.json"), 1);
}
END_TEST

/* A step that is committed between the reads of two ranks changes nothing. */
START_TEST(later_steps_do_not_matter) {
  struct one all[RANKS];
  save_alone("somebody", 10);
  open_all(all, "second");
  resume_one(&all[0]);
  save_alone("a-zombie", 20);
  for (unsigned i = 1; i < RANKS; i++)
    resume_one(&all[i]);
  for (unsigned i = 0; i < RANKS; i++)
    ck_assert_int_eq(all[i].step, 10);
  close_all(all);
}
END_TEST

START_TEST(from_an_older_step_and_from_nothing) {
  struct one all[RANKS];
  save_alone("somebody", 10);
  save_alone("somebody-else", 30);
  open_all(all, "second");
  all[0].options.at_step = 1;
  all[0].options.step = 10;
  resume_all(all, RANKS);
  for (unsigned i = 0; i < RANKS; i++)
    ck_assert_int_eq(all[i].step, 10);
  close_all(all);
  open_all(all, "third");
  all[0].options.fresh = 1;
  resume_all(all, RANKS);
  for (unsigned i = 0; i < RANKS; i++) {
    ck_assert_int_eq(all[i].status, CLEAT_OK);
    ck_assert_int_eq(all[i].step, -1);
  }
  close_all(all);
}
END_TEST

/* What rank 0 cannot do is told to all. */
START_TEST(rank_0_fails) {
  struct one all[RANKS];
  open_all(all, "second");
  all[0].options.at_step = 1;
  all[0].options.step = 77;
  resume_all(all, RANKS);
  ck_assert_int_eq(all[0].status, CLEAT_NOT_FOUND);
  for (unsigned i = 1; i < RANKS; i++) {
    ck_assert_int_ne(all[i].status, CLEAT_OK);
    ck_assert_msg(strstr(all[i].err.message, "rank 0: ") != NULL, "%s", all[i].err.message);
  }
  close_all(all);
}
END_TEST

START_TEST(rank_0_does_not_come) {
  struct kit_setup as = {.start = "alone", .rank = 2, .world_size = RANKS, .rank_timeout_s = 1};
  const struct cleat_resume_options options = CLEAT_RESUME_OPTIONS_INIT;
  struct one one = {.client = kit_open(bucket, &as), .options = options};
  resume_one(&one);
  ck_assert_int_eq(one.status, CLEAT_TIMEOUT);
  ck_assert_msg(strstr(one.err.message, "rank 0 of start alone") != NULL, "%s", one.err.message);
  kit_close_idle(one.client);
}
END_TEST

/* Every rank of a start whose name was used before is told, whether the job was of this size or not. */
START_TEST(a_name_that_was_used) {
  struct one all[RANKS];
  for (unsigned round = 0; round < 2; round++) {
    open_all(all, "first");
    resume_all(all, RANKS);
    for (unsigned i = 0; i < RANKS; i++) {
      ck_assert_int_eq(all[i].status, round == 0 ? CLEAT_OK : CLEAT_LOST);
      ck_assert(round == 0 || strstr(all[i].err.message, "was used before") != NULL);
    }
    close_all(all);
  }
  const struct cleat_resume_options options = CLEAT_RESUME_OPTIONS_INIT;
  struct one more = {.client = open_as("first", 5, 8), .options = options};
  resume_one(&more);
  ck_assert_int_eq(more.status, CLEAT_MISMATCH);
  ck_assert_msg(strstr(more.err.message, "rank 5 has world size 8, rank 0 has 4") != NULL, "%s", more.err.message);
  kit_close_idle(more.client);
}
END_TEST

static cleat_status try_save(struct cleat_client *client, int64_t step, struct cleat_error *err) {
  struct cleat_save_request request = kit_request(&model, step);
  return cleat_save(client, &request, err);
}

/* A start that was replaced commits no more, and says why; the one that replaced it does. */
START_TEST(superseded) {
  const struct cleat_resume_options options = CLEAT_RESUME_OPTIONS_INIT;
  struct one old = {.client = open_as("old", 0, 1), .options = options};
  struct one new = {.client = open_as("new", 0, 1), .options = options};
  struct cleat_error err;
  resume_one(&old);
  ck_assert_int_eq(try_save(old.client, 10, &err), CLEAT_OK);
  resume_one(&new);
  ck_assert_int_eq(new.step, 10);
  ck_assert_int_eq(try_save(old.client, 20, &err), CLEAT_LOST);
  ck_assert_msg(strstr(err.message, "superseded by start new") != NULL, "%s", err.message);
  ck_assert_uint_eq(memory_count(bucket, "manifest.json"), 1);
  ck_assert_uint_eq(memory_count(bucket, "safetensors"), 1);
  ck_assert_int_eq(try_save(new.client, 20, &err), CLEAT_OK);
  kit_close_idle(old.client);
  kit_close_idle(new.client);
}
END_TEST

/* Two starts that come at once get two numbers. */
START_TEST(numbers_are_taken_once) {
  struct one all[RANKS];
  const struct cleat_resume_options options = CLEAT_RESUME_OPTIONS_INIT;
  static const char *const names[RANKS] = {"a", "b", "c", "d"};
  for (unsigned i = 0; i < RANKS; i++)
    all[i] = (struct one){.client = open_as(names[i], 0, 1), .options = options};
  resume_all(all, RANKS);
  for (unsigned i = 0; i < RANKS; i++)
    ck_assert_msg(all[i].status == CLEAT_OK, "%s", all[i].err.message);
  ck_assert_uint_eq(memory_count(bucket, "starts/00000"), RANKS);
  ck_assert_uint_eq(memory_count(bucket, "starts/names/"), RANKS);
  /* Only the last one may commit. */
  unsigned committed = 0;
  struct cleat_error err;
  for (unsigned i = 0; i < RANKS; i++)
    committed += try_save(all[i].client, 100 + i, &err) == CLEAT_OK;
  ck_assert_uint_eq(committed, 1);
  close_all(all);
}
END_TEST

START_TEST(once_for_each_client) {
  const struct cleat_resume_options options = CLEAT_RESUME_OPTIONS_INIT;
  struct one one = {.client = open_as("only", 0, 1), .options = options};
  resume_one(&one);
  ck_assert_int_eq(one.status, CLEAT_OK);
  resume_one(&one);
  ck_assert_int_eq(one.status, CLEAT_INVALID);
  kit_close_idle(one.client);
}
END_TEST

START_TEST(another_shape_of_job) {
  struct cleat_resume_options strict = CLEAT_RESUME_OPTIONS_INIT;
  struct kit_setup as = {.start = "wide", .topology = {.dp = 2, .tp = 4}};
  struct cleat_client *client = kit_open(bucket, &as);
  kit_save(client, &model, 10);
  kit_close_idle(client);
  as = (struct kit_setup){.start = "narrow", .topology = {.dp = 2, .tp = 1, .pp = 3}};
  client = kit_open(bucket, &as);
  struct one one = {.client = client, .options = strict};
  one.options.strict_topology = 1;
  resume_one(&one);
  ck_assert_int_eq(one.status, CLEAT_MISMATCH);
  ck_assert_msg(strstr(one.err.message, "tp 4, then 1") != NULL, "%s", one.err.message);
  one.options.strict_topology = 0;
  resume_one(&one);
  ck_assert_msg(one.status == CLEAT_OK, "%s", one.err.message);
  ck_assert_int_eq(one.step, 10);
  struct cleat_checkpoint *checkpoint = kit_checkpoint(client, 10);
  struct cleat_topology topology;
  char text[64], little[8];
  cleat_checkpoint_topology(checkpoint, &topology);
  ck_assert_uint_eq(topology.dp, 2);
  ck_assert_uint_eq(topology.tp, 4);
  ck_assert_uint_eq(topology.pp, 0);
  ck_assert_uint_eq(cleat_checkpoint_reshard(checkpoint, text, sizeof text), strlen("tp 4, then 1"));
  ck_assert_str_eq(text, "tp 4, then 1");
  ck_assert_uint_eq(cleat_checkpoint_reshard(checkpoint, little, sizeof little), strlen("tp 4, then 1"));
  ck_assert_str_eq(little, "tp 4, t");
  cleat_checkpoint_free(checkpoint);
  kit_close_idle(client);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("starts", setup, teardown, 60),
    TEST(all_go_on_from_one_step, 1),
    TEST(later_steps_do_not_matter, 1),
    TEST(from_an_older_step_and_from_nothing, 1),
    TEST(rank_0_fails, 1),
    TEST(rank_0_does_not_come, 1),
    TEST(a_name_that_was_used, 1),
    TEST(superseded, 1),
    TEST(numbers_are_taken_once, 1),
    TEST(once_for_each_client, 1),
    TEST(another_shape_of_job, 1),
};

int main(void) {
  return run_table("starts", tests, COUNT(tests));
}
