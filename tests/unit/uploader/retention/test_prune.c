/* test_prune.c: uploader/retention/prune.c: what stays, what goes in which order, what happens when others are at work
 * or the store fails. */
#include "api/cleat.h"

#include "base/mem.h"
#include "tests/mock/checkpoint_fixture.h"
#include "tests/mock/run_suite.h"
#include "tests/mock/store_check.h"
#include "uploader/model/name.h"

#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct cleat_error err;

/* Those that are there stay as they are. */
static void save_steps(int64_t first, int64_t last) {
  for (int64_t step = first; step <= last; step++) {
    struct cleat_save_request request = kit_request(&model, step);
    request.if_exists = CLEAT_IF_EXISTS_SKIP;
    ck_ok(cleat_save(client, &request, &err));
  }
}

static cleat_status prune(unsigned keep_last, int64_t keep_every, bool dry_run, struct cleat_removals **removals) {
  struct cleat_prune_options options = CLEAT_PRUNE_OPTIONS_INIT;
  options.keep_last = keep_last;
  options.keep_every = keep_every;
  options.dry_run = dry_run;
  return cleat_prune(client, &options, removals, &err);
}

/* The steps that were removed: "1 2 3". */
static const char *removed(const struct cleat_removals *removals) {
  static char text[512];
  size_t used = 0;
  text[0] = '\0';
  for (size_t i = 0; i < cleat_removals_count(removals); i++)
    used += (size_t)snprintf(text + used, sizeof text - used, "%s%lld", i > 0 ? " " : "",
                             (long long)cleat_removals_get(removals, i)->step);
  return text;
}

static char key_text[CLEAT__OBJECT_KEY_MAX];

static const char *manifest_of(int64_t step) {
  cleat__key_manifest(step, key_text);
  return key_text;
}

static size_t size_of(const char *ending) {
  size_t size = 0;
  (void)memory_find(bucket, ending, &size);
  return size;
}

static const char *in_attempt(int64_t step, const char *name) {
  struct cleat_checkpoint *checkpoint = kit_checkpoint(client, step);
  cleat__key_file(step, cleat_checkpoint_info(checkpoint)->attempt, name, key_text);
  cleat_checkpoint_free(checkpoint);
  return key_text;
}

/* ---- What stays ------------------------------------------------------------------------------- */

START_TEST(keeps_the_last_every_and_pinned) {
  struct cleat_removals *removals = NULL;
  save_steps(1, 10);
  ck_ok(cleat_pin(client, 2, &err));
  size_t bytes =
      size_of(in_attempt(5, "model.safetensors")) + size_of(manifest_of(5)) + size_of(in_attempt(5, "rank-00000.json"));
  ck_ok(prune(3, 4, false, &removals));
  ck_assert_str_eq(kit_listed(client), "2 4 8 9 10");
  ck_assert_str_eq(removed(removals), "1 3 5 6 7");
  ck_assert_uint_eq(cleat_removals_kept(removals), 5);
  for (size_t i = 0; i < 5; i++) {
    const struct cleat_removal *removal = cleat_removals_get(removals, i);
    ck_assert_int_eq(removal->kind, CLEAT_REMOVAL_CHECKPOINT);
    ck_assert_int_eq(removal->status, CLEAT_OK);
    ck_assert_uint_eq(removal->objects, 3);
    ck_assert_uint_eq(strlen(removal->name), 16);
  }
  ck_assert_uint_eq(cleat_removals_get(removals, 2)->bytes, bytes);
  ck_assert_ptr_null(cleat_removals_get(removals, 5));
  uint64_t sum = 0;
  for (size_t i = 0; i < 5; i++)
    sum += cleat_removals_get(removals, i)->bytes;
  ck_assert_uint_eq(cleat_removals_bytes(removals), sum);
  cleat_removals_free(removals);
  ck_assert_uint_eq(memory_count(bucket, ""), 5 * 3 + 1); /* and the pin */
  ck_assert_uint_eq(kit_steps(client), 5);
  kit_expect(client, 2, &model, false);
}
END_TEST

START_TEST(never_the_newest) {
  static const struct {
    unsigned last;
    int64_t every;
    const char *left;
  } cases[] = {{0, 0, "1 2 3"},    {0, 2, "1 2 3"}, {1, 0, "3"},     {1, 2, "2 3"},
               {1, 1, "1 2 3"},    {3, 0, "1 2 3"}, {4, 0, "1 2 3"}, {UINT32_MAX, INT64_MAX, "1 2 3"},
               {1, INT64_MAX, "3"}};
  save_steps(1, 3);
  ck_ok(prune(cases[_i].last, cases[_i].every, false, NULL));
  ck_assert_str_eq(kit_listed(client), cases[_i].left);
}
END_TEST

START_TEST(nothing_there) {
  struct cleat_removals *removals = NULL;
  ck_ok(prune(1, 0, false, &removals));
  ck_assert_uint_eq(cleat_removals_count(removals), 0);
  ck_assert_uint_eq(cleat_removals_kept(removals), 0);
  cleat_removals_free(removals);
  cleat_removals_free(NULL);
  ck_assert_uint_eq(memory_calls(bucket, "remove"), 0);
}
END_TEST

/* Nobody can know what they name; and they are none of the last N. */
START_TEST(what_cannot_be_read_is_left) {
  static const char newer[] = "{\"format\": \"cleat.manifest\", \"version\": \"2.0\", "
                              "\"cleat_version\": \"9.9.9\"}";
  struct cleat_removals *removals = NULL;
  save_steps(1, 6);
  memory_write(bucket, manifest_of(2), newer, sizeof newer - 1);
  memory_resize(bucket, manifest_of(5), 40);
  memory_write(bucket, "step-000000000007/manifest.json", newer, sizeof newer - 1);
  ck_ok(prune(2, 0, false, &removals));
  ck_assert_str_eq(removed(removals), "1 3");
  ck_assert_uint_eq(cleat_removals_kept(removals), 2);
  cleat_removals_free(removals);
  ck_assert_str_eq(kit_listed(client), "4 6");
  ck_assert_uint_eq(memory_count(bucket, "step-000000000002/"), 3);
  ck_assert_uint_eq(memory_count(bucket, "step-000000000005/"), 3);
  ck_assert_uint_eq(memory_count(bucket, "step-000000000007/"), 1);
  ck_assert_uint_eq(desk_warnings("left alone: step 2"), 1);
  ck_assert_uint_eq(desk_warnings("left alone: step 5"), 1);
  ck_assert_uint_eq(desk_warnings("left alone: step 7"), 1);
}
END_TEST

/* A job that starts again finds step 3: it must not be pruned because broken ones are newer. */
START_TEST(the_newest_whole_one_stays) {
  save_steps(1, 5);
  memory_remove(bucket, in_attempt(5, "model.safetensors"));
  memory_flip(bucket, in_attempt(4, "rank-00000.json"), 30);
  ck_ok(prune(1, 0, false, NULL));
  ck_assert_uint_eq(desk_warnings("step 3 is kept: it is the newest complete step"), 1);
  ck_assert_str_eq(kit_listed(client), "3 5");
  kit_expect(client, 3, &model, false);
}
END_TEST

START_TEST(damaged_records_name_nothing) {
  struct cleat_removals *removals = NULL;
  save_steps(1, 4);
  memory_flip(bucket, in_attempt(1, "rank-00000.json"), 30);
  memory_remove(bucket, in_attempt(2, "rank-00000.json"));
  memory_remove(bucket, in_attempt(3, "model.safetensors"));
  ck_ok(prune(1, 0, false, &removals));
  ck_assert_str_eq(removed(removals), "1 2 3");
  cleat_removals_free(removals);
  ck_assert_str_eq(kit_listed(client), "4");
  /* gc's. */
  ck_assert_uint_eq(memory_count(bucket, "step-000000000001/"), 1);
  ck_assert_uint_eq(memory_count(bucket, "step-000000000002/"), 1);
  ck_assert_uint_eq(memory_count(bucket, "step-000000000003/"), 0);
}
END_TEST

/* Other attempts, and what others have put there. */
START_TEST(others_are_not_touched) {
  static const char *const others[] = {"step-000000000001/0123456789abcdef/model.safetensors",
                                       "step-000000000001/0123456789abcdef/rank-00000.json",
                                       "step-000000000001/notes.txt",
                                       "step-1/manifest.json",
                                       "starts/000001.json",
                                       "readme"};
  char own[CLEAT__OBJECT_KEY_MAX];
  save_steps(1, 2);
  snprintf(own, sizeof own, "%s", in_attempt(1, "added-later.txt"));
  for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
    memory_write(bucket, others[i], "x", 1);
  memory_write(bucket, own, "x", 1);
  ck_ok(prune(1, 0, false, NULL));
  for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
    ck_assert_uint_eq(memory_count(bucket, others[i]), 1);
  ck_assert_uint_eq(memory_count(bucket, own), 1);
  ck_assert_uint_eq(memory_count(bucket, ""), 3 + 1 + sizeof others / sizeof others[0]);
}
END_TEST

START_TEST(a_dry_run_tells_the_same) {
  struct cleat_removals *told = NULL;
  struct cleat_removals *done = NULL;
  save_steps(1, 6);
  ck_ok(cleat_pin(client, 3, &err));
  size_t objects = memory_count(bucket, "");
  ck_ok(prune(1, 5, true, &told));
  ck_assert_uint_eq(memory_count(bucket, ""), objects);
  ck_assert_uint_eq(memory_calls(bucket, "remove"), 0);
  ck_ok(prune(1, 5, false, &done));
  ck_assert_str_eq(removed(done), "1 2 4");
  ck_assert_str_eq(removed(told), "1 2 4");
  ck_assert_uint_eq(cleat_removals_kept(told), cleat_removals_kept(done));
  ck_assert_uint_eq(cleat_removals_bytes(told), cleat_removals_bytes(done));
  for (size_t i = 0; i < 3; i++)
    ck_assert_uint_eq(cleat_removals_get(told, i)->objects, cleat_removals_get(done, i)->objects);
  cleat_removals_free(told);
  cleat_removals_free(done);
}
END_TEST

START_TEST(bad_arguments) {
  struct cleat_prune_options options = CLEAT_PRUNE_OPTIONS_INIT;
  struct cleat_removals *removals = NULL;
  ck_fails(cleat_prune(NULL, &options, &removals, &err), CLEAT_INVALID);
  ck_fails(cleat_prune(client, NULL, &removals, &err), CLEAT_INVALID);
  options.keep_every = -1;
  ck_fails(cleat_prune(client, &options, &removals, &err), CLEAT_INVALID);
  options.struct_bytes = 0;
  ck_fails(cleat_prune(client, &options, &removals, &err), CLEAT_INVALID);
  ck_assert_ptr_null(removals);
  ck_assert_int_eq(cleat_prune(NULL, &options, NULL, NULL), CLEAT_INVALID);
  ck_assert_str_eq(cleat_removal_kind_name(CLEAT_REMOVAL_START), "start");
  ck_assert_str_eq(cleat_removal_kind_name((enum cleat_removal_kind)99), "unknown");
}
END_TEST

/* ---- The order -------------------------------------------------------------------------------- */

/* What was asked of step 1, in order: 'm' the manifest is removed, 'f' a file, 'r' the record; 'p' the pin is looked
 * at. */
struct trail {
  pthread_mutex_t lock;
  char text[256];
};

static cleat_status note_order(void *user, const char *op, const char *key, bool done, struct cleat__call call) {
  struct trail *trail = user;
  bool removes = strcmp(op, "remove") == 0;
  (void)call;
  if (strncmp(key, "step-000000000001/", 18) != 0)
    return CLEAT_OK;
  bool is_pin = strstr(key, "/pin.json") != NULL;
  char what = strstr(key, "/manifest.json") != NULL ? 'm' : strstr(key, "/rank-") != NULL ? 'r' : 'f';
  pthread_mutex_lock(&trail->lock);
  size_t used = strlen(trail->text);
  if (removes) /* twice each: when it begins, when it has ended */
    snprintf(trail->text + used, 2, "%c", done ? what - 'a' + 'A' : what);
  else if (is_pin && !done)
    snprintf(trail->text + used, 2, "p");
  pthread_mutex_unlock(&trail->lock);
  return CLEAT_OK;
}

START_TEST(manifest_files_record) {
  struct trail trail = {.lock = PTHREAD_MUTEX_INITIALIZER};
  struct cleat_save_request request = kit_request(&model, 1);
  kit_add_bytes(&model, "u", KIT_PART, 2);
  kit_add_bytes(&model, "v", KIT_PART, 3);
  request = kit_request(&model, 1);
  request.shard_bytes = 1;
  ck_ok(cleat_save(client, &request, &err));
  kit_save(client, &model, 2);
  memory_bucket_hook(bucket, note_order, &trail);
  ck_ok(prune(1, 0, false, NULL));
  memory_bucket_hook(bucket, NULL, NULL);
  /* Three shards and their index. */
  ck_assert_uint_eq(strlen(trail.text), 1 + 2 + 2 * 4 + 2);
  ck_assert_int_eq(strncmp(trail.text, "pmM", 3), 0);
  ck_assert_uint_eq(strspn(trail.text + 3, "fF"), 8);
  ck_assert_str_eq(trail.text + 11, "rR");
  ck_assert_uint_eq(memory_count(bucket, "step-000000000001/"), 0);
}
END_TEST

/* Each rank has left a claim beside its record; nothing of the step stays, and the step after it is whole. */
START_TEST(a_step_of_several_ranks) {
  struct cleat_removals *removals = NULL;
  desk_save_ranks(3, 1);
  ck_assert_uint_eq(memory_count(bucket, ".claim.json"), 3);
  desk_save_ranks(3, 2);
  ck_ok(prune(1, 0, false, &removals));
  ck_assert_str_eq(removed(removals), "1");
  ck_assert_uint_eq(memory_count(bucket, "step-000000000001/"), 0);
  ck_assert_uint_eq(memory_count(bucket, ".claim.json"), 3);
  ck_assert_uint_eq(kit_steps(client), 1);
  cleat_removals_free(removals);
}
END_TEST

/* ---- Others at work ----------------------------------------------------------------------------- */

static void pin_one(void) {
  memory_write(bucket, "step-000000000001/pin.json", "{}", 2);
}

static void remove_manifest(void) {
  memory_remove(bucket, "step-000000000001/manifest.json");
}

static char replacement[8192];
static size_t replacement_size;

static void replace_manifest(void) {
  memory_write(bucket, "step-000000000001/manifest.json", replacement, replacement_size);
}

/* Prunes three steps down to one, while somebody else acts. */
static struct cleat_removals *prune_beside(struct desk_moment *moment) {
  struct cleat_removals *removals = NULL;
  save_steps(1, 3);
  memory_bucket_hook(bucket, desk_at_the_moment, moment);
  ck_ok(prune(1, 0, false, &removals));
  memory_bucket_hook(bucket, NULL, NULL);
  ck_assert(atomic_load(&moment->acted));
  return removals;
}

/* Pinned after the list, and before the very last look. */
START_TEST(pinned_at_the_last_moment) {
  struct desk_moment moment = {"get_small", "001/pin.json", false, 0, pin_one, false};
  struct cleat_removals *removals = prune_beside(&moment);
  ck_assert_str_eq(removed(removals), "2");
  ck_assert_uint_eq(cleat_removals_kept(removals), 2);
  cleat_removals_free(removals);
  ck_assert_str_eq(kit_listed(client), "1 3");
  kit_expect(client, 1, &model, false);
}
END_TEST

/* Another prune was faster: its step is not ours to tell. */
START_TEST(removed_by_another) {
  struct desk_moment moment = {"get_small", "001/manifest.json", false, 1, remove_manifest, false};
  struct cleat_removals *removals = prune_beside(&moment);
  ck_assert_str_eq(removed(removals), "2");
  cleat_removals_free(removals);
  ck_assert_uint_eq(memory_count(bucket, "step-000000000001/"), 2);
}
END_TEST

/* A save has replaced the step since it was listed. */
START_TEST(replaced_by_another) {
  struct desk_moment moment = {"get_small", "001/manifest.json", false, 1, replace_manifest, false};
  struct cleat_save_request request = kit_request(&model, 1);
  struct cleat_client *other = kit_open(bucket, &(struct kit_setup){.start = "start-b"});
  save_steps(1, 3);
  char *first = strdup(memory_find(bucket, "001/manifest.json", &replacement_size));
  size_t first_size = replacement_size;
  request.if_exists = CLEAT_IF_EXISTS_REPLACE;
  ck_ok(cleat_save(other, &request, &err));
  const char *second = memory_find(bucket, "001/manifest.json", &replacement_size);
  memcpy(replacement, second, replacement_size);
  memory_write(bucket, "step-000000000001/manifest.json", first, first_size);
  free(first);
  memory_bucket_hook(bucket, desk_at_the_moment, &moment);
  ck_ok(prune(1, 0, false, NULL));
  memory_bucket_hook(bucket, NULL, NULL);
  ck_assert(atomic_load(&moment.acted));
  ck_assert_str_eq(kit_listed(client), "1 3");
  kit_expect(client, 1, &model, false);
  kit_close_idle(other);
}
END_TEST

/* The manifest arrives with another digit in the digest of the record, well-formed, once. */
static cleat_status flip_once(void *user, const char *op, const char *key, bool done, struct cleat__call call) {
  unsigned *reads = user;
  size_t size = 0;
  (void)call;
  if (strcmp(op, "get_small") != 0 || strstr(key, "001/manifest.json") == NULL)
    return CLEAT_OK;
  *reads += !done;
  if (*reads != 2)
    return CLEAT_OK;
  const char *text = memory_find(bucket, "001/manifest.json", &size);
  size_t digit = (size_t)(strstr(text, "\"sha256\":\"") - text) + strlen("\"sha256\":\"");
  replacement[0] = done ? replacement[0] : text[digit];
  memory_flip_bits(bucket, "001/manifest.json", digit,
                   (char)(text[digit] ^ (done                 ? replacement[0]
                                         : text[digit] == '1' ? '2'
                                                              : '1')));
  return CLEAT_OK;
}

START_TEST(a_manifest_that_was_damaged_on_its_way) {
  unsigned reads = 0;
  save_steps(1, 2);
  memory_bucket_hook(bucket, flip_once, &reads);
  ck_ok(prune(1, 0, false, NULL));
  memory_bucket_hook(bucket, NULL, NULL);
  ck_assert_uint_eq(reads, 3);
  ck_assert_uint_eq(memory_count(bucket, "step-000000000001/"), 0);
}
END_TEST

/* ---- Failures ---------------------------------------------------------------------------------- */

START_TEST(what_fails_stops_nothing) {
  static const struct {
    const char *what[2];
    const char *left;  /* that is listed after it */
    size_t objects[3]; /* that are left of steps 1, 2, 3 */
    uint64_t removed;  /* objects, of step 2 */
  } cases[] = {{{"remove", "002/manifest.json"}, "2 4", {0, 3, 0}, 0},
               {{"remove", "model.safetensors"}, "4", {1, 1, 1}, 2},
               {{"remove", "rank-00000.json"}, "4", {1, 1, 1}, 2},
               {{"get_small", "002/pin.json"}, "2 4", {0, 3, 0}, 0}};
  struct cleat_removals *removals = NULL;
  save_steps(1, 4);
  memory_bucket_hook(bucket, desk_deny, (void *)(uintptr_t)cases[_i].what);
  ck_fails(prune(1, 0, false, &removals), CLEAT_DENIED);
  memory_bucket_hook(bucket, NULL, NULL);
  ck_assert_str_eq(kit_listed(client), cases[_i].left);
  ck_assert_str_eq(removed(removals), "1 2 3");
  ck_assert_int_eq(cleat_removals_get(removals, 1)->status, CLEAT_DENIED);
  ck_assert_uint_eq(cleat_removals_get(removals, 1)->objects, cases[_i].removed);
  for (int64_t i = 0; i < 3; i++) {
    char folder[CLEAT__STEP_FOLDER_MAX];
    cleat__name_step_folder(i + 1, folder);
    ck_assert_uint_eq(memory_count(bucket, folder), cases[_i].objects[i]);
  }
  cleat_removals_free(removals);
  ck_ok(prune(1, 0, false, NULL));
  ck_assert_str_eq(kit_listed(client), "4");
}
END_TEST

START_TEST(a_store_that_does_not_answer) {
  static const char *const cases[][2] = {
      {"list", ""}, {"get_small", "002/manifest.json"}, {"get_small", "/rank-00000.json"}};
  struct cleat_removals *removals = NULL;
  save_steps(1, 3);
  memory_bucket_hook(bucket, desk_deny, (void *)(uintptr_t)cases[_i]);
  ck_fails(prune(1, 0, false, &removals), CLEAT_DENIED);
  memory_bucket_hook(bucket, NULL, NULL);
  ck_assert_ptr_null(removals);
  ck_assert_str_eq(kit_listed(client), "1 2 3");
  ck_assert_uint_eq(memory_count(bucket, ""), 9);
}
END_TEST

/* Every allocation and every call of the store fails once, before it is carried out or after: what is visible is whole,
 * the newest is there, and the next prune does the rest. */
START_TEST(each_call_fails_once) {
  unsigned long calls = 1;
  for (unsigned long n = 1; n <= calls; n++) {
    struct cleat_prune_options prunes = CLEAT_PRUNE_OPTIONS_INIT;
    struct cleat_removals *removals = NULL;
    save_steps(1, 3);
    struct cleat_client *faulty = desk_open_faulty(_i == 0 ? CLEAT__FAULT_BEFORE : CLEAT__FAULT_AFTER);
    prunes.keep_last = 1;
    err.message[0] = '\0';
    cleat__fault_arm(n, false);
    cleat_status status = cleat_prune(faulty, &prunes, &removals, &err);
    calls = cleat__fault_disarm();
    ck_assert_msg(status == CLEAT_OK || err.message[0] != '\0', "n = %lu", n);
    /* A look that finds nothing has no success that could be withheld. */
    bool told = status == CLEAT_NO_MEMORY || status == CLEAT_STORE || (_i == 1 && status == CLEAT_OK);
    ck_assert_msg(calls < n || told, "n = %lu: %d %s", n, (int)status, err.message);
    cleat_removals_free(removals);
    kit_close_idle(faulty);
    ck_assert_uint_ge(kit_steps(client), 1);
    kit_expect(client, 3, &model, false);
    ck_ok(prune(1, 0, false, NULL));
    ck_assert_str_eq(kit_listed(client), "3");
    calls = calls < n ? 0 : calls + 1;
  }
}
END_TEST

static const struct suite_row tests[] = {
    CASE("prune", desk_setup, desk_teardown, 300),
    TEST(keeps_the_last_every_and_pinned, 1),
    TEST(never_the_newest, 9),
    TEST(nothing_there, 1),
    TEST(what_cannot_be_read_is_left, 1),
    TEST(the_newest_whole_one_stays, 1),
    TEST(damaged_records_name_nothing, 1),
    TEST(others_are_not_touched, 1),
    TEST(a_dry_run_tells_the_same, 1),
    TEST(bad_arguments, 1),
    TEST(manifest_files_record, 1),
    TEST(a_step_of_several_ranks, 1),
    TEST(pinned_at_the_last_moment, 1),
    TEST(removed_by_another, 1),
    TEST(replaced_by_another, 1),
    TEST(a_manifest_that_was_damaged_on_its_way, 1),
    TEST(what_fails_stops_nothing, 4),
    TEST(a_store_that_does_not_answer, 3),
    TEST(each_call_fails_once, 2),
};

int main(void) {
  return run_table("prune", tests, COUNT(tests));
}
