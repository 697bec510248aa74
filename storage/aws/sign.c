/* aws/sign.c: Signature Version 4. See aws/sign.h. Pure: time and keys are arguments. Scratch memory is freed, and
 * values that derive from the secret are wiped, before it returns.
 *
 * The steps and their names (canonical request, string to sign, signing key) are those of the Amazon S3 API
 * reference. */
#include "storage/aws/sign.h"

#include "base/checksum.h"

#include <stdlib.h>
#include <string.h>

#define ALGORITHM "AWS4-HMAC-SHA256"
/* The service is part of the scope: a signature for one service is not valid for another. */
static const char *service_of(const struct cleat__s3_sign_request *request) {
  return request->service ? request->service : "s3";
}

/* Larger than any request of Cleat: a path of 1,024 bytes as %XX, a query, a session token, 40 headers. */
#define CANONICAL_BYTES_MAX 131072u

/* Headers that transports and proxies add, drop or rewrite. A signature over them could become invalid in transit. */
static const char *const UNSIGNED_HEADERS[] = {
    "accept-encoding", "authorization", "connection", "content-length", "expect", "user-agent", "transfer-encoding",
};

static bool is_signed(const char *name) {
  for (size_t i = 0; i < sizeof UNSIGNED_HEADERS / sizeof UNSIGNED_HEADERS[0]; i++) {
    if (strcmp(name, UNSIGNED_HEADERS[i]) == 0)
      return false;
  }
  return true;
}

/* The headers to sign, those of the caller and those that signing adds, in order. */
struct header_list {
  struct cleat__s3_pair items[CLEAT__S3_HEADERS_MAX];
  size_t count;
};

static int compare_names(const void *left, const void *right) {
  const struct cleat__s3_pair *a = left;
  const struct cleat__s3_pair *b = right;
  return strcmp(a->name, b->name);
}

static void add_header(struct header_list *list, const char *name, const char *value) {
  list->items[list->count++] = (struct cleat__s3_pair){name, value};
}

/* Checks that the headers are complete and no name appears twice. Otherwise the only symptom would be a refused
 * signature. */
static cleat_status check_headers(const struct header_list *list, struct cleat_error *err) {
  bool host = false;
  for (size_t i = 0; i < list->count; i++) {
    const char *name = list->items[i].name;
    host = host || strcmp(name, "host") == 0;
    if (strpbrk(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ :\r\n") || name[0] == '\0')
      return cleat__error_set(err, CLEAT_INTERNAL, "signing: bad header name '%s'", name);
    if (strpbrk(list->items[i].value, "\r\n"))
      return cleat__error_set(err, CLEAT_INTERNAL, "signing: line end in header '%s'", name);
    if (i > 0 && strcmp(list->items[i - 1].name, name) == 0)
      return cleat__error_set(err, CLEAT_INTERNAL, "signing: header '%s' appears twice", name);
  }
  if (!host)
    return cleat__error_set(err, CLEAT_INTERNAL, "signing: the host header is missing");
  return CLEAT_OK;
}

static cleat_status collect_headers(const struct cleat__s3_sign_request *request, const char *amz_date,
                                    struct header_list *list, struct cleat_error *err) {
  if (request->header_count > CLEAT__S3_HEADERS_MAX - 3)
    return cleat__error_set(err, CLEAT_LIMIT, "signing: more than %d headers", CLEAT__S3_HEADERS_MAX - 3);
  for (size_t i = 0; i < request->header_count; i++) {
    if (is_signed(request->headers[i].name))
      add_header(list, request->headers[i].name, request->headers[i].value);
  }
  add_header(list, "x-amz-date", amz_date);
  if (!request->no_content_sha256)
    add_header(list, "x-amz-content-sha256", request->payload_hash);
  if (request->credentials->session_token[0] != '\0')
    add_header(list, "x-amz-security-token", request->credentials->session_token);
  qsort(list->items, list->count, sizeof list->items[0], compare_names);
  return check_headers(list, err);
}

/* Appends the value trimmed, with runs of blanks reduced to one. */
static cleat_status append_value(struct cleat__buffer *out, const char *value) {
  cleat_status status = CLEAT_OK;
  const char *at = value + strspn(value, " \t");
  while (*at != '\0' && !status) {
    size_t word = strcspn(at, " \t");
    status = cleat__buffer_append(out, at, word);
    at += word;
    at += strspn(at, " \t");
    if (*at != '\0' && !status)
      status = cleat__buffer_append(out, " ", 1);
  }
  return status;
}

static cleat_status append_signed_names(struct cleat__buffer *out, const struct header_list *list) {
  cleat_status status = CLEAT_OK;
  for (size_t i = 0; i < list->count && !status; i++)
    status = cleat__buffer_print(out, "%s%s", i ? ";" : "", list->items[i].name);
  return status;
}

static cleat_status append_headers(struct cleat__buffer *out, const struct header_list *list) {
  cleat_status status = CLEAT_OK;
  for (size_t i = 0; i < list->count && !status; i++) {
    status = cleat__buffer_print(out, "%s:", list->items[i].name);
    if (!status)
      status = append_value(out, list->items[i].value);
    if (!status)
      status = cleat__buffer_append(out, "\n", 1);
  }
  return status;
}

static cleat_status canonical_request(const struct cleat__s3_sign_request *request, const struct header_list *list,
                                      struct cleat__buffer *out) {
  cleat_status status = cleat__buffer_print(out, "%s\n%s\n", request->method, request->path);
  if (!status)
    status = cleat__s3_encode_query(out, request->query, request->query_count);
  if (!status)
    status = cleat__buffer_append(out, "\n", 1);
  if (!status)
    status = append_headers(out, list);
  if (!status)
    status = cleat__buffer_append(out, "\n", 1);
  if (!status)
    status = append_signed_names(out, list);
  if (!status)
    status = cleat__buffer_print(out, "\n%s", request->payload_hash);
  return status;
}

/* HMAC(HMAC(HMAC(HMAC("AWS4" + secret, date), region), service), "aws4_request"). */
static cleat_status signing_key(const struct cleat__s3_sign_request *request, const char *amz_date,
                                uint8_t key[CLEAT__SHA256_BYTES]) {
  char seed[4 + CLEAT__S3_SECRET_KEY_MAX] = {'A', 'W', 'S', '4'};
  const char *secret = request->credentials->secret_access_key;
  size_t seed_size = strnlen(secret, CLEAT__S3_SECRET_KEY_MAX);
  memcpy(seed + 4, secret, seed_size);
  uint8_t step[CLEAT__SHA256_BYTES];
  cleat_status status = cleat__hmac_sha256(seed, seed_size + 4, amz_date, 8, step);
  if (!status)
    status = cleat__hmac_sha256(step, sizeof step, request->region, strlen(request->region), key);
  if (!status)
    status = cleat__hmac_sha256(key, CLEAT__SHA256_BYTES, service_of(request), strlen(service_of(request)), step);
  if (!status)
    status = cleat__hmac_sha256(step, sizeof step, "aws4_request", strlen("aws4_request"), key);
  explicit_bzero(seed, sizeof seed);
  explicit_bzero(step, sizeof step);
  return status;
}

/* The signature as hex: HMAC(key, algorithm \n time \n scope \n SHA-256 of the canonical request). */
static cleat_status signature(const struct cleat__s3_sign_request *request, const char *amz_date, const char *scope,
                              struct cleat__buffer *canonical, char hex[CLEAT__SHA256_HEX]) {
  uint8_t digest[CLEAT__SHA256_BYTES];
  uint8_t key[CLEAT__SHA256_BYTES];
  cleat_status status = cleat__sha256(canonical->data, canonical->length, digest);
  if (status)
    return status;
  cleat__hex(digest, sizeof digest, hex);
  cleat__buffer_reset(canonical);
  status = cleat__buffer_print(canonical, ALGORITHM "\n%s\n%s\n%s", amz_date, scope, hex);
  if (!status)
    status = signing_key(request, amz_date, key);
  if (!status)
    status = cleat__hmac_sha256(key, sizeof key, canonical->data, canonical->length, digest);
  if (!status)
    cleat__hex(digest, sizeof digest, hex);
  explicit_bzero(key, sizeof key);
  return status;
}

static cleat_status print_authorization(const struct cleat__s3_sign_request *request, const struct header_list *list,
                                        const char *scope, const char *hex, struct cleat__buffer *out) {
  cleat__buffer_reset(out);
  cleat_status status = cleat__buffer_print(
      out, ALGORITHM " Credential=%s/%s, SignedHeaders=", request->credentials->access_key_id, scope);
  if (!status)
    status = append_signed_names(out, list);
  if (!status)
    status = cleat__buffer_print(out, ", Signature=%s", hex);
  return status;
}

cleat_status cleat__s3_sign(const struct cleat__s3_sign_request *request, char amz_date[17],
                            struct cleat__buffer *authorization, struct cleat_error *err) {
  char date[17];
  cleat__time_amz(request->wall_s, date);
  struct header_list list = {.count = 0};
  cleat_status status = collect_headers(request, date, &list, err);
  if (status)
    return status;

  struct cleat__buffer canonical;
  cleat__buffer_init(&canonical, CANONICAL_BYTES_MAX);
  struct cleat__buffer scope;
  cleat__buffer_init(&scope, 256);
  char hex[CLEAT__SHA256_HEX];
  status = cleat__buffer_print(&scope, "%.8s/%s/%s/aws4_request", date, request->region, service_of(request));
  if (!status)
    status = canonical_request(request, &list, &canonical);
  if (!status)
    status = signature(request, date, cleat__buffer_text(&scope), &canonical, hex);
  if (!status)
    status = print_authorization(request, &list, cleat__buffer_text(&scope), hex, authorization);
  if (!status)
    memcpy(amz_date, date, sizeof date);
  else
    (void)cleat__error_set(err, status, "signing %s %s: %s", request->method, request->path, cleat_status_text(status));
  /* The canonical request holds the session token. */
  if (canonical.data)
    explicit_bzero(canonical.data, canonical.capacity);
  cleat__buffer_clear(&canonical);
  cleat__buffer_clear(&scope);
  return status;
}
