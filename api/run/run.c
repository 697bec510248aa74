/* run.c: the loop of `cleat run`. It waits for signals, changes in DIR, the saver and deadlines, and takes one turn
 * after the other. See loop.h. */
#include "api/run/run.h"

#include "api/run/loop.h"

#include <poll.h>

/* The longest time between two turns. Each turn updates ages in the metrics, and reaps orphans whose SIGCHLD was merged
 * with another. */
enum { TICK_MS = 1000 };

/* ---- Waiting ------------------------------------------------------------------------------------- */

static void sooner(int64_t *first_ms, int64_t at_ms) {
  if (at_ms >= 0 && at_ms < *first_ms)
    *first_ms = at_ms;
}

/* Considers the next scan of DIR and the next order. */
static void sooner_by_work(struct cleat__run_loop *loop, int64_t *first_ms, int64_t now_ms) {
  if (cleat__run_ranks_follows(&loop->ranks)) {
    if (!cleat__run_orders_are_busy(&loop->orders))
      sooner(first_ms, loop->following.hear_ms);
    return;
  }
  if (loop->life.phase == CLEAT__RUN_RESTORING || loop->deadlines.pace == CLEAT__RUN_HURRIED)
    return;
  sooner(first_ms, cleat__run_scanner_due(&loop->scanner));
  sooner(first_ms, cleat__run_orders_due(&loop->orders, &loop->scanner.items, now_ms));
}

static int timeout_ms(struct cleat__run_loop *loop, int64_t now_ms) {
  int64_t first_ms = now_ms + TICK_MS;
  sooner_by_work(loop, &first_ms, now_ms);
  sooner(&first_ms, cleat__run_life_deadline(&loop->life, &loop->deadlines));
  return first_ms > now_ms ? (int)(first_ms - now_ms) : 0;
}

static void wait_for_something(struct cleat__run_loop *loop, int64_t now_ms) {
  struct pollfd fds[] = {{.fd = loop->signals.fd, .events = POLLIN},
                         {.fd = cleat__run_saver_fd(loop->orders.saver), .events = POLLIN},
                         {.fd = loop->scanner.watch.fd, .events = POLLIN},
                         {.fd = cleat__run_command_fd(&loop->life.command), .events = POLLIN}};
  (void)poll(fds, sizeof fds / sizeof fds[0], timeout_ms(loop, now_ms));
}

/* ---- One turn -------------------------------------------------------------------------------------- */

static void take_signals(struct cleat__run_loop *loop, int64_t now_ms) {
  int signo;
  while (cleat__run_signals_read(&loop->signals, &signo)) {
    if (signo != SIGCHLD)
      cleat__run_loop_take_signal(loop, signo, now_ms);
  }
  cleat__run_command_reap(&loop->life.command);
}

static void work(struct cleat__run_loop *loop, int64_t now_ms) {
  if (cleat__run_ranks_follows(&loop->ranks)) {
    cleat__run_loop_listen(loop, now_ms);
    return;
  }
  if (loop->life.phase == CLEAT__RUN_RESTORING)
    return;
  if (now_ms >= cleat__run_scanner_due(&loop->scanner))
    cleat__run_loop_scan(loop, now_ms);
  cleat__run_loop_order(loop, now_ms);
}

static void turn(struct cleat__run_loop *loop) {
  int64_t now_ms = cleat__run_now_ms();
  wait_for_something(loop, now_ms);
  now_ms = cleat__run_now_ms();
  take_signals(loop, now_ms);
  cleat__run_scanner_hear(&loop->scanner, now_ms);
  cleat__run_loop_take(loop, now_ms);
  cleat__run_loop_advance(loop, now_ms);
  if (loop->life.phase != CLEAT__RUN_OVER)
    work(loop, now_ms);
  cleat__run_loop_tell(loop, now_ms);
}

/* ---- All of it ------------------------------------------------------------------------------------- */

static void init(struct cleat__run_loop *loop) {
  const struct cleat__run_options *options = loop->options;
  cleat__run_scanner_init(&loop->scanner);
  loop->scanner.layout = options->layout;
  loop->scanner.pattern = options->pattern;
  loop->scanner.quiet_ms = options->quiet_s ? (int64_t)options->quiet_s * 1000 : CLEAT__RUN_QUIET_MS;
  cleat__run_following_init(&loop->following, options->rank_timeout_s);
  cleat__run_report_init(&loop->report, &options->report);
  loop->told_ms = cleat__run_now_ms();
}

int cleat__run(const struct cleat__run_options *options, cleat__run_open_fn *open, void *user, bool *hangs,
               struct cleat_error *err) {
  struct cleat__run_loop loop = {.options = options,
                                 .open = open,
                                 .user = user,
                                 .lock_file = -1,
                                 .signals = {.fd = -1},
                                 .state = {.lock = -1},
                                 .deadlines = CLEAT__RUN_NO_DEADLINES,
                                 .verdict = {.exit_status = CLEAT__RUN_FAILED, .err = err},
                                 .resume_step = -1,
                                 .newest = -1};
  cleat__error_clear(err);
  init(&loop);
  if (cleat__run_loop_open(&loop) == CLEAT_OK) {
    cleat__run_loop_restore(&loop);
    while (loop.life.phase != CLEAT__RUN_OVER)
      turn(&loop);
  }
  cleat__run_loop_close_command(&loop);
  *hangs = loop.verdict.hangs;
  if (!loop.verdict.hangs)
    cleat__run_loop_close(&loop);
  return loop.verdict.exit_status;
}
