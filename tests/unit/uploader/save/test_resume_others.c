/* test_resume_others.c: uploader/resume*.c: a save that is resumed while the earlier process lives, or a third one
 * comes, on a store in memory. A gate holds a process at one call, and opens again when another has gone on with its
 * attempt. */
#include "tests/unit/uploader/save/resume_kit.h"

#include <pthread.h>

/* ---- Who else is at work ------------------------------------------------------------------------- */

/* The zombie is held by its own hook until the resumed save has committed. */
struct haunted {
  pthread_mutex_t lock;
  pthread_cond_t change;
  const char *op, *part;
  unsigned skip; /* so many such calls pass */
  bool held, open;
};

static cleat_status hold_hook(void *user, const char *op, const char *key, bool done, struct cleat__call call) {
  struct haunted *haunted = user;
  (void)call;
  pthread_mutex_lock(&haunted->lock);
  bool mine = !done && !haunted->held && strcmp(op, haunted->op) == 0 && strstr(key, haunted->part) != NULL &&
              haunted->skip-- == 0;
  if (mine) {
    haunted->held = true;
    pthread_cond_broadcast(&haunted->change);
    while (!haunted->open)
      pthread_cond_wait(&haunted->change, &haunted->lock);
  }
  pthread_mutex_unlock(&haunted->lock);
  return CLEAT_OK;
}

static void wait_until_held(struct haunted *haunted) {
  pthread_mutex_lock(&haunted->lock);
  while (!haunted->held)
    pthread_cond_wait(&haunted->change, &haunted->lock);
  pthread_mutex_unlock(&haunted->lock);
}

static void let_go(struct haunted *haunted) {
  pthread_mutex_lock(&haunted->lock);
  haunted->open = true;
  pthread_cond_broadcast(&haunted->change);
  pthread_mutex_unlock(&haunted->lock);
}

static void init_haunted(struct haunted *haunted) {
  pthread_mutex_init(&haunted->lock, NULL);
  pthread_cond_init(&haunted->change, NULL);
}

static void destroy_haunted(struct haunted *haunted) {
  pthread_cond_destroy(&haunted->change);
  pthread_mutex_destroy(&haunted->lock);
}

/* A save of a client of its own, which stops where `haunted` says. */
static struct cleat_save *begin_haunted(struct haunted *haunted, const char *start, bool resume,
                                        struct cleat_client **of) {
  init_haunted(haunted);
  memory_bucket_hook(bucket, hold_hook, haunted);
  *of = open_as(start);
  struct cleat_save *save = begin(*of, resume);
  wait_until_held(haunted);
  return save;
}

START_TEST(a_zombie_that_wakes_too_late) {
  static const struct {
    const char *op, *part;
    unsigned skip;
  } moments[] = {{"create", "a.bin", 0},    {"create", "b.bin", 0},   {"part", "a.bin", 0}, {"part", "b.bin", 0},
                 {"complete", "a.bin", 0},  {"complete", "b.bin", 0}, {"put", "small", 0},  {"put", "empty", 0},
                 {"get_small", "rank-", 0}, {"put", "rank-", 1}};
  struct haunted haunted = {.op = moments[_i / 2].op, .part = moments[_i / 2].part, .skip = moments[_i / 2].skip};
  struct cleat_client *zombie_client = NULL;
  struct cleat_save *zombie = begin_haunted(&haunted, "start-zombie", false, &zombie_client);
  if (_i % 2 == 1) { /* the source has changed meanwhile */
    bytes[0][5] ^= 1;
    scratch_write("a.bin", bytes[0], BIG);
    bytes[3][5] ^= 1; /* sent by one put, which must not replace what was committed */
    scratch_write("small", bytes[3], 100);
  }
  struct cleat_client *client = open_as("start-next");
  (void)wait_for(begin(client, true));
  expect_committed();

  let_go(&haunted);
  cleat_status status = cleat_save_wait(zombie, &err);
  ck_assert_msg(status == CLEAT_LOST, "%d %s", (int)status, err.message);
  cleat_save_free(zombie);
  kit_close_idle(client);
  kit_close_idle(zombie_client);
  memory_bucket_hook(bucket, NULL, NULL);
  expect_committed();
  /* An upload of its own, of bytes that are there already, is aborted. */
  if (_i % 2 == 0)
    ck_assert_uint_eq(memory_uploads(bucket), 0);
  destroy_haunted(&haunted);
}
END_TEST

/* Holds two processes, the second after the first, at calls of their own. */
static cleat_status hold_two_hook(void *user, const char *op, const char *key, bool done, struct cleat__call call) {
  struct haunted *both = user;
  pthread_mutex_lock(&both[0].lock);
  bool first_is_held = both[0].held;
  pthread_mutex_unlock(&both[0].lock);
  return hold_hook(&both[first_is_held ? 1 : 0], op, key, done, call);
}

/* The first completes an upload, or adds a part to it, when the second has adopted it already. The second goes on in an
 * attempt of its own, whatever its upload says then; the first loses, and nothing is left of it. */
START_TEST(an_upload_that_the_first_one_ends) {
  static const struct {
    const char *first, *second;
  } moments[] = {{"complete", "list_parts"}, {"complete", "part"}, {"complete", "complete"}, {"part", "complete"}};
  /* The first list of parts is before the claim. */
  struct haunted both[2] = {{.op = moments[_i].first, .part = "a.bin", .skip = _i == 3 ? 2 : 0},
                            {.op = moments[_i].second, .part = "a.bin", .skip = _i == 0}};
  for (int i = 0; i < 2; i++)
    init_haunted(&both[i]);
  memory_bucket_hook(bucket, hold_two_hook, both);
  struct cleat_client *first_client = open_as("start-first");
  struct cleat_save *first = begin(first_client, false);
  wait_until_held(&both[0]);
  bytes[0][5] ^= 1; /* so that there is a part to be sent, and that the first one's object is of no use */
  scratch_write("a.bin", bytes[0], BIG);
  struct cleat_client *client = open_as("start-next");
  struct cleat_save *next = begin(client, true);
  wait_until_held(&both[1]);
  let_go(&both[0]);
  ck_assert_int_eq(cleat_save_wait(first, &err), CLEAT_LOST);
  cleat_save_free(first);
  let_go(&both[1]);
  (void)wait_for(next);
  kit_close_idle(client);
  kit_close_idle(first_client);
  memory_bucket_hook(bucket, NULL, NULL);
  expect_committed_alone();
  for (int i = 0; i < 2; i++)
    destroy_haunted(&both[i]);
}
END_TEST

/* The resumed process is stopped before it removes what it has no use for; another goes on with the attempt, of the
 * first one's files, and commits it. What the stopped one removes then, if anything, is nothing that the manifest
 * names. */
START_TEST(a_removal_that_comes_late) {
  die_at("get_small", "rank-", 1, false); /* all objects are there */
  struct haunted haunted = {.op = "remove", .part = ""};
  write_file(3, "small", 100, 9); /* another file of the same size */
  struct cleat_client *slow_client = NULL;
  struct cleat_save *slow = begin_haunted(&haunted, "start-slow", true, &slow_client);
  write_file(3, "small", 100, 4); /* as it was */
  struct cleat_client *client = open_as("start-next");
  (void)wait_for(begin(client, true));
  kit_close_idle(client);
  expect_committed();
  let_go(&haunted);
  ck_assert_int_ne(cleat_save_wait(slow, &err), CLEAT_OK);
  cleat_save_free(slow);
  kit_close_idle(slow_client);
  memory_bucket_hook(bucket, NULL, NULL);
  expect_committed();
  destroy_haunted(&haunted);
}
END_TEST

/* Two resume at once: one takes the claim, the other is told. */
START_TEST(two_resume_at_once) {
  die_at("part", "", 5, false);
  struct haunted haunted = {.op = "put", .part = "rank-"};
  struct cleat_client *slow_client = NULL;
  struct cleat_save *slow = begin_haunted(&haunted, "start-slow", true, &slow_client);
  struct cleat_client *client = open_as("start-next");
  (void)wait_for(begin(client, true));
  let_go(&haunted);
  ck_assert_int_eq(cleat_save_wait(slow, &err), CLEAT_LOST);
  ck_assert_str_ne(err.hint, "");
  cleat_save_free(slow);
  kit_close_idle(client);
  kit_close_idle(slow_client);
  memory_bucket_hook(bucket, NULL, NULL);
  expect_committed();
  ck_assert_uint_eq(memory_uploads(bucket), 0);
  destroy_haunted(&haunted);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("resume_others", setup, teardown, 60),
    TEST(a_zombie_that_wakes_too_late, 20),
    TEST(an_upload_that_the_first_one_ends, 4),
    TEST(a_removal_that_comes_late, 1),
    TEST(two_resume_at_once, 1),
};

int main(void) {
  kit_prefer_memory();
  return run_table("resume_others", tests, COUNT(tests));
}
