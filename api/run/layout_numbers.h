/* layout_numbers.h: finds the other files of a checkpoint from the numbers in their names.
 *
 *   X_world_size_W_rank_R.pt                      verl: ranks 0 to W - 1
 *   [X]zero_pp_rank_R_mp_rank_M_optim_states.pt   DeepSpeed: all R and M up to the highest; R also up to the size that
 *   [X]zero_pp_rank_R_mp_rank_M_model_states.pt     mp_rank_00_model_states.pt says
 *   mp_rank_M_model_states.pt                     all M up to the highest
 *
 * One thread at a time. */
#ifndef CLEAT_API_RUN_LAYOUT_NUMBERS_H
#define CLEAT_API_RUN_LAYOUT_NUMBERS_H

#include "api/run/names.h"

/* True for the file of DeepSpeed's model states that contains the sizes. */
bool cleat__run_numbers_is_states(const char *name);

/* Reads the number of data-parallel ranks that save a part, from the first bytes of such a file. 0: unknown. */
long cleat__run_numbers_rows(const void *bytes, size_t size);

/* Adds to `wanted` all files that belong with those in `here`, the sorted names in a folder. Each gets "<folder>/" in
 * front unless `folder` is "". `rows`: the number of ranks that the folder's states say, or 0. Errors: NO_MEMORY. */
cleat_status cleat__run_numbers_add(const char *folder, const struct cleat__run_names *here, long rows,
                                    struct cleat__run_names *wanted, struct cleat_error *err) CLEAT_MUST_USE;

#endif
