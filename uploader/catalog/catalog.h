/* catalog.h: lists the committed checkpoints of a store, and opens the latest. The functions block; any thread may call
 * them. */
#ifndef CLEAT_UPLOADER_CATALOG_CATALOG_H
#define CLEAT_UPLOADER_CATALOG_CATALOG_H

#include "uploader/catalog/checkpoint.h"

/* Lists the committed checkpoints; see cleat_list. The caller owns *list. */
cleat_status cleat__catalog_list(struct cleat_client *client, struct cleat_list **list, struct cleat_error *err);
size_t cleat__catalog_count(const struct cleat_list *list);
const struct cleat_checkpoint_info *cleat__catalog_get(const struct cleat_list *list, size_t index);
size_t cleat__catalog_damaged(const struct cleat_list *list);
const struct cleat_error *cleat__catalog_damage(const struct cleat_list *list, size_t index);
void cleat__catalog_free(struct cleat_list *list);

/* Opens the newest checkpoint that has a valid manifest and all its objects. It passes over damaged ones, with a
 * warning in the log. NOT_FOUND: there is none. INTEGRITY: all are damaged. NEWER: an error, because an older step must
 * not be taken for the latest. */
cleat_status cleat__catalog_open_latest(struct cleat_client *client, struct cleat_checkpoint **checkpoint,
                                        struct cleat_error *err);

#endif
