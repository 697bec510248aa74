/* transport.h: how far one HTTP request got. Plain data. */
#ifndef CLEAT_STORAGE_HTTP_TRANSPORT_H
#define CLEAT_STORAGE_HTTP_TRANSPORT_H

/* How far the request got. */
enum cleat__transport {
  CLEAT__TRANSPORT_OK = 0,    /* a complete reply; its HTTP status decides */
  CLEAT__TRANSPORT_RESOLVE,   /* the host name has no address */
  CLEAT__TRANSPORT_CONNECT,   /* refused or unreachable */
  CLEAT__TRANSPORT_PROXY,     /* the proxy refuses, or is not a proxy: not retried */
  CLEAT__TRANSPORT_TLS,       /* certificate or handshake: not retried */
  CLEAT__TRANSPORT_TIMEOUT,   /* no connection, no first byte, stalled, or over the time limit */
  CLEAT__TRANSPORT_BROKEN,    /* reset, or closed before the reply was complete */
  CLEAT__TRANSPORT_MALFORMED, /* not HTTP, or a body that the operation could not read: retried */
  CLEAT__TRANSPORT_CA,        /* the CA file cannot be read: not retried */
  CLEAT__TRANSPORT_CANCELLED,
  CLEAT__TRANSPORT_NO_MEMORY,
  /* the feed could not read the body: not retried; the error of the feed says why */
  CLEAT__TRANSPORT_FEED,
  CLEAT__TRANSPORT_INTERNAL /* a bug, or an option this libcurl lacks: not retried */
};

/* Message of a CLEAT__TRANSPORT_TLS if the server answered in plain HTTP that it expects TLS. */
#define CLEAT__HTTP_WANTS_TLS "it was asked in plain HTTP"

/* Message if the server answered a TLS handshake with something else. */
#define CLEAT__HTTP_NO_TLS "what it answers is not TLS"

#endif
