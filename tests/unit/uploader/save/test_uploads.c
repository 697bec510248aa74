/* test_uploads.c: storage/s3/uploads.c, s3/xml_uploads.c, file/uploads.c and file/journal.c: which uploads are
 * unfinished, and going on with one that another process began. */
#include "storage/s3/s3.h"

#include "base/checksum.h"
#include "base/mem.h"
#include "tests/mock/run_suite.h"
#include "tests/mock/s3_script.h"
#include "tests/mock/scratch.h"
#include "tests/mock/store_check.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct cleat_error err;
static atomic_bool no_cancel;

/* ---- s3:// --------------------------------------------------------------------------------------- */

#define UPLOAD(key, id)                                                                      \
  "<Upload><Key>" key "</Key><UploadId>" id "</UploadId><Initiated>2026-11-21T12:00:00.000Z" \
  "</Initiated></Upload>"

static cleat_status list_s3(const char *prefix, const char *after, struct cleat__upload_page *page) {
  return cleat__store_multipart_list(script.store, prefix, after, page, cleat__call(&no_cancel, &err));
}

START_TEST(pages_of_s3) {
  struct cleat__upload_page page = {0};
  SCRIPT(XML_REPLY("<ListMultipartUploadsResult><EncodingType>url</EncodingType>"
                   "<NextKeyMarker>run/a+b%2Bc</NextKeyMarker><NextUploadIdMarker>U/1"
                   "</NextUploadIdMarker><IsTruncated>true</IsTruncated>" UPLOAD("run/z", "2")
                       UPLOAD("run/a+b%2Bc", "U/1") UPLOAD("elsewhere", "3")
                           UPLOAD("run/", "4") "</ListMultipartUploadsResult>"),
         XML_REPLY("<ListMultipartUploadsResult><IsTruncated>false</IsTruncated>"
                   "</ListMultipartUploadsResult>"));
  ck_ok(list_s3("a b", NULL, &page));
  script_expect_line(1, "GET /bucket/?encoding-type=url&max-uploads=1000&prefix=run%2Fa%20b&uploads="
                        " HTTP/1.1\r\n");
  ck_assert_uint_eq(page.count, 2);
  ck_assert_str_eq(page.entries[0].key, "a b+c");
  ck_assert_str_eq(page.entries[0].id, "U/1");
  ck_assert_int_eq(page.entries[0].begun_s, 1795262400);
  ck_assert_str_eq(page.entries[1].key, "z");
  ck_assert_str_eq(page.next, "run/a b+c\nU/1");
  struct cleat__upload_page rest = {0};
  ck_ok(list_s3("a b", page.next, &rest));
  script_expect_line(2, "GET /bucket/?encoding-type=url&key-marker=run%2Fa%20b%2Bc&max-uploads=1000"
                        "&prefix=run%2Fa%20b&upload-id-marker=U%2F1&uploads= HTTP/1.1\r\n");
  ck_assert_uint_eq(rest.count, 0);
  ck_assert_ptr_null(rest.next);
  cleat__upload_page_clear(&page);
  script_end(2);
}
END_TEST

START_TEST(pages_without_end) {
  struct cleat__upload_page page = {0};
  SCRIPT(XML_REPLY("<ListMultipartUploadsResult><NextKeyMarker>k</NextKeyMarker><IsTruncated>true"
                   "</IsTruncated></ListMultipartUploadsResult>"));
  ck_assert_int_eq(list_s3("", "k\n", &page), CLEAT_STORE);
  ck_assert_ptr_null(page.entries);
  script_end(1);
}
END_TEST

static const char *const BAD[] = {
    "<ListMultipartUploadsResult><Upload><Key>k</Key></Upload></ListMultipartUploadsResult>",
    "<ListMultipartUploadsResult><Upload><UploadId>i</UploadId></Upload>"
    "</ListMultipartUploadsResult>",
    "<ListMultipartUploadsResult><IsTruncated>true</IsTruncated></ListMultipartUploadsResult>",
    "<ListMultipartUploadsResult><EncodingType>url</EncodingType><Upload><Key>%G0</Key>"
    "<UploadId>i</UploadId></Upload></ListMultipartUploadsResult>",
    "<ListMultipartUploadsResult><Upload><Key>k</Key><UploadId>i</UploadId></Upload>",
    "<html/>",
};

START_TEST(bad_lists_are_refused) {
  struct cleat__upload_page page = {0};
  ck_assert_int_eq(cleat__s3_xml_uploads(BAD[_i], strlen(BAD[_i]), "", false, &page, &err), CLEAT_FORMAT);
  ck_assert_ptr_null(page.entries);
}
END_TEST

/* ---- file:// ------------------------------------------------------------------------------------- */

#define PART 5000u

static char bytes[4 * PART];
static struct cleat__store *first, *second;

static void folder_setup(void) {
  scratch_make();
  for (size_t i = 0; i < sizeof bytes; i++)
    bytes[i] = (char)(i * 31 + i / 257);
  first = scratch_store("root");
  second = scratch_store("root");
}

static void folder_teardown(void) {
  cleat__store_close(first);
  cleat__store_close(second);
  scratch_remove();
}

static struct cleat__upload begin(const char *key) {
  struct cleat__upload upload = {.size = 3 * PART + 7, .part_bytes = PART};
  snprintf(upload.key, sizeof upload.key, "%s", key);
  must(cleat__store_multipart_create(first, &upload, NULL, cleat__call(&no_cancel, &err)));
  return upload;
}

static cleat_status store_part(struct cleat__store *by, const struct cleat__upload *upload, uint32_t number,
                               struct cleat__stored_part *part) {
  size_t at = (number - 1) * PART;
  size_t size = number == 4 ? 7 : PART;
  struct cleat__span body = {bytes + at, size};
  *part = (struct cleat__stored_part){.number = number, .size = size, .crc32c = cleat__crc32c(0, bytes + at, size)};
  return cleat__store_multipart_part(by, upload, cleat__spans(&body, 1), part, cleat__call(&no_cancel, &err));
}

static size_t count_listed(const char *prefix) {
  struct cleat__upload_page page = {0};
  must(cleat__store_multipart_list(second, prefix, NULL, &page, cleat__call(&no_cancel, &err)));
  size_t count = page.count;
  ck_assert_ptr_null(page.next);
  cleat__upload_page_clear(&page);
  return count;
}

START_TEST(listed_by_prefix) {
  struct cleat__upload_page page = {0};
  ck_assert_uint_eq(count_listed(""), 0);
  struct cleat__upload b = begin("x/y/b"), a = begin("x/y/a"), other = begin("x-y/b");
  (void)begin("top");
  scratch_write("root/x/y/plain", "", 0);
  must(cleat__store_multipart_list(second, "x/", NULL, &page, cleat__call(&no_cancel, &err)));
  ck_assert_uint_eq(page.count, 2);
  ck_assert_str_eq(page.entries[0].key, "x/y/a");
  ck_assert_str_eq(page.entries[0].id, a.id);
  ck_assert_str_eq(page.entries[1].id, b.id);
  ck_assert_int_gt(page.entries[0].begun_s, 1000000000);
  cleat__upload_page_clear(&page);
  ck_assert_uint_eq(count_listed(""), 4);
  ck_assert_uint_eq(count_listed("x"), 3);
  ck_assert_uint_eq(count_listed("x/y/a"), 1);
  ck_assert_uint_eq(count_listed("x/y/ab"), 0);
  ck_assert_uint_eq(count_listed("nothing/here"), 0);
  must(cleat__store_multipart_abort(first, &other, cleat__call(&no_cancel, &err)));
  ck_assert_uint_eq(count_listed("x"), 2);
}
END_TEST

START_TEST(more_than_a_page) {
  struct cleat__upload_page page = {0};
  size_t count = 0;
  char *after = NULL;
  char last[64] = "";
  for (unsigned i = 0; i < CLEAT__LIST_PAGE + 5; i++) {
    char key[32];
    snprintf(key, sizeof key, "d/%04u", i);
    (void)begin(key);
  }
  do {
    must(cleat__store_multipart_list(second, "d/", after, &page, cleat__call(&no_cancel, &err)));
    for (size_t i = 0; i < page.count; i++, count++) {
      ck_assert_int_lt(strcmp(last, page.entries[i].key), 0);
      snprintf(last, sizeof last, "%s", page.entries[i].key);
    }
    cleat__free(after);
    after = page.next;
    page.next = NULL;
    cleat__upload_page_clear(&page);
  } while (after != NULL);
  ck_assert_uint_eq(count, CLEAT__LIST_PAGE + 5);
}
END_TEST

/* Its process lives: not to be had. It is gone: its parts are there, and more can be added. */
START_TEST(adopted_when_its_process_is_gone) {
  struct cleat__stored_part parts[4], *listed = NULL;
  size_t count = 0;
  struct cleat__upload upload = begin("k");
  must(store_part(first, &upload, 1, &parts[0]));
  must(store_part(first, &upload, 3, &parts[2]));
  must_fail(CLEAT_LOST, cleat__store_multipart_adopt(second, &upload, cleat__call(&no_cancel, &err)));
  cleat__store_close(first);
  first = scratch_store("root");
  must(cleat__store_multipart_adopt(second, &upload, cleat__call(&no_cancel, &err)));
  must(cleat__store_multipart_list_parts(second, &upload, &listed, &count, cleat__call(&no_cancel, &err)));
  ck_assert_uint_eq(count, 2);
  ck_assert_uint_eq(listed[1].number, 3);
  cleat__free(listed);
  /* Whoever comes now has lost it. */
  must_fail(CLEAT_LOST, cleat__store_multipart_adopt(first, &upload, cleat__call(&no_cancel, &err)));
  must_fail(CLEAT_NOT_FOUND, store_part(first, &upload, 2, &parts[1]));
  must(store_part(second, &upload, 2, &parts[1]));
  must(store_part(second, &upload, 4, &parts[3]));
  upload.create_only = true;
  must(cleat__store_multipart_complete(second, &upload, parts, 4, cleat__call(&no_cancel, &err)));
  ck_assert_uint_eq(count_listed(""), 0);
  struct cleat__object object;
  must(cleat__store_head(first, "k", &object, cleat__call(&no_cancel, &err)));
  ck_assert_uint_eq(object.size, 3 * PART + 7);
  /* Completed already, by whomever: that is for the caller to look at. */
  must_fail(CLEAT_EXISTS, cleat__store_multipart_complete(second, &upload, parts, 4, cleat__call(&no_cancel, &err)));
}
END_TEST

/* After a power cut the journal may know more than the disk. */
START_TEST(adopted_parts_are_read_again) {
  struct cleat__stored_part part, *listed = NULL;
  size_t count = 0;
  char name[100];
  struct cleat__upload upload = begin("k");
  for (uint32_t number = 1; number <= 4; number++)
    must(store_part(first, &upload, number, &part));
  cleat__store_close(first);
  first = scratch_store("root");
  snprintf(name, sizeof name, "root/.cleat-upload-%.32s", upload.id);
  FILE *file = fopen(scratch_path(name), "r+b");
  ck_assert_ptr_nonnull(file);
  ck_assert_int_eq(fseek(file, PART + 17, SEEK_SET), 0);
  fputc(bytes[PART + 17] ^ 1, file);
  fclose(file);
  must(cleat__store_multipart_adopt(second, &upload, cleat__call(&no_cancel, &err)));
  must(cleat__store_multipart_list_parts(second, &upload, &listed, &count, cleat__call(&no_cancel, &err)));
  ck_assert_uint_eq(count, 3);
  ck_assert_uint_eq(listed[1].number, 3);
  cleat__free(listed);
}
END_TEST

START_TEST(what_cannot_be_adopted) {
  struct cleat__upload upload = begin("k");
  cleat__store_close(first);
  first = scratch_store("root");
  struct cleat__upload other = upload;
  other.size++;
  must_fail(CLEAT_LOST, cleat__store_multipart_adopt(second, &other, cleat__call(&no_cancel, &err)));
  other = upload;
  snprintf(other.id, sizeof other.id, "../%.32s", upload.id);
  must_fail(CLEAT_LOST, cleat__store_multipart_adopt(second, &other, cleat__call(&no_cancel, &err)));
  must(cleat__store_multipart_abort(second, &upload, cleat__call(&no_cancel, &err)));
  must_fail(CLEAT_NOT_FOUND, cleat__store_multipart_adopt(second, &upload, cleat__call(&no_cancel, &err)));
}
END_TEST

static const struct suite_row tests[] = {
    CASE("s3", NULL, NULL, 0),
    TEST(pages_of_s3, 1),
    TEST(pages_without_end, 1),
    CASE("xml", NULL, NULL, 0),
    TEST(bad_lists_are_refused, COUNT(BAD)),
    CASE("folder", folder_setup, folder_teardown, 60),
    TEST(listed_by_prefix, 1),
    TEST(more_than_a_page, 1),
    TEST(adopted_when_its_process_is_gone, 1),
    TEST(adopted_parts_are_read_again, 1),
    TEST(what_cannot_be_adopted, 1),
};

int main(void) {
  return run_table("uploads", tests, COUNT(tests));
}
