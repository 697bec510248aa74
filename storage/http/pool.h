/* http/pool.h: libcurl handles between requests, each with its connection; for http*.c alone.
 *
 * Thread-safe. The newest idle handle is lent first. A thread of the pool's own waits on all idle connections at once
 * and closes those that the other side has closed, as soon as it has: nothing else would look before the next request,
 * which may be the next save. It wakes for that, and once in a while to close what nobody has used. */
#ifndef CLEAT_STORAGE_HTTP_POOL_H
#define CLEAT_STORAGE_HTTP_POOL_H

#include "base/error.h"
#include "storage/http/socket.h"

#include <curl/curl.h>
#include <stdint.h>

/* An idle handle is closed after once to twice this time. Lower: saves that come one after the other connect anew.
 * Higher: firewalls drop connections that are silent for minutes, and tell nobody. */
#define CLEAT__HTTP_KEEP_MS 50000

/* An easy handle, and the sockets of the connections that were made for it. */
struct cleat__http_side {
  CURL *curl;
  struct cleat__http_sockets sockets;
};

/* What a request runs on: the multi handle keeps the connection alive between requests. */
struct cleat__http_handle {
  CURLM *multi;
  struct cleat__http_side sides[2]; /* the other one is there only while a request is sent twice */
  int main;
  struct cleat__http_handle *next; /* of the rest, the pool's */
  int64_t idle_ms;
};

struct cleat__http_pool;

/* `keep_ms`: 0: CLEAT__HTTP_KEEP_MS; below 0: no handle is kept. Errors: NO_MEMORY, IO. */
cleat_status cleat__http_pool_new(int64_t keep_ms, struct cleat__http_pool **pool,
                                  struct cleat_error *err);

/* Closes all idle connections. NULL is allowed. In a forked child, which has the connections of its parent and no
 * thread of the pool's, it does nothing. */
void cleat__http_pool_free(struct cleat__http_pool *pool);

/* An idle handle, or a new one; owned. NULL on no memory. */
struct cleat__http_handle *cleat__http_pool_take(struct cleat__http_pool *pool);

/* Takes it back, with connections that are sound and no transfer. */
void cleat__http_pool_give(struct cleat__http_pool *pool, struct cleat__http_handle *handle);

/* A handle of libcurl's for a side; the caller's. NULL on no memory. */
CURL *cleat__http_curl_new(void);

/* The handle's connections too. */
void cleat__http_handle_free(struct cleat__http_handle *handle);
void cleat__http_side_close(struct cleat__http_side *side);

#endif
