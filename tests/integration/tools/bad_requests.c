/* bad_requests.c: gives the public API requests that cannot be right, one after another, and prints what
 * it says to each, tab-separated: case, status, message. The last, "good", must succeed.
 *
 *   bad_requests URL
 *
 * One thread. */
#include <cleat.h>

#include <stdio.h>
#include <string.h>

static const int64_t TWO[] = {2};
static const int64_t HUGE_SHAPE[] = {INT64_MAX, 4};
static const int64_t WRAPPING[] = {INT64_C(1) << 32, INT64_C(1) << 32};
static const int64_t BELOW_ZERO[] = {-2};
static const int64_t THREE[] = {3};
static const int64_t ONES[CLEAT_MAX_DIMS + 1] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                                                 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
static const float DATA[4] = {1, 2, 3, 4};
static char long_name[1026];

#define TENSOR(name, dtype, ndim, shape) \
  { name, dtype, ndim, shape, DATA }
#define GOOD TENSOR("good", CLEAT_DTYPE_F32, 1, TWO)

struct tensor_case {
  const char *label;
  struct cleat_tensor tensors[2];
};

static const struct tensor_case TENSOR_CASES[] = {
    {"duplicate tensor name", {GOOD, GOOD}},
    {"unknown dtype", {GOOD, TENSOR("bad", (enum cleat_dtype)21, 1, TWO)}},
    {"dtype zero", {GOOD, TENSOR("bad", (enum cleat_dtype)0, 1, TWO)}},
    {"shape overflows", {GOOD, TENSOR("bad", CLEAT_DTYPE_F32, 2, HUGE_SHAPE)}},
    {"shape overflows to zero", {GOOD, TENSOR("bad", CLEAT_DTYPE_F32, 2, WRAPPING)}},
    {"shape below zero", {GOOD, TENSOR("bad", CLEAT_DTYPE_F32, 1, BELOW_ZERO)}},
    {"too many dimensions", {GOOD, TENSOR("bad", CLEAT_DTYPE_F32, CLEAT_MAX_DIMS + 1, ONES)}},
    {"dimensions below zero", {GOOD, TENSOR("bad", CLEAT_DTYPE_F32, -1, TWO)}},
    {"shape is NULL", {GOOD, TENSOR("bad", CLEAT_DTYPE_F32, 1, NULL)}},
    {"no whole number of bytes", {GOOD, TENSOR("bad", CLEAT_DTYPE_F4, 1, THREE)}},
    {"tensor without a name", {GOOD, TENSOR(NULL, CLEAT_DTYPE_F32, 1, TWO)}},
    {"tensor with an empty name", {GOOD, TENSOR("", CLEAT_DTYPE_F32, 1, TWO)}},
    {"tensor name too long", {GOOD, TENSOR(long_name, CLEAT_DTYPE_F32, 1, TWO)}},
    {"tensor name with a line end", {GOOD, TENSOR("a\nb", CLEAT_DTYPE_F32, 1, TWO)}},
    {"tensor name that is no UTF-8", {GOOD, TENSOR("\xff\xfe", CLEAT_DTYPE_F32, 1, TWO)}},
    {"tensor name of the header", {GOOD, TENSOR("__metadata__", CLEAT_DTYPE_F32, 1, TWO)}},
    {"tensor without data", {GOOD, {"bad", CLEAT_DTYPE_F32, 1, TWO, NULL}}},
};

struct file_case {
  const char *label;
  struct cleat_file files[2];
};

#define FILE_NAMED(name)        \
  {                             \
    {name, NULL, DATA, 4}, {    \
      "good.bin", NULL, DATA, 4 \
    }                           \
  }

static const struct file_case FILE_CASES[] = {
    {"file name ..", FILE_NAMED("..")},
    {"file name ../x", FILE_NAMED("../x")},
    {"file name a/../../x", FILE_NAMED("a/../../x")},
    {"absolute file name", FILE_NAMED("/etc/x")},
    {"empty file name", FILE_NAMED("")},
    {"file without a name", FILE_NAMED(NULL)},
    {"file name with a line end", FILE_NAMED("a\nb")},
    {"file name of the record", FILE_NAMED("rank-00000.json")},
    {"duplicate file name", FILE_NAMED("good.bin")},
    {"file beneath a file", FILE_NAMED("good.bin/x")},
    {"file without data", {{"bad.bin", NULL, NULL, 4}, {"good.bin", NULL, DATA, 4}}},
    {"file that does not exist", {{"bad.bin", "/nonexistent/x", NULL, 0}, {"b", NULL, DATA, 4}}},
    {"file that is a folder", {{"bad.bin", "/", NULL, 0}, {"b", NULL, DATA, 4}}},
};

static void save(struct cleat_client *client, const char *label, const struct cleat_save_request *request) {
  struct cleat_error err = {.status = CLEAT_OK};
  cleat_status status = cleat_save(client, request, &err);
  printf("%s\t%s\t%s\n", label, cleat_status_name(status), err.message);
}

static struct cleat_save_request request_for(const struct cleat_tensor *tensors, size_t count) {
  struct cleat_save_request request = CLEAT_SAVE_REQUEST_INIT;
  request.step = 1;
  request.tensors = tensors;
  request.tensor_count = count;
  return request;
}

static void save_cases(struct cleat_client *client) {
  static const struct cleat_tensor good[] = {GOOD};
  for (size_t i = 0; i < sizeof TENSOR_CASES / sizeof TENSOR_CASES[0]; i++) {
    struct cleat_save_request request = request_for(TENSOR_CASES[i].tensors, 2);
    save(client, TENSOR_CASES[i].label, &request);
  }
  for (size_t i = 0; i < sizeof FILE_CASES / sizeof FILE_CASES[0]; i++) {
    struct cleat_save_request request = request_for(good, 1);
    request.files = FILE_CASES[i].files;
    request.file_count = 2;
    save(client, FILE_CASES[i].label, &request);
  }
  struct cleat_save_request request = request_for(good, 1);
  request.step = -1;
  save(client, "step below zero", &request);
  request.step = INT64_MIN;
  save(client, "the least step", &request);
  request = request_for(good, 1);
  request.metadata = "{\"a\":";
  save(client, "metadata that is no JSON", &request);
  request = request_for(NULL, 1);
  save(client, "tensors are NULL", &request);
  request = request_for(NULL, 0);
  save(client, "nothing to save", &request);
  request = request_for(good, 1);
  request.struct_bytes = 1;
  save(client, "no _INIT", &request);
  request = request_for(good, 1);
  save(client, "good", &request);
}

int main(int argc, char **argv) {
  struct cleat_client *client = NULL;
  struct cleat_error err;
  memset(long_name, 'n', sizeof long_name - 1);
  if (argc != 2 || cleat_client_open(argv[1], NULL, &client, &err) != CLEAT_OK) {
    fprintf(stderr, "bad_requests: %s\n", argc != 2 ? "usage: bad_requests URL" : err.message);
    return 2;
  }
  save_cases(client);
  cleat_client_close(client);
  return 0;
}
