/* fault.c: a decorator that injects failures into a store, for tests. See fault.h.
 *
 * Thread-safe if the wrapped store is. Owns that store after a successful wrap. Each operation
 * is the same three steps, so one macro makes them. */
#include "storage/common/fault.h"

#include "base/mem.h"

struct fault_store {
  struct cleat__store base;
  struct cleat__store *inner;
  enum cleat__fault_mode mode;
};

static struct cleat__store *inner_of(struct cleat__store *store) {
  return ((struct fault_store *)store)->inner;
}

static cleat_status injected(const char *op, const char *key, struct cleat_error *err) {
  return cleat__error_set(err, CLEAT_STORE, "injected fault in %s %s", op, key);
}

/* Counts this call, and returns whether it fails. */
static bool fails(const struct cleat__store *store, enum cleat__fault_mode *mode) {
  *mode = ((const struct fault_store *)store)->mode;
  return cleat__fault_point();
}

/* Runs the call `made` unless a fault is due before it. Returns from the function if either failed.
 * `undo` frees the results of a success that is withheld. Code after the macro runs only on
 * success, and hands the results on. */
#define FAULTY(op, key, made, undo)            \
  do {                                         \
    enum cleat__fault_mode mode;               \
    bool faulty = fails(store, &mode);         \
    if (faulty && mode == CLEAT__FAULT_BEFORE) \
      return injected(op, key, call.err);      \
    cleat_status status = (made);              \
    if (faulty && status == CLEAT_OK) {        \
      undo;                                    \
      return injected(op, key, call.err);      \
    }                                          \
    if (status != CLEAT_OK)                    \
      return status;                           \
  } while (0)

static cleat_status fault_put(struct cleat__store *store, const char *key, struct cleat__spans body,
                              const struct cleat__put_options *options, struct cleat__call call) {
  struct cleat__store *inner = inner_of(store);
  FAULTY("put", key, cleat__store_put(inner, key, body, options, call), (void)0);
  return CLEAT_OK;
}

static cleat_status fault_get(struct cleat__store *store, const char *key, uint64_t offset, struct cleat__spans into,
                              uint32_t *crc32c, struct cleat__call call) {
  struct cleat__store *inner = inner_of(store);
  uint32_t crc = 0;
  FAULTY("get", key, cleat__store_get(inner, key, offset, into, &crc, call), (void)0);
  *crc32c = crc;
  return CLEAT_OK;
}

static cleat_status fault_get_small(struct cleat__store *store, const char *key, size_t cap, struct cleat__small *small,
                                    struct cleat__call call) {
  struct cleat__store *inner = inner_of(store);
  struct cleat__small read = {0};
  FAULTY("get_small", key, cleat__store_get_small(inner, key, cap, &read, call), cleat__free(read.bytes));
  *small = read;
  return CLEAT_OK;
}

static cleat_status fault_head(struct cleat__store *store, const char *key, struct cleat__object *object,
                               struct cleat__call call) {
  struct cleat__store *inner = inner_of(store);
  struct cleat__object found = {0};
  FAULTY("head", key, cleat__store_head(inner, key, &found, call), (void)0);
  *object = found;
  return CLEAT_OK;
}

static cleat_status fault_list(struct cleat__store *store, const char *prefix, bool delimited, const char *after,
                               struct cleat__list_page *page, struct cleat__call call) {
  struct cleat__store *inner = inner_of(store);
  struct cleat__list_page found = {0};
  FAULTY("list", prefix, cleat__store_list(inner, prefix, delimited, after, &found, call),
         cleat__list_page_clear(&found));
  *page = found;
  return CLEAT_OK;
}

static cleat_status fault_remove(struct cleat__store *store, const char *key, struct cleat__call call) {
  struct cleat__store *inner = inner_of(store);
  FAULTY("remove", key, cleat__store_remove(inner, key, call), (void)0);
  return CLEAT_OK;
}

static cleat_status fault_create(struct cleat__store *store, struct cleat__upload *upload, const char *content_type,
                                 struct cleat__call call) {
  struct cleat__store *inner = inner_of(store);
  /* Like after a lost reply, the caller does not learn the id of an upload whose success is
   * withheld. */
  struct cleat__upload made = *upload;
  FAULTY("multipart_create", upload->key, cleat__store_multipart_create(inner, &made, content_type, call), (void)0);
  *upload = made;
  return CLEAT_OK;
}

static cleat_status fault_part(struct cleat__store *store, const struct cleat__upload *upload, struct cleat__spans body,
                               struct cleat__stored_part *part, struct cleat__call call) {
  struct cleat__store *inner = inner_of(store);
  struct cleat__stored_part stored = *part;
  FAULTY("multipart_part", upload->key, cleat__store_multipart_part(inner, upload, body, &stored, call), (void)0);
  *part = stored;
  return CLEAT_OK;
}

static cleat_status fault_feed(struct cleat__store *store, const struct cleat__upload *upload,
                               const struct cleat__feed *feed, struct cleat__stored_part *part,
                               struct cleat__call call) {
  struct cleat__store *inner = inner_of(store);
  struct cleat__stored_part stored = *part;
  FAULTY("multipart_feed", upload->key, cleat__store_multipart_feed(inner, upload, feed, &stored, call), (void)0);
  *part = stored;
  return CLEAT_OK;
}

static cleat_status fault_complete(struct cleat__store *store, const struct cleat__upload *upload,
                                   const struct cleat__stored_part *parts, size_t count, struct cleat__call call) {
  struct cleat__store *inner = inner_of(store);
  FAULTY("multipart_complete", upload->key, cleat__store_multipart_complete(inner, upload, parts, count, call),
         (void)0);
  return CLEAT_OK;
}

static cleat_status fault_abort(struct cleat__store *store, const struct cleat__upload *upload,
                                struct cleat__call call) {
  struct cleat__store *inner = inner_of(store);
  FAULTY("multipart_abort", upload->key, cleat__store_multipart_abort(inner, upload, call), (void)0);
  return CLEAT_OK;
}

static cleat_status fault_list_parts(struct cleat__store *store, const struct cleat__upload *upload,
                                     struct cleat__stored_part **parts, size_t *count, struct cleat__call call) {
  struct cleat__store *inner = inner_of(store);
  struct cleat__stored_part *found = NULL;
  size_t found_count = 0;
  FAULTY("multipart_list_parts", upload->key,
         cleat__store_multipart_list_parts(inner, upload, &found, &found_count, call), cleat__free(found));
  *parts = found;
  *count = found_count;
  return CLEAT_OK;
}

static cleat_status fault_list_uploads(struct cleat__store *store, const char *prefix, const char *after,
                                       struct cleat__upload_page *page, struct cleat__call call) {
  struct cleat__store *inner = inner_of(store);
  struct cleat__upload_page found = {0};
  FAULTY("multipart_list", prefix, cleat__store_multipart_list(inner, prefix, after, &found, call),
         cleat__upload_page_clear(&found));
  *page = found;
  return CLEAT_OK;
}

static cleat_status fault_adopt(struct cleat__store *store, const struct cleat__upload *upload,
                                struct cleat__call call) {
  struct cleat__store *inner = inner_of(store);
  FAULTY("multipart_adopt", upload->key, cleat__store_multipart_adopt(inner, upload, call), (void)0);
  return CLEAT_OK;
}

static void fault_close(struct cleat__store *store) {
  cleat__store_close(inner_of(store));
  cleat__free(store);
}

static const struct cleat__store_ops fault_ops = {
    .put = fault_put,
    .get = fault_get,
    .get_small = fault_get_small,
    .head = fault_head,
    .list = fault_list,
    .remove = fault_remove,
    .multipart_create = fault_create,
    .multipart_part = fault_part,
    .multipart_feed = fault_feed,
    .multipart_complete = fault_complete,
    .multipart_abort = fault_abort,
    .multipart_list_parts = fault_list_parts,
    .multipart_list = fault_list_uploads,
    .multipart_adopt = fault_adopt,
    .close = fault_close,
};

cleat_status cleat__store_fault_wrap(struct cleat__store *inner, enum cleat__fault_mode mode,
                                     struct cleat__store **store, struct cleat_error *err) {
  struct fault_store *made = cleat__calloc(1, sizeof *made);
  char *display = cleat__strdup(inner->display);
  if (made == NULL || display == NULL) {
    cleat__free(display);
    cleat__free(made);
    return cleat__error_no_memory(err, "the fault store");
  }
  made->base = *inner;
  made->base.ops = &fault_ops;
  made->base.display = display;
  made->inner = inner;
  made->mode = mode;
  *store = &made->base;
  return CLEAT_OK;
}
