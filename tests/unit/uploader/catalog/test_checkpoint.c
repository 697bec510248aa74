/* test_checkpoint.c: uploader/catalog/checkpoint.c: the chain manifest, rank record, files, and every way in
 * which it can be broken. */
#include "uploader/catalog/checkpoint.h"

#include "base/checksum.h"
#include "base/mem.h"
#include "tests/mock/each_fault.h"
#include "tests/mock/kit.h"
#include "tests/mock/memory_store.h"
#include "tests/mock/run_suite.h"
#include "tests/mock/store_check.h"
#include "uploader/engine/client.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct cleat_error err;
static struct memory_bucket *bucket;
static struct cleat_client *client;
static struct kit_model model;

static void setup(void) {
  struct cleat_file file = {.name = "note.txt", .data = "hello", .data_bytes = 5};
  static const int64_t shape[] = {3, 4};
  bucket = memory_bucket_new();
  client = kit_open(bucket, NULL);
  kit_add(&model, "weights", CLEAT_DTYPE_F32, 2, shape, 1);
  kit_add_bytes(&model, "bias", 2 * KIT_PART, 2);
  struct cleat_save_request request = kit_request(&model, 12);
  request.files = &file;
  request.file_count = 1;
  request.metadata = "{\"loss\":1.5}";
  ck_ok(cleat_save(client, &request, &err));
}

static void teardown(void) {
  kit_clear(&model);
  cleat_client_close(client);
  memory_bucket_free(bucket);
}

START_TEST(what_it_says) {
  struct cleat_checkpoint *checkpoint = kit_checkpoint(client, 12);
  const struct cleat_checkpoint_info *info = cleat_checkpoint_info(checkpoint);
  ck_assert_int_eq(info->step, 12);
  ck_assert_uint_eq(info->files, 2);
  ck_assert_uint_eq(info->ranks, 1);
  ck_assert_str_eq(info->metadata, "{\"loss\":1.5}");
  ck_assert_uint_eq(strlen(info->attempt), 16);
  ck_assert_uint_eq(strlen(info->created), 20);
  ck_assert_uint_eq(cleat_checkpoint_file_count(checkpoint), 2);
  const struct cleat_file_info *model_file = cleat_checkpoint_file(checkpoint, 0);
  const struct cleat_file_info *note = cleat_checkpoint_file(checkpoint, 1);
  ck_assert_str_eq(model_file->name, "model.safetensors");
  ck_assert_str_eq(note->name, "note.txt");
  ck_assert_uint_eq(note->size, 5);
  ck_assert_uint_eq(note->part_count, 1);
  ck_assert_uint_eq(note->rank, 0);
  ck_assert_uint_eq(info->bytes, model_file->size + 5);
  ck_assert_ptr_null(cleat_checkpoint_file(checkpoint, 2));
  ck_assert_uint_eq(cleat_checkpoint_tensor_count(checkpoint), 2);
  ck_assert_str_eq(cleat_checkpoint_tensor(checkpoint, 0)->name, "bias"); /* by name */
  ck_assert_ptr_null(cleat_checkpoint_tensor(checkpoint, 2));
  const struct cleat_tensor_info *weights = cleat_checkpoint_find(checkpoint, "weights");
  ck_assert_ptr_eq(weights, cleat_checkpoint_tensor(checkpoint, 1));
  ck_assert_int_eq(weights->dtype, CLEAT_DTYPE_F32);
  ck_assert_int_eq(weights->ndim, 2);
  ck_assert_int_eq(weights->shape[1], 4);
  ck_assert_uint_eq(weights->bytes, 48);
  ck_assert_uint_eq(weights->file, 0);
  ck_assert_ptr_null(cleat_checkpoint_find(checkpoint, "bia"));
  ck_assert_ptr_null(cleat_checkpoint_find(checkpoint, "bias2"));
  ck_assert_ptr_null(cleat_checkpoint_find(checkpoint, ""));
  ck_assert_ptr_null(cleat_checkpoint_find(checkpoint, NULL));
  ck_ok(cleat__checkpoint_check_present(checkpoint, &err));
  cleat_checkpoint_free(checkpoint);
  cleat_checkpoint_free(NULL);
}
END_TEST

static cleat_status try_open(void) {
  struct cleat_checkpoint *checkpoint = NULL;
  memset(&err, 0, sizeof err);
  cleat_status status = cleat_checkpoint_open(client, 12, &checkpoint, &err);
  if (status == CLEAT_OK)
    cleat_checkpoint_free(checkpoint);
  else
    ck_assert_ptr_null(checkpoint);
  return status;
}

START_TEST(what_is_not_there) {
  struct cleat_checkpoint *checkpoint = NULL;
  ck_fails(cleat_checkpoint_open(client, 13, &checkpoint, &err), CLEAT_NOT_FOUND);
  ck_fails(cleat_checkpoint_open(client, -2, &checkpoint, &err), CLEAT_INVALID);
  memory_remove(bucket, "/rank-00000.json");
  ck_fails(try_open(), CLEAT_INTEGRITY);
  ck_assert_ptr_nonnull(strstr(err.message, "step 12"));
  ck_assert_ptr_nonnull(strstr(err.message, "rank-00000.json is missing"));
  memory_remove(bucket, "/manifest.json");
  ck_fails(try_open(), CLEAT_NOT_FOUND);
}
END_TEST

/* A manifest that is empty until it was read so often. */
struct emptied {
  char key[CLEAT__KEY_MAX + 1];
  char *whole;
  size_t size;
  unsigned reads; /* left */
};

static cleat_status fill_late(void *user, const char *op, const char *key, bool done, struct cleat__call call) {
  struct emptied *emptied = user;
  (void)call;
  if (strcmp(op, "get_small") == 0 && strcmp(key, emptied->key) == 0 && done && --emptied->reads == 0)
    memory_write(bucket, key, emptied->whole, emptied->size);
  return CLEAT_OK;
}

static void empty_manifest(struct emptied *emptied, unsigned reads) {
  const char *there = memory_find(bucket, "/manifest.json", &emptied->size);
  emptied->whole = malloc(emptied->size);
  memcpy(emptied->whole, there, emptied->size);
  snprintf(emptied->key, sizeof emptied->key, "%s", memory_key(bucket, "/manifest.json"));
  emptied->reads = reads;
  memory_resize(bucket, "/manifest.json", 0);
  memory_bucket_hook(bucket, fill_late, emptied);
}

/* Of a clock that waits for nothing, and adds up. */
static int64_t waited_ms;

static bool wait_at_once(void *ctx, int64_t ms, const atomic_bool *cancel) {
  (void)ctx;
  waited_ms += ms;
  return cancel == NULL || !atomic_load(cancel);
}

static const struct cleat__clock *hasty_clock(void) {
  static struct cleat__clock clock;
  clock = *cleat__clock_system();
  clock.wait_ms = wait_at_once;
  waited_ms = 0;
  return &clock;
}

START_TEST(a_manifest_that_is_empty_for_a_moment) {
  struct emptied emptied = {.reads = 0};
  empty_manifest(&emptied, 3);
  client->clock = hasty_clock();
  ck_assert_int_eq(try_open(), CLEAT_OK);
  ck_assert_int_eq(waited_ms, 50 + 100 + 200);
  memory_bucket_hook(bucket, NULL, NULL);
  free(emptied.whole);
}
END_TEST

START_TEST(a_manifest_that_stays_empty) {
  memory_resize(bucket, "/manifest.json", 0);
  client->clock = hasty_clock();
  ck_assert_int_eq(try_open(), CLEAT_FORMAT);
  ck_assert_int_eq(waited_ms, 50 + 100 + 200 + 400 + 800);
  ck_assert_ptr_nonnull(strstr(err.message, "step 12"));
}
END_TEST

/* Cut anywhere, it is no manifest; and says which step. */
START_TEST(a_cut_manifest) {
  size_t size = 0;
  const char *there = memory_find(bucket, "/manifest.json", &size);
  char *whole = malloc(size);
  char key[CLEAT__KEY_MAX + 1];
  memcpy(whole, there, size);
  snprintf(key, sizeof key, "%s", memory_key(bucket, "/manifest.json"));
  for (size_t i = 0; i < size; i++) {
    memory_write(bucket, key, whole, i);
    ck_assert_int_eq(try_open(), CLEAT_FORMAT);
    ck_assert_ptr_nonnull(strstr(err.message, "step 12"));
    ck_assert_ptr_nonnull(strstr(err.message, "manifest"));
  }
  memory_write(bucket, key, whole, size);
  ck_assert_int_eq(try_open(), CLEAT_OK);
  free(whole);
}
END_TEST

/* A flipped bit in any byte of the record, which is under the manifest's digest. */
START_TEST(an_altered_record) {
  size_t size = 0;
  (void)memory_find(bucket, "/rank-00000.json", &size);
  for (size_t i = 0; i < size; i++) {
    memory_flip(bucket, "/rank-00000.json", i);
    ck_assert_int_eq(try_open(), CLEAT_INTEGRITY);
    ck_assert_ptr_nonnull(strstr(err.message, "step 12"));
    memory_flip(bucket, "/rank-00000.json", i);
  }
  memory_resize(bucket, "/rank-00000.json", size - 1);
  ck_assert_int_eq(try_open(), CLEAT_INTEGRITY);
  ck_assert_ptr_nonnull(strstr(err.message, "size"));
}
END_TEST

/* The first replies for a document are damaged. */
static unsigned damaged;
static const char *which;
static size_t at; /* which byte of it, and which bits */
static char bits = 0x10;

static cleat_status damage(void *user, const char *op, const char *key, bool done, struct cleat__call call) {
  (void)user;
  (void)call;
  if (strcmp(op, "get_small") != 0 || strstr(key, which) == NULL || damaged == 0)
    return CLEAT_OK;
  memory_flip_bits(bucket, which, at, bits); /* and back, when it was read */
  damaged -= done;
  return CLEAT_OK;
}

START_TEST(a_document_is_read_again) {
  static const char *const documents[] = {"/manifest.json", "/rank-00000.json"};
  for (size_t i = 0; i < 2; i++) {
    which = documents[i];
    damaged = 2;
    memory_bucket_hook(bucket, damage, NULL);
    ck_assert_msg(try_open() == CLEAT_OK, "%s", err.message);
    ck_assert_uint_eq(damaged, 0);
    damaged = i == 0 ? 3 : 6;
    cleat_status status = try_open();
    ck_assert_int_eq(status, i == 0 ? CLEAT_FORMAT : CLEAT_INTEGRITY);
    ck_assert_uint_eq(damaged, 0);
  }
  memory_bucket_hook(bucket, NULL, NULL);
}
END_TEST

/* A digit of the record's digest becomes another one: no reader of the manifest alone can tell. */
START_TEST(a_manifest_that_is_damaged_and_well_formed) {
  size_t size = 0;
  const char *text = memory_find(bucket, "/manifest.json", &size);
  which = "/manifest.json";
  at = (size_t)(strstr(text, "\"sha256\":\"") + strlen("\"sha256\":\"") - text);
  while (text[at] > '9') /* a digit with its lowest bit flipped is a digit */
    at++;
  bits = 1;
  memory_bucket_hook(bucket, damage, NULL);
  damaged = 1;
  ck_assert_msg(try_open() == CLEAT_OK, "%s", err.message);
  ck_assert_uint_eq(damaged, 0);
  damaged = 2;
  ck_assert_int_eq(try_open(), CLEAT_INTEGRITY);
  memory_bucket_hook(bucket, NULL, NULL);
  at = 0;
  bits = 0x10;
}
END_TEST

/* The manifest with `from` replaced by `to`, of equal length or not. */
static void alter_manifest(const char *from, const char *to) {
  size_t size = 0;
  char key[CLEAT__KEY_MAX + 1];
  char text[4096];
  const char *there = memory_find(bucket, "/manifest.json", &size);
  const char *place = strstr(there, from);
  ck_assert_msg(place != NULL, "%s not in %s", from, there);
  snprintf(key, sizeof key, "%s", memory_key(bucket, "/manifest.json"));
  int length = snprintf(text, sizeof text, "%.*s%s%s", (int)(place - there), there, to, place + strlen(from));
  memory_write(bucket, key, text, (size_t)length);
}

START_TEST(a_newer_manifest) {
  alter_manifest("\"1.0\"", "\"2.0\"");
  ck_fails(try_open(), CLEAT_NEWER);
  ck_assert_ptr_nonnull(strstr(err.hint, "upgrade"));
}
END_TEST

static void expect_refused(void) {
  cleat_status status = try_open();
  ck_assert_msg(status == CLEAT_FORMAT || status == CLEAT_INTEGRITY, "%d: %s", (int)status, err.message);
  ck_assert_ptr_nonnull(strstr(err.message, "step 12"));
}

START_TEST(an_altered_manifest) {
  static const char *const changes[][2] = {
      {"\"step\": 12", "\"step\": 13"},           {"/rank-00000.json", "/rank-00001.json"},
      {"/rank-00000.json", "/../../secret"},      {"\"files\":2", "\"files\":3"},
      {"\"world_size\": 1", "\"world_size\": 2"}, {"cleat.manifest", "cleat.manifesto"},
  };
  alter_manifest(changes[_i][0], changes[_i][1]);
  expect_refused();
}
END_TEST

/* An unknown field is nothing to stumble over. */
START_TEST(an_unknown_field) {
  alter_manifest("\"step\": 12", "\"later\":[{\"a\":null}],\"step\": 12");
  ck_assert_int_eq(try_open(), CLEAT_OK);
}
END_TEST

/* Somebody who can write all of it writes a record that points elsewhere, digest and all. */
static void forge_record(const char *from, const char *to) {
  size_t size = 0;
  char text[8192];
  char key[CLEAT__KEY_MAX + 1];
  uint8_t old_digest[CLEAT__SHA256_BYTES], new_digest[CLEAT__SHA256_BYTES];
  char old_hex[CLEAT__SHA256_HEX], new_hex[CLEAT__SHA256_HEX];
  char old_size[32], new_size[32];
  const char *there = memory_find(bucket, "/rank-00000.json", &size);
  const char *place = strstr(there, from);
  ck_assert_msg(place != NULL, "%s not in %s", from, there);
  int length = snprintf(text, sizeof text, "%.*s%s%s", (int)(place - there), there, to, place + strlen(from));
  ck_assert_int_eq(cleat__sha256(there, size, old_digest), CLEAT_OK);
  ck_assert_int_eq(cleat__sha256(text, (size_t)length, new_digest), CLEAT_OK);
  cleat__hex(old_digest, sizeof old_digest, old_hex);
  cleat__hex(new_digest, sizeof new_digest, new_hex);
  snprintf(old_size, sizeof old_size, "\"size\":%zu", size);
  snprintf(new_size, sizeof new_size, "\"size\":%d", length);
  snprintf(key, sizeof key, "%s", memory_key(bucket, "/rank-00000.json"));
  memory_write(bucket, key, text, (size_t)length);
  alter_manifest(old_hex, new_hex);
  alter_manifest(old_size, new_size);
}

START_TEST(a_forged_record) {
  static const char *const changes[][2] = {
      {"\"note.txt\"", "\"../note.txt\""},
      {"\"note.txt\"", "\"/etc/passwd\""},
      {"\"note.txt\"", "\"a/./b\""},
      {"\"note.txt\"", "\"model.safetensors\""},
      {"\"note.txt\"", "\"a\\u0000b\""},
      {"\"note.txt\"", "\"rank-00000.json\""},
      {"\"weights\"", "\"bias\""},
      {"\"note.txt\"", "\"model.safetensors/x\""},
      {"[8192]", "[9000]"},
      {"\"rank\":0", "\"rank\":1"},
  };
  forge_record(changes[_i][0], changes[_i][1]);
  expect_refused();
}
END_TEST

START_TEST(presence) {
  struct cleat_checkpoint *checkpoint = kit_checkpoint(client, 12);
  size_t size = 0;
  (void)memory_find(bucket, "/note.txt", &size);
  memory_resize(bucket, "/note.txt", size + 1);
  ck_fails(cleat__checkpoint_check_present(checkpoint, &err), CLEAT_INTEGRITY);
  ck_assert_ptr_nonnull(strstr(err.message, "note.txt"));
  ck_assert_ptr_nonnull(strstr(err.message, "step 12"));
  memory_resize(bucket, "/note.txt", size);
  ck_ok(cleat__checkpoint_check_present(checkpoint, &err));
  memory_remove(bucket, "/note.txt");
  ck_fails(cleat__checkpoint_check_present(checkpoint, &err), CLEAT_INTEGRITY);
  cleat_checkpoint_free(checkpoint);
}
END_TEST

/* More files than one page of a listing. */
START_TEST(presence_of_many) {
  static struct cleat_file files[2300];
  static char names[2300][24];
  for (int i = 0; i < 2300; i++) {
    snprintf(names[i], sizeof names[i], "f%04d", (i * 7) % 2300);
    files[i] = (struct cleat_file){.name = names[i], .data = "x", .data_bytes = 1};
  }
  struct cleat_save_request request = kit_request(NULL, 20);
  request.files = files;
  request.file_count = 2300;
  ck_ok(cleat_save(client, &request, &err));
  struct cleat_checkpoint *checkpoint = kit_checkpoint(client, CLEAT_STEP_LATEST);
  ck_assert_int_eq(cleat_checkpoint_info(checkpoint)->step, 20);
  memory_remove(bucket, "/f2299");
  ck_fails(cleat__checkpoint_check_present(checkpoint, &err), CLEAT_INTEGRITY);
  ck_assert_ptr_nonnull(strstr(err.message, "f2299"));
  cleat_checkpoint_free(checkpoint);
}
END_TEST

static cleat_status open_and_check(void) {
  struct cleat_checkpoint *checkpoint = NULL;
  cleat_status status = cleat__checkpoint_open(client, 12, &checkpoint, &err);
  if (status == CLEAT_OK)
    status = cleat__checkpoint_check_present(checkpoint, &err);
  cleat_checkpoint_free(checkpoint);
  return status;
}

START_TEST(out_of_memory) {
  ck_ok(open_and_check()); /* what the store in memory keeps from its first calls */
  ck_assert_uint_gt(each_fault_no_memory(open_and_check), 0);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("checkpoint", setup, teardown, 60),
    TEST(what_it_says, 1),
    TEST(what_is_not_there, 1),
    TEST(a_manifest_that_is_empty_for_a_moment, 1),
    TEST(a_manifest_that_stays_empty, 1),
    TEST(a_cut_manifest, 1),
    TEST(an_altered_record, 1),
    TEST(a_document_is_read_again, 1),
    TEST(a_manifest_that_is_damaged_and_well_formed, 1),
    TEST(a_newer_manifest, 1),
    TEST(an_altered_manifest, 6),
    TEST(an_unknown_field, 1),
    TEST(a_forged_record, 10),
    TEST(presence, 1),
    TEST(presence_of_many, 1),
    TEST(out_of_memory, 1),
};

int main(void) {
  return run_table("checkpoint", tests, COUNT(tests));
}
