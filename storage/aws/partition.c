/* aws/partition.c: the endpoints of AWS. See aws/partition.h. Pure; no state. */
#include "storage/aws/partition.h"

#include <stdio.h>
#include <string.h>

struct partition {
  const char *regions; /* prefix of the names of its regions */
  const char *suffix;
  const char *dualstack; /* used instead of `suffix`, except for S3; NULL: no such endpoints */
  bool s3_fips;
  /* the normal name of STS has FIPS; there is no other name except for dual-stack */
  bool sts_always_fips;
};

/* The last entry is for all other regions, also future ones. */
static const struct partition PARTITIONS[] = {
    {"cn-", ".amazonaws.com.cn", ".api.amazonwebservices.com.cn", false, false},
    {"us-gov-", ".amazonaws.com", ".api.aws", true, true},
    {"us-iso-", ".c2s.ic.gov", ".api.aws.ic.gov", true, false},
    {"us-isob-", ".sc2s.sgov.gov", ".api.aws.scloud", true, false},
    {"us-isof-", ".csp.hci.ic.gov", NULL, true, false},
    {"eu-isoe-", ".cloud.adc-e.uk", NULL, true, false},
    {"eusc-", ".amazonaws.eu", ".api.amazonwebservices.eu", true, false},
    {"", ".amazonaws.com", ".api.aws", true, false},
};
#define PARTITION_COUNT (sizeof PARTITIONS / sizeof PARTITIONS[0])

static const struct partition *partition_of(const char *region) {
  size_t i = 0;
  while (i + 1 < PARTITION_COUNT && strncmp(region, PARTITIONS[i].regions, strlen(PARTITIONS[i].regions)) != 0)
    i++;
  return &PARTITIONS[i];
}

static cleat_status no_such(const char *region, const char *kind, const char *variable, struct cleat_error *err) {
  (void)cleat__error_set(err, CLEAT_INVALID, "AWS has no %s endpoints in region %s", kind, region);
  cleat__error_hint(err, "unset %s, or use an endpoint of your own", variable);
  return err->status;
}

cleat_status cleat__s3_partition_endpoint(const char *region, enum cleat__s3_service service,
                                          struct cleat__s3_variant variant, struct cleat__s3_endpoint *endpoint,
                                          struct cleat_error *err) {
  const struct partition *partition = partition_of(region);
  bool s3 = service == CLEAT__S3_SERVICE_S3;
  if (variant.fips && s3 && !partition->s3_fips)
    return no_such(region, "FIPS", "AWS_USE_FIPS_ENDPOINT (use_fips_endpoint)", err);
  if (variant.dualstack && !partition->dualstack)
    return no_such(region, "dual-stack", "AWS_USE_DUALSTACK_ENDPOINT (use_dualstack_endpoint)", err);
  bool marked = variant.fips && (s3 || variant.dualstack || !partition->sts_always_fips);
  /* The dual-stack names of S3 are older than the domain for them. */
  *endpoint = (struct cleat__s3_endpoint){.https = true, .port = 443};
  snprintf(endpoint->host, sizeof endpoint->host, "%s%s%s.%.63s%s", s3 ? "s3" : "sts", marked ? "-fips" : "",
           s3 && variant.dualstack ? ".dualstack" : "", region,
           variant.dualstack && !s3 ? partition->dualstack : partition->suffix);
  return CLEAT_OK;
}

static bool ends_with(const char *text, const char *end) {
  size_t length = strlen(text);
  size_t end_length = strlen(end);
  return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

bool cleat__s3_partition_is_aws(const struct cleat__s3_endpoint *endpoint) {
  if (strncmp(endpoint->host, "s3", 2) != 0)
    return false;
  for (size_t i = 0; i < PARTITION_COUNT; i++) {
    if (ends_with(endpoint->host, PARTITIONS[i].suffix))
      return true;
  }
  return false;
}
