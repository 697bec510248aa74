/* command.c: the training command, started through its guard. See command.h and guard.h. signals.c has the signals. */
#include "api/run/command_private.h"

#include "api/run/guard.h"
#include "base/clock.h"
#include "base/mem.h"

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum {
  LEAVE_MS = 5000,                            /* for a guard that is told to end at once */
  SWEEP_MS = CLEAT__RUN_GUARD_GRACE_MS + 5000 /* for a guard that first ends leftover processes */
};

/* ---- The terminal ---- */

static void give_terminal(const struct cleat__run_command *command) {
  if (command->terminal && tcgetpgrp(STDIN_FILENO) == getpgrp())
    (void)tcsetpgrp(STDIN_FILENO, command->pid);
}

/* Takes the terminal's foreground back. A shell may have moved us to the background: then the terminal is not ours to
 * take. A command with its own job control may have left the foreground to a process group that no longer exists. */
static void take_terminal(const struct cleat__run_command *command) {
  if (!command->terminal)
    return;
  pid_t owner = tcgetpgrp(STDIN_FILENO);
  if (owner == command->pid || (owner > 0 && kill(-owner, 0) != 0 && errno == ESRCH))
    (void)tcsetpgrp(STDIN_FILENO, getpgrp());
}

/* ---- The guard ---- */

struct plan {
  struct cleat__run_guard_plan of_guard;
  char *path;
};

static void free_plan(struct plan *plan) {
  cleat__free(plan->path);
  cleat__free(plan->of_guard.shell_words);
  cleat__free(plan->of_guard.environment);
}

static size_t count_words(char *const *words) {
  size_t count = 0;
  while (words[count])
    count++;
  return count;
}

/* Makes all that the guard needs before the fork copies it. The path and the arrays are owned. */
static cleat_status make_plan(char *const *argv, const struct cleat__run_signals *signals, int keep, struct plan *plan,
                              struct cleat_error *err) {
  static char shell[] = "/bin/sh";
  struct cleat__run_guard_plan *of_guard = &plan->of_guard;
  size_t words = count_words(argv), variables = count_words(environ);
  cleat_status status = cleat__run_command_locate(argv[0], &plan->path, err);
  if (status != CLEAT_OK)
    return status;
  of_guard->shell_words = cleat__calloc(words + 2, sizeof(char *));
  of_guard->environment = cleat__calloc(variables + CLEAT__RUN_ADDITIONS_MAX + 1, sizeof(char *));
  if (!of_guard->shell_words || !of_guard->environment)
    return cleat__error_no_memory(err, "the command's environment");
  of_guard->path = plan->path;
  of_guard->words = (char **)(uintptr_t)argv; /* execve does not change them, but declares them without const */
  of_guard->shell_words[0] = shell;
  of_guard->shell_words[1] = plan->path;
  memcpy(of_guard->shell_words + 2, argv + 1, (words - 1) * sizeof *argv);
  memcpy(of_guard->environment, environ, variables * sizeof *environ);
  of_guard->mask = signals->before;
  of_guard->defaults = signals->defaults;
  of_guard->keep = keep;
  return CLEAT_OK;
}

static cleat_status fork_guard(struct cleat__run_command *command, struct cleat__run_guard_plan *plan,
                               struct cleat_error *err) {
  int ends[2];
  if (cleat__fault_point())
    return cleat__error_no_memory(err, "the command's guard");
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return cleat__error_errno(err, errno, "cannot make a socket for the command's guard");
  pid_t pid = fork();
  if (pid == 0) {
    close(ends[0]);
    plan->link = ends[1];
    cleat__run_guard(plan);
  }
  int code = pid < 0 ? errno : 0;
  close(ends[1]);
  if (code != 0) {
    close(ends[0]);
    return cleat__error_errno(err, code, "cannot start a guard for the command");
  }
  *command = (struct cleat__run_command){.guard = pid, .linked = true, .link = ends[0]};
  return CLEAT_OK;
}

cleat_status cleat__run_command_prepare(struct cleat__run_command *command, char *const *argv,
                                        const struct cleat__run_signals *signals, int keep, struct cleat_error *err) {
  struct plan plan = {.path = NULL};
  cleat_status status = make_plan(argv, signals, keep, &plan, err);
  if (status == CLEAT_OK)
    status = fork_guard(command, &plan.of_guard, err);
  free_plan(&plan);
  return status;
}

static void unlink_guard(struct cleat__run_command *command) {
  if (command->linked)
    close(command->link);
  command->linked = false;
}

/* Waits until the guard has ended. Its remaining messages are dropped: only its end closes the socket for writing. */
static bool await_guard(const struct cleat__run_command *command, int limit_ms) {
  const struct cleat__clock *clock = cleat__clock_system();
  int64_t end_ms = clock->monotonic_ms(clock->ctx) + limit_ms;
  struct pollfd link = {.fd = command->link, .events = POLLIN};
  struct cleat__run_guard_reply reply;
  while (!(link.revents & POLLHUP)) {
    int64_t left_ms = end_ms - clock->monotonic_ms(clock->ctx);
    if (left_ms <= 0 || poll(&link, 1, (int)left_ms) < 0)
      return false;
    (void)recv(command->link, &reply, sizeof reply, MSG_DONTWAIT);
  }
  return true;
}

/* Sends the guard the order to end. True: the guard was there to receive it. */
static bool tell_to_end(const struct cleat__run_command *command, bool leave) {
  const struct cleat__run_guard_request request = {.kind = CLEAT__RUN_GUARD_LEAVE};
  if (!command->linked)
    return false;
  if (!leave)
    return shutdown(command->link, SHUT_WR) == 0;
  return send(command->link, &request, sizeof request, MSG_NOSIGNAL) == (ssize_t)sizeof request;
}

bool cleat__run_command_close(struct cleat__run_command *command, bool leave) {
  bool over = true;
  if (command->guard > 0) {
    bool listens = tell_to_end(command, leave);
    over = listens && await_guard(command, leave ? LEAVE_MS : SWEEP_MS);
    if (!over && (leave || !listens))
      over = kill(command->guard, SIGKILL) == 0;
    while (over && waitpid(command->guard, NULL, 0) < 0 && errno == EINTR) {
    }
  }
  unlink_guard(command);
  if (command->has_handle)
    close(command->handle);
  command->has_handle = false;
  command->guard = 0;
  return over;
}

int cleat__run_command_fd(const struct cleat__run_command *command) {
  return command->linked ? command->link : -1;
}

bool cleat__run_command_guard_lost(const struct cleat__run_command *command) {
  return command->guard_lost;
}

/* ---- Start ---- */

static cleat_status ask(const struct cleat__run_command *command, const struct cleat__run_guard_request *request,
                        struct cleat__run_guard_reply *reply, struct cleat_error *err) {
  ssize_t got = -1;
  if (command->linked && send(command->link, request, sizeof *request, MSG_NOSIGNAL) == (ssize_t)sizeof *request)
    do
      got = recv(command->link, reply, sizeof *reply, 0);
    while (got < 0 && errno == EINTR);
  if (got == (ssize_t)sizeof *reply)
    return CLEAT_OK;
  return cleat__error_set(err, CLEAT_IO, "the command cannot be started: its guard was killed");
}

static cleat_status pack(char *const *additions, struct cleat__run_guard_request *request, struct cleat_error *err) {
  size_t used = 0;
  for (; *additions; additions++) {
    size_t length = strlen(*additions) + 1;
    if (request->count == CLEAT__RUN_ADDITIONS_MAX || length > sizeof request->additions - used)
      return cleat__error_set(err, CLEAT_LIMIT, "the names of folders are too long for the command");
    memcpy(request->additions + used, *additions, length);
    used += length;
    request->count++;
  }
  return CLEAT_OK;
}

static int handle_of(pid_t pid) {
#ifdef SYS_pidfd_open
  return (int)syscall(SYS_pidfd_open, pid, 0);
#else
  (void)pid;
  return -1;
#endif
}

cleat_status cleat__run_command_make(struct cleat__run_command *command, char *const *additions,
                                     struct cleat_error *err) {
  static char *const none[] = {NULL};
  struct cleat__run_guard_request request = {.kind = CLEAT__RUN_GUARD_MAKE};
  struct cleat__run_guard_reply reply;
  /* negative: no terminal, or not our controlling terminal */
  pid_t owner = tcgetpgrp(STDIN_FILENO);
  request.foreground = owner >= 0 && owner == getpgrp();
  /* For the case that the guard is killed: the command becomes our child, so that we still get its exit status. */
  (void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  cleat_status status = pack(additions ? additions : none, &request, err);
  if (status == CLEAT_OK)
    status = ask(command, &request, &reply, err);
  if (status != CLEAT_OK)
    return status;
  if (reply.code != 0)
    return cleat__error_errno(err, reply.code, "the command cannot be started");
  command->pid = reply.pid;
  command->terminal = owner >= 0;
  command->handle = handle_of(reply.pid);
  command->has_handle = command->handle >= 0;
  return CLEAT_OK;
}

static cleat_status fail(const char *name, int code, struct cleat_error *err) {
  if (code == E2BIG) {
    (void)cleat__error_errno(err, code, "the command %s cannot be started", name);
    cleat__error_hint(err, "its arguments and the environment are too long together");
    return err->status = CLEAT_LIMIT;
  }
  if (code == ENOENT) {
    (void)cleat__error_set(err, CLEAT_NOT_FOUND,
                           "the command %s cannot be started: the file is gone, or its interpreter does not exist",
                           name);
    cleat__error_hint(err, "check the interpreter in its first line (after \"#!\"), or the dynamic "
                           "loader with file(1)");
    return err->status;
  }
  return cleat__error_errno(err, code, "the command %s cannot be started", name);
}

cleat_status cleat__run_command_start(struct cleat__run_command *command, const char *name, struct cleat_error *err) {
  const struct cleat__run_guard_request request = {.kind = CLEAT__RUN_GUARD_GO};
  struct cleat__run_guard_reply reply;
  cleat_status status = ask(command, &request, &reply, err);
  if (status == CLEAT_OK && reply.code != 0)
    status = fail(name, reply.code, err);
  if (status != CLEAT_OK)
    command->pid = 0;
  return status;
}

/* ---- Signals to it ---- */

static bool is_alive(const struct cleat__run_command *command) {
  return command->pid > 0 && !command->ended;
}

void cleat__run_command_kill_group(struct cleat__run_command *command, int signo) {
  if (command->pid == 0 || command->group_gone)
    return;
  if (kill(-command->pid, signo) != 0) {
    command->group_gone = errno == ESRCH;
    return;
  }
  /* A stopped process would receive the signal only when someone continues it. */
  if (command->stopped && (signo == SIGTERM || signo == SIGHUP || signo == SIGINT))
    (void)kill(-command->pid, SIGCONT);
}

static void go_on(struct cleat__run_command *command) {
  if (!is_alive(command))
    return;
  give_terminal(command);
  cleat__run_command_kill_group(command, SIGCONT);
  command->stopped = false;
}

static void stop_all(struct cleat__run_command *command) {
  if (is_alive(command)) {
    cleat__run_command_kill_group(command, SIGTSTP);
    take_terminal(command);
  }
  (void)cleat__run_signals_stop_self(false); /* the sender has already stopped our process group */
  go_on(command);
}

/* Uses the pidfd where the kernel has them. Once the guard has reaped the command, its number may belong to another
 * process. */
static void signal_command(const struct cleat__run_command *command, int signo) {
#ifdef SYS_pidfd_send_signal
  if (command->has_handle && (syscall(SYS_pidfd_send_signal, command->handle, signo, NULL, 0) == 0 || errno == ESRCH))
    return;
#endif
  (void)kill(command->pid, signo);
}

void cleat__run_command_signal(struct cleat__run_command *command, int signo) {
  if (signo == SIGTSTP) {
    stop_all(command);
  } else if (signo == SIGCONT) {
    go_on(command);
  } else if (is_alive(command)) {
    signal_command(command, signo);
    if (command->stopped && (signo == SIGTERM || signo == SIGHUP || signo == SIGINT))
      go_on(command);
  }
}

/* ---- Its end ---- */

static bool is_of_terminal(int signo) {
  return signo == SIGTSTP || signo == SIGTTIN || signo == SIGTTOU;
}

static void note_stop(struct cleat__run_command *command, int signo) {
  command->stopped = true;
  if (!command->terminal || !is_of_terminal(signo))
    return;
  /* A command stopped for terminal access (not by SIGTSTP) asked for the terminal just before it got it. */
  bool asked = signo != SIGTSTP;
  if (asked && tcgetpgrp(STDIN_FILENO) == command->pid) {
    go_on(command);
    return;
  }
  take_terminal(command);
  /* In an orphaned background group the command would only ask for the terminal again and again. It stays stopped until
   * someone sends SIGCONT. */
  if (cleat__run_signals_stop_self(true) || !asked || tcgetpgrp(STDIN_FILENO) == getpgrp())
    go_on(command);
}

static void note(struct cleat__run_command *command, int status) {
  if (WIFSTOPPED(status)) {
    note_stop(command, WSTOPSIG(status));
  } else if (WIFCONTINUED(status)) {
    command->stopped = false;
  } else {
    command->ended = true;
    command->stopped = false;
    command->wait_status = status;
    take_terminal(command);
  }
}

/* True if the command was continued before we heard of its stop. We must not stop ourselves then: nobody would continue
 * us. */
static bool is_overtaken(const struct cleat__run_command *command, int status) {
  char byte;
  return WIFSTOPPED(status) && recv(command->link, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1;
}

/* Reads what the guard reports about the command. */
static void hear(struct cleat__run_command *command) {
  struct cleat__run_guard_reply reply;
  while (command->linked) {
    ssize_t got = recv(command->link, &reply, sizeof reply, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0 && errno == EAGAIN)
      return;
    if (got == (ssize_t)sizeof reply && reply.kind == CLEAT__RUN_GUARD_CHANGED) {
      command->group_gone = command->group_gone || reply.group_gone;
      if (!is_overtaken(command, reply.wait_status))
        note(command, reply.wait_status);
    } else if (got != (ssize_t)sizeof reply) {
      unlink_guard(command);
      command->guard_lost = true;
    }
  }
}

/* Reaps orphans that the kernel gave to us. We get them as process 1. If the guard was killed, we get them too, and the
 * command is one of them. */
void cleat__run_command_reap(struct cleat__run_command *command) {
  hear(command);
  for (;;) {
    int status;
    pid_t pid = waitpid(-1, &status, WNOHANG | WUNTRACED | WCONTINUED | __WNOTHREAD);
    if (pid < 0 && errno == EINTR)
      continue;
    if (pid <= 0)
      return;
    bool over = !WIFSTOPPED(status) && !WIFCONTINUED(status);
    if (pid == command->guard && over) {
      hear(command); /* read its last messages first */
      command->guard = 0;
    } else if (pid == command->pid && !command->ended) {
      note(command, status);
      if (over) /* check at once: another group may get the number later */
        (void)cleat__run_command_group_left(command);
    }
  }
}

bool cleat__run_command_ended(const struct cleat__run_command *command, int *exit_status) {
  if (!command->ended)
    return false;
  int status = command->wait_status;
  *exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : CLEAT__RUN_SIGNAL + WTERMSIG(status);
  return true;
}

int cleat__run_command_end_signal(const struct cleat__run_command *command) {
  return command->ended && WIFSIGNALED(command->wait_status) ? WTERMSIG(command->wait_status) : 0;
}

bool cleat__run_command_group_left(struct cleat__run_command *command) {
  if (command->pid == 0 || command->group_gone)
    return false;
  command->group_gone = kill(-command->pid, 0) != 0 && errno == ESRCH;
  return !command->group_gone;
}
