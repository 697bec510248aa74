/* key_script.h: a chain of credentials whose places are one server that answers by script, a
 * scratch home folder and a clock that stands still. For tests of where keys come from.
 *
 * Every secret of these tests has the word "hidden" in it: key_script_end checks that no log
 * line has, and key_fails that no error has. One at a time, in one global that the test's thread
 * owns; the server's threads write only `requests`, before each reply. */
#ifndef CLEAT_TESTS_MOCK_KEY_SCRIPT_H
#define CLEAT_TESTS_MOCK_KEY_SCRIPT_H

#include "storage/aws/credentials.h"
#include "tests/mock/http_server.h"
#include "tests/mock/store_check.h"

#define KEY_REQUESTS_MAX 32
#define KEY_BODY_MAX 65536
#define KEY_NOW_S INT64_C(1792000000) /* 2026-10-14T17:46:40Z */

#define HTTP_REPLY(status, body) "HTTP/1.1 " status "\r\nConnection: close\r\n\r\n" body
#define JSON_KEYS(id, token_name, expiration)                                                            \
  "{\"Code\":\"Success\",\"AccessKeyId\":\"" id "\",\"SecretAccessKey\":\"hidden-secret\",\"" token_name \
  "\":\"hidden-token\",\"Expiration\":\"" expiration "\"}"
#define STS_KEYS(action, id, expiration)                                                \
  "<" action "Response xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><" action    \
  "Result><Credentials><AccessKeyId>" id "</AccessKeyId><SecretAccessKey>hidden-secret" \
  "</SecretAccessKey><SessionToken>hidden-token</SessionToken><Expiration>" expiration  \
  "</Expiration></Credentials></" action "Result></" action "Response>"
#define STS_ERROR(code, message)                                                                           \
  "<ErrorResponse><Error><Type>Sender</Type><Code>" code "</Code><Message>" message "</Message></Error></" \
  "ErrorResponse>"
#define IN_AN_HOUR "2026-10-14T18:46:40Z"

struct key_request {
  char head[MOCK_HEAD_MAX];
  char body[KEY_BODY_MAX];
};

struct key_script {
  const char *const *replies; /* in order; the last one repeats */
  unsigned count;
  unsigned delay_ms; /* before each reply */
  unsigned delayed;  /* or before the first so many; 0: all */
  struct key_request requests[KEY_REQUESTS_MAX];
  atomic_uint played;
  struct mock_server *server;
  atomic_llong wall_s;
  struct cleat__s3_chain_options options;
  struct cleat_client_options client;
  struct cleat__s3_chain *chain;
  struct cleat__s3_credentials keys;
  atomic_uint log_lines;
  char logged[8192]; /* all of them */
};

extern struct key_script keys_of;
extern struct cleat_error err;

/* A fixture: a clean environment without instance metadata, a scratch home folder with .aws/ in
 * it. */
void key_script_setup(void);
void key_script_teardown(void);

/* Starts the server; returns its URL. */
const char *key_script_serve(const char *const *replies, unsigned count);
#define KEY_SERVE(...)                                 \
  static const char *const replies_[] = {__VA_ARGS__}; \
  key_script_serve(replies_, sizeof replies_ / sizeof replies_[0])

/* Opens a new chain and asks it, or asks it again. */
cleat_status key_get(void);
cleat_status key_get_again(void);

/* Opens a new chain and asks it again and again, and fails the Nth allocation: out of memory, or keys where it did not
 * matter. More than `at_least` must fail. */
void key_out_of_memory(unsigned long at_least);

/* keys_of.keys are these; all secrets are the script's. */
void key_expect(const char *id, const char *source, int64_t expires_s);

/* Fails with this status and a message that has `word` in it, and nothing secret. */
void key_fails(cleat_status got, cleat_status wanted, const char *word);

/* What the server got: number 1 and so on. */
void key_saw_line(unsigned number, const char *line);
void key_saw_header(unsigned number, const char *name, const char *value); /* NULL: none */
void key_saw_field(unsigned number, const char *field);                    /* "Name=value" of a form */
unsigned key_requests(void);

/* Writes a file below the home folder; returns its path. */
const char *key_write(const char *name, const char *text);

#endif
