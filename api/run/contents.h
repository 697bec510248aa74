/* contents.h: the files of one checkpoint in DIR: their list, for a save, and a fingerprint that tells whether anything
 * of them has changed.
 *
 * Nothing is opened: names, sizes, times and inodes are read, which for 10,000 files takes milliseconds. Folders
 * are walked as `cleat save` walks them (api/program/sources.c): hidden files too, links to files are followed, links
 * to folders and what is no file are refused. One thread at a time. */
#ifndef CLEAT_API_RUN_CONTENTS_H
#define CLEAT_API_RUN_CONTENTS_H

#include "api/program/sources.h"
#include "api/run/layout.h"
#include "api/run/state.h"
#include "base/checksum.h"

/* Owns everything; the checkpoint that it was read from may go. */
struct cleat__run_contents {
  struct cleat_file *files; /* by name; names are relative to DIR */
  size_t file_count;        /* 0: the folders are there, and empty */
  uint64_t bytes;           /* of all files */
  /* SHA-256 over name, size, device, inode and time of writing of every file: the same whatever links to them come and
   * go. */
  uint8_t id[CLEAT__SHA256_BYTES];
  /* And over the time at which anything of the inode changed: a write that hides its time is seen too. */
  uint8_t fingerprint[CLEAT__SHA256_BYTES];
  struct cleat__cli_sources
      sources;   /* what the files' names and paths belong to, and what was left out */
  char *tracker; /* the one file that is stored from memory; NULL: none */
  char *tracker_text;
};

/* Lists what a checkpoint is made of. *contents is written on success only. Errors: NOT_FOUND (it is gone, or some of
 * it went meanwhile), INVALID (a link to a folder, a special file), LIMIT, DENIED, IO, NO_MEMORY. */
cleat_status cleat__run_contents_read(const char *dir, const struct cleat__run_found *found,
                                      struct cleat__run_contents *contents,
                                      struct cleat_error *err) CLEAT_MUST_USE;

/* The same of files that are listed already: takes `sources`, which is empty after. `found` is the checkpoint whose
 * tracker goes with them; NULL: none. */
cleat_status cleat__run_contents_of(struct cleat__cli_sources *sources,
                                    const struct cleat__run_found *found,
                                    struct cleat__run_contents *contents,
                                    struct cleat_error *err) CLEAT_MUST_USE;

/* Lists everything in DIR but Cleat's own folder and the checkpoints of `scan`, of which `keep` (NULL: none) is
 * listed too. What cannot be saved is left out and counted in contents->sources: a job's folder is full of links
 * such as "latest". A store at `url` (NULL: not known) inside DIR is INVALID. */
cleat_status cleat__run_contents_read_all(const char *dir, const char *url,
                                          const struct cleat__run_scan *scan,
                                          const struct cleat__run_found *keep,
                                          struct cleat__run_contents *contents,
                                          struct cleat_error *err) CLEAT_MUST_USE;

/* The same of the checkpoints that are there now, of which the one of step `keep` (-1: none) is listed. */
cleat_status cleat__run_contents_final(const char *dir, const struct cleat__run_layout *layout,
                                       const char *pattern, int64_t keep,
                                       struct cleat__run_contents *contents,
                                       struct cleat_error *err) CLEAT_MUST_USE;

void cleat__run_contents_clear(struct cleat__run_contents *contents);

#endif
