/* test_save_phases.c: the phases of a save: each legal move is made, and a build with asserts aborts at every other
 * one. */
#include "tests/mock/run_suite.h"
#include "uploader/save/job.h"

#include <check.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* Puts the save into state `from`, moves it to `to`, and returns the state that it has then. */
typedef int move_fn(struct cleat_save *save, int from, int to);

static int move_file(struct cleat_save *save, int from, int to) {
  struct cleat__save_file file = {.state = (enum cleat__save_file_state)from};
  cleat__save_file_move_locked(&save->upload, &file, (enum cleat__save_file_state)to);
  return (int)file.state;
}

static int move_snapshot(struct cleat_save *save, int from, int to) {
  save->upload.synced.snapshot = (enum cleat__save_snapshot)from;
  cleat__save_snapshot_move_locked(&save->upload, (enum cleat__save_snapshot)to);
  return (int)save->upload.synced.snapshot;
}

static int move_origin(struct cleat_save *save, int from, int to) {
  save->attempt.origin = (enum cleat__attempt_origin)from;
  cleat__attempt_set_origin(&save->attempt, (enum cleat__attempt_origin)to);
  return (int)save->attempt.origin;
}

static int move_claim(struct cleat_save *save, int from, int to) {
  save->attempt.claim = (enum cleat__attempt_claim)from;
  cleat__attempt_set_claim(&save->attempt, (enum cleat__attempt_claim)to);
  return (int)save->attempt.claim;
}

static int move_attempt(struct cleat_save *save, int from, int to) {
  save->attempt.synced.phase = (enum cleat__attempt_phase)from;
  cleat__attempt_move_locked(&save->attempt, (enum cleat__attempt_phase)to);
  return (int)save->attempt.synced.phase;
}

static int move_cleaning(struct cleat_save *save, int from, int to) {
  save->attempt.synced.cleaning = (enum cleat__cleaning)from;
  cleat__attempt_clean_locked(&save->attempt, (enum cleat__cleaning)to);
  return (int)save->attempt.synced.cleaning;
}

static int move_end(struct cleat_save *save, int from, int to) {
  save->end.synced.phase = (enum cleat__end_phase)from;
  cleat__end_move_locked(&save->end, (enum cleat__end_phase)to);
  return (int)save->end.synced.phase;
}

static int move_peer(struct cleat_save *save, int from, int to) {
  struct cleat__peer peer = {.state = (enum cleat__peer_state)from};
  cleat__peer_move_locked(save->meeting, &peer, (enum cleat__peer_state)to);
  return (int)peer.state;
}

/* A line for each state, in the order of its enum, and in it a column for each state that it may move to. */
static const struct machine {
  const char *name;
  move_fn *move;
  int states;
  const char *legal[6];
} machines[] = {
    /* waiting, opening, open, closing, done, gone */
    {"file", move_file, 6, {"YYY.Y.", "Y.Y...", "Y..Y.Y", "Y...YY", "Y....Y", "......"}},
    /* none, wanted, taking, taken, refused */
    {"snapshot", move_snapshot, 5, {".....", "..Y..", "...YY", ".....", "....."}},
    /* own, adopted, sealed, afresh */
    {"origin", move_origin, 4, {".YY.", "...Y", "....", "...."}},
    /* none, sent, created, replaced */
    {"claim", move_claim, 4, {"YY.Y", "Y.Y.", "Y...", "Y..."}},
    /* new, looking, entered, leaving, replacing */
    {"attempt", move_attempt, 5, {".Y...", "..Y..", "...Y.", "....Y", "Y...."}},
    /* undecided, allowed, ended */
    {"cleaning", move_cleaning, 3, {".YY", "..Y", "..Y"}},
    /* storing, recording, recorded, committing */
    {"end", move_end, 4, {".Y..", "..Y.", "...Y", "...."}},
    /* absent, stands, reading, read */
    {"peer", move_peer, 4, {".Y..", "..Y.", "...Y", "...."}},
};

/* The exit status: 0 if the move was made. */
static int move_under_lock(const struct machine *machine, int from, int to) {
  struct cleat_client client = {.pool = NULL};
  struct cleat__meeting meeting = {.operation = NULL};
  struct cleat_save save = {.meeting = &meeting};
  struct cleat_error err;
  if (cleat__pool_new(1, &client.pool, &err) != CLEAT_OK)
    return 2;
  save.operation.client = &client;
  save.upload.operation = save.attempt.operation = save.end.operation = &save.operation;
  meeting.operation = &save.operation;
  cleat__pool_lock(client.pool);
  int state = machine->move(&save, from, to);
  cleat__pool_unlock(client.pool);
  cleat__pool_free(client.pool);
  return state == to ? 0 : 1;
}

#ifndef NDEBUG
/* Check and the sanitizers catch SIGABRT, and a message of assert() would look like a failure of the test. */
static bool aborts(const struct machine *machine, int from, int to) {
  int status = 0;
  pid_t child = fork();
  ck_assert_int_ge(child, 0);
  if (child == 0) {
    struct rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    signal(SIGABRT, SIG_DFL);
    close(STDERR_FILENO);
    _exit(move_under_lock(machine, from, to));
  }
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}
#else
static bool aborts(const struct machine *machine, int from, int to) {
  (void)machine, (void)from, (void)to;
  return true; /* a release asserts nothing */
}
#endif

START_TEST(legal_moves_alone_are_made) {
  const struct machine *machine = &machines[_i];
  for (int from = 0; from < machine->states; from++) {
    for (int to = 0; to < machine->states; to++) {
      bool legal = machine->legal[from][to] == 'Y';
      bool right = legal ? move_under_lock(machine, from, to) == 0 : aborts(machine, from, to);
      ck_assert_msg(right, "%s: %d to %d, which is %s", machine->name, from, to, legal ? "legal" : "not legal");
    }
  }
}
END_TEST

static const struct suite_row tests[] = {
    CASE("moves", NULL, NULL, 0),
    TEST(legal_moves_alone_are_made, COUNT(machines)),
};

int main(void) {
  return run_table("save_phases", tests, COUNT(tests));
}
