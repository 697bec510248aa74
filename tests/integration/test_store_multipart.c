/* test_store_multipart.c: the multipart half of storage/common/store.h, on every store: a folder, and a bucket
 * of a real S3 server. */
#include "storage/common/store.h"

#include "base/checksum.h"
#include "base/mem.h"
#include "tests/mock/memory_feed.h"
#include "tests/mock/store_check.h"
#include "tests/mock/store_fixture.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define PART_BYTES (UINT64_C(5) << 20) /* the smallest that S3 takes */
#define TAIL_BYTES 1000003u
#define TOTAL_BYTES (2 * PART_BYTES + TAIL_BYTES)

static atomic_bool no_cancel;
static struct cleat_error err;
static struct cleat__store *store;
static char *bytes; /* of the whole object */

static bool is_ceph(int kind) {
  return kind == FIXTURE_S3 && fixture_is_ceph();
}

static void begin(int kind) {
  store = fixture_open((enum fixture_kind)kind);
  bytes = fixture_pattern(TOTAL_BYTES, 7);
}

static void end(void) {
  cleat__store_close(store);
  free(bytes);
}

static struct cleat__upload create(const char *key) {
  struct cleat__upload upload = {.size = TOTAL_BYTES, .part_bytes = PART_BYTES};
  snprintf(upload.key, sizeof upload.key, "%s", key);
  ck_ok(store->ops->multipart_create(store, &upload, "application/x-test", cleat__call(&no_cancel, &err)));
  ck_assert(upload.id[0] != '\0');
  return upload;
}

/* Part `number` of `bytes`: the second is fed, the others are two spans each. */
static cleat_status store_part(const struct cleat__upload *upload, uint32_t number, struct cleat__stored_part *part,
                               struct cleat_error *problem) {
  uint64_t offset = (number - 1) * PART_BYTES;
  size_t size = (size_t)(number == 3 ? TAIL_BYTES : PART_BYTES);
  struct cleat__span spans[] = {{bytes + offset, 1000}, {bytes + offset + 1000, size - 1000}};
  *part = (struct cleat__stored_part){
      .number = number, .size = size, .crc32c = cleat__spans_crc32c(cleat__spans(spans, 2)), .has_crc32c = true};
  const struct cleat__feed feed = {size, memory_feed_read, bytes + offset};
  if (number == 2)
    return store->ops->multipart_feed(store, upload, &feed, part, cleat__call(&no_cancel, problem));
  return store->ops->multipart_part(store, upload, cleat__spans(spans, 2), part, cleat__call(&no_cancel, problem));
}

static void store_all(const struct cleat__upload *upload, struct cleat__stored_part parts[3]) {
  for (uint32_t i = 0; i < 3; i++)
    ck_ok(store_part(upload, i + 1, &parts[i], &err));
}

static cleat_status complete(const struct cleat__upload *upload, const struct cleat__stored_part *parts, size_t count) {
  return store->ops->multipart_complete(store, upload, parts, count, cleat__call(&no_cancel, &err));
}

static cleat_status list_parts(const struct cleat__upload *upload, struct cleat__stored_part **parts, size_t *count) {
  return store->ops->multipart_list_parts(store, upload, parts, count, cleat__call(&no_cancel, &err));
}

static void expect_whole(const char *key) {
  char *back = malloc(TOTAL_BYTES);
  struct cleat__span span = {back, TOTAL_BYTES};
  struct cleat__object object;
  uint32_t crc = 0;
  ck_ok(store->ops->head(store, key, &object, cleat__call(&no_cancel, &err)));
  ck_assert_uint_eq(object.size, TOTAL_BYTES);
  ck_ok(store->ops->get(store, key, 0, cleat__spans(&span, 1), &crc, cleat__call(&no_cancel, &err)));
  ck_assert_int_eq(memcmp(back, bytes, TOTAL_BYTES), 0);
  free(back);
}

static void expect_absent(const char *key) {
  struct cleat__object object;
  ck_fails(store->ops->head(store, key, &object, cleat__call(&no_cancel, &err)), CLEAT_NOT_FOUND);
}

struct sender {
  const struct cleat__upload *upload;
  struct cleat__stored_part *part;
  uint32_t number;
  cleat_status status;
};

static void *send_part(void *argument) {
  struct sender *sender = argument;
  struct cleat_error problem;
  sender->status = store_part(sender->upload, sender->number, sender->part, &problem);
  return NULL;
}

START_TEST(parts_in_parallel) {
  static const uint32_t order[] = {3, 1, 2};
  struct cleat__stored_part parts[3];
  struct sender senders[3];
  pthread_t threads[3];
  begin(_i);
  struct cleat__upload upload = create("a folder/with+odd & name");
  for (int i = 0; i < 3; i++) {
    senders[i] = (struct sender){&upload, &parts[order[i] - 1], order[i], CLEAT_OK};
    ck_assert_int_eq(pthread_create(&threads[i], NULL, send_part, &senders[i]), 0);
  }
  for (int i = 0; i < 3; i++) {
    pthread_join(threads[i], NULL);
    ck_assert_int_eq(senders[i].status, CLEAT_OK);
  }
  expect_absent(upload.key); /* not before it is complete */
  ck_ok(complete(&upload, parts, 3));
  expect_whole(upload.key);
  end();
}
END_TEST

START_TEST(parts_are_listed) {
  struct cleat__stored_part parts[3], *listed = NULL;
  size_t count = 9;
  begin(_i);
  struct cleat__upload upload = create("listed");
  ck_ok(list_parts(&upload, &listed, &count));
  ck_assert_uint_eq(count, 0);
  cleat__free(listed);
  ck_ok(store_part(&upload, 3, &parts[2], &err));
  ck_ok(store_part(&upload, 1, &parts[0], &err));
  ck_ok(list_parts(&upload, &listed, &count));
  ck_assert_uint_eq(count, 2);
  for (int i = 0; i < 2; i++) {
    const struct cleat__stored_part *part = &parts[2 * i];
    ck_assert_uint_eq(listed[i].number, part->number);
    ck_assert_uint_eq(listed[i].size, part->size);
    ck_assert_str_eq(listed[i].etag, part->etag);
    ck_assert(listed[i].has_crc32c != is_ceph(_i));
    ck_assert_uint_eq(listed[i].crc32c, is_ceph(_i) ? 0 : part->crc32c);
  }
  /* What was listed is good enough to complete with. */
  ck_ok(store_part(&upload, 2, &parts[1], &err));
  cleat__free(listed);
  ck_ok(list_parts(&upload, &listed, &count));
  ck_assert_uint_eq(count, 3);
  ck_ok(complete(&upload, listed, count));
  cleat__free(listed);
  expect_whole("listed");
  ck_fails(list_parts(&upload, &listed, &count), CLEAT_NOT_FOUND);
  end();
}
END_TEST

START_TEST(part_is_stored_again) {
  struct cleat__stored_part parts[3];
  begin(_i);
  struct cleat__upload upload = create("again");
  store_all(&upload, parts);
  bytes[PART_BYTES + 5] ^= 1;
  ck_ok(store_part(&upload, 2, &parts[1], &err));
  ck_ok(complete(&upload, parts, 3));
  expect_whole("again");
  end();
}
END_TEST

START_TEST(abort_leaves_nothing) {
  struct cleat__stored_part parts[3], *listed = NULL;
  size_t count = 0;
  begin(_i);
  struct cleat__upload upload = create("gone"), other = create("gone");
  ck_assert_str_ne(upload.id, other.id);
  ck_ok(store_part(&upload, 1, &parts[0], &err));
  store_all(&other, parts);
  ck_ok(store->ops->multipart_abort(store, &upload, cleat__call(&no_cancel, &err)));
  ck_fails(list_parts(&upload, &listed, &count), CLEAT_NOT_FOUND);
  expect_absent("gone");
  ck_ok(store->ops->multipart_abort(store, &upload, cleat__call(&no_cancel, &err)));
  /* Another upload of the same key is not touched. */
  ck_ok(complete(&other, parts, 3));
  expect_whole("gone");
  end();
}
END_TEST

/* The reply to a first Complete may have been lost. */
START_TEST(complete_twice) {
  struct cleat__stored_part parts[3];
  begin(_i);
  struct cleat__upload upload = create("twice");
  store_all(&upload, parts);
  ck_ok(complete(&upload, parts, 3));
  ck_ok(complete(&upload, parts, 3));
  expect_whole("twice");
  /* Aborting what is complete removes nothing. */
  ck_ok(store->ops->multipart_abort(store, &upload, cleat__call(&no_cancel, &err)));
  expect_whole("twice");
  end();
}
END_TEST

START_TEST(complete_without_a_part) {
  struct cleat__stored_part parts[3];
  begin(_i);
  struct cleat__upload upload = create("incomplete");
  ck_ok(store_part(&upload, 1, &parts[0], &err));
  ck_ok(store_part(&upload, 3, &parts[2], &err));
  parts[1] = parts[0];
  parts[1].number = 2;
  ck_assert_int_ne(complete(&upload, parts, 3), CLEAT_OK);
  expect_absent("incomplete");
  ck_ok(store_part(&upload, 2, &parts[1], &err));
  ck_ok(complete(&upload, parts, 3));
  expect_whole("incomplete");
  end();
}
END_TEST

START_TEST(upload_that_never_was) {
  struct cleat__stored_part parts[3], *listed = NULL;
  size_t count = 0;
  begin(_i);
  struct cleat__upload upload = create("real");
  store_all(&upload, parts);
  char *digit = &upload.id[strlen(upload.id) * 3 / 4]; /* MinIO ignores the front of its ids */
  *digit = *digit == 'a' ? 'b' : 'a';
  ck_fails(list_parts(&upload, &listed, &count), CLEAT_NOT_FOUND);
  ck_fails(store_part(&upload, 1, &parts[0], &err), CLEAT_NOT_FOUND);
  /* Ceph takes every Complete that it cannot begin for one that is under way (500), whatever the reason. */
  ck_fails(complete(&upload, parts, 3), is_ceph(_i) ? CLEAT_STORE : CLEAT_NOT_FOUND);
  ck_ok(store->ops->multipart_abort(store, &upload, cleat__call(&no_cancel, &err)));
  end();
}
END_TEST

START_TEST(cancelled_operations) {
  atomic_bool cancel = true;
  struct cleat__stored_part part;
  struct cleat__span span;
  begin(_i);
  struct cleat__upload upload = create("cancelled");
  span = (struct cleat__span){bytes, PART_BYTES};
  part = (struct cleat__stored_part){.number = 1, .size = PART_BYTES};
  ck_fails(store->ops->multipart_part(store, &upload, cleat__spans(&span, 1), &part, cleat__call(&cancel, &err)),
           CLEAT_CANCELLED);
  ck_ok(store->ops->multipart_abort(store, &upload, cleat__call(&no_cancel, &err)));
  end();
}
END_TEST

static Suite *suite(void) {
  const TTest *const cases[] = {parts_in_parallel,     parts_are_listed,    part_is_stored_again,
                                abort_leaves_nothing,  complete_twice,      complete_without_a_part,
                                upload_that_never_was, cancelled_operations};
  return fixture_suite("store_multipart", cases, sizeof cases / sizeof cases[0]);
}

int main(void) {
  return fixture_run(suite);
}
