/* test_fork_locks.c: base/fork.c and storage/file/lock.c: a forked child does not keep the locks of its parent, nor
 * what else it must not; and takes none from it.
 *
 * The parent is a process of its own, so that it can be killed while its child lives. */
#include "base/fork.h"
#include "storage/file/file.h"

#include "tests/mock/run_suite.h"
#include "tests/mock/scratch.h"
#include "tests/mock/store_check.h"

#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define SIZE 10000u
/* Far above what a test takes: a process that is left ends by itself. */
#define SECONDS_MAX 120u

static struct cleat_error err;
static struct cleat__store *store;

/* What the processes of a test have in common. */
static struct shared {
  struct cleat__upload upload;
  int lock;
} * shared;

static void setup(void) {
  scratch_make();
  store = scratch_store("root");
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ck_assert_ptr_ne(shared, MAP_FAILED);
  memset(shared, 0, sizeof *shared);
}

static void teardown(void) {
  munmap(shared, sizeof *shared);
  cleat__store_close(store);
  scratch_remove();
}

static void begin_upload(void) {
  memset(&shared->upload, 0, sizeof shared->upload);
  snprintf(shared->upload.key, sizeof shared->upload.key, "folder/object");
  shared->upload.size = SIZE;
  shared->upload.part_bytes = SIZE;
  if (cleat__store_multipart_create(store, &shared->upload, NULL, cleat__call(&scratch_go_on, &err)) != CLEAT_OK)
    _exit(1);
}

/* The lock on the names of a folder, as one has it who replaces an object. */
static void lock_names(void) {
  int folder = open(scratch_path("root"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  shared->lock = cleat__file_lock_open(folder, CLEAT__FILE_LOCK_NAME, O_RDWR | O_CREAT);
  if (shared->lock < 0 || flock(shared->lock, LOCK_EX | LOCK_NB) != 0)
    _exit(1);
}

/* Tells, and lives until it is killed. */
static void linger(int to, pid_t child) {
  if (write(to, &child, sizeof child) != sizeof child)
    _exit(1);
  for (;;)
    pause();
}

struct family {
  pid_t parent;
  pid_t child;
};

/* A parent that takes something and then forks a child; both live. */
static struct family start_family(void (*take)(void)) {
  struct family family = {0};
  int told[2];
  ck_assert_int_eq(pipe2(told, O_CLOEXEC), 0);
  family.parent = fork();
  ck_assert_int_ge(family.parent, 0);
  if (family.parent == 0) {
    signal(SIGALRM, SIG_DFL);
    alarm(SECONDS_MAX);
    if (mkdir(scratch_path("root"), 0777) != 0 || cleat__fork_watch(&err) != CLEAT_OK)
      _exit(1);
    take();
    if (fork() == 0) {
      alarm(SECONDS_MAX);
      linger(told[1], getpid());
    }
    for (;;)
      pause();
  }
  close(told[1]);
  ck_assert_int_eq(read(told[0], &family.child, sizeof family.child), sizeof family.child);
  close(told[0]);
  return family;
}

static void kill_parent(const struct family *family) {
  int status = 0;
  ck_assert_int_eq(kill(family->parent, SIGKILL), 0);
  ck_assert_int_eq(waitpid(family->parent, &status, 0), family->parent);
}

/* It is init's by now, or of whoever takes orphans here. */
static void kill_child(const struct family *family) {
  ck_assert_int_eq(kill(family->child, 0), 0);
  ck_assert_int_eq(kill(family->child, SIGKILL), 0);
}

static bool is_held(void) {
  bool held = false;
  uint64_t size = 0;
  ck_ok(cleat__store_multipart_held(store, shared->upload.key, shared->upload.id, &held, &size, &err));
  ck_assert_uint_eq(size, SIZE);
  return held;
}

START_TEST(a_child_does_not_keep_an_upload_alive) {
  struct family family = start_family(begin_upload);
  ck_assert(is_held()); /* the child has closed its descriptor, and the parent's lock stands */
  ck_fails(CLEAT_LOST, cleat__store_multipart_adopt(store, &shared->upload, cleat__call(&scratch_go_on, &err)));
  kill_parent(&family);
  ck_assert(!is_held());
  ck_ok(cleat__store_multipart_adopt(store, &shared->upload, cleat__call(&scratch_go_on, &err)));
  kill_child(&family);
}
END_TEST

START_TEST(a_child_does_not_keep_names_locked) {
  struct family family = start_family(lock_names);
  int folder = open(scratch_path("root"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  ck_assert_int_ge(folder, 0);
  ck_assert(!cleat__file_drop_lock(folder, true));
  kill_parent(&family);
  ck_assert(cleat__file_drop_lock(folder, false));
  kill_child(&family);
  close(folder);
}
END_TEST

static bool is_open(int fd) {
  return fcntl(fd, F_GETFD) >= 0;
}

/* Those that were taken back are somebody else's by now. */
START_TEST(only_what_is_registered_is_closed) {
  int fds[3];
  int status = 1;
  ck_ok(cleat__fork_watch(&err));
  for (int i = 0; i < 3; i++) {
    fds[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    ck_assert_int_ge(fds[i], 0);
  }
  cleat__fork_close_in_child(fds[0]);
  cleat__fork_close_in_child(fds[1]);
  cleat__fork_keep_in_child(fds[1]);
  cleat__fork_close_in_child(-1);
  cleat__fork_close_in_child(1 << 30);
  pid_t child = fork();
  if (child == 0) {
    bool right = !is_open(fds[0]) && is_open(fds[1]) && is_open(fds[2]);
    int again = open("/dev/null", O_RDONLY | O_CLOEXEC); /* the first one's number */
    pid_t grandchild = fork();
    if (grandchild == 0)
      _exit(is_open(again) ? 0 : 1);
    right = right && again == fds[0] && waitpid(grandchild, &status, 0) == grandchild;
    _exit(right && status == 0 ? 0 : 1);
  }
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  ck_assert_int_eq(status, 0);
  cleat__fork_keep_in_child(fds[0]);
  for (int i = 0; i < 3; i++)
    ck_assert_int_eq(close(fds[i]), 0);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("fork_locks", setup, teardown, 120),
    TEST(a_child_does_not_keep_an_upload_alive, 1),
    TEST(a_child_does_not_keep_names_locked, 1),
    TEST(only_what_is_registered_is_closed, 1),
};

int main(void) {
  return run_table("fork_locks", tests, COUNT(tests));
}
