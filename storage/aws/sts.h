/* aws/sts.h: keys of a role, from AWS's Security Token Service or a store that speaks its
 * protocol (MinIO). Stateless; blocks for the request, on the caller's thread. Source: AWS STS
 * API reference, AssumeRole and AssumeRoleWithWebIdentity. */
#ifndef CLEAT_STORAGE_AWS_STS_H
#define CLEAT_STORAGE_AWS_STS_H

#include "storage/aws/provider.h"

/* Borrows everything. Either web_token or source is set. */
struct cleat__s3_role {
  const char *arn;
  const char *session_name; /* NULL: one is made up */
  const char *external_id;  /* NULL: none */
  const char *duration_s;   /* digits; NULL: the role's own */
  const char *web_token;
  const struct cleat__s3_credentials *source; /* keys that sign the request */
};

/* Asks for keys of the role. Errors: DENIED with STS's code, those of cleat__s3_ask, INVALID
 * (endpoint, duration, a web identity token that would go to another machine over plain HTTP). */
cleat_status cleat__s3_sts_assume(const struct cleat__s3_search *search,
                                  const struct cleat__s3_role *role,
                                  struct cleat__s3_credentials *keys, struct cleat_error *err);

/* What STS answered to `action`, of 2xx or 4xx, read into *keys; pure. Errors: DENIED (refused, no reply of STS,
 * no keys in it), INVALID (keys that are none), NO_MEMORY. */
cleat_status cleat__s3_sts_read(const struct cleat__s3_role *role, const char *place,
                                const char *action, int http_status, const char *text, size_t size,
                                struct cleat__s3_credentials *keys, struct cleat_error *err);

#endif
