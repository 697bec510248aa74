/* doctor/writers.c: the checks of what keeps two writers apart: create-only puts, one after the other and at the
 * same moment, and replacing by ETag. See doctor.h.
 *
 * Each round of the race has a second thread (base/pair.h), which ends before the round does. The two threads share
 * only the barrier and the doctor, which they only read. */
#include "storage/doctor/doctor.h"

#include "base/pair.h"

#include <stdio.h>
#include <string.h>

/* ---- one after the other ---- */

/* Called when the second put of a key succeeded: finds out what the object is now. */
static void judge_second(struct cleat__doctor *doctor, struct cleat__doctor_check *check) {
  struct cleat_error err;
  bool second = false;
  if (cleat__doctor_is_text(doctor, CLEAT__DOCTOR_ONCE, "second", &second, &err) != CLEAT_OK)
    cleat__doctor_fail(check, &err);
  else
    cleat__doctor_say(check, CLEAT_CHECK_IGNORED,
                      second ? "a second put with If-None-Match: * replaced the first"
                             : "a second put with If-None-Match: * was reported as a success");
}

void cleat__doctor_create_only(struct cleat__doctor *doctor, struct cleat__doctor_check *check) {
  struct cleat_error err;
  bool first = false;
  cleat_status status = cleat__doctor_put_text(doctor, CLEAT__DOCTOR_ONCE, "first", CLEAT__PUT_CREATE_ONLY, NULL, &err);
  if (status != CLEAT_OK) {
    cleat__doctor_fail(check, &err);
    return;
  }
  if ((atomic_load(&doctor->store->lacks) & CLEAT__STORE_NO_CREATE_ONLY) != 0) {
    cleat__doctor_say(check, CLEAT_CHECK_IGNORED,
                      "the store refuses If-None-Match: Cleat checks before each put instead");
    return;
  }
  status = cleat__doctor_put_text(doctor, CLEAT__DOCTOR_ONCE, "second", CLEAT__PUT_CREATE_ONLY, NULL, &err);
  if (status == CLEAT_OK) {
    judge_second(doctor, check);
    return;
  }
  if (status == CLEAT_EXISTS)
    status = cleat__doctor_is_text(doctor, CLEAT__DOCTOR_ONCE, "first", &first, &err);
  if (status != CLEAT_OK)
    cleat__doctor_fail(check, &err);
  else if (!first)
    cleat__doctor_say(check, CLEAT_CHECK_FAILED, "a refused put replaced the object");
  else
    cleat__doctor_say(check, CLEAT_CHECK_OK, "a second put is refused, and the first object stays");
}

/* ---- at the same moment ---- */

struct writer {
  struct cleat__doctor *doctor;
  int object;
  const char *text;
  cleat_status status;
  struct cleat_error err;
};

static void write_once(void *ctx) {
  struct writer *writer = ctx;
  writer->status =
      cleat__doctor_put_text(writer->doctor, writer->object, writer->text, CLEAT__PUT_CREATE_ONLY, NULL, &writer->err);
}

/* The number of the winner. -1 if there is not exactly one, or after another failure; *check then says which. */
static int find_winner(const struct writer writers[2], struct cleat__doctor_check *check) {
  unsigned won = 0;
  int winner = -1;
  for (int i = 0; i < 2; i++) {
    if (writers[i].status != CLEAT_OK && writers[i].status != CLEAT_EXISTS) {
      cleat__doctor_fail(check, &writers[i].err);
      return -1;
    }
    if (writers[i].status == CLEAT_OK) {
      won++;
      winner = i;
    }
  }
  if (won == 1)
    return winner;
  if (won == 0)
    cleat__doctor_say(check, CLEAT_CHECK_FAILED, "two concurrent writers were both refused");
  else
    cleat__doctor_say(check, CLEAT_CHECK_IGNORED, "two concurrent writers were both told that they created the object");
  return -1;
}

/* Runs one round. False: the race has ended, and *check says why. */
static bool race_once(struct cleat__doctor *doctor, int object, struct cleat__doctor_check *check) {
  struct writer writers[2] = {{.doctor = doctor, .object = object, .text = "writer 1"},
                              {.doctor = doctor, .object = object, .text = "writer 2"}};
  struct cleat_error err;
  bool same = false;
  doctor->made[object] = true;
  int failure = cleat__pair_run(write_once, &writers[0], &writers[1]);
  if (failure != 0) {
    cleat__error_errno(&err, failure, "the second writer cannot be started");
    cleat__doctor_fail(check, &err);
    return false;
  }
  int winner = find_winner(writers, check);
  if (winner < 0)
    return false;
  if (cleat__doctor_is_text(doctor, object, writers[winner].text, &same, &err) != CLEAT_OK)
    cleat__doctor_fail(check, &err);
  else if (!same)
    cleat__doctor_say(check, CLEAT_CHECK_FAILED, "of two concurrent writers, the refused one replaced the object");
  return check->info.result == CLEAT_CHECK_OK;
}

void cleat__doctor_race(struct cleat__doctor *doctor, struct cleat__doctor_check *check) {
  for (int i = 0; i < CLEAT__DOCTOR_ROUNDS; i++) {
    if (!race_once(doctor, CLEAT__DOCTOR_RACED + i, check))
      return;
  }
  cleat__doctor_say(check, CLEAT_CHECK_OK, "two concurrent writers: exactly one won in each of %d rounds",
                    CLEAT__DOCTOR_ROUNDS);
}

/* ---- replacing ---- */

static cleat_status switch_object(struct cleat__doctor *doctor, const char *text, const char *etag,
                                  struct cleat_error *err) {
  return cleat__doctor_put_text(doctor, CLEAT__DOCTOR_SWITCHED, text,
                                etag != NULL ? CLEAT__PUT_IF_MATCH : CLEAT__PUT_ALWAYS, etag, err);
}

void cleat__doctor_if_match(struct cleat__doctor *doctor, struct cleat__doctor_check *check) {
  struct cleat__object old;
  struct cleat_error err;
  bool kept = false;
  cleat_status status = switch_object(doctor, "old", NULL, &err);
  if (status == CLEAT_OK)
    status =
        cleat__store_head(doctor->store, doctor->keys[CLEAT__DOCTOR_SWITCHED], &old, cleat__call(doctor->cancel, &err));
  if (status == CLEAT_OK)
    status = switch_object(doctor, "new", old.etag, &err);
  if (status != CLEAT_OK) {
    cleat__doctor_fail(check, &err);
    return;
  }
  if ((atomic_load(&doctor->store->lacks) & CLEAT__STORE_NO_IF_MATCH) != 0) {
    cleat__doctor_say(check, CLEAT_CHECK_MISSING,
                      "the store refuses If-Match: Cleat checks before it replaces a step instead, "
                      "and refuses --resume");
    return;
  }
  status = switch_object(doctor, "late", old.etag, &err);
  if (status == CLEAT_LOST)
    status = cleat__doctor_is_text(doctor, CLEAT__DOCTOR_SWITCHED, "new", &kept, &err);
  if (status != CLEAT_OK)
    cleat__doctor_fail(check, &err);
  else if (kept)
    cleat__doctor_say(check, CLEAT_CHECK_OK, "only the object with the given ETag is replaced%s",
                      atomic_load(&doctor->store->other_etags)
                          ? "; the store accepts the ETag only in another form than it returns it"
                          : "");
  else
    cleat__doctor_say(check, CLEAT_CHECK_IGNORED, "If-Match with an old ETag replaced the object");
}
