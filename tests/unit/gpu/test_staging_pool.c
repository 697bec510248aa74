/* test_staging_pool.c: gpu/staging_pool.c and device_host.c. */
#include "gpu/staging_pool.h"

#include "base/mem.h"
#include "tests/mock/run_suite.h"
#include "tests/mock/store_check.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static struct cleat_error err;

static struct cleat__staging *make(uint64_t total, uint64_t buffer) {
  struct cleat__staging *staging = NULL;
  ck_ok(cleat__staging_new(cleat__device_host(), total, buffer, true, &staging, &err));
  return staging;
}

START_TEST(counts) {
  struct cleat__staging *staging = make(3 * 4096 + 4095, 4096);
  ck_assert_uint_eq(cleat__staging_buffer_count(staging), 3);
  ck_assert_uint_eq(cleat__staging_buffer_bytes(staging), 4096);
  ck_assert_uint_eq(cleat__staging_free_count_locked(staging), 3);
  ck_assert_uint_eq(cleat__staging_buffers_for(staging, 0), 0);
  ck_assert_uint_eq(cleat__staging_buffers_for(staging, 1), 1);
  ck_assert_uint_eq(cleat__staging_buffers_for(staging, 4096), 1);
  ck_assert_uint_eq(cleat__staging_buffers_for(staging, 4097), 2);
  ck_assert_uint_eq(cleat__staging_buffers_for(staging, UINT64_MAX), (size_t)1 << 52);
  cleat__staging_free(staging);
}
END_TEST

/* How many of a pool's four pages are in memory before anybody has touched them. */
static int resident_pages(bool resident) {
  struct cleat__staging *staging = NULL;
  void *buffers[4];
  unsigned char in_memory[4] = {0};
  ck_ok(cleat__staging_new(cleat__device_host(), sizeof buffers / sizeof buffers[0] * 4096, 4096, resident, &staging,
                           &err));
  ck_assert(cleat__staging_take_locked(staging, 4, buffers));
  ck_assert_int_eq(mincore(buffers[0], sizeof in_memory * 4096, in_memory), 0);
  cleat__staging_give_locked(staging, 4, buffers);
  cleat__staging_free(staging);
  return (in_memory[0] & 1) + (in_memory[1] & 1) + (in_memory[2] & 1) + (in_memory[3] & 1);
}

/* A trainer's first fence must not pay for faults; a program that saves once must not for memory that
 * it never uses. */
START_TEST(resident_at_once_or_on_demand) {
  ck_assert_int_eq(resident_pages(true), 4);
  ck_assert_int_eq(resident_pages(false), 0);
}
END_TEST

/* All different, all writable, none beyond the budget. */
START_TEST(all_or_none) {
  struct cleat__staging *staging = make(4 * 4096, 4096);
  void *buffers[5];
  ck_assert(!cleat__staging_take_locked(staging, 5, buffers));
  ck_assert_uint_eq(cleat__staging_free_count_locked(staging), 4);
  ck_assert(cleat__staging_take_locked(staging, 3, buffers));
  ck_assert(!cleat__staging_take_locked(staging, 2, buffers + 3));
  ck_assert(cleat__staging_take_locked(staging, 1, buffers + 3));
  ck_assert(!cleat__staging_take_locked(staging, 1, buffers + 4));
  ck_assert(cleat__staging_take_locked(staging, 0, buffers + 4));
  for (int i = 0; i < 4; i++) {
    ck_assert_uint_eq((uintptr_t)buffers[i] % 4096, 0);
    memset(buffers[i], i + 1, 4096);
  }
  for (int i = 0; i < 4; i++) {
    const char *bytes = buffers[i];
    for (int k = 0; k < 4096; k++)
      ck_assert_int_eq(bytes[k], i + 1);
  }
  cleat__staging_give_locked(staging, 4, buffers);
  ck_assert_uint_eq(cleat__staging_free_count_locked(staging), 4);
  cleat__staging_free(staging);
}
END_TEST

/* What was given back last is taken first: its pages are warm. */
START_TEST(last_in_first_out) {
  struct cleat__staging *staging = make(4 * 4096, 4096);
  void *buffers[4];
  void *again[2];
  ck_assert(cleat__staging_take_locked(staging, 4, buffers));
  cleat__staging_give_locked(staging, 1, &buffers[2]);
  cleat__staging_give_locked(staging, 1, &buffers[0]);
  ck_assert(cleat__staging_take_locked(staging, 2, again));
  ck_assert_ptr_eq(again[0], buffers[0]);
  ck_assert_ptr_eq(again[1], buffers[2]);
  cleat__staging_give_locked(staging, 4, buffers);
  cleat__staging_free(staging);
}
END_TEST

#define SLICE 8192
#define BUFFER (CLEAT__STAGING_SLICES * SLICE)

/* Small parts share a buffer; it is whole again once all of them are back, in whatever order. */
START_TEST(small_parts_share_a_buffer) {
  struct cleat__staging *staging = make(3 * BUFFER, BUFFER);
  void *slices[3 * CLEAT__STAGING_SLICES];
  void *buffers[3];
  const size_t count = sizeof slices / sizeof slices[0];
  ck_assert_uint_eq(cleat__staging_slice_bytes(staging), SLICE);
  ck_assert(cleat__staging_take_locked(staging, 1, buffers));
  for (size_t i = 0; i < 2 * CLEAT__STAGING_SLICES; i++) {
    ck_assert_uint_eq(cleat__staging_free_count_locked(staging), i == 0 ? 2 : i <= 16 ? 1 : 0);
    ck_assert(cleat__staging_take_slice_locked(staging, &slices[i]));
    ck_assert_uint_eq((uintptr_t)slices[i] % 4096, 0);
    memset(slices[i], (int)i, SLICE);
  }
  ck_assert(!cleat__staging_take_slice_locked(staging, &slices[0]));
  cleat__staging_give_locked(staging, 1, buffers);
  for (size_t i = 2 * CLEAT__STAGING_SLICES; i < count; i++) {
    ck_assert(cleat__staging_take_slice_locked(staging, &slices[i]));
    memset(slices[i], (int)i, SLICE);
  }
  for (size_t i = 0; i < count; i++) {
    const unsigned char *bytes = slices[i];
    ck_assert_uint_eq(bytes[0], i);
    ck_assert_uint_eq(bytes[SLICE - 1], i);
  }
  /* Every third, then the rest, the last ones first. */
  for (size_t i = 0; i < count; i += 3)
    cleat__staging_give_locked(staging, 1, &slices[i]);
  ck_assert(!cleat__staging_take_locked(staging, 1, buffers));
  ck_assert(cleat__staging_take_slice_locked(staging, &slices[0]));
  for (size_t i = count; i-- > 1;)
    if (i % 3 != 0)
      cleat__staging_give_locked(staging, 1, &slices[i]);
  ck_assert_uint_eq(cleat__staging_free_count_locked(staging), 2);
  cleat__staging_give_locked(staging, 1, &slices[0]);
  ck_assert(cleat__staging_take_locked(staging, 3, buffers));
  cleat__staging_give_locked(staging, 3, buffers);
  cleat__staging_free(staging);
}
END_TEST

START_TEST(no_slices_of_less_than_a_page) {
  struct cleat__staging *staging = make(4 * 4096, 4096);
  void *slice = NULL;
  ck_assert_uint_eq(cleat__staging_slice_bytes(staging), 0);
  ck_assert(!cleat__staging_take_slice_locked(staging, &slice));
  ck_assert_uint_eq(cleat__staging_free_count_locked(staging), 4);
  cleat__staging_free(staging);
}
END_TEST

START_TEST(refused) {
  struct cleat__staging *staging = NULL;
  struct cleat__device *host = cleat__device_host();
  ck_fails(cleat__staging_new(host, 4095, 4096, true, &staging, &err), CLEAT_LIMIT);
  ck_assert_ptr_nonnull(strstr(err.hint, "staging_bytes"));
  ck_fails(cleat__staging_new(host, 4096, 0, true, &staging, &err), CLEAT_LIMIT);
  ck_fails(cleat__staging_new(host, UINT64_MAX, 4096, true, &staging, &err), CLEAT_LIMIT);
  /* More than the address space has: the system says no. */
  memset(&err, 0, sizeof err);
  ck_fails(cleat__staging_new(host, 1ull << 47, 1ull << 40, true, &staging, &err), CLEAT_NO_MEMORY);
  ck_assert_ptr_nonnull(strstr(err.hint, "staging_bytes"));
  ck_assert_ptr_null(staging);
  for (unsigned long n = 1; n <= 4; n++) {
    cleat__fault_arm(n, false);
    ck_fails(cleat__staging_new(host, 4096, 4096, true, &staging, &err), CLEAT_NO_MEMORY);
    ck_assert_uint_eq(cleat__fault_disarm(), n);
  }
  cleat__staging_free(NULL);
}
END_TEST

START_TEST(the_host_copies) {
  struct cleat__device *host = cleat__device_host();
  char from[100];
  char to[100] = {0};
  for (int i = 0; i < 100; i++)
    from[i] = (char)i;
  ck_assert_str_eq(host->ops->name, "host");
  struct cleat__queue *queue = cleat__device_host_queue();
  ck_assert_ptr_eq(queue->device, host);
  struct cleat__copy copies[] = {{.to = to, .from = from, .row_bytes = 50, .rows = 1},
                                 {.to = to + 50, .from = from + 50, .row_bytes = 50, .rows = 1}};
  ck_ok(host->ops->submit(queue, copies, 2, &err));
  ck_ok(host->ops->wait(queue, &err));
  ck_assert(memcmp(to, from, 100) == 0);
}
END_TEST

/* Columns 2 and 3 of five rows, out of rows of ten into rows of three. */
START_TEST(the_host_copies_rows) {
  struct cleat__queue *queue = cleat__device_host_queue();
  char from[50];
  char to[15];
  for (int i = 0; i < 50; i++)
    from[i] = (char)i;
  memset(to, 99, sizeof to);
  struct cleat__copy rows = {.to = to, .from = from + 2, .row_bytes = 2, .rows = 5, .to_pitch = 3, .from_pitch = 10};
  ck_ok(queue->device->ops->submit(queue, &rows, 1, &err));
  for (int i = 0; i < 15; i++)
    ck_assert_int_eq(to[i], i % 3 == 2 ? 99 : i / 3 * 10 + 2 + i % 3);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("staging_pool", NULL, NULL, 0),
    TEST(counts, 1),
    TEST(resident_at_once_or_on_demand, 1),
    TEST(all_or_none, 1),
    TEST(last_in_first_out, 1),
    TEST(small_parts_share_a_buffer, 1),
    TEST(no_slices_of_less_than_a_page, 1),
    TEST(refused, 1),
    TEST(the_host_copies, 1),
    TEST(the_host_copies_rows, 1),
};

int main(void) {
  return run_table("staging_pool", tests, COUNT(tests));
}
