/* run_suite.h: what main of a program of tests does. */
#ifndef CLEAT_TESTS_MOCK_RUN_SUITE_H
#define CLEAT_TESTS_MOCK_RUN_SUITE_H

#include <check.h>

/* The number of elements of an array. */
#define COUNT(array) ((int)(sizeof(array) / sizeof(array)[0]))

/* A row of a program's table. CASE begins a test case of Check. The rows TEST below it are its tests. */
struct suite_row {
  const char *name;     /* of the test case; NULL: the row is a test */
  SFun setup, teardown; /* run before and after each test of the case, in its process; NULL: none */
  int timeout_s;        /* of each test of the case; 0: Check's own */
  const TTest *const *test;
  int times;
};

#define CASE(name, setup, teardown, timeout_s) \
  { (name), (setup), (teardown), (timeout_s), NULL, 0 }
/* The test runs `times` times: _i is 0, 1, ... */
#define TEST(test, times) \
  { NULL, NULL, NULL, 0, &(test), (times) }

/* Runs the tests of a table, whose first row is a CASE. Returns the program's exit status. */
int run_table(const char *suite, const struct suite_row *rows, int count);

/* Runs all tests and frees the suite. Returns the program's exit status. */
int run_suite(Suite *suite);

#endif
