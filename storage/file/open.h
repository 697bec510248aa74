/* open.h: opens stores of the file:// driver, for storage/open.c. */
#ifndef CLEAT_STORAGE_FILE_OPEN_H
#define CLEAT_STORAGE_FILE_OPEN_H

#include "storage/common/store.h"

/* Opens a store. `location` is the text after "file://". The caller closes the store
 * (cleat__store_close). */
cleat_status cleat__store_file_open(const char *location, const struct cleat__store_config *config,
                                    struct cleat__store **store, struct cleat_error *err);

#endif
