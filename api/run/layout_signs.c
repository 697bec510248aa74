/* layout_signs.c: the signs inside a checkpoint by which tools show that it is complete. It only reads, and reads
 * little. A file that cannot be read counts as missing. A sign that is still being written counts as there; others
 * check that the checkpoint has settled. */
#include "api/run/layout_recipe.h"

#include "base/json_reader.h"
#include "base/mem.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Limits. The tools' own names and texts are shorter. */
enum { PATH_BYTES = 512, TEXT_BYTES = 4096, RANKS_MAX = 1 << 16, ORBAX_BYTES = 1 << 20, ORBAX_DEPTH = 32 };

bool cleat__run_sign_is_file(int dir, const char *path) {
  struct stat info;
  return fstatat(dir, path, &info, 0) == 0 && S_ISREG(info.st_mode);
}

bool cleat__run_sign_is_file_in(int dir, const char *folder, const char *name) {
  char path[PATH_BYTES];
  int length = snprintf(path, sizeof path, "%s/%s", folder, name);
  return length > 0 && (size_t)length < sizeof path && cleat__run_sign_is_file(dir, path);
}

bool cleat__run_sign_exists_in(int dir, const char *folder, const char *name) {
  char path[PATH_BYTES];
  struct stat info;
  int length = snprintf(path, sizeof path, "%s/%s", folder, name);
  return length > 0 && (size_t)length < sizeof path && fstatat(dir, path, &info, 0) == 0;
}

/* O_NONBLOCK: a pipe of that name must not block. */
static int open_file(int dir, const char *path) {
  struct stat info;
  int fd = openat(dir, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd >= 0 && (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode))) {
    close(fd);
    return -1;
  }
  return fd;
}

size_t cleat__run_sign_read(int dir, const char *path, void *bytes, size_t size) {
  int fd = open_file(dir, path);
  if (fd < 0)
    return 0;
  ssize_t length = read(fd, bytes, size);
  close(fd);
  return length > 0 ? (size_t)length : 0;
}

/* True if the JSON document has its end. A file that is written in place can be seen half written. */
static bool has_json(int dir, const char *folder, const char *name) {
  char path[PATH_BYTES], tail[16];
  struct stat info;
  ssize_t length = -1;
  if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
    return false;
  int fd = open_file(dir, path);
  if (fd < 0)
    return false;
  if (fstat(fd, &info) == 0) {
    off_t begin = info.st_size > (off_t)sizeof tail ? info.st_size - (off_t)sizeof tail : 0;
    length = pread(fd, tail, sizeof tail, begin);
  }
  close(fd);
  while (length > 0 && strchr(" \r\n", tail[length - 1]) && tail[length - 1])
    length--;
  return length > 0 && tail[length - 1] == '}';
}

/* The marker of both "x.ckpt" and "x" is "x-unfinished". */
bool cleat__run_is_unfinished(int dir, const char *path) {
  size_t length = strlen(path);
  if (length > 5 && strcmp(path + length - 5, ".ckpt") == 0)
    length -= 5;
  char *marker = cleat__strprintf("%.*s" CLEAT__RUN_UNFINISHED, (int)length, path);
  bool unfinished = !marker || cleat__run_sign_is_file(dir, marker);
  cleat__free(marker);
  return unfinished;
}

/* ---- claims, for "auto" ---------------------------------------------------------------------- */

bool cleat__run_claims_cleat(const struct cleat__run_scan_context *context, const char *name) {
  return cleat__run_sign_is_file_in(context->dir, name, "manifest.json");
}

static bool has_dcp_sign(int dir, const char *folder) {
  return cleat__run_sign_is_file_in(dir, folder, ".metadata") || has_json(dir, folder, "model.safetensors.index.json");
}

bool cleat__run_claims_dcp(const struct cleat__run_scan_context *context, const char *name) {
  return has_dcp_sign(context->dir, name);
}

bool cleat__run_claims_torchtune(const struct cleat__run_scan_context *context, const char *name) {
  return strncmp(name, "epoch_", 6) == 0 || cleat__run_sign_is_file_in(context->dir, name, "recipe_state.pt");
}

/* ---- signs ------------------------------------------------------------------------------------ */

cleat_status cleat__run_inspect_cleat(const struct cleat__run_scan_context *context, struct cleat__run_found *found,
                                      struct cleat_error *err) {
  (void)err;
  found->has_sign = true;
  found->whole = cleat__run_sign_is_file_in(context->dir, found->path, "manifest.json");
  return CLEAT_OK;
}

cleat_status cleat__run_inspect_dcp(const struct cleat__run_scan_context *context, struct cleat__run_found *found,
                                    struct cleat_error *err) {
  (void)err;
  found->has_sign = true;
  found->whole = has_dcp_sign(context->dir, found->path);
  return CLEAT_OK;
}

/* In many scripts Accelerate's save_state writes folders of the same name, without this sign. */
cleat_status cleat__run_inspect_huggingface(const struct cleat__run_scan_context *context,
                                            struct cleat__run_found *found, struct cleat_error *err) {
  (void)err;
  found->whole = has_json(context->dir, found->path, "trainer_state.json");
  found->has_sign = found->whole || !cleat__run_sign_is_file_in(context->dir, found->path, "random_states_0.pkl");
  /* Several ranks write rng_state_R.pth each. A single rank writes this file. Then nobody writes beside the sign. */
  if (cleat__run_sign_is_file_in(context->dir, found->path, "rng_state.pth"))
    found->settle_ms = CLEAT__RUN_SETTLE_MS;
  return CLEAT_OK;
}

enum cleat__run_archive cleat__run_sign_archive(int dir, const char *path) {
  static const char begin[4] = "PK\3\4", end[4] = "PK\5\6";
  enum { END_BYTES = 22 };
  enum cleat__run_archive archive = CLEAT__RUN_ARCHIVE_CUT;
  char bytes[END_BYTES];
  struct stat info;
  int fd = open_file(dir, path);
  if (fd < 0)
    return archive;
  ssize_t length = pread(fd, bytes, sizeof begin, 0);
  /* torch.save's older format, or not written by torch */
  if (length == (ssize_t)sizeof begin && memcmp(bytes, begin, sizeof begin) != 0)
    archive = CLEAT__RUN_NO_ARCHIVE;
  else if (fstat(fd, &info) == 0 && info.st_size > END_BYTES &&
           pread(fd, bytes, END_BYTES, info.st_size - END_BYTES) == END_BYTES && memcmp(bytes, end, sizeof end) == 0)
    archive = CLEAT__RUN_ARCHIVE_WHOLE;
  close(fd);
  return archive;
}

/* Inspects a checkpoint that is one file. False: it is not a file. */
static bool inspect_file(const struct cleat__run_scan_context *context, struct cleat__run_found *found) {
  struct stat info;
  if (fstatat(context->dir, found->path, &info, 0) != 0 || !S_ISREG(info.st_mode))
    return false;
  enum cleat__run_archive archive = cleat__run_sign_archive(context->dir, found->path);
  found->has_sign = archive != CLEAT__RUN_NO_ARCHIVE;
  found->whole = archive == CLEAT__RUN_ARCHIVE_WHOLE;
  return true;
}

/* A folder comes from a strategy that saves shards. FSDP and ModelParallel write DCP's format, and then meta.pt. */
cleat_status cleat__run_inspect_lightning(const struct cleat__run_scan_context *context, struct cleat__run_found *found,
                                          struct cleat_error *err) {
  (void)err;
  if (inspect_file(context, found)) {
    found->whole = found->whole && !cleat__run_is_unfinished(context->dir, found->path);
    return CLEAT_OK;
  }
  bool metadata = cleat__run_sign_is_file_in(context->dir, found->path, ".metadata");
  bool meta = cleat__run_sign_is_file_in(context->dir, found->path, "meta.pt");
  found->has_sign = metadata || meta || cleat__run_sign_is_file_in(context->dir, found->path, "__0_0.distcp");
  found->whole = metadata && meta;
  return CLEAT_OK;
}

/* Reads how many ranks write their own state, from the header of the first state. 0: not a file of llm.c. */
static size_t read_rank_count(int dir, const char *state) {
  int32_t header[3];
  if (cleat__run_sign_read(dir, state, header, sizeof header) != sizeof header || header[0] != 20240527 ||
      header[2] < 0)
    return 0;
  return (size_t)header[2];
}

/* DONE alone is not enough: when a checkpoint is deleted, DONE also goes last, after a model and states. */
cleat_status cleat__run_inspect_llmc(const struct cleat__run_scan_context *context, struct cleat__run_found *found,
                                     struct cleat_error *err) {
  (void)err;
  bool done = false, model = false;
  size_t states = 0;
  const char *first = NULL;
  for (size_t i = 0; i < found->entry_count; i++) {
    const char *name = found->entries[i];
    done |= strncmp(name, "DONE_", 5) == 0;
    model |= strncmp(name, "model_", 6) == 0;
    if (strncmp(name, "state_", 6) == 0 && states++ == 0)
      first = name;
  }
  found->has_sign = true;
  found->whole = done && model && first && states >= read_rank_count(context->dir, first);
  return CLEAT_OK;
}

/* Reads the number after "key": in InfiniTrain's text, which is not JSON because it lacks a comma. */
static int64_t read_field(const char *text, const char *key) {
  const char *at = strstr(text, key);
  at = at ? strchr(at, ':') : NULL;
  long long value = at ? strtoll(at + 1, NULL, 10) : 1;
  return value >= 1 && value <= RANKS_MAX ? value : 1;
}

/* The number of ranks that save a part each. 0: not written yet. */
static int64_t read_world(int dir, const char *folder, const char *name) {
  char path[PATH_BYTES], text[TEXT_BYTES];
  if (!has_json(dir, folder, name))
    return 0;
  snprintf(path, sizeof path, "%s/%s", folder, name);
  text[cleat__run_sign_read(dir, path, text, sizeof text - 1)] = '\0';
  static const char *const sizes[] = {"\"ddp_size\"", "\"tp_size\"", "\"cp_size\"", "\"pp_size\""};
  int64_t world = 1;
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes && world <= RANKS_MAX; i++)
    world *= read_field(text, sizes[i]);
  return world;
}

static bool rank_exists(int dir, const char *folder, int64_t rank) {
  char name[64];
  snprintf(name, sizeof name, "rank_%06" PRId64, rank);
  return cleat__run_sign_exists_in(dir, folder, name);
}

static bool rank_is_done(int dir, const char *folder, int64_t rank) {
  char name[64];
  snprintf(name, sizeof name, "rank_%06" PRId64 "/trainer_state.json", rank);
  return has_json(dir, folder, name);
}

/* The ranks write in parallel, and none waits for all others. So the checkpoint is complete when every rank has a
 * trainer_state.json. */
cleat_status cleat__run_inspect_infinitrain(const struct cleat__run_scan_context *context,
                                            struct cleat__run_found *found, struct cleat_error *err) {
  (void)err;
  bool ranks = rank_exists(context->dir, found->path, 0);
  int64_t world =
      read_world(context->dir, found->path, ranks ? "rank_000000/trainer_state.json" : "trainer_state.json");
  found->has_sign = true;
  found->whole = world > 0;
  if (!ranks || !found->whole)
    return CLEAT_OK;
  /* There are more ranks than the sizes say: a kind of parallelism that this recipe does not know. */
  found->has_sign = world <= RANKS_MAX && !rank_exists(context->dir, found->path, world);
  found->whole = found->has_sign;
  for (int64_t rank = 1; rank < world && found->whole; rank++)
    found->whole = rank_is_done(context->dir, found->path, rank);
  return CLEAT_OK;
}

/* Each machine writes into the same folder under a temporary name, which is then renamed. Where renaming is not atomic,
 * the last file that is written is the sign. Until then the checkpoint's own metadata file has no commit time. */
static bool has_commit_time(int dir, const char *folder) {
  static const char *const fields[] = {"commit_timestamp_nsecs"};
  static const char name[] = "_CHECKPOINT_METADATA";
  char path[PATH_BYTES];
  struct cleat__json_reader reader;
  struct cleat_error ignored;
  uint32_t seen = 0;
  uint64_t time = 0;
  unsigned which;
  char *text = cleat__alloc(ORBAX_BYTES);
  size_t size = 0;
  if (text && snprintf(path, sizeof path, "%s/%s", folder, name) < (int)sizeof path)
    size = cleat__run_sign_read(dir, path, text, ORBAX_BYTES);
  cleat__json_reader_init(&reader, text, size, ORBAX_DEPTH, name, &ignored);
  cleat__json_object(&reader);
  while (cleat__json_field(&reader, fields, 1, &seen, &which))
    cleat__json_uint(&reader, &time);
  bool whole = cleat__json_end(&reader) && time > 0;
  cleat__json_reader_clear(&reader);
  cleat__free(text);
  return whole;
}

bool cleat__run_claims_orbax(const struct cleat__run_scan_context *context, const char *name) {
  return cleat__run_sign_is_file_in(context->dir, name, "_CHECKPOINT_METADATA");
}

cleat_status cleat__run_inspect_orbax(const struct cleat__run_scan_context *context, struct cleat__run_found *found,
                                      struct cleat_error *err) {
  (void)err;
  found->has_sign = true;
  found->whole = cleat__run_sign_is_file_in(context->dir, found->path, "commit_success.txt") ||
                 has_commit_time(context->dir, found->path);
  return CLEAT_OK;
}

/* Rank 0's random states are always written. The names of all other files vary. */
bool cleat__run_claims_accelerate(const struct cleat__run_scan_context *context, const char *name) {
  return cleat__run_sign_is_file_in(context->dir, name, "random_states_0.pkl");
}

cleat_status cleat__run_inspect_composer(const struct cleat__run_scan_context *context, struct cleat__run_found *found,
                                         struct cleat_error *err) {
  (void)err;
  if (inspect_file(context, found))
    return CLEAT_OK;
  found->has_sign = true;
  found->whole = cleat__run_sign_is_file_in(context->dir, found->path, ".metadata");
  return CLEAT_OK;
}
