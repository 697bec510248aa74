/* store_fixture.h: stores for tests to open: folders below one temporary folder, and folders in one
 * bucket of the S3 server that the environment names.
 *
 * fixture_begin runs before Check forks, so that all test children share the bucket and the folder.
 * A fixture that cannot be made ends the program with a message and status 1. */
#ifndef CLEAT_TESTS_MOCK_STORE_FIXTURE_H
#define CLEAT_TESTS_MOCK_STORE_FIXTURE_H

#include "storage/common/store.h"
#include "tests/mock/server_ways.h"

#include <check.h>

enum fixture_kind { FIXTURE_FILE = 0, FIXTURE_S3 = 1, FIXTURE_KINDS = 2 };

/* Needs CLEAT_TEST_ENDPOINT, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION. Creates a bucket with
 * a random name by a signed request of its own. */
void fixture_begin(void);

/* Removes the temporary folder. The bucket stays: the server is as temporary as the test run. */
void fixture_end(void);

/* What the server does differently is an expectation of the tests. A folder is like S3. */
const struct server_ways *fixture_ways(int kind);
bool fixture_lacks(int kind, enum server_lack what);

/* The table of cases that every store must pass: one test case for each kind of store, in which _i is the kind. */
Suite *fixture_suite(const char *name, const TTest *const *cases, size_t count);

/* What main does: begins, runs the suite, ends. Returns the program's exit status. */
int fixture_run(Suite *(*suite)(void));

const char *fixture_endpoint(void);
const char *fixture_bucket(void);
const char *fixture_folder(void);

/* Opens a store of its own, empty; the caller closes it. */
struct cleat__store *fixture_open(enum fixture_kind kind);

/* The same, for operations that are known to be tried until the time limit. */
struct cleat__store *fixture_open_for(enum fixture_kind kind, uint32_t time_limit_s);

/* The options that reach the S3 server. */
struct cleat_client_options fixture_options(void);

/* Opens `url` with `options`, and `clock` or, for NULL, the system's. */
struct cleat__store *fixture_open_url(const char *url, const struct cleat_client_options *options,
                                      const struct cleat__clock *clock);

/* An s3:// URL for a folder of its own, with `query` ("" or "?…") behind it, and CLEAT_TEST_OPTIONS ("?name=value"): an
 * option that the server needs, unless `query` has another value of it. Static memory. */
const char *fixture_s3_url(const char *query);

/* The same for `path`: a bucket, perhaps with a folder. */
const char *fixture_url(const char *path, const char *query);

/* `size` bytes (free) that differ at every place that a test could mix up. */
char *fixture_pattern(size_t size, unsigned seed);

/* A put of one span whose CRC is right; `options` NULL: always. */
cleat_status fixture_put(struct cleat__store *store, const char *key, const void *bytes, size_t size,
                         const struct cleat__put_options *options, struct cleat_error *err);

#endif
