/* test_s3_credentials.c: storage/aws/credentials.c. Each test begins with a clean environment and an
 * empty home folder of its own, which is removed. */
#include "storage/aws/credentials.h"

#include "base/mem.h"
#include "tests/mock/each_fault.h"
#include "tests/mock/environment.h"
#include "tests/mock/run_suite.h"

#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct cleat_error err;
static struct cleat_client_options options;
static struct cleat__s3_credentials keys;
static struct cleat__s3_chain *chain;
static char home[64];
static bool anonymous;

static void write_file(const char *name, const char *text) {
  char path[128];
  snprintf(path, sizeof path, "%s/.aws/%s", home, name);
  FILE *file = fopen(path, "w");
  ck_assert_ptr_nonnull(file);
  fputs(text, file);
  fclose(file);
}

static void setup(void) {
  environment_unset("AWS_");
  setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
  snprintf(home, sizeof home, "%s", "/tmp/cleat-test-XXXXXX");
  ck_assert_ptr_nonnull(mkdtemp(home));
  char folder[128];
  snprintf(folder, sizeof folder, "%s/.aws", home);
  ck_assert_int_eq(mkdir(folder, 0700), 0);
  setenv("HOME", home, 1);
  memset(&err, 0, sizeof err);
  memset(&keys, 0, sizeof keys);
  options = (struct cleat_client_options)CLEAT_CLIENT_OPTIONS_INIT;
  chain = NULL;
  anonymous = false;
}

static void teardown(void) {
  static const char *const files[] = {"credentials", "config", ""};
  cleat__s3_credentials_free(chain);
  char path[128];
  for (size_t i = 0; i < 3; i++) {
    snprintf(path, sizeof path, "%s/.aws/%s", home, files[i]);
    remove(path);
  }
  rmdir(home);
}

/* Opens a chain with the profile and gets its keys. */
static cleat_status get(const char *profile) {
  cleat__s3_credentials_free(chain);
  chain = NULL;
  const struct cleat__s3_chain_options how = {
      .client = &options, .profile = profile, .anonymous = anonymous, .clock = cleat__clock_system()};
  cleat_status status = cleat__s3_credentials_new(&how, &chain, &err);
  return status ? status : cleat__s3_credentials_get(chain, &keys, cleat__call(NULL, &err));
}

static void check_keys(const char *id, const char *secret, const char *token, const char *source) {
  ck_assert_str_eq(keys.access_key_id, id);
  ck_assert_str_eq(keys.secret_access_key, secret);
  ck_assert_str_eq(keys.session_token, token);
  ck_assert_int_eq(keys.expires_s, 0);
  ck_assert_str_eq(cleat__s3_credentials_source(chain), source);
}

static void set_environment(const char *id, const char *secret, const char *token) {
  setenv("AWS_ACCESS_KEY_ID", id, 1);
  setenv("AWS_SECRET_ACCESS_KEY", secret, 1);
  setenv("AWS_SESSION_TOKEN", token, 1);
}

static void check_failure(cleat_status got, cleat_status expected, const char *word) {
  ck_assert_int_eq(got, expected);
  ck_assert_int_eq(err.status, expected);
  ck_assert_msg(strstr(err.message, word) != NULL, "'%s' lacks '%s'", err.message, word);
  ck_assert_str_eq(keys.access_key_id, "");
}

START_TEST(options_come_first) {
  set_environment("env-id", "env-secret", "env-token");
  options.access_key_id = "opt-id";
  options.secret_access_key = "opt-secret";
  ck_assert_int_eq(get(NULL), CLEAT_OK);
  check_keys("opt-id", "opt-secret", "", "the options");
  options.session_token = "opt-token";
  ck_assert_int_eq(get(NULL), CLEAT_OK);
  check_keys("opt-id", "opt-secret", "opt-token", "the options");
}
END_TEST

START_TEST(the_environment_comes_before_the_files) {
  write_file("credentials", "[default]\naws_access_key_id = f\naws_secret_access_key = g\n");
  set_environment("env-id", "env-secret", "");
  ck_assert_int_eq(get(NULL), CLEAT_OK);
  check_keys("env-id", "env-secret", "", "the environment variables");
  setenv("AWS_SESSION_TOKEN", "env-token", 1);
  ck_assert_int_eq(get(NULL), CLEAT_OK);
  check_keys("env-id", "env-secret", "env-token", "the environment variables");
}
END_TEST

START_TEST(a_profile_of_the_url_comes_before_the_environment) {
  write_file("credentials", "[dev]\naws_access_key_id = f\naws_secret_access_key = g\n");
  set_environment("env-id", "", "half a pair, and a bad one: it is not looked at");
  ck_assert_int_eq(get("dev"), CLEAT_OK);
  check_keys("f", "g", "", "the shared AWS files");
  set_environment("env-id", "env-secret", "");
  setenv("AWS_PROFILE", "dev", 1);
  ck_assert_int_eq(get(NULL), CLEAT_OK);
  check_keys("env-id", "env-secret", "", "the environment variables");
}
END_TEST

START_TEST(the_credentials_file_comes_before_the_config_file) {
  write_file("config", "[default]\naws_access_key_id = c\naws_secret_access_key = d\n"
                       "[profile only]\naws_access_key_id = o\naws_secret_access_key = p\n"
                       "aws_session_token = t\n");
  ck_assert_int_eq(get(NULL), CLEAT_OK);
  check_keys("c", "d", "", "the shared AWS files");
  write_file("credentials", "[default]\naws_access_key_id = f\naws_secret_access_key = g\n");
  ck_assert_int_eq(get(NULL), CLEAT_OK);
  check_keys("f", "g", "", "the shared AWS files");
  setenv("AWS_PROFILE", "only", 1);
  ck_assert_int_eq(get(NULL), CLEAT_OK);
  check_keys("o", "p", "t", "the shared AWS files");
}
END_TEST

START_TEST(the_files_may_lie_elsewhere) {
  write_file("config", "[default]\naws_access_key_id = f\naws_secret_access_key = g\n");
  char path[128];
  snprintf(path, sizeof path, "%s/.aws/config", home);
  setenv("AWS_SHARED_CREDENTIALS_FILE", path, 1);
  setenv("AWS_CONFIG_FILE", "/dev/null", 1);
  ck_assert_int_eq(get(NULL), CLEAT_OK);
  check_keys("f", "g", "", "the shared AWS files");
}
END_TEST

START_TEST(no_keys_at_all) {
  check_failure(get(NULL), CLEAT_DENIED, "no S3 keys found");
  ck_assert_ptr_nonnull(strstr(err.message, home));
  ck_assert_ptr_nonnull(strstr(err.hint, "AWS_ACCESS_KEY_ID"));
  ck_assert_str_eq(cleat__s3_credentials_source(chain), "");
  unsetenv("HOME");
  check_failure(get(NULL), CLEAT_DENIED, "~/.aws/credentials");
}
END_TEST

START_TEST(half_a_pair_is_told_where_it_stands) {
  options.access_key_id = "opt-id";
  check_failure(get(NULL), CLEAT_INVALID, "secret_access_key is not");
  options.access_key_id = NULL;
  options.session_token = "token";
  check_failure(get(NULL), CLEAT_INVALID, "session_token is set, but access_key_id is not");
  options.session_token = NULL;

  setenv("AWS_ACCESS_KEY_ID", "env-id", 1);
  check_failure(get(NULL), CLEAT_DENIED, "AWS_SECRET_ACCESS_KEY is not");
  ck_assert_ptr_nonnull(strstr(err.hint, "AWS_SECRET_ACCESS_KEY"));
  setenv("AWS_ACCESS_KEY_ID", "", 1);
  setenv("AWS_SECRET_ACCESS_KEY", "hidden", 1);
  check_failure(get(NULL), CLEAT_DENIED, "AWS_ACCESS_KEY_ID is not");
  ck_assert_ptr_null(strstr(err.message, "hidden"));
  unsetenv("AWS_SECRET_ACCESS_KEY");

  write_file("credentials", "[default]\naws_secret_access_key = hidden\n");
  check_failure(get(NULL), CLEAT_INVALID, "profile 'default': aws_secret_access_key is set");
  ck_assert_ptr_nonnull(strstr(err.message, home));
  ck_assert_ptr_null(strstr(err.message, "hidden"));
}
END_TEST

START_TEST(keys_with_blanks_or_line_ends_are_refused_without_a_word_of_them) {
  static const char *const bad[] = {"hidden\n", " hidden", "hid den", "hidden\xc3\xbc", "hidden\t"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    set_environment("id", bad[i], "");
    check_failure(get(NULL), CLEAT_INVALID, "AWS_SECRET_ACCESS_KEY");
    ck_assert_ptr_null(strstr(err.message, "hid"));
    ck_assert_ptr_null(strstr(err.hint, "hid"));
  }
}
END_TEST

START_TEST(keys_are_bounded) {
  char text[CLEAT__S3_SESSION_TOKEN_MAX + 2];
  memset(text, 'k', sizeof text);
  text[CLEAT__S3_SESSION_TOKEN_MAX] = '\0';
  set_environment("id", "secret", text);
  ck_assert_int_eq(get(NULL), CLEAT_OK);
  ck_assert_uint_eq(strlen(keys.session_token), CLEAT__S3_SESSION_TOKEN_MAX);
  memset(&keys, 0, sizeof keys);
  text[CLEAT__S3_SESSION_TOKEN_MAX] = 'k';
  text[CLEAT__S3_SESSION_TOKEN_MAX + 1] = '\0';
  set_environment("id", "secret", text);
  check_failure(get(NULL), CLEAT_INVALID, "AWS_SESSION_TOKEN");
  text[CLEAT__S3_ACCESS_KEY_MAX + 1] = '\0';
  set_environment(text, "secret", "");
  check_failure(get(NULL), CLEAT_INVALID, "AWS_ACCESS_KEY_ID");
}
END_TEST

START_TEST(a_profile_that_was_named_must_exist) {
  write_file("credentials", "[default]\naws_access_key_id = f\naws_secret_access_key = g\n");
  setenv("AWS_PROFILE", "prod", 1);
  check_failure(get(NULL), CLEAT_INVALID, "no profile 'prod'");
  check_failure(get("test"), CLEAT_INVALID, "no profile 'test'");
  /* One that exists and holds no keys is another matter. */
  write_file("config", "[profile prod]\nregion = r\n");
  check_failure(get(NULL), CLEAT_DENIED, "profile 'prod'");
}
END_TEST

START_TEST(ways_that_are_not_supported_are_named) {
  write_file("config", "[default]\nsso_session = x\n");
  check_failure(get(NULL), CLEAT_DENIED, "sso_session");
  write_file("config", "[default]\nrole_arn = r\nsource_profile = x\nmfa_serial = m\n");
  check_failure(get(NULL), CLEAT_DENIED, "mfa_serial");
}
END_TEST

/* Not even keys that lie about are used, and those in the options are a contradiction. */
START_TEST(none_when_none_are_asked_for) {
  anonymous = true;
  set_environment("env-id", "env-secret", "");
  ck_assert_int_eq(get(NULL), CLEAT_OK);
  check_keys("", "", "", "nowhere: requests are anonymous");
  options.access_key_id = "opt-id";
  options.secret_access_key = "opt-secret";
  check_failure(get(NULL), CLEAT_INVALID, "anonymous");
}
END_TEST

START_TEST(a_malformed_file_is_refused) {
  write_file("credentials", "[default]\nhidden\n");
  check_failure(get(NULL), CLEAT_INVALID, "line 2");
  ck_assert_ptr_null(strstr(err.message, "hidden"));
}
END_TEST

START_TEST(files_are_read_once_and_again_after_a_refusal) {
  write_file("credentials", "[default]\naws_access_key_id = f\naws_secret_access_key = g\n");
  ck_assert_int_eq(get(NULL), CLEAT_OK);
  struct cleat__s3_credentials first = keys;
  write_file("credentials", "[default]\naws_access_key_id = n\naws_secret_access_key = g\n");
  ck_assert_int_eq(cleat__s3_credentials_get(chain, &keys, cleat__call(NULL, &err)), CLEAT_OK);
  ck_assert_str_eq(keys.access_key_id, "f");
  /* What another thread has replaced already is not read again. */
  struct cleat__s3_credentials other = {.access_key_id = "long gone"};
  cleat__s3_credentials_refuse(chain, &other);
  ck_assert_int_eq(cleat__s3_credentials_get(chain, &keys, cleat__call(NULL, &err)), CLEAT_OK);
  ck_assert_str_eq(keys.access_key_id, "f");
  cleat__s3_credentials_refuse(chain, &first);
  ck_assert_int_eq(cleat__s3_credentials_get(chain, &keys, cleat__call(NULL, &err)), CLEAT_OK);
  ck_assert_str_eq(keys.access_key_id, "n");
}
END_TEST

START_TEST(the_environment_is_read_when_the_chain_is_made) {
  set_environment("env-id", "env-secret", "");
  ck_assert_int_eq(get(NULL), CLEAT_OK);
  struct cleat__s3_credentials first = keys;
  set_environment("other", "other", "");
  cleat__s3_credentials_refuse(chain, &first);
  ck_assert_int_eq(cleat__s3_credentials_get(chain, &keys, cleat__call(NULL, &err)), CLEAT_OK);
  ck_assert_str_eq(keys.access_key_id, "env-id");
}
END_TEST

static void *get_often(void *arg) {
  struct cleat__s3_credentials mine;
  struct cleat_error error;
  (void)arg;
  for (int i = 0; i < 300; i++) {
    ck_assert_int_eq(cleat__s3_credentials_get(chain, &mine, cleat__call(NULL, &error)), CLEAT_OK);
    ck_assert_str_eq(mine.access_key_id, "f");
    if (i % 50 == 0)
      cleat__s3_credentials_refuse(chain, &mine);
    ck_assert_str_eq(cleat__s3_credentials_source(chain), "the shared AWS files");
  }
  return NULL;
}

START_TEST(threads_share_a_chain) {
  write_file("credentials", "[default]\naws_access_key_id = f\naws_secret_access_key = g\n");
  ck_assert_int_eq(get(NULL), CLEAT_OK);
  pthread_t threads[4];
  for (size_t i = 0; i < 4; i++)
    ck_assert_int_eq(pthread_create(&threads[i], NULL, get_often, NULL), 0);
  for (size_t i = 0; i < 4; i++)
    pthread_join(threads[i], NULL);
}
END_TEST

START_TEST(wiping_leaves_nothing) {
  struct cleat__s3_credentials wiped;
  struct cleat__s3_credentials zero = {0};
  memset(&zero, 0, sizeof zero);
  memset(&wiped, 'x', sizeof wiped);
  cleat__s3_credentials_wipe(&wiped);
  ck_assert_mem_eq(&wiped, &zero, sizeof wiped);
}
END_TEST

static cleat_status get_once(void) {
  cleat_status status = get(NULL);
  cleat__s3_credentials_free(chain);
  chain = NULL;
  return status;
}

START_TEST(no_memory_is_reported) {
  write_file("config", "[default]\naws_access_key_id = c\naws_secret_access_key = d\n");
  ck_assert_uint_gt(each_fault_no_memory(get_once), 5);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("all", setup, teardown, 0),
    TEST(options_come_first, 1),
    TEST(the_environment_comes_before_the_files, 1),
    TEST(a_profile_of_the_url_comes_before_the_environment, 1),
    TEST(the_credentials_file_comes_before_the_config_file, 1),
    TEST(the_files_may_lie_elsewhere, 1),
    TEST(no_keys_at_all, 1),
    TEST(half_a_pair_is_told_where_it_stands, 1),
    TEST(keys_with_blanks_or_line_ends_are_refused_without_a_word_of_them, 1),
    TEST(keys_are_bounded, 1),
    TEST(a_profile_that_was_named_must_exist, 1),
    TEST(ways_that_are_not_supported_are_named, 1),
    TEST(none_when_none_are_asked_for, 1),
    TEST(a_malformed_file_is_refused, 1),
    TEST(files_are_read_once_and_again_after_a_refusal, 1),
    TEST(the_environment_is_read_when_the_chain_is_made, 1),
    TEST(threads_share_a_chain, 1),
    TEST(wiping_leaves_nothing, 1),
    TEST(no_memory_is_reported, 1),
};

int main(void) {
  return run_table("s3_credentials", tests, COUNT(tests));
}
