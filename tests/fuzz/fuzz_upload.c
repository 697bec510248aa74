/* fuzz_upload.c: replies to CreateMultipartUpload and CompleteMultipartUpload. Input: the XML, which is given
 * to both readers. */
#include "storage/s3/xml.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

static void created(const char *xml, size_t size) {
  char id[CLEAT__UPLOAD_ID_MAX + 1];
  struct cleat_error err;
  cleat__error_clear(&err);
  memset(id, '#', sizeof id);
  cleat_status status = cleat__s3_xml_upload_id(xml, size, id, &err);
  if (status != CLEAT_OK) {
    fuzz_check_error(status, &err);
    FUZZ_PROMISE(id[0] == '#'); /* written on success alone */
    return;
  }
  FUZZ_PROMISE(memchr(id, '\0', sizeof id) != NULL);
  FUZZ_PROMISE(id[0] != '\0' && fuzz_is_line(id));
}

static void completed(const char *xml, size_t size) {
  char etag[CLEAT__ETAG_MAX] = "";
  struct cleat__s3_reply_error reply;
  struct cleat_error err;
  cleat__error_clear(&err);
  memset(&reply, 0, sizeof reply);
  cleat_status status = cleat__s3_xml_completed(xml, size, etag, &reply, &err);
  if (status != CLEAT_OK) {
    fuzz_check_error(status, &err);
    FUZZ_PROMISE(etag[0] == '\0' && reply.code[0] == '\0');
    return;
  }
  /* A success may have an ETag, a failure has a code, nothing has both. */
  FUZZ_PROMISE(etag[0] == '\0' || reply.code[0] == '\0');
  FUZZ_PROMISE(fuzz_is_line(etag) && fuzz_is_line(reply.code) && fuzz_is_line(reply.message));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct fuzz_input input = fuzz_input(data, size);
  char *xml = fuzz_exact(&input);
  created(xml, input.size);
  completed(xml, input.size);
  free(xml);
  return 0;
}
