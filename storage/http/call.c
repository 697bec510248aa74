/* http/call.c: the callbacks for libcurl. They copy bodies between spans and the network, keep the headers that
 * matter, and check the idle limit and the cancel flag. See http/call.h.
 *
 * All of it runs on the thread that runs the request; nothing is shared. */
#include "storage/http/call.h"

#include "base/checksum.h"

#include <linux/sockios.h>
#include <poll.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>

static int64_t now_ms(void) {
  const struct cleat__clock *clock = cleat__clock_system();
  return clock->monotonic_ms(clock->ctx);
}

/* A request whose body is cut short has no effect. A request that was completely sent may take effect at any time
 * after its connection is closed, also after the request that should undo it. */
static bool is_cancelled(struct cleat__http_call *call) {
  if (call->request->cancel == NULL || !atomic_load(call->request->cancel))
    return false;
  if (call->cancelled_ms == 0)
    call->cancelled_ms = now_ms();
  int64_t grace_ms = call->unread_bytes == 0 ? call->request->grace_ms : 0;
  return now_ms() - call->cancelled_ms >= grace_ms;
}

static bool is_success(const struct cleat__http_call *call) {
  long status = 0;
  curl_easy_getinfo(call->curl, CURLINFO_RESPONSE_CODE, &status);
  return status >= 200 && status < 300;
}

/* ---- the body that is sent ---- */

/* Waits until the store sends bytes: the answer, or a TLS ticket. */
static bool is_answering(struct cleat__http_call *call) {
  struct pollfd socket = {.fd = cleat__http_sockets_active(call->sockets), .events = POLLIN};
  return socket.fd != CURL_SOCKET_BAD && poll(&socket, 1, CLEAT__HTTP_CHECK_MS) == 1;
}

/* True: send no more of the body for now. libcurl reads what has arrived. */
static bool holds_body(struct cleat__http_call *call) {
  if (!call->tasted || call->looked)
    return false;
  call->looked = true;
  if (is_answering(call))
    call->paused_ms = now_ms();
  return call->paused_ms != 0;
}

static CURLcode let_body_go(struct cleat__http_call *call) {
  if (call->paused_ms == 0 || now_ms() - call->paused_ms < CLEAT__HTTP_CHECK_MS)
    return CURLE_OK;
  call->paused_ms = 0;
  return curl_easy_pause(call->curl, CURLPAUSE_CONT);
}

uint64_t cleat__http_body_bytes(const struct cleat__http_request *request) {
  return request->feed != NULL ? request->feed->length : cleat__spans_length(request->body);
}

static void rewind_body(struct cleat__http_call *call) {
  cleat__span_cursor_init(&call->body, call->request->body);
  call->fed_bytes = 0;
  call->unread_bytes = cleat__http_body_bytes(call->request);
}

/* Reads the next bytes of the body, at most `room`. False: the feed failed. */
static bool read_body(struct cleat__http_call *call, char *to, size_t room, size_t *taken) {
  const struct cleat__feed *feed = call->request->feed;
  if (feed == NULL) {
    *taken = cleat__span_cursor_read(&call->body, to, room);
    return true;
  }
  *taken = call->unread_bytes < room ? (size_t)call->unread_bytes : room;
  if (feed->read(feed->ctx, call->fed_bytes, to, *taken, call->request->feed_err) != CLEAT_OK)
    return false;
  call->fed_bytes += *taken;
  return true;
}

static size_t on_read(char *to, size_t size, size_t count, void *ctx) {
  struct cleat__http_call *call = ctx;
  if (is_cancelled(call)) {
    call->verdict = CLEAT__HTTP_VERDICT_CANCELLED;
    return CURL_READFUNC_ABORT;
  }
  if (holds_body(call))
    return CURL_READFUNC_PAUSE;
  size_t room = size * count;
  if (call->request->ask_first && !call->tasted) {
    call->tasted = true;
    room = room < CLEAT__HTTP_TASTE_BYTES ? room : CLEAT__HTTP_TASTE_BYTES;
  }
  size_t taken = 0;
  if (!read_body(call, to, room, &taken)) {
    call->verdict = CLEAT__HTTP_VERDICT_FEED;
    return CURL_READFUNC_ABORT;
  }
  call->unread_bytes -= taken;
  return taken;
}

/* libcurl rewinds before it sends the body again. It only seeks to the start. */
static int on_seek(void *ctx, curl_off_t offset, int origin) {
  struct cleat__http_call *call = ctx;
  if (origin != SEEK_SET || offset != 0)
    return CURL_SEEKFUNC_FAIL;
  rewind_body(call);
  return CURL_SEEKFUNC_OK;
}

/* ---- the body that is received ---- */

static bool take_into_spans(struct cleat__http_call *call, const char *bytes, size_t size) {
  struct cleat__http_reply *reply = call->reply;
  size_t taken = cleat__span_cursor_write(&call->into, bytes, size);
  reply->crc32c = cleat__crc32c(reply->crc32c, bytes, taken);
  reply->body_bytes += taken;
  if (taken < size)
    call->verdict = CLEAT__HTTP_VERDICT_TOO_LONG;
  return taken == size;
}

static bool take_into_text(struct cleat__http_call *call, const char *bytes, size_t size) {
  struct cleat__http_reply *reply = call->reply;
  cleat_status status = cleat__buffer_append(&reply->text, bytes, size);
  if (status != CLEAT_OK) {
    call->verdict = status == CLEAT_LIMIT ? CLEAT__HTTP_VERDICT_TOO_LONG : CLEAT__HTTP_VERDICT_NO_MEMORY;
    return false;
  }
  reply->body_bytes += size;
  return true;
}

/* Keeps the beginning of an error text, which is enough to tell what went wrong. */
static bool take_error_text(struct cleat__http_call *call, const char *bytes, size_t size) {
  size_t room = CLEAT__HTTP_ERROR_TEXT_MAX - call->reply->text.length;
  size_t taken = size < room ? size : room;
  call->dropped_bytes += size - taken;
  if (call->dropped_bytes > CLEAT__HTTP_ERROR_DROP_MAX) {
    call->verdict = CLEAT__HTTP_VERDICT_ENOUGH;
    return false;
  }
  return take_into_text(call, bytes, taken);
}

static size_t on_write(char *bytes, size_t one, size_t size, void *ctx) {
  struct cleat__http_call *call = ctx;
  (void)one; /* always 1 */
  bool success = is_success(call);
  call->reply->text.cap = success ? call->request->text_cap : CLEAT__HTTP_ERROR_TEXT_MAX;
  bool taken = !success                    ? take_error_text(call, bytes, size)
               : call->request->into_spans ? take_into_spans(call, bytes, size)
                                           : take_into_text(call, bytes, size);
  return taken ? size : 0;
}

/* ---- headers ---- */

#define FIELD(name, member) \
  { name, offsetof(struct cleat__http_reply, member), sizeof((struct cleat__http_reply *)NULL)->member }

static const struct {
  const char *name;
  size_t offset;
  size_t size;
} KEPT[] = {
    FIELD("ETag", etag),
    FIELD("Content-Range", content_range),
    FIELD("x-amz-checksum-crc32c", stored_crc32c),
    FIELD("Date", date),
    FIELD("Retry-After", retry_after),
    FIELD("x-amz-request-id", request_id),
    FIELD("x-amz-bucket-region", region),
    FIELD("Transfer-Encoding", transfer_encoding),
    FIELD("x-amz-checksum-crc32c", checksum_crc32c),
    FIELD("x-amz-checksum-crc64nvme", checksum_crc64nvme),
    FIELD("x-amz-server-side-encryption", encryption),
    FIELD("x-amz-server-side-encryption-customer-algorithm", encryption),
};

static void forget_headers(struct cleat__http_reply *reply) {
  for (size_t i = 0; i < sizeof KEPT / sizeof KEPT[0]; i++)
    ((char *)reply)[KEPT[i].offset] = '\0';
}

static bool is_blank(char byte) {
  return byte == ' ' || byte == '\t' || byte == '\r' || byte == '\n';
}

/* RFC 9110 §5.5 allows no control character except a tab. An ETag goes back to the store in a header of Cleat. */
static bool has_control(const char *value, size_t length) {
  for (size_t i = 0; i < length; i++)
    if ((unsigned char)value[i] < 0x20 || value[i] == 0x7f)
      return true;
  return false;
}

/* A value that does not fit is dropped: half an ETag would be a wrong one. */
static void keep_value(char *field, size_t field_size, const char *value, size_t length) {
  while (length > 0 && is_blank(value[0])) {
    value++;
    length--;
  }
  while (length > 0 && is_blank(value[length - 1]))
    length--;
  if (length >= field_size || has_control(value, length))
    length = 0;
  memcpy(field, value, length);
  field[length] = '\0';
}

static void keep_header(struct cleat__http_reply *reply, const char *line, size_t length) {
  const char *colon = memchr(line, ':', length);
  if (colon == NULL)
    return;
  size_t name_length = (size_t)(colon - line);
  for (size_t i = 0; i < sizeof KEPT / sizeof KEPT[0]; i++) {
    if (strlen(KEPT[i].name) == name_length && strncasecmp(KEPT[i].name, line, name_length) == 0)
      keep_value((char *)reply + KEPT[i].offset, KEPT[i].size, colon + 1, length - name_length - 1);
  }
}

static size_t on_header(char *line, size_t one, size_t length, void *ctx) {
  struct cleat__http_call *call = ctx;
  (void)one; /* always 1 */
  call->header_count++;
  call->header_bytes += length;
  if (call->header_count > CLEAT__HTTP_HEADERS_MAX || call->header_bytes > CLEAT__HTTP_HEADER_BYTES_MAX) {
    call->verdict = CLEAT__HTTP_VERDICT_HEADERS;
    return 0;
  }
  /* A status line: the headers before it belong to an interim reply. */
  if (length >= 5 && memcmp(line, "HTTP/", 5) == 0) {
    forget_headers(call->reply);
    call->headers_ended = false;
  } else if (line[0] == '\r' || line[0] == '\n') {
    call->headers_ended = true;
  } else {
    keep_header(call->reply, line, length);
  }
  return length;
}

/* ---- sending again ---- */

/* libcurl calls this each time before it sends the request. If a kept connection closes without a reply, libcurl
 * sends the request on another one by itself. The caller would then not know that there are two copies. libcurl does
 * the same after a 417, with the same headers. */
static int on_send(void *ctx, char *peer, char *self, int peer_port, int self_port) {
  struct cleat__http_call *call = ctx;
  (void)peer;
  (void)self;
  (void)peer_port;
  (void)self_port;
  if (call->reply->sent) {
    call->verdict = CLEAT__HTTP_VERDICT_AGAIN;
    return CURL_PREREQFUNC_ABORT;
  }
  call->reply->sent = true;
  cleat__http_sockets_settle(call->sockets);
  cleat__http_tls_detach(call->curl);
  return CURL_PREREQFUNC_OK;
}

/* ---- progress ---- */

/* Bytes that the kernel has and the other side has not acknowledged. With a large send buffer on a slow line they
 * still move long after the last byte was written. */
static int64_t unsent_bytes(const struct cleat__http_call *call) {
  curl_socket_t socket = cleat__http_sockets_active(call->sockets);
  int unsent = 0;
  if (!call->request->has_body || socket == CURL_SOCKET_BAD || ioctl(socket, SIOCOUTQ, &unsent) != 0)
    return 0;
  return unsent;
}

/* Whether a body is being transferred. A store may be silent up to the idle limit before it answers. Once it reads
 * or sends, it must keep the minimum rate. */
static bool is_moving(const struct cleat__http_call *call, int64_t received, int64_t unsent) {
  return call->unread_bytes > 0 || unsent > 0 || received > 0;
}

static enum cleat__http_verdict watch(struct cleat__http_call *call, int64_t received, int64_t written) {
  int64_t now = now_ms();
  int64_t unsent = unsent_bytes(call);
  int64_t moved = received + written - unsent;
  int64_t least = call->pace_bytes_s * call->pace_ms / 1000;
  if (moved != call->moved_bytes) {
    call->moved_bytes = moved;
    call->moved_ms = now;
  }
  bool moving = is_moving(call, received, unsent);
  if (!moving || !call->moving || moved - call->paced_bytes >= least) {
    call->paced_bytes = moved;
    call->paced_ms = now;
  }
  call->moving = moving;
  if (now - call->moved_ms >= call->idle_ms)
    return CLEAT__HTTP_VERDICT_IDLE;
  return now - call->paced_ms >= call->pace_ms ? CLEAT__HTTP_VERDICT_SLOW : CLEAT__HTTP_VERDICT_NONE;
}

/* libcurl calls this after every piece of work, and about once a second when idle. */
static int on_progress(void *ctx, curl_off_t receive_total, curl_off_t received, curl_off_t send_total,
                       curl_off_t sent) {
  struct cleat__http_call *call = ctx;
  (void)receive_total;
  (void)send_total;
  enum cleat__http_verdict verdict = is_cancelled(call) ? CLEAT__HTTP_VERDICT_CANCELLED : watch(call, received, sent);
  if (verdict != CLEAT__HTTP_VERDICT_NONE)
    call->verdict = verdict;
  return call->verdict != CLEAT__HTTP_VERDICT_NONE || let_body_go(call) != CURLE_OK;
}

/* ---- the call ---- */

void cleat__http_call_init(struct cleat__http_call *call, CURL *curl, const struct cleat__http_request *request,
                           struct cleat__http_reply *reply) {
  *call = (struct cleat__http_call){.curl = curl, .request = request, .reply = reply};
  rewind_body(call);
  cleat__span_cursor_init(&call->into, request->into);
  call->idle_ms = request->idle_ms > 0 ? request->idle_ms : CLEAT__HTTP_IDLE_MS;
  call->pace_bytes_s = request->pace_bytes_s < 0    ? 0
                       : request->pace_bytes_s == 0 ? CLEAT__HTTP_PACE_BYTES_S
                                                    : request->pace_bytes_s;
  call->pace_ms = request->pace_ms > 0 ? request->pace_ms : CLEAT__HTTP_PACE_MS;
  call->moved_ms = call->paced_ms = now_ms();
  struct cleat__buffer text = reply->text;
  cleat__buffer_reset(&text);
  *reply = (struct cleat__http_reply){.text = text, .content_length = -1};
}

CURLcode cleat__http_call_attach(struct cleat__http_call *call) {
  CURL *curl = call->curl;
  CURLcode code = CURLE_OK;
#define SET(option, value) code = code == CURLE_OK ? curl_easy_setopt(curl, option, value) : code
  SET(CURLOPT_WRITEFUNCTION, on_write);
  SET(CURLOPT_WRITEDATA, call);
  SET(CURLOPT_HEADERFUNCTION, on_header);
  SET(CURLOPT_HEADERDATA, call);
  SET(CURLOPT_XFERINFOFUNCTION, on_progress);
  SET(CURLOPT_XFERINFODATA, call);
  SET(CURLOPT_NOPROGRESS, 0L);
  SET(CURLOPT_PREREQFUNCTION, on_send);
  SET(CURLOPT_PREREQDATA, call);
  if (call->request->has_body) {
    SET(CURLOPT_READFUNCTION, on_read);
    SET(CURLOPT_READDATA, call);
    SET(CURLOPT_SEEKFUNCTION, on_seek);
    SET(CURLOPT_SEEKDATA, call);
  }
#undef SET
  return code == CURLE_OK ? cleat__http_tls_attach(&call->tls, curl) : code;
}
