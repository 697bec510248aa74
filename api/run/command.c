/* command.c: the command as a child. See command.h; signals are in signals.c.
 *
 * It is started by posix_spawn: in a process with threads a fork could run nothing but what is safe
 * in a signal handler, and would copy the page tables of the staging memory. */
#include "api/run/command_private.h"

#include "base/mem.h"

#include <errno.h>
#include <spawn.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* The child can take the terminal itself, before it runs a line of the command. */
#if defined(__GLIBC_PREREQ) && !defined(CLEAT_NO_SPAWN_TCSETPGRP)
#if __GLIBC_PREREQ(2, 35)
#define HAVE_SPAWN_TCSETPGRP 1
#endif
#endif

/* ---- The environment ---- */

static bool same_name(const char *a, const char *b) {
  size_t length = strcspn(a, "=");
  return strncmp(a, b, length) == 0 && b[length] == '=';
}

static bool is_replaced(const char *entry, char *const *additions) {
  for (; *additions; additions++)
    if (same_name(*additions, entry))
      return true;
  return false;
}

static size_t count_words(char *const *words) {
  size_t count = 0;
  while (words[count])
    count++;
  return count;
}

/* Owned: the array alone. NULL: no memory. */
static char **make_environment(char *const *additions) {
  size_t added = count_words(additions), count = 0;
  char **made = cleat__calloc(count_words(environ) + added + 1, sizeof *made);
  if (!made)
    return NULL;
  for (char **entry = environ; *entry; entry++)
    if (!is_replaced(*entry, additions))
      made[count++] = *entry;
  memcpy(made + count, additions, added * sizeof *made);
  return made;
}

/* ---- The terminal ---- */

static void give_terminal(const struct cleat__run_command *command) {
  if (command->terminal && tcgetpgrp(STDIN_FILENO) == getpgrp())
    (void)tcsetpgrp(STDIN_FILENO, command->pid);
}

/* A shell may have taken it to run us in the background: then it is not ours to take. A command with
 * job control of its own may have given it to a group that is dead by now. */
static void take_terminal(const struct cleat__run_command *command) {
  if (!command->terminal)
    return;
  pid_t owner = tcgetpgrp(STDIN_FILENO);
  if (owner == command->pid || (owner > 0 && kill(-owner, 0) != 0 && errno == ESRCH))
    (void)tcsetpgrp(STDIN_FILENO, getpgrp());
}

/* ---- Start ---- */

struct start {
  char *path;
  char **words; /* argv */
  char **environment;
  const struct cleat__run_signals *signals;
  bool foreground;
};

static int set_attributes(posix_spawnattr_t *attributes, const struct cleat__run_signals *signals) {
  int code = posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
                                                      POSIX_SPAWN_SETSIGDEF);
  if (code == 0)
    code = posix_spawnattr_setpgroup(attributes, 0);
  if (code == 0)
    code = posix_spawnattr_setsigmask(attributes, &signals->before);
  return code == 0 ? posix_spawnattr_setsigdefault(attributes, &signals->defaults) : code;
}

static int set_actions(posix_spawn_file_actions_t *actions, bool foreground) {
#ifdef HAVE_SPAWN_TCSETPGRP
  return foreground ? posix_spawn_file_actions_addtcsetpgrp_np(actions, STDIN_FILENO) : 0;
#else
  (void)actions;
  (void)foreground;
  return 0;
#endif
}

/* 0, or an errno value. */
static int spawn(const struct start *start, pid_t *pid) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  if (cleat__fault_point() || posix_spawn_file_actions_init(&actions) != 0)
    return ENOMEM;
  if (posix_spawnattr_init(&attributes) != 0) {
    posix_spawn_file_actions_destroy(&actions);
    return ENOMEM;
  }
  int code = set_actions(&actions, start->foreground);
  if (code == 0)
    code = set_attributes(&attributes, start->signals);
  if (code == 0)
    code = posix_spawn(pid, start->path, &actions, &attributes, start->words, start->environment);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return code;
}

/* As execvp: what is executable and no known format is a script of the shell's. */
static int spawn_by_shell(const struct start *start, pid_t *pid) {
  static char shell[] = "/bin/sh";
  size_t count = count_words(start->words);
  char **words = cleat__calloc(count + 2, sizeof *words);
  if (!words)
    return ENOMEM;
  words[0] = shell;
  words[1] = start->path;
  memcpy(words + 2, start->words + 1, (count - 1) * sizeof *words);
  struct start by_shell = *start;
  by_shell.path = shell;
  by_shell.words = words;
  int code = spawn(&by_shell, pid);
  cleat__free(words);
  return code;
}

static int spawn_somehow(struct start *start, pid_t *pid) {
  int code = spawn(start, pid);
  /* The terminal may have hung up since it was looked at: the training need not end for that. */
  if (start->foreground && (code == ENOTTY || code == EIO || code == EPERM || code == EINVAL)) {
    start->foreground = false;
    code = spawn(start, pid);
  }
  return code == ENOEXEC ? spawn_by_shell(start, pid) : code;
}

static cleat_status fail(const struct start *start, int code, struct cleat_error *err) {
  if (code == E2BIG) {
    (void)cleat__error_errno(err, code, "the command %s cannot be started", start->path);
    cleat__error_hint(err, "its arguments and the environment are too long together");
    return err->status = CLEAT_LIMIT;
  }
  if (code == ENOENT) {
    (void)cleat__error_set(err, CLEAT_NOT_FOUND,
                           "the command %s cannot be started: it is gone, or the interpreter that "
                           "it names does not exist",
                           start->path);
    cleat__error_hint(err, "see its first line after \"#!\"; or the dynamic loader, by file(1)");
    return err->status;
  }
  return cleat__error_errno(err, code, "the command %s cannot be started", start->path);
}

static cleat_status start_at(struct cleat__run_command *command, struct start *start,
                             struct cleat_error *err) {
  pid_t pid = 0;
  pid_t owner = tcgetpgrp(STDIN_FILENO); /* below 0: no terminal, or not ours */
  start->foreground = owner >= 0 && owner == getpgrp();
  int code = spawn_somehow(start, &pid);
  if (code != 0)
    return fail(start, code, err);
  *command = (struct cleat__run_command){.pid = pid, .terminal = owner >= 0};
#ifndef HAVE_SPAWN_TCSETPGRP
  /* It may have read from the terminal by now and been stopped: cleat__run_command_reap continues it. */
  give_terminal(command);
#endif
  return CLEAT_OK;
}

cleat_status cleat__run_command_start(struct cleat__run_command *command, char *const *argv,
                                      char *const *additions,
                                      const struct cleat__run_signals *signals,
                                      struct cleat_error *err) {
  static char *const none[] = {NULL};
  /* posix_spawn takes what it does not change as not const. */
  struct start start = {.words = (char **)(uintptr_t)argv, .signals = signals};
  cleat_status status = cleat__run_command_locate(argv[0], &start.path, err);
  if (status)
    return status;
  /* Without it orphans go to a process that may not wait for them; that is no reason not to train. */
  (void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  start.environment = make_environment(additions ? additions : none);
  status = start.environment ? start_at(command, &start, err)
                             : cleat__error_no_memory(err, "the command's environment");
  cleat__free(start.environment);
  cleat__free(start.path);
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
  /* Else what is stopped would learn of it when someone continues it. */
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
  (void)cleat__run_signals_stop_self(false); /* whoever sent it has seen to our group */
  go_on(command);
}

void cleat__run_command_signal(struct cleat__run_command *command, int signo) {
  if (signo == SIGTSTP) {
    stop_all(command);
  } else if (signo == SIGCONT) {
    go_on(command);
  } else if (is_alive(command)) {
    (void)kill(command->pid, signo);
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
  /* It asked for the terminal just before it got it. */
  bool asked = signo != SIGTSTP;
  if (asked && tcgetpgrp(STDIN_FILENO) == command->pid) {
    go_on(command);
    return;
  }
  take_terminal(command);
  /* In an orphaned group in the background it would only ask again, and again: there it stays
   * stopped until someone sends SIGCONT. */
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
    /* At once: later another group may have the number. */
    (void)cleat__run_command_group_left(command);
  }
}

void cleat__run_command_reap(struct cleat__run_command *command) {
  for (;;) {
    int status;
    pid_t pid = waitpid(-1, &status, WNOHANG | WUNTRACED | WCONTINUED | __WNOTHREAD);
    if (pid < 0 && errno == EINTR)
      continue;
    if (pid <= 0)
      return;
    if (pid == command->pid && !command->ended)
      note(command, status);
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
