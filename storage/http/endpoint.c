/* http/endpoint.c: parses endpoint URLs. See http/endpoint.h. Pure; no state. */
#include "storage/http/endpoint.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static cleat_status refuse(const char *text, const char *source, const char *why, struct cleat_error *err) {
  /* Text before an '@' may be a password. */
  bool quotable = strchr(text, '@') == NULL;
  (void)cleat__error_set(err, CLEAT_INVALID, "endpoint%s%.300s%s (from %s): %s", quotable ? " '" : "",
                         quotable ? text : "", quotable ? "'" : "", source, why);
  cleat__error_hint(err, "an endpoint is http[s]://host[:port], such as http://127.0.0.1:9000");
  return err->status;
}

static char lower(char c) {
  return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* Length of the host: up to the port, the path or the end. 0 if it is not a valid host. */
static size_t host_length(const char *text) {
  if (text[0] == '[') {
    size_t inside = strspn(text + 1, "0123456789abcdefABCDEF:.");
    char address[INET6_ADDRSTRLEN + 1];
    struct in6_addr parsed;
    if (text[inside + 1] != ']' || inside > INET6_ADDRSTRLEN)
      return 0;
    snprintf(address, sizeof address, "%.*s", (int)inside, text + 1);
    return inet_pton(AF_INET6, address, &parsed) == 1 ? inside + 2 : 0;
  }
  size_t length = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._");
  bool dots = length > 0 && (text[0] == '.' || text[0] == '-' || memmem(text, length, "..", 2));
  return dots ? 0 : length;
}

/* Parses ":9000" at *text and moves *text past it. Without a port it changes nothing. False: not
 * a valid port. */
static bool read_port(const char **text, unsigned *port) {
  if (**text != ':')
    return true;
  size_t digits = strspn(*text + 1, "0123456789");
  unsigned value = 0;
  for (size_t i = 1; i <= digits && digits <= 5; i++)
    value = value * 10 + (unsigned)((*text)[i] - '0');
  if (value < 1 || value > 65535)
    return false;
  *port = value;
  *text += digits + 1;
  return true;
}

/* Accepts no path, or one that needs no encoding and no normalising. */
static bool read_path(const char *text, char path[CLEAT__S3_ENDPOINT_PATH_MAX + 1]) {
  size_t length = strlen(text);
  while (length > 0 && text[length - 1] == '/')
    length--;
  if (length > CLEAT__S3_ENDPOINT_PATH_MAX ||
      strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/") < length)
    return false;
  memcpy(path, text, length);
  path[length] = '\0';
  for (const char *at = path; *at != '\0';) {
    size_t segment = strcspn(at + 1, "/"); /* at[0] is '/' */
    if (segment == 0 || (segment == 1 && at[1] == '.') || (segment == 2 && at[1] == '.' && at[2] == '.'))
      return false;
    at += segment + 1;
  }
  return true;
}

cleat_status cleat__s3_endpoint_parse(const char *text, const char *source, struct cleat__s3_endpoint *endpoint,
                                      struct cleat_error *err) {
  struct cleat__s3_endpoint made = {0};
  const char *at = NULL;
  if (strncasecmp(text, "https://", 8) == 0) {
    made.https = true;
    at = text + 8;
  } else if (strncasecmp(text, "http://", 7) == 0) {
    at = text + 7;
  } else {
    return refuse(text, source, "it does not begin with http:// or https://", err);
  }
  if (strchr(at, '@'))
    return refuse(text, source, "it holds a user name; put keys into AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY", err);
  if (strpbrk(at, "?#"))
    return refuse(text, source, "it has a query or a fragment", err);
  size_t length = host_length(at);
  if (length == 0 || length > CLEAT__S3_HOST_MAX)
    return refuse(text, source, "it has no valid host", err);
  for (size_t i = 0; i < length; i++)
    made.host[i] = lower(at[i]);
  at += length;
  made.port = made.https ? 443 : 80;
  if (!read_port(&at, &made.port))
    return refuse(text, source, "the port is not a number from 1 to 65535", err);
  if (*at != '\0' && *at != '/')
    return refuse(text, source, "it has no valid host", err);
  if (!read_path(at, made.path))
    return refuse(text, source,
                  "its path holds other characters than letters, digits and - . _ ~, or an empty "
                  "or relative segment",
                  err);
  *endpoint = made;
  return CLEAT_OK;
}

static bool ends_with(const char *text, const char *end) {
  size_t length = strlen(text);
  size_t end_length = strlen(end);
  return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

bool cleat__s3_endpoint_is_address(const struct cleat__s3_endpoint *endpoint) {
  struct in_addr address;
  return endpoint->host[0] == '[' || inet_pton(AF_INET, endpoint->host, &address) == 1;
}

bool cleat__s3_endpoint_is_loopback(const struct cleat__s3_endpoint *endpoint) {
  struct in_addr address;
  if (inet_pton(AF_INET, endpoint->host, &address) == 1)
    return ntohl(address.s_addr) >> 24 == 127;
  /* RFC 6761 §6.3 reserves localhost and all names below it for this machine. */
  return strcmp(endpoint->host, "[::1]") == 0 || strcmp(endpoint->host, "localhost") == 0 ||
         ends_with(endpoint->host, ".localhost");
}

bool cleat__s3_endpoint_default_port(const struct cleat__s3_endpoint *endpoint) {
  return endpoint->port == (endpoint->https ? 443u : 80u);
}
