/* http.h: one HTTP/1.1 request at a time for each thread, on libcurl.
 *
 * A struct cleat__http is shared by all threads of a store. It keeps idle handles in a list whose
 * newest is taken first: N threads at work hold N handles, and each handle keeps its one connection
 * alive between requests. One that the other side closes meanwhile is closed at once (http/pool.h). Nothing is retried
 * here, and libcurl is kept from it: a request on a kept connection that closes before any byte of a reply may have
 * arrived. That is BROKEN, with reply->unrepeated.
 *
 * Body bytes move once: from the caller's spans into libcurl's upload buffer, or from its receive
 * buffer into the caller's spans, with the CRC-32C taken while they are in the cache. Redirects are
 * not followed, replies are not decompressed, nothing is logged. */
#ifndef CLEAT_STORAGE_HTTP_HTTP_H
#define CLEAT_STORAGE_HTTP_HTTP_H

#include "base/buffer.h"
#include "base/feed.h"
#include "base/span.h"
#include "storage/common/store.h"
#include "storage/http/address.h"
#include "storage/http/proxy.h"
#include "storage/http/transport.h"

/* Lower: a SYN lost twice (3 s) fails the try. Higher: a dead address costs more before the next one. */
#define CLEAT__HTTP_CONNECT_MS 10000
/* Lower: a store that syncs a part to slow disks is given up. Higher: a black hole holds a worker. */
#define CLEAT__HTTP_IDLE_MS 30000
/* How long a body waits for "100 Continue" where it is asked for. Lower: a far store's refusal comes too late. Higher:
 * a store that does not know the question delays such a try. */
#define CLEAT__HTTP_ASK_MS 1000L
/* And how long the answer is then waited for once more, behind the first bytes of the body: versitygw 1.7 says
 * "100 Continue" to everything, and refuses when it has read 8 KiB. */
#define CLEAT__HTTP_CHECK_MS 200
#define CLEAT__HTTP_TASTE_BYTES 16384
/* A body that moves with fewer bytes a second, over CLEAT__HTTP_PACE_MS, is given up: the connection is sick, and the
 * next one may not be. Lower: one that trickles holds up its part until the time limit; at this pace even S3's
 * smallest part, 5 MiB, would take 85 minutes. Higher: 16 connections that share a slow line are taken for sick. */
#define CLEAT__HTTP_PACE_BYTES_S 1024
/* Lower: a pause of the network is taken for a sick connection. Higher: a sick one is found late. */
#define CLEAT__HTTP_PACE_MS 30000
/* Of each handle, one to send and one to receive. Sending to a MinIO over loopback took 0.54 CPU-s/GB with
 * 16 KiB, 0.48 with 64 KiB, 0.43 with 256 KiB, 0.41 with 512 KiB; 16 handles with 256 KiB hold 8 MiB. */
#define CLEAT__HTTP_BUFFER_BYTES 262144L
/* Of a reply that is an error, the rest is dropped: S3's errors are below 2 KiB, a proxy's page is not. */
#define CLEAT__HTTP_ERROR_TEXT_MAX 65536
/* Of that rest. Lower: connections are closed that could have been kept. Higher: an error without an end keeps
 * a worker until its time limit. */
#define CLEAT__HTTP_ERROR_DROP_MAX (1 << 20)
/* A reply with more is refused: S3's have some 20 headers and 1 KiB. */
#define CLEAT__HTTP_HEADERS_MAX 200
#define CLEAT__HTTP_HEADER_BYTES_MAX 65536

struct cleat__http_options {
  /* NULL: "cleat/VERSION" */
  const char *user_agent;

  const char *ca_file; /* PEM bundle, instead of the system's; NULL: the system's */
  int64_t connect_ms;  /* 0: CLEAT__HTTP_CONNECT_MS */
  int64_t keep_ms;     /* of idle handles (http/pool.h); 0: its default, -1: none is kept */

  /* Borrowed for the client's life; NULL: past any proxy, whatever the environment says. */
  const struct cleat__http_proxies *proxies;
};

/* Borrows everything for the call. */
struct cleat__http_request {
  const char *method;
  const char *url;            /* absolute, encoded; sent as it is */
  const char *const *headers; /* "Name: value" */
  size_t header_count;
  bool has_body; /* send `body`, with a Content-Length, also when it is empty */
  const struct cleat__span *body;
  size_t body_count;
  const struct cleat__feed *feed; /* instead of `body`, unless it is NULL */
  struct cleat_error *feed_err;   /* filled where that fails: CLEAT__TRANSPORT_FEED */
  bool into_spans; /* the body of a 2xx reply goes into `into`, else into reply->text */
  const struct cleat__span *into;
  size_t into_count;
  size_t text_cap;      /* the most bytes of a 2xx reply's text */
  int64_t idle_ms;      /* no byte moves for so long: TIMEOUT; 0: CLEAT__HTTP_IDLE_MS */
  int64_t pace_bytes_s; /* a body that is slower: TIMEOUT; 0: CLEAT__HTTP_PACE_BYTES_S, -1: none */
  int64_t pace_ms;      /* over so long; 0: CLEAT__HTTP_PACE_MS */
  int64_t limit_ms;     /* the whole request; 0: none */
  bool fresh;           /* on a new connection */
  bool ask_first;       /* Expect: 100-continue; needs a body that is not empty */
  /* With `fresh`: not this address, where the name has another; may be NULL. */
  const union cleat__http_address *avoid;
  const atomic_bool *cancel; /* looked at about once a second; may be NULL */
  int64_t
      grace_ms; /* once its body is sent, a cancelled request is waited for so long all the same */
  /* NULL, or asked some ten times a second whether to send the request once more, on a new connection, beside the first
   * one, which goes on, and to another address where the name has several: the first answer below 500 counts, and the
   * other one is dropped. For requests that may be carried out twice. Both send from, or receive into, the same spans;
   * what these hold in the end is what crc32c is of. */
  bool (*second_is_due)(void *ctx, int64_t elapsed_ms);
  void *second_ctx;
};

/* Plain data but for `text`. Header values that are absent, or longer than here, are "". */
struct cleat__http_reply {
  int status;                /* 0 when no reply came */
  struct cleat__buffer text; /* owned: of a 2xx reply without spans, or of an error */
  uint64_t body_bytes;       /* received into the spans or the text */
  uint32_t crc32c;           /* of those that went to the spans */
  bool too_long;             /* MALFORMED because a 2xx body is longer than the spans or text_cap */
  int64_t content_length;    /* -1: not told */
  bool sent;                 /* the request, or a part of it: the server may have it */
  union cleat__http_address peer; /* where it went, or tried to connect last */
  bool unrepeated;                /* BROKEN where libcurl would send it once more by itself */
  bool second;                    /* it answers the second of two */
  uint64_t twice_bytes;           /* moved for the other one */
  char message[256];              /* of a transport that is not OK; one line */
  char etag[CLEAT__ETAG_MAX];     /* with its quotes */
  char content_range[96];
  char stored_crc32c[24]; /* x-amz-checksum-crc32c */
  char date[40];
  char retry_after[40];
  char request_id[96]; /* x-amz-request-id */
  char region[64];     /* x-amz-bucket-region */
  char transfer_encoding[32];
  char checksum_crc32c
      [40]; /* x-amz-checksum-…: base64, of the whole object or (with a "-") of its parts' */
  char checksum_crc64nvme[40];
  char encryption[32]; /* x-amz-server-side-encryption, or …-customer-algorithm */
};

struct cleat__http;

/* The bytes of the request's body. */
uint64_t cleat__http_body_bytes(const struct cleat__http_request *request);

/* Initialises libcurl, which is thread-safe from 7.84 on, and never undoes that: the program may use
 * libcurl too. Errors: NO_MEMORY, INTERNAL, IO (no thread). */
cleat_status cleat__http_new(const struct cleat__http_options *options, struct cleat__http **http,
                             struct cleat_error *err);

/* Closes all connections. No request may be running. NULL is allowed. In a forked child the connections are the
 * parent's: they are left alone. */
void cleat__http_free(struct cleat__http *http);

/* Sends and waits for the whole reply. *reply must have been initialised and is overwritten, also on
 * failure. With a transport that is not OK, reply->status may be set all the same, and the spans hold
 * what came so far. */
enum cleat__transport cleat__http_send(struct cleat__http *http,
                                       const struct cleat__http_request *request,
                                       struct cleat__http_reply *reply);

void cleat__http_reply_init(struct cleat__http_reply *reply);
void cleat__http_reply_clear(struct cleat__http_reply *reply);

#endif
