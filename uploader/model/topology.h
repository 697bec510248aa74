/* topology.h: the sizes of a job's parallel groups as JSON, and how two jobs differ. Pure. */
#ifndef CLEAT_UPLOADER_MODEL_TOPOLOGY_H
#define CLEAT_UPLOADER_MODEL_TOPOLOGY_H

#include "base/error.h"

/* {"dp":65536,"tp":65536,…} with its NUL. */
#define CLEAT__TOPOLOGY_TEXT_MAX 128

/* Writes an object of the sizes that are given: {"dp":8,"tp":2}. */
void cleat__topology_print(const struct cleat_topology *topology, char text[CLEAT__TOPOLOGY_TEXT_MAX]);

/* Reads what cleat__topology_print writes. Other members are ignored. Malformed numbers become 0. */
void cleat__topology_read(const char *json, struct cleat_topology *topology);

/* Writes "ranks 8, then 3; tp 2, then 1". A size that one of the two does not give counts as equal. Like snprintf, it
 * returns the length that the whole text has. */
size_t cleat__topology_differences(const struct cleat_topology *saved, unsigned saved_ranks,
                                   const struct cleat_topology *now, unsigned ranks_now, char *text, size_t size);

#endif
