/* Many tensors, and many checkpoints. Prints one JSON object.
 *
 * usage: scale tensors URL COUNT        saves COUNT tensors of one float, opens the checkpoint and looks at each:
 *                                       CPU seconds of both
 *        scale checkpoints URL COUNT    makes COUNT checkpoints of one such tensor */
#include "tests/bench/measure.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_BYTES 64

static const int64_t one = 1;

static void fill(struct cleat_tensor *tensors, char (*names)[NAME_BYTES], float *data, size_t count) {
  for (size_t i = 0; i < count; i++) {
    data[i] = (float)i;
    snprintf(names[i], NAME_BYTES, "model.layers.%zu.block.%zu.attention.weight", i / 100, i % 100);
    tensors[i] =
        (struct cleat_tensor){.name = names[i], .dtype = CLEAT_DTYPE_F32, .ndim = 1, .shape = &one, .data = &data[i]};
  }
}

static void save(struct cleat_client *client, int64_t step, const struct cleat_tensor *tensors, size_t count) {
  struct cleat_error err;
  struct cleat_save_request request = CLEAT_SAVE_REQUEST_INIT;
  request.step = step;
  request.tensors = tensors;
  request.tensor_count = count;
  check(cleat_save(client, &request, &err), &err);
}

static size_t walk(struct cleat_client *client) {
  struct cleat_error err;
  struct cleat_checkpoint *checkpoint = NULL;
  size_t elements = 0;
  check(cleat_checkpoint_open(client, 1, &checkpoint, &err), &err);
  for (size_t i = 0; i < cleat_checkpoint_tensor_count(checkpoint); i++)
    elements += (size_t)cleat_checkpoint_tensor(checkpoint, i)->shape[0];
  cleat_checkpoint_free(checkpoint);
  return elements;
}

int main(int argc, char **argv) {
  if (argc != 4) {
    fprintf(stderr, "usage: scale tensors|checkpoints URL COUNT\n");
    return 2;
  }
  size_t count = strtoull(argv[3], NULL, 10);
  bool many_tensors = strcmp(argv[1], "tensors") == 0;
  size_t tensor_count = many_tensors ? count : 1;
  struct cleat_tensor *tensors = calloc(tensor_count, sizeof *tensors);
  char(*names)[NAME_BYTES] = calloc(tensor_count, NAME_BYTES);
  float *data = calloc(tensor_count, sizeof *data);
  if (tensors == NULL || names == NULL || data == NULL) {
    fprintf(stderr, "scale: no memory\n");
    exit(1);
  }
  fill(tensors, names, data, tensor_count);
  struct cleat_error err;
  struct cleat_client_options options = CLEAT_CLIENT_OPTIONS_INIT;
  options.staging_on_demand = 1;
  struct cleat_client *client = NULL;
  check(cleat_client_open(argv[2], &options, &client, &err), &err);
  double begun = cpu_s();
  for (size_t step = 1; step <= (many_tensors ? 1 : count); step++)
    save(client, (int64_t)step, tensors, tensor_count);
  double saved = cpu_s();
  size_t elements = walk(client);
  printf("{\"save_cpu_s\": %.6f, \"open_cpu_s\": %.6f, \"elements\": %zu}\n", saved - begun, cpu_s() - saved, elements);
  cleat_client_close(client);
  free(tensors);
  free(names);
  free(data);
  return 0;
}
