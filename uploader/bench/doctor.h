/* doctor.h: the doctor as a job of a client. api/cleat/doctor.h documents ownership, threads and errors.
 * storage/doctor/doctor.h says what it does. */
#ifndef CLEAT_UPLOADER_BENCH_DOCTOR_H
#define CLEAT_UPLOADER_BENCH_DOCTOR_H

#include "uploader/engine/client.h"

cleat_status cleat__doctor_start(struct cleat_client *client, struct cleat_doctor **doctor, struct cleat_error *err);
cleat_status cleat__doctor_wait(struct cleat_doctor *doctor, struct cleat_error *err);
bool cleat__doctor_ended(const struct cleat_doctor *doctor);
void cleat__doctor_cancel(struct cleat_doctor *doctor);
bool cleat__doctor_safe(const struct cleat_doctor *doctor);
size_t cleat__doctor_count(const struct cleat_doctor *doctor);
const struct cleat_check *cleat__doctor_get_check(const struct cleat_doctor *doctor, size_t index);
void cleat__doctor_free(struct cleat_doctor *doctor);

#endif
