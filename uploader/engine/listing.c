/* listing.c: see listing.h. */
#include "uploader/engine/listing.h"

#include "base/mem.h"

#include <string.h>

static bool is_of(const struct cleat__listing *listing, const char *key) {
  return strncmp(key, listing->prefix, strlen(listing->prefix)) == 0;
}

/* Replaces the token by the next one, which is moved out of the page. */
static void turn(char **after, char **next) {
  cleat__free(*after);
  *after = *next;
  *next = NULL;
}

cleat_status cleat__listing_each(const struct cleat__listing *listing, cleat__listing_fn *fn, void *user,
                                 struct cleat_error *err) {
  char *after = NULL;
  cleat_status status = CLEAT_OK;
  do {
    struct cleat__list_page page = {0};
    status = cleat__store_list(listing->store, listing->prefix, listing->delimited, after, &page,
                               cleat__call(listing->cancel, err));
    for (size_t i = 0; i < page.count && status == CLEAT_OK; i++)
      if (is_of(listing, page.entries[i].key))
        status = fn(user, &page.entries[i], err);
    turn(&after, &page.next);
    cleat__list_page_clear(&page);
  } while (after != NULL && status == CLEAT_OK);
  cleat__free(after);
  return status;
}

cleat_status cleat__listing_each_upload(const struct cleat__listing *listing, cleat__listing_upload_fn *fn, void *user,
                                        struct cleat_error *err) {
  char *after = NULL;
  cleat_status status = CLEAT_OK;
  do {
    struct cleat__upload_page page = {0};
    status =
        cleat__store_multipart_list(listing->store, listing->prefix, after, &page, cleat__call(listing->cancel, err));
    for (size_t i = 0; i < page.count && status == CLEAT_OK; i++)
      if (is_of(listing, page.entries[i].key))
        status = fn(user, &page.entries[i], err);
    turn(&after, &page.next);
    cleat__upload_page_clear(&page);
  } while (after != NULL && status == CLEAT_OK);
  cleat__free(after);
  return status;
}
