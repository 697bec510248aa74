/* aws/profile.h: reads one section of the shared AWS files (~/.aws/credentials, ~/.aws/config), which are INI files
 * with nested settings. Parsing is pure and bounded; loading reads one file. Not shared between threads.
 *
 * A nested setting ("s3 =" followed by the indented line "addressing_style = path") is stored as
 * "s3.addressing_style". Keys are case-insensitive. If a key appears twice, the last one counts. Values may be
 * secrets: they are wiped when freed, and no message quotes one. Source: AWS SDKs and Tools Reference Guide, "Shared
 * config and credentials files". */
#ifndef CLEAT_STORAGE_AWS_PROFILE_H
#define CLEAT_STORAGE_AWS_PROFILE_H

#include "base/error.h"

#include <stdbool.h>

#define CLEAT__S3_PROFILE_FILE_MAX (1u << 20)
#define CLEAT__S3_PROFILE_LINE_MAX 16384 /* longer than any session token */
#define CLEAT__S3_PROFILE_KEYS_MAX 256

/* Which file: its path, and how its sections are named. */
enum cleat__s3_profile_kind {
  CLEAT__S3_PROFILE_CREDENTIALS = 0, /* AWS_SHARED_CREDENTIALS_FILE, ~/.aws/credentials; [name] */
  CLEAT__S3_PROFILE_CONFIG = 1,      /* AWS_CONFIG_FILE, ~/.aws/config; [default], [profile name] */
  CLEAT__S3_PROFILE_SERVICES = 2     /* the config file; [services name] */
};

struct cleat__s3_profile {
  char **keys;   /* lowercase */
  char **values; /* trimmed */
  size_t count;
  bool found; /* the file has the section */
};
#define CLEAT__S3_PROFILE_INIT \
  { NULL, NULL, 0, false }

/* Gets the path of the file from the environment, owned. NULL with CLEAT_OK if there is no home folder. NO_MEMORY. */
cleat_status cleat__s3_profile_path(enum cleat__s3_profile_kind kind, char **path, struct cleat_error *err);

/* Reads section `name` of `text` into *profile (cleat__s3_profile_clear). `path` is for messages. An absent section
 * is a success with found false. Errors: INVALID (malformed, too long), NO_MEMORY. */
cleat_status cleat__s3_profile_parse(const char *text, size_t size, const char *path, enum cleat__s3_profile_kind kind,
                                     const char *name, struct cleat__s3_profile *profile, struct cleat_error *err);

/* Reads and parses the file. An absent file is a success with found false, and *exists (if not NULL) false. Errors:
 * also IO, DENIED. */
cleat_status cleat__s3_profile_load(const char *path, enum cleat__s3_profile_kind kind, const char *name,
                                    struct cleat__s3_profile *profile, bool *exists, struct cleat_error *err);

/* Returns the value of a lowercase key, or NULL. The profile owns it. */
const char *cleat__s3_profile_get(const struct cleat__s3_profile *profile, const char *key);

/* Wipes and frees. */
void cleat__s3_profile_clear(struct cleat__s3_profile *profile);

#endif
