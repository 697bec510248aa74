/* sign_kit.h: what tests of storage/aws/sign.c share: vectors of signed requests, and a check of one. */
#ifndef CLEAT_TESTS_UNIT_STORAGE_AWS_SIGN_KIT_H
#define CLEAT_TESTS_UNIT_STORAGE_AWS_SIGN_KIT_H

#include "storage/aws/sign.h"

#include <check.h>
#include <string.h>

#define MAX_PAIRS 8 /* of a query, and of the headers; less end with NULL */

static inline size_t pair_count(const struct cleat__s3_pair *pairs) {
  size_t count = 0;
  while (count < MAX_PAIRS && pairs[count].name)
    count++;
  return count;
}

/* Signs: the date and the header Authorization must be these. `name`: of the vector. */
static inline void check_signed(const struct cleat__s3_sign_request *request, const char *name, const char *date,
                                const char *expected) {
  struct cleat__buffer authorization;
  cleat__buffer_init(&authorization, CLEAT__S3_AUTHORIZATION_MAX);
  char amz_date[17] = "";
  struct cleat_error err = {0};
  ck_assert_int_eq(cleat__s3_sign(request, amz_date, &authorization, &err), CLEAT_OK);
  ck_assert_str_eq(amz_date, date);
  ck_assert_msg(strcmp(cleat__buffer_text(&authorization), expected) == 0, "%s: %s, not %s", name,
                cleat__buffer_text(&authorization), expected);
  cleat__buffer_clear(&authorization);
}

#endif
