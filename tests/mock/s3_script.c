/* s3_script.c: a scripted server and a virtual clock for the S3 driver. See s3_script.h. */
#include "tests/mock/s3_script.h"

#include "storage/s3/open.h"
#include "tests/mock/store_check.h"

#include <stdio.h>

struct s3_script script;

static bool play(void *ctx, const struct mock_request *request) {
  struct s3_script *playing = ctx;
  unsigned step = request->number < playing->count ? request->number : playing->count;
  const char *reply = playing->replies[step - 1];
  if (request->number <= SCRIPT_REQUESTS_MAX)
    playing->requests[request->number - 1] = *request;
  atomic_fetch_add(&playing->played, 1); /* before the reply, so that who has it sees the request */
  mock_write(request->fd, reply, strlen(reply));
  return reply[0] != '\0' && strstr(reply, "Connection: close") == NULL;
}

const struct mock_request *script_seen(unsigned number) {
  ck_assert_uint_le(number, atomic_load(&script.played));
  return &script.requests[number - 1];
}

static int64_t virtual_monotonic_ms(void *ctx) {
  (void)ctx;
  return script.now_ms;
}

static int64_t virtual_wall_s(void *ctx) {
  (void)ctx;
  return 1792000000 + script.now_ms / 1000;
}

static bool virtual_wait_ms(void *ctx, int64_t ms, const atomic_bool *cancel) {
  (void)ctx;
  script.now_ms += ms;
  script.waited_ms += ms;
  script.longest_wait_ms = ms > script.longest_wait_ms ? ms : script.longest_wait_ms;
  script.waits++;
  return !atomic_load(cancel);
}

static const struct cleat__clock virtual_clock = {
    .monotonic_ms = virtual_monotonic_ms, .wall_s = virtual_wall_s, .wait_ms = virtual_wait_ms};

static void keep_log(void *user, enum cleat_log_level level, const char *line) {
  (void)user;
  ck_assert_int_eq(level, CLEAT_LOG_INFO);
  script.log_lines++;
  snprintf(script.last_log, sizeof script.last_log, "%s", line);
}

void script_open(const char *endpoint, const char *location, const char *session_token) {
  struct cleat_error err = {0};
  struct cleat_client_options options = CLEAT_CLIENT_OPTIONS_INIT;
  struct cleat__store_config config = {.options = &options, .clock = &virtual_clock, .log = {.write = keep_log}};
  options.endpoint = endpoint;
  options.region = "eu-west-1";
  options.access_key_id = "AKID";
  options.secret_access_key = "very-secret";
  options.session_token = session_token;
  ck_ok(cleat__store_s3_open(location, &config, &script.store, &err));
  script.now_ms = 1000;
  script.waited_ms = script.longest_wait_ms = 0;
  script.waits = script.log_lines = 0;
}

void script_start(void) {
  atomic_store(&script.played, 0);
  script.server = mock_server_start(play, &script, MOCK_WHOLE);
}

void script_begin(const char *const *replies, unsigned count) {
  script.replies = replies;
  script.count = count;
  script_start();
  script_open(mock_server_url(script.server), "bucket/run", NULL);
}

void script_end(unsigned requests) {
  ck_assert_uint_eq(mock_server_requests(script.server), requests);
  cleat__store_close(script.store);
  mock_server_stop(script.server);
}

void script_expect_line(unsigned request, const char *line) {
  const char *head_text = script_seen(request)->head;
  ck_assert_msg(strncmp(head_text, line, strlen(line)) == 0, "%.200s, not %s", head_text, line);
}

/* `value` NULL: the header is not there. */
void script_expect_header(unsigned request, const char *name, const char *value) {
  char text[1024] = "";
  bool there = mock_header(script_seen(request), name, text, sizeof text);
  ck_assert_msg(there == (value != NULL), "%s", name);
  if (value != NULL)
    ck_assert_msg(strcmp(text, value) == 0, "%s: %s, not %s", name, text, value);
}
