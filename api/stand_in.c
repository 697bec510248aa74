/* Stand-ins for what the many-rank saves and retention bring: just enough for the manager's tests. */
#include "api/argument.h"
#include "base/mem.h"
#include "uploader/catalog.h"
#include "uploader/name.h"

void cleat_checkpoint_topology(const struct cleat_checkpoint *checkpoint,
                               struct cleat_topology *topology) {
  (void)checkpoint;
  *topology = (struct cleat_topology){0};
}

unsigned cleat_client_rank(const struct cleat_client *client) {
  return client->rank;
}

unsigned cleat_client_world_size(const struct cleat_client *client) {
  return client->world_size;
}

size_t cleat_checkpoint_reshard(const struct cleat_checkpoint *checkpoint, char *text,
                                size_t size) {
  (void)checkpoint, (void)text, (void)size;
  return 0;
}

cleat_status cleat_resume(struct cleat_client *client, const struct cleat_resume_options *options,
                          struct cleat_checkpoint **checkpoint, struct cleat_error *err) {
  ERR_OR_LOCAL(err);
  struct cleat_resume_options known;
  cleat_status status = take_struct(&known, sizeof(known), options, "resume options", errp);
  if (status != CLEAT_OK)
    return status;
  if (known.fresh != 0) {
    *checkpoint = NULL;
    return CLEAT_OK;
  }
  if (known.at_step != 0)
    return cleat__checkpoint_open(client, known.step, checkpoint, errp);
  status = cleat__catalog_open_latest(client, checkpoint, errp);
  if (status != CLEAT_NOT_FOUND || errp->s3_code[0] != '\0')
    return status;
  *checkpoint = NULL;
  return CLEAT_OK;
}

static cleat_status remove_folder(struct cleat_client *client, const char *folder,
                                  struct cleat_error *err) {
  struct cleat__list_page page = {0};
  cleat_status status =
      CLEAT__STORE(client->store, list, folder, false, NULL, &page, &client->never, err);
  for (size_t i = 0; status == CLEAT_OK && i < page.count; i++)
    status = CLEAT__STORE(client->store, remove, page.entries[i].key, &client->never, err);
  cleat__list_page_clear(&page);
  return status;
}

static cleat_status remove_step(struct cleat_client *client, int64_t step,
                                struct cleat_error *err) {
  char key[CLEAT__OBJECT_KEY_MAX];
  char folder[CLEAT__STEP_FOLDER_MAX];
  cleat__key_manifest(step, key);
  cleat_status status = CLEAT__STORE(client->store, remove, key, &client->never, err);
  if (status != CLEAT_OK)
    return status;
  cleat__name_step_folder(step, folder);
  char *prefix = cleat__strprintf("%s/", folder);
  if (prefix == NULL)
    return cleat__error_no_memory(err, "a key");
  status = remove_folder(client, prefix, err);
  cleat__free(prefix);
  return status;
}

cleat_status cleat_prune(struct cleat_client *client, const struct cleat_prune_options *options,
                         struct cleat_removals **removals, struct cleat_error *err) {
  ERR_OR_LOCAL(err);
  struct cleat_prune_options known;
  struct cleat_list *list = NULL;
  (void)removals;
  cleat_status status = take_struct(&known, sizeof(known), options, "prune options", errp);
  if (status == CLEAT_OK && known.keep_last != 0)
    status = cleat__catalog_list(client, &list, errp);
  size_t count = list != NULL ? cleat__catalog_count(list) : 0;
  for (size_t i = 0; status == CLEAT_OK && i + known.keep_last < count; i++)
    status = remove_step(client, cleat__catalog_get(list, i)->step, errp);
  cleat__catalog_free(list);
  return status;
}
