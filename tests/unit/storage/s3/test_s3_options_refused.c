/* test_s3_options_refused.c: storage/s3/options.c: which option of the bucket a store's refusal is laid to. */
#include "storage/s3/options.h"

#include "tests/mock/run_suite.h"
#include "tests/mock/s3_script.h"
#include "tests/mock/store_check.h"

static struct cleat_error err;
static atomic_bool no_cancel;

/* What a store refuses without a word on it is named; what was not asked for, or what another code tells, is not. */
START_TEST(an_option_that_is_refused) {
  static const struct {
    const char *location, *reply, *named;
  } cases[] = {
      {"bucket/r?sse=AES256", ERROR_REPLY("400 Bad Request", "InvalidRequest"), "sse=AES256:"},
      {"bucket/r?storage_class=STANDARD_IA", ERROR_REPLY("400 Bad Request", "InvalidArgument"),
       "storage_class=STANDARD_IA:"},
      {"bucket/r?sse=aws:kms&storage_class=STANDARD_IA&tags=a%3Db",
       ERROR_REPLY("501 Not Implemented", "NotImplemented"), "sse=aws:kms or storage_class=STANDARD_IA or tags=a=b:"},
      {"bucket/r", ERROR_REPLY("400 Bad Request", "InvalidRequest"), NULL},
      {"bucket/r?request_payer=requester", ERROR_REPLY("400 Bad Request", "InvalidRequest"), NULL},
      {"bucket/r?sse=AES256", ERROR_REPLY("400 Bad Request", "KeyTooLongError"), NULL},
  };
  char text[] = "12345";
  struct cleat__span span = {text, 5};
  struct cleat__put_options put = {.crc32c = 1};
  struct cleat__upload upload = {.key = "k", .size = 5, .part_bytes = 5};
  struct cleat__object object;
  script.replies = &cases[_i].reply;
  script.count = 1;
  script_start();
  script_open(mock_server_url(script.server), cases[_i].location, NULL);
  const struct cleat__store_ops *ops = script.store->ops;
  for (int i = 0; i < 2; i++) {
    cleat_status status = i == 0
                              ? ops->put(script.store, "k", cleat__spans(&span, 1), &put, cleat__call(&no_cancel, &err))
                              : ops->multipart_create(script.store, &upload, NULL, cleat__call(&no_cancel, &err));
    ck_assert_int_ne(status, CLEAT_OK);
    if (cases[_i].named != NULL)
      ck_assert_msg(strstr(err.hint, cases[_i].named) != NULL, "%s", err.hint);
    else
      ck_assert_msg(strstr(err.hint, "seems to refuse") == NULL, "%s", err.hint);
  }
  ck_assert_int_ne(ops->head(script.store, "k", &object, cleat__call(&no_cancel, &err)), CLEAT_OK);
  ck_assert_msg(strstr(err.hint, "seems to refuse") == NULL, "%s", err.hint);
  script_end(3);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("s3_options_refused", NULL, NULL, 120),
    TEST(an_option_that_is_refused, 6),
};

int main(void) {
  return run_table("s3_options_refused", tests, COUNT(tests));
}
