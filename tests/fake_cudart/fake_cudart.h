/* fake_cudart.h: what a test can ask of the stand-in for the CUDA Runtime, beside the Runtime's own calls.
 *
 * Device memory has addresses that cannot be read or written by the processor; the bytes lie elsewhere.
 * Every stream has a thread. A lazy stream does what it was given only when somebody waits for it, an eager
 * one after a random pause: which is which, and how long, follows from the seed.
 *
 * It looks for misuse and counts it (fake_misuses), each with a line on standard error: host memory that a copy
 * out will fill is poisoned when the copy is submitted, and must hold the poison when it is done; what a copy
 * in reads must not change in between; copies stay inside one allocation; an event belongs to the stream's
 * device; who waits for an event sleeps (cudaEventBlockingSync).
 *
 * A stream can be captured into a graph. Meanwhile calls that are no work of a stream are refused, and end the capture,
 * as "cudaThreadExchangeStreamCaptureMode" says: in a thread of the default mode while any thread captures globally, in
 * any thread that captures itself and is not relaxed. The stand-in takes for such every call that allocates, frees,
 * pins, waits, makes or ends a stream, or copies pageable memory: more than the real Runtime may, and no fewer.
 *
 * All functions but fake_reset are thread-safe. */
#ifndef CLEAT_FAKE_CUDART_H
#define CLEAT_FAKE_CUDART_H

#include <cuda_runtime_api.h>

/* Forgets all calls and failures; no stream of the code under test may be left. `devices` devices of
 * `device_bytes` bytes each. */
void fake_reset(unsigned seed, int devices, size_t device_bytes);

/* What the installed driver knows; 0: there is none. */
void fake_driver(int version);

/* The calls to this function from number `nth` (from 1, counted from now) to number `last` fail with `code`. */
void fake_fail(const char *function, unsigned nth, unsigned last, cudaError_t code);

/* From now on, until fake_reset, all is as late as it may be: streams that are made are lazy, and copies of pageable
 * memory do not wait. */
void fake_late(void);

/* Operations that captured streams were given, and that are not done. */
unsigned fake_captured(void);

/* The device is lost at its `nth` copy (from 1): that and all later ones are not done, and calls that wait
 * for them, or use the device, fail. */
void fake_lose(int device, unsigned nth);

/* How often the function was called since fake_reset; NULL: all of them. */
unsigned fake_calls(const char *function);

/* Copies of all kinds that were done, rows of one copy being one. */
unsigned fake_copies(void);

/* Bytes that are allocated on a device now, and that are pinned now. */
size_t fake_device_bytes(int device);
size_t fake_pinned_bytes(void);

unsigned fake_misuses(void);

#endif
