/* http/proxy.c: chooses the proxy of a request. See http/proxy.h. One function reads the environment; all others are
 * pure.
 *
 * libcurl would read the variables itself, at every request and on any thread. It also ignores ports in no_proxy,
 * and HTTP_PROXY in upper case, which the tools of AWS use. So Cleat chooses the proxy, and libcurl only connects
 * through it. */
#include "storage/http/proxy.h"

#include "base/mem.h"
#include "storage/http/endpoint.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define ENTRY_MAX 300 /* longest entry of no_proxy: a host name, a port, and spare room; a longer one names no host */

/* ---- no_proxy ---- */

/* Parses an IPv4 or IPv6 address to bytes. Returns their number; 0 if it is not an address. */
static size_t read_address(const char *text, unsigned char bytes[16]) {
  if (inet_pton(AF_INET, text, bytes) == 1)
    return 4;
  return inet_pton(AF_INET6, text, bytes) == 1 ? 16 : 0;
}

/* Parses digits up to the end of the text as a number up to 65535. -1 if it is not one. */
static long read_number(const char *text) {
  size_t length = strlen(text);
  if (length == 0 || length > 5 || strspn(text, "0123456789") != length)
    return -1;
  long value = strtol(text, NULL, 10);
  return value <= 65535 ? value : -1;
}

static bool has_same_bits(const unsigned char *a, const unsigned char *b, size_t bits) {
  size_t whole = bits / 8, rest = bits % 8;
  if (memcmp(a, b, whole) != 0)
    return false;
  return rest == 0 || (a[whole] ^ b[whole]) >> (8 - rest) == 0;
}

/* Whether the host is in `range`, such as "10.0.0.0/8". Splits `range` in place. */
static bool is_in_range(char *range, char *slash, const char *host) {
  unsigned char first[16], address[16];
  *slash = '\0';
  long bits = read_number(slash + 1);
  size_t size = read_address(range, first);
  return size != 0 && read_address(host, address) == size && bits >= 0 && (size_t)bits <= size * 8 &&
         has_same_bits(first, address, (size_t)bits);
}

static bool is_below(const char *host, const char *domain) {
  size_t length = strlen(host), tail = strlen(domain);
  if (length > 0 && host[length - 1] == '.')
    length--; /* "host." is the same name, written from the DNS root */
  if (tail == 0 || length < tail || strncasecmp(host + length - tail, domain, tail) != 0)
    return false;
  return length == tail || host[length - tail - 1] == '.';
}

/* Removes ":9000", and the brackets of an IPv6 address. False: the entry is for another port. */
static bool fits_port(char **entry, unsigned port) {
  char *end = **entry == '[' ? strchr(*entry, ']') : NULL;
  char *colon = strchr(end != NULL ? end : *entry, ':');
  if (end == NULL && colon != NULL && strchr(colon + 1, ':') != NULL)
    colon = NULL; /* an IPv6 address without brackets */
  if (end != NULL) {
    *end = '\0';
    (*entry)++;
  }
  if (colon == NULL)
    return true;
  *colon = '\0';
  return read_number(colon + 1) == (long)port;
}

static bool is_named(char *entry, const char *host, unsigned port) {
  unsigned char wanted[16], address[16];
  if (strcmp(entry, "*") == 0)
    return true;
  char *slash = strchr(entry, '/');
  if (slash != NULL)
    return is_in_range(entry, slash, host);
  if (!fits_port(&entry, port))
    return false;
  size_t size = read_address(entry, wanted);
  if (size != 0)
    return read_address(host, address) == size && memcmp(wanted, address, size) == 0;
  if (strncmp(entry, "*.", 2) == 0)
    entry++;
  while (*entry == '.')
    entry++;
  return is_below(host, entry);
}

bool cleat__http_proxy_is_exception(const char *exceptions, const char *host, unsigned port) {
  static const char separators[] = ", \t\r\n";
  for (const char *at = exceptions + strspn(exceptions, separators); *at != '\0'; at += strspn(at, separators)) {
    size_t length = strcspn(at, separators);
    char entry[ENTRY_MAX];
    if (length < sizeof entry) {
      snprintf(entry, sizeof entry, "%.*s", (int)length, at);
      if (is_named(entry, host, port))
        return true;
    }
    at += length;
  }
  return false;
}

/* ---- the environment ---- */

static const char *variable(const char *name) {
  const char *value = getenv(name);
  return value != NULL && value[0] != '\0' ? value : NULL;
}

/* Returns the first of the names that is set, and its value in *value. */
static const char *first_set(const char *const *names, const char **value) {
  for (; *names != NULL; names++) {
    if (strcmp(*names, "HTTP_PROXY") == 0 && getenv("REQUEST_METHOD") != NULL)
      continue;
    *value = variable(*names);
    if (*value != NULL)
      return *names;
  }
  return NULL;
}

/* Parses the URL with the parser of libcurl, as the transfer will. */
static void examine(struct cleat__http_proxy *proxy) {
  static const char *const schemes[] = {"http", "https", "socks4", "socks4a", "socks5", "socks5h"};
  bool bare = strstr(proxy->url, "://") == NULL;
  char *scheme = NULL, *host = NULL, *port = NULL;
  CURLU *parsed = curl_url();
  if (parsed != NULL &&
      curl_url_set(parsed, CURLUPART_URL, proxy->url, CURLU_NON_SUPPORT_SCHEME | CURLU_GUESS_SCHEME) == CURLUE_OK &&
      curl_url_get(parsed, CURLUPART_HOST, &host, 0) == CURLUE_OK &&
      curl_url_get(parsed, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK) {
    (void)curl_url_get(parsed, CURLUPART_PORT, &port, 0);
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++)
      proxy->valid = proxy->valid || bare || strcmp(scheme, schemes[i]) == 0;
    /* Most tools use port 80 for a proxy without a port. libcurl uses 1080. */
    if (port == NULL && (bare || strcmp(scheme, "http") == 0))
      proxy->port = 80;
  }
  curl_free(scheme);
  curl_free(host);
  curl_free(port);
  curl_url_cleanup(parsed);
}

static bool keep(const char *const *names, struct cleat__http_proxy *proxy) {
  const char *value = NULL;
  proxy->variable = first_set(names, &value);
  if (proxy->variable == NULL)
    return true;
  proxy->url = cleat__strdup(value);
  if (proxy->url == NULL)
    return false;
  examine(proxy);
  return true;
}

cleat_status cleat__http_proxies_init(struct cleat__http_proxies *proxies, struct cleat_error *err) {
  static const char *const http[] = {"http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", NULL};
  static const char *const https[] = {"https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", NULL};
  static const char *const none[] = {"no_proxy", "NO_PROXY", NULL};
  struct cleat__http_proxies made = {.exceptions = NULL};
  const char *exceptions = NULL;
  bool whole = keep(http, &made.http) && keep(https, &made.https);
  if (whole && first_set(none, &exceptions) != NULL) {
    made.exceptions = cleat__strdup(exceptions);
    whole = made.exceptions != NULL;
  }
  if (!whole) {
    cleat__http_proxies_clear(&made);
    return cleat__error_no_memory(err, "the proxy's settings");
  }
  *proxies = made;
  return CLEAT_OK;
}

void cleat__http_proxies_clear(struct cleat__http_proxies *proxies) {
  char *const urls[] = {proxies->http.url, proxies->https.url};
  for (size_t i = 0; i < 2; i++) {
    if (urls[i] != NULL)
      explicit_bzero(urls[i], strlen(urls[i]));
    cleat__free(urls[i]);
  }
  cleat__free(proxies->exceptions);
  memset(proxies, 0, sizeof *proxies);
}

/* ---- the choice ---- */

cleat_status cleat__http_proxies_find(const struct cleat__http_proxies *proxies, const char *url,
                                      const struct cleat__http_proxy **proxy, struct cleat_error *err) {
  const struct cleat__http_proxy *found = strncmp(url, "https:", 6) == 0 ? &proxies->https : &proxies->http;
  struct cleat__s3_endpoint target;
  char host[CLEAT__S3_HOST_MAX + 1];
  char origin[CLEAT__S3_HOST_MAX + 32];
  *proxy = NULL;
  if (found->url == NULL)
    return CLEAT_OK;
  /* Only scheme, host and port; the rest is for the request. */
  const char *authority = strstr(url, "://");
  size_t length = authority != NULL ? (size_t)(authority - url) + 3 : 0;
  length += strcspn(url + length, "/?");
  snprintf(origin, sizeof origin, "%.*s", (int)(length < sizeof origin ? length : 0), url);
  cleat_status status = cleat__s3_endpoint_parse(origin, "the URL", &target, err);
  if (status != CLEAT_OK)
    return status;
  bool bracketed = target.host[0] == '[';
  snprintf(host, sizeof host, "%.*s", (int)strlen(target.host) - (bracketed ? 2 : 0), target.host + bracketed);
  if (cleat__s3_endpoint_is_loopback(&target) ||
      (proxies->exceptions != NULL && cleat__http_proxy_is_exception(proxies->exceptions, host, target.port)))
    return CLEAT_OK;
  if (!found->valid) {
    (void)cleat__error_set(err, CLEAT_INVALID, "%s does not hold the URL of a proxy", found->variable);
    cleat__error_hint(err, "set it to http://host:port, or name %s in NO_PROXY", target.host);
    return err->status;
  }
  *proxy = found;
  return CLEAT_OK;
}
