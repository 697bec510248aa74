/* test_json.c: base/json.c and base/json_scan.c. */
#include "base/json.h"

#include "base/json_scan.h"
#include "base/mem.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct cleat_error err;

static cleat_status parse_n(const char *text, size_t size, unsigned depth, cJSON **root) {
  cleat__error_clear(&err);
  return cleat__json_parse(text, size, depth, "the manifest", root, &err);
}

static cleat_status parse(const char *text, cJSON **root) {
  return parse_n(text, strlen(text), 8, root);
}

static const char *const good[] = {
    "{}",
    "[]",
    " \t\r\n{ } \n",
    "0",
    "-0",
    "-12.5e+3",
    "1E9",
    "true",
    "false",
    "null",
    "\"\"",
    "\"a\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\"",
    "\"\\ud83d\\ude00\"",
    "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"",
    "{\"a\":[1,2,{\"b\":null}],\"c\":\"d\"}",
    "[[[[[[[[]]]]]]]]",
    "\"[[[[[[[[[[[[[[[[\"",
    "123456789012345678901234567890123456789012345678901234567890123",
};

START_TEST(takes_good_json) {
  for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
    cJSON *root = NULL;
    ck_assert_msg(parse(good[i], &root) == CLEAT_OK, "%s: %s", good[i], err.message);
    ck_assert_ptr_nonnull(root);
    cJSON_Delete(root);
  }
}
END_TEST

static const char *const bad[] = {
    "",
    " ",
    "{",
    "}",
    "[1,]",
    "[1 2]",
    "[,1]",
    "{\"a\"}",
    "{\"a\":}",
    "{\"a\":1,}",
    "{a:1}",
    "{'a':1}",
    "{1:1}",
    "{} {}",
    "{}x",
    "[1]]",
    "01",
    "-",
    "-a",
    "+1",
    ".5",
    "1.",
    "1e",
    "1e+",
    "0x10",
    "NaN",
    "Infinity",
    "tru",
    "truex",
    "True",
    "nul",
    "\"a",
    "\"a\\",
    "\"a\\\"",
    "\"\\x\"",
    "\"\\u12\"",
    "\"\\u12g4\"",
    "\"\\u0000\"",
    "\"\\ud83d\"",
    "\"\\ud83dx\"",
    "\"\\ud83d\\u0041\"",
    "\"\\ude00\"",
    "\"a\nb\"",
    "\"a\tb\"",
    "\"\xff\"",
    "\"\xc3\"",
    "\"\xc0\x80\"",
    "\"\xed\xa0\x80\"",
    "\"\xf4\x90\x80\x80\"",
    "[[[[[[[[[]]]]]]]]]",
    "{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{}}}}}}}}}",
    "1234567890123456789012345678901234567890123456789012345678901234",
    "\xef\xbb\xbf{}",
    "/* c */ {}",
};

START_TEST(refuses_bad_json) {
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    cJSON *root = NULL;
    ck_assert_msg(parse(bad[i], &root) == CLEAT_FORMAT, "took %s", bad[i]);
    ck_assert_ptr_null(root);
    ck_assert_ptr_nonnull(strstr(err.message, "the manifest is not valid JSON: "));
  }
}
END_TEST

START_TEST(refuses_nul_bytes) {
  cJSON *root = NULL;
  ck_assert_int_eq(parse_n("{}\0", 3, 8, &root), CLEAT_FORMAT);
  ck_assert_int_eq(parse_n("\"a\0b\"", 5, 8, &root), CLEAT_FORMAT);
  ck_assert_int_eq(parse_n("\0{}", 3, 8, &root), CLEAT_FORMAT);
}
END_TEST

/* Every prefix of a document that needs its end is refused, and nothing is read beyond it. */
START_TEST(refuses_every_cut) {
  static const char text[] = "{\"a\":[1,2.5,\"\\u00e9\xc3\xa9\"],\"b\":{\"c\":true}}";
  size_t size = strlen(text);
  for (size_t cut = 0; cut < size; cut++) {
    cJSON *root = NULL;
    char *exact = cleat__alloc(cut);
    memcpy(exact, text, cut);
    ck_assert_int_eq(parse_n(exact, cut, 8, &root), CLEAT_FORMAT);
    cleat__free(exact);
  }
}
END_TEST

START_TEST(depth_is_bounded) {
  static char deep[100000];
  cJSON *root = NULL;
  memset(deep, '[', sizeof deep);
  ck_assert_int_eq(parse_n(deep, sizeof deep, 4000000000u, &root), CLEAT_FORMAT);
  ck_assert_ptr_nonnull(strstr(err.message, "nested too deep"));
  ck_assert_int_eq(parse_n("1", 1, 0, &root), CLEAT_OK);
  cJSON_Delete(root);
  ck_assert_int_eq(parse_n("[]", 2, 0, &root), CLEAT_FORMAT);
  ck_assert_int_eq(parse_n("[[]]", 4, 1, &root), CLEAT_FORMAT);
  /* Closing gives the depth back. */
  ck_assert_int_eq(parse_n("[[],[],[]]", 10, 2, &root), CLEAT_OK);
  cJSON_Delete(root);
}
END_TEST

START_TEST(duplicates_are_refused) {
  cJSON *root = NULL;
  ck_assert_int_eq(parse("{\"a\":1,\"b\":2,\"a\":3}", &root), CLEAT_FORMAT);
  ck_assert_str_eq(err.message, "the manifest is not valid JSON: \"a\" stands twice in an object");
  ck_assert_int_eq(parse("[{\"x\":[{\"b\":1,\"b\":1}]}]", &root), CLEAT_FORMAT);
  ck_assert_int_eq(parse("{\"a\":1,\"\\u0061\":3}", &root), CLEAT_FORMAT);
  ck_assert_int_eq(parse("{\"a\":1,\"A\":3}", &root), CLEAT_OK);
  cJSON_Delete(root);
}
END_TEST

START_TEST(the_error_says_where) {
  cJSON *root = NULL;
  ck_assert_int_eq(parse("{\"a\":1,x}", &root), CLEAT_FORMAT);
  ck_assert_str_eq(err.message, "the manifest is not valid JSON: a string was expected at byte 7");
  ck_assert_int_eq(parse("[1,2", &root), CLEAT_FORMAT);
  ck_assert_str_eq(err.message, "the manifest is not valid JSON: cut off at byte 4");
}
END_TEST

START_TEST(no_memory_is_told_from_damage) {
  cJSON *root = NULL;
  cleat__fault_arm(1, false);
  ck_assert_int_eq(parse("{}", &root), CLEAT_NO_MEMORY);
  cleat__fault_disarm();
}
END_TEST

static void *no_memory(size_t size) {
  (void)size;
  return NULL;
}

START_TEST(no_memory_inside_cjson) {
  cJSON_Hooks hooks = {.malloc_fn = no_memory, .free_fn = free};
  cJSON *root = NULL;
  cJSON_InitHooks(&hooks);
  cleat_status status = parse("{\"a\":[1]}", &root);
  cJSON *number = cleat__json_int64(1);
  cJSON_InitHooks(NULL);
  ck_assert_int_eq(status, CLEAT_NO_MEMORY);
  ck_assert_ptr_null(number);
}
END_TEST

static const int64_t integers[] = {0,
                                   1,
                                   -1,
                                   INT64_C(999999999999999),
                                   INT64_C(1000000000000001),
                                   -INT64_C(1000000000000001),
                                   INT64_C(9007199254740991),
                                   INT64_C(9007199254740992),
                                   INT64_C(9007199254740993),
                                   -INT64_C(9007199254740992),
                                   -INT64_C(9007199254740993),
                                   INT64_MAX,
                                   INT64_MIN};

START_TEST(integers_come_back_exactly) {
  for (size_t i = 0; i < sizeof integers / sizeof integers[0]; i++) {
    cJSON *object = cJSON_CreateObject();
    cJSON *root = NULL;
    int64_t back = 42;
    ck_assert_ptr_nonnull(cleat__json_add_int64(object, "n", integers[i]));
    ck_assert(cleat__json_get_int64(cJSON_GetObjectItem(object, "n"), &back));
    ck_assert_int_eq(back, integers[i]);
    char *text = cJSON_PrintUnformatted(object);
    ck_assert_int_eq(parse(text, &root), CLEAT_OK);
    ck_assert_msg(cleat__json_get_int64(cJSON_GetObjectItem(root, "n"), &back), "%s", text);
    ck_assert_int_eq(back, integers[i]);
    /* 2^53 is the last that stands as a number. */
    bool is_large =
        integers[i] > INT64_C(9007199254740992) || integers[i] < -INT64_C(9007199254740992);
    ck_assert_int_eq(strchr(text + 5, '"') != NULL, is_large);
    cJSON_free(text);
    cJSON_Delete(root);
    cJSON_Delete(object);
  }
}
END_TEST

static const char *const no_integers[] = {
    "1.5",
    "9007199254740994",
    "-9007199254740994",
    "1e300",
    "true",
    "null",
    "[]",
    "{}",
    "\"\"",
    "\"-\"",
    "\"1.5\"",
    "\"+1\"",
    "\" 1\"",
    "\"1 \"",
    "\"01\"",
    "\"-0\"",
    "\"0x1\"",
    "\"1e3\"",
    "\"9223372036854775808\"",
    "\"-9223372036854775809\"",
    "\"a\"",
    "\"99999999999999999999\"",
};

START_TEST(other_things_are_no_integers) {
  int64_t value = 42;
  for (size_t i = 0; i < sizeof no_integers / sizeof no_integers[0]; i++) {
    cJSON *root = NULL;
    ck_assert_int_eq(parse(no_integers[i], &root), CLEAT_OK);
    ck_assert_msg(!cleat__json_get_int64(root, &value), "took %s", no_integers[i]);
    cJSON_Delete(root);
  }
  cJSON *nan_item = cJSON_CreateNumber(NAN);
  ck_assert(!cleat__json_get_int64(nan_item, &value));
  cJSON_Delete(nan_item);
  ck_assert(!cleat__json_get_int64(NULL, &value));
  ck_assert_int_eq(value, 42);
}
END_TEST

START_TEST(adding_fails_cleanly) {
  cJSON *object = cJSON_CreateObject();
  cleat__fault_arm(1, false);
  ck_assert_ptr_null(cleat__json_add_int64(object, "n", 1));
  cleat__fault_disarm();
  ck_assert_int_eq(cJSON_GetArraySize(object), 0);
  cJSON_Delete(object);
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("json");
  TCase *c = tcase_create("json");
  tcase_add_test(c, takes_good_json);
  tcase_add_test(c, refuses_bad_json);
  tcase_add_test(c, refuses_nul_bytes);
  tcase_add_test(c, refuses_every_cut);
  tcase_add_test(c, depth_is_bounded);
  tcase_add_test(c, duplicates_are_refused);
  tcase_add_test(c, the_error_says_where);
  tcase_add_test(c, no_memory_is_told_from_damage);
  tcase_add_test(c, no_memory_inside_cjson);
  tcase_add_test(c, integers_come_back_exactly);
  tcase_add_test(c, other_things_are_no_integers);
  tcase_add_test(c, adding_fails_cleanly);
  suite_add_tcase(s, c);
  return s;
}

int main(void) {
  SRunner *runner = srunner_create(suite());
  srunner_run_all(runner, CK_NORMAL);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
