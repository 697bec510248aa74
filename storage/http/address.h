/* http/address.h: where a server is, as a value: an IPv4 or IPv6 address with its port. */
#ifndef CLEAT_STORAGE_HTTP_ADDRESS_H
#define CLEAT_STORAGE_HTTP_ADDRESS_H

#include <netinet/in.h>

/* All zero: none. */
union cleat__http_address {
  struct sockaddr any;
  struct sockaddr_in v4;
  struct sockaddr_in6 v6;
};

#endif
