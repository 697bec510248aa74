/* test_http_idle.c: storage/http/pool.c: connections between requests. Those that the other side closes, those that
 * nobody uses, and what children of this process have of them. What there is, the kernel says: /proc/self/net/tcp. */
#include "storage/http/http.h"

#include "tests/mock/http_fixture.h"
#include "tests/mock/run_suite.h"

#include <check.h>
#include <dirent.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 4
#define PATIENCE_MS 30000 /* what has not happened then does not happen */

/* ---- connections, as the kernel knows them ---- */

#define ROWS_MAX 64

struct rows {
  unsigned long inodes[ROWS_MAX];
  unsigned count;
};

/* Ours to the server of the test: their sockets are open in this process. */
static struct rows our_connections(void) {
  static const unsigned established = 1, close_wait = 8;
  unsigned wanted = (unsigned)strtoul(strrchr(mock_server_url(web.server), ':') + 1, NULL, 10);
  struct rows rows = {.count = 0};
  char line[512];
  FILE *file = fopen("/proc/self/net/tcp", "r");
  ck_assert_ptr_nonnull(file);
  while (fgets(line, sizeof line, file) != NULL) {
    unsigned port = 0, state = 0;
    unsigned long inode = 0;
    // NOLINTBEGIN(cert-err34-c): the kernel's
    int got = sscanf(line, " %*u: %*x:%*x %*x:%x %x %*s %*s %*s %*u %*u %lu", &port, &state, &inode);
    // NOLINTEND(cert-err34-c)
    if (got == 3 && port == wanted && inode != 0 && (state == established || state == close_wait)) {
      ck_assert_uint_lt(rows.count, ROWS_MAX);
      rows.inodes[rows.count++] = inode;
    }
  }
  fclose(file);
  return rows;
}

static void wait_for_connections(unsigned count) {
  const struct cleat__clock *clock = cleat__clock_system();
  int64_t until_ms = clock->monotonic_ms(clock->ctx) + PATIENCE_MS;
  while (our_connections().count != count && clock->monotonic_ms(clock->ctx) < until_ms)
    clock->wait_ms(clock->ctx, 5, NULL);
  ck_assert_uint_eq(our_connections().count, count);
}

/* ---- a server that hangs up when it is told to ---- */

static atomic_uint hang_up; /* connections up to this one */
static pthread_barrier_t all_are_in;

static bool answer_and_wait(void *ctx, const struct mock_request *request) {
  const struct cleat__clock *clock = cleat__clock_system();
  atomic_bool *together = ctx;
  if (together != NULL && atomic_load(together))
    pthread_barrier_wait(&all_are_in); /* each on a connection of its own */
  mock_write(request->fd, web_ok_reply, strlen(web_ok_reply));
  if (together == NULL || !atomic_load(together))
    return true;
  while (atomic_load(&hang_up) < request->connection && !mock_server_stopping(web.server))
    clock->wait_ms(clock->ctx, 2, NULL);
  return false;
}

static void begin(atomic_bool *together, int64_t keep_ms) {
  struct cleat_error err;
  struct cleat__http_options options = {.keep_ms = keep_ms};
  atomic_store(&hang_up, 0);
  web_start(answer_and_wait, together, MOCK_WHOLE);
  cleat__http_free(web.http);
  ck_assert_int_eq(cleat__http_new(&options, &web.http, &err), CLEAT_OK);
}

static void *send_one(void *arg) {
  struct cleat__http_reply reply;
  struct cleat__http_request request = web_request("GET");
  cleat__http_reply_init(&reply);
  *(enum cleat__transport *)arg = cleat__http_send(web.http, &request, &reply);
  cleat__http_reply_clear(&reply);
  return NULL;
}

static void send_together(void) {
  pthread_t threads[THREADS];
  enum cleat__transport transports[THREADS];
  pthread_barrier_init(&all_are_in, NULL, THREADS);
  for (int i = 0; i < THREADS; i++)
    ck_assert_int_eq(pthread_create(&threads[i], NULL, send_one, &transports[i]), 0);
  for (int i = 0; i < THREADS; i++) {
    pthread_join(threads[i], NULL);
    ck_assert_int_eq(transports[i], CLEAT__TRANSPORT_OK);
  }
  pthread_barrier_destroy(&all_are_in);
}

/* ---- closing ---- */

/* Between two saves nobody sends anything, and still none is left in CLOSE_WAIT. */
START_TEST(what_the_server_has_closed_is_closed) {
  atomic_bool together = true;
  begin(&together, 0);
  send_together();
  wait_for_connections(THREADS);
  atomic_store(&hang_up, 1);
  wait_for_connections(THREADS - 1);
  atomic_store(&hang_up, THREADS);
  wait_for_connections(0);
  /* The client is as good as before. */
  atomic_store(&together, false);
  struct cleat__http_request request = web_request("GET");
  ck_assert_int_eq(web_send(&request), CLEAT__TRANSPORT_OK);
  wait_for_connections(1);
  ck_assert_int_eq(web_send(&request), CLEAT__TRANSPORT_OK);
  ck_assert_uint_eq(mock_server_connections(web.server), THREADS + 1);
  web_stop();
}
END_TEST

START_TEST(what_nobody_uses_is_closed) {
  begin(NULL, 50);
  struct cleat__http_request request = web_request("GET");
  for (unsigned i = 1; i <= 3; i++) {
    ck_assert_int_eq(web_send(&request), CLEAT__TRANSPORT_OK);
    wait_for_connections(0);
    ck_assert_uint_eq(mock_server_connections(web.server), i);
  }
  web_stop();
}
END_TEST

START_TEST(nothing_is_kept) {
  begin(NULL, -1);
  struct cleat__http_request request = web_request("GET");
  ck_assert_int_eq(web_send(&request), CLEAT__TRANSPORT_OK);
  ck_assert_uint_eq(our_connections().count, 0);
  web_stop();
}
END_TEST

/* Threads take handles while the server closes what they are about to take. */
static bool hang_up_at_times(void *ctx, const struct mock_request *request) {
  (void)ctx;
  mock_write(request->fd, web_ok_reply, strlen(web_ok_reply));
  return request->number % 3 != 0;
}

static void *send_many(void *arg) {
  struct cleat__http_reply reply;
  struct cleat__http_request request = web_request("GET");
  unsigned *wrong = arg;
  cleat__http_reply_init(&reply);
  for (int i = 0; i < 60; i++) {
    enum cleat__transport transport = cleat__http_send(web.http, &request, &reply);
    bool met_the_end = transport == CLEAT__TRANSPORT_BROKEN;
    *wrong += transport != CLEAT__TRANSPORT_OK && !met_the_end;
  }
  cleat__http_reply_clear(&reply);
  return NULL;
}

START_TEST(closing_meets_taking) {
  pthread_t threads[THREADS];
  unsigned wrong[THREADS] = {0};
  web_start(hang_up_at_times, NULL, MOCK_WHOLE);
  for (int i = 0; i < THREADS; i++)
    ck_assert_int_eq(pthread_create(&threads[i], NULL, send_many, &wrong[i]), 0);
  for (int i = 0; i < THREADS; i++) {
    pthread_join(threads[i], NULL);
    ck_assert_uint_eq(wrong[i], 0);
  }
  web_stop();
}
END_TEST

/* ---- children ---- */

/* Prints what a program that is started now finds open. */
static void list_of_a_child(char *text, size_t size) {
  extern char **environ;
  char *words[] = {"/bin/ls", "-l", "/proc/self/fd", NULL};
  posix_spawn_file_actions_t actions;
  pid_t pid = 0;
  int ends[2], status = 0;
  size_t used = 0;
  ck_assert_int_eq(pipe(ends), 0);
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  ck_assert_int_eq(posix_spawn(&pid, words[0], &actions, NULL, words, environ), 0);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  for (ssize_t got = 1; got > 0 && used<size - 1; used += got> 0 ? (size_t)got : 0)
    got = read(ends[0], text + used, size - 1 - used);
  text[used] = '\0';
  close(ends[0]);
  ck_assert_int_eq(waitpid(pid, &status, 0), pid);
  ck_assert_int_eq(status, 0);
}

START_TEST(programs_that_are_started_inherit_none) {
  static char listed[65536];
  char name[64];
  begin(NULL, 0);
  struct cleat__http_request request = web_request("GET");
  ck_assert_int_eq(web_send(&request), CLEAT__TRANSPORT_OK);
  struct rows rows = our_connections();
  ck_assert_uint_eq(rows.count, 1);
  list_of_a_child(listed, sizeof listed);
  ck_assert_ptr_nonnull(strstr(listed, "socket:[")); /* the server's own */
  snprintf(name, sizeof name, "socket:[%lu]", rows.inodes[0]);
  ck_assert_msg(strstr(listed, name) == NULL, "%s", listed);
  web_stop();
}
END_TEST

static unsigned count_open(void) {
  unsigned count = 0;
  DIR *folder = opendir("/proc/self/fd");
  ck_assert_ptr_nonnull(folder);
  while (readdir(folder) != NULL)
    count++;
  closedir(folder);
  return count;
}

/* It has the connections of its parent, and not the thread. */
START_TEST(a_forked_child_leaves_them_alone) {
  int status = 0;
  begin(NULL, 0);
  struct cleat__http_request request = web_request("GET");
  ck_assert_int_eq(web_send(&request), CLEAT__TRANSPORT_OK);
  pid_t pid = fork();
  ck_assert_int_ge(pid, 0);
  if (pid == 0) {
    alarm(30);
    unsigned before = count_open();
    cleat__http_free(web.http);
    _exit(count_open() == before ? 0 : 1);
  }
  ck_assert_int_eq(waitpid(pid, &status, 0), pid);
  ck_assert_int_eq(status, 0);
  ck_assert_int_eq(web_send(&request), CLEAT__TRANSPORT_OK);
  ck_assert_uint_eq(mock_server_connections(web.server), 1);
  web_stop();
}
END_TEST

static const struct suite_row tests[] = {
    CASE("http_idle", NULL, NULL, 200),
    TEST(what_the_server_has_closed_is_closed, 1),
    TEST(what_nobody_uses_is_closed, 1),
    TEST(nothing_is_kept, 1),
    TEST(closing_meets_taking, 1),
    TEST(programs_that_are_started_inherit_none, 1),
    TEST(a_forked_child_leaves_them_alone, 1),
};

int main(void) {
  return run_table("http_idle", tests, COUNT(tests));
}
