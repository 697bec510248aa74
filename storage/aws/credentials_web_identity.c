/* aws/credentials_web_identity.c: exchanges a token that Kubernetes or another identity provider
 * keeps in a file for keys of a role at STS. See aws/provider.h. The file is read each time,
 * because its writer replaces the token long before it expires. */
#include "storage/aws/provider.h"

#include "storage/aws/sts.h"

cleat_status cleat__s3_from_web_identity(const struct cleat__s3_search *search, struct cleat__s3_credentials *keys,
                                         bool *found, struct cleat_error *err) {
  const struct cleat__s3_settings *settings = search->settings;
  char *token = NULL;
  *found = false;
  /* Some tools leave AWS_ROLE_ARN alone behind, which is ignored. The file alone is a mistake. */
  if (!settings->web_token_file || settings->profile_in_url)
    return CLEAT_OK;
  if (!settings->role_arn) {
    (void)cleat__error_set(err, CLEAT_DENIED,
                           "the environment: AWS_WEB_IDENTITY_TOKEN_FILE is set, but AWS_ROLE_ARN is not");
    cleat__error_hint(err, "set both, or neither");
    return err->status;
  }
  cleat_status status = cleat__s3_token_read(settings->web_token_file, "the web identity token", &token, err);
  if (status)
    return status;
  struct cleat__s3_role role = {
      .arn = settings->role_arn, .session_name = settings->role_session_name, .web_token = token};
  status = cleat__s3_sts_assume(search, &role, keys, err);
  cleat__s3_wipe_text(token);
  *found = !status;
  return status;
}
