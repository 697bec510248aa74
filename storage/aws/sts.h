/* aws/sts.h: gets keys of a role from the Security Token Service of AWS, or from a store with the same protocol
 * (MinIO). No state; blocks for the request, on the thread of the caller. Source: AWS STS API reference, AssumeRole
 * and AssumeRoleWithWebIdentity. */
#ifndef CLEAT_STORAGE_AWS_STS_H
#define CLEAT_STORAGE_AWS_STS_H

#include "storage/aws/provider.h"

/* A role to assume. Borrows everything. Either web_token or source is set. */
struct cleat__s3_role {
  const char *arn;
  const char *session_name; /* NULL: a generated name */
  const char *external_id;  /* NULL: none */
  const char *duration_s;   /* digits; NULL: the default of the role */
  const char *web_token;
  const struct cleat__s3_credentials *source; /* the keys that sign the request */
};

/* Requests keys of the role. Errors: DENIED with the code of STS, those of cleat__s3_ask, INVALID (endpoint,
 * duration, or a web identity token that would be sent to another machine over plain HTTP). */
cleat_status cleat__s3_sts_assume(const struct cleat__s3_search *search, const struct cleat__s3_role *role,
                                  struct cleat__s3_credentials *keys, struct cleat_error *err);

/* Reads the answer of STS to `action`, with status 2xx or 4xx, into *keys. Pure. Errors: DENIED (refused, not a
 * reply of STS, no keys in it), INVALID (invalid keys), NO_MEMORY. */
cleat_status cleat__s3_sts_read(const struct cleat__s3_role *role, const char *place, const char *action,
                                int http_status, const char *text, size_t size, struct cleat__s3_credentials *keys,
                                struct cleat_error *err);

#endif
