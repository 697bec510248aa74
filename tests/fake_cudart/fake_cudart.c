/* The calls of the stand-in for the CUDA Runtime. See fake_cudart.h. */
#include "tests/fake_cudart/fake.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct CUgraph_st {
  int unused;
};

struct CUevent_st {
  int device;
  unsigned flags;
  bool captured;              /* recorded in a stream that was being captured */
  struct CUstream_st *stream; /* NULL: not recorded */
  uint64_t place;
};

#define DEVICE_BYTES_DEFAULT ((size_t)1 << 30)

pthread_mutex_t fake_lock = PTHREAD_MUTEX_INITIALIZER;
static __thread int current_device;
static bool ready; /* fake_reset was called, or what stands for it in a program that knows nothing of it */
static int device_count;
static int driver_version;
static unsigned misuses;
static pid_t process; /* of the first call */

/* What was called, and which calls fail. */
static struct {
  const char *name;
  unsigned calls, fail_from, fail_to;
  cudaError_t code;
} functions[64];

void fake_misuse_locked(const char *format, ...) {
  va_list args;
  va_start(args, format);
  fputs("fake_cudart: misuse: ", stderr);
  vfprintf(stderr, format, args);
  fputc('\n', stderr);
  va_end(args);
  misuses++;
}

static size_t function_locked(const char *name) {
  size_t i = 0;
  while (functions[i].name != NULL && strcmp(functions[i].name, name) != 0)
    i++;
  if (i + 1 == sizeof functions / sizeof functions[0])
    abort();
  functions[i].name = name;
  return i;
}

static void reset_locked(unsigned seed, int devices, size_t device_bytes) {
  memset(functions, 0, sizeof functions);
  device_count = devices;
  driver_version = CUDART_VERSION;
  misuses = 0;
  process = 0;
  current_device = 0;
  ready = true;
  fake_memory_reset_locked(devices, device_bytes);
  fake_stream_reset_locked(seed);
  fake_capture_reset_locked();
}

/* Takes the lock. `needs_device`: the call fails where there is no driver or device, after a fork, and when the
 * current device is lost. */
static cudaError_t enter(const char *name, bool needs_device) {
  pthread_mutex_lock(&fake_lock);
  if (!ready)
    reset_locked((unsigned)getpid(), 1, DEVICE_BYTES_DEFAULT);
  size_t i = function_locked(name);
  unsigned call = ++functions[i].calls;
  if (process == 0)
    process = getpid();
  if (call >= functions[i].fail_from && call <= functions[i].fail_to)
    return functions[i].code;
  if (!needs_device)
    return cudaSuccess;
  if (driver_version < CUDART_VERSION / 1000 * 1000)
    return cudaErrorInsufficientDriver;
  if (process != getpid())
    return cudaErrorInitializationError;
  if (device_count == 0)
    return cudaErrorNoDevice;
  return fake_device_state_locked(current_device);
}

static cudaError_t leave(cudaError_t code) {
  pthread_mutex_unlock(&fake_lock);
  return code;
}

#define ENTER(needs_device)                         \
  cudaError_t code = enter(__func__, needs_device); \
  if (code != cudaSuccess)                          \
    return leave(code);

/* The same of a call that a capture may forbid. */
#define ENTER_UNSAFE()                 \
  ENTER(true)                          \
  code = fake_capture_unsafe_locked(); \
  if (code != cudaSuccess)             \
    return leave(code);

/* ---- For tests -------------------------------------------------------------------------------- */

void fake_reset(unsigned seed, int devices, size_t device_bytes) {
  pthread_mutex_lock(&fake_lock);
  for (int i = 0; i < device_count; i++)
    fake_stream_wait_device_locked(i);
  reset_locked(seed, devices, device_bytes);
  pthread_mutex_unlock(&fake_lock);
}

void fake_driver(int version) {
  pthread_mutex_lock(&fake_lock);
  driver_version = version;
  pthread_mutex_unlock(&fake_lock);
}

void fake_fail(const char *function, unsigned nth, unsigned last, cudaError_t code) {
  pthread_mutex_lock(&fake_lock);
  size_t i = function_locked(function);
  functions[i].fail_from = functions[i].calls + nth;
  functions[i].fail_to = functions[i].calls + last;
  functions[i].code = code;
  pthread_mutex_unlock(&fake_lock);
}

void fake_lose(int device, unsigned nth) {
  pthread_mutex_lock(&fake_lock);
  fake_device_lose_locked(device, nth);
  pthread_mutex_unlock(&fake_lock);
}

unsigned fake_calls(const char *function) {
  unsigned calls = 0;
  pthread_mutex_lock(&fake_lock);
  for (size_t i = 0; functions[i].name != NULL; i++) {
    if (function == NULL || strcmp(function, functions[i].name) == 0)
      calls += functions[i].calls;
  }
  pthread_mutex_unlock(&fake_lock);
  return calls;
}

unsigned fake_copies(void) {
  pthread_mutex_lock(&fake_lock);
  unsigned copies = fake_stream_copies_locked();
  pthread_mutex_unlock(&fake_lock);
  return copies;
}

unsigned fake_misuses(void) {
  pthread_mutex_lock(&fake_lock);
  unsigned count = misuses;
  pthread_mutex_unlock(&fake_lock);
  return count;
}

/* ---- Errors and devices ----------------------------------------------------------------------- */

cudaError_t cudaGetLastError(void) {
  return cudaSuccess;
}

const char *cudaGetErrorName(cudaError_t error) {
  switch (error) {
  case cudaErrorMemoryAllocation:
    return "cudaErrorMemoryAllocation";
  case cudaErrorIllegalAddress:
    return "cudaErrorIllegalAddress";
  case cudaErrorNoDevice:
    return "cudaErrorNoDevice";
  case cudaErrorInitializationError:
    return "cudaErrorInitializationError";
  case cudaErrorECCUncorrectable:
    return "cudaErrorECCUncorrectable";
  default:
    return "cudaErrorOther";
  }
}

const char *cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? "out of memory" : "stand-in error";
}

cudaError_t cudaDriverGetVersion(int *driverVersion) {
  ENTER(false)
  *driverVersion = driver_version;
  return leave(cudaSuccess);
}

cudaError_t cudaGetDeviceCount(int *count) {
  ENTER(true)
  *count = device_count;
  return leave(cudaSuccess);
}

cudaError_t cudaGetDevice(int *device) {
  ENTER(true)
  *device = current_device;
  return leave(cudaSuccess);
}

cudaError_t cudaSetDevice(int device) {
  cudaError_t code = enter(__func__, true);
  if (code != cudaSuccess && fake_device_state_locked(current_device) == cudaSuccess)
    return leave(code);
  if (device < 0 || device >= device_count)
    return leave(cudaErrorInvalidDevice);
  current_device = device;
  return leave(fake_device_state_locked(device));
}

cudaError_t cudaDeviceSynchronize(void) {
  ENTER_UNSAFE()
  code = fake_capture_wait_locked(NULL, current_device);
  if (code != cudaSuccess)
    return leave(code);
  fake_stream_wait_device_locked(current_device);
  return leave(fake_device_state_locked(current_device));
}

/* ---- Streams and events ----------------------------------------------------------------------- */

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *pStream, unsigned int flags) {
  ENTER_UNSAFE()
  *pStream = fake_stream_new_locked(current_device, (flags & cudaStreamNonBlocking) == 0);
  return leave(cudaSuccess);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  cudaError_t code = enter(__func__, true);
  if (code == cudaSuccess)
    code = fake_capture_unsafe_locked();
  struct CUstream_st *known = fake_stream_locked(stream, current_device);
  if (known == NULL)
    return leave(cudaErrorInvalidResourceHandle);
  fake_stream_end_locked(known);
  return leave(code);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  ENTER_UNSAFE()
  struct CUstream_st *known = fake_stream_locked(stream, current_device);
  if (known == NULL)
    return leave(cudaErrorInvalidResourceHandle);
  code = fake_capture_wait_locked(known, -1);
  if (code != cudaSuccess)
    return leave(code);
  return leave(fake_stream_wait_locked(known, fake_stream_place_locked(known)));
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode) {
  ENTER(true)
  struct CUstream_st *known = stream != NULL ? fake_stream_locked(stream, current_device) : NULL;
  return leave(known != NULL ? fake_capture_begin_locked(known, mode) : cudaErrorStreamCaptureUnsupported);
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *pGraph) {
  ENTER(true)
  *pGraph = NULL;
  code = fake_capture_end_locked(fake_stream_locked(stream, current_device));
  if (code == cudaSuccess)
    *pGraph = calloc(1, sizeof(**pGraph));
  return leave(code);
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  ENTER(true)
  free(graph);
  return leave(cudaSuccess);
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *pCaptureStatus) {
  ENTER(true)
  struct CUstream_st *known = fake_stream_locked(stream, current_device);
  if (known == NULL)
    return leave(cudaErrorInvalidResourceHandle);
  return leave(fake_capture_status_locked(known, stream == NULL, pCaptureStatus));
}

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode) {
  ENTER(true)
  *mode = fake_capture_exchange(*mode);
  return leave(cudaSuccess);
}

/* Whether a stream is to do what it was given; if not, *code says what comes of it. */
static bool is_done_locked(const struct CUstream_st *stream, bool is_default, cudaError_t *code) {
  bool captured = false;
  *code = fake_capture_work_locked(stream, is_default, &captured);
  return *code == cudaSuccess && !captured;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags) {
  ENTER_UNSAFE()
  *event = calloc(1, sizeof(**event));
  if (*event == NULL)
    abort();
  (*event)->device = current_device;
  (*event)->flags = flags;
  return leave(cudaSuccess);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  cudaError_t code = enter(__func__, true);
  free(event);
  return leave(code);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  ENTER(true)
  struct CUstream_st *known = fake_stream_locked(stream, current_device);
  if (known == NULL || fake_stream_device(known) != event->device) {
    fake_misuse_locked("an event of device %d was recorded on a stream of another", event->device);
    return leave(cudaErrorInvalidResourceHandle);
  }
  bool done = is_done_locked(known, stream == NULL, &code);
  if (code != cudaSuccess)
    return leave(code);
  event->stream = known;
  event->captured = !done;
  event->place = done ? fake_stream_place_locked(known) : 0;
  return leave(cudaSuccess);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags) {
  (void)flags;
  ENTER(true)
  struct CUstream_st *known = fake_stream_locked(stream, current_device);
  if (known == NULL)
    return leave(cudaErrorInvalidResourceHandle);
  if (!is_done_locked(known, stream == NULL, &code))
    return leave(code);
  if (event->captured) {
    fake_misuse_locked("a stream was put behind one that is being captured, and so became part of the graph");
    fake_capture_spoil_locked(event->stream);
  } else if (event->stream != NULL) {
    fake_stream_after_locked(known, event->stream, event->place);
  }
  return leave(cudaSuccess);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  ENTER_UNSAFE()
  if ((event->flags & cudaEventBlockingSync) == 0)
    fake_misuse_locked("a wait for an event that spins");
  if (event->captured) {
    fake_capture_spoil_locked(event->stream);
    return leave(cudaErrorStreamCaptureUnsupported);
  }
  return leave(event->stream != NULL ? fake_stream_wait_locked(event->stream, event->place) : cudaSuccess);
}

/* ---- Memory ----------------------------------------------------------------------------------- */

cudaError_t cudaMalloc(void **devPtr, size_t size) {
  ENTER_UNSAFE()
  void *taken = fake_memory_take_locked(current_device, size);
  if (taken == NULL)
    return leave(cudaErrorMemoryAllocation);
  *devPtr = taken;
  return leave(cudaSuccess);
}

cudaError_t cudaFree(void *devPtr) {
  ENTER_UNSAFE()
  int device = fake_memory_device(devPtr);
  if (device < 0)
    return leave(cudaErrorInvalidValue);
  fake_stream_wait_device_locked(device);
  return leave(fake_memory_give_locked(devPtr) ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaMallocAsync(void **devPtr, size_t size, cudaStream_t hStream) {
  ENTER(true)
  struct CUstream_st *known = fake_stream_locked(hStream, current_device);
  void *taken = known != NULL ? fake_memory_take_locked(fake_stream_device(known), size) : NULL;
  if (taken == NULL)
    return leave(known != NULL ? cudaErrorMemoryAllocation : cudaErrorInvalidResourceHandle);
  if (!is_done_locked(known, hStream == NULL, &code))
    return leave(code);
  *devPtr = taken;
  return leave(cudaSuccess);
}

cudaError_t cudaFreeAsync(void *devPtr, cudaStream_t hStream) {
  ENTER(true)
  struct CUstream_st *known = fake_stream_locked(hStream, current_device);
  if (known == NULL)
    return leave(cudaErrorInvalidResourceHandle);
  return leave(fake_stream_free_locked(known, devPtr));
}

cudaError_t cudaMemGetInfo(size_t *free, size_t *total) {
  ENTER_UNSAFE()
  fake_memory_info_locked(current_device, free, total);
  return leave(cudaSuccess);
}

cudaError_t cudaHostRegister(void *ptr, size_t size, unsigned int flags) {
  ENTER_UNSAFE()
  if ((flags & cudaHostRegisterPortable) == 0)
    fake_misuse_locked("host memory is pinned for one device alone");
  return leave(fake_memory_pin_locked(ptr, size) ? cudaSuccess : cudaErrorHostMemoryAlreadyRegistered);
}

cudaError_t cudaHostUnregister(void *ptr) {
  ENTER_UNSAFE()
  return leave(fake_memory_unpin_locked(ptr) ? cudaSuccess : cudaErrorHostMemoryNotRegistered);
}

cudaError_t cudaHostAlloc(void **pHost, size_t size, unsigned int flags) {
  (void)flags;
  ENTER_UNSAFE()
  void *memory = malloc(size);
  if (memory == NULL || !fake_memory_pin_locked(memory, size))
    abort();
  *pHost = memory;
  return leave(cudaSuccess);
}

cudaError_t cudaFreeHost(void *ptr) {
  ENTER_UNSAFE()
  if (!fake_memory_unpin_locked(ptr))
    return leave(cudaErrorInvalidValue);
  free(ptr);
  return leave(cudaSuccess);
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *ptr) {
  ENTER_UNSAFE()
  int device = fake_memory_device(ptr);
  memset(attributes, 0, sizeof(*attributes));
  attributes->type = device < 0 ? cudaMemoryTypeUnregistered : cudaMemoryTypeDevice;
  if (device < 0 && fake_memory_is_pinned_locked(ptr, 1))
    attributes->type = cudaMemoryTypeHost;
  attributes->device = device < 0 ? -2 : device;
  return leave(cudaSuccess);
}

/* ---- Copies ----------------------------------------------------------------------------------- */

static cudaError_t submit_locked(cudaStream_t stream, const struct fake_copy *copy) {
  struct CUstream_st *known = fake_stream_locked(stream, current_device);
  if (known == NULL)
    return cudaErrorInvalidResourceHandle;
  if (copy->rows > 1 && (copy->to_pitch < copy->width || copy->from_pitch < copy->width))
    return cudaErrorInvalidPitchValue;
  if (copy->width == 0 || copy->rows == 0)
    return cudaSuccess;
  cudaError_t code = cudaSuccess;
  if (fake_copy_is_pageable_locked(copy))
    code = fake_capture_unsafe_locked();
  if (code != cudaSuccess || !is_done_locked(known, stream == NULL, &code))
    return code;
  return fake_stream_copy_locked(known, copy);
}

static struct fake_copy plain(void *to, const void *from, size_t bytes) {
  return (struct fake_copy){
      .to = to, .from = from, .width = bytes, .rows = 1, .to_pitch = bytes, .from_pitch = bytes, .value = -1};
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind, cudaStream_t stream) {
  (void)kind;
  ENTER(true)
  struct fake_copy copy = plain(dst, src, count);
  return leave(submit_locked(stream, &copy));
}

cudaError_t cudaMemcpy(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind) {
  (void)kind;
  ENTER_UNSAFE()
  struct fake_copy copy = plain(dst, src, count);
  code = submit_locked(NULL, &copy);
  struct CUstream_st *known = fake_stream_locked(NULL, current_device);
  if (code == cudaSuccess)
    code = fake_stream_wait_locked(known, fake_stream_place_locked(known));
  return leave(code);
}

cudaError_t cudaMemcpy2DAsync(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
                              enum cudaMemcpyKind kind, cudaStream_t stream) {
  (void)kind;
  ENTER(true)
  struct fake_copy copy = {dst, src, width, height, dpitch, spitch, -1};
  return leave(submit_locked(stream, &copy));
}

/* The order inside a batch is nobody's business: from the last to the first. */
cudaError_t cudaMemcpyBatchAsync(void *const *dsts, const void *const *srcs, const size_t *sizes, size_t count,
                                 struct cudaMemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs,
                                 cudaStream_t stream) {
  ENTER(true)
  if (stream == NULL || numAttrs != 1 || attrsIdxs[0] != 0 || attrs->srcAccessOrder != cudaMemcpySrcAccessOrderStream)
    return leave(cudaErrorInvalidValue);
  for (size_t i = count; code == cudaSuccess && i-- > 0;) {
    struct fake_copy copy = plain(dsts[i], srcs[i], sizes[i]);
    code = submit_locked(stream, &copy);
  }
  return leave(code);
}

cudaError_t cudaMemsetAsync(void *devPtr, int value, size_t count, cudaStream_t stream) {
  ENTER(true)
  struct fake_copy copy = plain(devPtr, NULL, count);
  copy.value = value & 0xff;
  return leave(submit_locked(stream, &copy));
}
