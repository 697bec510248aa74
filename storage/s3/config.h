/* s3/config.h: all settings of an s3:// store that are known before the first request: bucket, prefix, endpoint,
 * region, addressing, CA file, how bodies are checked and signed.
 *
 * Made once at open. The first source that has a value wins: the options of the client, the query of the URL, the
 * environment, the config file, the defaults. Read-only afterwards and shared by all threads. Owns its strings. */
#ifndef CLEAT_STORAGE_S3_CONFIG_H
#define CLEAT_STORAGE_S3_CONFIG_H

#include "base/error.h"
#include "storage/aws/partition.h"
#include "storage/s3/location.h"
#include "storage/s3/options.h"

#include <stdbool.h>

#define CLEAT__S3_REGION_MAX 63

struct cleat__s3_config {
  char *bucket;
  char *prefix;  /* "" or "run-17" or "a/b": no slash at either end */
  char *root;    /* prefix of every key: "" or "run-17/" */
  char *display; /* "s3://bucket/prefix", without the query */
  char *region;
  /* such as "http://127.0.0.1:9000", with its path if it has one; without the bucket, and without a slash at the end */
  char *endpoint;
  char *ca_file;      /* PEM bundle; NULL: that of the system */
  char *sts_endpoint; /* endpoint of STS for roles; NULL: that of AWS for the region */
  bool anonymous;     /* requests are not signed */
  /* profile of the shared files, for the credentials; NULL: AWS_PROFILE or "default" */
  char *profile;

  bool https;
  char *host;    /* to connect to: "127.0.0.1", "[::1]", "bucket.s3.eu-west-1.amazonaws.com" */
  unsigned port; /* always set */
  /* host, with ":port" if it is not the default of the scheme; it is sent and signed */
  char *host_header;
  /* Scheme, host and port without a path: "https://bucket.s3.eu-west-1.amazonaws.com". A request goes to base_url +
   * canonical path [+ "?" + query]. */
  char *base_url;
  /* Encoded path of the bucket without a slash at the end: "" or "/bucket" or "/tenant/bucket". The canonical path
   * of a key is base_path + "/" + encoded (root + key). That of the bucket itself is base_path + "/". */
  char *base_path;
  bool virtual_host;                   /* the bucket is part of the host name */
  bool aws;                            /* the endpoint is that of AWS, made from the region */
  struct cleat__s3_variant s3_variant; /* the kind of that endpoint */
  /* the kind of the STS endpoint, unless sts_endpoint is set */
  struct cleat__s3_variant sts_variant;

  bool checksums;    /* send a checksum (AWS_REQUEST_CHECKSUM_CALCULATION) */
  bool crc64nvme;    /* send x-amz-checksum-crc64nvme instead of x-amz-checksum-crc32c */
  bool sign_payload; /* sign the SHA-256 of bodies; else UNSIGNED-PAYLOAD */
  bool sign_lists;   /* sign the SHA-256 of lists of parts, which have no checksum */

  struct cleat__s3_options options; /* options of the bucket; empty in a copy for another region */
};

/* Reads all settings. `location` is the text after "s3://": bucket[/prefix][?name=value&…]. The names are endpoint,
 * region, style (auto, path, virtual), ca_file, profile, checksum, payload, anonymous and those of s3/options.h.
 * Values may be percent-encoded. Reads the environment, the config file and the file of an SSE-C key. Fills *config;
 * free it with cleat__s3_config_clear. Errors: INVALID (names what is wrong and what is allowed), IO, DENIED (config
 * file), NO_MEMORY. */
cleat_status cleat__s3_config_init(struct cleat__s3_config *config, const char *location,
                                   const struct cleat_client_options *options, struct cleat_error *err);

/* Fills *moved with a copy for another region, to follow a redirect. The caller guards the switch. `options` hold
 * for all regions and stay with the first configuration. */
cleat_status cleat__s3_config_move(const struct cleat__s3_config *config, const char *region,
                                   struct cleat__s3_config *moved, struct cleat_error *err);

void cleat__s3_config_clear(struct cleat__s3_config *config);

#endif
