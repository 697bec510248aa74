/* checkpoint_fixture.c: see checkpoint_fixture.h. */
#include "tests/mock/checkpoint_fixture.h"

#include "tests/mock/store_check.h"
#include "uploader/engine/client.h"

#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

struct memory_bucket *bucket;
struct cleat_client *client;
struct kit_model model;

/* Threads of the pool warn, too. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char warnings[4096]; /* a line each */

void desk_hear(void *user, enum cleat_log_level level, const char *line) {
  (void)user;
  if (level != CLEAT_LOG_WARNING)
    return;
  pthread_mutex_lock(&lock);
  size_t used = strlen(warnings);
  snprintf(warnings + used, sizeof warnings - used, "%s\n", line);
  pthread_mutex_unlock(&lock);
}

unsigned desk_warnings(const char *part) {
  unsigned count = 0;
  pthread_mutex_lock(&lock);
  for (const char *at = warnings; (at = strstr(at, part)) != NULL; at += strlen(part))
    count++;
  pthread_mutex_unlock(&lock);
  return count;
}

void desk_open(const char *start) {
  struct kit_setup loud = {.start = start, .log = desk_hear};
  client = kit_open(bucket, &loud);
}

void desk_setup_empty(void) {
  bucket = memory_bucket_new();
  warnings[0] = '\0';
  desk_open(NULL);
}

void desk_setup(void) {
  desk_setup_empty();
  kit_add_bytes(&model, "t", 100, 1);
}

void desk_teardown(void) {
  kit_clear(&model);
  if (client != NULL)
    kit_close_idle(client);
  memory_bucket_free(bucket);
}

void desk_save_ranks(unsigned ranks, int64_t step) {
  struct cleat_client *clients[DESK_RANKS_MAX];
  struct cleat_save *saves[DESK_RANKS_MAX];
  struct kit_model models[DESK_RANKS_MAX] = {0};
  struct cleat_error err = {0};
  char name[32];
  ck_assert_uint_le(ranks, DESK_RANKS_MAX);
  for (unsigned i = 0; i < ranks; i++) {
    struct kit_setup setup = {.start = "start-ranks", .rank = i, .world_size = ranks, .rank_timeout_s = 60};
    clients[i] = kit_open(bucket, &setup);
    for (unsigned k = 0; k < 2; k++) {
      snprintf(name, sizeof name, "rank%u.%c", i, 'a' + (int)k);
      kit_add_bytes(&models[i], name, 100, 10 * i + k);
    }
    struct cleat_save_request request = kit_request(&models[i], step);
    saves[i] = kit_begin(clients[i], &request);
  }
  for (unsigned i = 0; i < ranks; i++)
    ck_ok(cleat_save_wait(saves[i], &err));
  for (unsigned i = 0; i < ranks; i++) {
    cleat_save_free(saves[i]);
    kit_close_idle(clients[i]);
    kit_clear(&models[i]);
  }
}

struct cleat_client *desk_open_faulty(enum cleat__fault_mode mode) {
  static const struct kit_setup two_threads = {.concurrency = 2};
  struct cleat_client_options options = kit_options(&two_threads);
  struct cleat__store *store = NULL;
  struct cleat_client *faulty = NULL;
  struct cleat_error err;
  ck_ok(cleat__store_fault_wrap(memory_store_open(bucket, NULL), mode, &store, &err));
  ck_ok(cleat__client_on_store(store, &options, &faulty, &err));
  return faulty;
}

cleat_status desk_at_the_moment(void *user, const char *op, const char *key, bool done, struct cleat__call call) {
  struct desk_moment *moment = user;
  (void)call;
  if (done != moment->done || strcmp(op, moment->op) != 0 || strstr(key, moment->part) == NULL)
    return CLEAT_OK;
  if (moment->skip > 0)
    moment->skip--;
  else if (!atomic_exchange(&moment->acted, true))
    moment->act();
  return CLEAT_OK;
}

cleat_status desk_deny(void *user, const char *op, const char *key, bool done, struct cleat__call call) {
  const char *const *what = user;
  if (done || strcmp(op, what[0]) != 0 || strstr(key, what[1]) == NULL)
    return CLEAT_OK;
  return cleat__error_set(call.err, CLEAT_DENIED, "%s %s is denied", op, key);
}
