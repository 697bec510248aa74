/* names.c: the names of the interface's numbers, and the versions in use. Static texts; any thread. */
#include "api/cleat.h"

#include "gpu/device.h"
#include "uploader/model/tensor.h"

const char *cleat_version(void) {
  return CLEAT_VERSION;
}

int cleat_cuda_version(void) {
  return cleat__device_cuda_version();
}

const char *cleat_dtype_name(enum cleat_dtype dtype) {
  return cleat__dtype_name(dtype);
}

unsigned cleat_dtype_bits(enum cleat_dtype dtype) {
  return cleat__dtype_bits(dtype);
}
