/* s3/options.c: checks the options of a bucket at open, and turns them into headers. See s3/options.h. Reads the
 * file of an SSE-C key once, in cleat__s3_options_init. Temporary copies of the key are wiped. */
#include "storage/s3/options.h"

#include "base/checksum.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define KMS_KEY_ID_MAX 2048
#define ACCOUNT_DIGITS 12
/* 32 bytes as base64, a line end, and one more byte to detect a longer file. */
#define KEY_FILE_MAX 64

/* ---- The table: which header goes with which operations ---- */

#define MAKES (CLEAT__S3_PUT | CLEAT__S3_CREATE)
/* Operations in which S3 encrypts or decrypts, or checks an encrypted part. */
#define NEEDS_KEY                                                                                            \
  (CLEAT__S3_PUT | CLEAT__S3_GET | CLEAT__S3_HEAD | CLEAT__S3_CREATE | CLEAT__S3_PART | CLEAT__S3_COMPLETE | \
   CLEAT__S3_LIST_PARTS)
#define EVERY                                                                                              \
  (CLEAT__S3_PUT | CLEAT__S3_GET | CLEAT__S3_HEAD | CLEAT__S3_LIST | CLEAT__S3_DELETE | CLEAT__S3_CREATE | \
   CLEAT__S3_PART | CLEAT__S3_COMPLETE | CLEAT__S3_ABORT | CLEAT__S3_LIST_PARTS | CLEAT__S3_LIST_UPLOADS)

/* Source: Amazon S3 API reference, the request syntax of each operation. */
static const struct {
  const char *name;
  unsigned operations;
} HEADERS[CLEAT__S3_OPTION_HEADERS] = {
    [CLEAT__S3_SSE] = {"x-amz-server-side-encryption", MAKES},
    [CLEAT__S3_SSE_KMS_KEY_ID] = {"x-amz-server-side-encryption-aws-kms-key-id", MAKES},
    [CLEAT__S3_SSE_BUCKET_KEY] = {"x-amz-server-side-encryption-bucket-key-enabled", MAKES},
    [CLEAT__S3_SSE_C_ALGORITHM] = {"x-amz-server-side-encryption-customer-algorithm", NEEDS_KEY},
    [CLEAT__S3_SSE_C_KEY] = {"x-amz-server-side-encryption-customer-key", NEEDS_KEY},
    [CLEAT__S3_SSE_C_KEY_MD5] = {"x-amz-server-side-encryption-customer-key-md5", NEEDS_KEY},
    [CLEAT__S3_STORAGE_CLASS] = {"x-amz-storage-class", MAKES},
    [CLEAT__S3_TAGGING] = {"x-amz-tagging", MAKES},
    [CLEAT__S3_REQUEST_PAYER] = {"x-amz-request-payer", EVERY},
    [CLEAT__S3_BUCKET_OWNER] = {"x-amz-expected-bucket-owner", EVERY},
};

size_t cleat__s3_options_headers(const struct cleat__s3_options *options, enum cleat__s3_operation operation,
                                 struct cleat__s3_pair *headers) {
  size_t count = 0;
  for (size_t i = 0; i < CLEAT__S3_OPTION_HEADERS; i++)
    if (options->values[i] != NULL && (HEADERS[i].operations & (unsigned)operation) != 0)
      headers[count++] = (struct cleat__s3_pair){HEADERS[i].name, options->values[i]};
  return count;
}

/* ---- A store that lacks one ---- */

/* Lists the options for new objects that a store may lack, in the words of the user. False: none is set. */
static bool list_asked(const struct cleat__s3_options *options, char *text, size_t size) {
  static const struct {
    enum cleat__s3_option_header header;
    const char *said; /* text before the value */
    bool secret;
  } names[] = {{CLEAT__S3_SSE, "sse=", false},
               {CLEAT__S3_SSE_C_ALGORITHM, "the key of SSE-C", true},
               {CLEAT__S3_STORAGE_CLASS, "storage_class=", false},
               {CLEAT__S3_TAGGING, "tags=", false}};
  size_t used = 0;
  text[0] = '\0';
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    const char *value = options->values[names[i].header];
    if (value == NULL || used >= size)
      continue;
    used += (size_t)snprintf(text + used, size - used, "%s%s%.40s", used > 0 ? " or " : "", names[i].said,
                             names[i].secret ? "" : value);
  }
  return used > 0;
}

enum { ASKED_MAX = 160 };

/* The codes with which stores refuse unsupported options. Ceph uses InvalidRequest for sse and InvalidArgument for
 * storage_class. */
static bool may_be_an_option(const char *code) {
  static const char *const codes[] = {"InvalidRequest", "InvalidArgument", "NotImplemented", "InvalidStorageClass",
                                      "InvalidEncryptionAlgorithmError"};
  for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
    if (strcmp(code, codes[i]) == 0)
      return true;
  return false;
}

bool cleat__s3_options_refused(const struct cleat__s3_options *options, enum cleat__s3_operation operation,
                               const char *code) {
  char asked[ASKED_MAX];
  return ((unsigned)operation & MAKES) != 0 && code != NULL && may_be_an_option(code) &&
         list_asked(options, asked, sizeof asked);
}

void cleat__s3_options_blame(const struct cleat__s3_options *options, enum cleat__s3_operation operation,
                             struct cleat_error *err) {
  char asked[ASKED_MAX];
  if (err->hint[0] == '\0' && cleat__s3_options_refused(options, operation, err->s3_code) &&
      list_asked(options, asked, sizeof asked))
    cleat__error_hint(err, "the store seems to refuse %s: leave it out, or save to another store", asked);
}

/* ---- Values ---- */

static cleat_status keep(struct cleat__s3_options *options, enum cleat__s3_option_header header, const char *value,
                         struct cleat_error *err) {
  options->values[header] = cleat__strdup(value);
  return options->values[header] ? CLEAT_OK : cleat__error_no_memory(err, "the options of the bucket");
}

/* Keeps a value that is one of `allowed` (ends with NULL). Does nothing if no value is set. */
static cleat_status keep_one_of(struct cleat__s3_options *options, enum cleat__s3_option_header header,
                                const char *name, const struct cleat__s3_choice *choice, const char *const *allowed,
                                struct cleat_error *err) {
  char list[160] = "";
  size_t length = 0;
  if (!choice->value)
    return CLEAT_OK;
  for (const char *const *at = allowed; *at; at++) {
    if (strcmp(choice->value, *at) == 0)
      return keep(options, header, choice->value, err);
    length += (size_t)snprintf(list + length, sizeof list - length, "%s%s", length ? ", " : "", *at);
  }
  return cleat__error_set(err, CLEAT_INVALID, "%s '%.100s' (from %s) is not one of %s", name, choice->value,
                          choice->source, list);
}

static bool has_only_graph(const char *text) {
  for (; *text != '\0'; text++)
    if (*text <= ' ' || *text > '~')
      return false;
  return true;
}

/* ---- SSE-S3 and SSE-KMS ---- */

static cleat_status init_kms(struct cleat__s3_options *options, const struct cleat__s3_wishes *wishes,
                             struct cleat_error *err) {
  static const char *const switches[] = {"true", "false", NULL};
  const struct cleat__s3_choice *id = &wishes->kms_key_id;
  const char *sse = options->values[CLEAT__S3_SSE];
  bool kms = sse && strncmp(sse, "aws:kms", 7) == 0;
  if (id->value && !kms)
    return cleat__error_set(err, CLEAT_INVALID, "sse_kms_key_id (from %s) needs sse aws:kms or aws:kms:dsse",
                            id->source);
  if (id->value && (!has_only_graph(id->value) || strlen(id->value) > KMS_KEY_ID_MAX))
    return cleat__error_set(err, CLEAT_INVALID,
                            "sse_kms_key_id (from %s) is not a key's id, ARN or alias: it is over "
                            "%d bytes, or has blanks or non-ASCII characters",
                            id->source, KMS_KEY_ID_MAX);
  if (wishes->bucket_key.value && (!sse || strcmp(sse, "aws:kms") != 0))
    return cleat__error_set(err, CLEAT_INVALID, "sse_bucket_key (from %s) needs sse aws:kms",
                            wishes->bucket_key.source);
  cleat_status status = CLEAT_OK;
  if (id->value)
    status = keep(options, CLEAT__S3_SSE_KMS_KEY_ID, id->value, err);
  return status ? status
                : keep_one_of(options, CLEAT__S3_SSE_BUCKET_KEY, "sse_bucket_key", &wishes->bucket_key, switches, err);
}

static cleat_status init_sse(struct cleat__s3_options *options, const struct cleat__s3_wishes *wishes,
                             struct cleat_error *err) {
  static const char *const allowed[] = {"AES256", "aws:kms", "aws:kms:dsse", NULL};
  cleat_status status = keep_one_of(options, CLEAT__S3_SSE, "sse", &wishes->sse, allowed, err);
  return status ? status : init_kms(options, wishes, err);
}

/* ---- SSE-C ---- */

static cleat_status bad_key(const char *source, struct cleat_error *err) {
  (void)cleat__error_set(err, CLEAT_INVALID, "the SSE-C key (from %s) is not 32 bytes", source);
  cleat__error_hint(err, "make one with: openssl rand -base64 32");
  return err->status;
}

/* Decodes base64 with optional white space after it. */
static cleat_status decode_key(char *text, const char *source, uint8_t key[CLEAT__S3_SSE_C_KEY_BYTES],
                               struct cleat_error *err) {
  size_t length = strlen(text);
  while (length > 0 && strchr(" \t\r\n", text[length - 1]))
    text[--length] = '\0';
  return cleat__unbase64(text, CLEAT__S3_SSE_C_KEY_BYTES, key) ? CLEAT_OK : bad_key(source, err);
}

/* INVALID, as for all wrong settings: NOT_FOUND would mean that there is no checkpoint. */
static cleat_status unreadable(const struct cleat__s3_choice *file, int code, struct cleat_error *err) {
  (void)cleat__error_errno(err, code, "SSE-C key file %s (from %s)", file->value, file->source);
  err->status = CLEAT_INVALID;
  return CLEAT_INVALID;
}

/* Reads at most KEY_FILE_MAX bytes of a regular file. Other kinds of files could block or have no end. */
static cleat_status read_key_file(const struct cleat__s3_choice *file, char text[KEY_FILE_MAX + 1], size_t *size,
                                  struct cleat_error *err) {
  struct stat about;
  cleat_status status = CLEAT_OK;
  int fd = open(file->value, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0 || fstat(fd, &about) != 0) {
    status = unreadable(file, errno, err);
    goto done;
  }
  if (!S_ISREG(about.st_mode)) {
    status = cleat__error_set(err, CLEAT_INVALID, "SSE-C key file %s (from %s) is not a regular file", file->value,
                              file->source);
    goto done;
  }
  ssize_t got = read(fd, text, KEY_FILE_MAX);
  if (got < 0) {
    status = unreadable(file, errno, err);
    goto done;
  }
  text[got] = '\0';
  *size = (size_t)got;

done:
  if (fd >= 0)
    close(fd);
  return status;
}

static cleat_status key_from_file(const struct cleat__s3_choice *file, uint8_t key[CLEAT__S3_SSE_C_KEY_BYTES],
                                  struct cleat_error *err) {
  char text[KEY_FILE_MAX + 1];
  size_t size = 0;
  cleat_status status = read_key_file(file, text, &size, err);
  if (!status && size == CLEAT__S3_SSE_C_KEY_BYTES)
    memcpy(key, text, CLEAT__S3_SSE_C_KEY_BYTES);
  else if (!status)
    status = decode_key(text, file->value, key, err);
  explicit_bzero(text, sizeof text);
  return status;
}

static cleat_status key_from_text(const struct cleat__s3_choice *choice, uint8_t key[CLEAT__S3_SSE_C_KEY_BYTES],
                                  struct cleat_error *err) {
  char text[KEY_FILE_MAX + 1];
  snprintf(text, sizeof text, "%s", choice->value);
  cleat_status status = decode_key(text, choice->source, key, err);
  explicit_bzero(text, sizeof text);
  return status;
}

static cleat_status keep_key(struct cleat__s3_options *options, const uint8_t key[CLEAT__S3_SSE_C_KEY_BYTES],
                             struct cleat_error *err) {
  uint8_t md5[CLEAT__MD5_BYTES];
  char text[45], digest[25];
  cleat_status status = cleat__md5(key, CLEAT__S3_SSE_C_KEY_BYTES, md5);
  if (status)
    return cleat__error_set(err, status, "MD5 of the SSE-C key: %s", cleat_status_text(status));
  cleat__base64(key, CLEAT__S3_SSE_C_KEY_BYTES, text);
  cleat__base64(md5, sizeof md5, digest);
  status = keep(options, CLEAT__S3_SSE_C_ALGORITHM, "AES256", err);
  if (!status)
    status = keep(options, CLEAT__S3_SSE_C_KEY, text, err);
  if (!status)
    status = keep(options, CLEAT__S3_SSE_C_KEY_MD5, digest, err);
  explicit_bzero(text, sizeof text);
  return status;
}

static cleat_status init_sse_c(struct cleat__s3_options *options, const struct cleat__s3_wishes *wishes,
                               struct cleat_error *err) {
  uint8_t key[CLEAT__S3_SSE_C_KEY_BYTES];
  cleat_status status = CLEAT_OK;
  if (!wishes->sse_c_key && !wishes->sse_c_key_text.value && !wishes->sse_c_key_file.value)
    return CLEAT_OK;
  if (wishes->sse.value)
    return cleat__error_set(err, CLEAT_INVALID, "sse '%s' (from %s) and an SSE-C key cannot be used together",
                            wishes->sse.value, wishes->sse.source);
  if (!wishes->confidential) {
    (void)cleat__error_set(err, CLEAT_INVALID, "an SSE-C key is not sent over plain HTTP");
    cleat__error_hint(err, "use an endpoint that begins with https://");
    return err->status;
  }
  if (wishes->sse_c_key)
    memcpy(key, wishes->sse_c_key, sizeof key);
  else if (wishes->sse_c_key_text.value)
    status = key_from_text(&wishes->sse_c_key_text, key, err);
  else
    status = key_from_file(&wishes->sse_c_key_file, key, err);
  if (!status)
    status = keep_key(options, key, err);
  explicit_bzero(key, sizeof key);
  return status;
}

/* ---- Class, tags, payer, owner, user agent ---- */

static cleat_status init_class(struct cleat__s3_options *options, const struct cleat__s3_choice *choice,
                               struct cleat_error *err) {
  static const char *const allowed[] = {"STANDARD",   "STANDARD_IA",        "ONEZONE_IA", "INTELLIGENT_TIERING",
                                        "GLACIER_IR", "REDUCED_REDUNDANCY", NULL};
  cleat_status status = keep_one_of(options, CLEAT__S3_STORAGE_CLASS, "storage_class", choice, allowed, err);
  /* The commit of a save reads back what it wrote, and so does every load. So classes without immediate reads are
   * refused. */
  if (status && choice->value && (strcmp(choice->value, "GLACIER") == 0 || strcmp(choice->value, "DEEP_ARCHIVE") == 0))
    cleat__error_hint(err, "archived objects cannot be read until they are restored; let a "
                           "lifecycle rule move old checkpoints there");
  return status;
}

static cleat_status init_owner(struct cleat__s3_options *options, const struct cleat__s3_choice *choice,
                               struct cleat_error *err) {
  if (!choice->value)
    return CLEAT_OK;
  if (strlen(choice->value) != ACCOUNT_DIGITS || strspn(choice->value, "0123456789") != ACCOUNT_DIGITS)
    return cleat__error_set(err, CLEAT_INVALID, "bucket_owner '%.100s' (from %s) is not an account's %d digits",
                            choice->value, choice->source, ACCOUNT_DIGITS);
  return keep(options, CLEAT__S3_BUCKET_OWNER, choice->value, err);
}

static cleat_status init_user_agent(struct cleat__s3_options *options, const struct cleat__s3_choice *choice,
                                    struct cleat_error *err) {
  const char *text = choice->value;
  if (!text)
    return CLEAT_OK;
  size_t length = strlen(text);
  bool good = length <= CLEAT__S3_USER_AGENT_MAX && text[0] != ' ' && text[length - 1] != ' ';
  for (size_t i = 0; i < length && good; i++)
    good = text[i] >= ' ' && text[i] <= '~';
  if (!good)
    return cleat__error_set(err, CLEAT_INVALID,
                            "user_agent (from %s) is not 1 to %d printable ASCII characters "
                            "without a blank at either end",
                            choice->source, CLEAT__S3_USER_AGENT_MAX);
  options->user_agent = cleat__strprintf("cleat/" CLEAT_VERSION " %s", text);
  return options->user_agent ? CLEAT_OK : cleat__error_no_memory(err, "the user agent");
}

cleat_status cleat__s3_options_init(struct cleat__s3_options *options, const struct cleat__s3_wishes *wishes,
                                    struct cleat_error *err) {
  static const char *const payers[] = {"requester", NULL};
  cleat_status status = init_sse(options, wishes, err);
  if (!status)
    status = init_sse_c(options, wishes, err);
  if (!status)
    status = init_class(options, &wishes->storage_class, err);
  if (!status && wishes->tags.value)
    status = cleat__s3_tags_encode(&wishes->tags, &options->values[CLEAT__S3_TAGGING], err);
  if (!status)
    status = keep_one_of(options, CLEAT__S3_REQUEST_PAYER, "request_payer", &wishes->request_payer, payers, err);
  if (!status)
    status = init_owner(options, &wishes->bucket_owner, err);
  return status ? status : init_user_agent(options, &wishes->user_agent, err);
}

void cleat__s3_options_clear(struct cleat__s3_options *options) {
  char *key = options->values[CLEAT__S3_SSE_C_KEY];
  if (key)
    explicit_bzero(key, strlen(key));
  for (size_t i = 0; i < CLEAT__S3_OPTION_HEADERS; i++)
    cleat__free(options->values[i]);
  cleat__free(options->user_agent);
  memset(options, 0, sizeof *options);
}
