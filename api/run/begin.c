/* begin.c: `cleat run` up to the start of the command, and what was opened for it closed again. See loop.h. */
#include "api/run/loop.h"

#include "base/mem.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- DIR ----------------------------------------------------------------------------------------- */

/* A job's first start finds no folder: its last name is made. */
static cleat_status find_dir(struct cleat__run_loop *loop, struct cleat_error *err) {
  const char *given = loop->options->dir;
  char whole[PATH_MAX];
  struct stat info;
  if (mkdir(given, 0777) != 0 && errno != EEXIST) {
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
  return loop->dir ? CLEAT_OK : cleat__error_no_memory(err, "the name of a folder");
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

static cleat_status open_state(struct cleat__run_loop *loop, struct cleat_error *err) {
  bool damaged = false;
  cleat_status status =
      cleat__run_state_open(loop->dir, loop->options->url, &loop->state, &damaged, err);
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
                                                   .dir = loop->dir,
                                                   .url = loop->options->url,
                                                   .layout = loop->options->layout,
                                                   .pattern = loop->options->pattern,
                                                   .keep_last = loop->options->keep_last,
                                                   .open_client = open_other,
                                                   .user = loop};
  return cleat__run_saver_open(&options, &loop->saver, err);
}

static void begin_restore(struct cleat__run_loop *loop) {
  const struct cleat__run_options *options = loop->options;
  loop->restore = (struct cleat__run_restore_options){.client = loop->client,
                                                      .state = &loop->state,
                                                      .dir = loop->dir,
                                                      .layout = options->layout,
                                                      .pattern = options->pattern,
                                                      .step = options->step,
                                                      .look_only = options->no_restore};
  loop->order = (struct cleat__run_order){.kind = CLEAT__RUN_RESTORE, .restore = &loop->restore};
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
    status = open_state(loop, err);
  if (status == CLEAT_OK)
    status = loop->open(loop->user, &loop->report, &loop->client, err);
  if (status == CLEAT_OK)
    status = open_saver(loop, err);
  if (status == CLEAT_OK)
    begin_restore(loop);
  return status;
}

void cleat__run_end(struct cleat__run_loop *loop) {
  cleat__run_saver_close(loop->saver);
  cleat_client_close(loop->client);
  cleat__run_items_clear(&loop->items);
  cleat__run_watch_close(&loop->watch);
  cleat__run_state_close(&loop->state);
  cleat__run_signals_close(&loop->signals);
  cleat__free(loop->resume_path);
  cleat__free(loop->dir);
}

void cleat__run_fail(struct cleat__run_loop *loop, int exit_status) {
  loop->exit_status = exit_status;
  loop->phase = CLEAT__RUN_OVER;
}

/* ---- The restore's end ----------------------------------------------------------------------------- */

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
    cleat__run_report_fresh(report, "the folder holds the newest checkpoint of the store");
    break;
  case CLEAT__RUN_RESTORE_AHEAD:
    cleat__run_report_fresh(report, "the folder holds a newer checkpoint than the store");
    break;
  case CLEAT__RUN_RESTORE_LEFT:
    cleat__run_report_fresh(report, "--no-restore");
    break;
  }
  if (restored->kept)
    cleat__run_report_warning(report,
                              "'%s' was in the folder already and stays as it is, beside the "
                              "checkpoint that was restored",
                              restored->kept);
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

static void fail_restore(struct cleat__run_loop *loop, const struct cleat_error *err) {
  *loop->err = *err;
  if (is_offline(err))
    cleat__error_hint(loop->err, "%.180s%s--offline-ok starts the command all the same", err->hint,
                      err->hint[0] ? "; " : "");
  cleat__run_fail(loop, loop->asked_by && err->status == CLEAT_CANCELLED
                            ? CLEAT__RUN_SIGNAL + loop->asked_by
                            : CLEAT__RUN_FAILED);
}

/* ---- The command ----------------------------------------------------------------------------------- */

static cleat_status make_additions(const struct cleat__run_loop *loop, char *additions[3],
                                   struct cleat_error *err) {
  bool here = !loop->resume_path || strcmp(loop->resume_path, ".") == 0;
  unsetenv("CLEAT_RESUME_STEP");
  unsetenv("CLEAT_RESUME_DIR");
  if (loop->resume_step < 0)
    return CLEAT_OK;
  additions[0] = cleat__strprintf("CLEAT_RESUME_STEP=%" PRId64, loop->resume_step);
  additions[1] = cleat__strprintf("CLEAT_RESUME_DIR=%s%s%s", loop->dir, here ? "" : "/",
                                  here ? "" : loop->resume_path);
  return additions[0] && additions[1] ? CLEAT_OK : cleat__error_no_memory(err, "an environment");
}

static cleat_status start_command(struct cleat__run_loop *loop, struct cleat_error *err) {
  char *additions[3] = {NULL};
  cleat_status status = cleat__run_watch_open(loop->dir, &loop->watch, err);
  if (status == CLEAT_OK)
    status = make_additions(loop, additions, err);
  if (status == CLEAT_OK) {
    /* What lies in DIR now was there before the command. */
    cleat__run_look(loop, cleat__run_now_ms());
    status = cleat__run_command_start(&loop->command, loop->options->command, additions,
                                      &loop->signals, err);
  }
  cleat__free(additions[0]);
  cleat__free(additions[1]);
  return status;
}

void cleat__run_take_restore(struct cleat__run_loop *loop, struct cleat__run_result *result) {
  if (loop->asked_by) {
    if (result->status == CLEAT_OK)
      result->status = cleat__error_set(&result->error, CLEAT_CANCELLED, "stopped by a signal");
    fail_restore(loop, &result->error);
    return;
  }
  if (result->status != CLEAT_OK && !goes_on_without(loop, &result->error)) {
    fail_restore(loop, &result->error);
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
