/* aws/profile.c: reads sections of the shared AWS files. See aws/profile.h. Parsing is pure. Only
 * cleat__s3_profile_load reads a file, and only cleat__s3_profile_path reads the environment. Memory with file
 * contents is wiped before it is freed. */
#include "storage/aws/profile.h"

#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME_MAX_BYTES 256 /* longest name of a section or key */

/* A piece of the text being parsed; not NUL-terminated. */
struct slice {
  const char *text;
  size_t length;
};

struct parser {
  const char *path;
  const char *wanted_kind; /* "profile", "services", or "" for bare names */
  const char *wanted_name;
  struct cleat__s3_profile *profile;
  bool inside;     /* the current section is the wanted one */
  size_t indent;   /* indentation of the last key at the top level of the section */
  bool has_parent; /* that key has no value: lines with more indentation are nested in it */
  char parent[NAME_MAX_BYTES + 1];
  unsigned line;
};

static bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}

/* Not tolower(), because it depends on the locale. */
static char lower(char c) {
  return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static struct slice trim(struct slice slice) {
  while (slice.length > 0 && is_blank(slice.text[0])) {
    slice.text++;
    slice.length--;
  }
  while (slice.length > 0 && is_blank(slice.text[slice.length - 1]))
    slice.length--;
  return slice;
}

/* Removes a comment that follows a blank ("value # comment"). Keys of AWS contain no blanks. */
static struct slice without_comment(struct slice slice) {
  for (size_t i = 1; i < slice.length; i++) {
    if ((slice.text[i] == '#' || slice.text[i] == ';') && is_blank(slice.text[i - 1])) {
      slice.length = i;
      break;
    }
  }
  return trim(slice);
}

static bool equals(struct slice slice, const char *text) {
  return strlen(text) == slice.length && memcmp(slice.text, text, slice.length) == 0;
}

static cleat_status malformed(const struct parser *parser, const char *why, struct cleat_error *err) {
  (void)cleat__error_set(err, CLEAT_INVALID, "%s, line %u: %s", parser->path, parser->line, why);
  cleat__error_hint(err, "a section is [name], a setting is name = value");
  return err->status;
}

/* Whether "[...]" names the wanted section: name, or kind and name, or kind and "name". */
static bool section_matches(const struct parser *parser, struct slice name) {
  if (parser->wanted_kind[0] == '\0')
    return equals(name, parser->wanted_name);
  /* The config file calls its default profile [default]. AWS also accepts [profile default]. */
  if (strcmp(parser->wanted_kind, "profile") == 0 && equals(name, "default"))
    return strcmp(parser->wanted_name, "default") == 0;
  size_t kind = strlen(parser->wanted_kind);
  if (name.length <= kind || memcmp(name.text, parser->wanted_kind, kind) != 0 || !is_blank(name.text[kind]))
    return false;
  struct slice rest = trim((struct slice){name.text + kind, name.length - kind});
  if (rest.length >= 2 && (rest.text[0] == '"' || rest.text[0] == '\'') && rest.text[rest.length - 1] == rest.text[0])
    rest = (struct slice){rest.text + 1, rest.length - 2};
  return equals(rest, parser->wanted_name);
}

static cleat_status read_section(struct parser *parser, struct slice line, struct cleat_error *err) {
  const char *end = memchr(line.text, ']', line.length);
  if (!end)
    return malformed(parser, "a section without ']'", err);
  size_t used = (size_t)(end - line.text) + 1;
  struct slice rest = trim((struct slice){line.text + used, line.length - used});
  if (rest.length > 0 && rest.text[0] != '#' && rest.text[0] != ';')
    return malformed(parser, "text after a section", err);
  parser->inside = section_matches(parser, trim((struct slice){line.text + 1, used - 2}));
  parser->profile->found = parser->profile->found || parser->inside;
  parser->has_parent = false;
  parser->indent = SIZE_MAX;
  return CLEAT_OK;
}

static void wipe(char *text) {
  if (text)
    explicit_bzero(text, strlen(text));
  cleat__free(text);
}

/* Finds the entry of a key, or makes a new one at the end. */
static cleat_status find_place(struct parser *parser, const char *key, size_t *place, struct cleat_error *err) {
  struct cleat__s3_profile *profile = parser->profile;
  for (*place = 0; *place < profile->count; (*place)++) {
    if (strcmp(profile->keys[*place], key) == 0)
      return CLEAT_OK;
  }
  if (profile->count == CLEAT__S3_PROFILE_KEYS_MAX)
    return malformed(parser, "too many settings in one section", err);
  profile->keys[profile->count] = cleat__strdup(key);
  if (!profile->keys[profile->count])
    return cleat__error_no_memory(err, parser->path);
  profile->values[profile->count++] = NULL;
  return CLEAT_OK;
}

static cleat_status set_value(struct parser *parser, const char *key, struct slice value, struct cleat_error *err) {
  char *copy = cleat__strndup(value.text, value.length);
  if (!copy)
    return cleat__error_no_memory(err, parser->path);
  size_t place = 0;
  cleat_status status = find_place(parser, key, &place, err);
  if (status) {
    wipe(copy);
    return status;
  }
  wipe(parser->profile->values[place]);
  parser->profile->values[place] = copy;
  return CLEAT_OK;
}

/* Reads a "name = value" of the wanted section. If it is indented below a name without value, it is nested in that. */
static cleat_status read_setting(struct parser *parser, struct slice line, size_t indent, struct cleat_error *err) {
  const char *equal = memchr(line.text, '=', line.length);
  if (!equal || equal == line.text)
    return malformed(parser, "a line that is neither a section nor a setting", err);
  size_t left = (size_t)(equal - line.text);
  struct slice name = trim((struct slice){line.text, left});
  struct slice value = without_comment((struct slice){line.text + left + 1, line.length - left - 1});
  bool nested = indent > parser->indent;
  if (nested && !parser->has_parent)
    return malformed(parser, "an indented line below a setting that has a value", err);
  char key[2 * NAME_MAX_BYTES + 2] = "";
  size_t used = 0;
  if (name.length > NAME_MAX_BYTES)
    return malformed(parser, "the name of a setting is too long", err);
  if (nested) {
    used = strlen(parser->parent);
    memcpy(key, parser->parent, used);
    key[used++] = '.';
  }
  for (size_t i = 0; i < name.length; i++)
    key[used + i] = lower(name.text[i]);
  if (!nested) {
    parser->indent = indent;
    parser->has_parent = value.length == 0;
    memcpy(parser->parent, key, name.length + 1);
  }
  return set_value(parser, key, value, err);
}

static cleat_status read_line(struct parser *parser, struct slice line, struct cleat_error *err) {
  if (line.length > CLEAT__S3_PROFILE_LINE_MAX)
    return malformed(parser, "the line is too long", err);
  if (memchr(line.text, '\0', line.length))
    return malformed(parser, "a NUL byte", err);
  struct slice trimmed = trim(line);
  if (trimmed.length == 0 || trimmed.text[0] == '#' || trimmed.text[0] == ';')
    return CLEAT_OK;
  if (trimmed.text[0] == '[')
    return read_section(parser, trimmed, err);
  /* Other sections are not checked: they belong to other programs. */
  if (!parser->inside)
    return CLEAT_OK;
  return read_setting(parser, trimmed, (size_t)(trimmed.text - line.text), err);
}

static cleat_status read_lines(struct parser *parser, struct slice text, struct cleat_error *err) {
  /* byte order mark that editors on Windows write */
  static const char mark[3] = {'\xef', '\xbb', '\xbf'};
  if (text.length >= sizeof mark && memcmp(text.text, mark, sizeof mark) == 0)
    text = (struct slice){text.text + sizeof mark, text.length - sizeof mark};
  while (text.length > 0) {
    const char *end = memchr(text.text, '\n', text.length);
    size_t length = end ? (size_t)(end - text.text) : text.length;
    parser->line++;
    cleat_status status = read_line(parser, (struct slice){text.text, length}, err);
    if (status)
      return status;
    size_t used = end ? length + 1 : length;
    text = (struct slice){text.text + used, text.length - used};
  }
  return CLEAT_OK;
}

cleat_status cleat__s3_profile_parse(const char *text, size_t size, const char *path, enum cleat__s3_profile_kind kind,
                                     const char *name, struct cleat__s3_profile *profile, struct cleat_error *err) {
  static const char *const kinds[] = {"", "profile", "services"};
  if (size > CLEAT__S3_PROFILE_FILE_MAX)
    return cleat__error_set(err, CLEAT_INVALID, "%s is over %u bytes, which is too large for an AWS file", path,
                            CLEAT__S3_PROFILE_FILE_MAX);
  struct cleat__s3_profile made = CLEAT__S3_PROFILE_INIT;
  made.keys = cleat__calloc(CLEAT__S3_PROFILE_KEYS_MAX, sizeof *made.keys);
  made.values = cleat__calloc(CLEAT__S3_PROFILE_KEYS_MAX, sizeof *made.values);
  struct parser parser = {
      .path = path, .wanted_kind = kinds[kind], .wanted_name = name, .profile = &made, .indent = SIZE_MAX};
  cleat_status status = made.keys && made.values ? read_lines(&parser, (struct slice){text, size}, err)
                                                 : cleat__error_no_memory(err, path);
  if (status)
    cleat__s3_profile_clear(&made);
  else
    *profile = made;
  return status;
}

const char *cleat__s3_profile_get(const struct cleat__s3_profile *profile, const char *key) {
  for (size_t i = 0; i < profile->count; i++) {
    if (strcmp(profile->keys[i], key) == 0)
      return profile->values[i];
  }
  return NULL;
}

void cleat__s3_profile_clear(struct cleat__s3_profile *profile) {
  for (size_t i = 0; i < profile->count; i++) {
    cleat__free(profile->keys[i]);
    wipe(profile->values[i]);
  }
  cleat__free(profile->keys);
  cleat__free(profile->values);
  *profile = (struct cleat__s3_profile)CLEAT__S3_PROFILE_INIT;
}

static const char *environment(const char *name) {
  const char *value = getenv(name);
  return value && value[0] != '\0' ? value : NULL;
}

cleat_status cleat__s3_profile_path(enum cleat__s3_profile_kind kind, char **path, struct cleat_error *err) {
  bool credentials = kind == CLEAT__S3_PROFILE_CREDENTIALS;
  const char *given = environment(credentials ? "AWS_SHARED_CREDENTIALS_FILE" : "AWS_CONFIG_FILE");
  const char *home = environment("HOME");
  char *made = NULL;
  if (given && strncmp(given, "~/", 2) == 0 && home)
    made = cleat__strprintf("%s%s", home, given + 1);
  else if (given)
    made = cleat__strdup(given);
  else if (home)
    made = cleat__strprintf("%s/.aws/%s", home, credentials ? "credentials" : "config");
  if (!made && (given || home))
    return cleat__error_no_memory(err, "the path of an AWS file");
  *path = made;
  return CLEAT_OK;
}

/* Reads at most `size` bytes. *got is the number. */
static cleat_status read_all(int fd, const char *path, char *bytes, size_t size, size_t *got, struct cleat_error *err) {
  size_t used = 0;
  while (used < size) {
    ssize_t part = read(fd, bytes + used, size - used);
    if (part < 0 && errno == EINTR)
      continue;
    if (part < 0)
      return cleat__error_errno(err, errno, "read %s", path);
    if (part == 0)
      break;
    used += (size_t)part;
  }
  *got = used;
  return CLEAT_OK;
}

cleat_status cleat__s3_profile_load(const char *path, enum cleat__s3_profile_kind kind, const char *name,
                                    struct cleat__s3_profile *profile, bool *exists, struct cleat_error *err) {
  /* O_NONBLOCK: a pipe without a writer must not block the open. */
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0 && (errno == ENOENT || errno == ENOTDIR)) {
    if (exists)
      *exists = false;
    *profile = (struct cleat__s3_profile)CLEAT__S3_PROFILE_INIT;
    return CLEAT_OK;
  }
  if (fd < 0)
    return cleat__error_errno(err, errno, "open %s", path);
  /* One byte more than the limit, so that the parser detects a larger file. */
  size_t room = CLEAT__S3_PROFILE_FILE_MAX + 1;
  size_t size = 0;
  char *text = cleat__alloc(room);
  cleat_status status = text ? read_all(fd, path, text, room, &size, err) : cleat__error_no_memory(err, path);
  if (!status)
    status = cleat__s3_profile_parse(text, size, path, kind, name, profile, err);
  if (!status && exists)
    *exists = true;
  if (text)
    explicit_bzero(text, room);
  cleat__free(text);
  close(fd);
  return status;
}
