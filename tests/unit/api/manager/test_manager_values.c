/* test_manager_values.c: api/manager/values.c: named numbers and texts as JSON, and back. */
#include "api/manager/manager.h"

#include "tests/mock/each_fault.h"
#include "tests/mock/run_suite.h"
#include "tests/mock/store_check.h"

#include <check.h>
#include <float.h>
#include <locale.h>
#include <math.h>
#include <string.h>

static struct cleat_error err;
static struct cleat__buffer text;
static struct cleat__values values;

static void setup(void) {
  cleat__buffer_init(&text, 1 << 20);
}

static void teardown(void) {
  cleat__buffer_clear(&text);
  cleat__values_clear(&values);
}

static const struct cleat_value *get(const char *name) {
  const struct cleat_value *value = cleat__values_find(&values, name);
  ck_assert_msg(value != NULL, "no value %s", name);
  return value;
}

START_TEST(what_is_written_is_read) {
  static const double numbers[] = {0.1,     -0.0,    3e-4,   1e300, DBL_MIN,  DBL_TRUE_MIN,
                                   DBL_MAX, 1.0 / 3, 123456, -7,    INFINITY, -INFINITY};
  for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
    struct cleat_value value = {.name = "x", .number = numbers[i]};
    cleat__buffer_reset(&text);
    ck_ok(cleat__values_write(&value, 1, NULL, &text, &err));
    ck_ok(cleat__values_read(text.data, &values, &err));
    ck_assert_msg(get("x")->number == numbers[i], "%s", text.data);
    cleat__values_clear(&values);
  }
}
END_TEST

START_TEST(not_a_number) {
  struct cleat_value value = {.name = "best", .number = NAN};
  ck_ok(cleat__values_write(&value, 1, NULL, &text, &err));
  ck_assert_str_eq(text.data, "{\"best\": \"NaN\"}");
  ck_ok(cleat__values_read(text.data, &values, &err));
  ck_assert_int_eq(get("best")->type, CLEAT_VALUE_NUMBER);
  ck_assert(isnan(get("best")->number));
}
END_TEST

START_TEST(integers_are_exact) {
  static const int64_t integers[] = {0, -1, INT64_MAX, INT64_MIN, INT64_C(9007199254740993)};
  for (size_t i = 0; i < sizeof integers / sizeof integers[0]; i++) {
    struct cleat_value value = {.name = "n", .type = CLEAT_VALUE_INTEGER, .integer = integers[i]};
    cleat__buffer_reset(&text);
    ck_ok(cleat__values_write(&value, 1, NULL, &text, &err));
    ck_ok(cleat__values_read(text.data, &values, &err));
    ck_assert_int_eq(get("n")->type, CLEAT_VALUE_INTEGER);
    ck_assert_int_eq(get("n")->integer, integers[i]);
    ck_assert(get("n")->number == (double)integers[i]);
    cleat__values_clear(&values);
  }
}
END_TEST

START_TEST(members_of_the_metadata_stay) {
  static const char metadata[] = " {\"a\": [1, {\"x\": 2}], \"ü\\n\": true, \"s\": \"t\"} ";
  static const struct cleat_value two[] = {{.name = "loss", .number = 0.5},
                                           {.name = "\"quoted\"", .type = CLEAT_VALUE_TEXT, .text = "a\\b\n"}};
  ck_ok(cleat__values_write(two, 2, metadata, &text, &err));
  ck_assert_str_eq(text.data, "{\"a\": [1,{\"x\":2}], \"ü\\n\": true, \"s\": \"t\", \"loss\": 0.5, "
                              "\"\\\"quoted\\\"\": \"a\\\\b\\n\"}");
  ck_ok(cleat__values_read(text.data, &values, &err));
  ck_assert_uint_eq(values.count, 3);
  ck_assert_str_eq(get("s")->text, "t");
  ck_assert_str_eq(get("\"quoted\"")->text, "a\\b\n");
}
END_TEST

START_TEST(what_cannot_be_written_is_refused) {
  static const struct {
    struct cleat_value values[2];
    const char *metadata;
    const char *says;
  } bad[] = {
      {{{.name = NULL}, {.name = "b"}}, NULL, "value 0 of the save has no name"},
      {{{.name = "a"}, {.name = ""}}, NULL, "value 1 of the save has no name"},
      {{{.name = "a"}, {.name = "a"}}, NULL, "two values have the name a"},
      {{{.name = "a"}, {.name = "b", .type = CLEAT_VALUE_TEXT}}, NULL, "value b is not a number, integer or text"},
      {{{.name = "a"}, {.name = "b", .type = (enum cleat_value_type)3}},
       NULL,
       "value b is not a number, integer or text"},
      {{{.name = "a"}, {.name = "b"}}, "{\"b\": 1}", "is also among the values of the save"},
      {{{.name = "a"}, {.name = "b"}}, "[1]", "an object expected"},
      {{{.name = "a"}, {.name = "b"}}, "{\"c\": }", "a value expected"},
      {{{.name = "a"}, {.name = "b"}}, "{} x", "the end of the document expected"}};
  ck_fails(cleat__values_write(bad[_i].values, 2, bad[_i].metadata, &text, &err), CLEAT_INVALID);
  ck_assert_msg(strstr(err.message, bad[_i].says) != NULL, "%s", err.message);
}
END_TEST

START_TEST(metadata_of_others_is_read_as_far_as_it_goes) {
  static const char *const none[] = {"{}", "[1]", "3", "\"x\"", "{\"a\": null, \"b\": [1], \"c\": {}}"};
  for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
    ck_ok(cleat__values_read(none[i], &values, &err));
    ck_assert_uint_eq(values.count, 0);
    cleat__values_clear(&values);
  }
  ck_ok(cleat__values_read(NULL, &values, &err));
  ck_ok(cleat__values_read("{\"a\": 1e2, \"b\": -0.5E-1, \"c\": 99999999999999999999, \"d\": "
                           "\"\\u00fc\"}",
                           &values, &err));
  ck_assert(get("a")->number == 100 && get("a")->type == CLEAT_VALUE_NUMBER);
  ck_assert(get("b")->number == -0.05);
  ck_assert(get("c")->number == 1e20 && get("c")->type == CLEAT_VALUE_NUMBER);
  ck_assert_str_eq(get("d")->text, "ü");
  ck_assert_ptr_null(cleat__values_find(&values, "e"));
  cleat__values_clear(&values);
  ck_fails(cleat__values_read("{\"a\": 1", &values, &err), CLEAT_FORMAT);
  ck_assert_uint_eq(values.count, 0);
}
END_TEST

/* A program of another language writes and reads the same numbers. */
START_TEST(the_locale_does_not_matter) {
  static const char *const commas[] = {"de_DE.UTF-8", "de_DE", "fr_FR.UTF-8", "C"};
  struct cleat_value value = {.name = "x", .number = 0.5};
  size_t i = 0;
  while (setlocale(LC_ALL, commas[i]) == NULL)
    i++;
  const char *point = localeconv()->decimal_point;
  ck_ok(cleat__values_write(&value, 1, NULL, &text, &err));
  ck_assert_str_eq(text.data, "{\"x\": 0.5}");
  ck_ok(cleat__values_read(text.data, &values, &err));
  ck_assert(get("x")->number == 0.5);
  ck_assert_str_eq(localeconv()->decimal_point, point); /* nor is it changed */
}
END_TEST

START_TEST(out_of_memory) {
  static const struct cleat_value two[] = {{.name = "loss", .number = 0.5},
                                           {.name = "t", .type = CLEAT_VALUE_TEXT, .text = "\"\\"}};
  struct each_fault fault = {0};
  while (each_fault_next(&fault)) {
    cleat_status status = cleat__values_write(two, 2, "{\"\\n\": \"\\n\"}", &text, &err);
    if (status == CLEAT_OK)
      status = cleat__values_read(text.data, &values, &err);
    ck_assert_msg(status == (each_fault_over(&fault) ? CLEAT_NO_MEMORY : CLEAT_OK), "n = %lu: %d %s", fault.n,
                  (int)status, err.message);
    cleat__values_clear(&values);
    cleat__buffer_clear(&text);
  }
  ck_assert_uint_gt(fault.n, 5);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("manager_values", setup, teardown, 0),
    TEST(what_is_written_is_read, 1),
    TEST(not_a_number, 1),
    TEST(integers_are_exact, 1),
    TEST(members_of_the_metadata_stay, 1),
    TEST(what_cannot_be_written_is_refused, 9),
    TEST(metadata_of_others_is_read_as_far_as_it_goes, 1),
    TEST(the_locale_does_not_matter, 1),
    TEST(out_of_memory, 1),
};

int main(void) {
  return run_table("manager_values", tests, COUNT(tests));
}
