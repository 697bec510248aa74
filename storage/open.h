/* open.h: the store that a URL names. The one place that knows all drivers. */
#ifndef CLEAT_STORAGE_OPEN_H
#define CLEAT_STORAGE_OPEN_H

#include "storage/common/store.h"

/* Opens the driver that the URL's scheme names; the caller closes it (cleat__store_close). Blocking; any thread.
 * Errors: INVALID with a hint that lists the schemes; the driver's. */
cleat_status cleat__store_open(const char *url, const struct cleat__store_config *config,
                               struct cleat__store **store, struct cleat_error *err);

#endif
