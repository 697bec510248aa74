/* http/socket.h: the sockets of an easy handle's connections, and the addresses they go to; for http*.c alone.
 *
 * CURLINFO_ACTIVESOCKET tells the socket only between transfers: within a callback of curl_easy_perform() it is bad
 * (seen with libcurl 7.88). Belongs to the thread that uses the handle. */
#ifndef CLEAT_STORAGE_HTTP_SOCKET_H
#define CLEAT_STORAGE_HTTP_SOCKET_H

#include "storage/http/address.h"

#include <curl/curl.h>
#include <stdbool.h>
#include <stddef.h>

/* An idle connection, and those that race to one host's addresses. */
#define CLEAT__HTTP_SOCKETS_MAX 8

/* Must outlive the easy handle: libcurl tells it of each socket that it closes. */
struct cleat__http_sockets {
  struct cleat__http_socket {
    curl_socket_t fd;
    union cleat__http_address peer;
  } open[CLEAT__HTTP_SOCKETS_MAX]; /* the newest last */
  size_t count;
  union cleat__http_address peer;  /* of the running transfer, or of its last attempt to connect */
  union cleat__http_address avoid; /* not to be connected to; none: any will do */
  unsigned opened, avoided;        /* by the running transfer */
  bool ended; /* the other side had closed the connection that was closed last */
};

/* For one transfer. `avoid` may be NULL. */
CURLcode cleat__http_sockets_attach(struct cleat__http_sockets *sockets, CURL *curl,
                                    const union cleat__http_address *avoid);

/* The one that the request is sent on, since the handle keeps one connection and those that lost a race are closed; or
 * CURL_SOCKET_BAD. */
curl_socket_t cleat__http_sockets_active(const struct cleat__http_sockets *sockets);

/* The request is about to be sent: the active socket's address is the transfer's. */
void cleat__http_sockets_settle(struct cleat__http_sockets *sockets);

/* Whether the transfer failed since there is no other address than the one to avoid; then any will do from now on. */
bool cleat__http_sockets_relent(struct cleat__http_sockets *sockets);

#endif
