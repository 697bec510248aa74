/* loop_open.c: opens all that the loop needs before the command starts, and closes it. See loop.h. */
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
  WAIT_STEP_MS = 100, /* between two attempts to take a lock */
  /* for processes that SIGKILL has not ended yet, because they free device memory */
  WAIT_MORE_MS = 20000
};

/* ---- DIR ----------------------------------------------------------------------------------------- */

/* Syncs the parent of a new folder. Otherwise a crash could lose the folder with everything in it. */
static cleat_status sync_name(char whole[PATH_MAX], struct cleat_error *err) {
  char *slash = strrchr(whole, '/');
  slash[slash == whole] = '\0';
  int failed = cleat__sync_folder_at(whole);
  return failed ? cleat__error_errno(err, failed, "cannot sync the parent folder '%s' to disk", whole) : CLEAT_OK;
}

/* Finds the folder, or creates its last name: a job's first start has no folder yet. */
static cleat_status find_dir(struct cleat__run_loop *loop, struct cleat_error *err) {
  const char *given = loop->options->dir;
  char whole[PATH_MAX];
  struct stat info;
  bool is_new = mkdir(given, 0777) == 0;
  if (!is_new && errno != EEXIST) {
    cleat__error_errno(err, errno, "cannot create the folder '%s'", given);
    if (err->os_errno == ENOENT)
      cleat__error_hint(err, "its parent folder is missing: create it or mount it");
    return err->status;
  }
  if (stat(given, &info) != 0)
    return cleat__error_errno(err, errno, "cannot use '%s'", given);
  if (!S_ISDIR(info.st_mode)) {
    cleat__error_set(err, CLEAT_INVALID, "'%s' is not a folder", given);
    cleat__error_hint(err, "--dir is the folder that the command writes its checkpoints to");
    return err->status;
  }
  if (!realpath(given, whole))
    return cleat__error_errno(err, errno, "cannot use '%s'", given);
  loop->dir = cleat__strdup(whole);
  if (!loop->dir)
    return cleat__error_no_memory(err, "the name of a folder");
  loop->scanner.dir = loop->dir;
  return is_new ? sync_name(whole, err) : CLEAT_OK;
}

/* Resolves the longest part of a path that exists. A store is created by its first save. */
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

/* True if the metrics file lies in DIR. Then it is part of the final state, and must not change while that is saved. */
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

/* Refuses a store inside DIR: each save would contain the earlier ones. */
static cleat_status check_store(const struct cleat__run_loop *loop, struct cleat_error *err) {
  static const char scheme[] = "file://";
  const char *url = loop->options->url;
  char place[PATH_MAX];
  if (strncasecmp(url, scheme, sizeof scheme - 1) != 0 || !nearest_place(url + sizeof scheme - 1, place) ||
      !is_below(place, loop->dir))
    return CLEAT_OK;
  cleat__error_set(err, CLEAT_INVALID, "the store %s lies in the folder '%s', which is saved to it", url, loop->dir);
  cleat__error_hint(err, "move the store out of the checkpoint folder");
  return err->status;
}

/* Recovers a checkpoint that an earlier start held when it was killed, before DIR is compared with the store. So DIR
 * looks as if the tool had not removed it. Nothing is recovered with --step or --no-restore. */
cleat_status cleat__run_loop_open_holds(struct cleat__run_loop *loop, struct cleat_error *err) {
  const struct cleat__run_options *options = loop->options;
  /* With several ranks it would be only a part, and of a step that they do not resume from. */
  bool wanted = options->step == CLEAT_STEP_LATEST && !options->no_restore && loop->ranks.role == CLEAT__RUN_ALONE;
  cleat_status status = cleat__run_holds_open(&loop->scanner.holds, &loop->state, err);
  loop->scanner.holds.parts = loop->ranks.role != CLEAT__RUN_ALONE;
  if (status == CLEAT_OK)
    status = cleat__run_holds_recover(&loop->scanner.holds, loop->dir, options->layout, options->pattern, wanted,
                                      &loop->scanner.recovered, err);
  if (status == CLEAT_OK && loop->scanner.recovered >= 0)
    cleat__run_report_note(&loop->report,
                           "step %" PRId64 " is back in the folder: it was held when an earlier 'cleat run' was killed",
                           loop->scanner.recovered);
  return status;
}

/* False: a signal asked us to end meanwhile. */
static bool waits_a_moment(struct cleat__run_loop *loop) {
  struct pollfd signals = {.fd = loop->signals.fd, .events = POLLIN};
  int signo;
  (void)poll(&signals, 1, WAIT_STEP_MS);
  while (cleat__run_signals_read(&loop->signals, &signo))
    if (cleat__run_asks_for_end(signo))
      loop->life.asked_by = signo;
  return loop->life.asked_by == 0;
}

/* Takes the lock of DIR. If the guard of a killed `cleat run` has it, waits until that guard has ended. */
static cleat_status lock_state(struct cleat__run_loop *loop, bool *damaged, struct cleat_error *err) {
  const char *url = loop->options->url;
  int64_t until_ms = cleat__run_now_ms() + CLEAT__RUN_GUARD_GRACE_MS + WAIT_MORE_MS;
  bool told = false;
  cleat_status status;
  while ((status = cleat__run_state_open_by(loop->dir, url, fcntl(loop->lock_file, F_DUPFD_CLOEXEC, 0), &loop->state,
                                            damaged, err)) == CLEAT_BUSY &&
         cleat__run_earlier_is_ending(loop->dir) && cleat__run_now_ms() < until_ms) {
    if (!told)
      cleat__run_report_note(&loop->report, "an earlier 'cleat run' on this folder was killed; "
                                            "waiting until its command's processes have ended");
    told = true;
    if (waits_a_moment(loop))
      continue;
    loop->verdict.exit_status = CLEAT__RUN_SIGNAL + loop->life.asked_by;
    return cleat__error_set(err, CLEAT_CANCELLED, "stopped by a signal");
  }
  if (status == CLEAT_BUSY && told && cleat__run_earlier_check(loop->dir, err) == CLEAT_OK)
    return cleat__error_set(err, CLEAT_BUSY, "processes of an earlier 'cleat run' on '%s' do not end", loop->dir);
  return status;
}

cleat_status cleat__run_loop_open_state(struct cleat__run_loop *loop, struct cleat_error *err) {
  bool damaged = false;
  cleat_status status = lock_state(loop, &damaged, err);
  if (status == CLEAT_OK)
    status = cleat__run_earlier_check(loop->dir, err);
  if (status == CLEAT_OK && damaged)
    cleat__run_report_warning(&loop->report,
                              "%s/" CLEAT__RUN_STATE_FOLDER
                              "/state.json cannot be read: the folder is compared with the store instead",
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
                                                   .holds = &loop->scanner.holds,
                                                   .dir = loop->dir,
                                                   .url = loop->options->url,
                                                   .layout = loop->options->layout,
                                                   .pattern = loop->options->pattern,
                                                   .keep_last = loop->options->keep_last,
                                                   .ranks = &loop->ranks,
                                                   .open_client = open_other,
                                                   .user = loop};
  return cleat__run_saver_open(&options, &loop->orders.saver, err);
}

/* ---- Several ranks ------------------------------------------------------------------------------- */

static cleat_status refuse(struct cleat_error *err, const char *option) {
  cleat__error_set(err, CLEAT_INVALID, "%s is not possible with several machines", option);
  cleat__error_hint(err, "set CLEAT_RANK=0 CLEAT_WORLD_SIZE=1 if this 'cleat run' is the only one");
  return err->status;
}

/* Finds our rank and the number of ranks, and checks the options against them. */
static cleat_status find_ranks(struct cleat__run_loop *loop, struct cleat_error *err) {
  const struct cleat__run_options *options = loop->options;
  cleat_status status = cleat__run_ranks_find(&loop->ranks, err);
  if (status != CLEAT_OK || loop->ranks.world_size == 1)
    return status;
  if (options->final)
    return refuse(err, "--final");
  if (options->keep_local)
    return refuse(err, "--keep-local");
  if (options->offline_ok)
    return refuse(err, "--offline-ok");
  cleat__run_report_note(&loop->report, "rank %u of %u, start %s", loop->ranks.rank, loop->ranks.world_size,
                         loop->ranks.start);
  return CLEAT_OK;
}

/* ---- All of it ----------------------------------------------------------------------------------- */

int cleat__run_loop_command_status(const struct cleat_error *err) {
  bool its_own = err->status == CLEAT_NOT_FOUND || err->status == CLEAT_DENIED;
  return its_own ? cleat__run_command_error_status(err) : CLEAT__RUN_FAILED;
}

cleat_status cleat__run_loop_open(struct cleat__run_loop *loop) {
  struct cleat_error *err = loop->verdict.err;
  cleat_status status = cleat__run_command_find(loop->options->command[0], err);
  if (status != CLEAT_OK) {
    loop->verdict.exit_status = cleat__run_loop_command_status(err);
    return status;
  }
  status = cleat__run_signals_open(&loop->signals, err);
  if (status == CLEAT_OK)
    status = find_dir(loop, err);
  if (status == CLEAT_OK)
    status = check_store(loop, err);
  loop->metrics_in_dir = status == CLEAT_OK && has_metrics_in_dir(loop);
  if (status == CLEAT_OK)
    status = find_ranks(loop, err);
  if (status == CLEAT_OK)
    status = cleat__run_state_lock_file(loop->dir, &loop->lock_file, err);
  if (status == CLEAT_OK && !cleat__run_ranks_follows(&loop->ranks))
    status = cleat__run_loop_open_state(loop, err);
  unsetenv("CLEAT_RESUME_STEP");
  unsetenv("CLEAT_RESUME_DIR");
  /* Fork early, before there are threads or much memory. */
  if (status == CLEAT_OK)
    status =
        cleat__run_command_prepare(&loop->life.command, loop->options->command, &loop->signals, loop->lock_file, err);
  if (status == CLEAT_OK && !cleat__run_ranks_follows(&loop->ranks))
    status = cleat__run_loop_open_holds(loop, err);
  if (status == CLEAT_OK)
    status = loop->open(loop->user, &loop->report, &loop->client, err);
  if (status == CLEAT_OK)
    status = open_saver(loop, err);
  if (status == CLEAT_OK && loop->ranks.role == CLEAT__RUN_LEADER)
    status = cleat__run_ranks_mark(&loop->ranks, &loop->state, err);
  return status;
}

void cleat__run_loop_close_command(struct cleat__run_loop *loop) {
  bool left = cleat__run_command_group_left(&loop->life.command);
  /* A command that was killed could not end its workers. Those of torchrun have their own sessions. */
  bool leave = cleat__run_command_end_signal(&loop->life.command) == 0;
  bool over = cleat__run_command_close(&loop->life.command, leave);
  if (loop->state.lock >= 0 && !left && over)
    cleat__run_earlier_forget(&loop->state);
}

void cleat__run_loop_close(struct cleat__run_loop *loop) {
  cleat__run_orders_clear(&loop->orders);
  cleat_client_close(loop->client);
  cleat__run_scanner_clear(&loop->scanner);
  cleat__run_state_close(&loop->state);
  cleat__run_signals_close(&loop->signals);
  cleat__run_ranks_clear(&loop->ranks);
  if (loop->lock_file >= 0)
    close(loop->lock_file);
  cleat__free(loop->resume_path);
  cleat__free(loop->dir);
}
