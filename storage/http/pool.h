/* http/pool.h: libcurl handles between requests, each with its connection. Only for storage/http/.
 *
 * Thread-safe. The newest idle handle is lent first. A thread of the pool waits on all idle connections. It closes a
 * connection as soon as the other side has closed it. Otherwise that would be noticed only at the next request,
 * perhaps at the next save. The thread also wakes from time to time to close unused connections. */
#ifndef CLEAT_STORAGE_HTTP_POOL_H
#define CLEAT_STORAGE_HTTP_POOL_H

#include "base/error.h"
#include "storage/http/socket.h"

#include <curl/curl.h>
#include <stdint.h>

/* An idle handle is closed after one to two times this time. Lower: saves that follow each other must connect again.
 * Higher: firewalls drop silent connections after minutes without notice. */
#define CLEAT__HTTP_KEEP_MS 50000

/* An easy handle, and the sockets of its connections. */
struct cleat__http_side {
  CURL *curl;
  struct cleat__http_sockets sockets;
};

/* The handle for one request. The multi handle keeps the connection open between requests. */
struct cleat__http_handle {
  CURLM *multi;
  struct cleat__http_side sides[2]; /* the second one exists only while a request is sent twice */
  int main;
  struct cleat__http_handle *next; /* the next handle, for the pool */
  int64_t idle_ms;
};

struct cleat__http_pool;

/* `keep_ms` 0: CLEAT__HTTP_KEEP_MS; negative: no handle is kept. Errors: NO_MEMORY, IO. */
cleat_status cleat__http_pool_new(int64_t keep_ms, struct cleat__http_pool **pool, struct cleat_error *err);

/* Closes all idle connections. NULL is allowed. In a forked child it does nothing: the connections belong to the
 * parent, and the thread does not exist there. */
void cleat__http_pool_free(struct cleat__http_pool *pool);

/* Returns an idle handle or a new one; the caller owns it. NULL without memory. */
struct cleat__http_handle *cleat__http_pool_take(struct cleat__http_pool *pool);

/* Takes a handle back. Its connections must be sound, and no transfer may be running. */
void cleat__http_pool_give(struct cleat__http_pool *pool, struct cleat__http_handle *handle);

/* Returns a handle of libcurl for a side; the caller owns it. NULL without memory. */
CURL *cleat__http_curl_new(void);

/* Frees the handle and closes its connections. */
void cleat__http_handle_free(struct cleat__http_handle *handle);
void cleat__http_side_close(struct cleat__http_side *side);

#endif
