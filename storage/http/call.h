/* http/call.h: one running request as the callbacks of libcurl see it. Only for http.c.
 *
 * Belongs to the thread that runs the request. Borrows request and reply. */
#ifndef CLEAT_STORAGE_HTTP_CALL_H
#define CLEAT_STORAGE_HTTP_CALL_H

#include "storage/http/http.h"
#include "storage/http/socket.h"
#include "storage/http/tls.h"

#include <curl/curl.h>

/* The reason why a callback ended the request. */
enum cleat__http_verdict {
  CLEAT__HTTP_VERDICT_NONE = 0,
  CLEAT__HTTP_VERDICT_CANCELLED,
  CLEAT__HTTP_VERDICT_IDLE,
  CLEAT__HTTP_VERDICT_SLOW,
  CLEAT__HTTP_VERDICT_TOO_LONG,
  CLEAT__HTTP_VERDICT_HEADERS, /* too many headers, or too long ones */
  CLEAT__HTTP_VERDICT_ENOUGH,  /* the rest of a long error is not worth waiting for */
  CLEAT__HTTP_VERDICT_AGAIN,   /* libcurl was about to send the request again */
  CLEAT__HTTP_VERDICT_FEED,    /* the feed of the body failed */
  CLEAT__HTTP_VERDICT_NO_MEMORY
};

struct cleat__http_call {
  CURL *curl;
  struct cleat__http_sockets *sockets; /* sockets of `curl` */
  struct cleat__http_tls tls;
  const struct cleat__http_request *request;
  struct cleat__http_reply *reply;
  struct cleat__span_cursor body;
  struct cleat__span_cursor into;
  uint64_t fed_bytes;    /* offset at which the feed is read next */
  uint64_t unread_bytes; /* bytes of the body that libcurl has not requested yet */
  bool tasted;           /* the first bytes of a body that waits for an answer were sent */
  bool looked;           /* the check for an answer to them was made */
  int64_t paused_ms;     /* when the rest was held back for the answer; 0: not held back */
  int64_t idle_ms;
  int64_t pace_bytes_s; /* 0: no minimum rate */
  int64_t pace_ms;
  int64_t moved_ms;     /* when the last byte moved */
  int64_t moved_bytes;  /* bytes sent and received so far */
  bool moving;          /* a body was being transferred at the last check */
  int64_t paced_ms;     /* start of the interval over which the rate is measured */
  int64_t paced_bytes;  /* value of moved_bytes at that time */
  int64_t cancelled_ms; /* when the cancel flag was seen; 0: not yet */
  size_t dropped_bytes; /* dropped bytes of the body of an error */
  bool headers_ended;   /* the empty line after the headers has arrived */
  size_t header_count;
  size_t header_bytes;
  enum cleat__http_verdict verdict;
};

/* Prepares the call, and empties the reply. */
void cleat__http_call_init(struct cleat__http_call *call, CURL *curl, const struct cleat__http_request *request,
                           struct cleat__http_reply *reply);

/* Sets the callbacks of call->curl. The call must not move until the transfer has ended. */
CURLcode cleat__http_call_attach(struct cleat__http_call *call);

#endif
