/* http_socket.h: the socket of an easy handle's connection, while a transfer runs; for http.c and http_call.c alone.
 *
 * CURLINFO_ACTIVESOCKET tells it only between transfers: within a callback of curl_easy_perform() it is bad
 * (seen with libcurl 7.88). Belongs to the thread that uses the handle. */
#ifndef CLEAT_STORAGE_HTTP_SOCKET_H
#define CLEAT_STORAGE_HTTP_SOCKET_H

#include <curl/curl.h>
#include <stddef.h>

/* An idle connection, and those that race to one host's addresses. */
#define CLEAT__HTTP_SOCKETS_MAX 8

/* Must outlive the easy handle: libcurl tells it of each socket that it closes. */
struct cleat__http_sockets {
  curl_socket_t open[CLEAT__HTTP_SOCKETS_MAX]; /* the newest last */
  size_t count;
};

CURLcode cleat__http_sockets_attach(struct cleat__http_sockets *sockets, CURL *curl);

/* The one that the request is sent on, since the handle keeps one connection and those that lost a race are closed; or
 * CURL_SOCKET_BAD. */
curl_socket_t cleat__http_sockets_active(const struct cleat__http_sockets *sockets);

#endif
