/* http/race.h: a transfer, and perhaps a second one of the same request beside it; for http.c alone.
 *
 * Both run on the caller's thread, on one multi handle: whichever ends with an answer that counts ends the other. */
#ifndef CLEAT_STORAGE_HTTP_RACE_H
#define CLEAT_STORAGE_HTTP_RACE_H

#include <curl/curl.h>
#include <stdbool.h>
#include <stdint.h>

struct cleat__http_race_ops {
  /* Whether it is time for a second one; NULL: never. Asked ten times a second at most. */
  bool (*is_due)(void *ctx, int64_t elapsed_ms);
  /* The second handle, with all options set; NULL: it cannot be had, and is not asked for again. `*alone`: the first is
   * to end at once. */
  CURL *(*second)(void *ctx, bool *alone);
  /* Transfer 0 or 1 has ended like this, without a connection. True: it is begun anew, as it is. */
  bool (*relents)(void *ctx, int which, CURLcode code);
  /* Transfer 0 or 1 has ended like this. True: nothing better can come of the other. */
  bool (*settles)(void *ctx, int which, CURLcode code);
};

/* Runs `first` to its end on `multi`, which is left without a handle. Returns which transfer's outcome counts, with its
 * code; the other has ended too, or was ended. */
int cleat__http_race(CURLM *multi, CURL *first, const struct cleat__http_race_ops *ops, void *ctx,
                     CURLcode *code);

#endif
