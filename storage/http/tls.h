/* http/tls.h: finds out why a TLS handshake failed. Only for storage/http/.
 *
 * libcurl has one code for four cases: a connection that was cut, a server that does not speak TLS, a server that
 * refuses us, and a server that we refuse. Its texts are those of OpenSSL, and change. So the last bytes from the
 * other side decide, which libcurl passes to its debug callback, and whether the other side has closed the
 * connection. Belongs to the thread that runs the request. */
#ifndef CLEAT_STORAGE_HTTP_TLS_H
#define CLEAT_STORAGE_HTTP_TLS_H

#include <curl/curl.h>
#include <stdbool.h>
#include <stddef.h>

/* The last bytes received: the header of a record, or its content. */
struct cleat__http_tls {
  unsigned char last[5]; /* the first bytes of them */
  size_t size;           /* their number; 0: nothing was received */
};

enum cleat__http_handshake {
  CLEAT__HTTP_HANDSHAKE_CUT = 0, /* by the network, or by a server that shuts down: worth a retry */
  CLEAT__HTTP_HANDSHAKE_REFUSED, /* by the server or by us: certificate, version, cipher */
  CLEAT__HTTP_HANDSHAKE_NOT_TLS  /* the server answers something else */
};

/* Records received bytes in *tls until cleat__http_tls_detach. */
CURLcode cleat__http_tls_attach(struct cleat__http_tls *tls, CURL *curl);

/* Stops recording: the handshake is over. */
void cleat__http_tls_detach(CURL *curl);

/* Finds the reason. `peer_ended`: the other side had closed the connection when libcurl gave up. Pure. */
enum cleat__http_handshake cleat__http_tls_judge(const struct cleat__http_tls *tls, bool peer_ended);

#endif
