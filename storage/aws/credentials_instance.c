/* aws/credentials_instance.c: keys from the instance metadata of EC2, version 2: a token by PUT, the name of the
 * role, its keys. See aws/provider.h.
 *
 * Most machines have no such service. If nothing accepts the connection, that is no error and costs about 1.5 s.
 * Version 1 works without a token and is not used. A server that accepts the request and does not answer is an
 * error. After keys have come from here once, a missing service is an error too. A proxy is never used. Source:
 * Amazon EC2 User Guide, "Use the Instance Metadata Service". */
#include "storage/aws/provider.h"

#include "base/mem.h"
#include "storage/http/endpoint.h"

#include <stdio.h>
#include <string.h>

/* Time limit to connect. Lower: if a packet is lost, which is sent again after 1 s, the service is not found.
 * Higher: every start on other machines waits longer. */
#define CONNECT_MS 1500
#define TRIES 3
#define TOKEN_MAX 1024
#define ROLE_MAX 128
#define ROLE_PATH "/latest/meta-data/iam/security-credentials/"
#define TTL_HEADER "X-aws-ec2-metadata-token-ttl-seconds: 21600"
#define TOKEN_HEADER "X-aws-ec2-metadata-token: "

struct instance {
  const struct cleat__s3_search *search;
  char place[CLEAT__S3_HOST_MAX + 64];
  char header[sizeof TOKEN_HEADER + TOKEN_MAX]; /* header with the token */
  char role[ROLE_MAX + 1];
};

/* Sends one request. `reached` is for the token request, which shows whether there is a service. */
static cleat_status ask(const struct instance *instance, const char *method, const char *path, const char *header,
                        bool *reached, struct cleat__s3_answer **answer, struct cleat_error *err) {
  bool probe = reached != NULL && !instance->search->known;
  const char *base = instance->search->settings->instance_endpoint;
  size_t length = strlen(base);
  while (length > 0 && base[length - 1] == '/')
    length--;
  char *url = cleat__strprintf("%.*s%s", (int)length, base, path);
  if (!url)
    return cleat__error_no_memory(err, "the credentials");
  const char *const headers[] = {header};
  struct cleat__s3_question question = {.place = instance->place,
                                        .method = method,
                                        .url = url,
                                        .headers = headers,
                                        .header_count = 1,
                                        .body = reached != NULL ? "" : NULL,
                                        .direct = true,
                                        .connect_ms = CONNECT_MS,
                                        .limit_ms = instance->search->settings->instance_ms,
                                        .tries = probe ? 1 : TRIES,
                                        .reached = reached};
  cleat_status status = cleat__s3_ask(instance->search, &question, answer, err);
  cleat__free(url);
  return status;
}

static cleat_status strange(const struct instance *instance, const char *what, int http_status,
                            struct cleat_error *err) {
  (void)cleat__error_set(err, CLEAT_DENIED, "asking %s for %s: the answer contains none (HTTP %d)", instance->place,
                         what, http_status);
  err->http_status = http_status;
  cleat__error_hint(err, "AWS_EC2_METADATA_DISABLED=true leaves the instance metadata out");
  return err->status;
}

/* Gets the first line of the answer as one word of at most `size` - 1 bytes. */
static bool take_word(const struct cleat__s3_answer *answer, char *word, size_t size) {
  size_t length = strcspn(answer->text, "\r\n");
  if (length == 0 || length >= size)
    return false;
  for (size_t i = 0; i < length; i++) {
    /* Characters of an HTML page that no token or role name has. */
    if (answer->text[i] <= 0x20 || answer->text[i] >= 0x7f || strchr("<>\"{}/?#%", answer->text[i]))
      return false;
  }
  memcpy(word, answer->text, length);
  word[length] = '\0';
  return true;
}

/* A token may contain '/' and the like, but no blank and no '<'. */
static bool is_token(const struct cleat__s3_answer *answer) {
  if (answer->length == 0 || answer->length > TOKEN_MAX)
    return false;
  for (size_t i = 0; i < answer->length; i++) {
    if (answer->text[i] <= 0x20 || answer->text[i] >= 0x7f || answer->text[i] == '<')
      return false;
  }
  return true;
}

/* Gets the token. *there is false if there are no instance metadata here. */
static cleat_status get_token(struct instance *instance, bool *there, struct cleat_error *err) {
  struct cleat__s3_answer *answer = NULL;
  struct cleat_error problem;
  bool reached = false;
  cleat_status status = ask(instance, "PUT", "/latest/api/token", TTL_HEADER, &reached, &answer, &problem);
  *there = !status && answer->http_status < 300;
  bool silent = status == CLEAT_NETWORK || status == CLEAT_TIMEOUT;
  if (silent && reached)
    cleat__error_hint(&problem, "in a container its answers may need a higher hop limit; "
                                "AWS_EC2_METADATA_DISABLED=true leaves the instance metadata out");
  if (silent && !reached && !instance->search->known)
    status = CLEAT_OK;
  else if (status)
    *err = problem;
  else if (*there && !is_token(answer))
    status = strange(instance, "a token", answer->http_status, err);
  else if (*there)
    snprintf(instance->header, sizeof instance->header, TOKEN_HEADER "%.*s", TOKEN_MAX, answer->text);
  cleat__s3_answer_free(answer);
  return status;
}

/* Gets the name of the role. *there is false if the machine has none. */
static cleat_status get_role(struct instance *instance, bool *there, struct cleat_error *err) {
  struct cleat__s3_answer *answer = NULL;
  cleat_status status = ask(instance, "GET", ROLE_PATH, instance->header, NULL, &answer, err);
  if (status)
    return status;
  *there = answer->http_status != 404;
  if (*there && (answer->http_status >= 300 || !take_word(answer, instance->role, sizeof instance->role)))
    status = strange(instance, "the name of its role", answer->http_status, err);
  cleat__s3_answer_free(answer);
  return status;
}

static cleat_status get_keys(const struct instance *instance, struct cleat__s3_credentials *keys,
                             struct cleat_error *err) {
  const struct cleat__s3_keys_document document = {.place = instance->place, .token_name = "Token", .has_code = true};
  struct cleat__s3_answer *answer = NULL;
  char path[sizeof ROLE_PATH + ROLE_MAX];
  snprintf(path, sizeof path, ROLE_PATH "%s", instance->role);
  cleat_status status = ask(instance, "GET", path, instance->header, NULL, &answer, err);
  if (status)
    return status;
  status = answer->http_status < 300 ? cleat__s3_keys_json(answer->text, answer->length, &document, keys, err)
                                     : strange(instance, "keys", answer->http_status, err);
  cleat__s3_answer_free(answer);
  return status;
}

cleat_status cleat__s3_from_instance(const struct cleat__s3_search *search, struct cleat__s3_credentials *keys,
                                     bool *found, struct cleat_error *err) {
  struct instance instance = {.search = search};
  struct cleat__s3_endpoint endpoint;
  bool there = false;
  *found = false;
  if (search->settings->instance_disabled)
    return CLEAT_OK;
  cleat_status status = cleat__s3_endpoint_parse(search->settings->instance_endpoint,
                                                 "AWS_EC2_METADATA_SERVICE_ENDPOINT", &endpoint, err);
  if (status)
    return status;
  snprintf(instance.place, sizeof instance.place, "the instance metadata at %s", endpoint.host);
  status = get_token(&instance, &there, err);
  if (!status && there)
    status = get_role(&instance, &there, err);
  if (!status && there)
    status = get_keys(&instance, keys, err);
  *found = !status && there;
  explicit_bzero(&instance, sizeof instance);
  return status;
}
