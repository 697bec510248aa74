/* http/address.h: the address of a server: IPv4 or IPv6 with its port. */
#ifndef CLEAT_STORAGE_HTTP_ADDRESS_H
#define CLEAT_STORAGE_HTTP_ADDRESS_H

#include <netinet/in.h>

/* All zero: no address. */
union cleat__http_address {
  struct sockaddr any;
  struct sockaddr_in v4;
  struct sockaddr_in6 v6;
};

#endif
