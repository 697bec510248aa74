/* s3/bucket.h: what a bucket may be called: at AWS, and at other stores, which allow more. Pure, thread-safe.
 *
 * Source: Amazon S3 User Guide, "General purpose bucket naming rules" and "Networking for directory buckets"; Ceph,
 * "Multitenancy"; Oracle Cloud, "Object Storage Buckets"; botocore's endpoint rules for what may stand in a host. */
#ifndef CLEAT_STORAGE_S3_BUCKET_H
#define CLEAT_STORAGE_S3_BUCKET_H

#include "base/error.h"

#include <stdbool.h>

#define CLEAT__S3_BUCKET_MAX 255 /* of Ceph and Oracle, a tenant included */

/* Refuses what is a bucket's name at no store. `location` is the whole of what follows "s3://": an error repeats
 * nothing of it that may be a key. INVALID. */
cleat_status cleat__s3_bucket_check(const char *bucket, const char *location,
                                    struct cleat_error *err);

/* Refuses what AWS does not allow, and the buckets there that need more than a signed request. INVALID. */
cleat_status cleat__s3_bucket_check_aws(const char *bucket, const char *location,
                                        struct cleat_error *err);

/* Whether the name can stand in front of a host name; with `dots` as several labels. A wildcard certificate covers
 * one label alone. */
bool cleat__s3_bucket_is_label(const char *bucket, bool dots);

#endif
