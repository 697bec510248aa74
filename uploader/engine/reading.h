/* reading.h: reads one of Cleat's documents from the store. Blocks; any thread may call it. */
#ifndef CLEAT_UPLOADER_ENGINE_READING_H
#define CLEAT_UPLOADER_ENGINE_READING_H

#include "base/call.h"
#include "uploader/engine/client.h"

/* Reads a whole object of at most `cap` bytes, like get_small. No document is empty. But some stores (s3rver) briefly
 * show an object as empty while it is replaced. So an empty object is read again a few times, with growing pauses. Its
 * size is 0 only if it stays empty for over a second. */
cleat_status cleat__read_document(struct cleat_client *client, const char *key, size_t cap, struct cleat__small *small,
                                  struct cleat__call call);

#endif
