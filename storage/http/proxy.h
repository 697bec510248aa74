/* http/proxy.h: chooses the proxy of a request from the usual variables: http_proxy, https_proxy, all_proxy and
 * no_proxy, in lower or upper case.
 *
 * The environment is read once. Then the settings are read-only and shared by all threads. The URL of a proxy may
 * hold a password. So messages name the variable and never the URL. */
#ifndef CLEAT_STORAGE_HTTP_PROXY_H
#define CLEAT_STORAGE_HTTP_PROXY_H

#include "base/error.h"

#include <stdbool.h>

/* One proxy. */
struct cleat__http_proxy {
  char *url;            /* in the form that libcurl needs; NULL: none */
  const char *variable; /* static: the name of the variable */
  long port;            /* port if the URL has none; 0: the default of libcurl */
  bool valid;
};

/* Owns its strings. */
struct cleat__http_proxies {
  struct cleat__http_proxy http, https; /* for URLs of that scheme */
  char *exceptions;                     /* no_proxy; NULL: none */
};

/* Reads the environment. Lower case comes before upper case, and an empty variable counts as unset. HTTP_PROXY in
 * upper case is ignored if REQUEST_METHOD is set: in a CGI program a client could have sent it as a header. An
 * invalid URL of a proxy is an error only when it is needed. Errors: NO_MEMORY. */
cleat_status cleat__http_proxies_init(struct cleat__http_proxies *proxies, struct cleat_error *err);
void cleat__http_proxies_clear(struct cleat__http_proxies *proxies);

/* Sets *proxy to the proxy for an absolute URL, borrowed. NULL: none, as for all addresses of this machine.
 * Errors: INVALID (the variable does not hold the URL of a proxy), NO_MEMORY. */
cleat_status cleat__http_proxies_find(const struct cleat__http_proxies *proxies, const char *url,
                                      const struct cleat__http_proxy **proxy, struct cleat_error *err);

/* Whether the list of no_proxy names the host. An entry is its name or the name of a domain above it
 * ("corp.example", with or without a dot or "*." before it), its address, a range of addresses ("10.0.0.0/8"), each
 * with or without ":port", or all hosts ("*"). `host` has no brackets. Pure. */
bool cleat__http_proxy_is_exception(const char *exceptions, const char *host, unsigned port);

#endif
