/* memory_store.c: the operations of a store in memory; see memory_store.h. */
#include "tests/mock/memory_store.h"

#include "base/checksum.h"
#include "base/mem.h"
#include "tests/mock/memory_bucket.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of one read of a feed. Odd, so that blocks end within those of others. */
#define FEED_BYTES ((size_t)3001)

struct memory_store {
  struct cleat__store base;
  struct memory_bucket *bucket;
};

static void etag_of(const struct object *object, char etag[CLEAT__ETAG_MAX]) {
  snprintf(etag, CLEAT__ETAG_MAX, "\"v%lu\"", object->version);
}

/* The spans as one block, whose checksum bucket_must be the one announced. */
static cleat_status take_body(const struct memory_bucket *bucket, const char *key, struct cleat__spans body,
                              uint32_t crc32c, char **bytes, size_t *size, struct cleat_error *err) {
  *size = (size_t)cleat__spans_length(body);
  *bytes = bucket_must(malloc(*size + 1));
  struct cleat__span_cursor cursor;
  cleat__span_cursor_init(&cursor, body);
  cleat__span_cursor_read(&cursor, *bytes, *size);
  (*bytes)[*size] = '\0';
  if (cleat__crc32c(0, *bytes, *size) == crc32c || (bucket->ignored & MEMORY_IGNORES_CHECKSUMS) != 0)
    return CLEAT_OK;
  free(*bytes);
  return cleat__error_set(err, CLEAT_INTEGRITY, "%s: the body's checksum is not the one announced", key);
}

static struct memory_bucket *bucket_of(struct cleat__store *store) {
  return ((struct memory_store *)store)->bucket;
}

static cleat_status memory_put(struct cleat__store *store, const char *key, struct cleat__spans body,
                               const struct cleat__put_options *options, struct cleat__call call) {
  struct memory_bucket *bucket = bucket_of(store);
  char *bytes = NULL;
  size_t size = 0;
  ck_assert_msg(cleat__key_problem(key) == NULL, "a key that no store takes: %s", key);
  cleat_status status = bucket_enter(bucket, "put", key, call);
  if (status != CLEAT_OK)
    return status;
  const struct object *there = bucket_find_locked(bucket, key);
  char etag[CLEAT__ETAG_MAX] = "";
  if (there != NULL)
    etag_of(there, etag);
  if (options->condition == CLEAT__PUT_CREATE_ONLY && there != NULL &&
      (bucket->ignored & MEMORY_IGNORES_CREATE_ONLY) == 0) {
    status = cleat__error_set(call.err, CLEAT_EXISTS, "%s exists", key);
  } else if (options->condition == CLEAT__PUT_IF_MATCH && strcmp(etag, options->etag) != 0 &&
             (bucket->ignored & MEMORY_IGNORES_IF_MATCH) == 0) {
    status = cleat__error_set(call.err, CLEAT_LOST, "%s was replaced", key);
  } else {
    status = take_body(bucket, key, body, options->crc32c, &bytes, &size, call.err);
  }
  if (status == CLEAT_OK && size > store->max_put_bytes) {
    free(bytes);
    status = cleat__error_set(call.err, CLEAT_STORE, "%s is too large for one put", key);
  }
  if (status == CLEAT_OK)
    bucket_store_locked(bucket, key, bytes, size);
  return bucket_leave(bucket, "put", key, status, call);
}

static cleat_status absent(const char *key, struct cleat_error *err) {
  return cleat__error_set(err, CLEAT_NOT_FOUND, "there is no %s", key);
}

static cleat_status memory_get(struct cleat__store *store, const char *key, uint64_t offset, struct cleat__spans into,
                               uint32_t *crc32c, struct cleat__call call) {
  struct memory_bucket *bucket = bucket_of(store);
  uint64_t length = cleat__spans_length(into);
  cleat_status status = bucket_enter(bucket, "get", key, call);
  if (status != CLEAT_OK)
    return status;
  const struct object *object = bucket_find_locked(bucket, key);
  if (object == NULL) {
    status = absent(key, call.err);
  } else if (offset + length > object->size) {
    status = cleat__error_set(call.err, CLEAT_INTEGRITY, "%s is too short", key);
  } else {
    struct cleat__span_cursor cursor;
    cleat__span_cursor_init(&cursor, into);
    cleat__span_cursor_write(&cursor, object->bytes + offset, (size_t)length);
    *crc32c = cleat__crc32c(0, object->bytes + offset, (size_t)length);
  }
  return bucket_leave(bucket, "get", key, status, call);
}

static cleat_status memory_get_small(struct cleat__store *store, const char *key, size_t cap,
                                     struct cleat__small *small, struct cleat__call call) {
  struct memory_bucket *bucket = bucket_of(store);
  struct cleat__small found = {0};
  cleat_status status = bucket_enter(bucket, "get_small", key, call);
  if (status != CLEAT_OK)
    return status;
  const struct object *object = bucket_find_locked(bucket, key);
  if (object == NULL) {
    status = absent(key, call.err);
  } else if (object->size > cap) {
    status = cleat__error_set(call.err, CLEAT_LIMIT, "%s has more than %zu bytes", key, cap);
  } else if ((found.bytes = cleat__alloc(object->size + 1)) == NULL) {
    status = cleat__error_no_memory(call.err, "an object");
  } else {
    memcpy(found.bytes, object->bytes, object->size + 1);
    found.size = object->size;
    etag_of(object, found.etag);
  }
  status = bucket_leave(bucket, "get_small", key, status, call);
  if (status != CLEAT_OK) {
    cleat__free(found.bytes);
  } else {
    *small = found;
  }
  return status;
}

static void head_checksum(const struct memory_bucket *bucket, const struct object *object,
                          struct cleat__object *about) {
  if (bucket->checksums != MEMORY_CHECKSUMS_ALL)
    return;
  about->checksum = object->parts > 0 ? CLEAT__OBJECT_CHECKSUM_PARTS : CLEAT__OBJECT_CHECKSUM_WHOLE;
  about->checksum_parts = object->parts;
  about->crc32c = object->parts > 0 ? object->crc32c : cleat__crc32c(0, object->bytes, object->size);
}

static cleat_status memory_head(struct cleat__store *store, const char *key, struct cleat__object *about,
                                struct cleat__call call) {
  struct memory_bucket *bucket = bucket_of(store);
  cleat_status status = bucket_enter(bucket, "head", key, call);
  if (status != CLEAT_OK)
    return status;
  const struct object *object = bucket_find_locked(bucket, key);
  if (object == NULL) {
    status = absent(key, call.err);
  } else {
    *about = (struct cleat__object){.size = object->size};
    etag_of(object, about->etag);
    head_checksum(bucket, object, about);
  }
  return bucket_leave(bucket, "head", key, status, call);
}

static cleat_status memory_delete(struct cleat__store *store, const char *key, struct cleat__call call) {
  struct memory_bucket *bucket = bucket_of(store);
  cleat_status status = bucket_enter(bucket, "remove", key, call);
  if (status != CLEAT_OK)
    return status;
  if ((bucket->ignored & MEMORY_IGNORES_REMOVALS) == 0)
    bucket_remove_locked(bucket, key);
  return bucket_leave(bucket, "remove", key, CLEAT_OK, call);
}

/* ---- Listing ---- */

/* Length of what the key is listed as: up to the '/' behind the prefix, or whole. */
static size_t listed_length(const char *key, size_t prefix_length, bool delimited) {
  const char *slash = delimited ? strchr(key + prefix_length, '/') : NULL;
  return slash != NULL ? (size_t)(slash - key) + 1 : strlen(key);
}

static bool page_add(struct cleat__list_page *page, const struct object *object, size_t length) {
  struct cleat__list_entry *entry = &page->entries[page->count];
  entry->key = cleat__strndup(object->key, length);
  if (entry->key == NULL)
    return false;
  entry->is_prefix = length < strlen(object->key);
  entry->size = entry->is_prefix ? 0 : object->size;
  entry->modified_s = entry->is_prefix ? 0 : object->modified_s;
  page->count++;
  return true;
}

static bool page_fill_locked(struct memory_bucket *bucket, const char *prefix, bool delimited, const char *after,
                             struct cleat__list_page *page) {
  size_t prefix_length = strlen(prefix);
  page->entries = cleat__calloc(CLEAT__LIST_PAGE, sizeof *page->entries);
  if (page->entries == NULL)
    return false;
  for (struct object *at = bucket->objects; at != NULL; at = at->next) {
    if (strncmp(at->key, prefix, prefix_length) != 0)
      continue;
    size_t length = listed_length(at->key, prefix_length, delimited);
    const char *last = page->count > 0 ? page->entries[page->count - 1].key : after;
    if (last != NULL && strlen(last) == length && strncmp(at->key, last, length) == 0)
      continue;
    if (page->count == 0 && after != NULL && strncmp(at->key, after, length) < 0)
      continue;
    if (page->count == CLEAT__LIST_PAGE) {
      page->next = cleat__strdup(last);
      return page->next != NULL;
    }
    if (!page_add(page, at, length))
      return false;
  }
  return true;
}

static cleat_status memory_list(struct cleat__store *store, const char *prefix, bool delimited, const char *after,
                                struct cleat__list_page *page, struct cleat__call call) {
  struct memory_bucket *bucket = bucket_of(store);
  struct cleat__list_page fresh = {0};
  cleat_status status = bucket_enter(bucket, "list", prefix, call);
  if (status != CLEAT_OK)
    return status;
  if (!page_fill_locked(bucket, prefix, delimited, after, &fresh))
    status = cleat__error_no_memory(call.err, "a page");
  status = bucket_leave(bucket, "list", prefix, status, call);
  if (status != CLEAT_OK) {
    cleat__list_page_clear(&fresh);
  } else {
    *page = fresh;
  }
  return status;
}

/* ---- Multipart ---- */

static struct upload **upload_place_locked(struct memory_bucket *bucket, const struct cleat__upload *wanted) {
  struct upload **link = &bucket->uploads;
  while (*link != NULL && strcmp((*link)->id, wanted->id) != 0)
    link = &(*link)->next;
  return link;
}

static cleat_status no_upload(const struct cleat__upload *upload, struct cleat_error *err) {
  return cleat__error_set(err, CLEAT_NOT_FOUND, "%s: there is no upload %s", upload->key, upload->id);
}

/* What the store tells of a part besides its size: its CRC, or the MD5 of its bytes as ETag. */
static void part_describe(const struct memory_bucket *bucket, const struct part *part, struct cleat__stored_part *to) {
  uint8_t digest[CLEAT__MD5_BYTES];
  char hex[2 * CLEAT__MD5_BYTES + 1];
  to->has_crc32c = bucket->checksums == MEMORY_CHECKSUMS_ALL;
  to->crc32c = to->has_crc32c ? part->crc32c : 0;
  snprintf(to->etag, sizeof to->etag, "\"p%08x\"", part->crc32c);
  if (bucket->checksums == MEMORY_CHECKSUMS_ETAG && cleat__md5(part->bytes, part->size, digest) == CLEAT_OK) {
    cleat__hex(digest, sizeof digest, hex);
    snprintf(to->etag, sizeof to->etag, "\"%s\"", hex);
  }
}

static cleat_status multipart_create(struct cleat__store *store, struct cleat__upload *upload, const char *content_type,
                                     struct cleat__call call) {
  struct memory_bucket *bucket = bucket_of(store);
  (void)content_type;
  ck_assert_msg(cleat__key_problem(upload->key) == NULL, "a bad key: %s", upload->key);
  cleat_status status = bucket_enter(bucket, "create", upload->key, call);
  if (status != CLEAT_OK)
    return status;
  struct upload *fresh = bucket_must(calloc(1, sizeof *fresh));
  uint64_t parts = (upload->size + upload->part_bytes - 1) / upload->part_bytes;
  ck_assert_uint_le(parts, store->max_parts);
  fresh->part_count = (size_t)parts;
  fresh->parts = bucket_must(calloc(fresh->part_count, sizeof *fresh->parts));
  fresh->key = bucket_must(strdup(upload->key));
  snprintf(fresh->id, sizeof fresh->id, "upload-%lu", ++bucket->versions);
  fresh->begun_s = bucket->now_s;
  fresh->next = bucket->uploads;
  bucket->uploads = fresh;
  char id[32];
  memcpy(id, fresh->id, sizeof id);
  status = bucket_leave(bucket, "create", upload->key, CLEAT_OK, call);
  if (status == CLEAT_OK)
    snprintf(upload->id, sizeof upload->id, "%s", id);
  return status;
}

static cleat_status multipart_part(struct cleat__store *store, const struct cleat__upload *upload,
                                   struct cleat__spans body, struct cleat__stored_part *part, struct cleat__call call) {
  struct memory_bucket *bucket = bucket_of(store);
  char *bytes = NULL;
  size_t size = 0;
  cleat_status status = bucket_enter(bucket, "part", upload->key, call);
  if (status != CLEAT_OK)
    return status;
  struct upload *mine = *upload_place_locked(bucket, upload);
  if (mine == NULL || part->number < 1 || part->number > mine->part_count) {
    status = no_upload(upload, call.err);
  } else {
    status = take_body(bucket, upload->key, body, part->crc32c, &bytes, &size, call.err);
  }
  if (status == CLEAT_OK) {
    struct part *place = &mine->parts[part->number - 1];
    free(place->bytes);
    *place = (struct part){bytes, size, part->crc32c};
    snprintf(part->etag, sizeof part->etag, "\"p%08x\"", part->crc32c);
  }
  return bucket_leave(bucket, "part", upload->key, status, call);
}

/* The feed is read as a driver reads it: in blocks, twice, since the first try may break. */
static cleat_status take_feed(const struct cleat__feed *feed, char *bytes, struct cleat_error *err) {
  for (int turn = 0; turn < 2; turn++)
    for (uint64_t at = 0; at < feed->length;) {
      uint64_t left = feed->length - at;
      size_t size = left < FEED_BYTES ? (size_t)left : FEED_BYTES;
      cleat_status status = feed->read(feed->ctx, at, bytes + at, size, err);
      if (status != CLEAT_OK)
        return status;
      at += size;
    }
  return CLEAT_OK;
}

static cleat_status multipart_feed(struct cleat__store *store, const struct cleat__upload *upload,
                                   const struct cleat__feed *feed, struct cleat__stored_part *part,
                                   struct cleat__call call) {
  struct memory_bucket *bucket = bucket_of(store);
  cleat_status status = bucket_enter(bucket, "feed", upload->key, call);
  if (status != CLEAT_OK)
    return status;
  pthread_mutex_unlock(&bucket->lock);
  char *bytes = bucket_must(malloc(feed->length + 1));
  status = take_feed(feed, bytes, call.err);
  if (status == CLEAT_OK) {
    struct cleat__span body = {bytes, feed->length};
    status = multipart_part(store, upload, cleat__spans(&body, 1), part, call);
  }
  free(bytes);
  pthread_mutex_lock(&bucket->lock);
  return bucket_leave(bucket, "feed", upload->key, status, call);
}

/* The object of all parts; NULL when one is missing, too small, or not the one that the caller means. */
static char *assemble(const struct cleat__store *store, const struct upload *upload,
                      const struct cleat__stored_part *parts, size_t count, size_t *size) {
  *size = 0;
  if (count != upload->part_count)
    return NULL;
  for (size_t i = 0; i < count; i++) {
    if (upload->parts[i].bytes == NULL || parts[i].number != i + 1)
      return NULL;
    /* As s3proxy: the checksum of each part must be named. */
    if (!parts[i].has_crc32c || parts[i].crc32c != upload->parts[i].crc32c)
      return NULL;
    if (i + 1 < count && upload->parts[i].size < store->min_part_bytes)
      return NULL;
    *size += upload->parts[i].size;
  }
  char *bytes = bucket_must(malloc(*size + 1));
  size_t at = 0;
  for (size_t i = 0; i < count; at += upload->parts[i++].size)
    memcpy(bytes + at, upload->parts[i].bytes, upload->parts[i].size);
  bytes[*size] = '\0';
  return bytes;
}

/* The checksum of an object that was made of parts. */
static void composite(const struct upload *upload, struct object *object) {
  uint32_t crc = 0;
  for (size_t i = 0; i < upload->part_count; i++) {
    uint32_t part = upload->parts[i].crc32c;
    uint8_t bytes[] = {(uint8_t)(part >> 24), (uint8_t)(part >> 16), (uint8_t)(part >> 8), (uint8_t)part};
    crc = cleat__crc32c(crc, bytes, sizeof bytes);
  }
  object->crc32c = crc;
  object->parts = (uint32_t)upload->part_count;
}

static cleat_status multipart_complete(struct cleat__store *store, const struct cleat__upload *upload,
                                       const struct cleat__stored_part *parts, size_t count, struct cleat__call call) {
  struct memory_bucket *bucket = bucket_of(store);
  size_t size = 0;
  cleat_status status = bucket_enter(bucket, "complete", upload->key, call);
  if (status != CLEAT_OK)
    return status;
  struct upload **link = upload_place_locked(bucket, upload);
  struct upload *mine = *link;
  char *bytes = mine != NULL ? assemble(store, mine, parts, count, &size) : NULL;
  if (bytes == NULL) {
    status = no_upload(upload, call.err);
    if (upload->create_only && bucket_find_locked(bucket, upload->key) != NULL)
      status = cleat__error_set(call.err, CLEAT_EXISTS, "%s exists", upload->key);
  } else if (upload->create_only && (bucket->ignored & MEMORY_IGNORES_COMPLETE) == 0 &&
             bucket_find_locked(bucket, upload->key) != NULL) {
    free(bytes);
    status = cleat__error_set(call.err, CLEAT_EXISTS, "%s exists", upload->key);
  } else {
    bucket_store_locked(bucket, mine->key, bytes, size);
    composite(mine, bucket_find_locked(bucket, mine->key));
    *link = mine->next;
    bucket_upload_free(mine);
  }
  return bucket_leave(bucket, "complete", upload->key, status, call);
}

static cleat_status multipart_abort(struct cleat__store *store, const struct cleat__upload *upload,
                                    struct cleat__call call) {
  struct memory_bucket *bucket = bucket_of(store);
  cleat_status status = bucket_enter(bucket, "abort", upload->key, call);
  if (status != CLEAT_OK)
    return status;
  struct upload **link = upload_place_locked(bucket, upload);
  struct upload *mine = *link;
  if (mine != NULL) {
    *link = mine->next;
    bucket_upload_free(mine);
  }
  return bucket_leave(bucket, "abort", upload->key, CLEAT_OK, call);
}

static cleat_status multipart_list_parts(struct cleat__store *store, const struct cleat__upload *upload,
                                         struct cleat__stored_part **parts, size_t *count, struct cleat__call call) {
  struct memory_bucket *bucket = bucket_of(store);
  struct cleat__stored_part *found = NULL;
  size_t found_count = 0;
  cleat_status status = bucket_enter(bucket, "list_parts", upload->key, call);
  if (status != CLEAT_OK)
    return status;
  const struct upload *mine = *upload_place_locked(bucket, upload);
  if (mine == NULL)
    status = no_upload(upload, call.err);
  else if ((found = cleat__calloc(mine->part_count, sizeof *found)) == NULL)
    status = cleat__error_no_memory(call.err, "parts");
  for (size_t i = 0; status == CLEAT_OK && i < mine->part_count; i++) {
    const struct part *part = &mine->parts[i];
    if (part->bytes == NULL)
      continue;
    struct cleat__stored_part *to = &found[found_count++];
    *to = (struct cleat__stored_part){.number = (uint32_t)i + 1, .size = part->size};
    part_describe(bucket, part, to);
  }
  status = bucket_leave(bucket, "list_parts", upload->key, status, call);
  if (status != CLEAT_OK) {
    cleat__free(found);
    return status;
  }
  *parts = found;
  *count = found_count;
  return CLEAT_OK;
}

static bool page_add_upload(struct cleat__upload_page *page, const struct upload *upload) {
  struct cleat__upload_entry *entry = &page->entries[page->count];
  entry->key = cleat__strdup(upload->key);
  entry->id = cleat__strdup(upload->id);
  entry->begun_s = upload->begun_s;
  page->count++;
  return entry->key != NULL && entry->id != NULL;
}

/* One page is all there is. A bucket that is `exact` knows whole keys alone, as MinIO does. */
static cleat_status multipart_list(struct cleat__store *store, const char *prefix, const char *after,
                                   struct cleat__upload_page *page, struct cleat__call call) {
  struct memory_bucket *bucket = bucket_of(store);
  struct cleat__upload_page found = {0};
  ck_assert_ptr_null(after);
  cleat_status status = bucket_enter(bucket, "list_uploads", prefix, call);
  if (status != CLEAT_OK)
    return status;
  size_t room = 0;
  for (const struct upload *at = bucket->uploads; at != NULL; at = at->next)
    room++;
  found.entries = cleat__calloc(room, sizeof *found.entries);
  bool fits = found.entries != NULL;
  for (const struct upload *at = bucket->uploads; fits && at != NULL; at = at->next) {
    bool wanted = bucket->exact ? strcmp(at->key, prefix) == 0 : strncmp(at->key, prefix, strlen(prefix)) == 0;
    if (wanted)
      fits = page_add_upload(&found, at);
  }
  if (!fits)
    status = cleat__error_no_memory(call.err, "a list of uploads");
  status = bucket_leave(bucket, "list_uploads", prefix, status, call);
  if (status != CLEAT_OK)
    cleat__upload_page_clear(&found);
  else
    *page = found;
  return status;
}

static cleat_status multipart_adopt(struct cleat__store *store, const struct cleat__upload *upload,
                                    struct cleat__call call) {
  struct memory_bucket *bucket = bucket_of(store);
  cleat_status status = bucket_enter(bucket, "adopt", upload->key, call);
  if (status != CLEAT_OK)
    return status;
  if (*upload_place_locked(bucket, upload) == NULL)
    status = no_upload(upload, call.err);
  return bucket_leave(bucket, "adopt", upload->key, status, call);
}

static cleat_status memory_describe(struct cleat__store *store, const char *key, struct cleat__store_facts *facts,
                                    struct cleat__call call) {
  struct memory_bucket *bucket = bucket_of(store);
  *facts = (struct cleat__store_facts){.has_clock = true, .clock_offset_s = bucket->clock_offset_s};
  cleat_status status = bucket_enter(bucket, "describe", key, call);
  return status == CLEAT_OK ? bucket_leave(bucket, "describe", key, status, call) : status;
}

static void memory_close(struct cleat__store *store) {
  free(store);
}

/* Only a bucket whose clock was set tells what it is. */
#define MEMORY_OPS                                                                                                    \
  .put = memory_put, .get = memory_get, .get_small = memory_get_small, .head = memory_head, .list = memory_list,      \
  .remove = memory_delete, .multipart_create = multipart_create, .multipart_part = multipart_part,                    \
  .multipart_feed = multipart_feed, .multipart_complete = multipart_complete, .multipart_abort = multipart_abort,     \
  .multipart_list_parts = multipart_list_parts, .multipart_list = multipart_list, .multipart_adopt = multipart_adopt, \
  .close = memory_close

static const struct cleat__store_ops memory_ops = {MEMORY_OPS};
static const struct cleat__store_ops telling_ops = {MEMORY_OPS, .describe = memory_describe};

struct cleat__store *memory_store_open(struct memory_bucket *bucket, const struct memory_limits *limits) {
  static const struct memory_limits none;
  struct memory_store *store = bucket_must(calloc(1, sizeof *store));
  if (limits == NULL)
    limits = &none;
  store->bucket = bucket;
  store->base = (struct cleat__store){
      .ops = bucket->tells_clock ? &telling_ops : &memory_ops,
      .capabilities = CLEAT__STORE_CREATE_ONLY | CLEAT__STORE_IF_MATCH,
      .min_part_bytes = limits->min_part_bytes != 0 ? limits->min_part_bytes : 4096,
      .max_put_bytes = limits->max_put_bytes != 0 ? limits->max_put_bytes : UINT64_MAX,
      .max_parts = limits->max_parts != 0 ? limits->max_parts : 10000,
      .max_object_bytes = limits->max_object_bytes != 0 ? limits->max_object_bytes : UINT64_MAX,
      .default_concurrency = limits->concurrency != 0 ? limits->concurrency : 4,
      .display = bucket_must(strdup("memory://bucket")), /* freed by cleat__store_close */
  };
  return &store->base;
}
