/* checkpoint.h: a committed checkpoint, opened: its manifest and rank records, read and checked.
 *
 * Read-only once it is open, so any number of threads may use it. It owns its documents and borrows the client. */
#ifndef CLEAT_UPLOADER_CATALOG_CHECKPOINT_H
#define CLEAT_UPLOADER_CATALOG_CHECKPOINT_H

#include "base/call.h"
#include "uploader/engine/client.h"
#include "uploader/model/manifest.h"

/* A file of any rank. */
struct cleat__checkpoint_file {
  struct cleat_file_info info;
  const struct cleat__file_entry *entry;
};

/* A piece, and the index of its file among all files of the checkpoint. */
struct cleat__located_piece {
  const struct cleat__piece *piece;
  size_t file;
};

struct cleat__checkpoint_tensor {
  struct cleat_tensor_info info;
  struct cleat__located_piece *pieces;
  size_t piece_count;
};

struct cleat_checkpoint {
  struct cleat_client *client;
  struct cleat__manifest manifest;
  struct cleat_checkpoint_info info;
  struct cleat_error damage;     /* target of info.damage, if steps were passed over */
  struct cleat__record *records; /* one for each rank */
  struct cleat__checkpoint_file *files;
  size_t file_count;
  struct cleat__checkpoint_tensor *tensors; /* sorted by name */
  size_t tensor_count;
  struct cleat__located_piece *pieces; /* of all tensors */
};

/* Opens `step`. Errors: NOT_FOUND (no manifest, or the step was removed meanwhile), INTEGRITY (a record is missing, or
 * is not the committed one), FORMAT, NEWER, NO_MEMORY, and the store's. */
cleat_status cleat__checkpoint_open(struct cleat_client *client, int64_t step, struct cleat_checkpoint **checkpoint,
                                    struct cleat_error *err);
/* How often a malformed document is read before that is an error. It may have been damaged in transit. */
#define CLEAT__CHECKPOINT_TRIES 3

/* Reads and checks the record of every rank that the manifest names. Errors: as cleat__checkpoint_open. */
cleat_status cleat__checkpoint_read_records(struct cleat_checkpoint *checkpoint, struct cleat_error *err);

/* Builds the files and tensors of the checkpoint from its manifest.world_size records. FORMAT: two ranks have the same
 * file, or disagree on a tensor. */
cleat_status cleat__checkpoint_view(struct cleat_checkpoint *checkpoint, struct cleat_error *err);

void cleat__checkpoint_free(struct cleat_checkpoint *checkpoint);

/* Checks, by a list, that every file is in the store with its size. Reads no file. INTEGRITY: one is not. NOT_FOUND:
 * the step was removed meanwhile. */
cleat_status cleat__checkpoint_check_present(const struct cleat_checkpoint *checkpoint, struct cleat_error *err);

/* Explains why an object that the manifest names is missing, as *err says. If the manifest is gone too, or is another
 * attempt's, the step was removed meanwhile: *err then says so, with NOT_FOUND. `doing`: what was being done, such as
 * "loaded". Returns err->status. */
cleat_status cleat__checkpoint_explain(struct cleat_client *client, const struct cleat__manifest *manifest,
                                       const char *doing, struct cleat_error *err);

/* Reads the record of `rank` that the manifest names, and checks it against the manifest. Errors: INTEGRITY (missing,
 * or another record), FORMAT, NEWER, NO_MEMORY, and the store's. Clear *record in any case. */
cleat_status cleat__checkpoint_read_record(struct cleat_client *client, const struct cleat__manifest *manifest,
                                           unsigned rank, struct cleat__record *record, struct cleat__call call);

/* NULL: no such tensor. */
const struct cleat__checkpoint_tensor *cleat__checkpoint_find(const struct cleat_checkpoint *checkpoint,
                                                              const char *name);

/* Fills *info from a manifest. The manifest keeps owning the texts. */
void cleat__checkpoint_describe(const struct cleat__manifest *manifest, struct cleat_checkpoint_info *info);

/* The topology of the job that saved the checkpoint, and how the client's differs from it; see topology.h. */
void cleat__checkpoint_topology(const struct cleat_checkpoint *checkpoint, struct cleat_topology *topology);
size_t cleat__checkpoint_differences(const struct cleat_checkpoint *checkpoint, char *text, size_t size);

/* Reads and checks the manifest of `step`. NOT_FOUND: there is none. */
cleat_status cleat__checkpoint_read_manifest(struct cleat_client *client, int64_t step,
                                             struct cleat__manifest *manifest, struct cleat__call call);

#endif
