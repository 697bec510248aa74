/* What an async save of host memory costs the training loop: save_async + wait_staged, against one
 * memcpy of the same bytes into memory that is resident already. Alternates A B A B and prints
 * one JSON object: both times in seconds for each round, and the peak memory above the source.
 *
 * usage: fence URL MIB ROUNDS   (the staging budget is MIB plus one part, so that the save fits) */
#include "tests/bench/measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TENSORS 64

/* Bytes that no store or file system can shrink. */
static void fill(unsigned char *bytes, size_t size) {
  unsigned long long state = 88172645463325252ull;
  for (size_t i = 0; i + 8 <= size; i += 8) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    memcpy(bytes + i, &state, 8);
  }
}

static double copy_once(unsigned char *to, const unsigned char *from, size_t size) {
  double begun = now_s();
  memcpy(to, from, size);
  /* The compiler must not drop a copy that nobody reads. */
  __asm__ volatile("" : : "r"(to) : "memory");
  return now_s() - begun;
}

static double fence_once(struct cleat_client *client, const struct cleat_tensor *tensors, int64_t step) {
  struct cleat_error err;
  struct cleat_save_request request = CLEAT_SAVE_REQUEST_INIT;
  struct cleat_save *save = NULL;
  request.step = step;
  request.tensors = tensors;
  request.tensor_count = TENSORS;
  double begun = now_s();
  check(cleat_save_async(client, &request, &save, &err), &err);
  check(cleat_save_wait_staged(save, &err), &err);
  double taken = now_s() - begun;
  check(cleat_save_wait(save, &err), &err);
  cleat_save_free(save);
  return taken;
}

static double peak_mib(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return (double)usage.ru_maxrss / 1024;
}

int main(int argc, char **argv) {
  if (argc != 4) {
    fprintf(stderr, "usage: fence URL MIB ROUNDS\n");
    return 2;
  }
  size_t mib = strtoul(argv[2], NULL, 10);
  long rounds = strtol(argv[3], NULL, 10);
  size_t size = (mib << 20) / TENSORS / 4 * 4 * TENSORS;
  unsigned char *source = malloc(size);
  unsigned char *target = malloc(size);
  if (source == NULL || target == NULL) {
    free(source);
    free(target);
    return 1;
  }
  fill(source, size);
  memset(target, 1, size);
  double before_mib = peak_mib();

  struct cleat_error err;
  struct cleat_client_options options = CLEAT_CLIENT_OPTIONS_INIT;
  struct cleat_client *client = NULL;
  options.staging_bytes = size + (32u << 20);
  check(cleat_client_open(argv[1], &options, &client, &err), &err);

  struct cleat_tensor tensors[TENSORS];
  char names[TENSORS][32];
  int64_t shape[1] = {(int64_t)(size / TENSORS / 4)};
  for (int i = 0; i < TENSORS; i++) {
    snprintf(names[i], sizeof names[i], "layer.%d.weight", i);
    tensors[i] = (struct cleat_tensor){.name = names[i],
                                       .dtype = CLEAT_DTYPE_F32,
                                       .ndim = 1,
                                       .shape = shape,
                                       .data = source + (size_t)i * (size / TENSORS)};
  }
  printf("{\"mib\": %zu, \"rounds\": [", mib);
  for (long i = 0; i < rounds; i++) {
    double copied = copy_once(target, source, size);
    double fenced = fence_once(client, tensors, i + 1);
    printf("%s{\"memcpy_s\": %.6f, \"fence_s\": %.6f}", i > 0 ? ", " : "", copied, fenced);
  }
  printf("], \"budget_mib\": %.1f, \"above_source_mib\": %.1f}\n", (double)options.staging_bytes / (1 << 20),
         peak_mib() - before_mib);
  cleat_client_close(client);
  free(source);
  free(target);
  return 0;
}
