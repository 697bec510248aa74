/* store_fixture.c: see store_fixture.h. Globals are written before the first fork and read-only after,
 * but for the counter of folders, which belongs to the one thread that opens stores. */
#include "tests/mock/store_fixture.h"

#include "base/checksum.h"
#include "storage/open.h"
#include "storage/s3/s3.h"
#include "tests/mock/run_suite.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[256];
static char bucket[64];
static const char *endpoint;

static void die(const char *what, const char *why) {
  fprintf(stderr, "store fixture: %s: %s\n", what, why);
  exit(1);
}

static const char *need(const char *name) {
  const char *value = getenv(name);
  if (value == NULL || value[0] == '\0')
    die(name, "is not set; `make integration` starts a server and sets it");
  return value;
}

struct cleat_client_options fixture_options(void) {
  struct cleat_client_options options = CLEAT_CLIENT_OPTIONS_INIT;
  options.endpoint = endpoint;
  options.time_limit_s = 60;
  return options;
}

struct cleat__store *fixture_open_url(const char *url, const struct cleat_client_options *options,
                                      const struct cleat__clock *clock) {
  struct cleat__store_config config = {.options = options, .clock = clock != NULL ? clock : cleat__clock_system()};
  struct cleat__store *store = NULL;
  struct cleat_error err = {0};
  if (cleat__store_open(url, &config, &store, &err) != CLEAT_OK)
    die(url, err.message);
  return store;
}

/* Cleat never creates buckets, so the table has no operation for it. */
static void create_bucket(void) {
  struct cleat_client_options options = fixture_options();
  struct cleat__store *store = fixture_open_url(fixture_s3_url(""), &options, NULL);
  struct cleat__http_reply reply;
  struct cleat_error err = {0};
  atomic_bool cancel = false;
  struct cleat__s3_request request = {
      .operation = "CreateBucket", .kind = CLEAT__S3_OTHER, .method = "PUT", .has_body = true, .text_cap = 1024};
  cleat__http_reply_init(&reply);
  if (cleat__s3_send((struct cleat__s3 *)store, &request, &reply, cleat__call(&cancel, &err)) != CLEAT_OK)
    die("creating a bucket", err.message);
  cleat__http_reply_clear(&reply);
  cleat__store_close(store);
}

void fixture_begin(void) {
  const char *temporary = getenv("TMPDIR");
  char random[17];
  endpoint = need("CLEAT_TEST_ENDPOINT");
  need("AWS_ACCESS_KEY_ID");
  need("AWS_SECRET_ACCESS_KEY");
  need("AWS_REGION");
  snprintf(folder, sizeof folder, "%s/cleat-store.XXXXXX", temporary != NULL ? temporary : "/tmp");
  if (mkdtemp(folder) == NULL)
    die(folder, "cannot be made");
  if (cleat__random_hex(8, random) != CLEAT_OK)
    die("random name", "none");
  snprintf(bucket, sizeof bucket, "store-%s", random);
  create_bucket();
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *walk) {
  (void)status;
  (void)kind;
  (void)walk;
  return remove(path);
}

void fixture_end(void) {
  (void)nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

const struct server_ways *fixture_ways(int kind) {
  return kind == FIXTURE_S3 ? server_ways() : server_ways_of_s3();
}

bool fixture_lacks(int kind, enum server_lack what) {
  return (fixture_ways(kind)->lacks & (unsigned)what) != 0;
}

Suite *fixture_suite(const char *name, const TTest *const *cases, size_t count) {
  static const char *const names[FIXTURE_KINDS] = {"file", "s3"};
  Suite *s = suite_create(name);
  for (int kind = 0; kind < FIXTURE_KINDS; kind++) {
    TCase *tcase = tcase_create(names[kind]);
    tcase_set_timeout(tcase, 120);
    for (size_t i = 0; i < count; i++)
      tcase_add_loop_test(tcase, cases[i], kind, kind + 1);
    suite_add_tcase(s, tcase);
  }
  return s;
}

int fixture_run(Suite *(*suite)(void)) {
  fixture_begin();
  int status = run_suite(suite());
  fixture_end();
  return status;
}

const char *fixture_endpoint(void) {
  return endpoint;
}

const char *fixture_bucket(void) {
  return bucket;
}

const char *fixture_folder(void) {
  return folder;
}

const char *fixture_url(const char *path, const char *query) {
  static char url[512];
  const char *option = getenv("CLEAT_TEST_OPTIONS");
  char name[64];
  if (option == NULL || option[0] != '?')
    option = "";
  snprintf(name, sizeof name, "%.*s", (int)strcspn(option, "="), option[0] != '\0' ? option + 1 : ""); /* "name=" */
  if (query[0] == '\0')
    snprintf(url, sizeof url, "s3://%s%s", path, option);
  else if (option[0] == '\0' || strstr(query, name) != NULL)
    snprintf(url, sizeof url, "s3://%s%s", path, query);
  else
    snprintf(url, sizeof url, "s3://%s%s&%s", path, query, option + 1);
  return url;
}

const char *fixture_s3_url(const char *query) {
  static unsigned count;
  char path[128];
  snprintf(path, sizeof path, "%s/run-%ld-%u", bucket, (long)getpid(), ++count);
  return fixture_url(path, query);
}

struct cleat__store *fixture_open(enum fixture_kind kind) {
  return fixture_open_for(kind, fixture_options().time_limit_s);
}

struct cleat__store *fixture_open_for(enum fixture_kind kind, uint32_t time_limit_s) {
  struct cleat_client_options options = fixture_options();
  char url[512];
  static unsigned count;
  options.time_limit_s = time_limit_s;
  if (kind == FIXTURE_S3)
    return fixture_open_url(fixture_s3_url(""), &options, NULL);
  snprintf(url, sizeof url, "file://%s/run-%ld-%u", folder, (long)getpid(), ++count);
  return fixture_open_url(url, &options, NULL);
}

char *fixture_pattern(size_t size, unsigned seed) {
  char *bytes = malloc(size + 1);
  if (bytes == NULL)
    die("memory", "none");
  for (size_t i = 0; i < size; i++)
    bytes[i] = (char)(i * 31 + i / 253 + i / 65521 + seed);
  return bytes;
}

cleat_status fixture_put(struct cleat__store *store, const char *key, const void *bytes, size_t size,
                         const struct cleat__put_options *options, struct cleat_error *err) {
  union {
    const void *from;
    void *base;
  } body = {bytes};
  struct cleat__span span = {body.base, size};
  struct cleat__put_options mine = {.condition = CLEAT__PUT_ALWAYS};
  atomic_bool cancel = false;
  if (options != NULL)
    mine = *options;
  mine.crc32c = cleat__crc32c(0, bytes, size);
  return store->ops->put(store, key, cleat__spans(&span, 1), &mine, cleat__call(&cancel, err));
}
