/* document_kit.h: what tests of a JSON document do to a sound one: change it, cut it, damage it. For test_record.c and
 * test_manifest.c, each of which has its own. test_safetensors.c uses what it says of encoders. */
#ifndef CLEAT_TESTS_UNIT_UPLOADER_MODEL_DOCUMENT_KIT_H
#define CLEAT_TESTS_UNIT_UPLOADER_MODEL_DOCUMENT_KIT_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/mem.h"
#include "tests/mock/each_fault.h"

#include <check.h>
#include <string.h>

static struct cleat_error err;

/* A number of the document that was parsed last. A reader that fails leaves it as it was before: UNREAD. */
static int64_t number;
#define UNREAD 12345

/* A sound document. Its writer and its reader leave what they say in `err`, and its reader sets `number`. */
struct document {
  const char *text;
  int64_t number; /* that it holds */
  cleat_status (*encode)(struct cleat__buffer *out);
  cleat_status (*parse)(const char *json, size_t size);
};

struct change {
  const char *from;
  const char *to;
  const char *says;
};

/* It is written as this text. */
static inline void document_written(const struct document *sound) {
  struct cleat__buffer out;
  cleat__buffer_init(&out, 10000);
  ck_assert_int_eq(sound->encode(&out), CLEAT_OK);
  ck_assert_str_eq(out.data, sound->text);
  cleat__buffer_clear(&out);
}

/* The text with the first `from` replaced by `to`. */
static inline char *document_altered(const struct document *sound, const char *from, const char *to) {
  const char *at = strstr(sound->text, from);
  ck_assert_msg(at != NULL, "%s is not there", from);
  return cleat__strprintf("%.*s%s%s", (int)(at - sound->text), sound->text, to, at + strlen(from));
}

/* Each change alone is refused with this status and what the change says. */
static inline void document_refused(const struct document *sound, const struct change *changes, size_t count,
                                    cleat_status status) {
  for (size_t i = 0; i < count; i++) {
    char *json = document_altered(sound, changes[i].from, changes[i].to);
    cleat_status got = sound->parse(json, strlen(json));
    ck_assert_msg(got == status, "%d for %s: %s", (int)got, changes[i].to, err.message);
    ck_assert_msg(strstr(err.message, changes[i].says) != NULL, "%s lacks %s", err.message, changes[i].says);
    cleat__free(json);
  }
}
#define DOCUMENT_REFUSED(sound, changes, status) \
  document_refused(sound, changes, sizeof(changes) / sizeof(changes)[0], status)

/* Every beginning of the text is refused, and the whole is not. */
static inline void document_truncated(const struct document *sound) {
  size_t whole = strlen(sound->text);
  for (size_t size = 0; size < whole; size++) {
    /* In new memory, so that a sanitizer sees a read behind the end. */
    char *copy = cleat__alloc(size);
    memcpy(copy, sound->text, size);
    ck_assert_int_eq(sound->parse(copy, size), CLEAT_FORMAT);
    cleat__free(copy);
  }
  ck_assert_int_eq(sound->parse(sound->text, whole), CLEAT_OK);
}

/* A byte altered anywhere gives a clean answer, whatever it is. */
static inline void document_damaged(const struct document *sound) {
  static const char bytes[] = {'"', '\\', '0', '9', ',', '{', ']', '\0', '\xFF'};
  size_t whole = strlen(sound->text);
  char *copy = cleat__strdup(sound->text);
  for (size_t at = 0; at < whole; at++)
    for (size_t i = 0; i < sizeof bytes; i++) {
      char kept = copy[at];
      copy[at] = bytes[i];
      cleat_status status = sound->parse(copy, whole);
      ck_assert(status == CLEAT_OK || status == CLEAT_FORMAT || status == CLEAT_NEWER || status == CLEAT_LIMIT);
      copy[at] = kept;
    }
  cleat__free(copy);
}

/* Memory runs out at each of more than `least` allocations. What is encoded then is nothing. */
static inline void encode_without_memory(cleat_status (*encode)(struct cleat__buffer *out), bool persistent,
                                         unsigned long least) {
  struct each_fault fault = {.persistent = persistent};
  while (each_fault_next(&fault)) {
    struct cleat__buffer out;
    cleat__buffer_init(&out, 1 << 20);
    cleat_status status = encode(&out);
    bool failed = each_fault_over(&fault);
    ck_assert_int_eq(status, failed ? CLEAT_NO_MEMORY : CLEAT_OK);
    if (failed)
      ck_assert_uint_eq(out.length, 0);
    cleat__buffer_clear(&out);
  }
  ck_assert_uint_gt(fault.n, least);
}

static inline void document_without_memory(const struct document *sound, const char *json, bool persistent,
                                           unsigned long least) {
  struct each_fault fault = {.persistent = persistent};
  while (each_fault_next(&fault)) {
    cleat_status status = sound->parse(json, strlen(json));
    bool failed = each_fault_over(&fault);
    ck_assert_int_eq(status, failed ? CLEAT_NO_MEMORY : CLEAT_OK);
    ck_assert_int_eq(number, failed ? UNREAD : sound->number);
  }
  ck_assert_uint_gt(fault.n, least);
}

#endif
