/* s3/request.c: the only place where S3 requests are signed, sent, judged and retried. See s3.h.
 *
 * One struct sender lives on the stack of the thread that runs the operation. Every try is built and signed again,
 * because the time, the credentials and the region may have changed since the last one. */
#include "storage/s3/s3.h"

#include "base/checksum.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "storage/aws/sign.h"
#include "storage/s3/error.h"

#include <stdio.h>
#include <string.h>

/* host, x-amz-date, x-amz-content-sha256, x-amz-security-token, authorization, and the bucket's options */
#define OWN_HEADERS (5 + CLEAT__S3_OPTION_HEADERS)
/* "s3://bucket/" and a key */
#define TARGET_BYTES 1200
/* 1,024 bytes of key as %XX, a tenant's path, an upload id in the query */
#define URL_BYTES_MAX 16384
/* Larger bodies are hashed in blocks. Higher: a cancel waits longer. Lower: more bodies are copied for it. */
#define HASHED_AT_ONCE ((uint64_t)16 << 20)

/* The state of one operation. */
struct sender {
  struct cleat__s3 *s3;
  const struct cleat__s3_request *request;
  const atomic_bool *cancel;
  struct cleat__retry_config limits; /* the limits of the client, or tighter ones */
  struct cleat__retry retry;
  char payload_hash[CLEAT__SHA256_HEX];
  struct cleat_error feed_error;   /* error of the feed */
  unsigned malformed;              /* number of tries whose reply could not be read */
  bool fresh;                      /* the next try uses a new connection */
  bool ask_first;                  /* hold its body back until the store accepts the headers */
  union cleat__http_address avoid; /* where the last try broke or could not connect */
  bool keyless;                    /* the last try had no credentials to sign with */
  char signature[65];              /* hex signature of the last try; "" if it was not signed */

  /* the state of the last try */
  const struct cleat__s3_config *config;
  struct cleat__s3_credentials credentials;
  struct cleat__http_reply *reply;
  struct cleat__s3_reply_error error;
  char unreadable[256]; /* what is wrong with a 2xx reply */
  struct cleat__s3_result result;
};

static uint64_t body_bytes(const struct cleat__s3_request *request) {
  return request->feed != NULL ? request->feed->length : cleat__spans_length(request->body);
}

/* Reads from spans as a feed does. */
static cleat_status read_spans(void *ctx, uint64_t offset, void *to, size_t size, struct cleat_error *err) {
  const struct cleat__spans *spans = ctx;
  char *next = to;
  (void)err;
  for (size_t i = 0; i < spans->count && size > 0; i++) {
    const struct cleat__span *span = &spans->items[i];
    size_t take = offset >= span->length ? 0 : span->length - (size_t)offset;
    take = take < size ? take : size;
    if (take > 0)
      memcpy(next, (const char *)span->base + offset, take);
    offset = offset > span->length ? offset - span->length : 0;
    next += take;
    size -= take;
  }
  return CLEAT_OK;
}

static cleat_status hash_body(const struct sender *sender, uint8_t digest[CLEAT__SHA256_BYTES],
                              struct cleat_error *err) {
  const struct cleat__s3_request *request = sender->request;
  struct cleat__spans body = request->body;
  const struct cleat__feed spans = {cleat__spans_length(body), read_spans, &body};
  if (request->feed != NULL)
    return cleat__sha256_feed(request->feed, digest, cleat__call(sender->cancel, err));
  /* It takes seconds, and a cancel ends it. */
  if (spans.length > HASHED_AT_ONCE)
    return cleat__sha256_feed(&spans, digest, cleat__call(sender->cancel, err));
  cleat_status status = cleat__sha256_spans(request->body, digest);
  return status == CLEAT_OK ? CLEAT_OK : cleat__error_set(err, status, "SHA-256 of a body failed");
}

static cleat_status hash_payload(struct sender *sender, struct cleat_error *err) {
  const struct cleat__s3_request *request = sender->request;
  const char *text = CLEAT__S3_PAYLOAD_EMPTY;
  uint8_t digest[CLEAT__SHA256_BYTES];
  if (body_bytes(request) > 0) {
    const struct cleat__s3_config *config = cleat__s3_config_now(sender->s3);
    text = CLEAT__S3_PAYLOAD_UNSIGNED;
    if (config->sign_payload || (request->sign_body && config->sign_lists)) {
      cleat_status status = hash_body(sender, digest, err);
      if (status != CLEAT_OK)
        return status;
      cleat__hex(digest, sizeof digest, sender->payload_hash);
      return CLEAT_OK;
    }
  }
  snprintf(sender->payload_hash, sizeof sender->payload_hash, "%s", text);
  return CLEAT_OK;
}

/* Writes the path as it is signed and sent. */
static cleat_status make_path(const struct sender *sender, struct cleat__buffer *path) {
  const struct cleat__s3_config *config = sender->config;
  const char *key = sender->request->key;
  cleat_status status = cleat__buffer_print(path, "%s/", config->base_path);
  if (status == CLEAT_OK && key != NULL)
    status = cleat__s3_encode(path, config->root, strlen(config->root), true);
  if (status == CLEAT_OK && key != NULL)
    status = cleat__s3_encode(path, key, strlen(key), true);
  return status;
}

static cleat_status make_url(const struct sender *sender, const char *path, struct cleat__buffer *url) {
  const struct cleat__s3_request *request = sender->request;
  cleat_status status =
      cleat__buffer_print(url, "%s%s%s", sender->config->base_url, path, request->query_count > 0 ? "?" : "");
  if (status == CLEAT_OK)
    status = cleat__s3_encode_query(url, request->query, request->query_count);
  return status;
}

/* The headers of one try in the form that libcurl needs. */
struct lines {
  char *items[CLEAT__S3_HEADERS_MAX];
  size_t count;
};

/* Keeps the signature to find it in replies. The header itself is wiped after sending. */
static void keep_signature(struct sender *sender, const struct lines *lines) {
  const char *last = lines->count > 0 ? lines->items[lines->count - 1] : "";
  const char *found = strstr(last, "Signature=");
  snprintf(sender->signature, sizeof sender->signature, "%s", found ? found + 10 : "");
}

static bool add_line(struct lines *lines, const char *name, const char *value) {
  char *line = cleat__strprintf("%s: %s", name, value);
  if (line == NULL)
    return false;
  lines->items[lines->count++] = line;
  return true;
}

/* Wipes the lines: some may hold the session token or an SSE-C key. */
static void clear_lines(struct lines *lines) {
  for (size_t i = 0; i < lines->count; i++)
    cleat__s3_wipe_text(lines->items[i]);
  lines->count = 0;
}

/* Signs the request and writes out all its headers. */
static cleat_status make_headers(const struct sender *sender, const char *path, struct lines *lines,
                                 struct cleat_error *err) {
  const struct cleat__s3_request *request = sender->request;
  const struct cleat__clock *clock = sender->s3->retry.clock;
  const char *token = sender->credentials.session_token;
  struct cleat__s3_pair headers[CLEAT__S3_HEADERS_MAX];
  struct cleat__buffer authorization;
  char date[17];
  size_t count = 0;
  if (request->header_count + OWN_HEADERS > CLEAT__S3_HEADERS_MAX || request->kind == 0)
    return cleat__error_set(err, CLEAT_INTERNAL, "the request has too many headers, or no kind");
  cleat__buffer_init(&authorization, CLEAT__S3_AUTHORIZATION_MAX);
  headers[count++] = (struct cleat__s3_pair){"host", sender->config->host_header};
  for (size_t i = 0; i < request->header_count; i++)
    headers[count++] = request->headers[i];
  count += cleat__s3_options_headers(&sender->s3->configs[0].options, request->kind, headers + count);

  struct cleat__s3_sign_request sign = {.method = request->method,
                                        .path = path,
                                        .query = request->query,
                                        .query_count = request->query_count,
                                        .headers = headers,
                                        .header_count = count,
                                        .payload_hash = sender->payload_hash,
                                        .credentials = &sender->credentials,
                                        .region = sender->config->region,
                                        .wall_s = clock->wall_s(clock->ctx) + atomic_load(&sender->s3->skew_s)};
  bool anonymous = sender->credentials.access_key_id[0] == '\0';
  cleat_status status = anonymous ? CLEAT_OK : cleat__s3_sign(&sign, date, &authorization, err);
  if (status != CLEAT_OK)
    goto done;

  bool whole = true;
  for (size_t i = 0; i < count && whole; i++)
    whole = add_line(lines, headers[i].name, headers[i].value);
  if (whole && !anonymous)
    whole = add_line(lines, "x-amz-date", date) && add_line(lines, "x-amz-content-sha256", sender->payload_hash) &&
            (token[0] == '\0' || add_line(lines, "x-amz-security-token", token)) &&
            add_line(lines, "Authorization", cleat__buffer_text(&authorization));
  if (!whole)
    status = cleat__error_no_memory(err, "a request's headers");

done:
  cleat__buffer_clear(&authorization);
  return status;
}

/* ---- one try ---- */

static bool on_second_is_due(void *ctx, int64_t elapsed_ms) {
  return cleat__hedge_is_due(ctx, elapsed_ms);
}

/* Sends the try. If it turns out to be a straggler, sends it a second time in parallel. */
static enum cleat__transport transmit_hedged(struct sender *sender, struct cleat__http_request *http) {
  const struct cleat__clock *clock = cleat__clock_system();
  struct cleat__hedge_request hedge;
  uint64_t bytes = http->has_body ? cleat__http_body_bytes(http) : cleat__spans_length(http->into);
  int64_t began_ms = clock->monotonic_ms(clock->ctx);
  cleat__hedge_begin(&sender->s3->hedge, http->has_body, bytes, &hedge);
  http->second_is_due = on_second_is_due;
  http->second_ctx = &hedge;
  enum cleat__transport transport = cleat__http_send(sender->s3->http, http, sender->reply);
  int64_t elapsed_ms = clock->monotonic_ms(clock->ctx) - began_ms;
  const struct cleat__http_reply *reply = sender->reply;
  bool good = transport == CLEAT__TRANSPORT_OK && reply->status >= 200 && reply->status < 300;
  cleat__hedge_end(&hedge, good, elapsed_ms, reply->twice_bytes);
  if (hedge.second)
    cleat__log(&sender->s3->log, CLEAT_LOG_INFO,
               "%s: slower than its peers, so it was sent twice; the %s answer came first (%lld ms)",
               sender->request->operation, reply->second ? "second" : "first", (long long)elapsed_ms);
  return transport;
}

static enum cleat__transport transmit(struct sender *sender, const char *url, const struct lines *lines) {
  const struct cleat__s3_request *request = sender->request;
  int64_t left_ms = cleat__retry_remaining_ms(&sender->retry);
  struct cleat__http_request http = {.method = request->method,
                                     .url = url,
                                     .headers = (const char *const *)lines->items,
                                     .header_count = lines->count,
                                     .has_body = request->has_body,
                                     .body = request->body,
                                     .feed = request->feed,
                                     .feed_err = &sender->feed_error,
                                     .into_spans = request->into_spans,
                                     .into = request->into,
                                     .text_cap = request->text_cap,
                                     .idle_ms = request->idle_ms,
                                     .pace_bytes_s = request->any_pace ? -1 : 0,
                                     .limit_ms = left_ms > 0 ? left_ms : 1,
                                     .fresh = sender->fresh,
                                     .ask_first = sender->ask_first,
                                     .avoid = &sender->avoid,
                                     .cancel = sender->cancel,
                                     .grace_ms = request->grace_ms};
  return request->repeatable ? transmit_hedged(sender, &http)
                             : cleat__http_send(sender->s3->http, &http, sender->reply);
}

/* If it fails, nothing was sent, and a retry would not help. */
static cleat_status send_once(struct sender *sender, struct cleat_error *err) {
  struct cleat__buffer path, url;
  struct lines lines = {.count = 0};
  cleat__buffer_init(&path, URL_BYTES_MAX);
  cleat__buffer_init(&url, URL_BYTES_MAX);
  sender->config = cleat__s3_config_now(sender->s3);
  cleat_status status =
      cleat__s3_credentials_get(sender->s3->chain, &sender->credentials, cleat__call(sender->cancel, err));
  sender->keyless = status != CLEAT_OK;
  if (status != CLEAT_OK)
    goto done;
  status = make_path(sender, &path);
  if (status == CLEAT_OK)
    status = make_url(sender, cleat__buffer_text(&path), &url);
  if (status != CLEAT_OK) {
    cleat__error_set(err, status, "the URL cannot be made");
    goto done;
  }
  status = make_headers(sender, cleat__buffer_text(&path), &lines, err);
  keep_signature(sender, &lines);
  if (status == CLEAT_OK)
    sender->result.transport = transmit(sender, cleat__buffer_text(&url), &lines);

done:
  clear_lines(&lines);
  cleat__buffer_clear(&path);
  cleat__buffer_clear(&url);
  return status;
}

/* ---- judging ---- */

/* Gives a 2xx reply to the accept function of the operation. */
static cleat_status accept_reply(struct sender *sender, struct cleat_error *err) {
  const struct cleat__s3_request *request = sender->request;
  struct cleat_error problem;
  if (request->accept == NULL)
    return CLEAT_OK;
  cleat_status status = request->accept(request->accept_ctx, sender->reply, &sender->error, &problem);
  struct cleat_error ignored;
  if (status == CLEAT_FORMAT && cleat__s3_xml_error(cleat__buffer_text(&sender->reply->text),
                                                    sender->reply->text.length, &sender->error, &ignored) == CLEAT_OK)
    return CLEAT_OK;
  if (status == CLEAT_FORMAT) {
    snprintf(sender->unreadable, sizeof sender->unreadable, "%.255s", problem.message);
    sender->result.transport = CLEAT__TRANSPORT_MALFORMED;
    sender->result.other_xml = cleat__s3_is_document(cleat__buffer_text(&sender->reply->text));
    return CLEAT_OK;
  }
  if (status != CLEAT_OK)
    *err = problem;
  return status;
}

/* Some gateways and proxies answer with the request that they received. No text that repeats a secret may reach a
 * message or the log. */
static void hide_secrets(struct sender *sender) {
  struct cleat__s3_reply_error *error = &sender->error;
  struct cleat__http_reply *reply = sender->reply;
  const char *const secrets[] = {sender->credentials.secret_access_key, sender->credentials.session_token,
                                 sender->signature, sender->s3->configs[0].options.values[CLEAT__S3_SSE_C_KEY],
                                 "Proxy-Authorization"};
  char *const texts[] = {error->code,   error->message,    error->request_id, error->region,
                         reply->region, reply->request_id, reply->message,    sender->unreadable};
  for (size_t i = 0; i < sizeof secrets / sizeof secrets[0]; i++)
    for (size_t j = 0; j < sizeof texts / sizeof texts[0]; j++)
      cleat__s3_keys_hide(secrets[i], texts[j]);
}

/* Fills sender->result. On failure the operation ends with *err. */
static cleat_status judge(struct sender *sender, struct cleat_error *err) {
  const struct cleat__http_reply *reply = sender->reply;
  struct cleat__s3_result *result = &sender->result;
  cleat_status status = CLEAT_OK;
  struct cleat_error ignored;
  bool wants_tls = false;
  memset(&sender->error, 0, sizeof sender->error);
  result->other_xml = false;
  sender->unreadable[0] = '\0';
  /* A body longer than the range is the reply to another request. A retry may help. */
  if (reply->too_long && sender->request->into_spans)
    snprintf(sender->unreadable, sizeof sender->unreadable, "the store sent more than was asked for");
  else if (reply->too_long)
    return cleat__error_set(err, CLEAT_LIMIT, "it has more than %zu bytes", sender->request->text_cap);
  if (result->transport == CLEAT__TRANSPORT_OK) {
    atomic_store(&sender->s3->reached, true);
    if (reply->status >= 200 && reply->status < 300)
      status = accept_reply(sender, err);
    else /* a body without <Error>: the HTTP status decides */
      (void)cleat__s3_xml_error(cleat__buffer_text(&reply->text), reply->text.length, &sender->error, &ignored);
    /* A web server that is no S3 store answers 404 to every key. That must not look like an absent object. Only the
     * reply to a HEAD has no body that could tell. */
    if (reply->status == 404 && sender->error.code[0] == '\0' && sender->request->kind != CLEAT__S3_HEAD) {
      result->transport = CLEAT__TRANSPORT_MALFORMED;
      snprintf(sender->unreadable, sizeof sender->unreadable, "a 404 without an error code of S3");
    }
    wants_tls = cleat__s3_wants_tls(reply->status, cleat__buffer_text(&reply->text));
    if (wants_tls)
      result->transport = CLEAT__TRANSPORT_TLS;
  }
  if (result->transport != CLEAT__TRANSPORT_OK || sender->error.code[0] != '\0' || reply->status >= 300)
    hide_secrets(sender);
  result->http_status = reply->status;
  result->code = sender->error.code;
  result->message = sender->unreadable[0] != '\0'              ? sender->unreadable
                    : wants_tls                                ? CLEAT__HTTP_WANTS_TLS
                    : result->transport == CLEAT__TRANSPORT_OK ? sender->error.message
                                                               : reply->message;
  result->request_id = reply->request_id[0] != '\0' ? reply->request_id : sender->error.request_id;
  return status;
}

/* Returns the region that the store named if it differs from the signed one, or NULL. */
static const char *other_region(const struct sender *sender) {
  const char *region = sender->error.region[0] != '\0' ? sender->error.region : sender->reply->region;
  return region[0] != '\0' && strcmp(region, sender->config->region) != 0 ? region : NULL;
}

/* Smallest suspicious clock difference. S3 allows 15 minutes. A HEAD gets no error code. */
#define SUSPECT_SKEW_S 600

static bool is_clock_suspect(const struct sender *sender) {
  const struct cleat__clock *clock = sender->s3->retry.clock;
  int64_t store_s = 0;
  if (sender->result.http_status != 403 || sender->result.code[0] != '\0' ||
      !cleat__http_date(sender->reply->date, &store_s))
    return false;
  int64_t off_s = store_s - clock->wall_s(clock->ctx) - atomic_load(&sender->s3->skew_s);
  return off_s > SUSPECT_SKEW_S || off_s < -SUSPECT_SKEW_S;
}

static enum cleat__retry_class classify(struct sender *sender) {
  enum cleat__retry_class class = cleat__s3_classify(&sender->result);
  int status = sender->result.http_status;
  if (sender->result.transport == CLEAT__TRANSPORT_MALFORMED && ++sender->malformed >= CLEAT__S3_MALFORMED_MAX)
    return CLEAT__RETRY_FATAL;
  if (class == CLEAT__RETRY_REGION && other_region(sender) == NULL)
    return CLEAT__RETRY_FATAL;
  if (class != CLEAT__RETRY_FATAL || sender->result.transport != CLEAT__TRANSPORT_OK)
    return class;
  /* AWS answers a HEAD to the wrong region with 400, no code, and the region in a header. */
  if (status == 400 && other_region(sender) != NULL)
    return CLEAT__RETRY_REGION;
  /* AWS also answers a HEAD with expired credentials with 400 and no code. */
  if (status == 400 && sender->result.code[0] == '\0' && sender->credentials.session_token[0] != '\0')
    return CLEAT__RETRY_CREDENTIALS;
  return is_clock_suspect(sender) ? CLEAT__RETRY_CLOCK : CLEAT__RETRY_FATAL;
}

/* ---- repairing ---- */

static void learn_clock(struct sender *sender) {
  const struct cleat__clock *clock = sender->s3->retry.clock;
  int64_t store_s = sender->error.server_time_s;
  if (store_s != 0 || cleat__http_date(sender->reply->date, &store_s))
    atomic_store(&sender->s3->skew_s, store_s - clock->wall_s(clock->ctx));
}

/* Makes the configuration for the region that the store named, unless another thread has done so. */
static cleat_status follow_region(struct sender *sender, struct cleat_error *err) {
  struct cleat__s3 *s3 = sender->s3;
  cleat_status status = CLEAT_OK;
  cleat__mutex_lock(&s3->move_lock);
  if (!atomic_load(&s3->moved)) {
    status = cleat__s3_config_move(&s3->configs[0], other_region(sender), &s3->configs[1], err);
    if (status == CLEAT_OK)
      atomic_store(&s3->moved, true);
  }
  cleat__mutex_unlock(&s3->move_lock);
  return status;
}

static cleat_status repair(struct sender *sender, enum cleat__retry_class class, struct cleat_error *err) {
  if (class == CLEAT__RETRY_CREDENTIALS)
    cleat__s3_credentials_refuse(sender->s3->chain, &sender->credentials);
  else if (class == CLEAT__RETRY_CLOCK)
    learn_clock(sender);
  else if (class == CLEAT__RETRY_REGION)
    return follow_region(sender, err);
  return CLEAT_OK;
}

/* ---- giving up ---- */

/* True if the endpoint has never answered and was tried for long enough. It takes more than one try, because a
 * single try at a silent server may take as long. */
static bool is_nobody_there(const struct sender *sender) {
  int64_t budget_ms = sender->limits.budget_ms;
  return sender->result.transport != CLEAT__TRANSPORT_OK && sender->reply->status == 0 &&
         !atomic_load(&sender->s3->reached) && sender->retry.tries > 0 &&
         budget_ms - cleat__retry_remaining_ms(&sender->retry) >= CLEAT__S3_FIRST_CONTACT_MS;
}

static bool is_pointless(const struct sender *sender, enum cleat__retry_class class) {
  const struct cleat__s3_request *request = sender->request;
  return class == CLEAT__RETRY_AGAIN && request->is_pointless != NULL && sender->retry.tries >= 3 &&
         request->is_pointless(request->pointless_ctx, sender->cancel);
}

static void name_target(const struct sender *sender, char *target, size_t size) {
  const struct cleat__s3_config *config = cleat__s3_config_now(sender->s3);
  const char *key = sender->request->key;
  if (key == NULL)
    snprintf(target, size, "s3://%s", config->bucket);
  else
    snprintf(target, size, "s3://%s/%s%s", config->bucket, config->root, key);
}

/* Whether the request had a checksum and the store is not AWS. */
static bool has_checksum(const struct sender *sender) {
  for (size_t i = 0; i < sender->request->header_count && !sender->s3->configs[0].aws; i++)
    if (strncmp(sender->request->headers[i].name, "x-amz-checksum-", 15) == 0)
      return true;
  return false;
}

static cleat_status fail(struct sender *sender, enum cleat__retry_stop stop, struct cleat_error *err) {
  char target[TARGET_BYTES];
  const struct cleat__s3_options *options = &sender->s3->configs[0].options;
  bool option = cleat__s3_options_refused(options, sender->request->kind, sender->result.code);
  name_target(sender, target, sizeof target);
  struct cleat__s3_context context = {.operation = sender->request->operation,
                                      .target = target,
                                      .endpoint = sender->config->endpoint,
                                      .bucket = sender->config->bucket,
                                      .region = sender->config->region,
                                      .key_source = cleat__s3_credentials_source(sender->s3->chain),
                                      .precondition_status = sender->request->precondition_status,
                                      .checksum = has_checksum(sender) && !option,
                                      .unanswered = !atomic_load(&sender->s3->reached),
                                      .tries = sender->retry.tries,
                                      .stop = stop};
  cleat_status status = cleat__s3_error_set(&sender->result, &context, err);
  cleat__s3_options_blame(options, sender->request->kind, err);
  return status;
}

/* An error that occurred here and not at the store: adds the name of the operation. */
static cleat_status fail_here(const struct sender *sender, struct cleat_error *err) {
  char target[TARGET_BYTES];
  name_target(sender, target, sizeof target);
  cleat__error_context(err, "%s %s", sender->request->operation, target);
  return err->status;
}

static void log_retry(const struct sender *sender) {
  char target[TARGET_BYTES], why[CLEAT__S3_RESULT_TEXT];
  name_target(sender, target, sizeof target);
  cleat__s3_result_tell(&sender->result, why);
  cleat__log(&sender->s3->log, CLEAT_LOG_INFO, "%s %s: try %u failed (%s): trying again", sender->request->operation,
             target, sender->retry.tries, why);
}

/* ---- the loop ---- */

/* Prepares for the next try after a failed one. CLEAT_OK: try again. */
static cleat_status prepare_next(struct sender *sender, enum cleat__retry_class class, struct cleat_error *err) {
  const struct cleat__http_reply *reply = sender->reply;
  const struct cleat__clock *clock = sender->s3->retry.clock;
  enum cleat__retry_stop stop = CLEAT__RETRY_STOP_NONE;
  int64_t after_ms =
      reply->retry_after[0] != '\0' ? cleat__retry_after_ms(reply->retry_after, clock->wall_s(clock->ctx)) : -1;
  if (is_nobody_there(sender) || is_pointless(sender, class)) {
    sender->retry.tries++;
    return fail(sender, CLEAT__RETRY_STOP_FATAL, err);
  }
  if (class == CLEAT__RETRY_THROTTLED)
    atomic_fetch_add(&sender->s3->store.throttles, 1);
  if (!cleat__retry_wait(&sender->retry, class, after_ms, sender->cancel, &stop)) {
    /* The store has answered: return the quota tokens that the earlier tries took. */
    if (sender->result.transport == CLEAT__TRANSPORT_OK && class == CLEAT__RETRY_FATAL)
      cleat__retry_succeeded(&sender->retry);
    return fail(sender, stop, err);
  }
  if (repair(sender, class, err) != CLEAT_OK)
    return fail_here(sender, err);
  log_retry(sender);
  atomic_fetch_add(&sender->s3->store.retries, 1);
  /* The damage may come from the network path of this connection. */
  sender->fresh = sender->result.transport != CLEAT__TRANSPORT_OK || class == CLEAT__RETRY_DIGEST;
  sender->avoid = sender->fresh ? reply->peer : (union cleat__http_address){0};
  /* A store that refuses a body while it is still being sent, and closes, resets the connection. That loses the
   * answer, so each try would end the same way. Not done after a kept connection broke: it was probably closed for
   * its age. Not all servers know "Expect: 100-continue". */
  sender->ask_first =
      sender->result.transport == CLEAT__TRANSPORT_BROKEN && !reply->unrepeated && body_bytes(sender->request) > 0;
  return CLEAT_OK;
}

/* The credentials have expired and the place that refreshes them does not answer now. A save waits for that place as
 * it waits for the store. If there were never any credentials, there is no such place, or its address is wrong. */
static bool wait_for_keys(struct sender *sender, struct cleat_error *err) {
  enum cleat__retry_stop stop = CLEAT__RETRY_STOP_NONE;
  if (!sender->keyless || !err->retryable || cleat__s3_credentials_source(sender->s3->chain)[0] == '\0')
    return false;
  if (cleat__retry_wait(&sender->retry, CLEAT__RETRY_THROTTLED, -1, sender->cancel, &stop))
    return true;
  if (stop == CLEAT__RETRY_STOP_CANCELLED)
    (void)cleat__error_set(err, CLEAT_CANCELLED, "cancelled");
  return false;
}

static cleat_status run(struct sender *sender, struct cleat_error *err) {
  for (;;) {
    if (send_once(sender, err) != CLEAT_OK) {
      if (wait_for_keys(sender, err))
        continue;
      return fail_here(sender, err);
    }
    if (sender->result.transport == CLEAT__TRANSPORT_FEED) {
      *err = sender->feed_error;
      return err->status;
    }
    if (judge(sender, err) != CLEAT_OK)
      return fail_here(sender, err);
    enum cleat__retry_class class = classify(sender);
    if (class == CLEAT__RETRY_DONE) {
      cleat__retry_succeeded(&sender->retry);
      if (sender->request->failed_tries != NULL)
        *sender->request->failed_tries = sender->retry.tries;
      return CLEAT_OK;
    }
    cleat_status status = prepare_next(sender, class, err);
    if (status != CLEAT_OK)
      return status;
  }
}

cleat_status cleat__s3_send(struct cleat__s3 *s3, const struct cleat__s3_request *request,
                            struct cleat__http_reply *reply, struct cleat__call call) {
  struct sender sender = {.s3 = s3, .request = request, .cancel = call.cancel, .reply = reply};
  sender.limits = s3->retry;
  if (request->limit_ms > 0 && request->limit_ms < sender.limits.budget_ms)
    sender.limits.budget_ms = request->limit_ms;
  cleat__retry_begin(&sender.retry, &sender.limits);
  cleat_status status = hash_payload(&sender, call.err);
  if (status == CLEAT_OK)
    status = run(&sender, call.err);
  if (status != CLEAT_OK && request->failed_tries != NULL && sender.retry.tries > 0)
    *request->failed_tries = sender.retry.tries - 1;
  cleat__s3_credentials_wipe(&sender.credentials);
  return status;
}
