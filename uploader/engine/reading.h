/* reading.h: a document of Cleat's, as it lies in the store. Blocking; any thread. */
#ifndef CLEAT_UPLOADER_ENGINE_READING_H
#define CLEAT_UPLOADER_ENGINE_READING_H

#include "uploader/engine/client.h"

/* A whole object of at most `cap` bytes, as get_small has it. No document is empty. Some stores show an object that is
 * being replaced as empty for a moment (s3rver): such an object is read again a few times, with waits that grow. *size
 * is 0 only when it stays empty for over a second. */
cleat_status cleat__read_document(struct cleat_client *client, const char *key, size_t cap,
                                  char **text, size_t *size, struct cleat__object *object,
                                  const atomic_bool *cancel, struct cleat_error *err);

#endif
