/* Saves and loads of CUDA memory: on the stand-in, and on a real device. */
#include "tests/gpu/kit.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Sizes of every kind: below and above a part, odd, one byte, none. */
static const size_t mixed_sizes[] = {1, 100, 65536, 65537, 300000, 0, 4096, 1 << 20, 31, 200000};
#define MIXED (sizeof mixed_sizes / sizeof mixed_sizes[0])

static void mixed_model(struct kit_model *model, unsigned salt) {
  kit_model_init(model, MIXED);
  for (size_t i = 0; i < MIXED; i++)
    if (mixed_sizes[i] > 0)
      kit_model_set(model, i, mixed_sizes[i], 0, salt);
}

/* Starts a save, waits for the fence, and changes what was saved, as an optimizer does. */
static struct cleat_save *save_and_change(struct cleat_client *client, struct kit_model *model,
                                          struct cleat_save_request request, unsigned salt) {
  struct cleat_save *save = NULL;
  OK(cleat_save_async(client, &request, &save, &kit_err));
  OK(cleat_save_wait_staged(save, &kit_err));
  kit_model_fill(model, salt);
  return save;
}

static void save_and_load(const struct cleat_client_options *options) {
  struct cleat_client *client = kit_open(options);
  struct kit_model model;
  mixed_model(&model, 1);
  struct cleat_save *save = save_and_change(client, &model, kit_request(&model, 1), 2);
  OK(cleat_save_wait(save, &kit_err));
  cleat_save_free(save);
  kit_expect_saved(client, 1, &model, 1);
  OK(kit_load(client, 1, &model));
  kit_model_check(&model, 1);
  kit_model_free(&model);
  cleat_client_close(client);
}

static void round_trip(void) {
  save_and_load(NULL);
}

/* 64 KiB parts and a budget of one of them: the fence has to wait for the store again and again. */
static void larger_than_the_budget(void) {
  struct cleat_client_options options = CLEAT_CLIENT_OPTIONS_INIT;
  options.staging_bytes = 64 << 10;
  save_and_load(&options);
}

/* cleat_save reads device memory part by part, and host memory in place. */
static void synchronous(void) {
  struct cleat_client *client = kit_open(NULL);
  struct kit_model model;
  mixed_model(&model, 1);
  struct cleat_save_request request = kit_request(&model, 1);
  OK(cleat_save(client, &request, &kit_err));
  kit_expect_saved(client, 1, &model, 1);
  kit_model_free(&model);
  cleat_client_close(client);
}

static void small_tensors(void) {
  struct cleat_client_options options = CLEAT_CLIENT_OPTIONS_INIT;
  options.part_bytes = 16 << 20;
  options.staging_bytes = 64 << 20;
  struct cleat_client *client = kit_open(&options);
  struct kit_model model;
  kit_model_init(&model, 5000);
  for (size_t i = 0; i < model.count; i++)
    kit_model_set(&model, i, 4096, 0, 1);
#ifdef CLEAT_FAKE_CUDART
  unsigned before = fake_calls("cudaMemcpyAsync") + fake_calls("cudaMemcpyBatchAsync");
#endif
  struct cleat_save *save = save_and_change(client, &model, kit_request(&model, 1), 2);
#ifdef CLEAT_FAKE_CUDART
  unsigned calls = fake_calls("cudaMemcpyAsync") + fake_calls("cudaMemcpyBatchAsync") - before;
  CHECK(calls <= 5000 / 100);
#endif
  OK(cleat_save_wait(save, &kit_err));
  cleat_save_free(save);
  OK(kit_load(client, 1, &model));
  kit_model_check(&model, 1);
  kit_model_free(&model);
  cleat_client_close(client);
}

/* Tensors of host and device by turns, so that parts hold both. */
static void host_and_device(void) {
  struct cleat_client *client = kit_open(NULL);
  struct kit_model model;
  kit_model_init(&model, 40);
  for (size_t i = 0; i < model.count; i++)
    kit_model_set(&model, i, 1000 + 997 * i, i % 2 == 0 ? KIT_HOST : 0, 1);
  struct cleat_save *save = save_and_change(client, &model, kit_request(&model, 1), 2);
  OK(cleat_save_wait(save, &kit_err));
  cleat_save_free(save);
  struct cleat_save_request request = kit_request(&model, 2);
  OK(cleat_save(client, &request, &kit_err));
  kit_expect_saved(client, 1, &model, 1);
  kit_expect_saved(client, 2, &model, 2);
  OK(kit_load(client, 1, &model));
  kit_model_check(&model, 1);
  kit_model_free(&model);
  cleat_client_close(client);
}

static void two_devices(void) {
  if (kit_devices() < 2)
    kit_skip("this machine has one device");
  struct cleat_client *client = kit_open(NULL);
  struct kit_model model;
  kit_model_init(&model, 30);
  for (size_t i = 0; i < model.count; i++)
    kit_model_set(&model, i, 5000 + 7919 * i, (int)(i % 3) - 1, 1);
  struct cleat_save *save = save_and_change(client, &model, kit_request(&model, 1), 2);
  OK(cleat_save_wait(save, &kit_err));
  cleat_save_free(save);
  kit_expect_saved(client, 1, &model, 1);
  OK(kit_load(client, 1, &model));
  kit_model_check(&model, 1);
  int current = -1;
  CUDA(cudaGetDevice(&current));
  CHECK(current == 0);
  kit_model_free(&model);
  cleat_client_close(client);
}

/* What the stream has queued comes first, and nobody has waited for it. */
static void behind_stream(cudaStream_t stream, void *named) {
  struct cleat_client *client = kit_open(NULL);
  struct kit_model model;
  const size_t bytes = 1 << 20;
  unsigned char *back = malloc(bytes);
  CHECK(back != NULL);
  kit_model_init(&model, 1);
  kit_model_set(&model, 0, bytes, 0, 1);
  void *memory = (void *)(uintptr_t)model.tensors[0].data;
  for (int i = 0; i <= 50; i++)
    CUDA(cudaMemsetAsync(memory, i, bytes, stream));
  struct cleat_save_request request = kit_request(&model, 1);
  struct cleat_save *save = NULL;
  model.places[0].stream = named;
  OK(cleat_save_async(client, &request, &save, &kit_err));
  OK(cleat_save_wait_staged(save, &kit_err));
  CUDA(cudaMemsetAsync(memory, 99, bytes, stream));
  OK(cleat_save_wait(save, &kit_err));
  cleat_save_free(save);
  /* The load, too, waits for what is queued, or the memset would win. */
  for (int i = 0; i <= 50; i++)
    CUDA(cudaMemsetAsync(memory, 99, bytes, stream));
  OK(kit_load(client, 1, &model));
  CUDA(cudaDeviceSynchronize());
  CUDA(cudaMemcpy(back, memory, bytes, cudaMemcpyDeviceToHost));
  for (size_t i = 0; i < bytes; i++)
    CHECK(back[i] == 50);
  free(back);
  kit_model_free(&model);
  cleat_client_close(client);
}

static void behind_the_named_stream(void) {
  cudaStream_t stream = NULL;
  CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  behind_stream(stream, stream);
  CUDA(cudaStreamDestroy(stream));
}

static void behind_the_default_stream(void) {
  behind_stream(NULL, NULL);
}

/* A blocking stream is part of what the default stream waits for. */
static void behind_blocking_streams(void) {
  cudaStream_t stream = NULL;
  CUDA(cudaStreamCreateWithFlags(&stream, 0));
  behind_stream(stream, NULL);
  CUDA(cudaStreamDestroy(stream));
}

/* Tensors of one device that two streams make: the copy comes behind both. */
static void behind_each_of_two_streams(void) {
  cudaStream_t streams[2] = {NULL, NULL};
  struct cleat_client *client = kit_open(NULL);
  struct kit_model model;
  const size_t bytes = 100000;
  static unsigned char back[2][100000];
#ifdef CLEAT_FAKE_CUDART
  fake_late();
#endif
  kit_model_init(&model, 2);
  for (size_t i = 0; i < 2; i++) {
    kit_model_set(&model, i, bytes, 0, 1);
    CUDA(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
    model.places[i].stream = streams[i];
  }
  CUDA(cudaDeviceSynchronize());
  for (size_t i = 0; i < 2; i++)
    for (int k = 0; k <= 50; k++)
      CUDA(cudaMemsetAsync((void *)(uintptr_t)model.tensors[i].data, k + (int)i, bytes, streams[i]));
  struct cleat_save_request request = kit_request(&model, 1);
  OK(cleat_save(client, &request, &kit_err));
  /* The load must come behind these, or they would win. */
  for (size_t i = 0; i < 2; i++)
    CUDA(cudaMemsetAsync((void *)(uintptr_t)model.tensors[i].data, 99, bytes, streams[i]));
  OK(kit_load(client, 1, &model));
  CUDA(cudaDeviceSynchronize());
  for (size_t i = 0; i < 2; i++) {
    CUDA(cudaMemcpy(back[i], model.tensors[i].data, bytes, cudaMemcpyDeviceToHost));
    for (size_t k = 0; k < bytes; k++)
      CHECK(back[i][k] == 50 + i);
    CUDA(cudaStreamDestroy(streams[i]));
  }
  kit_model_free(&model);
  cleat_client_close(client);
}

/* Saves follow each other without waiting for the commit; each has what was there at its fence. */
static void one_after_another(void) {
  struct cleat_client *client = kit_open(NULL);
  struct kit_model model;
  struct cleat_save *saves[5];
  mixed_model(&model, 0);
  for (unsigned i = 0; i < 5; i++)
    saves[i] = save_and_change(client, &model, kit_request(&model, i), i + 1);
  for (unsigned i = 0; i < 5; i++) {
    OK(cleat_save_wait(saves[i], &kit_err));
    cleat_save_free(saves[i]);
    kit_expect_saved(client, i, &model, i);
  }
  kit_model_free(&model);
  cleat_client_close(client);
}

static void busy_is_refused(void) {
  struct cleat_client_options options = CLEAT_CLIENT_OPTIONS_INIT;
  options.concurrency = 1;
  struct cleat_client *client = kit_open(&options);
  struct kit_model model;
  mixed_model(&model, 1);
  struct cleat_save_request request = kit_request(&model, 1);
  struct cleat_save *first = NULL;
  struct cleat_save *second = NULL;
  OK(cleat_save_async(client, &request, &first, &kit_err));
  request.step = 2;
  request.if_busy = CLEAT_IF_BUSY_REFUSE;
  cleat_status status = cleat_save_async(client, &request, &second, &kit_err);
  if (status == CLEAT_OK) { /* the first was quicker */
    struct cleat_progress progress;
    cleat_save_progress(first, &progress);
    CHECK(progress.phase == CLEAT_PHASE_DONE);
    cleat_save_free(second);
  } else {
    FAILS(status, BUSY);
  }
  OK(cleat_save_wait(first, &kit_err));
  request.step = 3;
  OK(cleat_save_async(client, &request, &second, &kit_err));
  OK(cleat_save_wait(second, &kit_err));
  cleat_save_free(first);
  cleat_save_free(second);
  kit_model_free(&model);
  cleat_client_close(client);
}

/* ---- Slices ----------------------------------------------------------------------------------- */

#define ROWS 600
#define COLUMNS 500

/* Columns 100 to 349 of rows 50 to 549, into device memory of their own. */
static void slices_of_rows(void) {
  static unsigned char whole[ROWS * COLUMNS];
  static unsigned char slice[500 * 250];
  int64_t shape[] = {ROWS, COLUMNS};
  int64_t start[] = {50, 100};
  int64_t size[] = {500, 250};
  struct cleat_client *client = kit_open(NULL);
  struct cleat_tensor tensor = {.name = "matrix", .dtype = CLEAT_DTYPE_U8, .ndim = 2, .shape = shape, .data = whole};
  struct cleat_save_request request = CLEAT_SAVE_REQUEST_INIT;
  for (size_t i = 0; i < sizeof whole; i++)
    whole[i] = (unsigned char)(i * 7919 >> 5);
  request.tensors = &tensor;
  request.tensor_count = 1;
  OK(cleat_save(client, &request, &kit_err));

  void *memory = NULL;
  CUDA(cudaMalloc(&memory, sizeof slice));
  struct cleat_place place = {CLEAT_DEVICE_CUDA, NULL};
  struct cleat_load_options options = CLEAT_LOAD_OPTIONS_INIT;
  struct cleat_load_request load = {.name = "matrix",
                                    .dtype = CLEAT_DTYPE_U8,
                                    .ndim = 2,
                                    .shape = size,
                                    .start = start,
                                    .data = memory,
                                    .data_bytes = sizeof slice};
  struct cleat_checkpoint *checkpoint = NULL;
  options.places = &place;
  OK(cleat_checkpoint_open(client, 0, &checkpoint, &kit_err));
#ifdef CLEAT_FAKE_CUDART
  unsigned copies = fake_copies();
#endif
  OK(cleat_load_tensors(checkpoint, &load, 1, &options, &kit_err));
#ifdef CLEAT_FAKE_CUDART
  /* 5 parts: each is a row that is cut, rows, and a row that is cut. */
  CHECK(fake_copies() - copies <= 15);
#endif
  CUDA(cudaMemcpy(slice, memory, sizeof slice, cudaMemcpyDeviceToHost));
  for (size_t row = 0; row < 500; row++)
    CHECK(memcmp(slice + row * 250, whole + (row + 50) * COLUMNS + 100, 250) == 0);
  CUDA(cudaFree(memory));
  cleat_checkpoint_free(checkpoint);
  cleat_client_close(client);
}

/* ---- Snapshot --------------------------------------------------------------------------------- */

static void snapshot(void) {
  struct cleat_client_options options = CLEAT_CLIENT_OPTIONS_INIT;
  options.staging_bytes = 64 << 10;
  struct cleat_client *client = kit_open(&options);
  struct kit_model model;
  mixed_model(&model, 1);
  kit_model_set(&model, 5, 777, KIT_HOST, 1);
  struct cleat_save_request request = kit_request(&model, 1);
  struct cleat_progress progress;
  request.device_snapshot = 1;
#ifdef CLEAT_FAKE_CUDART
  size_t before = fake_device_bytes(0);
#endif
  struct cleat_save *save = save_and_change(client, &model, request, 2);
  cleat_save_progress(save, &progress);
  CHECK(progress.device_snapshot == 1);
  OK(cleat_save_wait(save, &kit_err));
#ifdef CLEAT_FAKE_CUDART
  CUDA(cudaDeviceSynchronize());
  CHECK(fake_device_bytes(0) == before); /* given back, though the handle is still there */
#endif
  cleat_save_free(save);
  kit_expect_saved(client, 1, &model, 1);
  kit_model_free(&model);
  cleat_client_close(client);
}

/* ---- Pieces ----------------------------------------------------------------------------------- */

#define RANKS 4
#define DEEP 40
#define HIGH 30
#define WIDE 50

static unsigned char whole[DEEP * HIGH * WIDE];
static const int64_t whole_shape[] = {DEEP, HIGH, WIDE};
static const int64_t piece_shape[] = {DEEP, HIGH / 2, WIDE / 2};

/* A quarter of the cube: upper or lower, left or right. */
static void cut_piece(const int64_t start[3], unsigned char *to) {
  for (size_t plane = 0; plane < DEEP; plane++) {
    for (size_t row = 0; row < HIGH / 2; row++, to += WIDE / 2)
      memcpy(to, whole + (plane * HIGH + (size_t)start[1] + row) * WIDE + (size_t)start[2], WIDE / 2);
  }
}

/* Each rank saves its quarter out of device memory. */
static void save_pieces(void) {
  static unsigned char pieces[RANKS][DEEP * (HIGH / 2) * (WIDE / 2)];
  struct cleat_client *clients[RANKS];
  struct cleat_save *saves[RANKS];
  void *memory[RANKS];
  for (unsigned rank = 0; rank < RANKS; rank++) {
    int64_t start[] = {0, rank / 2 * (HIGH / 2), rank % 2 * (WIDE / 2)};
    struct cleat_client_options options = CLEAT_CLIENT_OPTIONS_INIT;
    struct cleat_shard shard = {.global_shape = whole_shape, .start = start};
    struct cleat_place place = {CLEAT_DEVICE_CUDA, NULL};
    struct cleat_save_request request = CLEAT_SAVE_REQUEST_INIT;
    cut_piece(start, pieces[rank]);
    CUDA(cudaMalloc(&memory[rank], sizeof pieces[rank]));
    CUDA(cudaMemcpy(memory[rank], pieces[rank], sizeof pieces[rank], cudaMemcpyHostToDevice));
    struct cleat_tensor tensor = {"cube", CLEAT_DTYPE_U8, 3, piece_shape, memory[rank]};
    options.rank = rank, options.world_size = RANKS, options.start = "pieces";
    clients[rank] = kit_open(&options);
    request.step = 1, request.tensors = &tensor, request.tensor_count = 1;
    request.shards = &shard, request.places = &place;
    OK(cleat_save_async(clients[rank], &request, &saves[rank], &kit_err));
  }
  for (unsigned rank = 0; rank < RANKS; rank++)
    OK(cleat_save_wait(saves[rank], &kit_err));
  for (unsigned rank = 0; rank < RANKS; rank++) {
    cleat_save_free(saves[rank]);
    cleat_client_close(clients[rank]);
    CUDA(cudaFree(memory[rank]));
  }
}

/* Rows of a piece lie one behind the other in its file, and in the whole at one distance within a plane, at another
 * from plane to plane. */
static void pieces_in_a_larger_slice(void) {
  static unsigned char loaded[sizeof whole];
  struct cleat_checkpoint *checkpoint = NULL;
  struct cleat_load_options options = CLEAT_LOAD_OPTIONS_INIT;
  struct cleat_place place = {CLEAT_DEVICE_CUDA, NULL};
  void *memory = NULL;
  for (size_t i = 0; i < sizeof whole; i++)
    whole[i] = (unsigned char)(i * 7919 >> 5);
  save_pieces();
  struct cleat_client *client = kit_open(NULL);
  CUDA(cudaMalloc(&memory, sizeof whole));
  struct cleat_load_request load = {.name = "cube",
                                    .dtype = CLEAT_DTYPE_U8,
                                    .ndim = 3,
                                    .shape = whole_shape,
                                    .data = memory,
                                    .data_bytes = sizeof whole};
  options.places = &place;
  OK(cleat_checkpoint_open(client, 1, &checkpoint, &kit_err));
  OK(cleat_load_tensors(checkpoint, &load, 1, &options, &kit_err));
  CUDA(cudaMemcpy(loaded, memory, sizeof whole, cudaMemcpyDeviceToHost));
  CHECK(memcmp(loaded, whole, sizeof whole) == 0);
  CUDA(cudaFree(memory));
  cleat_checkpoint_free(checkpoint);
  cleat_client_close(client);
}

/* ---- What is refused -------------------------------------------------------------------------- */

static void host_memory_called_cuda(void) {
  struct cleat_client *client = kit_open(NULL);
  struct kit_model model;
  mixed_model(&model, 1);
  kit_model_set(&model, 5, 777, KIT_HOST, 1);
  model.places[5].device = CLEAT_DEVICE_CUDA;
  struct cleat_save_request request = kit_request(&model, 1);
  struct cleat_save *save = NULL;
  FAILS(cleat_save_async(client, &request, &save, &kit_err), INVALID);
  CHECK(strstr(kit_err.message, "tensor t0005") != NULL);
  CHECK(strstr(kit_err.hint, "CLEAT_DEVICE_CUDA") != NULL);
  model.places[5].device = (enum cleat_device)7;
  FAILS(cleat_save_async(client, &request, &save, &kit_err), INVALID);
  model.places[5].device = CLEAT_DEVICE_HOST;
  OK(cleat_save(client, &request, &kit_err));
  model.places[5].device = CLEAT_DEVICE_CUDA;
  FAILS(kit_load(client, 1, &model), INVALID);
  CHECK(strstr(kit_err.message, "tensor t0005") != NULL);
  model.places[5].device = CLEAT_DEVICE_HOST;
  kit_model_free(&model);
  cleat_client_close(client);
}

/* A child of a process that uses CUDA is told so, and what it leaves does no harm to its parent. */
static void after_a_fork(void) {
  struct cleat_client *client = kit_open(NULL);
  struct kit_model model;
  mixed_model(&model, 1);
  struct cleat_save_request request = kit_request(&model, 1);
  OK(cleat_save(client, &request, &kit_err));
  pid_t child = fork();
  if (child == 0) {
    struct cleat_save *save = NULL;
    FAILS(cleat_save_async(client, &request, &save, &kit_err), UNSUPPORTED);
    CHECK(strstr(kit_err.message, "fork") != NULL);
#ifndef __SANITIZE_THREAD__ /* which allows no new threads there */
    struct cleat_client *own = kit_open(NULL);
    FAILS(cleat_save_async(own, &request, &save, &kit_err), UNSUPPORTED);
    CHECK(strstr(kit_err.message, "fork") != NULL);
    cleat_client_close(own);
#endif
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  request.step = 2;
  OK(cleat_save(client, &request, &kit_err));
  kit_expect_saved(client, 2, &model, 1);
  kit_model_free(&model);
  cleat_client_close(client);
}

int main(void) {
  static const struct kit_case cases[] = {
      {"round_trip", round_trip},
      {"larger_than_the_budget", larger_than_the_budget},
      {"synchronous", synchronous},
      {"small_tensors", small_tensors},
      {"host_and_device", host_and_device},
      {"two_devices", two_devices},
      {"behind_the_named_stream", behind_the_named_stream},
      {"behind_the_default_stream", behind_the_default_stream},
      {"behind_blocking_streams", behind_blocking_streams},
      {"one_after_another", one_after_another},
      {"busy_is_refused", busy_is_refused},
      {"slices_of_rows", slices_of_rows},
      {"snapshot", snapshot},
      {"behind_each_of_two_streams", behind_each_of_two_streams},
      {"pieces_in_a_larger_slice", pieces_in_a_larger_slice},
      {"host_memory_called_cuda", host_memory_called_cuda},
      {"after_a_fork", after_a_fork},
  };
  return kit_main(cases, sizeof cases / sizeof cases[0]);
}
