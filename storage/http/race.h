/* http/race.h: runs a transfer, and possibly a second one of the same request in parallel. Only for http.c.
 *
 * Both run on the thread of the caller, on one multi handle. The first one that ends with an answer that counts
 * stops the other. */
#ifndef CLEAT_STORAGE_HTTP_RACE_H
#define CLEAT_STORAGE_HTTP_RACE_H

#include <curl/curl.h>
#include <stdbool.h>
#include <stdint.h>

struct cleat__http_race_ops {
  /* Whether to start a second transfer; NULL: never. Called at most ten times a second. */
  bool (*is_due)(void *ctx, int64_t elapsed_ms);
  /* Returns the second handle with all options set. NULL: there is none, and this is not called again. `*alone`:
   * stop the first transfer at once. */
  CURL *(*second)(void *ctx, bool *alone);
  /* Called when transfer 0 or 1 has ended so, without a connection. True: start it again unchanged. */
  bool (*relents)(void *ctx, int which, CURLcode code);
  /* Called when transfer 0 or 1 has ended so. True: the other one cannot give a better result. */
  bool (*settles)(void *ctx, int which, CURLcode code);
};

/* Runs `first` to its end on `multi`, and leaves `multi` without handles. Returns which transfer counts, with its
 * code. The other one has ended too, or was stopped. */
int cleat__http_race(CURLM *multi, CURL *first, const struct cleat__http_race_ops *ops, void *ctx, CURLcode *code);

#endif
