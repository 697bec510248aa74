/* each_fault.c: see each_fault.h. */
#include "tests/mock/each_fault.h"

#include "base/mem.h"
#include "tests/mock/heap.h"
#include "tests/mock/scratch.h"

bool each_fault_next(struct each_fault *fault) {
  if (fault->n > 0) {
    long leaked = heap_blocks() - fault->blocks;
    ck_assert_msg(leaked == 0, "call %lu fails: %ld blocks more", fault->n, leaked);
    ck_assert_msg(scratch_fds() == fault->fds, "call %lu fails: %u descriptors, %u before", fault->n, scratch_fds(),
                  fault->fds);
  }
  if (fault->done)
    return false;
  fault->n++;
  fault->fds = scratch_fds();
  fault->blocks = heap_blocks();
  cleat__fault_arm(fault->n, fault->persistent);
  return true;
}

bool each_fault_over(struct each_fault *fault) {
  fault->done = cleat__fault_disarm() < fault->n;
  return !fault->done;
}

unsigned long each_fault_no_memory(cleat_status (*run)(void)) {
  struct each_fault fault = {0};
  while (each_fault_next(&fault)) {
    cleat_status status = run();
    bool failed = each_fault_over(&fault);
    ck_assert_msg(status == (failed ? CLEAT_NO_MEMORY : CLEAT_OK), "call %lu: status %d", fault.n, (int)status);
  }
  return fault.n - 1;
}
