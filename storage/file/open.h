/* open.h: the driver of file:// URLs, for storage/open.c. */
#ifndef CLEAT_STORAGE_FILE_OPEN_H
#define CLEAT_STORAGE_FILE_OPEN_H

#include "storage/common/store.h"

/* `location` is what follows "file://". The caller closes the store (cleat__store_close). */
cleat_status cleat__store_file_open(const char *location, const struct cleat__store_config *config,
                                    struct cleat__store **store, struct cleat_error *err);

#endif
