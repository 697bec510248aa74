/* job.c: opens a checkpoint, and waits for a save, a load, a doctor or a bench: progress, Ctrl-C, and the end.
 *
 * The main thread polls, and sleeps in sigtimedwait. The signals that end a job are blocked in every thread. So there
 * is no signal handler. */
#include "api/cli/cli.h"

#include "base/clock.h"

#include <string.h>
#include <time.h>

enum { POLL_MAX_MS = 20 }; /* Higher: the end is noticed late. Lower: a core is kept busy. */

static const int job_signals[] = {SIGINT, SIGTERM, SIGHUP};

/* nohup, and shells without job control, make their children ignore a signal. It stays ignored. */
static bool is_ignored(int number) {
  struct sigaction action;
  return sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

void cleat__cli_signals_hold(struct cleat__cli_signals *signals) {
  memset(signals, 0, sizeof *signals);
  sigemptyset(&signals->held);
  for (size_t i = 0; i < sizeof job_signals / sizeof job_signals[0]; i++) {
    if (!is_ignored(job_signals[i]))
      sigaddset(&signals->held, job_signals[i]);
  }
  pthread_sigmask(SIG_BLOCK, &signals->held, &signals->before);
}

void cleat__cli_signals_release(struct cleat__cli_signals *signals) {
  pthread_sigmask(SIG_SETMASK, &signals->before, NULL);
}

static bool has_other_ended(const struct cleat__cli_job *job) {
  struct cleat_bench_progress progress;
  if (job->doctor)
    return cleat_doctor_ended(job->doctor) != 0;
  cleat_bench_progress(job->bench, &progress);
  return progress.ended != 0;
}

static void read_progress(const struct cleat__cli_job *job, struct cleat_progress *progress) {
  if (job->save)
    cleat_save_progress(job->save, progress);
  else if (job->load)
    cleat_load_progress(job->load, progress);
  else
    *progress = (struct cleat_progress){.phase = has_other_ended(job) ? CLEAT_PHASE_DONE : CLEAT_PHASE_RUNNING};
}

static void cancel(const struct cleat__cli_job *job) {
  if (job->save)
    cleat_save_cancel(job->save);
  else if (job->load)
    cleat_load_cancel(job->load);
  else if (job->doctor)
    cleat_doctor_cancel(job->doctor);
  else
    cleat_bench_cancel(job->bench);
}

static cleat_status wait_for(const struct cleat__cli_job *job, struct cleat_error *err) {
  if (job->save)
    return cleat_save_wait(job->save, err);
  if (job->load)
    return cleat_load_wait(job->load, err);
  return job->doctor ? cleat_doctor_wait(job->doctor, err) : cleat_bench_wait(job->bench, err);
}

/* Draws "uploads, 8 at once: 512 MiB". */
static void draw_bench(const struct cleat__cli_job *job, struct cleat__cli_progress *progress) {
  static const char *const stages[] = {"small requests", "uploads", "downloads", "cleaning up"};
  struct cleat_bench_progress now;
  char size[CLEAT__CLI_FORMAT_MAX], line[128];
  cleat_bench_progress(job->bench, &now);
  cleat__cli_format_size((double)now.bytes_done, size);
  if (now.concurrency)
    snprintf(line, sizeof line, "%s, %u at once: %.24s", stages[now.stage], now.concurrency, size);
  else
    snprintf(line, sizeof line, "%s", stages[now.stage]);
  cleat__cli_progress_note(progress, line);
}

static bool has_ended(const struct cleat_progress *progress) {
  return progress->phase == CLEAT_PHASE_DONE || progress->phase == CLEAT_PHASE_FAILED;
}

/* Sleeps for `ms`, or until a signal comes. Returns its number, or 0. */
static int wait_signal(const struct cleat__cli_signals *signals, int64_t ms) {
  const struct timespec timeout = {.tv_nsec = (long)(ms * 1000000)};
  int number = sigtimedwait(&signals->held, NULL, &timeout);
  return number > 0 ? number : 0;
}

/* Returns when the job has ended or a signal has come. */
static void watch(const struct cleat__cli_job *job, struct cleat__cli_progress *progress,
                  struct cleat__cli_signals *signals, struct cleat_progress *last) {
  int64_t ms = 1; /* a small job ends within a few milliseconds */
  for (;;) {
    read_progress(job, last);
    if (has_ended(last))
      return;
    if (job->bench)
      draw_bench(job, progress);
    else if (!job->doctor)
      cleat__cli_progress_draw(progress, last);
    signals->caught = wait_signal(signals, ms);
    if (signals->caught)
      return;
    ms = 2 * ms < POLL_MAX_MS ? 2 * ms : POLL_MAX_MS;
  }
}

cleat_status cleat__cli_job_wait(const struct cleat__cli *cli, const struct cleat__cli_job *job, const char *title,
                                 struct cleat__cli_signals *signals, struct cleat_progress *last,
                                 struct cleat_error *err) {
  struct cleat__cli_progress progress;
  cleat__cli_progress_init(&progress, cli, title);
  watch(job, &progress, signals, last);
  cleat__cli_progress_clear(&progress);
  if (signals->caught) {
    cancel(job);
    if (!cli->options.quiet)
      fputs("cleat: stopping; the same signal again ends at once\n", stderr);
    /* Unblocks the signals: a second one kills the program. */
    cleat__cli_signals_release(signals);
  }
  cleat_status status = wait_for(job, err);
  read_progress(job, last);
  return status;
}

int cleat__cli_job_fail(const struct cleat__cli *cli, const struct cleat__cli_signals *signals,
                        const struct cleat_error *err) {
  int status = cleat__cli_fail(cli, err);
  if (signals->caught && err->status == CLEAT_CANCELLED)
    return CLEAT__CLI_SIGNAL + signals->caught;
  return status;
}

int cleat__cli_open_checkpoint(const struct cleat__cli *cli, struct cleat_client *client,
                               struct cleat_checkpoint **checkpoint) {
  struct cleat_error err;
  cleat_status status = cleat_checkpoint_open(client, cli->options.step, checkpoint, &err);
  if (status == CLEAT_OK)
    return CLEAT__CLI_DONE;
  return cleat__cli_fail(cli, &err);
}

int cleat__cli_load_finish(const struct cleat__cli *cli, cleat_status started, struct cleat_load *load,
                           const char *title, struct cleat__cli_signals *signals, struct cleat_progress *last,
                           struct cleat_error *err) {
  const struct cleat__cli_job job = {.load = load};
  cleat_status status = started;
  if (status == CLEAT_OK)
    status = cleat__cli_job_wait(cli, &job, title, signals, last, err);
  if (status == CLEAT_EXISTS)
    cleat__error_hint(err, "--force writes into a folder that exists");
  int exit_status = status == CLEAT_OK ? CLEAT__CLI_DONE : cleat__cli_job_fail(cli, signals, err);
  /* The checkpoint exists and the usage was right. So NOT_FOUND and EXISTS are about the destination. */
  if (exit_status == CLEAT__CLI_NOTHING || exit_status == CLEAT__CLI_USAGE)
    exit_status = CLEAT__CLI_FAILED;
  if (started == CLEAT_OK)
    cleat_load_free(load);
  cleat__cli_signals_release(signals);
  return exit_status;
}
