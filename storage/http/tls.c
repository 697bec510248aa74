/* http/tls.c: see http/tls.h. Source of the numbers: RFC 8446 §5.1 and §6, RFC 5246 §7.2. */
#include "storage/http/tls.h"

#include <string.h>

/* A record begins with its type, the version with major number 3, and its length. */
#define HEADER_BYTES 5
#define TYPE_FIRST 20
#define TYPE_LAST 24
#define VERSION_MAJOR 3

/* The content of an alert: level and description. */
#define ALERT_BYTES 2
#define ALERT_FATAL 2
#define ALERT_INTERNAL_ERROR 80
#define ALERT_USER_CANCELED 90

static int on_debug(CURL *curl, curl_infotype type, char *bytes, size_t size, void *ctx) {
  struct cleat__http_tls *tls = ctx;
  (void)curl;
  if (type != CURLINFO_SSL_DATA_IN || size == 0)
    return 0;
  memcpy(tls->last, bytes, size < sizeof tls->last ? size : sizeof tls->last);
  tls->size = size;
  return 0;
}

CURLcode cleat__http_tls_attach(struct cleat__http_tls *tls, CURL *curl) {
  CURLcode code = CURLE_OK;
#define SET(option, value) code = code == CURLE_OK ? curl_easy_setopt(curl, option, value) : code
  SET(CURLOPT_DEBUGFUNCTION, on_debug);
  SET(CURLOPT_DEBUGDATA, tls);
  SET(CURLOPT_VERBOSE, 1L);
#undef SET
  return code;
}

void cleat__http_tls_detach(CURL *curl) {
  (void)curl_easy_setopt(curl, CURLOPT_VERBOSE, 0L);
}

static bool is_record(const struct cleat__http_tls *tls) {
  return tls->last[0] >= TYPE_FIRST && tls->last[0] <= TYPE_LAST && tls->last[1] == VERSION_MAJOR;
}

/* Not an alert that also comes from a server with an internal problem or during shutdown. */
static bool is_refusal(const struct cleat__http_tls *tls) {
  return tls->size == ALERT_BYTES && tls->last[0] == ALERT_FATAL && tls->last[1] != ALERT_INTERNAL_ERROR &&
         tls->last[1] != ALERT_USER_CANCELED;
}

enum cleat__http_handshake cleat__http_tls_judge(const struct cleat__http_tls *tls, bool peer_ended) {
  if (tls->size == HEADER_BYTES && !is_record(tls))
    return CLEAT__HTTP_HANDSHAKE_NOT_TLS;
  if (is_refusal(tls))
    return CLEAT__HTTP_HANDSHAKE_REFUSED;
  bool alerted = tls->size == ALERT_BYTES && tls->last[0] == ALERT_FATAL;
  return peer_ended || alerted ? CLEAT__HTTP_HANDSHAKE_CUT : CLEAT__HTTP_HANDSHAKE_REFUSED;
}
