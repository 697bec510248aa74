/* fuzz_parts.c: ListParts replies, and the body of a Complete that is made from them. Input: the XML. */
#include "base/mem.h"
#include "base/xml_reader.h"
#include "storage/s3/xml.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

/* What a store would read. */
struct read_back {
  const struct cleat__s3_parts_page *page;
  size_t numbers;
  size_t etags;
};

static void on_leaf(struct cleat__xml_reader *reader, void *target, const char *path, const char *text) {
  struct read_back *back = target;
  uint64_t number = 0;
  (void)reader;
  if (strcmp(path, "/CompleteMultipartUpload/Part/PartNumber") == 0) {
    FUZZ_PROMISE(back->numbers < back->page->count);
    FUZZ_PROMISE(cleat__xml_number(text, 10000, &number));
    FUZZ_PROMISE(number == back->page->parts[back->numbers].number);
    back->numbers++;
  } else if (strcmp(path, "/CompleteMultipartUpload/Part/ETag") == 0) {
    FUZZ_PROMISE(back->etags < back->page->count);
    FUZZ_PROMISE(strcmp(text, back->page->parts[back->etags].etag) == 0);
    back->etags++;
  }
}

static void check_page(const struct cleat__s3_parts_page *page) {
  for (size_t i = 0; i < page->count; i++) {
    const struct cleat__stored_part *part = &page->parts[i];
    FUZZ_PROMISE(part->number >= 1 && part->number <= 10000);
    FUZZ_PROMISE(i == 0 || part[-1].number <= part->number);
    FUZZ_PROMISE(part->etag[0] != '\0' && fuzz_is_line(part->etag));
  }
  FUZZ_PROMISE(!page->truncated || page->next_marker > 0);
}

/* Whatever ETags are made of, the body is XML and says the same. */
static void check_body(const struct cleat__s3_parts_page *page) {
  static const char *const roots[] = {"CompleteMultipartUpload", NULL};
  static const struct cleat__xml_form document = {"body", roots, on_leaf};
  struct read_back back = {.page = page};
  struct cleat_error err;
  struct cleat__buffer body;
  cleat__buffer_init(&body, (size_t)64 << 20);
  FUZZ_PROMISE(cleat__s3_xml_complete_body(page->parts, page->count, CLEAT__S3_NAME_CRC32C, &body) == CLEAT_OK);
  FUZZ_PROMISE(cleat__xml_read(body.data, body.length, &document, &back, &err) == CLEAT_OK);
  FUZZ_PROMISE(back.numbers == page->count && back.etags == page->count);
  cleat__buffer_clear(&body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct fuzz_input input = fuzz_input(data, size);
  char *xml = fuzz_exact(&input);
  struct cleat__s3_parts_page page = {0};
  struct cleat_error err;
  cleat__error_clear(&err);
  cleat_status status = cleat__s3_xml_parts(xml, input.size, &page, &err);
  if (status == CLEAT_OK) {
    check_page(&page);
    check_body(&page);
  } else {
    fuzz_check_error(status, &err);
  }
  cleat__free(page.parts);
  free(xml);
  return 0;
}
