/* s3/config.c: the settings of an s3:// store. See s3/config.h. Reads the environment and the config
 * file, once, in cleat__s3_config_init; keeps no state of its own. */
#include "storage/s3/config.h"

#include "base/mem.h"
#include "storage/aws/profile.h"
#include "storage/http/encode.h"
#include "storage/http/endpoint.h"
#include "storage/s3/bucket.h"
#include "storage/s3/location.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define DEFAULT_REGION "us-east-1"

/* All sources of settings, while they are merged. */
struct sources {
  const struct cleat_client_options *options;
  struct cleat__s3_location location;
  char *config_path;
  struct cleat__s3_profile profile;
  struct cleat__s3_profile services;
};

/* Spelled out, so that the static analyzer sees that it is not CLEAT_OK. */
static cleat_status no_memory(struct cleat_error *err, const char *what) {
  (void)cleat__error_no_memory(err, what);
  return CLEAT_NO_MEMORY;
}

static const char *environment(const char *name) {
  const char *value = getenv(name);
  return value && value[0] != '\0' ? value : NULL;
}

/* Uses the candidate unless a value was found before. */
static void consider(struct cleat__s3_choice *choice, const char *value, const char *source) {
  if (!choice->value && value && value[0] != '\0')
    *choice = (struct cleat__s3_choice){value, source};
}

static const char *from_profile(const struct sources *sources, const char *key) {
  return cleat__s3_profile_get(&sources->profile, key);
}

/* Sets the fields that depend on bucket and prefix. */
static cleat_status set_names(struct cleat__s3_config *config, struct cleat_error *err) {
  const char *slash = config->prefix[0] != '\0' ? "/" : "";
  config->root = cleat__strprintf("%s%s", config->prefix, slash);
  config->display = cleat__strprintf("s3://%s%s%s", config->bucket, slash, config->prefix);
  return config->root && config->display ? CLEAT_OK : no_memory(err, "the s3:// URL");
}

static cleat_status take_location(struct cleat__s3_config *config, struct sources *sources, const char *text,
                                  struct cleat_error *err) {
  struct cleat__s3_location *location = &sources->location;
  cleat_status status = cleat__s3_location_read(location, text, err);
  if (status)
    return status;
  config->bucket = location->bucket;
  config->prefix = location->prefix;
  location->bucket = location->prefix = NULL;
  return set_names(config, err);
}

/* ---- The config file ---- */

static cleat_status read_config_file(struct sources *sources, const char *profile, struct cleat_error *err) {
  cleat_status status = cleat__s3_profile_path(CLEAT__S3_PROFILE_CONFIG, &sources->config_path, err);
  if (status || !sources->config_path)
    return status;
  const char *name = profile ? profile : environment("AWS_PROFILE");
  status = cleat__s3_profile_load(sources->config_path, CLEAT__S3_PROFILE_CONFIG, name ? name : "default",
                                  &sources->profile, NULL, err);
  const char *services = status ? NULL : from_profile(sources, "services");
  if (!services || services[0] == '\0')
    return status;
  return cleat__s3_profile_load(sources->config_path, CLEAT__S3_PROFILE_SERVICES, services, &sources->services, NULL,
                                err);
}

/* ---- Choices ---- */

static cleat_status unknown_value(struct cleat__s3_choice choice, const char *known, struct cleat_error *err) {
  return cleat__error_set(err, CLEAT_INVALID, "'%.100s' (from %s) is not one of %s", choice.value, choice.source,
                          known);
}

/* Accepts the names of AWS and those of other stores ("garage", "us_1"). The name becomes part of a host name. */
static bool is_region(const char *text) {
  size_t length = strlen(text);
  return length > 0 && length <= CLEAT__S3_REGION_MAX &&
         strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") == length;
}

/* "us-gov-west-1-fips" and "fips-us-gov-west-1" are older ways to ask for FIPS. Leaves only the region, and returns
 * true. */
static bool take_fips_region(char *region) {
  size_t length = strlen(region);
  if (length > 5 && strncmp(region, "fips-", 5) == 0)
    memmove(region, region + 5, length - 4);
  else if (length > 5 && strcmp(region + length - 5, "-fips") == 0)
    region[length - 5] = '\0';
  else
    return false;
  return true;
}

static cleat_status choose_region(struct cleat__s3_config *config, const struct sources *sources,
                                  struct cleat_error *err) {
  struct cleat__s3_choice choice = {0};
  consider(&choice, sources->options->region, "the options");
  consider(&choice, sources->location.values[CLEAT__SET_REGION], "the URL");
  consider(&choice, environment("AWS_REGION"), "AWS_REGION");
  consider(&choice, environment("AWS_DEFAULT_REGION"), "AWS_DEFAULT_REGION");
  consider(&choice, from_profile(sources, "region"), "the AWS config file");
  consider(&choice, DEFAULT_REGION, "the default");
  if (!is_region(choice.value))
    return cleat__error_set(err, CLEAT_INVALID, "region '%.100s' (from %s) is not a valid name of a region",
                            choice.value, choice.source);
  config->region = cleat__strdup(choice.value);
  if (!config->region)
    return no_memory(err, "the region");
  if (take_fips_region(config->region))
    config->s3_variant.fips = config->sts_variant.fips = true;
  return CLEAT_OK;
}

/* The environment comes first. Values other than "true" are false and no error, as in the tools of AWS. */
static bool is_switched_on(const struct sources *sources, const char *variable, const char *key) {
  struct cleat__s3_choice choice = {0};
  consider(&choice, environment(variable), variable);
  consider(&choice, from_profile(sources, key), "the AWS config file");
  return choice.value && strcasecmp(choice.value, "true") == 0;
}

/* Chooses the kind of AWS endpoints. A configured endpoint is not changed. */
static void choose_variants(struct cleat__s3_config *config, const struct sources *sources) {
  bool fips = is_switched_on(sources, "AWS_USE_FIPS_ENDPOINT", "use_fips_endpoint");
  bool dualstack = is_switched_on(sources, "AWS_USE_DUALSTACK_ENDPOINT", "use_dualstack_endpoint");
  /* An older setting, for S3 only. It comes before the others. */
  const char *s3_dualstack = from_profile(sources, "s3.use_dualstack_endpoint");
  config->s3_variant.fips |= fips;
  config->sts_variant.fips |= fips;
  config->s3_variant.dualstack = dualstack || (s3_dualstack && strcasecmp(s3_dualstack, "true") == 0);
  config->sts_variant.dualstack = dualstack;
}

static cleat_status choose_endpoint(struct cleat__s3_config *config, const struct sources *sources,
                                    struct cleat__s3_endpoint *endpoint, struct cleat_error *err) {
  struct cleat__s3_choice choice = {0};
  consider(&choice, sources->options->endpoint, "the options");
  consider(&choice, sources->location.values[CLEAT__SET_ENDPOINT], "the URL");
  const char *ignore = environment("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS");
  if (!ignore || strcmp(ignore, "true") != 0) {
    consider(&choice, environment("AWS_ENDPOINT_URL_S3"), "AWS_ENDPOINT_URL_S3");
    consider(&choice, environment("AWS_ENDPOINT_URL"), "AWS_ENDPOINT_URL");
    consider(&choice, cleat__s3_profile_get(&sources->services, "s3.endpoint_url"), "the AWS config file");
    consider(&choice, from_profile(sources, "endpoint_url"), "the AWS config file");
  }
  config->aws = choice.value == NULL;
  if (choice.value)
    return cleat__s3_endpoint_parse(choice.value, choice.source, endpoint, err);
  return cleat__s3_partition_endpoint(config->region, CLEAT__S3_SERVICE_S3, config->s3_variant, endpoint, err);
}

static cleat_status choose_style(struct cleat__s3_config *config, const struct sources *sources,
                                 const struct cleat__s3_endpoint *endpoint, struct cleat_error *err) {
  static const char *const names[] = {"auto", "path", "virtual"};
  struct cleat__s3_choice choice = {0};
  enum cleat_addressing asked = sources->options->addressing;
  if (asked != CLEAT_ADDRESSING_AUTO && asked != CLEAT_ADDRESSING_PATH && asked != CLEAT_ADDRESSING_VIRTUAL)
    return cleat__error_set(err, CLEAT_INVALID, "option addressing is %d, which is not in enum cleat_addressing",
                            (int)asked);
  consider(&choice, asked == CLEAT_ADDRESSING_AUTO ? NULL : names[asked], "the options");
  consider(&choice, sources->location.values[CLEAT__SET_STYLE], "the URL");
  consider(&choice, from_profile(sources, "s3.addressing_style"), "the AWS config file");
  consider(&choice, "auto", "the default");
  /* A name that cannot be part of a host goes into the path. A wildcard certificate does not cover dots. */
  if (strcmp(choice.value, "auto") == 0)
    config->virtual_host = cleat__s3_partition_is_aws(endpoint) && cleat__s3_bucket_is_label(config->bucket, false);
  else if (strcmp(choice.value, "path") == 0)
    config->virtual_host = false;
  else if (strcmp(choice.value, "virtual") == 0)
    config->virtual_host = cleat__s3_bucket_is_label(config->bucket, !endpoint->https);
  else
    return unknown_value(choice, "auto, path, virtual", err);
  if (config->virtual_host && cleat__s3_endpoint_is_address(endpoint))
    return cleat__error_set(err, CLEAT_INVALID,
                            "virtual-host addressing (from %s) needs a host "
                            "name, but the endpoint is the address %s",
                            choice.source, endpoint->host);
  if (config->virtual_host && strlen(config->bucket) + strlen(endpoint->host) >= CLEAT__S3_HOST_MAX)
    return cleat__error_set(err, CLEAT_INVALID,
                            "bucket and endpoint together are too long for a "
                            "host name: %s.%s",
                            config->bucket, endpoint->host);
  return CLEAT_OK;
}

static cleat_status choose_ca(struct cleat__s3_config *config, const struct sources *sources, struct cleat_error *err) {
  struct cleat__s3_choice choice = {0};
  consider(&choice, sources->options->ca_file, "the options");
  consider(&choice, sources->location.values[CLEAT__SET_CA_FILE], "the URL");
  consider(&choice, environment("AWS_CA_BUNDLE"), "AWS_CA_BUNDLE");
  consider(&choice, from_profile(sources, "ca_bundle"), "the AWS config file");
  if (!choice.value)
    return CLEAT_OK;
  /* Checked here, to name the file. libcurl would fail at the first request with less information. */
  if (config->https && access(choice.value, R_OK) != 0) {
    int code = errno;
    (void)cleat__error_errno(err, code, "CA file %s (from %s)", choice.value, choice.source);
    err->status = CLEAT_INVALID;
    return err->status;
  }
  config->ca_file = cleat__strdup(choice.value);
  return config->ca_file ? CLEAT_OK : no_memory(err, "the CA file's name");
}

static cleat_status choose_checksum(struct cleat__s3_config *config, const struct sources *sources,
                                    struct cleat_error *err) {
  static const char *const names[] = {NULL, "crc32c", "crc64nvme", "off"};
  enum cleat_checksum asked = sources->options->checksum;
  struct cleat__s3_choice choice = {0};
  if ((unsigned)asked > CLEAT_CHECKSUM_OFF)
    return cleat__error_set(err, CLEAT_INVALID, "option checksum is %d, which is not in enum cleat_checksum",
                            (int)asked);
  consider(&choice, names[asked], "the options");
  consider(&choice, sources->location.values[CLEAT__SET_CHECKSUM], "the URL");
  consider(&choice, environment("AWS_REQUEST_CHECKSUM_CALCULATION"), "AWS_REQUEST_CHECKSUM_CALCULATION");
  consider(&choice, from_profile(sources, "request_checksum_calculation"), "the AWS config file");
  consider(&choice, "when_supported", "the default");
  /* when_supported and when_required are values of AWS that say when to send a checksum, and not which. */
  bool off = strcasecmp(choice.value, "off") == 0 || strcasecmp(choice.value, "when_required") == 0;
  config->checksums = !off;
  config->crc64nvme = strcasecmp(choice.value, "crc64nvme") == 0;
  if (!off && !config->crc64nvme && strcasecmp(choice.value, "crc32c") != 0 &&
      strcasecmp(choice.value, "when_supported") != 0)
    return unknown_value(choice, "crc32c, crc64nvme, off, when_supported, when_required", err);
  return CLEAT_OK;
}

static cleat_status choose_signing(struct cleat__s3_config *config, const struct sources *sources,
                                   const struct cleat__s3_endpoint *endpoint, struct cleat_error *err) {
  static const char *const names[] = {NULL, "always", "never"};
  enum cleat_payload_signing asked = sources->options->payload_signing;
  struct cleat__s3_choice choice = {0};
  if ((unsigned)asked > CLEAT_PAYLOAD_SIGNING_NEVER)
    return cleat__error_set(err, CLEAT_INVALID,
                            "option payload_signing is %d, which is not in enum cleat_payload_signing", (int)asked);
  consider(&choice, names[asked], "the options");
  consider(&choice, sources->location.values[CLEAT__SET_PAYLOAD], "the URL");
  consider(&choice, "auto", "the default");
  config->sign_lists = strcmp(choice.value, "never") != 0 && strcmp(choice.value, "unsigned") != 0;
  if (strcmp(choice.value, "always") == 0 || strcmp(choice.value, "signed") == 0)
    config->sign_payload = true;
  else if (strcmp(choice.value, "never") == 0 || strcmp(choice.value, "unsigned") == 0)
    config->sign_payload = false;
  else if (strcmp(choice.value, "auto") == 0)
    /* The body needs protection in transit: either a CRC that the store checks, over TLS or within this machine, or
     * a signed SHA-256. The SHA-256 costs about 0.5 CPU-s/GB. */
    config->sign_payload = !config->checksums || !(config->https || cleat__s3_endpoint_is_loopback(endpoint));
  else
    return unknown_value(choice, "auto, always (signed), never (unsigned)", err);
  return CLEAT_OK;
}

/* Not checked here: most stores need no STS. The endpoint of the URL is not used for STS. */
static cleat_status choose_sts(struct cleat__s3_config *config, const struct sources *sources,
                               struct cleat_error *err) {
  struct cleat__s3_choice choice = {0};
  const char *ignore = environment("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS");
  if (ignore && strcmp(ignore, "true") == 0)
    return CLEAT_OK;
  consider(&choice, environment("AWS_ENDPOINT_URL_STS"), "AWS_ENDPOINT_URL_STS");
  consider(&choice, environment("AWS_ENDPOINT_URL"), "AWS_ENDPOINT_URL");
  consider(&choice, cleat__s3_profile_get(&sources->services, "sts.endpoint_url"), "the AWS config file");
  consider(&choice, from_profile(sources, "endpoint_url"), "the AWS config file");
  if (!choice.value)
    return CLEAT_OK;
  config->sts_endpoint = cleat__strdup(choice.value);
  return config->sts_endpoint ? CLEAT_OK : no_memory(err, "the STS endpoint");
}

static cleat_status choose_anonymous(struct cleat__s3_config *config, const struct sources *sources,
                                     struct cleat_error *err) {
  struct cleat__s3_choice choice = {0};
  consider(&choice, sources->location.values[CLEAT__SET_ANONYMOUS], "the URL");
  consider(&choice, "false", "the default");
  config->anonymous = strcmp(choice.value, "true") == 0;
  if (!config->anonymous && strcmp(choice.value, "false") != 0)
    return unknown_value(choice, "true, false", err);
  return CLEAT_OK;
}

/* ---- What the bucket asks for ---- */

static struct cleat__s3_choice option_or_url(const struct sources *sources, const char *option,
                                             enum cleat__s3_setting setting) {
  struct cleat__s3_choice choice = {0};
  consider(&choice, option, "the options");
  consider(&choice, sources->location.values[setting], "the URL");
  return choice;
}

static cleat_status choose_options(struct cleat__s3_config *config, const struct sources *sources,
                                   const struct cleat__s3_endpoint *endpoint, struct cleat_error *err) {
  const struct cleat_client_options *options = sources->options;
  const char *bucket_key = options->sse_bucket_key == 0 ? NULL : options->sse_bucket_key > 0 ? "true" : "false";
  struct cleat__s3_wishes wishes = {
      .sse = option_or_url(sources, options->sse, CLEAT__SET_SSE),
      .kms_key_id = option_or_url(sources, options->sse_kms_key_id, CLEAT__SET_SSE_KMS_KEY_ID),
      .bucket_key = option_or_url(sources, bucket_key, CLEAT__SET_SSE_BUCKET_KEY),
      .sse_c_key = options->sse_c_key,
      .sse_c_key_file = option_or_url(sources, options->sse_c_key_file, CLEAT__SET_SSE_C_KEY_FILE),
      .storage_class = option_or_url(sources, options->storage_class, CLEAT__SET_STORAGE_CLASS),
      .tags = option_or_url(sources, options->tags, CLEAT__SET_TAGS),
      .request_payer = option_or_url(sources, options->requester_pays ? "requester" : NULL, CLEAT__SET_REQUEST_PAYER),
      .bucket_owner = option_or_url(sources, options->bucket_owner, CLEAT__SET_BUCKET_OWNER),
      .user_agent = option_or_url(sources, options->user_agent, CLEAT__SET_USER_AGENT),
      .confidential = endpoint->https || cleat__s3_endpoint_is_loopback(endpoint),
  };
  if (!wishes.sse_c_key && !wishes.sse_c_key_file.value) {
    consider(&wishes.sse_c_key_text, environment("CLEAT_SSE_C_KEY"), "CLEAT_SSE_C_KEY");
    consider(&wishes.sse_c_key_file, environment("CLEAT_SSE_C_KEY_FILE"), "CLEAT_SSE_C_KEY_FILE");
  }
  return cleat__s3_options_init(&config->options, &wishes, err);
}

/* ---- The target ---- */

/* "/tenant%3Abucket" behind the endpoint's own path; owned, or NULL. */
static char *path_of(const char *bucket, const struct cleat__s3_endpoint *endpoint) {
  struct cleat__buffer encoded;
  cleat__buffer_init(&encoded, 3 * CLEAT__S3_BUCKET_MAX + 1);
  char *path = NULL;
  if (cleat__s3_encode(&encoded, bucket, strlen(bucket), false) == CLEAT_OK)
    path = cleat__strprintf("%s/%s", endpoint->path, cleat__buffer_text(&encoded));
  cleat__buffer_clear(&encoded);
  return path;
}

/* Fills host, port, host_header, base_url, base_path, endpoint, https from the endpoint. */
static cleat_status set_target(struct cleat__s3_config *config, const struct cleat__s3_endpoint *endpoint,
                               struct cleat_error *err) {
  const char *scheme = endpoint->https ? "https" : "http";
  char port[16] = "";
  if (!cleat__s3_endpoint_default_port(endpoint))
    snprintf(port, sizeof port, ":%u", endpoint->port);
  config->https = endpoint->https;
  config->port = endpoint->port;
  bool virtual_host = config->virtual_host;
  config->host =
      cleat__strprintf("%s%s%s", virtual_host ? config->bucket : "", virtual_host ? "." : "", endpoint->host);
  config->base_path = virtual_host ? cleat__strdup(endpoint->path) : path_of(config->bucket, endpoint);
  config->endpoint = cleat__strprintf("%s://%s%s%s", scheme, endpoint->host, port, endpoint->path);
  if (!config->host || !config->base_path || !config->endpoint)
    return no_memory(err, "the endpoint");
  config->host_header = cleat__strprintf("%s%s", config->host, port);
  config->base_url = cleat__strprintf("%s://%s%s", scheme, config->host, port);
  return config->host_header && config->base_url ? CLEAT_OK : no_memory(err, "the endpoint");
}

static cleat_status init(struct cleat__s3_config *config, struct sources *sources, const char *location,
                         struct cleat_error *err) {
  cleat_status status = take_location(config, sources, location, err);
  if (!status && sources->location.values[CLEAT__SET_PROFILE]) {
    config->profile = cleat__strdup(sources->location.values[CLEAT__SET_PROFILE]);
    if (!config->profile)
      status = no_memory(err, "the profile's name");
  }
  if (!status)
    status = read_config_file(sources, config->profile, err);
  if (!status)
    status = choose_region(config, sources, err);
  struct cleat__s3_endpoint endpoint;
  if (!status)
    choose_variants(config, sources);
  if (!status)
    status = choose_endpoint(config, sources, &endpoint, err);
  if (!status && cleat__s3_partition_is_aws(&endpoint))
    status = cleat__s3_bucket_check_aws(config->bucket, location, err);
  if (!status)
    status = choose_style(config, sources, &endpoint, err);
  if (!status)
    status = set_target(config, &endpoint, err);
  if (!status)
    status = choose_ca(config, sources, err);
  if (!status)
    status = choose_sts(config, sources, err);
  if (!status)
    status = choose_anonymous(config, sources, err);
  if (!status)
    status = choose_checksum(config, sources, err);
  if (!status)
    status = choose_signing(config, sources, &endpoint, err);
  return status ? status : choose_options(config, sources, &endpoint, err);
}

cleat_status cleat__s3_config_init(struct cleat__s3_config *config, const char *location,
                                   const struct cleat_client_options *options, struct cleat_error *err) {
  struct cleat__s3_config made = {0};
  struct sources sources = {.options = options, .profile = CLEAT__S3_PROFILE_INIT, .services = CLEAT__S3_PROFILE_INIT};
  cleat_status status = init(&made, &sources, location, err);
  cleat__s3_location_clear(&sources.location);
  cleat__free(sources.config_path);
  cleat__s3_profile_clear(&sources.profile);
  cleat__s3_profile_clear(&sources.services);
  if (status)
    cleat__s3_config_clear(&made);
  else
    *config = made;
  return status;
}

/* Copies the settings that do not depend on endpoint or region. *to owns what was copied, also after a failure. */
static cleat_status copy_texts(const struct cleat__s3_config *from, const char *region, struct cleat__s3_config *to,
                               struct cleat_error *err) {
  to->bucket = cleat__strdup(from->bucket);
  to->prefix = cleat__strdup(from->prefix);
  to->region = cleat__strdup(region);
  to->ca_file = from->ca_file ? cleat__strdup(from->ca_file) : NULL;
  to->profile = from->profile ? cleat__strdup(from->profile) : NULL;
  bool whole =
      to->bucket && to->prefix && to->region && (to->ca_file || !from->ca_file) && (to->profile || !from->profile);
  return whole ? set_names(to, err) : no_memory(err, "the settings of another region");
}

cleat_status cleat__s3_config_move(const struct cleat__s3_config *config, const char *region,
                                   struct cleat__s3_config *moved, struct cleat_error *err) {
  struct cleat__s3_config made = {.virtual_host = config->virtual_host,
                                  .aws = config->aws,
                                  .s3_variant = config->s3_variant,
                                  .sts_variant = config->sts_variant,
                                  .anonymous = config->anonymous,
                                  .checksums = config->checksums,
                                  .crc64nvme = config->crc64nvme,
                                  .sign_payload = config->sign_payload,
                                  .sign_lists = config->sign_lists};
  struct cleat__s3_endpoint endpoint;
  cleat_status status = CLEAT_OK;
  if (!is_region(region))
    return cleat__error_set(err, CLEAT_STORE, "%s: the store names an invalid region '%.100s'", config->display,
                            region);
  if (config->aws)
    status = cleat__s3_partition_endpoint(region, CLEAT__S3_SERVICE_S3, config->s3_variant, &endpoint, err);
  else
    status = cleat__s3_endpoint_parse(config->endpoint, "the settings", &endpoint, err);
  if (!status)
    status = copy_texts(config, region, &made, err);
  if (!status)
    status = set_target(&made, &endpoint, err);
  if (status)
    cleat__s3_config_clear(&made);
  else
    *moved = made;
  return status;
}

void cleat__s3_config_clear(struct cleat__s3_config *config) {
  cleat__free(config->bucket);
  cleat__free(config->prefix);
  cleat__free(config->root);
  cleat__free(config->display);
  cleat__free(config->region);
  cleat__free(config->endpoint);
  cleat__free(config->ca_file);
  cleat__free(config->profile);
  cleat__free(config->sts_endpoint);
  cleat__free(config->host);
  cleat__free(config->host_header);
  cleat__free(config->base_url);
  cleat__free(config->base_path);
  cleat__s3_options_clear(&config->options);
  memset(config, 0, sizeof *config);
}
