/* fuzz_url.c: the URL of an s3:// store with its options, and the URL of an endpoint. Input: what follows
 * "s3://" in one line, then an endpoint.
 *
 * Reads no environment and no AWS file: both are emptied before the first input. A file that the URL
 * names (ca_file, sse_c_key_file) may be opened, for reading alone. */
#include "api/cleat.h"
#include "storage/http/endpoint.h"
#include "storage/s3/config.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

static void empty_environment(void) {
  (void)clearenv();
  (void)setenv("AWS_CONFIG_FILE", "/dev/null", 1);
  (void)setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null", 1);
}

/* Nothing of the query, and nothing that could end a header or a line. */
static void check_texts(const struct cleat__s3_config *config) {
  FUZZ_PROMISE(strncmp(config->display, "s3://", 5) == 0);
  FUZZ_PROMISE(strchr(config->display, '?') == NULL && strchr(config->endpoint, '@') == NULL);
  FUZZ_PROMISE(strncmp(config->display + 5, config->bucket, strlen(config->bucket)) == 0);
  FUZZ_PROMISE(fuzz_is_line(config->display));
  FUZZ_PROMISE(fuzz_is_graph(config->host_header) && fuzz_is_graph(config->base_url));
  FUZZ_PROMISE(fuzz_is_graph(config->base_path) && fuzz_is_graph(config->region));
  FUZZ_PROMISE(strlen(config->prefix) <= CLEAT__S3_PREFIX_MAX);
  for (size_t i = 0; i < CLEAT__S3_OPTION_HEADERS; i++)
    FUZZ_PROMISE(config->options.values[i] == NULL || fuzz_is_line(config->options.values[i]));
  FUZZ_PROMISE(config->options.user_agent == NULL || fuzz_is_line(config->options.user_agent));
}

/* The endpoint that was made is an endpoint, and stays what it is. */
static void check_endpoint_again(const char *text) {
  struct cleat__s3_endpoint endpoint;
  struct cleat_error err;
  FUZZ_PROMISE(cleat__s3_endpoint_parse(text, "the test", &endpoint, &err) == CLEAT_OK);
}

/* The displayed URL leads to the same place, at the same endpoint. */
static void check_again(const struct cleat__s3_config *config) {
  struct cleat_client_options options = CLEAT_CLIENT_OPTIONS_INIT;
  struct cleat__s3_config again = {0};
  struct cleat_error err;
  options.endpoint = config->aws ? NULL : config->endpoint;
  FUZZ_PROMISE(cleat__s3_config_init(&again, config->display + 5, &options, &err) == CLEAT_OK);
  FUZZ_PROMISE(strcmp(again.bucket, config->bucket) == 0);
  FUZZ_PROMISE(strcmp(again.prefix, config->prefix) == 0);
  FUZZ_PROMISE(strcmp(again.display, config->display) == 0);
  cleat__s3_config_clear(&again);
}

static void open_url(const char *location) {
  const struct cleat_client_options options = CLEAT_CLIENT_OPTIONS_INIT;
  struct cleat__s3_config config = {0};
  struct cleat_error err;
  cleat__error_clear(&err);
  cleat_status status = cleat__s3_config_init(&config, location, &options, &err);
  if (status != CLEAT_OK) {
    fuzz_check_error(status, &err);
    FUZZ_PROMISE(config.bucket == NULL);
    return;
  }
  check_texts(&config);
  check_endpoint_again(config.endpoint);
  check_again(&config);
  cleat__s3_config_clear(&config);
}

static void open_endpoint(const char *text) {
  struct cleat__s3_endpoint endpoint;
  struct cleat_error err;
  cleat__error_clear(&err);
  cleat_status status = cleat__s3_endpoint_parse(text, "the test", &endpoint, &err);
  if (status != CLEAT_OK) {
    fuzz_check_error(status, &err);
    FUZZ_PROMISE(strchr(err.message, '@') == NULL); /* what stands before it may be a password */
    return;
  }
  FUZZ_PROMISE(endpoint.port >= 1 && endpoint.port <= 65535);
  FUZZ_PROMISE(endpoint.host[0] != '\0' && fuzz_is_graph(endpoint.host));
  FUZZ_PROMISE(strpbrk(endpoint.host, "/@?#%\\") == NULL);
  FUZZ_PROMISE(endpoint.path[0] == '\0' || endpoint.path[0] == '/');
  FUZZ_PROMISE(fuzz_is_graph(endpoint.path) && strstr(endpoint.path, "/../") == NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static bool started;
  if (!started)
    empty_environment();
  started = true;
  struct fuzz_input input = fuzz_input(data, size);
  char *location = fuzz_line(&input);
  char *endpoint = fuzz_text(&input);
  open_url(location);
  open_endpoint(endpoint);
  free(endpoint);
  free(location);
  return 0;
}
