/* cleat.c: the public functions. They only check arguments and fill in defaults; uploader/ does the
 * work.
 *
 * Thread safety and ownership are those of the public headers. The options struct of an older
 * caller is shorter than ours. Its missing fields are 0, which means their defaults. */
#include "api/cleat.h"

#include "api/argument.h"
#include "uploader/bench/bench.h"
#include "uploader/bench/doctor.h"
#include "uploader/catalog/catalog.h"
#include "uploader/commit/agree.h"
#include "uploader/load/load.h"
#include "uploader/retention/rollback.h"
#include "uploader/save/save.h"

/* ---- Client ----------------------------------------------------------------------------------- */

cleat_status cleat_client_open(const char *url, const struct cleat_client_options *options,
                               struct cleat_client **client, struct cleat_error *err) {
  ERR_OR_LOCAL(err);
  struct cleat_client_options known;
  if (url == NULL)
    return tell(missing(errp, "url"), errp, err);
  if (client == NULL)
    return tell(missing(errp, "client"), errp, err);
  cleat_status status = take_struct(&known, sizeof(known), options, "client options", errp);
  return tell(status == CLEAT_OK ? cleat__client_open(url, &known, client, errp) : status, errp, err);
}

void cleat_client_close(struct cleat_client *client) {
  cleat__client_close(client);
}

/* ---- Save ------------------------------------------------------------------------------------- */

static cleat_status save_start(struct cleat_client *client, const struct cleat_save_request *request,
                               enum cleat__save_mode mode, struct cleat_save **save, struct cleat_error *err) {
  struct cleat_save_request known;
  if (check_client(client, err) != CLEAT_OK)
    return err->status;
  if (request == NULL)
    return missing(err, "request");
  if (save == NULL)
    return missing(err, "save");
  cleat_status status = take_struct(&known, sizeof(known), request, "save request", err);
  if (status != CLEAT_OK)
    return status;
  if (known.tensors == NULL && known.tensor_count > 0)
    return missing(err, "tensors");
  if (known.files == NULL && known.file_count > 0)
    return missing(err, "files");
  return cleat__save_start(client, &known, mode, save, err);
}

cleat_status cleat_save(struct cleat_client *client, const struct cleat_save_request *request,
                        struct cleat_error *err) {
  ERR_OR_LOCAL(err);
  struct cleat_save *save = NULL;
  struct cleat_progress last;
  cleat_status status = save_start(client, request, CLEAT__SAVE_IN_PLACE, &save, errp);
  if (status != CLEAT_OK)
    return tell(status, errp, err);
  status = cleat__save_wait(save, errp);
  cleat__save_progress(save, &last);
  if (status == CLEAT_OK)
    tell_outcome(request, last.outcome);
  cleat__save_free(save);
  return tell(status, errp, err);
}

static cleat_status save_begin(struct cleat_client *client, const struct cleat_save_request *request,
                               enum cleat__save_mode mode, struct cleat_save **save, struct cleat_error *err) {
  ERR_OR_LOCAL(err);
  cleat_status status = save_start(client, request, mode, save, errp);
  if (status == CLEAT_OK)
    tell_outcome(request, CLEAT_OUTCOME_PENDING);
  return tell(status, errp, err);
}

cleat_status cleat_save_async(struct cleat_client *client, const struct cleat_save_request *request,
                              struct cleat_save **save, struct cleat_error *err) {
  return save_begin(client, request, CLEAT__SAVE_STAGED, save, err);
}

cleat_status cleat_save_async_in_place(struct cleat_client *client, const struct cleat_save_request *request,
                                       struct cleat_save **save, struct cleat_error *err) {
  return save_begin(client, request, CLEAT__SAVE_IN_PLACE, save, err);
}

cleat_status cleat_save_wait_staged(struct cleat_save *save, struct cleat_error *err) {
  ERR_OR_LOCAL(err);
  return tell(save != NULL ? cleat__save_wait_staged(save, errp) : missing(errp, "save"), errp, err);
}

cleat_status cleat_save_wait(struct cleat_save *save, struct cleat_error *err) {
  ERR_OR_LOCAL(err);
  return tell(save != NULL ? cleat__save_wait(save, errp) : missing(errp, "save"), errp, err);
}

void cleat_save_progress(const struct cleat_save *save, struct cleat_progress *progress) {
  cleat__save_progress(save, progress);
}

void cleat_save_cancel(struct cleat_save *save) {
  cleat__save_cancel(save);
}

void cleat_save_free(struct cleat_save *save) {
  cleat__save_free(save);
}

/* ---- Catalog and checkpoint ------------------------------------------------------------------- */

cleat_status cleat_list(struct cleat_client *client, struct cleat_list **list, struct cleat_error *err) {
  ERR_OR_LOCAL(err);
  if (check_client(client, errp) != CLEAT_OK)
    return tell(errp->status, errp, err);
  if (list == NULL)
    return tell(missing(errp, "list"), errp, err);
  return tell(cleat__catalog_list(client, list, errp), errp, err);
}

size_t cleat_list_count(const struct cleat_list *list) {
  return cleat__catalog_count(list);
}

const struct cleat_checkpoint_info *cleat_list_get(const struct cleat_list *list, size_t index) {
  return cleat__catalog_get(list, index);
}

size_t cleat_list_damaged(const struct cleat_list *list) {
  return cleat__catalog_damaged(list);
}

const struct cleat_error *cleat_list_damage(const struct cleat_list *list, size_t index) {
  return cleat__catalog_damage(list, index);
}

void cleat_list_free(struct cleat_list *list) {
  cleat__catalog_free(list);
}

cleat_status cleat_latest(struct cleat_client *client, int64_t *step, struct cleat_error *err) {
  ERR_OR_LOCAL(err);
  struct cleat_checkpoint *latest = NULL;
  if (check_client(client, errp) != CLEAT_OK)
    return tell(errp->status, errp, err);
  if (step == NULL)
    return tell(missing(errp, "step"), errp, err);
  cleat_status status = cleat__catalog_open_latest(client, &latest, errp);
  if (status != CLEAT_OK)
    return tell(status, errp, err);
  *step = latest->info.step;
  cleat__checkpoint_free(latest);
  return tell(CLEAT_OK, errp, err);
}

cleat_status cleat_checkpoint_open(struct cleat_client *client, int64_t step, struct cleat_checkpoint **checkpoint,
                                   struct cleat_error *err) {
  ERR_OR_LOCAL(err);
  if (check_client(client, errp) != CLEAT_OK)
    return tell(errp->status, errp, err);
  if (checkpoint == NULL)
    return tell(missing(errp, "checkpoint"), errp, err);
  if (step == CLEAT_STEP_LATEST)
    return tell(cleat__catalog_open_latest(client, checkpoint, errp), errp, err);
  if (step < 0) {
    return tell(cleat__error_set(errp, CLEAT_INVALID, "step %lld is negative", (long long)step), errp, err);
  }
  return tell(cleat__checkpoint_open(client, step, checkpoint, errp), errp, err);
}

void cleat_checkpoint_free(struct cleat_checkpoint *checkpoint) {
  cleat__checkpoint_free(checkpoint);
}

unsigned cleat_client_rank(const struct cleat_client *client) {
  return client->rank;
}

unsigned cleat_client_world_size(const struct cleat_client *client) {
  return client->world_size;
}

uint64_t cleat_client_retries(const struct cleat_client *client) {
  return atomic_load(&client->store->retries);
}

cleat_status cleat_resume(struct cleat_client *client, const struct cleat_resume_options *options,
                          struct cleat_checkpoint **checkpoint, struct cleat_error *err) {
  ERR_OR_LOCAL(err);
  struct cleat_resume_options ours;
  if (check_client(client, errp) != CLEAT_OK)
    return tell(errp->status, errp, err);
  if (checkpoint == NULL)
    return tell(missing(errp, "checkpoint"), errp, err);
  cleat_status status = take_struct(&ours, sizeof ours, options, "cleat_resume_options", errp);
  return tell(status == CLEAT_OK ? cleat__agree(client, &ours, checkpoint, errp) : status, errp, err);
}

cleat_status cleat_rollback(struct cleat_client *client, const struct cleat_rollback_options *options,
                            struct cleat_error *err) {
  ERR_OR_LOCAL(err);
  struct cleat_rollback_options ours;
  if (check_client(client, errp) != CLEAT_OK)
    return tell(errp->status, errp, err);
  if (options == NULL)
    return tell(missing(errp, "options"), errp, err);
  cleat_status status = take_struct(&ours, sizeof ours, options, "cleat_rollback_options", errp);
  return tell(status == CLEAT_OK ? cleat__rollback(client, &ours, errp) : status, errp, err);
}

void cleat_checkpoint_topology(const struct cleat_checkpoint *checkpoint, struct cleat_topology *topology) {
  cleat__checkpoint_topology(checkpoint, topology);
}

size_t cleat_checkpoint_reshard(const struct cleat_checkpoint *checkpoint, char *text, size_t size) {
  return cleat__checkpoint_differences(checkpoint, text, size);
}

const struct cleat_checkpoint_info *cleat_checkpoint_info(const struct cleat_checkpoint *checkpoint) {
  return &checkpoint->info;
}

size_t cleat_checkpoint_file_count(const struct cleat_checkpoint *checkpoint) {
  return checkpoint->file_count;
}

const struct cleat_file_info *cleat_checkpoint_file(const struct cleat_checkpoint *checkpoint, size_t index) {
  return index < checkpoint->file_count ? &checkpoint->files[index].info : NULL;
}

size_t cleat_checkpoint_tensor_count(const struct cleat_checkpoint *checkpoint) {
  return checkpoint->tensor_count;
}

const struct cleat_tensor_info *cleat_checkpoint_tensor(const struct cleat_checkpoint *checkpoint, size_t index) {
  return index < checkpoint->tensor_count ? &checkpoint->tensors[index].info : NULL;
}

const struct cleat_tensor_info *cleat_checkpoint_find(const struct cleat_checkpoint *checkpoint, const char *name) {
  const struct cleat__checkpoint_tensor *tensor = name != NULL ? cleat__checkpoint_find(checkpoint, name) : NULL;
  return tensor != NULL ? &tensor->info : NULL;
}

/* ---- Load ------------------------------------------------------------------------------------- */

cleat_status cleat_load_tensors_async(struct cleat_checkpoint *checkpoint, const struct cleat_load_request *requests,
                                      size_t count, const struct cleat_load_options *options, struct cleat_load **load,
                                      struct cleat_error *err) {
  ERR_OR_LOCAL(err);
  struct cleat_load_options known;
  if (check_checkpoint(checkpoint, errp) != CLEAT_OK)
    return tell(errp->status, errp, err);
  if (requests == NULL && count > 0)
    return tell(missing(errp, "requests"), errp, err);
  if (load == NULL)
    return tell(missing(errp, "load"), errp, err);
  cleat_status status = take_struct(&known, sizeof(known), options, "load options", errp);
  if (status != CLEAT_OK)
    return tell(status, errp, err);
  return tell(cleat__load_start_tensors(checkpoint, requests, count, &known, load, errp), errp, err);
}

cleat_status cleat_load_files_async(struct cleat_checkpoint *checkpoint, const char *destination,
                                    const struct cleat_load_options *options, struct cleat_load **load,
                                    struct cleat_error *err) {
  ERR_OR_LOCAL(err);
  struct cleat_load_options known;
  if (check_checkpoint(checkpoint, errp) != CLEAT_OK)
    return tell(errp->status, errp, err);
  if (destination == NULL)
    return tell(missing(errp, "destination"), errp, err);
  if (load == NULL)
    return tell(missing(errp, "load"), errp, err);
  cleat_status status = take_struct(&known, sizeof(known), options, "load options", errp);
  if (status != CLEAT_OK)
    return tell(status, errp, err);
  return tell(cleat__load_start_files(checkpoint, destination, &known, load, errp), errp, err);
}

cleat_status cleat_verify_async(struct cleat_checkpoint *checkpoint, struct cleat_load **load,
                                struct cleat_error *err) {
  ERR_OR_LOCAL(err);
  if (check_checkpoint(checkpoint, errp) != CLEAT_OK)
    return tell(errp->status, errp, err);
  if (load == NULL)
    return tell(missing(errp, "load"), errp, err);
  return tell(cleat__load_start_verify(checkpoint, load, errp), errp, err);
}

cleat_status cleat_verify_files_async(struct cleat_checkpoint *checkpoint, const struct cleat_file *files, size_t count,
                                      struct cleat_load **load, struct cleat_error *err) {
  ERR_OR_LOCAL(err);
  if (check_checkpoint(checkpoint, errp) != CLEAT_OK)
    return tell(errp->status, errp, err);
  if (files == NULL && count > 0)
    return tell(missing(errp, "files"), errp, err);
  if (load == NULL)
    return tell(missing(errp, "load"), errp, err);
  for (size_t i = 0; i < count; i++) {
    if (files[i].name == NULL)
      return tell(missing(errp, "a file's name"), errp, err);
    if (files[i].path == NULL && files[i].data == NULL && files[i].data_bytes > 0)
      return tell(missing(errp, "a file's data"), errp, err);
  }
  return tell(cleat__load_start_compare(checkpoint, files, count, load, errp), errp, err);
}

/* Ends a load that was started with `status`. */
static cleat_status load_end(cleat_status status, struct cleat_load *load, struct cleat_error *err) {
  if (status != CLEAT_OK)
    return status;
  status = cleat__load_wait(load, err);
  cleat__load_free(load);
  return status;
}

cleat_status cleat_load_tensors(struct cleat_checkpoint *checkpoint, const struct cleat_load_request *requests,
                                size_t count, const struct cleat_load_options *options, struct cleat_error *err) {
  ERR_OR_LOCAL(err);
  struct cleat_load *load = NULL;
  cleat_status status = cleat_load_tensors_async(checkpoint, requests, count, options, &load, errp);
  return tell(load_end(status, load, errp), errp, err);
}

cleat_status cleat_load_files(struct cleat_checkpoint *checkpoint, const char *destination,
                              const struct cleat_load_options *options, struct cleat_error *err) {
  ERR_OR_LOCAL(err);
  struct cleat_load *load = NULL;
  cleat_status status = cleat_load_files_async(checkpoint, destination, options, &load, errp);
  return tell(load_end(status, load, errp), errp, err);
}

cleat_status cleat_verify(struct cleat_checkpoint *checkpoint, struct cleat_error *err) {
  ERR_OR_LOCAL(err);
  struct cleat_load *load = NULL;
  cleat_status status = cleat_verify_async(checkpoint, &load, errp);
  return tell(load_end(status, load, errp), errp, err);
}

cleat_status cleat_verify_files(struct cleat_checkpoint *checkpoint, const struct cleat_file *files, size_t count,
                                struct cleat_error *err) {
  ERR_OR_LOCAL(err);
  struct cleat_load *load = NULL;
  cleat_status status = cleat_verify_files_async(checkpoint, files, count, &load, errp);
  return tell(load_end(status, load, errp), errp, err);
}

cleat_status cleat_load_wait(struct cleat_load *load, struct cleat_error *err) {
  ERR_OR_LOCAL(err);
  return tell(load != NULL ? cleat__load_wait(load, errp) : missing(errp, "load"), errp, err);
}

void cleat_load_progress(const struct cleat_load *load, struct cleat_progress *progress) {
  cleat__load_progress(load, progress);
}

void cleat_load_cancel(struct cleat_load *load) {
  cleat__load_cancel(load);
}

void cleat_load_free(struct cleat_load *load) {
  cleat__load_free(load);
}

/* ---- Doctor ----------------------------------------------------------------------------------- */

cleat_status cleat_doctor_async(struct cleat_client *client, struct cleat_doctor **doctor, struct cleat_error *err) {
  ERR_OR_LOCAL(err);
  if (check_client(client, errp) != CLEAT_OK)
    return tell(errp->status, errp, err);
  if (doctor == NULL)
    return tell(missing(errp, "doctor"), errp, err);
  return tell(cleat__doctor_start(client, doctor, errp), errp, err);
}

cleat_status cleat_doctor(struct cleat_client *client, struct cleat_doctor **doctor, struct cleat_error *err) {
  ERR_OR_LOCAL(err);
  struct cleat_doctor *started = NULL;
  if (doctor == NULL)
    return tell(missing(errp, "doctor"), errp, err);
  cleat_status status = cleat_doctor_async(client, &started, errp);
  if (status != CLEAT_OK)
    return tell(status, errp, err);
  status = cleat__doctor_wait(started, errp);
  if (status == CLEAT_OK)
    *doctor = started;
  else
    cleat__doctor_free(started);
  return tell(status, errp, err);
}

cleat_status cleat_doctor_wait(struct cleat_doctor *doctor, struct cleat_error *err) {
  ERR_OR_LOCAL(err);
  return tell(doctor != NULL ? cleat__doctor_wait(doctor, errp) : missing(errp, "doctor"), errp, err);
}

int cleat_doctor_ended(const struct cleat_doctor *doctor) {
  return cleat__doctor_ended(doctor);
}

void cleat_doctor_cancel(struct cleat_doctor *doctor) {
  cleat__doctor_cancel(doctor);
}

int cleat_doctor_safe(const struct cleat_doctor *doctor) {
  return cleat__doctor_safe(doctor);
}

size_t cleat_doctor_count(const struct cleat_doctor *doctor) {
  return cleat__doctor_count(doctor);
}

const struct cleat_check *cleat_doctor_check(const struct cleat_doctor *doctor, size_t index) {
  return cleat__doctor_get_check(doctor, index);
}

void cleat_doctor_free(struct cleat_doctor *doctor) {
  cleat__doctor_free(doctor);
}

const char *cleat_check_result_name(enum cleat_check_result result) {
  static const char *const names[] = {"ok", "missing", "ignored", "failed", "skipped"};
  return (unsigned)result < sizeof names / sizeof names[0] ? names[result] : "unknown";
}

/* ---- Bench ------------------------------------------------------------------------------------ */

cleat_status cleat_bench_async(struct cleat_client *client, const struct cleat_bench_options *options,
                               struct cleat_bench **bench, struct cleat_error *err) {
  ERR_OR_LOCAL(err);
  struct cleat_bench_options known;
  if (check_client(client, errp) != CLEAT_OK)
    return tell(errp->status, errp, err);
  if (bench == NULL)
    return tell(missing(errp, "bench"), errp, err);
  cleat_status status = take_struct(&known, sizeof(known), options, "bench options", errp);
  return tell(status == CLEAT_OK ? cleat__bench_start(client, &known, bench, errp) : status, errp, err);
}

cleat_status cleat_bench(struct cleat_client *client, const struct cleat_bench_options *options,
                         struct cleat_bench **bench, struct cleat_error *err) {
  ERR_OR_LOCAL(err);
  struct cleat_bench *started = NULL;
  if (bench == NULL)
    return tell(missing(errp, "bench"), errp, err);
  cleat_status status = cleat_bench_async(client, options, &started, errp);
  if (status != CLEAT_OK)
    return tell(status, errp, err);
  status = cleat__bench_wait(started, errp);
  if (status == CLEAT_OK)
    *bench = started;
  else
    cleat__bench_free(started);
  return tell(status, errp, err);
}

cleat_status cleat_bench_wait(struct cleat_bench *bench, struct cleat_error *err) {
  ERR_OR_LOCAL(err);
  return tell(bench != NULL ? cleat__bench_wait(bench, errp) : missing(errp, "bench"), errp, err);
}

void cleat_bench_progress(const struct cleat_bench *bench, struct cleat_bench_progress *progress) {
  cleat__bench_get_progress(bench, progress);
}

void cleat_bench_cancel(struct cleat_bench *bench) {
  cleat__bench_cancel(bench);
}

const struct cleat_bench_report *cleat_bench_report(const struct cleat_bench *bench) {
  return cleat__bench_report(bench);
}

void cleat_bench_free(struct cleat_bench *bench) {
  cleat__bench_free(bench);
}
