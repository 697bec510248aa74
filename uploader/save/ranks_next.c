/* save/ranks_next.c: the tasks that a save of several ranks has in addition to those of a save of one. See meeting.h.
 *
 * The pool's lock is held throughout. Rank 0 runs WATCH until all records exist, and READ for each record as it
 * appears. Then it may COMMIT. Other ranks run WATCH until the manifest exists or rank 0 has failed. */
#include "uploader/save/job.h"

#include <assert.h>

void cleat__peer_move_locked(struct cleat__meeting *meeting, struct cleat__peer *peer, enum cleat__peer_state to) {
  assert(cleat__pool_is_mine(meeting->operation->client->pool));
  assert(to == peer->state + 1 && to <= CLEAT__PEER_READ);
  (void)meeting;
  peer->state = to;
}

/* Lengthens a pause by up to a quarter, by rank, so that ranks that began together do not keep polling at the same
 * moments. */
static double spread(const struct cleat_save *save, double pause_s) {
  return pause_s * (1.0 + 0.25 * (double)(save->operation.client->rank % 16) / 16);
}

static bool all_listed_locked(const struct cleat_save *save) {
  assert(cleat__pool_is_mine(save->operation.client->pool));
  return save->meeting->synced.absent == 0;
}

bool cleat__save_ranks_ready_locked(const struct cleat_save *save) {
  assert(cleat__pool_is_mine(save->operation.client->pool));
  return save->operation.client->rank == 0 && save->meeting->synced.read + 1 == save->operation.client->world_size;
}

void cleat__save_ranks_wait_locked(struct cleat_save *save) {
  assert(cleat__pool_is_mine(save->operation.client->pool));
  struct cleat__meeting *meeting = save->meeting;
  double now_s = cleat__seconds();
  meeting->synced.pause_s = CLEAT__RANKS_PAUSE_FIRST_S;
  meeting->synced.due_s = now_s;
  /* The other ranks give up later than rank 0, because rank 0 can say which ranks are missing. */
  double patience_s = save->operation.client->rank_timeout_s;
  if (save->operation.client->rank != 0)
    patience_s = 1.25 * patience_s + 2 * CLEAT__RANKS_PAUSE_MAX_S;
  meeting->synced.deadline_s = now_s + patience_s;
}

/* ---- Take --------------------------------------------------------------------------------------- */

static struct cleat__save_task *take_read_locked(struct cleat_save *save) {
  assert(cleat__pool_is_mine(save->operation.client->pool));
  struct cleat__meeting *meeting = save->meeting;
  struct cleat_client *client = save->operation.client;
  if (meeting->synced.unread == 0 || !cleat__client_may_transfer_locked(client, CLEAT__DOWN))
    return NULL;
  unsigned rank = meeting->synced.next;
  while (meeting->peers[rank].state != CLEAT__PEER_STANDS)
    rank = (rank + 1) % client->world_size;
  meeting->synced.next = (rank + 1) % client->world_size;
  meeting->synced.unread--;
  cleat__peer_move_locked(meeting, &meeting->peers[rank], CLEAT__PEER_READING);
  struct cleat__save_task *task = cleat__save_task_locked(save, CLEAT__SAVE_READ);
  task->rank = rank;
  task->began_s = cleat__client_begin_transfer_locked(client, CLEAT__DOWN);
  return task;
}

static struct cleat__save_task *take_watch_locked(struct cleat_save *save) {
  assert(cleat__pool_is_mine(save->operation.client->pool));
  struct cleat__meeting *meeting = save->meeting;
  if (meeting->synced.watching || save->end.synced.phase == CLEAT__END_COMMITTING ||
      (save->operation.client->rank == 0 && all_listed_locked(save)))
    return NULL;
  if (cleat__seconds() < meeting->synced.due_s) {
    cleat__pool_wake_at_locked(save->operation.client->pool, meeting->synced.due_s);
    return NULL;
  }
  meeting->synced.watching = true;
  meeting->may_be_committed = save->end.synced.phase >= CLEAT__END_RECORDED;
  meeting->late = meeting->synced.deadline_s > 0 && cleat__seconds() > meeting->synced.deadline_s;
  return cleat__save_task_locked(save, CLEAT__SAVE_WATCH);
}

struct cleat__save_task *cleat__save_take_ranks_locked(struct cleat_save *save) {
  assert(cleat__pool_is_mine(save->operation.client->pool));
  struct cleat__save_task *task = take_read_locked(save);
  return task != NULL ? task : take_watch_locked(save);
}

/* ---- Finish ------------------------------------------------------------------------------------- */

/* Marks the ranks whose records have appeared. Returns how many are new. */
static unsigned note_arrivals_locked(struct cleat_save *save) {
  assert(cleat__pool_is_mine(save->operation.client->pool));
  struct cleat__meeting *meeting = save->meeting;
  unsigned came = 0;
  for (unsigned rank = 1; meeting->peers != NULL && rank < save->operation.client->world_size; rank++) {
    if (meeting->listed[rank] == 0 || meeting->peers[rank].state != CLEAT__PEER_ABSENT)
      continue;
    cleat__peer_move_locked(meeting, &meeting->peers[rank], CLEAT__PEER_STANDS);
    came++;
  }
  meeting->synced.absent -= came;
  meeting->synced.unread += came;
  return came;
}

/* Sets the time of the next poll. Polls come soon while records appear. Once our own record is stored, they slow down
 * step by step. */
static void pace_locked(struct cleat_save *save, unsigned came) {
  assert(cleat__pool_is_mine(save->operation.client->pool));
  struct cleat__meeting *meeting = save->meeting;
  double pause_s = meeting->synced.pause_s;
  meeting->synced.due_s = cleat__seconds() + spread(save, pause_s);
  if (save->end.synced.phase < CLEAT__END_RECORDED)
    return;
  pause_s = came > 0 ? pause_s / 2 : pause_s * 1.5;
  if (pause_s < CLEAT__RANKS_PAUSE_FIRST_S)
    pause_s = CLEAT__RANKS_PAUSE_FIRST_S;
  meeting->synced.pause_s = pause_s > CLEAT__RANKS_PAUSE_MAX_S ? CLEAT__RANKS_PAUSE_MAX_S : pause_s;
}

void cleat__save_finish_watch_locked(struct cleat_save *save) {
  assert(cleat__pool_is_mine(save->operation.client->pool));
  struct cleat__meeting *meeting = save->meeting;
  meeting->synced.watching = false;
  if (save->operation.synced.stopping && meeting->found != CLEAT__WATCH_COMMITTED)
    return;
  if (meeting->found == CLEAT__WATCH_COMMITTED) {
    cleat__save_committed_locked(save);
  } else if (meeting->found == CLEAT__WATCH_SKIP) {
    cleat__save_skipped_locked(save);
  } else {
    pace_locked(save, note_arrivals_locked(save));
  }
}

void cleat__save_finish_read_locked(struct cleat_save *save, const struct cleat__save_task *task) {
  assert(cleat__pool_is_mine(save->operation.client->pool));
  cleat__peer_move_locked(save->meeting, &save->meeting->peers[task->rank], CLEAT__PEER_READ);
  save->meeting->synced.read++;
}

/* ---- After a failure ---------------------------------------------------------------------------- */

/* Whether the failure note must be put for the waiting ranks. Not while the manifest may still appear. If another
 * process has claimed this rank, cleat__ranks_tell fails to claim it and puts nothing. */
static bool must_tell_locked(const struct cleat_save *save) {
  assert(cleat__pool_is_mine(save->operation.client->pool));
  const struct cleat__meeting *meeting = save->meeting;
  return !meeting->synced.told && !save->end.in_doubt && save->operation.synced.error.status != CLEAT_OK &&
         !atomic_load(&meeting->closed);
}

struct cleat__save_task *cleat__save_take_failure_notice_locked(struct cleat_save *save) {
  assert(cleat__pool_is_mine(save->operation.client->pool));
  struct cleat__meeting *meeting = save->meeting;
  if (must_tell_locked(save)) {
    meeting->synced.told = true;
    struct cleat__save_task *task = cleat__save_task_locked(save, CLEAT__SAVE_TELL);
    task->error = save->operation.synced.error;
    return task;
  }
  if (save->attempt.synced.cleaning != CLEAT__CLEANING_UNDECIDED)
    return NULL;
  if (save->operation.client->rank == 0 || save->end.synced.phase == CLEAT__END_STORING ||
      atomic_load(&meeting->closed)) {
    cleat__attempt_clean_locked(&save->attempt, save->end.in_doubt ? CLEAT__CLEANING_ENDED : CLEAT__CLEANING_ALLOWED);
    return NULL;
  }
  return cleat__save_task_locked(save, CLEAT__SAVE_RELEASE);
}
