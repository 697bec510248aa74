/* aws/sts.c: AssumeRole and AssumeRoleWithWebIdentity. See aws/sts.h. No state. The body of a request contains a
 * token, so it is made in one block of memory and wiped. */
#include "storage/aws/sts.h"

#include "base/checksum.h"
#include "base/mem.h"
#include "base/xml_reader.h"
#include "storage/aws/sign.h"
#include "storage/common/retry.h"
#include "storage/http/encode.h"
#include "storage/http/endpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FORM_MAX 98304u /* a token of 20,000 bytes, all as %XX, and the other fields */
/* Time limits to connect and for one try. Lower: a slow identity provider behind STS fails. Higher: a black hole
 * delays the save. */
#define CONNECT_MS 5000
#define LIMIT_MS 15000
#define TRIES 3
#define HEADERS_MAX 6
/* STS refuses signatures whose time differs by more than 5 minutes. */
#define SUSPECT_SKEW_S 240

/* ---- The reply ---- */

struct sts_reply {
  char id[CLEAT__S3_ACCESS_KEY_MAX + 1];
  char secret[CLEAT__S3_SECRET_KEY_MAX + 1];
  char token[CLEAT__S3_SESSION_TOKEN_MAX + 1];
  int64_t expires_s;
  char code[64];
  char message[400];
};

static bool ends_with(const char *text, const char *end) {
  size_t length = strlen(text), end_length = strlen(end);
  return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

static void keep(struct cleat__xml_reader *reader, char *to, size_t size, const char *text) {
  if (strlen(text) >= size)
    cleat__xml_fail(reader, CLEAT_FORMAT, "a value is too long");
  else
    memcpy(to, text, strlen(text) + 1);
}

/* Copies a text as one line, cut to the size. */
static void keep_line(char *to, size_t size, const char *text) {
  snprintf(to, size, "%s", text);
  for (; *to != '\0'; to++) {
    if ((unsigned char)*to < 0x20 || *to == 0x7f)
      *to = ' ';
  }
}

static void on_leaf(struct cleat__xml_reader *reader, void *target, const char *path, const char *text) {
  struct sts_reply *reply = target;
  if (ends_with(path, "/Credentials/AccessKeyId"))
    keep(reader, reply->id, sizeof reply->id, text);
  else if (ends_with(path, "/Credentials/SecretAccessKey"))
    keep(reader, reply->secret, sizeof reply->secret, text);
  else if (ends_with(path, "/Credentials/SessionToken"))
    keep(reader, reply->token, sizeof reply->token, text);
  else if (ends_with(path, "/Credentials/Expiration") && !cleat__s3_keys_time(text, strlen(text), &reply->expires_s))
    cleat__xml_fail(reader, CLEAT_FORMAT, "Expiration is not a time");
  else if (ends_with(path, "/Error/Code"))
    keep_line(reply->code, sizeof reply->code, text);
  else if (ends_with(path, "/Error/Message"))
    keep_line(reply->message, sizeof reply->message, text);
}

/* Removes secrets: a server could repeat one in a text that is shown. */
static void scrub(const struct cleat__s3_role *role, struct sts_reply *reply) {
  const char *const secrets[] = {role->web_token, role->source ? role->source->secret_access_key : NULL,
                                 role->source ? role->source->session_token : NULL};
  for (size_t i = 0; i < sizeof secrets / sizeof secrets[0]; i++) {
    cleat__s3_keys_hide(secrets[i], reply->message);
    cleat__s3_keys_hide(secrets[i], reply->code);
  }
}

static bool is_transient(const char *code) {
  return strncmp(code, "Throttl", 7) == 0 || strcmp(code, "IDPCommunicationError") == 0 ||
         strcmp(code, "ServiceUnavailable") == 0;
}

static cleat_status refused(const char *place, const char *action, int http_status, const struct sts_reply *reply,
                            struct cleat_error *err) {
  (void)cleat__error_set(err, CLEAT_DENIED, "%s at %s: %s%s%s (HTTP %d)", action, place,
                         reply->code[0] != '\0' ? reply->code : "it was refused", reply->message[0] != '\0' ? ": " : "",
                         reply->message, http_status);
  err->http_status = http_status;
  err->retryable = is_transient(reply->code);
  snprintf(err->s3_code, sizeof err->s3_code, "%s", reply->code);
  cleat__error_hint(err, "check the role's trust policy, and that its ARN is right");
  return err->status;
}

cleat_status cleat__s3_sts_read(const struct cleat__s3_role *role, const char *place, const char *action,
                                int http_status, const char *text, size_t size, struct cleat__s3_credentials *keys,
                                struct cleat_error *err) {
  static const char *const roots[] = {"AssumeRoleResponse", "AssumeRoleWithWebIdentityResponse", "ErrorResponse",
                                      "Error", NULL};
  static const struct cleat__xml_form document = {"reply", roots, on_leaf};
  const struct cleat__s3_key_names names = {place, "AccessKeyId", "SecretAccessKey", "SessionToken", CLEAT_DENIED};
  struct cleat_error problem;
  struct sts_reply reply = {.expires_s = 0};
  bool found = false;
  cleat__error_clear(&problem);
  cleat_status status = cleat__xml_read(text, size, &document, &reply, &problem);
  scrub(role, &reply);
  if (status == CLEAT_NO_MEMORY)
    status = cleat__error_no_memory(err, "the credentials");
  else if (http_status >= 300 || (!status && reply.code[0] != '\0'))
    status = refused(place, action, http_status, &reply, err);
  else if (status)
    status = cleat__error_set(err, CLEAT_DENIED, "%s at %s: the answer is not a reply of STS", action, place);
  else
    status = cleat__s3_keys_set(&names, (struct cleat__s3_key_texts){reply.id, reply.secret, reply.token}, keys, &found,
                                err);
  if (!status && (!found || keys->session_token[0] == '\0'))
    status = cleat__error_set(err, CLEAT_DENIED, "%s at %s: the reply contains no keys", action, place);
  if (!status)
    keys->expires_s = reply.expires_s;
  explicit_bzero(&reply, sizeof reply);
  return status;
}

/* ---- The request ---- */

struct sts_request {
  struct cleat__s3_endpoint endpoint;
  char place[CLEAT__S3_HOST_MAX + 32]; /* "https://host:port" */
  const char *action;
  struct cleat__buffer form;
  char *lines[HEADERS_MAX];
  size_t line_count;
};

static cleat_status choose_endpoint(const struct cleat__s3_settings *settings, struct sts_request *request,
                                    struct cleat_error *err) {
  struct cleat__s3_endpoint *endpoint = &request->endpoint;
  char port[16] = "";
  cleat_status status = settings->sts_endpoint
                            ? cleat__s3_endpoint_parse(settings->sts_endpoint, "the STS endpoint", endpoint, err)
                            : cleat__s3_partition_endpoint(settings->region ? settings->region : "us-east-1",
                                                           CLEAT__S3_SERVICE_STS, settings->sts_variant, endpoint, err);
  if (status)
    return status;
  if (!cleat__s3_endpoint_default_port(endpoint))
    snprintf(port, sizeof port, ":%u", endpoint->port);
  snprintf(request->place, sizeof request->place, "%s://%s%s", endpoint->https ? "https" : "http", endpoint->host,
           port);
  return CLEAT_OK;
}

/* Everybody who can read a web identity token in transit can get the keys of the role. Requests for other roles are
 * signed and contain no secret. */
static cleat_status check_confidential(const struct cleat__s3_role *role, const struct sts_request *request,
                                       struct cleat_error *err) {
  const struct cleat__s3_endpoint *endpoint = &request->endpoint;
  if (!role->web_token || endpoint->https || cleat__s3_endpoint_is_loopback(endpoint))
    return CLEAT_OK;
  (void)cleat__error_set(err, CLEAT_INVALID, "the web identity token is not sent over plain HTTP to %s",
                         request->place);
  cleat__error_hint(err, "set AWS_ENDPOINT_URL_STS to an endpoint that begins with https://; "
                         "without it, AWS_ENDPOINT_URL applies to STS too");
  return err->status;
}

static cleat_status add_field(struct cleat__buffer *form, const char *name, const char *value) {
  if (!value)
    return CLEAT_OK;
  cleat_status status = cleat__buffer_print(form, "&%s=", name);
  return status ? status : cleat__s3_encode(form, value, strlen(value), false);
}

static cleat_status make_form(const struct cleat__s3_search *search, const struct cleat__s3_role *role,
                              struct sts_request *request, struct cleat_error *err) {
  struct cleat__buffer *form = &request->form;
  char session[32];
  snprintf(session, sizeof session, "cleat-%lld", (long long)search->clock->wall_s(search->clock->ctx));
  /* Allocated at once, because a growing buffer would leave copies of the token behind. */
  form->data = cleat__alloc(FORM_MAX + 1);
  if (!form->data)
    return cleat__error_no_memory(err, "the credentials");
  form->capacity = FORM_MAX + 1;
  cleat_status status = cleat__buffer_print(form, "Action=%s&Version=2011-06-15", request->action);
  if (!status)
    status = add_field(form, "RoleArn", role->arn);
  if (!status)
    status = add_field(form, "RoleSessionName", role->session_name ? role->session_name : session);
  if (!status)
    status = add_field(form, "ExternalId", role->external_id);
  if (!status)
    status = add_field(form, "DurationSeconds", role->duration_s);
  if (!status)
    status = add_field(form, "WebIdentityToken", role->web_token);
  if (status)
    return cleat__error_set(err, status, "%s: the request could not be built", request->action);
  return CLEAT_OK;
}

static bool add_line(struct sts_request *request, const char *name, const char *value) {
  char *line = cleat__strprintf("%s: %s", name, value);
  if (line)
    request->lines[request->line_count++] = line;
  return line != NULL;
}

static cleat_status sign(const struct cleat__s3_search *search, const struct cleat__s3_role *role, const char *path,
                         struct sts_request *request, struct cleat_error *err) {
  uint8_t digest[CLEAT__SHA256_BYTES];
  char hash[CLEAT__SHA256_HEX];
  char date[17];
  const char *host = strstr(request->place, "://") + 3;
  const char *token = role->source->session_token;
  struct cleat__s3_pair headers[] = {{"host", host}, {"content-type", "application/x-www-form-urlencoded"}};
  struct cleat__buffer authorization;
  cleat__buffer_init(&authorization, CLEAT__S3_AUTHORIZATION_MAX);
  cleat_status status = cleat__sha256(request->form.data, request->form.length, digest);
  if (status)
    return cleat__error_set(err, status, "SHA-256 of a body failed");
  cleat__hex(digest, sizeof digest, hash);
  struct cleat__s3_sign_request what = {.method = "POST",
                                        .path = path,
                                        .headers = headers,
                                        .header_count = 2,
                                        .payload_hash = hash,
                                        .credentials = role->source,
                                        .region = search->settings->region ? search->settings->region : "us-east-1",
                                        .service = "sts",
                                        .wall_s = cleat__s3_now_s(search->settings, search->clock)};
  status = cleat__s3_sign(&what, date, &authorization, err);
  if (!status && !(add_line(request, "x-amz-date", date) && add_line(request, "x-amz-content-sha256", hash) &&
                   (token[0] == '\0' || add_line(request, "x-amz-security-token", token)) &&
                   add_line(request, "Authorization", cleat__buffer_text(&authorization))))
    status = cleat__error_no_memory(err, "the credentials");
  cleat__buffer_clear(&authorization);
  return status;
}

static cleat_status send_request(const struct cleat__s3_search *search, const struct cleat__s3_role *role,
                                 struct sts_request *request, struct cleat__s3_answer **answer,
                                 struct cleat_error *err) {
  const char *path = request->endpoint.path[0] != '\0' ? request->endpoint.path : "/";
  char url[sizeof request->place + CLEAT__S3_ENDPOINT_PATH_MAX];
  snprintf(url, sizeof url, "%s%s", request->place, path);
  cleat_status status = CLEAT_OK;
  if (!add_line(request, "Content-Type", "application/x-www-form-urlencoded"))
    status = cleat__error_no_memory(err, "the credentials");
  if (!status && role->source)
    status = sign(search, role, path, request, err);
  if (status)
    return status;
  struct cleat__s3_question question = {.place = request->place,
                                        .method = "POST",
                                        .url = url,
                                        .headers = (const char *const *)request->lines,
                                        .header_count = request->line_count,
                                        .body = request->form.data,
                                        .ca_file = search->settings->ca_file,
                                        .connect_ms = CONNECT_MS,
                                        .limit_ms = LIMIT_MS,
                                        .tries = TRIES};
  return cleat__s3_ask(search, &question, answer, err);
}

static void clear_lines(struct sts_request *request) {
  for (size_t i = 0; i < request->line_count; i++)
    cleat__s3_wipe_text(request->lines[i]);
  request->line_count = 0;
}

/* Called after a signed request was refused. If the clock of the server differs, takes its time and returns true.
 * STS has one code for an old signature and for a wrong key, so the Date header decides. */
static bool learn_time(const struct cleat__s3_search *search, const struct cleat__s3_role *role,
                       const struct cleat__s3_answer *answer) {
  int64_t true_s = 0;
  if (!role->source || answer->http_status < 400 || !cleat__http_date(answer->date, &true_s))
    return false;
  int64_t off_s = true_s - cleat__s3_now_s(search->settings, search->clock);
  if (off_s <= SUSPECT_SKEW_S && off_s >= -SUSPECT_SKEW_S)
    return false;
  cleat__s3_learn_time(search->settings, search->clock, true_s);
  return true;
}

static cleat_status check_role(const struct cleat__s3_role *role, struct cleat_error *err) {
  if (!role->duration_s)
    return CLEAT_OK;
  size_t length = strlen(role->duration_s);
  long seconds =
      length <= 6 && strspn(role->duration_s, "0123456789") == length ? strtol(role->duration_s, NULL, 10) : 0;
  if (seconds < 900 || seconds > 43200)
    return cleat__error_set(err, CLEAT_INVALID, "duration_seconds of role %.200s is not a number from 900 to 43200",
                            role->arn);
  return CLEAT_OK;
}

cleat_status cleat__s3_sts_assume(const struct cleat__s3_search *search, const struct cleat__s3_role *role,
                                  struct cleat__s3_credentials *keys, struct cleat_error *err) {
  struct sts_request request = {.action = role->web_token ? "AssumeRoleWithWebIdentity" : "AssumeRole"};
  struct cleat__s3_answer *answer = NULL;
  cleat__buffer_init(&request.form, FORM_MAX);
  cleat_status status = check_role(role, err);
  if (!status)
    status = choose_endpoint(search->settings, &request, err);
  if (!status)
    status = check_confidential(role, &request, err);
  if (!status)
    status = make_form(search, role, &request, err);
  if (!status)
    status = send_request(search, role, &request, &answer, err);
  if (!status && learn_time(search, role, answer)) {
    cleat__s3_answer_free(answer);
    answer = NULL;
    clear_lines(&request);
    status = send_request(search, role, &request, &answer, err);
  }
  if (!status)
    status = cleat__s3_sts_read(role, request.place, request.action, answer->http_status, answer->text, answer->length,
                                keys, err);
  clear_lines(&request);
  if (request.form.data)
    explicit_bzero(request.form.data, request.form.capacity);
  cleat__buffer_clear(&request.form);
  cleat__s3_answer_free(answer);
  return status;
}
