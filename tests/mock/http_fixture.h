/* http_fixture.h: an HTTP client and a server for it on loopback, for tests of storage/http/http.c. One pair at a
 * time, in one global that the test's thread owns. */
#ifndef CLEAT_TESTS_MOCK_HTTP_FIXTURE_H
#define CLEAT_TESTS_MOCK_HTTP_FIXTURE_H

#include "storage/http/http.h"
#include "tests/mock/http_server.h"

struct http_fixture {
  struct mock_server *server;
  struct cleat__http *http;
  struct cleat__http_reply reply;
};

extern struct http_fixture web;

void web_start(mock_handler *handler, void *ctx, enum mock_mode mode);
void web_stop(void);

/* A request for the server's "/", whose text may have 1,024 bytes. */
struct cleat__http_request web_request(const char *method);
struct cleat__http_request web_put(struct cleat__spans spans);
struct cleat__http_request web_get_into(struct cleat__spans spans);

/* Sends on web.http, with the reply in web.reply. */
enum cleat__transport web_send(const struct cleat__http_request *request);

/* A handler that sends the text `ctx` to every request and keeps the connection. */
bool web_say(void *ctx, const struct mock_request *request);
bool web_say_and_close(void *ctx, const struct mock_request *request);

/* What take_body saw. */
struct web_body {
  size_t size;
  uint32_t crc32c;
  char expect[32]; /* the header */
};
bool web_take_body(void *ctx, const struct mock_request *request);

extern char web_ok_reply[]; /* 200 with the text "ok" */

#endif
