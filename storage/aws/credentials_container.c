/* aws/credentials_container.c: keys from the endpoint that ECS and EKS Pod Identity provide for
 * a container. See aws/provider.h.
 *
 * Over plain HTTP, only this machine and the link-local addresses of AWS are asked. A proxy is
 * never used, because everybody on the path could read the keys. Source: AWS SDKs and Tools
 * Reference Guide, "Container credential provider". */
#include "storage/aws/provider.h"

#include "base/mem.h"
#include "storage/http/endpoint.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <stdio.h>
#include <string.h>

#define RELATIVE_HOST "http://169.254.170.2"
#define CONNECT_MS 1000
#define LIMIT_MS 5000
#define TRIES 3
#define PLACE_MAX 320

static cleat_status refuse(const char *why, struct cleat_error *err) {
  (void)cleat__error_set(err, CLEAT_INVALID, "AWS_CONTAINER_CREDENTIALS_FULL_URI: %s", why);
  cleat__error_hint(err, "plain http:// is allowed only for loopback, 169.254.170.2, "
                         "169.254.170.23 and [fd00:ec2::23]; other hosts need https://");
  return err->status;
}

/* Whether keys may be requested from this host without TLS. */
static bool is_near(const char *host) {
  static const char *const known[] = {"169.254.170.2", "169.254.170.23"};
  struct cleat__s3_endpoint endpoint = {0};
  struct in6_addr address, pods;
  char bare[INET6_ADDRSTRLEN + 1] = "";
  snprintf(endpoint.host, sizeof endpoint.host, "%s", host);
  if (host[0] != '[')
    return strcmp(host, known[0]) == 0 || strcmp(host, known[1]) == 0 || cleat__s3_endpoint_is_loopback(&endpoint);
  snprintf(bare, sizeof bare, "%.*s", (int)strcspn(host + 1, "]"), host + 1);
  return inet_pton(AF_INET6, bare, &address) == 1 &&
         (IN6_IS_ADDR_LOOPBACK(&address) ||
          (inet_pton(AF_INET6, "fd00:ec2::23", &pods) == 1 && memcmp(&address, &pods, sizeof pods) == 0));
}

/* Checks the parts of the URL. libcurl will connect to exactly this host. */
static cleat_status check_parts(CURLU *parts, struct cleat_error *err) {
  char *scheme = NULL;
  char *host = NULL;
  char *user = NULL;
  cleat_status status = CLEAT_OK;
  if (curl_url_get(parts, CURLUPART_USER, &user, 0) == CURLUE_OK)
    status = refuse("it holds a user name", err);
  else if (curl_url_get(parts, CURLUPART_SCHEME, &scheme, 0) != CURLUE_OK ||
           curl_url_get(parts, CURLUPART_HOST, &host, 0) != CURLUE_OK)
    status = refuse("it has no host", err);
  else if (strcmp(scheme, "https") != 0 && strcmp(scheme, "http") != 0)
    status = refuse("it is neither http:// nor https://", err);
  else if (strcmp(scheme, "http") == 0 && !is_near(host))
    status = refuse("keys are not requested from another machine over plain HTTP", err);
  curl_free(scheme);
  curl_free(host);
  curl_free(user);
  return status;
}

/* The parser of libcurl splits the URL, so that the checked host is the one that libcurl connects to. */
static cleat_status full_url(const char *text, char **url, struct cleat_error *err) {
  CURLU *parts = cleat__fault_point() ? NULL : curl_url();
  char *whole = NULL;
  if (!parts)
    return cleat__error_no_memory(err, "the container endpoint");
  cleat_status status = CLEAT_OK;
  if (curl_url_set(parts, CURLUPART_URL, text, CURLU_DISALLOW_USER) != CURLUE_OK)
    status = refuse("it is not a valid URL", err);
  if (!status)
    status = check_parts(parts, err);
  if (!status) {
    if (curl_url_get(parts, CURLUPART_URL, &whole, 0) == CURLUE_OK)
      *url = cleat__strdup(whole);
    if (!*url)
      status = cleat__error_no_memory(err, "the container endpoint");
  }
  curl_free(whole);
  curl_url_cleanup(parts);
  return status;
}

/* Whether the text is printable ASCII. Blanks are allowed for tokens such as "Bearer abc". */
static bool is_plain(const char *text, bool blanks) {
  for (; *text != '\0'; text++) {
    if ((unsigned char)*text < 0x20 || (unsigned char)*text >= 0x7f || (*text == ' ' && !blanks))
      return false;
  }
  return true;
}

cleat_status cleat__s3_container_url(const struct cleat__s3_settings *settings, char **url, struct cleat_error *err) {
  const char *relative = settings->container_relative;
  *url = NULL;
  if (relative && (relative[0] != '/' || !is_plain(relative, false)))
    return cleat__error_set(err, CLEAT_INVALID, "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI is not an absolute path");
  if (relative) {
    *url = cleat__strprintf(RELATIVE_HOST "%s", relative);
    return *url ? CLEAT_OK : cleat__error_no_memory(err, "the container endpoint");
  }
  if (!settings->container_full)
    return CLEAT_OK;
  if (!is_plain(settings->container_full, false))
    return refuse("it contains a blank, a line end or a non-ASCII character", err);
  return full_url(settings->container_full, url, err);
}

/* Makes "Authorization: <token>", owned. NULL with CLEAT_OK if no token is set. The file comes before the variable,
 * because it is kept up to date. */
static cleat_status make_header(const struct cleat__s3_settings *settings, char **header, struct cleat_error *err) {
  char *token = NULL;
  *header = NULL;
  if (settings->container_token_file) {
    cleat_status status =
        cleat__s3_token_read(settings->container_token_file, "the container authorization token", &token, err);
    if (status)
      return status;
  } else if (!settings->container_token) {
    return CLEAT_OK;
  } else if (!is_plain(settings->container_token, true)) {
    return cleat__error_set(err, CLEAT_INVALID,
                            "AWS_CONTAINER_AUTHORIZATION_TOKEN contains a line end, another "
                            "control character or a non-ASCII character");
  }
  *header = cleat__strprintf("Authorization: %s", token ? token : settings->container_token);
  cleat__s3_wipe_text(token);
  return *header ? CLEAT_OK : cleat__error_no_memory(err, "the credentials");
}

static cleat_status read_answer(const struct cleat__s3_answer *answer, const char *place,
                                struct cleat__s3_credentials *keys, struct cleat_error *err) {
  const struct cleat__s3_keys_document document = {.place = place, .token_name = "Token"};
  if (answer->http_status < 300)
    return cleat__s3_keys_json(answer->text, answer->length, &document, keys, err);
  (void)cleat__error_set(err, CLEAT_DENIED, "asking %s for keys: it answered HTTP %d", place, answer->http_status);
  err->http_status = answer->http_status;
  cleat__error_hint(err, "check the role of the task or pod, and AWS_CONTAINER_AUTHORIZATION_TOKEN");
  return err->status;
}

cleat_status cleat__s3_from_container(const struct cleat__s3_search *search, struct cleat__s3_credentials *keys,
                                      bool *found, struct cleat_error *err) {
  struct cleat__s3_answer *answer = NULL;
  char *url = NULL;
  char *header = NULL;
  char place[PLACE_MAX];
  *found = false;
  cleat_status status = cleat__s3_container_url(search->settings, &url, err);
  if (status || !url)
    return status;
  size_t host = strcspn(strstr(url, "://") + 3, "/?#");
  snprintf(place, sizeof place, "the container endpoint %.*s", (int)((size_t)(strstr(url, "://") + 3 - url) + host),
           url);
  status = make_header(search->settings, &header, err);
  const char *const headers[] = {header};
  struct cleat__s3_question question = {.place = place,
                                        .method = "GET",
                                        .url = url,
                                        .headers = headers,
                                        .header_count = header ? 1 : 0,
                                        .direct = true,
                                        .ca_file = search->settings->ca_file,
                                        .connect_ms = CONNECT_MS,
                                        .limit_ms = LIMIT_MS,
                                        .tries = TRIES};
  if (!status)
    status = cleat__s3_ask(search, &question, &answer, err);
  if (!status)
    status = read_answer(answer, place, keys, err);
  cleat__s3_answer_free(answer);
  cleat__s3_wipe_text(header);
  cleat__s3_wipe_text(url);
  *found = !status;
  return status;
}
