/* s3/tags.c: converts object tags from the text of the user to the x-amz-tagging header. See
 * s3/options.h. Pure; scratch memory is freed before it returns.
 *
 * Source of the limits: Amazon S3 User Guide, "Categorizing your storage using tags". */
#include "storage/s3/options.h"

#include "base/mem.h"
#include "base/utf8.h"

#include <string.h>
#include <strings.h>

#define TAGS_MAX 10
#define KEY_CHARACTERS_MAX 128
#define VALUE_CHARACTERS_MAX 256
/* 10 tags of 384 characters of 4 bytes as %XX, with their '=' and '&' */
#define HEADER_BYTES_MAX 65536

/* Returns the number of characters of a valid text. 0 if it is empty or S3 refuses it. */
static size_t count_characters(const char *text) {
  const char *end = text + strlen(text);
  size_t count = 0;
  while (text < end) {
    uint32_t code = 0;
    size_t length = cleat__utf8_next(text, end, &code);
    bool plain = (code >= 'a' && code <= 'z') || (code >= 'A' && code <= 'Z') || (code >= '0' && code <= '9');
    if (length == 0 || cleat__utf8_is_control(code) || (code < 0x80 && !plain && !strchr(" +-=._:/@", (int)code)))
      return 0;
    text += length;
    count++;
  }
  return count;
}

/* Returns what is wrong with tag number `index`, or NULL. */
static const char *tag_fault(const struct cleat__s3_pair *tags, size_t index) {
  const struct cleat__s3_pair *tag = &tags[index];
  size_t key = count_characters(tag->name);
  size_t value = count_characters(tag->value);
  if (key == 0 || (value == 0 && tag->value[0] != '\0'))
    return "a key or value is empty, or has characters other than letters, digits, blanks and "
           "+ - = . _ : / @";
  if (key > KEY_CHARACTERS_MAX || value > VALUE_CHARACTERS_MAX)
    return "a key has up to 128 characters, a value up to 256";
  if (strncasecmp(tag->name, "aws:", 4) == 0)
    return "keys that begin with aws: are reserved by AWS";
  for (size_t i = 0; i < index; i++)
    if (strcmp(tags[i].name, tag->name) == 0)
      return "a key appears twice";
  return NULL;
}

/* Splits "key=value" in place. */
static const char *read_tag(char *text, struct cleat__s3_pair *tag) {
  char *equal = strchr(text, '=');
  if (!equal)
    return "a tag must be key=value";
  *equal = '\0';
  *tag = (struct cleat__s3_pair){text, equal + 1};
  return cleat__s3_decode(text, false) && cleat__s3_decode(equal + 1, false) ? NULL : "it has an invalid %-escape";
}

/* Splits the text in place. Returns what is wrong with it, or NULL. */
static const char *read_tags(char *text, struct cleat__s3_pair tags[TAGS_MAX], size_t *count) {
  for (char *at = text; at;) {
    char *next = strchr(at, '&');
    if (next)
      *next++ = '\0';
    if (*count == TAGS_MAX)
      return "there are more than 10 tags";
    const char *fault = read_tag(at, &tags[*count]);
    if (!fault)
      fault = tag_fault(tags, *count);
    if (fault)
      return fault;
    (*count)++;
    at = next;
  }
  return NULL;
}

static cleat_status write_tags(const struct cleat__s3_pair *tags, size_t count, char **header) {
  struct cleat__buffer text;
  cleat__buffer_init(&text, HEADER_BYTES_MAX);
  cleat_status status = cleat__s3_encode_query(&text, tags, count);
  if (!status) {
    *header = cleat__buffer_take(&text);
    status = *header ? CLEAT_OK : CLEAT_NO_MEMORY;
  }
  cleat__buffer_clear(&text);
  return status;
}

cleat_status cleat__s3_tags_encode(const struct cleat__s3_choice *choice, char **header, struct cleat_error *err) {
  struct cleat__s3_pair tags[TAGS_MAX];
  size_t count = 0;
  char *text = cleat__strdup(choice->value);
  if (!text)
    return cleat__error_no_memory(err, "the tags");
  const char *fault = read_tags(text, tags, &count);
  cleat_status status = CLEAT_OK;
  if (fault) {
    (void)cleat__error_set(err, CLEAT_INVALID, "tags '%.100s' (from %s): %s", choice->value, choice->source, fault);
    cleat__error_hint(err, "tags are key=value&key=value, with other characters as %%XX; in a URL "
                           "'&' is %%26 and the '%%' of an escape %%25");
    status = err->status;
  } else if (write_tags(tags, count, header) != CLEAT_OK) {
    status = cleat__error_no_memory(err, "the tags");
  }
  cleat__free(text);
  return status;
}
