/* aws/keys.h: credentials as plain data, and the pure readers for them: single values, a JSON document, an ISO 8601
 * time. Thread-safe; borrows its arguments.
 *
 * No message of these functions quotes a value. */
#ifndef CLEAT_STORAGE_AWS_KEYS_H
#define CLEAT_STORAGE_AWS_KEYS_H

#include "base/error.h"

#include <stdbool.h>

/* AWS documents 16 to 128 bytes for the id and no limit for the others. Secrets of MinIO users have up to 128 bytes;
 * session tokens seen in practice are below 4 KiB. Lower: valid keys are refused. Higher: more stack is used. */
#define CLEAT__S3_ACCESS_KEY_MAX 128
#define CLEAT__S3_SECRET_KEY_MAX 256
#define CLEAT__S3_SESSION_TOKEN_MAX 8192

/* Keys as plain data: a copy for one request. Wipe them with cleat__s3_credentials_wipe. */
struct cleat__s3_credentials {
  char access_key_id[CLEAT__S3_ACCESS_KEY_MAX + 1]; /* "": requests are not signed */
  char secret_access_key[CLEAT__S3_SECRET_KEY_MAX + 1];
  char session_token[CLEAT__S3_SESSION_TOKEN_MAX + 1]; /* "" if there is none */
  int64_t expires_s;                                   /* Unix time; 0: never */
};

void cleat__s3_credentials_wipe(struct cleat__s3_credentials *credentials);

/* The names of the values of a set of keys, for messages. */
struct cleat__s3_key_names {
  const char *place;
  const char *id;
  const char *secret;
  const char *token;
  cleat_status status; /* status of an incomplete pair */
};

/* Keys as they were given. NULL or "": absent. */
struct cleat__s3_key_texts {
  const char *id;
  const char *secret;
  const char *token;
};

/* Checks that id and secret are both set or both absent, and copies them. expires_s becomes 0. Errors: names->status
 * (only one is set), INVALID (too long, or contains blanks, line ends or non-ASCII characters). */
cleat_status cleat__s3_keys_set(const struct cleat__s3_key_names *names, struct cleat__s3_key_texts texts,
                                struct cleat__s3_credentials *keys, bool *found, struct cleat_error *err);

/* Replaces `text`, which a server sent and a user may see, by "[redacted]" if it repeats `secret` (may be NULL). 16
 * consecutive bytes of the secret are enough, because the text may be cut or escaped. It never makes the text empty,
 * because no code would mean no error. `text` has room for at least CLEAT__S3_REDACTED. */
#define CLEAT__S3_REDACTED "[redacted]"
void cleat__s3_keys_hide(const char *secret, char *text);

/* What to expect in a JSON document with AccessKeyId, SecretAccessKey, a token and Expiration. */
struct cleat__s3_keys_document {
  const char *place;      /* for messages: "the container endpoint" */
  const char *token_name; /* "Token" or "SessionToken" */
  bool needs_version;     /* "Version": 1 is required (credential_process) */
  bool has_code;          /* a "Code" other than "Success" means failure (instance metadata) */
};

/* Reads the document. Token and Expiration may be absent or null. Errors: DENIED (malformed, wrong types, a missing
 * value), NO_MEMORY. */
cleat_status cleat__s3_keys_json(const char *text, size_t size, const struct cleat__s3_keys_document *document,
                                 struct cleat__s3_credentials *keys, struct cleat_error *err);

/* Parses "2026-11-21T12:00:00Z", with or without a fraction, and with "+01:00" or "+0100" instead of the 'Z', to
 * Unix time. False: not a valid time, or before 1970. */
bool cleat__s3_keys_time(const char *text, size_t length, int64_t *wall_s);

#endif
