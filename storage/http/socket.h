/* http/socket.h: the sockets of the connections of an easy handle, and their addresses. Only for storage/http/.
 *
 * CURLINFO_ACTIVESOCKET returns the socket only between transfers. Within a callback of curl_easy_perform() it is
 * CURL_SOCKET_BAD (seen with libcurl 7.88). Belongs to the thread that uses the handle. */
#ifndef CLEAT_STORAGE_HTTP_SOCKET_H
#define CLEAT_STORAGE_HTTP_SOCKET_H

#include "storage/http/address.h"

#include <curl/curl.h>
#include <stdbool.h>
#include <stddef.h>

/* One idle connection, and those that race to the addresses of a host. */
#define CLEAT__HTTP_SOCKETS_MAX 8

/* Must live longer than the easy handle: libcurl reports each socket that it closes. */
struct cleat__http_sockets {
  struct cleat__http_socket {
    curl_socket_t fd;
    union cleat__http_address peer;
  } open[CLEAT__HTTP_SOCKETS_MAX]; /* the newest is last */
  size_t count;
  /* address of the running transfer, or of its last attempt to connect */
  union cleat__http_address peer;
  union cleat__http_address avoid; /* do not connect to this address; all zero: any address */
  unsigned opened, avoided;        /* counts for the running transfer */
  bool ended;                      /* the other side had already closed the connection that was closed last */
};

/* Prepares one transfer. `avoid` may be NULL. */
CURLcode cleat__http_sockets_attach(struct cleat__http_sockets *sockets, CURL *curl,
                                    const union cleat__http_address *avoid);

/* Returns the socket of the request: the handle keeps one connection, and those that lost a race are closed. Or
 * CURL_SOCKET_BAD. */
curl_socket_t cleat__http_sockets_active(const struct cleat__http_sockets *sockets);

/* Called when the request is about to be sent: the address of the active socket becomes that of the transfer. */
void cleat__http_sockets_settle(struct cleat__http_sockets *sockets);

/* Whether the transfer failed because the name has no other address than the one to avoid. From then on any address
 * is allowed. */
bool cleat__http_sockets_relent(struct cleat__http_sockets *sockets);

#endif
