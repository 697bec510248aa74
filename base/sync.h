/* sync.h: has the kernel put on the disk what it holds of a file or a folder.
 *
 * After a failed sync nobody knows what is on the disk, and a second try may wrongly succeed: so a failure is final.
 * Thread-safe. */
#ifndef CLEAT_BASE_SYNC_H
#define CLEAT_BASE_SYNC_H

#include <stdbool.h>
#include <stdint.h>

/* Bytes, size and times of a file. 0 or an errno value. */
int cleat__sync_file(int fd);

/* The names in a folder. 0 or an errno value; a file system that cannot sync folders is no failure, as its names are as
 * safe as they get. */
int cleat__sync_folder(int fd);

/* The same of the folder at `path`, which is opened for it. */
int cleat__sync_folder_at(const char *path);

/* Whether a sync failed because this file system knows none. */
bool cleat__sync_is_unsupported(int failure);

/* Begins to write a range to the disk and waits for nothing, so that the later sync finds little left to do. 0 or an
 * errno value; a file system that cannot is no failure. */
int cleat__sync_begin(int fd, uint64_t offset, uint64_t bytes);

#endif
