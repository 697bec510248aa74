/* aws/credentials.h: provides the credentials for the next request. They come from the first
 * place that has some: the options of the client, the environment, a web identity, the shared
 * AWS files, the container endpoint, the instance metadata (aws/provider.h). With anonymous
 * requests there are none. "Keys" means credentials here.
 *
 * Thread-safe: every request calls this module. Expiring keys are refreshed early. From 15
 * minutes before expiry, one of the calling threads refreshes them, and the others continue with
 * the old ones. There is no extra thread for it: it would be idle nearly always, and a client
 * without requests needs no keys. From 10 minutes before expiry, all callers wait for the
 * refresh. Keys with a short life are refreshed at half of it. While the place does not answer,
 * unexpired keys stay in use. One thread at a time asks a place. The others wait, and get its
 * result or its error. No place is asked under the lock.
 *
 * The store decides whether keys are valid, because the local clock may be wrong. So new keys
 * that look expired are used. Keys are wiped when freed, and no message contains them. */
#ifndef CLEAT_STORAGE_AWS_CREDENTIALS_H
#define CLEAT_STORAGE_AWS_CREDENTIALS_H

#include "base/call.h"
#include "storage/aws/provider.h"

/* Values of the AWS SDKs. Lower: one short outage of the place ends a save. Higher: a place that
 * renews its keys late (EC2 does so about 5 minutes before expiry) is asked for nothing. */
#define CLEAT__S3_RENEW_SOON_S 900
#define CLEAT__S3_RENEW_NOW_S 600
/* Pause after a refresh that failed or returned keys that look expired. */
#define CLEAT__S3_RENEW_PAUSE_S 10

struct cleat__s3_chain;

/* Reads the options and the environment, and copies what it needs. Reads no file. Errors:
 * INVALID (incomplete options, a value too long), DENIED (incomplete environment), NO_MEMORY. */
cleat_status cleat__s3_credentials_new(const struct cleat__s3_chain_options *options, struct cleat__s3_chain **chain,
                                       struct cleat_error *err);

/* Copies the keys to use now. Called for every request; fast unless a refresh is needed.
 * `cancel` may be NULL. Errors: DENIED (no keys found; the message names the places), errors of
 * the providers. err->retryable: a later call may succeed. */
cleat_status cleat__s3_credentials_get(struct cleat__s3_chain *chain, struct cleat__s3_credentials *credentials,
                                       struct cleat__call call);

/* Called when the store said that these keys have expired. The next get asks the providers
 * again, unless another thread has done so since. */
void cleat__s3_credentials_refuse(struct cleat__s3_chain *chain, const struct cleat__s3_credentials *refused);

/* A short text for logs and hints, such as "the environment variables". Static; "" before the
 * first get. */
const char *cleat__s3_credentials_source(struct cleat__s3_chain *chain);

/* Wipes and frees the chain and its keys. NULL is allowed. */
void cleat__s3_credentials_free(struct cleat__s3_chain *chain);

#endif
