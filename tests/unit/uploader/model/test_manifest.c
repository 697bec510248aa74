/* test_manifest.c: uploader/model/manifest.c and manifest_parse.c: exact text, round trips, and manifests
 * that are cut, altered, newer, or name what is not theirs. */
#include "uploader/model/manifest.h"

#include "base/mem.h"
#include "tests/mock/run_suite.h"
#include "tests/unit/uploader/model/document_kit.h"
#include "uploader/model/name.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

/* ---- A manifest to start from ------------------------------------------------------------- */

static char attempt[] = "a-1";
static char token[] = "0123456789abcdef0123456789abcdef";
static char start[] = "job-7.0";
static char metadata[] = "{\"loss\":1.250,\"tags\":[\"\\u00e9\",null]}";
static char created[] = "2026-11-21T12:00:00Z";
static char version[] = "0.1.0";
static char key_0[] = "a-1/rank-00000.json";
static char key_1[] = "a-1/rank-00001.json";
static struct cleat__rank_ref ranks[] = {
    {key_0, 1000, {0xAB, 0xCD}, 3, UINT64_C(1) << 60},
    {key_1, 2000, {0}, 4, 5},
};

static const char expected[] = "{\n"
                               "  \"format\": \"cleat.manifest\",\n"
                               "  \"version\": \"1.0\",\n"
                               "  \"step\": 1200,\n"
                               "  \"attempt\": \"a-1\",\n"
                               "  \"token\": \"0123456789abcdef0123456789abcdef\",\n"
                               "  \"start\": \"job-7.0\",\n"
                               "  \"world_size\": 2,\n"
                               "  \"topology\": {},\n"
                               "  \"metadata\": {\"loss\":1.250,\"tags\":[\"\\u00e9\",null]},\n"
                               "  \"created\": \"2026-11-21T12:00:00Z\",\n"
                               "  \"cleat_version\": \"0.1.0\",\n"
                               "  \"ranks\": [\n"
                               "    {\"rank\":0,\"key\":\"a-1/rank-00000.json\",\"size\":1000,"
                               "\"sha256\":\"abcd000000000000000000000000000000000000000000000000000000000000\","
                               "\"files\":3,\"bytes\":\"1152921504606846976\"},\n"
                               "    {\"rank\":1,\"key\":\"a-1/rank-00001.json\",\"size\":2000,"
                               "\"sha256\":\"0000000000000000000000000000000000000000000000000000000000000000\","
                               "\"files\":4,\"bytes\":5}\n"
                               "  ]\n"
                               "}";

static struct cleat__manifest sample(void) {
  return (struct cleat__manifest){.step = 1200,
                                  .attempt = attempt,
                                  .token = token,
                                  .start = start,
                                  .metadata = metadata,
                                  .created = created,
                                  .cleat_version = version,
                                  .ranks = ranks,
                                  .world_size = 2};
}

static void ck_manifest_eq(const struct cleat__manifest *a, const struct cleat__manifest *b) {
  ck_assert_int_eq(a->step, b->step);
  ck_assert_str_eq(a->attempt, b->attempt);
  ck_assert_str_eq(a->token, b->token);
  ck_assert_str_eq(a->start, b->start);
  ck_assert_pstr_eq(a->replaced, b->replaced);
  ck_assert_str_eq(a->topology == NULL ? "{}" : a->topology, b->topology);
  ck_assert_str_eq(a->metadata == NULL ? "{}" : a->metadata, b->metadata);
  ck_assert_str_eq(a->created, b->created);
  ck_assert_str_eq(a->cleat_version, b->cleat_version);
  ck_assert_uint_eq(a->world_size, b->world_size);
  for (unsigned i = 0; i < a->world_size; i++) {
    ck_assert_str_eq(a->ranks[i].key, b->ranks[i].key);
    ck_assert_uint_eq(a->ranks[i].size, b->ranks[i].size);
    ck_assert_mem_eq(a->ranks[i].sha256, b->ranks[i].sha256, CLEAT__SHA256_BYTES);
    ck_assert_uint_eq(a->ranks[i].files, b->ranks[i].files);
    ck_assert_uint_eq(a->ranks[i].bytes, b->ranks[i].bytes);
  }
}

static void round_trip(const struct cleat__manifest *manifest) {
  struct cleat__buffer out;
  struct cleat__manifest again;
  cleat__buffer_init(&out, CLEAT__MANIFEST_BYTES_MAX);
  ck_assert_msg(cleat__manifest_encode(manifest, &out, &err) == CLEAT_OK, "%s", err.message);
  ck_assert_msg(cleat__manifest_parse(out.data, out.length, manifest->step, &again, &err) == CLEAT_OK, "%s",
                err.message);
  ck_manifest_eq(manifest, &again);
  cleat__manifest_clear(&again);
  cleat__manifest_clear(&again);
  cleat__buffer_clear(&out);
}

static cleat_status encode(struct cleat__buffer *out) {
  const struct cleat__manifest manifest = sample();
  return cleat__manifest_encode(&manifest, out, &err);
}

/* Parses `json` for step 1200; the manifest must stay as it was on failure. */
static cleat_status parse(const char *json, size_t size) {
  struct cleat__manifest manifest = {.step = UNREAD};
  cleat__error_clear(&err);
  cleat_status status = cleat__manifest_parse(json, size, 1200, &manifest, &err);
  ck_assert_int_eq(status, err.status);
  number = manifest.step;
  if (status == CLEAT_OK) {
    cleat__manifest_clear(&manifest);
  } else {
    ck_assert_int_eq(number, UNREAD);
    ck_assert_msg(status == CLEAT_NO_MEMORY || strncmp(err.message, "manifest: ", 10) == 0, "%s", err.message);
  }
  return status;
}

static const struct document sound = {expected, 1200, encode, parse};

/* ---- Good manifests ----------------------------------------------------------------------- */

START_TEST(test_text) {
  const struct cleat__manifest manifest = sample();
  uint64_t files = 0;
  uint64_t bytes = 0;
  document_written(&sound);
  round_trip(&manifest);
  cleat__manifest_totals(&manifest, &files, &bytes);
  ck_assert_uint_eq(files, 7);
  ck_assert_uint_eq(bytes, (UINT64_C(1) << 60) + 5);
}
END_TEST

START_TEST(test_extremes) {
  struct cleat__manifest manifest = sample();
  static char topology[] = "{\"dp\":8,\"tp\":2}";
  static char scalar[] = "\"a note\"";
  manifest.step = INT64_MAX;
  manifest.topology = topology;
  manifest.metadata = scalar;
  round_trip(&manifest);
  manifest.step = 0;
  manifest.metadata = NULL;
  round_trip(&manifest);
}
END_TEST

/* What it took the place of is told where that is known, and nowhere else. */
START_TEST(test_replaced) {
  struct cleat__manifest manifest = sample();
  struct cleat__buffer out;
  manifest.replaced = start;
  round_trip(&manifest);
  cleat__buffer_init(&out, 10000);
  ck_assert_int_eq(cleat__manifest_encode(&manifest, &out, &err), CLEAT_OK);
  ck_assert_ptr_nonnull(strstr(out.data, "  \"start\": \"job-7.0\",\n  \"replaced\": \"job-7.0\",\n"));
  manifest.replaced = metadata; /* no id */
  ck_assert_int_eq(cleat__manifest_encode(&manifest, &out, &err), CLEAT_FORMAT);
  ck_assert_ptr_nonnull(strstr(err.message, "replaced"));
  cleat__buffer_clear(&out);
}
END_TEST

/* As many ranks as there can be. */
START_TEST(test_many_ranks) {
  struct cleat__manifest manifest = sample();
  struct cleat__rank_ref *many = cleat__calloc(CLEAT__WORLD_SIZE_MAX, sizeof *many);
  for (unsigned i = 0; i < CLEAT__WORLD_SIZE_MAX; i++) {
    char name[CLEAT__RECORD_NAME_MAX];
    cleat__name_record(i, name);
    many[i] = ranks[1];
    many[i].key = cleat__strprintf("%s/%s", attempt, name);
  }
  manifest.ranks = many;
  manifest.world_size = CLEAT__WORLD_SIZE_MAX;
  round_trip(&manifest);
  manifest.world_size++;
  ck_assert_int_eq(cleat__manifest_check(&manifest, &err), CLEAT_LIMIT);
  for (unsigned i = 0; i < CLEAT__WORLD_SIZE_MAX; i++)
    cleat__free(many[i].key);
  cleat__free(many);
}
END_TEST

/* ---- Bad manifests ------------------------------------------------------------------------ */

START_TEST(test_accepts_unknown_fields) {
  char *json = document_altered(&sound, "\"step\"", "\"future\": {\"a\":[1]}, \"step\"");
  ck_assert_int_eq(parse(json, strlen(json)), CLEAT_OK);
  cleat__free(json);
  json = document_altered(&sound, "\"1.0\"", "\"1.9\"");
  ck_assert_int_eq(parse(json, strlen(json)), CLEAT_OK);
  cleat__free(json);
}
END_TEST

START_TEST(test_missing) {
  static const char *const names[] = {"format",     "version",  "step",     "attempt", "token",         "start",
                                      "world_size", "topology", "metadata", "created", "cleat_version", "ranks"};
  static const char *const in_rank[] = {"rank", "key", "size", "sha256", "files", "bytes"};
  char from[40];
  char says[60];
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    snprintf(from, sizeof from, "\"%s\": ", names[i]);
    snprintf(says, sizeof says, "manifest: \"%s\" is missing", names[i]);
    const struct change change = {from, "\"other\": ", says};
    document_refused(&sound, &change, 1, CLEAT_FORMAT);
  }
  for (size_t i = 0; i < sizeof in_rank / sizeof in_rank[0]; i++) {
    snprintf(from, sizeof from, "\"%s\":", in_rank[i]);
    snprintf(says, sizeof says, "ranks[0]: \"%s\" is missing", in_rank[i]);
    const struct change change = {from, "\"other\":", says};
    document_refused(&sound, &change, 1, CLEAT_FORMAT);
  }
}
END_TEST

START_TEST(test_head_refused) {
  static const struct change changes[] = {
      {"cleat.manifest", "cleat.rank", "format: \"cleat.manifest\" expected, found \"cleat.rank\""},
      {"\"1.0\"", "\"one\"", "version: such as \"1.0\" expected, found \"one\""},
      {"\"step\"", "\"version\":\"2.0\",\"step\"", "version: appears twice"},
      {"\"step\"", "\"step\":1200,\"step\"", "step: appears twice"},
      {"1200", "1201", "step: it is in the folder of step 1200, but says 1201"},
      {"1200", "-1", "step: an integer"},
      {"1200", "1200.0", "step: an integer"},
      {"1200", "\"9223372036854775808\"", "step: an integer"},
      {"\"a-1\"", "\"..\"", "attempt \"..\": begins with '.'"},
      {"\"a-1\"", "\"a/b\"", "attempt \"a/b\": may hold only"},
      {"\"a-1\"", "\"a\\u0000\"", "attempt: holds a NUL"},
      {"\"a-1\"", "\"a-2\"", "ranks[0].key: a-2/rank-00000.json expected, found \"a-1/rank-00000"},
      {"abcdef\"", "abcde\"", "token: 32 lowercase hex digits expected"},
      {"abcdef\"", "abcdef0\"", "token: 32 lowercase hex digits expected"},
      {"abcdef\"", "abcdeF\"", "token: 32 lowercase hex digits expected"},
      {"job-7.0", "job 7", "start \"job 7\""},
      {"job-7.0", "", "start is empty"},
      {"12:00:00Z", "12:00:00", "created: a time such as"},
      {"12:00:00Z", "12:00:0xZ", "created: a time such as"},
      {"12:00:00Z", "12:00:00Z ", "created: a time such as"},
      {"\"0.1.0\"", "\"0.1 \"", "cleat_version \"0.1 \""},
      {"\"topology\": {}", "\"topology\": []", "topology: an object expected"},
      {"\"metadata\": {", "\"metadata\": {]", "metadata"},
      {"\"world_size\": 2", "\"world_size\": 3", "ranks: 2 of them, but world_size is 3"},
      {"\"world_size\": 2", "\"world_size\": 1", "ranks: 2 of them, but world_size is 1"},
      {"\"world_size\": 2", "\"world_size\": \"2\"", "world_size: an integer"},
      {"\"ranks\": [", "\"ranks\": [], \"others\": [", "ranks: 0 of them, but world_size is 2"}};
  DOCUMENT_REFUSED(&sound, changes, CLEAT_FORMAT);
}
END_TEST

START_TEST(test_ranks_refused) {
  static const char digest[] = "abcd000000000000000000000000000000000000000000000000000000000000";
  const struct change changes[] = {
      {"\"rank\":0", "\"rank\":1", "ranks[0]: rank 0 expected, found 1"},
      {"\"rank\":1", "\"rank\":0", "ranks[1]: rank 1 expected, found 0"},
      {"\"rank\":1", "\"rank\":2", "ranks[1]: rank 1 expected, found 2"},
      {"\"rank\":0", "\"rank\":0,\"rank\":0", "ranks[0].rank: appears twice"},
      {"a-1/rank-00000.json", "../rank-00000.json", "ranks[0].key: a-1/rank-00000.json expected"},
      {"a-1/rank-00000.json", "/a-1/rank-00000.json", "ranks[0].key"},
      {"a-1/rank-00000.json", "a-1/../../x", "found \"a-1/../../x\""},
      {"a-1/rank-00000.json", "a-1/rank-00001.json", "ranks[0].key"},
      {"a-1/rank-00000.json", "a-1/rank-00000.json\\u0000", "ranks[0].key: holds a NUL"},
      {"a-1/rank-00000.json", "a-1/rank-00000.json\\n", "found \"a-1/rank-00000.json?\""},
      {"a-1/rank-00000.json", "b/rank-00000.json", "ranks[0].key"},
      {"\"size\":1000", "\"size\":-1000", "ranks[0].size: an integer"},
      {"\"size\":1000", "\"size\":1e3", "ranks[0].size: an integer"},
      {digest, digest + 1, "ranks[0].sha256: 64 hex digits expected"},
      {digest, "xbcd000000000000000000000000000000000000000000000000000000000000", "64 hex digits"},
      {"\"sha256\":\"abcd", "\"sha256\":\"0abcd", "64 hex digits"},
      {"\"bytes\":5", "\"bytes\":\"9223372036854775807\"", "ranks[1].bytes: with 9223372036854775807, the"},
      {"\"files\":4", "\"files\":[4]", "ranks[1].files: an integer"}};
  DOCUMENT_REFUSED(&sound, changes, CLEAT_FORMAT);
}
END_TEST

START_TEST(test_limits) {
  static const struct change changes[] = {
      {"\"world_size\": 2", "\"world_size\": 65537", "world_size: over the limit of 65536 ranks"},
      {"\"size\":1000", "\"size\":0", "ranks[0].size: 0 bytes, not 1 to"},
      {"\"size\":1000", "\"size\":268435457", "ranks[0].size: 268435457 bytes"},
      {"\"files\":3", "\"files\":1000001", "ranks[0].files: 1000001 are over the limit of 1000000"}};
  DOCUMENT_REFUSED(&sound, changes, CLEAT_LIMIT);
  /* Not read at all. */
  ck_assert_int_eq(parse(expected, CLEAT__MANIFEST_BYTES_MAX + 1), CLEAT_LIMIT);
  size_t size = CLEAT__METADATA_BYTES_MAX;
  char *large = cleat__alloc(size + 1);
  memset(large, 'x', size);
  large[0] = large[size - 1] = '"';
  large[size] = '\0';
  char *json = document_altered(&sound, "{\"loss\":1.250,\"tags\":[\"\\u00e9\",null]}", large);
  ck_assert_msg(parse(json, strlen(json)) == CLEAT_OK, "%s", err.message);
  cleat__free(json);
  large[size - 1] = 'x';
  json = document_altered(&sound, "{\"loss\":1.250,\"tags\":[\"\\u00e9\",null]}", large);
  char *longer = cleat__strprintf("%.*s\"%s", (int)(strstr(json, ",\n  \"created\"") - json), json,
                                  strstr(json, ",\n  \"created\""));
  ck_assert_int_eq(parse(longer, strlen(longer)), CLEAT_LIMIT);
  ck_assert_str_eq(err.message, "manifest: metadata: over the limit of 1048576 bytes");
  cleat__free(longer);
  cleat__free(json);
  cleat__free(large);
}
END_TEST

START_TEST(test_newer) {
  static const struct change changes[] = {
      {"\"1.0\"", "\"2.0\"", "version \"2.0\"; Cleat " CLEAT_VERSION " reads version 1 only"}};
  DOCUMENT_REFUSED(&sound, changes, CLEAT_NEWER);
  ck_assert_str_eq(err.hint, "use Cleat 0.1.0, which wrote it, or a newer one");
}
END_TEST

START_TEST(test_truncated) {
  document_truncated(&sound);
}
END_TEST

START_TEST(test_altered) {
  document_damaged(&sound);
}
END_TEST

START_TEST(test_encode_refuses) {
  static char not_json[] = "{";
  static char two[] = "1 2";
  static char array[] = "[]";
  struct cleat__manifest manifest = sample();
  struct cleat__buffer out;
  cleat__buffer_init(&out, 100);
  ck_assert_int_eq(cleat__buffer_append(&out, "keep", 4), CLEAT_OK);
  ck_assert_int_eq(cleat__manifest_encode(&manifest, &out, &err), CLEAT_LIMIT);
  manifest.metadata = not_json;
  ck_assert_int_eq(cleat__manifest_encode(&manifest, &out, &err), CLEAT_FORMAT);
  manifest.metadata = two;
  ck_assert_int_eq(cleat__manifest_encode(&manifest, &out, &err), CLEAT_FORMAT);
  manifest.metadata = NULL;
  manifest.topology = array;
  ck_assert_int_eq(cleat__manifest_encode(&manifest, &out, &err), CLEAT_FORMAT);
  manifest.topology = NULL;
  manifest.step = -1;
  ck_assert_int_eq(cleat__manifest_encode(&manifest, &out, &err), CLEAT_FORMAT);
  manifest.step = 0;
  manifest.world_size = 0;
  ck_assert_int_eq(cleat__manifest_encode(&manifest, &out, &err), CLEAT_LIMIT);
  ck_assert_str_eq(cleat__buffer_text(&out), "keep");
  cleat__buffer_clear(&out);
}
END_TEST

/* ---- Metadata ----------------------------------------------------------------------------- */

START_TEST(test_compact) {
  static const char json[] = " { \"a\" : [ 1.50 , -0 , 12345678901234567890 ] ,\n\"b\":\"\\u00e9\" } ";
  static const char *const bad[] = {"", " ", "{", "{}x", "{'a':1}", "\xFF", "nan", "[1,]"};
  char deep[200];
  struct cleat__buffer out;
  cleat__buffer_init(&out, 2 * CLEAT__METADATA_BYTES_MAX);
  ck_assert_int_eq(cleat__manifest_compact_json("metadata", json, sizeof json - 1, &out, &err), CLEAT_OK);
  ck_assert_str_eq(out.data, "{\"a\":[1.50,-0,12345678901234567890],\"b\":\"\\u00e9\"}");
  size_t length = out.length;
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    ck_assert_int_eq(cleat__manifest_compact_json("metadata", bad[i], strlen(bad[i]), &out, &err), CLEAT_INVALID);
    ck_assert_int_eq(strncmp(err.message, "metadata: ", 10), 0);
    ck_assert_int_eq(err.status, CLEAT_INVALID);
    ck_assert_uint_eq(out.length, length);
  }
  memset(deep, '[', 100);
  memset(deep + 100, ']', 100);
  ck_assert_int_eq(cleat__manifest_compact_json("metadata", deep + 40, 120, &out, &err), CLEAT_OK);
  ck_assert_int_eq(cleat__manifest_compact_json("metadata", deep + 39, 122, &out, &err), CLEAT_INVALID);
  cleat__buffer_clear(&out);
}
END_TEST

/* Metadata as deep and as large as they are allowed come back from a manifest. */
START_TEST(test_compact_limits) {
  struct cleat__manifest manifest = sample();
  struct cleat__buffer out;
  size_t size = CLEAT__METADATA_BYTES_MAX;
  char *text = cleat__alloc(size + 2);
  memset(text, ' ', size);
  memset(text, '[', 60);
  memset(text + size - 60, ']', 60);
  memset(text + 60, '1', size - 120);
  text[size] = '\0';
  cleat__buffer_init(&out, 2 * size);
  ck_assert_int_eq(cleat__manifest_compact_json("metadata", text, size, &out, &err), CLEAT_OK);
  manifest.metadata = text;
  round_trip(&manifest);
  cleat__buffer_reset(&out);
  memset(text + size - 60, '1', 1);
  memset(text + size - 59, ']', 60);
  text[size + 1] = '\0';
  ck_assert_int_eq(cleat__manifest_compact_json("metadata", text, size + 1, &out, &err), CLEAT_LIMIT);
  ck_assert_str_eq(err.message, "metadata: 1048577 bytes are over the limit of 1048576");
  ck_assert_uint_eq(out.length, 0);
  ck_assert_int_eq(cleat__manifest_check(&manifest, &err), CLEAT_LIMIT);
  cleat__buffer_clear(&out);
  cleat__free(text);
}
END_TEST

/* ---- No memory ---------------------------------------------------------------------------- */

static cleat_status compact(struct cleat__buffer *out) {
  static const char json[] = "{\"\\u0061\":[1,\"\\n\"]}";
  return cleat__manifest_compact_json("metadata", json, sizeof json - 1, out, &err);
}

START_TEST(test_no_memory) {
  char *json = document_altered(&sound, "\"start\"", "\"st\\u0061rt\"");
  for (int persistent = 0; persistent < 2; persistent++) {
    encode_without_memory(encode, persistent == 1, 1);
    document_without_memory(&sound, json, persistent == 1, 4);
    encode_without_memory(compact, persistent == 1, 3);
  }
  cleat__free(json);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("manifest", NULL, NULL, 60),
    TEST(test_text, 1),
    TEST(test_extremes, 1),
    TEST(test_replaced, 1),
    TEST(test_many_ranks, 1),
    TEST(test_accepts_unknown_fields, 1),
    TEST(test_missing, 1),
    TEST(test_head_refused, 1),
    TEST(test_ranks_refused, 1),
    TEST(test_limits, 1),
    TEST(test_newer, 1),
    TEST(test_truncated, 1),
    TEST(test_altered, 1),
    TEST(test_encode_refuses, 1),
    TEST(test_compact, 1),
    TEST(test_compact_limits, 1),
    TEST(test_no_memory, 1),
};

int main(void) {
  return run_table("manifest", tests, COUNT(tests));
}
