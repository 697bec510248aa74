/* s3_script.h: an S3 store whose server answers by script, in virtual time. For tests of what the driver
 * sends, tries again and gives up on.
 *
 * One script at a time, in one global that the test's thread owns; the server's threads write only
 * `requests`, before each reply, and `played`. */
#ifndef CLEAT_TESTS_MOCK_S3_SCRIPT_H
#define CLEAT_TESTS_MOCK_S3_SCRIPT_H

#include "storage/s3/s3.h"
#include "tests/mock/http_server.h"

#define SCRIPT_REQUESTS_MAX 64

#define OK_REPLY "HTTP/1.1 200 OK\r\nETag: \"e\"\r\nContent-Length: 0\r\n\r\n"
#define NO_CONTENT "HTTP/1.1 204 No Content\r\n\r\n"
#define XML_REPLY(body) "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" body
#define ERROR_REPLY(status, code)                                            \
  "HTTP/1.1 " status "\r\nx-amz-request-id: R7\r\nConnection: close\r\n\r\n" \
  "<Error><Code>" code "</Code><Message>told</Message></Error>"
#define COMPLETED                                                       \
  XML_REPLY("   \n <CompleteMultipartUploadResult><ETag>\"x-1\"</ETag>" \
            "</CompleteMultipartUploadResult>")
#define HANG_UP "" /* closes the connection instead of a reply */

struct s3_script {
  const char *const *replies; /* in order; the last one repeats */
  unsigned count;
  struct mock_request requests[SCRIPT_REQUESTS_MAX];
  atomic_uint played;
  struct mock_server *server;
  struct cleat__store *store;
  int64_t now_ms; /* of the virtual clock */
  int64_t waited_ms;
  int64_t longest_wait_ms;
  unsigned waits;
  unsigned log_lines;
  char last_log[1024];
};

extern struct s3_script script;

/* Starts the server and opens s3://bucket/run on it. */
void script_begin(const char *const *replies, unsigned count);
#define SCRIPT(...)                                    \
  static const char *const replies_[] = {__VA_ARGS__}; \
  script_begin(replies_, sizeof replies_ / sizeof replies_[0])

/* The server alone, and the store alone, for tests that change one of them. */
void script_start(void);
void script_open(const char *endpoint, const char *location, const char *session_token);

/* Checks the number of requests, closes and stops all. */
void script_end(unsigned requests);

/* Request number 1 and so on, without its body. */
const struct mock_request *script_seen(unsigned number);
void script_expect_line(unsigned request, const char *line);

/* `value` NULL: the header is not there. */
void script_expect_header(unsigned request, const char *name, const char *value);

#endif
