/* Replaces device_cuda.c in a build without CUDA: every first use of CUDA returns an error.
 *
 * Static, so thread-safe. */
#include "gpu/device.h"

static cleat_status refuse(struct cleat_error *err) {
  cleat_status status =
      cleat__error_set(err, CLEAT_UNSUPPORTED, "this build of Cleat has no CUDA, so it cannot reach CUDA memory");
  cleat__error_hint(err, "build Cleat with CUDA (make CUDA=/usr/local/cuda); `cleat --version` "
                         "shows what this build has");
  return status;
}

static cleat_status no_cuda_pin(struct cleat__device *device, int ordinal, void *memory, size_t bytes,
                                struct cleat_error *err) {
  (void)device;
  (void)ordinal;
  (void)memory;
  (void)bytes;
  return refuse(err);
}

static cleat_status no_cuda_locate(struct cleat__device *device, const void *address, int *ordinal,
                                   struct cleat_error *err) {
  (void)device;
  (void)address;
  (void)ordinal;
  return refuse(err);
}

static void no_cuda_close(struct cleat__device *device) {
  (void)device;
}

/* No queue can be created, so its operations are not needed. */
static const struct cleat__device_ops no_cuda_ops = {
    .name = "no CUDA",
    .pin = no_cuda_pin,
    .locate = no_cuda_locate,
    .close = no_cuda_close,
};

cleat_status cleat__device_cuda_new(const struct cleat__log *log, struct cleat__device **device,
                                    struct cleat_error *err) {
  static struct cleat__device none = {&no_cuda_ops};
  (void)log;
  (void)err;
  *device = &none;
  return CLEAT_OK;
}

int cleat__device_cuda_version(void) {
  return 0;
}
