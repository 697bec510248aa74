/* test_listing.c: uploader/engine/listing.c: every page is asked for, in order; what is left out, and what ends it. */
#include "uploader/engine/listing.h"

#include "base/mem.h"
#include "tests/mock/heap.h"
#include "tests/mock/run_suite.h"
#include "tests/mock/store_check.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

/* Three pages of two names each; the second holds one that nobody asked for. */
static const char *const pages[][2] = {{"step-1", "step-2"}, {"stop-3", "step-4"}, {"step-5", "step-6"}};
#define PAGES (sizeof pages / sizeof pages[0])

static struct cleat_error err;
static atomic_bool never;
static size_t asked;     /* pages */
static size_t broken_at; /* this page cannot be had */
static bool delimited_as_told;

/* Checks the token, and makes that of the next page. CLEAT_STORE: this page cannot be had. */
static cleat_status turn_page(const char *prefix, const char *after, char **next) {
  char token[16];
  ck_assert_str_eq(prefix, "step-");
  snprintf(token, sizeof token, "page %zu", asked);
  if (asked == 0)
    ck_assert_ptr_null(after);
  else
    ck_assert_str_eq(after, token);
  if (asked++ == broken_at)
    return CLEAT_STORE;
  snprintf(token, sizeof token, "page %zu", asked);
  *next = asked < PAGES ? cleat__strdup(token) : NULL;
  return CLEAT_OK;
}

static cleat_status list(struct cleat__store *store, const char *prefix, bool delimited, const char *after,
                         struct cleat__list_page *page, struct cleat__call call) {
  (void)store;
  delimited_as_told = delimited;
  ck_assert_ptr_eq(call.cancel, &never);
  if (turn_page(prefix, after, &page->next) != CLEAT_OK)
    return cleat__error_set(call.err, CLEAT_STORE, "no such page");
  page->entries = cleat__calloc(2, sizeof *page->entries);
  page->count = 2;
  for (size_t i = 0; i < 2; i++)
    page->entries[i].key = cleat__strdup(pages[asked - 1][i]);
  return CLEAT_OK;
}

static cleat_status multipart_list(struct cleat__store *store, const char *prefix, const char *after,
                                   struct cleat__upload_page *page, struct cleat__call call) {
  (void)store;
  ck_assert_ptr_eq(call.cancel, &never);
  if (turn_page(prefix, after, &page->next) != CLEAT_OK)
    return cleat__error_set(call.err, CLEAT_STORE, "no such page");
  page->entries = cleat__calloc(2, sizeof *page->entries);
  page->count = 2;
  for (size_t i = 0; i < 2; i++) {
    page->entries[i].key = cleat__strdup(pages[asked - 1][i]);
    page->entries[i].id = cleat__strdup("id");
  }
  return CLEAT_OK;
}

static const struct cleat__store_ops ops = {.list = list, .multipart_list = multipart_list};
static struct cleat__store store = {.ops = &ops};
static const struct cleat__listing listing = {&store, "step-", true, &never};

/* What was seen: the last character of each name. */
struct seen {
  char names[8];
  size_t count;
  char refused; /* ends the list */
};

static cleat_status see_key(struct seen *seen, const char *key, struct cleat_error *error) {
  char last = key[strlen(key) - 1];
  if (last == seen->refused)
    return cleat__error_set(error, CLEAT_LOST, "not this one");
  seen->names[seen->count++] = last;
  return CLEAT_OK;
}

static cleat_status see(void *user, const struct cleat__list_entry *entry, struct cleat_error *error) {
  return see_key(user, entry->key, error);
}

/* Takes the id out. */
static cleat_status see_upload(void *user, struct cleat__upload_entry *entry, struct cleat_error *error) {
  cleat__free(entry->id);
  entry->id = NULL;
  return see_key(user, entry->key, error);
}

/* The first of both kinds of lists, the second of the other. */
static cleat_status run(int kind, struct seen *seen) {
  asked = 0;
  return kind == 0 ? cleat__listing_each(&listing, see, seen, &err)
                   : cleat__listing_each_upload(&listing, see_upload, seen, &err);
}

START_TEST(all_pages_but_what_nobody_asked_for) {
  long before = heap_blocks();
  struct seen seen = {.refused = '\0'};
  broken_at = PAGES;
  ck_ok(run(_i, &seen));
  ck_assert_str_eq(seen.names, "12456");
  ck_assert_uint_eq(asked, PAGES);
  ck_assert(_i != 0 || delimited_as_told);
  ck_assert_int_eq(heap_blocks(), before);
}
END_TEST

START_TEST(a_refusal_ends_it) {
  long before = heap_blocks();
  struct seen seen = {.refused = '4'};
  broken_at = PAGES;
  ck_fails(run(_i, &seen), CLEAT_LOST);
  ck_assert_str_eq(seen.names, "12");
  ck_assert_uint_eq(asked, 2);
  ck_assert_int_eq(heap_blocks(), before);
}
END_TEST

START_TEST(a_page_that_cannot_be_had_ends_it) {
  long before = heap_blocks();
  struct seen seen = {.refused = '\0'};
  broken_at = 1;
  ck_fails(run(_i, &seen), CLEAT_STORE);
  ck_assert_str_eq(seen.names, "12");
  ck_assert_uint_eq(asked, 2);
  ck_assert_int_eq(heap_blocks(), before);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("listing", NULL, NULL, 0),
    TEST(all_pages_but_what_nobody_asked_for, 2),
    TEST(a_refusal_ends_it, 2),
    TEST(a_page_that_cannot_be_had_ends_it, 2),
};

int main(void) {
  return run_table("listing", tests, COUNT(tests));
}
