/* aws/credentials.h: the keys for the next request, from the first of the places that has some:
 * the client's options, the environment, a web identity, the shared AWS files, the container
 * endpoint, the instance metadata (aws/provider.h); or none at all, when the URL asks for that.
 *
 * Thread-safe: every request asks. Keys that end are renewed before: from 15 minutes before on,
 * one of the threads that ask goes for new ones while the others work on with the old (a thread
 * of its own would do nothing else all day, and a client without requests needs no keys); from
 * 10 minutes before on, all wait for it. Keys of a short life are renewed at half of it. While
 * the place does not answer, keys that have not ended stay in use. One thread at a time asks a
 * place; the others wait for what it gets, its error too. Nothing is asked under the lock.
 *
 * The store has the last word on whether keys are good, since the clock here may be wrong: keys
 * that look ended when they come are used all the same. Keys are wiped when freed and never
 * stand in a message. */
#ifndef CLEAT_STORAGE_AWS_CREDENTIALS_H
#define CLEAT_STORAGE_AWS_CREDENTIALS_H

#include "storage/aws/provider.h"

/* Of AWS's SDKs. Lower: one short outage of the place ends a save. Higher: a place that renews
 * its keys late (EC2 does so some 5 minutes before) is asked in vain. */
#define CLEAT__S3_RENEW_SOON_S 900
#define CLEAT__S3_RENEW_NOW_S 600
/* After a renewal that failed or brought keys that look ended. */
#define CLEAT__S3_RENEW_PAUSE_S 10

struct cleat__s3_chain;

/* Reads the options and the environment; copies what it needs. Touches no file.
 * Errors: INVALID (half-set options, too long), DENIED (half-set environment), NO_MEMORY. */
cleat_status cleat__s3_credentials_new(const struct cleat__s3_chain_options *options,
                                       struct cleat__s3_chain **chain, struct cleat_error *err);

/* Copies the keys to use now. Cheap but for renewals; called for every request. `cancel` may be
 * NULL. Errors: DENIED (none found; the message names where it looked), those of the providers;
 * err->retryable tells that a later call may succeed. */
cleat_status cleat__s3_credentials_get(struct cleat__s3_chain *chain, const atomic_bool *cancel,
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

#endif
