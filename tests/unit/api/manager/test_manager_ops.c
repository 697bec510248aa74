/* test_manager_ops.c: api/manager/ops.c and manager.c: the store, the policy or the whole manager by the
 * caller's functions. Nothing here touches a real store. */
#include "api/manager/manager.h"

#include "tests/mock/kit.h"
#include "tests/mock/run_suite.h"
#include "tests/mock/store_check.h"

#include <check.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static struct cleat_error err;
static struct cleat_manager_options options;
static struct cleat_manager *manager;

static void setup(void) {
  static const struct cleat_manager_options init = CLEAT_MANAGER_OPTIONS_INIT;
  options = init;
}

static void teardown(void) {
  cleat_manager_close(manager);
  manager = NULL;
}

/* ---- A store that is a few counters ------------------------------------------------------------- */

/* What the functions below do to the client, which is never opened: it stands for whatever the table's
 * functions take it for. */
struct fake {
  atomic_uint saves, asyncs, waits, staged, frees, prunes;
  atomic_uint keep;
  int64_t latest;
  char metadata[128];
};

static struct fake fake;
static struct cleat_client *const client = (struct cleat_client *)&fake;

static void fake_ranks(void *user, const struct cleat_client *of, unsigned *rank, unsigned *world_size) {
  ck_assert_ptr_eq(user, &fake);
  ck_assert_ptr_eq(of, client);
  *rank = 0;
  *world_size = 1;
}

static cleat_status fake_resume(void *user, struct cleat_client *of, const struct cleat_resume_options *how,
                                struct cleat_checkpoint **checkpoint, struct cleat_error *error) {
  (void)error;
  ck_assert_ptr_eq(user, &fake);
  ck_assert_ptr_eq(of, client);
  ck_assert_int_eq(how->fresh, 0);
  *checkpoint = (struct cleat_checkpoint *)&fake;
  return CLEAT_OK;
}

static cleat_status fake_latest(void *user, struct cleat_client *of, int64_t *step, struct cleat_error *error) {
  (void)error, (void)of;
  *step = ((struct fake *)user)->latest;
  return CLEAT_OK;
}

static cleat_status fake_step_before(void *user, struct cleat_client *of, int64_t step, int64_t *before,
                                     struct cleat_error *error) {
  (void)user, (void)of, (void)step, (void)before;
  return cleat__error_set(error, CLEAT_NOT_FOUND, "nothing");
}

static cleat_status fake_open(void *user, struct cleat_client *of, int64_t step, struct cleat_checkpoint **checkpoint,
                              struct cleat_error *error) {
  (void)user, (void)of, (void)step, (void)checkpoint;
  return cleat__error_set(error, CLEAT_NOT_FOUND, "nothing");
}

static const struct cleat_checkpoint_info *fake_info(void *user, const struct cleat_checkpoint *of) {
  static const struct cleat_checkpoint_info info = {.step = 5, .metadata = "{\"lr\": 0.25}"};
  ck_assert_ptr_eq((const void *)of, user);
  return &info;
}

static size_t fake_reshard(void *user, const struct cleat_checkpoint *of, char *text, size_t size) {
  (void)text, (void)size;
  ck_assert_ptr_eq((const void *)of, user);
  return 0;
}

static void fake_checkpoint_free(void *user, struct cleat_checkpoint *of) {
  (void)of;
  atomic_fetch_add(&((struct fake *)user)->frees, 1);
}

static cleat_status fake_load(void *user, struct cleat_checkpoint *of, const struct cleat_load_request *requests,
                              size_t count, const struct cleat_load_options *how, struct cleat_error *error) {
  (void)user, (void)of, (void)requests, (void)count, (void)how, (void)error;
  return CLEAT_OK;
}

static cleat_status fake_save(void *user, struct cleat_client *of, const struct cleat_save_request *request,
                              struct cleat_error *error) {
  (void)of, (void)request, (void)error;
  atomic_fetch_add(&((struct fake *)user)->saves, 1);
  return CLEAT_OK;
}

static cleat_status fake_save_async(void *user, struct cleat_client *of, const struct cleat_save_request *request,
                                    struct cleat_save **save, struct cleat_error *error) {
  (void)of, (void)error;
  atomic_fetch_add(&fake.asyncs, 1);
  strncpy(fake.metadata, request->metadata != NULL ? request->metadata : "", sizeof fake.metadata - 1);
  *save = (struct cleat_save *)user;
  return CLEAT_OK;
}

static cleat_status fake_staged(void *user, struct cleat_save *save, struct cleat_error *error) {
  (void)error;
  ck_assert_ptr_eq((void *)save, user);
  atomic_fetch_add(&fake.staged, 1);
  return CLEAT_OK;
}

static cleat_status fake_wait(void *user, struct cleat_save *save, struct cleat_error *error) {
  (void)error;
  ck_assert_ptr_eq((void *)save, user);
  atomic_fetch_add(&fake.waits, 1);
  return CLEAT_OK;
}

static void fake_progress(void *user, const struct cleat_save *save, struct cleat_progress *progress) {
  (void)user, (void)save;
  *progress = (struct cleat_progress){.bytes_total = 99};
}

static void fake_save_free(void *user, struct cleat_save *save) {
  (void)save;
  atomic_fetch_add(&((struct fake *)user)->frees, 1);
}

static cleat_status fake_prune(void *user, struct cleat_client *of, const struct cleat_prune_options *what,
                               struct cleat_error *error) {
  (void)of, (void)error;
  atomic_fetch_add(&((struct fake *)user)->prunes, 1);
  atomic_store(&fake.keep, what->keep_last);
  return CLEAT_OK;
}

static cleat_status fake_rollback(void *user, struct cleat_client *of, const struct cleat_rollback_options *how,
                                  struct cleat_error *error) {
  (void)user, (void)of, (void)how, (void)error;
  return CLEAT_OK;
}

static const struct cleat_manager_store_ops fake_store = {.struct_bytes = sizeof fake_store,
                                                          .ranks = fake_ranks,
                                                          .resume = fake_resume,
                                                          .latest = fake_latest,
                                                          .step_before = fake_step_before,
                                                          .checkpoint_open = fake_open,
                                                          .checkpoint_info = fake_info,
                                                          .checkpoint_reshard = fake_reshard,
                                                          .checkpoint_free = fake_checkpoint_free,
                                                          .load_tensors = fake_load,
                                                          .save = fake_save,
                                                          .save_async = fake_save_async,
                                                          .save_wait_staged = fake_staged,
                                                          .save_wait = fake_wait,
                                                          .save_progress = fake_progress,
                                                          .save_free = fake_save_free,
                                                          .prune = fake_prune,
                                                          .rollback = fake_rollback};

static void use_fake_store(void) {
  memset(&fake, 0, sizeof fake);
  options.store = &fake_store;
  options.store_user = &fake;
}

START_TEST(the_store_is_replaced) {
  int64_t step = 0;
  struct cleat_value value = {.name = "loss", .number = 0.5};
  struct cleat_save_request request = CLEAT_SAVE_REQUEST_INIT;
  struct cleat_manager_save_options more = CLEAT_MANAGER_SAVE_OPTIONS_INIT;
  more.values = &value, more.value_count = 1;
  use_fake_store();
  options.keep_last = 2;
  ck_ok(cleat_manager_open(client, &options, &manager, &err));
  ck_assert(cleat_manager_should_load(manager, &step));
  ck_assert_int_eq(step, 5);
  ck_assert(cleat_manager_value(manager, "lr")->number == 0.25);
  ck_ok(cleat_manager_load(manager, NULL, 0, NULL, &err));
  request.step = 10;
  ck_ok(cleat_manager_save(manager, &request, &more, &err));
  ck_assert_str_eq(fake.metadata, "{\"loss\": 0.5}");
  ck_ok(cleat_manager_wait_staged(manager, &err));
  ck_ok(cleat_manager_wait_staged(manager, &err));
  request.step = 20;
  more.is_final = 1;
  ck_ok(cleat_manager_save(manager, &request, &more, &err));
  ck_ok(cleat_manager_finalize(manager, 1, 1, &err));
  fake.latest = 44;
  ck_ok(cleat_manager_find_latest(manager, &step, &err));
  ck_assert_int_eq(step, 44);
  cleat_manager_close(manager);
  manager = NULL;
  ck_assert_uint_eq(fake.asyncs, 1);
  ck_assert_uint_eq(fake.waits, 1);
  ck_assert_uint_le(fake.staged, 1);
  ck_assert_uint_eq(fake.saves, 1);
  ck_assert_uint_eq(fake.prunes, 2);
  ck_assert_uint_eq(fake.keep, 3);  /* two, and the final one */
  ck_assert_uint_eq(fake.frees, 2); /* the save, the checkpoint */
}
END_TEST

static cleat_status fake_failure(void *user, struct cleat_save *save, struct cleat_error *error) {
  (void)user, (void)save;
  return cleat__error_set(error, CLEAT_NETWORK, "gone");
}

/* However fast a save fails, it is the next call that tells. */
START_TEST(a_save_does_not_report_its_own_failure) {
  struct cleat_manager_store_ops failing = fake_store;
  struct cleat_save_request request = CLEAT_SAVE_REQUEST_INIT;
  failing.save_wait = fake_failure;
  for (int i = 0; i < 500; i++) {
    use_fake_store();
    options.store = &failing;
    ck_ok(cleat_manager_open(client, &options, &manager, &err));
    request.step = 10;
    ck_ok(cleat_manager_save(manager, &request, NULL, &err));
    ck_fails(cleat_manager_finalize(manager, 1, 0, &err), CLEAT_NETWORK);
    ck_ok(cleat_manager_finalize(manager, 1, 0, &err));
    cleat_manager_close(manager);
    manager = NULL;
  }
}
END_TEST

static cleat_status damaged_load(void *user, struct cleat_checkpoint *of, const struct cleat_load_request *requests,
                                 size_t count, const struct cleat_load_options *how, struct cleat_error *error) {
  (void)user, (void)of, (void)requests, (void)count, (void)how;
  return cleat__error_set(error, CLEAT_INTEGRITY, "a part is not what was saved");
}

static cleat_status damaged_list(void *user, struct cleat_client *of, int64_t step, int64_t *before,
                                 struct cleat_error *error) {
  (void)user, (void)of, (void)step, (void)before;
  return cleat__error_set(error, CLEAT_INTEGRITY, "the list is damaged");
}

/* A table that cannot tell the step before is not asked for ever. */
START_TEST(a_damaged_list_ends_the_search) {
  struct cleat_manager_store_ops broken = fake_store;
  broken.load_tensors = damaged_load;
  broken.step_before = damaged_list;
  use_fake_store();
  options.store = &broken;
  ck_ok(cleat_manager_open(client, &options, &manager, &err));
  ck_fails(cleat_manager_load(manager, NULL, 0, NULL, &err), CLEAT_STORE);
  ck_assert_str_eq(err.message, "the list is damaged");
}
END_TEST

/* ---- A policy of one's own ---------------------------------------------------------------------- */

struct taste {
  int64_t steps[2];
  int loads;
};

static int taste_should_save(void *user, const struct cleat_manager_state *state, int64_t step) {
  const struct taste *taste = user;
  ck_assert_int_eq(state->save_interval, 7);
  return step > state->newest && (step == taste->steps[0] || step == taste->steps[1]);
}

static int taste_should_load(void *user, const struct cleat_manager_state *state) {
  ck_assert_int_eq(state->resumable, 5);
  return ((const struct taste *)user)->loads;
}

static unsigned taste_keep_last(void *user, const struct cleat_manager_state *state) {
  (void)user, (void)state;
  return 12;
}

START_TEST(the_policy_is_replaced) {
  static const struct cleat_manager_policy_ops policy = {.struct_bytes = sizeof policy,
                                                         .should_save = taste_should_save,
                                                         .should_load = taste_should_load,
                                                         .keep_last = taste_keep_last};
  struct taste taste = {{8, 13}, 0};
  struct cleat_save_request request = CLEAT_SAVE_REQUEST_INIT;
  use_fake_store();
  options.save_interval = 7;
  options.policy = &policy;
  options.policy_user = &taste;
  ck_ok(cleat_manager_open(client, &options, &manager, &err));
  ck_assert(!cleat_manager_should_load(manager, NULL));
  taste.loads = 1;
  ck_assert(cleat_manager_should_load(manager, NULL));
  ck_assert(!cleat_manager_should_save(manager, 7));
  ck_assert(cleat_manager_should_save(manager, 8));
  ck_assert(cleat_manager_should_save(manager, 13));
  request.step = 13;
  ck_ok(cleat_manager_save(manager, &request, NULL, &err));
  ck_assert(!cleat_manager_should_save(manager, 8));
  ck_ok(cleat_manager_finalize(manager, 1, 1, &err));
  ck_assert_uint_eq(fake.keep, 12);
  taste.steps[0] = 20;
  ck_assert(!cleat_manager_should_save(manager, 20)); /* whatever the policy says */
}
END_TEST

/* ---- A whole manager of one's own --------------------------------------------------------------- */

static struct { char calls[256]; } whole;

static void called(void *user, const char *name) {
  ck_assert_ptr_eq(user, &whole);
  size_t length = strlen(whole.calls);
  snprintf(whole.calls + length, sizeof whole.calls - length, "%s", name);
}

static int whole_should_load(void *user, int64_t *step) {
  called(user, "should_load ");
  *step = 3;
  return 1;
}

static cleat_status whole_load(void *user, const struct cleat_load_request *requests, size_t count,
                               const struct cleat_load_options *how, struct cleat_error *error) {
  (void)requests, (void)count, (void)how, (void)error;
  called(user, "load ");
  return CLEAT_OK;
}

static const struct cleat_value *whole_value(void *user, const char *name) {
  (void)name;
  called(user, "value ");
  return NULL;
}

static int whole_should_save(void *user, int64_t step) {
  (void)step;
  called(user, "should_save ");
  return 1;
}

static cleat_status whole_save(void *user, const struct cleat_save_request *request,
                               const struct cleat_manager_save_options *how, struct cleat_error *error) {
  (void)request, (void)how;
  called(user, "save ");
  return cleat__error_set(error, CLEAT_NO_SPACE, "full");
}

static cleat_status whole_wait_staged(void *user, struct cleat_error *error) {
  (void)error;
  called(user, "wait_staged ");
  return CLEAT_OK;
}

static cleat_status whole_find_latest(void *user, int64_t *step, struct cleat_error *error) {
  (void)error;
  called(user, "find_latest ");
  *step = 3;
  return CLEAT_OK;
}

static cleat_status whole_finalize(void *user, int blocking, int terminate, struct cleat_error *error) {
  (void)error;
  called(user, blocking != 0 && terminate == 0 ? "finalize " : "? ");
  return CLEAT_OK;
}

static void whole_progress(void *user, struct cleat_manager_progress *progress) {
  called(user, "progress ");
  progress->in_flight = 6;
}

static void whole_close(void *user) {
  called(user, "close ");
}

static cleat_status whole_rollback(void *user, int64_t step, const struct cleat_load_request *requests, size_t count,
                                   const struct cleat_load_options *how, struct cleat_error *error) {
  (void)requests, (void)count, (void)how, (void)error;
  called(user, step == 9 ? "rollback " : "? ");
  return CLEAT_OK;
}

static const struct cleat_manager_ops whole_ops = {.struct_bytes = sizeof whole_ops,
                                                   .should_load = whole_should_load,
                                                   .load = whole_load,
                                                   .value = whole_value,
                                                   .should_save = whole_should_save,
                                                   .save = whole_save,
                                                   .wait_staged = whole_wait_staged,
                                                   .find_latest = whole_find_latest,
                                                   .finalize = whole_finalize,
                                                   .progress = whole_progress,
                                                   .close = whole_close,
                                                   .rollback = whole_rollback};

START_TEST(the_whole_manager_is_replaced) {
  int64_t step = 0;
  struct cleat_manager_progress progress = {0};
  struct cleat_save_request request = CLEAT_SAVE_REQUEST_INIT;
  options.ops = &whole_ops;
  options.ops_user = &whole;
  ck_ok(cleat_manager_open(NULL, &options, &manager, &err));
  ck_assert(cleat_manager_should_load(manager, &step));
  ck_ok(cleat_manager_load(manager, NULL, 0, NULL, &err));
  ck_assert_ptr_null(cleat_manager_value(manager, "x"));
  ck_assert(cleat_manager_should_save(manager, 1));
  ck_fails(cleat_manager_save(manager, &request, NULL, &err), CLEAT_NO_SPACE);
  ck_assert_int_eq(cleat_manager_save(manager, &request, NULL, NULL), CLEAT_NO_SPACE);
  ck_ok(cleat_manager_wait_staged(manager, &err));
  ck_ok(cleat_manager_find_latest(manager, &step, &err));
  ck_ok(cleat_manager_finalize(manager, 1, 0, &err));
  ck_ok(cleat_manager_rollback(manager, 9, NULL, 0, NULL, &err));
  cleat_manager_progress(manager, &progress);
  ck_assert_uint_eq(progress.in_flight, 6);
  cleat_manager_close(manager);
  manager = NULL;
  ck_assert_str_eq(whole.calls, "should_load load value should_save save save wait_staged "
                                "find_latest finalize rollback progress close ");
}
END_TEST

/* ---- Tables that lack something ------------------------------------------------------------------ */

/* Where each function stands in its table. */
struct slot {
  const char *name;
  size_t offset;
};

#define STORE_SLOT(name) \
  { #name, offsetof(struct cleat_manager_store_ops, name) }
static const struct slot store_slots[] = {STORE_SLOT(ranks),
                                          STORE_SLOT(resume),
                                          STORE_SLOT(latest),
                                          STORE_SLOT(step_before),
                                          STORE_SLOT(checkpoint_open),
                                          STORE_SLOT(checkpoint_info),
                                          STORE_SLOT(checkpoint_reshard),
                                          STORE_SLOT(checkpoint_free),
                                          STORE_SLOT(load_tensors),
                                          STORE_SLOT(save),
                                          STORE_SLOT(save_async),
                                          STORE_SLOT(save_wait_staged),
                                          STORE_SLOT(save_wait),
                                          STORE_SLOT(save_progress),
                                          STORE_SLOT(save_free),
                                          STORE_SLOT(prune)};
#define POLICY_SLOT(name) \
  { #name, offsetof(struct cleat_manager_policy_ops, name) }
static const struct slot policy_slots[] = {POLICY_SLOT(should_save), POLICY_SLOT(should_load), POLICY_SLOT(keep_last)};
#define OPS_SLOT(name) \
  { #name, offsetof(struct cleat_manager_ops, name) }
static const struct slot ops_slots[] = {
    OPS_SLOT(should_load), OPS_SLOT(load),        OPS_SLOT(value),    OPS_SLOT(should_save), OPS_SLOT(save),
    OPS_SLOT(wait_staged), OPS_SLOT(find_latest), OPS_SLOT(finalize), OPS_SLOT(progress),    OPS_SLOT(close)};

static void expect_refused(const char *name) {
  char says[64];
  snprintf(says, sizeof says, "the function %s is missing", name);
  ck_fails(cleat_manager_open(client, &options, &manager, &err), CLEAT_INVALID);
  ck_assert_msg(strstr(err.message, says) != NULL, "%s: %s", name, err.message);
  ck_assert_ptr_null(manager);
}

/* Takes each function out of `table` in turn, and makes the table end before it, as an older header would. */
static void take_out_each(void *table, size_t size, const struct slot *slots, size_t count, size_t optional) {
  char whole_table[512];
  void (*const none)(void) = NULL;
  ck_assert_uint_le(size, sizeof whole_table);
  ck_assert_uint_eq(size, sizeof(size_t) + (count + optional) * sizeof none); /* complete */
  memcpy(whole_table, table, size);
  for (size_t i = 0; i < count; i++) {
    memcpy((char *)table + slots[i].offset, &none, sizeof none);
    expect_refused(slots[i].name);
    memcpy(table, whole_table, size);
    memcpy(table, &slots[i].offset, sizeof(size_t)); /* struct_bytes */
    expect_refused(slots[i].name);
    memcpy(table, whole_table, size);
  }
}

START_TEST(a_table_with_a_missing_function_is_refused_by_name) {
  struct cleat_manager_store_ops store = fake_store;
  struct cleat_manager_policy_ops policy = *cleat_manager_policy_default();
  struct cleat_manager_ops ops = whole_ops;
  use_fake_store();
  options.store = &store;
  take_out_each(&store, sizeof store, store_slots, sizeof store_slots / sizeof store_slots[0], 1);
  options.policy = &policy;
  take_out_each(&policy, sizeof policy, policy_slots, sizeof policy_slots / sizeof policy_slots[0], 0);
  options.ops = &ops;
  take_out_each(&ops, sizeof ops, ops_slots, sizeof ops_slots / sizeof ops_slots[0], 1);
  options.ops = NULL;
  store.struct_bytes = 0;
  ck_fails(cleat_manager_open(client, &options, &manager, &err), CLEAT_INVALID);
  ck_assert_ptr_nonnull(strstr(err.message, "the manager's table for the store: struct_bytes is 0"));
}
END_TEST

/* Tables of programs that were built before there was a rollback. */
START_TEST(a_table_without_a_rollback) {
  struct cleat_manager_store_ops store = fake_store;
  struct cleat_manager_ops ops = whole_ops;
  use_fake_store();
  options.store = &store;
  store.struct_bytes = offsetof(struct cleat_manager_store_ops, rollback);
  ck_ok(cleat_manager_open(client, &options, &manager, &err));
  ck_fails(cleat_manager_rollback(manager, 9, NULL, 0, NULL, &err), CLEAT_UNSUPPORTED);
  cleat_manager_close(manager);
  options.ops = &ops;
  options.ops_user = &whole;
  ops.struct_bytes = offsetof(struct cleat_manager_ops, rollback);
  ck_ok(cleat_manager_open(client, &options, &manager, &err));
  ck_fails(cleat_manager_rollback(manager, 9, NULL, 0, NULL, &err), CLEAT_UNSUPPORTED);
}
END_TEST

/* The defaults are whole. */
START_TEST(the_default_tables_are_whole) {
  struct cleat_manager_store_ops store = *cleat_manager_store_default();
  struct cleat_manager_policy_ops policy = *cleat_manager_policy_default();
  void (*function)(void) = NULL;
  for (size_t i = 0; i < sizeof store_slots / sizeof store_slots[0]; i++) {
    memcpy(&function, (char *)&store + store_slots[i].offset, sizeof function);
    ck_assert(function != NULL);
  }
  for (size_t i = 0; i < sizeof policy_slots / sizeof policy_slots[0]; i++) {
    memcpy(&function, (char *)&policy + policy_slots[i].offset, sizeof function);
    ck_assert(function != NULL);
  }
  ck_assert(store.rollback != NULL);
  ck_assert_uint_eq(store.struct_bytes, sizeof store);
  ck_assert_uint_eq(policy.struct_bytes, sizeof policy);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("manager_ops", setup, teardown, 60),
    TEST(the_store_is_replaced, 1),
    TEST(a_save_does_not_report_its_own_failure, 1),
    TEST(a_damaged_list_ends_the_search, 1),
    TEST(the_policy_is_replaced, 1),
    TEST(the_whole_manager_is_replaced, 1),
    TEST(a_table_with_a_missing_function_is_refused_by_name, 1),
    TEST(a_table_without_a_rollback, 1),
    TEST(the_default_tables_are_whole, 1),
};

int main(void) {
  return run_table("manager_ops", tests, COUNT(tests));
}
