/* test_s3_replace.c: storage/s3/replace.c against a server that answers by script: in which form the ETag is sent, what
 * is looked at after a refusal, and what is told of it. */
#include "storage/s3/s3.h"

#include "tests/mock/run_suite.h"
#include "tests/mock/s3_script.h"
#include "tests/mock/store_check.h"

#define OLD "\"old\""
#define REFUSED ERROR_REPLY("412 Precondition Failed", "PreconditionFailed")
#define HEAD_OF(etag) "HTTP/1.1 200 OK\r\nETag: " etag "\r\nContent-Length: 3\r\n\r\n"
#define HEAD_OF_NOTHING "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"

static struct cleat_error err;
static atomic_bool no_cancel;
static unsigned failed_tries;

static bool or_check;

static cleat_status replace(const char *etag) {
  char text[] = "123456789";
  struct cleat__span span = {text, 9};
  struct cleat__put_options options = {.condition = CLEAT__PUT_IF_MATCH,
                                       .etag = etag,
                                       .or_check = or_check,
                                       .crc32c = 0xE3069283u,
                                       .failed_tries = &failed_tries};
  failed_tries = 0;
  return script.store->ops->put(script.store, "k", cleat__spans(&span, 1), &options, cleat__call(&no_cancel, &err));
}

static void expect_put(unsigned request, const char *if_match) {
  script_expect_line(request, "PUT /bucket/run/k HTTP/1.1\r\n");
  script_expect_header(request, "if-match", if_match);
}

static void expect_head(unsigned request) {
  script_expect_line(request, "HEAD /bucket/run/k HTTP/1.1\r\n");
  script_expect_header(request, "if-match", NULL);
}

/* ---- the form of the ETag ---- */

START_TEST(as_it_is_told) {
  SCRIPT(OK_REPLY);
  ck_ok(replace(OLD));
  ck_ok(replace(OLD));
  expect_put(1, OLD);
  expect_put(2, OLD);
  ck_assert(!atomic_load(&script.store->other_etags));
  script_end(2);
}
END_TEST

START_TEST(without_quotes) {
  SCRIPT(REFUSED, HEAD_OF(OLD), OK_REPLY);
  ck_ok(replace(OLD));
  ck_assert(atomic_load(&script.store->other_etags));
  ck_assert_uint_eq(script.log_lines, 1);
  ck_assert_ptr_nonnull(strstr(script.last_log, "If-Match"));
  ck_ok(replace(OLD));
  expect_put(1, OLD);
  expect_head(2);
  expect_put(3, "old");
  expect_put(4, "old"); /* from then on at once */
  script_end(4);
}
END_TEST

START_TEST(with_quotes_where_it_has_none) {
  SCRIPT(REFUSED, HEAD_OF("old"), OK_REPLY);
  ck_ok(replace("old"));
  ck_ok(replace("old"));
  expect_put(1, "old");
  expect_put(3, OLD);
  expect_put(4, OLD);
  script_end(4);
}
END_TEST

/* A weak ETag is one that a proxy has made of the store's. */
START_TEST(weak_without_its_mark) {
  SCRIPT(REFUSED, HEAD_OF("W/\"old\""), OK_REPLY);
  ck_ok(replace("W/\"old\""));
  expect_put(1, "W/\"old\"");
  expect_put(3, "old");
  script_end(3);
}
END_TEST

/* What was learnt of the server is no longer true: another one has taken its place. */
START_TEST(learns_anew) {
  SCRIPT(REFUSED, HEAD_OF(OLD), OK_REPLY, REFUSED, HEAD_OF(OLD), OK_REPLY);
  ck_ok(replace(OLD));
  ck_ok(replace(OLD));
  ck_ok(replace(OLD));
  expect_put(4, "old");
  expect_put(6, OLD);
  expect_put(7, OLD);
  ck_assert(!atomic_load(&script.store->other_etags));
  script_end(7);
}
END_TEST

/* ---- what a refusal means ---- */

START_TEST(another_object) {
  SCRIPT(REFUSED, HEAD_OF("\"new\""));
  ck_fails(replace(OLD), CLEAT_LOST);
  expect_head(2);
  ck_assert(!atomic_load(&script.store->other_etags));
  script_end(2);
}
END_TEST

START_TEST(an_object_that_is_gone) {
  SCRIPT(REFUSED, HEAD_OF_NOTHING);
  ck_fails(replace(OLD), CLEAT_LOST);
  script_end(2);
}
END_TEST

START_TEST(in_no_form) {
  SCRIPT(REFUSED, HEAD_OF(OLD), REFUSED, HEAD_OF(OLD));
  ck_fails(replace(OLD), CLEAT_UNSUPPORTED);
  ck_assert_ptr_nonnull(strstr(err.message, "refuses to replace an object by its ETag"));
  ck_assert_ptr_nonnull(strstr(err.message, "s3://bucket/run/k"));
  ck_assert_ptr_nonnull(strstr(err.message, "HTTP 412, request R7"));
  ck_assert_ptr_nonnull(strstr(err.hint, "cleat doctor"));
  ck_assert_int_eq(err.http_status, 412);
  ck_assert_str_eq(err.s3_code, "PreconditionFailed");
  ck_assert(!atomic_load(&script.store->other_etags));
  expect_put(3, "old");
  script_end(4);
}
END_TEST

/* The server wants it without quotes, and somebody replaces the object before the other form comes. */
START_TEST(replaced_between_the_forms) {
  SCRIPT(REFUSED, HEAD_OF(OLD), REFUSED, HEAD_OF("\"new\""));
  ck_fails(replace(OLD), CLEAT_LOST);
  script_end(4);
}
END_TEST

START_TEST(nobody_can_look) {
  SCRIPT(REFUSED, "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n");
  ck_fails(replace(OLD), CLEAT_DENIED);
  ck_assert_ptr_nonnull(strstr(err.message, "HEAD"));
  script_end(2);
}
END_TEST

/* ---- a store that refuses to be asked ---- */

#define NOT_ASKED ERROR_REPLY("501 Not Implemented", "NotImplemented")
#define NO_METHOD ERROR_REPLY("405 Method Not Allowed", "MethodNotAllowed")

START_TEST(a_refused_condition_becomes_a_look) {
  or_check = true;
  SCRIPT(NOT_ASKED, HEAD_OF(OLD), OK_REPLY, HEAD_OF(OLD), OK_REPLY);
  ck_ok(replace(OLD));
  expect_put(1, OLD);
  expect_head(2);
  expect_put(3, NULL);
  ck_assert_uint_eq(atomic_load(&script.store->lacks), CLEAT__STORE_NO_IF_MATCH);
  ck_assert_uint_eq(script.log_lines, 1);
  ck_assert_ptr_nonnull(strstr(script.last_log, "refuses If-Match"));
  ck_ok(replace(OLD)); /* once for a client */
  expect_head(4);
  expect_put(5, NULL);
  script_end(5);
}
END_TEST

START_TEST(a_look_finds_another_object) {
  or_check = true;
  SCRIPT(NOT_ASKED, HEAD_OF("\"new\""), NO_METHOD, HEAD_OF_NOTHING);
  ck_fails(replace(OLD), CLEAT_LOST);
  ck_assert_ptr_nonnull(strstr(err.message, "s3://bucket/run/k"));
  ck_fails(replace(OLD), CLEAT_LOST);
  ck_assert_uint_eq(atomic_load(&script.store->lacks), 0);
  script_end(4);
}
END_TEST

START_TEST(a_look_that_fails) {
  or_check = true;
  SCRIPT(NOT_ASKED, "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n");
  ck_fails(replace(OLD), CLEAT_DENIED);
  script_end(2);
}
END_TEST

START_TEST(refused_for_another_reason) {
  or_check = true;
  SCRIPT(NOT_ASKED, HEAD_OF(OLD), NOT_ASKED);
  ck_fails(replace(OLD), CLEAT_UNSUPPORTED);
  ck_assert_uint_eq(atomic_load(&script.store->lacks), 0);
  script_end(3);
}
END_TEST

/* Claims and records: two processes are kept apart by nothing else. What was learned changes nothing for them. */
START_TEST(who_wants_no_look_is_refused) {
  or_check = false;
  SCRIPT(NOT_ASKED);
  ck_fails(replace(OLD), CLEAT_UNSUPPORTED);
  ck_assert_uint_eq(atomic_load(&script.store->lacks), 0);
  atomic_store(&script.store->lacks, CLEAT__STORE_NO_IF_MATCH);
  ck_fails(replace(OLD), CLEAT_UNSUPPORTED);
  expect_put(2, OLD);
  script_end(2);
}
END_TEST

/* ---- lost replies ---- */

/* The object is another one: our own, perhaps. Whose it is, the caller reads. */
START_TEST(own_write) {
  SCRIPT(HANG_UP, REFUSED, HEAD_OF("\"new\""));
  ck_fails(replace(OLD), CLEAT_LOST);
  ck_assert_uint_eq(failed_tries, 1);
  script_end(3);
}
END_TEST

START_TEST(own_write_in_the_other_form) {
  SCRIPT(REFUSED, HEAD_OF(OLD), HANG_UP, REFUSED, HEAD_OF("\"new\""));
  ck_fails(replace(OLD), CLEAT_LOST);
  ck_assert_uint_eq(failed_tries, 1);
  expect_put(4, "old");
  script_end(5);
}
END_TEST

/* A try in the first form may be carried out yet, whatever becomes of the other form. */
START_TEST(tries_of_both_forms_count) {
  SCRIPT(HANG_UP, REFUSED, HEAD_OF(OLD), HANG_UP, OK_REPLY);
  ck_ok(replace(OLD));
  ck_assert_uint_eq(failed_tries, 2);
  script_end(5);
}
END_TEST

/* Two writers meet all the time; nobody has replaced the object. */
START_TEST(conflict_without_a_winner) {
  SCRIPT("HTTP/1.1 409 Conflict\r\nRetry-After: 7\r\nConnection: close\r\n\r\n"
         "<Error><Code>ConditionalRequestConflict</Code></Error>",
         HEAD_OF(OLD));
  ((struct cleat__s3 *)script.store)->retry.budget_ms = 5000;
  ck_fails(replace(OLD), CLEAT_STORE);
  script_expect_header(1, "if-match", OLD);
  script_end(2);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("s3_replace", NULL, NULL, 120),
    TEST(as_it_is_told, 1),
    TEST(without_quotes, 1),
    TEST(with_quotes_where_it_has_none, 1),
    TEST(weak_without_its_mark, 1),
    TEST(learns_anew, 1),
    TEST(another_object, 1),
    TEST(an_object_that_is_gone, 1),
    TEST(in_no_form, 1),
    TEST(replaced_between_the_forms, 1),
    TEST(nobody_can_look, 1),
    TEST(a_refused_condition_becomes_a_look, 1),
    TEST(a_look_finds_another_object, 1),
    TEST(a_look_that_fails, 1),
    TEST(refused_for_another_reason, 1),
    TEST(who_wants_no_look_is_refused, 1),
    TEST(own_write, 1),
    TEST(own_write_in_the_other_form, 1),
    TEST(tries_of_both_forms_count, 1),
    TEST(conflict_without_a_winner, 1),
};

int main(void) {
  return run_table("s3_replace", tests, COUNT(tests));
}
