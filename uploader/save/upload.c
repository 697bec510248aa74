/* save/upload.c: chooses the next part or file, and updates the lists after each task. The pool's lock is held
 * throughout; it guards upload->synced. See upload.h. */
#include "uploader/save/upload.h"

#include <assert.h>

/* ---- Moves ------------------------------------------------------------------------------------ */

static bool file_may_move(enum cleat__save_file_state from, enum cleat__save_file_state to) {
  switch (to) {
  case CLEAT__SAVE_FILE_WAITING:
    return from != CLEAT__SAVE_FILE_GONE;
  case CLEAT__SAVE_FILE_OPENING:
    return from == CLEAT__SAVE_FILE_WAITING;
  case CLEAT__SAVE_FILE_OPEN:
    return from == CLEAT__SAVE_FILE_WAITING || from == CLEAT__SAVE_FILE_OPENING;
  case CLEAT__SAVE_FILE_CLOSING:
    return from == CLEAT__SAVE_FILE_OPEN;
  case CLEAT__SAVE_FILE_DONE:
    return from == CLEAT__SAVE_FILE_CLOSING || from == CLEAT__SAVE_FILE_WAITING;
  case CLEAT__SAVE_FILE_GONE:
    return from == CLEAT__SAVE_FILE_OPEN || from == CLEAT__SAVE_FILE_CLOSING || from == CLEAT__SAVE_FILE_DONE;
  }
  return false;
}

void cleat__save_file_move_locked(struct cleat__save_upload *upload, struct cleat__save_file *file,
                                  enum cleat__save_file_state to) {
  assert(cleat__pool_is_mine(upload->operation->client->pool));
  bool legal = file_may_move(file->state, to);
  (void)upload;
  assert(legal);
  (void)legal;
  file->state = to;
}

static bool snapshot_may_move(enum cleat__save_snapshot from, enum cleat__save_snapshot to) {
  if (to == CLEAT__SNAPSHOT_TAKING)
    return from == CLEAT__SNAPSHOT_WANTED;
  return from == CLEAT__SNAPSHOT_TAKING && (to == CLEAT__SNAPSHOT_TAKEN || to == CLEAT__SNAPSHOT_REFUSED);
}

void cleat__save_snapshot_move_locked(struct cleat__save_upload *upload, enum cleat__save_snapshot to) {
  assert(cleat__pool_is_mine(upload->operation->client->pool));
  bool legal = snapshot_may_move(upload->synced.snapshot, to);
  assert(legal);
  (void)legal;
  upload->synced.snapshot = to;
}

/* ---- Buffers ---------------------------------------------------------------------------------- */

static bool take_buffers_locked(struct cleat__save_upload *upload, struct cleat__save_part *part) {
  assert(cleat__pool_is_mine(upload->operation->client->pool));
  if (part->buffers_needed == 0)
    return true;
  uint64_t bytes = cleat__plan_part_bytes(upload->plan, part->file, part->index);
  part->holds = cleat__client_take_buffers_locked(upload->operation->client, &upload->operation->job, bytes,
                                                  part->buffers_needed, part->buffers);
  return part->holds;
}

void cleat__upload_give_buffers_locked(struct cleat__save_upload *upload, struct cleat__save_part *part) {
  assert(cleat__pool_is_mine(upload->operation->client->pool));
  if (!part->holds)
    return;
  part->holds = false;
  cleat__client_give_buffers_locked(upload->operation->client, part->buffers_needed, part->buffers);
}

/* ---- What is next ----------------------------------------------------------------------------- */

struct cleat__save_part *cleat__upload_next_to_stage_locked(struct cleat__save_upload *upload) {
  assert(cleat__pool_is_mine(upload->operation->client->pool));
  if (upload->mode != CLEAT__SAVE_STAGED)
    return NULL;
  if (upload->synced.snapshot == CLEAT__SNAPSHOT_WANTED || upload->synced.snapshot == CLEAT__SNAPSHOT_TAKING)
    return NULL;
  if (upload->synced.stage_next == upload->plan->total_parts)
    return NULL;
  struct cleat__save_part *part = &upload->parts[upload->synced.stage_next];
  if (!take_buffers_locked(upload, part))
    return NULL;
  upload->synced.stage_next++;
  return part;
}

struct cleat__save_file *cleat__upload_next_to_close_locked(struct cleat__save_upload *upload) {
  assert(cleat__pool_is_mine(upload->operation->client->pool));
  struct cleat__save_file *file = upload->synced.close_first;
  if (file != NULL)
    upload->synced.close_first = file->next;
  return file;
}

/* Uploads are opened only when needed: never more at once than the limit of transfers. */
struct cleat__save_file *cleat__upload_next_to_open_locked(struct cleat__save_upload *upload) {
  assert(cleat__pool_is_mine(upload->operation->client->pool));
  size_t files = upload->plan->record.file_count;
  while (upload->synced.open_next < files &&
         (upload->files[upload->synced.open_next].multipart == NULL ||
          upload->files[upload->synced.open_next].state != CLEAT__SAVE_FILE_WAITING)) {
    upload->synced.open_next++;
  }
  if (upload->synced.open_next == files ||
      upload->synced.open_multiparts >= upload->operation->client->synced.transfers[CLEAT__UP].limit)
    return NULL;
  struct cleat__save_file *file = &upload->files[upload->synced.open_next++];
  cleat__save_file_move_locked(upload, file, CLEAT__SAVE_FILE_OPENING);
  upload->synced.open_multiparts++;
  return file;
}

struct cleat__save_part *cleat__upload_next_to_send_locked(struct cleat__save_upload *upload) {
  assert(cleat__pool_is_mine(upload->operation->client->pool));
  struct cleat__save_part *part = upload->synced.ready_first;
  if (part == NULL || !cleat__client_may_transfer_locked(upload->operation->client, CLEAT__UP))
    return NULL;
  if (!part->holds && !take_buffers_locked(upload, part))
    return NULL;
  upload->synced.ready_first = part->next;
  if (part->next == NULL)
    upload->synced.ready_last = NULL;
  struct cleat__save_file *file = &upload->files[part->file];
  if (file->multipart == NULL && !file->present)
    cleat__save_file_move_locked(upload, file, CLEAT__SAVE_FILE_CLOSING);
  return part;
}

/* ---- What follows ----------------------------------------------------------------------------- */

static void make_ready_locked(struct cleat__save_upload *upload, struct cleat__save_part *part) {
  assert(cleat__pool_is_mine(upload->operation->client->pool));
  part->next = NULL;
  if (upload->synced.ready_last != NULL) {
    upload->synced.ready_last->next = part;
  } else {
    upload->synced.ready_first = part;
  }
  upload->synced.ready_last = part;
}

void cleat__upload_opened_locked(struct cleat__save_upload *upload, struct cleat__save_file *file) {
  assert(cleat__pool_is_mine(upload->operation->client->pool));
  cleat__save_file_move_locked(upload, file, CLEAT__SAVE_FILE_OPEN);
  for (size_t i = 0; i < file->part_count; i++) {
    struct cleat__save_part *part = &file->parts[i];
    if (upload->mode == CLEAT__SAVE_IN_PLACE || part->staged)
      make_ready_locked(upload, part);
  }
}

/* Counts a part whose source is no longer needed. */
static void count_staged_locked(struct cleat__save_upload *upload, const struct cleat__save_part *part) {
  assert(cleat__pool_is_mine(upload->operation->client->pool));
  upload->synced.parts_staged++;
  upload->synced.borrowing -= part->borrows;
  upload->synced.bytes_staged += cleat__plan_part_bytes(upload->plan, part->file, part->index);
}

void cleat__upload_staged_locked(struct cleat__save_upload *upload, struct cleat__save_part *part) {
  assert(cleat__pool_is_mine(upload->operation->client->pool));
  struct cleat__save_file *file = &upload->files[part->file];
  part->staged = true;
  if (!part->fed)
    count_staged_locked(upload, part);
  if (file->state == CLEAT__SAVE_FILE_OPEN)
    make_ready_locked(upload, part);
}

static void file_done_locked(struct cleat__save_upload *upload, struct cleat__save_file *file) {
  assert(cleat__pool_is_mine(upload->operation->client->pool));
  cleat__save_file_move_locked(upload, file, CLEAT__SAVE_FILE_DONE);
  upload->synced.files_done++;
  if (file->multipart != NULL && !file->present)
    upload->synced.open_multiparts--;
}

void cleat__upload_closed_locked(struct cleat__save_upload *upload, struct cleat__save_file *file) {
  assert(cleat__pool_is_mine(upload->operation->client->pool));
  if (file->present) {
    uint64_t bytes = upload->plan->record.files[file - upload->files].size;
    upload->synced.bytes_done += bytes;
    upload->synced.bytes_found += bytes;
  }
  file_done_locked(upload, file);
}

void cleat__upload_sent_locked(struct cleat__save_upload *upload, struct cleat__save_part *part, bool found) {
  assert(cleat__pool_is_mine(upload->operation->client->pool));
  struct cleat__save_file *file = &upload->files[part->file];
  uint64_t bytes = cleat__plan_part_bytes(upload->plan, part->file, part->index);
  if (!file->present)
    upload->synced.bytes_done += bytes;
  if (found)
    upload->synced.bytes_found += bytes;
  if (part->fed && part->staged)
    count_staged_locked(upload, part);
  if (++file->parts_done < file->part_count)
    return;
  if (file->multipart == NULL && !file->present) {
    file_done_locked(upload, file);
    return;
  }
  cleat__save_file_move_locked(upload, file, CLEAT__SAVE_FILE_CLOSING);
  file->next = upload->synced.close_first;
  upload->synced.close_first = file;
}

void cleat__upload_all_there_locked(struct cleat__save_upload *upload) {
  assert(cleat__pool_is_mine(upload->operation->client->pool));
  for (size_t i = 0; i < upload->plan->record.file_count; i++)
    cleat__save_file_move_locked(upload, &upload->files[i], CLEAT__SAVE_FILE_DONE);
  upload->synced.files_done = upload->plan->record.file_count;
  upload->synced.bytes_done = upload->synced.bytes_found = upload->plan->total_bytes;
}

void cleat__upload_rewind_locked(struct cleat__save_upload *upload) {
  assert(cleat__pool_is_mine(upload->operation->client->pool));
  for (size_t i = 0; i < upload->plan->record.file_count; i++) {
    cleat__save_file_move_locked(upload, &upload->files[i], CLEAT__SAVE_FILE_WAITING);
    upload->files[i].parts_done = 0;
  }
  upload->synced.ready_first = upload->synced.ready_last = NULL;
  upload->synced.close_first = NULL;
  upload->synced.open_next = upload->synced.open_multiparts = upload->synced.files_done = 0;
  upload->synced.bytes_done = upload->synced.bytes_found = 0;
}
