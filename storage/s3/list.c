/* s3/list.c: lists the objects below a prefix, for the s3:// driver. See store.h.
 *
 * Any thread. No state except what learned.c keeps: how to read the keys in lists of this store. */
#include "storage/s3/s3.h"

#include "base/mem.h"

struct listing {
  const char *root;
  struct cleat__s3_keys_form form;
  struct cleat__list_page page;
};

static cleat_status accept_list(void *ctx, const struct cleat__http_reply *reply, struct cleat__s3_reply_error *error,
                                struct cleat_error *err) {
  struct listing *listing = ctx;
  (void)error;
  return cleat__s3_xml_list(cleat__buffer_text(&reply->text), reply->text.length, listing->root, &listing->form,
                            &listing->page, err);
}

static size_t list_query(const char *prefix, bool delimited, const char *after, struct cleat__s3_pair *query) {
  size_t count = 0;
  query[count++] = (struct cleat__s3_pair){"list-type", "2"};
  query[count++] = (struct cleat__s3_pair){"encoding-type", "url"};
  query[count++] = (struct cleat__s3_pair){"max-keys", "1000"};
  query[count++] = (struct cleat__s3_pair){"prefix", prefix};
  if (delimited)
    query[count++] = (struct cleat__s3_pair){"delimiter", "/"};
  if (after != NULL)
    query[count++] = (struct cleat__s3_pair){"continuation-token", after};
  return count;
}

cleat_status cleat__s3_list(struct cleat__store *store, const char *prefix, bool delimited, const char *after,
                            struct cleat__list_page *page, struct cleat__call call) {
  struct cleat__s3 *s3 = (struct cleat__s3 *)store;
  struct listing listing = {.root = s3->configs[0].root, .form = {cleat__s3_known_keys(s3), NULL}};
  struct cleat__s3_pair query[6];
  struct cleat__http_reply reply;
  char *full_prefix = cleat__strprintf("%s%s", listing.root, prefix);
  if (full_prefix == NULL)
    return cleat__error_no_memory(call.err, "a key");
  struct cleat__s3_request request = {.operation = "LIST",
                                      .kind = CLEAT__S3_LIST,
                                      .method = "GET",
                                      .query = query,
                                      .query_count = list_query(full_prefix, delimited, after, query),
                                      .text_cap = CLEAT__XML_MAX,
                                      .accept = accept_list,
                                      .accept_ctx = &listing};
  cleat__http_reply_init(&reply);
  cleat_status status = cleat__s3_send(s3, &request, &reply, call);
  if (status == CLEAT_OK && cleat__s3_learn_keys(s3, &listing.form, call.cancel)) {
    cleat__list_page_clear(&listing.page);
    listing.page = (struct cleat__list_page){0};
    status = cleat__s3_send(s3, &request, &reply, call);
  }
  if (status == CLEAT_OK)
    *page = listing.page;
  cleat__free(listing.form.doubtful);
  cleat__http_reply_clear(&reply);
  cleat__free(full_prefix);
  return status;
}
