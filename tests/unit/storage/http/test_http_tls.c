/* test_http_tls.c: TLS handshakes that do not come to their end: which are worth another try, and what is said of the
 * others. Nothing rests on what libcurl and OpenSSL say of them, which is another thing in each version. */
#include "storage/http/http.h"
#include "storage/http/tls.h"

#include "tests/mock/http_fixture.h"
#include "tests/mock/run_suite.h"

#include <check.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

enum end { CLOSES, RESETS, STAYS };

/* What a server does when the first bytes of the handshake have come. */
struct server {
  const char *says;
  size_t size;
  enum end end;
  bool at_once; /* without reading anything */
};

#define SAYS(text) text, sizeof text - 1
#define HELLO "\x16\x03\x03\x00\x7a\x02\x00\x00\x76\x03\x03" /* the beginning of a ServerHello */
#define ALERT(level, description) "\x15\x03\x03\x00\x02" level description

static void wait_for_end(int fd) {
  char bytes[512];
  while (recv(fd, bytes, sizeof bytes, 0) > 0)
    continue;
}

static bool act(void *ctx, const struct mock_request *request) {
  const struct server *server = ctx;
  struct sockaddr nobody = {.sa_family = AF_UNSPEC};
  char bytes[16384];
  if (!server->at_once)
    (void)!recv(request->fd, bytes, sizeof bytes, 0);
  mock_write(request->fd, server->says, server->size);
  if (server->end == RESETS)
    (void)connect(request->fd, &nobody, sizeof nobody); /* sends RST */
  else if (server->end == STAYS)
    wait_for_end(request->fd);
  return false;
}

static enum cleat__transport meet(struct server *server) {
  char url[64];
  web_start(act, server, MOCK_CONNECT);
  snprintf(url, sizeof url, "https%s", mock_server_url(web.server) + strlen("http"));
  struct cleat__http_request request = web_request("GET");
  request.url = url;
  return web_send(&request);
}

static const struct server CUT[] = {
    {SAYS(""), CLOSES, false},
    {SAYS(""), RESETS, false},
    {SAYS(""), CLOSES, true},
    {SAYS(HELLO), CLOSES, false},
    {SAYS(HELLO), RESETS, false},
    {SAYS(ALERT("\x01", "\x00")), CLOSES, false}, /* close_notify */
    {SAYS(ALERT("\x02", "\x50")), CLOSES, false}, /* internal_error */
    {SAYS(ALERT("\x02", "\x50")), STAYS, false},
    {SAYS("\x16\x03"), CLOSES, false},
};

START_TEST(a_handshake_that_is_cut_is_worth_another_try) {
  struct server server = CUT[_i];
  enum cleat__transport transport = meet(&server);
  ck_assert_msg(transport == CLEAT__TRANSPORT_BROKEN, "%d: %s", transport, web.reply.message);
  ck_assert(!web.reply.sent);
  ck_assert_ptr_nonnull(strstr(web.reply.message, "during the TLS handshake"));
  web_stop();
}
END_TEST

static const struct server NOT_TLS[] = {
    {SAYS("HTTP/1.1 400 Bad Request\r\n\r\n"), CLOSES, false},
    {SAYS("HTTP/1.1 400 Bad Request\r\n\r\n"), CLOSES, true},
    {SAYS("HTTP/1.1 400 Bad Request\r\n\r\n"), STAYS, false},
    {SAYS("SSH-2.0-OpenSSH_9.2p1\r\n"), STAYS, true},
    {SAYS("<html>"), CLOSES, false},
    {SAYS("\x16\x48\x54\x54\x50\x2f\x31"), CLOSES, false},
};

START_TEST(a_server_without_tls_is_told_by_what_it_answers) {
  struct server server = NOT_TLS[_i];
  enum cleat__transport transport = meet(&server);
  ck_assert_msg(transport == CLEAT__TRANSPORT_TLS, "%d: %s", transport, web.reply.message);
  ck_assert_str_eq(web.reply.message, CLEAT__HTTP_NO_TLS);
  web_stop();
}
END_TEST

static const struct server REFUSES[] = {
    {SAYS(ALERT("\x02", "\x28")), CLOSES, false}, /* handshake_failure */
    {SAYS(ALERT("\x02", "\x46")), CLOSES, false}, /* protocol_version */
    {SAYS(ALERT("\x02", "\x46")), STAYS, false},
    {SAYS(ALERT("\x02", "\x70")), STAYS, false}, /* unrecognized_name */
    /* What we refuse, of a server that waits for more: a record over the limit. */
    {SAYS("\x16\x03\x03\xff\xff\x02"), STAYS, false},
};

START_TEST(a_refusal_is_final) {
  struct server server = REFUSES[_i];
  enum cleat__transport transport = meet(&server);
  ck_assert_msg(transport == CLEAT__TRANSPORT_TLS, "%d: %s", transport, web.reply.message);
  ck_assert_str_ne(web.reply.message, CLEAT__HTTP_NO_TLS);
  ck_assert_str_ne(web.reply.message, "");
  web_stop();
}
END_TEST

/* Where libcurl tells nothing of what came, the end of the connection has to do. */
START_TEST(nothing_known) {
  struct cleat__http_tls tls = {.size = 0};
  ck_assert_int_eq(cleat__http_tls_judge(&tls, true), CLEAT__HTTP_HANDSHAKE_CUT);
  ck_assert_int_eq(cleat__http_tls_judge(&tls, false), CLEAT__HTTP_HANDSHAKE_REFUSED);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("http_tls", NULL, NULL, 60),
    TEST(a_handshake_that_is_cut_is_worth_another_try, COUNT(CUT)),
    TEST(a_server_without_tls_is_told_by_what_it_answers, COUNT(NOT_TLS)),
    TEST(a_refusal_is_final, COUNT(REFUSES)),
    TEST(nothing_known, 1),
};

int main(void) {
  return run_table("http_tls", tests, COUNT(tests));
}
