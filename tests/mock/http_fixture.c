/* http_fixture.c: a client and a server on loopback, and replies that many tests use. See http_fixture.h. */
#include "tests/mock/http_fixture.h"

#include "base/checksum.h"

#include <check.h>
#include <string.h>

struct http_fixture web;
char web_ok_reply[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

void web_start(mock_handler *handler, void *ctx, enum mock_mode mode) {
  struct cleat_error err;
  struct cleat__http_options options = {.connect_ms = 5000};
  web.server = mock_server_start(handler, ctx, mode);
  ck_assert_int_eq(cleat__http_new(&options, &web.http, &err), CLEAT_OK);
  cleat__http_reply_init(&web.reply);
}

void web_stop(void) {
  cleat__http_reply_clear(&web.reply);
  cleat__http_free(web.http);
  mock_server_stop(web.server);
}

struct cleat__http_request web_request(const char *method) {
  return (struct cleat__http_request){.method = method, .url = mock_server_url(web.server), .text_cap = 1024};
}

struct cleat__http_request web_put(struct cleat__spans spans) {
  struct cleat__http_request request = web_request("PUT");
  request.has_body = true;
  request.body = spans;
  return request;
}

struct cleat__http_request web_get_into(struct cleat__spans spans) {
  struct cleat__http_request request = web_request("GET");
  request.into_spans = true;
  request.into = spans;
  return request;
}

enum cleat__transport web_send(const struct cleat__http_request *request) {
  return cleat__http_send(web.http, request, &web.reply);
}

bool web_say(void *ctx, const struct mock_request *request) {
  const char *text = ctx;
  mock_write(request->fd, text, strlen(text));
  return true;
}

bool web_say_and_close(void *ctx, const struct mock_request *request) {
  (void)web_say(ctx, request);
  return false;
}

bool web_take_body(void *ctx, const struct mock_request *request) {
  struct web_body *body = ctx;
  body->size = request->body_bytes;
  body->crc32c = cleat__crc32c(0, request->body, request->body_bytes);
  (void)mock_header(request, "Expect", body->expect, sizeof body->expect);
  mock_write(request->fd, web_ok_reply, strlen(web_ok_reply));
  return true;
}
