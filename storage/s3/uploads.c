/* s3/uploads.c: lists unfinished uploads, and adopts one. See store.h for the contract of each operation. No state.
 *
 * MinIO lists only the uploads of one complete key (its documentation calls that deliberate). A prefix that is not a
 * key gives an empty page there. */
#include "storage/s3/s3.h"

#include "base/mem.h"

#include <string.h>

struct uploads_listing {
  const char *root;
  bool plain; /* its keys are not encoded, even if the list says so */
  struct cleat__upload_page page;
};

static cleat_status accept_uploads(void *ctx, const struct cleat__http_reply *reply,
                                   struct cleat__s3_reply_error *error, struct cleat_error *err) {
  struct uploads_listing *listing = ctx;
  (void)error;
  return cleat__s3_xml_uploads(cleat__buffer_text(&reply->text), reply->text.length, listing->root, listing->plain,
                               &listing->page, err);
}

static cleat_status send_list(struct cleat__s3 *s3, const char *full_prefix, const char *key_marker,
                              const char *id_marker, struct uploads_listing *listing, struct cleat__call call) {
  struct cleat__s3_pair query[] = {
      {"uploads", ""},         {"encoding-type", "url"},   {"max-uploads", "1000"},
      {"prefix", full_prefix}, {"key-marker", key_marker}, {"upload-id-marker", id_marker}};
  struct cleat__s3_request request = {.operation = "ListMultipartUploads",
                                      .kind = CLEAT__S3_LIST_UPLOADS,
                                      .method = "GET",
                                      .query = query,
                                      .query_count = key_marker == NULL   ? 4u
                                                     : *id_marker == '\0' ? 5u
                                                                          : 6u,
                                      .text_cap = CLEAT__XML_MAX,
                                      .accept = accept_uploads,
                                      .accept_ctx = listing};
  struct cleat__http_reply reply;
  cleat__http_reply_init(&reply);
  cleat_status status = cleat__s3_send(s3, &request, &reply, call);
  cleat__http_reply_clear(&reply);
  return status;
}

cleat_status cleat__s3_multipart_list(struct cleat__store *store, const char *prefix, const char *after,
                                      struct cleat__upload_page *page, struct cleat__call call) {
  struct cleat__s3 *s3 = (struct cleat__s3 *)store;
  struct uploads_listing listing = {.root = s3->configs[0].root, .plain = cleat__s3_lacks(s3, CLEAT__STORE_PLAIN_KEYS)};
  char *full_prefix = cleat__strprintf("%s%s", listing.root, prefix);
  char *markers = after != NULL ? cleat__strdup(after) : NULL;
  const char *id_marker = "";
  cleat_status status = CLEAT_OK;
  if (cleat__s3_lacks(s3, CLEAT__STORE_NO_LIST_UPLOADS)) {
    status = cleat__s3_lacking(s3, "ListMultipartUploads", call.err);
    goto done;
  }
  if (full_prefix == NULL || (after != NULL && markers == NULL)) {
    status = cleat__error_no_memory(call.err, "a list of uploads");
    goto done;
  }
  char *line_end = markers != NULL ? strchr(markers, '\n') : NULL;
  if (line_end != NULL) {
    *line_end = '\0';
    id_marker = line_end + 1;
  }
  status = send_list(s3, full_prefix, markers, id_marker, &listing, call);
  if (cleat__s3_is_refusal(status, call.err))
    cleat__s3_learn(s3, CLEAT__STORE_NO_LIST_UPLOADS);
  if (status == CLEAT_OK && after != NULL && listing.page.next != NULL && strcmp(listing.page.next, after) == 0) {
    cleat__upload_page_clear(&listing.page);
    status = cleat__error_set(call.err, CLEAT_STORE, "ListMultipartUploads: the pages have no end");
  }
  if (status == CLEAT_OK)
    *page = listing.page;

done:
  cleat__free(full_prefix);
  cleat__free(markers);
  return status;
}

/* Every process that knows the id may continue the upload. S3 cannot tell whether another one does so too. */
cleat_status cleat__s3_multipart_adopt(struct cleat__store *store, const struct cleat__upload *upload,
                                       struct cleat__call call) {
  (void)store;
  (void)upload;
  (void)call;
  return CLEAT_OK;
}

/* ---- an upload that is gone ---- */

/* Whether the list of uploads is complete and does not have this one. *status is the status of the list. */
static bool is_unlisted(const struct cleat__s3_doubt *doubt, const atomic_bool *cancel, cleat_status *status) {
  struct cleat__upload_page page = {0};
  struct cleat_error ignored;
  *status = cleat__s3_multipart_list(doubt->store, doubt->upload->key, NULL, &page, cleat__call(cancel, &ignored));
  bool unlisted = *status == CLEAT_OK && page.next == NULL;
  for (size_t i = 0; unlisted && i < page.count; i++)
    unlisted = strcmp(page.entries[i].id, doubt->upload->id) != 0;
  cleat__upload_page_clear(&page);
  return unlisted;
}

bool cleat__s3_upload_is_gone(void *ctx, const atomic_bool *cancel) {
  struct cleat__s3_doubt *doubt = ctx;
  struct cleat__stored_part *held = NULL;
  struct cleat_error problem;
  size_t count = 0;
  cleat_status listed, status = CLEAT_OK;
  if (is_unlisted(doubt, cancel, &listed)) {
    cleat__error_set(&doubt->gone, CLEAT_NOT_FOUND, "%s: the upload is gone: it was aborted", doubt->upload->key);
    return true;
  }
  if (listed == CLEAT_UNSUPPORTED)
    status = cleat__s3_multipart_list_parts(doubt->store, doubt->upload, &held, &count, cleat__call(cancel, &problem));
  if (status != CLEAT_OK && cleat__object_is_absent(status, &problem))
    doubt->gone = problem;
  cleat__free(held);
  return doubt->gone.status != CLEAT_OK;
}
