/* aws/partition.h: the endpoints of AWS: the partition of a region, and its hosts. Pure, thread-safe.
 *
 * Source: AWS SDKs and Tools Reference Guide, "Dual-stack and FIPS endpoints"; the partitions and endpoint rules of
 * botocore. tests/integration/test_aws_endpoints.py compares the two. */
#ifndef CLEAT_STORAGE_AWS_PARTITION_H
#define CLEAT_STORAGE_AWS_PARTITION_H

#include "storage/http/endpoint.h"

enum cleat__s3_service { CLEAT__S3_SERVICE_S3 = 0, CLEAT__S3_SERVICE_STS = 1 };

/* The kind of endpoints of a service. */
struct cleat__s3_variant {
  bool fips;      /* with cryptography that is validated by FIPS 140 */
  bool dualstack; /* reachable by IPv6 too */
};

/* Gets the endpoint of AWS for a region, such as https://s3.eu-west-1.amazonaws.com. INVALID: the region has no
 * endpoints of this kind. */
cleat_status cleat__s3_partition_endpoint(const char *region, enum cleat__s3_service service,
                                          struct cleat__s3_variant variant, struct cleat__s3_endpoint *endpoint,
                                          struct cleat_error *err);

/* Whether the host name is one of S3 at AWS. There the bucket rules of AWS apply, and buckets may be part of the
 * host name. */
bool cleat__s3_partition_is_aws(const struct cleat__s3_endpoint *endpoint);

#endif
