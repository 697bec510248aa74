/* s3/xml.c: reads the XML replies of S3, and writes the body of a Complete. See s3/xml.h. Pure: no state after a
 * call. base/xml_reader.c checks the limits; this file interprets each document. */
#include "storage/s3/xml.h"

#include "base/checksum.h"
#include "base/crc64.h"
#include "base/mem.h"
#include "base/xml_reader.h"
#include "storage/aws/keys.h"
#include "storage/http/encode.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ENTRIES_MAX 10000u              /* entries of one page; S3 sends at most 1,000 */
#define PART_NUMBER_MAX UINT32_C(10000) /* S3's limit */

/* Parses "2026-11-21T12:00:00Z", with or without a fraction. 0 if it is not a time. */
static int64_t read_time(const char *text) {
  static const char shape[] = "0000-00-00T00:00:00";
  for (size_t i = 0; shape[i] != '\0'; i++) {
    bool digit = text[i] >= '0' && text[i] <= '9';
    if (shape[i] == '0' ? !digit : text[i] != shape[i])
      return 0;
  }
  struct tm parts = {0};
  parts.tm_year = (text[0] - '0') * 1000 + (text[1] - '0') * 100 + (text[2] - '0') * 10 + (text[3] - '0') - 1900;
  parts.tm_mon = (text[5] - '0') * 10 + (text[6] - '0') - 1;
  parts.tm_mday = (text[8] - '0') * 10 + (text[9] - '0');
  parts.tm_hour = (text[11] - '0') * 10 + (text[12] - '0');
  parts.tm_min = (text[14] - '0') * 10 + (text[15] - '0');
  parts.tm_sec = (text[17] - '0') * 10 + (text[18] - '0');
  return timegm(&parts);
}

/* Copies a text as one line, cut to the size. */
static void copy_line(char *to, size_t size, const char *from) {
  size_t i = 0;
  for (; from[i] != '\0' && i + 1 < size; i++)
    to[i] = (unsigned char)from[i] < 0x20 || from[i] == 0x7f ? ' ' : from[i];
  to[i] = '\0';
}

/* ---- Error ---- */

static void read_error_field(struct cleat__s3_reply_error *reply, const char *path, const char *text) {
  if (strcmp(path, "/Error/Code") == 0)
    copy_line(reply->code, sizeof reply->code, text);
  else if (strcmp(path, "/Error/Message") == 0)
    copy_line(reply->message, sizeof reply->message, text);
  else if (strcmp(path, "/Error/RequestId") == 0)
    copy_line(reply->request_id, sizeof reply->request_id, text);
  else if (strcmp(path, "/Error/Region") == 0)
    copy_line(reply->region, sizeof reply->region, text);
  else if (strcmp(path, "/Error/ServerTime") == 0)
    reply->server_time_s = read_time(text);
}

static void error_leaf(struct cleat__xml_reader *reader, void *target, const char *path, const char *text) {
  (void)reader;
  read_error_field(target, path, text);
}

cleat_status cleat__s3_xml_error(const char *xml, size_t size, struct cleat__s3_reply_error *reply,
                                 struct cleat_error *err) {
  static const char *const roots[] = {"Error", NULL};
  static const struct cleat__xml_form document = {"error reply", roots, error_leaf};
  struct cleat__s3_reply_error found = {0};
  cleat_status status = cleat__xml_read(xml, size, &document, &found, err);
  if (status)
    return status;
  if (found.code[0] == '\0')
    return cleat__error_set(err, CLEAT_FORMAT, "the store's error reply has no code");
  *reply = found;
  return CLEAT_OK;
}

/* ---- ListObjectsV2 ---- */

struct list_reader {
  struct cleat__list_page page;
  size_t capacity;
  struct cleat__list_entry entry; /* the entry that is being read */
  bool encoded;
  bool truncated;
};

/* Sets the key of the current entry to a copy of `text`. */
static void set_key(struct cleat__xml_reader *reader, struct list_reader *list, const char *text) {
  cleat__free(list->entry.key);
  list->entry.key = cleat__strdup(text);
  if (!list->entry.key)
    cleat__xml_fail(reader, CLEAT_NO_MEMORY, "out of memory");
}

static void add_entry(struct cleat__xml_reader *reader, struct list_reader *list, bool is_prefix) {
  if (!list->entry.key) {
    cleat__xml_fail(reader, CLEAT_FORMAT, "an entry has no key");
    return;
  }
  if (list->page.count == ENTRIES_MAX) {
    cleat__xml_fail(reader, CLEAT_FORMAT, "it has too many entries");
    return;
  }
  struct cleat__list_entry *entries =
      cleat__grow(list->page.entries, &list->capacity, list->page.count, sizeof *list->page.entries);
  if (!entries) {
    cleat__xml_fail(reader, CLEAT_NO_MEMORY, "out of memory");
    return;
  }
  list->page.entries = entries;
  list->entry.is_prefix = is_prefix;
  entries[list->page.count++] = list->entry;
  list->entry = (struct cleat__list_entry){0};
}

static void list_leaf(struct cleat__xml_reader *reader, void *target, const char *path, const char *text) {
  struct list_reader *list = target;
  const char *name = path + strlen("/ListBucketResult");
  if (strcmp(name, "/Contents/Key") == 0 || strcmp(name, "/CommonPrefixes/Prefix") == 0) {
    set_key(reader, list, text);
  } else if (strcmp(name, "/Contents/Size") == 0) {
    if (!cleat__xml_number(text, UINT64_MAX, &list->entry.size))
      cleat__xml_fail(reader, CLEAT_FORMAT, "a size is not a number");
  } else if (strcmp(name, "/Contents/LastModified") == 0) {
    /* If the time is invalid, it stays unknown. No object without a known time is removed for its age. */
    if (!cleat__s3_keys_time(text, strlen(text), &list->entry.modified_s))
      list->entry.modified_s = 0;
  } else if (strcmp(name, "/Contents") == 0) {
    add_entry(reader, list, false);
  } else if (strcmp(name, "/CommonPrefixes") == 0) {
    add_entry(reader, list, true);
  } else if (strcmp(name, "/EncodingType") == 0) {
    list->encoded = strcmp(text, "url") == 0;
  } else if (strcmp(name, "/IsTruncated") == 0) {
    list->truncated = strcmp(text, "true") == 0;
  } else if (strcmp(name, "/NextContinuationToken") == 0 && text[0] != '\0') {
    cleat__free(list->page.next);
    list->page.next = cleat__strdup(text);
    if (!list->page.next)
      cleat__xml_fail(reader, CLEAT_NO_MEMORY, "out of memory");
  }
}

static int compare_entries(const void *left, const void *right) {
  const struct cleat__list_entry *a = left;
  const struct cleat__list_entry *b = right;
  return strcmp(a->key, b->key);
}

/* Finds out whether the keys are really encoded. A key with two readings is kept in *form. */
static cleat_status judge_form(const struct list_reader *list, const char *root, struct cleat__s3_keys_form *form,
                               struct cleat_error *err) {
  const char *doubtful = NULL;
  for (size_t i = 0; i < list->page.count && form->known == CLEAT__S3_KEYS_UNKNOWN; i++) {
    const struct cleat__list_entry *entry = &list->page.entries[i];
    form->known = cleat__s3_keys_of(entry->key, root);
    if (doubtful == NULL && !entry->is_prefix && strpbrk(entry->key, "+%") != NULL)
      doubtful = entry->key;
  }
  if (form->known != CLEAT__S3_KEYS_UNKNOWN || doubtful == NULL)
    return CLEAT_OK;
  cleat__free(form->doubtful);
  form->doubtful = cleat__strdup(doubtful);
  return form->doubtful != NULL ? CLEAT_OK : cleat__error_no_memory(err, "a key");
}

/* Decodes the keys, removes `root`, drops folder markers, sorts. */
static cleat_status finish_entries(struct list_reader *list, const char *root, struct cleat_error *err) {
  size_t root_length = strlen(root);
  size_t kept = 0;
  for (size_t i = 0; i < list->page.count; i++) {
    struct cleat__list_entry *entry = &list->page.entries[i];
    if ((list->encoded && !cleat__s3_decode(entry->key, true)) || strncmp(entry->key, root, root_length) != 0)
      return cleat__error_set(err, CLEAT_FORMAT,
                              "the store's list reply is malformed: key '%s' is not correctly "
                              "encoded or not below '%s'",
                              entry->key, root);
    size_t length = strlen(entry->key) - root_length;
    memmove(entry->key, entry->key + root_length, length + 1);
    struct cleat__list_entry moved = *entry;
    entry->key = NULL;
    if (length == 0 || (!moved.is_prefix && moved.key[length - 1] == '/'))
      cleat__free(moved.key);
    else
      list->page.entries[kept++] = moved;
  }
  list->page.count = kept;
  if (kept > 1)
    qsort(list->page.entries, kept, sizeof *list->page.entries, compare_entries);
  return CLEAT_OK;
}

static void clear_list(struct list_reader *list) {
  for (size_t i = 0; i < list->page.count; i++)
    cleat__free(list->page.entries[i].key);
  cleat__free(list->page.entries);
  cleat__free(list->page.next);
}

cleat_status cleat__s3_xml_list(const char *xml, size_t size, const char *root, struct cleat__s3_keys_form *form,
                                struct cleat__list_page *page, struct cleat_error *err) {
  static const char *const roots[] = {"ListBucketResult", NULL};
  static const struct cleat__xml_form document = {"list reply", roots, list_leaf};
  struct list_reader list = {0};
  cleat_status status = cleat__xml_read(xml, size, &document, &list, err);
  if (!status && list.truncated && !list.page.next)
    status = cleat__error_set(err, CLEAT_FORMAT,
                              "the store's list reply is malformed: it is truncated and has no token for the rest");
  if (!status && list.encoded && form != NULL) {
    status = judge_form(&list, root, form, err);
    list.encoded = form->known != CLEAT__S3_KEYS_PLAIN;
  }
  if (!status)
    status = finish_entries(&list, root, err);
  cleat__free(list.entry.key); /* left from an element that did not end */
  if (status) {
    clear_list(&list);
    return status;
  }
  if (!list.truncated) {
    cleat__free(list.page.next);
    list.page.next = NULL;
  }
  *page = list.page;
  return CLEAT_OK;
}

/* ---- Multipart ---- */

static void upload_id_leaf(struct cleat__xml_reader *reader, void *target, const char *path, const char *text) {
  char *id = target;
  if (strcmp(path, "/InitiateMultipartUploadResult/UploadId") != 0)
    return;
  if (strlen(text) > CLEAT__UPLOAD_ID_MAX)
    cleat__xml_fail(reader, CLEAT_FORMAT, "the upload id is too long");
  else
    copy_line(id, CLEAT__UPLOAD_ID_MAX + 1, text);
}

cleat_status cleat__s3_xml_upload_id(const char *xml, size_t size, char upload_id[CLEAT__UPLOAD_ID_MAX + 1],
                                     struct cleat_error *err) {
  static const char *const roots[] = {"InitiateMultipartUploadResult", NULL};
  static const struct cleat__xml_form document = {"reply to a new multipart upload", roots, upload_id_leaf};
  char id[CLEAT__UPLOAD_ID_MAX + 1] = "";
  cleat_status status = cleat__xml_read(xml, size, &document, id, err);
  if (status)
    return status;
  if (id[0] == '\0')
    return cleat__error_set(err, CLEAT_FORMAT, "the store's reply to a new multipart upload has no upload id");
  memcpy(upload_id, id, sizeof id);
  return CLEAT_OK;
}

/* Copies an ETag. An empty or too long one makes the document malformed. */
static void read_etag(struct cleat__xml_reader *reader, const char *text, char etag[CLEAT__ETAG_MAX]) {
  if (text[0] == '\0' || strlen(text) >= CLEAT__ETAG_MAX)
    cleat__xml_fail(reader, CLEAT_FORMAT, "an ETag is empty or too long");
  else
    copy_line(etag, CLEAT__ETAG_MAX, text);
}

struct completed_reader {
  char etag[CLEAT__ETAG_MAX];
  bool has_etag;
  struct cleat__s3_reply_error error;
};

static void completed_leaf(struct cleat__xml_reader *reader, void *target, const char *path, const char *text) {
  struct completed_reader *completed = target;
  bool is_etag = strcmp(path, "/CompleteMultipartUploadResult/ETag") == 0;
  completed->has_etag = completed->has_etag || is_etag;
  if (!is_etag)
    read_error_field(&completed->error, path, text);
  else if (text[0] != '\0')
    read_etag(reader, text, completed->etag);
}

cleat_status cleat__s3_xml_completed(const char *xml, size_t size, char etag[CLEAT__ETAG_MAX],
                                     struct cleat__s3_reply_error *reply, struct cleat_error *err) {
  static const char *const roots[] = {"CompleteMultipartUploadResult", "Error", NULL};
  static const struct cleat__xml_form document = {"reply to the completion of a multipart upload", roots,
                                                  completed_leaf};
  struct completed_reader completed = {0};
  cleat_status status = cleat__xml_read(xml, size, &document, &completed, err);
  if (status)
    return status;
  if (!completed.has_etag && completed.error.code[0] == '\0')
    return cleat__error_set(err, CLEAT_FORMAT,
                            "the store's reply to the completion of a multipart "
                            "upload has neither an ETag nor an error code");
  *reply = completed.error;
  if (completed.error.code[0] == '\0')
    memcpy(etag, completed.etag, sizeof completed.etag);
  return CLEAT_OK;
}

struct parts_reader {
  struct cleat__s3_parts_page page;
  size_t capacity;
  struct cleat__stored_part part; /* the part that is being read */
  bool has_marker;
};

static void add_part(struct cleat__xml_reader *reader, struct parts_reader *parts) {
  if (parts->part.number == 0 || parts->part.etag[0] == '\0') {
    cleat__xml_fail(reader, CLEAT_FORMAT, "a part lacks its number or ETag");
    return;
  }
  if (parts->page.count == ENTRIES_MAX) {
    cleat__xml_fail(reader, CLEAT_FORMAT, "it has too many entries");
    return;
  }
  struct cleat__stored_part *grown =
      cleat__grow(parts->page.parts, &parts->capacity, parts->page.count, sizeof *parts->page.parts);
  if (!grown) {
    cleat__xml_fail(reader, CLEAT_NO_MEMORY, "out of memory");
    return;
  }
  parts->page.parts = grown;
  grown[parts->page.count++] = parts->part;
  memset(&parts->part, 0, sizeof parts->part);
}

static void parts_leaf(struct cleat__xml_reader *reader, void *target, const char *path, const char *text) {
  struct parts_reader *parts = target;
  const char *name = path + strcspn(path + 1, "/") + 1; /* after the root */
  uint64_t number = 0;
  if (strcmp(name, "/Part/PartNumber") == 0) {
    if (cleat__xml_number(text, PART_NUMBER_MAX, &number) && number > 0)
      parts->part.number = (uint32_t)number;
  } else if (strcmp(name, "/Part/Size") == 0) {
    if (!cleat__xml_number(text, UINT64_MAX, &parts->part.size))
      cleat__xml_fail(reader, CLEAT_FORMAT, "a size is not a number");
  } else if (strcmp(name, "/Part/ETag") == 0) {
    read_etag(reader, text, parts->part.etag);
  } else if (strcmp(name, "/Part/ChecksumCRC32C") == 0) {
    parts->part.has_crc32c = cleat__crc32c_unbase64(text, &parts->part.crc32c);
  } else if (strcmp(name, "/Part/ChecksumCRC64NVME") == 0) {
    parts->part.has_crc64nvme = cleat__crc64_unbase64(text, &parts->part.crc64nvme);
  } else if (strcmp(name, "/Part") == 0) {
    add_part(reader, parts);
  } else if (strcmp(name, "/IsTruncated") == 0) {
    parts->page.truncated = strcmp(text, "true") == 0;
  } else if (strcmp(name, "/NextPartNumberMarker") == 0) {
    parts->has_marker = cleat__xml_number(text, PART_NUMBER_MAX, &number) && number > 0;
    parts->page.next_marker = (uint32_t)number;
  }
}

static int compare_parts(const void *left, const void *right) {
  const struct cleat__stored_part *a = left;
  const struct cleat__stored_part *b = right;
  return (a->number > b->number) - (a->number < b->number);
}

cleat_status cleat__s3_xml_parts(const char *xml, size_t size, struct cleat__s3_parts_page *page,
                                 struct cleat_error *err) {
  /* ListPartsResponse: moto */
  static const char *const roots[] = {"ListPartsResult", "ListPartsResponse", NULL};
  static const struct cleat__xml_form document = {"list of parts", roots, parts_leaf};
  struct parts_reader parts = {0};
  cleat_status status = cleat__xml_read(xml, size, &document, &parts, err);
  if (!status && parts.page.truncated && !parts.has_marker)
    status = cleat__error_set(err, CLEAT_FORMAT,
                              "the store's list of parts is malformed: it is truncated and has no marker for the rest");
  if (status) {
    cleat__free(parts.page.parts);
    return status;
  }
  if (parts.page.count > 1)
    qsort(parts.page.parts, parts.page.count, sizeof *parts.page.parts, compare_parts);
  *page = parts.page;
  return CLEAT_OK;
}

/* ---- The body of a Complete ---- */

/* Escapes the text: an ETag is opaque and must not end its element. */
static cleat_status append_escaped(struct cleat__buffer *body, const char *text) {
  cleat_status status = CLEAT_OK;
  for (; *text != '\0' && !status; text++) {
    if (strchr("&<>\"'", *text) || (unsigned char)*text < 0x20)
      status = cleat__buffer_print(body, "&#%d;", (unsigned char)*text);
    else
      status = cleat__buffer_append(body, text, 1);
  }
  return status;
}

static cleat_status append_part(const struct cleat__stored_part *part, enum cleat__s3_named named,
                                struct cleat__buffer *body) {
  cleat_status status = cleat__buffer_print(body, "<Part><PartNumber>%u</PartNumber><ETag>", part->number);
  if (!status)
    status = append_escaped(body, part->etag);
  if (!status)
    status = cleat__buffer_print(body, "</ETag>");
  char checksum[13];
  if (!status && named == CLEAT__S3_NAME_CRC64NVME && part->has_crc64nvme) {
    cleat__crc64_base64(part->crc64nvme, checksum);
    status = cleat__buffer_print(body, "<ChecksumCRC64NVME>%s</ChecksumCRC64NVME>", checksum);
  } else if (!status && named == CLEAT__S3_NAME_CRC32C && part->has_crc32c) {
    cleat__crc32c_base64(part->crc32c, checksum);
    status = cleat__buffer_print(body, "<ChecksumCRC32C>%s</ChecksumCRC32C>", checksum);
  }
  return status ? status : cleat__buffer_print(body, "</Part>");
}

cleat_status cleat__s3_xml_complete_body(const struct cleat__stored_part *parts, size_t count,
                                         enum cleat__s3_named named, struct cleat__buffer *body) {
  cleat_status status = cleat__buffer_print(body, "<CompleteMultipartUpload "
                                                  "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">");
  for (size_t i = 0; i < count && !status; i++)
    status = append_part(&parts[i], named, body);
  return status ? status : cleat__buffer_print(body, "</CompleteMultipartUpload>");
}
