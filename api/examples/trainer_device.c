/* trainer_device.c: see trainer_device.h. */
#include "trainer_device.h"

#include <stdio.h>

#ifdef TRAINER_CUDA
#include <cuda_runtime_api.h>

static bool worked(cudaError_t code, const char *what) {
  if (code != cudaSuccess) {
    fprintf(stderr, "trainer: cannot %s: %s\n", what, cudaGetErrorString(code));
  }
  return code == cudaSuccess;
}

bool device_open(struct device *device) {
  cudaStream_t stream = NULL;
  if (!worked(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "use a CUDA device")) {
    return false;
  }
  device->stream = stream;
  return true;
}

void device_close(struct device *device) {
  for (size_t i = 0; i < device->count; i++) {
    cudaFree(device->arrays[i].memory);
  }
  if (device->stream) {
    cudaStreamDestroy(device->stream);
  }
}

bool device_add(struct device *device, void *host, uint64_t bytes) {
  struct device_array *array = &device->arrays[device->count];
  if (device->count == DEVICE_ARRAYS_MAX || !worked(cudaMalloc(&array->memory, bytes), "take device memory")) {
    return false;
  }
  array->host = host;
  array->bytes = bytes;
  device->count++;
  return worked(cudaMemcpy(array->memory, host, bytes, cudaMemcpyDefault), "copy to the device");
}

bool device_pull(struct device *device) {
  for (size_t i = 0; i < device->count; i++) {
    const struct device_array *array = &device->arrays[i];
    if (!worked(cudaMemcpyAsync(array->host, array->memory, array->bytes, cudaMemcpyDefault, device->stream),
                "copy from the device")) {
      return false;
    }
  }
  return !device->stream || worked(cudaStreamSynchronize(device->stream), "copy from the device");
}

bool device_push(struct device *device) {
  for (size_t i = 0; i < device->count; i++) {
    const struct device_array *array = &device->arrays[i];
    if (!worked(cudaMemcpyAsync(array->memory, array->host, array->bytes, cudaMemcpyDefault, device->stream),
                "copy to the device")) {
      return false;
    }
  }
  return true;
}

#else

bool device_open(struct device *device) {
  (void)device;
  fprintf(stderr, "trainer: it was built without CUDA\n");
  return false;
}

void device_close(struct device *device) {
  (void)device;
}

bool device_add(struct device *device, void *host, uint64_t bytes) {
  (void)device;
  (void)host;
  (void)bytes;
  return false;
}

bool device_pull(struct device *device) {
  (void)device;
  return true;
}

bool device_push(struct device *device) {
  (void)device;
  return true;
}

#endif

void *device_address(const struct device *device, const void *host) {
  for (size_t i = 0; i < device->count; i++) {
    if (device->arrays[i].host == host) {
      return device->arrays[i].memory;
    }
  }
  return NULL;
}
