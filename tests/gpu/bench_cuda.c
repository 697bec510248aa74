/* What a GPU trainer feels of Cleat, measured on the machine at hand against what its device can do.
 *
 * usage: bench_cuda [MIB]    the size of the checkpoint, 4096 by default
 *
 * The store is a folder under TMPDIR (best one in memory: /dev/shm). Each figure is the best of several runs, but the
 * slow-down, which is the median. There is no kernel: what stands for the training step is copying inside the device,
 * which competes for the memory that a save reads. */
#include "tests/gpu/kit.h"
#include "uploader/engine/lanes.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define RUNS 5
#define TENSORS 2000
#define SMALL_TENSORS 5000
#define STEP_COPIES 64

static size_t total_bytes = (size_t)4096 << 20;
static char url[512];
static int64_t next_step;

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void *device_memory(size_t bytes) {
  void *memory = NULL;
  CUDA(cudaMalloc(&memory, bytes));
  CUDA(cudaMemsetAsync(memory, 7, bytes, NULL));
  return memory;
}

static void say(const char *what, double value, const char *unit, const char *target) {
  printf("%-58s %10.3f %-5s %s\n", what, value, unit, target);
  fflush(stdout);
}

/* ---- What the device can do ------------------------------------------------------------------- */

/* One large copy between pinned and device memory, in bytes a second. */
static double plain_rate(void *to, const void *from, size_t bytes) {
  cudaStream_t stream = NULL;
  double best = 0;
  CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  for (int i = 0; i < RUNS; i++) {
    CUDA(cudaDeviceSynchronize());
    double begun = seconds();
    CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream));
    CUDA(cudaStreamSynchronize(stream));
    double rate = (double)bytes / (seconds() - begun);
    best = rate > best ? rate : best;
  }
  CUDA(cudaStreamDestroy(stream));
  return best;
}

/* ---- Saves ------------------------------------------------------------------------------------ */

static struct cleat_client *open_client(uint64_t staging_bytes) {
  struct cleat_client_options options = CLEAT_CLIENT_OPTIONS_INIT;
  struct cleat_client *client = NULL;
  options.staging_bytes = staging_bytes;
  options.cuda = 1;
  OK(cleat_client_open(url, &options, &client, &kit_err));
  return client;
}

struct tensors {
  struct cleat_tensor *tensors;
  struct cleat_place *places;
  int64_t *sizes;
  char (*names)[16];
  size_t count;
  size_t bytes;
};

/* `size(i)` gives weights that are scaled to `bytes` in all. */
static struct tensors tensors_new(size_t count, size_t bytes, bool mixed) {
  struct tensors made = {.count = count};
  made.tensors = calloc(count, sizeof(*made.tensors));
  made.places = calloc(count, sizeof(*made.places));
  made.sizes = calloc(count, sizeof(*made.sizes));
  made.names = calloc(count, sizeof(*made.names));
  CHECK(made.tensors != NULL && made.places != NULL && made.sizes != NULL && made.names != NULL);
  /* Of every 10: biases and norms of 1 and 4 parts, and matrices of 100 to 400. */
  static const size_t weights[10] = {1, 4, 100, 100, 4, 1, 400, 200, 4, 200};
  for (size_t i = 0; i < count; i++) {
    size_t size = mixed ? bytes / count * 10 / 1014 * weights[i % 10] : bytes / count;
    (void)snprintf(made.names[i], sizeof made.names[i], "t%u", (unsigned)i % 1000000u);
    made.sizes[i] = (int64_t)size;
    made.bytes += size;
    made.places[i].device = CLEAT_DEVICE_CUDA;
    made.tensors[i].name = made.names[i];
    made.tensors[i].dtype = CLEAT_DTYPE_U8;
    made.tensors[i].ndim = 1;
    made.tensors[i].shape = &made.sizes[i];
    made.tensors[i].data = device_memory(size);
  }
  CUDA(cudaDeviceSynchronize());
  return made;
}

static void tensors_free(struct tensors *made) {
  for (size_t i = 0; i < made->count; i++)
    CUDA(cudaFree((void *)(uintptr_t)made->tensors[i].data));
  free(made->tensors);
  free(made->places);
  free(made->sizes);
  free(made->names);
}

static struct cleat_save *begin_save(struct cleat_client *client, const struct tensors *given, bool snapshot) {
  struct cleat_save_request request = CLEAT_SAVE_REQUEST_INIT;
  struct cleat_save *save = NULL;
  request.step = next_step++;
  request.tensors = given->tensors;
  request.tensor_count = given->count;
  request.places = given->places;
  request.device_snapshot = snapshot;
  OK(cleat_save_async(client, &request, &save, &kit_err));
  return save;
}

static void empty_folder(void) {
  char command[600];
  (void)snprintf(command, sizeof command, "rm -rf '%s'/*", url + strlen("file://"));
  if (system(command) != 0)
    fprintf(stderr, "cannot empty the folder\n");
}

/* From the call to the end of the fence; the first save is not counted. */
static double fence_seconds(struct cleat_client *client, const struct tensors *given, bool snapshot) {
  double best = 1e9;
  for (int i = 0; i <= RUNS; i++) {
    double begun = seconds();
    struct cleat_save *save = begin_save(client, given, snapshot);
    OK(cleat_save_wait_staged(save, &kit_err));
    double fence = seconds() - begun;
    OK(cleat_save_wait(save, &kit_err));
    cleat_save_free(save);
    empty_folder();
    best = i > 0 && fence < best ? fence : best;
  }
  return best;
}

static void measure_fence(double rate) {
  struct tensors given = tensors_new(TENSORS, total_bytes, true);
  struct cleat_client *client = open_client(total_bytes + ((uint64_t)256 << 20));
  double fence = fence_seconds(client, &given, false);
  say("fence, 2000 tensors of mixed sizes", fence * 1e3, "ms", "");
  say("  staging / one large copy out", (double)given.bytes / fence / rate, "x", ">= 0.9");
  say("  fence / (bytes / one large copy out)", fence / ((double)given.bytes / rate), "x", "<= 1.15");
  say("fence with a device snapshot", fence_seconds(client, &given, true) * 1e3, "ms", "");
  cleat_client_close(client);
  tensors_free(&given);

  given = tensors_new(SMALL_TENSORS, (size_t)SMALL_TENSORS * 4096, false);
  client = open_client((uint64_t)256 << 20);
  say("fence, 5000 tensors of 4 KiB", fence_seconds(client, &given, false) * 1e3, "ms", "<= 25");
  cleat_client_close(client);
  tensors_free(&given);
}

/* ---- Copies in, as a load makes them ---------------------------------------------------------- */

struct loader {
  const struct cleat__lanes *lanes;
  unsigned lane;
  char *to, *from;
  size_t from_bytes, part_bytes, parts;
};

/* What each worker of a load does with a part that has arrived and was checked. */
static void *copy_parts(void *arg) {
  const struct loader *loader = arg;
  struct cleat__batch batch;
  for (size_t i = 0; i < loader->parts; i++) {
    size_t at = i * loader->part_bytes;
    cleat__batch_init(&batch, loader->lanes);
    struct cleat__stretch stretch = {loader->to + at, loader->from + at % loader->from_bytes, loader->part_bytes};
    cleat_status status = cleat__batch_add(&batch, loader->lane, 0, stretch, &kit_err);
    OK(cleat__batch_end(&batch, status, &kit_err));
  }
  return NULL;
}

static void measure_load(double rate) {
  enum { WORKERS = 4 };
  struct cleat_client *client = open_client((uint64_t)256 << 20);
  struct cleat_place place = {CLEAT_DEVICE_CUDA, NULL};
  struct cleat__lanes lanes;
  pthread_t threads[WORKERS];
  struct loader loaders[WORKERS];
  size_t block_bytes = 0;
  char *block = cleat__staging_block(client->staging, &block_bytes);
  size_t parts = total_bytes / client->part_bytes / WORKERS;
  char *memory = device_memory(parts * client->part_bytes * WORKERS + 1);
  double best = 0;
  unsigned lane = 0;
  cleat__lanes_init(&lanes, client);
  OK(cleat__lanes_find(&lanes, &place, memory, &lane, &kit_err));
  for (int run = 0; run < RUNS; run++) {
    double begun = seconds();
    for (size_t i = 0; i < WORKERS; i++) {
      loaders[i] = (struct loader){.lanes = &lanes,
                                   .lane = lane,
                                   .to = memory + i * parts * client->part_bytes,
                                   .from = block + i * (block_bytes / WORKERS),
                                   .from_bytes = block_bytes / WORKERS,
                                   .part_bytes = client->part_bytes,
                                   .parts = parts};
      CHECK(pthread_create(&threads[i], NULL, copy_parts, &loaders[i]) == 0);
    }
    for (size_t i = 0; i < WORKERS; i++)
      pthread_join(threads[i], NULL);
    double copied = (double)(parts * client->part_bytes * WORKERS) / (seconds() - begun);
    best = copied > best ? copied : best;
  }
  say("copies in of a load's parts / one large copy in", best / rate, "x", ">= 0.9");
  cleat__lanes_clear(&lanes);
  CUDA(cudaFree(memory));
  cleat_client_close(client);
}

/* ---- Slow-down -------------------------------------------------------------------------------- */

static double step_seconds(cudaStream_t stream, char *memory, size_t half) {
  double begun = seconds();
  for (int i = 0; i < STEP_COPIES; i++)
    CUDA(cudaMemcpyAsync(memory + half, memory, half, cudaMemcpyDefault, stream));
  CUDA(cudaStreamSynchronize(stream));
  return seconds() - begun;
}

static int compare(const void *a, const void *b) {
  double left = *(const double *)a;
  double right = *(const double *)b;
  return left < right ? -1 : left > right;
}

/* Steps on a stream of their own while a save of other memory runs, against steps alone. */
static void measure_slow_down(void) {
  struct tensors given = tensors_new(TENSORS, total_bytes / 4, true);
  struct cleat_client *client = open_client(total_bytes);
  size_t half = total_bytes / 8;
  char *memory = device_memory(2 * half);
  cudaStream_t stream = NULL;
  double alone[2 * RUNS];
  double beside[2 * RUNS];
  CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  (void)step_seconds(stream, memory, half);
  for (int i = 0; i < 2 * RUNS; i++) {
    alone[i] = step_seconds(stream, memory, half);
    struct cleat_save *save = begin_save(client, &given, false);
    beside[i] = step_seconds(stream, memory, half);
    OK(cleat_save_wait(save, &kit_err));
    cleat_save_free(save);
    empty_folder();
  }
  qsort(alone, 2 * RUNS, sizeof(double), compare);
  qsort(beside, 2 * RUNS, sizeof(double), compare);
  say("a step of copies inside the device", alone[RUNS] * 1e3, "ms", "");
  say("  slow-down beside a save", (beside[RUNS] / alone[RUNS] - 1) * 100, "%", "<= 3");
  CUDA(cudaStreamDestroy(stream));
  CUDA(cudaFree(memory));
  cleat_client_close(client);
  tensors_free(&given);
}

int main(int argc, char **argv) {
  const char *base = getenv("TMPDIR");
  char folder[256];
  if (argc > 1)
    total_bytes = (size_t)strtoull(argv[1], NULL, 10) << 20;
#ifdef CLEAT_FAKE_CUDART
  fake_reset(1, 1, (size_t)2 << 30);
#endif
  CHECK(total_bytes >= (size_t)64 << 20);
  (void)snprintf(folder, sizeof folder, "%s/cleat-bench-XXXXXX",
                 base != NULL                    ? base
                 : access("/dev/shm", W_OK) == 0 ? "/dev/shm"
                                                 : "/tmp");
  CHECK(mkdtemp(folder) != NULL);
  (void)snprintf(url, sizeof url, "file://%s", folder);

  void *host = NULL;
  void *device = device_memory(total_bytes);
  CUDA(cudaHostAlloc(&host, total_bytes, cudaHostAllocPortable));
  memset(host, 1, total_bytes);
  double out = plain_rate(host, device, total_bytes);
  double in = plain_rate(device, host, total_bytes);
  CUDA(cudaFreeHost(host));
  CUDA(cudaFree(device));
  say("one large copy out, into pinned memory", out / 1e9, "GB/s", "");
  say("one large copy in", in / 1e9, "GB/s", "");
  measure_fence(out);
  measure_load(in);
  measure_slow_down();
  empty_folder();
  if (rmdir(folder) != 0)
    fprintf(stderr, "%s stays\n", folder);
  return 0;
}
