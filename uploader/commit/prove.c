/* prove.c: see prove.h. */
#include "uploader/commit/prove.h"

#include "base/checksum.h"
#include "base/pair.h"

#include <string.h>

/* The ETag of no object. S3's ETags are MD5 sums in quotes, or sums with a number of parts. */
#define NO_ETAG "\"00000000000000000000000000000000\""

/* Number of races between two creates. One race exposes a server that looks first and stores later in 43 of 100 cases
 * (versitygw 1.7 on one machine). */
#define RACES 8

struct trial {
  struct cleat_client *client;
  const char *key;
  struct cleat__span body;
  uint32_t crc32c;
  const atomic_bool *cancel;
  struct cleat_error *err;
};

/* *heeded: the store refused the put, as the condition demands. A store that does not support such a put does not
 * honour it. */
static cleat_status try_put(const struct trial *trial, enum cleat__put_condition condition, bool *heeded) {
  struct cleat__put_options options = {.condition = condition,
                                       .etag = condition == CLEAT__PUT_IF_MATCH ? NO_ETAG : NULL,
                                       .content_type = "application/json",
                                       .crc32c = trial->crc32c};
  cleat_status status = cleat__store_put(trial->client->store, trial->key, cleat__spans(&trial->body, 1), &options,
                                         cleat__call(trial->cancel, trial->err));
  *heeded = status == (condition == CLEAT__PUT_IF_MATCH ? CLEAT_LOST : CLEAT_EXISTS);
  return *heeded || status == CLEAT_UNSUPPORTED ? CLEAT_OK : status;
}

static cleat_status put_first(const struct trial *trial) {
  struct cleat__put_options options = {
      .condition = CLEAT__PUT_ALWAYS, .content_type = "application/json", .crc32c = trial->crc32c};
  return cleat__store_put(trial->client->store, trial->key, cleat__spans(&trial->body, 1), &options,
                          cleat__call(trial->cancel, trial->err));
}

/* One of two creates in a race. */
struct rival {
  const struct trial *trial;
  cleat_status status;
  struct cleat_error err;
};

static void create(void *ctx) {
  struct rival *rival = ctx;
  const struct trial *trial = rival->trial;
  struct cleat__put_options options = {
      .condition = CLEAT__PUT_CREATE_ONLY, .content_type = "application/json", .crc32c = trial->crc32c};
  rival->status = cleat__store_put(trial->client->store, trial->key, cleat__spans(&trial->body, 1), &options,
                                   cleat__call(trial->cancel, &rival->err));
}

/* *heeded: no race was won by both creates. Some servers look first and store later (versitygw 1.7, s3s-fs 0.14). They
 * refuse the second of two creates in sequence. But a process that was stopped in between still stores what it had. */
static cleat_status try_races(const struct trial *trial, bool *heeded) {
  for (int round = 0; round < RACES && *heeded; round++) {
    struct rival rivals[2] = {{.trial = trial}, {.trial = trial}};
    cleat_status status = cleat__store_remove(trial->client->store, trial->key, cleat__call(trial->cancel, trial->err));
    if (status != CLEAT_OK)
      return status;
    int failure = cleat__pair_run(create, &rivals[0], &rivals[1]);
    if (failure != 0)
      return cleat__error_errno(trial->err, failure, "cannot start a second writer thread");
    for (int i = 0; i < 2; i++) {
      if (rivals[i].status != CLEAT_OK && rivals[i].status != CLEAT_EXISTS) {
        *trial->err = rivals[i].err;
        return rivals[i].status;
      }
    }
    *heeded = rivals[0].status == CLEAT_EXISTS || rivals[1].status == CLEAT_EXISTS;
  }
  return CLEAT_OK;
}

/* Uploads the same bytes over the existing object. Whatever the store does, the object has them afterwards. */
static cleat_status try_upload(const struct trial *trial, bool *heeded) {
  struct cleat__store *store = trial->client->store;
  struct cleat__upload upload = {.size = trial->body.length, .part_bytes = trial->body.length, .create_only = true};
  struct cleat__stored_part part = {
      .number = 1, .size = trial->body.length, .crc32c = trial->crc32c, .has_crc32c = true};
  strncpy(upload.key, trial->key, CLEAT__KEY_MAX);
  cleat_status status = cleat__store_multipart_create(store, &upload, NULL, cleat__call(trial->cancel, trial->err));
  if (status != CLEAT_OK)
    return status;
  status = cleat__store_multipart_part(store, &upload, cleat__spans(&trial->body, 1), &part,
                                       cleat__call(trial->cancel, trial->err));
  if (status == CLEAT_OK)
    status = cleat__store_multipart_complete(store, &upload, &part, 1, cleat__call(trial->cancel, trial->err));
  *heeded = status == CLEAT_EXISTS;
  if (status != CLEAT_OK) {
    struct cleat_error ignored; /* gc removes what is left */
    (void)cleat__store_multipart_abort(store, &upload, cleat__call(&trial->client->never, &ignored));
  }
  return *heeded || status == CLEAT_UNSUPPORTED ? CLEAT_OK : status;
}

/* Whether the driver has learned that the store refuses conditional puts. The driver then looks before it puts, which
 * keeps no two writers apart. In this trial it finds the object and reports EXISTS, although the store honoured
 * nothing. */
static bool checks_first(const struct trial *trial) {
  static const unsigned refused = CLEAT__STORE_NO_CREATE_ONLY | CLEAT__STORE_REFUSED_CREATE_ONLY;
  return (atomic_load(&trial->client->store->lacks) & refused) != 0;
}

static cleat_status try_all(const struct trial *trial, bool uploads, enum cleat__conditions *found) {
  bool create = false, match = false, complete = true;
  cleat_status status = put_first(trial);
  if (status == CLEAT_OK)
    status = try_put(trial, CLEAT__PUT_CREATE_ONLY, &create);
  if (status == CLEAT_OK && create)
    status = try_put(trial, CLEAT__PUT_IF_MATCH, &match);
  if (status == CLEAT_OK && match)
    status = try_races(trial, &create);
  if (status == CLEAT_OK && match && create && uploads)
    status = try_upload(trial, &complete);
  if (!create || !match || checks_first(trial))
    *found = CLEAT__CONDITIONS_IGNORED;
  else if (!complete)
    *found = CLEAT__CONDITIONS_IGNORED_BY_UPLOADS;
  else
    *found = uploads ? CLEAT__CONDITIONS_HEEDED : CLEAT__CONDITIONS_OF_PUTS;
  return status;
}

static cleat_status find_out(const struct trial *trial, bool uploads, enum cleat__conditions *found) {
  struct cleat_error ignored;
  cleat_status status = try_all(trial, uploads, found);
  (void)cleat__store_remove(trial->client->store, trial->key, cleat__call(&trial->client->never, &ignored));
  return status;
}

cleat_status cleat__prove_conditions(struct cleat_client *client, const char *key, bool uploads,
                                     enum cleat__conditions *found, struct cleat__call call) {
  static char text[] = "{\"format\":\"cleat.trial\"}\n";
  const struct trial trial = {.client = client,
                              .key = key,
                              .body = {text, sizeof text - 1},
                              .crc32c = cleat__crc32c(0, text, sizeof text - 1),
                              .cancel = call.cancel,
                              .err = call.err};
  const bool unproven = (client->store->capabilities & CLEAT__STORE_UNPROVEN) != 0;
  *found = unproven ? (enum cleat__conditions)atomic_load(&client->conditions) : CLEAT__CONDITIONS_HEEDED;
  if (*found != CLEAT__CONDITIONS_UNTRIED && !(*found == CLEAT__CONDITIONS_OF_PUTS && uploads))
    return CLEAT_OK;
  cleat_status status = find_out(&trial, uploads, found);
  if (status == CLEAT_OK)
    atomic_store(&client->conditions, (int)*found);
  return status;
}
