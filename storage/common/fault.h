/* fault.h: a decorator that makes the store beneath fail on order, for tests.
 *
 * Every operation first asks cleat__fault_point() (base/mem.h), so that one count runs through
 * allocations, thread starts and store calls alike. A failed call either never reaches the store,
 * or (mode AFTER) is carried out and its success withheld, as a lost reply would. */
#ifndef CLEAT_STORAGE_COMMON_FAULT_H
#define CLEAT_STORAGE_COMMON_FAULT_H

#include "storage/common/store.h"

enum cleat__fault_mode { CLEAT__FAULT_BEFORE = 0, CLEAT__FAULT_AFTER = 1 };

/* Takes `inner` on success. */
cleat_status cleat__store_fault_wrap(struct cleat__store *inner, enum cleat__fault_mode mode,
                                     struct cleat__store **store, struct cleat_error *err);

#endif
