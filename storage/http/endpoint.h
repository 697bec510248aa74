/* http/endpoint.h: parses endpoint URLs. Pure, thread-safe. */
#ifndef CLEAT_STORAGE_HTTP_ENDPOINT_H
#define CLEAT_STORAGE_HTTP_ENDPOINT_H

#include "base/error.h"

#include <stdbool.h>

#define CLEAT__S3_HOST_MAX 253 /* longest host name, RFC 1035 */
#define CLEAT__S3_ENDPOINT_PATH_MAX 255

struct cleat__s3_endpoint {
  bool https;
  unsigned port;                              /* always set */
  char host[CLEAT__S3_HOST_MAX + 1];          /* lowercase; an IPv6 address in brackets */
  char path[CLEAT__S3_ENDPOINT_PATH_MAX + 1]; /* "" or "/tenant": no slash at the end */
};

/* Parses "http[s]://host[:port][/path]". `source` names the source of the text ("AWS_ENDPOINT_URL"). INVALID, with a
 * message that leaves out text that may be a password. */
cleat_status cleat__s3_endpoint_parse(const char *text, const char *source, struct cleat__s3_endpoint *endpoint,
                                      struct cleat_error *err);

/* Whether the host is an address and not a name. No bucket can be put in front of it. */
bool cleat__s3_endpoint_is_address(const struct cleat__s3_endpoint *endpoint);

/* Whether it is this machine. Nobody can read or change what is sent there. */
bool cleat__s3_endpoint_is_loopback(const struct cleat__s3_endpoint *endpoint);

bool cleat__s3_endpoint_default_port(const struct cleat__s3_endpoint *endpoint);

#endif
