/* test_run_loop.c: what the loop of `cleat run` is made of: life, deadlines, orders, following, verdict. Times are
 * numbers here, and no process is started. */
#include "api/run/following.h"
#include "api/run/life.h"
#include "api/run/orders.h"
#include "api/run/verdict.h"

#include "tests/mock/run_suite.h"

#include <check.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NOW_MS = 100000 };

static struct cleat__run_life life;
static struct cleat__run_deadlines deadlines;
static struct cleat__run_orders orders;
static struct cleat__run_following following;
static struct cleat__run_item item;
static struct cleat_error err;

static void setup(void) {
  life = (struct cleat__run_life){0};
  deadlines = (struct cleat__run_deadlines)CLEAT__RUN_NO_DEADLINES;
  orders = (struct cleat__run_orders){0};
  item = (struct cleat__run_item){0};
  err = (struct cleat_error){0};
  cleat__run_following_init(&following, 10);
}

/* ---- Moves that are not legal ---------------------------------------------------------------------- */

static void run_again(void) {
  life.phase = CLEAT__RUN_FLUSHING;
  cleat__run_life_move(&life, CLEAT__RUN_RUNNING);
}

static void save_what_is_not_ready(void) {
  cleat__run_item_move(&item, CLEAT__RUN_SAVING);
}

static void store_what_was_left(void) {
  item.state = CLEAT__RUN_LEFT;
  cleat__run_item_move(&item, CLEAT__RUN_STORED);
}

static void limit_twice(void) {
  cleat__run_deadlines_limit(&deadlines, 1, NOW_MS);
  cleat__run_deadlines_limit(&deadlines, 1, NOW_MS);
}

static void give_two_orders(void) {
  orders.phase = CLEAT__RUN_WORKING;
  cleat__run_orders_query(&orders);
}

static void wait_after_joining(void) {
  cleat__run_following_join(&following);
  cleat__run_following_wait(&following, NOW_MS);
}

static void (*const illegal[])(void) = {run_again,   save_what_is_not_ready, store_what_was_left,
                                        limit_twice, give_two_orders,        wait_after_joining};

START_TEST(an_illegal_move_ends_a_debug_build) {
#ifndef NDEBUG
  int status = 0;
  pid_t pid = fork();
  ck_assert_int_ge(pid, 0);
  if (pid == 0) {
    close(STDERR_FILENO);
    illegal[_i]();
    _exit(0);
  }
  ck_assert_int_eq(waitpid(pid, &status, 0), pid);
  ck_assert(WIFSIGNALED(status));
  ck_assert_int_eq(WTERMSIG(status), SIGABRT);
#else
  (void)illegal;
#endif
}
END_TEST

/* ---- Life ------------------------------------------------------------------------------------------ */

START_TEST(what_sigterm_means) {
  static const enum cleat__run_on_signal expected[] = {CLEAT__RUN_ON_SIGNAL_STOP_RESTORE,
                                                       CLEAT__RUN_ON_SIGNAL_PASS_TERM, CLEAT__RUN_ON_SIGNAL_END_LEAVING,
                                                       CLEAT__RUN_ON_SIGNAL_LIMIT_FLUSH};
  for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
    life.phase = (enum cleat__run_phase)i;
    ck_assert_int_eq(cleat__run_life_signal(&life, &deadlines, SIGTERM), expected[i]);
  }
  ck_assert_int_eq(life.asked_by, SIGTERM);
  ck_assert_int_eq(cleat__run_life_signal(&life, &deadlines, SIGUSR1), CLEAT__RUN_ON_SIGNAL_PASS);
}
END_TEST

START_TEST(the_second_sigterm_ends_patience) {
  life.phase = CLEAT__RUN_RUNNING;
  cleat__run_deadlines_give_grace(&deadlines, 30, NOW_MS);
  ck_assert_int_eq(cleat__run_life_signal(&life, &deadlines, SIGTERM), CLEAT__RUN_ON_SIGNAL_END_GRACE);
  ck_assert_int_eq(cleat__run_life_signal(&life, &deadlines, SIGINT), CLEAT__RUN_ON_SIGNAL_PASS);
  ck_assert_int_eq(life.asked_by, SIGTERM); /* the first */
  life.phase = CLEAT__RUN_FLUSHING;
  cleat__run_deadlines_limit(&deadlines, 30, NOW_MS);
  ck_assert_int_eq(cleat__run_life_signal(&life, &deadlines, SIGTERM), CLEAT__RUN_ON_SIGNAL_HURRY);
  cleat__run_deadlines_hurry(&deadlines, NOW_MS);
  ck_assert_int_eq(cleat__run_life_signal(&life, &deadlines, SIGTERM), CLEAT__RUN_ON_SIGNAL_NOTHING);
}
END_TEST

START_TEST(a_command_that_is_late_is_killed_once) {
  life.phase = CLEAT__RUN_RUNNING;
  cleat__run_deadlines_give_grace(&deadlines, 30, NOW_MS);
  ck_assert_int_eq(cleat__run_life_deadline(&life, &deadlines), NOW_MS + 30000);
  ck_assert_int_eq(cleat__run_life_next(&life, &deadlines, NOW_MS + 29999), CLEAT__RUN_EVENT_NONE);
  ck_assert_int_eq(cleat__run_life_next(&life, &deadlines, NOW_MS + 30000), CLEAT__RUN_EVENT_COMMAND_LATE);
  ck_assert_int_eq(cleat__run_life_next(&life, &deadlines, NOW_MS + 30001), CLEAT__RUN_EVENT_NONE);
  ck_assert_int_eq(cleat__run_life_deadline(&life, &deadlines), -1);
}
END_TEST

START_TEST(the_guard_is_lost_before_the_end) {
  life.phase = CLEAT__RUN_RUNNING;
  life.command.guard_lost = life.command.ended = true;
  ck_assert_int_eq(cleat__run_life_next(&life, &deadlines, NOW_MS), CLEAT__RUN_EVENT_GUARD_LOST);
  ck_assert_int_eq(cleat__run_life_next(&life, &deadlines, NOW_MS), CLEAT__RUN_EVENT_COMMAND_ENDED);
}
END_TEST

/* ---- Deadlines --------------------------------------------------------------------------------------- */

START_TEST(a_group_leaves_by_the_commands_deadline) {
  cleat__run_deadlines_leave(&deadlines, NOW_MS);
  ck_assert_int_eq(deadlines.leave_ms, NOW_MS + 10000);
  cleat__run_deadlines_give_grace(&deadlines, 3, NOW_MS);
  cleat__run_deadlines_leave(&deadlines, NOW_MS);
  ck_assert_int_eq(deadlines.leave_ms, NOW_MS + 3000);
}
END_TEST

START_TEST(tries_wait_longer_and_longer) {
  ck_assert_int_eq(cleat__run_deadlines_retry_ms(&deadlines, 1), 5000);
  ck_assert_int_eq(cleat__run_deadlines_retry_ms(&deadlines, 2), 10000);
  ck_assert_int_eq(cleat__run_deadlines_retry_ms(&deadlines, 1000), 300000);
  ck_assert(!cleat__run_deadlines_last_try(&deadlines, 2));
  ck_assert(cleat__run_deadlines_last_try(&deadlines, 3));
  cleat__run_deadlines_limit(&deadlines, 1, NOW_MS);
  ck_assert_int_eq(cleat__run_deadlines_retry_ms(&deadlines, 1000), 2000);
  ck_assert(!cleat__run_deadlines_last_try(&deadlines, 1000)); /* the time decides */
}
END_TEST

/* ---- Orders ------------------------------------------------------------------------------------------ */

static struct cleat__run_item *row[1] = {&item};
static struct cleat__run_items items = {.items = row, .count = 1};

static enum cleat__run_decision next(const struct cleat__run_wants *wants) {
  struct cleat__run_item *chosen = NULL;
  return cleat__run_orders_next(&orders, &items, wants, NOW_MS, &chosen);
}

START_TEST(what_is_ready_comes_before_the_end) {
  const struct cleat__run_wants wants = {.leads = true, .flushing = true, .final = true};
  item.state = CLEAT__RUN_READY;
  ck_assert_int_eq(next(&wants), CLEAT__RUN_DECIDE_SAVE);
  ck_assert(cleat__run_orders_have_work(&orders, &items));
  item.retry_ms = NOW_MS + 1; /* not yet, and nothing else before */
  ck_assert_int_eq(next(&wants), CLEAT__RUN_DECIDE_NOTHING);
  ck_assert_int_eq(cleat__run_orders_due(&orders, &items, NOW_MS), NOW_MS + 1);
  item.state = CLEAT__RUN_STORED;
  ck_assert(!cleat__run_orders_have_work(&orders, &items));
  ck_assert_int_eq(next(&wants), CLEAT__RUN_DECIDE_FINAL);
  cleat__run_orders_skip_final(&orders);
  ck_assert_int_eq(next(&wants), CLEAT__RUN_DECIDE_SAY_OVER);
  ck_assert(cleat__run_orders_want_more(&orders, &items, &wants));
  orders.over_said = true;
  ck_assert_int_eq(next(&wants), CLEAT__RUN_DECIDE_NOTHING);
  ck_assert(!cleat__run_orders_want_more(&orders, &items, &wants));
}
END_TEST

START_TEST(a_store_that_is_away_is_asked_first) {
  const struct cleat__run_wants wants = {.flushing = true};
  item.state = CLEAT__RUN_READY;
  cleat__run_orders_go_offline(&orders);
  ck_assert_int_eq(next(&wants), CLEAT__RUN_DECIDE_QUERY);
  ck_assert_uint_eq(cleat__run_orders_query_failed(&orders, &deadlines, NOW_MS), 1);
  ck_assert_int_eq(next(&wants), CLEAT__RUN_DECIDE_NOTHING);
  ck_assert_int_eq(cleat__run_orders_due(&orders, &items, NOW_MS), NOW_MS + 5000);
  cleat__run_orders_go_online(&orders);
  ck_assert_int_eq(next(&wants), CLEAT__RUN_DECIDE_SAVE);
}
END_TEST

/* ---- Several ranks ----------------------------------------------------------------------------------- */

START_TEST(rank_0_is_waited_for) {
  ck_assert(!cleat__run_following_is_due(&following, &life, &deadlines, NOW_MS)); /* restoring */
  cleat__run_following_wait(&following, NOW_MS);
  ck_assert(cleat__run_following_is_due(&following, &life, &deadlines, NOW_MS + 2000));
  ck_assert(!cleat__run_following_is_overdue(&following, false, NOW_MS + 59999));
  ck_assert(cleat__run_following_is_overdue(&following, false, NOW_MS + 60000));
  ck_assert(cleat__run_following_hear(&following, CLEAT__RUN_SAID_BEGIN, NOW_MS));
  ck_assert(!cleat__run_following_hear(&following, CLEAT__RUN_SAID_OVER, NOW_MS));
  ck_assert(following.over);
  ck_assert(!cleat__run_following_is_overdue(&following, false, NOW_MS + 1000000));
}
END_TEST

START_TEST(rank_0_that_cannot_be_heard_is_told_once) {
  ck_assert(!cleat__run_following_misses(&following, true));
  ck_assert(cleat__run_following_misses(&following, false));
  ck_assert(!cleat__run_following_misses(&following, false));
  ck_assert(!cleat__run_following_misses(&following, true));
  ck_assert(cleat__run_following_misses(&following, false));
}
END_TEST

/* ---- Verdict ----------------------------------------------------------------------------------------- */

START_TEST(what_a_failed_save_means) {
  err.status = CLEAT_CANCELLED;
  ck_assert_int_eq(cleat__run_verdict_failure(&err, true, &deadlines, 9), CLEAT__RUN_ON_FAILURE_NOTHING);
  err.status = CLEAT_NOT_FOUND;
  ck_assert_int_eq(cleat__run_verdict_failure(&err, true, &deadlines, 1), CLEAT__RUN_ON_FAILURE_SETTLE);
  snprintf(err.s3_code, sizeof err.s3_code, "NoSuchBucket");
  ck_assert_int_eq(cleat__run_verdict_failure(&err, true, &deadlines, 1), CLEAT__RUN_ON_FAILURE_RETRY);
  ck_assert_int_eq(cleat__run_verdict_failure(&err, true, &deadlines, 3), CLEAT__RUN_ON_FAILURE_LEAVE);
  ck_assert_int_eq(cleat__run_verdict_failure(&err, false, &deadlines, 3), CLEAT__RUN_ON_FAILURE_RETRY);
  err.status = CLEAT_LIMIT;
  ck_assert_int_eq(cleat__run_verdict_failure(&err, false, &deadlines, 1), CLEAT__RUN_ON_FAILURE_LEAVE);
}
END_TEST

START_TEST(what_lay_there_before) {
  struct cleat__run_known known = {.resume_step = -1, .recovered = -1, .newest = 9};
  item.found.step = 7;
  snprintf(item.fingerprint, sizeof item.fingerprint, "a");
  ck_assert_int_eq(cleat__run_verdict_first(&known, &item, "a"), CLEAT__RUN_FIRST_AS_SAVED);
  ck_assert_int_eq(cleat__run_verdict_first(&known, &item, "b"), CLEAT__RUN_FIRST_UNSIGNED);
  item.found.has_sign = item.found.whole = true;
  ck_assert_int_eq(cleat__run_verdict_first(&known, &item, NULL), CLEAT__RUN_FIRST_OLDER);
  known.newest = 6;
  ck_assert_int_eq(cleat__run_verdict_first(&known, &item, NULL), CLEAT__RUN_FIRST_SAVE);
  known.resume_step = 7;
  known.restored = true;
  ck_assert_int_eq(cleat__run_verdict_first(&known, &item, NULL), CLEAT__RUN_FIRST_RESTORED);
  known.parts = true;
  known.resume_step = 8;
  ck_assert_int_eq(cleat__run_verdict_first(&known, &item, "a"), CLEAT__RUN_FIRST_NOBODYS_PART);
}
END_TEST

START_TEST(what_lies_there_at_the_end) {
  ck_assert_int_eq(cleat__run_verdict_last(&item, true, 0), CLEAT__RUN_LAST_NOTHING);
  item.refused.status = CLEAT_INVALID;
  ck_assert_int_eq(cleat__run_verdict_last(&item, true, 0), CLEAT__RUN_LAST_REFUSED);
  snprintf(item.fingerprint, sizeof item.fingerprint, "a");
  ck_assert_int_eq(cleat__run_verdict_last(&item, true, 0), CLEAT__RUN_LAST_SAVE);
  ck_assert_int_eq(cleat__run_verdict_last(&item, false, 0), CLEAT__RUN_LAST_INCOMPLETE);
  item.found.has_sign = true;
  item.found.absent = 1;
  item.since_ms = NOW_MS;
  ck_assert_int_eq(cleat__run_verdict_last(&item, true, NOW_MS), CLEAT__RUN_LAST_ABSENT);
  ck_assert_int_eq(cleat__run_verdict_last(&item, true, NOW_MS + 1), CLEAT__RUN_LAST_INCOMPLETE);
}
END_TEST

START_TEST(the_exit_status) {
  struct cleat__run_verdict verdict = {.unsaved = false};
  cleat__run_verdict_end(&verdict, 0);
  ck_assert_int_eq(verdict.exit_status, 0);
  verdict.unsaved = true;
  cleat__run_verdict_end(&verdict, 3);
  ck_assert_int_eq(verdict.exit_status, 3);
  cleat__run_verdict_end(&verdict, 0);
  ck_assert_int_eq(verdict.exit_status, CLEAT__RUN_FAILED);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("loop", setup, NULL, 0),
    TEST(an_illegal_move_ends_a_debug_build, COUNT(illegal)),
    TEST(what_sigterm_means, 1),
    TEST(the_second_sigterm_ends_patience, 1),
    TEST(a_command_that_is_late_is_killed_once, 1),
    TEST(the_guard_is_lost_before_the_end, 1),
    TEST(a_group_leaves_by_the_commands_deadline, 1),
    TEST(tries_wait_longer_and_longer, 1),
    TEST(what_is_ready_comes_before_the_end, 1),
    TEST(a_store_that_is_away_is_asked_first, 1),
    TEST(rank_0_is_waited_for, 1),
    TEST(rank_0_that_cannot_be_heard_is_told_once, 1),
    TEST(what_a_failed_save_means, 1),
    TEST(what_lay_there_before, 1),
    TEST(what_lies_there_at_the_end, 1),
    TEST(the_exit_status, 1),
};

int main(void) {
  return run_table("run_loop", tests, COUNT(tests));
}
