/* test_http_addresses.c: a name with several addresses. A request that is sent once more beside a straggler, and a try
 * after one that failed, go to another address where there is one.
 *
 * The names are this program's own: its getaddrinfo stands before libc's, for libcurl too. */
#include "storage/http/http.h"

#include "tests/mock/http_fixture.h"
#include "tests/mock/run_suite.h"
#include "tests/mock/s3_script.h"
#include "tests/mock/store_check.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS 8 /* libcurl shuffles the addresses: by chance the right one comes first half the time */

/* ---- names ---- */

static struct addrinfo *add_address(struct addrinfo *next, in_addr_t host, in_port_t port) {
  struct addrinfo *info = calloc(1, sizeof *info + sizeof(struct sockaddr_in));
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = port, .sin_addr.s_addr = htonl(host)};
  ck_assert_ptr_nonnull(info);
  memcpy(info + 1, &address, sizeof address);
  info->ai_family = AF_INET;
  info->ai_socktype = SOCK_STREAM;
  info->ai_addrlen = sizeof address;
  info->ai_addr = (struct sockaddr *)(info + 1);
  info->ai_next = next;
  return info;
}

#define VISIBLE __attribute__((visibility("default")))

// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name)

/* one.test and two.test have that many addresses; of others only numbers are known. */
VISIBLE int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **result) {
  struct in_addr number;
  in_port_t port = htons((in_port_t)(service != NULL ? strtoul(service, NULL, 10) : 0));
  (void)hints;
  if (name != NULL && strcmp(name, "two.test") == 0)
    *result = add_address(add_address(NULL, INADDR_LOOPBACK + 1, port), INADDR_LOOPBACK, port);
  else if (name != NULL && strcmp(name, "one.test") == 0)
    *result = add_address(NULL, INADDR_LOOPBACK, port);
  else if (name != NULL && inet_pton(AF_INET, name, &number) == 1)
    *result = add_address(NULL, ntohl(number.s_addr), port);
  else
    return EAI_NONAME;
  return 0;
}

VISIBLE void freeaddrinfo(struct addrinfo *info) {
  while (info != NULL) {
    struct addrinfo *next = info->ai_next;
    free(info);
    info = next;
  }
}

// NOLINTEND(readability-inconsistent-declaration-parameter-name)

/* ---- the server ---- */

static struct {
  atomic_uint address[8]; /* that each connection came to, from 1 on */
  unsigned bad;           /* this request, from 1 on, has no answer */
  bool silent;            /* and its connection stays, else it is closed */
} seen;

static bool act(void *ctx, const struct mock_request *request) {
  const struct cleat__clock *clock = cleat__clock_system();
  (void)ctx;
  ck_assert_uint_lt(request->connection, 8);
  atomic_store(&seen.address[request->connection], request->address);
  if (request->number != seen.bad) {
    mock_write(request->fd, web_ok_reply, strlen(web_ok_reply));
    return true;
  }
  while (seen.silent && !mock_server_stopping(web.server))
    clock->wait_ms(clock->ctx, 10, NULL);
  return false;
}

static unsigned went_to(unsigned connection) {
  return atomic_load(&seen.address[connection]);
}

/* A request to `name`; its text stays in `url`. */
static struct cleat__http_request begin(const char *name, unsigned bad, bool silent, char url[64]) {
  memset(&seen, 0, sizeof seen);
  seen.bad = bad;
  seen.silent = silent;
  web_start(act, NULL, MOCK_WHOLE);
  mock_server_also(web.server);
  snprintf(url, 64, "http://%s%s", name, strrchr(mock_server_url(web.server), ':'));
  struct cleat__http_request request = web_request("GET");
  request.url = url;
  return request;
}

/* ---- the second of two ---- */

static bool is_due(void *ctx, int64_t elapsed_ms) {
  (void)ctx;
  (void)elapsed_ms;
  return mock_server_requests(web.server) >= seen.bad; /* the first one has arrived */
}

static void expect_second(const struct cleat__http_request *request) {
  ck_assert_msg(web_send(request) == CLEAT__TRANSPORT_OK, "%s", web.reply.message);
  ck_assert(web.reply.second);
  ck_assert_uint_eq(mock_server_connections(web.server), 2);
}

START_TEST(a_second_one_goes_elsewhere) {
  for (int i = 0; i < ROUNDS; i++) {
    char url[64];
    struct cleat__http_request request = begin("two.test", 1, true, url);
    request.second_is_due = is_due;
    expect_second(&request);
    ck_assert_uint_ne(went_to(1), went_to(2));
    web_stop();
  }
}
END_TEST

START_TEST(a_second_one_beside_a_kept_connection) {
  for (int i = 0; i < ROUNDS; i++) {
    char url[64];
    struct cleat__http_request request = begin("two.test", 2, true, url);
    ck_assert_int_eq(web_send(&request), CLEAT__TRANSPORT_OK);
    request.second_is_due = is_due;
    expect_second(&request);
    ck_assert_uint_ne(went_to(1), went_to(2));
    web_stop();
  }
}
END_TEST

/* To the same one, where there is no other. */
START_TEST(a_second_one_to_the_only_address) {
  char url[64];
  struct cleat__http_request request = begin("one.test", 1, true, url);
  request.second_is_due = is_due;
  expect_second(&request);
  ck_assert_uint_eq(went_to(1), 1);
  ck_assert_uint_eq(went_to(2), 1);
  web_stop();
}
END_TEST

/* ---- one after the other ---- */

START_TEST(an_address_to_avoid) {
  static const char *const names[] = {"two.test", "one.test"};
  for (int i = 0; i < 2 * ROUNDS; i++) {
    char url[64];
    union cleat__http_address last;
    struct cleat__http_request request = begin(names[i % 2], 1, false, url);
    ck_assert_int_eq(web_send(&request), CLEAT__TRANSPORT_BROKEN);
    last = web.reply.peer;
    ck_assert_int_eq(last.any.sa_family, AF_INET);
    ck_assert_uint_eq(ntohl(last.v4.sin_addr.s_addr), INADDR_LOOPBACK + went_to(1) - 1);
    request.fresh = true;
    request.avoid = &last;
    ck_assert_msg(web_send(&request) == CLEAT__TRANSPORT_OK, "%s", web.reply.message);
    ck_assert(went_to(2) == went_to(1) ? i % 2 == 1 : i % 2 == 0);
    web_stop();
  }
}
END_TEST

/* Nobody listens at the other address: the one that is avoided is not what the error is about. */
START_TEST(another_address_where_nobody_is) {
  char url[64];
  memset(&seen, 0, sizeof seen);
  web_start(web_say, web_ok_reply, MOCK_WHOLE);
  snprintf(url, sizeof url, "http://two.test%s", strrchr(mock_server_url(web.server), ':'));
  struct cleat__http_request request = web_request("GET");
  request.url = url;
  ck_assert_int_eq(web_send(&request), CLEAT__TRANSPORT_OK);
  union cleat__http_address last = web.reply.peer;
  ck_assert_uint_eq(ntohl(last.v4.sin_addr.s_addr), INADDR_LOOPBACK);
  request.fresh = true;
  request.avoid = &last;
  ck_assert_int_eq(web_send(&request), CLEAT__TRANSPORT_CONNECT);
  last = web.reply.peer;
  ck_assert_uint_eq(ntohl(last.v4.sin_addr.s_addr), INADDR_LOOPBACK + 1);
  /* And back again. */
  ck_assert_int_eq(web_send(&request), CLEAT__TRANSPORT_OK);
  web_stop();
}
END_TEST

/* ---- the store's tries ---- */

START_TEST(a_try_after_one_that_broke_goes_elsewhere) {
  static const char *const replies[] = {HANG_UP, OK_REPLY};
  static struct mock_request *const requests = script.requests;
  for (int i = 0; i < ROUNDS; i++) {
    struct cleat_error err;
    atomic_bool cancel = false;
    char byte = 'x', endpoint[64];
    struct cleat__span span = {&byte, 1};
    struct cleat__put_options put = {.condition = CLEAT__PUT_ALWAYS};
    script.replies = replies;
    script.count = 2;
    script_start();
    mock_server_also(script.server);
    snprintf(endpoint, sizeof endpoint, "http://two.test%s", strrchr(mock_server_url(script.server), ':'));
    script_open(endpoint, "bucket/run", NULL);
    ck_ok(script.store->ops->put(script.store, "k", cleat__spans(&span, 1), &put, cleat__call(&cancel, &err)));
    ck_assert_uint_ne(requests[0].address, requests[1].address);
    script_expect_header(2, "host", endpoint + strlen("http://"));
    script_end(2);
  }
}
END_TEST

static const struct suite_row tests[] = {
    CASE("http_addresses", NULL, NULL, 60),
    TEST(a_second_one_goes_elsewhere, 1),
    TEST(a_second_one_beside_a_kept_connection, 1),
    TEST(a_second_one_to_the_only_address, 1),
    TEST(an_address_to_avoid, 1),
    TEST(another_address_where_nobody_is, 1),
    TEST(a_try_after_one_that_broke_goes_elsewhere, 1),
};

int main(void) {
  return run_table("http_addresses", tests, COUNT(tests));
}
