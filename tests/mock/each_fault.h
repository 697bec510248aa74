/* each_fault.h: has each fallible call (base/mem.h) fail once: the first in one round, the second in the next, and so
 * on up to a round in which none failed.
 *
 *   struct each_fault fault = {0};
 *   while (each_fault_next(&fault)) {
 *     cleat_status status = …;
 *     bool failed = each_fault_over(&fault);
 *     …what must be so then; and what was made is freed
 *   }
 *
 * A round must leave behind no block of the heap and no descriptor. What a library keeps from its first call on is to
 * be had before. */
#ifndef CLEAT_TESTS_MOCK_EACH_FAULT_H
#define CLEAT_TESTS_MOCK_EACH_FAULT_H

#include "base/error.h"

#include <stdbool.h>

/* Begins with all zero. */
struct each_fault {
  unsigned long n; /* the call that fails in this round, from 1 */
  bool persistent; /* set by the caller: all later calls of the round fail too */
  bool done;
  long blocks;
  unsigned fds;
};

/* Ends a round and begins the next; false: that was the last one. */
bool each_fault_next(struct each_fault *fault);

/* From here on nothing fails. Returns whether call number n was reached. */
bool each_fault_over(struct each_fault *fault);

/* Runs with each call failing once: that must be CLEAT_NO_MEMORY, and CLEAT_OK in the last round. `run` frees what it
 * made. Returns the number of the calls. */
unsigned long each_fault_no_memory(cleat_status (*run)(void));

#endif
