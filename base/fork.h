/* fork.h: which process this is, as far as forks tell.
 *
 * A forked child has the memory of its parent and none of its threads: locks may be held for ever, and structures
 * half changed. What has threads or locks keeps the generation of the process that made it, and is left alone in any
 * other. fork() counts; vfork(), posix_spawn() and a bare clone() do not: they are for an exec.
 *
 * All functions are thread-safe, and safe in a child. */
#ifndef CLEAT_BASE_FORK_H
#define CLEAT_BASE_FORK_H

#include "base/error.h"

#include <stdbool.h>

/* Begins to count forks, once for the process. Call it before anything takes its generation. Error: NO_MEMORY. */
cleat_status cleat__fork_watch(struct cleat_error *err);

/* Differs between a process and all those that it came from by fork(). */
unsigned cleat__fork_generation(void);

/* Whether something of that generation was made in this process. */
bool cleat__fork_is_ours(unsigned generation);

/* UNSUPPORTED, with words: `what` ("the client") was opened before fork(). Returns err->status. */
cleat_status cleat__fork_refuse(const char *what, struct cleat_error *err);

/* Keeps memory of the parent that cannot be freed here, as one of its threads may have been changing it. It stays
 * reachable, so that no leak is reported. */
void cleat__fork_set_aside(void *memory);

/* Around calls of libraries that hold locks of their own (OpenSSL, libcurl): a fork() in another thread waits until
 * nobody is between the two, so that no such lock is held in the child. Do not nest; do not fork, wait or call the user
 * in between. A fork waits no longer than CLEAT__FORK_WAIT_MS. */
#define CLEAT__FORK_WAIT_MS 2000
void cleat__fork_hold(void);
void cleat__fork_release(void);

/* The descriptor is closed in a forked child at once: a lock of flock(2) lives as long as any descriptor of its open
 * file, and a connection as well, so that a child that outlives its parent would keep them. Take it back before it is
 * closed: the number may be another's right after. Both without a lock. To leave a fork no gap, open and register, and
 * take back and close, between cleat__fork_hold and cleat__fork_release. Numbers of CLEAT__FORK_FDS_MAX and beyond are
 * left to the child. */
#define CLEAT__FORK_FDS_MAX 65536
void cleat__fork_close_in_child(int fd);
void cleat__fork_keep_in_child(int fd);

#endif
