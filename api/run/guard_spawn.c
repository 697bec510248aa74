/* guard_spawn.c: the fork that becomes the command. See guard.h.
 *
 * A fork and not posix_spawn, which cannot ask for a parent-death signal; and it waits until `cleat run` has written
 * down who it is. The guard is small, so a fork of it is cheap. */
#include "api/run/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

static void set_dispositions(const sigset_t *defaults) {
  for (int signo = 1; signo < NSIG; signo++)
    if (sigismember(defaults, signo) == 1)
      (void)signal(signo, SIG_DFL);
}

/* As execvp: what is executable and no known format is a script of the shell's. */
static int run_it(const struct cleat__run_guard_plan *plan) {
  execve(plan->path, plan->words, plan->environment);
  if (errno == ENOEXEC)
    execve("/bin/sh", plan->shell_words, plan->environment);
  return errno;
}

static _Noreturn void become(const struct cleat__run_guard_plan *plan, bool foreground, pid_t guard,
                             int go, int failed) {
  char byte;
  ssize_t got;
  (void)setpgid(0, 0);
  (void)prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0);
  if (getppid() != guard) /* gone before that */
    _exit(CLEAT__RUN_NOT_FOUND);
  do
    got = read(go, &byte, 1);
  while (got < 0 && errno == EINTR);
  if (got != 1)
    _exit(CLEAT__RUN_NOT_FOUND);
  /* The terminal may have hung up since it was looked at: the training need not end for that. All signals are blocked
   * here, so SIGTTOU does not stop us. */
  if (foreground)
    (void)tcsetpgrp(STDIN_FILENO, getpid());
  set_dispositions(&plan->defaults);
  (void)sigprocmask(SIG_SETMASK, &plan->mask, NULL);
  int code = run_it(plan);
  (void)!write(failed, &code, sizeof code);
  _exit(CLEAT__RUN_NOT_FOUND);
}

static void close_both(const int ends[2]) {
  close(ends[0]);
  close(ends[1]);
}

int cleat__run_guard_child_make(const struct cleat__run_guard_plan *plan, bool foreground,
                                struct cleat__run_guard_child *child) {
  int go[2], failed[2];
  pid_t guard = getpid();
  if (pipe2(go, O_CLOEXEC) != 0)
    return errno;
  if (pipe2(failed, O_CLOEXEC) != 0) {
    int code = errno;
    close_both(go);
    return code;
  }
  pid_t pid = fork();
  if (pid == 0) {
    close(go[1]);
    become(plan, foreground, guard, go[0], failed[1]);
  }
  int code = pid < 0 ? errno : 0;
  close(go[0]);
  close(failed[1]);
  if (code != 0) {
    close(go[1]);
    close(failed[0]);
    return code;
  }
  (void)setpgid(pid, pid); /* whoever is first: `cleat run` may look at its group from now on */
  *child = (struct cleat__run_guard_child){.pid = pid, .go = go[1], .failed = failed[0]};
  return 0;
}

int cleat__run_guard_child_go(struct cleat__run_guard_child *child) {
  int code = 0;
  ssize_t got;
  (void)!write(child->go, "", 1);
  close(child->go);
  do
    got = read(child->failed, &code, sizeof code);
  while (got < 0 && errno == EINTR);
  close(child->failed);
  return got == (ssize_t)sizeof code ? code : 0;
}
