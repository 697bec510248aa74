/* reuse_anew.c: leaves an attempt of an earlier try, and tidies a committed one. See reuse.h.
 *
 * Nothing is removed that another process might commit. A process may be stopped at any line here and wake after
 * another one has continued the attempt. It then finds that its claim is gone, or it removes only what no record
 * names. */
#include "uploader/save/reuse.h"

#include "base/checksum.h"
#include "base/mem.h"
#include "uploader/engine/listing.h"

#include <string.h>

/* ---- Removing --------------------------------------------------------------------------------- */

static void remove_one(struct cleat_client *client, const char *key, const char *upload_id) {
  struct cleat_error problem;
  cleat_status status = CLEAT_OK;
  if (upload_id == NULL) {
    status = cleat__store_remove(client->store, key, cleat__call(&client->never, &problem));
  } else {
    struct cleat__upload multipart = {.size = 0};
    strncpy(multipart.key, key, CLEAT__KEY_MAX);
    strncpy(multipart.id, upload_id, CLEAT__UPLOAD_ID_MAX);
    status = cleat__store_multipart_abort(client->store, &multipart, cleat__call(&client->never, &problem));
  }
  if (status != CLEAT_OK)
    cleat__log(&client->log, CLEAT_LOG_WARNING, "a resumed save could not remove %s: %s", key, problem.message);
}

void cleat__reuse_tidy(struct cleat_client *client, const struct cleat__attempt *attempt) {
  for (size_t i = 0; i < attempt->stray_count; i++)
    remove_one(client, attempt->strays[i].key, attempt->strays[i].id);
}

struct removal {
  struct cleat_client *client;
  const char *record; /* key of the rank record */
};

static cleat_status remove_object(void *user, const struct cleat__list_entry *entry, struct cleat_error *err) {
  struct removal *removal = user;
  (void)err;
  if (strcmp(entry->key, removal->record) != 0)
    remove_one(removal->client, entry->key, NULL);
  return CLEAT_OK;
}

/* Removes everything in the attempt. The claim, which is already closed, goes last, because it names the uploads that
 * may be there. */
static void remove_all(const struct cleat__save_upload *upload, const char *record) {
  struct cleat_client *client = upload->operation->client;
  struct removal removal = {.client = client, .record = record};
  struct cleat_error problem;
  char folder[CLEAT__OBJECT_KEY_MAX];
  for (size_t i = 0; i < upload->attempt->stray_count; i++) {
    if (upload->attempt->strays[i].id != NULL)
      remove_one(client, upload->attempt->strays[i].key, upload->attempt->strays[i].id);
  }
  for (size_t i = 0; i < upload->plan->record.file_count; i++) {
    const struct cleat__upload *multipart = upload->files[i].multipart;
    if (multipart != NULL && multipart->id[0] != '\0' && upload->files[i].state != CLEAT__SAVE_FILE_DONE)
      remove_one(client, multipart->key, multipart->id);
  }
  cleat__key_attempt(upload->plan->step, upload->attempt->id, folder);
  const struct cleat__listing objects = {client->store, folder, false, &client->never};
  if (cleat__listing_each(&objects, remove_object, &removal, &problem) == CLEAT_OK)
    remove_one(client, record, NULL);
  else
    cleat__log(&client->log, CLEAT_LOG_WARNING, "a resumed save could not remove %s: %s", folder, problem.message);
}

/* ---- Another attempt --------------------------------------------------------------------------- */

static void forget_file(struct cleat__save_upload *upload, size_t index) {
  struct cleat__save_file *file = &upload->files[index];
  cleat__free(file->have);
  file->have = NULL;
  file->present = false;
  if (file->multipart == NULL)
    return;
  file->multipart->id[0] = '\0';
  cleat__key_file(upload->plan->step, upload->attempt->id, upload->plan->record.files[index].name,
                  file->multipart->key);
}

/* Gives the save a new attempt. The record's texts point to the attempt's names, so they change with them. */
static cleat_status name_another(struct cleat__save_upload *upload, struct cleat__attempt *attempt,
                                 struct cleat_error *err) {
  cleat_status status = cleat__attempt_name(attempt, err);
  if (status != CLEAT_OK)
    return status;
  for (size_t i = 0; i < upload->plan->record.file_count; i++)
    forget_file(upload, i);
  cleat__attempt_drop_strays(attempt);
  cleat__attempt_set_claim(attempt, CLEAT__ATTEMPT_CLAIM_NONE);
  cleat__attempt_set_origin(attempt, CLEAT__ATTEMPT_AFRESH);
  return CLEAT_OK;
}

cleat_status cleat__reuse_anew(struct cleat__save_upload *upload, struct cleat__attempt *attempt,
                               struct cleat_error *err) {
  struct cleat_client *client = upload->operation->client;
  struct cleat_error problem;
  char record[CLEAT__OBJECT_KEY_MAX];
  cleat__attempt_record_key(attempt, record);
  cleat_status status =
      cleat__claim_close(client, record, attempt->nonce, cleat__attempt_claim_stood(attempt), &problem);
  if (status == CLEAT_LOST) {
    *err = problem;
    return status;
  }
  cleat__log(&client->log, CLEAT_LOG_INFO,
             "step %lld: the leftovers of an earlier try differ from this save, so everything is "
             "sent again",
             (long long)upload->plan->step);
  if (status == CLEAT_OK)
    remove_all(upload, record);
  else
    cleat__log(&client->log, CLEAT_LOG_WARNING, "attempt %s of step %lld is left for gc: %s", attempt->id,
               (long long)upload->plan->step, problem.message);
  return name_another(upload, attempt, err);
}
