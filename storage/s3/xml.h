/* s3/xml.h: reading S3's XML replies, and writing the one XML body that Cleat sends. Pure, bounded,
 * thread-safe; on top of expat with Cleat's allocator.
 *
 * Every reader refuses a document with a DOCTYPE or entity declaration, deeper than
 * CLEAT__XML_DEPTH, longer than CLEAT__XML_MAX, cut short, or with another root than
 * expected: FORMAT. Unknown elements are ignored. White space may stand before the document (a Complete
 * that takes long sends it to keep the connection alive). Namespaces are ignored. */
#ifndef CLEAT_STORAGE_S3_XML_H
#define CLEAT_STORAGE_S3_XML_H

#include "base/buffer.h"
#include "base/xml_reader.h"
#include "storage/common/store.h"

/* An <Error>. Fields that were absent are "" or 0; what is too long is cut. Plain data. */
struct cleat__s3_reply_error {
  char code[64];
  char message[512]; /* one line: control characters are blanks */
  char request_id[96];
  char region[64];       /* the bucket's, when this was the wrong one */
  int64_t server_time_s; /* of RequestTimeTooSkewed */
};

/* An <Error> document with a Code. FORMAT for all else (an HTML page of a proxy, an empty body). */
cleat_status cleat__s3_xml_error(const char *xml, size_t size, struct cleat__s3_reply_error *reply,
                                 struct cleat_error *err);

/* How keys stand in a list that says it is url-encoded: some stores say so and do not encode. */
enum cleat__s3_keys { CLEAT__S3_KEYS_UNKNOWN = 0, CLEAT__S3_KEYS_ENCODED, CLEAT__S3_KEYS_PLAIN };

struct cleat__s3_keys_form {
  enum cleat__s3_keys known; /* before; set by a list whose keys have no other reading */
  char *doubtful;            /* owned: a key with two readings, as it stands in the list; or NULL */
};

/* How `key`, which stands in a list that says it is url-encoded, is to be read, as far as it and `root` tell. In
 * s3/list_keys.c. */
enum cleat__s3_keys cleat__s3_keys_of(const char *key, const char *root);

/* A ListObjectsV2 reply into a page of the store contract: `root` (such as "run-17/", or "") is taken off every key;
 * entries are sorted by their bytes. Objects whose key ends in '/' (the folder markers of consoles) are left out; a key
 * that does not start with `root` is FORMAT. *page is the caller's (cleat__list_page_clear); page->next is the
 * continuation token, which travels back as it is. Keys that claim to be encoded are taken as *form says, else as they
 * claim; *form may be NULL. */
cleat_status cleat__s3_xml_list(const char *xml, size_t size, const char *root,
                                struct cleat__s3_keys_form *form, struct cleat__list_page *page,
                                struct cleat_error *err);

/* The UploadId of an InitiateMultipartUploadResult. */
cleat_status cleat__s3_xml_upload_id(const char *xml, size_t size,
                                     char upload_id[CLEAT__UPLOAD_ID_MAX + 1],
                                     struct cleat_error *err);

/* The reply to a CompleteMultipartUpload of HTTP status 200: CLEAT_OK with reply->code "" and `etag` filled for a
 * CompleteMultipartUploadResult with an ETag, which may be empty (radosgw 16); CLEAT_OK with reply->code set for an
 * <Error>, which must be treated as a failure; FORMAT for anything else: the outcome is then unknown. */
cleat_status cleat__s3_xml_completed(const char *xml, size_t size, char etag[CLEAT__ETAG_MAX],
                                     struct cleat__s3_reply_error *reply, struct cleat_error *err);

/* One page of ListParts. */
struct cleat__s3_parts_page {
  struct cleat__stored_part *parts; /* owned: cleat__free */
  size_t count;
  bool truncated;
  uint32_t next_marker; /* part-number-marker of the next page, when truncated */
};

cleat_status cleat__s3_xml_parts(const char *xml, size_t size, struct cleat__s3_parts_page *page,
                                 struct cleat_error *err);

/* A ListMultipartUploads reply into a page of the store contract, keys as cleat__s3_xml_list makes them; what is not
 * below `root`, or no key of Cleat's, is left out. With `plain`, nothing is decoded. page->next holds both markers,
 * decoded, as "KEY\nID". In s3/xml_uploads.c. */
cleat_status cleat__s3_xml_uploads(const char *xml, size_t size, const char *root, bool plain,
                                   struct cleat__upload_page *page, struct cleat_error *err);

/* The checksum of parts that a Complete names. */
enum cleat__s3_named { CLEAT__S3_NAME_NONE = 0, CLEAT__S3_NAME_CRC32C, CLEAT__S3_NAME_CRC64NVME };

/* Appends the body of a CompleteMultipartUpload: number, ETag and, of every part that has it, the checksum `named`.
 * NO_MEMORY, LIMIT. 10,000 parts take some 1.5 MiB. */
cleat_status cleat__s3_xml_complete_body(const struct cleat__stored_part *parts, size_t count,
                                         enum cleat__s3_named named,
                                         struct cleat__buffer *body) CLEAT_MUST_USE;

#endif
