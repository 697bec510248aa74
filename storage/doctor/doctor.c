/* doctor.c: the table of checks, their order, and the cleanup. See doctor.h.
 *
 * One thread. The doctor lives on the stack of that thread, and owns only its pattern of bytes. */
#include "storage/doctor/doctor.h"

#include "base/checksum.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>

#define BIT(name) (1u << CLEAT__DOCTOR_##name)
/* Sets of results, for the column `blocks`. */
#define FAILED (1u << CLEAT_CHECK_FAILED)
#define MISSING (1u << CLEAT_CHECK_MISSING)
#define IGNORED (1u << CLEAT_CHECK_IGNORED)
#define ANY (FAILED | MISSING | IGNORED)

/* Texts that are used both in ROWS and in UNADVISED. */
#define BY_TOKENS                                                                              \
  "only the tokens in their manifests, which a save reads back, tell two writers of one step " \
  "apart"
#define NOT_RESUMED "a save cannot be resumed there, and all of it is sent again"
#define BY_TOKENS_UNRESUMED BY_TOKENS "; " NOT_RESUMED
#define BOTH_BELIEVE "of two jobs that save the same step at the same moment, both may believe they committed it"
#define BOTH_BELIEVE_UNRESUMED BOTH_BELIEVE "; " NOT_RESUMED
#define NO_SWITCH                                                                        \
  "replacing a step (--if-exists replace) and resuming a crashed save (--resume) fail, " \
  "or may overwrite what another job saves meanwhile"

static cleat__doctor_fn clean_up;

struct row {
  const char *name;
  cleat__doctor_fn *run;
  unsigned needs;  /* checks that must have passed before */
  unsigned blocks; /* results that mean that no save is safe */
  const char *meaning;
};

/* In the order of enum cleat__doctor_name. */
static const struct row ROWS[CLEAT__DOCTOR_CHECKS] = {
    {"keys", cleat__doctor_keys, 0, ANY, "without keys no request can be signed: nothing is saved"},
    {"reach", cleat__doctor_reach, BIT(KEYS), ANY, "nothing can be saved or loaded from here"},
    {"clock", cleat__doctor_clock, BIT(REACH), 0,
     "saves work, because requests are signed with the store's clock; times that checkpoints show "
     "are wrong, and other programs may fail"},
    {"access", cleat__doctor_access, BIT(REACH), ANY,
     "a save first checks whether the step exists, and the store must report an absent object as "
     "absent"},
    {"addressing", cleat__doctor_addressing, BIT(ACCESS), 0, ""},
    {"durable", cleat__doctor_durable, BIT(ACCESS), 0, "checkpoints are lost when this machine restarts"},
    {"put", cleat__doctor_put, BIT(ACCESS), ANY, "nothing can be saved"},
    {"get", cleat__doctor_get, BIT(PUT), ANY,
     "nothing can be loaded, and a save that lost a reply cannot find out whether it was "
     "committed"},
    {"range", cleat__doctor_range, BIT(GET), ANY, "files larger than one part cannot be loaded"},
    {"list", cleat__doctor_list, BIT(PUT), ANY, "a restarted job does not find its newest checkpoint"},
    {"list-names", cleat__doctor_list_names, BIT(LIST), 0,
     "a checkpoint with a file whose name holds '+', '%' or blanks looks damaged to a restarted "
     "job"},
    {"list-folders", cleat__doctor_list_folders, BIT(LIST), 0,
     "gc does not see the leftovers of killed saves: they waste space, but no checkpoint is lost"},
    {"checksum", cleat__doctor_checksum, BIT(PUT), 0,
     "a load or 'cleat verify' detects a file that was damaged on its way to the store; the save "
     "does not"},
    {"create-only", cleat__doctor_create_only, BIT(GET), FAILED | MISSING,
     BY_TOKENS ": let one job at a time save here; " NOT_RESUMED},
    {"create-only-race", cleat__doctor_race, BIT(CREATE_ONLY), FAILED,
     BOTH_BELIEVE ": let one job at a time save here; " NOT_RESUMED},
    {"if-match", cleat__doctor_if_match, BIT(GET), FAILED, NO_SWITCH "; other saves are not affected"},
    {"multipart", cleat__doctor_multipart, BIT(GET), ANY, "files larger than one part cannot be saved"},
    {"create-only-parts", cleat__doctor_create_only_parts, BIT(CREATE_ONLY) | BIT(IF_MATCH) | BIT(MULTIPART), 0,
     "a save with files larger than one part cannot be resumed there, and all of it is sent again"},
    {"part-checksum", cleat__doctor_part_checksum, BIT(MULTIPART), 0,
     "a load or 'cleat verify' detects a part that was damaged on its way to the store; the save "
     "does not"},
    {"list-parts", cleat__doctor_list_parts, BIT(PART_CHECKSUM), 0,
     "an interrupted upload cannot be continued, and its removal cannot be confirmed"},
    {"abort", cleat__doctor_abort, BIT(PART_CHECKSUM), 0,
     "parts of failed saves remain and cost money: let the bucket's lifecycle rules abort "
     "incomplete uploads"},
    {"abort-keeps", cleat__doctor_abort_keeps, BIT(ABORT), ANY,
     "gc and --resume abort uploads, which may destroy a file of a checkpoint"},
    {"delete", cleat__doctor_delete, BIT(GET), 0,
     "leftovers of failed saves remain, and old checkpoints cannot be removed"},
    {"clean-up", clean_up, 0, 0, "the objects of the doctor are still there"},
};

/* The meaning of a result that makes every save unsafe, if it is more than the row says. */
static const char *const BLOCKED[CLEAT__DOCTOR_CHECKS] = {
    [CLEAT__DOCTOR_CREATE_ONLY] = "a save stores its manifest with this condition, so it fails",
    [CLEAT__DOCTOR_RACE] = "of two jobs that save a step at the same moment, neither may know which one committed it",
    [CLEAT__DOCTOR_IF_MATCH] = "a save of files stores the list of its files with this condition, so it fails",
};

/* The meaning of a warning if another check found that no save is safe: without advice on how to save there. */
static const char *const UNADVISED[CLEAT__DOCTOR_CHECKS] = {
    [CLEAT__DOCTOR_CREATE_ONLY] = (BY_TOKENS_UNRESUMED),
    [CLEAT__DOCTOR_RACE] = (BOTH_BELIEVE_UNRESUMED),
    [CLEAT__DOCTOR_IF_MATCH] = (NO_SWITCH),
};

/* ---- cleanup ---- */

static void keep_first(cleat_status *first, cleat_status status, const struct cleat_error *problem,
                       struct cleat_error *err) {
  if (status == CLEAT_OK || *first != CLEAT_OK)
    return;
  *first = status;
  *err = *problem;
}

/* Removes everything that may exist. Continues after a failure, and returns the first one. */
static cleat_status remove_all(struct cleat__doctor *doctor, struct cleat_error *err) {
  struct cleat_error problem;
  cleat_status first = CLEAT_OK;
  for (int i = 0; i < CLEAT__DOCTOR_UPLOADS; i++) {
    if (!doctor->upload_open[i])
      continue;
    cleat_status status =
        cleat__store_multipart_abort(doctor->store, &doctor->uploads[i], cleat__call(doctor->cancel, &problem));
    doctor->upload_open[i] = status != CLEAT_OK;
    keep_first(&first, status, &problem, err);
  }
  for (int i = 0; i < CLEAT__DOCTOR_OBJECTS; i++) {
    if (!doctor->made[i])
      continue;
    cleat_status status = cleat__store_remove(doctor->store, doctor->keys[i], cleat__call(doctor->cancel, &problem));
    doctor->made[i] = status != CLEAT_OK;
    keep_first(&first, status, &problem, err);
  }
  return first;
}

/* Counts the listed objects of the folder of the doctor; 0 if lists are not reliable. */
static cleat_status count_left(struct cleat__doctor *doctor, size_t *left, struct cleat_error *err) {
  struct cleat__list_page page = {0};
  char folder[sizeof doctor->folder + 1];
  cleat_status status = CLEAT_OK;
  snprintf(folder, sizeof folder, "%s/", doctor->folder);
  if ((doctor->passed & BIT(LIST)) != 0)
    status = cleat__store_list(doctor->store, folder, false, NULL, &page, cleat__call(doctor->cancel, err));
  *left = page.count;
  cleat__list_page_clear(&page);
  return status;
}

static void clean_up(struct cleat__doctor *doctor, struct cleat__doctor_check *check) {
  struct cleat_error err;
  size_t left = 0;
  cleat_status status = remove_all(doctor, &err);
  if (status == CLEAT_OK)
    status = count_left(doctor, &left, &err);
  if (status == CLEAT_OK && left == 0) {
    cleat__doctor_say(check, CLEAT_CHECK_OK, "everything was removed");
    return;
  }
  if (status != CLEAT_OK)
    cleat__doctor_fail(check, &err);
  else
    cleat__doctor_say(check, CLEAT_CHECK_FAILED, "%zu objects are still there", left);
  snprintf(check->hint, sizeof check->hint, "remove the folder %s below %.180s with another tool", doctor->folder,
           doctor->store->display);
}

/* ---- running ---- */

static void name_objects(struct cleat__doctor *doctor) {
  static const char *const names[CLEAT__DOCTOR_RACED] = {
      "absent",     "whole", "folder/nested",       "spoiled",    "once", "switched", "in-parts",
      "unfinished", "kept",  "deep-1/folder/below", "a+b%2Bc d%", "e\\f"};
  for (int i = 0; i < CLEAT__DOCTOR_RACED; i++)
    snprintf(doctor->keys[i], sizeof doctor->keys[i], "%s/%s", doctor->folder, names[i]);
  for (int i = 0; i < CLEAT__DOCTOR_ROUNDS; i++)
    snprintf(doctor->keys[CLEAT__DOCTOR_RACED + i], sizeof doctor->keys[0], "%s/race-%d", doctor->folder, i + 1);
}

/* Makes random bytes for a file of two parts, the second one small. */
static cleat_status prepare(struct cleat__doctor *doctor, struct cleat_error *err) {
  uint64_t size = doctor->store->min_part_bytes + CLEAT__DOCTOR_BYTES / 2;
  uint32_t state = 12345;
  char random[17];
  if (cleat__random_hex(8, random) != CLEAT_OK)
    return cleat__error_set(err, CLEAT_IO, "the system's random generator failed");
  snprintf(doctor->folder, sizeof doctor->folder, "doctor-%s", random);
  name_objects(doctor);
  doctor->bytes_size = size < CLEAT__DOCTOR_BYTES ? CLEAT__DOCTOR_BYTES : (size_t)size;
  doctor->bytes = cleat__alloc(doctor->bytes_size);
  if (doctor->bytes == NULL)
    return cleat__error_no_memory(err, "the doctor");
  for (size_t i = 0; i < doctor->bytes_size; i++) {
    state = state * 1664525u + 1013904223u;
    doctor->bytes[i] = (char)(state >> 24);
  }
  return CLEAT_OK;
}

/* The name of the first needed check that did not pass, or NULL. */
static const char *missing_need(const struct cleat__doctor *doctor, const struct row *row) {
  for (unsigned i = 0; i < CLEAT__DOCTOR_CHECKS; i++) {
    if ((row->needs & (1u << i)) != 0 && (doctor->passed & (1u << i)) == 0)
      return ROWS[i].name;
  }
  return NULL;
}

static void run_row(struct cleat__doctor *doctor, unsigned number, bool late, struct cleat__doctor_report *report) {
  const struct row *row = &ROWS[number];
  struct cleat__doctor_check *check = &report->checks[number];
  const char *need = missing_need(doctor, row);
  check->info.name = row->name;
  check->info.seen = check->seen;
  check->info.hint = check->hint;
  check->info.meaning = "";
  if (need != NULL) {
    cleat__doctor_say(check, CLEAT_CHECK_SKIPPED, "needs '%s'", need);
  } else if (late) {
    cleat__doctor_say(check, CLEAT_CHECK_SKIPPED, "not tried: the checks before it took %d s",
                      CLEAT__DOCTOR_LIMIT_MS / 1000);
    check->info.blocks = row->blocks != 0;
  } else {
    row->run(doctor, check);
    check->info.blocks = (row->blocks & (1u << check->info.result)) != 0;
    /* A check that does not apply must not block others. */
    if (check->info.result == CLEAT_CHECK_OK || check->info.result == CLEAT_CHECK_SKIPPED)
      doctor->passed |= 1u << number;
    else if (check->info.meaning[0] == '\0')
      check->info.meaning = check->info.blocks && BLOCKED[number] != NULL ? BLOCKED[number] : row->meaning;
  }
  report->safe = report->safe && !check->info.blocks;
  report->count = number + 1;
}

/* Removes advice on how to save from all warnings if no save is safe. */
static void leave_advice_out(struct cleat__doctor_report *report) {
  for (unsigned i = 0; !report->safe && i < report->count; i++) {
    struct cleat_check *info = &report->checks[i].info;
    if (info->meaning[0] != '\0' && !info->blocks && UNADVISED[i] != NULL)
      info->meaning = UNADVISED[i];
  }
}

/* Runs all checks but the last. */
static void run_rows(struct cleat__doctor *doctor, struct cleat__doctor_report *report) {
  int64_t end = doctor->clock->monotonic_ms(doctor->clock->ctx) + CLEAT__DOCTOR_LIMIT_MS;
  for (unsigned i = 0; i < CLEAT__DOCTOR_CLEAN_UP && !atomic_load(doctor->cancel); i++)
    run_row(doctor, i, doctor->clock->monotonic_ms(doctor->clock->ctx) >= end, report);
}

cleat_status cleat__doctor_run(struct cleat__store *store, const struct cleat__clock *clock,
                               const struct cleat__log *log, struct cleat__doctor_report *report,
                               struct cleat__call call) {
  struct cleat__doctor doctor = {.store = store, .clock = clock, .cancel = call.cancel};
  const struct cleat__doctor_check *left = &report->checks[CLEAT__DOCTOR_CLEAN_UP];
  atomic_bool never = false;
  cleat_status status = prepare(&doctor, call.err);
  if (status != CLEAT_OK)
    return status;
  report->safe = true;
  run_rows(&doctor, report);
  bool cancelled = report->count < CLEAT__DOCTOR_CLEAN_UP;
  doctor.cancel = &never;
  run_row(&doctor, CLEAT__DOCTOR_CLEAN_UP, false, report);
  cleat__free(doctor.bytes);
  if (!cancelled) {
    leave_advice_out(report);
    return CLEAT_OK;
  }
  /* After a cancel the caller does not show the report, so the log names what is left. */
  if (left->info.result != CLEAT_CHECK_OK)
    cleat__log(log, CLEAT_LOG_WARNING, "%s; %s", left->seen, left->hint);
  return cleat__error_set(call.err, CLEAT_CANCELLED, "the doctor was cancelled");
}
