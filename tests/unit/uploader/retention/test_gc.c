/* test_gc.c: uploader/retention/gc*.c on a store in memory whose clock the tests set: what is old enough, what is
 * known, what somebody may still need. */
#include "api/cleat.h"

#include "base/mem.h"
#include "tests/mock/checkpoint_fixture.h"
#include "tests/mock/run_suite.h"
#include "tests/mock/store_check.h"
#include "uploader/engine/client.h"
#include "uploader/model/name.h"

#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define NOW INT64_C(1795262400)
#define HOUR INT64_C(3600)
#define A "step-000000000005/aaaaaaaaaaaaaaaa/"
#define B "step-000000000005/bbbbbbbbbbbbbbbb/"
#define CLAIM(state, uploads)                                                                                          \
  "{\"format\":\"cleat.claim\",\"version\":\"1.0\",\"nonce\":\"n1\",\"state\":\"" state "\",\"uploads\":[" uploads "]" \
  "}"

static struct cleat_error err;
static struct cleat__clock clock_now;

static int64_t now_s(void *ctx) {
  (void)ctx;
  return NOW;
}

static void open_client(void) {
  desk_open(NULL);
  client->clock = &clock_now;
}

static void setup(void) {
  clock_now = *cleat__clock_system();
  clock_now.wall_s = now_s;
  desk_setup();
  client->clock = &clock_now;
}

/* From now on what is stored is so old. */
static void at_age(int64_t age_s) {
  memory_bucket_now(bucket, NOW - age_s);
}

static void put(const char *key, int64_t age_s) {
  at_age(age_s);
  memory_write(bucket, key, "12345", 5);
}

static void begin_upload(const char *key, int64_t age_s) {
  struct cleat__upload upload = {.size = 3 * KIT_PART, .part_bytes = KIT_PART};
  char bytes[KIT_PART] = {0};
  struct cleat__span body = {bytes, sizeof bytes};
  struct cleat__stored_part part = {.number = 1, .size = sizeof bytes};
  at_age(age_s);
  memory_ignore(bucket, MEMORY_IGNORES_CHECKSUMS);
  snprintf(upload.key, sizeof upload.key, "%s", key);
  ck_ok(cleat__store_multipart_create(client->store, &upload, NULL, cleat__call(&client->never, &err)));
  ck_ok(cleat__store_multipart_part(client->store, &upload, cleat__spans(&body, 1), &part,
                                    cleat__call(&client->never, &err)));
  memory_ignore(bucket, 0);
}

static void save(int64_t step, int64_t age_s) {
  at_age(age_s);
  kit_save(client, &model, step);
}

static cleat_status gc(uint64_t older_than_s, bool dry_run, struct cleat_removals **removals) {
  struct cleat_gc_options options = CLEAT_GC_OPTIONS_INIT;
  options.older_than_s = older_than_s;
  options.dry_run = dry_run;
  return cleat_gc(client, &options, removals, &err);
}

/* Runs it; "attempt 5 aaaaaaaaaaaaaaaa 2 10; " for each removal: kind, step, name, objects, bytes. */
static const char *collect(void) {
  static char text[2048];
  struct cleat_removals *removals = NULL;
  size_t used = 0;
  text[0] = '\0';
  ck_ok(gc(0, false, &removals));
  for (size_t i = 0; i < cleat_removals_count(removals); i++) {
    const struct cleat_removal *removal = cleat_removals_get(removals, i);
    used += (size_t)snprintf(text + used, sizeof text - used, "%s %lld %s %llu %llu; ",
                             cleat_removal_kind_name(removal->kind), (long long)removal->step, removal->name,
                             (unsigned long long)removal->objects, (unsigned long long)removal->bytes);
  }
  cleat_removals_free(removals);
  return text;
}

/* ---- Age --------------------------------------------------------------------------------------- */

START_TEST(dead_attempts_go) {
  put(A "model.safetensors", 25 * HOUR);
  put(A "sub/other.bin", 26 * HOUR);
  put(B "model.safetensors", 23 * HOUR);
  ck_assert_str_eq(collect(), "attempt 5 aaaaaaaaaaaaaaaa 2 10; ");
  ck_assert_uint_eq(memory_count(bucket, B), 1);
  ck_assert_uint_eq(memory_count(bucket, ""), 1);
  ck_assert_str_eq(collect(), "");
}
END_TEST

/* An attempt is as old as the newest in it. */
START_TEST(age_is_that_of_the_newest) {
  static const struct {
    int64_t object, other, upload; /* ages; 0: none */
    bool goes;
  } cases[] = {
      {25 * HOUR, 0, 0, true},         {24 * HOUR + 1, 0, 0, true},     {24 * HOUR, 0, 0, false},
      {25 * HOUR, 1, 0, false},        {25 * HOUR, 26 * HOUR, 0, true}, {25 * HOUR, 0, 23 * HOUR, false},
      {25 * HOUR, 0, 25 * HOUR, true}, {0, 0, 25 * HOUR, true},         {0, 0, 23 * HOUR, false},
      {25 * HOUR, NOW, 0, false},                                /* without a date */
      {25 * HOUR, 0, NOW, false},      {-2 * HOUR, 0, 0, false}, /* in the future */
  };
  if (cases[_i].object != 0)
    put(A "one", cases[_i].object);
  if (cases[_i].other != 0)
    put(A "two", cases[_i].other);
  if (cases[_i].upload != 0)
    begin_upload(A "three", cases[_i].upload);
  size_t objects = memory_count(bucket, "");
  size_t uploads = memory_uploads(bucket);
  struct cleat_removals *removals = NULL;
  ck_ok(gc(0, false, &removals));
  ck_assert_uint_eq(cleat_removals_count(removals), cases[_i].goes ? 1 : 0);
  ck_assert_uint_eq(cleat_removals_kept(removals), cases[_i].goes ? 0 : 1);
  ck_assert_uint_eq(cleat_removals_bytes(removals), cases[_i].goes ? 5 * objects + KIT_PART * uploads : 0);
  cleat_removals_free(removals);
  ck_assert_uint_eq(memory_count(bucket, ""), cases[_i].goes ? 0 : objects);
  ck_assert_uint_eq(memory_uploads(bucket), cases[_i].goes ? 0 : uploads);
}
END_TEST

START_TEST(grace_as_asked_for) {
  put(A "one", 2 * HOUR);
  ck_ok(gc(3 * HOUR, false, NULL));
  ck_assert_uint_eq(memory_count(bucket, ""), 1);
  ck_ok(gc(UINT64_MAX, false, NULL));
  ck_assert_uint_eq(memory_count(bucket, ""), 1);
  ck_ok(gc(HOUR, false, NULL));
  ck_assert_uint_eq(memory_count(bucket, ""), 0);
}
END_TEST

/* Our clock is two days ahead of the store's: by it, a save of a minute ago were dead. */
START_TEST(age_is_by_the_clock_of_the_store) {
  kit_close_idle(client);
  memory_bucket_clock(bucket, -48 * HOUR);
  open_client();
  put(A "one", 48 * HOUR + 60);
  ck_assert_str_eq(collect(), "");
  put(B "one", 73 * HOUR);
  ck_assert_str_eq(collect(), "attempt 5 bbbbbbbbbbbbbbbb 1 5; ");
}
END_TEST

/* ---- What is committed --------------------------------------------------------------------------- */

START_TEST(what_is_committed_stays) {
  for (int64_t step = 1; step <= 5; step++)
    save(step, 100 * HOUR);
  put(A "one", 50 * HOUR);
  ck_assert_str_eq(collect(), "attempt 5 aaaaaaaaaaaaaaaa 1 5; ");
  ck_assert_uint_eq(kit_steps(client), 5);
  kit_expect(client, 5, &model, false);
  ck_assert_uint_eq(memory_count(bucket, ""), 15);
}
END_TEST

/* Nobody can know which attempt the manifest names. */
START_TEST(nothing_of_a_step_that_cannot_be_read) {
  static const char newer[] = "{\"format\": \"cleat.manifest\", \"version\": \"2.0\"}";
  save(5, 100 * HOUR);
  put(A "one", 50 * HOUR);
  if (_i == 0)
    memory_resize(bucket, "manifest.json", 50);
  else
    memory_write(bucket, "step-000000000005/manifest.json", newer, sizeof newer - 1);
  ck_assert_str_eq(collect(), "");
  ck_assert_uint_eq(memory_count(bucket, ""), 4);
  ck_assert_uint_ge(desk_warnings("left alone: step 5"), 1);
}
END_TEST

START_TEST(uploads_of_what_is_committed) {
  char key[256];
  save(5, 100 * HOUR);
  snprintf(key, sizeof key, "%s", memory_key(bucket, "model.safetensors"));
  begin_upload(key, 30 * HOUR);
  begin_upload(key, 2 * HOUR);
  collect();
  ck_assert_uint_eq(memory_uploads(bucket), 1);
  kit_expect(client, 5, &model, false);
}
END_TEST

static char manifest[8192];
static size_t manifest_size;

static void commit_now(void) {
  memory_write(bucket, "step-000000000005/manifest.json", manifest, manifest_size);
}

/* A process that was taken for dead commits between the look at the attempt and its removal. */
START_TEST(committed_at_the_last_moment) {
  struct desk_moment moment = {"get_small", "005/manifest.json", false, 1, commit_now, false};
  save(5, 100 * HOUR);
  const char *stored = memory_find(bucket, "manifest.json", &manifest_size);
  memcpy(manifest, stored, manifest_size);
  memory_remove(bucket, "manifest.json");
  memory_bucket_hook(bucket, desk_at_the_moment, &moment);
  ck_assert_str_eq(collect(), "");
  memory_bucket_hook(bucket, NULL, NULL);
  ck_assert(atomic_load(&moment.acted));
  kit_expect(client, 5, &model, false);
}
END_TEST

/* ---- Claims ------------------------------------------------------------------------------------- */

static const char open_claim[] = CLAIM("open", "\"big.bin\", \"none.bin\"");

/* Nothing of the attempt is removed as long as somebody could go on with it. */
static cleat_status is_closed(void *user, const char *op, const char *key, bool done, struct cleat__call call) {
  atomic_uint *removals = user;
  size_t size = 0;
  (void)call;
  if (done || strcmp(op, "remove") != 0)
    return CLEAT_OK;
  atomic_fetch_add(removals, 1);
  ck_assert_ptr_nonnull(strstr(memory_find(bucket, A "rank-00000.json", &size), "closed"));
  ck_assert_uint_eq(memory_count(bucket, A), strstr(key, "rank-") != NULL ? 1 : 2);
  return CLEAT_OK;
}

START_TEST(open_claims_are_closed_first) {
  atomic_uint removals = 0;
  struct kit_setup alone = {.concurrency = 1}; /* so that there is an order, and listed is the record first */
  kit_close_idle(client);
  client = kit_open(bucket, &alone);
  put(A "zone", 30 * HOUR);
  memory_write(bucket, A "rank-00000.json", open_claim, sizeof open_claim - 1);
  ck_ok(gc(0, true, NULL));
  ck_assert_uint_eq(memory_calls(bucket, "put"), 0);
  memory_bucket_hook(bucket, is_closed, &removals);
  ck_ok(gc(0, false, NULL));
  memory_bucket_hook(bucket, NULL, NULL);
  ck_assert_uint_eq(atomic_load(&removals), 2);
  ck_assert_uint_eq(memory_calls(bucket, "put"), 1);
  ck_assert_uint_eq(memory_count(bucket, ""), 0);
}
END_TEST

static void resume_now(void) {
  static const char theirs[] = CLAIM("open", "\"big.bin\", \"other.bin\"");
  memory_bucket_now(bucket, NOW);
  memory_write(bucket, A "rank-00000.json", theirs, sizeof theirs - 1);
}

/* Somebody goes on with the attempt between the look at its claim and the claim's end. */
START_TEST(resumed_at_the_last_moment) {
  struct desk_moment moment = {"put", A "rank-00000.json", false, 0, resume_now, false};
  put(A "one", 30 * HOUR);
  memory_write(bucket, A "rank-00000.json", open_claim, sizeof open_claim - 1);
  memory_bucket_hook(bucket, desk_at_the_moment, &moment);
  ck_assert_str_eq(collect(), "");
  memory_bucket_hook(bucket, NULL, NULL);
  ck_assert(atomic_load(&moment.acted));
  ck_assert_uint_eq(memory_count(bucket, A), 2);
}
END_TEST

/* A store that lists uploads by whole keys alone: the claim names them. */
START_TEST(uploads_that_only_a_claim_names) {
  memory_bucket_exact(bucket);
  put(A "one", 30 * HOUR);
  memory_write(bucket, A "rank-00000.json", open_claim, sizeof open_claim - 1);
  begin_upload(A "big.bin", _i == 0 ? 30 * HOUR : HOUR);
  ck_ok(gc(0, false, NULL));
  ck_assert_uint_eq(memory_uploads(bucket), _i == 0 ? 0 : 1);
  ck_assert_uint_eq(memory_count(bucket, ""), _i == 0 ? 0 : 2);
  ck_assert_uint_eq(memory_calls(bucket, "put"), _i == 0 ? 1 : 0); /* a save that lives keeps its claim */
}
END_TEST

static cleat_status lack_uploads(void *user, const char *op, const char *key, bool done, struct cleat__call call) {
  (void)user, (void)done, (void)call;
  return strcmp(op, "list_uploads") == 0 ? cleat__error_set(call.err, CLEAT_UNSUPPORTED, "%s %s: 501", op, key)
                                         : CLEAT_OK;
}

/* A store that lists no uploads: all else goes, and it is said once what could not be seen. */
START_TEST(uploads_that_no_list_shows) {
  client->log.write = desk_hear;
  put(A "one", 30 * HOUR);
  memory_write(bucket, A "rank-00000.json", open_claim, sizeof open_claim - 1);
  begin_upload(A "big.bin", 30 * HOUR);
  memory_bucket_hook(bucket, lack_uploads, NULL);
  ck_ok(gc(0, false, NULL));
  ck_assert_uint_eq(memory_uploads(bucket), 1);
  ck_assert_uint_eq(memory_count(bucket, ""), 0);
  ck_assert_uint_eq(desk_warnings("cannot list unfinished uploads"), 1);
  ck_ok(gc(0, false, NULL));
  ck_assert_uint_eq(desk_warnings("cannot list unfinished uploads"), 1);
  memory_bucket_hook(bucket, NULL, NULL);
}
END_TEST

/* ---- Other leftovers ------------------------------------------------------------------------------ */

START_TEST(scratch_folders) {
  put("doctor-0123456789abcdef/whole", 30 * HOUR);
  put("doctor-0123456789abcdef/folder/nested", 30 * HOUR);
  put("bench-0123456789abcdef/parts-1", 2 * HOUR);
  put("doctor-0123456789ABCDEF/mine", 30 * HOUR);
  put("doctor-0123/mine", 30 * HOUR);
  put("doctor-0123456789abcdef0/mine", 30 * HOUR);
  put("bench-mark/mine", 30 * HOUR);
  put("doctor-0123456789abcdee", 30 * HOUR);
  begin_upload("bench-fedcba9876543210/parts-1", 30 * HOUR);
  ck_assert_str_eq(collect(), "scratch -1 bench-fedcba9876543210 1 4096; "
                              "scratch -1 doctor-0123456789abcdef 2 10; ");
  ck_assert_uint_eq(memory_count(bucket, ""), 6);
  ck_assert_uint_eq(memory_uploads(bucket), 0);
}
END_TEST

START_TEST(foreign_names_stay) {
  static const char *const keys[] = {"step-000000000005/notes/readme.txt",
                                     "step-000000000005/loose.bin",
                                     "step-000000000005/AAAAAAAAAAAAAAAA/one",
                                     "step-000000000005/aaaaaaaaaaaaaaa/one",
                                     "step-5/aaaaaaaaaaaaaaaa/one",
                                     "other/step-000000000005/aaaaaaaaaaaaaaaa/one",
                                     "starts/readme",
                                     "starts/1.json",
                                     "starts/000001-x.json",
                                     "starts/x/000001.json",
                                     "model.safetensors"};
  size_t count = sizeof keys / sizeof keys[0];
  for (size_t i = 0; i < count; i++)
    put(keys[i], 1000 * HOUR);
  ck_assert_str_eq(collect(), "");
  ck_assert_uint_eq(memory_count(bucket, ""), count);
  /* Something of a rank is Cleat's, whatever its folder is called. */
  put("step-000000000005/start-7/rank-00001.failed.json", 1000 * HOUR);
  ck_assert_str_eq(collect(), "attempt 5 start-7 1 5; ");
  ck_assert_uint_eq(memory_count(bucket, ""), count);
}
END_TEST

START_TEST(pins_without_a_step) {
  put("step-000000000006/pin.json", 30 * HOUR);
  put("step-000000000007/pin.json", 2 * HOUR);
  put("step-000000000008/pin.json", 30 * HOUR);
  put("step-000000000008/aaaaaaaaaaaaaaaa/one", 2 * HOUR);
  put("step-000000000009/pin.json", 30 * HOUR);
  put("step-000000000009/aaaaaaaaaaaaaaaa/one", 30 * HOUR);
  save(10, 100 * HOUR);
  put("step-000000000010/pin.json", 100 * HOUR);
  ck_assert_str_eq(collect(), "attempt 9 aaaaaaaaaaaaaaaa 1 5; pin 6 pin 1 5; pin 9 pin 1 5; ");
  ck_assert_uint_eq(memory_count(bucket, "pin.json"), 3);
}
END_TEST

START_TEST(old_starts) {
  for (int i = 1; i <= 5; i++) {
    char key[64];
    snprintf(key, sizeof key, "starts/%06d.json", i);
    put(key, i == 2 ? HOUR : 100 * HOUR);
    snprintf(key, sizeof key, "starts/%06d/rank-00001.json", i);
    put(key, 100 * HOUR);
  }
  put("starts/000003/young", HOUR);
  put("starts/1234567/only-below", 100 * HOUR);
  ck_assert_str_eq(collect(), "start -1 000001 2 10; start -1 000004 2 10; ");
  ck_assert_uint_eq(memory_count(bucket, ""), 2 + 3 + 2 + 1);
}
END_TEST

START_TEST(a_dry_run_changes_nothing) {
  struct cleat_removals *told = NULL;
  struct cleat_removals *done = NULL;
  save(4, 100 * HOUR);
  put(A "one", 30 * HOUR);
  begin_upload(A "two", 30 * HOUR);
  put("bench-0123456789abcdef/parts-1", 30 * HOUR);
  put("step-000000000006/pin.json", 30 * HOUR);
  size_t objects = memory_count(bucket, "");
  unsigned puts = memory_calls(bucket, "put");
  ck_ok(gc(0, true, &told));
  ck_assert_uint_eq(memory_count(bucket, ""), objects);
  ck_assert_uint_eq(memory_uploads(bucket), 1);
  ck_assert_uint_eq(memory_calls(bucket, "remove") + memory_calls(bucket, "abort"), 0);
  ck_assert_uint_eq(memory_calls(bucket, "put"), puts);
  ck_ok(gc(0, false, &done));
  ck_assert_uint_eq(cleat_removals_count(told), 3);
  ck_assert_uint_eq(cleat_removals_count(done), 3);
  ck_assert_uint_eq(cleat_removals_bytes(told), cleat_removals_bytes(done));
  ck_assert_uint_eq(memory_count(bucket, ""), 3);
  cleat_removals_free(told);
  cleat_removals_free(done);
}
END_TEST

/* ---- Failures ------------------------------------------------------------------------------------- */

START_TEST(what_fails_stops_nothing) {
  static const struct {
    const char *what[2];
    size_t left_of_a, left_of_b;
  } cases[] = {{{"remove", A "one"}, 1, 0},
               {{"list", A}, 2, 0},
               {{"abort", A}, 0, 0},
               {{"list_parts", A}, 2, 0},
               {{"get_small", "000005/manifest.json"}, 2, 1},
               {{"list", "starts/"}, 0, 0},
               {{"list", "doctor-"}, 0, 0}};
  struct cleat_removals *removals = NULL;
  put(A "one", 30 * HOUR);
  put(A "two", 30 * HOUR);
  put(B "one", 30 * HOUR);
  begin_upload(A "three", 30 * HOUR);
  put("step-000000000009/pin.json", 30 * HOUR); /* looked at last */
  memory_bucket_hook(bucket, desk_deny, (void *)(uintptr_t)cases[_i].what);
  ck_fails(gc(0, false, &removals), CLEAT_DENIED);
  memory_bucket_hook(bucket, NULL, NULL);
  cleat_removals_free(removals);
  ck_assert_uint_eq(memory_count(bucket, A), cases[_i].left_of_a);
  ck_assert_uint_eq(memory_count(bucket, B), cases[_i].left_of_b);
  ck_assert_uint_eq(memory_count(bucket, "pin.json"), 0);
  ck_ok(gc(0, false, NULL));
  ck_assert_uint_eq(memory_count(bucket, "") + memory_uploads(bucket), 0);
}
END_TEST

/* Every allocation and every call of the store fails once: what is committed stays whole, and the next gc does the
 * rest. */
START_TEST(each_call_fails_once) {
  unsigned long calls = 1;
  save(4, 100 * HOUR);
  for (unsigned long n = 1; n <= calls; n++) {
    struct cleat_gc_options collects = CLEAT_GC_OPTIONS_INIT;
    struct cleat_removals *removals = NULL;
    put(A "one", 30 * HOUR);
    memory_write(bucket, A "rank-00000.json", open_claim, sizeof open_claim - 1);
    begin_upload(A "big.bin", 30 * HOUR);
    put("bench-0123456789abcdef/parts-1", 30 * HOUR);
    put("step-000000000006/pin.json", 30 * HOUR);
    for (int i = 1; i <= 3; i++) {
      char key[64];
      snprintf(key, sizeof key, "starts/%06d.json", i);
      put(key, 30 * HOUR);
    }
    struct cleat_client *faulty = desk_open_faulty(_i == 0 ? CLEAT__FAULT_BEFORE : CLEAT__FAULT_AFTER);
    faulty->clock = &clock_now;
    err.message[0] = '\0';
    cleat__fault_arm(n, false);
    cleat_status status = cleat_gc(faulty, &collects, &removals, &err);
    calls = cleat__fault_disarm();
    bool told =
        status == CLEAT_NO_MEMORY || status == CLEAT_IO || status == CLEAT_STORE || (_i == 1 && status == CLEAT_OK);
    ck_assert_msg(calls < n || told, "n = %lu: %d %s", n, (int)status, err.message);
    ck_assert_msg(status == CLEAT_OK || err.message[0] != '\0', "n = %lu", n);
    cleat_removals_free(removals);
    kit_close_idle(faulty);
    kit_expect(client, 4, &model, false);
    at_age(30 * HOUR); /* a claim that was closed is young: it stays until it is not */
    memory_bucket_hook(bucket, NULL, NULL);
    ck_ok(gc(0, false, NULL));
    ck_assert_msg(memory_count(bucket, "") == 3 + 2 && memory_uploads(bucket) == 0, "n = %lu", n);
    calls = calls < n ? 0 : calls + 1;
  }
}
END_TEST

static void *collect_many(void *user) {
  (void)user;
  ck_ok(gc(0, false, NULL));
  return NULL;
}

/* A large attempt is removed by all threads, and so are many small ones. */
START_TEST(removals_are_parallel) {
  pthread_t thread;
  for (int i = 0; i < 2500; i++) {
    char key[128];
    if (_i == 0)
      snprintf(key, sizeof key, A "file-%05d", i);
    else
      snprintf(key, sizeof key, "step-%012d/aaaaaaaaaaaaaaaa/one", i);
    put(key, 30 * HOUR);
  }
  memory_hold(bucket, "remove", "");
  ck_assert_int_eq(pthread_create(&thread, NULL, collect_many, NULL), 0);
  memory_wait_held(bucket, 4);
  memory_release(bucket);
  pthread_join(thread, NULL);
  ck_assert_uint_eq(memory_count(bucket, ""), 0);
  ck_assert_uint_eq(memory_calls(bucket, "remove"), 2500);
}
END_TEST

START_TEST(bad_arguments) {
  struct cleat_gc_options options = CLEAT_GC_OPTIONS_INIT;
  ck_fails(cleat_gc(NULL, &options, NULL, &err), CLEAT_INVALID);
  options.struct_bytes = 1;
  ck_fails(cleat_gc(client, &options, NULL, &err), CLEAT_INVALID);
  ck_ok(cleat_gc(client, NULL, NULL, &err));
}
END_TEST

static const struct suite_row tests[] = {
    CASE("gc", setup, desk_teardown, 300),
    TEST(dead_attempts_go, 1),
    TEST(age_is_that_of_the_newest, 12),
    TEST(grace_as_asked_for, 1),
    TEST(age_is_by_the_clock_of_the_store, 1),
    TEST(what_is_committed_stays, 1),
    TEST(nothing_of_a_step_that_cannot_be_read, 2),
    TEST(uploads_of_what_is_committed, 1),
    TEST(committed_at_the_last_moment, 1),
    TEST(open_claims_are_closed_first, 1),
    TEST(resumed_at_the_last_moment, 1),
    TEST(uploads_that_only_a_claim_names, 2),
    TEST(uploads_that_no_list_shows, 1),
    TEST(scratch_folders, 1),
    TEST(foreign_names_stay, 1),
    TEST(pins_without_a_step, 1),
    TEST(old_starts, 1),
    TEST(a_dry_run_changes_nothing, 1),
    TEST(what_fails_stops_nothing, 7),
    TEST(each_call_fails_once, 2),
    TEST(removals_are_parallel, 2),
    TEST(bad_arguments, 1),
};

int main(void) {
  return run_table("gc", tests, COUNT(tests));
}
