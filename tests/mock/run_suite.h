/* run_suite.h: what main of a program of tests does. */
#ifndef CLEAT_TESTS_MOCK_RUN_SUITE_H
#define CLEAT_TESTS_MOCK_RUN_SUITE_H

#include <check.h>

/* Runs all tests and frees the suite. Returns the program's exit status. */
int run_suite(Suite *suite);

#endif
