/* aws/profile.h: one section of the AWS shared files (~/.aws/credentials, ~/.aws/config): an INI with
 * nested settings. Parsing is pure and bounded; loading reads one file. Not shared between threads.
 *
 * A nested setting ("s3 =" followed by the indented line "addressing_style = path") is found as
 * "s3.addressing_style". Keys are case-insensitive, the last of two equal ones counts. Values may be
 * secrets: they are wiped when freed, and no message quotes one. Source: AWS SDKs and Tools Reference
 * Guide, "Shared config and credentials files". */
#ifndef CLEAT_STORAGE_AWS_PROFILE_H
#define CLEAT_STORAGE_AWS_PROFILE_H

#include "base/error.h"

#include <stdbool.h>

#define CLEAT__S3_PROFILE_FILE_MAX (1u << 20)
#define CLEAT__S3_PROFILE_LINE_MAX 16384 /* above the longest session token */
#define CLEAT__S3_PROFILE_KEYS_MAX 256

/* Which file, for where it lies and how its sections are named. */
enum cleat__s3_profile_kind {
  CLEAT__S3_PROFILE_CREDENTIALS = 0, /* AWS_SHARED_CREDENTIALS_FILE, ~/.aws/credentials; [name] */
  CLEAT__S3_PROFILE_CONFIG = 1,      /* AWS_CONFIG_FILE, ~/.aws/config; [default], [profile name] */
  CLEAT__S3_PROFILE_SERVICES = 2     /* the config file; [services name] */
};

struct cleat__s3_profile {
  char **keys;   /* lowercase */
  char **values; /* trimmed */
  size_t count;
  bool found; /* the section stands in the file */
};
#define CLEAT__S3_PROFILE_INIT \
  { NULL, NULL, 0, false }

/* The file's path by the environment, owned; NULL with CLEAT_OK when there is no home folder. NO_MEMORY. */
cleat_status cleat__s3_profile_path(enum cleat__s3_profile_kind kind, char **path,
                                    struct cleat_error *err);

/* Reads section `name` of `text` into *profile (cleat__s3_profile_clear). `path` is for messages. A section that is
 * absent is a success with found false. Errors: INVALID (malformed, too long), NO_MEMORY. */
cleat_status cleat__s3_profile_parse(const char *text, size_t size, const char *path,
                                     enum cleat__s3_profile_kind kind, const char *name,
                                     struct cleat__s3_profile *profile, struct cleat_error *err);

/* Reads the file and parses it. A file that is absent is a success with found false, and
 * *exists (when not NULL) false. Also IO, DENIED. */
cleat_status cleat__s3_profile_load(const char *path, enum cleat__s3_profile_kind kind,
                                    const char *name, struct cleat__s3_profile *profile,
                                    bool *exists, struct cleat_error *err);

/* The value of a lowercase key, or NULL; owned by the profile. */
const char *cleat__s3_profile_get(const struct cleat__s3_profile *profile, const char *key);

/* Wipes and frees. */
void cleat__s3_profile_clear(struct cleat__s3_profile *profile);

#endif
