/* listing.h: all entries of a list, page by page.
 *
 * Runs on the caller's thread; no state. It drops entries that do not start with the prefix, whatever the store sends:
 * a name that was damaged in transit must not lead elsewhere. */
#ifndef CLEAT_UPLOADER_ENGINE_LISTING_H
#define CLEAT_UPLOADER_ENGINE_LISTING_H

#include "storage/common/store.h"

/* What to list. All pointers are borrowed. */
struct cleat__listing {
  struct cleat__store *store;
  const char *prefix;
  bool delimited; /* objects only: each folder below the prefix becomes one entry */
  const atomic_bool *cancel;
};

/* Called for each entry, which belongs to the list. The first failure ends the listing. */
typedef cleat_status cleat__listing_fn(void *user, const struct cleat__list_entry *entry, struct cleat_error *err);

/* The same for unfinished uploads. The callback may keep a field of the entry by setting it to NULL. */
typedef cleat_status cleat__listing_upload_fn(void *user, struct cleat__upload_entry *entry, struct cleat_error *err);

/* Lists objects, in byte order. Errors: those of the store and of fn. */
cleat_status cleat__listing_each(const struct cleat__listing *listing, cleat__listing_fn *fn, void *user,
                                 struct cleat_error *err);

/* Lists unfinished uploads, by key and id. Errors: those of the store and of fn. */
cleat_status cleat__listing_each_upload(const struct cleat__listing *listing, cleat__listing_upload_fn *fn, void *user,
                                        struct cleat_error *err);

#endif
