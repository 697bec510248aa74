/* signals.c: the signals of `cleat run`, as a descriptor to poll. See command.h.
 *
 * They are blocked and read, not handled: a handler could do nothing that the loop does, and would have
 * to wake it anyway. What is blocked reaches process 1 too: the kernel drops only what would be
 * neither caught nor held back (SIGNAL_UNKILLABLE in kernel/signal.c). */
#include "api/run/command_private.h"

#include <errno.h>
#include <sys/signalfd.h>
#include <unistd.h>

static bool is_ignored(int signo) {
  struct sigaction action;
  return sigaction(signo, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

/* What the loop is told of. */
static void fill_wanted(sigset_t *wanted) {
  static const int unless_ignored[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP};
  sigemptyset(wanted);
  sigaddset(wanted, SIGCHLD);
  sigaddset(wanted, SIGCONT);
  for (size_t i = 0; i < sizeof unless_ignored / sizeof unless_ignored[0]; i++)
    if (!is_ignored(unless_ignored[i]))
      sigaddset(wanted, unless_ignored[i]);
}

/* Ours for the program's life; `defaults` are those that the command gets back. */
static void set_dispositions(sigset_t *defaults) {
  sigemptyset(defaults);
  /* main() ignores SIGXFSZ; and nobody starts programs with it ignored. */
  sigaddset(defaults, SIGXFSZ);
  if (!is_ignored(SIGPIPE))
    sigaddset(defaults, SIGPIPE);
  /* The reader of our log may end before the training. */
  signal(SIGPIPE, SIG_IGN);
  /* Inherited as ignored, it would have the kernel throw the exit status away. */
  signal(SIGCHLD, SIG_DFL);
}

cleat_status cleat__run_signals_open(struct cleat__run_signals *signals, struct cleat_error *err) {
  struct cleat__run_signals made;
  sigset_t wanted;
  fill_wanted(&wanted);
  made.fd = signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK);
  if (made.fd < 0)
    return cleat__error_errno(err, errno, "cannot make a descriptor for signals");
  /* Blocked but not read: with it we may take the terminal back from the background, and write to a
   * terminal that is set to stop writers there (stty tostop). */
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

/* SIGTSTP and not SIGSTOP: the kernel leaves out whoever nobody could continue. It is blocked in every
 * thread, so it waits until this one lets it in, and the stop happens within that call: not a step
 * later, on another thread, when the command is running again. */
bool cleat__run_signals_stop_self(bool group) {
  sigset_t stop, pending;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTSTP);
  /* It also takes back a SIGCONT that waits: what waits below is new. */
  (void)kill(group ? 0 : getpid(), SIGTSTP);
  pthread_sigmask(SIG_UNBLOCK, &stop, NULL);
  pthread_sigmask(SIG_BLOCK, &stop, NULL);
  return sigpending(&pending) == 0 && sigismember(&pending, SIGCONT) == 1;
}
