/* plan_pack.h: packs tensors from memory into shards, and enters the tensors of all files in the record. Pure; a part
 * of plan.c. */
#ifndef CLEAT_UPLOADER_SAVE_PLAN_PACK_H
#define CLEAT_UPLOADER_SAVE_PLAN_PACK_H

#include "uploader/save/plan.h"

/* Tensors in the order of their bytes in the files: shard by shard, sorted by alignment within a shard. The items
 * borrow the request's memory. The arrays are owned. */
struct cleat__packed {
  struct cleat__safetensors_item *items;
  const void **data;                 /* data of each item */
  size_t *tensor;                    /* index in the request of each item */
  const struct cleat_shard **shards; /* the piece that each item is; NULL: a whole tensor */
  size_t *shard_begin;               /* shard_count + 1 indexes into items */
  const char **shard_file;           /* file names that the request chose; NULL where it chose none */
  size_t shard_count;
};

/* Checks every tensor of the request, and leaves out the replicas that another rank writes. Without chosen files, it
 * fills shards in the order given, each up to shard_bytes (0: the default). A larger tensor gets a shard of its own.
 * With chosen files, each file is a shard, in the order of the file names. `alone`: there is no other rank. The
 * record's replica sets name the replicas that were left out. Errors: INVALID (names the tensor), NO_MEMORY. */
cleat_status cleat__pack_tensors(const struct cleat_save_request *request, bool alone, struct cleat__record *record,
                                 struct cleat__packed *packed, struct cleat_error *err);
void cleat__packed_clear(struct cleat__packed *packed);

struct cleat__plan_place {
  size_t file;
  uint64_t offset; /* in the file */
};

/* Adds a tensor at `place` to the plan's record: a whole tensor, or the piece of one that `shard` describes. The
 * record's array must have room. `disk_name`: the file on disk that holds it, or NULL. */
cleat_status cleat__plan_enter_tensor(struct cleat__plan *plan, const struct cleat__safetensors_item *item,
                                      const struct cleat_shard *shard, struct cleat__plan_place place,
                                      const char *disk_name, struct cleat_error *err);

/* Two files from disk may hold tensors of the same name, as the parts of a diffusion pipeline do. Such tensors are
 * renamed to "<file>:<tensor>". With several ranks, all tensors from disk are renamed, because another rank may hold
 * the same name. The first `memory_count` tensors of the record come from memory. Two of them with the same name are
 * INVALID. */
cleat_status cleat__plan_qualify_tensors(struct cleat__plan *plan, size_t memory_count, struct cleat_error *err);

#endif
