/* check.c: what the checks share: reporting results, and small text objects. See doctor.h.
 *
 * No state. Any thread. */
#include "storage/doctor/doctor.h"

#include "base/checksum.h"
#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void cleat__doctor_say(struct cleat__doctor_check *check, enum cleat_check_result result, const char *format, ...) {
  va_list args;
  check->info.result = result;
  va_start(args, format);
  if (vsnprintf(check->seen, sizeof check->seen, format, args) < 0)
    check->seen[0] = '\0';
  va_end(args);
}

void cleat__doctor_fail(struct cleat__doctor_check *check, const struct cleat_error *err) {
  cleat__doctor_say(check, err->status == CLEAT_UNSUPPORTED ? CLEAT_CHECK_MISSING : CLEAT_CHECK_FAILED, "%s",
                    err->message);
  snprintf(check->hint, sizeof check->hint, "%s", err->hint);
}

cleat_status cleat__doctor_put_text(struct cleat__doctor *doctor, int object, const char *text,
                                    enum cleat__put_condition condition, const char *etag, struct cleat_error *err) {
  char body[64];
  size_t length = (size_t)snprintf(body, sizeof body, "%s", text);
  struct cleat__span span = {body, length};
  struct cleat__put_options options = {.condition = condition,
                                       .etag = etag,
                                       .or_check = condition == CLEAT__PUT_IF_MATCH,
                                       .content_type = "text/plain",
                                       .crc32c = cleat__crc32c(0, body, length)};
  /* The two threads of the race call this at the same time. The object was noted before they
   * started. */
  if (!doctor->made[object])
    doctor->made[object] = true;
  return cleat__store_put(doctor->store, doctor->keys[object], cleat__spans(&span, 1), &options,
                          cleat__call(doctor->cancel, err));
}

cleat_status cleat__doctor_is_text(struct cleat__doctor *doctor, int object, const char *text, bool *same,
                                   struct cleat_error *err) {
  struct cleat__small small = {0};
  cleat_status status = cleat__store_get_small(doctor->store, doctor->keys[object], CLEAT__DOCTOR_BYTES, &small,
                                               cleat__call(doctor->cancel, err));
  if (status != CLEAT_OK)
    return status;
  *same = small.size == strlen(text) && memcmp(small.bytes, text, small.size) == 0;
  cleat__free(small.bytes);
  return CLEAT_OK;
}

bool cleat__doctor_is_refusal(cleat_status status, const struct cleat_error *err) {
  int http = err->http_status;
  return status == CLEAT_INTEGRITY ||
         (status == CLEAT_STORE && http >= 400 && http < 500 && http != 408 && http != 429);
}
