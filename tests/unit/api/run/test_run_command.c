/* test_run_command.c: api/run/command.h without a terminal: what a name means, what a command is
 * started with, signals to it and to its group, its end, orphans, and the children of others. What
 * has to do with a terminal is in test_run_terminal.c. */
#include "api/run/command.h"

#include "storage/aws/provider.h"
#include "tests/mock/each_fault.h"
#include "tests/mock/run_suite.h"
#include "tests/mock/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

/* A test that waits longer waits in vain. */
#define PATIENCE_MS 30000

static struct cleat_error err;
static struct cleat__run_signals signals;
static struct cleat__run_command command;
static char *path_before;

static int64_t now_ms(void) {
  const struct cleat__clock *clock = cleat__clock_system();
  return clock->monotonic_ms(clock->ctx);
}

static void setup(void) {
  const char *path = getenv("PATH");
  path_before = strdup(path != NULL ? path : "");
  scratch_make();
  ck_assert_int_eq(chdir(scratch_path(".")), 0);
  command = (struct cleat__run_command){0};
  must(cleat__run_signals_open(&signals, &err));
}

static void teardown(void) {
  int signo;
  cleat__run_command_kill_group(&command, SIGKILL);
  (void)cleat__run_command_close(&command, true);
  while (cleat__run_signals_read(&signals, &signo)) {
  }
  cleat__run_signals_close(&signals);
  pthread_sigmask(SIG_SETMASK, &signals.before, NULL);
  signal(SIGPIPE, SIG_DFL);
  signal(SIGXFSZ, SIG_DFL);
  prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0);
  setenv("PATH", path_before, 1);
  free(path_before);
  ck_assert_int_eq(chdir("/"), 0);
  scratch_remove();
}

/* ---- Helpers ---- */

static cleat_status try_start(char *const *argv, char *const *additions) {
  cleat_status status = cleat__run_command_prepare(&command, argv, &signals, -1, &err);
  if (status == CLEAT_OK)
    status = cleat__run_command_make(&command, additions, &err);
  return status == CLEAT_OK ? cleat__run_command_start(&command, argv[0], &err) : status;
}

/* As if nothing had been started. */
static void forget(void) {
  (void)cleat__run_command_close(&command, true);
  command = (struct cleat__run_command){0};
}

static void start(char *const *argv, char *const *additions) {
  must(try_start(argv, additions));
  ck_assert_int_gt(command.pid, 0);
}

static void start_script(const char *script) {
  char sh[] = "sh", option[] = "-c", *text = strdup(script);
  char *const argv[] = {sh, option, text, NULL};
  start(argv, NULL);
  free(text);
}

/* What the loop does: waits for signals and ticks, and reaps. */
static void tick(void) {
  struct pollfd ready = {.fd = signals.fd, .events = POLLIN};
  int signo;
  (void)poll(&ready, 1, 10);
  while (cleat__run_signals_read(&signals, &signo))
    ck_assert_msg(signo == SIGCHLD || signo == SIGCONT, "signal %d", signo);
  cleat__run_command_reap(&command);
}

#define wait_until(condition)                                    \
  do {                                                           \
    int64_t until_ = now_ms() + PATIENCE_MS;                     \
    while (!(condition)) {                                       \
      ck_assert_msg(now_ms() < until_, "never: %s", #condition); \
      tick();                                                    \
    }                                                            \
  } while (0)

static int wait_end(void) {
  int exit_status = -1;
  wait_until(cleat__run_command_ended(&command, &exit_status));
  return exit_status;
}

static bool is_there(const char *name) {
  return access(scratch_path(name), F_OK) == 0;
}

static pid_t pid_in(const char *name) {
  return (pid_t)strtol(scratch_text(name), NULL, 10);
}

static bool is_gone(pid_t pid) {
  return kill(pid, 0) != 0 && errno == ESRCH;
}

/* The value of a set in /proc/self/status, which the command wrote to the file "status". */
static uint64_t mask_of(const char *name) {
  const char *found = strstr(scratch_text("status"), name);
  ck_assert_ptr_nonnull(found);
  return strtoull(found + strlen(name), NULL, 16);
}

static bool has(uint64_t mask, int signo) {
  return (mask >> (signo - 1) & 1) != 0;
}

/* ---- Names ---- */

START_TEST(names) {
  scratch_write("bin/tool", "#!/bin/sh\n", 10);
  scratch_write("bin/text", "text\n", 5);
  scratch_write("more/text", "#!/bin/sh\n", 10);
  scratch_write("here", "#!/bin/sh\n", 10);
  scratch_write("bin/folder/file", "", 0);
  ck_assert_int_eq(chmod("bin/tool", 0755) | chmod("more/text", 0755) | chmod("here", 0755), 0);
  static const struct {
    const char *path; /* NULL: none */
    const char *name;
    cleat_status wanted;
  } cases[] = {
      {"/usr/bin:/bin", "sh", CLEAT_OK},
      {NULL, "sh", CLEAT_OK},
      {"", "sh", CLEAT_NOT_FOUND},
      {"bin", "tool", CLEAT_OK},
      {"bin", "./tool", CLEAT_NOT_FOUND},
      {"bin", "bin/tool", CLEAT_OK},
      {"bin", "text", CLEAT_DENIED},
      {"bin:more", "text", CLEAT_OK},
      {"bin:nowhere", "text", CLEAT_DENIED},
      {"bin", "bin/text", CLEAT_DENIED},
      {"bin", "folder", CLEAT_DENIED},
      {"bin", "bin/folder", CLEAT_DENIED},
      {"bin", "/", CLEAT_DENIED},
      {"bin", "bin/tool/x", CLEAT_NOT_FOUND},
      {"bin:", "here", CLEAT_OK},
      {":bin", "here", CLEAT_OK},
      {"bin::more", "here", CLEAT_OK},
      {"bin", "here", CLEAT_NOT_FOUND},
      {"bin", "", CLEAT_NOT_FOUND},
      {"bin/tool", "tool", CLEAT_NOT_FOUND},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    if (cases[i].path)
      setenv("PATH", cases[i].path, 1);
    else
      unsetenv("PATH");
    cleat__error_clear(&err);
    cleat_status status = cleat__run_command_find(cases[i].name, &err);
    ck_assert_msg(status == cases[i].wanted, "case %zu: %d %s", i, status, err.message);
    /* Starting it says the same. */
    char *name = strdup(cases[i].name);
    char *const argv[] = {name, NULL};
    status = try_start(argv, NULL);
    ck_assert_msg(status == cases[i].wanted, "case %zu: %d %s", i, status, err.message);
    ck_assert_int_eq(command.pid > 0, status == CLEAT_OK);
    if (!status) {
      cleat__run_command_kill_group(&command, SIGKILL);
      (void)wait_end();
    }
    forget();
    free(name);
  }
}
END_TEST

START_TEST(exit_statuses_of_errors) {
  cleat__error_set(&err, CLEAT_NOT_FOUND, "x");
  ck_assert_int_eq(cleat__run_command_error_status(&err), 127);
  cleat__error_set(&err, CLEAT_DENIED, "x");
  ck_assert_int_eq(cleat__run_command_error_status(&err), 126);
  cleat__error_set(&err, CLEAT_NO_MEMORY, "x");
  ck_assert_int_eq(cleat__run_command_error_status(&err), 1);
}
END_TEST

START_TEST(scripts_without_an_interpreter_line) {
  static const char script[] = "echo \"$0 $1 $2\" >told\nexit 4\n";
  scratch_write("plain", script, sizeof script - 1);
  ck_assert_int_eq(chmod("plain", 0755), 0);
  char name[] = "./plain", one[] = "a b", two[] = "c";
  char *const argv[] = {name, one, two, NULL};
  start(argv, NULL);
  ck_assert_int_eq(wait_end(), 4);
  ck_assert_str_eq(scratch_text("told"), "./plain a b c\n");
}
END_TEST

START_TEST(scripts_with_an_interpreter_that_is_not_there) {
  scratch_write("script", "#!/no/such/python\n", 18);
  ck_assert_int_eq(chmod("script", 0755), 0);
  char name[] = "./script";
  char *const argv[] = {name, NULL};
  must_fail(CLEAT_NOT_FOUND, try_start(argv, NULL));
  ck_assert_int_eq(command.pid, 0);
}
END_TEST

/* ---- What it is started with ---- */

START_TEST(environment) {
  setenv("CLEAT_KEPT", "kept", 1);
  setenv("CLEAT_OLD", "old", 1);
  setenv("CLEAT_OLDER", "older", 1);
  char old[] = "CLEAT_OLD=new=1", fresh[] = "CLEAT_NEW=", sh[] = "sh", option[] = "-c";
  char script[] = "tr '\\0' '\\n' </proc/$$/environ >env";
  char *const additions[] = {old, fresh, NULL};
  char *const argv[] = {sh, option, script, NULL};
  start(argv, additions);
  ck_assert_int_eq(wait_end(), 0);
  const char *told = scratch_text("env");
  ck_assert_ptr_nonnull(strstr(told, "CLEAT_KEPT=kept\n"));
  ck_assert_ptr_nonnull(strstr(told, "CLEAT_NEW=\n"));
  ck_assert_ptr_nonnull(strstr(told, "CLEAT_OLD=new=1\n"));
  ck_assert_ptr_nonnull(strstr(told, "CLEAT_OLDER=older\n"));
  ck_assert_ptr_null(strstr(told, "CLEAT_OLD=old\n"));
  ck_assert_str_eq(getenv("CLEAT_OLD"), "old");
}
END_TEST

/* A group of its own, the mask and the dispositions as they were, none of our descriptors. */
START_TEST(what_it_is_given) {
  signal(SIGXFSZ, SIG_IGN); /* as main() does */
  int ours = open("/dev/null", O_RDONLY | O_CLOEXEC);
  start_script("cat /proc/self/status >status; cut -d' ' -f5 /proc/$$/stat >group\n"
               "ls -l /proc/$$/fd >fds; pwd -P >folder");
  ck_assert_int_eq(wait_end(), 0);
  close(ours);
  ck_assert_int_eq(pid_in("group"), command.pid);
  ck_assert_uint_eq(mask_of("SigBlk:"), 0);
  uint64_t ignored = mask_of("SigIgn:");
  ck_assert(!has(ignored, SIGPIPE) && !has(ignored, SIGXFSZ) && !has(ignored, SIGCHLD));
  ck_assert_ptr_null(strstr(scratch_text("fds"), "signalfd"));
  char folder[4096];
  ck_assert_ptr_nonnull(realpath(scratch_path("."), folder));
  ck_assert_int_eq(strncmp(scratch_text("folder"), folder, strlen(folder)), 0);
}
END_TEST

/* nohup: what is ignored at the start is so for the command, and is not forwarded. */
START_TEST(what_is_ignored_stays_ignored) {
  cleat__run_signals_close(&signals);
  pthread_sigmask(SIG_SETMASK, &signals.before, NULL);
  signal(SIGHUP, SIG_IGN);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGCHLD, SIG_IGN);
  must(cleat__run_signals_open(&signals, &err));
  ck_assert_int_eq(kill(getpid(), SIGHUP), 0);
  int signo = 0;
  ck_assert(!cleat__run_signals_read(&signals, &signo));
  start_script("cat /proc/self/status >status; exit 3");
  ck_assert_int_eq(wait_end(), 3);
  ck_assert(has(mask_of("SigIgn:"), SIGHUP));
  ck_assert(has(mask_of("SigIgn:"), SIGPIPE));
  signal(SIGHUP, SIG_DFL);
}
END_TEST

START_TEST(too_long) {
  static char huge[256 * 1024]; /* one string may have 128 KiB */
  memset(huge, 'x', sizeof huge - 1);
  char name[] = "true";
  char *const argv[] = {name, huge, NULL};
  must_fail(CLEAT_LIMIT, try_start(argv, NULL));
}
END_TEST

START_TEST(memory_runs_out) {
  char name[] = "true", addition[] = "A=b";
  char *const argv[] = {name, NULL};
  char *const additions[] = {addition, NULL};
  struct each_fault fault = {0};
  while (each_fault_next(&fault)) {
    cleat_status status = try_start(argv, additions);
    bool started = command.pid > 0;
    if (started)
      ck_assert_int_eq(wait_end(), 0);
    forget();
    bool failed = each_fault_over(&fault);
    ck_assert_int_eq(status, failed ? CLEAT_NO_MEMORY : CLEAT_OK);
    ck_assert_int_eq(started, !failed);
  }
  ck_assert_uint_gt(fault.n, 2);
}
END_TEST

/* ---- Ends ---- */

START_TEST(ends) {
  static const struct {
    const char *script;
    int exit_status;
    int signal;
  } cases[] = {
      {"exit 0", 0, 0},
      {"exit 7", 7, 0},
      {"exit 255", 255, 0},
      {"kill -TERM $$", 143, SIGTERM},
      {"kill -KILL $$", 137, SIGKILL},
      {"ulimit -c 0; kill -SEGV $$", 139, SIGSEGV},
  };
  int exit_status = -1;
  start_script(cases[_i].script);
  ck_assert_int_eq(wait_end(), cases[_i].exit_status);
  ck_assert_int_eq(cleat__run_command_end_signal(&command), cases[_i].signal);
  ck_assert(!cleat__run_command_group_left(&command));
  /* Asked again it says the same, and nothing is sent to whoever has the number now. */
  cleat__run_command_reap(&command);
  cleat__run_command_signal(&command, SIGTERM);
  cleat__run_command_kill_group(&command, SIGTERM);
  ck_assert(cleat__run_command_ended(&command, &exit_status));
  ck_assert_int_eq(exit_status, cases[_i].exit_status);
}
END_TEST

START_TEST(before_the_start) {
  int exit_status = 5;
  ck_assert(!cleat__run_command_ended(&command, &exit_status));
  ck_assert_int_eq(exit_status, 5);
  ck_assert(!cleat__run_command_group_left(&command));
  cleat__run_command_reap(&command);
  cleat__run_command_signal(&command, SIGTERM); /* not to process group 0, which is ours */
  cleat__run_command_signal(&command, SIGCONT);
  cleat__run_command_kill_group(&command, SIGTERM);
  int signo;
  ck_assert(!cleat__run_signals_read(&signals, &signo));
}
END_TEST

START_TEST(still_running) {
  int exit_status = 5;
  start_script("while ! test -e go; do sleep 0.01; done; exit 6");
  cleat__run_command_reap(&command);
  ck_assert(!cleat__run_command_ended(&command, &exit_status));
  ck_assert_int_eq(cleat__run_command_end_signal(&command), 0);
  ck_assert(cleat__run_command_group_left(&command));
  scratch_write("go", "", 0);
  ck_assert_int_eq(wait_end(), 6);
}
END_TEST

/* ---- Signals ---- */

START_TEST(signals_are_read) {
  static const int all[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT};
  int signo = 0;
  struct sigaction action;
  ck_assert_int_ne(fcntl(signals.fd, F_GETFD) & FD_CLOEXEC, 0);
  ck_assert_int_eq(sigaction(SIGPIPE, NULL, &action), 0);
  ck_assert(action.sa_handler == SIG_IGN);
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
    ck_assert_int_eq(kill(getpid(), all[i]), 0);
    ck_assert(cleat__run_signals_read(&signals, &signo));
    ck_assert_int_eq(signo, all[i]);
    ck_assert(!cleat__run_signals_read(&signals, &signo));
  }
}
END_TEST

/* The worker has no handler and lives on. */
START_TEST(a_signal_goes_to_the_command_alone) {
  start_script("trap 'echo usr1 >told' USR1; trap 'echo term >>told; kill $worker; exit 9' TERM\n"
               "sleep 1000 & worker=$!; echo $worker >worker.new; mv worker.new worker\n"
               "while :; do wait $worker; done");
  wait_until(is_there("worker"));
  cleat__run_command_signal(&command, SIGUSR1);
  wait_until(strcmp(scratch_text("told"), "usr1\n") == 0);
  ck_assert_int_eq(kill(pid_in("worker"), 0), 0);
  cleat__run_command_signal(&command, SIGTERM);
  ck_assert_int_eq(wait_end(), 9);
  ck_assert_str_eq(scratch_text("told"), "usr1\nterm\n");
}
END_TEST

START_TEST(a_group_that_is_left_behind) {
  start_script("trap '' HUP; sleep 1000 & echo $! >worker; exit 5");
  ck_assert_int_eq(wait_end(), 5);
  pid_t worker = pid_in("worker");
  ck_assert(cleat__run_command_group_left(&command));
  cleat__run_command_signal(&command, SIGTERM); /* for the command, which is no more */
  ck_assert_int_eq(kill(worker, 0), 0);
  cleat__run_command_kill_group(&command, SIGTERM);
  wait_until(!cleat__run_command_group_left(&command));
  ck_assert(is_gone(worker));
}
END_TEST

START_TEST(what_does_not_listen_is_killed) {
  start_script("trap '' TERM; (trap '' TERM; while :; do sleep 0.01; done) & echo $! >worker\n"
               "while :; do sleep 0.01; done");
  wait_until(is_there("worker") && pid_in("worker") > 0);
  cleat__run_command_signal(&command, SIGTERM);
  cleat__run_command_kill_group(&command, SIGTERM);
  for (int i = 0; i < 5; i++)
    tick();
  ck_assert(!command.ended);
  cleat__run_command_kill_group(&command, SIGKILL);
  ck_assert_int_eq(wait_end(), 137);
  wait_until(!cleat__run_command_group_left(&command));
}
END_TEST

/* Not by a terminal: nobody but the command is stopped, and a SIGTERM still ends it. */
START_TEST(a_command_that_is_stopped) {
  /* Without a fork meanwhile: a shell whose child is stopped before its exec cannot stop itself. */
  start_script("trap 'exit 8' TERM; sleep 1000 & echo >ready; while :; do wait; done");
  wait_until(is_there("ready"));
  cleat__run_command_kill_group(&command, SIGSTOP);
  wait_until(command.stopped);
  ck_assert(!command.ended);
  ck_assert(cleat__run_command_group_left(&command));
  cleat__run_command_kill_group(&command, SIGCONT);
  wait_until(!command.stopped);
  cleat__run_command_kill_group(&command, SIGSTOP);
  wait_until(command.stopped);
  cleat__run_command_signal(&command, SIGTERM);
  ck_assert_int_eq(wait_end(), 8);
}
END_TEST

/* ---- Orphans ---- */

/* The parent of the process that a file in /proc tells of; -1: there is none. */
static pid_t parent_in(const char *path) {
  int parent = -1;
  FILE *file = fopen(path, "r");
  if (file && fscanf(file, "%*d (%*[^)]) %*c %d", &parent) != 1) // NOLINT(cert-err34-c): the kernel's
    parent = -1;
  if (file)
    fclose(file);
  return parent;
}

/* In a session of their own, whose parents are gone: they come to the guard, and none stays a zombie. */
START_TEST(orphans_are_collected) {
  start_script("for i in 1 2 3 4 5 6 7 8; do\n"
               "  (setsid sh -c \"echo \\$\\$ >orphan.$i; until test -e go; do sleep 0.01; done\" &)\n"
               "done; until test -e orphan.8; do sleep 0.01; done; exit 0");
  ck_assert_int_eq(wait_end(), 0);
  char name[32], stat[64];
  for (int i = 1; i <= 8; i++) {
    snprintf(name, sizeof name, "orphan.%d", i);
    wait_until(pid_in(name) > 0);
    snprintf(stat, sizeof stat, "/proc/%d/stat", (int)pid_in(name));
    wait_until(parent_in(stat) == command.guard);
  }
  ck_assert(!cleat__run_command_group_left(&command));
  scratch_write("go", "", 0);
  for (int i = 1; i <= 8; i++) {
    snprintf(name, sizeof name, "orphan.%d", i);
    wait_until(is_gone(pid_in(name)));
  }
}
END_TEST

/* ---- The children of others ---- */

#define HELPER_THREADS 4
#define HELPER_CALLS 25

struct helper {
  pthread_t thread;
  unsigned number;
  unsigned stolen; /* calls that did not get the exit status */
  char message[2048];
};

static atomic_uint helpers_at_work;

/* The library's way of running a credential_process, on a thread that is not the first. */
static void *ask_for_keys(void *arg) {
  static const struct cleat__s3_settings settings = {.process_ms = 30000};
  const struct cleat__s3_search search = {.settings = &settings, .clock = cleat__clock_system()};
  struct helper *helper = arg;
  for (unsigned i = 0; i < HELPER_CALLS; i++) {
    struct cleat_error told;
    struct cleat__s3_credentials keys;
    char line[64], wanted[64];
    unsigned code = 1 + (helper->number * HELPER_CALLS + i) % 100;
    snprintf(line, sizeof line, "sh -c 'exit %u'", code);
    snprintf(wanted, sizeof wanted, "exit status %u", code);
    cleat__error_clear(&told);
    if (cleat__s3_from_process(&search, line, "here", &keys, &told) == CLEAT_DENIED && strstr(told.message, wanted))
      continue;
    helper->stolen++;
    snprintf(helper->message, sizeof helper->message, "%s", told.message);
  }
  atomic_fetch_sub(&helpers_at_work, 1);
  return NULL;
}

START_TEST(helpers_of_the_library_are_left_alone) {
  static struct helper helpers[HELPER_THREADS];
  atomic_store(&helpers_at_work, HELPER_THREADS);
  start_script("while ! test -e go; do (true & true &) ; done");
  for (unsigned i = 0; i < HELPER_THREADS; i++) {
    helpers[i] = (struct helper){.number = i};
    ck_assert_int_eq(pthread_create(&helpers[i].thread, NULL, ask_for_keys, &helpers[i]), 0);
  }
  /* Without a pause: a zombie of theirs is met sooner by us than by who started it. */
  while (atomic_load(&helpers_at_work) > 0)
    cleat__run_command_reap(&command);
  scratch_write("go", "", 0);
  ck_assert_int_eq(wait_end(), 0);
  for (unsigned i = 0; i < HELPER_THREADS; i++) {
    pthread_join(helpers[i].thread, NULL);
    ck_assert_msg(helpers[i].stolen == 0, "%u stolen: %s", helpers[i].stolen, helpers[i].message);
  }
}
END_TEST

START_TEST(no_descriptor_is_left_open) {
  start_script("exit 0");
  (void)wait_end();
  forget();
  unsigned before = scratch_fds();
  start_script("exit 0");
  (void)wait_end();
  forget();
  ck_assert_uint_eq(scratch_fds(), before);
  cleat__run_signals_close(&signals);
  cleat__run_signals_close(&signals);
  ck_assert_uint_eq(scratch_fds(), before - 1);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("all", setup, teardown, 120),
    TEST(names, 1),
    TEST(exit_statuses_of_errors, 1),
    TEST(scripts_without_an_interpreter_line, 1),
    TEST(scripts_with_an_interpreter_that_is_not_there, 1),
    TEST(environment, 1),
    TEST(what_it_is_given, 1),
    TEST(what_is_ignored_stays_ignored, 1),
    TEST(too_long, 1),
    TEST(memory_runs_out, 1),
    TEST(ends, 6),
    TEST(before_the_start, 1),
    TEST(still_running, 1),
    TEST(signals_are_read, 1),
    TEST(a_signal_goes_to_the_command_alone, 1),
    TEST(a_group_that_is_left_behind, 1),
    TEST(what_does_not_listen_is_killed, 1),
    TEST(a_command_that_is_stopped, 1),
    TEST(orphans_are_collected, 1),
    TEST(helpers_of_the_library_are_left_alone, 1),
    TEST(no_descriptor_is_left_open, 1),
};

int main(void) {
  return run_table("run_command", tests, COUNT(tests));
}
