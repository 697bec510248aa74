/* http.h: one HTTP/1.1 request at a time for each thread, with libcurl.
 *
 * All threads of a store share one struct cleat__http. It keeps idle handles in a list and uses the newest one
 * first. So N working threads use N handles. Each handle keeps one connection open between requests. A kept
 * connection that the other side closes is closed at once (http/pool.h). This module does not retry, and it stops
 * libcurl from retrying. If a kept connection closes before any byte of a reply, the request may have arrived. The
 * result is BROKEN with reply->unrepeated.
 *
 * Body bytes are copied once: from the spans of the caller into the upload buffer of libcurl, or from its receive
 * buffer into the spans. The CRC-32C is computed while they are in the cache. Redirects are not followed, replies
 * are not decompressed, nothing is logged. */
#ifndef CLEAT_STORAGE_HTTP_HTTP_H
#define CLEAT_STORAGE_HTTP_HTTP_H

#include "base/buffer.h"
#include "base/feed.h"
#include "base/span.h"
#include "storage/common/store.h"
#include "storage/http/address.h"
#include "storage/http/proxy.h"
#include "storage/http/transport.h"

/* Time limit to connect. Lower: a SYN lost twice (3 s) fails the try. Higher: a dead address costs more time before
 * the next one is tried. */
#define CLEAT__HTTP_CONNECT_MS 10000
/* Time limit without a moving byte. Lower: a store that syncs a part to slow disks is given up. Higher: a black hole
 * holds a worker longer. */
#define CLEAT__HTTP_IDLE_MS 30000
/* How long a body waits for "100 Continue". Lower: the refusal of a distant store comes too late. Higher: a store
 * that does not support it delays such a try. */
#define CLEAT__HTTP_ASK_MS 1000L
/* How long to wait for an answer a second time, after the first bytes of the body. versitygw 1.7 says "100 Continue"
 * to everything, and refuses after it has read 8 KiB. */
#define CLEAT__HTTP_CHECK_MS 200
#define CLEAT__HTTP_TASTE_BYTES 16384
/* Minimum rate of a body in bytes a second, measured over CLEAT__HTTP_PACE_MS. A slower connection is given up,
 * because the next one may be faster. Lower: a trickling connection delays its part until the time limit; at this
 * rate even the smallest part of S3, 5 MiB, would take 85 minutes. Higher: 16 connections that share a slow line are
 * given up. */
#define CLEAT__HTTP_PACE_BYTES_S 1024
/* Time over which the rate is measured. Lower: a pause of the network looks like a bad connection. Higher: a bad
 * connection is found late. */
#define CLEAT__HTTP_PACE_MS 30000
/* Buffer sizes of each handle: one to send and one to receive. Sending to a MinIO over loopback took 0.54 CPU-s/GB
 * with 16 KiB, 0.48 with 64 KiB, 0.43 with 256 KiB, 0.41 with 512 KiB. 16 handles with 256 KiB hold 8 MiB. */
#define CLEAT__HTTP_BUFFER_BYTES 262144L
/* Longest kept text of an error reply; the rest is dropped. Errors of S3 are below 2 KiB, the page of a proxy may be
 * longer. */
#define CLEAT__HTTP_ERROR_TEXT_MAX 65536
/* Limit of dropped bytes. Lower: connections are closed that could have been kept. Higher: an endless error holds a
 * worker until its time limit. */
#define CLEAT__HTTP_ERROR_DROP_MAX (1 << 20)
/* Limit of headers in a reply; more are refused. Replies of S3 have about 20 headers and 1 KiB. */
#define CLEAT__HTTP_HEADERS_MAX 200
#define CLEAT__HTTP_HEADER_BYTES_MAX 65536

struct cleat__http_options {
  /* NULL: "cleat/VERSION" */
  const char *user_agent;

  const char *ca_file; /* PEM bundle used instead of that of the system; NULL: that of the system */
  int64_t connect_ms;  /* 0: CLEAT__HTTP_CONNECT_MS */
  /* how long to keep idle handles (http/pool.h); 0: its default, -1: keep none */
  int64_t keep_ms;

  /* Borrowed for the life of the client. NULL: no proxy, whatever the environment says. */
  const struct cleat__http_proxies *proxies;
};

/* Borrows everything for the call. */
struct cleat__http_request {
  const char *method;
  const char *url;            /* absolute and encoded; sent unchanged */
  const char *const *headers; /* "Name: value" */
  size_t header_count;
  bool has_body; /* send `body` with a Content-Length, even if it is empty */
  struct cleat__spans body;
  const struct cleat__feed *feed; /* used instead of `body` if not NULL */
  struct cleat_error *feed_err;   /* filled if the feed fails: CLEAT__TRANSPORT_FEED */
  bool into_spans;                /* the body of a 2xx reply goes into `into`; otherwise into reply->text */
  struct cleat__spans into;
  size_t text_cap;      /* limit of bytes for the text of a 2xx reply */
  int64_t idle_ms;      /* TIMEOUT after this time without a moving byte; 0: CLEAT__HTTP_IDLE_MS */
  int64_t pace_bytes_s; /* TIMEOUT if a body is slower; 0: CLEAT__HTTP_PACE_BYTES_S, -1: no limit */
  int64_t pace_ms;      /* interval of that measurement; 0: CLEAT__HTTP_PACE_MS */
  int64_t limit_ms;     /* time limit of the whole request; 0: none */
  bool fresh;           /* use a new connection */
  bool ask_first;       /* send Expect: 100-continue; needs a body that is not empty */
  /* With `fresh`: do not use this address if the name has another one. May be NULL. */
  const union cleat__http_address *avoid;
  const atomic_bool *cancel; /* checked about once a second; may be NULL */
  int64_t grace_ms;          /* how long a cancelled request waits for its reply after its body was sent */
  /* NULL, or called about ten times a second. True: send the request a second time, on a new connection, and to
   * another address if the name has several. The first transfer continues. The first answer below 500 counts, and
   * the other transfer is stopped. Only for requests that may be carried out twice. Both transfers send from, or
   * receive into, the same spans. crc32c is computed from the final content of the spans. */
  bool (*second_is_due)(void *ctx, int64_t elapsed_ms);
  void *second_ctx;
};

/* Plain data except `text`. Header values that are absent or too long for their field are "". */
struct cleat__http_reply {
  int status;                /* 0 if no reply came */
  struct cleat__buffer text; /* owned: the text of a 2xx reply without spans, or of an error */
  uint64_t body_bytes;       /* bytes received into the spans or the text */
  uint32_t crc32c;           /* CRC-32C of the bytes in the spans */
  bool too_long;             /* MALFORMED because a 2xx body is longer than the spans or text_cap */
  int64_t content_length;    /* -1: unknown */
  bool sent;                 /* at least a part of the request was sent: the server may have it */
  /* address it was sent to, or the last one it tried to connect to */
  union cleat__http_address peer;
  /* BROKEN where libcurl would have sent the request again by itself */
  bool unrepeated;
  bool second;                /* it is the answer to the second of two transfers */
  uint64_t twice_bytes;       /* bytes moved for the other transfer */
  char message[256];          /* text for a transport other than OK; one line */
  char etag[CLEAT__ETAG_MAX]; /* with its quotes */
  char content_range[96];
  char stored_crc32c[24]; /* x-amz-checksum-crc32c */
  char date[40];
  char retry_after[40];
  char request_id[96]; /* x-amz-request-id */
  char region[64];     /* x-amz-bucket-region */
  char transfer_encoding[32];
  /* x-amz-checksum-…: base64, of the whole object or (with a "-") of the checksums of its parts */
  char checksum_crc32c[40];
  char checksum_crc64nvme[40];
  char encryption[32]; /* x-amz-server-side-encryption, or …-customer-algorithm */
};

struct cleat__http;

/* Number of bytes of the body of the request. */
uint64_t cleat__http_body_bytes(const struct cleat__http_request *request);

/* Initialises libcurl, which is thread-safe since 7.84, and never undoes that, because the program may use libcurl
 * too. Errors: NO_MEMORY, INTERNAL, IO (no thread). */
cleat_status cleat__http_new(const struct cleat__http_options *options, struct cleat__http **http,
                             struct cleat_error *err);

/* Closes all connections. No request may be running. NULL is allowed. In a forked child the connections belong to
 * the parent and are not touched. */
void cleat__http_free(struct cleat__http *http);

/* Sends the request and waits for the complete reply. *reply must be initialised and is overwritten, also on
 * failure. With a transport other than OK, reply->status may still be set, and the spans hold the bytes received so
 * far. */
enum cleat__transport cleat__http_send(struct cleat__http *http, const struct cleat__http_request *request,
                                       struct cleat__http_reply *reply);

void cleat__http_reply_init(struct cleat__http_reply *reply);
void cleat__http_reply_clear(struct cleat__http_reply *reply);

#endif
