/* saver.c: saves, prunes and deletes for `cleat run`, on its own thread. See saver.h. */
#include "api/run/saver_private.h"

#include "api/run/contents.h"
#include "api/run/metadata.h"
#include "base/mem.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

/* above this number, entries of checkpoints that DIR no longer has are dropped */
enum { STATE_ENTRIES_MAX = 32 };

void cleat__run_result_clear(struct cleat__run_result *result) {
  cleat__run_restored_clear(&result->restored);
  cleat_removals_free(result->pruned);
  cleat_removals_free(result->collected);
  memset(result, 0, sizeof *result);
}

/* ---- Checking DIR ------------------------------------------------------------------------------ */

static cleat_status read_contents(const struct cleat__run_work *work, struct cleat__run_contents *contents,
                                  struct cleat_error *err) {
  const struct cleat__run_saver_options *options = &work->saver->options;
  const struct cleat__run_found *found = work->order->found;
  if (work->order->kind == CLEAT__RUN_FINAL)
    return cleat__run_contents_final(options->dir, options->layout, options->pattern, found ? found->step : -1,
                                     contents, err);
  if (work->order->hold)
    return cleat__run_hold_contents(work->order->hold, contents, err);
  return cleat__run_contents_read(options->dir, found, contents, err);
}

static cleat_status refuse_changed(const struct cleat__run_work *work, struct cleat_error *err) {
  return cleat__error_set(err, CLEAT_CHANGED, "step %" PRId64 " changed while it was being saved", work->order->step);
}

/* Checks that no held file has changed, and that DIR has no file beyond the held ones. DIR may have fewer: its tool is
 * removing them. */
static cleat_status confirm_held(const struct cleat__run_work *work, struct cleat_error *err) {
  struct cleat__run_hold *hold = work->order->hold;
  if (cleat__run_hold_check(hold) != CLEAT__RUN_HOLD_SAME)
    return refuse_changed(work, err);
  switch (cleat__run_hold_compare(hold, work->saver->options.dir, &hold->found)) {
  case CLEAT__RUN_BESIDE_MORE:
  case CLEAT__RUN_BESIDE_MOVED:
  case CLEAT__RUN_BESIDE_OTHER:
    return refuse_changed(work, err);
  default:
    return CLEAT_OK;
  }
}

/* Runs right before the commit: checks that DIR still has what was stored. */
static cleat_status confirm(void *user, struct cleat_error *err) {
  const struct cleat__run_work *work = user;
  if (work->order->hold)
    return confirm_held(work, err);
  struct cleat__run_contents now;
  char fingerprint[CLEAT__RUN_ID_MAX];
  cleat_status status = read_contents(work, &now, err);
  if (status != CLEAT_OK)
    return status;
  cleat__run_fingerprint(&now, fingerprint);
  cleat__run_contents_clear(&now);
  if (strcmp(fingerprint, work->result->fingerprint) != 0)
    status = refuse_changed(work, err);
  return status;
}

/* ---- Saving ------------------------------------------------------------------------------------ */

/* Waits for the save's end and notes its result. */
static cleat_status end(struct cleat__run_work *work, struct cleat_save *save, enum cleat_outcome *outcome,
                        struct cleat_error *err) {
  struct cleat_progress last;
  cleat__run_saver_show(work->saver, save, NULL);
  cleat_status status = cleat_save_wait(save, err);
  cleat_save_progress(save, &last);
  *outcome = last.outcome;
  work->result->files = last.files_total;
  work->result->bytes = last.bytes_total;
  work->result->seconds = last.elapsed_s;
  cleat__run_saver_hide(work->saver);
  cleat_save_free(save);
  return status;
}

/* With several ranks, marks the id as that of a part, so that it is never taken for the complete checkpoint. */
static void name_contents(const struct cleat__run_work *work, char id[CLEAT__RUN_ID_MAX]) {
  if (cleat__run_work_is_leader(work))
    snprintf(id, CLEAT__RUN_ID_MAX, "part-%.11s", work->id);
  else
    cleat__run_id_copy(id, work->id);
}

static cleat_status save_once(struct cleat__run_work *work, struct cleat_client *client, bool resume,
                              enum cleat_outcome *outcome, struct cleat_error *err) {
  struct cleat_save_request request = CLEAT_SAVE_REQUEST_INIT;
  const struct cleat__run_order *order = work->order;
  char id[CLEAT__RUN_ID_MAX];
  name_contents(work, id);
  char *metadata = cleat__run_metadata_make(order->kind == CLEAT__RUN_FINAL, order->found, id);
  if (!metadata)
    return cleat__error_no_memory(err, "the metadata of a checkpoint");
  request.step = order->step;
  request.files = work->contents.files;
  request.file_count = work->contents.file_count;
  request.metadata = metadata;
  request.if_exists = order->again || work->replace ? CLEAT_IF_EXISTS_REPLACE : order->if_exists;
  request.resume = resume;
  request.confirm = confirm;
  request.confirm_user = work;
  request.required = (const char *const *)work->required.items;
  request.required_count = work->required.count;
  struct cleat_save *save = NULL;
  cleat_status status = cleat_save_async_in_place(client, &request, &save, err);
  cleat__free(metadata);
  return status == CLEAT_OK ? end(work, save, outcome, err) : status;
}

/* Saves, and reuses what an earlier attempt has stored, if the store supports that. A step that is to be replaced is
 * sent completely. */
static cleat_status save_with(struct cleat__run_work *work, struct cleat_client *client, enum cleat_outcome *outcome,
                              struct cleat_error *err) {
  struct cleat__run_saver *saver = work->saver;
  bool resume = !saver->no_resume && !cleat__run_work_is_leader(work) && !work->order->again && !work->replace &&
                work->order->if_exists != CLEAT_IF_EXISTS_REPLACE;
  struct cleat_error refusal;
  if (!resume)
    return save_once(work, client, false, outcome, err);
  cleat_status status = save_once(work, client, true, outcome, &refusal);
  if (status != CLEAT_UNSUPPORTED) {
    if (status != CLEAT_OK)
      *err = refusal;
    return status;
  }
  saver->no_resume = true;
  status = save_once(work, client, false, outcome, err);
  /* If it is UNSUPPORTED again, reuse was not the reason. */
  if (status != CLEAT_UNSUPPORTED && work->result->beside.status == CLEAT_OK) {
    cleat__error_hint(&refusal, "saves continue without it; an interrupted save sends the whole step again");
    work->result->beside = refusal;
  }
  return status;
}

/* Checks whether the committed step has these contents: we may have saved it before we were killed, or an earlier
 * process. Also checks whether it is a final state, whose number no tool uses. */
static cleat_status compare_standing(struct cleat__run_work *work, bool *same, bool *is_final,
                                     struct cleat_error *err) {
  struct cleat_checkpoint *checkpoint = NULL;
  struct cleat__run_metadata metadata;
  cleat_status status = cleat_checkpoint_open(work->saver->options.client, work->order->step, &checkpoint, err);
  if (status != CLEAT_OK)
    return status;
  *same = cleat__run_metadata_read(cleat_checkpoint_info(checkpoint)->metadata, &metadata) &&
          strcmp(metadata.id, work->id) == 0;
  *is_final = metadata.is_final;
  cleat__run_metadata_clear(&metadata);
  cleat_checkpoint_free(checkpoint);
  return CLEAT_OK;
}

/* Decides what to do if another start seems to have committed the step. */
static cleat_status judge_standing(struct cleat__run_work *work, struct cleat_client *client, cleat_status status,
                                   struct cleat_error *err) {
  struct cleat_error ignored;
  enum cleat_outcome outcome;
  bool same = false, is_final = false;
  if (compare_standing(work, &same, &is_final, status == CLEAT_OK ? err : &ignored) != CLEAT_OK)
    return status == CLEAT_OK ? err->status : status;
  work->result->known = same;
  if (same)
    return CLEAT_OK;
  work->replace = is_final && status == CLEAT_OK && work->order->kind == CLEAT__RUN_SAVE;
  if (work->replace)
    return save_with(work, client, &outcome, err);
  work->result->skipped = status == CLEAT_OK;
  return status;
}

/* Gives the order to the other ranks, and saves with them. */
static cleat_status save_with_ranks(struct cleat__run_work *work, struct cleat_error *err) {
  struct cleat__run_saver *saver = work->saver;
  const struct cleat__run_saver_options *options = &saver->options;
  enum cleat_outcome outcome = CLEAT_OUTCOME_PENDING;
  cleat_status status = cleat__run_ranks_required(&work->contents, work->order->found, &work->required, err);
  /* its lists are gone, so missing files could not be noticed */
  if (status == CLEAT_OK && work->order->found->absent > 0 && work->required.count == 0)
    status = refuse_changed(work, err);
  if (status == CLEAT_OK)
    status = cleat__run_ranks_say(options->client, saver->orders + 1, CLEAT__RUN_SAID_SAVE, work->order->found,
                                  &work->contents, err);
  if (status == CLEAT_OK) {
    saver->orders++;
    status = save_with(work, options->client, &outcome, err);
    work->result->skipped = status == CLEAT_OK && outcome == CLEAT_OUTCOME_SKIPPED;
  }
  cleat__run_names_clear(&work->required);
  return status;
}

static cleat_status save_to_store(struct cleat__run_work *work, struct cleat_error *err) {
  if (cleat__run_work_is_leader(work))
    return save_with_ranks(work, err);
  struct cleat__run_saver *saver = work->saver;
  struct cleat_client *client = saver->options.client, *other = NULL;
  enum cleat_outcome outcome = CLEAT_OUTCOME_PENDING;
  cleat_status status = CLEAT_OK;
  if (work->order->again)
    status = saver->options.open_client(saver->options.user, &other, err);
  if (status == CLEAT_OK)
    status = save_with(work, other ? other : client, &outcome, err);
  cleat_client_close(other);
  if ((status == CLEAT_OK && outcome != CLEAT_OUTCOME_COMMITTED) || status == CLEAT_EXISTS)
    status = judge_standing(work, client, status, err);
  return status;
}

/* ---- After a commit ------------------------------------------------------------------------------ */

static void note_beside(struct cleat__run_work *work, const struct cleat_error *err) {
  if (work->result->beside.status == CLEAT_OK)
    work->result->beside = *err;
}

/* Releases the hold. False: DIR does not have what was saved. */
static bool let_go(struct cleat__run_work *work, char fingerprint[CLEAT__RUN_ID_MAX]) {
  const struct cleat__run_order *order = work->order;
  struct cleat__run_contents contents;
  struct cleat_error ignored;
  char id[CLEAT__RUN_ID_MAX];
  cleat__run_id_copy(fingerprint, work->result->fingerprint);
  if (!order->hold)
    return true;
  bool same = cleat__run_hold_check(order->hold) == CLEAT__RUN_HOLD_SAME;
  cleat__run_hold_release(order->hold);
  if (!same || cleat__run_contents_read(work->saver->options.dir, order->found, &contents, &ignored) != CLEAT_OK)
    return false;
  cleat__run_contents_id(&contents, id);
  cleat__run_fingerprint(&contents, fingerprint); /* ctime has changed, as the links were removed */
  cleat__run_contents_clear(&contents);
  return strcmp(id, work->id) == 0;
}

/* Drops entries of checkpoints that DIR no longer has. A tool that keeps a few checkpoints writes thousands of them
 * over time. Now and then is enough. */
static void forget_gone(const struct cleat__run_work *work) {
  const struct cleat__run_saver_options *options = &work->saver->options;
  struct cleat__run_scan scan;
  struct cleat_error ignored;
  if (options->state->count < STATE_ENTRIES_MAX ||
      cleat__run_layout_scan(options->dir, options->layout, options->pattern, &scan, &ignored) != CLEAT_OK)
    return;
  int64_t *steps = cleat__calloc(scan.count + 1, sizeof *steps);
  for (size_t i = 0; steps && i < scan.count; i++)
    steps[i] = scan.items[i].step;
  if (steps)
    cleat__run_state_retain(options->state, steps, scan.count);
  cleat__free(steps);
  cleat__run_scan_clear(&scan);
}

static void keep_state(struct cleat__run_work *work) {
  struct cleat_error err;
  char fingerprint[CLEAT__RUN_ID_MAX];
  struct cleat__run_state *state = work->saver->options.state;
  forget_gone(work);
  bool there = let_go(work, fingerprint);
  if (cleat__run_work_is_leader(work)) /* DIR has only a part of it */
    return;
  /* If it was already committed, its bytes were not read now. */
  bool sure = !work->result->known;
  cleat_status status = there ? cleat__run_state_put(state, work->order->step, work->id, fingerprint, sure, &err)
                              : cleat__run_state_remove(state, work->order->step, &err);
  if (status != CLEAT_OK)
    note_beside(work, &err);
}

static void prune(struct cleat__run_work *work) {
  struct cleat_prune_options options = CLEAT_PRUNE_OPTIONS_INIT;
  struct cleat_error err;
  options.keep_last = work->saver->options.keep_last;
  if (options.keep_last != 0 &&
      cleat_prune(work->saver->options.client, &options, &work->result->pruned, &err) != CLEAT_OK)
    note_beside(work, &err);
}

/* Once per process: deletes leftovers of jobs that were killed. */
static void collect(struct cleat__run_work *work) {
  struct cleat_gc_options options = CLEAT_GC_OPTIONS_INIT;
  struct cleat_error err;
  if (work->saver->collected)
    return;
  work->saver->collected = true;
  if (cleat_gc(work->saver->options.client, &options, &work->result->collected, &err) != CLEAT_OK)
    note_beside(work, &err);
}

static cleat_status do_save(struct cleat__run_work *work, struct cleat_error *err) {
  const struct cleat__run_order *order = work->order;
  if (order->hold && cleat__run_hold_check(order->hold) != CLEAT__RUN_HOLD_SAME)
    return refuse_changed(work, err);
  cleat_status status = read_contents(work, &work->contents, err);
  if (status != CLEAT_OK)
    return status;
  const char *seen = order->hold ? NULL : order->fingerprint;
  cleat__run_fingerprint(&work->contents, work->result->fingerprint);
  cleat__run_contents_id(&work->contents, work->id);
  if (seen && strcmp(seen, work->result->fingerprint) != 0)
    status = refuse_changed(work, err);
  else
    status = save_to_store(work, err);
  if (status == CLEAT_OK && !work->result->skipped) {
    keep_state(work);
    prune(work);
    collect(work);
  }
  cleat__run_contents_clear(&work->contents);
  return status;
}

/* ---- Deleting from DIR ----------------------------------------------------------------------------- */

static cleat_status move_away(const char *dir, const char *name, const char *place, struct cleat_error *err) {
  const char *slash = strrchr(name, '/'); /* the name may lie in a subfolder of DIR, which stays */
  char *from = cleat__strprintf("%s/%s", dir, name);
  char *to = cleat__strprintf("%s/%s", place, slash ? slash + 1 : name);
  cleat_status status = CLEAT_OK;
  if (!from || !to)
    status = cleat__error_no_memory(err, "a removal");
  else if (rename(from, to) != 0 && errno != ENOENT)
    status = cleat__error_errno(err, errno, "cannot remove '%s'", from);
  cleat__free(from);
  cleat__free(to);
  return status;
}

/* Moves the checkpoint out of DIR first, beginning with the sign of completeness, so that no reader takes the rest for
 * a checkpoint. Then deletes it. */
static cleat_status do_delete(struct cleat__run_work *work, struct cleat_error *err) {
  struct cleat__run_saver *saver = work->saver;
  const struct cleat__run_found *found = work->order->found;
  char purpose[32];
  snprintf(purpose, sizeof purpose, "removed-%u", saver->deletions++);
  char *place = cleat__run_state_place(saver->options.state, purpose);
  cleat_status status = CLEAT_OK;
  if (!place)
    return cleat__error_no_memory(err, "a removal");
  if (mkdir(place, 0777) != 0)
    status = cleat__error_errno(err, errno, "cannot make the folder '%s'", place);
  for (size_t i = found->entry_count; status == CLEAT_OK && i-- > 0;) {
    /* The tracker names a newer checkpoint by now. */
    if (!found->tracker || strcmp(found->entries[i], found->tracker) != 0)
      status = move_away(saver->options.dir, found->entries[i], place, err);
  }
  if (status == CLEAT_OK)
    status = cleat__run_remove_tree(place, err);
  if (status == CLEAT_OK)
    status = cleat__run_state_remove(saver->options.state, work->order->step, err);
  cleat__free(place);
  return status;
}

/* ---- The thread -------------------------------------------------------------------------------- */

static struct cleat__run_saver *saver_of(struct cleat__job *job) {
  return (struct cleat__run_saver *)job;
}

static struct cleat__task *saver_take(struct cleat__job *job) {
  struct cleat__run_saver *saver = saver_of(job);
  if (!saver->synced.given || saver->synced.begun)
    return NULL;
  saver->synced.begun = true;
  return (struct cleat__task *)saver;
}

static void saver_process(struct cleat__job *job, struct cleat__task *task) {
  struct cleat__run_saver *saver = saver_of(job);
  /* only this thread uses it until the order has ended */
  struct cleat__run_result *result = &saver->synced.result;
  struct cleat__run_work work = {.saver = saver, .order = &saver->synced.order, .result = result};
  (void)task;
  memset(result, 0, sizeof *result);
  if (work.order->kind == CLEAT__RUN_RESTORE)
    result->status = cleat__run_do_restore(&work, &result->error);
  else if (work.order->kind == CLEAT__RUN_DELETE)
    result->status = do_delete(&work, &result->error);
  else if (work.order->kind == CLEAT__RUN_JOIN)
    result->status = cleat__run_do_join(&work, &result->error);
  else if (work.order->kind == CLEAT__RUN_FOLLOW)
    result->status = cleat__run_do_follow(&work, &result->error);
  else if (work.order->kind == CLEAT__RUN_SAY_OVER)
    result->status = cleat__run_do_say_over(&work, &result->error);
  else
    result->status = do_save(&work, &result->error);
}

static void saver_finish(struct cleat__job *job, struct cleat__task *task) {
  struct cleat__run_saver *saver = saver_of(job);
  (void)task;
  saver->synced.ended = true;
  /* Under the lock: otherwise the loop could check too early and then sleep. The write cannot block, because the
   * counter is 0 before. */
  (void)eventfd_write(saver->ended_fd, 1);
}

static const struct cleat__job_ops saver_ops = {.take = saver_take, .process = saver_process, .finish = saver_finish};

cleat_status cleat__run_saver_open(const struct cleat__run_saver_options *options, struct cleat__run_saver **saver,
                                   struct cleat_error *err) {
  struct cleat__run_saver *fresh = cleat__calloc(1, sizeof *fresh);
  cleat_status status = CLEAT_OK;
  if (!fresh)
    return cleat__error_no_memory(err, "the saver");
  fresh->options = *options;
  fresh->ended_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (fresh->ended_fd < 0)
    status = cleat__error_errno(err, errno, "cannot make an eventfd");
  if (status == CLEAT_OK)
    status = cleat__pool_new(1, &fresh->pool, err);
  if (status != CLEAT_OK) {
    if (fresh->ended_fd >= 0)
      close(fresh->ended_fd);
    cleat__free(fresh);
    return status;
  }
  cleat__pool_add(fresh->pool, &fresh->job, &saver_ops);
  *saver = fresh;
  return CLEAT_OK;
}

void cleat__run_saver_close(struct cleat__run_saver *saver) {
  if (!saver)
    return;
  cleat__run_saver_cancel(saver);
  cleat__pool_lock(saver->pool);
  while (saver->synced.given && !saver->synced.ended)
    cleat__pool_wait_locked(saver->pool);
  cleat__pool_unlock(saver->pool);
  if (saver->synced.ended)
    cleat__run_result_clear(&saver->synced.result);
  cleat__pool_remove(&saver->job);
  cleat__pool_free(saver->pool);
  cleat_checkpoint_free(saver->joined_at);
  close(saver->ended_fd);
  cleat__free(saver);
}

int cleat__run_saver_fd(const struct cleat__run_saver *saver) {
  return saver->ended_fd;
}

void cleat__run_saver_give(struct cleat__run_saver *saver, const struct cleat__run_order *order) {
  cleat__pool_lock(saver->pool);
  saver->synced.order = *order;
  saver->synced.given = true;
  saver->synced.begun = saver->synced.ended = saver->synced.cancelled = false;
  cleat__pool_wake_locked(saver->pool);
  cleat__pool_unlock(saver->pool);
}

bool cleat__run_saver_take(struct cleat__run_saver *saver, struct cleat__run_result *result) {
  eventfd_t count;
  (void)eventfd_read(saver->ended_fd, &count);
  cleat__pool_lock(saver->pool);
  bool ended = saver->synced.given && saver->synced.ended;
  if (ended) {
    *result = saver->synced.result;
    saver->synced.given = saver->synced.begun = saver->synced.ended = false;
  }
  cleat__pool_unlock(saver->pool);
  return ended;
}
