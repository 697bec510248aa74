/* fuzz_record.c: rank records. Input: the document. */
#include "tests/fuzz/fuzz.h"
#include "uploader/model/record.h"

#include <stdlib.h>
#include <string.h>

/* Nothing that a load would read lies outside its file. */
static void check_record(const struct cleat__record *record) {
  for (size_t i = 0; i < record->file_count; i++) {
    const struct cleat__file_entry *file = &record->files[i];
    FUZZ_PROMISE(file->name[0] != '\0' && file->name[0] != '/' && strstr(file->name, "/../") == NULL);
    FUZZ_PROMISE((file->size == 0) == (file->part_count == 0));
  }
  for (size_t i = 0; i < record->tensor_count; i++) {
    const struct cleat__tensor_entry *tensor = &record->tensors[i];
    FUZZ_PROMISE(tensor->piece_count > 0);
    for (size_t j = 0; j < tensor->piece_count; j++) {
      const struct cleat__piece *piece = &tensor->pieces[j];
      FUZZ_PROMISE(piece->file < record->file_count);
      uint64_t size = record->files[piece->file].size;
      FUZZ_PROMISE(piece->bytes <= size && piece->offset <= size - piece->bytes);
      FUZZ_PROMISE(piece->bytes <= tensor->bytes);
    }
  }
}

static void check_round_trip(const struct cleat__record *record) {
  struct cleat__record again = {.files = NULL};
  struct cleat__buffer first, second;
  struct cleat_error err;
  cleat__buffer_init(&first, (size_t)64 << 20);
  cleat__buffer_init(&second, (size_t)64 << 20);
  FUZZ_PROMISE(cleat__record_encode(record, &first, &err) == CLEAT_OK);
  FUZZ_PROMISE(cleat__record_parse(first.data, first.length, &again, &err) == CLEAT_OK);
  FUZZ_PROMISE(again.rank == record->rank && again.file_count == record->file_count &&
               again.tensor_count == record->tensor_count);
  FUZZ_PROMISE(cleat__record_encode(&again, &second, &err) == CLEAT_OK);
  FUZZ_PROMISE(fuzz_same(&first, &second));
  cleat__buffer_clear(&first);
  cleat__buffer_clear(&second);
  cleat__record_clear(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct fuzz_input input = fuzz_input(data, size);
  char *json = fuzz_exact(&input);
  struct cleat__record record = {.files = NULL};
  struct cleat_error err;
  cleat__error_clear(&err);
  cleat_status status = cleat__record_parse(json, input.size, &record, &err);
  if (status == CLEAT_OK) {
    check_record(&record);
    check_round_trip(&record);
    cleat__record_clear(&record);
  } else {
    fuzz_check_error(status, &err);
    FUZZ_PROMISE(strncmp(err.message, "rank record:", 12) == 0);
  }
  free(json);
  return 0;
}
