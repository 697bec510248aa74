/* fuzz_list.c: ListObjectsV2 replies. Input: the store's root in one line, then the XML. */
#include "storage/s3/xml.h"

#include "base/mem.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

static void check_page(const struct cleat__list_page *page) {
  for (size_t i = 0; i < page->count; i++) {
    const struct cleat__list_entry *entry = &page->entries[i];
    size_t length = strlen(entry->key);
    FUZZ_PROMISE(length > 0);
    FUZZ_PROMISE(entry->is_prefix || entry->key[length - 1] != '/');
    FUZZ_PROMISE(i == 0 || strcmp(page->entries[i - 1].key, entry->key) <= 0);
  }
  FUZZ_PROMISE(page->next == NULL || page->next[0] != '\0');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct fuzz_input input = fuzz_input(data, size);
  char *root = fuzz_line(&input);
  char *xml = fuzz_exact(&input);
  struct cleat__s3_keys_form form = {CLEAT__S3_KEYS_UNKNOWN, NULL};
  struct cleat__list_page page = {0};
  struct cleat_error err;
  cleat__error_clear(&err);
  cleat_status status = cleat__s3_xml_list(xml, input.size, root, &form, &page, &err);
  if (status == CLEAT_OK)
    check_page(&page);
  else
    fuzz_check_error(status, &err);
  cleat__list_page_clear(&page);
  cleat__free(form.doubtful);
  free(xml);
  free(root);
  return 0;
}
