/* test_s3_credentials_process.c: storage/aws/credentials_process.c: how a command line is split,
 * and programs that hang, print garbage or megabytes, fail, or leave children behind. */
#include "storage/aws/provider.h"

#include "base/mem.h"
#include "tests/mock/key_script.h"
#include "tests/mock/run_suite.h"
#include "tests/mock/scratch.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define FILES "the shared AWS files"
#define GOOD                                                                       \
  "{\"Version\":1,\"AccessKeyId\":\"tool\",\"SecretAccessKey\":\"hidden-secret\"," \
  "\"SessionToken\":\"hidden-token\",\"Expiration\":\"2026-10-14T18:46:40Z\"}"

/* A script below the home folder becomes the default profile's program. */
static void use_script(const char *script) {
  char config[1024];
  snprintf(config, sizeof config, "[default]\ncredential_process = sh \"%s\" --password hidden\n",
           key_write("a tool.sh", script));
  key_write(".aws/config", config);
}

static int64_t now_ms(void) {
  const struct cleat__clock *clock = cleat__clock_system();
  return clock->monotonic_ms(clock->ctx);
}

/* The children write their process ids into a file; all must be gone. */
static void expect_gone(const char *name) {
  FILE *file = fopen(scratch_path(name), "r");
  long pid = 0;
  ck_assert_ptr_nonnull(file);
  while (fscanf(file, "%ld", &pid) == 1) { // NOLINT(cert-err34-c): our own shell wrote it
    int64_t until = now_ms() + 2000;
    while (kill((pid_t)pid, 0) == 0 && now_ms() < until)
      (void)cleat__clock_system()->wait_ms(NULL, 10, NULL);
    ck_assert_msg(kill((pid_t)pid, 0) != 0 && errno == ESRCH, "process %ld lives", pid);
  }
  fclose(file);
}

START_TEST(command_lines) {
  static const struct {
    const char *line;
    const char *words; /* joined by '|'; NULL: refused */
  } cases[] = {
      {"a", "a"},
      {"  a\tb  ", "a|b"},
      {"\"a b\" 'c d'", "a b|c d"},
      {"a\\ b c", "a b|c"},
      {"a'b'\"c\"d", "abcd"},
      {"'' \"\"", "|"},
      {"'a\\b' \"a\\b\" \"a\\\"b\" \"a\\\\b\" a\\\\b", "a\\b|a\\b|a\"b|a\\b|a\\b"},
      {"a $HOME `id` ; rm * | x > y && z #c", "a|$HOME|`id`|;|rm|*|||x|>|y|&&|z|#c"},
      {"C\\:x", "C:x"},
      {"'a", NULL},
      {"\"a", NULL},
      {"a\\", NULL},
      {"\"a\\\"", NULL},
      {"", NULL},
      {"   ", NULL},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char **words = NULL;
    cleat_status status = cleat__s3_split_command(cases[i].line, &words, &err);
    ck_assert_msg((status == CLEAT_OK) == (cases[i].words != NULL), "%s", cases[i].line);
    char joined[256] = "";
    for (char **word = words; word != NULL && *word != NULL; word++)
      snprintf(joined + strlen(joined), sizeof joined - strlen(joined), "%s%s", word == words ? "" : "|", *word);
    if (cases[i].words != NULL)
      ck_assert_str_eq(joined, cases[i].words);
    cleat__free(words);
  }
}
END_TEST

START_TEST(a_program) {
  use_script("echo 'hidden on stderr' >&2\ncat\ncat <<'END'\n" GOOD "\nEND\n");
  ck_ok(key_get());
  key_expect("tool", FILES, KEY_NOW_S + 3600);
}
END_TEST

/* Its own group, no signal blocked or ignored, none of our files. */
START_TEST(what_a_program_is_given) {
  int ours = dup(0);
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  signal(SIGPIPE, SIG_IGN);
  use_script("test \"$(cut -d' ' -f5 /proc/$$/stat)\" -eq $$ || exit 3\n"
             "grep -q '^SigIgn:.*0000000$' /proc/self/status || exit 5\n"
             "test $(ls /proc/$$/fd | wc -l) -le 5 || exit 6\n"
             "test \"$#\" = 2 || exit 7\n"
             "cat <<'END'\n" GOOD "\nEND\n");
  ck_ok(key_get());
  /* Without a shell, which clears its mask by itself. */
  key_write("mask.awk", "/^SigBlk:[^1-9a-f]*$/ { good = 1 }\n"
                        "END { q = \"\\042\"\n"
                        "  print \"{\" q \"Version\" q \":1,\" q \"AccessKeyId\" q \":\" q \"i\" q\n"
                        "  if (good) print \",\" q \"SecretAccessKey\" q \":\" q \"s\" q \"}\" }\n");
  char config[1024];
  snprintf(config, sizeof config, "[default]\ncredential_process = awk -f %s /proc/self/status\n",
           scratch_path("mask.awk"));
  key_write(".aws/config", config);
  ck_ok(key_get());
  signal(SIGPIPE, SIG_DFL);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  close(ours);
}
END_TEST

START_TEST(programs_that_fail) {
  static const struct {
    const char *script;
    const char *word;
  } cases[] = {
      {"echo '" GOOD "'; exit 3\n", "exit status 3"},
      {"kill -9 $$\n", "signal 9"},
      {"exit 0\n", "not a valid document with keys"},
      {"echo hidden\n", "not a valid document with keys"},
      {"echo '<html>hidden</html>'\n", "not a valid document with keys"},
      {"head -c 65537 /dev/zero\n", "more than 65536 bytes"},
      {"head -c 50000000 /dev/zero\n", "more than 65536 bytes"},
      {"yes hidden\n", "more than 65536 bytes"},
  };
  use_script(cases[_i].script);
  key_fails(key_get(), CLEAT_DENIED, cases[_i].word);
  ck_assert_int_eq(err.retryable, 0);
}
END_TEST

START_TEST(programs_that_are_not_there) {
  key_write(".aws/config", "[default]\ncredential_process = /no/such/tool --password hidden\n");
  key_fails(key_get(), CLEAT_DENIED, "/no/such/tool cannot be started");
  key_write(".aws/config", "[default]\ncredential_process = \"\"\n");
  key_fails(key_get(), CLEAT_DENIED, "cannot be started");
}
END_TEST

/* It and its children, with and without output, at the time limit. */
START_TEST(programs_that_hang) {
  static const char *const scripts[] = {
      "echo $$ >pids; sleep 100 & echo $! >>pids; sleep 100\n",
      "trap '' TERM INT HUP; echo $$ >pids; echo '" GOOD "'; sleep 100 & echo $! >>pids; wait\n",
      "echo $$ >pids; exec >&-; sleep 100 & echo $! >>pids; wait\n",
  };
  ck_assert_int_eq(chdir(scratch_path(".")), 0);
  use_script(scripts[_i]);
  keys_of.options.process_ms = 400;
  int64_t before = now_ms();
  key_fails(key_get(), CLEAT_TIMEOUT, "took too long");
  ck_assert_int_lt(now_ms() - before, 3000);
  ck_assert_int_eq(err.retryable, 1);
  expect_gone("pids");
}
END_TEST

/* A child that stays, as an agent does, does not hold up the keys. */
START_TEST(a_program_that_leaves_a_child) {
  ck_assert_int_eq(chdir(scratch_path(".")), 0);
  use_script("sleep 3 & echo '" GOOD "'\n");
  int64_t before = now_ms();
  ck_ok(key_get());
  ck_assert_int_lt(now_ms() - before, 2000);
}
END_TEST

static atomic_bool cancelled;

static void *cancel_soon(void *arg) {
  (void)arg;
  (void)cleat__clock_system()->wait_ms(NULL, 200, NULL);
  atomic_store(&cancelled, true);
  return NULL;
}

START_TEST(a_program_is_cancelled) {
  pthread_t thread;
  atomic_store(&cancelled, false);
  ck_assert_int_eq(chdir(scratch_path(".")), 0);
  use_script("echo $$ >pids; sleep 100\n");
  ck_ok(cleat__s3_credentials_new(&keys_of.options, &keys_of.chain, &err));
  ck_assert_int_eq(pthread_create(&thread, NULL, cancel_soon, NULL), 0);
  int64_t before = now_ms();
  key_fails(cleat__s3_credentials_get(keys_of.chain, &keys_of.keys, cleat__call(&cancelled, &err)), CLEAT_CANCELLED,
            "cancelled");
  ck_assert_int_lt(now_ms() - before, 2000);
  pthread_join(thread, NULL);
  expect_gone("pids");
}
END_TEST

/* The program that Cleat is part of may let the system take its children away. */
START_TEST(children_that_are_taken_away) {
  signal(SIGCHLD, SIG_IGN);
  use_script("echo '" GOOD "'\n");
  ck_ok(key_get());
  key_expect("tool", FILES, KEY_NOW_S + 3600);
  signal(SIGCHLD, SIG_DFL);
}
END_TEST

START_TEST(no_files_are_left_open) {
  use_script("echo '" GOOD "'\n");
  ck_ok(key_get());
  unsigned before = scratch_fds();
  ck_ok(key_get());
  use_script("yes\n");
  (void)key_get();
  ck_assert_uint_eq(scratch_fds(), before);
}
END_TEST

START_TEST(memory_runs_out) {
  use_script("echo '" GOOD "'\n");
  key_out_of_memory(10);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("all", key_script_setup, key_script_teardown, 60),
    TEST(command_lines, 1),
    TEST(a_program, 1),
    TEST(what_a_program_is_given, 1),
    TEST(programs_that_fail, 8),
    TEST(programs_that_are_not_there, 1),
    TEST(programs_that_hang, 3),
    TEST(a_program_that_leaves_a_child, 1),
    TEST(a_program_is_cancelled, 1),
    TEST(children_that_are_taken_away, 1),
    TEST(no_files_are_left_open, 1),
    TEST(memory_runs_out, 1),
};

int main(void) {
  return run_table("s3_credentials_process", tests, COUNT(tests));
}
