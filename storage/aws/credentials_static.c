/* aws/credentials_static.c: static keys from the options of the client and from the environment
 * variables; and no keys, if the user asked for anonymous requests. See aws/provider.h. All were
 * read when the store was opened. */
#include "storage/aws/provider.h"

#include <string.h>

cleat_status cleat__s3_from_anonymous(const struct cleat__s3_search *search, struct cleat__s3_credentials *keys,
                                      bool *found, struct cleat_error *err) {
  (void)err;
  *found = search->settings->anonymous;
  if (*found)
    memset(keys, 0, sizeof *keys);
  return CLEAT_OK;
}

cleat_status cleat__s3_from_options(const struct cleat__s3_search *search, struct cleat__s3_credentials *keys,
                                    bool *found, struct cleat_error *err) {
  (void)err;
  *found = search->settings->has_options;
  if (*found)
    *keys = search->settings->options;
  return CLEAT_OK;
}

/* A profile in the URL is explicit, so it comes before variables of the environment. */
cleat_status cleat__s3_from_environment(const struct cleat__s3_search *search, struct cleat__s3_credentials *keys,
                                        bool *found, struct cleat_error *err) {
  (void)err;
  *found = search->settings->has_environment && !search->settings->profile_in_url;
  if (*found)
    *keys = search->settings->environment;
  return CLEAT_OK;
}
