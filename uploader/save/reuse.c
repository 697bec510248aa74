/* reuse.c: chooses an attempt of an earlier try and claims it. See reuse.h. */
#include "uploader/save/reuse.h"

#include "base/mem.h"
#include "uploader/engine/listing.h"

#include <string.h>

/* Most attempts of a step that are inspected. A job that is killed again and again without reuse leaves one each time.
 * Each costs a few requests here. */
#define ATTEMPTS_MAX 100u
/* Most searches. The owner of the best attempt may finish while we claim it; then we search again. */
#define SEARCHES_MAX 3u

static void record_key(const struct cleat__save_upload *upload, const char *id, char *key) {
  cleat__key_record(upload->plan->step, id, upload->plan->record.rank, key);
}

/* ---- Our claim -------------------------------------------------------------------------------- */

/* Claims the attempt `id` for this save. `etag` NULL: a new attempt. */
static cleat_status claim(const struct cleat__save_upload *upload, struct cleat__attempt *attempt, const char *id,
                          const char *etag, struct cleat_error *err) {
  struct cleat__claim ours = {.kind = CLEAT__CLAIM_OPEN};
  char key[CLEAT__OBJECT_KEY_MAX];
  size_t files = upload->plan->record.file_count;
  ours.uploads = cleat__calloc(files, sizeof *ours.uploads);
  if (ours.uploads == NULL)
    return cleat__error_no_memory(err, "the claim");
  memcpy(ours.nonce, attempt->nonce, sizeof attempt->nonce);
  for (size_t i = 0; i < files; i++) {
    if (upload->files[i].multipart != NULL)
      ours.uploads[ours.upload_count++] = upload->plan->record.files[i].name;
  }
  record_key(upload, id, key);
  if (etag == NULL)
    cleat__attempt_set_claim(attempt, CLEAT__ATTEMPT_CLAIM_SENT);
  cleat_status status =
      cleat__claim_put(upload->operation->client, key, &ours, etag, cleat__call(&upload->operation->cancel, err));
  if (status == CLEAT_OK)
    cleat__attempt_set_claim(attempt, etag == NULL ? CLEAT__ATTEMPT_CLAIM_CREATED : CLEAT__ATTEMPT_CLAIM_REPLACED);
  cleat__free(ours.uploads); /* the plan owns the names */
  return status;
}

/* ---- What is left of earlier tries ------------------------------------------------------------- */

struct search {
  struct cleat__save_upload *upload;
  struct cleat__attempt *attempt;
  struct cleat__stock best;
  unsigned looked_at;
  struct cleat_error *err;
};

/* A complete attempt: its record is stored and only the manifest is missing. Our manifest may name that record only if
 * it equals, byte for byte, the one that this save would write, and if every object matches it. */
static cleat_status try_record(struct search *search, const struct cleat__claim *found, const char *id) {
  struct cleat__save_upload *upload = search->upload;
  struct cleat__attempt *attempt = search->attempt;
  struct cleat__record theirs = {0};
  struct cleat_error ignored;
  struct cleat__buffer text;
  if (cleat__record_parse(found->text, found->size, &theirs, &ignored) != CLEAT_OK || !theirs.shared ||
      strlen(theirs.nonce) >= sizeof attempt->nonce || theirs.rank != upload->plan->record.rank ||
      theirs.file_count != upload->plan->record.file_count) {
    cleat__record_clear(&theirs);
    return CLEAT_OK;
  }
  char id_before[sizeof attempt->id], nonce_before[sizeof attempt->nonce];
  memcpy(id_before, attempt->id, sizeof id_before);
  memcpy(nonce_before, attempt->nonce, sizeof nonce_before);
  memcpy(attempt->id, id, strlen(id) + 1);
  memcpy(attempt->nonce, theirs.nonce, strlen(theirs.nonce) + 1);
  cleat__record_clear(&theirs);

  cleat__buffer_init(&text, CLEAT__RECORD_BYTES_MAX);
  cleat_status status = cleat__reuse_read_sources(upload, search->err);
  if (status == CLEAT_OK)
    status = cleat__record_encode(&upload->plan->record, &text, search->err);
  bool same = status == CLEAT_OK && text.length == found->size && memcmp(text.data, found->text, text.length) == 0;
  for (size_t i = 0; i < upload->plan->record.file_count && same && status == CLEAT_OK; i++)
    status = cleat__reuse_compare(upload, i, &same, search->err);
  cleat__buffer_clear(&text);
  if (same && status == CLEAT_OK) {
    cleat__attempt_set_origin(attempt, CLEAT__ATTEMPT_SEALED);
  } else {
    memcpy(attempt->id, id_before, sizeof id_before);
    memcpy(attempt->nonce, nonce_before, sizeof nonce_before);
  }
  return status;
}

/* Inspects one attempt. `key` is "<step>/<attempt>/". */
static cleat_status try_attempt(struct search *search, const char *key) {
  struct cleat__stock stock = {0};
  char id[sizeof search->attempt->id];
  struct cleat_error ignored;
  const char *found = strchr(key, '/') + 1;
  size_t length = strcspn(found, "/");
  if (length >= sizeof id || search->looked_at == ATTEMPTS_MAX ||
      cleat__name_check_id("attempt", found, length, &ignored) != CLEAT_OK)
    return CLEAT_OK;
  memcpy(id, found, length);
  id[length] = '\0';
  search->looked_at++;
  cleat_status status = cleat__stock_take(search->upload, id, &stock, search->err);
  /* If the step has a manifest, a complete attempt is the committed one, or has lost to it. In the second case its
   * owner may be removing it. */
  if (status == CLEAT_OK && stock.claim.kind == CLEAT__CLAIM_RECORD && !search->attempt->standing.exists)
    status = try_record(search, &stock.claim, id);
  if (status == CLEAT_OK && stock.claim.kind == CLEAT__CLAIM_OPEN &&
      (search->best.attempt[0] == '\0' || stock.bytes > search->best.bytes)) {
    cleat__stock_clear(&search->best);
    search->best = stock;
    return CLEAT_OK;
  }
  cleat__stock_clear(&stock);
  return status;
}

static cleat_status see_attempt(void *user, const struct cleat__list_entry *entry, struct cleat_error *err) {
  struct search *search = user;
  (void)err; /* the search has its own */
  return entry->is_prefix && search->attempt->origin != CLEAT__ATTEMPT_SEALED ? try_attempt(search, entry->key)
                                                                              : CLEAT_OK;
}

static cleat_status search_attempts(struct search *search) {
  struct cleat__save_upload *upload = search->upload;
  char prefix[CLEAT__STEP_FOLDER_MAX + 1];
  cleat__name_step_folder(upload->plan->step, prefix);
  memcpy(prefix + strlen(prefix), "/", 2);
  const struct cleat__listing attempts = {upload->operation->client->store, prefix, true, &upload->operation->cancel};
  return cleat__listing_each(&attempts, see_attempt, search, search->err);
}

/* ---- Making it ours --------------------------------------------------------------------------- */

/* Enters what was found in the save. */
static void adopt(struct cleat__save_upload *upload, struct cleat__attempt *attempt, struct cleat__stock *stock) {
  memcpy(attempt->id, stock->attempt, sizeof attempt->id);
  cleat__attempt_set_origin(attempt, CLEAT__ATTEMPT_ADOPTED);
  attempt->strays = stock->strays;
  attempt->stray_count = stock->stray_count;
  stock->strays = NULL;
  stock->stray_count = 0;
  for (size_t i = 0; i < stock->files; i++) {
    struct cleat__save_file *file = &upload->files[i];
    file->present = stock->present[i];
    if (file->multipart == NULL)
      continue;
    cleat__key_file(upload->plan->step, attempt->id, upload->plan->record.files[i].name, file->multipart->key);
    if (stock->uploads[i] != NULL)
      strncpy(file->multipart->id, stock->uploads[i], CLEAT__UPLOAD_ID_MAX);
  }
}

/* Called after our claim was refused. *again false: another process holds the claim and continues. *again true: its
 * owner has put its record, or has failed and closed it. Another search may find another attempt. */
static cleat_status look_again(const struct cleat__save_upload *upload, const struct cleat__stock *lost, bool *again,
                               struct cleat_error *err) {
  struct cleat__claim now = {0};
  char key[CLEAT__OBJECT_KEY_MAX];
  record_key(upload, lost->attempt, key);
  cleat_status status =
      cleat__claim_read(upload->operation->client, key, &now, cleat__call(&upload->operation->cancel, err));
  if (status == CLEAT_OK)
    *again = now.kind != CLEAT__CLAIM_OPEN;
  cleat__claim_clear(&now);
  return status;
}

/* Claims the best attempt of the search. *again: it is no longer available, but another search may find another one. */
static cleat_status take_best(struct cleat__save_upload *upload, struct cleat__attempt *attempt,
                              struct cleat__stock *best, bool *again, struct cleat_error *err) {
  struct cleat_error lost;
  cleat_status status = claim(upload, attempt, best->attempt, best->claim.etag, &lost);
  if (status == CLEAT_LOST) {
    status = look_again(upload, best, again, err);
    if (status == CLEAT_OK && !*again)
      *err = lost;
    return status == CLEAT_OK && !*again ? CLEAT_LOST : status;
  }
  if (status != CLEAT_OK) {
    *err = lost;
    return status;
  }
  adopt(upload, attempt, best);
  return best->blocked ? cleat__reuse_anew(upload, attempt, err) : CLEAT_OK;
}

static cleat_status begin_shared(struct cleat__save_upload *upload, struct cleat__attempt *attempt,
                                 struct cleat_error *err) {
  cleat_status status = CLEAT_OK;
  for (unsigned round = 0; attempt->reuse && attempt->origin != CLEAT__ATTEMPT_AFRESH && round < SEARCHES_MAX;
       round++) {
    struct search search = {.upload = upload, .attempt = attempt, .err = err};
    bool again = false;
    status = search_attempts(&search);
    if (status == CLEAT_OK && search.best.attempt[0] != '\0' && attempt->origin != CLEAT__ATTEMPT_SEALED)
      status = take_best(upload, attempt, &search.best, &again, err);
    cleat__stock_clear(&search.best);
    if (!again)
      break;
  }
  if (status != CLEAT_OK || attempt->origin == CLEAT__ATTEMPT_SEALED || attempt->origin == CLEAT__ATTEMPT_ADOPTED)
    return status;
  return claim(upload, attempt, attempt->id, NULL, err);
}

static bool has_uploads(const struct cleat__save_upload *upload) {
  for (size_t i = 0; i < upload->plan->record.file_count; i++) {
    if (upload->files[i].multipart != NULL)
      return true;
  }
  return false;
}

cleat_status cleat__reuse_refuse(const struct cleat_client *client, enum cleat__conditions found,
                                 struct cleat_error *err) {
  const char *why = "has no conditional writes";
  if (found == CLEAT__CONDITIONS_IGNORED)
    why = "ignores or refuses the conditions of puts (If-None-Match, If-Match)";
  else if (found == CLEAT__CONDITIONS_IGNORED_BY_UPLOADS)
    why = "honours the conditions of puts, but ignores If-None-Match when an upload is completed";
  cleat__error_set(err, CLEAT_UNSUPPORTED, "%s %s: a save cannot be resumed there", client->store->display, why);
  cleat__error_hint(err, "save without resume: all of it is sent again");
  return err->status;
}

/* A save without reuse also claims its attempt, so that others may continue it. It need not probe the conditions: a
 * process that continues it does that. */
cleat_status cleat__reuse_begin(struct cleat__save_upload *upload, struct cleat__attempt *attempt,
                                struct cleat_error *err) {
  char key[CLEAT__OBJECT_KEY_MAX];
  enum cleat__conditions found = CLEAT__CONDITIONS_UNTRIED;
  cleat_status status = CLEAT_OK;
  cleat__key_rank(attempt->step, attempt->id, attempt->rank, "trial", key);
  if (attempt->reuse)
    status = cleat__prove_conditions(upload->operation->client, key, has_uploads(upload), &found,
                                     cleat__call(&upload->operation->cancel, err));
  if (status != CLEAT_OK)
    return status;
  return cleat__conditions_suffice(found) ? begin_shared(upload, attempt, err)
                                          : cleat__reuse_refuse(upload->operation->client, found, err);
}

/* ---- Uploads ---------------------------------------------------------------------------------- */

/* Whether all parts belong to this file as it is cut now. */
static bool parts_fit(const struct cleat__save_upload *upload, const struct cleat__save_file *file,
                      const struct cleat__stored_part *parts, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (parts[i].number == 0 || parts[i].number > file->part_count ||
        parts[i].size != cleat__plan_part_bytes(upload->plan, (size_t)(file - upload->files), parts[i].number - 1))
      return false;
  }
  return true;
}

/* Adopts the upload and lists its parts. *fits false: it is unusable. */
static cleat_status upload_take(struct cleat__save_upload *upload, struct cleat__save_file *file, bool *fits,
                                struct cleat_error *err) {
  struct cleat__store *store = upload->operation->client->store;
  struct cleat__stored_part *parts = NULL;
  size_t count = 0;
  cleat_status status =
      cleat__store_multipart_adopt(store, file->multipart, cleat__call(&upload->operation->cancel, err));
  if (status == CLEAT_OK)
    status = cleat__store_multipart_list_parts(store, file->multipart, &parts, &count,
                                               cleat__call(&upload->operation->cancel, err));
  if (status == CLEAT_LOST || status == CLEAT_NOT_FOUND || status == CLEAT_UNSUPPORTED)
    return CLEAT_OK;
  if (status != CLEAT_OK)
    return status;
  *fits = parts_fit(upload, file, parts, count);
  file->have = cleat__calloc(file->part_count, sizeof *file->have);
  if (file->have == NULL)
    status = cleat__error_no_memory(err, "the parts of a file");
  for (size_t i = 0; i < count && *fits && status == CLEAT_OK; i++)
    file->have[parts[i].number - 1] = parts[i];
  cleat__free(parts);
  return status;
}

cleat_status cleat__reuse_upload(struct cleat__save_upload *upload, struct cleat__save_file *file, bool *adopted,
                                 struct cleat_error *err) {
  bool fits = false;
  cleat_status status = upload_take(upload, file, &fits, err);
  if (status != CLEAT_OK)
    return status;
  *adopted = fits;
  if (fits)
    return CLEAT_OK;
  status = cleat__store_multipart_abort(upload->operation->client->store, file->multipart,
                                        cleat__call(&upload->operation->cancel, err));
  file->multipart->id[0] = '\0';
  return status;
}
