/* test_outcome_ranks.c: what if_exists means with several ranks, which are all told the same, whichever of them has
 * seen the manifest that stands and whichever has not. */
#include "api/cleat.h"

#include "tests/mock/outcome_fixture.h"
#include "tests/mock/run_suite.h"
#include "tests/mock/store_check.h"
#include "uploader/save/job.h"

#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static struct cleat_error err;

static struct cleat_client *other; /* of another start */

/* ---- Several ranks -------------------------------------------------------------------------------------- */

static struct cleat_client *ranks[OUTCOME_RANKS];

static void open_ranks(const char *start) {
  for (unsigned i = 0; i < OUTCOME_RANKS; i++)
    ranks[i] = outcome_open(start, i, OUTCOME_RANKS);
}

static void close_ranks(void) {
  for (unsigned i = 0; i < OUTCOME_RANKS; i++)
    kit_close_idle(ranks[i]);
}

static struct job {
  unsigned rank;
  const struct kit_model *model;
  enum cleat_if_exists if_exists;
  enum way way;
  cleat_status status;
  enum cleat_outcome outcome;
  struct cleat_error error;
} jobs[OUTCOME_RANKS];

static void *save_rank(void *user) {
  struct job *job = user;
  struct cleat_save_request request = kit_request(job->model, OUTCOME_STEP);
  struct cleat_save *save = NULL;
  struct cleat_progress last;
  request.if_exists = job->if_exists;
  request.outcome = &job->outcome;
  job->outcome = CLEAT_OUTCOME_PENDING;
  if (job->way == SYNC) {
    job->status = cleat_save(ranks[job->rank], &request, &job->error);
    return NULL;
  }
  job->status = job->way == STAGED ? cleat_save_async(ranks[job->rank], &request, &save, &job->error)
                                   : cleat_save_async_in_place(ranks[job->rank], &request, &save, &job->error);
  if (job->status == CLEAT_OK) {
    job->status = cleat_save_wait(save, &job->error);
    cleat_save_progress(save, &last);
    job->outcome = last.outcome;
  }
  cleat_save_free(save);
  return NULL;
}

/* All at once, each on a thread of its own. */
static void save_all(const struct kit_model *models, enum cleat_if_exists if_exists, enum way way) {
  pthread_t threads[OUTCOME_RANKS];
  for (unsigned i = 0; i < OUTCOME_RANKS; i++) {
    jobs[i] = (struct job){.rank = i, .model = &models[i], .if_exists = if_exists, .way = way};
    ck_assert_int_eq(pthread_create(&threads[i], NULL, save_rank, &jobs[i]), 0);
  }
  for (unsigned i = 0; i < OUTCOME_RANKS; i++)
    pthread_join(threads[i], NULL);
}

static void expect_all(cleat_status status, enum cleat_outcome outcome, const char *what) {
  for (unsigned i = 0; i < OUTCOME_RANKS; i++)
    ck_assert_msg(jobs[i].status == status && jobs[i].outcome == outcome, "%s: rank %u: %s, outcome %d: %s", what, i,
                  cleat_status_name(jobs[i].status), (int)jobs[i].outcome, jobs[i].error.message);
}

static void expect_models(const struct kit_model *models) {
  struct cleat_client *reader = outcome_open("reader", 0, 1);
  for (unsigned i = 0; i < OUTCOME_RANKS; i++)
    kit_expect(reader, OUTCOME_STEP, &models[i], true);
  kit_close_idle(reader);
}

static void save_twice_by_ranks(enum cleat_if_exists if_exists, enum who who, enum way way) {
  static unsigned cases;
  char what[100], start[2][20];
  const struct expected *wanted = &expected[if_exists];
  snprintf(what, sizeof what, "if_exists %d, who %d, way %d", (int)if_exists, (int)who, (int)way);
  snprintf(start[0], sizeof start[0], "start-%u", cases++);
  snprintf(start[1], sizeof start[1], "start-%u", cases++);
  open_ranks(start[0]);
  save_all(first, CLEAT_IF_EXISTS_REPLACE, way);
  expect_all(CLEAT_OK, CLEAT_OUTCOME_COMMITTED, what);
  if (who == OTHER_START) {
    close_ranks();
    open_ranks(start[1]);
  }
  save_all(second, if_exists, way);
  expect_all(wanted->status, wanted->outcome, what);
  expect_models(wanted->replaced ? second : first);
  /* And once more, whatever came of it: the number of the try is a new one. */
  save_all(first, CLEAT_IF_EXISTS_REPLACE, way);
  expect_all(CLEAT_OK, CLEAT_OUTCOME_COMMITTED, what);
  expect_models(first);
  close_ranks();
}

START_TEST(several_ranks) {
  for (int way = SYNC; way < WAYS; way++)
    for (int who = SAME_CLIENT; who < WHOS; who++)
      for (int how = CLEAT_IF_EXISTS_FAIL; who != SAME_START && how <= CLEAT_IF_EXISTS_REPLACE; how++)
        save_twice_by_ranks((enum cleat_if_exists)how, (enum who)who, (enum way)way);
}
END_TEST

/* New clients of a start that has saved the step: they cannot know how often it has tried. An error, and nothing is
 * changed. */
START_TEST(new_clients_of_the_same_start) {
  for (int how = CLEAT_IF_EXISTS_FAIL; how <= CLEAT_IF_EXISTS_REPLACE; how++) {
    if (how == CLEAT_IF_EXISTS_FAIL) {
      open_ranks("start-a");
      save_all(first, CLEAT_IF_EXISTS_FAIL, SYNC);
      close_ranks();
    }
    open_ranks("start-a");
    save_all(second, (enum cleat_if_exists)how, SYNC);
    if (how == CLEAT_IF_EXISTS_REPLACE)
      expect_all(CLEAT_LOST, CLEAT_OUTCOME_PENDING, "replace");
    else
      expect_all(expected[how].status, expected[how].outcome, "fail, or skip");
    close_ranks();
    expect_models(first);
  }
}
END_TEST

/* ---- Ranks that look at different moments ------------------------------------------------------------------ */

static struct cleat_save *saves[OUTCOME_RANKS];

static void begin_rank(unsigned rank, enum cleat_if_exists if_exists) {
  struct cleat_save_request request = kit_request(&second[rank], OUTCOME_STEP);
  request.if_exists = if_exists;
  saves[rank] = kit_begin(ranks[rank], &request);
}

static void end_ranks(void) {
  struct cleat_progress last;
  for (unsigned i = 0; i < OUTCOME_RANKS; i++) {
    jobs[i].status = cleat_save_wait(saves[i], &jobs[i].error);
    cleat_save_progress(saves[i], &last);
    jobs[i].outcome = last.outcome;
  }
  for (unsigned i = 0; i < OUTCOME_RANKS; i++)
    cleat_save_free(saves[i]);
}

/* The ranks of `before` have looked, found nothing, and stored their parts; then another start commits the step; then
 * the other ranks come, and find it. */
static void look_apart(unsigned before, enum cleat_if_exists if_exists) {
  char what[100], record[32];
  snprintf(what, sizeof what, "if_exists %d, ranks %x came before", (int)if_exists, before);
  bucket = memory_bucket_new();
  open_ranks("start-a");
  other = outcome_open("start-b", 0, 1);
  for (unsigned i = 0; i < OUTCOME_RANKS; i++) {
    snprintf(record, sizeof record, "rank-%05u.json", i);
    if ((before >> i & 1) == 0)
      continue;
    begin_rank(i, if_exists);
    memory_wait_count(bucket, record, 1);
  }
  kit_save(other, &first[0], OUTCOME_STEP);
  for (unsigned i = 0; i < OUTCOME_RANKS; i++)
    if ((before >> i & 1) == 0)
      begin_rank(i, if_exists);
  end_ranks();
  if (if_exists == CLEAT_IF_EXISTS_SKIP) {
    expect_all(CLEAT_OK, CLEAT_OUTCOME_SKIPPED, what);
  } else if (if_exists == CLEAT_IF_EXISTS_REPLACE && (before & 1) == 0) {
    expect_all(CLEAT_OK, CLEAT_OUTCOME_COMMITTED, what); /* rank 0 saw what it replaces */
  } else if (if_exists == CLEAT_IF_EXISTS_REPLACE) {
    expect_all(CLEAT_LOST, CLEAT_OUTCOME_PENDING, what);
  }
  for (unsigned i = 0; if_exists == CLEAT_IF_EXISTS_FAIL && i < OUTCOME_RANKS; i++)
    ck_assert_msg(jobs[i].status == CLEAT_EXISTS || jobs[i].status == CLEAT_LOST, "%s: rank %u: %s", what, i,
                  cleat_status_name(jobs[i].status));
  bool ours = jobs[0].outcome == CLEAT_OUTCOME_COMMITTED;
  struct cleat_client *reader = outcome_open("reader", 0, 1);
  for (unsigned i = 0; i < (ours ? OUTCOME_RANKS : 1); i++)
    kit_expect(reader, OUTCOME_STEP, ours ? &second[i] : &first[0], ours);
  kit_close_idle(reader);
  kit_close_idle(other);
  close_ranks();
  memory_bucket_free(bucket);
  bucket = NULL;
}

START_TEST(ranks_that_look_at_different_moments) {
  for (unsigned before = 1; before < (1u << OUTCOME_RANKS) - 1; before++)
    look_apart(before, (enum cleat_if_exists)_i);
}
END_TEST

/* Rank 0 has committed; before the others see it, another start has replaced that. It was committed, and all say so. */
static struct {
  pthread_mutex_t lock;
  pthread_cond_t change;
  bool committing, replaced;
  const atomic_bool *passes; /* whose requests are not held up: the other start's */
  struct cleat_save *save;
} replacing = {.lock = PTHREAD_MUTEX_INITIALIZER, .change = PTHREAD_COND_INITIALIZER};

static void replace_as_another(void) {
  struct cleat_save_request request = kit_request(&first[0], OUTCOME_STEP);
  request.if_exists = CLEAT_IF_EXISTS_REPLACE;
  struct cleat_save *save = kit_begin(other, &request);
  pthread_mutex_lock(&replacing.lock);
  replacing.passes = &save->operation.cancel;
  pthread_cond_broadcast(&replacing.change);
  pthread_mutex_unlock(&replacing.lock);
  ck_ok(cleat_save_wait(save, &err));
  pthread_mutex_lock(&replacing.lock);
  replacing.save = save;
  replacing.replaced = true;
  pthread_cond_broadcast(&replacing.change);
  pthread_mutex_unlock(&replacing.lock);
}

static cleat_status replace_at_once(void *user, const char *op, const char *key, bool done, struct cleat__call call) {
  (void)user, (void)call;
  if (strstr(key, "manifest.json") == NULL)
    return CLEAT_OK;
  bool put = strcmp(op, "put") == 0, act = false;
  pthread_mutex_lock(&replacing.lock);
  if (put && !done && !replacing.committing)
    replacing.committing = true;
  else if (put && done && replacing.passes == NULL)
    act = true;
  while (!put && !done && replacing.committing && !replacing.replaced && call.cancel != replacing.passes)
    pthread_cond_wait(&replacing.change, &replacing.lock);
  pthread_mutex_unlock(&replacing.lock);
  if (act)
    replace_as_another();
  return CLEAT_OK;
}

START_TEST(committed_and_replaced_at_once) {
  replacing.committing = replacing.replaced = false;
  replacing.passes = NULL;
  open_ranks("start-a");
  other = outcome_open("start-b", 0, 1);
  memory_bucket_hook(bucket, replace_at_once, NULL);
  for (unsigned i = 0; i < OUTCOME_RANKS; i++)
    begin_rank(i, (enum cleat_if_exists)_i);
  end_ranks();
  expect_all(CLEAT_OK, CLEAT_OUTCOME_COMMITTED, "replaced at once");
  cleat_save_free(replacing.save);
  memory_bucket_hook(bucket, NULL, NULL);
  kit_expect(other, OUTCOME_STEP, &first[0], false);
  kit_close_idle(other);
  close_ranks();
}
END_TEST

/* A rank begins its second save before it has seen the end of the first: the first is not lost to the second. */
START_TEST(two_saves_under_way_on_each_rank) {
  struct cleat_save *firsts[OUTCOME_RANKS];
  open_ranks("start-a");
  memory_hold(bucket, "put", "manifest.json");
  for (unsigned i = 0; i < OUTCOME_RANKS; i++) {
    struct cleat_save_request request = kit_request(&first[i], OUTCOME_STEP);
    firsts[i] = kit_begin(ranks[i], &request);
  }
  memory_wait_held(bucket, 1);
  for (unsigned i = 0; i < OUTCOME_RANKS; i++)
    begin_rank(i, (enum cleat_if_exists)_i);
  memory_release(bucket);
  for (unsigned i = 0; i < OUTCOME_RANKS; i++)
    ck_ok(cleat_save_wait(firsts[i], &err));
  end_ranks();
  expect_all(expected[_i].status, expected[_i].outcome, "two saves");
  for (unsigned i = 0; i < OUTCOME_RANKS; i++)
    cleat_save_free(firsts[i]);
  expect_models(expected[_i].replaced ? second : first);
  close_ranks();
}
END_TEST

static const struct suite_row tests[] = {
    CASE("memory", outcome_setup, outcome_teardown, 120),
    TEST(several_ranks, 1),
    TEST(new_clients_of_the_same_start, 1),
    TEST(committed_and_replaced_at_once, POLICIES),
    TEST(two_saves_under_way_on_each_rank, POLICIES),
    CASE("folder", outcome_setup_folder, outcome_teardown_folder, 120),
    TEST(several_ranks, 1),
    CASE("apart", outcome_make_models, outcome_clear_models, 120),
    TEST(ranks_that_look_at_different_moments, POLICIES),
};

int main(void) {
  kit_prefer_memory();
  return run_table("outcome_ranks", tests, COUNT(tests));
}
