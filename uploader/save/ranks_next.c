/* save/ranks.c: what a save of several ranks does next, beside what one alone does. See ranks.h.
 *
 * All under the pool's lock. Rank 0: WATCH until all records stand, READ each as it comes, then COMMIT is ready. The
 * others: WATCH until the manifest stands, or rank 0 has failed. */
#include "uploader/save/ranks.h"

/* Up to a quarter longer, so that ranks that began together do not ask together for ever. */
static double spread(const struct cleat_save *save, double pause_s) {
  return pause_s * (1.0 + 0.25 * (double)(save->operation.client->rank % 16) / 16);
}

static bool all_listed_locked(const struct cleat_save *save) {
  return save->ranks->synced.absent == 0;
}

bool cleat__save_ranks_ready_locked(const struct cleat_save *save) {
  return save->operation.client->rank == 0 &&
         save->ranks->synced.read + 1 == save->operation.client->world_size;
}

void cleat__save_ranks_wait_locked(struct cleat_save *save) {
  struct cleat__ranks *ranks = save->ranks;
  double now_s = cleat__seconds();
  ranks->synced.pause_s = CLEAT__RANKS_PAUSE_FIRST_S;
  ranks->synced.due_s = now_s;
  /* The others give up later than rank 0, which can say who is missing. */
  double patience_s = save->operation.client->rank_timeout_s;
  if (save->operation.client->rank != 0)
    patience_s = 1.25 * patience_s + 2 * CLEAT__RANKS_PAUSE_MAX_S;
  ranks->synced.deadline_s = now_s + patience_s;
}

/* ---- Take --------------------------------------------------------------------------------------- */

static struct cleat__save_task *take_read_locked(struct cleat_save *save) {
  struct cleat__ranks *ranks = save->ranks;
  struct cleat_client *client = save->operation.client;
  if (ranks->synced.unread == 0 || !cleat__client_may_transfer_locked(client, CLEAT__DOWN))
    return NULL;
  unsigned rank = ranks->synced.next;
  while (ranks->peers[rank].state != CLEAT__PEER_STANDS)
    rank = (rank + 1) % client->world_size;
  ranks->synced.next = (rank + 1) % client->world_size;
  ranks->synced.unread--;
  ranks->peers[rank].state = CLEAT__PEER_READING;
  struct cleat__save_task *task = cleat__save_task_locked(save, CLEAT__SAVE_READ);
  task->rank = rank;
  task->began_s = cleat__client_begin_transfer_locked(client, CLEAT__DOWN);
  return task;
}

static struct cleat__save_task *take_watch_locked(struct cleat_save *save) {
  struct cleat__ranks *ranks = save->ranks;
  if (ranks->synced.watching || save->synced.commit_begun ||
      (save->operation.client->rank == 0 && all_listed_locked(save)))
    return NULL;
  if (cleat__seconds() < ranks->synced.due_s) {
    cleat__pool_wake_at_locked(save->operation.client->pool, ranks->synced.due_s);
    return NULL;
  }
  ranks->synced.watching = true;
  ranks->may_be_committed = save->synced.record_done;
  ranks->late = ranks->synced.deadline_s > 0 && cleat__seconds() > ranks->synced.deadline_s;
  return cleat__save_task_locked(save, CLEAT__SAVE_WATCH);
}

struct cleat__save_task *cleat__save_take_ranks_locked(struct cleat_save *save) {
  struct cleat__save_task *task = take_read_locked(save);
  return task != NULL ? task : take_watch_locked(save);
}

/* ---- Finish ------------------------------------------------------------------------------------- */

/* Ranks whose records have come; returns how many. */
static unsigned note_arrivals_locked(struct cleat_save *save) {
  struct cleat__ranks *ranks = save->ranks;
  unsigned came = 0;
  for (unsigned rank = 1; ranks->peers != NULL && rank < save->operation.client->world_size;
       rank++) {
    if (ranks->listed[rank] == 0 || ranks->peers[rank].state != CLEAT__PEER_ABSENT)
      continue;
    ranks->peers[rank].state = CLEAT__PEER_STANDS;
    came++;
  }
  ranks->synced.absent -= came;
  ranks->synced.unread += came;
  return came;
}

/* When to look next: soon while something happens, and while everybody is done, less and less often. */
static void pace_locked(struct cleat_save *save, unsigned came) {
  struct cleat__ranks *ranks = save->ranks;
  double pause_s = ranks->synced.pause_s;
  ranks->synced.due_s = cleat__seconds() + spread(save, pause_s);
  if (!save->synced.record_done)
    return;
  pause_s = came > 0 ? pause_s / 2 : pause_s * 1.5;
  if (pause_s < CLEAT__RANKS_PAUSE_FIRST_S)
    pause_s = CLEAT__RANKS_PAUSE_FIRST_S;
  ranks->synced.pause_s = pause_s > CLEAT__RANKS_PAUSE_MAX_S ? CLEAT__RANKS_PAUSE_MAX_S : pause_s;
}

void cleat__save_finish_watch_locked(struct cleat_save *save) {
  struct cleat__ranks *ranks = save->ranks;
  ranks->synced.watching = false;
  if (save->operation.synced.stopping && ranks->found != CLEAT__WATCH_COMMITTED)
    return;
  if (ranks->found == CLEAT__WATCH_COMMITTED) {
    cleat__save_committed_locked(save);
  } else if (ranks->found == CLEAT__WATCH_SKIP) {
    cleat__save_skipped_locked(save);
  } else {
    pace_locked(save, note_arrivals_locked(save));
  }
}

void cleat__save_finish_read_locked(struct cleat_save *save, const struct cleat__save_task *task) {
  save->ranks->peers[task->rank].state = CLEAT__PEER_READ;
  save->ranks->synced.read++;
}

/* ---- After a failure ---------------------------------------------------------------------------- */

/* Whoever waits for this rank is to know; but not while the manifest may yet appear. One that was refused as this rank
 * says nothing: cleat__ranks_tell claims it first. */
static bool must_tell_locked(const struct cleat_save *save) {
  const struct cleat__ranks *ranks = save->ranks;
  return !ranks->synced.told && !save->in_doubt &&
         save->operation.synced.error.status != CLEAT_OK && !atomic_load(&ranks->closed);
}

struct cleat__save_task *cleat__save_take_failure_notice_locked(struct cleat_save *save) {
  struct cleat__ranks *ranks = save->ranks;
  if (must_tell_locked(save)) {
    ranks->synced.told = true;
    struct cleat__save_task *task = cleat__save_task_locked(save, CLEAT__SAVE_TELL);
    task->error = save->operation.synced.error;
    return task;
  }
  if (save->synced.clean_allowed || save->synced.clean_failed)
    return NULL;
  if (save->operation.client->rank == 0 || !save->synced.record_stored ||
      atomic_load(&ranks->closed)) {
    save->synced.clean_allowed = !save->in_doubt;
    save->synced.clean_failed = save->in_doubt;
    return NULL;
  }
  return cleat__save_task_locked(save, CLEAT__SAVE_RELEASE);
}
