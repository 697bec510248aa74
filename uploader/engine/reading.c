/* reading.c: see reading.h. */
#include "uploader/engine/reading.h"

#include "base/mem.h"

#include <assert.h>

/* Most reads of an empty document. The pauses add up to 1.5 s. Fewer: a checkpoint that is being replaced on a busy
 * store looks damaged. More: a damaged one delays lists. */
#define READS_MAX 6
#define FIRST_WAIT_MS 50

cleat_status cleat__read_document(struct cleat_client *client, const char *key, size_t cap,
                                  char **text, size_t *size, struct cleat__object *object,
                                  const atomic_bool *cancel, struct cleat_error *err) {
  assert(cap > 0);
  const struct cleat__clock *clock = client->clock;
  for (int i = 0;; i++) {
    char *found = NULL;
    size_t length = 0;
    cleat_status status =
        cleat__store_get_small(client->store, key, cap, &found, &length, object, cancel, err);
    if (status != CLEAT_OK)
      return status;
    if (length > 0 || i + 1 == READS_MAX) {
      *text = found;
      *size = length;
      return CLEAT_OK;
    }
    cleat__free(found);
    if (!clock->wait_ms(clock->ctx, (int64_t)FIRST_WAIT_MS << i, cancel))
      return cleat__error_set(err, CLEAT_CANCELLED, "cancelled");
  }
}
