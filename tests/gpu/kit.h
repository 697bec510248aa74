/* kit.h: what the tests of CUDA memory share. They run on the stand-in (tests/fake_cudart), where they can make calls
 * fail, and on the real Runtime, on a machine that may have neither Check nor anything else but a compiler.
 *
 * A case runs in a child process of its own, which makes the first CUDA call. Its result is a line "ok - name",
 * "not ok - name" or "skipped - name: why". A case fails at its first wrong assertion. */
#ifndef CLEAT_TESTS_GPU_KIT_H
#define CLEAT_TESTS_GPU_KIT_H

#include "api/cleat.h"

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdlib.h>

#ifdef CLEAT_FAKE_CUDART
#include "tests/fake_cudart/fake_cudart.h"
#endif

#define KIT_DEVICE_BYTES ((size_t)256 << 20) /* of the stand-in's devices */

struct kit_case {
  const char *name;
  void (*run)(void);
};

int kit_main(const struct kit_case *cases, size_t count);

/* Ends the case. */
void kit_fail(const char *file, int line, const char *format, ...) __attribute__((format(printf, 3, 4), noreturn));
void kit_skip(const char *why) __attribute__((noreturn));

#define CHECK(condition)                              \
  do {                                                \
    if (!(condition))                                 \
      kit_fail(__FILE__, __LINE__, "%s", #condition); \
  } while (0)
#define CUDA(call)                                                            \
  do {                                                                        \
    cudaError_t code_ = (call);                                               \
    if (code_ != cudaSuccess)                                                 \
      kit_fail(__FILE__, __LINE__, "%s: %s", #call, cudaGetErrorName(code_)); \
  } while (0)
/* Of Cleat: succeeds, or fails with this status; the error is in kit_err. */
#define OK(call) kit_status((call), CLEAT_OK, #call, __FILE__, __LINE__)
#define FAILS(call, status) kit_status((call), CLEAT_##status, #call, __FILE__, __LINE__)
extern struct cleat_error kit_err;
void kit_status(cleat_status got, cleat_status wanted, const char *what, const char *file, int line);

/* A client on a folder of the case's own; `given` may be NULL. Staging of 8 buffers of 64 KiB; lines go to kit_log. */
struct cleat_client *kit_open(const struct cleat_client_options *given);

/* Lines that the client has logged, one behind another. */
const char *kit_log(void);

/* Tensors t0000, t0001, …: bytes that follow from index and salt, in host memory or on a device. */
struct kit_model {
  size_t count;
  struct cleat_tensor *tensors;
  struct cleat_place *places;
  int64_t *sizes;
};
#define KIT_HOST (-1)

void kit_model_init(struct kit_model *model, size_t count);
/* Takes memory for tensor `index`, of `bytes` bytes, on `device` or KIT_HOST, and fills it. */
void kit_model_set(struct kit_model *model, size_t index, size_t bytes, int device, unsigned salt);
/* Fills all memory as another salt would. */
void kit_model_fill(struct kit_model *model, unsigned salt);
/* Whether memory holds what that salt makes; ends the case if not. */
void kit_model_check(struct kit_model *model, unsigned salt);
void kit_model_free(struct kit_model *model);

struct cleat_save_request kit_request(const struct kit_model *model, int64_t step);

/* Loads `step` of the client into the model's memory. */
cleat_status kit_load(struct cleat_client *client, int64_t step, struct kit_model *model);

/* Loads `step` into new host memory and compares it with what salt makes. */
void kit_expect_saved(struct cleat_client *client, int64_t step, const struct kit_model *model, unsigned salt);

int kit_devices(void);

#endif
