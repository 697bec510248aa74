/* contents.h: the files of one checkpoint in DIR: their list, for a save, and a fingerprint that shows whether any of
 * them has changed.
 *
 * It opens no file. It reads names, sizes, times and inodes, which takes milliseconds for 10,000 files. It walks
 * folders as `cleat save` does (api/program/sources.c): hidden files are included, links to files are followed, and
 * links to folders and special files are refused. One thread at a time. */
#ifndef CLEAT_API_RUN_CONTENTS_H
#define CLEAT_API_RUN_CONTENTS_H

#include "api/program/sources.h"
#include "api/run/layout.h"
#include "api/run/state.h"
#include "base/checksum.h"

/* Owns everything. The checkpoint that it was read from may be freed. */
struct cleat__run_contents {
  struct cleat_file *files; /* sorted by name; names are relative to DIR */
  size_t file_count;        /* 0: the folders exist and are empty */
  uint64_t bytes;           /* of all files */
  /* SHA-256 over name, size, device, inode and modification time of every file. Adding or removing hard links does not
   * change it. */
  uint8_t id[CLEAT__SHA256_BYTES];
  /* The same, and also over the inode change time (ctime). So a write is noticed even if it resets the modification
   * time. */
  uint8_t fingerprint[CLEAT__SHA256_BYTES];
  /* owns the files' names and paths; also counts what was left out */
  struct cleat__cli_sources sources;
  char *tracker; /* the text of the one file that is stored from memory; NULL: none */
  char *tracker_text;
};

/* Lists the files of a checkpoint. *contents is written on success only. Errors: NOT_FOUND (all or part of it has
 * disappeared), INVALID (a link to a folder, a special file), LIMIT, DENIED, IO, NO_MEMORY. */
cleat_status cleat__run_contents_read(const char *dir, const struct cleat__run_found *found,
                                      struct cleat__run_contents *contents, struct cleat_error *err) CLEAT_MUST_USE;

/* The same for files that are already listed. Takes `sources`, which is empty afterwards. `found` is the checkpoint
 * whose tracker is added; NULL: none. */
cleat_status cleat__run_contents_of(struct cleat__cli_sources *sources, const struct cleat__run_found *found,
                                    struct cleat__run_contents *contents, struct cleat_error *err) CLEAT_MUST_USE;

/* Lists everything in DIR except Cleat's own folder and the checkpoints of `scan`. Of those, `keep` is listed too
 * (NULL: none). What cannot be saved is left out and counted in contents->sources: a job's folder often has links such
 * as "latest". A store at `url` (NULL: unknown) inside DIR gives INVALID. */
cleat_status cleat__run_contents_read_all(const char *dir, const char *url, const struct cleat__run_scan *scan,
                                          const struct cleat__run_found *keep, struct cleat__run_contents *contents,
                                          struct cleat_error *err) CLEAT_MUST_USE;

/* The same with a fresh scan for checkpoints. The one of step `keep` (-1: none) is listed. */
cleat_status cleat__run_contents_final(const char *dir, const struct cleat__run_layout *layout, const char *pattern,
                                       int64_t keep, struct cleat__run_contents *contents,
                                       struct cleat_error *err) CLEAT_MUST_USE;

void cleat__run_contents_clear(struct cleat__run_contents *contents);

#endif
