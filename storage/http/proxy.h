/* http/proxy.h: which proxy a request goes through, by the variables that other tools obey: http_proxy,
 * https_proxy, all_proxy, no_proxy, in small or capital letters.
 *
 * The environment is read once; after that the settings are read-only and shared by all threads. A proxy's URL
 * may hold a password: it is never part of a message, the variable's name is. */
#ifndef CLEAT_STORAGE_HTTP_PROXY_H
#define CLEAT_STORAGE_HTTP_PROXY_H

#include "base/error.h"

#include <stdbool.h>

/* One way out. */
struct cleat__http_proxy {
  char *url;            /* as libcurl takes it; NULL: none */
  const char *variable; /* static: where it is from */
  long port;            /* to use where the URL has none; 0: libcurl's choice */
  bool valid;
};

/* Owns its strings. */
struct cleat__http_proxies {
  struct cleat__http_proxy http, https; /* for URLs of that scheme */
  char *exceptions;                     /* no_proxy; NULL: none */
};

/* Reads the environment. Small letters win over capital ones, and empty is as good as unset. HTTP_PROXY in capital
 * letters is ignored where REQUEST_METHOD is set: in a CGI program a client could have sent it as a header. What is
 * not the URL of a proxy is an error only where it is needed. Errors: NO_MEMORY. */
cleat_status cleat__http_proxies_init(struct cleat__http_proxies *proxies, struct cleat_error *err);
void cleat__http_proxies_clear(struct cleat__http_proxies *proxies);

/* *proxy: the one for an absolute URL, borrowed; NULL: none, which is so for addresses of this machine too.
 * INVALID: what the variable holds is no URL of a proxy; NO_MEMORY. */
cleat_status cleat__http_proxies_find(const struct cleat__http_proxies *proxies, const char *url,
                                      const struct cleat__http_proxy **proxy,
                                      struct cleat_error *err);

/* Whether no_proxy's list names the host: by its name or that of a domain above it ("corp.example", with or without
 * a dot or "*." before it), its address, a range of addresses ("10.0.0.0/8"), each with or without ":port"; or all
 * hosts ("*"). `host` without brackets. Pure. */
bool cleat__http_proxy_is_exception(const char *exceptions, const char *host, unsigned port);

#endif
