/* test_s3_hedged.c: storage/s3/object.c, s3/multipart.c: which requests may be sent twice when they are far behind
 * their peers. What must happen once, a PUT on a condition or the completion of an upload, is sent once, however late
 * its answer is.
 *
 * Nothing here rests on a time: a put without a condition, which began after those, is the clock. When it was sent
 * twice, they would have been, too. */
#include "storage/s3/s3.h"

#include "base/clock.h"
#include "storage/s3/open.h"
#include "tests/mock/http_server.h"
#include "tests/mock/run_suite.h"
#include "tests/mock/s3_script.h"
#include "tests/mock/store_check.h"

#include <pthread.h>
#include <stdio.h>

/* What a thread sends. The server holds the answers to all but PEER: to a CLOCK until it came twice, to the others
 * until the end. */
enum kind { CREATE, MATCH, COMPLETE, CLOCK_1, CLOCK_2, KINDS, PEER = KINDS };

static const char *const keys[KINDS] = {"create", "match", "complete", "clock-1", "clock-2"};

static struct {
  pthread_mutex_t lock;
  pthread_cond_t change;
  unsigned seen[KINDS];
  bool released;
  struct mock_server *server;
  struct cleat__store *store;
  atomic_bool cancel;
} play = {.lock = PTHREAD_MUTEX_INITIALIZER, .change = PTHREAD_COND_INITIALIZER};

struct sender {
  pthread_t thread;
  enum kind kind;
  cleat_status status;
  struct cleat_error error;
};

static enum kind kind_of(const struct mock_request *request) {
  char path[32];
  for (unsigned i = 0; i < KINDS; i++) {
    snprintf(path, sizeof path, "/bucket/run/%s", keys[i]);
    const char *at = strchr(request->head, ' ');
    if (at != NULL && strncmp(at + 1, path, strlen(path)) == 0)
      return i;
  }
  return PEER;
}

static bool answer(void *ctx, const struct mock_request *request) {
  enum kind kind = kind_of(request);
  (void)ctx;
  pthread_mutex_lock(&play.lock);
  if (kind != PEER)
    play.seen[kind]++;
  pthread_cond_broadcast(&play.change);
  while (kind != PEER && !play.released && (kind < CLOCK_1 || play.seen[kind] < 2))
    pthread_cond_wait(&play.change, &play.lock);
  pthread_mutex_unlock(&play.lock);
  const char *reply = kind == COMPLETE ? COMPLETED : OK_REPLY;
  mock_write(request->fd, reply, strlen(reply));
  return kind != COMPLETE;
}

static unsigned seen(enum kind kind) {
  pthread_mutex_lock(&play.lock);
  unsigned count = play.seen[kind];
  pthread_mutex_unlock(&play.lock);
  return count;
}

static void wait_seen(enum kind kind) {
  pthread_mutex_lock(&play.lock);
  while (play.seen[kind] == 0)
    pthread_cond_wait(&play.change, &play.lock);
  pthread_mutex_unlock(&play.lock);
}

static cleat_status put(const char *key, enum cleat__put_condition condition, struct cleat_error *error) {
  char text[] = "123456789";
  struct cleat__span span = {text, 9};
  struct cleat__put_options options = {.condition = condition, .etag = "\"old\"", .crc32c = 0xE3069283u};
  return play.store->ops->put(play.store, key, cleat__spans(&span, 1), &options, cleat__call(&play.cancel, error));
}

static cleat_status complete(struct cleat_error *error) {
  struct cleat__upload upload = {.key = "complete", .id = "U+1", .size = 9, .part_bytes = 9};
  struct cleat__stored_part part = {.number = 1, .size = 9, .crc32c = 0xE3069283u, .has_crc32c = true, .etag = "\"p\""};
  return play.store->ops->multipart_complete(play.store, &upload, &part, 1, cleat__call(&play.cancel, error));
}

static void *send_one(void *arg) {
  struct sender *sender = arg;
  enum cleat__put_condition condition = sender->kind == CREATE  ? CLEAT__PUT_CREATE_ONLY
                                        : sender->kind == MATCH ? CLEAT__PUT_IF_MATCH
                                                                : CLEAT__PUT_ALWAYS;
  sender->status =
      sender->kind == COMPLETE ? complete(&sender->error) : put(keys[sender->kind], condition, &sender->error);
  return NULL;
}

static void begin(struct sender *sender, enum kind kind) {
  *sender = (struct sender){.kind = kind};
  ck_assert_int_eq(pthread_create(&sender->thread, NULL, send_one, sender), 0);
  wait_seen(kind);
}

static void end(struct sender *sender) {
  pthread_join(sender->thread, NULL);
  ck_assert_msg(sender->status == CLEAT_OK, "%s: %s", keys[sender->kind], sender->error.message);
}

/* Puts that are answered at once, until one that is not was sent twice. */
static void pass_by(enum kind clock) {
  struct cleat_error err = {0};
  while (seen(clock) < 2)
    ck_ok(put("peer", CLEAT__PUT_ALWAYS, &err));
}

static void open_store(void) {
  struct cleat_error err = {0};
  struct cleat_client_options options = CLEAT_CLIENT_OPTIONS_INIT;
  struct cleat__store_config config = {.options = &options, .clock = cleat__clock_system()};
  play.server = mock_server_start(answer, NULL, MOCK_WHOLE);
  options.endpoint = mock_server_url(play.server);
  options.region = "eu-west-1";
  options.access_key_id = "AKID";
  options.secret_access_key = "very-secret";
  ck_ok(cleat__store_s3_open("bucket/run", &config, &play.store, &err));
}

START_TEST(what_happens_once_is_sent_once) {
  struct sender senders[KINDS];
  open_store();
  for (unsigned i = CREATE; i <= COMPLETE; i++)
    begin(&senders[i], i);
  for (unsigned i = CLOCK_1; i <= CLOCK_2; i++) {
    begin(&senders[i], i);
    pass_by(i);
    end(&senders[i]);
  }
  pthread_mutex_lock(&play.lock);
  play.released = true;
  pthread_cond_broadcast(&play.change);
  pthread_mutex_unlock(&play.lock);
  for (unsigned i = CREATE; i <= COMPLETE; i++) {
    end(&senders[i]);
    ck_assert_msg(seen(i) == 1, "%s was sent %u times", keys[i], seen(i));
  }
  cleat__store_close(play.store);
  mock_server_stop(play.server);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("hedged", NULL, NULL, 120),
    TEST(what_happens_once_is_sent_once, 1),
};

int main(void) {
  return run_table("s3_hedged", tests, COUNT(tests));
}
