/* save_tensors.c: saves tensors of every dtype by the public API, for readers that know nothing of
 * Cleat: scalars, empty tensors, up to 4 dimensions, names that need escaping, several shards.
 *
 *   save_tensors URL STEP SHARD_BYTES
 *
 * Their bytes follow from their names (fill), so that a test can make them anew. One thread. */
#include <cleat.h>

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_MAX_BYTES 1025 /* with the NUL */
#define TENSORS_MAX 256
#define BLOCK 4096

struct shape {
  const char *label;
  int ndim;
  int64_t sizes[4];
};

static const struct shape SHAPES[] = {{"scalar", 0, {0}},         {"none", 1, {0}},        {"hollow", 3, {3, 0, 5}},
                                      {"vector", 1, {8}},         {"matrix", 2, {16, 40}}, {"cube", 3, {4, 6, 8}},
                                      {"four.d", 4, {2, 3, 4, 4}}};

static const enum cleat_dtype DTYPES[] = {
#define ENTRY(number, name, bits) CLEAT_DTYPE_##name,
    CLEAT_DTYPE_MAP(ENTRY)
#undef ENTRY
};

/* Names beyond ASCII, with what JSON must escape, and as long as may be ("*": made of 1024 bytes). */
static const char *const NAMES[] = {"größe/世界 😀", "quote\" back\\slash", "a b+c%20&<>'", ".", "*"};

struct set {
  struct cleat_tensor tensors[TENSORS_MAX];
  size_t count;
};

static void *need(size_t size) {
  void *memory = malloc(size > 0 ? size : 1);
  if (memory == NULL)
    exit(1);
  return memory;
}

/* A linear congruence seeded by the name's FNV-1a hash for the first block; each further block is the
 * one before it, its bytes combined with the block's number. */
static void fill(const char *name, bool is_bool, unsigned char *data, size_t size) {
  uint64_t state = UINT64_C(14695981039346656037);
  for (const char *at = name; *at != '\0'; at++)
    state = (state ^ (unsigned char)*at) * UINT64_C(1099511628211);
  for (size_t i = 0; i < size; i++) {
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    unsigned char byte = (unsigned char)(state >> 56);
    data[i] = i < BLOCK ? byte : (unsigned char)(data[i - BLOCK] ^ (i / BLOCK & 0xff));
  }
  for (size_t i = 0; is_bool && i < size; i++)
    data[i] &= 1;
}

static void add(struct set *set, const char *name, enum cleat_dtype dtype, const struct shape *shape) {
  uint64_t elements = 1;
  for (int i = 0; i < shape->ndim; i++)
    elements *= (uint64_t)shape->sizes[i];
  uint64_t bits = elements * cleat_dtype_bits(dtype);
  if (bits % 8 != 0)
    return; /* a scalar of 4 or 6 bits is none */
  char *kept = need(NAME_MAX_BYTES);
  unsigned char *data = need(bits / 8);
  snprintf(kept, NAME_MAX_BYTES, "%s", name);
  fill(kept, dtype == CLEAT_DTYPE_BOOL, data, bits / 8);
  set->tensors[set->count++] = (struct cleat_tensor){kept, dtype, shape->ndim, shape->sizes, data};
}

static void add_all(struct set *set) {
  char name[NAME_MAX_BYTES];
  for (size_t d = 0; d < sizeof DTYPES / sizeof DTYPES[0]; d++) {
    for (size_t s = 0; s < sizeof SHAPES / sizeof SHAPES[0]; s++) {
      snprintf(name, sizeof name, "%s.%s", cleat_dtype_name(DTYPES[d]), SHAPES[s].label);
      add(set, name, DTYPES[d], &SHAPES[s]);
    }
  }
  static const struct shape small = {"", 2, {3, 5}};
  for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++) {
    snprintf(name, sizeof name, "%s", NAMES[i]);
    if (name[0] == '*') {
      memset(name, 'n', sizeof name - 1);
      name[sizeof name - 1] = '\0';
    }
    add(set, name, CLEAT_DTYPE_I16, &small);
  }
  /* Larger than a part, so that its file is uploaded in several. */
  static const struct shape large = {"", 2, {1200, 2048}};
  add(set, "large", CLEAT_DTYPE_F32, &large);
}

static cleat_status save(const char *url, int64_t step, uint64_t shard_bytes, const struct set *set,
                         struct cleat_error *err) {
  struct cleat_client_options options = CLEAT_CLIENT_OPTIONS_INIT;
  struct cleat_client *client = NULL;
  options.part_bytes = 5u << 20;
  cleat_status status = cleat_client_open(url, &options, &client, err);
  if (status != CLEAT_OK)
    return status;
  struct cleat_save_request request = CLEAT_SAVE_REQUEST_INIT;
  request.step = step;
  request.tensors = set->tensors;
  request.tensor_count = set->count;
  request.shard_bytes = shard_bytes;
  status = cleat_save(client, &request, err);
  cleat_client_close(client);
  return status;
}

int main(int argc, char **argv) {
  static struct set set;
  struct cleat_error err;
  if (argc != 4) {
    fprintf(stderr, "usage: save_tensors URL STEP SHARD_BYTES\n");
    return 2;
  }
  add_all(&set);
  cleat_status status = save(argv[1], strtoll(argv[2], NULL, 10), strtoull(argv[3], NULL, 10), &set, &err);
  if (status != CLEAT_OK)
    fprintf(stderr, "save_tensors: %s: %s\n", cleat_status_name(status), err.message);
  else
    printf("%zu tensors\n", set.count);
  for (size_t i = 0; i < set.count; i++) {
    union {
      const void *given;
      void *own;
    } name = {set.tensors[i].name}, data = {set.tensors[i].data};
    free(name.own);
    free(data.own);
  }
  return status == CLEAT_OK ? 0 : 1;
}
