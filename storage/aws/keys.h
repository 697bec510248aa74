/* aws/keys.h: keys as plain data, and the pure readers that make them from what a place says: single
 * values, a JSON document, an ISO 8601 time. Thread-safe; borrows its arguments.
 *
 * No message of these functions quotes a value. */
#ifndef CLEAT_STORAGE_AWS_KEYS_H
#define CLEAT_STORAGE_AWS_KEYS_H

#include "base/error.h"

#include <stdbool.h>

/* AWS documents 16 to 128 for the id, none for the others; secrets of MinIO users go to 128,
 * session tokens seen in the wild stay below 4 KiB. Lower would refuse valid keys, higher costs
 * stack. */
#define CLEAT__S3_ACCESS_KEY_MAX 128
#define CLEAT__S3_SECRET_KEY_MAX 256
#define CLEAT__S3_SESSION_TOKEN_MAX 8192

/* Keys, plain data: a copy for one request. Wipe with cleat__s3_credentials_wipe. */
struct cleat__s3_credentials {
  char access_key_id[CLEAT__S3_ACCESS_KEY_MAX + 1]; /* "": requests are sent unsigned */
  char secret_access_key[CLEAT__S3_SECRET_KEY_MAX + 1];
  char session_token[CLEAT__S3_SESSION_TOKEN_MAX + 1]; /* "" when there is none */
  int64_t expires_s;                                   /* wall clock; 0: never */
};

void cleat__s3_credentials_wipe(struct cleat__s3_credentials *credentials);

/* What a set of keys is called where it stands, for messages. */
struct cleat__s3_key_names {
  const char *place;
  const char *id;
  const char *secret;
  const char *token;
  cleat_status status; /* of a half-set pair */
};

/* Checks that id and secret are both there or both absent (NULL or ""), and copies them;
 * expires_s becomes 0. Errors: names->status (half a pair), INVALID (too long, or with blanks,
 * line ends, non-ASCII). */
cleat_status cleat__s3_keys_set(const struct cleat__s3_key_names *names, const char *id,
                                const char *secret, const char *token,
                                struct cleat__s3_credentials *keys, bool *found,
                                struct cleat_error *err);

/* Replaces `text`, which a server sent and a user may see, by "[redacted]" if it says `secret` (may be NULL) back:
 * 16 bytes of it in a row are enough, since the text may be cut, or escaped in between. Never empties it: no code
 * means no error. There is room for CLEAT__S3_REDACTED at least. */
#define CLEAT__S3_REDACTED "[redacted]"
void cleat__s3_keys_hide(const char *secret, char *text);

/* A JSON document with AccessKeyId, SecretAccessKey, a token, Expiration. */
struct cleat__s3_keys_document {
  const char *place;      /* for messages: "the container endpoint" */
  const char *token_name; /* "Token" or "SessionToken" */
  bool needs_version;     /* "Version": 1 must be there (credential_process) */
  bool has_code;          /* a "Code" other than "Success" is a failure (instance metadata) */
};

/* Token and Expiration may be absent or null. Errors: DENIED (malformed, wrong types, something
 * missing), NO_MEMORY. */
cleat_status cleat__s3_keys_json(const char *text, size_t size,
                                 const struct cleat__s3_keys_document *document,
                                 struct cleat__s3_credentials *keys, struct cleat_error *err);

/* "2026-11-21T12:00:00Z", with or without a fraction, or with "+01:00" or "+0100" for the 'Z'.
 * False: it is none, or before 1970. */
bool cleat__s3_keys_time(const char *text, size_t length, int64_t *wall_s);

#endif
