/* device.h: the contract between Cleat and the memory that tensors live in.
 *
 * A device is one constant table of operations plus a context that begins with struct
 * cleat__device. device_host.c (plain memory) is the reference: what another device does with
 * streams and pinned memory, it does with memcpy and mmap. All operations are thread-safe. */
#ifndef CLEAT_GPU_DEVICE_H
#define CLEAT_GPU_DEVICE_H

#include "base/error.h"

#include <stdbool.h>

struct cleat__device;

struct cleat__device_ops {
  const char *name;

  /* Required. Host memory that the device copies to and from at full speed (pinned, where that
   * means something): `bytes` bytes, page-aligned. With `resident` every page is there when it
   * returns, so that the first copy costs what later ones do; without, a device may leave that to
   * the first use. Owned by the caller, freed by host_free. */
  cleat_status (*host_alloc)(struct cleat__device *device, size_t bytes, bool resident,
                             void **memory, struct cleat_error *err);

  /* Required. Frees what host_alloc gave; same size. */
  void (*host_free)(struct cleat__device *device, void *memory, size_t bytes);

  /* Required. Copies from device memory to host memory; returns when the bytes are there. */
  cleat_status (*copy_out)(struct cleat__device *device, void *host_to, const void *device_from,
                           size_t bytes, struct cleat_error *err);

  /* Required. Copies from host memory to device memory; returns when `host_from` may be reused. */
  cleat_status (*copy_in)(struct cleat__device *device, void *device_to, const void *host_from,
                          size_t bytes, struct cleat_error *err);
};

struct cleat__device {
  const struct cleat__device_ops *ops;
};

/* Plain host memory. Static: never freed. */
struct cleat__device *cleat__device_host(void);

#endif
