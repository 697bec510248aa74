/* run_suite.c: see run_suite.h. */
#include "tests/mock/run_suite.h"

#include <stdlib.h>

static TCase *begin_case(Suite *suite, const struct suite_row *row) {
  TCase *tcase = tcase_create(row->name);
  tcase_add_checked_fixture(tcase, row->setup, row->teardown);
  if (row->timeout_s > 0)
    tcase_set_timeout(tcase, row->timeout_s);
  suite_add_tcase(suite, tcase);
  return tcase;
}

int run_table(const char *suite, const struct suite_row *rows, int count) {
  Suite *all = suite_create(suite);
  TCase *tcase = NULL;
  for (int i = 0; i < count; i++) {
    if (rows[i].name != NULL)
      tcase = begin_case(all, &rows[i]);
    else
      tcase_add_loop_test(tcase, *rows[i].test, 0, rows[i].times);
  }
  return run_suite(all);
}

int run_suite(Suite *suite) {
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_NORMAL);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
