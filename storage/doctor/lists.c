/* doctor/lists.c: checks whether lists show all folders, and names unchanged, also names that an encoding could
 * change. See doctor.h. */
#include "storage/doctor/doctor.h"

#include <stdio.h>
#include <string.h>

/* The meaning if a backslash is the only problem, or one of them. */
#define BACKSLASH_REFUSED "a file whose name holds '\\' cannot be saved there"
#define BACKSLASH_CHANGED "a checkpoint with a file whose name holds '\\' looks damaged to a restarted job"
#define ALL_CHANGED                                                                               \
  "a checkpoint with a file whose name holds '\\', '+', '%' or blanks cannot be saved, or looks " \
  "damaged to a restarted job"

/* The results for two objects with unusual names. The second name has a backslash. */
struct names {
  bool named, backslash;      /* listed with their names unchanged */
  bool refused;               /* the store refused the second one */
  struct cleat_error refusal; /* the error of that refusal */
};

static cleat_status put_names(struct cleat__doctor *doctor, struct names *names, struct cleat_error *err) {
  cleat_status status = cleat__doctor_put_text(doctor, CLEAT__DOCTOR_NAMED, "named", CLEAT__PUT_ALWAYS, NULL, err);
  if (status != CLEAT_OK)
    return status;
  status =
      cleat__doctor_put_text(doctor, CLEAT__DOCTOR_BACKSLASH, "backslash", CLEAT__PUT_ALWAYS, NULL, &names->refusal);
  if (status == CLEAT_NO_MEMORY || status == CLEAT_CANCELLED) {
    *err = names->refusal;
    return status;
  }
  names->refused = status != CLEAT_OK;
  /* A store that refuses the name may also refuse to remove it. If the object exists after all, the cleanup lists
   * it. */
  if (status == CLEAT_DENIED || status == CLEAT_UNSUPPORTED || cleat__doctor_is_refusal(status, &names->refusal))
    doctor->made[CLEAT__DOCTOR_BACKSLASH] = false;
  return CLEAT_OK;
}

static cleat_status find_listed(struct cleat__doctor *doctor, struct names *names, struct cleat_error *err) {
  struct cleat__list_page page = {0};
  char folder[sizeof doctor->folder + 1];
  snprintf(folder, sizeof folder, "%s/", doctor->folder);
  cleat_status status = cleat__store_list(doctor->store, folder, false, NULL, &page, cleat__call(doctor->cancel, err));
  for (size_t i = 0; status == CLEAT_OK && i < page.count; i++) {
    const char *key = page.entries[i].key;
    names->named = names->named || strcmp(key, doctor->keys[CLEAT__DOCTOR_NAMED]) == 0;
    names->backslash = names->backslash || strcmp(key, doctor->keys[CLEAT__DOCTOR_BACKSLASH]) == 0;
  }
  cleat__list_page_clear(&page);
  return status;
}

static void say_changed(struct cleat__doctor *doctor, struct cleat__doctor_check *check, const struct names *names) {
  const char *key = doctor->keys[names->named ? CLEAT__DOCTOR_BACKSLASH : CLEAT__DOCTOR_NAMED];
  if (names->named && names->refused)
    cleat__doctor_say(check, CLEAT_CHECK_FAILED, "%s", names->refusal.message);
  else
    cleat__doctor_say(check, CLEAT_CHECK_FAILED, "%s was stored, but is listed under another name", key);
  if (!names->named && !names->backslash)
    check->info.meaning = ALL_CHANGED;
  else if (names->named)
    check->info.meaning = names->refused ? BACKSLASH_REFUSED : BACKSLASH_CHANGED;
}

void cleat__doctor_list_names(struct cleat__doctor *doctor, struct cleat__doctor_check *check) {
  struct names names = {0};
  struct cleat_error err;
  cleat_status status = put_names(doctor, &names, &err);
  if (status == CLEAT_OK)
    status = find_listed(doctor, &names, &err);
  if (status != CLEAT_OK)
    cleat__doctor_fail(check, &err);
  else if (!names.named || !names.backslash)
    say_changed(doctor, check, &names);
  else if ((atomic_load(&doctor->store->lacks) & CLEAT__STORE_PLAIN_KEYS) != 0)
    cleat__doctor_say(check, CLEAT_CHECK_OK,
                      "lists say that they are url-encoded, but they are not: names are used as listed");
  else
    cleat__doctor_say(check, CLEAT_CHECK_OK, "names with +, %%, \\ and a blank are listed as they are");
}

/* Lists folders like gc lists steps: the step of a killed save has no object, but a folder with one. */
void cleat__doctor_list_folders(struct cleat__doctor *doctor, struct cleat__doctor_check *check) {
  struct cleat__list_page page = {0};
  struct cleat_error err;
  char prefix[40], folder[40];
  bool found = false;
  snprintf(prefix, sizeof prefix, "%s/deep-", doctor->folder);
  snprintf(folder, sizeof folder, "%s/deep-1/", doctor->folder);
  cleat_status status = cleat__doctor_put_text(doctor, CLEAT__DOCTOR_DEEP, "deep", CLEAT__PUT_ALWAYS, NULL, &err);
  if (status == CLEAT_OK)
    status = cleat__store_list(doctor->store, prefix, true, NULL, &page, cleat__call(doctor->cancel, &err));
  for (size_t i = 0; status == CLEAT_OK && i < page.count; i++)
    found = found || strcmp(page.entries[i].key, folder) == 0;
  cleat__list_page_clear(&page);
  if (status != CLEAT_OK)
    cleat__doctor_fail(check, &err);
  else if (!found)
    cleat__doctor_say(check, CLEAT_CHECK_FAILED, "a folder that holds only folders is not listed (delimiter)");
  else
    cleat__doctor_say(check, CLEAT_CHECK_OK, "a folder that holds only folders is listed");
}
