/* http_server.c: a scripted HTTP server. See http_server.h.
 *
 * The lock guards the list of connections; their threads never hold it while they read or write. A
 * connection's socket is closed by the one who joins its thread, so a number is never reused under it. */
#include "tests/mock/http_server.h"

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

struct connection {
  struct mock_server *server;
  struct connection *next;
  pthread_t thread;
  int fd;
  unsigned number;
  unsigned address;
};

struct mock_server {
  mock_handler *handler;
  void *ctx;
  enum mock_mode mode;
  int fd;
  atomic_int second_fd; /* -1: none */
  in_port_t port;       /* in network order */
  char url[64];
  pthread_t thread;
  atomic_bool stopping;
  atomic_uint requests;
  atomic_uint connection_count;
  struct {
    pthread_mutex_t lock;
    struct connection *connections;
  } synced;
};

static void must(bool condition, const char *what) {
  if (condition)
    return;
  fprintf(stderr, "mock server: %s failed\n", what);
  _exit(99);
}

void mock_write(int fd, const void *bytes, size_t size) {
  const char *at = bytes;
  while (size > 0) {
    ssize_t written = send(fd, at, size, MSG_NOSIGNAL);
    if (written <= 0)
      return;
    at += written;
    size -= (size_t)written;
  }
}

void mock_print(int fd, const char *format, ...) {
  char *text = NULL;
  va_list args;
  va_start(args, format);
  int length = vasprintf(&text, format, args);
  va_end(args);
  must(length >= 0, "vasprintf");
  mock_write(fd, text, (size_t)length);
  free(text);
}

bool mock_header(const struct mock_request *request, const char *name, char *value, size_t size) {
  size_t length = strlen(name);
  for (const char *line = strstr(request->head, "\r\n"); line != NULL; line = strstr(line + 2, "\r\n")) {
    if (strncasecmp(line + 2, name, length) != 0 || line[2 + length] != ':')
      continue;
    const char *start = line + 3 + length;
    start += strspn(start, " ");
    snprintf(value, size, "%.*s", (int)strcspn(start, "\r"), start);
    return true;
  }
  return false;
}

/* Reads up to the empty line. Bytes of the body that came along move to `rest`. */
static bool read_head(struct mock_request *request, char *rest, size_t *rest_bytes) {
  size_t used = 0;
  for (;;) {
    ssize_t got = recv(request->fd, request->head + used, sizeof request->head - 1 - used, 0);
    if (got <= 0)
      return false;
    used += (size_t)got;
    request->head[used] = '\0';
    char *end = memmem(request->head, used, "\r\n\r\n", 4);
    if (end == NULL)
      continue;
    *rest_bytes = used - (size_t)(end + 4 - request->head);
    memcpy(rest, end + 4, *rest_bytes);
    end[2] = '\0';
    return true;
  }
}

static bool read_body(struct mock_request *request, const char *rest, size_t rest_bytes) {
  char value[32] = "0";
  (void)mock_header(request, "Content-Length", value, sizeof value);
  request->body_bytes = (size_t)strtoull(value, NULL, 10);
  request->body = malloc(request->body_bytes + 1);
  must(request->body != NULL && rest_bytes <= request->body_bytes, "reading a body");
  memcpy(request->body, rest, rest_bytes);
  for (size_t used = rest_bytes; used < request->body_bytes;) {
    ssize_t got = recv(request->fd, request->body + used, request->body_bytes - used, 0);
    if (got <= 0)
      return false;
    used += (size_t)got;
  }
  request->body[request->body_bytes] = '\0';
  return true;
}

static bool serve_one(struct connection *connection, struct mock_request *request) {
  struct mock_server *server = connection->server;
  char rest[MOCK_HEAD_MAX];
  size_t rest_bytes = 0;
  bool again = false;
  *request =
      (struct mock_request){.fd = connection->fd, .connection = connection->number, .address = connection->address};
  if (server->mode != MOCK_CONNECT && !read_head(request, rest, &rest_bytes))
    return false;
  if (server->mode != MOCK_WHOLE || read_body(request, rest, rest_bytes)) {
    request->number = atomic_fetch_add(&server->requests, 1) + 1;
    again = server->handler(server->ctx, request);
  }
  free(request->body);
  return again;
}

static void *run_connection(void *argument) {
  struct connection *connection = argument;
  struct mock_request *request = malloc(sizeof *request);
  must(request != NULL, "malloc");
  while (serve_one(connection, request))
    continue;
  shutdown(connection->fd, SHUT_RDWR);
  free(request);
  return NULL;
}

static void start_connection(struct mock_server *server, int fd, unsigned address) {
  struct connection *connection = calloc(1, sizeof *connection);
  must(connection != NULL, "calloc");
  connection->server = server;
  connection->fd = fd;
  connection->address = address;
  connection->number = atomic_fetch_add(&server->connection_count, 1) + 1;
  pthread_mutex_lock(&server->synced.lock);
  connection->next = server->synced.connections;
  server->synced.connections = connection;
  pthread_mutex_unlock(&server->synced.lock);
  must(pthread_create(&connection->thread, NULL, run_connection, connection) == 0, "starting a thread");
}

static void *run_server(void *argument) {
  struct mock_server *server = argument;
  while (!atomic_load(&server->stopping)) {
    struct pollfd ready[] = {{.fd = server->fd, .events = POLLIN},
                             {.fd = atomic_load(&server->second_fd), .events = POLLIN}};
    (void)poll(ready, 2, 20);
    for (unsigned i = 0; i < 2; i++) {
      int fd = ready[i].revents != 0 ? accept(ready[i].fd, NULL, NULL) : -1;
      if (fd >= 0)
        start_connection(server, fd, i + 1);
    }
  }
  return NULL;
}

/* Of an address of this machine; port 0: a free one. */
static int listen_at(in_addr_t host, in_port_t *port) {
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = *port, .sin_addr.s_addr = htonl(host)};
  socklen_t size = sizeof address;
  must(bind(fd, (struct sockaddr *)&address, size) == 0 && listen(fd, 64) == 0 &&
           getsockname(fd, (struct sockaddr *)&address, &size) == 0,
       "listening");
  *port = address.sin_port;
  return fd;
}

struct mock_server *mock_server_start(mock_handler *handler, void *ctx, enum mock_mode mode) {
  struct mock_server *server = calloc(1, sizeof *server);
  must(server != NULL, "calloc");
  server->handler = handler;
  server->ctx = ctx;
  server->mode = mode;
  pthread_mutex_init(&server->synced.lock, NULL);
  atomic_init(&server->second_fd, -1);
  server->fd = listen_at(INADDR_LOOPBACK, &server->port);
  snprintf(server->url, sizeof server->url, "http://127.0.0.1:%d", ntohs(server->port));
  must(pthread_create(&server->thread, NULL, run_server, server) == 0, "starting a thread");
  return server;
}

void mock_server_also(struct mock_server *server) {
  atomic_store(&server->second_fd, listen_at(INADDR_LOOPBACK + 1, &server->port));
}

const char *mock_server_url(const struct mock_server *server) {
  return server->url;
}

unsigned mock_server_requests(struct mock_server *server) {
  return atomic_load(&server->requests);
}

unsigned mock_server_connections(struct mock_server *server) {
  return atomic_load(&server->connection_count);
}

bool mock_server_stopping(struct mock_server *server) {
  return atomic_load(&server->stopping);
}

void mock_server_stop(struct mock_server *server) {
  atomic_store(&server->stopping, true);
  pthread_join(server->thread, NULL);
  /* No more connections are added now. */
  for (struct connection *connection = server->synced.connections; connection != NULL;) {
    struct connection *next = connection->next;
    shutdown(connection->fd, SHUT_RDWR);
    pthread_join(connection->thread, NULL);
    close(connection->fd);
    free(connection);
    connection = next;
  }
  close(server->fd);
  if (atomic_load(&server->second_fd) >= 0)
    close(atomic_load(&server->second_fd));
  pthread_mutex_destroy(&server->synced.lock);
  free(server);
}
