/* signals.c: the signals of `cleat run`, as a descriptor to poll. See command.h.
 *
 * They are blocked and read, not handled. A handler could do nothing of what the loop does, and would have to wake the
 * loop anyway. Blocked signals also reach process 1: the kernel drops only signals that are neither caught nor blocked
 * (SIGNAL_UNKILLABLE in kernel/signal.c). */
#include "api/run/command_private.h"

#include <errno.h>
#include <sys/signalfd.h>
#include <unistd.h>

static bool is_ignored(int signo) {
  struct sigaction action;
  return sigaction(signo, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

/* The signals that the loop reads. */
static void fill_wanted(sigset_t *wanted) {
  static const int unless_ignored[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP};
  sigemptyset(wanted);
  sigaddset(wanted, SIGCHLD);
  sigaddset(wanted, SIGCONT);
  for (size_t i = 0; i < sizeof unless_ignored / sizeof unless_ignored[0]; i++)
    if (!is_ignored(unless_ignored[i]))
      sigaddset(wanted, unless_ignored[i]);
}

/* Sets our dispositions for the program's life. `defaults` are those that the command gets back. */
static void set_dispositions(sigset_t *defaults) {
  sigemptyset(defaults);
  /* main() ignores SIGXFSZ. Nobody starts programs with it ignored, so the command gets the default. */
  sigaddset(defaults, SIGXFSZ);
  if (!is_ignored(SIGPIPE))
    sigaddset(defaults, SIGPIPE);
  /* The reader of our log may end before the training does. */
  signal(SIGPIPE, SIG_IGN);
  /* If it is inherited as ignored, the kernel discards the exit status. */
  signal(SIGCHLD, SIG_DFL);
}

cleat_status cleat__run_signals_open(struct cleat__run_signals *signals, struct cleat_error *err) {
  struct cleat__run_signals made;
  sigset_t wanted;
  fill_wanted(&wanted);
  made.fd = signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK);
  if (made.fd < 0)
    return cleat__error_errno(err, errno, "cannot make a descriptor for signals");
  /* Blocked but not read. So we may take the terminal back from the background, and write to a terminal that stops
   * background writers (stty tostop). */
  sigaddset(&wanted, SIGTTOU);
  int code = pthread_sigmask(SIG_BLOCK, &wanted, &made.before);
  if (code != 0) {
    close(made.fd);
    return cleat__error_errno(err, code, "cannot block signals");
  }
  set_dispositions(&made.defaults);
  *signals = made;
  return CLEAT_OK;
}

bool cleat__run_signals_read(const struct cleat__run_signals *signals, int *signo) {
  struct signalfd_siginfo info;
  ssize_t got;
  do
    got = read(signals->fd, &info, sizeof info);
  while (got < 0 && errno == EINTR);
  if (got != (ssize_t)sizeof info)
    return false;
  *signo = (int)info.ssi_signo;
  return true;
}

void cleat__run_signals_close(struct cleat__run_signals *signals) {
  if (signals->fd >= 0)
    close(signals->fd);
  signals->fd = -1;
}

/* Uses SIGTSTP and not SIGSTOP, because the kernel does not stop a process that nobody could continue. SIGTSTP is
 * blocked in every thread and is delivered when this thread unblocks it. So the stop happens within that call, and not
 * later on another thread when the command is running again. */
bool cleat__run_signals_stop_self(bool group) {
  sigset_t stop, pending;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTSTP);
  /* This also discards a pending SIGCONT. So one that is pending below is new. */
  (void)kill(group ? 0 : getpid(), SIGTSTP);
  pthread_sigmask(SIG_UNBLOCK, &stop, NULL);
  pthread_sigmask(SIG_BLOCK, &stop, NULL);
  return sigpending(&pending) == 0 && sigismember(&pending, SIGCONT) == 1;
}
