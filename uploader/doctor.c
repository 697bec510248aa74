/* doctor.c: the doctor as a job of the worker pool: one task, which runs all checks. See doctor.h.
 *
 * The report belongs to the task while it runs, and is read-only after it has ended; `taken` is guarded
 * by the pool's lock. */
#include "uploader/doctor.h"

#include "base/mem.h"
#include "storage/doctor.h"
#include "uploader/operation.h"

struct cleat__task {
  cleat_status status;
  struct cleat_error err;
};

struct cleat_doctor {
  struct cleat__operation operation; /* first, so that one is the other */
  struct cleat__task task;
  bool taken;
  struct cleat__doctor_report report;
};

static struct cleat_doctor *doctor_of(struct cleat__job *job) {
  return (struct cleat_doctor *)job;
}

/* Also when it was cancelled before: it then ends at once, and in one way. */
static struct cleat__task *take(struct cleat__job *job) {
  struct cleat_doctor *doctor = doctor_of(job);
  if (doctor->taken)
    return NULL;
  doctor->taken = true;
  return &doctor->task;
}

static void process(struct cleat__job *job, struct cleat__task *task) {
  struct cleat_doctor *doctor = doctor_of(job);
  struct cleat_client *client = doctor->operation.client;
  task->status = cleat__doctor_run(client->store, client->clock, &client->log,
                                   &doctor->operation.cancel, &doctor->report, &task->err);
}

static void finish(struct cleat__job *job, struct cleat__task *task) {
  struct cleat__operation *operation = &doctor_of(job)->operation;
  if (task->status != CLEAT_OK)
    cleat__operation_fail_locked(operation, &task->err);
  else if (!operation->synced.stopping)
    cleat__operation_stop_locked(operation);
  cleat__operation_end_locked(operation);
}

static const struct cleat__job_ops ops = {.take = take, .process = process, .finish = finish};

cleat_status cleat__doctor_start(struct cleat_client *client, struct cleat_doctor **doctor,
                                 struct cleat_error *err) {
  struct cleat_doctor *fresh = cleat__calloc(1, sizeof *fresh);
  if (fresh == NULL)
    return cleat__error_no_memory(err, "the doctor");
  cleat__operation_init(&fresh->operation, client);
  cleat__pool_add(client->pool, &fresh->operation.job, &ops);
  *doctor = fresh;
  return CLEAT_OK;
}

cleat_status cleat__doctor_wait(struct cleat_doctor *doctor, struct cleat_error *err) {
  return cleat__operation_wait(&doctor->operation, err);
}

bool cleat__doctor_ended(const struct cleat_doctor *doctor) {
  struct cleat__pool *pool = doctor->operation.client->pool;
  cleat__pool_lock(pool);
  bool ended = doctor->operation.synced.ended;
  cleat__pool_unlock(pool);
  return ended;
}

void cleat__doctor_cancel(struct cleat_doctor *doctor) {
  cleat__operation_cancel(&doctor->operation, "the doctor");
}

bool cleat__doctor_safe(const struct cleat_doctor *doctor) {
  return cleat__doctor_count(doctor) > 0 && doctor->report.safe;
}

/* A run that was cut short has no report. */
size_t cleat__doctor_count(const struct cleat_doctor *doctor) {
  struct cleat__pool *pool = doctor->operation.client->pool;
  cleat__pool_lock(pool);
  bool whole = doctor->operation.synced.ended && doctor->operation.synced.error.status == CLEAT_OK;
  cleat__pool_unlock(pool);
  return whole ? doctor->report.count : 0;
}

const struct cleat_check *cleat__doctor_get_check(const struct cleat_doctor *doctor, size_t index) {
  return index < cleat__doctor_count(doctor) ? &doctor->report.checks[index].info : NULL;
}

void cleat__doctor_free(struct cleat_doctor *doctor) {
  struct cleat_error ignored;
  if (doctor == NULL)
    return;
  (void)cleat__doctor_wait(doctor, &ignored);
  cleat__operation_retire(&doctor->operation);
  cleat__free(doctor);
}
