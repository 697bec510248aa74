/* reading.c: see reading.h. */
#include "uploader/engine/reading.h"

#include "base/mem.h"

#include <assert.h>

/* Most reads of an empty document. The pauses add up to 1.5 s. Fewer: a checkpoint that is being replaced on a busy
 * store looks damaged. More: a damaged one delays lists. */
#define READS_MAX 6
#define FIRST_WAIT_MS 50

cleat_status cleat__read_document(struct cleat_client *client, const char *key, size_t cap, struct cleat__small *small,
                                  struct cleat__call call) {
  assert(cap > 0);
  const struct cleat__clock *clock = client->clock;
  for (int i = 0;; i++) {
    struct cleat__small found = {0};
    cleat_status status = cleat__store_get_small(client->store, key, cap, &found, call);
    if (status != CLEAT_OK)
      return status;
    if (found.size > 0 || i + 1 == READS_MAX) {
      *small = found;
      return CLEAT_OK;
    }
    cleat__free(found.bytes);
    if (!clock->wait_ms(clock->ctx, (int64_t)FIRST_WAIT_MS << i, call.cancel))
      return cleat__error_set(call.err, CLEAT_CANCELLED, "cancelled");
  }
}
