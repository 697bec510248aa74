/* key_script.c: a scripted place for keys. See key_script.h. */
#include "tests/mock/key_script.h"

#include "base/mem.h"
#include "tests/mock/scratch.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

struct key_script keys_of;
struct cleat_error err;

static bool play(void *ctx, const struct mock_request *request) {
  struct key_script *playing = ctx;
  unsigned step = request->number < playing->count ? request->number : playing->count;
  const char *reply = playing->replies[step - 1];
  if (request->number <= KEY_REQUESTS_MAX) {
    struct key_request *kept = &playing->requests[request->number - 1];
    snprintf(kept->head, sizeof kept->head, "%s", request->head);
    snprintf(kept->body, sizeof kept->body, "%s", request->body);
  }
  atomic_fetch_add(&playing->played, 1);
  if (playing->delay_ms > 0 && (playing->delayed == 0 || request->number <= playing->delayed))
    (void)poll(NULL, 0, (int)playing->delay_ms);
  mock_write(request->fd, reply, strlen(reply));
  return false;
}

static int64_t monotonic_ms(void *ctx) {
  (void)ctx;
  return 0;
}

static int64_t wall_s(void *ctx) {
  (void)ctx;
  return atomic_load(&keys_of.wall_s);
}

static bool wait_ms(void *ctx, int64_t ms, const atomic_bool *cancel) {
  (void)ctx;
  (void)ms;
  return cancel == NULL || !atomic_load(cancel);
}

static const struct cleat__clock clock_that_stands = {
    .monotonic_ms = monotonic_ms, .wall_s = wall_s, .wait_ms = wait_ms};

/* One renewal at a time logs. */
static void keep_log(void *user, enum cleat_log_level level, const char *line) {
  (void)user;
  (void)level;
  size_t used = strlen(keys_of.logged);
  snprintf(keys_of.logged + used, sizeof keys_of.logged - used, "%s\n", line);
  atomic_fetch_add(&keys_of.log_lines, 1);
}

void key_script_setup(void) {
  static const char *const names[] = {"AWS_ACCESS_KEY_ID",
                                      "AWS_SECRET_ACCESS_KEY",
                                      "AWS_SESSION_TOKEN",
                                      "AWS_PROFILE",
                                      "AWS_SHARED_CREDENTIALS_FILE",
                                      "AWS_CONFIG_FILE",
                                      "AWS_WEB_IDENTITY_TOKEN_FILE",
                                      "AWS_ROLE_ARN",
                                      "AWS_ROLE_SESSION_NAME",
                                      "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
                                      "AWS_CONTAINER_CREDENTIALS_FULL_URI",
                                      "AWS_CONTAINER_AUTHORIZATION_TOKEN",
                                      "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
                                      "AWS_EC2_METADATA_SERVICE_ENDPOINT",
                                      "AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE",
                                      "http_proxy",
                                      "HTTPS_PROXY",
                                      "https_proxy",
                                      "ALL_PROXY",
                                      "all_proxy",
                                      "NO_PROXY",
                                      "no_proxy"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    unsetenv(names[i]);
  setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
  setenv("HOME", scratch_make(), 1);
  ck_assert_int_eq(mkdir(scratch_path(".aws"), 0700), 0);
  memset(&keys_of, 0, sizeof keys_of);
  memset(&err, 0, sizeof err);
  atomic_store(&keys_of.wall_s, KEY_NOW_S);
  keys_of.client = (struct cleat_client_options)CLEAT_CLIENT_OPTIONS_INIT;
  keys_of.options = (struct cleat__s3_chain_options){.client = &keys_of.client,
                                                     .region = "eu-west-1",
                                                     .clock = &clock_that_stands,
                                                     .log = {.write = keep_log},
                                                     .process_ms = 5000};
}

void key_script_teardown(void) {
  cleat__s3_credentials_free(keys_of.chain);
  if (keys_of.server != NULL)
    mock_server_stop(keys_of.server);
  ck_assert_msg(strstr(keys_of.logged, "hidden") == NULL, "logged: %s", keys_of.logged);
  scratch_remove();
}

const char *key_script_serve(const char *const *replies, unsigned count) {
  keys_of.replies = replies;
  keys_of.count = count;
  keys_of.server = mock_server_start(play, &keys_of, MOCK_WHOLE);
  return mock_server_url(keys_of.server);
}

cleat_status key_get(void) {
  cleat__s3_credentials_free(keys_of.chain);
  keys_of.chain = NULL;
  cleat_status status = cleat__s3_credentials_new(&keys_of.options, &keys_of.chain, &err);
  return status != CLEAT_OK ? status : key_get_again();
}

cleat_status key_get_again(void) {
  memset(&keys_of.keys, 0, sizeof keys_of.keys);
  return cleat__s3_credentials_get(keys_of.chain, &keys_of.keys, cleat__call(NULL, &err));
}

void key_out_of_memory(unsigned long at_least) {
  unsigned long n = 1;
  for (bool done = false; !done; n++) {
    cleat__fault_arm(n, false);
    cleat_status status = key_get();
    done = cleat__fault_disarm() < n;
    ck_assert_msg(status == CLEAT_OK || (!done && status == CLEAT_NO_MEMORY), "%lu: %s", n, err.message);
  }
  ck_assert_uint_gt(n, at_least);
}

void key_expect(const char *id, const char *source, int64_t expires_s) {
  ck_assert_str_eq(keys_of.keys.access_key_id, id);
  ck_assert_str_eq(keys_of.keys.secret_access_key, "hidden-secret");
  ck_assert_str_eq(keys_of.keys.session_token, expires_s == 0 ? "" : "hidden-token");
  ck_assert_int_eq(keys_of.keys.expires_s, expires_s);
  ck_assert_str_eq(cleat__s3_credentials_source(keys_of.chain), source);
}

void key_fails(cleat_status got, cleat_status wanted, const char *word) {
  ck_assert_msg(got == wanted, "%s, not %s: %s", cleat_status_name(got), cleat_status_name(wanted), err.message);
  ck_assert_int_eq(err.status, got);
  ck_assert_msg(strstr(err.message, word) != NULL, "'%s' lacks '%s'", err.message, word);
  ck_assert_msg(strstr(err.message, "hidden") == NULL, "%s", err.message);
  ck_assert_msg(strstr(err.hint, "hidden") == NULL, "%s", err.hint);
  ck_assert_msg(strchr(err.message, '\n') == NULL, "%s", err.message);
  ck_assert_str_eq(keys_of.keys.access_key_id, "");
}

unsigned key_requests(void) {
  return keys_of.server == NULL ? 0 : mock_server_requests(keys_of.server);
}

static const struct key_request *seen(unsigned number) {
  ck_assert_uint_le(number, atomic_load(&keys_of.played));
  return &keys_of.requests[number - 1];
}

void key_saw_line(unsigned number, const char *line) {
  const char *head = seen(number)->head;
  ck_assert_msg(strncmp(head, line, strlen(line)) == 0, "%.200s, not %s", head, line);
}

void key_saw_header(unsigned number, const char *name, const char *value) {
  static struct mock_request request;
  char text[1024] = "";
  snprintf(request.head, sizeof request.head, "%s", seen(number)->head);
  bool there = mock_header(&request, name, text, sizeof text);
  ck_assert_msg(there == (value != NULL), "%s", name);
  if (value != NULL)
    ck_assert_msg(strstr(text, value) != NULL, "%s: %s, not %s", name, text, value);
}

void key_saw_field(unsigned number, const char *field) {
  const char *at = strstr(seen(number)->body, field);
  size_t length = strlen(field);
  ck_assert_msg(at != NULL && (at[length] == '&' || at[length] == '\0'), "%s lacks %s", seen(number)->body, field);
}

const char *key_write(const char *name, const char *text) {
  scratch_write(name, text, strlen(text));
  return scratch_path(name);
}
