/* test_s3_credentials_profile.c: storage/aws/credentials_profile.c: profiles that lead to a role,
 * to another profile, to a program; chains, loops, and what is malformed. STS is a server that
 * answers by script. */
#include "storage/aws/provider.h"

#include "tests/mock/key_script.h"
#include "tests/mock/run_suite.h"

#include <stdio.h>
#include <stdlib.h>

#define FILES "the shared AWS files"
#define ROLE_KEYS(id) HTTP_REPLY("200 OK", STS_KEYS("AssumeRole", id, IN_AN_HOUR))
#define STATIC(id) "aws_access_key_id = " id "\naws_secret_access_key = hidden-secret\n"

static void use_server(void) {
  keys_of.options.sts_endpoint = mock_server_url(keys_of.server);
}

START_TEST(a_role_by_another_profile) {
  KEY_SERVE(ROLE_KEYS("role-1"));
  use_server();
  key_write(".aws/credentials", "[base]\n" STATIC("base-id"));
  key_write(".aws/config", "[profile train]\nrole_arn = arn:aws:iam::1:role/r\nsource_profile = base\n"
                           "external_id = x/7\nduration_seconds = 3600\nrole_session_name = me\n");
  keys_of.options.profile = "train";
  ck_ok(key_get());
  key_expect("role-1", FILES, KEY_NOW_S + 3600);
  key_saw_field(1, "Action=AssumeRole");
  key_saw_field(1, "RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fr");
  key_saw_field(1, "RoleSessionName=me");
  key_saw_field(1, "ExternalId=x%2F7");
  key_saw_field(1, "DurationSeconds=3600");
  key_saw_header(1, "Authorization", "AWS4-HMAC-SHA256 Credential=base-id/20261014/eu-west-1/sts/aws4_request");
  key_saw_header(1, "x-amz-date", "20261014T174640Z");
}
END_TEST

#define REFUSED(date)                     \
  "HTTP/1.1 403 Forbidden\r\nDate: " date \
  "\r\nConnection: close\r\n\r\n" STS_ERROR("SignatureDoesNotMatch", "Signature not yet current")
#define AN_HOUR_ON "Wed, 14 Oct 2026 18:46:40 GMT"
#define IN_TWO_HOURS "2026-10-14T19:46:40Z"

static void use_role(void) {
  use_server();
  key_write(".aws/config", "[default]\nrole_arn = r\nsource_profile = base\n[profile base]\n" STATIC("base-id"));
}

/* Our clock is an hour late: STS's is taken, for the store too. */
START_TEST(a_role_and_a_wrong_clock) {
  atomic_llong skew_s = 0;
  KEY_SERVE(REFUSED(AN_HOUR_ON), HTTP_REPLY("200 OK", STS_KEYS("AssumeRole", "role", IN_TWO_HOURS)));
  use_role();
  keys_of.options.skew_s = &skew_s;
  ck_ok(key_get());
  key_expect("role", FILES, KEY_NOW_S + 7200);
  key_saw_header(1, "x-amz-date", "20261014T174640Z");
  key_saw_header(2, "x-amz-date", "20261014T184640Z");
  ck_assert_int_eq(atomic_load(&skew_s), 3600);
  /* What is known is used at once. */
  ck_ok(key_get());
  key_saw_header(3, "x-amz-date", "20261014T184640Z");
  ck_assert_uint_eq(key_requests(), 3);
}
END_TEST

START_TEST(a_role_that_is_refused_at_the_right_time) {
  atomic_llong skew_s = 0;
  KEY_SERVE(REFUSED("Wed, 14 Oct 2026 17:49:40 GMT"), REFUSED(AN_HOUR_ON), REFUSED(AN_HOUR_ON));
  use_role();
  keys_of.options.skew_s = &skew_s;
  key_fails(key_get(), CLEAT_DENIED, "SignatureDoesNotMatch");
  ck_assert_uint_eq(key_requests(), 1);
  ck_assert_int_eq(atomic_load(&skew_s), 0);
  /* Refused again at STS's own time: that is its answer. */
  key_fails(key_get(), CLEAT_DENIED, "SignatureDoesNotMatch");
  ck_assert_uint_eq(key_requests(), 3);
}
END_TEST

/* By our clock, an hour ahead of true time, the keys have ended when they come. */
START_TEST(the_end_of_keys_is_told_by_the_true_time) {
  atomic_llong skew_s = -3600;
  KEY_SERVE(ROLE_KEYS("role-1"), ROLE_KEYS("role-2"));
  use_role();
  keys_of.options.skew_s = &skew_s;
  atomic_store(&keys_of.wall_s, KEY_NOW_S + 3600);
  ck_ok(key_get());
  atomic_fetch_add(&keys_of.wall_s, 60);
  ck_ok(key_get_again());
  key_expect("role-1", FILES, KEY_NOW_S + 3600);
  ck_assert_uint_eq(key_requests(), 1);
}
END_TEST

START_TEST(a_chain_of_roles) {
  KEY_SERVE(ROLE_KEYS("role-1"), ROLE_KEYS("role-2"));
  use_server();
  key_write(".aws/config", "[default]\nrole_arn = outer\nsource_profile = middle\n"
                           "[profile middle]\nrole_arn = inner\nsource_profile = base\n"
                           "[profile base]\n" STATIC("base-id"));
  ck_ok(key_get());
  key_expect("role-2", FILES, KEY_NOW_S + 3600);
  key_saw_field(1, "RoleArn=inner");
  key_saw_field(2, "RoleArn=outer");
  key_saw_header(2, "Authorization", "Credential=role-1/");
  key_saw_header(2, "x-amz-security-token", "hidden-token");
}
END_TEST

START_TEST(a_profile_that_names_itself) {
  KEY_SERVE(ROLE_KEYS("role"));
  use_server();
  key_write(".aws/config", "[default]\nrole_arn = r\nsource_profile = default\n" STATIC("base-id"));
  ck_ok(key_get());
  key_expect("role", FILES, KEY_NOW_S + 3600);
  key_saw_header(1, "Authorization", "Credential=base-id/");
}
END_TEST

START_TEST(a_role_by_a_place) {
  KEY_SERVE(ROLE_KEYS("role"), HTTP_REPLY("200 OK", JSON_KEYS("pod", "Token", IN_AN_HOUR)), ROLE_KEYS("role-2"));
  use_server();
  key_write(".aws/config", "[default]\nrole_arn = r\ncredential_source = Environment\n"
                           "[profile pod]\nrole_arn = r\ncredential_source = EcsContainer\n"
                           "[profile bad]\nrole_arn = r\ncredential_source = Nowhere\n");
  setenv("AWS_ACCESS_KEY_ID", "env-id", 1);
  setenv("AWS_SECRET_ACCESS_KEY", "hidden-secret", 1);
  keys_of.options.profile = "default"; /* in the URL: before the environment's own keys */
  ck_ok(key_get());
  key_saw_header(1, "Authorization", "Credential=env-id/");
  keys_of.options.profile = "pod";
  key_fails((memset(&keys_of.keys, 0, sizeof keys_of.keys), key_get()), CLEAT_DENIED, "credential_source EcsContainer");
  setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", mock_server_url(keys_of.server), 1);
  ck_ok(key_get());
  key_expect("role-2", FILES, KEY_NOW_S + 3600);
  key_saw_header(3, "Authorization", "Credential=pod/");
  keys_of.options.profile = "bad";
  key_fails(key_get(), CLEAT_INVALID, "credential_source");
}
END_TEST

START_TEST(a_role_by_a_web_identity) {
  char config[1024];
  KEY_SERVE(HTTP_REPLY("200 OK", STS_KEYS("AssumeRoleWithWebIdentity", "web", IN_AN_HOUR)));
  use_server();
  snprintf(config, sizeof config, "[default]\nrole_arn = r\nweb_identity_token_file = %s\n",
           key_write("token", "hidden-web"));
  key_write(".aws/config", config);
  ck_ok(key_get());
  key_expect("web", FILES, KEY_NOW_S + 3600);
  key_saw_field(1, "WebIdentityToken=hidden-web");
  key_write(".aws/config", "[default]\nweb_identity_token_file = /no/such\n");
  key_fails(key_get(), CLEAT_INVALID, "role_arn is not");
}
END_TEST

START_TEST(a_role_by_a_program) {
  KEY_SERVE(ROLE_KEYS("role"));
  use_server();
  key_write(".aws/config", "[default]\nrole_arn = r\nsource_profile = tool\n[profile tool]\ncredential_process = "
                           "printf '{\"Version\":1,\"AccessKeyId\":\"tool\",\"SecretAccessKey\":\"hidden\"}'\n");
  ck_ok(key_get());
  key_saw_header(1, "Authorization", "Credential=tool/");
}
END_TEST

static const struct {
  const char *config;
  cleat_status status;
  const char *word;
} BAD[] = {
    {"[default]\nrole_arn = r\n", CLEAT_INVALID, "source_profile"},
    {"[default]\nrole_arn = r\nsource_profile = a\ncredential_source = Environment\n", CLEAT_INVALID, "exactly one"},
    {"[default]\nrole_arn = r\nsource_profile = none\n", CLEAT_INVALID, "no profile 'none'"},
    {"[default]\nrole_arn = r\nsource_profile = a\n[profile a]\nregion = x\n", CLEAT_DENIED,
     "no keys in its source_profile 'a'"},
    {"[default]\nrole_arn = r\nsource_profile = default\n", CLEAT_INVALID, "leads back"},
    {"[default]\nrole_arn = r\nsource_profile = a\n[profile a]\nrole_arn = r\nsource_profile = b\n"
     "[profile b]\nrole_arn = r\nsource_profile = a\n",
     CLEAT_INVALID, "leads back to 'a'"},
    {"[default]\nrole_arn = r\nsource_profile = a\n[profile a]\nrole_arn = r\nsource_profile = b\n"
     "[profile b]\nrole_arn = r\nsource_profile = c\n[profile c]\nrole_arn = r\nsource_profile = "
     "d\n"
     "[profile d]\nrole_arn = r\nsource_profile = e\n[profile e]\n" STATIC("i"),
     CLEAT_INVALID, "more than 5 profiles"},
    {"[default]\nrole_arn = r\nsource_profile = a\nduration_seconds = 12h\n[profile a]\n" STATIC("i"), CLEAT_INVALID,
     "duration_seconds"},
    {"[default]\nrole_arn = r\nsource_profile = a\nduration_seconds = 60\n[profile a]\n" STATIC("i"), CLEAT_INVALID,
     "duration_seconds"},
    {"[default]\nrole_arn = r\nsource_profile = a\n[profile a]\naws_access_key_id = hidden\n", CLEAT_INVALID,
     "aws_secret_access_key is not"},
    {"[default\n" STATIC("i"), CLEAT_INVALID, "line 1"},
    {"[default]\ncredential_process = \"hidden\n", CLEAT_INVALID, "open quote"},
};

START_TEST(profiles_that_lead_nowhere) {
  KEY_SERVE(ROLE_KEYS("role"));
  use_server();
  key_write(".aws/config", BAD[_i].config);
  key_fails(key_get(), BAD[_i].status, BAD[_i].word);
  ck_assert_uint_eq(key_requests(), 0);
}
END_TEST

START_TEST(what_the_source_may_not) {
  KEY_SERVE(HTTP_REPLY("403 Forbidden", STS_ERROR("AccessDenied", "not with hidden-secret")));
  use_server();
  key_write(".aws/config", "[default]\nrole_arn = r\nsource_profile = a\n[profile a]\n" STATIC("i"));
  key_fails(key_get(), CLEAT_DENIED, "AssumeRole at http://127.0.0.1:");
}
END_TEST

START_TEST(memory_runs_out) {
  KEY_SERVE(ROLE_KEYS("role"));
  use_server();
  key_write(".aws/config", "[default]\nrole_arn = r\nsource_profile = a\n[profile a]\n" STATIC("i"));
  key_out_of_memory(20);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("all", key_script_setup, key_script_teardown, 60),
    TEST(a_role_by_another_profile, 1),
    TEST(a_chain_of_roles, 1),
    TEST(a_role_and_a_wrong_clock, 1),
    TEST(a_role_that_is_refused_at_the_right_time, 1),
    TEST(the_end_of_keys_is_told_by_the_true_time, 1),
    TEST(a_profile_that_names_itself, 1),
    TEST(a_role_by_a_place, 1),
    TEST(a_role_by_a_web_identity, 1),
    TEST(a_role_by_a_program, 1),
    TEST(profiles_that_lead_nowhere, COUNT(BAD)),
    TEST(what_the_source_may_not, 1),
    TEST(memory_runs_out, 1),
};

int main(void) {
  return run_table("s3_credentials_profile", tests, COUNT(tests));
}
