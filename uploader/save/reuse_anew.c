/* reuse_anew.c: leaving an attempt of an earlier try, and tidying one that was committed. See reuse.h.
 *
 * Nothing is removed while somebody else might commit it: a process that is stopped at any line here, and wakes when another
 * has gone on with the attempt, finds that its claim is gone, or removes what no record names. */
#include "uploader/save/reuse.h"

#include "base/checksum.h"
#include "base/mem.h"
#include "uploader/engine/listing.h"

#include <string.h>

/* ---- Removing --------------------------------------------------------------------------------- */

static void remove_one(struct cleat_save *save, const char *key, const char *upload_id) {
  struct cleat_client *client = save->operation.client;
  struct cleat_error problem;
  cleat_status status = CLEAT_OK;
  if (upload_id == NULL) {
    status = CLEAT__STORE(client->store, remove, key, &client->never, &problem);
  } else {
    struct cleat__upload upload = {.size = 0};
    strncpy(upload.key, key, CLEAT__KEY_MAX);
    strncpy(upload.id, upload_id, CLEAT__UPLOAD_ID_MAX);
    status = CLEAT__STORE(client->store, multipart_abort, &upload, &client->never, &problem);
  }
  if (status != CLEAT_OK)
    cleat__log(&client->log, CLEAT_LOG_WARNING, "a resumed save left %s behind: %s", key,
               problem.message);
}

void cleat__reuse_tidy(struct cleat_save *save) {
  for (size_t i = 0; i < save->stray_count; i++)
    remove_one(save, save->strays[i].key, save->strays[i].id);
}

struct removal {
  struct cleat_save *save;
  const char *record; /* its key */
};

static cleat_status remove_object(void *user, const struct cleat__list_entry *entry,
                                  struct cleat_error *err) {
  struct removal *removal = user;
  (void)err;
  if (strcmp(entry->key, removal->record) != 0)
    remove_one(removal->save, entry->key, NULL);
  return CLEAT_OK;
}

/* The claim is closed, and goes last: it says what is here. */
static void remove_all(struct cleat_save *save, const char *record) {
  struct cleat_client *client = save->operation.client;
  struct removal removal = {.save = save, .record = record};
  struct cleat_error problem;
  char folder[CLEAT__OBJECT_KEY_MAX];
  for (size_t i = 0; i < save->stray_count; i++) {
    if (save->strays[i].id != NULL)
      remove_one(save, save->strays[i].key, save->strays[i].id);
  }
  for (size_t i = 0; i < save->plan->record.file_count; i++) {
    const struct cleat__upload *upload = save->files[i].upload;
    if (upload != NULL && upload->id[0] != '\0' && save->files[i].state != CLEAT__SAVE_FILE_DONE)
      remove_one(save, upload->key, upload->id);
  }
  cleat__key_attempt(save->plan->step, save->attempt, folder);
  const struct cleat__listing objects = {client->store, folder, false, &client->never};
  if (cleat__listing_each(&objects, remove_object, &removal, &problem) == CLEAT_OK)
    remove_one(save, record, NULL);
  else
    cleat__log(&client->log, CLEAT_LOG_WARNING, "a resumed save left %s behind: %s", folder,
               problem.message);
}

/* ---- Another attempt --------------------------------------------------------------------------- */

static void forget_file(struct cleat_save *save, size_t index) {
  struct cleat__save_file *file = &save->files[index];
  cleat__free(file->have);
  file->have = NULL;
  file->present = false;
  if (file->upload == NULL)
    return;
  file->upload->id[0] = '\0';
  cleat__key_file(save->plan->step, save->attempt, save->plan->record.files[index].name,
                  file->upload->key);
}

/* The record's texts are those of the save. */
static cleat_status name_another(struct cleat_save *save, struct cleat_error *err) {
  if (cleat__random_hex((sizeof save->attempt - 1) / 2, save->attempt) != CLEAT_OK ||
      cleat__random_hex((sizeof save->nonce - 1) / 2, save->nonce) != CLEAT_OK)
    return cleat__error_set(err, CLEAT_INTERNAL, "the system's random generator failed");
  for (size_t i = 0; i < save->plan->record.file_count; i++)
    forget_file(save, i);
  cleat__strays_free(save->strays, save->stray_count);
  save->strays = NULL;
  save->stray_count = 0;
  save->adopted = save->claimed = save->claim_stood = false;
  save->anew = true;
  return CLEAT_OK;
}

cleat_status cleat__reuse_anew(struct cleat_save *save, struct cleat_error *err) {
  struct cleat_client *client = save->operation.client;
  struct cleat_error problem;
  char record[CLEAT__OBJECT_KEY_MAX];
  cleat__key_record(save->plan->step, save->attempt, save->plan->record.rank, record);
  cleat_status status =
      cleat__claim_close(client, record, save->nonce, save->claim_stood, &problem);
  if (status == CLEAT_LOST) {
    *err = problem;
    return status;
  }
  cleat__log(
      &client->log, CLEAT_LOG_INFO,
      "step %lld: what an earlier try left differs from what is to be saved; all of it is sent",
      (long long)save->plan->step);
  if (status == CLEAT_OK)
    remove_all(save, record);
  else
    cleat__log(&client->log, CLEAT_LOG_WARNING, "attempt %s of step %lld is left for gc: %s",
               save->attempt, (long long)save->plan->step, problem.message);
  return name_another(save, err);
}
