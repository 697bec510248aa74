/* fuzz_safetensors.c: headers of .safetensors files. Input: the number of data bytes in one line, then the
 * JSON; the first 8 bytes of the input serve as a file's first 8 bytes, too. */
#include "tests/fuzz/fuzz.h"
#include "uploader/model/safetensors.h"

#include <stdlib.h>
#include <string.h>

static void check_size(const uint8_t *data, size_t size) {
  uint8_t first[CLEAT__SAFETENSORS_PREFIX] = {0};
  size_t header_bytes = 0;
  struct cleat_error err;
  cleat__error_clear(&err);
  if (size > 0)
    memcpy(first, data, size < sizeof first ? size : sizeof first);
  cleat_status status = cleat__safetensors_header_size(first, size, &header_bytes, &err);
  if (status == CLEAT_OK)
    FUZZ_PROMISE(header_bytes <= size - CLEAT__SAFETENSORS_PREFIX);
  else
    fuzz_check_error(status, &err);
}

/* The tensors cover the data, each behind the one before it. */
static void check_index(const struct cleat__safetensors *index, uint64_t begin, uint64_t end) {
  uint64_t at = begin;
  for (size_t i = 0; i < index->count; i++) {
    FUZZ_PROMISE(index->entries[i].begin == at && index->entries[i].end >= at);
    FUZZ_PROMISE(index->entries[i].ndim >= 0 && index->entries[i].ndim <= CLEAT_MAX_DIMS);
    at = index->entries[i].end;
  }
  FUZZ_PROMISE(at == end);
}

/* Written anew, the header says the same. */
static void check_round_trip(const struct cleat__safetensors *index, uint64_t data_bytes) {
  struct cleat__safetensors again = {.entries = NULL};
  struct cleat__safetensors_item *items = calloc(index->count + 1, sizeof *items);
  struct cleat__buffer out;
  struct cleat_error err;
  FUZZ_PROMISE(items != NULL);
  for (size_t i = 0; i < index->count; i++) {
    const struct cleat__safetensors_entry *entry = &index->entries[i];
    items[i] = (struct cleat__safetensors_item){entry->name, entry->dtype, entry->ndim, entry->shape,
                                                entry->end - entry->begin};
  }
  cleat__buffer_init(&out, (size_t)64 << 20);
  FUZZ_PROMISE(cleat__safetensors_write_header(items, index->count, &out, &err) == CLEAT_OK);
  size_t header = out.length - CLEAT__SAFETENSORS_PREFIX;
  FUZZ_PROMISE(out.length % 8 == 0);
  FUZZ_PROMISE(cleat__safetensors_parse(out.data + CLEAT__SAFETENSORS_PREFIX, header, out.length + data_bytes, &again,
                                        &err) == CLEAT_OK);
  FUZZ_PROMISE(again.count == index->count);
  check_index(&again, out.length, out.length + data_bytes);
  cleat__safetensors_clear(&again);
  cleat__buffer_clear(&out);
  free(items);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct fuzz_input input = fuzz_input(data, size);
  check_size(data, size);
  char *line = fuzz_line(&input);
  uint64_t data_bytes = strtoull(line, NULL, 10) & INT64_MAX; /* no file has more */
  char *json = fuzz_exact(&input);
  uint64_t begin = CLEAT__SAFETENSORS_PREFIX + input.size;
  struct cleat__safetensors index = {.entries = NULL};
  struct cleat_error err;
  cleat__error_clear(&err);
  cleat_status status = cleat__safetensors_parse(json, input.size, begin + data_bytes, &index, &err);
  if (status == CLEAT_OK) {
    check_index(&index, begin, begin + data_bytes);
    check_round_trip(&index, data_bytes);
    cleat__safetensors_clear(&index);
  } else {
    fuzz_check_error(status, &err);
  }
  free(json);
  free(line);
  return 0;
}
