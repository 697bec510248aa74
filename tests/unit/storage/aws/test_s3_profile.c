/* test_s3_profile.c: storage/aws/profile.c. Files lie in a temporary folder that is removed. */
#include "storage/aws/profile.h"

#include "base/mem.h"
#include "tests/mock/run_suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct cleat_error err;
static struct cleat__s3_profile profile;

static void setup(void) {
  memset(&err, 0, sizeof err);
  profile = (struct cleat__s3_profile)CLEAT__S3_PROFILE_INIT;
}

static void teardown(void) {
  cleat__s3_profile_clear(&profile);
}

static cleat_status parse(const char *text, enum cleat__s3_profile_kind kind, const char *name) {
  cleat__s3_profile_clear(&profile);
  return cleat__s3_profile_parse(text, strlen(text), "/a/file", kind, name, &profile, &err);
}

static void check_value(const char *key, const char *expected) {
  const char *value = cleat__s3_profile_get(&profile, key);
  if (!expected) {
    ck_assert_msg(!value, "%s is there", key);
    return;
  }
  ck_assert_msg(value != NULL, "%s is not there", key);
  ck_assert_str_eq(value, expected);
}

START_TEST(a_credentials_file) {
  static const char text[] = "# comment\r\n"
                             "; another\n"
                             "[other]\n"
                             "aws_access_key_id = no\n"
                             "\n"
                             "[ default ] # the one\r\n"
                             "aws_access_key_id=AKID\r\n"
                             "AWS_Secret_Access_Key =  se=cr#et;  # comment\n"
                             "aws_session_token = \n"
                             "[other]\n"
                             "aws_access_key_id = no";
  ck_assert_int_eq(parse(text, CLEAT__S3_PROFILE_CREDENTIALS, "default"), CLEAT_OK);
  ck_assert(profile.found);
  check_value("aws_access_key_id", "AKID");
  check_value("aws_secret_access_key", "se=cr#et;");
  check_value("aws_session_token", "");
  check_value("region", NULL);
}
END_TEST

START_TEST(the_last_of_two_counts_and_sections_join) {
  static const char text[] = "[p]\na = 1\nb = 2\n[q]\na = 9\n[p]\na = 3\n";
  ck_assert_int_eq(parse(text, CLEAT__S3_PROFILE_CREDENTIALS, "p"), CLEAT_OK);
  ck_assert_uint_eq(profile.count, 2);
  check_value("a", "3");
  check_value("b", "2");
}
END_TEST

START_TEST(a_config_file_names_its_sections_otherwise) {
  static const char text[] = "[default]\nregion = d\n[profile dev]\nregion = e\n"
                             "[profile \"two words\"]\nregion = w\n[dev]\nregion = wrong\n"
                             "[services dev]\nregion = s\n[profilex dev]\nregion = x\n[profiledev]\nregion = y\n";
  ck_assert_int_eq(parse(text, CLEAT__S3_PROFILE_CONFIG, "default"), CLEAT_OK);
  check_value("region", "d");
  ck_assert_int_eq(parse(text, CLEAT__S3_PROFILE_CONFIG, "dev"), CLEAT_OK);
  check_value("region", "e");
  ck_assert_int_eq(parse(text, CLEAT__S3_PROFILE_CONFIG, "two words"), CLEAT_OK);
  check_value("region", "w");
  ck_assert_int_eq(parse(text, CLEAT__S3_PROFILE_SERVICES, "dev"), CLEAT_OK);
  check_value("region", "s");
  ck_assert_int_eq(parse("[profile default]\nregion = p\n", CLEAT__S3_PROFILE_CONFIG, "default"), CLEAT_OK);
  check_value("region", "p");
}
END_TEST

START_TEST(nested_settings_have_a_dotted_name) {
  static const char text[] = "[default]\n"
                             "  region = r\n"
                             "  s3 =\n"
                             "    addressing_style = path\n"
                             "    payload = x\n"
                             "  output = json\n";
  ck_assert_int_eq(parse(text, CLEAT__S3_PROFILE_CONFIG, "default"), CLEAT_OK);
  check_value("region", "r");
  check_value("s3.addressing_style", "path");
  check_value("s3.payload", "x");
  check_value("addressing_style", NULL);
  check_value("output", "json");
}
END_TEST

START_TEST(an_absent_section_is_not_an_error) {
  ck_assert_int_eq(parse("[a]\nb = c\n", CLEAT__S3_PROFILE_CREDENTIALS, "x"), CLEAT_OK);
  ck_assert(!profile.found);
  ck_assert_uint_eq(profile.count, 0);
  ck_assert_int_eq(parse("", CLEAT__S3_PROFILE_CREDENTIALS, "x"), CLEAT_OK);
  ck_assert(!profile.found);
}
END_TEST

START_TEST(a_byte_order_mark_is_passed_over) {
  ck_assert_int_eq(parse("\xef\xbb\xbf[a]\nb = c\n", CLEAT__S3_PROFILE_CREDENTIALS, "a"), CLEAT_OK);
  check_value("b", "c");
}
END_TEST

static const char *const MALFORMED[] = {
    "[p]\n\nno equal sign secret\n",      "[p]\n\n= value\n", "[p]\n\n[broken\n", "[p]\n\n[q] text\n",
    "[p]\na = 1\n  continued = secret\n",
};

START_TEST(malformed_lines_are_told_by_number_and_not_quoted) {
  ck_assert_int_eq(parse(MALFORMED[_i], CLEAT__S3_PROFILE_CREDENTIALS, "p"), CLEAT_INVALID);
  ck_assert_ptr_nonnull(strstr(err.message, "/a/file, line 3"));
  ck_assert_ptr_null(strstr(err.message, "secret"));
  ck_assert_ptr_null(profile.keys);
}
END_TEST

START_TEST(other_sections_may_hold_anything) {
  ck_assert_int_eq(parse("free text\n[q]\nwhat is this\n[p]\na = 1\n", CLEAT__S3_PROFILE_CREDENTIALS, "p"), CLEAT_OK);
  check_value("a", "1");
}
END_TEST

START_TEST(a_nul_byte_is_refused) {
  static const char text[] = "[p]\na = 1\0 2\n";
  ck_assert_int_eq(
      cleat__s3_profile_parse(text, sizeof text - 1, "/a/file", CLEAT__S3_PROFILE_CREDENTIALS, "p", &profile, &err),
      CLEAT_INVALID);
}
END_TEST

START_TEST(lines_settings_and_files_are_bounded) {
  size_t size = CLEAT__S3_PROFILE_FILE_MAX + 1;
  char *text = cleat__alloc(size);
  ck_assert_ptr_nonnull(text);
  memset(text, '\n', size);
  ck_assert_int_eq(cleat__s3_profile_parse(text, size, "/a/file", CLEAT__S3_PROFILE_CREDENTIALS, "p", &profile, &err),
                   CLEAT_INVALID);
  memset(text, '#', size);
  ck_assert_int_eq(cleat__s3_profile_parse(text, CLEAT__S3_PROFILE_LINE_MAX + 1, "/a/file",
                                           CLEAT__S3_PROFILE_CREDENTIALS, "p", &profile, &err),
                   CLEAT_INVALID);
  ck_assert_int_eq(cleat__s3_profile_parse(text, CLEAT__S3_PROFILE_LINE_MAX, "/a/file", CLEAT__S3_PROFILE_CREDENTIALS,
                                           "p", &profile, &err),
                   CLEAT_OK);
  cleat__s3_profile_clear(&profile);
  int used = snprintf(text, size, "[p]\n");
  for (int i = 0; i <= CLEAT__S3_PROFILE_KEYS_MAX; i++)
    used += snprintf(text + used, size - (size_t)used, "k%d = v\n", i);
  ck_assert_int_eq(
      cleat__s3_profile_parse(text, (size_t)used, "/a/file", CLEAT__S3_PROFILE_CREDENTIALS, "p", &profile, &err),
      CLEAT_INVALID);
  used = snprintf(text, size, "[p]\n%0300d = v\n", 0);
  ck_assert_int_eq(
      cleat__s3_profile_parse(text, (size_t)used, "/a/file", CLEAT__S3_PROFILE_CREDENTIALS, "p", &profile, &err),
      CLEAT_INVALID);
  cleat__free(text);
}
END_TEST

START_TEST(no_memory_is_reported) {
  static const char text[] = "[p]\na = 1\nb =\n  c = d\na = 2\n";
  cleat__fault_arm(0, false);
  ck_assert_int_eq(parse(text, CLEAT__S3_PROFILE_CREDENTIALS, "p"), CLEAT_OK);
  unsigned long calls = cleat__fault_disarm();
  ck_assert_uint_gt(calls, 5);
  for (unsigned long n = 1; n <= calls; n++) {
    cleat__fault_arm(n, false);
    cleat_status status = parse(text, CLEAT__S3_PROFILE_CREDENTIALS, "p");
    cleat__fault_disarm();
    ck_assert_int_eq(status, CLEAT_NO_MEMORY);
  }
}
END_TEST

/* ---- Files ---- */

static void check_path(enum cleat__s3_profile_kind kind, const char *expected) {
  char *path = NULL;
  ck_assert_int_eq(cleat__s3_profile_path(kind, &path, &err), CLEAT_OK);
  if (expected)
    ck_assert_str_eq(path, expected);
  else
    ck_assert_ptr_null(path);
  cleat__free(path);
}

START_TEST(paths_come_from_the_environment) {
  setenv("HOME", "/home/u", 1);
  unsetenv("AWS_CONFIG_FILE");
  setenv("AWS_SHARED_CREDENTIALS_FILE", "", 1);
  check_path(CLEAT__S3_PROFILE_CREDENTIALS, "/home/u/.aws/credentials");
  check_path(CLEAT__S3_PROFILE_CONFIG, "/home/u/.aws/config");
  check_path(CLEAT__S3_PROFILE_SERVICES, "/home/u/.aws/config");
  setenv("AWS_SHARED_CREDENTIALS_FILE", "/etc/keys", 1);
  setenv("AWS_CONFIG_FILE", "~/conf", 1);
  check_path(CLEAT__S3_PROFILE_CREDENTIALS, "/etc/keys");
  check_path(CLEAT__S3_PROFILE_CONFIG, "/home/u/conf");
  unsetenv("AWS_CONFIG_FILE");
  unsetenv("HOME");
  check_path(CLEAT__S3_PROFILE_CONFIG, NULL);
}
END_TEST

START_TEST(files_are_loaded) {
  char folder[] = "/tmp/cleat-test-XXXXXX";
  ck_assert_ptr_nonnull(mkdtemp(folder));
  char *path = cleat__strprintf("%s/credentials", folder);
  bool exists = true;
  ck_assert_int_eq(cleat__s3_profile_load(path, CLEAT__S3_PROFILE_CREDENTIALS, "p", &profile, &exists, &err), CLEAT_OK);
  ck_assert(!exists);
  ck_assert(!profile.found);

  FILE *file = fopen(path, "w");
  ck_assert_ptr_nonnull(file);
  fputs("[p]\na = 1\n", file);
  fclose(file);
  ck_assert_int_eq(cleat__s3_profile_load(path, CLEAT__S3_PROFILE_CREDENTIALS, "p", &profile, &exists, &err), CLEAT_OK);
  ck_assert(exists);
  check_value("a", "1");
  cleat__s3_profile_clear(&profile);

  /* A folder is no file, /dev/null is an empty one, and a pipe without a writer does not hang. */
  ck_assert_int_eq(cleat__s3_profile_load(folder, CLEAT__S3_PROFILE_CREDENTIALS, "p", &profile, &exists, &err),
                   CLEAT_IO);
  ck_assert_ptr_nonnull(strstr(err.message, folder));
  ck_assert_int_eq(cleat__s3_profile_load("/dev/null", CLEAT__S3_PROFILE_CREDENTIALS, "p", &profile, NULL, &err),
                   CLEAT_OK);
  cleat__s3_profile_clear(&profile);
  ck_assert_int_eq(unlink(path), 0);
  ck_assert_int_eq(mkfifo(path, 0600), 0);
  ck_assert_int_eq(cleat__s3_profile_load(path, CLEAT__S3_PROFILE_CREDENTIALS, "p", &profile, NULL, &err), CLEAT_OK);
  /* Far over the limit, and without an end. */
  ck_assert_int_eq(cleat__s3_profile_load("/dev/zero", CLEAT__S3_PROFILE_CREDENTIALS, "p", &profile, NULL, &err),
                   CLEAT_INVALID);
  unlink(path);
  rmdir(folder);
  cleat__free(path);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("all", setup, teardown, 0),
    TEST(a_credentials_file, 1),
    TEST(the_last_of_two_counts_and_sections_join, 1),
    TEST(a_config_file_names_its_sections_otherwise, 1),
    TEST(nested_settings_have_a_dotted_name, 1),
    TEST(an_absent_section_is_not_an_error, 1),
    TEST(a_byte_order_mark_is_passed_over, 1),
    TEST(malformed_lines_are_told_by_number_and_not_quoted, COUNT(MALFORMED)),
    TEST(other_sections_may_hold_anything, 1),
    TEST(a_nul_byte_is_refused, 1),
    TEST(lines_settings_and_files_are_bounded, 1),
    TEST(no_memory_is_reported, 1),
    TEST(paths_come_from_the_environment, 1),
    TEST(files_are_loaded, 1),
};

int main(void) {
  return run_table("s3_profile", tests, COUNT(tests));
}
