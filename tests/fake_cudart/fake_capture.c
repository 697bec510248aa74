/* Capture of streams into graphs: what it forbids, and what ends it. A graph holds nothing: what a captured stream was
 * given is counted. Rules: CUDA Runtime API, "Stream Management". */
#include "tests/fake_cudart/fake.h"

#include <stdlib.h>
#include <string.h>

#define CAPTURES_MAX 16

struct capture {
  const struct CUstream_st *stream; /* NULL: unused */
  enum cudaStreamCaptureMode mode;
  pthread_t owner;
  bool invalid;
};

static struct capture captures[CAPTURES_MAX];
static unsigned captured;
static __thread enum cudaStreamCaptureMode thread_mode;

void fake_capture_reset_locked(void) {
  memset(captures, 0, sizeof captures);
  captured = 0;
  thread_mode = cudaStreamCaptureModeGlobal;
}

unsigned fake_captured(void) {
  pthread_mutex_lock(&fake_lock);
  unsigned count = captured;
  pthread_mutex_unlock(&fake_lock);
  return count;
}

enum cudaStreamCaptureMode fake_capture_exchange(enum cudaStreamCaptureMode mode) {
  enum cudaStreamCaptureMode before = thread_mode;
  thread_mode = mode;
  return before;
}

static struct capture *find_locked(const struct CUstream_st *stream) {
  for (size_t i = 0; i < CAPTURES_MAX; i++)
    if (captures[i].stream == stream)
      return &captures[i];
  return NULL;
}

/* Whether an unsafe call of this thread would spoil the capture. */
static bool forbids(const struct capture *capture) {
  if (capture->stream == NULL || capture->mode == cudaStreamCaptureModeRelaxed ||
      thread_mode == cudaStreamCaptureModeRelaxed)
    return false;
  if (pthread_equal(capture->owner, pthread_self()))
    return true;
  return capture->mode == cudaStreamCaptureModeGlobal && thread_mode == cudaStreamCaptureModeGlobal;
}

cudaError_t fake_capture_unsafe_locked(void) {
  cudaError_t code = cudaSuccess;
  for (size_t i = 0; i < CAPTURES_MAX; i++) {
    if (forbids(&captures[i])) {
      captures[i].invalid = true;
      code = cudaErrorStreamCaptureUnsupported;
    }
  }
  return code;
}

/* Of a blocking stream of the device, which the default stream would wait for. */
static struct capture *blocking_locked(int device) {
  for (size_t i = 0; i < CAPTURES_MAX; i++)
    if (captures[i].stream != NULL && fake_stream_is_blocking(captures[i].stream) &&
        fake_stream_device(captures[i].stream) == device)
      return &captures[i];
  return NULL;
}

cudaError_t fake_capture_work_locked(const struct CUstream_st *stream, bool is_default, bool *is_captured) {
  struct capture *capture = find_locked(stream);
  struct capture *blocking = is_default ? blocking_locked(fake_stream_device(stream)) : NULL;
  *is_captured = capture != NULL;
  if (blocking != NULL) {
    blocking->invalid = true;
    return cudaErrorStreamCaptureImplicit;
  }
  if (capture == NULL)
    return cudaSuccess;
  captured++;
  return capture->invalid ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
}

cudaError_t fake_capture_wait_locked(const struct CUstream_st *stream, int device) {
  cudaError_t code = cudaSuccess;
  for (size_t i = 0; i < CAPTURES_MAX; i++) {
    struct capture *capture = &captures[i];
    if (capture->stream == NULL || (capture->stream != stream && fake_stream_device(capture->stream) != device))
      continue;
    capture->invalid = true;
    code = cudaErrorStreamCaptureUnsupported;
  }
  return code;
}

void fake_capture_spoil_locked(const struct CUstream_st *stream) {
  struct capture *capture = find_locked(stream);
  if (capture != NULL)
    capture->invalid = true;
}

cudaError_t fake_capture_begin_locked(const struct CUstream_st *stream, enum cudaStreamCaptureMode mode) {
  struct capture *unused = find_locked(NULL);
  if (find_locked(stream) != NULL || unused == NULL)
    return cudaErrorInvalidValue;
  *unused = (struct capture){.stream = stream, .mode = mode, .owner = pthread_self()};
  return cudaSuccess;
}

cudaError_t fake_capture_end_locked(const struct CUstream_st *stream) {
  struct capture *capture = find_locked(stream);
  if (capture == NULL)
    return cudaErrorStreamCaptureUnmatched;
  if (capture->mode != cudaStreamCaptureModeRelaxed && !pthread_equal(capture->owner, pthread_self()))
    return cudaErrorStreamCaptureWrongThread;
  capture->stream = NULL;
  return capture->invalid ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
}

cudaError_t fake_capture_status_locked(const struct CUstream_st *stream, bool is_default,
                                       enum cudaStreamCaptureStatus *status) {
  const struct capture *capture = find_locked(stream);
  if (is_default && blocking_locked(fake_stream_device(stream)) != NULL)
    return cudaErrorStreamCaptureImplicit;
  *status = capture == NULL    ? cudaStreamCaptureStatusNone
            : capture->invalid ? cudaStreamCaptureStatusInvalidated
                               : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}
