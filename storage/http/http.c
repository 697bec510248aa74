/* http.c: one request on a libcurl handle. See http.h.
 *
 * Threads share only the pool of handles. All other state belongs to the thread that runs the request. */
#include "storage/http/http.h"

#include "base/fork.h"
#include "base/mem.h"
#include "storage/http/call.h"
#include "storage/http/pool.h"
#include "storage/http/race.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

struct cleat__http {
  char *ca_file;
  char *user_agent;
  int64_t connect_ms;
  const struct cleat__http_proxies *proxies;
  struct cleat__http_pool *pool;
};

cleat_status cleat__http_new(const struct cleat__http_options *options, struct cleat__http **http,
                             struct cleat_error *err) {
  cleat__fork_hold();
  CURLcode code = curl_global_init(CURL_GLOBAL_DEFAULT);
  cleat__fork_release();
  if (code != CURLE_OK)
    return cleat__error_set(err, CLEAT_INTERNAL, "libcurl does not start: %s", curl_easy_strerror(code));
  struct cleat__http *made = cleat__calloc(1, sizeof *made);
  char *ca_file = options->ca_file != NULL ? cleat__strdup(options->ca_file) : NULL;
  char *user_agent = cleat__strdup(options->user_agent != NULL ? options->user_agent : "cleat/" CLEAT_VERSION);
  cleat_status status = CLEAT_OK;
  if (made == NULL || user_agent == NULL || (options->ca_file != NULL && ca_file == NULL))
    status = cleat__error_no_memory(err, "the HTTP client");
  else
    status = cleat__http_pool_new(options->keep_ms, &made->pool, err);
  if (status != CLEAT_OK) {
    cleat__free(made);
    cleat__free(ca_file);
    cleat__free(user_agent);
    return status;
  }
  made->ca_file = ca_file;
  made->proxies = options->proxies;
  made->connect_ms = options->connect_ms > 0 ? options->connect_ms : CLEAT__HTTP_CONNECT_MS;
  made->user_agent = user_agent;
  *http = made;
  return CLEAT_OK;
}

void cleat__http_free(struct cleat__http *http) {
  if (http == NULL)
    return;
  cleat__http_pool_free(http->pool);
  cleat__free(http->ca_file);
  cleat__free(http->user_agent);
  cleat__free(http);
}

/* ---- options ---- */

#define SET(option, value) code = code == CURLE_OK ? curl_easy_setopt(curl, option, value) : code

/* Sets the options that are the same for every request. */
static CURLcode set_transport(CURL *curl, const struct cleat__http *http) {
  CURLcode code = CURLE_OK;
  SET(CURLOPT_NOSIGNAL, 1L);
  SET(CURLOPT_PROTOCOLS_STR, "http,https");
  SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
  SET(CURLOPT_FOLLOWLOCATION, 0L); /* a redirected request needs a new signature */
  SET(CURLOPT_PATH_AS_IS, 1L);     /* S3 signs paths unchanged */
  SET(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  SET(CURLOPT_USERAGENT, http->user_agent);
  SET(CURLOPT_TCP_NODELAY, 1L);
  SET(CURLOPT_TCP_KEEPALIVE, 1L);
  SET(CURLOPT_DNS_SHUFFLE_ADDRESSES, 1L); /* spreads the threads over the servers of S3 */
  SET(CURLOPT_CONNECTTIMEOUT_MS, (long)http->connect_ms);
  SET(CURLOPT_BUFFERSIZE, CLEAT__HTTP_BUFFER_BYTES);
  SET(CURLOPT_UPLOAD_BUFFERSIZE, CLEAT__HTTP_BUFFER_BYTES);
  SET(CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
  SET(CURLOPT_SSL_VERIFYPEER, 1L);
  SET(CURLOPT_SSL_VERIFYHOST, 2L);
  if (http->ca_file != NULL) {
    SET(CURLOPT_CAINFO, http->ca_file);
    SET(CURLOPT_CAPATH, NULL); /* only this file, without the certificates of the system */
    SET(CURLOPT_PROXY_CAINFO, http->ca_file);
    SET(CURLOPT_PROXY_CAPATH, NULL);
  }
  return code;
}

/* libcurl must not read the environment: see http/proxy.c. */
static CURLcode set_proxy(CURL *curl, const struct cleat__http_proxy *proxy) {
  CURLcode code = CURLE_OK;
  SET(CURLOPT_NOPROXY, "");
  SET(CURLOPT_PROXY, proxy != NULL ? proxy->url : "");
  if (proxy != NULL && proxy->port != 0)
    SET(CURLOPT_PROXYPORT, proxy->port);
  SET(CURLOPT_PROXY_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
  return code;
}

static CURLcode set_request(CURL *curl, const struct cleat__http_request *request, struct curl_slist *headers) {
  CURLcode code = CURLE_OK;
  SET(CURLOPT_URL, request->url);
  SET(CURLOPT_HTTPHEADER, headers);
  SET(CURLOPT_TIMEOUT_MS, (long)request->limit_ms);
  SET(CURLOPT_FRESH_CONNECT, request->fresh ? 1L : 0L);
  SET(CURLOPT_EXPECT_100_TIMEOUT_MS, CLEAT__HTTP_ASK_MS);
  if (request->has_body) {
    SET(CURLOPT_UPLOAD, 1L);
    SET(CURLOPT_INFILESIZE_LARGE, (curl_off_t)cleat__http_body_bytes(request));
  } else if (strcmp(request->method, "HEAD") == 0) {
    SET(CURLOPT_NOBODY, 1L);
    return code;
  } else {
    SET(CURLOPT_HTTPGET, 1L);
  }
  SET(CURLOPT_CUSTOMREQUEST, request->method);
  return code;
}

#undef SET

/* Returns NULL without memory. */
static struct curl_slist *make_headers(const struct cleat__http_request *request) {
  /* libcurl sends "Expect: 100-continue" before each body over 1 MiB, which costs a round trip. It also sends bodies
   * in chunks where a store needs a length. Both are switched off. */
  struct curl_slist *list = curl_slist_append(NULL, request->ask_first ? "Expect: 100-continue" : "Expect:");
  bool whole = list != NULL && curl_slist_append(list, "Transfer-Encoding:") != NULL;
  for (size_t i = 0; whole && i < request->header_count; i++)
    whole = curl_slist_append(list, request->headers[i]) != NULL;
  if (!whole) {
    curl_slist_free_all(list);
    return NULL;
  }
  return list;
}

/* ---- the outcome ---- */

static enum cleat__transport transport_of(CURLcode code) {
  switch (code) {
  case CURLE_OK:
    return CLEAT__TRANSPORT_OK;
  case CURLE_COULDNT_RESOLVE_HOST:
  case CURLE_COULDNT_RESOLVE_PROXY:
    return CLEAT__TRANSPORT_RESOLVE;
  case CURLE_COULDNT_CONNECT:
  case CURLE_PROXY:
  case CURLE_INTERFACE_FAILED:
    return CLEAT__TRANSPORT_CONNECT;
  case CURLE_OPERATION_TIMEDOUT:
    return CLEAT__TRANSPORT_TIMEOUT;
  case CURLE_SSL_CONNECT_ERROR: /* a handshake that failed for good */
  case CURLE_PEER_FAILED_VERIFICATION:
  case CURLE_SSL_CERTPROBLEM:
  case CURLE_SSL_CIPHER:
  case CURLE_SSL_ISSUER_ERROR:
  case CURLE_SSL_INVALIDCERTSTATUS:
  case CURLE_USE_SSL_FAILED:
    return CLEAT__TRANSPORT_TLS;
  case CURLE_SSL_CACERT_BADFILE:
    return CLEAT__TRANSPORT_CA;
  case CURLE_GOT_NOTHING:
  case CURLE_SEND_ERROR:
  case CURLE_RECV_ERROR:
  case CURLE_PARTIAL_FILE:
  case CURLE_SEND_FAIL_REWIND:
  case CURLE_SSL_SHUTDOWN_FAILED:
  case CURLE_NO_CONNECTION_AVAILABLE:
  case CURLE_AGAIN:
    return CLEAT__TRANSPORT_BROKEN;
  /* the reply is not HTTP; the scheme of the URL was checked at open */
  case CURLE_UNSUPPORTED_PROTOCOL:
  case CURLE_WEIRD_SERVER_REPLY:
  case CURLE_BAD_CONTENT_ENCODING:
  case CURLE_WRITE_ERROR:
    return CLEAT__TRANSPORT_MALFORMED;
  case CURLE_OUT_OF_MEMORY:
    return CLEAT__TRANSPORT_NO_MEMORY;
  default:
    return CLEAT__TRANSPORT_INTERNAL;
  }
}

static enum cleat__transport transport_of_verdict(const struct cleat__http_call *call) {
  char *message = call->reply->message;
  size_t size = sizeof call->reply->message;
  message[0] = '\0';
  switch (call->verdict) {
  case CLEAT__HTTP_VERDICT_ENOUGH:
    return CLEAT__TRANSPORT_OK;
  case CLEAT__HTTP_VERDICT_CANCELLED:
    return CLEAT__TRANSPORT_CANCELLED;
  case CLEAT__HTTP_VERDICT_IDLE:
    snprintf(message, size, "no byte moved for %g s", (double)call->idle_ms / 1000);
    return CLEAT__TRANSPORT_TIMEOUT;
  case CLEAT__HTTP_VERDICT_SLOW:
    snprintf(message, size, "fewer than %lld bytes a second moved for %g s", (long long)call->pace_bytes_s,
             (double)call->pace_ms / 1000);
    return CLEAT__TRANSPORT_TIMEOUT;
  case CLEAT__HTTP_VERDICT_TOO_LONG:
    call->reply->too_long = true;
    snprintf(message, size, "the body is longer than expected");
    return CLEAT__TRANSPORT_MALFORMED;
  case CLEAT__HTTP_VERDICT_AGAIN:
    call->reply->unrepeated = true;
    snprintf(message, size, "%s",
             call->header_count > 0 ? "the server refuses \"Expect: 100-continue\""
                                    : "a kept connection was closed before a reply");
    return CLEAT__TRANSPORT_BROKEN;
  case CLEAT__HTTP_VERDICT_FEED:
    return CLEAT__TRANSPORT_FEED;
  case CLEAT__HTTP_VERDICT_HEADERS:
    snprintf(message, size, "the reply has more than %d headers or %d bytes of them", CLEAT__HTTP_HEADERS_MAX,
             CLEAT__HTTP_HEADER_BYTES_MAX);
    return CLEAT__TRANSPORT_MALFORMED;
  default:
    return CLEAT__TRANSPORT_NO_MEMORY;
  }
}

/* A handshake that is cut off means a broken connection, not a wrong certificate. */
static enum cleat__transport transport_of_handshake(const struct cleat__http_call *call) {
  char *message = call->reply->message;
  size_t size = sizeof call->reply->message;
  switch (cleat__http_tls_judge(&call->tls, call->sockets->ended)) {
  case CLEAT__HTTP_HANDSHAKE_CUT:
    snprintf(message, size, "the connection was closed during the TLS handshake");
    return CLEAT__TRANSPORT_BROKEN;
  case CLEAT__HTTP_HANDSHAKE_NOT_TLS:
    snprintf(message, size, CLEAT__HTTP_NO_TLS);
    return CLEAT__TRANSPORT_TLS;
  default:
    return CLEAT__TRANSPORT_TLS;
  }
}

/* The class of a refusal by the proxy: final (it requires a password, or forbids the host), or temporary. */
static enum cleat__transport transport_of_refusal(long connect_status) {
  bool final = connect_status < 500 && connect_status != 408 && connect_status != 429;
  return final ? CLEAT__TRANSPORT_PROXY : CLEAT__TRANSPORT_CONNECT;
}

/* CURLE_TOO_LARGE of libcurl 8.6 and later: a header line over its limit of 100 KiB. Older headers do not define it,
 * and older libraries return CURLE_OUT_OF_MEMORY. */
#define TOO_LARGE 100

/* After the first byte of a reply, failures of libcurl are caused by the reply. For a trailer with a NUL libcurl
 * returns another code (bad argument). */
static enum cleat__transport blame_reply(const struct cleat__http_call *call, CURLcode code,
                                         enum cleat__transport transport) {
  struct cleat__http_reply *reply = call->reply;
  curl_off_t first_us = 0;
  curl_easy_getinfo(call->curl, CURLINFO_STARTTRANSFER_TIME_T, &first_us);
  bool too_large = (int)code == TOO_LARGE;
  if (!too_large &&
      (first_us == 0 || (transport != CLEAT__TRANSPORT_INTERNAL && transport != CLEAT__TRANSPORT_NO_MEMORY)))
    return transport;
  if (too_large || code == CURLE_OUT_OF_MEMORY)
    snprintf(reply->message, sizeof reply->message, "a header of the reply is too long");
  else
    snprintf(reply->message, sizeof reply->message, "the reply is not HTTP");
  return CLEAT__TRANSPORT_MALFORMED;
}

/* Rejects replies that libcurl accepts: a connection that ends within the headers, and "HTTP/20" as a status line. */
static enum cleat__transport check_head(const struct cleat__http_call *call) {
  struct cleat__http_reply *reply = call->reply;
  if (!call->headers_ended) {
    snprintf(reply->message, sizeof reply->message, "the reply ends within its headers");
    return CLEAT__TRANSPORT_BROKEN;
  }
  if (reply->status < 200) {
    snprintf(reply->message, sizeof reply->message, "the reply has no valid HTTP status");
    return CLEAT__TRANSPORT_MALFORMED;
  }
  return CLEAT__TRANSPORT_OK;
}

static enum cleat__transport finish(struct cleat__http_call *call, CURLcode code, const struct cleat__http_proxy *proxy,
                                    const char *curl_message) {
  struct cleat__http_reply *reply = call->reply;
  long status = 0, connect_status = 0;
  curl_off_t length = -1;
  curl_easy_getinfo(call->curl, CURLINFO_RESPONSE_CODE, &status);
  curl_easy_getinfo(call->curl, CURLINFO_HTTP_CONNECTCODE, &connect_status);
  curl_easy_getinfo(call->curl, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
  reply->status = (int)status;
  reply->content_length = length;
  if (code != CURLE_OK && call->verdict != CLEAT__HTTP_VERDICT_NONE)
    return transport_of_verdict(call);
  if (code == CURLE_OK)
    return check_head(call);
  /* libcurl quotes the URL of a proxy that it cannot parse. There may be a password before the '@'. */
  bool quotable = curl_message[0] != '\0' && strchr(curl_message, '@') == NULL;
  snprintf(reply->message, sizeof reply->message, "%.200s%s%s%s", quotable ? curl_message : curl_easy_strerror(code),
           proxy != NULL ? " (by the proxy of " : "", proxy != NULL ? proxy->variable : "", proxy != NULL ? ")" : "");
  if (connect_status >= 300) {
    reply->status = 0; /* the answer was not from the store */
    return transport_of_refusal(connect_status);
  }
  if (code == CURLE_SSL_CONNECT_ERROR)
    return transport_of_handshake(call);
  return blame_reply(call, code, transport_of(code));
}

/* ---- sending ---- */

/* With CURLOPT_NOSIGNAL libcurl does not block SIGPIPE, and a broken TLS connection raises it. The library must not
 * end its program. */
static int race_without_sigpipe(CURLM *multi, CURL *curl, const struct cleat__http_race_ops *ops, void *ctx,
                                CURLcode *code) {
  sigset_t pipe_only, before, pending;
  sigemptyset(&pipe_only);
  sigaddset(&pipe_only, SIGPIPE);
  bool was_pending = sigpending(&pending) == 0 && sigismember(&pending, SIGPIPE) == 1;
  pthread_sigmask(SIG_BLOCK, &pipe_only, &before);
  int winner = cleat__http_race(multi, curl, ops, ctx, code);
  struct timespec now = {0};
  while (!was_pending && sigtimedwait(&pipe_only, NULL, &now) < 0 && errno == EINTR)
    continue;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return winner;
}

/* One transfer of a request, with its state. */
struct lane {
  struct cleat__http_call call;
  const struct cleat__http_proxy *proxy;
  char message[CURL_ERROR_SIZE];
  enum cleat__transport transport; /* result, valid after the transfer has ended */
};

/* A request, its transfer, and possibly a second one. */
struct run {
  const struct cleat__http *http;
  const struct cleat__http_request *request;
  struct cleat__http_request again; /* request of the second transfer: on a new connection */
  int64_t elapsed_ms;               /* elapsed time at the last call of second_is_due */
  struct cleat__http_reply reply;   /* reply of the second transfer */
  struct curl_slist *headers;
  struct cleat__http_handle *handle;
  struct lane lanes[2];
  bool ended[2];
};

/* Sets all options of the lane's handle. */
static CURLcode prepare_lane(struct run *run, struct lane *lane) {
  CURL *curl = lane->call.curl;
  curl_easy_reset(curl); /* keeps the TLS session */
  CURLcode code = set_transport(curl, run->http);
  if (code == CURLE_OK)
    code = set_proxy(curl, lane->proxy);
  if (code == CURLE_OK)
    code = set_request(curl, lane->call.request, run->headers);
  if (code == CURLE_OK)
    code = cleat__http_sockets_attach(lane->call.sockets, curl, lane->proxy == NULL ? lane->call.request->avoid : NULL);
  if (code == CURLE_OK)
    code = cleat__http_call_attach(&lane->call);
  if (code == CURLE_OK)
    code = curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, lane->message);
  return code;
}

static enum cleat__transport end_lane(struct run *run, int which, CURLcode code) {
  struct lane *lane = &run->lanes[which];
  if (!run->ended[which]) {
    lane->call.reply->peer = lane->call.sockets->peer;
    lane->transport = finish(&lane->call, code, lane->proxy, lane->message);
  }
  run->ended[which] = true;
  return lane->transport;
}

/* Whether the transfer ended with an answer, and not with one that says "not now". */
static bool on_settles(void *ctx, int which, CURLcode code) {
  struct run *run = ctx;
  int status = end_lane(run, which, code) == CLEAT__TRANSPORT_OK ? run->lanes[which].call.reply->status : 0;
  return status > 0 && status < 500 && status != 408 && status != 429;
}

static bool on_relents(void *ctx, int which, CURLcode code) {
  struct run *run = ctx;
  return code == CURLE_COULDNT_CONNECT && cleat__http_sockets_relent(run->lanes[which].call.sockets);
}

static bool on_is_due(void *ctx, int64_t elapsed_ms) {
  struct run *run = ctx;
  run->elapsed_ms = elapsed_ms;
  return run->request->second_is_due(run->request->second_ctx, elapsed_ms);
}

/* Whether bytes between the wanted ranges are discarded. Then the result of two transfers cannot be checked. */
static bool has_gaps(const struct cleat__http_request *request) {
  size_t gaps = 0;
  for (size_t i = 0; i < request->into.count; i++)
    gaps += request->into.items[i].base == NULL;
  return gaps > 0 && gaps < request->into.count;
}

static CURL *on_second(void *ctx, bool *alone) {
  struct run *run = ctx;
  struct lane *lane = &run->lanes[1];
  struct cleat__http_side *side = &run->handle->sides[1 - run->handle->main];
  side->curl = cleat__http_curl_new();
  if (side->curl == NULL)
    return NULL;
  run->again = *run->request;
  run->again.fresh = true;
  run->again.avoid = &run->handle->sides[run->handle->main].sockets.peer;
  /* The remaining time of both transfers. */
  if (run->again.limit_ms > 0)
    run->again.limit_ms = run->again.limit_ms > run->elapsed_ms + 1 ? run->again.limit_ms - run->elapsed_ms : 1;
  cleat__http_reply_init(&run->reply);
  cleat__http_call_init(&lane->call, side->curl, &run->again, &run->reply);
  lane->call.sockets = &side->sockets;
  lane->proxy = run->lanes[0].proxy;
  if (prepare_lane(run, lane) != CURLE_OK)
    return NULL;
  *alone = has_gaps(run->request);
  return side->curl;
}

static uint64_t moved_bytes(CURL *curl) {
  curl_off_t sent = 0, received = 0;
  curl_easy_getinfo(curl, CURLINFO_SIZE_UPLOAD_T, &sent);
  curl_easy_getinfo(curl, CURLINFO_SIZE_DOWNLOAD_T, &received);
  return (uint64_t)(sent + received);
}

/* Computes the checksum again: two transfers wrote into the same memory, so neither checksum is valid. */
static void check_again(const struct cleat__http_request *request, struct cleat__http_reply *reply) {
  uint64_t size = cleat__spans_length(request->into);
  if (request->into_spans && request->into.count > 0 && request->into.items[0].base != NULL && !has_gaps(request) &&
      reply->body_bytes == size)
    reply->crc32c = cleat__spans_crc32c(request->into);
}

/* After two transfers, the handle and reply of the winner become those of the request. */
static void keep_winner(struct run *run, int winner, struct cleat__http_reply *reply) {
  struct cleat__http_handle *handle = run->handle;
  uint64_t twice_bytes = moved_bytes(run->lanes[1 - winner].call.curl);
  if (winner == 1) {
    cleat__http_reply_clear(reply);
    *reply = run->reply;
    handle->main = 1 - handle->main;
  } else {
    cleat__http_reply_clear(&run->reply);
  }
  reply->second = winner == 1;
  reply->twice_bytes = twice_bytes;
  check_again(run->request, reply);
}

static enum cleat__transport run_request(struct run *run, struct cleat__http_reply *reply) {
  static const struct cleat__http_race_ops once = {.relents = on_relents, .settles = on_settles};
  static const struct cleat__http_race_ops twice = {
      .is_due = on_is_due, .second = on_second, .relents = on_relents, .settles = on_settles};
  const struct cleat__http *http = run->http;
  struct lane *lane = &run->lanes[0];
  struct cleat__http_handle *handle = run->handle;
  struct cleat_error problem;
  if (http->proxies != NULL &&
      cleat__http_proxies_find(http->proxies, run->request->url, &lane->proxy, &problem) != CLEAT_OK) {
    snprintf(reply->message, sizeof reply->message, "%.255s", problem.message);
    return CLEAT__TRANSPORT_PROXY;
  }
  int winner = 0;
  CURLcode code = prepare_lane(run, lane);
  if (code == CURLE_OK)
    winner = race_without_sigpipe(handle->multi, lane->call.curl, run->request->second_is_due != NULL ? &twice : &once,
                                  run, &code);
  enum cleat__transport transport = end_lane(run, winner, code);
  if (run->lanes[1].call.curl != NULL)
    keep_winner(run, winner, reply);
  cleat__http_side_close(&handle->sides[1 - handle->main]);
  /* The handle lives longer than the data it points to. */
  curl_easy_reset(handle->sides[handle->main].curl);
  return transport;
}

/* A server that refuses a request before it has read the body may read the rest as the next request (versitygw does
 * so on kept connections). */
static bool is_connection_clean(const struct cleat__http_request *request, const struct cleat__http_reply *reply) {
  return (reply->status >= 200 && reply->status < 300) || cleat__http_body_bytes(request) == 0;
}

enum cleat__transport cleat__http_send(struct cleat__http *http, const struct cleat__http_request *request,
                                       struct cleat__http_reply *reply) {
  enum cleat__transport transport = CLEAT__TRANSPORT_NO_MEMORY;
  struct run run = {.http = http, .request = request};
  run.handle = cleat__http_pool_take(http->pool);
  cleat__http_call_init(&run.lanes[0].call, NULL, request, reply);
  if (run.handle == NULL)
    goto done;
  run.lanes[0].call.curl = run.handle->sides[run.handle->main].curl;
  run.lanes[0].call.sockets = &run.handle->sides[run.handle->main].sockets;
  run.headers = make_headers(request);
  if (run.headers == NULL)
    goto done;
  transport = run_request(&run, reply);

done:
  curl_slist_free_all(run.headers);
  /* A failed connection is not kept. After a transfer that failed before it was connected, libcurl 7.88 also refuses
   * to set the buffer size of the handle again. */
  if (run.handle != NULL && transport == CLEAT__TRANSPORT_OK && is_connection_clean(request, reply))
    cleat__http_pool_give(http->pool, run.handle);
  else if (run.handle != NULL)
    cleat__http_handle_free(run.handle);
  return transport;
}

void cleat__http_reply_init(struct cleat__http_reply *reply) {
  memset(reply, 0, sizeof *reply);
  cleat__buffer_init(&reply->text, 0);
}

void cleat__http_reply_clear(struct cleat__http_reply *reply) {
  cleat__buffer_clear(&reply->text);
}
