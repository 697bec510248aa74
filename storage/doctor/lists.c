/* doctor/lists.c: the checks whether a list shows names as they are, those too that an encoding could change, and
 * all folders. See doctor.h. */
#include "storage/doctor/doctor.h"

#include <stdio.h>
#include <string.h>

/* Whether the object is listed under its own name. */
static cleat_status is_listed(struct cleat__doctor *doctor, int object, bool *found,
                              struct cleat_error *err) {
  struct cleat__list_page page = {0};
  char folder[sizeof doctor->folder + 1];
  size_t length = strlen(doctor->folder);
  memcpy(folder, doctor->folder, length);
  memcpy(folder + length, "/", 2);
  cleat_status status =
      CLEAT__STORE(doctor->store, list, folder, false, NULL, &page, doctor->cancel, err);
  *found = false;
  for (size_t i = 0; status == CLEAT_OK && i < page.count; i++)
    *found = *found || strcmp(page.entries[i].key, doctor->keys[object]) == 0;
  cleat__list_page_clear(&page);
  return status;
}

void cleat__doctor_list_names(struct cleat__doctor *doctor, struct cleat__doctor_check *check) {
  const char *key = doctor->keys[CLEAT__DOCTOR_NAMED];
  struct cleat_error err;
  bool found = false;
  cleat_status status =
      cleat__doctor_put_text(doctor, CLEAT__DOCTOR_NAMED, "named", CLEAT__PUT_ALWAYS, NULL, &err);
  if (status == CLEAT_OK)
    status = is_listed(doctor, CLEAT__DOCTOR_NAMED, &found, &err);
  if (status != CLEAT_OK)
    cleat__doctor_fail(check, &err);
  else if (!found)
    cleat__doctor_say(check, CLEAT_CHECK_FAILED, "%s was stored, and is listed under another name",
                      key);
  else if ((atomic_load(&doctor->store->lacks) & CLEAT__STORE_PLAIN_KEYS) != 0)
    cleat__doctor_say(check, CLEAT_CHECK_OK,
                      "lists say that they are url-encoded and are not: names are taken as they "
                      "stand there");
  else
    cleat__doctor_say(check, CLEAT_CHECK_OK, "a name with +, %% and a blank is listed as it is");
}

/* As gc asks for the steps: a step whose save was killed holds no object, but a folder that does. */
void cleat__doctor_list_folders(struct cleat__doctor *doctor, struct cleat__doctor_check *check) {
  struct cleat__list_page page = {0};
  struct cleat_error err;
  char prefix[40], folder[40];
  bool found = false;
  snprintf(prefix, sizeof prefix, "%s/deep-", doctor->folder);
  snprintf(folder, sizeof folder, "%s/deep-1/", doctor->folder);
  cleat_status status =
      cleat__doctor_put_text(doctor, CLEAT__DOCTOR_DEEP, "deep", CLEAT__PUT_ALWAYS, NULL, &err);
  if (status == CLEAT_OK)
    status = CLEAT__STORE(doctor->store, list, prefix, true, NULL, &page, doctor->cancel, &err);
  for (size_t i = 0; status == CLEAT_OK && i < page.count; i++)
    found = found || strcmp(page.entries[i].key, folder) == 0;
  cleat__list_page_clear(&page);
  if (status != CLEAT_OK)
    cleat__doctor_fail(check, &err);
  else if (!found)
    cleat__doctor_say(check, CLEAT_CHECK_FAILED,
                      "a folder that holds only folders is not listed (delimiter)");
  else
    cleat__doctor_say(check, CLEAT_CHECK_OK, "a folder that holds only folders is listed");
}
