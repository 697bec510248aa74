/* Saves one tensor from host memory, or loads it into host memory, with nothing but the library between
 * memory and store. Prints one JSON object: seconds, and CPU seconds, of that alone.
 *
 * usage: memory save|load|load-unchecked URL BYTES
 *
 * The memory is resident and filled before the clock starts. */
#include "tests/bench/measure.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME "data"

static void save(struct cleat_client *client, const void *data, int64_t size) {
  struct cleat_error err;
  struct cleat_tensor tensor = {.name = NAME, .dtype = CLEAT_DTYPE_U8, .ndim = 1, .shape = &size, .data = data};
  struct cleat_save_request request = CLEAT_SAVE_REQUEST_INIT;
  request.step = 1;
  request.tensors = &tensor;
  request.tensor_count = 1;
  check(cleat_save(client, &request, &err), &err);
}

static void load(struct cleat_client *client, void *data, int64_t size, bool checked) {
  struct cleat_error err;
  struct cleat_checkpoint *checkpoint = NULL;
  struct cleat_load_options options = CLEAT_LOAD_OPTIONS_INIT;
  options.no_verify = !checked;
  struct cleat_load_request request = {
      .name = NAME, .dtype = CLEAT_DTYPE_U8, .ndim = 1, .shape = &size, .data = data, .data_bytes = (uint64_t)size};
  check(cleat_checkpoint_open(client, 1, &checkpoint, &err), &err);
  check(cleat_load_tensors(checkpoint, &request, 1, &options, &err), &err);
  cleat_checkpoint_free(checkpoint);
}

int main(int argc, char **argv) {
  if (argc != 4) {
    fprintf(stderr, "usage: memory save|load|load-unchecked URL BYTES\n");
    return 2;
  }
  size_t size = strtoull(argv[3], NULL, 10);
  char *data = malloc(size);
  if (data == NULL)
    return 1;
  memset(data, 1, size);
  struct cleat_error err;
  struct cleat_client_options options = CLEAT_CLIENT_OPTIONS_INIT;
  options.staging_on_demand = 1;
  struct cleat_client *client = NULL;
  check(cleat_client_open(argv[2], &options, &client, &err), &err);
  double begun = now_s();
  double cpu_begun = cpu_s();
  if (strcmp(argv[1], "save") == 0)
    save(client, data, (int64_t)size);
  else
    load(client, data, (int64_t)size, strcmp(argv[1], "load") == 0);
  printf("{\"wall_s\": %.6f, \"cpu_s\": %.6f}\n", now_s() - begun, cpu_s() - cpu_begun);
  cleat_client_close(client);
  free(data);
  return 0;
}
