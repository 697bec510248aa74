/* fuzz_http.c: all that a server may send in reply to a request: status line, headers, body. Input: what is
 * asked (G: a text, S: bytes into spans, H: a HEAD, P: a PUT) in one line, then the bytes of the reply.
 *
 * A thread listens on loopback, reads each request's head, sends the bytes and ends its side of the
 * connection; so libcurl's parser and ours see them as they would from a store. It reads `reply_bytes`,
 * which the target's thread sets before it connects and takes back after `served`. */
#include "storage/common/retry.h"
#include "storage/http/http.h"
#include "tests/fuzz/fuzz.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define TEXT_MAX 4096
#define LIMIT_MS 20000 /* no input may come near: the server ends every connection at once */

static struct fuzz_input reply_bytes;
static int listener;
static char url[64];
static sem_t served; /* posted when a connection is closed */

/* Up to the empty line; a body that follows is dropped with the rest. */
static bool read_head(int fd) {
  char bytes[8192];
  size_t used = 0;
  while (used < sizeof bytes) {
    ssize_t got = recv(fd, bytes + used, sizeof bytes - used, 0);
    if (got <= 0)
      return false;
    used += (size_t)got;
    if (memmem(bytes, used, "\r\n\r\n", 4) != NULL)
      return true;
  }
  return true;
}

static void send_reply(int fd) {
  const char *at = reply_bytes.text;
  size_t left = reply_bytes.size;
  while (left > 0) {
    ssize_t sent = send(fd, at, left, MSG_NOSIGNAL);
    if (sent <= 0)
      return;
    at += sent;
    left -= (size_t)sent;
  }
}

static void *serve(void *unused) {
  char rest[8192];
  (void)unused;
  for (;;) {
    int fd = accept(listener, NULL, NULL);
    if (fd < 0)
      continue;
    if (read_head(fd))
      send_reply(fd);
    shutdown(fd, SHUT_WR);
    while (recv(fd, rest, sizeof rest, 0) > 0)
      continue;
    close(fd);
    sem_post(&served);
  }
  return NULL;
}

static void start(void) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof address;
  pthread_t thread;
  listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  FUZZ_PROMISE(listener >= 0 && bind(listener, (struct sockaddr *)&address, size) == 0 && listen(listener, 16) == 0 &&
               getsockname(listener, (struct sockaddr *)&address, &size) == 0);
  snprintf(url, sizeof url, "http://127.0.0.1:%d/", ntohs(address.sin_port));
  FUZZ_PROMISE(sem_init(&served, 0, 0) == 0);
  FUZZ_PROMISE(pthread_create(&thread, NULL, serve, NULL) == 0);
  FUZZ_PROMISE(pthread_detach(thread) == 0);
}

static bool has_empty_line(void) {
  const struct fuzz_input *all = &reply_bytes;
  return memmem(all->text, all->size, "\n\r\n", 3) != NULL || memmem(all->text, all->size, "\n\n", 2) != NULL ||
         memmem(all->text, all->size, "\n\r", 2) != NULL;
}

static void check_reply(const struct cleat__http_request *request, enum cleat__transport transport,
                        const struct cleat__http_reply *reply) {
  int64_t wall_s = 0;
  size_t cap = request->text_cap > CLEAT__HTTP_ERROR_TEXT_MAX ? request->text_cap : CLEAT__HTTP_ERROR_TEXT_MAX;
  FUZZ_PROMISE(transport != CLEAT__TRANSPORT_INTERNAL && transport != CLEAT__TRANSPORT_TIMEOUT &&
               transport != CLEAT__TRANSPORT_CONNECT && transport != CLEAT__TRANSPORT_NO_MEMORY);
  FUZZ_PROMISE(transport == CLEAT__TRANSPORT_OK || reply->message[0] != '\0');
  FUZZ_PROMISE(transport != CLEAT__TRANSPORT_OK || reply->status >= 200);
  /* Headers that were cut are no reply. */
  FUZZ_PROMISE(transport != CLEAT__TRANSPORT_OK || has_empty_line());
  FUZZ_PROMISE(reply->text.length <= cap);
  FUZZ_PROMISE(request->into.count == 0 || reply->body_bytes <= request->into.items[0].length ||
               reply->text.length > 0);
  /* Some of them travel back to the store in a header or a document. */
  FUZZ_PROMISE(fuzz_is_line(reply->etag) && fuzz_is_line(reply->content_range) && fuzz_is_line(reply->date) &&
               fuzz_is_line(reply->retry_after) && fuzz_is_line(reply->request_id) && fuzz_is_line(reply->region));
  FUZZ_PROMISE(cleat__retry_after_ms(reply->retry_after, 1792000000) >= -1);
  (void)cleat__http_date(reply->date, &wall_s);
}

static struct cleat__http_request make_request(char kind, struct cleat__span *body, struct cleat__span *into) {
  struct cleat__http_request request = {.method = "GET", .url = url, .text_cap = TEXT_MAX, .limit_ms = LIMIT_MS};
  if (kind == 'H') {
    request.method = "HEAD";
  } else if (kind == 'P') {
    request.method = "PUT";
    request.has_body = true;
    request.body = cleat__spans(body, 1);
  } else if (kind == 'S') {
    request.into_spans = true;
    request.into = cleat__spans(into, 1);
  }
  return request;
}

/* A client for each input: what one reply leaves behind must not change what the next one does. */
static void ask(const struct cleat__http_request *request) {
  const struct cleat__http_options options = {.proxies = NULL};
  struct cleat__http *http = NULL;
  struct cleat__http_reply reply;
  struct cleat_error err;
  FUZZ_PROMISE(cleat__http_new(&options, &http, &err) == CLEAT_OK);
  cleat__http_reply_init(&reply);
  enum cleat__transport transport = cleat__http_send(http, request, &reply);
  check_reply(request, transport, &reply);
  cleat__http_reply_clear(&reply);
  cleat__http_free(http);
  while (sem_wait(&served) != 0)
    continue;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static char body[] = "0123456789";
  char room[64];
  struct cleat__span from = {body, sizeof body - 1};
  struct cleat__span into = {room, sizeof room};
  if (url[0] == '\0')
    start();
  struct fuzz_input input = fuzz_input(data, size);
  char *line = fuzz_line(&input);
  char *bytes = fuzz_exact(&input);
  reply_bytes = (struct fuzz_input){bytes, input.size};
  struct cleat__http_request request = make_request(line[0], &from, &into);
  ask(&request);
  free(bytes);
  free(line);
  return 0;
}
