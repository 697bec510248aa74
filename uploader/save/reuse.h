/* reuse.h: reuses what an interrupted try to save a step left in the store. Users know this as "resume".
 *
 * "Resume" in uploader/README.md explains why the checkpoint is complete, whatever other processes do. The tasks of a
 * save call these functions, without a lock. LOOK runs before all others. Each of the others uses the file that belongs
 * to its task alone. */
#ifndef CLEAT_UPLOADER_SAVE_REUSE_H
#define CLEAT_UPLOADER_SAVE_REUSE_H

#include "base/call.h"
#include "uploader/commit/claim.h"
#include "uploader/commit/prove.h"
#include "uploader/save/upload.h"

/* For LOOK of a shared save. With attempt->reuse, it first probes whether the store honours the conditions that reuse
 * needs (UNSUPPORTED if not). Then it chooses the best attempt of an earlier try, if there is one. Unless only the
 * manifest is missing (SEALED), it claims the attempt. It enters in upload->files what is already there. Errors: LOST
 * (another process reuses it), those of the store. */
cleat_status cleat__reuse_begin(struct cleat__save_upload *upload, struct cleat__attempt *attempt,
                                struct cleat_error *err);

/* Returns UNSUPPORTED. The error names the conditions that the store lacks. CLEAT__CONDITIONS_UNTRIED: the driver has
 * no conditional writes. */
cleat_status cleat__reuse_refuse(const struct cleat_client *client, enum cleat__conditions found,
                                 struct cleat_error *err);

/* For OPEN of a file whose upload was found: adopts the upload and fills file->have. *adopted is false if the upload
 * was unusable; it was aborted, and the caller creates a new one. */
cleat_status cleat__reuse_upload(struct cleat__save_upload *upload, struct cleat__save_file *file, bool *adopted,
                                 struct cleat_error *err);

/* Whether the store has exactly this part. Compares its CRC-32C. If the store lists none, compares an ETag that is the
 * MD5 of the bytes. This is so on stores without encryption; elsewhere it never matches. Pure, except for the
 * digest. */
bool cleat__reuse_part_is_there(const struct cleat__stored_part *have, struct cleat__spans body, uint32_t crc32c);

/* The same for the bytes that `feed` reads. The feed is read only if the store lists no CRC-32C. Errors: those of the
 * feed. */
cleat_status cleat__reuse_feed_is_there(const struct cleat__stored_part *have, const struct cleat__feed *feed,
                                        uint32_t crc32c, bool *there, struct cleat__call call);

/* For CLOSE of a file whose object was found, after all its parts were read. *same: the object equals the file. */
cleat_status cleat__reuse_object(struct cleat__save_upload *upload, size_t file, bool *same, struct cleat_error *err);

/* An object already existed when ours was to be created. OK if it has the same bytes: nobody can replace it any more.
 * Otherwise LOST. */
cleat_status cleat__reuse_settle(struct cleat__save_upload *upload, size_t file, struct cleat_error *err);

/* Leaves an adopted attempt and names a new, empty one. Used when another process has written to the attempt, or when
 * it holds objects that cannot be used. It first closes the claim, so that nobody can commit the old attempt. Then it
 * removes everything in it. gc removes what could not be removed here. LOST: the claim is no longer ours, and nothing
 * was changed. No other task of the save may run. */
cleat_status cleat__reuse_anew(struct cleat__save_upload *upload, struct cleat__attempt *attempt,
                               struct cleat_error *err);

/* After the commit: removes what is in the attempt but not in its record. What cannot be removed only takes up
 * space. */
void cleat__reuse_tidy(struct cleat_client *client, const struct cleat__attempt *attempt);

/* ---- Between the files of this part ----------------------------------------------------------- */

/* Compares the object of the file with the checksums in the record: by the store's checksum, otherwise by reading the
 * object. *same is false if there is no object. */
cleat_status cleat__reuse_compare(struct cleat__save_upload *upload, size_t file, bool *same, struct cleat_error *err);

/* Reads all sources, and fills the checksums in the plan's record. */
cleat_status cleat__reuse_read_sources(struct cleat__save_upload *upload, struct cleat_error *err);

/* Contents of one attempt. Initialise with zero; free with cleat__stock_clear. */
struct cleat__stock {
  char attempt[17];
  struct cleat__claim claim;
  bool *present;  /* for each file: there is an object of its size */
  char **uploads; /* owned; for each file: the id of an unfinished upload, or NULL */
  size_t files;   /* length of `present` and `uploads` */
  struct cleat__stray *strays;
  size_t stray_count;
  size_t stray_capacity;
  bool blocked;   /* an object of another size has a key that the save needs */
  uint64_t bytes; /* bytes that may be reused, judged by size alone */
};

void cleat__stock_clear(struct cleat__stock *stock);

/* Lists what one attempt of the step holds. */
cleat_status cleat__stock_take(struct cleat__save_upload *upload, const char *attempt, struct cleat__stock *stock,
                               struct cleat_error *err);

#endif
