/* http/pool.c: idle handles, and the thread that watches their connections. See http/pool.h.
 *
 * The lock guards the list and the epoll set, which holds exactly the sockets of the handles in the list. The lock
 * is held only for that, and never during a wait. A handle outside the list belongs to the thread that took it. */
#include "storage/http/pool.h"

#include "base/clock.h"
#include "base/fork.h"
#include "base/mem.h"
#include "base/mutex.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define EVENTS_MAX 16

struct cleat__http_pool {
  int64_t keep_ms;
  unsigned generation; /* of the process that made the pool: see base/fork.h */
  int epoll;
  int wake; /* an eventfd in the epoll set; data NULL */
  bool watched;
  pthread_t watcher;
  struct {
    pthread_mutex_t lock;
    /* The newest first: its connection is the least likely to be closed. */
    struct cleat__http_handle *idle;
    bool used;   /* a handle was used since the watcher last checked the ages */
    bool asleep; /* the watcher checks nothing until it is woken */
    bool ending;
  } synced;
};

static int64_t now_ms(void) {
  const struct cleat__clock *clock = cleat__clock_system();
  return clock->monotonic_ms(clock->ctx);
}

/* ---- handles ---- */

/* libcurl and its TLS library have locks: see base/fork.h. */
CURL *cleat__http_curl_new(void) {
  if (cleat__fault_point())
    return NULL;
  cleat__fork_hold();
  CURL *curl = curl_easy_init();
  cleat__fork_release();
  return curl;
}

void cleat__http_side_close(struct cleat__http_side *side) {
  cleat__fork_hold();
  curl_easy_cleanup(side->curl);
  cleat__fork_release();
  side->curl = NULL;
}

/* The multi handle is freed last: it closes the connection and updates the sockets of a side. */
void cleat__http_handle_free(struct cleat__http_handle *handle) {
  cleat__http_side_close(&handle->sides[0]);
  cleat__http_side_close(&handle->sides[1]);
  cleat__fork_hold();
  curl_multi_cleanup(handle->multi);
  cleat__fork_release();
  cleat__free(handle);
}

static struct cleat__http_handle *make_handle(void) {
  struct cleat__http_handle *handle = cleat__calloc(1, sizeof *handle);
  if (handle == NULL)
    return NULL;
  handle->multi = cleat__fault_point() ? NULL : curl_multi_init();
  handle->sides[0].curl = cleat__http_curl_new();
  if (handle->multi == NULL || handle->sides[0].curl == NULL ||
      curl_multi_setopt(handle->multi, CURLMOPT_MAXCONNECTS, 2L) != CURLM_OK) {
    cleat__http_handle_free(handle);
    return NULL;
  }
  return handle;
}

static void free_all(struct cleat__http_handle *handle) {
  while (handle != NULL) {
    struct cleat__http_handle *next = handle->next;
    cleat__http_handle_free(handle);
    handle = next;
  }
}

/* ---- the list, and what the watcher waits for ---- */

static void wake(struct cleat__http_pool *pool) {
  uint64_t one = 1;
  while (write(pool->wake, &one, sizeof one) < 0 && errno == EINTR)
    continue;
}

/* Adds or removes all sockets of the handle. Incoming bytes are not waited for, because TLS tickets come on idle
 * connections too. Sockets are removed explicitly, because a forked child may hold the same sockets and keep closed
 * ones in the set. */
static void watch_locked(struct cleat__http_pool *pool, struct cleat__http_handle *handle, int op) {
  assert(cleat__mutex_is_mine(&pool->synced.lock));
  for (int i = 0; i < 2 && pool->watched; i++) {
    const struct cleat__http_sockets *sockets = &handle->sides[i].sockets;
    for (size_t j = 0; j < sockets->count; j++) {
      struct epoll_event event = {.events = EPOLLRDHUP | EPOLLONESHOT, .data.ptr = handle};
      (void)epoll_ctl(pool->epoll, op, sockets->open[j].fd, &event);
    }
  }
}

struct cleat__http_handle *cleat__http_pool_take(struct cleat__http_pool *pool) {
  cleat__mutex_lock(&pool->synced.lock);
  struct cleat__http_handle *handle = pool->synced.idle;
  if (handle != NULL) {
    pool->synced.idle = handle->next;
    watch_locked(pool, handle, EPOLL_CTL_DEL);
  }
  cleat__mutex_unlock(&pool->synced.lock);
  return handle != NULL ? handle : make_handle();
}

void cleat__http_pool_give(struct cleat__http_pool *pool, struct cleat__http_handle *handle) {
  /* the other side was closed */
  assert(handle->sides[handle->main].curl != NULL && handle->sides[1 - handle->main].curl == NULL);
  if (pool->keep_ms < 0) {
    cleat__http_handle_free(handle);
    return;
  }
  handle->idle_ms = now_ms();
  cleat__mutex_lock(&pool->synced.lock);
  handle->next = pool->synced.idle;
  pool->synced.idle = handle;
  watch_locked(pool, handle, EPOLL_CTL_ADD);
  bool asleep = pool->synced.asleep;
  pool->synced.asleep = false;
  pool->synced.used = true;
  cleat__mutex_unlock(&pool->synced.lock);
  if (asleep)
    wake(pool);
}

/* ---- the watcher ---- */

/* Moves a handle to the list of those to free, if it is still idle. It may have been lent since the event, or may be
 * another handle at the same address. The worst case is a sound connection that is closed. */
static void drop_locked(struct cleat__http_pool *pool, const void *which, struct cleat__http_handle **dead) {
  assert(cleat__mutex_is_mine(&pool->synced.lock));
  struct cleat__http_handle **at = &pool->synced.idle;
  while (*at != NULL && *at != which)
    at = &(*at)->next;
  struct cleat__http_handle *handle = *at;
  if (handle == NULL)
    return;
  *at = handle->next;
  watch_locked(pool, handle, EPOLL_CTL_DEL);
  handle->next = *dead;
  *dead = handle;
}

static void drop_old_locked(struct cleat__http_pool *pool, struct cleat__http_handle **dead) {
  assert(cleat__mutex_is_mine(&pool->synced.lock));
  int64_t now = now_ms();
  struct cleat__http_handle *next = NULL;
  for (struct cleat__http_handle *handle = pool->synced.idle; handle != NULL; handle = next) {
    next = handle->next;
    if (now - handle->idle_ms >= pool->keep_ms)
      drop_locked(pool, handle, dead);
  }
}

/* Collects the handles to close. Returns how long to wait next; forever if no handle can expire. */
static int check_calls(struct cleat__http_pool *pool, const struct epoll_event *events, int count,
                       struct cleat__http_handle **dead, bool *ending) {
  cleat__mutex_lock(&pool->synced.lock);
  for (int i = 0; i < count; i++) {
    if (events[i].data.ptr != NULL)
      drop_locked(pool, events[i].data.ptr, dead);
  }
  drop_old_locked(pool, dead);
  pool->synced.asleep = pool->synced.idle == NULL && !pool->synced.used;
  pool->synced.used = false;
  *ending = pool->synced.ending;
  int64_t wait_ms = pool->synced.asleep ? -1 : pool->keep_ms;
  cleat__mutex_unlock(&pool->synced.lock);
  return (int)wait_ms;
}

static void *watcher_main(void *arg) {
  struct cleat__http_pool *pool = arg;
  int wait_ms = -1;
  bool ending = false;
  while (!ending) {
    struct epoll_event events[EVENTS_MAX];
    struct cleat__http_handle *dead = NULL;
    uint64_t woken = 0;
    int count = epoll_wait(pool->epoll, events, EVENTS_MAX, wait_ms);
    assert(count <= EVENTS_MAX);
    (void)!read(pool->wake, &woken, sizeof woken);
    wait_ms = check_calls(pool, events, count, &dead, &ending);
    free_all(dead);
  }
  return NULL;
}

/* ---- the pool ---- */

/* Returns 0 or an errno value. The watcher blocks all signals, so that the threads of the program handle them. TLS
 * may raise SIGPIPE here, which nobody needs. */
static int start_watcher(struct cleat__http_pool *pool) {
  struct epoll_event event = {.events = EPOLLIN};
  sigset_t all, before;
  cleat__fork_hold();
  pool->epoll = epoll_create1(EPOLL_CLOEXEC);
  pool->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  cleat__fork_close_in_child(pool->epoll);
  cleat__fork_close_in_child(pool->wake);
  cleat__fork_release();
  if (pool->epoll < 0 || pool->wake < 0 || epoll_ctl(pool->epoll, EPOLL_CTL_ADD, pool->wake, &event) != 0)
    return errno;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int failure = cleat__fault_point() ? EAGAIN : pthread_create(&pool->watcher, NULL, watcher_main, pool);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pool->watched = failure == 0;
  return failure;
}

cleat_status cleat__http_pool_new(int64_t keep_ms, struct cleat__http_pool **pool, struct cleat_error *err) {
  cleat_status status = cleat__fork_watch(err);
  if (status != CLEAT_OK)
    return status;
  struct cleat__http_pool *made = cleat__calloc(1, sizeof *made);
  if (made == NULL)
    return cleat__error_no_memory(err, "the HTTP client");
  made->keep_ms = keep_ms != 0 ? keep_ms : CLEAT__HTTP_KEEP_MS;
  made->generation = cleat__fork_generation();
  made->epoll = made->wake = -1;
  made->synced.asleep = true;
  cleat__mutex_init(&made->synced.lock);
  int failure = keep_ms < 0 ? 0 : start_watcher(made);
  if (failure != 0) {
    cleat__http_pool_free(made);
    return cleat__error_errno(err, failure, "start the HTTP client's thread");
  }
  *pool = made;
  return CLEAT_OK;
}

static void close_inner(int fd) {
  if (fd < 0)
    return;
  cleat__fork_hold();
  cleat__fork_keep_in_child(fd);
  close(fd);
  cleat__fork_release();
}

void cleat__http_pool_free(struct cleat__http_pool *pool) {
  if (pool == NULL || !cleat__fork_is_ours(pool->generation))
    return;
  if (pool->watched) {
    cleat__mutex_lock(&pool->synced.lock);
    pool->synced.ending = true;
    cleat__mutex_unlock(&pool->synced.lock);
    wake(pool);
    pthread_join(pool->watcher, NULL);
  }
  free_all(pool->synced.idle);
  close_inner(pool->epoll);
  close_inner(pool->wake);
  cleat__mutex_destroy(&pool->synced.lock);
  cleat__free(pool);
}
