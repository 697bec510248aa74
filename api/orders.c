/* orders.c: see orders.h. */
#include "api/orders.h"

#include "base/buffer.h"
#include "base/mem.h"
#include "uploader/commit/commit.h"
#include "uploader/engine/client.h"
#include "uploader/engine/identity.h"
#include "uploader/model/name.h"

#include <stdio.h>
#include <string.h>

cleat_status cleat__orders_rank_find(struct cleat__orders_rank *rank, struct cleat_error *err) {
  const struct cleat_client_options options = CLEAT_CLIENT_OPTIONS_INIT;
  struct cleat__identity found = {0};
  cleat_status status = cleat__identity_find(&options, &found, err);
  if (status == CLEAT_OK)
    *rank = (struct cleat__orders_rank){found.rank, found.world_size, found.start};
  return status;
}

static cleat_status key_of(struct cleat_client *client, unsigned number, char key[CLEAT__OBJECT_KEY_MAX],
                           struct cleat_error *err) {
  unsigned long start = atomic_load(&client->number);
  if (start == 0)
    return cleat__error_set(err, CLEAT_INVALID, "the start of the job is not registered");
  (void)snprintf(key, CLEAT__OBJECT_KEY_MAX, CLEAT__STARTS "%06lu/order-%06u.json", start, number);
  return CLEAT_OK;
}

cleat_status cleat__orders_put(struct cleat_client *client, unsigned number, const char *text,
                               struct cleat_error *err) {
  char key[CLEAT__OBJECT_KEY_MAX];
  struct cleat__buffer body;
  cleat_status status = key_of(client, number, key, err);
  if (status != CLEAT_OK)
    return status;
  cleat__buffer_init(&body, CLEAT__ORDER_BYTES_MAX);
  if (cleat__buffer_append(&body, text, strlen(text)) != CLEAT_OK)
    status = cleat__error_no_memory(err, "an order for the other ranks");
  else
    status = cleat__commit_document(client, key, &body, NULL, cleat__call(&client->never, err));
  cleat__buffer_clear(&body);
  return status;
}

cleat_status cleat__orders_get(struct cleat_client *client, unsigned number, char **text, struct cleat_error *err) {
  char key[CLEAT__OBJECT_KEY_MAX];
  struct cleat__small found = {0};
  cleat_status status = key_of(client, number, key, err);
  if (status != CLEAT_OK)
    return status;
  status = cleat__store_get_small(client->store, key, CLEAT__ORDER_BYTES_MAX, &found, cleat__call(&client->never, err));
  if (cleat__object_is_absent(status, err)) {
    *text = NULL;
    return CLEAT_OK;
  }
  if (status != CLEAT_OK)
    return status;
  *text = cleat__strndup(found.bytes, found.size);
  cleat__free(found.bytes);
  return *text ? CLEAT_OK : cleat__error_no_memory(err, "an order of rank 0");
}
