/* listing.h: all entries of a list, page after page.
 *
 * On the caller's thread; no state. What does not start with the prefix is left out, whatever the store sends: a name
 * that was damaged on its way must not lead elsewhere. */
#ifndef CLEAT_UPLOADER_ENGINE_LISTING_H
#define CLEAT_UPLOADER_ENGINE_LISTING_H

#include "storage/common/store.h"

/* What is listed; all of it borrowed. */
struct cleat__listing {
  struct cleat__store *store;
  const char *prefix;
  bool delimited; /* what lies in folders below is folded into one entry each; of objects alone */
  const atomic_bool *cancel;
};

/* Called for each entry, which is the list's; the first failure ends it. */
typedef cleat_status cleat__listing_fn(void *user, const struct cleat__list_entry *entry,
                                       struct cleat_error *err);

/* The same for unfinished uploads. What fn takes out of the entry, leaving NULL, is the caller's. */
typedef cleat_status cleat__listing_upload_fn(void *user, struct cleat__upload_entry *entry,
                                              struct cleat_error *err);

/* Objects, in byte order. Errors: those of the store and of fn. */
cleat_status cleat__listing_each(const struct cleat__listing *listing, cleat__listing_fn *fn,
                                 void *user, struct cleat_error *err);

/* Unfinished uploads, by key and id. Errors: those of the store and of fn. */
cleat_status cleat__listing_each_upload(const struct cleat__listing *listing,
                                        cleat__listing_upload_fn *fn, void *user,
                                        struct cleat_error *err);

#endif
