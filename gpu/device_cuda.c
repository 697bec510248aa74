/* CUDA devices, through the CUDA Runtime.
 *
 * No call is made before there is CUDA memory. So a program with host tensors runs without a driver. A queue's copies
 * use one non-blocking stream. A thread that waits for them sleeps on an event (cudaEventBlockingSync) instead of
 * spinning. The caller's threads keep their current device and capture mode. The client's workers, which submit and
 * wait, have no device or mode of their own to keep.
 *
 * Threads: `lock` guards what pin sets. Everything else is constant, atomic, or belongs to CUDA, which is thread-safe.
 * The context owns the registration of the pinned block. A queue owns its stream. Source of the rules: CUDA Runtime
 * API, "Stream Management", "Event Management", "Memory Management", "API synchronization behavior". */
#include "gpu/device.h"

#include "base/mem.h"
#include "base/mutex.h"

#include <cuda_runtime_api.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

/* Bytes. Copies up to this size are submitted many in a call. For larger copies the cost of a call does not matter. */
#define BATCH_COPY_BYTES_MAX ((size_t)256 << 10)
#define BATCH_COPIES_MAX 128u
/* A snapshot leaves 1 / SNAPSHOT_RESERVE of the device's memory free. Otherwise the next allocation of the training
 * step would fail. */
#define SNAPSHOT_RESERVE 32u

struct cuda_device {
  struct cleat__device device; /* must be the first field */
  struct cleat__log log;
  atomic_bool no_batch; /* the driver does not support cudaMemcpyBatchAsync */
  pthread_mutex_t lock;
  struct {
    void *pinned;    /* the block, after pin was called for it */
    bool registered; /* false: the system refused to pin it, so copies are slow */
  } synced;
};

struct cuda_queue {
  struct cleat__queue queue; /* must be the first field */
  int ordinal;
  cudaStream_t stream;
};

/* The process that made the first CUDA call. A CUDA context does not survive a fork. */
static atomic_int cuda_process;

static struct cuda_device *device_of(struct cleat__device *device) {
  return (struct cuda_device *)device;
}

static struct cuda_queue *queue_of(struct cleat__queue *queue) {
  return (struct cuda_queue *)queue;
}

/* ---- Errors ----------------------------------------------------------------------------------- */

static cleat_status status_of(cudaError_t code) {
  switch (code) {
  case cudaErrorMemoryAllocation:
    return CLEAT_NO_MEMORY;
  case cudaErrorNoDevice:
  case cudaErrorInsufficientDriver:
  case cudaErrorInitializationError:
  case cudaErrorInvalidDevice:
  case cudaErrorNotSupported:
  case cudaErrorSystemNotReady:
  case cudaErrorSystemDriverMismatch:
  case cudaErrorStubLibrary:
    return CLEAT_UNSUPPORTED;
  default:
    return CLEAT_IO;
  }
}

static const char *hint_of(cudaError_t code) {
  switch (code) {
  case cudaErrorMemoryAllocation:
    return "the device has too little free memory; see nvidia-smi";
  case cudaErrorInitializationError:
    return "if this process was forked after CUDA was used, start it with spawn or exec instead";
  case cudaErrorNoDevice:
    return "see nvidia-smi, and CUDA_VISIBLE_DEVICES";
  default:
    return status_of(code) == CLEAT_IO
               ? "if later CUDA calls fail too, this process has lost the device: restart it and "
                 "resume; dmesg has the driver's reason (Xid)"
               : "see nvidia-smi for the driver and its devices";
  }
}

/* Fills *err from a failed call. Clears the error from the thread's CUDA state, so that the program's own code does not
 * find it there. */
__attribute__((format(printf, 4, 5))) static cleat_status cuda_fail(struct cleat_error *err, cudaError_t code,
                                                                    int ordinal, const char *format, ...) {
  char what[160];
  va_list args;
  va_start(args, format);
  (void)vsnprintf(what, sizeof(what), format, args);
  va_end(args);
  (void)cudaGetLastError();
  cleat_status status = cleat__error_set(err, status_of(code), "CUDA device %d: cannot %s: %s (%s)", ordinal, what,
                                         cudaGetErrorString(code), cudaGetErrorName(code));
  cleat__error_hint(err, "%s", hint_of(code));
  return status;
}

/* ---- Before the first use --------------------------------------------------------------------- */

static cleat_status check_process(struct cleat_error *err) {
  int none = 0;
  int self = (int)getpid();
  if (atomic_compare_exchange_strong(&cuda_process, &none, self) || none == self)
    return CLEAT_OK;
  cleat_status status =
      cleat__error_set(err, CLEAT_UNSUPPORTED, "CUDA was used before this process was forked, and is lost in it");
  cleat__error_hint(err, "start processes that use CUDA with spawn or exec, or fork before its first use");
  return status;
}

static cleat_status check_driver(struct cleat_error *err) {
  int driver = 0;
  (void)cudaDriverGetVersion(&driver);
  if (driver / 1000 >= CUDART_VERSION / 1000)
    return CLEAT_OK;
  (void)cudaGetLastError();
  cleat_status status = CLEAT_UNSUPPORTED;
  if (driver == 0) {
    status = cleat__error_set(err, CLEAT_UNSUPPORTED, "this machine has no NVIDIA driver");
    cleat__error_hint(err, "if this is a container, start it with GPUs (--gpus all); see nvidia-smi");
  } else {
    status =
        cleat__error_set(err, CLEAT_UNSUPPORTED, "the NVIDIA driver knows CUDA %d.%d, but Cleat was built with %d.%d",
                         driver / 1000, driver % 1000 / 10, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
    cleat__error_hint(err, "install a newer driver, or build Cleat with CUDA %d", driver / 1000);
  }
  return status;
}

/* Every operation that does not belong to a queue begins with this check. */
static cleat_status check_usable(struct cleat_error *err) {
  cleat_status status = check_process(err);
  if (status == CLEAT_OK)
    status = check_driver(err);
  if (status != CLEAT_OK)
    return status;
  int count = 0;
  cudaError_t code = cudaGetDeviceCount(&count);
  if (code == cudaSuccess && count > 0)
    return CLEAT_OK;
  return cuda_fail(err, code != cudaSuccess ? code : cudaErrorNoDevice, 0, "be used");
}

/* ---- The current device and capture mode of a thread -------------------------------------------- */

/* A thread of the program may be capturing a CUDA graph. In a thread's default mode, CUDA then refuses calls that are
 * not part of a stream (pin, allocate, wait), and they end that capture. Cleat's calls belong to no graph, so it makes
 * them in the relaxed mode. Source: cudaThreadExchangeStreamCaptureMode. */
static cleat_status exchange_mode(enum cudaStreamCaptureMode *mode, struct cleat_error *err) {
  cudaError_t code = cudaThreadExchangeStreamCaptureMode(mode);
  return code == cudaSuccess ? CLEAT_OK : cuda_fail(err, code, 0, "change the thread's capture mode");
}

/* For the client's workers. They keep the device and the mode: returning to a device that the process does not use
 * would create a context there. */
static cleat_status use_device(const struct cuda_queue *queue, struct cleat_error *err) {
  enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  cleat_status status = check_process(err);
  if (status == CLEAT_OK)
    status = exchange_mode(&mode, err);
  if (status != CLEAT_OK)
    return status;
  cudaError_t code = cudaSetDevice(queue->ordinal);
  return code == cudaSuccess ? CLEAT_OK : cuda_fail(err, code, queue->ordinal, "be chosen");
}

/* State of a caller's thread, to be restored. */
struct visit {
  int ordinal, before;
  enum cudaStreamCaptureMode mode;
};

static cleat_status enter(struct visit *visit, struct cleat_error *err) {
  *visit = (struct visit){.mode = cudaStreamCaptureModeRelaxed};
  return exchange_mode(&visit->mode, err);
}

static void leave(const struct visit *visit) {
  enum cudaStreamCaptureMode mode = visit->mode;
  if (visit->before != visit->ordinal && cudaSetDevice(visit->before) != cudaSuccess)
    (void)cudaGetLastError();
  if (cudaThreadExchangeStreamCaptureMode(&mode) != cudaSuccess)
    (void)cudaGetLastError();
}

/* Also makes `ordinal` the current device; -1: the device that is current. After a failure, do not call leave. */
static cleat_status enter_device(int ordinal, struct visit *visit, struct cleat_error *err) {
  cleat_status status = enter(visit, err);
  if (status != CLEAT_OK)
    return status;
  int before = 0;
  cudaError_t code = cudaGetDevice(&before);
  if (code == cudaSuccess && ordinal >= 0 && before != ordinal)
    code = cudaSetDevice(ordinal);
  if (code != cudaSuccess) {
    status = cuda_fail(err, code, ordinal, "be chosen");
    leave(visit);
    return status;
  }
  visit->before = before;
  visit->ordinal = ordinal >= 0 ? ordinal : before;
  return CLEAT_OK;
}

/* ---- Host memory ------------------------------------------------------------------------------ */

/* Pins the block. The lock is held on purpose: other threads that need the block wait until it is pinned. *refused: the
 * system has too little memory to pin; the caller logs that after it has released the lock. */
static cleat_status pin_locked(struct cuda_device *cuda, int ordinal, void *memory, size_t bytes, cudaError_t *refused,
                               struct cleat_error *err) {
  assert(cleat__mutex_is_mine(&cuda->lock));
  struct visit visit;
  cleat_status status = enter_device(ordinal, &visit, err);
  if (status != CLEAT_OK)
    return status;
  cudaError_t code = cudaHostRegister(memory, bytes, cudaHostRegisterPortable);
  if (code == cudaSuccess || code == cudaErrorMemoryAllocation || code == cudaErrorNotSupported) {
    cuda->synced.pinned = memory;
    cuda->synced.registered = code == cudaSuccess;
    *refused = code;
    if (code != cudaSuccess)
      (void)cudaGetLastError();
  } else {
    status = cuda_fail(err, code, visit.ordinal, "pin %zu bytes of host memory", bytes);
  }
  leave(&visit);
  return status;
}

static cleat_status cuda_pin(struct cleat__device *device, int ordinal, void *memory, size_t bytes,
                             struct cleat_error *err) {
  struct cuda_device *cuda = device_of(device);
  cudaError_t refused = cudaSuccess;
  cleat_status status = check_usable(err);
  if (status != CLEAT_OK)
    return status;
  cleat__mutex_lock(&cuda->lock);
  if (cuda->synced.pinned == NULL)
    status = pin_locked(cuda, ordinal, memory, bytes, &refused, err);
  else if (cuda->synced.pinned != memory)
    status = cleat__error_set(err, CLEAT_INTERNAL, "a second block of staging memory");
  cleat__mutex_unlock(&cuda->lock);
  if (refused != cudaSuccess)
    cleat__log(&cuda->log, CLEAT_LOG_WARNING,
               "cannot pin %zu bytes of staging memory (%s): copies to and from the GPU are slow", bytes,
               cudaGetErrorString(refused));
  return status;
}

static cleat_status cuda_locate(struct cleat__device *device, const void *address, int *ordinal,
                                struct cleat_error *err) {
  (void)device;
  cleat_status status = check_usable(err);
  if (status != CLEAT_OK)
    return status;
  struct visit visit;
  struct cudaPointerAttributes found = {0};
  status = enter(&visit, err);
  if (status != CLEAT_OK)
    return status;
  cudaError_t code = cudaPointerGetAttributes(&found, address);
  leave(&visit);
  /* Runtimes before 11 report "invalid value" for an address that is not CUDA's. */
  if (code != cudaSuccess && code != cudaErrorInvalidValue)
    return cuda_fail(err, code, 0, "query an address");
  if (code == cudaSuccess && (found.type == cudaMemoryTypeDevice || found.type == cudaMemoryTypeManaged)) {
    *ordinal = found.device;
    return CLEAT_OK;
  }
  (void)cudaGetLastError();
  status = cleat__error_set(err, CLEAT_INVALID, "address %p is not memory of a CUDA device", address);
  cleat__error_hint(err, "set device to CLEAT_DEVICE_CUDA only for memory from cudaMalloc; leave "
                         "it out for host memory");
  return status;
}

/* ---- Queues ----------------------------------------------------------------------------------- */

static cleat_status cuda_queue_new(struct cleat__device *device, int ordinal, struct cleat__queue **queue,
                                   struct cleat_error *err) {
  cleat_status status = check_usable(err);
  if (status != CLEAT_OK)
    return status;
  struct cuda_queue *fresh = cleat__calloc(1, sizeof(*fresh));
  if (fresh == NULL)
    return cleat__error_no_memory(err, "a CUDA stream");
  fresh->queue.device = device;
  fresh->ordinal = ordinal;
  struct visit visit;
  status = enter_device(ordinal, &visit, err);
  if (status == CLEAT_OK) {
    cudaError_t code = cudaStreamCreateWithFlags(&fresh->stream, cudaStreamNonBlocking);
    if (code != cudaSuccess)
      status = cuda_fail(err, code, ordinal, "create a stream");
    leave(&visit);
  }
  if (status != CLEAT_OK) {
    cleat__free(fresh);
    return status;
  }
  *queue = &fresh->queue;
  return CLEAT_OK;
}

/* Work that is being captured is not done yet, and an event in it would become part of the graph. This query does not
 * affect the capture. */
static cleat_status check_not_captured(const struct cuda_queue *queue, cudaStream_t stream, struct cleat_error *err) {
  enum cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  cudaError_t code = cudaStreamIsCapturing(stream, &capture);
  if (code == cudaSuccess && capture == cudaStreamCaptureStatusNone)
    return CLEAT_OK;
  if (code != cudaSuccess && code != cudaErrorStreamCaptureImplicit)
    return cuda_fail(err, code, queue->ordinal, "query the tensors' stream");
  (void)cudaGetLastError();
  cleat_status status =
      cleat__error_set(err, CLEAT_INVALID, "%s is being captured into a CUDA graph",
                       code == cudaSuccess ? "the stream of the tensor" : "a stream that the default stream waits for");
  cleat__error_hint(err, "save and load before cudaStreamBeginCapture or after "
                         "cudaStreamEndCapture, or name another stream in the tensor's place");
  return status;
}

static cudaError_t put_behind(const struct cuda_queue *queue, cudaStream_t stream) {
  cudaEvent_t event = NULL;
  cudaError_t code = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  if (code != cudaSuccess)
    return code;
  code = cudaEventRecord(event, stream);
  if (code == cudaSuccess)
    code = cudaStreamWaitEvent(queue->stream, event, 0);
  /* Streams that wait for the event continue to wait. */
  (void)cudaEventDestroy(event);
  return code;
}

static cleat_status cuda_queue_after(struct cleat__queue *base, void *stream, struct cleat_error *err) {
  struct cuda_queue *queue = queue_of(base);
  struct visit visit;
  cleat_status status = check_process(err);
  if (status == CLEAT_OK)
    status = enter_device(queue->ordinal, &visit, err);
  if (status != CLEAT_OK)
    return status;
  status = check_not_captured(queue, stream, err);
  if (status == CLEAT_OK) {
    cudaError_t code = put_behind(queue, stream);
    if (code != cudaSuccess)
      status = cuda_fail(err, code, queue->ordinal, "wait for the tensors' stream");
  }
  leave(&visit);
  return status;
}

#if CUDART_VERSION >= 12080
/* The casts allow for the constness of the arrays, which differs between releases. */
static cudaError_t batch_submit(const struct cuda_queue *queue, void **to, const void **from, size_t *bytes,
                                size_t count) {
  struct cudaMemcpyAttributes attributes = {.srcAccessOrder = cudaMemcpySrcAccessOrderStream,
                                            .flags = cudaMemcpyFlagPreferOverlapWithCompute};
  size_t first = 0;
#if CUDART_VERSION >= 13000
  return cudaMemcpyBatchAsync((void *)to, (void *)from, bytes, count, &attributes, &first, 1, queue->stream);
#else
  size_t failed = 0;
  return cudaMemcpyBatchAsync((void *)to, (void *)from, bytes, count, &attributes, &first, 1, &failed, queue->stream);
#endif
}
#endif

/* Submits one contiguous copy, or rows. */
static cudaError_t submit_one(const struct cuda_queue *queue, const struct cleat__copy *copy) {
  if (copy->rows == 1)
    return cudaMemcpyAsync(copy->to, copy->from, copy->row_bytes, cudaMemcpyDefault, queue->stream);
  return cudaMemcpy2DAsync(copy->to, copy->to_pitch, copy->from, copy->from_pitch, copy->row_bytes, copy->rows,
                           cudaMemcpyDefault, queue->stream);
}

static bool is_small(const struct cleat__copy *copy) {
  return copy->rows == 1 && copy->row_bytes <= BATCH_COPY_BYTES_MAX;
}

static cudaError_t submit_each(const struct cuda_queue *queue, const struct cleat__copy *copies, size_t count) {
  cudaError_t code = cudaSuccess;
  for (size_t i = 0; code == cudaSuccess && i < count; i++)
    code = submit_one(queue, &copies[i]);
  return code;
}

#if CUDART_VERSION >= 12080
static cudaError_t submit_together(const struct cuda_queue *queue, const struct cleat__copy *copies, size_t count) {
  void *to[BATCH_COPIES_MAX];
  const void *from[BATCH_COPIES_MAX];
  size_t bytes[BATCH_COPIES_MAX];
  for (size_t i = 0; i < count; i++) {
    to[i] = copies[i].to;
    from[i] = copies[i].from;
    bytes[i] = copies[i].row_bytes;
  }
  return batch_submit(queue, to, from, bytes, count);
}

/* Submits small copies in one call. If that is refused, and one call for each copy works, batches are not tried again:
 * the driver is probably older than 12.8. Starting a copy twice does no harm. */
static cudaError_t submit_small(const struct cuda_queue *queue, const struct cleat__copy *copies, size_t count) {
  struct cuda_device *cuda = device_of(queue->queue.device);
  if (count == 1 || atomic_load(&cuda->no_batch))
    return submit_each(queue, copies, count);
  cudaError_t refused = submit_together(queue, copies, count);
  if (refused == cudaSuccess)
    return cudaSuccess;
  (void)cudaGetLastError();
  cudaError_t code = submit_each(queue, copies, count);
  if (code == cudaSuccess && !atomic_exchange(&cuda->no_batch, true)) {
    cleat__log(&cuda->log, CLEAT_LOG_INFO,
               "the CUDA driver has no batches, so small tensors are copied one by one (%s)",
               cudaGetErrorName(refused));
  }
  return code;
}
#else
static cudaError_t submit_small(const struct cuda_queue *queue, const struct cleat__copy *copies, size_t count) {
  return submit_each(queue, copies, count);
}
#endif

static cleat_status cuda_submit(struct cleat__queue *base, const struct cleat__copy *copies, size_t count,
                                struct cleat_error *err) {
  struct cuda_queue *queue = queue_of(base);
  cleat_status status = use_device(queue, err);
  if (status != CLEAT_OK)
    return status;
  cudaError_t code = cudaSuccess;
  for (size_t i = 0, many = 0; code == cudaSuccess && i < count; i += many) {
    many = 0;
    while (i + many < count && many < BATCH_COPIES_MAX && is_small(&copies[i + many]))
      many++;
    code = many > 0 ? submit_small(queue, copies + i, many) : submit_one(queue, &copies[i]);
    many += many == 0;
  }
  if (code != cudaSuccess)
    status = cuda_fail(err, code, queue->ordinal, "start a copy");
  return status;
}

static cudaError_t wait_by_event(const struct cuda_queue *queue) {
  cudaEvent_t event = NULL;
  cudaError_t code = cudaEventCreateWithFlags(&event, cudaEventBlockingSync | cudaEventDisableTiming);
  if (code != cudaSuccess)
    return code;
  code = cudaEventRecord(event, queue->stream);
  if (code == cudaSuccess)
    code = cudaEventSynchronize(event);
  (void)cudaEventDestroy(event);
  return code;
}

static cleat_status cuda_wait(struct cleat__queue *base, struct cleat_error *err) {
  struct cuda_queue *queue = queue_of(base);
  cleat_status status = use_device(queue, err);
  if (status != CLEAT_OK)
    return status;
  cudaError_t code = wait_by_event(queue);
  if (code != cudaSuccess) {
    status = cuda_fail(err, code, queue->ordinal, "finish a copy");
    /* The event itself may have failed. The buffers must not be released while a copy runs. */
    if (cudaStreamSynchronize(queue->stream) != cudaSuccess)
      (void)cudaGetLastError();
  }
  return status;
}

static void cuda_queue_free(struct cleat__queue *base) {
  struct cuda_queue *queue = queue_of(base);
  struct cleat_error ignored;
  struct visit visit;
  if (check_process(&ignored) == CLEAT_OK && enter_device(queue->ordinal, &visit, &ignored) == CLEAT_OK) {
    if (cudaStreamSynchronize(queue->stream) != cudaSuccess || cudaStreamDestroy(queue->stream) != cudaSuccess)
      (void)cudaGetLastError();
    leave(&visit);
  }
  cleat__free(queue);
}

/* ---- Device memory ---------------------------------------------------------------------------- */

static cleat_status device_take(const struct cuda_queue *queue, size_t bytes, void **memory, struct cleat_error *err) {
  size_t unused = 0;
  size_t total = 0;
  cudaError_t code = cudaMemGetInfo(&unused, &total);
  if (code != cudaSuccess)
    return cuda_fail(err, code, queue->ordinal, "query its free memory");
  if (unused < bytes || unused - bytes < total / SNAPSHOT_RESERVE) {
    return cleat__error_set(err, CLEAT_NO_MEMORY, "CUDA device %d has %zu bytes free, too few for a copy of %zu",
                            queue->ordinal, unused, bytes);
  }
  void *taken = NULL;
  code = cudaMallocAsync(&taken, bytes, queue->stream);
  if (code != cudaSuccess)
    return cuda_fail(err, code, queue->ordinal, "allocate %zu bytes for a copy", bytes);
  *memory = taken;
  return CLEAT_OK;
}

static cleat_status cuda_device_take(struct cleat__queue *base, size_t bytes, void **memory, struct cleat_error *err) {
  struct cuda_queue *queue = queue_of(base);
  cleat_status status = use_device(queue, err);
  return status == CLEAT_OK ? device_take(queue, bytes, memory, err) : status;
}

static void cuda_device_give(struct cleat__queue *base, void *memory) {
  struct cuda_queue *queue = queue_of(base);
  struct cleat_error ignored;
  struct visit visit;
  if (check_process(&ignored) != CLEAT_OK || enter_device(queue->ordinal, &visit, &ignored) != CLEAT_OK)
    return;
  if (cudaFreeAsync(memory, queue->stream) != cudaSuccess)
    (void)cudaGetLastError();
  leave(&visit);
}

/* ---- The device ------------------------------------------------------------------------------- */

static void cuda_close(struct cleat__device *device) {
  struct cuda_device *cuda = device_of(device);
  struct cleat_error ignored;
  struct visit visit;
  if (cuda->synced.registered && check_process(&ignored) == CLEAT_OK && enter(&visit, &ignored) == CLEAT_OK) {
    if (cudaHostUnregister(cuda->synced.pinned) != cudaSuccess)
      (void)cudaGetLastError();
    leave(&visit);
  }
  cleat__mutex_destroy(&cuda->lock);
  cleat__free(cuda);
}

static const struct cleat__device_ops cuda_ops = {
    .name = "cuda",
    .pin = cuda_pin,
    .locate = cuda_locate,
    .queue_new = cuda_queue_new,
    .queue_after = cuda_queue_after,
    .submit = cuda_submit,
    .wait = cuda_wait,
    .device_take = cuda_device_take,
    .device_give = cuda_device_give,
    .queue_free = cuda_queue_free,
    .close = cuda_close,
};

cleat_status cleat__device_cuda_new(const struct cleat__log *log, struct cleat__device **device,
                                    struct cleat_error *err) {
  struct cuda_device *fresh = cleat__calloc(1, sizeof(*fresh));
  if (fresh == NULL)
    return cleat__error_no_memory(err, "the CUDA device");
  fresh->device.ops = &cuda_ops;
  fresh->log = *log;
  atomic_init(&fresh->no_batch, false);
  cleat__mutex_init(&fresh->lock);
  *device = &fresh->device;
  return CLEAT_OK;
}

int cleat__device_cuda_version(void) {
  return CUDART_VERSION;
}
