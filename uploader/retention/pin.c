/* pin.c: the pin, an object in a step's folder that protects it from prune. Only its existence counts. Its text is for
 * people.
 *
 * A pin and a prune may run at the same time. Prune checks for the pin right before it removes the manifest. Pin puts
 * the object first, and succeeds only if the manifest still exists after that. No state. */
#include "uploader/retention/retention.h"

#include "base/checksum.h"
#include "base/mem.h"
#include "uploader/model/manifest.h"
#include "uploader/model/name.h"

#include <stdio.h>
#include <string.h>

#define PIN_BYTES_MAX 4096u

/* Whether there is an object under `key`, whatever it contains. Uses GET, because the reply to HEAD cannot tell a
 * missing bucket from a missing object. */
static cleat_status is_there(struct cleat_client *client, const char *key, size_t cap, bool *there,
                             struct cleat_error *err) {
  struct cleat_error problem;
  struct cleat__small text = {0};
  cleat_status status = cleat__store_get_small(client->store, key, cap, &text, cleat__call(&client->never, &problem));
  cleat__free(text.bytes);
  if (status == CLEAT_OK || status == CLEAT_LIMIT || cleat__object_is_absent(status, &problem)) {
    *there = status == CLEAT_OK || status == CLEAT_LIMIT;
    return CLEAT_OK;
  }
  *err = problem;
  return status;
}

static cleat_status is_committed(struct cleat_client *client, int64_t step, bool *committed, struct cleat_error *err) {
  char key[CLEAT__OBJECT_KEY_MAX];
  cleat__key_manifest(step, key);
  return is_there(client, key, CLEAT__MANIFEST_BYTES_MAX, committed, err);
}

static cleat_status not_committed(const struct cleat_client *client, int64_t step, struct cleat_error *err) {
  cleat_status status = cleat__error_set(err, CLEAT_NOT_FOUND, "step %lld is not committed under %s", (long long)step,
                                         client->store->display);
  cleat__error_hint(err, "`cleat ls` lists the committed steps");
  return status;
}

cleat_status cleat__pin_check(struct cleat_client *client, int64_t step, bool *pinned, struct cleat_error *err) {
  char key[CLEAT__OBJECT_KEY_MAX];
  cleat__key_pin(step, key);
  return is_there(client, key, PIN_BYTES_MAX, pinned, err);
}

static cleat_status put(struct cleat_client *client, const char *key, struct cleat_error *err) {
  char text[128];
  char now[21];
  cleat__time_rfc3339(client->clock->wall_s(client->clock->ctx), now);
  size_t length =
      (size_t)snprintf(text, sizeof text, "{\"format\":\"cleat.pin\",\"version\":\"1.0\",\"created\":\"%s\"}\n", now);
  struct cleat__span body = {text, length};
  struct cleat__put_options options = {
      .condition = CLEAT__PUT_ALWAYS, .content_type = "application/json", .crc32c = cleat__crc32c(0, text, length)};
  return cleat__store_put(client->store, key, cleat__spans(&body, 1), &options, cleat__call(&client->never, err));
}

cleat_status cleat__pin_put(struct cleat_client *client, int64_t step, struct cleat_error *err) {
  char key[CLEAT__OBJECT_KEY_MAX];
  struct cleat_error ignored;
  bool committed = false;
  cleat__key_pin(step, key);
  cleat_status status = is_committed(client, step, &committed, err);
  if (status != CLEAT_OK)
    return status;
  if (!committed)
    return not_committed(client, step, err);
  status = put(client, key, err);
  if (status == CLEAT_OK)
    status = is_committed(client, step, &committed, err);
  if (status != CLEAT_OK || committed)
    return status;
  /* If this fails, gc removes the pin later. */
  (void)cleat__store_remove(client->store, key, cleat__call(&client->never, &ignored));
  status = cleat__error_set(err, CLEAT_NOT_FOUND, "step %lld was removed while it was pinned", (long long)step);
  cleat__error_hint(err, "a prune was faster; `cleat ls` lists the committed steps");
  return status;
}

cleat_status cleat__pin_remove(struct cleat_client *client, int64_t step, struct cleat_error *err) {
  char key[CLEAT__OBJECT_KEY_MAX];
  bool there = false;
  cleat__key_pin(step, key);
  cleat_status status = is_there(client, key, PIN_BYTES_MAX, &there, err);
  if (status == CLEAT_OK && there)
    return cleat__store_remove(client->store, key, cleat__call(&client->never, err));
  /* A step without a pin is fine. A step without a manifest is probably a typing error. */
  if (status == CLEAT_OK)
    status = is_committed(client, step, &there, err);
  return status == CLEAT_OK && !there ? not_committed(client, step, err) : status;
}
