/* http_server.h: a small HTTP server on loopback that says what a test wants it to say, byte for byte.
 *
 * One thread accepts, one more runs each connection. For every request the handler is called on the
 * connection's thread; it writes raw bytes to request->fd, or says nothing at all. The server counts what it sees; the
 * counts may be read at any time. */
#ifndef CLEAT_TESTS_MOCK_HTTP_SERVER_H
#define CLEAT_TESTS_MOCK_HTTP_SERVER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#define MOCK_HEAD_MAX 32768

struct mock_request {
  int fd;
  unsigned number;          /* of all requests of the server, from 1 */
  unsigned connection;      /* from 1 */
  unsigned address;         /* that it was sent to: 1, or 2 for the one of mock_server_also */
  char head[MOCK_HEAD_MAX]; /* request line and headers, NUL-terminated */
  char *body;               /* NUL-terminated; NULL when it is not read */
  size_t body_bytes;
};

struct mock_server;

/* Answers one request. True: read the next one from this connection; false: close it. */
typedef bool mock_handler(void *ctx, const struct mock_request *request);

/* When the handler is called, and so what it finds in the request. */
enum mock_mode {
  MOCK_WHOLE = 0, /* after head and body */
  MOCK_HEAD,      /* after the head; the body is never read */
  MOCK_CONNECT    /* at once; nothing is read */
};

/* Listens on a free port of 127.0.0.1. Ends the test program when it cannot. */
struct mock_server *mock_server_start(mock_handler *handler, void *ctx, enum mock_mode mode);

/* Listens on 127.0.0.2 too, on the same port. */
void mock_server_also(struct mock_server *server);

/* "http://127.0.0.1:PORT" */
const char *mock_server_url(const struct mock_server *server);
unsigned mock_server_requests(struct mock_server *server);
unsigned mock_server_connections(struct mock_server *server);

/* Closes all connections, ends all threads. */
void mock_server_stop(struct mock_server *server);

/* True once the server is being stopped: a handler that waits looks at it. */
bool mock_server_stopping(struct mock_server *server);

/* Writes formatted text, or bytes; errors are ignored, since the client may have gone. */
void mock_print(int fd, const char *format, ...) __attribute__((format(printf, 2, 3)));
void mock_write(int fd, const void *bytes, size_t size);

/* The value of a header (name in any case) in `value`; false when it is absent. */
bool mock_header(const struct mock_request *request, const char *name, char *value, size_t size);

#endif
