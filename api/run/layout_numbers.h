/* layout_numbers.h: the files of a checkpoint that are known by their numbers alone.
 *
 *   X_world_size_W_rank_R.pt                      verl: ranks 0 to W - 1
 *   [X]zero_pp_rank_R_mp_rank_M_optim_states.pt   DeepSpeed: all R and M up to the highest, R up to the size that
 *   [X]zero_pp_rank_R_mp_rank_M_model_states.pt     mp_rank_00_model_states.pt tells
 *   mp_rank_M_model_states.pt                     all M up to the highest
 *
 * One thread at a time. */
#ifndef CLEAT_API_RUN_LAYOUT_NUMBERS_H
#define CLEAT_API_RUN_LAYOUT_NUMBERS_H

#include "api/run/names.h"

/* DeepSpeed's states of a model, in which the sizes stand. */
bool cleat__run_numbers_is_states(const char *name);

/* How many data-parallel ranks save their part, from such a file's first bytes; 0: it does not tell. */
long cleat__run_numbers_rows(const void *bytes, size_t size);

/* Adds to `wanted` the files that go with those in `here`, the sorted names in a folder; each with "<folder>/" before
 * it, unless that is "". `rows`: what the folder's states told, or 0. Errors: NO_MEMORY. */
cleat_status cleat__run_numbers_add(const char *folder, const struct cleat__run_names *here,
                                    long rows, struct cleat__run_names *wanted,
                                    struct cleat_error *err) CLEAT_MUST_USE;

#endif
