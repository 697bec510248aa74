/* s3/bucket.c: checks the names of buckets. See s3/bucket.h. Pure; no state. */
#include "storage/s3/bucket.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#define LOWER "abcdefghijklmnopqrstuvwxyz"
#define UPPER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"
#define LABEL_MAX 63 /* RFC 1035 */
#define AWS_MIN 3

static bool is_alnum(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

static bool is_address(const char *text, size_t length) {
  char copy[INET_ADDRSTRLEN];
  struct in_addr address;
  if (length >= sizeof copy)
    return false;
  snprintf(copy, sizeof copy, "%.*s", (int)length, text);
  return inet_pton(AF_INET, copy, &address) == 1;
}

/* ---- Refusals ---- */

static bool quotable(const char *bucket, const char *location) {
  /* Some clients accept "s3://id:secret@bucket". A secret may contain a '/', which looks like the end of the bucket. */
  return !strchr(location, '@') && !strchr(bucket, ':');
}

static cleat_status refuse(const char *bucket, const char *location, const char *fault, struct cleat_error *err) {
  bool told = quotable(bucket, location);
  (void)cleat__error_set(err, CLEAT_INVALID, "s3://%.100s: %s", told ? bucket : "…", fault);
  if (told)
    cleat__error_hint(err, "an S3 URL is s3://bucket/prefix");
  else
    cleat__error_hint(err, "an S3 URL is s3://bucket/prefix?endpoint=http://host:port; put keys "
                           "into AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY");
  return err->status;
}

/* ---- Anywhere ---- */

/* "arn:aws:s3:eu-west-1:123456789012:accesspoint/name", up to the slash. "arn:bucket" of Ceph has a tenant called
 * arn. */
static bool is_arn(const char *bucket) {
  return strncmp(bucket, "arn:", 4) == 0 && strchr(bucket + 4, ':') != NULL;
}

/* An '@' in the path counts. In the query it is part of a value. */
static bool looks_like_keys(const char *bucket, const char *location) {
  return strchr(bucket, ':') && memchr(location, '@', strcspn(location, "?"));
}

/* Returns what is wrong, or NULL if some store may allow the name. */
static const char *fault_anywhere(const char *bucket, const char *location) {
  size_t length = strlen(bucket);
  size_t tenant = strcspn(bucket, ":");
  if (length == 0)
    return "the bucket is missing";
  if (strspn(bucket, LOWER UPPER DIGITS "._-:") != length)
    return "a bucket's name may have only a-z, 0-9, '.' and '-', and at stores other than AWS also "
           "A-Z, '_' and a ':' after a tenant";
  if (looks_like_keys(bucket, location))
    return "a ':' in the bucket and an '@' after it look like keys";
  if (length > CLEAT__S3_BUCKET_MAX)
    return "a bucket's name has at most 255 characters";
  if (tenant < length && (tenant == length - 1 || strchr(bucket + tenant + 1, ':')))
    return "a bucket's name may have only one ':', as in tenant:bucket";
  if (strcmp(bucket, ".") == 0 || strcmp(bucket, "..") == 0)
    return "a bucket's name is not '.' or '..'";
  return is_address(bucket, tenant) ? "a bucket's name is not an IP address" : NULL;
}

cleat_status cleat__s3_bucket_check(const char *bucket, const char *location, struct cleat_error *err) {
  if (is_arn(bucket) && !strchr(location, '@')) {
    (void)cleat__error_set(err, CLEAT_INVALID, "s3://arn:…: ARNs in place of a bucket are not supported");
    cleat__error_hint(err, "an access point has an alias, which ends in -s3alias; write "
                           "s3://alias/prefix");
    return err->status;
  }
  const char *fault = fault_anywhere(bucket, location);
  return fault ? refuse(bucket, location, fault, err) : CLEAT_OK;
}

/* ---- At AWS ---- */

/* Endings that AWS reserves for buckets of other kinds. A name that ends in "-s3alias" works like a bucket. */
static const struct {
  const char *ending;
  const char *fault;
} OTHERS[] = {
    {"--x-s3", "directory buckets (S3 Express One Zone) are not supported: they need credentials of "
               "CreateSession, which Cleat does not request"},
    {"--xa-s3", "access points of directory buckets (S3 Express One Zone) are not supported: they "
                "need credentials of CreateSession, which Cleat does not request"},
    {".mrap", "Multi-Region Access Points are not supported: their requests need a signature for "
              "several regions (SigV4A), which Cleat does not support"},
};

static const char *fault_of_ending(const char *bucket) {
  size_t length = strlen(bucket);
  for (size_t i = 0; i < sizeof OTHERS / sizeof OTHERS[0]; i++) {
    size_t ending = strlen(OTHERS[i].ending);
    if (length > ending && strcmp(bucket + length - ending, OTHERS[i].ending) == 0)
      return OTHERS[i].fault;
  }
  return NULL;
}

/* Returns what is wrong, or NULL if the name is valid. */
static const char *fault_at_aws(const char *bucket) {
  size_t length = strlen(bucket);
  if (length < AWS_MIN || length > LABEL_MAX)
    return "at AWS a bucket's name has 3 to 63 characters";
  if (strspn(bucket, LOWER DIGITS ".-") != length)
    return "at AWS a bucket's name has only a-z, 0-9, '.' and '-'";
  if (!is_alnum(bucket[0]) || !is_alnum(bucket[length - 1]))
    return "at AWS a bucket's name begins and ends with a letter or digit";
  return strstr(bucket, "..") ? "at AWS a bucket's name has no two dots in a row" : NULL;
}

cleat_status cleat__s3_bucket_check_aws(const char *bucket, const char *location, struct cleat_error *err) {
  const char *fault = fault_of_ending(bucket);
  if (fault) {
    (void)refuse(bucket, location, fault, err);
    cleat__error_hint(err, "use a general purpose bucket");
    return err->status;
  }
  fault = fault_at_aws(bucket);
  if (!fault)
    return CLEAT_OK;
  (void)refuse(bucket, location, fault, err);
  if (quotable(bucket, location))
    cleat__error_hint(err, "if the bucket is at another store, say where: "
                           "s3://bucket/prefix?endpoint=https://host, or AWS_ENDPOINT_URL");
  return err->status;
}

/* ---- In a host name ---- */

bool cleat__s3_bucket_is_label(const char *bucket, bool dots) {
  size_t length = strlen(bucket);
  if (length < AWS_MIN || is_address(bucket, length) || strspn(bucket, LOWER DIGITS "-.") != length)
    return false;
  for (const char *at = bucket;; at++) {
    size_t label = strcspn(at, ".");
    if (label == 0 || label > LABEL_MAX || at[0] == '-' || at[label - 1] == '-')
      return false;
    at += label;
    if (*at == '\0')
      return true;
    if (!dots)
      return false;
  }
}
