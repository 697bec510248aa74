/* agree.c: rank 0 chooses the step and registers the start; the other ranks read its choice. See agree.h and
 * starts.h. */
#include "uploader/commit/agree.h"

#include "uploader/catalog/catalog.h"
#include "uploader/commit/starts.h"
#include "uploader/model/topology.h"

#include <assert.h>

#define DIFFERENCES_MAX 256

static cleat_status check_topology(const struct cleat_client *client, const struct cleat_checkpoint *checkpoint,
                                   bool strict, struct cleat_error *err) {
  char text[DIFFERENCES_MAX];
  if (checkpoint == NULL || cleat__checkpoint_differences(checkpoint, text, sizeof text) == 0)
    return CLEAT_OK;
  if (!strict) {
    cleat__log(&client->log, CLEAT_LOG_INFO, "step %lld was saved with another topology: %s",
               (long long)checkpoint->info.step, text);
    return CLEAT_OK;
  }
  cleat_status status = cleat__error_set(err, CLEAT_MISMATCH, "step %lld was saved with another topology: %s",
                                         (long long)checkpoint->info.step, text);
  cleat__error_hint(err, "start the job with that topology, or leave out strict_topology");
  return status;
}

/* Opens the checkpoint that rank 0 resumes from. NULL: none. */
static cleat_status choose(struct cleat_client *client, const struct cleat_resume_options *options,
                           struct cleat_checkpoint **checkpoint, struct cleat_error *err) {
  if (options->fresh != 0)
    return CLEAT_OK;
  if (options->at_step != 0)
    return cleat__checkpoint_open(client, options->step, checkpoint, err);
  cleat_status status = cleat__catalog_open_latest(client, checkpoint, err);
  return cleat__object_is_absent(status, err) ? CLEAT_OK : status;
}

static cleat_status lead(struct cleat_client *client, const struct cleat_resume_options *options,
                         struct cleat_checkpoint **checkpoint, struct cleat_error *err) {
  assert(client->rank == 0);
  cleat_status status = choose(client, options, checkpoint, err);
  if (status == CLEAT_OK)
    status = check_topology(client, *checkpoint, options->strict_topology != 0, err);
  if (status == CLEAT_OK)
    return cleat__starts_register(client, *checkpoint != NULL ? (*checkpoint)->info.step : -1, err);
  cleat__starts_call_off(client, err);
  return status;
}

static cleat_status follow(struct cleat_client *client, const struct cleat_resume_options *options,
                           struct cleat_checkpoint **checkpoint, struct cleat_error *err) {
  assert(client->rank > 0);
  int64_t step = -1;
  cleat_status status = cleat__starts_wait(client, &step, err);
  if (status == CLEAT_OK && step >= 0)
    status = cleat__checkpoint_open(client, step, checkpoint, err);
  if (status == CLEAT_OK)
    status = check_topology(client, *checkpoint, options->strict_topology != 0, err);
  return status;
}

cleat_status cleat__agree(struct cleat_client *client, const struct cleat_resume_options *options,
                          struct cleat_checkpoint **checkpoint, struct cleat_error *err) {
  struct cleat_checkpoint *found = NULL;
  if (options->at_step != 0 && (options->fresh != 0 || options->step < 0))
    return cleat__error_set(err, CLEAT_INVALID,
                            options->fresh != 0
                                ? "a step to resume from (at_step) and a start from nothing (fresh) exclude each other"
                                : "the step to resume from is negative");
  if (atomic_exchange(&client->resumed, true)) {
    cleat_status status = cleat__error_set(err, CLEAT_INVALID, "this client has resumed already");
    cleat__error_hint(err, "a start resumes only once; open the checkpoint again with cleat_checkpoint_open");
    return status;
  }
  cleat_status status = client->rank == 0 ? lead(client, options, &found, err) : follow(client, options, &found, err);
  if (status != CLEAT_OK) {
    cleat__checkpoint_free(found);
    atomic_store(&client->resumed, false);
    return status;
  }
  *checkpoint = found;
  return CLEAT_OK;
}
