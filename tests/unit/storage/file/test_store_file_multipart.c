/* test_store_file_multipart.c: storage/file/multipart.c. */
#include "storage/common/store.h"

#include "base/checksum.h"
#include "base/mem.h"
#include "tests/mock/run_suite.h"
#include "tests/mock/scratch.h"

#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HEADER 264 /* of a journal */
#define PART 5000u
#define PARTS_MAX 16u

static struct cleat_error err;
static struct cleat__store *store;
static struct cleat__upload upload;
static struct cleat__stored_part parts[PARTS_MAX];
static char bytes[PART * PARTS_MAX];

static void setup(void) {
  scratch_make();
  store = scratch_store("root");
  for (size_t i = 0; i < sizeof bytes; i++)
    bytes[i] = (char)(i * 31 + i / 257);
}

static void teardown(void) {
  cleat__store_close(store);
  scratch_remove();
}

static cleat_status begin(const char *key, uint64_t size) {
  memset(&upload, 0, sizeof upload);
  snprintf(upload.key, sizeof upload.key, "%s", key);
  upload.size = size;
  upload.part_bytes = PART;
  return cleat__store_multipart_create(store, &upload, NULL, cleat__call(&scratch_go_on, &err));
}

static uint32_t count_of(uint64_t size) {
  return (uint32_t)((size + PART - 1) / PART);
}

/* Stores part `number` in two spans, by any store. */
static cleat_status store_part(struct cleat__store *by, uint32_t number, struct cleat_error *error) {
  size_t offset = (size_t)(number - 1) * PART;
  size_t size = upload.size - offset < PART ? (size_t)upload.size - offset : PART;
  struct cleat__span body[] = {{bytes + offset, size / 3}, {bytes + offset + size / 3, size - size / 3}};
  struct cleat__stored_part *part = &parts[number - 1];
  *part = (struct cleat__stored_part){.number = number, .size = size, .crc32c = cleat__crc32c(0, bytes + offset, size)};
  return cleat__store_multipart_part(by, &upload, cleat__spans(body, 2), part, cleat__call(&scratch_go_on, error));
}

static cleat_status complete(void) {
  return cleat__store_multipart_complete(store, &upload, parts, count_of(upload.size),
                                         cleat__call(&scratch_go_on, &err));
}

static cleat_status abort_upload(void) {
  return cleat__store_multipart_abort(store, &upload, cleat__call(&scratch_go_on, &err));
}

static void expect_object(const char *key, size_t size) {
  static char back[sizeof bytes];
  struct cleat__object object;
  uint32_t crc = 0;
  must(cleat__store_head(store, key, &object, cleat__call(&scratch_go_on, &err)));
  ck_assert_uint_eq(object.size, size);
  must(cleat__store_get(store, key, 0, cleat__spans(&(struct cleat__span){back, size}, 1), &crc,
                        cleat__call(&scratch_go_on, &err)));
  ck_assert(memcmp(back, bytes, size) == 0);
}

static const size_t sizes[] = {0, 1, PART - 1, PART, PART + 1, 2 * PART, 7 * PART + 3, PARTS_MAX *PART};

START_TEST(parts_in_reverse_order) {
  unsigned fds = scratch_fds();
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    must(begin("a/b/k", sizes[i]));
    for (uint32_t number = count_of(sizes[i]); number >= 1; number--) {
      must(store_part(store, number, &err));
      ck_assert(parts[number - 1].has_crc32c);
      ck_assert_str_ne(parts[number - 1].etag, "");
    }
    must(complete());
    expect_object("a/b/k", sizes[i]);
    ck_assert_str_eq(scratch_tree("root"), "a/\na/b/\na/b/k\n");
  }
  ck_assert_uint_eq(scratch_fds(), fds);
}
END_TEST

START_TEST(invisible_until_complete) {
  struct cleat__object object;
  struct cleat__list_page page;
  must(begin("a/k", 2 * PART));
  must(store_part(store, 1, &err));
  must(store_part(store, 2, &err));
  must_fail(CLEAT_NOT_FOUND, cleat__store_head(store, "a/k", &object, cleat__call(&scratch_go_on, &err)));
  must(cleat__store_list(store, "", false, NULL, &page, cleat__call(&scratch_go_on, &err)));
  ck_assert_uint_eq(page.count, 0);
  cleat__list_page_clear(&page);
  must(complete());
  expect_object("a/k", 2 * PART);
}
END_TEST

START_TEST(abort_leaves_nothing) {
  unsigned fds = scratch_fds();
  struct cleat__stored_part *found = NULL;
  size_t count = 0;
  must(begin("a/b/k", 3 * PART));
  must(store_part(store, 2, &err));
  must(abort_upload());
  ck_assert_str_eq(scratch_tree("root"), "");
  must_fail(CLEAT_NOT_FOUND,
            cleat__store_multipart_list_parts(store, &upload, &found, &count, cleat__call(&scratch_go_on, &err)));
  must_fail(CLEAT_NOT_FOUND, store_part(store, 1, &err));
  must_fail(CLEAT_NOT_FOUND, complete());
  must(abort_upload());
  ck_assert_str_eq(scratch_tree("root"), "");
  ck_assert_uint_eq(scratch_fds(), fds);
}
END_TEST

START_TEST(abort_after_complete_keeps_the_object) {
  must(begin("k", PART));
  must(store_part(store, 1, &err));
  must(complete());
  must(abort_upload());
  expect_object("k", PART);
}
END_TEST

START_TEST(complete_needs_every_part) {
  must(begin("k", 3 * PART));
  must(store_part(store, 1, &err));
  must(store_part(store, 3, &err));
  parts[1] = parts[0];
  parts[1].number = 2;
  must_fail(CLEAT_INTEGRITY, complete());
  ck_assert_ptr_nonnull(strstr(err.message, "part 2 was not stored"));
  must_fail(CLEAT_INVALID,
            cleat__store_multipart_complete(store, &upload, parts, 2, cleat__call(&scratch_go_on, &err)));
  must_fail(CLEAT_INVALID,
            cleat__store_multipart_complete(store, &upload, parts, 4, cleat__call(&scratch_go_on, &err)));
  must(store_part(store, 2, &err));
  parts[2].crc32c ^= 1;
  must_fail(CLEAT_INTEGRITY, complete());
  parts[2].crc32c ^= 1;
  must(complete());
  expect_object("k", 3 * PART);
}
END_TEST

START_TEST(a_part_may_be_stored_again) {
  must(begin("k", 2 * PART));
  must(store_part(store, 1, &err));
  bytes[7] ^= 1;
  must(store_part(store, 1, &err));
  must(store_part(store, 2, &err));
  must(complete());
  expect_object("k", 2 * PART);
}
END_TEST

START_TEST(parts_of_the_wrong_size_or_sum) {
  struct cleat__span body = {bytes, PART};
  static const struct {
    uint32_t number;
    uint64_t size;
    size_t length;
  } wrong[] = {{0, PART, PART},          {1, PART - 1, PART - 1}, {1, PART, PART - 1},
               {1, PART - 1, PART},      {2, PART, PART},         {3, 1, 1},
               {UINT32_MAX, PART, PART}, {1, PART + 1, PART + 1}, {2, 0, 0}};
  must(begin("k", PART + 10));
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    struct cleat__stored_part part = {.number = wrong[i].number, .size = wrong[i].size};
    body.length = wrong[i].length;
    must_fail(CLEAT_INVALID, cleat__store_multipart_part(store, &upload, cleat__spans(&body, 1), &part,
                                                         cleat__call(&scratch_go_on, &err)));
  }
  struct cleat__stored_part part = {.number = 1, .size = PART, .crc32c = 1};
  body.length = PART;
  must_fail(CLEAT_INTEGRITY, cleat__store_multipart_part(store, &upload, cleat__spans(&body, 1), &part,
                                                         cleat__call(&scratch_go_on, &err)));
  must(store_part(store, 2, &err));
  must_fail(CLEAT_INTEGRITY, complete());
  must(abort_upload());
  ck_assert_str_eq(scratch_tree("root"), "");
}
END_TEST

START_TEST(limits_of_create) {
  must_fail(CLEAT_LIMIT, begin("k", UINT64_C(10001) * PART));
  memset(&upload, 0, sizeof upload);
  snprintf(upload.key, sizeof upload.key, "k");
  must_fail(CLEAT_LIMIT, cleat__store_multipart_create(store, &upload, NULL, cleat__call(&scratch_go_on, &err)));
  ck_assert_str_eq(scratch_tree(""), "");
}
END_TEST

struct sender {
  pthread_t thread;
  uint32_t first;
  cleat_status status;
};

static void *send_parts(void *arg) {
  struct sender *sender = arg;
  struct cleat_error mine;
  for (uint32_t number = sender->first; number <= PARTS_MAX && sender->status == CLEAT_OK; number += 4)
    sender->status = store_part(store, number, &mine);
  return NULL;
}

START_TEST(parts_in_parallel) {
  for (int round = 0; round < 5; round++) {
    struct sender senders[4];
    must(begin("k", sizeof bytes));
    for (uint32_t i = 0; i < 4; i++) {
      senders[i] = (struct sender){.first = i + 1};
      ck_assert_int_eq(pthread_create(&senders[i].thread, NULL, send_parts, &senders[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
      pthread_join(senders[i].thread, NULL);
      ck_assert_int_eq(senders[i].status, CLEAT_OK);
    }
    must(complete());
    expect_object("k", sizeof bytes);
  }
}
END_TEST

/* A second store on the same folder knows nothing of the first but what is on disk. */
START_TEST(another_process_goes_on) {
  struct cleat__store *other = scratch_store("root");
  struct cleat__stored_part *found = NULL;
  size_t count = 99;
  must(begin("a/k", 4 * PART + 1));
  must(cleat__store_multipart_list_parts(other, &upload, &found, &count, cleat__call(&scratch_go_on, &err)));
  ck_assert_uint_eq(count, 0);
  cleat__free(found);
  must(store_part(store, 4, &err));
  must(store_part(store, 1, &err));
  must(store_part(other, 5, &err));
  must(cleat__store_multipart_list_parts(other, &upload, &found, &count, cleat__call(&scratch_go_on, &err)));
  ck_assert_uint_eq(count, 3);
  static const uint32_t numbers[] = {1, 4, 5};
  for (size_t i = 0; i < 3; i++) {
    const struct cleat__stored_part *sent = &parts[numbers[i] - 1];
    ck_assert_uint_eq(found[i].number, sent->number);
    ck_assert_uint_eq(found[i].size, sent->size);
    ck_assert_uint_eq(found[i].crc32c, sent->crc32c);
    ck_assert(found[i].has_crc32c);
    ck_assert_str_eq(found[i].etag, sent->etag);
  }
  cleat__free(found);
  must(store_part(other, 2, &err));
  must(store_part(other, 3, &err));
  must(cleat__store_multipart_complete(other, &upload, parts, 5, cleat__call(&scratch_go_on, &err)));
  expect_object("a/k", 4 * PART + 1);
  /* The first did not hear of it: the object stands, so its complete is a success. */
  must(complete());
  ck_assert_str_eq(scratch_tree("root"), "a/\na/k\n");
  must(abort_upload());
  cleat__store_close(other);
}
END_TEST

START_TEST(a_lost_reply_is_settled) {
  must(begin("k", PART));
  must(store_part(store, 1, &err));
  must(complete());
  must(complete());
  expect_object("k", PART);
  scratch_write("root/k", "other", 5);
  must_fail(CLEAT_NOT_FOUND, complete());
}
END_TEST

START_TEST(ids_that_are_none) {
  static const char *const ids[] = {
      "", "..", "../../x", "00", "0123456789abcdef0123456789abcdef", "zz23456789abcdef0123456789abcdef"};
  for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
    struct cleat__stored_part *found = NULL;
    size_t count = 0;
    must(begin("k", PART));
    must(abort_upload());
    snprintf(upload.id, sizeof upload.id, "%s", ids[i]);
    must_fail(CLEAT_NOT_FOUND, store_part(store, 1, &err));
    must_fail(CLEAT_NOT_FOUND, complete());
    must_fail(CLEAT_NOT_FOUND,
              cleat__store_multipart_list_parts(store, &upload, &found, &count, cleat__call(&scratch_go_on, &err)));
    must(abort_upload());
  }
}
END_TEST

static const char *hidden(const char *suffix) {
  static char name[1200];
  snprintf(name, sizeof name, "root/.cleat-upload-%s%s", upload.id, suffix);
  return name;
}

START_TEST(a_damaged_journal_is_not_believed) {
  struct cleat__stored_part *found = NULL;
  size_t count = 0;
  must(begin("k", 3 * PART));
  for (uint32_t number = 1; number <= 3; number++)
    must(store_part(store, number, &err));
  FILE *file = fopen(scratch_path(hidden(".parts")), "r+b");
  ck_assert_ptr_nonnull(file);
  /* In the checksum of part 2. */
  ck_assert_int_eq(fseek(file, HEADER + 24 + 16, SEEK_SET), 0);
  fputc((int)(parts[1].crc32c & 0xff) ^ 1, file);
  fclose(file);
  must(cleat__store_multipart_list_parts(store, &upload, &found, &count, cleat__call(&scratch_go_on, &err)));
  ck_assert_uint_eq(count, 2);
  ck_assert_uint_eq(found[1].number, 3);
  cleat__free(found);
  must_fail(CLEAT_INTEGRITY, complete());
  ck_assert_int_eq(truncate(scratch_path(hidden(".parts")), HEADER + 30), 0);
  must(cleat__store_multipart_list_parts(store, &upload, &found, &count, cleat__call(&scratch_go_on, &err)));
  ck_assert_uint_eq(count, 1);
  cleat__free(found);
}
END_TEST

START_TEST(a_cut_upload_is_not_completed) {
  struct cleat__object object;
  must(begin("k", 2 * PART));
  must(store_part(store, 1, &err));
  must(store_part(store, 2, &err));
  ck_assert_int_eq(truncate(scratch_path(hidden("")), 2 * PART - 1), 0);
  must_fail(CLEAT_INTEGRITY, complete());
  must_fail(CLEAT_NOT_FOUND, cleat__store_head(store, "k", &object, cleat__call(&scratch_go_on, &err)));
}
END_TEST

/* More uploads than files are held open for. */
START_TEST(many_uploads_at_once) {
  static struct cleat__upload uploads[200];
  unsigned fds = scratch_fds();
  for (int i = 0; i < 200; i++) {
    char key[16];
    snprintf(key, sizeof key, "d/%d", i);
    must(begin(key, 2 * PART));
    must(store_part(store, 1, &err));
    uploads[i] = upload;
  }
  ck_assert_uint_le(scratch_fds(), fds + 128);
  for (int i = 0; i < 200; i++) {
    upload = uploads[i];
    must(store_part(store, 2, &err));
    if (i % 3 == 0) {
      must(abort_upload());
      continue;
    }
    must(store_part(store, 1, &err));
    must(complete());
    expect_object(upload.key, 2 * PART);
  }
  ck_assert_uint_eq(scratch_fds(), fds);
}
END_TEST

START_TEST(closing_lets_go_of_unfinished_uploads) {
  unsigned fds = scratch_fds();
  /* Ended uploads leave room for others. */
  for (int i = 0; i < 200; i++) {
    must(begin("k", PART));
    must(abort_upload());
  }
  for (int i = 0; i < 3; i++)
    must(begin("k", PART));
  ck_assert_uint_eq(scratch_fds(), fds + 3);
  cleat__store_close(store);
  store = scratch_store("root");
  ck_assert_uint_eq(scratch_fds(), fds);
}
END_TEST

/* What feeds a part, from `bytes`. */
static uint64_t feed_end;
static cleat_status read_bytes(void *ctx, uint64_t offset, void *to, size_t size, struct cleat_error *error) {
  (void)ctx;
  if (offset + size > feed_end)
    return cleat__error_set(error, CLEAT_CHANGED, "it became shorter");
  memcpy(to, bytes + offset, size);
  return CLEAT_OK;
}

static cleat_status feed_part(uint64_t size, uint32_t crc32c) {
  struct cleat__feed feed = {size, read_bytes, NULL};
  parts[0] = (struct cleat__stored_part){.number = 1, .size = size, .crc32c = crc32c};
  return cleat__store_multipart_feed(store, &upload, &feed, &parts[0], cleat__call(&scratch_go_on, &err));
}

START_TEST(parts_that_are_fed) {
  unsigned fds = scratch_fds();
  uint32_t crc32c = cleat__crc32c(0, bytes, PART);
  must(begin("k", PART));
  feed_end = PART - 1;
  must_fail(CLEAT_CHANGED, feed_part(PART, crc32c));
  ck_assert_str_eq(err.message, "it became shorter");
  must_fail(CLEAT_INTEGRITY, complete());
  feed_end = PART;
  must_fail(CLEAT_INVALID, feed_part(PART - 1, crc32c));
  must_fail(CLEAT_INTEGRITY, feed_part(PART, crc32c ^ 1)); /* another than was announced */
  must_fail(CLEAT_INTEGRITY, complete());
  cleat__fault_arm(2, false); /* behind the block's memory: the first write */
  must_fail(CLEAT_IO, feed_part(PART, crc32c));
  cleat__fault_disarm();
  must(feed_part(PART, crc32c));
  must(complete());
  ck_assert_uint_eq(scratch_fds(), fds);
}
END_TEST

START_TEST(cancelled_parts) {
  atomic_bool cancel = true;
  struct cleat__stored_part part = {.number = 1, .size = PART, .crc32c = cleat__crc32c(0, bytes, PART)};
  must(begin("k", PART));
  must_fail(CLEAT_CANCELLED,
            cleat__store_multipart_part(store, &upload, cleat__spans(&(struct cleat__span){bytes, PART}, 1), &part,
                                        cleat__call(&cancel, &err)));
  must_fail(CLEAT_INTEGRITY, complete());
}
END_TEST

static cleat_status whole_upload(void) {
  cleat_status status = begin("a/k", 2 * PART);
  if (status != CLEAT_OK)
    return status;
  status = store_part(store, 2, &err);
  if (status == CLEAT_OK)
    status = store_part(store, 1, &err);
  if (status == CLEAT_OK)
    status = complete();
  struct cleat_error first = err;
  if (status != CLEAT_OK)
    ck_assert_int_eq(abort_upload(), CLEAT_OK);
  err = first;
  return status;
}

/* Random bytes, the memory for a pin, the reservation, a write for each part; then the sync of the
 * file, the new name, and the sync of its folder. */
START_TEST(what_is_complete_is_synced) {
  must(begin("a/old", 0));
  must(complete());
  cleat__fault_arm(0, false);
  must(whole_upload());
  ck_assert_uint_eq(cleat__fault_disarm(), 3 + 2 + 3);
}
END_TEST

/* An upload whose nth call fails: whole or absent, and nothing hidden left after the abort. */
START_TEST(every_failing_call) {
  unsigned fds = scratch_fds();
  must(begin("k", 0));
  must(abort_upload());
  cleat__fault_arm(0, false);
  must(whole_upload());
  unsigned long calls = cleat__fault_disarm();
  unsigned failed = 0;
  for (unsigned long n = 1; n <= calls; n++) {
    must(cleat__store_remove(store, "a/k", cleat__call(&scratch_go_on, &err)));
    cleat__fault_arm(n, false);
    cleat__error_clear(&err);
    cleat_status status = whole_upload();
    cleat__fault_disarm();
    failed += status != CLEAT_OK;
    ck_assert(status == CLEAT_OK || err.message[0] != '\0');
    if (strcmp(scratch_tree("root"), "") == 0) {
      ck_assert_int_ne(status, CLEAT_OK);
      continue;
    }
    ck_assert_str_eq(scratch_tree("root"), "a/\na/k\n");
    expect_object("a/k", 2 * PART);
  }
  /* Only the memory for a pin can be done without. */
  ck_assert_uint_eq(failed, calls - 1);
  ck_assert_uint_eq(scratch_fds(), fds);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("store_file_multipart", setup, teardown, 120),
    TEST(parts_in_reverse_order, 1),
    TEST(invisible_until_complete, 1),
    TEST(abort_leaves_nothing, 1),
    TEST(abort_after_complete_keeps_the_object, 1),
    TEST(complete_needs_every_part, 1),
    TEST(a_part_may_be_stored_again, 1),
    TEST(parts_of_the_wrong_size_or_sum, 1),
    TEST(limits_of_create, 1),
    TEST(parts_in_parallel, 1),
    TEST(another_process_goes_on, 1),
    TEST(a_lost_reply_is_settled, 1),
    TEST(ids_that_are_none, 1),
    TEST(a_damaged_journal_is_not_believed, 1),
    TEST(a_cut_upload_is_not_completed, 1),
    TEST(many_uploads_at_once, 1),
    TEST(closing_lets_go_of_unfinished_uploads, 1),
    TEST(parts_that_are_fed, 1),
    TEST(cancelled_parts, 1),
    TEST(what_is_complete_is_synced, 1),
    TEST(every_failing_call, 1),
};

int main(void) {
  return run_table("store_file_multipart", tests, COUNT(tests));
}
