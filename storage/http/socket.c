/* http/socket.c: see http/socket.h. */
#include "storage/http/socket.h"

#include "base/fork.h"

#include <assert.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void forget(struct cleat__http_sockets *sockets, size_t index) {
  assert(index < sockets->count);
  sockets->count--;
  memmove(&sockets->open[index], &sockets->open[index + 1], (sockets->count - index) * sizeof sockets->open[0]);
}

static union cleat__http_address address_of(const struct curl_sockaddr *from) {
  union cleat__http_address address = {0};
  if (from->addrlen <= sizeof address)
    memcpy(&address, &from->addr, from->addrlen);
  return address;
}

static bool is_same(const union cleat__http_address *a, const union cleat__http_address *b) {
  if (a->any.sa_family != b->any.sa_family)
    return false;
  if (a->any.sa_family == AF_INET)
    return a->v4.sin_port == b->v4.sin_port && a->v4.sin_addr.s_addr == b->v4.sin_addr.s_addr;
  return a->any.sa_family == AF_INET6 && a->v6.sin6_port == b->v6.sin6_port &&
         a->v6.sin6_scope_id == b->v6.sin6_scope_id &&
         memcmp(&a->v6.sin6_addr, &b->v6.sin6_addr, sizeof a->v6.sin6_addr) == 0;
}

/* No child process inherits the socket by fork or exec and keeps the connection open. If an address is refused here,
 * libcurl tries the next one of the name. */
static curl_socket_t on_open(void *ctx, curlsocktype purpose, struct curl_sockaddr *to) {
  struct cleat__http_sockets *sockets = ctx;
  union cleat__http_address peer = address_of(to);
  (void)purpose;
  if (is_same(&peer, &sockets->avoid)) {
    sockets->avoided++;
    return CURL_SOCKET_BAD;
  }
  sockets->opened++;
  sockets->peer = peer;
  int fd = socket(to->family, to->socktype | SOCK_CLOEXEC, to->protocol);
  if (fd < 0)
    return CURL_SOCKET_BAD;
  cleat__fork_close_in_child(fd);
  if (sockets->count == CLEAT__HTTP_SOCKETS_MAX)
    forget(sockets, 0);
  assert(sockets->count < CLEAT__HTTP_SOCKETS_MAX);
  sockets->open[sockets->count++] = (struct cleat__http_socket){fd, peer};
  return fd;
}

/* Whether the other side has closed the connection, by FIN or by reset. Unknown counts as yes; the worst case is a
 * retry for nothing. */
static bool is_ended(curl_socket_t socket) {
  struct tcp_info info = {0};
  socklen_t size = sizeof info;
  return getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 || info.tcpi_state != TCP_ESTABLISHED;
}

static int on_close(void *ctx, curl_socket_t socket) {
  struct cleat__http_sockets *sockets = ctx;
  sockets->ended = is_ended(socket);
  for (size_t i = 0; i < sockets->count; i++) {
    if (sockets->open[i].fd == socket) {
      forget(sockets, i);
      break;
    }
  }
  cleat__fork_keep_in_child(socket);
  return close(socket);
}

CURLcode cleat__http_sockets_attach(struct cleat__http_sockets *sockets, CURL *curl,
                                    const union cleat__http_address *avoid) {
  CURLcode code = CURLE_OK;
  sockets->opened = sockets->avoided = 0;
  sockets->peer = (union cleat__http_address){0};
  sockets->avoid = avoid != NULL ? *avoid : (union cleat__http_address){0};
#define SET(option, value) code = code == CURLE_OK ? curl_easy_setopt(curl, option, value) : code
  SET(CURLOPT_OPENSOCKETFUNCTION, on_open);
  SET(CURLOPT_OPENSOCKETDATA, sockets);
  SET(CURLOPT_CLOSESOCKETFUNCTION, on_close);
  SET(CURLOPT_CLOSESOCKETDATA, sockets);
#undef SET
  return code;
}

curl_socket_t cleat__http_sockets_active(const struct cleat__http_sockets *sockets) {
  return sockets->count > 0 ? sockets->open[sockets->count - 1].fd : CURL_SOCKET_BAD;
}

void cleat__http_sockets_settle(struct cleat__http_sockets *sockets) {
  if (sockets->count > 0)
    sockets->peer = sockets->open[sockets->count - 1].peer;
}

bool cleat__http_sockets_relent(struct cleat__http_sockets *sockets) {
  bool only = sockets->avoided > 0 && sockets->opened == 0;
  if (only)
    sockets->avoid = (union cleat__http_address){0};
  return only;
}
