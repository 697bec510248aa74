/* test_single.c: uploader/engine/single.c: its one task, and what is told of it when. */
#include "uploader/engine/single.h"

#include "tests/mock/checkpoint_fixture.h"
#include "tests/mock/run_suite.h"
#include "tests/mock/store_check.h"

#include <check.h>
#include <semaphore.h>

static struct cleat_error err;

/* Work that stops where the test wants to look. */
struct work {
  struct cleat__single single;
  sem_t entered, go_on;
  cleat_status ends_with;
  unsigned runs;
  bool was_cancelled;
};

static struct work work;

static void await(sem_t *semaphore) {
  while (sem_wait(semaphore) != 0) {
  }
}

static cleat_status run(struct cleat__operation *operation, struct cleat_error *error) {
  ck_assert_ptr_eq(operation, &work.single.operation);
  work.runs++;
  sem_post(&work.entered);
  await(&work.go_on);
  work.was_cancelled = atomic_load(&operation->cancel);
  return work.ends_with == CLEAT_OK ? CLEAT_OK : cleat__error_set(error, work.ends_with, "it has not worked");
}

/* Until it is in the middle of its work. */
static void start(cleat_status ends_with) {
  work = (struct work){.ends_with = ends_with};
  sem_init(&work.entered, 0, 0);
  sem_init(&work.go_on, 0, 0);
  cleat__single_start(&work.single, client, run);
  await(&work.entered);
}

START_TEST(told_when_it_has_ended) {
  start(CLEAT_OK);
  ck_assert(!cleat__single_ended(&work.single));
  ck_assert(!cleat__single_succeeded(&work.single));
  sem_post(&work.go_on);
  ck_ok(cleat__operation_wait(&work.single.operation, &err));
  ck_assert(cleat__single_ended(&work.single));
  ck_assert(cleat__single_succeeded(&work.single));
  cleat__single_end(&work.single);
  ck_assert_uint_eq(work.runs, 1);
}
END_TEST

START_TEST(a_failure_is_its_end) {
  start(CLEAT_DENIED);
  sem_post(&work.go_on);
  ck_fails(cleat__operation_wait(&work.single.operation, &err), CLEAT_DENIED);
  ck_assert_str_eq(err.message, "it has not worked");
  ck_assert(cleat__single_ended(&work.single));
  ck_assert(!cleat__single_succeeded(&work.single));
  cleat__single_end(&work.single);
}
END_TEST

/* Cancelled is cancelled, even if the work came to its end. */
START_TEST(a_cancel_in_the_middle) {
  start(CLEAT_OK);
  cleat__operation_cancel(&work.single.operation, "the work");
  ck_assert(!cleat__single_ended(&work.single));
  sem_post(&work.go_on);
  ck_fails(cleat__operation_wait(&work.single.operation, &err), CLEAT_CANCELLED);
  ck_assert(work.was_cancelled);
  ck_assert(!cleat__single_succeeded(&work.single));
  cleat__single_end(&work.single);
}
END_TEST

/* Whoever ends it waits for it. */
START_TEST(ended_by_its_owner) {
  start(CLEAT_OK);
  sem_post(&work.go_on);
  cleat__single_end(&work.single);
  ck_assert_uint_eq(work.runs, 1);
  ck_assert(work.single.operation.synced.ended);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("single", desk_setup, desk_teardown, 0),
    TEST(told_when_it_has_ended, 1),
    TEST(a_failure_is_its_end, 1),
    TEST(a_cancel_in_the_middle, 1),
    TEST(ended_by_its_owner, 1),
};

int main(void) {
  return run_table("single", tests, COUNT(tests));
}
