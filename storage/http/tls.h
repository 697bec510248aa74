/* http/tls.h: how a TLS handshake ended that did not come to its end; for http*.c alone.
 *
 * libcurl has one code for all: a connection that was cut, a server that speaks no TLS, one that refuses us, and one
 * that we refuse. Its texts are OpenSSL's, and change. So it is told by what the other side said last, which libcurl
 * hands to its debug callback, and by whether it has closed the connection. Belongs to the thread that runs the
 * request. */
#ifndef CLEAT_STORAGE_HTTP_TLS_H
#define CLEAT_STORAGE_HTTP_TLS_H

#include <curl/curl.h>
#include <stdbool.h>
#include <stddef.h>

/* The last piece of what came: the header of a record, or what is in it. */
struct cleat__http_tls {
  unsigned char last[5]; /* its beginning */
  size_t size;           /* all of it; 0: nothing came */
};

enum cleat__http_handshake {
  CLEAT__HTTP_HANDSHAKE_CUT = 0, /* by the network, or by a server that ends: worth another try */
  CLEAT__HTTP_HANDSHAKE_REFUSED, /* by the server or by us: certificates, versions, ciphers */
  CLEAT__HTTP_HANDSHAKE_NOT_TLS  /* the server answers something else */
};

/* From now on *tls has what comes, until cleat__http_tls_detach. */
CURLcode cleat__http_tls_attach(struct cleat__http_tls *tls, CURL *curl);

/* The handshake is over. */
void cleat__http_tls_detach(CURL *curl);

/* `peer_ended`: whether the other side had closed the connection when libcurl gave up. Pure. */
enum cleat__http_handshake cleat__http_tls_judge(const struct cleat__http_tls *tls,
                                                 bool peer_ended);

#endif
