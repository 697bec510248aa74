/* Puts the rank record and the manifest, each once. Settles doubts by reading back. See commit.h. */
#include "uploader/commit/commit.h"

#include "base/checksum.h"
#include "base/mem.h"
#include "uploader/engine/reading.h"

#include <assert.h>
#include <string.h>

/* Most reads of a manifest to find out who put it. */
#define READS_MAX 4

/* Reads and parses the manifest of `step`. *found: there is one. */
static cleat_status manifest_read(struct cleat_client *client, int64_t step, char etag[CLEAT__ETAG_MAX],
                                  struct cleat__manifest *manifest, bool *found, struct cleat__call call) {
  char key[CLEAT__OBJECT_KEY_MAX];
  cleat__key_manifest(step, key);
  struct cleat__small text = {0};
  *found = false;
  cleat_status status = cleat__read_document(client, key, CLEAT__MANIFEST_BYTES_MAX, &text, call);
  if (cleat__object_is_absent(status, call.err))
    return CLEAT_OK;
  if (status != CLEAT_OK)
    return status;
  *found = true;
  memcpy(etag, text.etag, sizeof text.etag);
  status = cleat__manifest_parse(text.bytes, text.size, step, manifest, call.err);
  cleat__free(text.bytes);
  return status;
}

cleat_status cleat__commit_read(struct cleat_client *client, int64_t step, struct cleat__standing *standing,
                                struct cleat__call call) {
  struct cleat__manifest manifest = {0};
  char etag[CLEAT__ETAG_MAX] = "";
  bool found = false;
  cleat_status status = manifest_read(client, step, etag, &manifest, &found, call);
  bool damaged = found && (status == CLEAT_FORMAT || status == CLEAT_NEWER);
  if (status != CLEAT_OK && !damaged)
    return status;
  *standing = (struct cleat__standing){.exists = found};
  memcpy(standing->etag, etag, sizeof etag);
  if (found && !damaged) {
    standing->same_start = strcmp(manifest.start, client->start) == 0;
    (void)strncpy(standing->start, manifest.start, CLEAT__ID_MAX);
    (void)strncpy(standing->attempt, manifest.attempt, CLEAT__ID_MAX);
    if (manifest.replaced != NULL)
      (void)strncpy(standing->replaced, manifest.replaced, CLEAT__ID_MAX);
  }
  cleat__manifest_clear(&manifest);
  return CLEAT_OK;
}

/* `how`: the condition, with its ETag. */
static cleat_status put_text(struct cleat_client *client, const char *key, const struct cleat__buffer *text,
                             const struct cleat__put_options *how, struct cleat__call call) {
  assert(how->condition != CLEAT__PUT_IF_MATCH || how->etag != NULL);
  struct cleat__span body = {text->data, text->length};
  struct cleat__put_options options = *how;
  options.content_type = "application/json";
  options.crc32c = cleat__crc32c(0, text->data, text->length);
  return cleat__store_put(client->store, key, cleat__spans(&body, 1), &options, call);
}

/* Puts in place of the object with `etag`. NULL: only if there is none. */
static struct cleat__put_options in_place_of(const char *etag) {
  return (struct cleat__put_options){.condition = etag != NULL ? CLEAT__PUT_IF_MATCH : CLEAT__PUT_CREATE_ONLY,
                                     .etag = etag};
}

/* Whether the file system failed to make the bytes durable. Such bytes may be readable now and gone after a power
 * cut. */
static bool is_not_durable(const struct cleat_error *err) {
  return err->status == CLEAT_IO || err->status == CLEAT_NO_SPACE;
}

/* Whether the object under `key` is `text`, byte for byte. */
static cleat_status is_stored(struct cleat_client *client, const char *key, const struct cleat__buffer *text,
                              bool *same, struct cleat__call call) {
  struct cleat__small stored = {0};
  cleat_status status = cleat__store_get_small(client->store, key, CLEAT__RECORD_BYTES_MAX, &stored, call);
  if (status != CLEAT_OK)
    return status;
  *same = stored.size == text->length && memcmp(stored.bytes, text->data, stored.size) == 0;
  cleat__free(stored.bytes);
  return CLEAT_OK;
}

/* A create-only put was refused, but there is no object. So this is neither LOST nor NOT_FOUND. */
static cleat_status refused_for_nothing(struct cleat_error *err) {
  err->status = CLEAT_STORE;
  cleat__error_hint(err, "but there is no such object: the store does not handle create-only puts "
                         "as S3 does, or another writer's object was removed just now; save again");
  return err->status;
}

cleat_status cleat__commit_document(struct cleat_client *client, const char *key, const struct cleat__buffer *text,
                                    const char *etag, struct cleat__call call) {
  assert(text->length > 0);
  const struct cleat__put_options how = in_place_of(etag);
  cleat_status status = put_text(client, key, text, &how, call);
  if (status == CLEAT_OK || status == CLEAT_CANCELLED || is_not_durable(call.err))
    return status;
  /* An object exists, or the outcome is unknown. The object is ours if it has the same bytes, including the nonce. */
  struct cleat_error second;
  bool same = false;
  cleat_status read = is_stored(client, key, text, &same, cleat__call(call.cancel, &second));
  if (read == CLEAT_OK && same)
    return CLEAT_OK;
  if (status != CLEAT_EXISTS && status != CLEAT_LOST)
    return status;
  if (status == CLEAT_EXISTS && cleat__object_is_absent(read, &second))
    return refused_for_nothing(call.err);
  if (read != CLEAT_OK && read != CLEAT_NOT_FOUND) {
    *call.err = second;
    return read;
  }
  return cleat__error_set(call.err, CLEAT_LOST, "another process has written %s", key);
}

/* ---- Stores that ignore create-only ------------------------------------------------------------- */

/* Whether the driver has learned that the store refuses create-only puts. It then puts without the condition, so the
 * store is no better than one that ignores it. */
static bool refuses_create_only(const struct cleat_client *client) {
  return (atomic_load(&client->store->lacks) & CLEAT__STORE_NO_CREATE_ONLY) != 0;
}

static void warn_of_two(struct cleat_client *client, const char *what) {
  cleat__log(&client->log, CLEAT_LOG_WARNING,
             "%s %s: if two jobs save one step at the same moment, both may believe that they "
             "committed it; let one job at a time save there ('cleat doctor' shows more)",
             client->store->display, what);
}

static void warn_ignored(struct cleat_client *client) {
  int untried = CLEAT__CREATE_ONLY_UNTRIED;
  if (atomic_compare_exchange_strong(&client->create_only, &untried, CLEAT__CREATE_ONLY_IGNORED))
    warn_of_two(client, refuses_create_only(client) ? "refuses If-None-Match" : "ignores If-None-Match");
}

/* Whether this manifest was put without If-Match, because the driver has learned that the store refuses it. The driver
 * looked before the put. Warns once, unless warn_ignored has warned already. */
static bool is_loose_replace(struct cleat_client *client, const struct cleat__put_options *how) {
  if (how->condition != CLEAT__PUT_IF_MATCH || (atomic_load(&client->store->lacks) & CLEAT__STORE_NO_IF_MATCH) == 0)
    return false;
  if (!atomic_exchange(&client->replace_told, true) && atomic_load(&client->create_only) != CLEAT__CREATE_ONLY_IGNORED)
    warn_of_two(client, "refuses If-Match");
  return true;
}

/* Tests create-only once for each client, by putting an object that already exists. If the put fails otherwise, the
 * next save tests again. */
static void try_create_only(struct cleat_client *client, const char *key, const struct cleat__buffer *text,
                            const atomic_bool *cancel) {
  struct cleat_error ignored;
  if ((client->store->capabilities & CLEAT__STORE_UNPROVEN) == 0 ||
      atomic_load(&client->create_only) != CLEAT__CREATE_ONLY_UNTRIED)
    return;
  const struct cleat__put_options how = in_place_of(NULL);
  cleat_status status = put_text(client, key, text, &how, cleat__call(cancel, &ignored));
  if (status == CLEAT_OK || refuses_create_only(client))
    warn_ignored(client);
  else if (status == CLEAT_EXISTS)
    atomic_store(&client->create_only, CLEAT__CREATE_ONLY_HONOURED);
}

/* ---- Record ------------------------------------------------------------------------------------- */

cleat_status cleat__commit_record(struct cleat_client *client, int64_t step, const struct cleat__record *record,
                                  const char *etag, struct cleat__manifest *manifest, struct cleat__rank_ref *ref,
                                  struct cleat__call call) {
  char key[CLEAT__OBJECT_KEY_MAX];
  cleat__key_record(step, record->attempt, record->rank, key);
  struct cleat__buffer text;
  cleat__buffer_init(&text, CLEAT__RECORD_BYTES_MAX);
  cleat_status status = cleat__record_encode(record, &text, call.err);
  if (status == CLEAT_OK)
    status = cleat__commit_document(client, key, &text, etag, call);
  /* Without If-Match, no other process could have replaced the claim either. */
  if (status == CLEAT_UNSUPPORTED && etag != NULL)
    status = put_text(client, key, &text, &(struct cleat__put_options){0}, call);
  if (status == CLEAT_LOST)
    cleat__error_hint(call.err, "two processes act as rank %u of this attempt", record->rank);
  if (status == CLEAT_OK)
    try_create_only(client, key, &text, call.cancel);
  if (status == CLEAT_OK && cleat__sha256(text.data, text.length, ref->sha256) != CLEAT_OK) {
    status = cleat__error_no_memory(call.err, "a digest");
  }
  if (status == CLEAT_OK) {
    const char *below_step = strchr(key, '/') + 1;
    ref->key = cleat__arena_text(&manifest->arena, below_step, strlen(below_step));
    ref->size = text.length;
    ref->files = record->file_count;
    ref->bytes = 0;
    for (size_t i = 0; i < record->file_count; i++)
      ref->bytes += record->files[i].size;
    if (ref->key == NULL)
      status = cleat__error_no_memory(call.err, "the manifest");
  }
  cleat__buffer_clear(&text);
  return status;
}

/* Whether a failed put may have been stored, or may still be stored. */
static bool put_in_doubt(const struct cleat_error *err) {
  switch (err->status) {
  case CLEAT_NETWORK:
  case CLEAT_TIMEOUT:
  case CLEAT_CANCELLED:
  case CLEAT_IO:
    return true;
  case CLEAT_STORE:
    return err->http_status == 0 || err->http_status >= 500 || err->http_status == 408;
  default:
    return false;
  }
}

static cleat_status lost_to(int64_t step, const char *attempt, struct cleat_error *err) {
  cleat_status status = cleat__error_set(err, CLEAT_LOST, "step %lld was committed by another writer, as attempt %s",
                                         (long long)step, attempt);
  cleat__error_hint(err, "that checkpoint is kept; the bytes of this one are removed");
  return status;
}

static cleat_status in_doubt_error(int64_t step, struct cleat_error *err) {
  cleat__error_context(err, "step %lld may or may not be committed", (long long)step);
  cleat__error_hint(err, "run `cleat ls`: if the step is listed, it is complete");
  return err->status;
}

/* Reads the manifest in the place of ours, until it has our token, or until two replies have the same other token. A
 * bit that flips in transit must not make our manifest look like another's, because our files would then be removed. */
static cleat_status manifest_read_back(struct cleat_client *client, const struct cleat__manifest *ours,
                                       char etag[CLEAT__ETAG_MAX], struct cleat__manifest *manifest, bool *found,
                                       struct cleat_error *err) {
  cleat_status status = manifest_read(client, ours->step, etag, manifest, found, cleat__call(&client->never, err));
  for (int i = 1; i < READS_MAX && status == CLEAT_OK && *found; i++) {
    if (strcmp(manifest->token, ours->token) == 0)
      return CLEAT_OK;
    struct cleat__manifest before = *manifest;
    *manifest = (struct cleat__manifest){0};
    status = manifest_read(client, ours->step, etag, manifest, found, cleat__call(&client->never, err));
    bool same = status == CLEAT_OK && *found && strcmp(before.token, manifest->token) == 0;
    cleat__manifest_clear(&before);
    if (same)
      return CLEAT_OK;
  }
  if (status == CLEAT_OK && *found)
    status = cleat__error_set(err, CLEAT_INTEGRITY, "the manifest of step %lld is different each time it is read",
                              (long long)ours->step);
  return status;
}

/* Whether our put was carried out: the stored manifest is ours, or has replaced ours since. */
static bool is_ours(const struct cleat__manifest *stored, const struct cleat__manifest *ours) {
  return strcmp(stored->token, ours->token) == 0 ||
         (stored->replaced != NULL && strcmp(stored->replaced, ours->attempt) == 0);
}

/* If another process reuses this attempt, the committed checkpoint consists of our objects. So they must stay. */
static void keep_if_reused(const struct cleat__manifest *stored, const struct cleat__manifest *ours, bool *in_doubt,
                           struct cleat_error *err) {
  if (strcmp(stored->attempt, ours->attempt) != 0)
    return;
  *in_doubt = true;
  cleat__error_hint(err, "this save was resumed elsewhere; that checkpoint is kept");
}

/* Handles a failed put with *err: reads back which attempt has the step. `late`: a try of the put may still be carried
 * out, and the store may have checked its condition already. */
static cleat_status manifest_settle(struct cleat_client *client, const struct cleat__manifest *manifest,
                                    const char *replace_etag, bool late, bool *in_doubt, struct cleat_error *err) {
  struct cleat__manifest stored = {0};
  char etag[CLEAT__ETAG_MAX] = "";
  struct cleat_error second;
  bool found = false;
  cleat_status read = manifest_read_back(client, manifest, etag, &stored, &found, &second);
  bool ours = read == CLEAT_OK && found && is_ours(&stored, manifest);
  /* The manifest to be replaced is still there. That proves no more than finding none. */
  bool unchanged = replace_etag != NULL && strcmp(etag, replace_etag) == 0;
  cleat_status status = CLEAT_OK;
  if (!ours && read == CLEAT_OK && found && !unchanged) {
    *in_doubt = late;
    status = lost_to(manifest->step, stored.attempt, err);
    if (late)
      cleat__error_hint(err, "that checkpoint is kept; the bytes of this one stay as well, because "
                             "a try to commit it got no clear reply and may still be carried out");
    keep_if_reused(&stored, manifest, in_doubt, err);
  } else if (!ours || is_not_durable(err)) {
    *in_doubt = ours || read != CLEAT_OK || put_in_doubt(err);
    if (read == CLEAT_OK && !found && err->status == CLEAT_EXISTS)
      (void)refused_for_nothing(err);
    status = *in_doubt ? in_doubt_error(manifest->step, err) : err->status;
  }
  cleat__manifest_clear(&stored);
  return status;
}

/* Looks for another manifest before a put that the store would not refuse. */
static cleat_status manifest_foresee(struct cleat_client *client, const struct cleat__manifest *manifest,
                                     bool *in_doubt, struct cleat_error *err) {
  struct cleat__manifest stored = {0};
  char etag[CLEAT__ETAG_MAX] = "";
  bool found = false;
  cleat_status status = manifest_read(client, manifest->step, etag, &stored, &found, cleat__call(&client->never, err));
  if (status == CLEAT_OK && found) {
    status = lost_to(manifest->step, stored.attempt, err);
    keep_if_reused(&stored, manifest, in_doubt, err);
  }
  cleat__manifest_clear(&stored);
  return status;
}

/* Reads which manifest is stored after such a put. `late`: an earlier try of ours may still be carried out and replace
 * it. */
static cleat_status manifest_confirm(struct cleat_client *client, const struct cleat__manifest *manifest, bool late,
                                     bool *in_doubt, struct cleat_error *err) {
  struct cleat__manifest stored = {0};
  char etag[CLEAT__ETAG_MAX] = "";
  bool found = false;
  cleat_status status = manifest_read_back(client, manifest, etag, &stored, &found, err);
  *in_doubt = status != CLEAT_OK || !found;
  if (status == CLEAT_OK && !found)
    status = cleat__error_set(err, CLEAT_STORE, "the manifest was put, but it is not in the store");
  if (*in_doubt)
    status = in_doubt_error(manifest->step, err);
  else if (!is_ours(&stored, manifest)) {
    *in_doubt = late;
    status = lost_to(manifest->step, stored.attempt, err);
    keep_if_reused(&stored, manifest, in_doubt, err);
  }
  cleat__manifest_clear(&stored);
  return status;
}

cleat_status cleat__commit_manifest(struct cleat_client *client, const struct cleat__manifest *manifest,
                                    const char *replace_etag, bool *in_doubt, struct cleat_error *err) {
  char key[CLEAT__OBJECT_KEY_MAX];
  cleat__key_manifest(manifest->step, key);
  struct cleat__buffer text;
  cleat__buffer_init(&text, CLEAT__MANIFEST_BYTES_MAX);
  bool unguarded = replace_etag == NULL && atomic_load(&client->create_only) == CLEAT__CREATE_ONLY_IGNORED;
  unsigned failed_tries = 0;
  struct cleat__put_options how = in_place_of(replace_etag);
  how.or_check = true;
  how.failed_tries = &failed_tries;
  cleat_status status = cleat__manifest_encode(manifest, &text, err);
  *in_doubt = false;
  if (status == CLEAT_OK && unguarded)
    status = manifest_foresee(client, manifest, in_doubt, err);
  if (status == CLEAT_OK) {
    status = put_text(client, key, &text, &how, cleat__call(&client->never, err));
    unguarded = unguarded || (status == CLEAT_OK && is_loose_replace(client, &how));
    if (status != CLEAT_OK) {
      /* Some stores check the condition before they receive the body (versitygw). A try that stalls in between is
       * carried out when it continues, and replaces the winner's manifest. */
      bool late = failed_tries > 0 || put_in_doubt(err);
      status = manifest_settle(client, manifest, replace_etag, late, in_doubt, err);
    } else if (unguarded) {
      status = manifest_confirm(client, manifest, failed_tries > 0, in_doubt, err);
    }
  }
  cleat__buffer_clear(&text);
  return status;
}
