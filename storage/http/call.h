/* http/call.h: one running request as libcurl's callbacks see it; for http.c alone.
 *
 * Belongs to the thread that runs the request. Borrows request and reply. */
#ifndef CLEAT_STORAGE_HTTP_CALL_H
#define CLEAT_STORAGE_HTTP_CALL_H

#include "storage/http/http.h"
#include "storage/http/socket.h"
#include "storage/http/tls.h"

#include <curl/curl.h>

/* Why a callback ended the request. */
enum cleat__http_verdict {
  CLEAT__HTTP_VERDICT_NONE = 0,
  CLEAT__HTTP_VERDICT_CANCELLED,
  CLEAT__HTTP_VERDICT_IDLE,
  CLEAT__HTTP_VERDICT_SLOW,
  CLEAT__HTTP_VERDICT_TOO_LONG,
  CLEAT__HTTP_VERDICT_HEADERS, /* too many, or too long */
  CLEAT__HTTP_VERDICT_ENOUGH,  /* an error whose end is not worth waiting for */
  CLEAT__HTTP_VERDICT_AGAIN,   /* libcurl was about to send it once more */
  CLEAT__HTTP_VERDICT_FEED,    /* what feeds the body failed */
  CLEAT__HTTP_VERDICT_NO_MEMORY
};

struct cleat__http_call {
  CURL *curl;
  struct cleat__http_sockets *sockets; /* of curl */
  struct cleat__http_tls tls;
  const struct cleat__http_request *request;
  struct cleat__http_reply *reply;
  struct cleat__span_cursor body;
  struct cleat__span_cursor into;
  uint64_t fed_bytes;    /* where the feed is read next */
  uint64_t unread_bytes; /* of the body: libcurl has not asked for them yet */
  bool tasted;           /* the first bytes of a body that asks first are on their way */
  bool looked;           /* for an answer to them */
  int64_t paused_ms;     /* when the rest was held back for the answer; 0: it is not */
  int64_t idle_ms;
  int64_t pace_bytes_s; /* 0: any pace will do */
  int64_t pace_ms;
  int64_t moved_ms;     /* when a byte moved last */
  int64_t moved_bytes;  /* that have crossed the network in both directions */
  bool moving;          /* a body was on its way at the last look */
  int64_t paced_ms;     /* the begin of the time over which the pace is taken, … */
  int64_t paced_bytes;  /* … and moved_bytes then */
  int64_t cancelled_ms; /* when the cancel was seen; 0: not yet */
  size_t dropped_bytes; /* of an error's body */
  bool headers_ended;   /* the empty line behind them came */
  size_t header_count;
  size_t header_bytes;
  enum cleat__http_verdict verdict;
};

/* Empties the reply. */
void cleat__http_call_init(struct cleat__http_call *call, CURL *curl,
                           const struct cleat__http_request *request,
                           struct cleat__http_reply *reply);

/* Sets the callbacks of call->curl. The call must stay where it is until the transfer has ended. */
CURLcode cleat__http_call_attach(struct cleat__http_call *call);

#endif
