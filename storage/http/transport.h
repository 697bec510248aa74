/* transport.h: how far one HTTP request came. Plain data. */
#ifndef CLEAT_STORAGE_HTTP_TRANSPORT_H
#define CLEAT_STORAGE_HTTP_TRANSPORT_H

/* How far the transport came. */
enum cleat__transport {
  CLEAT__TRANSPORT_OK = 0,    /* a whole reply: http_status tells */
  CLEAT__TRANSPORT_RESOLVE,   /* the host name has no address */
  CLEAT__TRANSPORT_CONNECT,   /* refused or unreachable */
  CLEAT__TRANSPORT_PROXY,     /* the proxy says no, or is none: not retried */
  CLEAT__TRANSPORT_TLS,       /* certificate or handshake: not retried */
  CLEAT__TRANSPORT_TIMEOUT,   /* connect, first byte, stalled or overall */
  CLEAT__TRANSPORT_BROKEN,    /* reset, or closed before the reply was whole */
  CLEAT__TRANSPORT_MALFORMED, /* not HTTP, or a body that the operation could not read; retried */
  CLEAT__TRANSPORT_CA,        /* the CA file cannot be read: not retried */
  CLEAT__TRANSPORT_CANCELLED,
  CLEAT__TRANSPORT_NO_MEMORY,
  CLEAT__TRANSPORT_FEED,    /* the body could not be read: not retried; the feed's error tells */
  CLEAT__TRANSPORT_INTERNAL /* a bug, or an option this libcurl lacks: not retried */
};

/* The message of a CLEAT__TRANSPORT_TLS whose server told, in plain HTTP, that it wants TLS. */
#define CLEAT__HTTP_WANTS_TLS "it was asked in plain HTTP"

/* And of one whose server answered a TLS handshake with something else. */
#define CLEAT__HTTP_NO_TLS "what it answers is not TLS"

#endif
