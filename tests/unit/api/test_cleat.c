/* test_cleat.c: api/cleat.c: NULL arguments, sizes of structs, NULL error structs, names. */
#include "api/cleat.h"

#include "tests/mock/checkpoint_fixture.h"
#include "tests/mock/memory_store.h"
#include "tests/mock/run_suite.h"
#include "tests/mock/store_check.h"

#include <check.h>
#include <string.h>

static struct cleat_error err;

static void setup(void) {
  desk_setup();
  kit_save(client, &model, 1);
}

START_TEST(names) {
  ck_assert_str_eq(cleat_status_name(CLEAT_OK), "OK");
  ck_assert_str_eq(cleat_status_name(CLEAT_NOT_FOUND), "NOT_FOUND");
  ck_assert_str_eq(cleat_status_text(CLEAT_CANCELLED), "cancelled");
  ck_assert_str_eq(cleat_status_name((cleat_status)77), "UNKNOWN");
  ck_assert_str_eq(cleat_status_text((cleat_status)-1), "unknown status");
  ck_assert_str_eq(cleat_version(), CLEAT_VERSION);
  ck_assert_str_eq(cleat_dtype_name(CLEAT_DTYPE_BF16), "BF16");
  ck_assert_uint_eq(cleat_dtype_bits(CLEAT_DTYPE_F4), 4);
  ck_assert_ptr_null(cleat_dtype_name((enum cleat_dtype)0));
  ck_assert_uint_eq(cleat_dtype_bits((enum cleat_dtype)21), 0);
}
END_TEST

START_TEST(null_arguments) {
  struct cleat_save_request request = kit_request(&model, 2);
  struct cleat_checkpoint *checkpoint = kit_checkpoint(client, 1);
  struct cleat_client *none = NULL;
  struct cleat_save *save = NULL;
  struct cleat_list *list = NULL;
  struct cleat_load *load = NULL;
  int64_t step = 0;
  ck_fails(cleat_client_open(NULL, NULL, &none, &err), CLEAT_INVALID);
  ck_fails(cleat_client_open("file:///tmp", NULL, NULL, &err), CLEAT_INVALID);
  ck_fails(cleat_save(NULL, &request, &err), CLEAT_INVALID);
  ck_fails(cleat_save(client, NULL, &err), CLEAT_INVALID);
  ck_fails(cleat_save_async(client, &request, NULL, &err), CLEAT_INVALID);
  ck_fails(cleat_save_async_in_place(NULL, &request, &save, &err), CLEAT_INVALID);
  ck_fails(cleat_save_wait(NULL, &err), CLEAT_INVALID);
  ck_fails(cleat_save_wait_staged(NULL, &err), CLEAT_INVALID);
  request.tensors = NULL;
  ck_fails(cleat_save(client, &request, &err), CLEAT_INVALID);
  request.tensor_count = 0;
  request.file_count = 1;
  ck_fails(cleat_save(client, &request, &err), CLEAT_INVALID);
  ck_fails(cleat_list(NULL, &list, &err), CLEAT_INVALID);
  ck_fails(cleat_list(client, NULL, &err), CLEAT_INVALID);
  ck_fails(cleat_latest(NULL, &step, &err), CLEAT_INVALID);
  ck_fails(cleat_latest(client, NULL, &err), CLEAT_INVALID);
  ck_fails(cleat_checkpoint_open(NULL, 1, &checkpoint, &err), CLEAT_INVALID);
  ck_fails(cleat_checkpoint_open(client, 1, NULL, &err), CLEAT_INVALID);
  ck_fails(cleat_load_tensors(NULL, NULL, 0, NULL, &err), CLEAT_INVALID);
  ck_fails(cleat_load_tensors(checkpoint, NULL, 1, NULL, &err), CLEAT_INVALID);
  ck_fails(cleat_load_tensors_async(checkpoint, NULL, 0, NULL, NULL, &err), CLEAT_INVALID);
  ck_fails(cleat_load_files(NULL, "x", NULL, &err), CLEAT_INVALID);
  ck_fails(cleat_load_files(checkpoint, NULL, NULL, &err), CLEAT_INVALID);
  ck_fails(cleat_load_files_async(checkpoint, "x", NULL, NULL, &err), CLEAT_INVALID);
  ck_fails(cleat_verify(NULL, &err), CLEAT_INVALID);
  ck_fails(cleat_verify_async(NULL, &load, &err), CLEAT_INVALID);
  ck_fails(cleat_verify_async(checkpoint, NULL, &err), CLEAT_INVALID);
  ck_fails(cleat_verify_files(NULL, NULL, 0, &err), CLEAT_INVALID);
  ck_fails(cleat_verify_files(checkpoint, NULL, 1, &err), CLEAT_INVALID);
  ck_fails(cleat_verify_files_async(checkpoint, NULL, 0, NULL, &err), CLEAT_INVALID);
  ck_fails(cleat_load_wait(NULL, &err), CLEAT_INVALID);
  struct cleat_doctor *doctor = NULL;
  ck_fails(cleat_doctor(NULL, &doctor, &err), CLEAT_INVALID);
  ck_fails(cleat_doctor(client, NULL, &err), CLEAT_INVALID);
  ck_fails(cleat_doctor_async(client, NULL, &err), CLEAT_INVALID);
  ck_fails(cleat_doctor_wait(NULL, &err), CLEAT_INVALID);
  cleat_doctor_free(NULL);
  struct cleat_bench *bench = NULL;
  ck_fails(cleat_bench(NULL, NULL, &bench, &err), CLEAT_INVALID);
  ck_fails(cleat_bench(client, NULL, NULL, &err), CLEAT_INVALID);
  ck_fails(cleat_bench_async(client, NULL, NULL, &err), CLEAT_INVALID);
  ck_fails(cleat_bench_wait(NULL, &err), CLEAT_INVALID);
  cleat_bench_free(NULL);
  cleat_save_free(NULL);
  cleat_load_free(NULL);
  cleat_list_free(NULL);
  cleat_client_close(NULL);
  cleat_checkpoint_free(checkpoint);
  cleat_checkpoint_free(NULL);
}
END_TEST

/* Nobody has to ask why. */
START_TEST(no_error_struct) {
  struct cleat_save_request request = kit_request(&model, -2);
  struct cleat_checkpoint *checkpoint = NULL;
  struct cleat_client *none = NULL;
  ck_assert_int_eq(cleat_client_open("nowhere", NULL, &none, NULL), CLEAT_INVALID);
  ck_assert_int_eq(cleat_save(client, &request, NULL), CLEAT_INVALID);
  ck_assert_int_eq(cleat_checkpoint_open(client, 9, &checkpoint, NULL), CLEAT_NOT_FOUND);
  ck_assert_int_eq(cleat_checkpoint_open(client, 1, &checkpoint, NULL), CLEAT_OK);
  ck_assert_int_eq(cleat_load_tensors(checkpoint, NULL, 0, NULL, NULL), CLEAT_MISMATCH);
  memory_flip(bucket, "/model.safetensors", 90);
  ck_assert_int_eq(cleat_verify(checkpoint, NULL), CLEAT_INTEGRITY);
  cleat_checkpoint_free(checkpoint);
}
END_TEST

/* Success leaves the error struct alone. */
START_TEST(success_writes_no_error) {
  struct cleat_error untouched;
  memset(&err, 0x5a, sizeof err);
  memset(&untouched, 0x5a, sizeof untouched);
  struct cleat_save_request request = kit_request(&model, 2);
  struct cleat_list *list = NULL;
  int64_t step = 0;
  ck_assert_int_eq(cleat_save(client, &request, &err), CLEAT_OK);
  ck_assert_int_eq(cleat_list(client, &list, &err), CLEAT_OK);
  ck_assert_int_eq(cleat_latest(client, &step, &err), CLEAT_OK);
  ck_assert(memcmp(&err, &untouched, sizeof err) == 0);
  cleat_list_free(list);
}
END_TEST

/* A caller that was built with an older header knows fewer fields; one with a newer, more. */
START_TEST(sizes_of_structs) {
  struct {
    struct cleat_save_request request;
    char more[64];
  } newer = {.request = kit_request(&model, 2)};
  newer.request.struct_bytes = sizeof newer;
  memset(newer.more, 0x77, sizeof newer.more);
  ck_ok(cleat_save(client, &newer.request, &err));

  struct cleat_save_request older = kit_request(&model, 3);
  older.struct_bytes = offsetof(struct cleat_save_request, metadata);
  older.metadata = (const char *)1; /* beyond what that caller knows */
  older.if_exists = (enum cleat_if_exists)99;
  older.shard_bytes = 1;
  ck_ok(cleat_save(client, &older, &err));
  kit_expect(client, 3, &model, false);

  static const size_t bad[] = {0, 1, sizeof(size_t) - 1, 4097, SIZE_MAX};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    struct cleat_save_request request = kit_request(&model, 4);
    struct cleat_client_options options = CLEAT_CLIENT_OPTIONS_INIT;
    struct cleat_client *none = NULL;
    request.struct_bytes = bad[i];
    options.struct_bytes = bad[i];
    ck_fails(cleat_save(client, &request, &err), CLEAT_INVALID);
    ck_assert_ptr_nonnull(strstr(err.hint, "_INIT"));
    ck_fails(cleat_client_open("file:///tmp", &options, &none, &err), CLEAT_INVALID);
  }
}
END_TEST

START_TEST(a_doctor_tells_nothing_before_its_end) {
  struct cleat_doctor *doctor = NULL;
  memory_hold(bucket, "put", "doctor-");
  ck_ok(cleat_doctor_async(client, &doctor, &err));
  memory_wait_held(bucket, 1);
  ck_assert_int_eq(cleat_doctor_ended(doctor), 0);
  ck_assert_int_eq(cleat_doctor_safe(doctor), 0);
  ck_assert_uint_eq(cleat_doctor_count(doctor), 0);
  ck_assert_ptr_null(cleat_doctor_check(doctor, 0));
  cleat_doctor_cancel(doctor);
  ck_fails(cleat_doctor_wait(doctor, &err), CLEAT_CANCELLED);
  ck_assert_int_eq(cleat_doctor_ended(doctor), 1);
  ck_assert_int_eq(cleat_doctor_safe(doctor), 0);
  ck_assert_uint_eq(cleat_doctor_count(doctor), 0);
  cleat_doctor_free(doctor);
  memory_release(bucket);
  ck_assert_uint_eq(memory_count(bucket, "doctor-"), 0);
}
END_TEST

START_TEST(a_doctor_reports) {
  struct cleat_doctor *doctor = NULL;
  ck_ok(cleat_doctor(client, &doctor, &err));
  size_t count = cleat_doctor_count(doctor);
  ck_assert_uint_eq(count, 24);
  ck_assert_int_eq(cleat_doctor_safe(doctor), 1);
  ck_assert_str_eq(cleat_doctor_check(doctor, 0)->name, "keys");
  ck_assert_str_eq(cleat_doctor_check(doctor, count - 1)->name, "clean-up");
  ck_assert_ptr_null(cleat_doctor_check(doctor, count));
  cleat_doctor_cancel(doctor); /* too late */
  ck_ok(cleat_doctor_wait(doctor, &err));
  ck_assert_uint_eq(cleat_doctor_count(doctor), count);
  cleat_doctor_free(doctor);
  ck_assert_str_eq(cleat_check_result_name(CLEAT_CHECK_IGNORED), "ignored");
  ck_assert_str_eq(cleat_check_result_name((enum cleat_check_result)99), "unknown");
}
END_TEST

START_TEST(a_bench_tells_nothing_before_its_end) {
  struct cleat_bench_progress progress;
  struct cleat_bench *bench = NULL;
  memory_hold(bucket, "put", "bench-");
  ck_ok(cleat_bench_async(client, NULL, &bench, &err));
  memory_wait_held(bucket, 1);
  cleat_bench_progress(bench, &progress);
  ck_assert_int_eq(progress.ended, 0);
  ck_assert_int_eq(progress.stage, CLEAT_BENCH_LATENCY);
  ck_assert_ptr_null(cleat_bench_report(bench));
  cleat_bench_cancel(bench);
  ck_fails(cleat_bench_wait(bench, &err), CLEAT_CANCELLED);
  cleat_bench_progress(bench, &progress);
  ck_assert_int_eq(progress.ended, 1);
  ck_assert_ptr_null(cleat_bench_report(bench));
  cleat_bench_free(bench);
  memory_release(bucket);
  ck_assert_uint_eq(memory_count(bucket, "bench-"), 0);
}
END_TEST

START_TEST(a_bench_reports) {
  struct cleat_bench *bench = NULL;
  struct cleat_bench_options options = CLEAT_BENCH_OPTIONS_INIT;
  options.max_bytes = 4 * KIT_PART;
  ck_ok(cleat_bench(client, &options, &bench, &err));
  const struct cleat_bench_report *report = cleat_bench_report(bench);
  ck_assert_ptr_nonnull(report);
  cleat_bench_cancel(bench); /* too late */
  ck_ok(cleat_bench_wait(bench, &err));
  ck_assert_ptr_eq(cleat_bench_report(bench), report);
  cleat_bench_free(bench);
  options.struct_bytes = 1;
  ck_fails(cleat_bench(client, &options, &bench, &err), CLEAT_INVALID);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("cleat", setup, desk_teardown, 0),
    TEST(names, 1),
    TEST(null_arguments, 1),
    TEST(no_error_struct, 1),
    TEST(success_writes_no_error, 1),
    TEST(sizes_of_structs, 1),
    TEST(a_doctor_tells_nothing_before_its_end, 1),
    TEST(a_doctor_reports, 1),
    TEST(a_bench_tells_nothing_before_its_end, 1),
    TEST(a_bench_reports, 1),
};

int main(void) {
  return run_table("cleat", tests, COUNT(tests));
}
