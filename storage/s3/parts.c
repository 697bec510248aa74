/* s3/parts.c: lists the parts of an unfinished upload, for the s3:// driver. See store.h.
 *
 * Any thread. No state except what learned.c keeps: whether this store can list parts. */
#include "storage/s3/s3.h"

#include "base/mem.h"

#include <stdio.h>
#include <string.h>

#define PAGES_MAX 100 /* limit of pages of ListParts; 10 pages hold 10,000 parts */
#define NUMBER_TEXT 16

static cleat_status accept_parts(void *ctx, const struct cleat__http_reply *reply, struct cleat__s3_reply_error *error,
                                 struct cleat_error *err) {
  (void)error;
  return cleat__s3_xml_parts(cleat__buffer_text(&reply->text), reply->text.length, ctx, err);
}

static cleat_status list_page(struct cleat__s3 *s3, const struct cleat__upload *upload, uint32_t marker,
                              struct cleat__s3_parts_page *page, struct cleat__call call) {
  char number[NUMBER_TEXT];
  snprintf(number, sizeof number, "%u", marker);
  struct cleat__s3_pair query[] = {{"max-parts", "1000"}, {"part-number-marker", number}, {"uploadId", upload->id}};
  struct cleat__s3_request request = {.operation = "ListParts",
                                      .kind = CLEAT__S3_LIST_PARTS,
                                      .method = "GET",
                                      .key = upload->key,
                                      .query = query,
                                      .query_count = 3,
                                      .text_cap = CLEAT__XML_MAX,
                                      .accept = accept_parts,
                                      .accept_ctx = page};
  struct cleat__http_reply reply;
  cleat__http_reply_init(&reply);
  cleat_status status = cleat__s3_send(s3, &request, &reply, call);
  cleat__http_reply_clear(&reply);
  return status;
}

/* Appends the page's parts to the array. */
static cleat_status add_parts(const struct cleat__s3_parts_page *page, struct cleat__stored_part **parts, size_t *count,
                              struct cleat_error *err) {
  if (page->count > CLEAT__S3_PARTS_MAX - *count)
    return cleat__error_set(err, CLEAT_STORE, "ListParts: the store lists more than %d parts", CLEAT__S3_PARTS_MAX);
  struct cleat__stored_part *grown = cleat__realloc_array(*parts, *count + page->count, sizeof *grown);
  if (grown == NULL)
    return cleat__error_no_memory(err, "a list of parts");
  if (page->count > 0)
    memcpy(grown + *count, page->parts, page->count * sizeof *grown);
  *parts = grown;
  *count += page->count;
  return CLEAT_OK;
}

cleat_status cleat__s3_multipart_list_parts(struct cleat__store *store, const struct cleat__upload *upload,
                                            struct cleat__stored_part **parts, size_t *count, struct cleat__call call) {
  struct cleat__s3 *s3 = (struct cleat__s3 *)store;
  struct cleat__stored_part *found = NULL;
  size_t found_count = 0;
  uint32_t marker = 0;
  if (cleat__s3_lacks(s3, CLEAT__STORE_NO_LIST_PARTS))
    return cleat__s3_lacking(s3, "ListParts", call.err);
  for (unsigned pages = 0; pages < PAGES_MAX; pages++) {
    struct cleat__s3_parts_page page = {0};
    cleat_status status = list_page(s3, upload, marker, &page, call);
    if (cleat__s3_is_refusal(status, call.err))
      cleat__s3_learn(s3, CLEAT__STORE_NO_LIST_PARTS);
    if (status == CLEAT_OK)
      status = add_parts(&page, &found, &found_count, call.err);
    cleat__free(page.parts);
    if (status != CLEAT_OK) {
      cleat__free(found);
      return status;
    }
    if (!page.truncated) {
      *parts = found;
      *count = found_count;
      return CLEAT_OK;
    }
    marker = page.next_marker;
  }
  cleat__free(found);
  return cleat__error_set(call.err, CLEAT_STORE, "ListParts %s: the store's pages have no end", upload->key);
}
