/* doctor.c: runs the doctor as an operation of one task, which makes all checks. See doctor.h, single.h. */
#include "uploader/bench/doctor.h"

#include "base/mem.h"
#include "storage/doctor/doctor.h"
#include "uploader/engine/single.h"

struct cleat_doctor {
  /* must be the first field: doctor and single are cast to each other */
  struct cleat__single single;
  struct cleat__doctor_report report;
};

static cleat_status run(struct cleat__operation *operation, struct cleat_error *err) {
  struct cleat_doctor *doctor = (struct cleat_doctor *)operation;
  struct cleat_client *client = operation->client;
  return cleat__doctor_run(client->store, client->clock, &client->log, &doctor->report,
                           cleat__call(&operation->cancel, err));
}

cleat_status cleat__doctor_start(struct cleat_client *client, struct cleat_doctor **doctor, struct cleat_error *err) {
  struct cleat_doctor *fresh = cleat__calloc(1, sizeof *fresh);
  if (fresh == NULL)
    return cleat__error_no_memory(err, "the doctor");
  cleat__single_start(&fresh->single, client, run);
  *doctor = fresh;
  return CLEAT_OK;
}

cleat_status cleat__doctor_wait(struct cleat_doctor *doctor, struct cleat_error *err) {
  return cleat__operation_wait(&doctor->single.operation, err);
}

bool cleat__doctor_ended(const struct cleat_doctor *doctor) {
  return cleat__single_ended(&doctor->single);
}

void cleat__doctor_cancel(struct cleat_doctor *doctor) {
  cleat__operation_cancel(&doctor->single.operation, "the doctor");
}

bool cleat__doctor_safe(const struct cleat_doctor *doctor) {
  return cleat__doctor_count(doctor) > 0 && doctor->report.safe;
}

/* A run that ended early has no report. */
size_t cleat__doctor_count(const struct cleat_doctor *doctor) {
  return cleat__single_succeeded(&doctor->single) ? doctor->report.count : 0;
}

const struct cleat_check *cleat__doctor_get_check(const struct cleat_doctor *doctor, size_t index) {
  return index < cleat__doctor_count(doctor) ? &doctor->report.checks[index].info : NULL;
}

void cleat__doctor_free(struct cleat_doctor *doctor) {
  if (doctor == NULL)
    return;
  if (cleat__single_end(&doctor->single))
    cleat__free(doctor);
}
