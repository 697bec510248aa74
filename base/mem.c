/* mem.c: heap memory, and the hook by which tests make the Nth fallible call fail. See mem.h.
 *
 * Thread-safe. The hook's counters are global, because a test must reach every allocation of a process, and these are
 * too deep for a parameter. They are plain atomics, zero unless a test has armed them. */
#include "base/mem.h"

#include <assert.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
  atomic_bool armed;
  atomic_bool persistent;
  atomic_ulong nth;   /* 0: count only */
  atomic_ulong calls; /* since cleat__fault_arm */
} faults;

void cleat__fault_arm(unsigned long nth, bool persistent) {
  /* Only one test at a time may arm it. */
  assert(!atomic_load(&faults.armed));
  atomic_store(&faults.calls, 0);
  atomic_store(&faults.nth, nth);
  atomic_store(&faults.persistent, persistent);
  atomic_store(&faults.armed, true);
}

unsigned long cleat__fault_disarm(void) {
  atomic_store(&faults.armed, false);
  return atomic_load(&faults.calls);
}

bool cleat__fault_point(void) {
  if (!atomic_load_explicit(&faults.armed, memory_order_relaxed))
    return false;
  unsigned long call = atomic_fetch_add(&faults.calls, 1) + 1;
  unsigned long nth = atomic_load(&faults.nth);
  if (nth == 0)
    return false;
  return call == nth || (call > nth && atomic_load(&faults.persistent));
}

/* malloc(0) may return NULL, which callers would take for a failure. */
static size_t at_least_one(size_t size) {
  return size == 0 ? 1 : size;
}

void *cleat__alloc(size_t size) {
  if (cleat__fault_point())
    return NULL;
  return malloc(at_least_one(size));
}

/* Checked here and not by the C library, because sanitizers end the program at such a request. */
static bool overflows(size_t count, size_t size, size_t *bytes) {
  return __builtin_mul_overflow(count, size, bytes);
}

void *cleat__calloc(size_t count, size_t size) {
  size_t bytes = 0;
  if (cleat__fault_point() || overflows(count, size, &bytes))
    return NULL;
  return calloc(1, at_least_one(bytes));
}

void *cleat__realloc_array(void *block, size_t count, size_t size) {
  size_t bytes = 0;
  if (cleat__fault_point() || overflows(count, size, &bytes))
    return NULL;
  return realloc(block, at_least_one(bytes));
}

char *cleat__strndup(const char *text, size_t length) {
  assert(text != NULL);
  size_t size = strnlen(text, length);
  char *copy = cleat__alloc(size + 1);
  if (copy == NULL)
    return NULL;
  memcpy(copy, text, size);
  copy[size] = '\0';
  return copy;
}

char *cleat__strdup(const char *text) {
  return cleat__strndup(text, strlen(text));
}

char *cleat__strprintf(const char *format, ...) {
  va_list args;
  va_start(args, format);
  int length = vsnprintf(NULL, 0, format, args);
  va_end(args);
  if (length < 0)
    return NULL;
  size_t size = (size_t)length + 1;
  char *text = cleat__alloc(size);
  if (text == NULL)
    return NULL;
  va_start(args, format);
  vsnprintf(text, size, format, args);
  va_end(args);
  return text;
}

void cleat__free(void *block) {
  free(block);
}

void *cleat__grow(void *array, size_t *capacity, size_t count, size_t size) {
  assert(size > 0 && count <= *capacity);
  assert(array != NULL || *capacity == 0);
  if (count < *capacity)
    return array;
  if (*capacity > SIZE_MAX / 2)
    return NULL;
  size_t wanted = *capacity == 0 ? 8 : *capacity * 2;
  void *grown = cleat__realloc_array(array, wanted, size);
  if (grown != NULL)
    *capacity = wanted;
  return grown;
}
