/* s3/config.h: everything about an s3:// store that is known before the first request: bucket,
 * prefix, endpoint, region, addressing, CA file, how bodies are checked and signed.
 *
 * Made once at open, from (first wins) the client's options, the URL's query, the environment, the
 * config file, the defaults; read-only afterwards and shared by all threads. Owns its strings. */
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
  char *root;    /* what stands before every key: "" or "run-17/" */
  char *display; /* "s3://bucket/prefix", without the query */
  char *region;
  char *
      endpoint; /* "http://127.0.0.1:9000", with a path if it has one; no bucket, no slash at the end */
  char *ca_file;      /* PEM bundle; NULL: the system's */
  char *sts_endpoint; /* where roles' keys come from; NULL: AWS's own of the region */
  bool anonymous;     /* requests are not signed */
  char *profile;      /* of the shared files, for the credentials; NULL: AWS_PROFILE or "default" */

  bool https;
  char *host;    /* to connect to: "127.0.0.1", "[::1]", "bucket.s3.eu-west-1.amazonaws.com" */
  unsigned port; /* always set */
  char *
      host_header; /* host, with ":port" when it is not the scheme's own: what is sent and signed */
  char *base_url;  /* "https://bucket.s3.eu-west-1.amazonaws.com": scheme, host, port; no path.
                         A request goes to base_url + canonical path [+ "?" + query] */
  char *base_path; /* encoded path of the bucket, without trailing slash: "" or "/bucket" or
                         "/tenant/bucket". The canonical path of a key is base_path + "/" + encoded
                         (root + key); of the bucket itself base_path + "/" */
  bool virtual_host;                    /* the bucket stands in the host name */
  bool aws;                             /* the endpoint is AWS's own, made from the region */
  struct cleat__s3_variant s3_variant;  /* … and of this kind */
  struct cleat__s3_variant sts_variant; /* of STS, unless sts_endpoint is set */

  bool checksums;    /* send x-amz-checksum-crc32c (AWS_REQUEST_CHECKSUM_CALCULATION) … */
  bool crc64nvme;    /* … or x-amz-checksum-crc64nvme in its place */
  bool sign_payload; /* SHA-256 of the body is signed; else UNSIGNED-PAYLOAD */
  bool sign_lists;   /* that of a list of parts is signed in any case: no checksum goes with it */

  struct cleat__s3_options options; /* what the bucket asks for; empty in a moved one */
};

/* `location` is what follows "s3://": bucket[/prefix][?name=value&…] with the names endpoint, region, style
 * (auto, path, virtual), ca_file, profile, checksum, payload, anonymous, and those of s3/options.h; values
 * may be percent-encoded. Reads the environment, the config file and the file of an SSE-C key.
 * Fills *config; free with cleat__s3_config_clear.
 * Errors: INVALID (each names what is wrong and what is right), IO, DENIED (config file), NO_MEMORY. */
cleat_status cleat__s3_config_init(struct cleat__s3_config *config, const char *location,
                                   const struct cleat_client_options *options,
                                   struct cleat_error *err);

/* Fills *moved with a copy for another region, for following a redirect. The caller guards the switch.
 * `options` hold for all regions and stay with the first. */
cleat_status cleat__s3_config_move(const struct cleat__s3_config *config, const char *region,
                                   struct cleat__s3_config *moved, struct cleat_error *err);

void cleat__s3_config_clear(struct cleat__s3_config *config);

#endif
