/* topology.h: the sizes of a job's parallel groups as JSON, and how two jobs differ. Pure. */
#ifndef CLEAT_UPLOADER_MODEL_TOPOLOGY_H
#define CLEAT_UPLOADER_MODEL_TOPOLOGY_H

#include "base/error.h"

/* {"dp":65536,"tp":65536,…} with its NUL. */
#define CLEAT__TOPOLOGY_TEXT_MAX 128

/* An object of the sizes that are told: {"dp":8,"tp":2}. */
void cleat__topology_print(const struct cleat_topology *topology,
                           char text[CLEAT__TOPOLOGY_TEXT_MAX]);

/* Reads what cleat__topology_print writes; other members are left out, numbers that make no sense are 0. */
void cleat__topology_read(const char *json, struct cleat_topology *topology);

/* "ranks 8, then 3; tp 2, then 1"; a size that one of them does not tell is no difference. As snprintf: the length that
 * the text has, or would have. */
size_t cleat__topology_differences(const struct cleat_topology *saved, unsigned saved_ranks,
                                   const struct cleat_topology *now, unsigned ranks_now, char *text,
                                   size_t size);

#endif
