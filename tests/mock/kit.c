/* kit.c: see kit.h. */
#include "tests/mock/kit.h"

#include "uploader/engine/client.h"
#include "uploader/model/tensor.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct cleat_client_options kit_options(const struct kit_setup *setup) {
  static const struct kit_setup none;
  if (setup == NULL)
    setup = &none;
  struct cleat_client_options options = CLEAT_CLIENT_OPTIONS_INIT;
  options.start = setup->start != NULL ? setup->start : "start-a";
  options.part_bytes = setup->part_bytes != 0 ? setup->part_bytes : KIT_PART;
  options.staging_bytes = (setup->buffers != 0 ? setup->buffers : 64) * options.part_bytes;
  options.concurrency = setup->concurrency != 0 ? setup->concurrency : 4;
  options.rank = setup->rank;
  options.world_size = setup->world_size != 0 ? setup->world_size : 1;
  options.rank_timeout_s = setup->rank_timeout_s;
  options.topology = setup->topology;
  options.log = setup->log;
  options.log_user = setup->log_user;
  return options;
}

struct cleat_client *kit_open(struct memory_bucket *bucket, const struct kit_setup *setup) {
  struct cleat_client_options options = kit_options(setup);
  struct cleat_client *client = NULL;
  struct cleat_error err;
  struct cleat__store *store = memory_store_open(bucket, setup != NULL ? &setup->limits : NULL);
  cleat_status status = cleat__client_on_store(store, &options, &client, &err);
  ck_assert_msg(status == CLEAT_OK, "%s", err.message);
  return client;
}

struct cleat_client *kit_open_url(const char *url, const struct kit_setup *setup) {
  struct cleat_client_options options = kit_options(setup);
  struct cleat_client *client = NULL;
  struct cleat_error err;
  cleat_status status = cleat_client_open(url, &options, &client, &err);
  ck_assert_msg(status == CLEAT_OK, "%s", err.message);
  return client;
}

void kit_fill(void *bytes, size_t size, unsigned seed) {
  unsigned char *to = bytes;
  for (size_t i = 0; i < size; i++)
    to[i] = (unsigned char)(i * 31 + i / 253 + i / 65521 + seed * 77u + 1);
}

static void *must(void *memory) {
  ck_assert_ptr_nonnull(memory);
  return memory;
}

void *kit_add(struct kit_model *model, const char *name, enum cleat_dtype dtype, int ndim, const int64_t *shape,
              unsigned seed) {
  ck_assert_uint_lt(model->count, KIT_TENSORS_MAX);
  struct cleat__tensor_spec spec = {name, dtype, ndim, shape};
  struct cleat_error err;
  uint64_t bytes = 0;
  cleat_status status = cleat__tensor_bytes(&spec, &bytes, &err);
  ck_assert_msg(status == CLEAT_OK, "%s", err.message);
  size_t dims = (size_t)ndim * sizeof *shape;
  int64_t *own_shape = must(malloc(dims + 1));
  char *data = must(malloc((size_t)bytes + 1));
  if (ndim > 0)
    memcpy(own_shape, shape, dims);
  kit_fill(data, (size_t)bytes, seed);
  model->bytes[model->count] = bytes;
  model->tensors[model->count++] = (struct cleat_tensor){must(strdup(name)), dtype, ndim, own_shape, data};
  return data;
}

void *kit_add_bytes(struct kit_model *model, const char *name, int64_t size, unsigned seed) {
  return kit_add(model, name, CLEAT_DTYPE_U8, 1, &size, seed);
}

void kit_clear(struct kit_model *model) {
  for (size_t i = 0; i < model->count; i++) {
    free((void *)(uintptr_t)model->tensors[i].name);
    free((void *)(uintptr_t)model->tensors[i].shape);
    free((void *)(uintptr_t)model->tensors[i].data);
  }
  model->count = 0;
}

struct cleat_save_request kit_request(const struct kit_model *model, int64_t step) {
  struct cleat_save_request request = CLEAT_SAVE_REQUEST_INIT;
  request.step = step;
  if (model != NULL) {
    request.tensors = model->tensors;
    request.tensor_count = model->count;
  }
  return request;
}

void kit_save(struct cleat_client *client, const struct kit_model *model, int64_t step) {
  struct cleat_save_request request = kit_request(model, step);
  struct cleat_error err = {0};
  cleat_status status = cleat_save(client, &request, &err);
  ck_assert_msg(status == CLEAT_OK, "%s", err.message);
}

void kit_add_mixed(struct kit_model *model) {
  static const int64_t odd[] = {7, 13, 5};
  static const int64_t none[] = {4, 0, 9};
  static const int64_t wide[] = {2, 9000};
  kit_add_bytes(model, "part", KIT_PART, 1);
  kit_add_bytes(model, "less", KIT_PART - 1, 2);
  kit_add_bytes(model, "more", KIT_PART + 1, 3);
  kit_add(model, "odd", CLEAT_DTYPE_F64, 3, odd, 4);
  kit_add(model, "none", CLEAT_DTYPE_F32, 3, none, 5);
  kit_add(model, "scalar", CLEAT_DTYPE_I64, 0, NULL, 6);
  kit_add(model, "wide", CLEAT_DTYPE_BF16, 2, wide, 7);
  kit_add_bytes(model, "large", 10 * KIT_PART + 77, 8);
}

struct cleat_save *kit_begin(struct cleat_client *client, const struct cleat_save_request *request) {
  struct cleat_save *save = NULL;
  struct cleat_error err = {0};
  cleat_status status = cleat_save_async(client, request, &save, &err);
  ck_assert_msg(status == CLEAT_OK, "%s", err.message);
  return save;
}

enum cleat_outcome kit_outcome(const struct cleat_save *save) {
  struct cleat_progress progress;
  cleat_save_progress(save, &progress);
  return progress.outcome;
}

void kit_close_idle(struct cleat_client *client) {
  cleat__pool_lock(client->pool);
  ck_assert_uint_eq(cleat__staging_free_count_locked(client->staging), cleat__staging_buffer_count(client->staging));
  ck_assert_ptr_null(client->synced.saves);
  ck_assert_ptr_null(client->synced.reserved_for);
  cleat__pool_unlock(client->pool);
  cleat_client_close(client);
}

struct cleat_checkpoint *kit_checkpoint(struct cleat_client *client, int64_t step) {
  struct cleat_checkpoint *checkpoint = NULL;
  struct cleat_error err = {0};
  cleat_status status = cleat_checkpoint_open(client, step, &checkpoint, &err);
  ck_assert_msg(status == CLEAT_OK, "%s", err.message);
  return checkpoint;
}

void kit_expect(struct cleat_client *client, int64_t step, const struct kit_model *model, bool more) {
  struct cleat_checkpoint *checkpoint = kit_checkpoint(client, step);
  struct cleat_load_request requests[KIT_TENSORS_MAX];
  struct cleat_load_options options = CLEAT_LOAD_OPTIONS_INIT;
  struct cleat_error err = {0};
  options.allow_unexpected = more;
  for (size_t i = 0; i < model->count; i++) {
    const struct cleat_tensor *tensor = &model->tensors[i];
    char *data = must(malloc((size_t)model->bytes[i] + 1));
    memset(data, 0xa5, (size_t)model->bytes[i] + 1);
    requests[i] = (struct cleat_load_request){tensor->name, tensor->dtype, tensor->ndim,   tensor->shape,
                                              NULL,         data,          model->bytes[i]};
  }
  cleat_status status = cleat_load_tensors(checkpoint, requests, model->count, &options, &err);
  ck_assert_msg(status == CLEAT_OK, "%s", err.message);
  for (size_t i = 0; i < model->count; i++) {
    const unsigned char *data = requests[i].data;
    ck_assert_msg(memcmp(data, model->tensors[i].data, (size_t)model->bytes[i]) == 0, "tensor %s differs",
                  requests[i].name);
    ck_assert_uint_eq(data[model->bytes[i]], 0xa5);
    free(requests[i].data);
  }
  cleat_checkpoint_free(checkpoint);
}

size_t kit_steps(struct cleat_client *client) {
  struct cleat_list *list = NULL;
  struct cleat_error err = {0};
  cleat_status status = cleat_list(client, &list, &err);
  ck_assert_msg(status == CLEAT_OK, "%s", err.message);
  ck_assert_uint_eq(cleat_list_damaged(list), 0);
  size_t count = cleat_list_count(list);
  for (size_t i = 0; i < count; i++)
    cleat_checkpoint_free(kit_checkpoint(client, cleat_list_get(list, i)->step));
  cleat_list_free(list);
  return count;
}

const char *kit_listed(struct cleat_client *client) {
  static char text[512];
  struct cleat_list *list = NULL;
  struct cleat_error err = {0};
  size_t used = 0;
  text[0] = '\0';
  cleat_status status = cleat_list(client, &list, &err);
  ck_assert_msg(status == CLEAT_OK, "%s", err.message);
  for (size_t i = 0; i < cleat_list_count(list); i++)
    used += (size_t)snprintf(text + used, sizeof text - used, "%s%lld", i > 0 ? " " : "",
                             (long long)cleat_list_get(list, i)->step);
  cleat_list_free(list);
  return text;
}

void kit_expect_file(const char *path, const void *bytes, size_t size) {
  FILE *file = fopen(path, "rb");
  ck_assert_msg(file != NULL, "%s", path);
  char *read = must(malloc(size + 1));
  size_t got = fread(read, 1, size + 1, file);
  ck_assert_msg(got == size, "%s has %zu bytes or more, not %zu", path, got, size);
  ck_assert_msg(memcmp(read, bytes, size) == 0, "%s differs", path);
  free(read);
  fclose(file);
}

void kit_prefer_memory(void) {
  if (access("/dev/shm", W_OK) == 0)
    setenv("TMPDIR", "/dev/shm", 1);
}
