/* s3/xml_uploads.c: reads the reply of ListMultipartUploads. See s3/xml.h. Pure: no state after a call. */
#include "storage/s3/xml.h"

#include "base/mem.h"
#include "base/xml_reader.h"
#include "storage/aws/keys.h"
#include "storage/http/encode.h"

#include <stdlib.h>
#include <string.h>

#define ENTRIES_MAX 10000u /* entries of one page; S3 sends at most 1,000 */

struct uploads_reader {
  struct cleat__upload_page page;
  size_t capacity;
  struct cleat__upload_entry entry; /* the entry that is being read */
  char *key_marker;
  char *id_marker;
  bool encoded;
  bool truncated;
};

/* Replaces *place by a copy of `text`. */
static void set_text(struct cleat__xml_reader *reader, char **place, const char *text) {
  cleat__free(*place);
  *place = cleat__strdup(text);
  if (*place == NULL)
    cleat__xml_fail(reader, CLEAT_NO_MEMORY, "out of memory");
}

static void add_upload(struct cleat__xml_reader *reader, struct uploads_reader *uploads) {
  if (uploads->entry.key == NULL || uploads->entry.id == NULL || uploads->entry.id[0] == '\0' ||
      strlen(uploads->entry.id) > CLEAT__UPLOAD_ID_MAX) {
    cleat__xml_fail(reader, CLEAT_FORMAT, "an upload lacks its key or id");
    return;
  }
  if (uploads->page.count == ENTRIES_MAX) {
    cleat__xml_fail(reader, CLEAT_FORMAT, "it has too many entries");
    return;
  }
  void *grown =
      cleat__grow(uploads->page.entries, &uploads->capacity, uploads->page.count, sizeof *uploads->page.entries);
  if (grown == NULL) {
    cleat__xml_fail(reader, CLEAT_NO_MEMORY, "out of memory");
    return;
  }
  uploads->page.entries = grown;
  uploads->page.entries[uploads->page.count++] = uploads->entry;
  uploads->entry = (struct cleat__upload_entry){0};
}

static void uploads_leaf(struct cleat__xml_reader *reader, void *target, const char *path, const char *text) {
  struct uploads_reader *uploads = target;
  const char *name = path + strlen("/ListMultipartUploadsResult");
  if (strcmp(name, "/Upload/Key") == 0) {
    set_text(reader, &uploads->entry.key, text);
  } else if (strcmp(name, "/Upload/UploadId") == 0) {
    set_text(reader, &uploads->entry.id, text);
  } else if (strcmp(name, "/Upload/Initiated") == 0) {
    if (!cleat__s3_keys_time(text, strlen(text), &uploads->entry.begun_s))
      uploads->entry.begun_s = 0;
  } else if (strcmp(name, "/Upload") == 0) {
    add_upload(reader, uploads);
  } else if (strcmp(name, "/EncodingType") == 0) {
    uploads->encoded = strcmp(text, "url") == 0;
  } else if (strcmp(name, "/IsTruncated") == 0) {
    uploads->truncated = strcmp(text, "true") == 0;
  } else if (strcmp(name, "/NextKeyMarker") == 0) {
    set_text(reader, &uploads->key_marker, text);
  } else if (strcmp(name, "/NextUploadIdMarker") == 0) {
    set_text(reader, &uploads->id_marker, text);
  }
}

static int compare_uploads(const void *left, const void *right) {
  const struct cleat__upload_entry *a = left;
  const struct cleat__upload_entry *b = right;
  int order = strcmp(a->key, b->key);
  return order != 0 ? order : strcmp(a->id, b->id);
}

/* Decodes the keys, removes `root`, sorts. Keys that are not below `root`, or are not valid keys of Cleat, are left
 * out: no Cleat process can have begun those uploads here. */
static cleat_status finish_uploads(struct uploads_reader *uploads, const char *root, struct cleat_error *err) {
  size_t root_length = strlen(root);
  size_t kept = 0;
  for (size_t i = 0; i < uploads->page.count; i++) {
    struct cleat__upload_entry entry = uploads->page.entries[i];
    if (uploads->encoded && !cleat__s3_decode(entry.key, true))
      return cleat__error_set(err, CLEAT_FORMAT,
                              "the store's list of uploads is malformed: a key is not correctly encoded");
    uploads->page.entries[i] = (struct cleat__upload_entry){0};
    if (strncmp(entry.key, root, root_length) != 0 || cleat__key_problem(entry.key + root_length) != NULL) {
      cleat__free(entry.key);
      cleat__free(entry.id);
      continue;
    }
    memmove(entry.key, entry.key + root_length, strlen(entry.key) - root_length + 1);
    uploads->page.entries[kept++] = entry;
  }
  uploads->page.count = kept;
  if (kept > 1)
    qsort(uploads->page.entries, kept, sizeof *uploads->page.entries, compare_uploads);
  return CLEAT_OK;
}

/* Makes the token of the next page: both markers with a line end between them, which neither contains. */
static cleat_status finish_marker(struct uploads_reader *uploads, struct cleat_error *err) {
  const char *id = uploads->id_marker != NULL ? uploads->id_marker : "";
  if (!uploads->truncated)
    return CLEAT_OK;
  if (uploads->key_marker == NULL || uploads->key_marker[0] == '\0' ||
      (uploads->encoded && !cleat__s3_decode(uploads->key_marker, true)) || strchr(uploads->key_marker, '\n') != NULL)
    return cleat__error_set(err, CLEAT_FORMAT,
                            "the store's list of uploads is malformed: it is truncated and has no marker for the rest");
  uploads->page.next = cleat__strprintf("%s\n%s", uploads->key_marker, id);
  return uploads->page.next != NULL ? CLEAT_OK : cleat__error_no_memory(err, "a list of uploads");
}

cleat_status cleat__s3_xml_uploads(const char *xml, size_t size, const char *root, bool plain,
                                   struct cleat__upload_page *page, struct cleat_error *err) {
  static const char *const roots[] = {"ListMultipartUploadsResult", NULL};
  static const struct cleat__xml_form document = {"list of uploads", roots, uploads_leaf};
  struct uploads_reader uploads = {0};
  cleat_status status = cleat__xml_read(xml, size, &document, &uploads, err);
  uploads.encoded = uploads.encoded && !plain;
  if (status == CLEAT_OK)
    status = finish_marker(&uploads, err);
  if (status == CLEAT_OK)
    status = finish_uploads(&uploads, root, err);
  cleat__free(uploads.entry.key); /* left from an element that did not end */
  cleat__free(uploads.entry.id);
  cleat__free(uploads.key_marker);
  cleat__free(uploads.id_marker);
  if (status != CLEAT_OK) {
    cleat__upload_page_clear(&uploads.page);
    return status;
  }
  *page = uploads.page;
  return CLEAT_OK;
}
