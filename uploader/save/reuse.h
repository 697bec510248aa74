/* reuse.h: reuses what an interrupted try at saving a step left in the store. To users this is "resume".
 *
 * Why the checkpoint is whole then, whoever else is at work: see "Resume" in
 * uploader/README.md. Called by the tasks of a save, with no lock held. LOOK comes before all others; the
 * rest touch the file that their task has to itself. */
#ifndef CLEAT_UPLOADER_SAVE_REUSE_H
#define CLEAT_UPLOADER_SAVE_REUSE_H

#include "uploader/commit/claim.h"
#include "uploader/commit/prove.h"
#include "uploader/save/upload.h"

/* For LOOK of a save that is shared: if it is to reuse, finds out whether the store heeds the conditions that this
 * rests on (UNSUPPORTED where it does not); then chooses the attempt (with attempt->reuse, one that was left behind, if
 * one is of use), makes it ours by a claim, and sets in upload->files what is there. Errors: LOST (another process
 * reuses it), those of the store. */
cleat_status cleat__reuse_begin(struct cleat__save_upload *upload, struct cleat__attempt *attempt,
                                struct cleat_error *err);

/* UNSUPPORTED, and which conditions of the store are missing; UNTRIED: its driver has none. */
cleat_status cleat__reuse_refuse(const struct cleat_client *client, enum cleat__conditions found,
                                 struct cleat_error *err);

/* For OPEN of a file whose upload was found: adopts it and fills file->have. *adopted false: it is of
 * no use and gone, and another is to be begun. */
cleat_status cleat__reuse_upload(struct cleat__save_upload *upload, struct cleat__save_file *file,
                                 bool *adopted, struct cleat_error *err);

/* Whether the store holds this very part: by its CRC-32C, or where the store tells none, by an ETag that is
 * the MD5 of the bytes (on unencrypted stores it is; elsewhere it never matches). Pure but for the digest. */
bool cleat__reuse_part_is_there(const struct cleat__stored_part *have,
                                const struct cleat__span *body, size_t count, uint32_t crc32c);

/* The same of what `feed` reads, which it does where the store tells no CRC-32C. Errors: those of the feed. */
cleat_status cleat__reuse_feed_is_there(const struct cleat__stored_part *have,
                                        const struct cleat__feed *feed, uint32_t crc32c,
                                        const atomic_bool *cancel, bool *there,
                                        struct cleat_error *err);

/* For CLOSE of a file whose object was found, when all its parts were read: *same whether it is the file. */
cleat_status cleat__reuse_object(struct cleat__save_upload *upload, size_t file, bool *same,
                                 struct cleat_error *err);

/* An object was there when ours was to be created: OK when it has the same bytes, since nobody can
 * replace it any more; else LOST. */
cleat_status cleat__reuse_settle(struct cleat__save_upload *upload, size_t file,
                                 struct cleat_error *err);

/* Leaves an attempt that was gone on with, and names a new one, in which nothing lies: for one that another process has
 * written to, or that holds what cannot be used. The claim is closed first, so that nobody can commit what was left,
 * and then all of it is removed; what cannot be removed is left for gc. LOST: the claim is not ours any more, and
 * nothing was touched. Nothing else of the save is under way. */
cleat_status cleat__reuse_anew(struct cleat__save_upload *upload, struct cleat__attempt *attempt,
                               struct cleat_error *err);

/* After the commit: removes what lies in the attempt and is not in its record. What cannot be removed costs room, no
 * more. */
void cleat__reuse_tidy(struct cleat_client *client, const struct cleat__attempt *attempt);

/* ---- Between the files of this part ----------------------------------------------------------- */

/* Whether the object of the file is there with the bytes whose checksums stand in the record: by the
 * store's checksum, else by reading it. */
cleat_status cleat__reuse_compare(struct cleat__save_upload *upload, size_t file, bool *same,
                                  struct cleat_error *err);

/* Reads all sources, and fills the checksums in the plan's record. */
cleat_status cleat__reuse_read_sources(struct cleat__save_upload *upload, struct cleat_error *err);

/* What lies in one attempt. Begin with all zero; cleat__stock_clear. */
struct cleat__stock {
  char attempt[17];
  struct cleat__claim claim;
  bool *present;  /* of each file: an object of its size */
  char **uploads; /* of each file: the id of an unfinished upload, or NULL; owned */
  size_t files;   /* of both */
  struct cleat__stray *strays;
  size_t stray_count;
  size_t stray_capacity;
  bool blocked;   /* an object that is not the file has a name that the save needs */
  uint64_t bytes; /* that may be of use, by their sizes alone */
};

void cleat__stock_clear(struct cleat__stock *stock);

/* Looks through one attempt of the step. */
cleat_status cleat__stock_take(struct cleat__save_upload *upload, const char *attempt,
                               struct cleat__stock *stock, struct cleat_error *err);

#endif
