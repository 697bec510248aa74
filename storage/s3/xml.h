/* s3/xml.h: reads the XML replies of S3, and writes the one XML body that Cleat sends. Pure, bounded, thread-safe.
 * Uses expat with the allocator of Cleat.
 *
 * Every reader returns FORMAT for a document with a DOCTYPE or entity declaration, one deeper than CLEAT__XML_DEPTH
 * or longer than CLEAT__XML_MAX, one that is cut short, and one with an unexpected root. Unknown elements and
 * namespaces are ignored. White space before the document is allowed: a long Complete sends it to keep the
 * connection alive. */
#ifndef CLEAT_STORAGE_S3_XML_H
#define CLEAT_STORAGE_S3_XML_H

#include "base/buffer.h"
#include "base/xml_reader.h"
#include "storage/common/store.h"

/* The fields of an <Error>. Absent ones are "" or 0, too long ones are cut. Plain data. */
struct cleat__s3_reply_error {
  char code[64];
  char message[512]; /* one line: control characters are blanks */
  char request_id[96];
  char region[64];       /* region of the bucket, if the request went to another one */
  int64_t server_time_s; /* the time of the store, of RequestTimeTooSkewed */
};

/* Reads an <Error> document with a Code. FORMAT for all others (an HTML page of a proxy, an empty body). */
cleat_status cleat__s3_xml_error(const char *xml, size_t size, struct cleat__s3_reply_error *reply,
                                 struct cleat_error *err);

/* How to read the keys of a list that says it is url-encoded: some stores say so and do not encode them. */
enum cleat__s3_keys { CLEAT__S3_KEYS_UNKNOWN = 0, CLEAT__S3_KEYS_ENCODED, CLEAT__S3_KEYS_PLAIN };

struct cleat__s3_keys_form {
  /* what was known before; set by a list whose keys have only one reading */
  enum cleat__s3_keys known;
  char *doubtful; /* owned: a key with two readings, as listed; or NULL */
};

/* Tells how to read `key` of a list that says it is url-encoded, as far as the key and `root` show it. In
 * s3/list_keys.c. */
enum cleat__s3_keys cleat__s3_keys_of(const char *key, const char *root);

/* Converts a ListObjectsV2 reply to a page of the store contract. `root` (such as "run-17/", or "") is removed from
 * every key. Entries are sorted by their bytes. Objects whose key ends in '/' (folder markers of consoles) are left
 * out. A key that does not start with `root` is FORMAT. The caller owns *page (cleat__list_page_clear). page->next
 * is the continuation token, to be sent back unchanged. Keys are decoded if the list says that they are encoded,
 * unless *form says otherwise. *form may be NULL. */
cleat_status cleat__s3_xml_list(const char *xml, size_t size, const char *root, struct cleat__s3_keys_form *form,
                                struct cleat__list_page *page, struct cleat_error *err);

/* Reads the UploadId of an InitiateMultipartUploadResult. */
cleat_status cleat__s3_xml_upload_id(const char *xml, size_t size, char upload_id[CLEAT__UPLOAD_ID_MAX + 1],
                                     struct cleat_error *err);

/* Reads a reply to CompleteMultipartUpload with HTTP status 200. CLEAT_OK with reply->code "": it is a
 * CompleteMultipartUploadResult; `etag` is filled and may be empty (radosgw 16). CLEAT_OK with reply->code set: it
 * is an <Error> and must be treated as a failure. FORMAT: anything else; the outcome is unknown. */
cleat_status cleat__s3_xml_completed(const char *xml, size_t size, char etag[CLEAT__ETAG_MAX],
                                     struct cleat__s3_reply_error *reply, struct cleat_error *err);

/* One page of ListParts. */
struct cleat__s3_parts_page {
  struct cleat__stored_part *parts; /* owned: cleat__free */
  size_t count;
  bool truncated;
  uint32_t next_marker; /* part-number-marker of the next page, if truncated */
};

cleat_status cleat__s3_xml_parts(const char *xml, size_t size, struct cleat__s3_parts_page *page,
                                 struct cleat_error *err);

/* Converts a ListMultipartUploads reply to a page of the store contract, with keys like those of cleat__s3_xml_list.
 * Keys that are not below `root`, or are not valid keys of Cleat, are left out. With `plain`, nothing is decoded.
 * page->next holds both markers, decoded, as "KEY\nID". In s3/xml_uploads.c. */
cleat_status cleat__s3_xml_uploads(const char *xml, size_t size, const char *root, bool plain,
                                   struct cleat__upload_page *page, struct cleat_error *err);

/* Which checksum of the parts a Complete contains. */
enum cleat__s3_named { CLEAT__S3_NAME_NONE = 0, CLEAT__S3_NAME_CRC32C, CLEAT__S3_NAME_CRC64NVME };

/* Appends the body of a CompleteMultipartUpload: the number and ETag of every part, and its checksum `named` if it
 * has one. NO_MEMORY, LIMIT. 10,000 parts take about 1.5 MiB. */
cleat_status cleat__s3_xml_complete_body(const struct cleat__stored_part *parts, size_t count,
                                         enum cleat__s3_named named, struct cleat__buffer *body) CLEAT_MUST_USE;

#endif
