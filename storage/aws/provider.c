/* aws/provider.c: the settings of the chain, read once, and helpers for several providers: a
 * token from a file, one bounded HTTP request. See aws/provider.h. No state. Memory that held a
 * secret is wiped before it is freed. */
#include "storage/aws/provider.h"

#include "base/mem.h"
#include "storage/aws/profile.h"
#include "storage/http/http.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define INSTANCE_ENDPOINT "http://169.254.169.254"
#define INSTANCE_ENDPOINT_V6 "http://[fd00:ec2::254]"
#define RETRY_MS 200 /* pause before the second try; it doubles each time */

static const struct cleat__s3_key_names OPTION_NAMES = {"the options", "access_key_id", "secret_access_key",
                                                        "session_token", CLEAT_INVALID};
static const struct cleat__s3_key_names ENVIRONMENT_NAMES = {
    "the environment", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", CLEAT_DENIED};

/* ---- Settings ---- */

/* An empty value counts as absent: people unset a variable like that. */
static const char *or_null(const char *text) {
  return text && text[0] != '\0' ? text : NULL;
}

static bool copy_text(const char *from, char **to) {
  *to = or_null(from) ? cleat__strdup(from) : NULL;
  return *to || !or_null(from);
}

static bool copy_variable(const char *name, char **to) {
  return copy_text(getenv(name), to);
}

static cleat_status read_keys(struct cleat__s3_settings *settings, const struct cleat__s3_chain_options *options,
                              struct cleat_error *err) {
  const struct cleat_client_options *client = options->client;
  const struct cleat__s3_key_texts given = {client->access_key_id, client->secret_access_key, client->session_token};
  cleat_status status = cleat__s3_keys_set(&OPTION_NAMES, given, &settings->options, &settings->has_options, err);
  if (!status && settings->has_options && options->anonymous)
    return cleat__error_set(err, CLEAT_INVALID, "the URL asks for anonymous requests, but the options contain keys");
  /* Variables that are not used are not checked. */
  if (status || settings->has_options || options->anonymous)
    return status;
  struct cleat_error ignored;
  bool needed = !settings->profile_in_url;
  const struct cleat__s3_key_texts variables = {getenv("AWS_ACCESS_KEY_ID"), getenv("AWS_SECRET_ACCESS_KEY"),
                                                getenv("AWS_SESSION_TOKEN")};
  status = cleat__s3_keys_set(&ENVIRONMENT_NAMES, variables, &settings->environment, &settings->has_environment,
                              needed ? err : &ignored);
  settings->has_environment = settings->has_environment && !status;
  return needed ? status : CLEAT_OK;
}

static bool read_places(struct cleat__s3_settings *settings) {
  const char *disabled = getenv("AWS_EC2_METADATA_DISABLED");
  const char *endpoint = or_null(getenv("AWS_EC2_METADATA_SERVICE_ENDPOINT"));
  const char *mode = getenv("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE");
  if (!endpoint)
    endpoint = mode && strcasecmp(mode, "IPv6") == 0 ? INSTANCE_ENDPOINT_V6 : INSTANCE_ENDPOINT;
  settings->instance_disabled = disabled && strcasecmp(disabled, "true") == 0;
  return copy_text(endpoint, &settings->instance_endpoint) &&
         copy_variable("AWS_WEB_IDENTITY_TOKEN_FILE", &settings->web_token_file) &&
         copy_variable("AWS_ROLE_ARN", &settings->role_arn) &&
         copy_variable("AWS_ROLE_SESSION_NAME", &settings->role_session_name) &&
         copy_variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", &settings->container_relative) &&
         copy_variable("AWS_CONTAINER_CREDENTIALS_FULL_URI", &settings->container_full) &&
         copy_variable("AWS_CONTAINER_AUTHORIZATION_TOKEN", &settings->container_token) &&
         copy_variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", &settings->container_token_file);
}

cleat_status cleat__s3_settings_init(struct cleat__s3_settings *settings, const struct cleat__s3_chain_options *options,
                                     struct cleat_error *err) {
  const char *profile = or_null(options->profile);
  const char *name = profile ? profile : or_null(getenv("AWS_PROFILE"));
  memset(settings, 0, sizeof *settings);
  settings->profile_in_url = profile != NULL;
  settings->profile_named = name != NULL;
  settings->anonymous = options->anonymous;
  settings->proxies = options->proxies;
  settings->skew_s = options->skew_s;
  settings->sts_variant = options->sts_variant;
  settings->process_ms = options->process_ms;
  settings->instance_ms = options->instance_ms > 0 ? options->instance_ms : CLEAT__S3_INSTANCE_MS;
  cleat_status status = read_keys(settings, options, err);
  if (status)
    return status;
  if (!copy_text(name ? name : "default", &settings->profile) || !copy_text(options->region, &settings->region) ||
      !copy_text(options->sts_endpoint, &settings->sts_endpoint) || !copy_text(options->ca_file, &settings->ca_file) ||
      !read_places(settings))
    return cleat__error_no_memory(err, "the credentials");
  status = cleat__s3_profile_path(CLEAT__S3_PROFILE_CREDENTIALS, &settings->credentials_path, err);
  return status ? status : cleat__s3_profile_path(CLEAT__S3_PROFILE_CONFIG, &settings->config_path, err);
}

void cleat__s3_settings_clear(struct cleat__s3_settings *settings) {
  char *const plain[] = {settings->profile,
                         settings->credentials_path,
                         settings->config_path,
                         settings->web_token_file,
                         settings->role_arn,
                         settings->role_session_name,
                         settings->container_relative,
                         settings->container_token_file,
                         settings->instance_endpoint,
                         settings->region,
                         settings->sts_endpoint,
                         settings->ca_file};
  for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++)
    cleat__free(plain[i]);
  cleat__s3_wipe_text(settings->container_full);
  cleat__s3_wipe_text(settings->container_token);
  explicit_bzero(settings, sizeof *settings);
}

/* ---- The time ---- */

int64_t cleat__s3_now_s(const struct cleat__s3_settings *settings, const struct cleat__clock *clock) {
  return clock->wall_s(clock->ctx) + (settings->skew_s != NULL ? (int64_t)atomic_load(settings->skew_s) : 0);
}

void cleat__s3_learn_time(const struct cleat__s3_settings *settings, const struct cleat__clock *clock, int64_t true_s) {
  if (settings->skew_s != NULL)
    atomic_store(settings->skew_s, true_s - clock->wall_s(clock->ctx));
}

/* ---- A token in a file ---- */

void cleat__s3_wipe_text(char *text) {
  if (text)
    explicit_bzero(text, strlen(text));
  cleat__free(text);
}

static bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Removes white space at the end. The rest must be one line. */
static cleat_status check_token(char *text, size_t size, const char *path, const char *what, struct cleat_error *err) {
  const char *fault = NULL;
  size_t length = size;
  while (length > 0 && is_blank(text[length - 1]))
    length--;
  text[length] = '\0';
  if (size > CLEAT__S3_TOKEN_FILE_MAX)
    fault = "it is over 20,000 bytes";
  else if (length == 0)
    fault = "it is empty";
  for (size_t i = 0; i < length && !fault; i++) {
    if ((unsigned char)text[i] <= 0x20 || (unsigned char)text[i] >= 0x7f)
      fault = "it contains a line end, a blank or a non-ASCII character";
  }
  if (!fault)
    return CLEAT_OK;
  return cleat__error_set(err, CLEAT_INVALID, "%s in %s: %s", what, path, fault);
}

/* Reads at most `size` bytes. -1 with errno on failure. */
static ssize_t read_whole(int fd, char *bytes, size_t size) {
  size_t used = 0;
  while (used < size) {
    ssize_t part = read(fd, bytes + used, size - used);
    if (part < 0 && errno == EINTR)
      continue;
    if (part < 0)
      return -1;
    if (part == 0)
      break;
    used += (size_t)part;
  }
  return (ssize_t)used;
}

cleat_status cleat__s3_token_read(const char *path, const char *what, char **token, struct cleat_error *err) {
  /* O_NONBLOCK: a pipe without a writer must not block the open. */
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0)
    return cleat__error_errno(err, errno, "open %s, which holds %s", path, what);
  size_t room = CLEAT__S3_TOKEN_FILE_MAX + 1; /* one extra byte detects a longer file */
  char *text = cleat__calloc(room + 1, 1);
  cleat_status status = CLEAT_OK;
  ssize_t got = text ? read_whole(fd, text, room) : 0;
  if (!text)
    status = cleat__error_no_memory(err, what);
  else if (got < 0)
    status = cleat__error_errno(err, errno, "read %s, which holds %s", path, what);
  else
    status = check_token(text, (size_t)got, path, what, err);
  close(fd);
  if (!status) {
    *token = text;
    return CLEAT_OK;
  }
  if (text)
    explicit_bzero(text, room);
  cleat__free(text);
  return status;
}

/* ---- One HTTP question ---- */

void cleat__s3_answer_free(struct cleat__s3_answer *answer) {
  if (answer)
    explicit_bzero(answer, sizeof *answer);
  cleat__free(answer);
}

static cleat_status status_of(enum cleat__transport transport) {
  switch (transport) {
  case CLEAT__TRANSPORT_TIMEOUT:
    return CLEAT_TIMEOUT;
  case CLEAT__TRANSPORT_CANCELLED:
    return CLEAT_CANCELLED;
  case CLEAT__TRANSPORT_NO_MEMORY:
    return CLEAT_NO_MEMORY;
  case CLEAT__TRANSPORT_CA:
    return CLEAT_INVALID;
  case CLEAT__TRANSPORT_MALFORMED:
  case CLEAT__TRANSPORT_INTERNAL:
  case CLEAT__TRANSPORT_PROXY:
    return CLEAT_DENIED;
  default:
    return CLEAT_NETWORK;
  }
}

/* Fails unless the reply is 2xx or 4xx. The message quotes nothing of the body, which may be
 * anything. */
static cleat_status judge(const struct cleat__s3_question *question, enum cleat__transport transport,
                          const struct cleat__http_reply *reply, struct cleat_error *err) {
  if (transport != CLEAT__TRANSPORT_OK) {
    (void)cleat__error_set(err, status_of(transport), "asking %s for keys: %s", question->place,
                           reply->message[0] != '\0' ? reply->message : "it failed");
    err->retryable =
        err->status == CLEAT_TIMEOUT || (err->status == CLEAT_NETWORK && transport != CLEAT__TRANSPORT_TLS);
    return err->status;
  }
  if (reply->status >= 200 && reply->status < 300)
    return CLEAT_OK;
  if (reply->status >= 400 && reply->status < 500 && reply->status != 429)
    return CLEAT_OK;
  bool redirect = reply->status >= 300 && reply->status < 400;
  (void)cleat__error_set(err, redirect ? CLEAT_DENIED : CLEAT_STORE, "asking %s for keys: it answered HTTP %d%s",
                         question->place, reply->status, redirect ? ", and redirects are not followed" : "");
  err->http_status = reply->status;
  err->retryable = !redirect;
  return err->status;
}

static cleat_status ask_once(const struct cleat__s3_search *search, const struct cleat__s3_question *question,
                             struct cleat__http *http, struct cleat__s3_answer *answer, struct cleat_error *err) {
  struct cleat__span body = {NULL, 0};
  if (question->body) {
    memcpy(&body.base, &question->body, sizeof body.base); /* a span is used in both directions */
    body.length = strlen(question->body);
  }
  struct cleat__span into = {answer->text, CLEAT__S3_ANSWER_MAX};
  struct cleat__http_request request = {.method = question->method,
                                        .url = question->url,
                                        .headers = question->headers,
                                        .header_count = question->header_count,
                                        .has_body = question->body != NULL,
                                        .body = cleat__spans(&body, 1),
                                        /* so that there are no copies that are not wiped */
                                        .into_spans = true,
                                        .into = cleat__spans(&into, 1),
                                        .limit_ms = question->limit_ms,
                                        .cancel = search->cancel};
  struct cleat__http_reply reply;
  cleat__http_reply_init(&reply);
  enum cleat__transport transport = cleat__http_send(http, &request, &reply);
  cleat_status status = judge(question, transport, &reply, err);
  if (question->reached != NULL && reply.sent)
    *question->reached = true;
  if (!status) {
    bool success = reply.status < 300;
    answer->http_status = reply.status;
    memcpy(answer->date, reply.date, sizeof answer->date);
    answer->length = success ? (size_t)reply.body_bytes : reply.text.length;
    if (!success && answer->length > 0)
      memcpy(answer->text, reply.text.data, answer->length);
    answer->text[answer->length] = '\0';
  }
  cleat__http_reply_clear(&reply);
  return status;
}

/* Waits before the next try. False: cancelled. */
static bool wait_before(const struct cleat__s3_search *search, unsigned tried) {
  return search->clock->wait_ms(search->clock->ctx, (int64_t)RETRY_MS << (tried - 1), search->cancel);
}

cleat_status cleat__s3_ask(const struct cleat__s3_search *search, const struct cleat__s3_question *question,
                           struct cleat__s3_answer **answer, struct cleat_error *err) {
  struct cleat__http *http = NULL;
  struct cleat__http_options options = {.ca_file = question->ca_file,
                                        .connect_ms = question->connect_ms,
                                        /* one request in hours: do not keep the connection */
                                        .keep_ms = -1,
                                        .proxies = question->direct ? NULL : search->settings->proxies};
  struct cleat__s3_answer *made = cleat__calloc(1, sizeof *made);
  cleat_status status = made ? cleat__http_new(&options, &http, err) : cleat__error_no_memory(err, "the credentials");
  for (unsigned tried = 0; !status; tried++) {
    if (tried > 0 && !wait_before(search, tried)) {
      status = cleat__error_set(err, CLEAT_CANCELLED, "cancelled");
      break;
    }
    status = ask_once(search, question, http, made, err);
    if (!status)
      break;
    if (err->retryable && tried + 1 < question->tries)
      status = CLEAT_OK;
  }
  cleat__http_free(http);
  if (status)
    cleat__s3_answer_free(made);
  else
    *answer = made;
  return status;
}
