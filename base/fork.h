/* fork.h: tells a forked child from its parent.
 *
 * A forked child has the memory of its parent, but none of its threads. So a lock may never be released, and a
 * structure may be half changed. An object with threads or locks stores the generation of the process that made it, and
 * any other process leaves it alone. fork() counts. vfork(), posix_spawn() and a bare clone() do not, because an exec
 * follows them.
 *
 * All functions are thread-safe, and safe in a child. */
#ifndef CLEAT_BASE_FORK_H
#define CLEAT_BASE_FORK_H

#include "base/error.h"

#include <stdbool.h>

/* Starts to count forks, once for the process. Call it before anything stores a generation. Error: NO_MEMORY. */
cleat_status cleat__fork_watch(struct cleat_error *err);

/* A number that differs between a process and every process that it descends from by fork(). */
unsigned cleat__fork_generation(void);

/* Whether an object of that generation was made in this process. */
bool cleat__fork_is_ours(unsigned generation);

/* Returns UNSUPPORTED: `what` ("the client") was opened before fork(). */
cleat_status cleat__fork_refuse(const char *what, struct cleat_error *err);

/* Keeps memory of the parent that cannot be freed here, because one of the parent's threads may have been changing it.
 * It stays reachable, so that no leak is reported. */
void cleat__fork_set_aside(void *memory);

/* Call these around calls of libraries that have locks of their own (OpenSSL, libcurl). A fork() in another thread
 * waits until no thread is between the two, so that the child finds no such lock held. It waits at most
 * CLEAT__FORK_WAIT_MS. Do not nest them. Do not fork, wait, or call the user in between. */
#define CLEAT__FORK_WAIT_MS 2000
void cleat__fork_hold(void);
void cleat__fork_release(void);

/* Makes a forked child close the descriptor at once. A lock of flock(2) and a connection both live as long as any
 * descriptor of their open file. So a child that outlives its parent would keep them. Before you close the descriptor,
 * call cleat__fork_keep_in_child, because its number may be reused right after. Neither function takes a lock. To leave
 * no gap for a fork, open and register between cleat__fork_hold and cleat__fork_release, and unregister and close in
 * the same way. Numbers from CLEAT__FORK_FDS_MAX on are not closed. */
#define CLEAT__FORK_FDS_MAX 65536
void cleat__fork_close_in_child(int fd);
void cleat__fork_keep_in_child(int fd);

#endif
