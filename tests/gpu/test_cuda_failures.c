/* What goes wrong with CUDA, on the stand-in alone, which fails when it is told to. */
#include "base/mem.h"
#include "tests/gpu/kit.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static void model_of(struct kit_model *model, int devices) {
  kit_model_init(model, 24);
  for (size_t i = 0; i < model->count; i++)
    kit_model_set(model, i, 3000 + 7919 * i, (int)i % devices, 1);
}

/* A model in device memory, a client, and no call counted yet. */
struct scene {
  struct cleat_client *client;
  struct kit_model model;
};

static struct scene scene_new(int devices) {
  struct scene scene;
  scene.client = kit_open(NULL);
  model_of(&scene.model, devices);
  return scene;
}

static void scene_free(struct scene *scene) {
  cleat_client_close(scene->client);
  kit_model_free(&scene->model);
  CHECK(fake_pinned_bytes() == 0);
}

static cleat_status save(struct scene *scene, int64_t step) {
  struct cleat_save_request request = kit_request(&scene->model, step);
  struct cleat_save *started = NULL;
  cleat_status status = cleat_save_async(scene->client, &request, &started, &kit_err);
  if (status != CLEAT_OK)
    return status;
  struct cleat_error ignored;
  (void)!cleat_save_wait_staged(started, &ignored);
  status = cleat_save_wait(started, &kit_err);
  cleat_save_free(started);
  return status;
}

/* Nothing of the step is to be seen, and the last good one still is. */
static void expect_only(struct scene *scene, int64_t step) {
  int64_t latest = -1;
  OK(cleat_latest(scene->client, &latest, &kit_err));
  CHECK(latest == step);
}

/* ---- No CUDA, and none needed ----------------------------------------------------------------- */

static void host_tensors_call_nothing(void) {
  fake_driver(0);
  struct cleat_client *client = kit_open(NULL);
  struct kit_model model;
  kit_model_init(&model, 5);
  for (size_t i = 0; i < model.count; i++)
    kit_model_set(&model, i, 50000 * i + 1, KIT_HOST, 1);
  struct cleat_save_request request = kit_request(&model, 1);
  struct cleat_save *started = NULL;
  request.device_snapshot = 1; /* of nothing */
  OK(cleat_save_async(client, &request, &started, &kit_err));
  OK(cleat_save_wait(started, &kit_err));
  cleat_save_free(started);
  OK(kit_load(client, 1, &model));
  CHECK(fake_calls(NULL) == 0);
  kit_model_free(&model);
  cleat_client_close(client);
  CHECK(fake_calls(NULL) == 0);
}

static void refused_with(const char *message, const char *hint) {
  static const unsigned char byte[1];
  int64_t size = 1;
  struct cleat_tensor tensor = {.name = "w", .dtype = CLEAT_DTYPE_U8, .ndim = 1, .shape = &size, .data = byte};
  struct cleat_place place = {CLEAT_DEVICE_CUDA, NULL};
  struct cleat_save_request request = CLEAT_SAVE_REQUEST_INIT;
  struct cleat_save *started = NULL;
  struct cleat_client *client = kit_open(NULL);
  request.tensors = &tensor;
  request.tensor_count = 1;
  request.places = &place;
  FAILS(cleat_save_async(client, &request, &started, &kit_err), UNSUPPORTED);
  CHECK(strstr(kit_err.message, message) != NULL);
  CHECK(strstr(kit_err.hint, hint) != NULL);
  struct cleat_client_options options = CLEAT_CLIENT_OPTIONS_INIT;
  struct cleat_client *other = NULL;
  options.cuda = 1;
  FAILS(cleat_client_open("file:///tmp", &options, &other, &kit_err), UNSUPPORTED);
  CHECK(strstr(kit_err.message, message) != NULL);
  cleat_client_close(client);
}

static void no_driver(void) {
  fake_driver(0);
  refused_with("no NVIDIA driver", "--gpus");
}

static void old_driver(void) {
  fake_driver(11040);
  refused_with("knows CUDA 11.4", "newer driver");
}

static void no_device(void) {
  fake_reset(1, 0, 0);
  refused_with("cudaErrorNoDevice", "CUDA_VISIBLE_DEVICES");
}

/* ---- Pinned memory ---------------------------------------------------------------------------- */

static void pinned_once(void) {
  struct scene scene = scene_new(2);
  CHECK(fake_pinned_bytes() == 0);
  OK(save(&scene, 1));
  CHECK(fake_pinned_bytes() == 8 * (64 << 10));
  unsigned before = fake_calls("cudaHostRegister") + fake_calls("cudaMallocAsync");
  OK(save(&scene, 2));
  OK(kit_load(scene.client, 2, &scene.model));
  CHECK(fake_calls("cudaHostRegister") + fake_calls("cudaMallocAsync") == before);
  CHECK(before == 1 && fake_calls("cudaHostAlloc") == 0);
  scene_free(&scene);
}

static void pinned_at_open(void) {
  struct cleat_client_options options = CLEAT_CLIENT_OPTIONS_INIT;
  options.cuda = 1;
  struct cleat_client *client = kit_open(&options);
  CHECK(fake_pinned_bytes() == 8 * (64 << 10));
  cleat_client_close(client);
  CHECK(fake_pinned_bytes() == 0);
}

/* Slow is better than not at all, and said. */
static void pinning_refused(void) {
  struct scene scene = scene_new(2);
  fake_fail("cudaHostRegister", 1, 1, cudaErrorMemoryAllocation);
  OK(save(&scene, 1));
  CHECK(strstr(kit_log(), "cannot pin") != NULL);
  kit_expect_saved(scene.client, 1, &scene.model, 1);
  OK(kit_load(scene.client, 1, &scene.model));
  kit_model_check(&scene.model, 1);
  scene_free(&scene);
}

/* Copies of memory that is not pinned may be as late as others: who fills a buffer, or reads one, waits all the
 * same. */
static void unpinned_memory_is_waited_for(void) {
  fake_late();
  struct scene scene = scene_new(2);
  fake_fail("cudaHostRegister", 1, 1, cudaErrorMemoryAllocation);
  OK(save(&scene, 1));
  OK(save(&scene, 2));
  CHECK(fake_pinned_bytes() == 0);
  kit_expect_saved(scene.client, 1, &scene.model, 1);
  kit_expect_saved(scene.client, 2, &scene.model, 1);
  kit_model_fill(&scene.model, 2);
  OK(kit_load(scene.client, 1, &scene.model));
  kit_model_check(&scene.model, 1);
  scene_free(&scene);
}

static struct {
  struct scene *scene;
  bool called;
} logged;

static void *save_elsewhere(void *arg) {
  *(cleat_status *)arg = save(logged.scene, 2);
  return NULL;
}

/* Waits for another thread, whose save needs the pinned memory too. */
static void log_that_waits(void *user, enum cleat_log_level level, const char *line) {
  pthread_t thread;
  cleat_status status = CLEAT_INTERNAL;
  (void)user, (void)level;
  if (strstr(line, "cannot pin") == NULL || logged.called)
    return;
  logged.called = true;
  CHECK(pthread_create(&thread, NULL, save_elsewhere, &status) == 0);
  struct timespec limit; /* of a failure alone */
  CHECK(clock_gettime(CLOCK_REALTIME, &limit) == 0);
  limit.tv_sec += 30;
  CHECK(pthread_timedjoin_np(thread, NULL, &limit) == 0);
  CHECK(status == CLEAT_OK);
}

/* No lock is held while the log function runs: what it waits for goes on. */
static void log_under_no_lock(void) {
  struct cleat_client_options options = CLEAT_CLIENT_OPTIONS_INIT;
  struct scene scene;
  options.log = log_that_waits;
  scene.client = kit_open(&options);
  model_of(&scene.model, 2);
  logged.scene = &scene;
  fake_fail("cudaHostRegister", 1, 1, cudaErrorMemoryAllocation);
  OK(save(&scene, 1));
  CHECK(logged.called);
  kit_expect_saved(scene.client, 1, &scene.model, 1);
  kit_expect_saved(scene.client, 2, &scene.model, 1);
  scene_free(&scene);
}

/* A driver before 12.8 knows no batches. */
static void no_batches(void) {
  struct scene scene = scene_new(1);
  fake_fail("cudaMemcpyBatchAsync", 1, ~0u, cudaErrorNotSupported);
  OK(save(&scene, 1));
  unsigned tried = fake_calls("cudaMemcpyBatchAsync");
  CHECK(tried > 0 && tried <= 16);
  OK(save(&scene, 2));
  CHECK(fake_calls("cudaMemcpyBatchAsync") == tried);
  CHECK(strstr(kit_log(), "one by one") != NULL);
  kit_expect_saved(scene.client, 2, &scene.model, 1);
  scene_free(&scene);
}

/* ---- Snapshots -------------------------------------------------------------------------------- */

static void snapshot_falls_back(struct scene *scene, int64_t step) {
  struct cleat_save_request request = kit_request(&scene->model, step);
  struct cleat_save *started = NULL;
  struct cleat_progress progress;
  request.device_snapshot = 1;
  size_t before = fake_device_bytes(0) + fake_device_bytes(1);
  OK(cleat_save_async(scene->client, &request, &started, &kit_err));
  OK(cleat_save_wait_staged(started, &kit_err));
  OK(cleat_save_wait(started, &kit_err));
  cleat_save_progress(started, &progress);
  CHECK(progress.device_snapshot == 0);
  CHECK(strstr(kit_log(), "no snapshot") != NULL);
  cleat_save_free(started);
  CHECK(fake_device_bytes(0) + fake_device_bytes(1) == before);
  kit_expect_saved(scene->client, step, &scene->model, 1);
}

static void snapshot_without_room(void) {
  struct scene scene = scene_new(2);
  void *hog = NULL;
  CUDA(cudaSetDevice(1));
  CUDA(cudaMalloc(&hog, KIT_DEVICE_BYTES - (2 << 20)));
  CUDA(cudaSetDevice(0));
  snapshot_falls_back(&scene, 1);
  CUDA(cudaFree(hog));
  scene_free(&scene);
}

static void snapshot_refused(void) {
  struct scene scene = scene_new(2);
  fake_fail("cudaMallocAsync", 2, 2, cudaErrorNotSupported);
  snapshot_falls_back(&scene, 1);
  scene_free(&scene);
}

/* ---- A device that is lost -------------------------------------------------------------------- */

static void lost_during(bool snapshot, unsigned at) {
  struct scene scene = scene_new(1);
  OK(save(&scene, 1));
  fake_lose(0, at);
  struct cleat_save_request request = kit_request(&scene.model, 2);
  struct cleat_save *started = NULL;
  request.device_snapshot = snapshot;
  cleat_status status = cleat_save_async(scene.client, &request, &started, &kit_err);
  if (status == CLEAT_OK) {
    if (at <= scene.model.count) /* else the snapshot was taken, and the fence is passed */
      FAILS(cleat_save_wait_staged(started, &kit_err), IO);
    FAILS(cleat_save_wait(started, &kit_err), IO);
    cleat_save_free(started);
  }
  CHECK(strstr(kit_err.message, "CUDA device 0") != NULL);
  CHECK(strstr(kit_err.hint, "resume") != NULL);
  FAILS(save(&scene, 3), IO);
  expect_only(&scene, 1);
  cleat_client_close(scene.client);
  kit_model_free(&scene.model);
}

static void lost_at_the_first_copy(void) {
  lost_during(false, 1);
}

static void lost_at_a_later_copy(void) {
  lost_during(false, 13);
}

static void lost_in_a_snapshot(void) {
  lost_during(true, 5);
}

static void lost_after_a_snapshot(void) {
  lost_during(true, 24 + 7);
}

static void lost_in_a_load(void) {
  struct scene scene = scene_new(1);
  OK(save(&scene, 1));
  fake_lose(0, 4);
  FAILS(kit_load(scene.client, 1, &scene.model), IO);
  CHECK(strstr(kit_err.message, "CUDA device 0") != NULL);
  cleat_client_close(scene.client);
  kit_model_free(&scene.model);
}

/* ---- Captures --------------------------------------------------------------------------------- */

/* Whether a call of this thread is refused while this one, or another thread, captures; the capture is spoilt then. */
static void *allocate(void *refused) {
  void *memory = NULL;
  cudaError_t code = cudaMalloc(&memory, 100);
  if (code == cudaSuccess)
    CUDA(cudaFree(memory));
  *(bool *)refused = code == cudaErrorStreamCaptureUnsupported;
  CHECK(code == cudaSuccess || *(bool *)refused);
  return NULL;
}

static bool is_refused_elsewhere(void) {
  pthread_t thread;
  bool refused = false;
  CHECK(pthread_create(&thread, NULL, allocate, &refused) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  return refused;
}

/* The stand-in refuses as the Runtime does, or the tests beside a capture would show nothing. */
static void the_stand_in_refuses(void) {
  enum cudaStreamCaptureMode modes[] = {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal,
                                        cudaStreamCaptureModeRelaxed};
  cudaStream_t stream = NULL;
  cudaGraph_t graph = NULL;
  CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  for (int i = 0; i < 3; i++) {
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    bool refused = false;
    CUDA(cudaStreamBeginCapture(stream, modes[i]));
    CUDA(cudaThreadExchangeStreamCaptureMode(&mode));
    allocate(&refused);
    CHECK(!refused && mode == cudaStreamCaptureModeGlobal);
    CUDA(cudaThreadExchangeStreamCaptureMode(&mode));
    CHECK(is_refused_elsewhere() == (modes[i] == cudaStreamCaptureModeGlobal));
    allocate(&refused);
    CHECK(refused == (modes[i] != cudaStreamCaptureModeRelaxed));
    CUDA(cudaStreamIsCapturing(stream, &status));
    CHECK((status == cudaStreamCaptureStatusInvalidated) == refused);
    CHECK(cudaStreamEndCapture(stream, &graph) == (refused ? cudaErrorStreamCaptureInvalidated : cudaSuccess));
    if (!refused)
      CUDA(cudaGraphDestroy(graph));
  }
  CUDA(cudaStreamDestroy(stream));
}

/* What is captured is not done, and counted; Cleat adds nothing to it. */
static void nothing_is_captured(void) {
  struct scene scene = scene_new(1);
  cudaStream_t stream = NULL;
  cudaGraph_t graph = NULL;
  CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  void *memory = (void *)(uintptr_t)scene.model.tensors[0].data;
  CUDA(cudaMemsetAsync(memory, 7, 10, stream));
  OK(save(&scene, 1));
  CHECK(fake_captured() == 1);
  CUDA(cudaStreamEndCapture(stream, &graph));
  CUDA(cudaGraphDestroy(graph));
  kit_expect_saved(scene.client, 1, &scene.model, 1);
  CUDA(cudaStreamDestroy(stream));
  scene_free(&scene);
}

/* ---- Every call, once ------------------------------------------------------------------------- */

static const char *const fallible[] = {
    "cudaDriverGetVersion", "cudaGetDeviceCount",        "cudaGetDevice",
    "cudaSetDevice",        "cudaPointerGetAttributes",  "cudaHostRegister",
    "cudaEventRecord",      "cudaStreamCreateWithFlags", "cudaEventCreateWithFlags",
    "cudaEventSynchronize", "cudaStreamWaitEvent",       "cudaMemcpyAsync",
    "cudaMemcpyBatchAsync", "cudaMemcpy2DAsync",         "cudaMallocAsync",
    "cudaMemGetInfo",       "cudaStreamIsCapturing",     "cudaThreadExchangeStreamCaptureMode",
};

/* One save with a snapshot and one load, whose `nth` call of the function fails: cleanly, or it does not matter. */
static void fail_once(struct scene *scene, const char *function, unsigned nth, int64_t step) {
  struct cleat_save_request request = kit_request(&scene->model, step);
  struct cleat_save *started = NULL;
  request.device_snapshot = 1;
  fake_fail(function, nth, nth, cudaErrorECCUncorrectable);
  cleat_status status = cleat_save_async(scene->client, &request, &started, &kit_err);
  if (status == CLEAT_OK) {
    status = cleat_save_wait(started, &kit_err);
    cleat_save_free(started);
  }
  CHECK(status == CLEAT_OK || status == CLEAT_IO || status == CLEAT_UNSUPPORTED);
  CHECK(status == CLEAT_OK || strchr(kit_err.message, '\n') == NULL);
  if (status == CLEAT_OK)
    (void)!kit_load(scene->client, step, &scene->model);
  fake_fail(function, 0, 0, cudaSuccess);
  if (status == CLEAT_OK)
    kit_expect_saved(scene->client, step, &scene->model, 1);
  kit_model_fill(&scene->model, 1);
}

static void every_call_fails_once(void) {
  struct scene scene = scene_new(2);
  int64_t step = 0;
  for (size_t i = 0; i < sizeof fallible / sizeof fallible[0]; i++) {
    for (unsigned nth = 1; nth <= 6; nth++)
      fail_once(&scene, fallible[i], nth, step++);
  }
  OK(save(&scene, step));
  kit_expect_saved(scene.client, step, &scene.model, 1);
  scene_free(&scene);
}

/* A part of which one copy cannot be begun lets go of its buffer when the others are done, and not before: the next
 * save fills it. Which streams are lazy is luck, so there are several tries. */
static void buffers_outlive_their_copies(void) {
  struct cleat_client_options options = CLEAT_CLIENT_OPTIONS_INIT;
  struct cleat_save *failed[8];
  struct kit_model model;
  struct kit_model host;
  options.staging_bytes = options.part_bytes = 64 << 10;
  struct cleat_client *client = kit_open(&options);
  kit_model_init(&model, 200);
  for (size_t i = 0; i < model.count; i++)
    kit_model_set(&model, i, 100, 0, 1);
  fake_fail("cudaMemcpyBatchAsync", 1, ~0u, cudaErrorNotSupported);
  kit_model_init(&host, 1);
  kit_model_set(&host, 0, 50000, KIT_HOST, 1);
  for (int64_t i = 0; i < 8; i++) {
    struct cleat_save_request request = kit_request(&model, 2 * i);
    fake_fail("cudaMemcpyAsync", 150, 150, cudaErrorECCUncorrectable);
    OK(cleat_save_async(client, &request, &failed[i], &kit_err));
    FAILS(cleat_save_wait(failed[i], &kit_err), IO);
    struct cleat_save *next = NULL;
    request = kit_request(&host, 2 * i + 1);
    OK(cleat_save_async(client, &request, &next, &kit_err));
    OK(cleat_save_wait(next, &kit_err));
    cleat_save_free(next);
    kit_expect_saved(client, 2 * i + 1, &host, 1);
  }
  for (int i = 0; i < 8; i++)
    cleat_save_free(failed[i]);
  cleat_client_close(client);
  kit_model_free(&model);
  kit_model_free(&host);
}

/* Every allocation of a save with a snapshot, and of a load, fails once: an error, or it does not matter. */
static void every_allocation_fails_once(void) {
  struct scene scene = scene_new(2);
  struct cleat_save_request request = kit_request(&scene.model, 1);
  unsigned long nth = 1;
  for (bool failed = true; failed; nth++) {
    struct cleat_save *started = NULL;
    request.step++;
    request.device_snapshot = 1;
    cleat__fault_arm(nth, false);
    cleat_status status = cleat_save_async(scene.client, &request, &started, &kit_err);
    if (status == CLEAT_OK) {
      status = cleat_save_wait(started, &kit_err);
      cleat_save_free(started);
    }
    failed = cleat__fault_disarm() >= nth;
    CHECK(status == CLEAT_OK || (kit_err.status == status && kit_err.message[0] != '\0'));
    if (status == CLEAT_OK)
      kit_expect_saved(scene.client, request.step, &scene.model, 1);
  }
  CHECK(nth > 50);
  for (nth = 1; nth <= 60; nth++) {
    cleat__fault_arm(nth, false);
    cleat_status status = kit_load(scene.client, request.step, &scene.model);
    (void)cleat__fault_disarm();
    CHECK(status == CLEAT_OK || (kit_err.status == status && kit_err.message[0] != '\0'));
  }
  OK(kit_load(scene.client, request.step, &scene.model));
  kit_model_check(&scene.model, 1);
  scene_free(&scene);
}

int main(void) {
  static const struct kit_case cases[] = {
      {"host_tensors_call_nothing", host_tensors_call_nothing},
      {"no_driver", no_driver},
      {"old_driver", old_driver},
      {"no_device", no_device},
      {"pinned_once", pinned_once},
      {"pinned_at_open", pinned_at_open},
      {"pinning_refused", pinning_refused},
      {"unpinned_memory_is_waited_for", unpinned_memory_is_waited_for},
      {"log_under_no_lock", log_under_no_lock},
      {"the_stand_in_refuses", the_stand_in_refuses},
      {"nothing_is_captured", nothing_is_captured},
      {"no_batches", no_batches},
      {"snapshot_without_room", snapshot_without_room},
      {"snapshot_refused", snapshot_refused},
      {"lost_at_the_first_copy", lost_at_the_first_copy},
      {"lost_at_a_later_copy", lost_at_a_later_copy},
      {"lost_in_a_snapshot", lost_in_a_snapshot},
      {"lost_after_a_snapshot", lost_after_a_snapshot},
      {"lost_in_a_load", lost_in_a_load},
      {"buffers_outlive_their_copies", buffers_outlive_their_copies},
      {"every_allocation_fails_once", every_allocation_fails_once},
      {"every_call_fails_once", every_call_fails_once},
  };
  return kit_main(cases, sizeof cases / sizeof cases[0]);
}
