/* doctor/objects.c: the checks of single objects: put, get, list, refusal of damaged ones, removal. See doctor.h. */
#include "storage/doctor/doctor.h"

#include "base/checksum.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>

/* Size of the range in the middle, and of the one beyond the end. */
#define RANGE_BYTES 1000u

static cleat_status put_bytes(struct cleat__doctor *doctor, int object, bool wrong_checksum, struct cleat_error *err) {
  struct cleat__span span = {doctor->bytes, CLEAT__DOCTOR_BYTES};
  struct cleat__put_options options = {.crc32c = cleat__crc32c(0, span.base, span.length) ^ (wrong_checksum ? 1u : 0u),
                                       .wrong_checksum = wrong_checksum};
  doctor->made[object] = true;
  return cleat__store_put(doctor->store, doctor->keys[object], cleat__spans(&span, 1), &options,
                          cleat__call(doctor->cancel, err));
}

void cleat__doctor_put(struct cleat__doctor *doctor, struct cleat__doctor_check *check) {
  struct cleat_error err;
  cleat_status status = put_bytes(doctor, CLEAT__DOCTOR_WHOLE, false, &err);
  if (status == CLEAT_OK)
    status = cleat__doctor_put_text(doctor, CLEAT__DOCTOR_NESTED, "nested", CLEAT__PUT_ALWAYS, NULL, &err);
  if (status == CLEAT_OK)
    cleat__doctor_say(check, CLEAT_CHECK_OK, "objects of %u and 6 bytes", CLEAT__DOCTOR_BYTES);
  else
    cleat__doctor_fail(check, &err);
}

void cleat__doctor_get(struct cleat__doctor *doctor, struct cleat__doctor_check *check) {
  const char *key = doctor->keys[CLEAT__DOCTOR_WHOLE];
  struct cleat__object seen = {0};
  struct cleat_error err;
  struct cleat__small small = {0};
  cleat_status status =
      cleat__store_get_small(doctor->store, key, 2u * CLEAT__DOCTOR_BYTES, &small, cleat__call(doctor->cancel, &err));
  if (status == CLEAT_OK)
    status = cleat__store_head(doctor->store, key, &seen, cleat__call(doctor->cancel, &err));
  if (status != CLEAT_OK)
    cleat__doctor_fail(check, &err);
  else if (small.size != CLEAT__DOCTOR_BYTES || memcmp(small.bytes, doctor->bytes, small.size) != 0)
    cleat__doctor_say(check, CLEAT_CHECK_FAILED, "%s: GET returned other bytes than were stored", key);
  else if (seen.size != small.size || strcmp(seen.etag, small.etag) != 0)
    cleat__doctor_say(check, CLEAT_CHECK_FAILED, "%s: HEAD and GET return different sizes or ETags", key);
  else
    cleat__doctor_say(check, CLEAT_CHECK_OK, "a stored object can be read at once");
  cleat__free(small.bytes);
}

/* ---- ranges ---- */

static cleat_status get_range(struct cleat__doctor *doctor, uint64_t offset, char *bytes, uint32_t *crc32c,
                              struct cleat_error *err) {
  struct cleat__span span = {bytes, RANGE_BYTES};
  return cleat__store_get(doctor->store, doctor->keys[CLEAT__DOCTOR_WHOLE], offset, cleat__spans(&span, 1), crc32c,
                          cleat__call(doctor->cancel, err));
}

void cleat__doctor_range(struct cleat__doctor *doctor, struct cleat__doctor_check *check) {
  const uint64_t middle = CLEAT__DOCTOR_BYTES / 3, near_end = CLEAT__DOCTOR_BYTES - 10;
  char bytes[RANGE_BYTES];
  struct cleat_error err;
  uint32_t crc = 0;
  if (get_range(doctor, middle, bytes, &crc, &err) != CLEAT_OK) {
    cleat__doctor_fail(check, &err);
    return;
  }
  if (memcmp(bytes, doctor->bytes + middle, sizeof bytes) != 0) {
    cleat__doctor_say(check, CLEAT_CHECK_FAILED, "GET returned other bytes than the requested range");
    return;
  }
  cleat_status across = get_range(doctor, near_end, bytes, &crc, &err);
  if (across == CLEAT_INTEGRITY)
    across = get_range(doctor, CLEAT__DOCTOR_BYTES, bytes, &crc, &err);
  if (across == CLEAT_INTEGRITY)
    cleat__doctor_say(check, CLEAT_CHECK_OK, "exactly the requested bytes; none beyond the end");
  else if (across == CLEAT_OK)
    cleat__doctor_say(check, CLEAT_CHECK_FAILED, "GET returned bytes beyond the end of the object");
  else
    cleat__doctor_fail(check, &err);
}

/* ---- lists ---- */

/* Searches the keys that begin with `prefix` for an object, or with `delimited` for a common prefix. */
static cleat_status find_listed(struct cleat__doctor *doctor, const char *prefix, bool delimited, const char *key,
                                bool *found, uint64_t *size, struct cleat_error *err) {
  struct cleat__list_page page = {0};
  *found = false;
  cleat_status status =
      cleat__store_list(doctor->store, prefix, delimited, NULL, &page, cleat__call(doctor->cancel, err));
  for (size_t i = 0; status == CLEAT_OK && i < page.count; i++) {
    if (strcmp(page.entries[i].key, key) != 0)
      continue;
    *found = true;
    *size = page.entries[i].size;
  }
  cleat__list_page_clear(&page);
  return status;
}

void cleat__doctor_list(struct cleat__doctor *doctor, struct cleat__doctor_check *check) {
  char folder[40], below[40];
  struct cleat_error err;
  uint64_t size = 0, ignored = 0;
  bool object = false, prefix = false;
  snprintf(folder, sizeof folder, "%s/", doctor->folder);
  snprintf(below, sizeof below, "%s/folder/", doctor->folder);
  cleat_status status = find_listed(doctor, folder, false, doctor->keys[CLEAT__DOCTOR_WHOLE], &object, &size, &err);
  if (status == CLEAT_OK)
    status = find_listed(doctor, folder, true, below, &prefix, &ignored, &err);
  if (status != CLEAT_OK)
    cleat__doctor_fail(check, &err);
  else if (!object)
    cleat__doctor_say(check, CLEAT_CHECK_FAILED, "an object that was just stored is not listed");
  else if (size != CLEAT__DOCTOR_BYTES)
    cleat__doctor_say(check, CLEAT_CHECK_FAILED, "an object is listed with %llu bytes instead of %u",
                      (unsigned long long)size, CLEAT__DOCTOR_BYTES);
  else if (!prefix)
    cleat__doctor_say(check, CLEAT_CHECK_FAILED, "folders are not listed (delimiter)");
  else
    cleat__doctor_say(check, CLEAT_CHECK_OK, "an object is listed as soon as it is stored");
}

/* ---- checksum ---- */

void cleat__doctor_checksum(struct cleat__doctor *doctor, struct cleat__doctor_check *check) {
  const char *checksum = doctor->facts.checksum;
  struct cleat_error err;
  if (checksum[0] == '\0') {
    cleat__doctor_say(check, CLEAT_CHECK_SKIPPED, "checksums are switched off; bodies are signed");
    return;
  }
  cleat_status status = put_bytes(doctor, CLEAT__DOCTOR_SPOILED, true, &err);
  if (status == CLEAT_OK)
    cleat__doctor_say(check, CLEAT_CHECK_IGNORED, "an object with a wrong %s was stored", checksum);
  else if (cleat__doctor_is_refusal(status, &err))
    cleat__doctor_say(check, CLEAT_CHECK_OK, "an object with a wrong %s is refused", checksum);
  else
    cleat__doctor_fail(check, &err);
}

/* ---- removal ---- */

void cleat__doctor_delete(struct cleat__doctor *doctor, struct cleat__doctor_check *check) {
  const char *key = doctor->keys[CLEAT__DOCTOR_WHOLE];
  struct cleat__object object;
  struct cleat_error err;
  bool listed = false;
  uint64_t size = 0;
  cleat_status status = cleat__store_remove(doctor->store, key, cleat__call(doctor->cancel, &err));
  if (status != CLEAT_OK) {
    cleat__doctor_fail(check, &err);
    return;
  }
  status = cleat__store_head(doctor->store, key, &object, cleat__call(doctor->cancel, &err));
  if (status == CLEAT_OK) {
    cleat__doctor_say(check, CLEAT_CHECK_IGNORED, "an object that was removed is still there");
    return;
  }
  doctor->made[CLEAT__DOCTOR_WHOLE] = false;
  if (status == CLEAT_NOT_FOUND)
    status = (doctor->passed & (1u << CLEAT__DOCTOR_LIST)) != 0
                 ? find_listed(doctor, key, false, key, &listed, &size, &err)
                 : CLEAT_OK;
  if (status != CLEAT_OK)
    cleat__doctor_fail(check, &err);
  else if (listed)
    cleat__doctor_say(check, CLEAT_CHECK_FAILED, "an object that was removed is still listed");
  else
    cleat__doctor_say(check, CLEAT_CHECK_OK, "an object is gone as soon as it is removed");
}
