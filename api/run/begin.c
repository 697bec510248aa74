/* begin.c: `cleat run` up to the start of the command, and what was opened for it closed again. See loop.h. */
#include "api/run/loop.h"

#include "api/run/earlier.h"
#include "api/run/guard.h"
#include "base/mem.h"
#include "base/sync.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
  WAIT_STEP_MS = 100, /* between two looks at a lock */
  WAIT_MORE_MS =
      20000 /* for processes that SIGKILL has not ended yet: they free a device's memory */
};

/* ---- DIR ----------------------------------------------------------------------------------------- */

/* Puts the name of a folder that was made on the disk, or all that will be in it could be lost with it. */
static cleat_status sync_name(char whole[PATH_MAX], struct cleat_error *err) {
  char *slash = strrchr(whole, '/');
  slash[slash == whole] = '\0';
  int failed = cleat__sync_folder_at(whole);
  return failed ? cleat__error_errno(err, failed, "cannot put the folder '%s' on the disk", whole)
                : CLEAT_OK;
}

/* A job's first start finds no folder: its last name is made. */
static cleat_status find_dir(struct cleat__run_loop *loop, struct cleat_error *err) {
  const char *given = loop->options->dir;
  char whole[PATH_MAX];
  struct stat info;
  bool is_new = mkdir(given, 0777) == 0;
  if (!is_new && errno != EEXIST) {
    cleat__error_errno(err, errno, "cannot make the folder '%s'", given);
    if (err->os_errno == ENOENT)
      cleat__error_hint(err, "the folder that it is to lie in is missing: make it, or mount it");
    return err->status;
  }
  if (stat(given, &info) != 0)
    return cleat__error_errno(err, errno, "cannot use '%s'", given);
  if (!S_ISDIR(info.st_mode)) {
    cleat__error_set(err, CLEAT_INVALID, "'%s' is not a folder", given);
    cleat__error_hint(err, "--dir is the folder that the command writes its checkpoints into");
    return err->status;
  }
  if (!realpath(given, whole))
    return cleat__error_errno(err, errno, "cannot use '%s'", given);
  loop->dir = cleat__strdup(whole);
  if (!loop->dir)
    return cleat__error_no_memory(err, "the name of a folder");
  return is_new ? sync_name(whole, err) : CLEAT_OK;
}

/* The nearest part of a path that is there, whole: a store is made by its first save. */
static bool nearest_place(const char *path, char whole[PATH_MAX]) {
  char at[PATH_MAX];
  size_t length = strcspn(path, "?");
  if (length == 0 || length >= sizeof at)
    return false;
  memcpy(at, path, length);
  at[length] = '\0';
  while (!realpath(at, whole)) {
    char *slash = strrchr(at, '/');
    if (errno != ENOENT || !slash || slash == at)
      return false;
    *slash = '\0';
  }
  return true;
}

static bool is_below(const char *place, const char *dir) {
  size_t length = strlen(dir);
  return strncmp(place, dir, length) == 0 && (!place[length] || place[length] == '/');
}

/* A metrics file in DIR is part of the final state, and must rest while that is saved. */
static bool has_metrics_in_dir(const struct cleat__run_loop *loop) {
  const char *path = loop->options->report.metrics_path;
  char place[PATH_MAX], folder[PATH_MAX];
  const char *slash = path ? strrchr(path, '/') : NULL;
  size_t length = slash ? (size_t)(slash - path) : 0;
  if (!path || length >= sizeof folder)
    return false;
  memcpy(folder, slash ? path : ".", slash ? length : 1);
  folder[slash ? length : 1] = '\0';
  return nearest_place(folder, place) && is_below(place, loop->dir);
}

/* What is saved would hold what was saved before. */
static cleat_status check_store(const struct cleat__run_loop *loop, struct cleat_error *err) {
  static const char scheme[] = "file://";
  const char *url = loop->options->url;
  char place[PATH_MAX];
  if (strncasecmp(url, scheme, sizeof scheme - 1) != 0 ||
      !nearest_place(url + sizeof scheme - 1, place) || !is_below(place, loop->dir))
    return CLEAT_OK;
  cleat__error_set(err, CLEAT_INVALID, "the store %s lies in the folder '%s' that it is to save",
                   url, loop->dir);
  cleat__error_hint(err, "put the store beside the folder of the checkpoints");
  return err->status;
}

/* What an earlier start held when it was killed is in DIR as if its tool had not removed it, before DIR is compared with
 * the store. Whoever goes back to a step, or wants nothing restored, does not want that either. */
cleat_status cleat__run_open_holds(struct cleat__run_loop *loop, struct cleat_error *err) {
  const struct cleat__run_options *options = loop->options;
  /* Of several ranks it would be a part, of a step that they do not go on from. */
  bool wanted = options->step == CLEAT_STEP_LATEST && !options->no_restore &&
                loop->ranks.role == CLEAT__RUN_ALONE;
  cleat_status status = cleat__run_holds_open(&loop->holds, &loop->state, err);
  loop->holds.parts = loop->ranks.role != CLEAT__RUN_ALONE;
  if (status == CLEAT_OK)
    status = cleat__run_holds_recover(&loop->holds, loop->dir, options->layout, options->pattern,
                                      wanted, &loop->recovered, err);
  if (status == CLEAT_OK && loop->recovered >= 0)
    cleat__run_report_note(&loop->report,
                           "step %" PRId64
                           " was held when an earlier 'cleat run' was killed: it is "
                           "in the folder again",
                           loop->recovered);
  return status;
}

/* True: somebody has asked us to end meanwhile. */
static bool waits_a_moment(struct cleat__run_loop *loop) {
  struct pollfd signals = {.fd = loop->signals.fd, .events = POLLIN};
  int signo;
  (void)poll(&signals, 1, WAIT_STEP_MS);
  while (cleat__run_signals_read(&loop->signals, &signo))
    if (signo == SIGTERM || signo == SIGINT || signo == SIGHUP || signo == SIGQUIT)
      loop->asked_by = signo;
  return loop->asked_by == 0;
}

/* Takes the lock of DIR; when the guard of an earlier `cleat run` has it, which was killed, as soon as that is done. */
static cleat_status lock_state(struct cleat__run_loop *loop, bool *damaged,
                               struct cleat_error *err) {
  const char *url = loop->options->url;
  int64_t until_ms = cleat__run_now_ms() + CLEAT__RUN_GUARD_GRACE_MS + WAIT_MORE_MS;
  bool told = false;
  cleat_status status;
  while (
      (status = cleat__run_state_open_by(loop->dir, url, fcntl(loop->lock_file, F_DUPFD_CLOEXEC, 0),
                                         &loop->state, damaged, err)) == CLEAT_BUSY &&
      cleat__run_earlier_is_ending(loop->dir) && cleat__run_now_ms() < until_ms) {
    if (!told)
      cleat__run_report_note(&loop->report, "an earlier 'cleat run' on this folder was killed; "
                                            "what is left of its command is being ended");
    told = true;
    if (waits_a_moment(loop))
      continue;
    loop->exit_status = CLEAT__RUN_SIGNAL + loop->asked_by;
    return cleat__error_set(err, CLEAT_CANCELLED, "stopped by a signal");
  }
  if (status == CLEAT_BUSY && told && cleat__run_earlier_check(loop->dir, err) == CLEAT_OK)
    return cleat__error_set(err, CLEAT_BUSY,
                            "what an earlier 'cleat run' on '%s' has left does not end", loop->dir);
  return status;
}

cleat_status cleat__run_open_state(struct cleat__run_loop *loop, struct cleat_error *err) {
  bool damaged = false;
  cleat_status status = lock_state(loop, &damaged, err);
  if (status == CLEAT_OK)
    status = cleat__run_earlier_check(loop->dir, err);
  if (status == CLEAT_OK && damaged)
    cleat__run_report_warning(&loop->report,
                              "%s/" CLEAT__RUN_STATE_FOLDER "/state.json cannot be read: what DIR "
                              "holds is compared with the store instead",
                              loop->dir);
  return status;
}

/* ---- Opening ------------------------------------------------------------------------------------- */

static cleat_status open_other(void *user, struct cleat_client **client, struct cleat_error *err) {
  struct cleat__run_loop *loop = user;
  return loop->open(loop->user, &loop->report, client, err);
}

static cleat_status open_saver(struct cleat__run_loop *loop, struct cleat_error *err) {
  const struct cleat__run_saver_options options = {.client = loop->client,
                                                   .state = &loop->state,
                                                   .holds = &loop->holds,
                                                   .dir = loop->dir,
                                                   .url = loop->options->url,
                                                   .layout = loop->options->layout,
                                                   .pattern = loop->options->pattern,
                                                   .keep_last = loop->options->keep_last,
                                                   .ranks = &loop->ranks,
                                                   .open_client = open_other,
                                                   .user = loop};
  return cleat__run_saver_open(&options, &loop->saver, err);
}

void cleat__run_begin_restore(struct cleat__run_loop *loop) {
  const struct cleat__run_options *options = loop->options;
  loop->restore = (struct cleat__run_restore_options){.client = loop->client,
                                                      .state = &loop->state,
                                                      .dir = loop->dir,
                                                      .layout = options->layout,
                                                      .pattern = options->pattern,
                                                      .step = options->step,
                                                      .query_only = options->no_restore};
  /* Several ranks first join the start of the job; what they go on from comes with that. */
  bool joins = loop->ranks.world_size > 1 && loop->phase_of_ranks == CLEAT__RUN_APART;
  loop->order = (struct cleat__run_order){.kind = joins ? CLEAT__RUN_JOIN : CLEAT__RUN_RESTORE,
                                          .restore = &loop->restore};
  loop->ordered = true;
  cleat__run_saver_give(loop->saver, &loop->order);
}

static int command_status(const struct cleat_error *err) {
  bool its_own = err->status == CLEAT_NOT_FOUND || err->status == CLEAT_DENIED;
  return its_own ? cleat__run_command_error_status(err) : CLEAT__RUN_FAILED;
}

cleat_status cleat__run_begin(struct cleat__run_loop *loop) {
  struct cleat_error *err = loop->err;
  cleat_status status = cleat__run_command_find(loop->options->command[0], err);
  if (status != CLEAT_OK) {
    loop->exit_status = command_status(err);
    return status;
  }
  status = cleat__run_signals_open(&loop->signals, err);
  if (status == CLEAT_OK)
    status = find_dir(loop, err);
  if (status == CLEAT_OK)
    status = check_store(loop, err);
  loop->metrics_in_dir = status == CLEAT_OK && has_metrics_in_dir(loop);
  if (status == CLEAT_OK)
    status = cleat__run_find_ranks(loop, err);
  if (status == CLEAT_OK)
    status = cleat__run_state_lock_file(loop->dir, &loop->lock_file, err);
  if (status == CLEAT_OK && !cleat__run_is_other_rank(loop))
    status = cleat__run_open_state(loop, err);
  unsetenv("CLEAT_RESUME_STEP");
  unsetenv("CLEAT_RESUME_DIR");
  /* Before there are threads, and memory: it is a fork. */
  if (status == CLEAT_OK)
    status = cleat__run_command_prepare(&loop->command, loop->options->command, &loop->signals,
                                        loop->lock_file, err);
  if (status == CLEAT_OK && !cleat__run_is_other_rank(loop))
    status = cleat__run_open_holds(loop, err);
  if (status == CLEAT_OK)
    status = loop->open(loop->user, &loop->report, &loop->client, err);
  if (status == CLEAT_OK)
    status = open_saver(loop, err);
  if (status == CLEAT_OK && loop->ranks.role == CLEAT__RUN_LEADER)
    status = cleat__run_ranks_mark(&loop->ranks, &loop->state, err);
  if (status == CLEAT_OK)
    cleat__run_begin_restore(loop);
  return status;
}

void cleat__run_let_go(struct cleat__run_loop *loop) {
  bool left = cleat__run_command_group_left(&loop->command);
  /* Who was killed could not end its workers: those of torchrun are in sessions of their own. */
  bool leave = cleat__run_command_end_signal(&loop->command) == 0;
  bool over = cleat__run_command_close(&loop->command, leave);
  if (loop->state.lock >= 0 && !left && over)
    cleat__run_earlier_forget(&loop->state);
}

void cleat__run_end(struct cleat__run_loop *loop) {
  cleat__run_saver_close(loop->saver);
  cleat_client_close(loop->client);
  cleat__run_items_clear(&loop->items);
  cleat__run_lists_clear(&loop->lists);
  cleat__run_holds_close(&loop->holds);
  cleat__run_watch_close(&loop->watch);
  cleat__run_state_close(&loop->state);
  cleat__run_signals_close(&loop->signals);
  cleat__run_ranks_clear(&loop->ranks);
  if (loop->lock_file >= 0)
    close(loop->lock_file);
  cleat__free(loop->resume_path);
  cleat__free(loop->dir);
}

void cleat__run_fail(struct cleat__run_loop *loop, int exit_status) {
  loop->exit_status = exit_status;
  loop->phase = CLEAT__RUN_OVER;
}

/* ---- The restore's end ----------------------------------------------------------------------------- */

/* What DIR has, and what is wrong with it. */
static void tell_local(struct cleat__run_loop *loop, const struct cleat__run_restored *restored) {
  if (restored->damage.status != CLEAT_OK)
    cleat__run_report_warning(
        &loop->report,
        "what the folder has of the checkpoint is damaged, and is replaced by "
        "the store's: %s",
        restored->damage.message);
  if (restored->unproven)
    cleat__run_report_warning(
        &loop->report,
        "step %" PRId64 " ('%s') is not in the store, and may be from before "
        "this machine came up: if its power was cut, files may hold zeros, and "
        "nothing can tell; remove it to go on from the store",
        restored->resume_step, restored->resume_path);
}

static void tell_restored(struct cleat__run_loop *loop,
                          const struct cleat__run_restored *restored) {
  struct cleat__run_report *report = &loop->report;
  /* A final state without a checkpoint has no step to go on from. */
  bool has_step = restored->resume_step >= 0;
  const struct cleat__run_moved moved = {.step =
                                             has_step ? restored->resume_step : restored->newest,
                                         .path = restored->resume_path,
                                         .files = restored->files,
                                         .bytes = restored->bytes,
                                         .seconds = restored->seconds};
  switch (restored->outcome) {
  case CLEAT__RUN_RESTORE_NOTHING:
    cleat__run_report_fresh(report, "the store has no checkpoint yet");
    break;
  case CLEAT__RUN_RESTORE_DONE:
    cleat__run_report_restored(report, &moved);
    break;
  case CLEAT__RUN_RESTORE_HELD:
    cleat__run_report_fresh(
        report, restored->checked ? "the folder holds the newest checkpoint of the store, and "
                                    "its bytes are those that were saved"
                                  : "the folder holds the newest checkpoint of the store");
    break;
  case CLEAT__RUN_RESTORE_AHEAD:
    cleat__run_report_fresh(report, "the folder holds a newer checkpoint than the store");
    break;
  case CLEAT__RUN_RESTORE_LEFT:
    cleat__run_report_fresh(report, loop->ranks.role == CLEAT__RUN_BYSTANDER
                                        ? "rank 0 sees to this folder"
                                        : "--no-restore");
    break;
  }
  if (restored->kept)
    cleat__run_report_warning(report,
                              "'%s' was in the folder already and stays as it is, beside the "
                              "checkpoint that was restored",
                              restored->kept);
  if (restored->aside >= 0)
    cleat__run_report_warning(report,
                              "all machines go on from step %" PRId64
                              "; what this one had of later ones, up to %" PRId64
                              ", lies in " CLEAT__RUN_STATE_FOLDER "/room until the next start",
                              restored->resume_step, restored->aside);
  if (restored->newest > loop->options->step && loop->options->step != CLEAT_STEP_LATEST)
    cleat__run_report_warning(report,
                              "the store has newer steps, up to %" PRId64
                              ": a start without --step goes on from there",
                              restored->newest);
  if (restored->newest >= 0)
    cleat__run_report_newest(report, restored->newest, restored->age_s);
}

static bool is_offline(const struct cleat_error *err) {
  return err->status == CLEAT_NETWORK || err->status == CLEAT_TIMEOUT || err->status == CLEAT_STORE;
}

/* True: there is no restore, and the command starts all the same. */
static bool goes_on_without(struct cleat__run_loop *loop, const struct cleat_error *err) {
  if (!loop->options->offline_ok || !is_offline(err))
    return false;
  cleat__run_report_warning_error(&loop->report, err);
  cleat__run_report_warning(&loop->report,
                            "nothing was restored, as the store does not answer; checkpoints are "
                            "saved when it does");
  loop->offline = true;
  loop->report.totals.store_reachable = false;
  return true;
}

void cleat__run_take_look(struct cleat__run_loop *loop, const struct cleat__run_result *result,
                          int64_t now_ms) {
  if (result->status == CLEAT_OK) {
    loop->offline = false;
    loop->newest = result->restored.newest;
    loop->report.totals.store_reachable = true;
    cleat__run_report_note(&loop->report, "the store answers");
    return;
  }
  loop->looks++;
  loop->ask_ms = now_ms + cleat__run_backoff_ms(loop, loop->looks);
  if (!cleat__run_gives_up(loop, loop->looks))
    return;
  cleat__run_note_pending(loop, result->error.message);
  if (loop->options->final && !loop->final_done)
    cleat__run_note_unsaved(loop, NULL, &result->error);
  loop->final_done = true;
}

void cleat__run_fail_restore(struct cleat__run_loop *loop, const struct cleat_error *err) {
  *loop->err = *err;
  if (is_offline(err))
    cleat__error_hint(loop->err, "%.180s%s--offline-ok starts the command all the same", err->hint,
                      err->hint[0] ? "; " : "");
  cleat__run_fail(loop, loop->asked_by && err->status == CLEAT_CANCELLED
                            ? CLEAT__RUN_SIGNAL + loop->asked_by
                            : CLEAT__RUN_FAILED);
}

/* ---- The command ----------------------------------------------------------------------------------- */

/* What the command is told: where to go on from, and whose it is. */
static cleat_status make_additions(const struct cleat__run_loop *loop, char *additions[4],
                                   const char *mark, struct cleat_error *err) {
  bool here = !loop->resume_path || strcmp(loop->resume_path, ".") == 0;
  additions[0] = cleat__strprintf(CLEAT__RUN_MARK "=%s", mark);
  if (loop->resume_step >= 0 && additions[0])
    additions[1] = cleat__strprintf("CLEAT_RESUME_STEP=%" PRId64, loop->resume_step);
  if (additions[1])
    additions[2] = cleat__strprintf("CLEAT_RESUME_DIR=%s%s%s", loop->dir, here ? "" : "/",
                                    here ? "" : loop->resume_path);
  bool whole = additions[0] && (loop->resume_step < 0 || additions[2]);
  return whole ? CLEAT_OK : cleat__error_no_memory(err, "an environment");
}

/* The command is written down before it does anything. */
static cleat_status launch(struct cleat__run_loop *loop, char *const *additions, const char *mark,
                           struct cleat_error *err) {
  char *const *command = loop->options->command;
  struct cleat_error ignored;
  cleat_status status = cleat__run_command_make(&loop->command, additions, err);
  if (status != CLEAT_OK)
    return status;
  if (loop->state.lock >= 0 &&
      cleat__run_earlier_note(&loop->state, loop->command.pid, mark, command, &ignored) != CLEAT_OK)
    cleat__run_report_warning_error(&loop->report, &ignored);
  return cleat__run_command_start(&loop->command, command[0], err);
}

static cleat_status start_command(struct cleat__run_loop *loop, struct cleat_error *err) {
  char *additions[4] = {NULL}, mark[CLEAT__RUN_MARK_MAX];
  cleat_status status = cleat__run_watch_open(loop->dir, &loop->watch, err);
  if (status == CLEAT_OK)
    status = cleat__run_earlier_mark(mark, err);
  if (status == CLEAT_OK)
    status = make_additions(loop, additions, mark, err);
  if (status == CLEAT_OK) {
    /* What lies in DIR now was there before the command. */
    cleat__run_look(loop, cleat__run_now_ms());
    status = launch(loop, additions, mark, err);
  }
  for (size_t i = 0; i < sizeof additions / sizeof additions[0]; i++)
    cleat__free(additions[i]);
  return status;
}

void cleat__run_take_restore(struct cleat__run_loop *loop, struct cleat__run_result *result) {
  tell_local(loop, &result->restored);
  if (loop->asked_by) {
    if (result->status == CLEAT_OK)
      result->status = cleat__error_set(&result->error, CLEAT_CANCELLED, "stopped by a signal");
    cleat__run_fail_restore(loop, &result->error);
    return;
  }
  if (result->status != CLEAT_OK && !goes_on_without(loop, &result->error)) {
    cleat__run_fail_restore(loop, &result->error);
    return;
  }
  if (result->status == CLEAT_OK) {
    tell_restored(loop, &result->restored);
    loop->newest = result->restored.newest;
    loop->restored_now = result->restored.outcome == CLEAT__RUN_RESTORE_DONE;
    loop->resume_step = result->restored.resume_step;
    loop->resume_path = result->restored.resume_path;
    result->restored.resume_path = NULL;
  }
  if (start_command(loop, loop->err) != CLEAT_OK) {
    cleat__run_fail(loop, command_status(loop->err));
    return;
  }
  loop->phase = CLEAT__RUN_RUNNING;
  loop->started_ms = cleat__run_now_ms();
  cleat__run_report_started(&loop->report, loop->options->command[0], loop->command.pid);
}
