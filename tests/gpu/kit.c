/* See kit.h. */
#include "tests/gpu/kit.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CASE_SECONDS 120u
#define EXIT_SKIPPED 77
#define NAME_BYTES 24

struct cleat_error kit_err;
static char folder[] = "/tmp/cleat-gpu-XXXXXX";
static char log_text[8192];
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;

void kit_fail(const char *file, int line, const char *format, ...) {
  va_list args;
  va_start(args, format);
  fprintf(stderr, "%s:%d: ", file, line);
  vfprintf(stderr, format, args);
  fputc('\n', stderr);
  va_end(args);
  _exit(1);
}

void kit_skip(const char *why) {
  printf("skipped: %s\n", why);
  fflush(stdout);
  _exit(EXIT_SKIPPED);
}

void kit_status(cleat_status got, cleat_status wanted, const char *what, const char *file, int line) {
  if (got != wanted)
    kit_fail(file, line, "%s: %s, not %s: %s (%s)", what, cleat_status_name(got), cleat_status_name(wanted),
             got != CLEAT_OK ? kit_err.message : "", kit_err.hint);
}

/* ---- Running ---------------------------------------------------------------------------------- */

static unsigned seed_of_run(void) {
  const char *given = getenv("CLEAT_FAKE_SEED");
  return given != NULL ? (unsigned)strtoul(given, NULL, 10) : (unsigned)time(NULL);
}

static void run_child(const struct kit_case *test, unsigned seed) {
  alarm(CASE_SECONDS);
#ifdef CLEAT_FAKE_CUDART
  fake_reset(seed, 2, KIT_DEVICE_BYTES);
#else
  (void)seed;
#endif
  test->run();
#ifdef CLEAT_FAKE_CUDART
  if (fake_misuses() != 0)
    kit_fail(test->name, 0, "%u misuses of the Runtime", fake_misuses());
#endif
  exit(0); /* and not _exit: sanitizers look for leaks */
}

static int run_case(const struct kit_case *test, unsigned seed) {
  fflush(stdout);
  (void)snprintf(folder + sizeof folder - 7, 7, "XXXXXX");
  if (mkdtemp(folder) == NULL)
    return 1;
  pid_t child = fork();
  if (child == 0)
    run_child(test, seed);
  int status = 0;
  waitpid(child, &status, 0);
  char command[128];
  (void)snprintf(command, sizeof command, "rm -rf %s", folder);
  if (system(command) != 0)
    fprintf(stderr, "%s stays\n", folder);
  if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SKIPPED) {
    printf("skipped - %s\n", test->name);
    return 0;
  }
  bool ok = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  if (WIFSIGNALED(status))
    fprintf(stderr, "%s: ended by signal %d\n", test->name, WTERMSIG(status));
  printf("%s - %s\n", ok ? "ok" : "not ok", test->name);
  return !ok;
}

int kit_main(const struct kit_case *cases, size_t count) {
  unsigned seed = seed_of_run();
  const char *only = getenv("CLEAT_GPU_CASE");
  int failed = 0;
#ifdef CLEAT_FAKE_CUDART
  printf("stand-in for the CUDA Runtime, CLEAT_FAKE_SEED=%u\n", seed);
#endif
  for (size_t i = 0; i < count; i++) {
    if (only == NULL || strcmp(only, cases[i].name) == 0)
      failed += run_case(&cases[i], seed);
  }
  return failed > 0;
}

/* ---- Clients ---------------------------------------------------------------------------------- */

static void log_line(void *user, enum cleat_log_level level, const char *line) {
  (void)user;
  (void)level;
  pthread_mutex_lock(&log_lock);
  size_t length = strlen(log_text);
  (void)snprintf(log_text + length, sizeof log_text - length, "%s\n", line);
  pthread_mutex_unlock(&log_lock);
}

const char *kit_log(void) {
  static char copy[sizeof log_text];
  pthread_mutex_lock(&log_lock);
  memcpy(copy, log_text, sizeof copy);
  pthread_mutex_unlock(&log_lock);
  return copy;
}

struct cleat_client *kit_open(const struct cleat_client_options *given) {
  struct cleat_client_options options = CLEAT_CLIENT_OPTIONS_INIT;
  char url[64];
  struct cleat_client *client = NULL;
  if (given != NULL)
    options = *given;
  if (options.part_bytes == 0)
    options.part_bytes = 64 << 10;
  if (options.staging_bytes == 0)
    options.staging_bytes = 8 * options.part_bytes;
  if (options.log == NULL)
    options.log = log_line;
  (void)snprintf(url, sizeof url, "file://%s", folder);
  OK(cleat_client_open(url, &options, &client, &kit_err));
  return client;
}

int kit_devices(void) {
  int count = 0;
  CUDA(cudaGetDeviceCount(&count));
  return count;
}

/* ---- Models ----------------------------------------------------------------------------------- */

static void fill(unsigned char *bytes, size_t size, size_t index, unsigned salt) {
  unsigned state = (unsigned)index * 2654435761u + salt * 40503u + 1;
  for (size_t i = 0; i < size; i++) {
    state = state * 1664525u + 1013904223u;
    bytes[i] = (unsigned char)(state >> 24);
  }
}

/* The contents, in new memory. */
static unsigned char *made(size_t size, size_t index, unsigned salt) {
  unsigned char *bytes = malloc(size + 1);
  CHECK(bytes != NULL);
  fill(bytes, size, index, salt);
  return bytes;
}

void kit_model_init(struct kit_model *model, size_t count) {
  model->count = count;
  model->tensors = calloc(count, sizeof(*model->tensors));
  model->places = calloc(count, sizeof(*model->places));
  model->sizes = calloc(count, sizeof(*model->sizes));
  CHECK(model->tensors != NULL && model->places != NULL && model->sizes != NULL);
  for (size_t i = 0; i < count; i++) {
    char *name = malloc(NAME_BYTES);
    CHECK(name != NULL);
    (void)snprintf(name, NAME_BYTES, "t%04zu", i);
    model->tensors[i].name = name;
    model->tensors[i].dtype = CLEAT_DTYPE_U8;
    model->tensors[i].ndim = 1;
    model->tensors[i].shape = &model->sizes[i];
  }
}

void kit_model_set(struct kit_model *model, size_t index, size_t bytes, int device, unsigned salt) {
  void *memory = NULL;
  model->sizes[index] = (int64_t)bytes;
  if (device == KIT_HOST) {
    memory = made(bytes, index, salt);
  } else {
    unsigned char *contents = made(bytes, index, salt);
    CUDA(cudaSetDevice(device));
    CUDA(cudaMalloc(&memory, bytes));
    CUDA(cudaMemcpy(memory, contents, bytes, cudaMemcpyHostToDevice));
    CUDA(cudaSetDevice(0));
    free(contents);
    model->places[index].device = CLEAT_DEVICE_CUDA;
  }
  model->tensors[index].data = memory;
}

void kit_model_fill(struct kit_model *model, unsigned salt) {
  for (size_t i = 0; i < model->count; i++) {
    unsigned char *contents = made((size_t)model->sizes[i], i, salt);
    void *to = (void *)(uintptr_t)model->tensors[i].data;
    if (model->places[i].device == CLEAT_DEVICE_CUDA)
      CUDA(cudaMemcpy(to, contents, (size_t)model->sizes[i], cudaMemcpyHostToDevice));
    else if (to != NULL)
      memcpy(to, contents, (size_t)model->sizes[i]);
    free(contents);
  }
}

void kit_model_check(struct kit_model *model, unsigned salt) {
  for (size_t i = 0; i < model->count; i++) {
    size_t size = (size_t)model->sizes[i];
    unsigned char *wanted = made(size, i, salt);
    unsigned char *got = malloc(size + 1);
    CHECK(got != NULL);
    if (model->places[i].device == CLEAT_DEVICE_CUDA)
      CUDA(cudaMemcpy(got, model->tensors[i].data, size, cudaMemcpyDeviceToHost));
    else if (size > 0)
      memcpy(got, model->tensors[i].data, size);
    if (memcmp(got, wanted, size) != 0)
      kit_fail(__FILE__, __LINE__, "tensor %zu holds other bytes", i);
    free(wanted);
    free(got);
  }
}

void kit_model_free(struct kit_model *model) {
  for (size_t i = 0; i < model->count; i++) {
    void *memory = (void *)(uintptr_t)model->tensors[i].data;
    if (model->places[i].device == CLEAT_DEVICE_CUDA)
      (void)cudaFree(memory);
    else
      free(memory);
    free((void *)(uintptr_t)model->tensors[i].name);
  }
  free(model->tensors);
  free(model->places);
  free(model->sizes);
}

struct cleat_save_request kit_request(const struct kit_model *model, int64_t step) {
  struct cleat_save_request request = CLEAT_SAVE_REQUEST_INIT;
  request.step = step;
  request.tensors = model->tensors;
  request.tensor_count = model->count;
  request.places = model->places;
  return request;
}

cleat_status kit_load(struct cleat_client *client, int64_t step, struct kit_model *model) {
  struct cleat_checkpoint *checkpoint = NULL;
  struct cleat_load_options options = CLEAT_LOAD_OPTIONS_INIT;
  struct cleat_load_request *requests = calloc(model->count, sizeof(*requests));
  CHECK(requests != NULL);
  options.places = model->places;
  for (size_t i = 0; i < model->count; i++) {
    const struct cleat_tensor *tensor = &model->tensors[i];
    requests[i].name = tensor->name;
    requests[i].dtype = tensor->dtype;
    requests[i].ndim = 1;
    requests[i].shape = tensor->shape;
    requests[i].data = (void *)(uintptr_t)tensor->data;
    requests[i].data_bytes = (uint64_t)model->sizes[i];
  }
  cleat_status status = cleat_checkpoint_open(client, step, &checkpoint, &kit_err);
  if (status == CLEAT_OK)
    status = cleat_load_tensors(checkpoint, requests, model->count, &options, &kit_err);
  cleat_checkpoint_free(checkpoint);
  free(requests);
  return status;
}

void kit_expect_saved(struct cleat_client *client, int64_t step, const struct kit_model *model, unsigned salt) {
  struct kit_model host;
  kit_model_init(&host, model->count);
  for (size_t i = 0; i < model->count; i++)
    kit_model_set(&host, i, (size_t)model->sizes[i], KIT_HOST, salt + 1);
  OK(kit_load(client, step, &host));
  kit_model_check(&host, salt);
  kit_model_free(&host);
}
