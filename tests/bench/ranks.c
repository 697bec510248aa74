/* Many ranks of one job, as threads of one process. Prints one JSON object.
 *
 * usage: ranks commit DIR COUNT        COUNT ranks save a tensor together: seconds in all, and from the last rank
 *                                      record to the visible manifest, by the times of these files
 *        ranks reshard DIR FROM TO     FROM ranks save a matrix by rows, TO ranks load it by rows: bytes read for each
 *                                      byte that was asked for */
#include "tests/bench/measure.h"

#include <dirent.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PART ((uint64_t)64 * 1024)
#define STACK_BYTES ((size_t)256 * 1024)
/* Of a rank's rows in the matrix: 64 parts. */
#define ROW_BYTES ((int64_t)4096)
#define ROWS 1024

enum job { SAVE, LOAD };

struct rank {
  const char *url;
  enum job job;
  unsigned number, world_size;
  int64_t rows;         /* of the matrix */
  int64_t first, count; /* ours */
  uint64_t read_bytes;
  pthread_t thread;
};

static struct cleat_client *open_client(const struct rank *rank) {
  struct cleat_client_options options = CLEAT_CLIENT_OPTIONS_INIT;
  struct cleat_client *client = NULL;
  struct cleat_error err;
  options.start = rank->job == SAVE ? "bench" : "bench-again";
  options.rank = rank->number;
  options.world_size = rank->world_size;
  options.part_bytes = PART;
  options.staging_bytes = 4 * PART;
  options.staging_on_demand = 1;
  options.concurrency = 2;
  check(cleat_client_open(rank->url, &options, &client, &err), &err);
  return client;
}

static void save_rows(const struct rank *rank, struct cleat_client *client, void *rows) {
  const int64_t whole[2] = {rank->rows, ROW_BYTES}, start[2] = {rank->first, 0};
  const int64_t shape[2] = {rank->count, ROW_BYTES};
  struct cleat_tensor tensor = {"matrix", CLEAT_DTYPE_U8, 2, shape, rows};
  struct cleat_shard shard = {.global_shape = whole, .start = start};
  struct cleat_save_request request = CLEAT_SAVE_REQUEST_INIT;
  struct cleat_error err;
  memset(rows, (int)rank->number, (size_t)(rank->count * ROW_BYTES));
  request.step = 1;
  request.tensors = &tensor;
  request.shards = &shard;
  request.tensor_count = 1;
  check(cleat_save(client, &request, &err), &err);
}

static void load_rows(struct rank *rank, struct cleat_client *client, void *rows) {
  const int64_t start[2] = {rank->first, 0}, shape[2] = {rank->count, ROW_BYTES};
  struct cleat_load_request request = {
      "matrix", CLEAT_DTYPE_U8, 2, shape, start, rows, (uint64_t)(rank->count * ROW_BYTES)};
  struct cleat_checkpoint *checkpoint = NULL;
  struct cleat_load *load = NULL;
  struct cleat_progress progress;
  struct cleat_error err;
  check(cleat_checkpoint_open(client, 1, &checkpoint, &err), &err);
  check(cleat_load_tensors_async(checkpoint, &request, 1, NULL, &load, &err), &err);
  check(cleat_load_wait(load, &err), &err);
  cleat_load_progress(load, &progress);
  rank->read_bytes = progress.bytes_done;
  cleat_load_free(load);
  cleat_checkpoint_free(checkpoint);
}

static void *run_rank(void *arg) {
  struct rank *rank = arg;
  struct cleat_client *client = open_client(rank);
  void *rows = malloc((size_t)(rank->count * ROW_BYTES) + 1);
  if (rows == NULL)
    abort();
  if (rank->job == SAVE)
    save_rows(rank, client, rows);
  else
    load_rows(rank, client, rows);
  free(rows);
  cleat_client_close(client);
  return NULL;
}

/* All ranks of a job, side by side; returns the bytes that they read. */
static uint64_t run_job(const char *url, enum job job, unsigned count, int64_t rows) {
  struct rank *ranks = calloc(count, sizeof *ranks);
  pthread_attr_t attributes;
  uint64_t bytes = 0;
  if (ranks == NULL)
    abort();
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, STACK_BYTES);
  for (unsigned i = 0; i < count; i++) {
    int64_t first = rows * i / count, end = rows * (i + 1) / count;
    ranks[i] = (struct rank){
        .url = url, .job = job, .number = i, .world_size = count, .rows = rows, .first = first, .count = end - first};
    if (pthread_create(&ranks[i].thread, &attributes, run_rank, &ranks[i]) != 0)
      abort();
  }
  for (unsigned i = 0; i < count; i++) {
    pthread_join(ranks[i].thread, NULL);
    bytes += ranks[i].read_bytes;
  }
  pthread_attr_destroy(&attributes);
  free(ranks);
  return bytes;
}

/* ---- Times of files ----------------------------------------------------------------------------- */

static double modified_s(const char *path) {
  struct stat facts;
  if (stat(path, &facts) != 0)
    abort();
  return (double)facts.st_mtim.tv_sec + (double)facts.st_mtim.tv_nsec * 1e-9;
}

/* The last rank record of the one attempt in the folder of the step. */
static double last_record_s(const char *step) {
  double last = 0;
  DIR *folder = opendir(step);
  for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
    char path[8192];
    if (entry->d_name[0] == '.' || strchr(entry->d_name, '.') != NULL)
      continue;
    for (unsigned rank = 0;; rank++) {
      struct stat facts;
      snprintf(path, sizeof path, "%s/%s/rank-%05u.json", step, entry->d_name, rank);
      if (stat(path, &facts) != 0)
        break;
      last = modified_s(path) > last ? modified_s(path) : last;
    }
  }
  closedir(folder);
  return last;
}

static void commit(const char *folder, const char *url, unsigned count) {
  char step[4096], manifest[4200];
  double began_s = now_s();
  run_job(url, SAVE, count, count);
  snprintf(step, sizeof step, "%s/step-000000000001", folder);
  snprintf(manifest, sizeof manifest, "%s/manifest.json", step);
  printf("{\"ranks\": %u, \"wall_s\": %.3f, \"commit_s\": %.6f}\n", count, now_s() - began_s,
         modified_s(manifest) - last_record_s(step));
}

static void reshard(const char *url, unsigned from, unsigned to) {
  int64_t rows = (int64_t)from * ROWS;
  run_job(url, SAVE, from, rows);
  uint64_t bytes = run_job(url, LOAD, to, rows);
  printf("{\"from\": %u, \"to\": %u, \"read\": %.4f}\n", from, to, (double)bytes / (double)(rows * ROW_BYTES));
}

int main(int argc, char **argv) {
  char url[4096];
  if (argc == 4 && strcmp(argv[1], "commit") == 0) {
    snprintf(url, sizeof url, "file://%s", argv[2]);
    commit(argv[2], url, (unsigned)strtoul(argv[3], NULL, 10));
    return 0;
  }
  if (argc == 5 && strcmp(argv[1], "reshard") == 0) {
    snprintf(url, sizeof url, "file://%s", argv[2]);
    reshard(url, (unsigned)strtoul(argv[3], NULL, 10), (unsigned)strtoul(argv[4], NULL, 10));
    return 0;
  }
  fprintf(stderr, "usage: ranks commit DIR COUNT | reshard DIR FROM TO\n");
  return 2;
}
