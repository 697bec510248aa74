/* fork_children.c: a program that forks while its client saves and loads; each child has a client of its own.
 *
 *   fork_children URL CHILDREN SEED
 *
 * Two threads save steps 1, 2, …, one loads step 0 again and again. Child n saves step FIRST_CHILD + n. Bytes follow
 * from the step (fill), so that a test can make them anew. A child that hangs is ended by its alarm. Prints "saved N":
 * the parent's last step. */
#include <cleat.h>

#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SIZE (6 << 20) /* two parts */
#define FIRST_CHILD 1000000
#define CHILD_SECONDS 60
#define NAP_MS_MAX 150
#define THREADS 3

static const int64_t shape = SIZE;
static struct cleat_client *client;
static atomic_bool enough;
static atomic_int last_step;

static void fail(const char *what, const struct cleat_error *err) {
  fprintf(stderr, "fork_children: %s: %s: %s\n", what, cleat_status_name(err->status), err->message);
  exit(1);
}

static void fill(unsigned char *data, int64_t step) {
  uint32_t factor = (uint32_t)(2 * step + 1);
  for (uint32_t i = 0; i < SIZE; i++)
    data[i] = (unsigned char)(i * factor + (i >> 8));
}

static struct cleat_client *open_client(const char *url) {
  struct cleat_client_options options = CLEAT_CLIENT_OPTIONS_INIT;
  struct cleat_client *opened = NULL;
  struct cleat_error err;
  options.part_bytes = 5u << 20;
  options.staging_bytes = 40u << 20;
  options.concurrency = 6;
  if (cleat_client_open(url, &options, &opened, &err) != CLEAT_OK)
    fail("open", &err);
  return opened;
}

static cleat_status save(struct cleat_client *by, int64_t step, const void *data, struct cleat_error *err) {
  struct cleat_tensor tensor = {"t", CLEAT_DTYPE_U8, 1, &shape, data};
  struct cleat_save_request request = CLEAT_SAVE_REQUEST_INIT;
  request.step = step;
  request.tensors = &tensor;
  request.tensor_count = 1;
  return cleat_save(by, &request, err);
}

static void save_step(struct cleat_client *by, int64_t step) {
  struct cleat_error err;
  unsigned char *data = malloc(SIZE);
  if (data == NULL)
    exit(1);
  fill(data, step);
  if (save(by, step, data, &err) != CLEAT_OK)
    fail("save", &err);
  free(data);
}

static void expect_step(struct cleat_client *by, int64_t step) {
  struct cleat_checkpoint *opened = NULL;
  struct cleat_error err;
  unsigned char *data = malloc(SIZE), *expected = malloc(SIZE);
  if (data == NULL || expected == NULL)
    exit(1);
  struct cleat_load_request wanted = {"t", CLEAT_DTYPE_U8, 1, &shape, NULL, data, SIZE};
  if (cleat_checkpoint_open(by, step, &opened, &err) != CLEAT_OK ||
      cleat_load_tensors(opened, &wanted, 1, NULL, &err) != CLEAT_OK)
    fail("load", &err);
  cleat_checkpoint_free(opened);
  fill(expected, step);
  if (memcmp(data, expected, SIZE) != 0) {
    fprintf(stderr, "fork_children: step %lld is not as it was saved\n", (long long)step);
    exit(1);
  }
  free(data);
  free(expected);
}

static void *keep_saving(void *unused) {
  while (!atomic_load(&enough))
    save_step(client, atomic_fetch_add(&last_step, 1) + 1);
  return unused;
}

static void *keep_loading(void *unused) {
  while (!atomic_load(&enough))
    expect_step(client, 0);
  return unused;
}

/* ---- A child ---------------------------------------------------------------------------------- */

/* How many connections this process has. */
static int connections(void) {
  int found = 0;
  DIR *dir = opendir("/proc/self/fd");
  for (struct dirent *entry = dir == NULL ? NULL : readdir(dir); entry != NULL; entry = readdir(dir)) {
    int domain = 0;
    socklen_t size = sizeof domain;
    int fd = (int)strtol(entry->d_name, NULL, 10);
    if (fd > 2 && getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 &&
        (domain == AF_INET || domain == AF_INET6))
      found++;
  }
  if (dir != NULL)
    closedir(dir);
  return found;
}

static void expect_refused(const char *what, cleat_status status) {
  if (status == CLEAT_UNSUPPORTED)
    return;
  fprintf(stderr, "fork_children: %s by the parent's client: %s\n", what, cleat_status_name(status));
  exit(1);
}

static void live_as_child(const char *url, int number) {
  struct cleat_error err;
  int64_t step = 0;
  int inherited = connections();
  if (inherited != 0) {
    fprintf(stderr, "fork_children: %d connections of the parent are open\n", inherited);
    exit(1);
  }
  expect_refused("save", save(client, FIRST_CHILD, "", &err));
  expect_refused("latest", cleat_latest(client, &step, &err));
  cleat_client_close(client);
  struct cleat_client *own = open_client(url);
  save_step(own, FIRST_CHILD + number);
  expect_step(own, FIRST_CHILD + number);
  expect_step(own, 0);
  cleat_client_close(own);
}

/* ---- The parent ------------------------------------------------------------------------------- */

/* It may be at anything then. */
static void nap(void) {
  struct timespec span = {0, (long)(rand() % NAP_MS_MAX) * 1000000};
  nanosleep(&span, NULL);
}

/* Whether the child ended as it should. */
static bool run_child(const char *url, int number) {
  int status = 0;
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    alarm(CHILD_SECONDS);
    live_as_child(url, number);
    exit(0);
  }
  if (child < 0 || waitpid(child, &status, 0) != child)
    return false;
  if (status != 0)
    fprintf(stderr, "fork_children: child %d: %s %d\n", number, WIFSIGNALED(status) ? "signal" : "exit status",
            WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
  return status == 0;
}

int main(int argc, char **argv) {
  pthread_t threads[THREADS];
  bool right = true;
  if (argc != 4) {
    fprintf(stderr, "usage: fork_children URL CHILDREN SEED\n");
    return 2;
  }
  srand((unsigned)strtoul(argv[3], NULL, 10));
  client = open_client(argv[1]);
  save_step(client, 0);
  for (int i = 0; i < THREADS; i++)
    if (pthread_create(&threads[i], NULL, i == 0 ? keep_loading : keep_saving, NULL) != 0)
      return 1;
  for (int number = 0; number < strtol(argv[2], NULL, 10) && right; number++) {
    nap();
    right = run_child(argv[1], number);
  }
  atomic_store(&enough, true);
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  cleat_client_close(client);
  printf("saved %d\n", atomic_load(&last_step));
  return right ? 0 : 1;
}
