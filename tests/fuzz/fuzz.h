/* fuzz.h: what the fuzz targets share. A target is one file fuzz_<name>.c with libFuzzer's one function; it
 * gives its bytes to one reader of the library and checks what must hold whatever the bytes are. A broken
 * promise ends the program by abort(), as a memory error does.
 *
 * Many readers want more than one text: those stand in the first lines of the input, so that a corpus
 * file can be read and written by people. All functions are for one thread. */
#ifndef CLEAT_TESTS_FUZZ_H
#define CLEAT_TESTS_FUZZ_H

#include "base/buffer.h"
#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Called once for each input. Returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Prints what was promised, and aborts. */
#define FUZZ_PROMISE(condition) ((condition) ? (void)0 : fuzz_broken(#condition, __FILE__, __LINE__))
_Noreturn void fuzz_broken(const char *condition, const char *file, int line);

/* What is left of an input. */
struct fuzz_input {
  const char *text;
  size_t size;
};

struct fuzz_input fuzz_input(const uint8_t *data, size_t size);

/* Takes the first line off: owned (free), NUL-terminated, without its line end; "" when nothing is left. A
 * NUL byte in it ends it early, as anywhere in C. */
char *fuzz_line(struct fuzz_input *input);

/* A copy in memory of exactly its size, so that a sanitizer sees the first byte read beyond it. Owned (free). */
char *fuzz_exact(const struct fuzz_input *input);

/* The same with a NUL behind it. */
char *fuzz_text(const struct fuzz_input *input);

/* Holds for each failure: the status is the one returned, message and hint are one line each, the message
 * is not empty. */
void fuzz_check_error(cleat_status status, const struct cleat_error *err);

/* No control character below U+0020, no DEL. */
bool fuzz_is_line(const char *text);

/* What may stand in a header: the same, and no blank and nothing beyond ASCII. */
bool fuzz_is_graph(const char *text);

/* Whether both hold the same bytes. */
bool fuzz_same(const struct cleat__buffer *a, const struct cleat__buffer *b);

#endif
