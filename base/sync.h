/* sync.h: makes the kernel write a file or a folder to the disk.
 *
 * After a failed sync it is unknown what is on the disk, and a second try may wrongly succeed. So a failure is final.
 * Thread-safe. */
#ifndef CLEAT_BASE_SYNC_H
#define CLEAT_BASE_SYNC_H

#include <stdbool.h>
#include <stdint.h>

/* Syncs bytes, size and times of a file. Returns 0 or an errno value. */
int cleat__sync_file(int fd);

/* Syncs the names in a folder. Returns 0 or an errno value. If the file system cannot sync folders, returns 0, because
 * nothing more can be done. */
int cleat__sync_folder(int fd);

/* Opens the folder at `path` and syncs it in the same way. */
int cleat__sync_folder_at(const char *path);

/* Whether a sync failed because the file system does not support it. */
bool cleat__sync_is_unsupported(int failure);

/* Starts to write a range to the disk without waiting, so that the later sync has little left to do. Returns 0 or an
 * errno value. If the file system does not support it, returns 0. */
int cleat__sync_begin(int fd, uint64_t offset, uint64_t bytes);

#endif
