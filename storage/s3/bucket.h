/* s3/bucket.h: checks the names of buckets: the rules of AWS, and those of other stores, which allow more. Pure,
 * thread-safe.
 *
 * Source: Amazon S3 User Guide, "General purpose bucket naming rules" and "Networking for directory buckets"; Ceph,
 * "Multitenancy"; Oracle Cloud, "Object Storage Buckets"; botocore's endpoint rules for names that may be part of a
 * host name. */
#ifndef CLEAT_STORAGE_S3_BUCKET_H
#define CLEAT_STORAGE_S3_BUCKET_H

#include "base/error.h"

#include <stdbool.h>

#define CLEAT__S3_BUCKET_MAX 255 /* limit of Ceph and Oracle, with the tenant */

/* Refuses names that no store allows. `location` is everything after "s3://". An error repeats no part of it that
 * may be a key. INVALID. */
cleat_status cleat__s3_bucket_check(const char *bucket, const char *location, struct cleat_error *err);

/* Refuses names that AWS does not allow, and AWS buckets that need more than a signed request. INVALID. */
cleat_status cleat__s3_bucket_check_aws(const char *bucket, const char *location, struct cleat_error *err);

/* Whether the name can be put in front of a host name; with `dots`, as several labels. A wildcard certificate covers
 * only one label. */
bool cleat__s3_bucket_is_label(const char *bucket, bool dots);

#endif
