/* show.c: `cleat show`: shows the files, tensors and ranks of one checkpoint.
 *
 * Main thread. Reads only the manifest and the rank records. */
#include "api/cli/cli.h"

#include "base/mem.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

static const char help[] = "Shows what is in a checkpoint: its files, the tensors in them with their types,\n"
                           "shapes and sizes, and the ranks that wrote them. Reads no tensor data.\n"
                           "\n"
                           "      --step N         the step; the newest if it is not given\n";

enum { SHAPE_MAX = 22 * CLEAT_MAX_DIMS + 3 };

/* What one rank wrote. */
struct rank_total {
  uint64_t files;
  uint64_t bytes;
};

/* Adds up the files by rank. NULL: out of memory. Owned (cleat__free). */
static struct rank_total *sum_ranks(const struct cleat_checkpoint *checkpoint) {
  unsigned ranks = cleat_checkpoint_info(checkpoint)->ranks;
  struct rank_total *totals = cleat__calloc(ranks, sizeof *totals);
  for (size_t i = 0; totals && i < cleat_checkpoint_file_count(checkpoint); i++) {
    const struct cleat_file_info *file = cleat_checkpoint_file(checkpoint, i);
    if (file->rank >= ranks)
      continue;
    totals[file->rank].files++;
    totals[file->rank].bytes += file->size;
  }
  return totals;
}

static const char *dtype_name(enum cleat_dtype dtype) {
  const char *name = cleat_dtype_name(dtype);
  return name ? name : "?";
}

/* Formats "[4096, 1024]", which is also JSON. */
static void format_shape(const struct cleat_tensor_info *tensor, char text[SHAPE_MAX]) {
  size_t length = 0;
  text[length++] = '[';
  for (int i = 0; i < tensor->ndim && i < CLEAT_MAX_DIMS; i++)
    length += (size_t)snprintf(text + length, SHAPE_MAX - length, "%s%" PRId64, i ? ", " : "", tensor->shape[i]);
  text[length++] = ']';
  text[length] = '\0';
}

/* ---- For programs ---- */

static void json_files(struct cleat__cli_json *json, const struct cleat_checkpoint *checkpoint) {
  cJSON *array = cleat__cli_json_array(json, json->root, "files");
  for (size_t i = 0; i < cleat_checkpoint_file_count(checkpoint); i++) {
    const struct cleat_file_info *file = cleat_checkpoint_file(checkpoint, i);
    cJSON *object = cleat__cli_json_object(json, array, NULL);
    cleat__cli_json_text(json, object, "name", file->name);
    cleat__cli_json_uint(json, object, "bytes", file->size);
    cleat__cli_json_uint(json, object, "part_bytes", file->part_bytes);
    cleat__cli_json_uint(json, object, "parts", file->part_count);
    cleat__cli_json_uint(json, object, "rank", file->rank);
  }
}

static void json_tensors(struct cleat__cli_json *json, const struct cleat_checkpoint *checkpoint) {
  cJSON *array = cleat__cli_json_array(json, json->root, "tensors");
  char shape[SHAPE_MAX];
  for (size_t i = 0; i < cleat_checkpoint_tensor_count(checkpoint); i++) {
    const struct cleat_tensor_info *tensor = cleat_checkpoint_tensor(checkpoint, i);
    const struct cleat_file_info *file = cleat_checkpoint_file(checkpoint, tensor->file);
    cJSON *object = cleat__cli_json_object(json, array, NULL);
    format_shape(tensor, shape);
    cleat__cli_json_text(json, object, "name", tensor->name);
    cleat__cli_json_text(json, object, "dtype", dtype_name(tensor->dtype));
    cleat__cli_json_raw(json, object, "shape", shape);
    cleat__cli_json_uint(json, object, "bytes", tensor->bytes);
    cleat__cli_json_text(json, object, "file", file ? file->name : "");
  }
}

static void json_ranks(struct cleat__cli_json *json, unsigned ranks, const struct rank_total *totals) {
  cJSON *array = cleat__cli_json_array(json, json->root, "ranks");
  for (unsigned i = 0; i < ranks; i++) {
    cJSON *object = cleat__cli_json_object(json, array, NULL);
    cleat__cli_json_uint(json, object, "rank", i);
    cleat__cli_json_uint(json, object, "files", totals[i].files);
    cleat__cli_json_uint(json, object, "bytes", totals[i].bytes);
  }
}

static bool print_json(const struct cleat_checkpoint *checkpoint, bool pinned, const struct rank_total *totals) {
  const struct cleat_checkpoint_info *info = cleat_checkpoint_info(checkpoint);
  struct cleat__cli_json json;
  cleat__cli_json_init(&json);
  cJSON *about = cleat__cli_json_object(&json, json.root, "checkpoint");
  cleat__cli_json_checkpoint(&json, about, info);
  cleat__cli_json_bool(&json, about, "pinned", pinned);
  json_files(&json, checkpoint);
  json_tensors(&json, checkpoint);
  json_ranks(&json, info->ranks, totals);
  return cleat__cli_json_print(&json);
}

/* ---- For people ---- */

static void print_summary(const struct cleat_checkpoint_info *info, bool pinned) {
  char created[CLEAT__CLI_FORMAT_MAX], age[CLEAT__CLI_FORMAT_MAX], size[CLEAT__CLI_FORMAT_MAX];
  cleat__cli_format_local(info->created, created);
  cleat__cli_format_age(info->created, age);
  cleat__cli_format_size((double)info->bytes, size);
  printf("step %" PRId64 "%s\n", info->step, pinned ? ", pinned" : "");
  printf("  created   %s%s%s%s\n", created, *age ? " (" : "", age, *age ? ")" : "");
  printf("  attempt   %s\n", info->attempt);
  printf("  size      %s", size);
  if (info->bytes >= 1024)
    printf(" (%" PRIu64 " bytes)", info->bytes);
  printf("\n  metadata  ");
  cleat__cli_put_text(stdout, info->metadata);
  putchar('\n');
}

static bool print_ranks(unsigned ranks, const struct rank_total *totals) {
  struct cleat__cli_table table;
  char size[CLEAT__CLI_FORMAT_MAX];
  cleat__cli_table_init(&table, "rrr");
  cleat__cli_table_add_row(&table, (const char *const[]){"RANK", "FILES", "SIZE"});
  for (unsigned i = 0; i < ranks; i++) {
    cleat__cli_format_size((double)totals[i].bytes, size);
    cleat__cli_table_add(&table, "%u", i);
    cleat__cli_table_add(&table, "%" PRIu64, totals[i].files);
    cleat__cli_table_add(&table, "%s", size);
  }
  printf("\nRanks (%u)\n", ranks);
  bool printed = cleat__cli_table_print(&table, 2, 0);
  cleat__cli_table_clear(&table);
  return printed;
}

static bool print_files(const struct cleat_checkpoint *checkpoint) {
  size_t count = cleat_checkpoint_file_count(checkpoint);
  struct cleat__cli_table table;
  char size[CLEAT__CLI_FORMAT_MAX];
  cleat__cli_table_init(&table, "rrrl");
  cleat__cli_table_add_row(&table, (const char *const[]){"SIZE", "PARTS", "RANK", "NAME"});
  for (size_t i = 0; i < count; i++) {
    const struct cleat_file_info *file = cleat_checkpoint_file(checkpoint, i);
    cleat__cli_format_size((double)file->size, size);
    cleat__cli_table_add(&table, "%s", size);
    cleat__cli_table_add(&table, "%" PRIu64, file->part_count);
    cleat__cli_table_add(&table, "%u", file->rank);
    cleat__cli_table_add(&table, "%s", file->name);
  }
  printf("\nFiles (%zu)\n", count);
  bool printed = cleat__cli_table_print(&table, 2, 0);
  cleat__cli_table_clear(&table);
  return printed;
}

/* Prints the tensors of one file. `order` lists their indices. */
static bool print_tensors_of(const struct cleat_checkpoint *checkpoint, const size_t *order, size_t count) {
  struct cleat__cli_table table;
  char size[CLEAT__CLI_FORMAT_MAX], shape[SHAPE_MAX];
  cleat__cli_table_init(&table, "lllr");
  for (size_t i = 0; i < count; i++) {
    const struct cleat_tensor_info *tensor = cleat_checkpoint_tensor(checkpoint, order[i]);
    cleat__cli_format_size((double)tensor->bytes, size);
    format_shape(tensor, shape);
    cleat__cli_table_add(&table, "%s", tensor->name);
    cleat__cli_table_add(&table, "%s", dtype_name(tensor->dtype));
    cleat__cli_table_add(&table, "%s", shape);
    cleat__cli_table_add(&table, "%s", size);
  }
  bool printed = cleat__cli_table_print(&table, 4, 0);
  cleat__cli_table_clear(&table);
  return printed;
}

/* Sorts the tensors' indices by file. ends[i] is where the indices of file i end. */
static void sort_by_file(const struct cleat_checkpoint *checkpoint, size_t files, size_t *order, size_t *ends) {
  size_t tensors = cleat_checkpoint_tensor_count(checkpoint);
  for (size_t i = 0; i < tensors; i++)
    ends[cleat_checkpoint_tensor(checkpoint, i)->file]++;
  for (size_t i = 0, sum = 0; i < files; i++) {
    size_t count = ends[i];
    ends[i] = sum; /* the start, until the loop below moves it to the end */
    sum += count;
  }
  for (size_t i = 0; i < tensors; i++)
    order[ends[cleat_checkpoint_tensor(checkpoint, i)->file]++] = i;
}

static bool print_tensors(const struct cleat_checkpoint *checkpoint) {
  size_t files = cleat_checkpoint_file_count(checkpoint);
  size_t tensors = cleat_checkpoint_tensor_count(checkpoint);
  if (!tensors)
    return true;
  size_t *order = cleat__calloc(tensors, sizeof *order);
  size_t *ends = cleat__calloc(files, sizeof *ends);
  bool printed = order && ends;
  if (printed) {
    printf("\nTensors (%zu)\n", tensors);
    sort_by_file(checkpoint, files, order, ends);
  }
  for (size_t i = 0; i < files && printed; i++) {
    size_t start = i ? ends[i - 1] : 0;
    if (ends[i] == start)
      continue;
    printf("  ");
    cleat__cli_put_text(stdout, cleat_checkpoint_file(checkpoint, i)->name);
    putchar('\n');
    printed = print_tensors_of(checkpoint, order + start, ends[i] - start);
  }
  cleat__free(ends);
  cleat__free(order);
  return printed;
}

static bool print_text(const struct cleat_checkpoint *checkpoint, bool pinned, const struct rank_total *totals) {
  const struct cleat_checkpoint_info *info = cleat_checkpoint_info(checkpoint);
  print_summary(info, pinned);
  return print_ranks(info->ranks, totals) && print_files(checkpoint) && print_tensors(checkpoint);
}

static int run(const struct cleat__cli *cli, struct cleat_client *client) {
  struct cleat_checkpoint *checkpoint = NULL;
  int exit_status = cleat__cli_open_checkpoint(cli, client, &checkpoint);
  if (exit_status != CLEAT__CLI_DONE)
    return exit_status;
  struct cleat_error err;
  int pinned = 0;
  if (cleat_pinned(client, cleat_checkpoint_info(checkpoint)->step, &pinned, &err) != CLEAT_OK) {
    cleat_checkpoint_free(checkpoint);
    return cleat__cli_fail(cli, &err);
  }
  struct rank_total *totals = sum_ranks(checkpoint);
  bool printed = totals && (cli->options.json ? print_json(checkpoint, pinned != 0, totals)
                                              : print_text(checkpoint, pinned != 0, totals));
  cleat__free(totals);
  cleat_checkpoint_free(checkpoint);
  return printed ? CLEAT__CLI_DONE : cleat__cli_fail_memory(cli);
}

const struct cleat__cli_command cleat__cli_show = {
    .name = "show",
    .summary = "show a checkpoint's files, tensors and ranks",
    .synopsis = "show [OPTION]... URL",
    .help = help,
    .arguments = "the store's URL",
    .takes = CLEAT__CLI_TAKES_STEP,
    .min_arguments = 1,
    .max_arguments = 1,
    .small = true,
    .run = run,
};
