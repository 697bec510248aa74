/* layout_numbers.c: see layout_numbers.h. */
#include "api/run/layout_numbers.h"

#include "api/run/layout_recipe.h"
#include "api/run/pickle.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  RANKS_MAX = 1 << 16,
  GRIDS_MAX = 16,
  GRID_MAX = 1 << 20 /* files of one kind; DeepSpeed does not write more */
};

/* The data of one call. */
struct work {
  const char *folder;
  struct cleat__run_names *wanted;
  struct cleat_error *err;
};

static cleat_status add(struct work *work, char *name) {
  char *path = NULL;
  if (name)
    path = work->folder[0] ? cleat__strprintf("%s/%s", work->folder, name) : cleat__strdup(name);
  cleat_status status =
      path ? cleat__run_names_add(work->wanted, path, work->err) : cleat__error_no_memory(work->err, "a list of files");
  cleat__free(path);
  cleat__free(name);
  return status;
}

/* ---- Parsing a name from its end --------------------------------------------------------------------- */

/* Skips digits backwards from `end`. Returns where they begin. */
static size_t before_digits(const char *name, size_t end) {
  while (end > 0 && name[end - 1] >= '0' && name[end - 1] <= '9')
    end--;
  return end;
}

/* Skips `text` backwards from `end`. 0: the text is not there. */
static size_t before_text(const char *name, size_t end, const char *text) {
  size_t length = strlen(text);
  return end >= length && memcmp(name + end - length, text, length) == 0 ? end - length : 0;
}

/* The number at that position, at most RANKS_MAX. -1: it is larger. */
static long number_at(const char *name, size_t at) {
  int64_t number;
  size_t digits;
  if (!cleat__run_read_number(name + at, &number, &digits) || number > RANKS_MAX)
    return -1;
  return (long)number;
}

/* ---- verl -------------------------------------------------------------------------------------------- */

/* Parses "model_world_size_8_rank_3.pt". Returns the length of the part before the rank, and the number of ranks in
 * *world. 0: another name. */
static size_t read_world(const char *name, long *world) {
  size_t end = before_text(name, strlen(name), ".pt");
  size_t rank = before_digits(name, end);
  size_t size_end = rank < end ? before_text(name, rank, "_rank_") : 0;
  size_t size = before_digits(name, size_end);
  if (size == size_end || before_text(name, size, "_world_size_") == 0)
    return 0;
  *world = number_at(name, size);
  return *world >= 1 ? rank : 0;
}

/* Adds the files of each kind once. The names are sorted, so those of one kind are adjacent. */
static cleat_status add_worlds(struct work *work, const struct cleat__run_names *here) {
  const char *last = "";
  size_t last_stem = 0;
  cleat_status status = CLEAT_OK;
  for (size_t i = 0; i < here->count && status == CLEAT_OK; i++) {
    const char *name = here->items[i];
    long world = 0;
    size_t stem = read_world(name, &world);
    if (!stem || (stem == last_stem && memcmp(name, last, stem) == 0))
      continue;
    last = name;
    last_stem = stem;
    for (long rank = 0; rank < world && status == CLEAT_OK; rank++)
      status = add(work, cleat__strprintf("%.*s%ld.pt", (int)stem, name, rank));
  }
  return status;
}

/* ---- DeepSpeed --------------------------------------------------------------------------------------- */

/* The files of one kind: "<prefix>zero_pp_rank_<R>_mp_rank_<M><suffix>", or "mp_rank_<M><suffix>" without a prefix. */
struct grid {
  char prefix[64];
  const char *suffix;
  bool has_rows;
  long rows, columns; /* one more than the highest R and M */
};

/* False: another name, or its numbers are too large. */
static bool read_grid(const char *name, struct grid *grid) {
  static const char *const suffixes[] = {"_optim_states.pt", "_model_states.pt"};
  size_t end = 0;
  for (size_t i = 0; i < 2 && !end; i++) {
    grid->suffix = suffixes[i];
    end = before_text(name, strlen(name), suffixes[i]);
  }
  size_t column = before_digits(name, end);
  if (column == end || column < strlen("mp_rank_") ||
      memcmp(name + column - strlen("mp_rank_"), "mp_rank_", strlen("mp_rank_")) != 0)
    return false;
  size_t begin = column - strlen("mp_rank_");
  grid->columns = number_at(name, column) + 1;
  grid->rows = 1;
  grid->has_rows = begin > 0;
  grid->prefix[0] = '\0';
  if (!grid->has_rows)
    return grid->columns > 0;
  size_t row_end = name[begin - 1] == '_' ? begin - 1 : 0;
  size_t row = before_digits(name, row_end);
  size_t length = strlen("zero_pp_rank_");
  if (row == row_end || row < length || memcmp(name + row - length, "zero_pp_rank_", length) != 0 ||
      row - length >= sizeof grid->prefix)
    return false;
  snprintf(grid->prefix, sizeof grid->prefix, "%.*s", (int)(row - length), name);
  grid->rows = number_at(name, row) + 1;
  return grid->columns > 0 && grid->rows > 0;
}

static bool is_same_kind(const struct grid *a, const struct grid *b) {
  return a->has_rows == b->has_rows && a->suffix == b->suffix && strcmp(a->prefix, b->prefix) == 0;
}

/* Adds the name to the grid of its kind. */
static void enter_grid(struct grid *grids, size_t *count, const char *name) {
  struct grid grid;
  if (!read_grid(name, &grid))
    return;
  size_t at = 0;
  while (at < *count && !is_same_kind(&grids[at], &grid))
    at++;
  if (at == GRIDS_MAX)
    return;
  if (at == *count)
    grids[(*count)++] = grid;
  if (grid.rows > grids[at].rows)
    grids[at].rows = grid.rows;
  if (grid.columns > grids[at].columns)
    grids[at].columns = grid.columns;
}

/* Finds the pickle in an archive of torch.save. It is the first entry, not compressed, after a local header of 30
 * bytes, a name and an extra field (APPNOTE.TXT 4.3.7). 0: the file is not such an archive. */
static size_t pickle_at(const uint8_t *bytes, size_t size) {
  enum { HEADER_BYTES = 30 };
  if (size < HEADER_BYTES || memcmp(bytes, "PK\3\4", 4) != 0 || bytes[8] || bytes[9])
    return 0;
  size_t at = HEADER_BYTES + ((size_t)bytes[27] << 8 | bytes[26]) + ((size_t)bytes[29] << 8 | bytes[28]);
  return at < size ? at : 0;
}

bool cleat__run_numbers_is_states(const char *name) {
  return strcmp(name, "mp_rank_00_model_states.pt") == 0 ||
         strcmp(name, "zero_pp_rank_0_mp_rank_00_model_states.pt") == 0;
}

/* With MiCS (mics_shard_size), only the ranks of the first group save their parts. */
long cleat__run_numbers_rows(const void *bytes, size_t size) {
  static const struct cleat__run_pickle_query query = {.number_keys = {"dp_world_size", "mics_shard_size"},
                                                       .open_end = true};
  struct cleat__run_pickle_answer answer;
  struct cleat_error ignored;
  const uint8_t *at = bytes;
  size_t begin = pickle_at(at, size);
  if (!begin || cleat__run_pickle_read(at + begin, size - begin, &query, &answer, &ignored) != CLEAT_OK)
    return 0;
  int64_t number = answer.numbers[1] > 0 ? answer.numbers[1] : answer.numbers[0];
  cleat__run_pickle_clear(&answer);
  return number > 0 && number <= RANKS_MAX ? (long)number : 0;
}

static cleat_status add_grid(struct work *work, const struct grid *grid) {
  cleat_status status = CLEAT_OK;
  if (grid->rows > GRID_MAX / grid->columns)
    return CLEAT_OK;
  for (long row = 0; row < grid->rows; row++)
    for (long column = 0; column < grid->columns && status == CLEAT_OK; column++)
      status = add(work, grid->has_rows ? cleat__strprintf("%szero_pp_rank_%ld_mp_rank_%02ld%s", grid->prefix, row,
                                                           column, grid->suffix)
                                        : cleat__strprintf("mp_rank_%02ld%s", column, grid->suffix));
  return status;
}

static cleat_status add_grids(struct work *work, const struct cleat__run_names *here, long rows) {
  struct grid grids[GRIDS_MAX];
  size_t count = 0;
  cleat_status status = CLEAT_OK;
  for (size_t i = 0; i < here->count; i++)
    enter_grid(grids, &count, here->items[i]);
  for (size_t i = 0; i < count && status == CLEAT_OK; i++) {
    if (grids[i].has_rows && rows > grids[i].rows)
      grids[i].rows = rows;
    status = add_grid(work, &grids[i]);
  }
  return status;
}

cleat_status cleat__run_numbers_add(const char *folder, const struct cleat__run_names *here, long rows,
                                    struct cleat__run_names *wanted, struct cleat_error *err) {
  struct work work = {.folder = folder, .wanted = wanted, .err = err};
  cleat_status status = add_worlds(&work, here);
  return status == CLEAT_OK ? add_grids(&work, here, rows) : status;
}
