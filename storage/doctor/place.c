/* doctor/place.c: the checks of the way to the store: credentials, connection, clock, access, addressing,
 * durability. See doctor.h. One request serves them all. */
#include "storage/doctor/doctor.h"

#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* S3 refuses requests whose time differs by more than 15 minutes. */
#define CLOCK_REFUSED_S 900
/* NTP keeps clocks within a second. A larger difference means that nobody sets the clock. */
#define CLOCK_WRONG_S 60

/* Sends the first request, for an absent object. */
static void contact(struct cleat__doctor *doctor) {
  struct cleat__store *store = doctor->store;
  const char *key = doctor->keys[CLEAT__DOCTOR_ABSENT];
  struct cleat__object object;
  int64_t begun = doctor->clock->monotonic_ms(doctor->clock->ctx);
  cleat__error_clear(&doctor->contact_error);
  if (store->ops->describe != NULL) {
    doctor->contact =
        cleat__store_describe(store, key, &doctor->facts, cleat__call(doctor->cancel, &doctor->contact_error));
  } else {
    snprintf(doctor->facts.place, sizeof doctor->facts.place, "%s", store->display);
    snprintf(doctor->facts.checksum, sizeof doctor->facts.checksum, "CRC-32C");
    doctor->contact = cleat__store_head(store, key, &object, cleat__call(doctor->cancel, &doctor->contact_error));
    if (doctor->contact == CLEAT_NOT_FOUND)
      doctor->contact = CLEAT_OK;
  }
  doctor->contact_ms = doctor->clock->monotonic_ms(doctor->clock->ctx) - begun;
}

void cleat__doctor_keys(struct cleat__doctor *doctor, struct cleat__doctor_check *check) {
  const struct cleat__store_facts *facts = &doctor->facts;
  char ends[64] = "they do not expire";
  char time[21];
  contact(doctor);
  if (!facts->needs_keys) {
    cleat__doctor_say(check, CLEAT_CHECK_SKIPPED,
                      facts->keys[0] != '\0' ? "none: requests are anonymous" : "none are needed");
    return;
  }
  if (facts->keys[0] == '\0') {
    cleat__doctor_fail(check, &doctor->contact_error);
    return;
  }
  if (facts->keys_end_s != 0) {
    cleat__time_rfc3339(facts->keys_end_s, time);
    snprintf(ends, sizeof ends, "they expire at %s", time);
  }
  cleat__doctor_say(check, CLEAT_CHECK_OK, "from %s; %s", facts->keys, ends);
}

/* Whether there was an answer. Other checks judge what it said. */
static bool is_answered(const struct cleat__doctor *doctor) {
  return doctor->contact == CLEAT_OK || doctor->contact_error.http_status != 0 ||
         (doctor->contact == CLEAT_NOT_FOUND || doctor->contact == CLEAT_DENIED);
}

void cleat__doctor_reach(struct cleat__doctor *doctor, struct cleat__doctor_check *check) {
  if (is_answered(doctor))
    cleat__doctor_say(check, CLEAT_CHECK_OK, "%s; the first answer took %lld ms", doctor->facts.place,
                      (long long)doctor->contact_ms);
  else
    cleat__doctor_fail(check, &doctor->contact_error);
}

void cleat__doctor_clock(struct cleat__doctor *doctor, struct cleat__doctor_check *check) {
  long long offset = doctor->facts.clock_offset_s;
  long long size = llabs(offset);
  if (!doctor->facts.has_clock) {
    cleat__doctor_say(check, CLEAT_CHECK_SKIPPED, "the store does not send its time");
    return;
  }
  if (size <= 1)
    cleat__doctor_say(check, CLEAT_CHECK_OK, "within a second of the store's clock");
  else
    cleat__doctor_say(check, size < CLOCK_WRONG_S ? CLEAT_CHECK_OK : CLEAT_CHECK_FAILED,
                      "the store's clock is %lld s %s of this machine's%s", size, offset > 0 ? "ahead" : "behind",
                      size > CLOCK_REFUSED_S ? ", beyond what S3 allows" : "");
  if (check->info.result == CLEAT_CHECK_FAILED)
    snprintf(check->hint, sizeof check->hint, "synchronize the clocks with NTP");
}

void cleat__doctor_access(struct cleat__doctor *doctor, struct cleat__doctor_check *check) {
  if (doctor->contact == CLEAT_OK) {
    cleat__doctor_say(check, CLEAT_CHECK_OK, "%s may be read, and an absent object is reported as absent",
                      doctor->store->display);
    return;
  }
  cleat__doctor_fail(check, &doctor->contact_error);
  /* S3 answers AccessDenied for an absent object if listing is not allowed. The other checks still run, because they
   * show what else is allowed. */
  if (strcmp(doctor->contact_error.s3_code, "AccessDenied") == 0) {
    doctor->passed |= 1u << CLEAT__DOCTOR_ACCESS;
    snprintf(check->hint, sizeof check->hint,
             "allow s3:GetObject on the objects and s3:ListBucket on the bucket: without the "
             "latter S3 answers 403 for an absent object");
  }
}

void cleat__doctor_addressing(struct cleat__doctor *doctor, struct cleat__doctor_check *check) {
  bool any = doctor->facts.addressing[0] != '\0';
  cleat__doctor_say(check, any ? CLEAT_CHECK_OK : CLEAT_CHECK_SKIPPED, "%s",
                    any ? doctor->facts.addressing : "there are no buckets");
}

void cleat__doctor_durable(struct cleat__doctor *doctor, struct cleat__doctor_check *check) {
  if (doctor->facts.needs_keys || doctor->facts.addressing[0] != '\0')
    cleat__doctor_say(check, CLEAT_CHECK_SKIPPED, "decided by the store");
  else if (doctor->facts.forgets)
    cleat__doctor_say(check, CLEAT_CHECK_IGNORED, "the folder is in memory");
  else
    cleat__doctor_say(check, CLEAT_CHECK_OK, "objects are synced to the file system");
}
