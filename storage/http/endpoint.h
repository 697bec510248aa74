/* http/endpoint.h: an endpoint URL taken apart. Pure, thread-safe. */
#ifndef CLEAT_STORAGE_HTTP_ENDPOINT_H
#define CLEAT_STORAGE_HTTP_ENDPOINT_H

#include "base/error.h"

#include <stdbool.h>

#define CLEAT__S3_HOST_MAX 253 /* of a host name, RFC 1035 */
#define CLEAT__S3_ENDPOINT_PATH_MAX 255

struct cleat__s3_endpoint {
  bool https;
  unsigned port;                              /* always set */
  char host[CLEAT__S3_HOST_MAX + 1];          /* lowercase; an IPv6 address in brackets */
  char path[CLEAT__S3_ENDPOINT_PATH_MAX + 1]; /* "" or "/tenant": no slash at the end */
};

/* Reads "http[s]://host[:port][/path]"; `source` says where the text is from ("AWS_ENDPOINT_URL"). INVALID, with a
 * message that leaves out what may be a password. */
cleat_status cleat__s3_endpoint_parse(const char *text, const char *source,
                                      struct cleat__s3_endpoint *endpoint, struct cleat_error *err);

/* An address rather than a name: no bucket can stand before it. */
bool cleat__s3_endpoint_is_address(const struct cleat__s3_endpoint *endpoint);

/* This machine: what is sent there cannot be read or altered on the way. */
bool cleat__s3_endpoint_is_loopback(const struct cleat__s3_endpoint *endpoint);

bool cleat__s3_endpoint_default_port(const struct cleat__s3_endpoint *endpoint);

#endif
