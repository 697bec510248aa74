/* http_socket.c: see http_socket.h. */
#include "storage/http_socket.h"

#include <string.h>
#include <unistd.h>

static void forget(struct cleat__http_sockets *sockets, size_t index) {
  sockets->count--;
  memmove(&sockets->open[index], &sockets->open[index + 1],
          (sockets->count - index) * sizeof sockets->open[0]);
}

static int on_open(void *ctx, curl_socket_t socket, curlsocktype purpose) {
  struct cleat__http_sockets *sockets = ctx;
  (void)purpose;
  if (sockets->count == CLEAT__HTTP_SOCKETS_MAX)
    forget(sockets, 0);
  sockets->open[sockets->count++] = socket;
  return CURL_SOCKOPT_OK;
}

static int on_close(void *ctx, curl_socket_t socket) {
  struct cleat__http_sockets *sockets = ctx;
  for (size_t i = 0; i < sockets->count; i++) {
    if (sockets->open[i] == socket) {
      forget(sockets, i);
      break;
    }
  }
  return close(socket);
}

CURLcode cleat__http_sockets_attach(struct cleat__http_sockets *sockets, CURL *curl) {
  CURLcode code = CURLE_OK;
#define SET(option, value) code = code == CURLE_OK ? curl_easy_setopt(curl, option, value) : code
  SET(CURLOPT_SOCKOPTFUNCTION, on_open);
  SET(CURLOPT_SOCKOPTDATA, sockets);
  SET(CURLOPT_CLOSESOCKETFUNCTION, on_close);
  SET(CURLOPT_CLOSESOCKETDATA, sockets);
#undef SET
  return code;
}

curl_socket_t cleat__http_sockets_active(const struct cleat__http_sockets *sockets) {
  return sockets->count > 0 ? sockets->open[sockets->count - 1] : CURL_SOCKET_BAD;
}
