/* aws/partition.h: where AWS's own services are: the partition of a region, and the hosts in it. Pure, thread-safe.
 *
 * Source: AWS SDKs and Tools Reference Guide, "Dual-stack and FIPS endpoints"; the partitions and endpoint rules that
 * botocore carries. tests/integration/test_aws_endpoints.py compares the two. */
#ifndef CLEAT_STORAGE_AWS_PARTITION_H
#define CLEAT_STORAGE_AWS_PARTITION_H

#include "storage/http/endpoint.h"

enum cleat__s3_service { CLEAT__S3_SERVICE_S3 = 0, CLEAT__S3_SERVICE_STS = 1 };

/* Which kind of a service's endpoints. */
struct cleat__s3_variant {
  bool fips;      /* with cryptography that FIPS 140 has validated */
  bool dualstack; /* by IPv6 too */
};

/* AWS's own for a region, such as https://s3.eu-west-1.amazonaws.com. INVALID: there is no such kind there. */
cleat_status cleat__s3_partition_endpoint(const char *region, enum cleat__s3_service service,
                                          struct cleat__s3_variant variant,
                                          struct cleat__s3_endpoint *endpoint,
                                          struct cleat_error *err);

/* S3 of AWS by its host name, where AWS's rules for buckets hold, and buckets may stand in the host name. */
bool cleat__s3_partition_is_aws(const struct cleat__s3_endpoint *endpoint);

#endif
