/* s3_credentials.h: where the keys come from: the explicit options, the AWS environment
 * variables, the shared credentials and config files, in this order.
 *
 * A chain is a list of providers; the first that has keys wins and is asked again when its keys
 * expire or are refused. The environment is read once, in cleat__s3_credentials_new; files are read at the
 * first get and again only after cleat__s3_credentials_refuse. Thread-safe: the cached keys live under the
 * chain's lock, files are read outside it. Keys are wiped when freed and never stand in a message. */
#ifndef CLEAT_STORAGE_S3_CREDENTIALS_H
#define CLEAT_STORAGE_S3_CREDENTIALS_H

#include "base/clock.h"
#include "base/error.h"

/* AWS documents 16 to 128 for the id, none for the others; secrets of MinIO users go to 128, session
 * tokens seen in the wild stay below 4 KiB. Lower would refuse valid keys, higher costs stack. */
#define CLEAT__S3_ACCESS_KEY_MAX 128
#define CLEAT__S3_SECRET_KEY_MAX 256
#define CLEAT__S3_SESSION_TOKEN_MAX 8192

/* Keys, plain data: a copy for one request. Wipe with cleat__s3_credentials_wipe. */
struct cleat__s3_credentials {
  char access_key_id[CLEAT__S3_ACCESS_KEY_MAX + 1];
  char secret_access_key[CLEAT__S3_SECRET_KEY_MAX + 1];
  char session_token[CLEAT__S3_SESSION_TOKEN_MAX + 1]; /* "" when there is none */
  int64_t expires_s;                                   /* wall clock; 0: never */
};

struct cleat__s3_chain;

/* Reads the options (access_key_id, secret_access_key, session_token) and the environment; copies
 * what it needs. `profile` NULL: AWS_PROFILE, else "default". Touches no file.
 * Errors: INVALID (half-set options, too long), DENIED (half-set environment), NO_MEMORY. */
cleat_status cleat__s3_credentials_new(const struct cleat_client_options *options,
                                       const char *profile, const struct cleat__clock *clock,
                                       struct cleat__s3_chain **chain, struct cleat_error *err);

/* Copies the keys to use now. Cheap once they are known; called for every request.
 * Errors: DENIED (none found; the hint names where it looked), INVALID (malformed file, half a pair,
 * unknown profile), IO, NO_MEMORY. */
cleat_status cleat__s3_credentials_get(struct cleat__s3_chain *chain,
                                       struct cleat__s3_credentials *credentials,
                                       struct cleat_error *err);

/* The store said that these keys have expired: the next get asks the providers again, unless
 * another thread has already done so. */
void cleat__s3_credentials_refuse(struct cleat__s3_chain *chain,
                                  const struct cleat__s3_credentials *refused);

/* A short text for logs and hints, such as "the environment variables"; static, "" before a get. */
const char *cleat__s3_credentials_source(struct cleat__s3_chain *chain);

/* Wipes and frees. NULL is allowed. */
void cleat__s3_credentials_free(struct cleat__s3_chain *chain);

void cleat__s3_credentials_wipe(struct cleat__s3_credentials *credentials);

#endif
