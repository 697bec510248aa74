/* checkpoint.h: a committed checkpoint, opened: manifest and rank records, read and checked.
 *
 * Read-only once open, so any number of threads may use it. Owns its documents; borrows the client. */
#ifndef CLEAT_UPLOADER_CATALOG_CHECKPOINT_H
#define CLEAT_UPLOADER_CATALOG_CHECKPOINT_H

#include "uploader/engine/client.h"
#include "uploader/model/manifest.h"

/* A file of any rank. */
struct cleat__checkpoint_file {
  struct cleat_file_info info;
  const struct cleat__file_entry *entry;
};

/* A piece, and its file among all files of the checkpoint. */
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
  struct cleat_error damage;     /* info.damage, where there is one */
  struct cleat__record *records; /* of each rank */
  struct cleat__checkpoint_file *files;
  size_t file_count;
  struct cleat__checkpoint_tensor *tensors; /* sorted by name */
  size_t tensor_count;
  struct cleat__located_piece *pieces; /* of all tensors */
};

/* Opens `step`. Errors: NOT_FOUND (no manifest, or it was removed meanwhile), INTEGRITY (a record that is missing, or
 * is not the one that was committed), FORMAT, NEWER, NO_MEMORY, and the store's. */
cleat_status cleat__checkpoint_open(struct cleat_client *client, int64_t step,
                                    struct cleat_checkpoint **checkpoint, struct cleat_error *err);
/* How often a document that makes no sense is read: it may have been damaged on its way. */
#define CLEAT__CHECKPOINT_TRIES 3

/* Reads the record of every rank that the manifest names, and checks it. Errors as cleat__checkpoint_open. */
cleat_status cleat__checkpoint_read_records(struct cleat_checkpoint *checkpoint,
                                            struct cleat_error *err);

/* Makes files and tensors of the records: manifest.world_size of them. FORMAT: two ranks hold one file, or disagree on
 * a tensor. */
cleat_status cleat__checkpoint_view(struct cleat_checkpoint *checkpoint, struct cleat_error *err);

void cleat__checkpoint_free(struct cleat_checkpoint *checkpoint);

/* INTEGRITY unless every file is in the store with its size; NOT_FOUND when the step was removed meanwhile. Lists;
 * reads no file. */
cleat_status cleat__checkpoint_check_present(const struct cleat_checkpoint *checkpoint,
                                             struct cleat_error *err);

/* Something that the manifest names is not there, as *err says. When neither is the manifest, or that of another
 * attempt stands in its place, the step was removed meanwhile: then *err says that, and NOT_FOUND. `doing`: "loaded".
 * Returns err->status. */
cleat_status cleat__checkpoint_explain(struct cleat_client *client,
                                       const struct cleat__manifest *manifest, const char *doing,
                                       struct cleat_error *err);

/* Reads the record of `rank` that the manifest names, and checks it against that. Errors: INTEGRITY (missing, or
 * another one), FORMAT, NEWER, NO_MEMORY, and the store's. Clear the record in any case. */
cleat_status cleat__checkpoint_read_record(struct cleat_client *client,
                                           const struct cleat__manifest *manifest, unsigned rank,
                                           const atomic_bool *cancel, struct cleat__record *record,
                                           struct cleat_error *err);

/* NULL: no such tensor. */
const struct cleat__checkpoint_tensor *
cleat__checkpoint_find(const struct cleat_checkpoint *checkpoint, const char *name);

/* What a manifest says of its checkpoint; texts stay the manifest's. */
void cleat__checkpoint_describe(const struct cleat__manifest *manifest,
                                struct cleat_checkpoint_info *info);

/* The topology of the job that saved it, and how the client's differs; see topology.h. */
void cleat__checkpoint_topology(const struct cleat_checkpoint *checkpoint,
                                struct cleat_topology *topology);
size_t cleat__checkpoint_differences(const struct cleat_checkpoint *checkpoint, char *text,
                                     size_t size);

/* Reads and checks the manifest of `step`; NOT_FOUND when there is none. */
cleat_status cleat__checkpoint_read_manifest(struct cleat_client *client, int64_t step,
                                             const atomic_bool *cancel,
                                             struct cleat__manifest *manifest,
                                             struct cleat_error *err);

#endif
