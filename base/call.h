/* call.h: what a call carries that may take long, besides its arguments. Passed by value. */
#ifndef CLEAT_BASE_CALL_H
#define CLEAT_BASE_CALL_H

#include <stdatomic.h>

struct cleat_error;

struct cleat__call {
  const atomic_bool *cancel; /* another thread sets it to end the call with CLEAT_CANCELLED */
  struct cleat_error *err;   /* filled in when the call fails; NULL: nobody wants to know why */
};

/* Borrows both for the time of the call. `cancel` may be NULL only where the callee says so. */
static inline struct cleat__call cleat__call(const atomic_bool *cancel, struct cleat_error *err) {
  return (struct cleat__call){cancel, err};
}

#endif
