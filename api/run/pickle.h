/* pickle.h: looks for a few texts and numbers in a Python pickle. Pure.
 *
 * Python reads a pickle by executing it. Nothing is executed here: the walk knows what each opcode takes from the stack
 * and puts there (pickletools.py of CPython 3.13, protocols 2 to 5), follows texts, small numbers, dicts, classes and
 * the memo, and refuses any opcode and any use of the stack that it does not know. What Python's own pickler writes is
 * reported as Python would find it, or refused. Everything in a pickle may be hostile. One thread at a time. */
#ifndef CLEAT_API_RUN_PICKLE_H
#define CLEAT_API_RUN_PICKLE_H

#include "api/run/names.h"

#include <stdint.h>

enum { CLEAT__RUN_PICKLE_NUMBERS = 2 };

/* What is looked for. Borrows its strings. */
struct cleat__run_pickle_query {
  /* The text under `text_key` in the state of each object of the class of that name, in whatever module. NULL: none. */
  const char *class_name;
  const char *text_key;
  /* The first number from 0 to 2^31 - 1 under that key in any dict. NULL: none. */
  const char *number_keys[CLEAT__RUN_PICKLE_NUMBERS];
  bool open_end; /* more bytes may follow the pickle */
};

struct cleat__run_pickle_answer {
  struct cleat__run_names texts;              /* sorted, each once */
  int64_t numbers[CLEAT__RUN_PICKLE_NUMBERS]; /* -1: not there */
  bool cut; /* refused, as its end is missing: it may be in the middle of being written */
};

/* Reads a whole pickle. Takes up to 8 bytes for each byte of it beside the texts, as a rule less than one. *answer is
 * always written, and empty after a failure but for `cut`. Errors: FORMAT (not understood: an opcode, an object of that
 * class without that text, a text with a NUL), LIMIT (too deep), NO_MEMORY. */
cleat_status cleat__run_pickle_read(const void *bytes, size_t size,
                                    const struct cleat__run_pickle_query *query,
                                    struct cleat__run_pickle_answer *answer,
                                    struct cleat_error *err) CLEAT_MUST_USE;

void cleat__run_pickle_clear(struct cleat__run_pickle_answer *answer);

#endif
