/* doctor/parts.c: the checks of uploads in parts. One upload is completed and read back. The parts of another are
 * refused and listed, and that upload is aborted. See doctor.h. */
#include "storage/doctor/doctor.h"

#include "base/checksum.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>

static cleat_status put_part(struct cleat__doctor *doctor, const struct cleat__upload *upload, bool wrong_checksum,
                             struct cleat__stored_part *part, struct cleat_error *err) {
  uint64_t offset = (part->number - 1) * upload->part_bytes;
  uint64_t left = upload->size - offset;
  struct cleat__span span = {doctor->bytes + offset, (size_t)(left < upload->part_bytes ? left : upload->part_bytes)};
  part->size = span.length;
  part->crc32c = cleat__crc32c(0, span.base, span.length) ^ (wrong_checksum ? 1u : 0u);
  part->has_crc32c = true;
  part->wrong_checksum = wrong_checksum;
  return cleat__store_multipart_part(doctor->store, upload, cleat__spans(&span, 1), part,
                                     cleat__call(doctor->cancel, err));
}

/* Begins an upload in the entry `which`, where clean_up finds it. */
static cleat_status create(struct cleat__doctor *doctor, enum cleat__doctor_upload which, int object, uint64_t size,
                           uint64_t part_bytes, struct cleat_error *err) {
  struct cleat__upload upload = {.size = size, .part_bytes = part_bytes};
  snprintf(upload.key, sizeof upload.key, "%s", doctor->keys[object]);
  cleat_status status = cleat__store_multipart_create(doctor->store, &upload, NULL, cleat__call(doctor->cancel, err));
  if (status == CLEAT_OK) {
    doctor->uploads[which] = upload;
    doctor->upload_open[which] = true;
  }
  return status;
}

static cleat_status drop(struct cleat__doctor *doctor, enum cleat__doctor_upload which, struct cleat_error *err) {
  cleat_status status =
      cleat__store_multipart_abort(doctor->store, &doctor->uploads[which], cleat__call(doctor->cancel, err));
  doctor->upload_open[which] = status != CLEAT_OK;
  return status;
}

/* ---- an upload that is completed ---- */

/* Reads back pieces of the object. The first piece spans the end of the first part. */
static cleat_status compare(struct cleat__doctor *doctor, bool *same, struct cleat_error *err) {
  const struct cleat__upload *upload = &doctor->uploads[CLEAT__DOCTOR_COMPLETED];
  char across[1000];
  uint64_t offset = upload->part_bytes - sizeof across / 2;
  struct cleat__span span = {across, sizeof across};
  struct cleat__span all = {NULL, (size_t)upload->size};
  const char *key = upload->key;
  uint32_t crc = 0;
  cleat_status status =
      cleat__store_get(doctor->store, key, offset, cleat__spans(&span, 1), &crc, cleat__call(doctor->cancel, err));
  if (status == CLEAT_OK)
    status = cleat__store_get(doctor->store, key, 0, cleat__spans(&all, 1), &crc, cleat__call(doctor->cancel, err));
  *same = status == CLEAT_OK && memcmp(across, doctor->bytes + offset, sizeof across) == 0 &&
          crc == cleat__crc32c(0, doctor->bytes, all.length);
  return status;
}

static cleat_status upload_whole(struct cleat__doctor *doctor, struct cleat_error *err) {
  struct cleat__stored_part parts[2] = {{.number = 1}, {.number = 2}};
  /* A driver may allow parts that are smaller than the compared pieces. */
  const uint64_t least = CLEAT__DOCTOR_BYTES / 2, min = doctor->store->min_part_bytes;
  uint64_t part_bytes = min < least ? least : min;
  const struct cleat__upload *upload = &doctor->uploads[CLEAT__DOCTOR_COMPLETED];
  doctor->made[CLEAT__DOCTOR_IN_PARTS] = true;
  cleat_status status =
      create(doctor, CLEAT__DOCTOR_COMPLETED, CLEAT__DOCTOR_IN_PARTS, part_bytes + least, part_bytes, err);
  for (size_t i = 0; i < 2 && status == CLEAT_OK; i++)
    status = put_part(doctor, upload, false, &parts[i], err);
  if (status != CLEAT_OK)
    return status;
  status = cleat__store_multipart_complete(doctor->store, upload, parts, 2, cleat__call(doctor->cancel, err));
  doctor->upload_open[CLEAT__DOCTOR_COMPLETED] = status != CLEAT_OK;
  return status;
}

void cleat__doctor_multipart(struct cleat__doctor *doctor, struct cleat__doctor_check *check) {
  struct cleat_error err;
  bool same = false;
  cleat_status status = upload_whole(doctor, &err);
  if (status == CLEAT_OK)
    status = compare(doctor, &same, &err);
  if (status != CLEAT_OK)
    cleat__doctor_fail(check, &err);
  else if (!same)
    cleat__doctor_say(check, CLEAT_CHECK_FAILED, "GET returned other bytes than were stored in the parts");
  else
    cleat__doctor_say(check, CLEAT_CHECK_OK, "an object of two parts, %llu bytes",
                      (unsigned long long)doctor->uploads[CLEAT__DOCTOR_COMPLETED].size);
}

/* ---- an upload that must not replace an object ---- */

/* The upload stays open if its completion is refused. The cleanup aborts it. */
static cleat_status complete_over(struct cleat__doctor *doctor, struct cleat_error *err) {
  struct cleat__upload *upload = &doctor->uploads[CLEAT__DOCTOR_REFUSED];
  struct cleat__stored_part part = {.number = 1};
  cleat_status status =
      create(doctor, CLEAT__DOCTOR_REFUSED, CLEAT__DOCTOR_ONCE, CLEAT__DOCTOR_BYTES, CLEAT__DOCTOR_BYTES, err);
  upload->create_only = true;
  if (status == CLEAT_OK)
    status = put_part(doctor, upload, false, &part, err);
  if (status != CLEAT_OK)
    return status;
  status = cleat__store_multipart_complete(doctor->store, upload, &part, 1, cleat__call(doctor->cancel, err));
  doctor->upload_open[CLEAT__DOCTOR_REFUSED] = status != CLEAT_OK;
  return status;
}

/* A resume tests the same, see uploader/commit/prove.c. */
void cleat__doctor_create_only_parts(struct cleat__doctor *doctor, struct cleat__doctor_check *check) {
  struct cleat_error err;
  bool first = false;
  if ((doctor->store->capabilities & CLEAT__STORE_UNPROVEN) == 0) {
    cleat__doctor_say(check, CLEAT_CHECK_SKIPPED, "Cleat itself enforces it on this store");
    return;
  }
  cleat_status status = complete_over(doctor, &err);
  if (status == CLEAT_OK) {
    cleat__doctor_say(check, CLEAT_CHECK_IGNORED,
                      "the completion of an upload with If-None-Match: * replaced an object");
    return;
  }
  if (status == CLEAT_EXISTS)
    status = cleat__doctor_is_text(doctor, CLEAT__DOCTOR_ONCE, "first", &first, &err);
  if (status != CLEAT_OK)
    cleat__doctor_fail(check, &err);
  else if (!first)
    cleat__doctor_say(check, CLEAT_CHECK_FAILED, "the completion of an upload was refused, but it replaced an object");
  else if ((atomic_load(&doctor->store->lacks) & CLEAT__STORE_REFUSED_CREATE_ONLY) != 0)
    cleat__doctor_say(check, CLEAT_CHECK_MISSING,
                      "the store refuses If-None-Match when an upload is completed: Cleat checks "
                      "before it instead");
  else
    cleat__doctor_say(check, CLEAT_CHECK_OK, "the completion of an upload replaces no object");
}

/* ---- an upload that is aborted ---- */

/* Leaves the upload open with one complete part, which the next two checks need. */
void cleat__doctor_part_checksum(struct cleat__doctor *doctor, struct cleat__doctor_check *check) {
  const struct cleat__upload *upload = &doctor->uploads[CLEAT__DOCTOR_DROPPED];
  struct cleat__stored_part part = {.number = 1}, again = {.number = 1};
  const char *checksum = doctor->facts.checksum;
  struct cleat_error err, problem;
  cleat_status spoiled = CLEAT_OK;
  cleat_status status =
      create(doctor, CLEAT__DOCTOR_DROPPED, CLEAT__DOCTOR_UNFINISHED, CLEAT__DOCTOR_BYTES, CLEAT__DOCTOR_BYTES, &err);
  if (status == CLEAT_OK && checksum[0] != '\0')
    spoiled = put_part(doctor, upload, true, &part, &problem);
  if (status == CLEAT_OK)
    status = put_part(doctor, upload, false, &again, &err);
  if (status != CLEAT_OK)
    cleat__doctor_fail(check, &err);
  else if (checksum[0] == '\0')
    cleat__doctor_say(check, CLEAT_CHECK_SKIPPED, "checksums are switched off; bodies are signed");
  else if (spoiled == CLEAT_OK)
    cleat__doctor_say(check, CLEAT_CHECK_IGNORED, "a part with a wrong %s was stored", checksum);
  else if (cleat__doctor_is_refusal(spoiled, &problem))
    cleat__doctor_say(check, CLEAT_CHECK_OK, "a part with a wrong %s is refused", checksum);
  else
    cleat__doctor_fail(check, &problem);
  /* A store that accepts wrong checksums must not block the other checks. */
  if (check->info.result == CLEAT_CHECK_IGNORED)
    doctor->passed |= 1u << CLEAT__DOCTOR_PART_CHECKSUM;
}

void cleat__doctor_list_parts(struct cleat__doctor *doctor, struct cleat__doctor_check *check) {
  struct cleat__stored_part *parts = NULL;
  struct cleat_error err;
  size_t count = 0;
  cleat_status status = cleat__store_multipart_list_parts(doctor->store, &doctor->uploads[CLEAT__DOCTOR_DROPPED],
                                                          &parts, &count, cleat__call(doctor->cancel, &err));
  if (status != CLEAT_OK)
    cleat__doctor_fail(check, &err);
  else if (count != 1 || parts[0].number != 1 || parts[0].size != CLEAT__DOCTOR_BYTES)
    cleat__doctor_say(check, CLEAT_CHECK_FAILED, "%zu parts are listed, but one was stored", count);
  else
    cleat__doctor_say(check, CLEAT_CHECK_OK, "the parts of an open upload are listed%s",
                      parts[0].has_crc32c || parts[0].has_crc64nvme ? ", with checksums" : "");
  cleat__free(parts);
}

void cleat__doctor_abort(struct cleat__doctor *doctor, struct cleat__doctor_check *check) {
  struct cleat_error err;
  if (drop(doctor, CLEAT__DOCTOR_DROPPED, &err) != CLEAT_OK)
    cleat__doctor_fail(check, &err);
  else
    cleat__doctor_say(check, CLEAT_CHECK_OK, "an aborted upload is gone with its parts");
}

/* Begins an upload with the key of an existing object, sends a part as gc would find it, and aborts it. */
static cleat_status drop_beside(struct cleat__doctor *doctor, struct cleat_error *err) {
  struct cleat__stored_part part = {.number = 1};
  cleat_status status = cleat__doctor_put_text(doctor, CLEAT__DOCTOR_KEPT, "kept", CLEAT__PUT_ALWAYS, NULL, err);
  if (status == CLEAT_OK)
    status = create(doctor, CLEAT__DOCTOR_BESIDE, CLEAT__DOCTOR_KEPT, CLEAT__DOCTOR_BYTES, CLEAT__DOCTOR_BYTES, err);
  if (status == CLEAT_OK)
    status = put_part(doctor, &doctor->uploads[CLEAT__DOCTOR_BESIDE], false, &part, err);
  return status == CLEAT_OK ? drop(doctor, CLEAT__DOCTOR_BESIDE, err) : status;
}

void cleat__doctor_abort_keeps(struct cleat__doctor *doctor, struct cleat__doctor_check *check) {
  struct cleat_error err;
  bool same = false;
  cleat_status status = drop_beside(doctor, &err);
  bool dropped = status == CLEAT_OK;
  if (dropped)
    status = cleat__doctor_is_text(doctor, CLEAT__DOCTOR_KEPT, "kept", &same, &err);
  if (dropped && status == CLEAT_NOT_FOUND)
    cleat__doctor_say(check, CLEAT_CHECK_FAILED,
                      "when an upload is aborted, the object of the same key is removed too");
  else if (status != CLEAT_OK)
    cleat__doctor_fail(check, &err);
  else if (!same)
    cleat__doctor_say(check, CLEAT_CHECK_FAILED, "when an upload is aborted, the object of the same key changes");
  else
    cleat__doctor_say(check, CLEAT_CHECK_OK, "an object stays when an upload of its key is aborted");
}
