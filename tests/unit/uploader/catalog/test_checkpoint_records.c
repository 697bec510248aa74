/* test_checkpoint_records.c: uploader/catalog/checkpoint_records.c: the record of each rank is the one that the
 * manifest names. */
#include "api/cleat.h"

#include "tests/mock/checkpoint_fixture.h"
#include "tests/mock/run_suite.h"
#include "tests/mock/store_check.h"
#include "uploader/model/name.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANKS 3u

static struct cleat_error err;

static void setup(void) {
  desk_setup_empty();
  desk_save_ranks(RANKS, 7);
}

/* In the record of `rank` its two tensors change names: it has the size that it had, and can be read; each CRC is
 * right. */
static void swap_names(unsigned rank) {
  char ending[40];
  char key[CLEAT__OBJECT_KEY_MAX];
  char name[32];
  size_t size = 0;
  unsigned names = 0;
  snprintf(ending, sizeof ending, "/rank-%05u.json", rank);
  snprintf(name, sizeof name, "\"rank%u.", rank);
  snprintf(key, sizeof key, "%s", memory_key(bucket, ending));
  const char *there = memory_find(bucket, ending, &size);
  char *text = malloc(size + 1);
  memcpy(text, there, size);
  text[size] = '\0';
  for (char *at = text; (at = strstr(at, name)) != NULL; at += strlen(name)) {
    char *letter = at + strlen(name);
    *letter = *letter == 'a' ? 'b' : 'a';
    names++;
  }
  ck_assert_uint_eq(names, 2);
  memory_write(bucket, key, text, size);
  free(text);
}

static void expect_words(unsigned rank) {
  char key[40];
  snprintf(key, sizeof key, "rank-%05u.json", rank);
  const char *const words[] = {"step 7", key, "SHA-256"};
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
    ck_assert_msg(strstr(err.message, words[i]) != NULL, "\"%s\" not in: %s", words[i], err.message);
}

/* Loads "rank1.a" and the like into other bytes than they were, if nobody looks. */
START_TEST(names_that_change_places) {
  struct cleat_checkpoint *checkpoint = kit_checkpoint(client, 7);
  ck_ok(cleat_verify(checkpoint, &err));
  ck_assert_uint_eq(cleat_checkpoint_tensor_count(checkpoint), 2 * RANKS);
  cleat_checkpoint_free(checkpoint);
  checkpoint = NULL;
  swap_names((unsigned)_i);
  ck_fails(cleat_checkpoint_open(client, 7, &checkpoint, &err), CLEAT_INTEGRITY);
  ck_assert_ptr_null(checkpoint);
  expect_words((unsigned)_i);
  swap_names((unsigned)_i); /* and back */
  checkpoint = kit_checkpoint(client, 7);
  ck_ok(cleat_verify(checkpoint, &err));
  cleat_checkpoint_free(checkpoint);
}
END_TEST

/* A bit of any byte of any rank's record. */
START_TEST(no_flip_goes_unseen) {
  char ending[40];
  size_t size = 0;
  struct cleat_checkpoint *checkpoint = NULL;
  snprintf(ending, sizeof ending, "/rank-%05d.json", _i);
  (void)memory_find(bucket, ending, &size);
  for (size_t at = 0; at < size; at++) {
    memory_flip(bucket, ending, at);
    ck_fails(cleat_checkpoint_open(client, 7, &checkpoint, &err), CLEAT_INTEGRITY);
    expect_words((unsigned)_i);
    memory_flip(bucket, ending, at);
  }
  checkpoint = kit_checkpoint(client, 7);
  cleat_checkpoint_free(checkpoint);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("records", setup, desk_teardown, 60),
    TEST(names_that_change_places, (int)RANKS),
    TEST(no_flip_goes_unseen, (int)RANKS),
};

int main(void) {
  return run_table("checkpoint_records", tests, COUNT(tests));
}
