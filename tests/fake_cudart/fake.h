/* fake.h: the inside of the stand-in: fake_memory.c (addresses), fake_stream.c (what is done when),
 * fake_capture.c (graphs), fake_cudart.c (the calls). One lock guards everything; functions that need it end in
 * _locked. */
#ifndef CLEAT_FAKE_H
#define CLEAT_FAKE_H

#include "tests/fake_cudart/fake_cudart.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define FAKE_DEVICES_MAX 8
#define FAKE_POISON 0xDB

extern pthread_mutex_t fake_lock;

void fake_misuse_locked(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- Memory ----------------------------------------------------------------------------------- */

void fake_memory_reset_locked(int devices, size_t device_bytes);
void *fake_memory_take_locked(int device, size_t bytes); /* NULL: none left */
bool fake_memory_give_locked(void *address);             /* false: it is no allocation */
void fake_memory_info_locked(int device, size_t *unused, size_t *total);

/* The device of an address; -1: host memory. */
int fake_memory_device(const void *address);

/* Where the bytes of device memory really lie; NULL: not inside one live allocation. */
void *fake_memory_real_locked(const void *address, size_t bytes);

bool fake_memory_pin_locked(void *memory, size_t bytes);
bool fake_memory_unpin_locked(void *memory);
bool fake_memory_is_pinned_locked(const void *memory, size_t bytes);

/* ---- Streams ---------------------------------------------------------------------------------- */

struct fake_copy {
  void *to;
  const void *from;
  size_t width, rows, to_pitch, from_pitch;
  int value; /* -1: a copy; else a memset to it */
};

void fake_stream_reset_locked(unsigned seed);

/* The stream behind a handle; NULL handle: the default stream of `device`. NULL: no such stream. */
struct CUstream_st *fake_stream_locked(cudaStream_t handle, int device);
struct CUstream_st *fake_stream_new_locked(int device, bool blocking);
int fake_stream_device(const struct CUstream_st *stream);

/* Submits. Pageable host memory may make it wait, or be read at once, or be used as late as pinned memory. */
cudaError_t fake_stream_copy_locked(struct CUstream_st *stream, const struct fake_copy *copy);
bool fake_copy_is_pageable_locked(const struct fake_copy *copy);
bool fake_stream_is_blocking(const struct CUstream_st *stream);
cudaError_t fake_stream_free_locked(struct CUstream_st *stream, void *address);

/* Where the stream is now, and putting another behind that place, and waiting for it. */
uint64_t fake_stream_place_locked(struct CUstream_st *stream);
void fake_stream_after_locked(struct CUstream_st *stream, struct CUstream_st *other, uint64_t place);
cudaError_t fake_stream_wait_locked(struct CUstream_st *stream, uint64_t place);
void fake_stream_end_locked(struct CUstream_st *stream);
void fake_stream_wait_device_locked(int device);

/* ---- Capture ---------------------------------------------------------------------------------- */

void fake_capture_reset_locked(void);

/* What a call that could spoil a capture comes to in this thread: success, or refused, and the captures that it
 * concerns are invalid. */
cudaError_t fake_capture_unsafe_locked(void);

/* What work for the stream comes to. `*captured`: it is part of a graph, and not to be done. The default stream, next
 * to a blocking one that is being captured, is refused. */
cudaError_t fake_capture_work_locked(const struct CUstream_st *stream, bool is_default, bool *captured);

/* A wait for the stream, or for all of the device (-1: for neither), which a capture of them does not outlive. */
cudaError_t fake_capture_wait_locked(const struct CUstream_st *stream, int device);

/* Another stream was put behind an event in it. */
void fake_capture_spoil_locked(const struct CUstream_st *stream);

enum cudaStreamCaptureMode fake_capture_exchange(enum cudaStreamCaptureMode mode);
cudaError_t fake_capture_begin_locked(const struct CUstream_st *stream, enum cudaStreamCaptureMode mode);
cudaError_t fake_capture_end_locked(const struct CUstream_st *stream);
cudaError_t fake_capture_status_locked(const struct CUstream_st *stream, bool is_default,
                                       enum cudaStreamCaptureStatus *status);

cudaError_t fake_device_state_locked(int device); /* success, or how it was lost */
void fake_device_lose_locked(int device, unsigned nth);
unsigned fake_stream_copies_locked(void);

#endif
