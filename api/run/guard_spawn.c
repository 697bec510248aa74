/* guard_spawn.c: the fork that becomes the command. See guard.h.
 *
 * It uses fork, because posix_spawn cannot set a parent-death signal. The fork also has to wait until `cleat run` has
 * written its process number to command.json. The guard is small, so forking it is cheap. */
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

/* Executes the program. As execvp does, an executable file of no known format is run as a shell script. */
static int run_it(const struct cleat__run_guard_plan *plan) {
  execve(plan->path, plan->words, plan->environment);
  if (errno == ENOEXEC)
    execve("/bin/sh", plan->shell_words, plan->environment);
  return errno;
}

static _Noreturn void become(const struct cleat__run_guard_plan *plan, bool foreground, pid_t guard, int go,
                             int failed) {
  char byte;
  ssize_t got;
  (void)setpgid(0, 0);
  (void)prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0);
  if (getppid() != guard) /* the guard ended before the prctl call */
    _exit(CLEAT__RUN_NOT_FOUND);
  do
    got = read(go, &byte, 1);
  while (got < 0 && errno == EINTR);
  if (got != 1)
    _exit(CLEAT__RUN_NOT_FOUND);
  /* Errors are ignored: the terminal may have hung up meanwhile, and the training can go on without it. All signals are
   * blocked here, so SIGTTOU does not stop us. */
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
  /* both sides call it: the group must exist from now on, because `cleat run` may check it */
  (void)setpgid(pid, pid);
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
