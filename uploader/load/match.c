/* Checks requests against the checkpoint before anything is fetched. One error lists everything that is missing,
 * unexpected, or of another dtype or shape, because each run of a large job to find the next mistake is expensive.
 *
 * Pure, except for the log. */
#include "base/mem.h"
#include "uploader/load/job.h"
#include "uploader/model/name.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* All mismatches so far. */
struct complaints {
  struct cleat__buffer text; /* as many as fit */
  size_t count;
  size_t left_out;
  const struct cleat__log *log;
};

/* Room for mismatches in a message, in bytes. The rest is for the beginning of the message. */
#define COMPLAINTS_BYTES_MAX 1900

static void complain(struct complaints *complaints, const char *line) {
  complaints->count++;
  cleat__log(complaints->log, CLEAT_LOG_WARNING, "load: %s", line);
  if (cleat__buffer_print(&complaints->text, "%s%s", complaints->text.length > 0 ? "; " : "", line) != CLEAT_OK) {
    complaints->left_out++;
  }
}

static void shape_print(char *text, size_t size, int ndim, const int64_t *shape) {
  size_t length = 0;
  text[0] = '\0';
  for (int i = 0; i < ndim && length < size; i++) {
    int added = snprintf(text + length, size - length, "%s%" PRId64, i > 0 ? "," : "", shape[i]);
    if (added < 0)
      return;
    length += (size_t)added;
  }
}

static cleat_status request_check(const struct cleat_load_request *request, size_t index, struct cleat_error *err) {
  if (request->name == NULL) {
    return cleat__error_set(err, CLEAT_INVALID, "request %zu has no name", index);
  }
  struct cleat__tensor_spec spec = {request->name, request->dtype, request->ndim, request->shape};
  uint64_t bytes = 0;
  cleat_status status = cleat__tensor_bytes(&spec, &bytes, err);
  if (status != CLEAT_OK)
    return status;
  if (bytes != request->data_bytes || (request->data == NULL && bytes > 0)) {
    return cleat__error_set(err, CLEAT_INVALID,
                            "tensor %s: the destination has %" PRIu64 " bytes, but the request needs %" PRIu64,
                            request->name, request->data == NULL ? 0 : request->data_bytes, bytes);
  }
  return CLEAT_OK;
}

static bool shape_fits(const struct cleat_load_request *request, const struct cleat_tensor_info *info) {
  if (request->ndim != info->ndim)
    return false;
  struct cleat__tensor_spec spec = {info->name, info->dtype, info->ndim, info->shape};
  struct cleat__slice slice = {request->start, request->shape};
  struct cleat_error ignored;
  uint64_t bytes = 0;
  if (request->start != NULL)
    return cleat__slice_bytes(&spec, slice, &bytes, &ignored) == CLEAT_OK;
  return cleat__slice_is_whole(&spec, slice);
}

/* Compares dtype and shape of the request with those of the tensor. */
static void compare(const struct cleat_load_request *request, const struct cleat_tensor_info *info,
                    struct complaints *complaints) {
  char line[1024];
  char asked[256];
  char stored[256];
  char name[CLEAT__QUOTE_MAX];
  (void)cleat__name_quote(info->name, strlen(info->name), name);
  if (request->dtype != info->dtype) {
    (void)snprintf(line, sizeof(line), "%s is %s, not %s", name, cleat__dtype_name(info->dtype),
                   cleat__dtype_name(request->dtype));
    complain(complaints, line);
  }
  if (!shape_fits(request, info)) {
    shape_print(asked, sizeof(asked), request->ndim, request->shape);
    shape_print(stored, sizeof(stored), info->ndim, info->shape);
    (void)snprintf(line, sizeof(line), "%s has shape [%s]; %s [%s] does not fit", name, stored,
                   request->start != NULL ? "the slice" : "the request", asked);
    complain(complaints, line);
  }
}

static void complain_of(struct complaints *complaints, const char *what, const char *tensor) {
  char line[256];
  char name[CLEAT__QUOTE_MAX];
  (void)snprintf(line, sizeof(line), "%s: %s", what, cleat__name_quote(tensor, strlen(tensor), name));
  complain(complaints, line);
}

static cleat_status match_all(const struct cleat_checkpoint *checkpoint, const struct cleat_load_request *requests,
                              size_t count, const struct cleat_load_options *options, bool *seen,
                              struct complaints *complaints, struct cleat_error *err) {
  for (size_t i = 0; i < count; i++) {
    cleat_status status = request_check(&requests[i], i, err);
    if (status != CLEAT_OK)
      return status;
    const struct cleat__checkpoint_tensor *tensor = cleat__checkpoint_find(checkpoint, requests[i].name);
    if (tensor != NULL) {
      seen[tensor - checkpoint->tensors] = true;
      compare(&requests[i], &tensor->info, complaints);
    } else if (options->allow_missing == 0) {
      complain_of(complaints, "missing", requests[i].name);
    } else {
      cleat__log(complaints->log, CLEAT_LOG_WARNING, "load: not in the checkpoint, so left unchanged: %s",
                 requests[i].name);
    }
  }
  for (size_t i = 0; options->allow_unexpected == 0 && i < checkpoint->tensor_count; i++) {
    if (!seen[i])
      complain_of(complaints, "unexpected", checkpoint->tensors[i].info.name);
  }
  return CLEAT_OK;
}

static cleat_status conclude(const struct cleat_checkpoint *checkpoint, const struct complaints *complaints,
                             struct cleat_error *err) {
  if (complaints->count == 0)
    return CLEAT_OK;
  char more[48] = "";
  if (complaints->left_out > 0) {
    (void)snprintf(more, sizeof(more), "; and %zu more", complaints->left_out);
  }
  cleat_status status = cleat__error_set(err, CLEAT_MISMATCH, "step %" PRId64 " does not fit the request: %s%s",
                                         checkpoint->manifest.step, cleat__buffer_text(&complaints->text), more);
  cleat__error_hint(err, "`cleat show` lists the tensors; missing and unexpected names can be allowed");
  return status;
}

cleat_status cleat__load_match(const struct cleat_checkpoint *checkpoint, const struct cleat_load_request *requests,
                               size_t count, const struct cleat_load_options *options, struct cleat_error *err) {
  struct complaints complaints = {.log = &checkpoint->client->log};
  bool *seen = cleat__calloc(checkpoint->tensor_count, sizeof(*seen));
  if (seen == NULL)
    return cleat__error_no_memory(err, "the load");
  cleat__buffer_init(&complaints.text, COMPLAINTS_BYTES_MAX);
  cleat_status status = match_all(checkpoint, requests, count, options, seen, &complaints, err);
  if (status == CLEAT_OK)
    status = conclude(checkpoint, &complaints, err);
  cleat__buffer_clear(&complaints.text);
  cleat__free(seen);
  return status;
}
