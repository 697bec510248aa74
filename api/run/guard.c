/* guard.c: the guard's life: orders, children, and ending all processes. See guard.h.
 *
 * One thread. Nothing here allocates memory. The guard must work when memory has run out, because that is when the
 * kernel kills `cleat run`. */
#include "api/run/guard.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
  /* checks again for children after SIGKILL; only those that hang in the kernel are still there */
  AGAIN_MS = 1000,
  /* how many descriptors to close one by one, if the kernel cannot close a range */
  DESCRIPTORS_MAX = 65536
};

struct guard {
  struct cleat__run_guard_plan *plan;
  struct cleat__run_guard_child child;
  int signals; /* a signalfd of SIGCHLD */
  DIR *proc;   /* NULL: /proc is not available */
  bool started, ended, group_gone;
  bool abandoned;   /* `cleat run` is gone */
  bool told_rest;   /* SIGTERM was sent to the command's leftover processes */
  int early_status; /* the wait status of the command's process if it ended before it was started */
  long long deadline_ms;
};

static long long now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- Descriptors ------------------------------------------------------------------------------------- */

static int close_range_of(unsigned first, unsigned last) {
#ifdef SYS_close_range
  return (int)syscall(SYS_close_range, first, last, 0);
#else
  (void)first;
  (void)last;
  return -1;
#endif
}

static void close_between(int above, int below) {
  if (below - above < 2 || close_range_of((unsigned)above + 1, (unsigned)below - 1) == 0)
    return;
  int limit = below < DESCRIPTORS_MAX ? below : DESCRIPTORS_MAX;
  for (int fd = above + 1; fd < limit; fd++)
    close(fd);
}

static int ascending(const void *a, const void *b) {
  return *(const int *)a - *(const int *)b;
}

/* Closes all other descriptors. A pipe that the guard held would stay open after the command's end. So would a
 * terminal, or a deleted file. */
static void let_go(struct guard *guard) {
  int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int fd = 0; fd < 3; fd++)
    if (null < 0 || dup2(null, fd) < 0)
      close(fd);
  int kept[] = {2, guard->plan->link, guard->plan->keep < 0 ? 2 : guard->plan->keep, guard->signals};
  qsort(kept, sizeof kept / sizeof kept[0], sizeof kept[0], ascending);
  for (size_t i = 0; i + 1 < sizeof kept / sizeof kept[0]; i++)
    close_between(kept[i], kept[i + 1]);
  close_between(kept[sizeof kept / sizeof kept[0] - 1], INT_MAX);
  guard->proc = opendir("/proc"); /* open it now, while there is memory for it */
}

/* ---- The environment ----------------------------------------------------------------------------------- */

static bool same_name(const char *a, const char *b) {
  size_t length = strcspn(a, "=");
  return strncmp(a, b, length) == 0 && b[length] == '=';
}

static void add(char **environment, char *addition) {
  size_t kept = 0;
  for (size_t i = 0; environment[i]; i++)
    if (!same_name(addition, environment[i]))
      environment[kept++] = environment[i];
  environment[kept] = addition;
  environment[kept + 1] = NULL;
}

/* ---- Children ---------------------------------------------------------------------------------------------- */

static void answer(const struct guard *guard, const struct cleat__run_guard_reply *reply) {
  ssize_t sent;
  do
    sent = send(guard->plan->link, reply, sizeof *reply, MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
}

static void note(struct guard *guard, int status) {
  guard->ended = !WIFSTOPPED(status) && !WIFCONTINUED(status);
  if (guard->ended) /* check at once: another group may get the number later */
    guard->group_gone = kill(-guard->child.pid, 0) != 0 && errno == ESRCH;
  answer(guard, &(struct cleat__run_guard_reply){.kind = CLEAT__RUN_GUARD_CHANGED,
                                                 .pid = guard->child.pid,
                                                 .wait_status = status,
                                                 .group_gone = guard->group_gone});
}

/* Reports the command's changes, and reaps orphans. False: there is no child. */
static bool reap(struct guard *guard) {
  for (;;) {
    int status;
    pid_t pid = waitpid(-1, &status, WNOHANG | WUNTRACED | WCONTINUED);
    if (pid < 0 && errno == EINTR)
      continue;
    if (pid <= 0)
      return pid == 0;
    if (pid != guard->child.pid || guard->ended)
      continue;
    if (guard->started)
      note(guard, status);
    else if (!WIFSTOPPED(status) && !WIFCONTINUED(status)) {
      guard->ended = true; /* reported when the start is ordered */
      guard->early_status = status;
    }
  }
}

/* ---- Orders ---------------------------------------------------------------------------------------------- */

static void make(struct guard *guard, struct cleat__run_guard_request *request) {
  char *text = request->additions;
  for (unsigned i = 0; i < request->count; i++) {
    add(guard->plan->environment, text);
    text += strlen(text) + 1;
  }
  int code = cleat__run_guard_child_make(guard->plan, request->foreground, &guard->child);
  answer(guard, &(struct cleat__run_guard_reply){.kind = CLEAT__RUN_GUARD_MADE, .pid = guard->child.pid, .code = code});
}

static void start_child(struct guard *guard) {
  int code = cleat__run_guard_child_go(&guard->child);
  guard->started = code == 0;
  if (code != 0) {
    (void)waitpid(guard->child.pid, NULL, 0);
    guard->child.pid = 0;
  }
  let_go(guard);
  answer(guard,
         &(struct cleat__run_guard_reply){.kind = CLEAT__RUN_GUARD_STARTED, .pid = guard->child.pid, .code = code});
  if (guard->ended)
    note(guard, guard->early_status);
}

static void hear(struct guard *guard) {
  /* static, because the environment points to the texts of MAKE; the fork copies them */
  static struct cleat__run_guard_request request;
  ssize_t got = recv(guard->plan->link, &request, sizeof request, MSG_DONTWAIT);
  if (got < 0 && (errno == EINTR || errno == EAGAIN))
    return;
  if (got != (ssize_t)sizeof request)
    guard->abandoned = true;
  else if (request.kind == CLEAT__RUN_GUARD_LEAVE)
    _exit(0);
  else if (request.kind == CLEAT__RUN_GUARD_MAKE && guard->child.pid == 0)
    make(guard, &request);
  else if (request.kind == CLEAT__RUN_GUARD_GO && guard->child.pid != 0 && !guard->started)
    start_child(guard);
}

/* ---- Ending all processes ------------------------------------------------------------------------------------ */

/* Reads the parent and the group of a process. False: `name` is not a process, or the process is gone. */
static bool read_process(const struct guard *guard, const char *name, int *parent, int *group) {
  char path[64], text[512], state;
  snprintf(path, sizeof path, "%.20s/stat", name);
  int fd = openat(dirfd(guard->proc), path, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return false;
  ssize_t got = read(fd, text, sizeof text - 1);
  close(fd);
  if (got <= 0)
    return false;
  text[got] = '\0';
  const char *rest = strrchr(text, ')'); /* the name may contain spaces and brackets */
  return rest && sscanf(rest + 1, " %c %d %d", &state, parent, group) == 3; // NOLINT(cert-err34-c)
}

/* Signals our children outside the command's group. Their numbers cannot be reused meanwhile: a dead child stays a
 * zombie until we reap it. When a child ends, its own children become ours. */
static void signal_children(const struct guard *guard, int signo) {
  if (!guard->proc)
    return;
  rewinddir(guard->proc);
  for (const struct dirent *entry; (entry = readdir(guard->proc)) != NULL;) {
    int parent, group;
    if (entry->d_name[0] < '1' || entry->d_name[0] > '9' || !read_process(guard, entry->d_name, &parent, &group))
      continue;
    if (parent == getpid() && (group != guard->child.pid || guard->group_gone))
      (void)kill((pid_t)strtol(entry->d_name, NULL, 10), signo);
  }
}

static void signal_all(struct guard *guard, int signo) {
  if (guard->child.pid > 0 && !guard->group_gone && kill(-guard->child.pid, signo) != 0)
    guard->group_gone = guard->ended && errno == ESRCH;
  signal_children(guard, signo);
}

/* Ends all processes in steps: first SIGTERM to the command alone, then SIGTERM to its leftovers once it has ended, and
 * SIGKILL to all at the deadline. Stopped processes are also continued, because they would not act on the signal
 * otherwise. */
static void end_all(struct guard *guard) {
  if (guard->deadline_ms == 0) {
    guard->deadline_ms = now_ms() + (guard->started ? CLEAT__RUN_GUARD_GRACE_MS : 0);
    if (guard->started && !guard->ended) {
      (void)kill(guard->child.pid, SIGTERM);
      signal_all(guard, SIGCONT);
    }
  }
  if (now_ms() >= guard->deadline_ms) {
    signal_all(guard, SIGKILL);
  } else if (guard->ended && !guard->told_rest) {
    guard->told_rest = true;
    signal_all(guard, SIGTERM);
    signal_all(guard, SIGCONT);
  }
}

/* ---- The loop ------------------------------------------------------------------------------------------------- */

static int timeout_ms(const struct guard *guard) {
  if (!guard->abandoned)
    return -1;
  long long left_ms = guard->deadline_ms - now_ms();
  return left_ms > 0 ? (int)left_ms : AGAIN_MS;
}

static void wait_for_something(struct guard *guard) {
  struct signalfd_siginfo info;
  struct pollfd fds[] = {{.fd = guard->signals, .events = POLLIN},
                         {.fd = guard->abandoned ? -1 : guard->plan->link, .events = POLLIN}};
  (void)poll(fds, 2, timeout_ms(guard));
  while (read(guard->signals, &info, sizeof info) > 0) {
  }
}

_Noreturn void cleat__run_guard(struct cleat__run_guard_plan *plan) {
  struct guard guard = {.plan = plan};
  sigset_t all, children;
  sigfillset(&all);
  (void)sigprocmask(SIG_SETMASK, &all, NULL);
  sigemptyset(&children);
  sigaddset(&children, SIGCHLD);
  /* so that kill -9 of a shell's job, which signals its whole group, misses the guard */
  (void)setpgid(0, 0);
  /* Not "cleat": `killall cleat` must not kill the guard, which has to end the command then. */
  (void)prctl(PR_SET_NAME, "run-guard", 0, 0, 0);
  (void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  guard.signals = signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK);
  if (guard.signals < 0)
    _exit(1);
  for (;;) {
    bool children_left = reap(&guard);
    if (!guard.abandoned)
      hear(&guard);
    if (guard.abandoned && !children_left)
      _exit(0);
    if (guard.abandoned)
      end_all(&guard);
    wait_for_something(&guard);
  }
}
