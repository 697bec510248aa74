/* test_http_proxy.c: storage/http/proxy.c: which proxy the environment names for which URL. */
#include "storage/http/proxy.h"

#include "tests/mock/each_fault.h"
#include "tests/mock/run_suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct cleat_error err;

static const char *const NAMES[] = {"http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY",   "all_proxy",
                                    "ALL_PROXY",  "no_proxy",   "NO_PROXY",    "REQUEST_METHOD"};

static void setup(void) {
  for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++)
    unsetenv(NAMES[i]);
  memset(&err, 0, sizeof err);
}

/* ---- no_proxy ---- */

static const struct {
  const char *list;
  const char *host;
  unsigned port;
  bool named;
} EXCEPTIONS[] = {
    {"", "store.example", 80, false},
    {" ,\t,", "store.example", 80, false},
    {"*", "store.example", 80, true},
    {"a, *", "store.example", 80, true},
    {"store.example", "store.example", 80, true},
    {"STORE.example", "store.EXAMPLE", 80, true},
    {"store.example", "store.example.", 80, true},
    {"store.example", "b.store.example", 80, true},
    {"store.example", "mystore.example", 80, false},
    {"store.example", "store.example.org", 80, false},
    {".example", "store.example", 80, true},
    {".example", "example", 80, true},
    {"*.example", "store.example", 80, true},
    {"x*.example", "xy.example", 80, false},
    {"first,second third", "second", 80, true},
    {"first,second third", "third", 80, true},
    {"first,second third", "four", 80, false},
    {"store.example:9000", "store.example", 9000, true},
    {"store.example:9000", "store.example", 9001, false},
    {".example:9000", "b.store.example", 9000, true},
    {"store.example:", "store.example", 80, false},
    {"store.example:9o00", "store.example", 9000, false},
    {"store.example:65536", "store.example", 0, false},
    {":9000", "store.example", 9000, false},
    {".", "store.example", 80, false},
    {"10.1.2.3", "10.1.2.3", 80, true},
    {"10.1.2.3:80", "10.1.2.3", 80, true},
    {"10.1.2.3:80", "10.1.2.3", 81, false},
    {"10.1.2.3", "110.1.2.3", 80, false},
    {"2.3", "10.1.2.3", 80, true}, /* a suffix, as in other tools */
    {"10.0.0.0/8", "10.1.2.3", 80, true},
    {"10.0.0.0/8", "11.1.2.3", 80, false},
    {"10.1.2.0/23", "10.1.3.255", 80, true},
    {"10.1.2.0/23", "10.1.4.0", 80, false},
    {"0.0.0.0/0", "10.1.4.0", 80, true},
    {"10.1.2.3/32", "10.1.2.3", 80, true},
    {"10.1.2.3/33", "10.1.2.3", 80, false},
    {"10.0.0.0/", "10.1.2.3", 80, false},
    {"10.0.0.0/8", "store.example", 80, false},
    {"10.0.0.0/8", "fd00::1", 80, false},
    {"fd00::1", "fd00:0::0:1", 80, true},
    {"[fd00::1]", "fd00::1", 80, true},
    {"[fd00::1]:9000", "fd00::1", 9000, true},
    {"[fd00::1]:9000", "fd00::1", 9001, false},
    {"fd00::/16", "fd00:1::1", 80, true},
    {"fd00::/16", "fd01::1", 80, false},
};

START_TEST(no_proxy_names_hosts) {
  ck_assert_msg(cleat__http_proxy_is_exception(EXCEPTIONS[_i].list, EXCEPTIONS[_i].host, EXCEPTIONS[_i].port) ==
                    EXCEPTIONS[_i].named,
                "'%s' and %s:%u", EXCEPTIONS[_i].list, EXCEPTIONS[_i].host, EXCEPTIONS[_i].port);
}
END_TEST

START_TEST(an_entry_that_is_too_long_names_nobody) {
  char list[1000];
  memset(list, 'a', sizeof list);
  list[sizeof list - 1] = '\0';
  ck_assert(!cleat__http_proxy_is_exception(list, "a", 80));
  memcpy(list + sizeof list - 3, ",a", 2);
  ck_assert(cleat__http_proxy_is_exception(list, "a", 80));
}
END_TEST

/* ---- the choice ---- */

/* Environment as "name=value" lines; the variable that is taken for the URL, or NULL. */
static const struct {
  const char *set[4];
  const char *url;
  const char *variable;
} CHOICES[] = {
    {{NULL}, "http://store.example/b", NULL},
    {{"http_proxy", "http://p:1"}, "http://store.example/b", "http_proxy"},
    {{"http_proxy", "http://p:1"}, "https://store.example/b", NULL},
    {{"HTTP_PROXY", "http://p:1"}, "http://store.example:9000/b", "HTTP_PROXY"},
    {{"HTTP_PROXY", "http://p:1", "REQUEST_METHOD", "GET"}, "http://store.example/b", NULL},
    {{"http_proxy", "http://p:1", "HTTP_PROXY", "http://q:1"}, "http://store.example", "http_proxy"},
    {{"http_proxy", "", "HTTP_PROXY", "http://q:1"}, "http://store.example", "HTTP_PROXY"},
    {{"https_proxy", "p:1"}, "https://store.example/b", "https_proxy"},
    {{"HTTPS_PROXY", "p:1"}, "https://store.example/b", "HTTPS_PROXY"},
    {{"HTTPS_PROXY", "p:1"}, "http://store.example/b", NULL},
    {{"ALL_PROXY", "socks5h://p"}, "http://store.example/b", "ALL_PROXY"},
    {{"all_proxy", "p", "HTTPS_PROXY", "q"}, "https://store.example/b", "HTTPS_PROXY"},
    {{"all_proxy", "p", "HTTPS_PROXY", "q"}, "http://store.example/b", "all_proxy"},
    {{"http_proxy", "p", "no_proxy", "example"}, "http://store.example/b?x=http://q/", NULL},
    {{"http_proxy", "p", "NO_PROXY", "example"}, "http://store.example", NULL},
    {{"http_proxy", "p", "NO_PROXY", "*"}, "http://store.example", NULL},
    {{"http_proxy", "p", "NO_PROXY", "store.example:80"}, "http://store.example", NULL},
    {{"https_proxy", "p", "NO_PROXY", "store.example:443"}, "https://store.example", NULL},
    {{"https_proxy", "p", "NO_PROXY", "store.example:80"}, "https://store.example", "https_proxy"},
    {{"http_proxy", "p", "NO_PROXY", "fd00::/8"}, "http://[fd00::1]:9000/b", NULL},
    /* This machine is never asked by way of another. */
    {{"http_proxy", "p"}, "http://127.0.0.1:9000/b", NULL},
    {{"http_proxy", "p"}, "http://localhost:9000/b", NULL},
    {{"http_proxy", "p"}, "http://bucket.localhost/b", NULL},
    {{"http_proxy", "p"}, "http://[::1]:9000/b", NULL},
    {{"http_proxy", "p"}, "http://10.0.0.1:9000/b", "http_proxy"},
};

START_TEST(the_environment_decides) {
  struct cleat__http_proxies proxies;
  const struct cleat__http_proxy *found = NULL;
  for (size_t i = 0; i + 1 < 4 && CHOICES[_i].set[i] != NULL; i += 2)
    setenv(CHOICES[_i].set[i], CHOICES[_i].set[i + 1], 1);
  ck_assert_int_eq(cleat__http_proxies_init(&proxies, &err), CLEAT_OK);
  setup(); /* the environment is read once */
  ck_assert_msg(cleat__http_proxies_find(&proxies, CHOICES[_i].url, &found, &err) == CLEAT_OK, "%s", err.message);
  if (CHOICES[_i].variable == NULL)
    ck_assert_ptr_null(found);
  else
    ck_assert_str_eq(found->variable, CHOICES[_i].variable);
  cleat__http_proxies_clear(&proxies);
}
END_TEST

START_TEST(a_proxy_without_a_port) {
  static const struct {
    const char *url;
    long port; /* 0: libcurl's */
  } cases[] = {{"http://p", 80}, {"p", 80},        {"http://u:w@p", 80}, {"http://p:3128", 0},
               {"p:3128", 0},    {"https://p", 0}, {"socks5://p", 0},    {"http://[::1]", 80}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct cleat__http_proxies proxies;
    setenv("http_proxy", cases[i].url, 1);
    ck_assert_int_eq(cleat__http_proxies_init(&proxies, &err), CLEAT_OK);
    ck_assert_msg(proxies.http.valid && proxies.http.port == cases[i].port, "%s", cases[i].url);
    cleat__http_proxies_clear(&proxies);
  }
}
END_TEST

/* Told where it is needed, by the variable's name and without what stands in it. */
START_TEST(what_is_no_proxy) {
  static const char *const cases[] = {"ftp://me:hidden@p", "socks://me:hidden@p",      "http://",
                                      "http://me:hidden@", "http://me:hidden@p:99999", "http://me:hidden@p q"};
  const struct cleat__http_proxy *found = NULL;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct cleat__http_proxies proxies;
    setenv("HTTPS_PROXY", cases[i], 1);
    setenv("no_proxy", "near.example", 1);
    ck_assert_int_eq(cleat__http_proxies_init(&proxies, &err), CLEAT_OK);
    ck_assert_int_eq(cleat__http_proxies_find(&proxies, "http://store.example", &found, &err), CLEAT_OK);
    ck_assert_int_eq(cleat__http_proxies_find(&proxies, "https://near.example", &found, &err), CLEAT_OK);
    ck_assert_msg(cleat__http_proxies_find(&proxies, "https://store.example", &found, &err) == CLEAT_INVALID, "%s",
                  cases[i]);
    ck_assert_ptr_nonnull(strstr(err.message, "HTTPS_PROXY"));
    ck_assert_ptr_nonnull(strstr(err.hint, "store.example"));
    ck_assert_ptr_null(strstr(err.message, "hidden"));
    ck_assert_ptr_null(strstr(err.hint, "hidden"));
    cleat__http_proxies_clear(&proxies);
  }
}
END_TEST

START_TEST(memory_runs_out) {
  setenv("http_proxy", "http://p:1", 1);
  setenv("https_proxy", "http://p:1", 1);
  setenv("no_proxy", "x", 1);
  struct each_fault fault = {0};
  while (each_fault_next(&fault)) {
    struct cleat__http_proxies proxies = {.exceptions = NULL};
    cleat_status status = cleat__http_proxies_init(&proxies, &err);
    ck_assert_int_eq(status, each_fault_over(&fault) ? CLEAT_NO_MEMORY : CLEAT_OK);
    cleat__http_proxies_clear(&proxies);
  }
  ck_assert_uint_gt(fault.n, 3);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("all", setup, NULL, 0),
    TEST(no_proxy_names_hosts, COUNT(EXCEPTIONS)),
    TEST(an_entry_that_is_too_long_names_nobody, 1),
    TEST(the_environment_decides, COUNT(CHOICES)),
    TEST(a_proxy_without_a_port, 1),
    TEST(what_is_no_proxy, 1),
    TEST(memory_runs_out, 1),
};

int main(void) {
  return run_table("http_proxy", tests, COUNT(tests));
}
