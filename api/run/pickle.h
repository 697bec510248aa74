/* pickle.h: finds a few texts and numbers in a Python pickle. Pure.
 *
 * Python reads a pickle by executing it. Nothing is executed here. The reader knows what each opcode takes from the
 * stack and pushes on it (pickletools.py of CPython 3.13, protocols 2 to 5). It follows texts, small numbers, dicts,
 * classes and the memo. It refuses every opcode and every use of the stack that it does not know. For pickles of
 * Python's own pickler the answer is what Python would find, or the pickle is refused. Any byte of a pickle may be
 * hostile. One thread at a time. */
#ifndef CLEAT_API_RUN_PICKLE_H
#define CLEAT_API_RUN_PICKLE_H

#include "api/run/names.h"

#include <stdint.h>

enum { CLEAT__RUN_PICKLE_NUMBERS = 2 };

/* What to search for. Borrows its strings. */
struct cleat__run_pickle_query {
  /* Finds the text under `text_key` in the state of each object of the class with this name, in any module. NULL:
   * none. */
  const char *class_name;
  const char *text_key;
  /* Finds the first number from 0 to 2^31 - 1 under each key, in any dict. NULL: none. */
  const char *number_keys[CLEAT__RUN_PICKLE_NUMBERS];
  bool open_end; /* more bytes may follow the pickle */
};

struct cleat__run_pickle_answer {
  struct cleat__run_names texts;              /* sorted, without duplicates */
  int64_t numbers[CLEAT__RUN_PICKLE_NUMBERS]; /* -1: not there */
  bool cut;                                   /* refused because the end is missing: the file may still be incomplete */
};

/* Reads a whole pickle. Needs memory for the texts and up to 8 bytes per byte of the pickle, usually less than one.
 * *answer is always written; after a failure it is empty except for `cut`. Errors: FORMAT (not understood: an opcode,
 * an object of the class without the text, a text with a NUL), LIMIT (too deep), NO_MEMORY. */
cleat_status cleat__run_pickle_read(const void *bytes, size_t size, const struct cleat__run_pickle_query *query,
                                    struct cleat__run_pickle_answer *answer, struct cleat_error *err) CLEAT_MUST_USE;

void cleat__run_pickle_clear(struct cleat__run_pickle_answer *answer);

#endif
