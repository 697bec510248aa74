/* fault.h: a decorator that injects failures into a store, for tests.
 *
 * Every operation first calls cleat__fault_point() (base/mem.h), so that one counter covers
 * allocations, thread starts and store calls. In mode BEFORE, a failed call does not reach the
 * store. In mode AFTER, the store carries it out and the success is withheld, like after a lost
 * reply. */
#ifndef CLEAT_STORAGE_COMMON_FAULT_H
#define CLEAT_STORAGE_COMMON_FAULT_H

#include "storage/common/store.h"

enum cleat__fault_mode { CLEAT__FAULT_BEFORE = 0, CLEAT__FAULT_AFTER = 1 };

/* Wraps `inner` and takes ownership of it on success. */
cleat_status cleat__store_fault_wrap(struct cleat__store *inner, enum cleat__fault_mode mode,
                                     struct cleat__store **store, struct cleat_error *err);

#endif
