/* copy.c: see copy.h. */
#include "base/copy.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

/* Sanitizers do not see streaming stores. */
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

#include <emmintrin.h>

enum {
  LINE = 64,         /* a cache line: a streaming store that does not fill one is slow */
  SMALL_BYTES = 4096 /* for fewer bytes, the fence at the end costs more than the copy gains */
};

static void stream_line(char *to, const char *from) {
  assert((uintptr_t)to % LINE == 0);
  const __m128i *in = (const __m128i *)(const void *)from;
  __m128i *out = (__m128i *)(void *)to;
  __m128i a = _mm_loadu_si128(in), b = _mm_loadu_si128(in + 1);
  __m128i c = _mm_loadu_si128(in + 2), d = _mm_loadu_si128(in + 3);
  _mm_stream_si128(out, a);
  _mm_stream_si128(out + 1, b);
  _mm_stream_si128(out + 2, c);
  _mm_stream_si128(out + 3, d);
}

void cleat__copy_uncached(void *to, const void *from, size_t size) {
  char *out = to;
  const char *in = from;
  /* The ranges must not overlap. */
  assert((uintptr_t)out + size <= (uintptr_t)in || (uintptr_t)in + size <= (uintptr_t)out);
  if (size < SMALL_BYTES) {
    memcpy(to, from, size);
    return;
  }
  size_t head = -(uintptr_t)out % LINE;
  assert(head < LINE && head <= size);
  memcpy(out, in, head);
  size_t at = head;
  for (; size - at >= LINE; at += LINE)
    stream_line(out + at, in + at);
  memcpy(out + at, in + at, size - at);
  /* Streaming stores are not ordered with later stores. The fence makes the copy visible before anything that announces
   * it. */
  _mm_sfence();
}

#else

void cleat__copy_uncached(void *to, const void *from, size_t size) {
  memcpy(to, from, size);
}

#endif
