/* test_run_terminal.c: api/run/command.h on a terminal: who has its foreground, Ctrl-C, Ctrl-Z, and a
 * start in the background. A child of the test plays the shell, as the leader of a session on a
 * pseudo-terminal; its child, in a group of its own, is the supervisor with the command. */
#include "api/run/command.h"

#include "base/clock.h"
#include "tests/mock/run_suite.h"

#include <check.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* A step that takes longer is taken in vain; the exit status then tells its line. */
#define PATIENCE_S 60
#define demand(condition)                                      \
  do {                                                         \
    if (!(condition)) {                                        \
      dprintf(2, "line %d: never %s\n", __LINE__, #condition); \
      _exit(99);                                               \
    }                                                          \
  } while (0)

/* ---- The supervisor: exits as the command did ---- */

static int told[2]; /* a pipe on which the command tells that it runs */

static void supervise(const char *script) {
  static struct cleat__run_signals signals;
  static struct cleat__run_command command;
  static struct cleat_error err;
  char sh[] = "sh", option[] = "-c", *text = strdup(script);
  char *const argv[] = {sh, option, text, NULL};
  int signo, exit_status = 0;
  bool was_foreground = tcgetpgrp(STDIN_FILENO) == getpgrp();
  alarm(PATIENCE_S);
  demand(cleat__run_signals_open(&signals, &err) == CLEAT_OK);
  demand(cleat__run_command_prepare(&command, argv, &signals, -1, &err) == CLEAT_OK);
  demand(cleat__run_command_make(&command, NULL, &err) == CLEAT_OK);
  demand(cleat__run_command_start(&command, sh, &err) == CLEAT_OK);
  demand(!was_foreground || command.ended || tcgetpgrp(STDIN_FILENO) == command.pid);
  while (!cleat__run_command_ended(&command, &exit_status)) {
    struct pollfd ready = {.fd = signals.fd, .events = POLLIN};
    (void)poll(&ready, 1, 10);
    while (cleat__run_signals_read(&signals, &signo))
      if (signo != SIGCHLD)
        cleat__run_command_signal(&command, signo);
    cleat__run_command_reap(&command);
  }
  demand(tcgetpgrp(STDIN_FILENO) == getpgrp());
  _exit(exit_status);
}

/* ---- The shell ---- */

static pid_t launch(const char *script, bool foreground) {
  int go[2];
  char byte = 0;
  demand(pipe2(go, O_CLOEXEC) == 0);
  pid_t pid = fork();
  demand(pid >= 0);
  if (pid == 0) {
    demand(read(go[0], &byte, 1) == 1);
    signal(SIGTTOU, SIG_DFL); /* the shell's alone */
    supervise(script);
  }
  demand(setpgid(pid, pid) == 0);
  if (foreground)
    demand(tcsetpgrp(STDIN_FILENO, pid) == 0);
  demand(write(go[1], &byte, 1) == 1);
  close(go[0]);
  close(go[1]);
  return pid;
}

/* The job stops: the shell has the terminal, and puts the job into the foreground again. */
static void wait_stop_and_go_on(pid_t pid) {
  int status = 0;
  demand(waitpid(pid, &status, WUNTRACED) == pid);
  demand(WIFSTOPPED(status));
  demand(tcsetpgrp(STDIN_FILENO, pid) == 0);
  demand(kill(-pid, SIGCONT) == 0);
}

static void wait_exit(pid_t pid, int wanted) {
  int status = 0;
  demand(waitpid(pid, &status, WUNTRACED) == pid);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != wanted)
    dprintf(2, "status %x, wanted exit status %d\n", (unsigned)status, wanted);
  demand(WIFEXITED(status) && WEXITSTATUS(status) == wanted);
  demand(tcgetpgrp(STDIN_FILENO) == pid); /* given back to whom it was given */
}

static int master;

/* The command writes a character when it runs; then someone types. */
static void type_when_told(const char *keys) {
  char byte;
  demand(read(told[0], &byte, 1) == 1);
  demand(write(master, keys, strlen(keys)) == (ssize_t)strlen(keys));
}

#define TELL "printf . >&%d; "

static void shell(int number) {
  char script[512];
  pid_t pid;
  signal(SIGTTOU, SIG_IGN);
  switch (number) {
  case 0: /* it reads, and ends by itself */
    snprintf(script, sizeof script, TELL "read line; test \"$line\" = abc && exit 6", told[1]);
    pid = launch(script, true);
    type_when_told("abc\n");
    wait_exit(pid, 6);
    break;
  case 1: /* Ctrl-C is the command's, not the supervisor's */
    snprintf(script, sizeof script, TELL "while :; do read line; done", told[1]);
    pid = launch(script, true);
    type_when_told("\003");
    wait_exit(pid, 130);
    break;
  case 2: /* Ctrl-Z stops both, and both go on */
    snprintf(script, sizeof script, TELL "read line; exit 7", told[1]);
    pid = launch(script, true);
    type_when_told("\032");
    wait_stop_and_go_on(pid);
    demand(write(master, "\n", 1) == 1);
    wait_exit(pid, 7);
    break;
  case 3: /* in the background it may not read: the job stops, and reads in the foreground */
    pid = launch("read line; exit 8", false);
    wait_stop_and_go_on(pid);
    demand(write(master, "\n", 1) == 1);
    wait_exit(pid, 8);
    break;
  case 4: /* nobody could continue the leader of a session: Ctrl-Z does nothing */
    demand((pid = fork()) >= 0);
    if (pid == 0) {
      type_when_told("\032");
      type_when_told("\n");
      _exit(0);
    }
    snprintf(script, sizeof script, "trap 'printf . >&%d' CONT; " TELL "while ! read line; do :; done; exit 0", told[1],
             told[1]);
    supervise(script);
    break;
  default:
    _exit(98);
  }
  _exit(0);
}

START_TEST(on_a_terminal) {
  master = posix_openpt(O_RDWR | O_NOCTTY);
  ck_assert_int_ge(master, 0);
  ck_assert_int_eq(grantpt(master) | unlockpt(master), 0);
  const char *name = ptsname(master);
  ck_assert_ptr_nonnull(name);
  ck_assert_int_eq(pipe(told), 0);
  pid_t pid = fork();
  ck_assert_int_ge(pid, 0);
  if (pid == 0) {
    alarm(PATIENCE_S);
    demand(setsid() > 0);
    int slave = open(name, O_RDWR); /* the session's terminal from now on */
    demand(slave >= 0 && dup2(slave, STDIN_FILENO) == STDIN_FILENO);
    shell(_i);
  }
  int status = 0;
  ck_assert_int_eq(waitpid(pid, &status, 0), pid);
  close(master);
  close(told[0]);
  close(told[1]);
  ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "case %d: %x", _i, (unsigned)status);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("all", NULL, NULL, 120),
    TEST(on_a_terminal, 5),
};

int main(void) {
  return run_table("run_terminal", tests, COUNT(tests));
}
