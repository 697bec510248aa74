/* A program with the real CUDA Runtime inside, where there is no driver: host tensors work, CUDA memory is refused in
 * words. Where there is a driver it says so and tests nothing. */
#include "tests/gpu/kit.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(void) {
  char folder[] = "/tmp/cleat-absent-XXXXXX";
  char url[64];
  unsigned char byte = 42;
  int64_t size = 1;
  struct cleat_tensor tensor = {.name = "w", .dtype = CLEAT_DTYPE_U8, .ndim = 1, .shape = &size, .data = &byte};
  struct cleat_place place = {CLEAT_DEVICE_CUDA, NULL};
  struct cleat_save_request request = CLEAT_SAVE_REQUEST_INIT;
  struct cleat_client_options options = CLEAT_CLIENT_OPTIONS_INIT;
  struct cleat_client *client = NULL;
  int driver = 0;
  CHECK(cleat_cuda_version() == CUDART_VERSION);
  if (cudaDriverGetVersion(&driver) == cudaSuccess && driver > 0) {
    printf("skipped - there is a driver\n");
    return 0;
  }
  CHECK(mkdtemp(folder) != NULL);
  (void)snprintf(url, sizeof url, "file://%s", folder);
  OK(cleat_client_open(url, NULL, &client, &kit_err));
  request.tensors = &tensor;
  request.tensor_count = 1;
  OK(cleat_save(client, &request, &kit_err));
  printf("ok - host memory is saved without a driver\n");
  request.step = 1;
  request.places = &place;
  FAILS(cleat_save(client, &request, &kit_err), UNSUPPORTED);
  CHECK(strstr(kit_err.message, "no NVIDIA driver") != NULL);
  cleat_client_close(client);
  options.cuda = 1;
  FAILS(cleat_client_open(url, &options, &client, &kit_err), UNSUPPORTED);
  printf("ok - CUDA memory is refused: %s\n", kit_err.message);
  char command[96];
  (void)snprintf(command, sizeof command, "rm -rf %s", folder);
  return system(command) != 0;
}
