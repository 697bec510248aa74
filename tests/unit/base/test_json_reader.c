/* test_json_reader.c: base/json_reader.c and base/json_writer.c: what is JSON and what is not,
 * where errors say they are, integers, and text that goes through unchanged. */
#include "base/json_reader.h"

#include "base/mem.h"
#include "tests/mock/run_suite.h"

#include <check.h>
#include <string.h>

static struct cleat_error err;

/* Reads one value to the end; fills `err`. */
static cleat_status pass(const char *text, size_t size, unsigned depth) {
  struct cleat__json_reader reader;
  cleat__error_clear(&err);
  cleat__json_reader_init(&reader, text, size, depth, "doc", &err);
  cleat__json_value(&reader, NULL);
  ck_assert(cleat__json_end(&reader) == (reader.status == CLEAT_OK));
  cleat__json_reader_clear(&reader);
  ck_assert_int_eq(reader.status, err.status);
  return reader.status;
}

START_TEST(test_valid) {
  static const char *const documents[] = {"0",
                                          "-0",
                                          "-12.5e+3",
                                          "1E9",
                                          "true",
                                          "false",
                                          "null",
                                          "\"\"",
                                          " [ ] ",
                                          "\t{\r\n}",
                                          "[1,[2,[3]],{\"a\":[]}]",
                                          "{\"a\":1,\"b\":{\"c\":[true,false,null]}}",
                                          "\"\\u00e9\\ud83d\\ude00\\\"\\\\\\/\\b\\f\\n\\r\\t\"",
                                          "\"gr\xC3\xBC\xC3\x9F\"",
                                          "\"\x7F\""};
  for (size_t i = 0; i < sizeof documents / sizeof documents[0]; i++)
    ck_assert_msg(pass(documents[i], strlen(documents[i]), 8) == CLEAT_OK, "%s: %s", documents[i], err.message);
}
END_TEST

START_TEST(test_invalid) {
  static const char *const documents[] = {"",
                                          " ",
                                          "01",
                                          "+1",
                                          "1.",
                                          ".5",
                                          "1e",
                                          "1e+",
                                          "-",
                                          "--1",
                                          "0x10",
                                          "1 2",
                                          "tru",
                                          "truex",
                                          "nul",
                                          "NaN",
                                          "Infinity",
                                          "[",
                                          "]",
                                          "[1",
                                          "[1,",
                                          "[1,]",
                                          "[,1]",
                                          "[1 2]",
                                          "[1}",
                                          "{",
                                          "}",
                                          "{\"a\"",
                                          "{\"a\":",
                                          "{\"a\":1",
                                          "{\"a\":1,",
                                          "{\"a\":1,}",
                                          "{a:1}",
                                          "{1:1}",
                                          "{\"a\" 1}",
                                          "{,}",
                                          "{\"a\":1]",
                                          "\"",
                                          "\"a",
                                          "\"\\\"",
                                          "\"\\x\"",
                                          "\"\\u12\"",
                                          "\"\n\"",
                                          "\"\x1f\"",
                                          "\"\\ud800\"",
                                          "\"\\udc00\"",
                                          "\"\\ud800\\u0041\"",
                                          "\"\\ud800\\\"",
                                          "\"\xFF\"",
                                          "\"\xC3\"",
                                          "'a'",
                                          "[1]x",
                                          "//\n1",
                                          "\xEF\xBB\xBF[]",
                                          "\"\\u\"",
                                          "\"\\"};
  for (size_t i = 0; i < sizeof documents / sizeof documents[0]; i++) {
    ck_assert_msg(pass(documents[i], strlen(documents[i]), 8) == CLEAT_FORMAT, "%s accepted", documents[i]);
    ck_assert_msg(strncmp(err.message, "doc: ", 5) == 0, "%s", err.message);
    for (const char *at = err.message; *at != '\0'; at++)
      ck_assert_int_ge((unsigned char)*at, 0x20);
  }
  ck_assert_int_eq(pass("[1\0]", 4, 8), CLEAT_FORMAT);
  ck_assert_int_eq(pass("\"a\0\"", 4, 8), CLEAT_FORMAT);
}
END_TEST

START_TEST(test_depth) {
  char text[400];
  memset(text, '[', 200);
  memset(text + 200, ']', 200);
  ck_assert_int_eq(pass(text + 200 - 64, 128, 64), CLEAT_OK);
  ck_assert_int_eq(pass(text + 200 - 65, 130, 64), CLEAT_FORMAT);
  ck_assert_ptr_nonnull(strstr(err.message, "nested deeper than 64 levels"));
  ck_assert_int_eq(pass("{\"a\":[1]}", 9, 2), CLEAT_OK);
  ck_assert_int_eq(pass("{\"a\":[1]}", 9, 1), CLEAT_FORMAT);
}
END_TEST

/* Every prefix of a document that ends in a bracket is none. */
START_TEST(test_truncated) {
  static const char text[] = "{\"a\\u00fc\":[1.5e-3,\"x\\ud83d\\ude00y\",{\"b\":[true,null]}],\"c\":-0}";
  ck_assert_int_eq(pass(text, sizeof text - 1, 8), CLEAT_OK);
  for (size_t size = 0; size < sizeof text - 1; size++) {
    /* In new memory, so that a sanitizer sees a read behind the end. */
    char *copy = cleat__strndup(text, size);
    ck_assert_int_eq(pass(copy, size, 8), CLEAT_FORMAT);
    cleat__free(copy);
  }
}
END_TEST

START_TEST(test_places) {
  static const char *const cases[][2] = {
      {"{\"a\":{\"b\":[1,{\"c\":x}]}}", "doc: a.b[1].c: a value expected at byte 18, found \"x\""},
      {"[1,2,", "doc: [2]: ends at byte 5, where a value is missing"},
      {"[1,2", "doc: [1]: ends at byte 4, where ',' or ']' is missing"},
      {"{\"a\\n\":[\"\x01\"]}", "doc: a\\n[0]:"}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    ck_assert_int_eq(pass(cases[i][0], strlen(cases[i][0]), 8), CLEAT_FORMAT);
    ck_assert_msg(strncmp(err.message, cases[i][1], strlen(cases[i][1])) == 0, "%s", err.message);
  }
}
END_TEST

/* The place of something 60 deep with long names stays within the message. */
START_TEST(test_long_place) {
  struct cleat__buffer text;
  cleat__buffer_init(&text, 6000);
  for (int i = 0; i < 60; i++)
    ck_assert_int_eq(cleat__buffer_print(&text, "{\"%080d\":", i), CLEAT_OK);
  ck_assert_int_eq(pass(text.data, text.length, 64), CLEAT_FORMAT);
  ck_assert_uint_lt(strlen(err.message), 1000);
  cleat__buffer_clear(&text);
}
END_TEST

static bool read_number(const char *text, bool big, uint64_t *value) {
  struct cleat__json_reader reader;
  cleat__json_reader_init(&reader, text, strlen(text), 8, "doc", &err);
  bool done = big ? cleat__json_big(&reader, value) : cleat__json_uint(&reader, value);
  cleat__json_reader_clear(&reader);
  return done;
}

START_TEST(test_integers) {
  static const char *const bad[] = {"-1",
                                    "1.0",
                                    "1e3",
                                    "9223372036854775808",
                                    "18446744073709551616",
                                    "true",
                                    "01",
                                    "99999999999999999999999",
                                    "\"\"",
                                    "\"-1\"",
                                    "\"01\"",
                                    "\"1 \"",
                                    "\"9223372036854775808\"",
                                    "[]"};
  uint64_t value = 0;
  ck_assert(read_number("9223372036854775807", false, &value));
  ck_assert_uint_eq(value, INT64_MAX);
  ck_assert(read_number("0", false, &value));
  ck_assert_uint_eq(value, 0);
  ck_assert(!read_number("\"1\"", false, &value));
  ck_assert(read_number("9007199254740992", true, &value));
  ck_assert_uint_eq(value, UINT64_C(1) << 53);
  ck_assert(!read_number("9007199254740993", true, &value));
  ck_assert_ptr_nonnull(strstr(err.message, "found \"9007199254740993\""));
  ck_assert(read_number("\"9223372036854775807\"", true, &value));
  ck_assert_uint_eq(value, INT64_MAX);
  ck_assert(read_number("\"7\"", true, &value));
  ck_assert_uint_eq(value, 7);
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    ck_assert_msg(!read_number(bad[i], false, &value), "%s", bad[i]);
    ck_assert_msg(!read_number(bad[i], true, &value), "%s", bad[i]);
  }
  ck_assert_uint_eq(value, 7);
}
END_TEST

START_TEST(test_strings) {
  static const char text[] = "{\"k\\u0041y\":\"p\\u00e9\\ud83d\\ude00\\n\\/\",\"plain\":\"as it is\"}";
  struct cleat__json_reader reader;
  struct cleat__json_text key = {NULL, 0};
  struct cleat__json_text value = {NULL, 0};
  cleat__json_reader_init(&reader, text, sizeof text - 1, 8, "doc", &err);
  ck_assert(cleat__json_object(&reader));
  ck_assert(cleat__json_member(&reader, &key));
  ck_assert(cleat__json_string(&reader, &value));
  /* The key is still there after its value was read. */
  ck_assert_uint_eq(key.length, 3);
  ck_assert_mem_eq(key.bytes, "kAy", 3);
  ck_assert_uint_eq(value.length, 9);
  ck_assert_mem_eq(value.bytes, "p\xC3\xA9\xF0\x9F\x98\x80\n/", 9);
  ck_assert(cleat__json_member(&reader, &key));
  ck_assert(cleat__json_string(&reader, &value));
  ck_assert_uint_eq(value.length, 8);
  ck_assert(value.bytes > text && value.bytes < text + sizeof text);
  ck_assert(!cleat__json_member(&reader, &key));
  ck_assert(cleat__json_end(&reader));
  cleat__json_reader_clear(&reader);
}
END_TEST

static cleat_status read_fields(const char *text, uint64_t *a, uint64_t *b) {
  static const char *const names[] = {"a", "b"};
  struct cleat__json_reader reader;
  uint32_t seen = 0;
  unsigned which = 0;
  cleat__json_reader_init(&reader, text, strlen(text), 8, "doc", &err);
  cleat__json_object(&reader);
  while (cleat__json_field(&reader, names, 2, &seen, &which))
    cleat__json_uint(&reader, which == 0 ? a : b);
  cleat__json_require(&reader, names, 1, seen);
  cleat__json_end(&reader);
  cleat__json_reader_clear(&reader);
  return reader.status;
}

START_TEST(test_fields) {
  uint64_t a = 0;
  uint64_t b = 0;
  ck_assert_int_eq(read_fields("{\"x\":[{}],\"b\":2,\"\\u0061\":1,\"x\":{}}", &a, &b), CLEAT_OK);
  ck_assert_uint_eq(a, 1);
  ck_assert_uint_eq(b, 2);
  ck_assert_int_eq(read_fields("{\"a\":1}", &a, &b), CLEAT_OK);
  ck_assert_int_eq(read_fields("{\"b\":1}", &a, &b), CLEAT_FORMAT);
  ck_assert_str_eq(err.message, "doc: \"a\" is missing");
  ck_assert_int_eq(read_fields("{\"a\":1,\"a\":1}", &a, &b), CLEAT_FORMAT);
  ck_assert_str_eq(err.message, "doc: a: appears twice");
  ck_assert_int_eq(read_fields("{\"a\":1,\"x\":[1,]}", &a, &b), CLEAT_FORMAT);
  ck_assert_int_eq(read_fields("[]", &a, &b), CLEAT_FORMAT);
  ck_assert_str_eq(err.message, "doc: an object expected at byte 0, found \"[\"");
}
END_TEST

/* After the first failure nothing is read or written any more. */
START_TEST(test_failure_is_kept) {
  struct cleat__json_reader reader;
  struct cleat__json_text text = {NULL, 7};
  uint64_t value = 5;
  cleat__json_reader_init(&reader, "x", 1, 8, "doc", &err);
  ck_assert(!cleat__json_object(&reader));
  ck_assert(!cleat__json_member(&reader, &text));
  ck_assert(!cleat__json_array(&reader));
  ck_assert(!cleat__json_element(&reader));
  ck_assert(!cleat__json_uint(&reader, &value));
  ck_assert(!cleat__json_big(&reader, &value));
  ck_assert(!cleat__json_string(&reader, &text));
  ck_assert(!cleat__json_value(&reader, NULL));
  ck_assert(!cleat__json_is_object(&reader));
  ck_assert(!cleat__json_refuse(&reader, "another"));
  ck_assert(!cleat__json_refuse_limit(&reader, "things", 3));
  ck_assert(!cleat__json_refuse_memory(&reader));
  ck_assert(!cleat__json_end(&reader));
  ck_assert_int_eq(reader.status, CLEAT_FORMAT);
  ck_assert_str_eq(err.message, "doc: an object expected at byte 0, found \"x\"");
  ck_assert_uint_eq(value, 5);
  ck_assert_uint_eq(text.length, 7);
  cleat__json_reader_clear(&reader);
}
END_TEST

START_TEST(test_copy) {
  static const char text[] = " { \"a\" : [ 1.0 , 1e2 , \"x \\u0041 y\" ] , \"e\" : { } , \"f\" : [ ] , "
                             "\"g\" : null } ";
  struct cleat__json_reader reader;
  struct cleat__json_writer writer;
  struct cleat__buffer out;
  cleat__buffer_init(&out, 1000);
  cleat__json_writer_init(&writer, &out);
  cleat__json_reader_init(&reader, text, sizeof text - 1, 8, "doc", &err);
  ck_assert(cleat__json_value(&reader, &writer));
  ck_assert(cleat__json_end(&reader));
  ck_assert_int_eq(cleat__json_writer_end(&writer, "doc", &err), CLEAT_OK);
  ck_assert_str_eq(cleat__buffer_text(&out), "{\"a\":[1.0,1e2,\"x \\u0041 y\"],\"e\":{},\"f\":[],\"g\":null}");
  cleat__json_reader_clear(&reader);
  cleat__buffer_clear(&out);
}
END_TEST

START_TEST(test_writer) {
  struct cleat__json_writer writer;
  struct cleat__buffer out;
  cleat__buffer_init(&out, 200);
  cleat__json_writer_init(&writer, &out);
  cleat__json_put_string(&writer, "a\"\\/\b\f\n\r\t\x01\x1f\0z\x7F\xC3\xBC", 16);
  cleat__json_put_uint(&writer, UINT64_MAX);
  cleat__json_put_text(&writer, ",");
  cleat__json_put_uint(&writer, 0);
  cleat__json_put_text(&writer, ",");
  cleat__json_put_big(&writer, UINT64_C(1) << 53);
  cleat__json_put_big(&writer, (UINT64_C(1) << 53) + 1);
  ck_assert_int_eq(cleat__json_writer_end(&writer, "doc", &err), CLEAT_OK);
  ck_assert_str_eq(cleat__buffer_text(&out), "\"a\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\\u001f\\u0000z\x7F\xC3\xBC\""
                                             "18446744073709551615,0,9007199254740992\"9007199254740993\"");
  cleat__buffer_clear(&out);
}
END_TEST

START_TEST(test_writer_of_fields) {
  struct cleat__json_writer writer;
  struct cleat__buffer out;
  cleat__buffer_init(&out, 200);
  cleat__json_writer_init(&writer, &out);
  cleat__json_put_string_field(&writer, "{\"text\":", "\"quoted\"");
  cleat__json_put_uint_field(&writer, ",\"digits\": ", UINT64_MAX);
  cleat__json_put_big_field(&writer, ",\"big\":", UINT64_MAX);
  ck_assert_int_eq(cleat__json_writer_end(&writer, "doc", &err), CLEAT_OK);
  ck_assert_str_eq(cleat__buffer_text(&out), "{\"text\":\"\\\"quoted\\\"\",\"digits\": 18446744073709551615"
                                             ",\"big\":\"18446744073709551615\"");
  cleat__buffer_clear(&out);
}
END_TEST

START_TEST(test_writer_undoes) {
  struct cleat__json_writer writer;
  struct cleat__buffer out;
  cleat__buffer_init(&out, 10);
  ck_assert_int_eq(cleat__buffer_append(&out, "keep", 4), CLEAT_OK);
  cleat__json_writer_init(&writer, &out);
  for (int i = 0; i < 4; i++)
    cleat__json_put_text(&writer, "abc");
  ck_assert_int_eq(cleat__json_writer_end(&writer, "doc", &err), CLEAT_LIMIT);
  ck_assert_str_eq(err.message, "doc: longer than 10 bytes");
  ck_assert_str_eq(cleat__buffer_text(&out), "keep");
  cleat__buffer_clear(&out);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("json_reader", NULL, NULL, 0),
    TEST(test_valid, 1),
    TEST(test_invalid, 1),
    TEST(test_depth, 1),
    TEST(test_truncated, 1),
    TEST(test_places, 1),
    TEST(test_long_place, 1),
    TEST(test_integers, 1),
    TEST(test_strings, 1),
    TEST(test_fields, 1),
    TEST(test_failure_is_kept, 1),
    TEST(test_copy, 1),
    TEST(test_writer, 1),
    TEST(test_writer_of_fields, 1),
    TEST(test_writer_undoes, 1),
};

int main(void) {
  return run_table("json_reader", tests, COUNT(tests));
}
