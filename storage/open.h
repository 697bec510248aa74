/* open.h: opens the store that a URL names. Only open.c knows all drivers. */
#ifndef CLEAT_STORAGE_OPEN_H
#define CLEAT_STORAGE_OPEN_H

#include "storage/common/store.h"

/* Opens the driver for the scheme of the URL. The caller closes the store (cleat__store_close). Blocking; any
 * thread. Errors: INVALID with a hint that lists the schemes; errors of the driver. */
cleat_status cleat__store_open(const char *url, const struct cleat__store_config *config, struct cleat__store **store,
                               struct cleat_error *err);

#endif
