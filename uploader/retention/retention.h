/* retention.h: prune, gc, and the pins that prune respects.
 *
 * The functions block. Any thread may call them, except those of the pool. Requests are tasks of the pool, within the
 * limit of transfers. */
#ifndef CLEAT_UPLOADER_RETENTION_RETENTION_H
#define CLEAT_UPLOADER_RETENTION_RETENTION_H

#include "uploader/engine/client.h"

/* See cleat_prune and cleat_gc. The caller owns *removals. It may be set after a failure, too. */
cleat_status cleat__retention_prune(struct cleat_client *client, const struct cleat_prune_options *options,
                                    struct cleat_removals **removals, struct cleat_error *err);
cleat_status cleat__retention_gc(struct cleat_client *client, const struct cleat_gc_options *options,
                                 struct cleat_removals **removals, struct cleat_error *err);

size_t cleat__removals_count(const struct cleat_removals *removals);
const struct cleat_removal *cleat__removals_get(const struct cleat_removals *removals, size_t index);
size_t cleat__removals_kept(const struct cleat_removals *removals);
uint64_t cleat__removals_bytes(const struct cleat_removals *removals);
void cleat__removals_free(struct cleat_removals *removals);

/* See cleat_pin, cleat_unpin and cleat_pinned. */
cleat_status cleat__pin_put(struct cleat_client *client, int64_t step, struct cleat_error *err);
cleat_status cleat__pin_remove(struct cleat_client *client, int64_t step, struct cleat_error *err);
cleat_status cleat__pin_check(struct cleat_client *client, int64_t step, bool *pinned, struct cleat_error *err);

#endif
