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

static void begin_for(int kind, uint32_t time_limit_s) {
  store = fixture_open_for((enum fixture_kind)kind, time_limit_s);
  bytes = fixture_pattern(TOTAL_BYTES, 7);
}

static void begin(int kind) {
  begin_for(kind, 60);
}

/* Where a Complete of an upload that is not there is answered in a way that says try again. */
static void begin_repeating(int kind) {
  begin_for(kind, fixture_ways(kind)->second_complete == CLEAT_STORE ? 20 : 60);
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

static cleat_status abort_upload(const struct cleat__upload *upload) {
  return store->ops->multipart_abort(store, upload, cleat__call(&no_cancel, &err));
}

/* An upload that is not there. */
static void expect_no_parts(int kind, const struct cleat__upload *upload) {
  struct cleat__stored_part *listed = NULL;
  size_t count = 0;
  ck_gives(list_parts(upload, &listed, &count), fixture_ways(kind)->gone.list_parts);
  ck_assert_uint_eq(count, 0);
  cleat__free(listed);
}

/* An upload that is complete. An abort changes nothing there, and fails where its parts are still listed. */
static void expect_complete(int kind, const struct cleat__upload *upload) {
  struct cleat__stored_part *listed = NULL;
  size_t count = 0;
  if (fixture_lacks(kind, SERVER_COMPLETE_IS_GONE)) {
    ck_ok(list_parts(upload, &listed, &count));
    ck_assert_uint_eq(count, 3);
    ck_fails(abort_upload(upload), CLEAT_STORE);
    cleat__free(listed);
    return;
  }
  expect_no_parts(kind, upload);
  ck_gives(abort_upload(upload), fixture_ways(kind)->gone.abort);
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

/* The caller is told; the parts are there all the same. */
static void complete_unlisted(int kind, const struct cleat__upload *upload) {
  struct cleat__stored_part parts[3], *listed = NULL;
  size_t count = 0;
  store_all(upload, parts);
  ck_fails(list_parts(upload, &listed, &count), fixture_ways(kind)->list_parts);
  ck_assert_ptr_null(listed);
  ck_ok(complete(upload, parts, 3));
  expect_whole(upload->key);
}

START_TEST(parts_are_listed) {
  struct cleat__stored_part parts[3], *listed = NULL;
  const bool has_crc32c = !fixture_lacks(_i, SERVER_LISTED_CRC32C);
  size_t count = 9;
  begin(_i);
  struct cleat__upload upload = create("listed");
  if (fixture_ways(_i)->list_parts != CLEAT_OK) {
    complete_unlisted(_i, &upload);
    end();
    return;
  }
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
    ck_assert_int_eq(listed[i].has_crc32c, has_crc32c);
    ck_assert_uint_eq(listed[i].crc32c, has_crc32c ? part->crc32c : 0);
  }
  /* What was listed is good enough to complete with. */
  ck_ok(store_part(&upload, 2, &parts[1], &err));
  cleat__free(listed);
  ck_ok(list_parts(&upload, &listed, &count));
  ck_assert_uint_eq(count, 3);
  ck_ok(complete(&upload, listed, count));
  cleat__free(listed);
  expect_whole("listed");
  expect_complete(_i, &upload);
  expect_whole("listed");
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
  struct cleat__stored_part parts[3];
  begin(_i);
  struct cleat__upload upload = create("gone"), other = create("gone");
  ck_assert_str_ne(upload.id, other.id);
  ck_ok(store_part(&upload, 1, &parts[0], &err));
  store_all(&other, parts);
  ck_gives(abort_upload(&upload), fixture_ways(_i)->abort);
  expect_no_parts(_i, &upload);
  expect_absent("gone");
  ck_gives(abort_upload(&upload), fixture_ways(_i)->gone.abort);
  /* Another upload of the same key is not touched. */
  if (fixture_lacks(_i, SERVER_ABORT_SPARES)) {
    ck_fails(complete(&other, parts, 3), CLEAT_STORE);
    expect_absent("gone");
  } else {
    ck_ok(complete(&other, parts, 3));
    expect_whole("gone");
  }
  end();
}
END_TEST

/* The reply to a first Complete may have been lost. */
START_TEST(complete_twice) {
  struct cleat__stored_part parts[3];
  begin_repeating(_i);
  struct cleat__upload upload = create("twice");
  store_all(&upload, parts);
  ck_ok(complete(&upload, parts, 3));
  ck_gives(complete(&upload, parts, 3), fixture_ways(_i)->second_complete);
  expect_whole("twice");
  expect_complete(_i, &upload);
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
  if (!fixture_lacks(_i, SERVER_SURVIVES_A_HOLE))
    ck_assert_int_ne(complete(&upload, parts, 3), CLEAT_OK);
  expect_absent("incomplete");
  if (fixture_lacks(_i, SERVER_SECOND_COMPLETE)) {
    ck_fails(store_part(&upload, 2, &parts[1], &err), fixture_ways(_i)->gone.part);
    end();
    return;
  }
  ck_ok(store_part(&upload, 2, &parts[1], &err));
  ck_ok(complete(&upload, parts, 3));
  expect_whole("incomplete");
  end();
}
END_TEST

START_TEST(upload_that_never_was) {
  struct cleat__stored_part parts[3], lost;
  const struct server_gone *gone = &fixture_ways(_i)->gone;
  begin_repeating(_i);
  struct cleat__upload upload = create("real");
  store_all(&upload, parts);
  char *digit = &upload.id[strlen(upload.id) * 3 / 4]; /* MinIO ignores the front of its ids */
  *digit = *digit == 'a' ? 'b' : 'a';
  expect_no_parts(_i, &upload);
  ck_gives(store_part(&upload, 1, &lost, &err), gone->part);
  ck_fails(complete(&upload, parts, 3), gone->complete);
  expect_absent("real");
  ck_gives(abort_upload(&upload), fixture_lacks(_i, SERVER_STRAY_PARTS) ? CLEAT_STORE : gone->abort);
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
  ck_gives(abort_upload(&upload), fixture_ways(_i)->abort);
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
