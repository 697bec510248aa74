/* Saves and loads next to the capture of a CUDA graph: on the stand-in, and on a real device. In its default mode a
 * capture is ended by calls that are no work of a stream, whoever makes them: none of Cleat's may be one. */
#include "tests/gpu/kit.h"

#include <pthread.h>
#include <string.h>

/* Parts of one tensor, of several, and of many. */
static void model_of(struct kit_model *model) {
  kit_model_init(model, 12);
  for (size_t i = 0; i < model->count; i++)
    kit_model_set(model, i, i == 3 ? 200000 : 1 + 997 * i, 0, 1);
}

/* The graph of what `stream` captured; the capture must have been left alone. */
static void end_capture(cudaStream_t stream) {
  cudaGraph_t graph = NULL;
  CUDA(cudaStreamEndCapture(stream, &graph));
  CHECK(graph != NULL);
  CUDA(cudaGraphDestroy(graph));
}

/* All that a client does, from opening and pinning to closing, while `stream` is being captured. */
static void live_beside_a_capture(struct kit_model *model, int64_t step) {
  struct cleat_client *client = kit_open(NULL);
  struct cleat_save_request request = kit_request(model, step);
  struct cleat_save *save = NULL;
  OK(cleat_save_async(client, &request, &save, &kit_err));
  OK(cleat_save_wait_staged(save, &kit_err));
  OK(cleat_save_wait(save, &kit_err));
  cleat_save_free(save);
  request.step = step + 1;
  request.device_snapshot = 1;
  OK(cleat_save_async(client, &request, &save, &kit_err));
  OK(cleat_save_wait(save, &kit_err));
  cleat_save_free(save);
  OK(kit_load(client, step, model));
  kit_expect_saved(client, step + 1, model, 1);
  cleat_client_close(client);
}

static const enum cudaStreamCaptureMode capture_modes[] = {
    cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeRelaxed};

/* The thread that saves captures, too, in each mode. Its own mode is what it was. */
static void beside_a_capture(void) {
  cudaStream_t stream = NULL;
  struct kit_model model;
  model_of(&model);
  CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  for (int i = 0; i < 3; i++) {
    enum cudaStreamCaptureMode mode = capture_modes[2 - i];
    CUDA(cudaStreamBeginCapture(stream, capture_modes[i]));
    CUDA(cudaThreadExchangeStreamCaptureMode(&mode));
    live_beside_a_capture(&model, 10 * i);
    CUDA(cudaThreadExchangeStreamCaptureMode(&mode));
    CHECK(mode == capture_modes[2 - i]);
    end_capture(stream);
  }
  kit_model_check(&model, 1);
  CUDA(cudaStreamDestroy(stream));
  kit_model_free(&model);
}

static struct {
  pthread_barrier_t meet;
  cudaStream_t stream;
} other;

/* Captures from the first meeting to the second. */
static void *capture_elsewhere(void *arg) {
  (void)arg;
  CUDA(cudaStreamBeginCapture(other.stream, cudaStreamCaptureModeGlobal));
  pthread_barrier_wait(&other.meet);
  pthread_barrier_wait(&other.meet);
  end_capture(other.stream);
  return NULL;
}

static void beside_a_capture_elsewhere(void) {
  pthread_t thread;
  struct kit_model model;
  model_of(&model);
  CUDA(cudaStreamCreateWithFlags(&other.stream, cudaStreamNonBlocking));
  CHECK(pthread_barrier_init(&other.meet, NULL, 2) == 0);
  CHECK(pthread_create(&thread, NULL, capture_elsewhere, NULL) == 0);
  pthread_barrier_wait(&other.meet);
  live_beside_a_capture(&model, 1);
  pthread_barrier_wait(&other.meet);
  CHECK(pthread_join(thread, NULL) == 0);
  kit_model_check(&model, 1);
  CUDA(cudaStreamDestroy(other.stream));
  kit_model_free(&model);
}

/* A save or load behind a stream that is being captured, by name or as the default stream would wait for it. */
static void refused_behind(struct kit_model *model, cudaStream_t captured, void *named) {
  struct cleat_client *client = kit_open(NULL);
  struct cleat_save_request request = kit_request(model, 1);
  struct cleat_save *save = NULL;
  OK(cleat_save(client, &request, &kit_err));
  model->places[1].stream = named;
  CUDA(cudaStreamBeginCapture(captured, cudaStreamCaptureModeGlobal));
  request.step = 2;
  FAILS(cleat_save_async(client, &request, &save, &kit_err), INVALID);
  CHECK(strstr(kit_err.message, "captured into a CUDA graph") != NULL);
  CHECK(strstr(kit_err.message, "tensor t000") != NULL);
  CHECK(strstr(kit_err.hint, "cudaStreamEndCapture") != NULL);
  FAILS(kit_load(client, 1, model), INVALID);
  end_capture(captured);
  OK(cleat_save(client, &request, &kit_err));
  kit_expect_saved(client, 2, model, 1);
  cleat_client_close(client);
}

static void behind_a_captured_stream(void) {
  cudaStream_t captured = NULL;
  cudaStream_t beside = NULL;
  struct kit_model model;
  model_of(&model);
  CUDA(cudaStreamCreateWithFlags(&captured, cudaStreamNonBlocking));
  CUDA(cudaStreamCreateWithFlags(&beside, cudaStreamNonBlocking));
  for (size_t i = 0; i < model.count; i++)
    model.places[i].stream = beside;
  refused_behind(&model, captured, captured);
  kit_model_check(&model, 1);
  kit_model_free(&model);
  CUDA(cudaStreamDestroy(captured));
  CUDA(cudaStreamDestroy(beside));
}

static void behind_the_default_stream_of_a_capture(void) {
  cudaStream_t blocking = NULL;
  struct kit_model model;
  model_of(&model);
  CUDA(cudaStreamCreateWithFlags(&blocking, 0));
  refused_behind(&model, blocking, NULL);
  kit_model_check(&model, 1);
  kit_model_free(&model);
  CUDA(cudaStreamDestroy(blocking));
}

int main(void) {
  static const struct kit_case cases[] = {
      {"beside_a_capture", beside_a_capture},
      {"beside_a_capture_elsewhere", beside_a_capture_elsewhere},
      {"behind_a_captured_stream", behind_a_captured_stream},
      {"behind_the_default_stream_of_a_capture", behind_the_default_stream_of_a_capture},
  };
  return kit_main(cases, sizeof cases / sizeof cases[0]);
}
