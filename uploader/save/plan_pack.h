/* plan_pack.h: tensors from memory into shards, and tensors of all files into the record. Pure;
 * a part of plan.c. */
#ifndef CLEAT_UPLOADER_SAVE_PLAN_PACK_H
#define CLEAT_UPLOADER_SAVE_PLAN_PACK_H

#include "uploader/save/plan.h"

/* Tensors in the order in which they will lie: shard by shard, aligned inside each. Items borrow
 * the request's memory; the arrays are owned. */
struct cleat__packed {
  struct cleat__safetensors_item *items;
  const void **data;                 /* of each item */
  size_t *tensor;                    /* of each item: which of the request it is */
  const struct cleat_shard **shards; /* of each item: what part it is; NULL: the whole */
  size_t *shard_begin;               /* shard_count + 1 indexes into items */
  const char **shard_file;           /* names that the request chose; NULL where it chose none */
  size_t shard_count;
};

/* Checks every tensor of the request and leaves out those that another rank writes. Without chosen files, fills whole
 * shards in the order given, each up to shard_bytes (0: the default); a tensor that is larger has a shard of its
 * own. Else each file is a shard, in the order of their names. `alone`: there is no other rank. What is left out is
 * told in the record's replica sets. Errors: INVALID (names the tensor), NO_MEMORY. */
cleat_status cleat__pack_tensors(const struct cleat_save_request *request, bool alone,
                                 struct cleat__record *record, struct cleat__packed *packed,
                                 struct cleat_error *err);
void cleat__packed_clear(struct cleat__packed *packed);

/* Adds a tensor to the plan's record: whole, or the part of one that `shard` says, in file `file`, at `offset`. The
 * record's array has room. `disk_name`: the name of the file from disk that it was found in, or NULL. */
cleat_status cleat__plan_enter_tensor(struct cleat__plan *plan,
                                      const struct cleat__safetensors_item *item,
                                      const struct cleat_shard *shard, size_t file, uint64_t offset,
                                      const char *disk_name, struct cleat_error *err);

/* Two files from disk may hold tensors of one name (the parts of a diffusion pipeline do). Such are
 * known by "<file>:<tensor>", and so are all where there are other ranks, which may hold some of one name. The first
 * `memory_count` tensors of the record come from memory; two
 * of them with one name are INVALID. */
cleat_status cleat__plan_qualify_tensors(struct cleat__plan *plan, size_t memory_count,
                                         struct cleat_error *err);

#endif
