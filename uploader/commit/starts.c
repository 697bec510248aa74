/* starts.c: see starts.h. */
#include "uploader/commit/starts.h"

#include "base/json_reader.h"
#include "base/json_writer.h"
#include "base/mem.h"
#include "uploader/commit/commit.h"
#include "uploader/engine/listing.h"
#include "uploader/model/document.h"
#include "uploader/model/name.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define WHAT "start"
#define FORMAT "cleat.start"
#define VERSION "1.0"
#define BYTES_MAX ((size_t)64 * 1024)
/* Most tries to take the next number. Starts that register at the same moment compete for it. */
#define RACES_MAX 100
/* Highest number of a start: six digits, so that the names sort in order. */
#define NUMBER_MAX 999999ul
#define PAUSE_FIRST_MS 50
#define PAUSE_MAX_MS 2000

/* Contents of a document. */
struct start {
  char name[CLEAT__ID_MAX + 1];
  char nonce[CLEAT__ID_MAX + 1];
  uint64_t number;
  int64_t step; /* negative: none */
  uint64_t world_size;
  char error[1024]; /* why there is no such start; "": there is one */
};

static void key_of_number(unsigned long number, char key[CLEAT__OBJECT_KEY_MAX]) {
  assert(number >= 1);
  (void)snprintf(key, CLEAT__OBJECT_KEY_MAX, CLEAT__STARTS "%06lu.json", number);
}

static void key_of_name(const char *name, char key[CLEAT__OBJECT_KEY_MAX]) {
  assert(name[0] != '\0');
  (void)snprintf(key, CLEAT__OBJECT_KEY_MAX, CLEAT__STARTS "names/%s.json", name);
}

static void key_of_rank(unsigned long number, unsigned rank, char key[CLEAT__OBJECT_KEY_MAX]) {
  (void)snprintf(key, CLEAT__OBJECT_KEY_MAX, CLEAT__STARTS "%06lu/rank-%05u.json", number, rank);
}

/* ---- Codec ------------------------------------------------------------------------------------ */

static cleat_status encode(const struct start *start, struct cleat__buffer *out, struct cleat_error *err) {
  struct cleat__json_writer writer;
  cleat__json_writer_init(&writer, out);
  cleat__json_put_text(&writer, "{\"format\":\"" FORMAT "\",\"version\":\"" VERSION "\"");
  cleat__json_put_string_field(&writer, ",\"start\":", start->name);
  cleat__json_put_string_field(&writer, ",\"nonce\":", start->nonce);
  cleat__json_put_big_field(&writer, ",\"number\":", start->number);
  cleat__json_put_big_field(&writer, ",\"world_size\":", start->world_size);
  if (start->step >= 0)
    cleat__json_put_big_field(&writer, ",\"step\":", (uint64_t)start->step);
  if (start->error[0] != '\0')
    cleat__json_put_string_field(&writer, ",\"error\":", start->error);
  cleat__json_put_text(&writer, "}\n");
  return cleat__json_writer_end(&writer, WHAT, err);
}

/* Copies a string, cut to the room there is. */
static void read_text(struct cleat__json_reader *reader, char *to, size_t size) {
  assert(size > 0);
  struct cleat__json_text text = {NULL, 0};
  if (!cleat__json_string(reader, &text))
    return;
  size_t length = text.length < size ? text.length : size - 1;
  memcpy(to, text.bytes, length);
  to[length] = '\0';
}

static cleat_status parse(const char *json, size_t size, struct start *start, struct cleat_error *err) {
  static const char *const fields[] = {"start", "nonce", "number", "world_size", "step", "error"};
  struct cleat__json_reader reader;
  uint32_t seen = 0;
  unsigned which = 0;
  uint64_t step = 0;
  cleat_status status = cleat__document_check(json, size, WHAT, FORMAT, err);
  if (status != CLEAT_OK)
    return status;
  *start = (struct start){.step = -1};
  cleat__json_reader_init(&reader, json, size, CLEAT__JSON_DEPTH_MAX, WHAT, err);
  cleat__json_object(&reader);
  while (cleat__json_field(&reader, fields, 6, &seen, &which)) {
    if (which == 0)
      read_text(&reader, start->name, sizeof start->name);
    else if (which == 1)
      read_text(&reader, start->nonce, sizeof start->nonce);
    else if (which == 2)
      cleat__json_big(&reader, &start->number);
    else if (which == 3)
      cleat__json_big(&reader, &start->world_size);
    else if (which == 4 && cleat__json_big(&reader, &step))
      start->step = (int64_t)step;
    else if (which == 5)
      read_text(&reader, start->error, sizeof start->error);
  }
  cleat__json_require(&reader, fields, 15, seen);
  cleat__json_end(&reader);
  cleat__json_reader_clear(&reader);
  return reader.status;
}

/* ---- In the store ------------------------------------------------------------------------------ */

static cleat_status get(struct cleat_client *client, const char *key, struct start *start, bool *found,
                        struct cleat__call call) {
  struct cleat__small text = {0};
  cleat_status status = cleat__store_get_small(client->store, key, BYTES_MAX, &text, call);
  *found = status == CLEAT_OK;
  if (cleat__object_is_absent(status, call.err))
    return CLEAT_OK;
  if (status == CLEAT_OK)
    status = parse(text.bytes, text.size, start, call.err);
  cleat__free(text.bytes);
  return status;
}

static cleat_status create(struct cleat_client *client, const char *key, const struct start *start,
                           struct cleat_error *err) {
  struct cleat__buffer text;
  cleat__buffer_init(&text, BYTES_MAX);
  cleat_status status = encode(start, &text, err);
  if (status == CLEAT_OK)
    status = cleat__commit_document(client, key, &text, NULL, cleat__call(&client->never, err));
  cleat__buffer_clear(&text);
  return status;
}

static cleat_status see_number(void *user, const struct cleat__list_entry *entry, struct cleat_error *err) {
  unsigned long *last = user;
  uint64_t number = 0;
  (void)err;
  if (cleat__name_parse_start(entry->key + strlen(CLEAT__STARTS), &number) && number > *last)
    *last = (unsigned long)number;
  return CLEAT_OK;
}

/* Finds the highest registered number. 0: none. */
static cleat_status find_last(struct cleat_client *client, unsigned long *last, struct cleat__call call) {
  const struct cleat__listing numbers = {client->store, CLEAT__STARTS, true, call.cancel};
  *last = 0;
  return cleat__listing_each(&numbers, see_number, last, call.err);
}

/* ---- Rank 0 ------------------------------------------------------------------------------------ */

static struct start ours(const struct cleat_client *client, int64_t step) {
  assert(strlen(client->start) <= CLEAT__ID_MAX);
  struct start start = {.step = step, .world_size = client->world_size};
  memcpy(start.name, client->start, strlen(client->start) + 1);
  memcpy(start.nonce, client->nonce, sizeof client->nonce);
  return start;
}

static cleat_status used_before(const struct cleat_client *client, struct cleat_error *err) {
  cleat_status status =
      cleat__error_set(err, CLEAT_LOST, "the start %s was used before, or two processes act as rank %u of it",
                       client->start, client->rank);
  cleat__error_hint(err, "every start of a job needs its own name: set CLEAT_START to a new one");
  return status;
}

/* Registers the start under the next free number. */
static cleat_status enter(struct cleat_client *client, struct start *start, struct cleat_error *err) {
  cleat_status status = CLEAT_LOST;
  for (int i = 0; i < RACES_MAX && status == CLEAT_LOST; i++) {
    char key[CLEAT__OBJECT_KEY_MAX];
    unsigned long last = 0;
    status = find_last(client, &last, cleat__call(&client->never, err));
    if (status == CLEAT_OK && last >= NUMBER_MAX)
      status = cleat__error_set(err, CLEAT_LIMIT, "a job can have at most %lu starts", NUMBER_MAX);
    if (status != CLEAT_OK)
      return status;
    start->number = last + 1;
    key_of_number(last + 1, key);
    status = create(client, key, start, err);
  }
  return status;
}

cleat_status cleat__starts_register(struct cleat_client *client, int64_t step, struct cleat_error *err) {
  assert(client->rank == 0);
  char key[CLEAT__OBJECT_KEY_MAX];
  struct start start = ours(client, step);
  struct start before;
  bool found = false;
  key_of_name(client->start, key);
  cleat_status status = get(client, key, &before, &found, cleat__call(&client->never, err));
  if (status == CLEAT_OK && found)
    return used_before(client, err);
  if (status == CLEAT_OK)
    status = enter(client, &start, err);
  if (status != CLEAT_OK)
    return status;
  status = create(client, key, &start, err);
  if (status == CLEAT_LOST)
    return used_before(client, err);
  if (status == CLEAT_OK)
    atomic_store(&client->number, (unsigned long)start.number);
  return status;
}

void cleat__starts_call_off(struct cleat_client *client, const struct cleat_error *why) {
  char key[CLEAT__OBJECT_KEY_MAX];
  struct start start = ours(client, -1);
  struct cleat_error ignored;
  if (client->world_size == 1)
    return;
  (void)snprintf(start.error, sizeof start.error, "%.1000s", why->message);
  key_of_name(client->start, key);
  (void)create(client, key, &start, &ignored);
}

/* ---- The others -------------------------------------------------------------------------------- */

static cleat_status never_came(const struct cleat_client *client, struct cleat_error *err) {
  cleat_status status = cleat__error_set(err, CLEAT_TIMEOUT, "rank 0 of start %s has not registered it within %u s",
                                         client->start, client->rank_timeout_s);
  cleat__error_hint(err, "check that rank 0 runs, calls cleat_resume, and has the same start and URL");
  return status;
}

static cleat_status poll(struct cleat_client *client, struct start *start, struct cleat_error *err) {
  const struct cleat__clock *clock = client->clock;
  int64_t end_ms = clock->monotonic_ms(clock->ctx) + (int64_t)client->rank_timeout_s * 1000;
  int64_t pause_ms = PAUSE_FIRST_MS;
  char key[CLEAT__OBJECT_KEY_MAX];
  bool found = false;
  key_of_name(client->start, key);
  for (;;) {
    cleat_status status = get(client, key, start, &found, cleat__call(&client->never, err));
    if (status != CLEAT_OK || found)
      return status;
    if (clock->monotonic_ms(clock->ctx) >= end_ms)
      return never_came(client, err);
    (void)clock->wait_ms(clock->ctx, pause_ms, NULL);
    pause_ms = pause_ms * 2 < PAUSE_MAX_MS ? pause_ms * 2 : PAUSE_MAX_MS;
  }
}

cleat_status cleat__starts_wait(struct cleat_client *client, int64_t *step, struct cleat_error *err) {
  assert(client->rank > 0);
  char key[CLEAT__OBJECT_KEY_MAX];
  struct start start = {.step = -1};
  cleat_status status = poll(client, &start, err);
  if (status != CLEAT_OK)
    return status;
  if (start.error[0] != '\0')
    return cleat__error_set(err, CLEAT_STORE, "rank 0: %s", start.error);
  if (start.world_size != client->world_size)
    return cleat__error_set(err, CLEAT_MISMATCH, "rank %u has world size %u, rank 0 has %" PRIu64 " (start %s)",
                            client->rank, client->world_size, start.world_size, client->start);
  struct start here = ours(client, start.step);
  here.number = start.number;
  key_of_rank((unsigned long)start.number, client->rank, key);
  status = create(client, key, &here, err);
  if (status == CLEAT_LOST)
    return used_before(client, err);
  if (status != CLEAT_OK)
    return status;
  atomic_store(&client->number, (unsigned long)start.number);
  *step = start.step;
  return CLEAT_OK;
}

/* ---- The fence --------------------------------------------------------------------------------- */

cleat_status cleat__starts_check(struct cleat_client *client, struct cleat__call call) {
  unsigned long mine = atomic_load(&client->number);
  unsigned long last = 0;
  if (mine == 0)
    return CLEAT_OK;
  cleat_status status = find_last(client, &last, call);
  for (unsigned long number = last; status == CLEAT_OK && number > mine; number--) {
    char key[CLEAT__OBJECT_KEY_MAX];
    struct start later;
    bool found = false;
    key_of_number(number, key);
    status = get(client, key, &later, &found, call);
    /* A second process of our own start was refused, but its number stayed. */
    if (status != CLEAT_OK || !found || strcmp(later.name, client->start) == 0)
      continue;
    status = cleat__error_set(call.err, CLEAT_LOST,
                              "superseded by start %s (the job's number %lu); this is start %s (number %lu)",
                              later.name, number, client->start, mine);
    cleat__error_hint(call.err, "a later start of this job has taken over; this one must end");
  }
  return status;
}
