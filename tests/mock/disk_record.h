/* disk_record.h: what a program did to the disk, in order: bytes written, names made, syncs, renames; and a judge of
 * whether a power cut could have left a name without its bytes. Also syncs and closes that fail.
 *
 * A program that is linked with this object (mk/tests.mk: DISK_BIN) carries wrappers of libc's calls. Any thread may
 * call those. The functions below are for one thread, while no other works on the disk. What libc does inside (stdio)
 * is seen by its syncs alone. */
#ifndef CLEAT_TESTS_MOCK_DISK_RECORD_H
#define CLEAT_TESTS_MOCK_DISK_RECORD_H

/* Forgets what was recorded, and records from now on. */
void disk_record(void);

/* Ends the test unless everything in the folder or file at `path`, and its name in its own folder, was put there in an
 * order that no power cut can harm: before a name took its place by a rename, the bytes behind it, and the names below
 * it, were synced; and every folder was synced after its names had last changed. Files that were not renamed since
 * disk_record() are none of its business. */
void disk_expect_durable(const char *path);

/* The syncs since disk_record() of the file or folder at `path`. */
unsigned disk_syncs_of(const char *path);

/* From now on syncs (closes) of files and folders whose path ends in `suffix` fail with this errno value; 0: they do
 * not. */
void disk_fail_syncs(const char *suffix, int failure);
void disk_fail_closes(const char *suffix, int failure);

#endif
