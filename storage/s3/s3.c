/* s3.c: opens and closes a store of the s3:// driver; the table of its operations.
 *
 * Threading: the context is read-only after open, except for the fields that s3.h lists. */
#include "storage/s3/s3.h"

#include "base/mem.h"
#include "base/mutex.h"
#include "storage/s3/open.h"

#define DEFAULT_TIME_LIMIT_S 900 /* of struct cleat_client_options */

static void s3_close(struct cleat__store *store) {
  struct cleat__s3 *s3 = (struct cleat__s3 *)store;
  cleat__http_free(s3->http);
  cleat__hedge_destroy(&s3->hedge);
  cleat__free(s3->crc64);
  cleat__s3_credentials_free(s3->chain);
  cleat__http_proxies_clear(&s3->proxies);
  cleat__s3_config_clear(&s3->configs[0]);
  if (atomic_load(&s3->moved))
    cleat__s3_config_clear(&s3->configs[1]);
  cleat__mutex_destroy(&s3->move_lock);
  cleat__free(s3);
}

static const struct cleat__store_ops s3_ops = {
    .put = cleat__s3_put_any,
    .get = cleat__s3_get,
    .get_small = cleat__s3_get_small,
    .head = cleat__s3_head,
    .list = cleat__s3_list,
    .remove = cleat__s3_remove,
    .multipart_create = cleat__s3_multipart_create,
    .multipart_part = cleat__s3_multipart_part,
    .multipart_feed = cleat__s3_multipart_feed,
    .multipart_complete = cleat__s3_multipart_complete,
    .multipart_abort = cleat__s3_multipart_abort,
    .multipart_list_parts = cleat__s3_multipart_list_parts,
    .describe = cleat__s3_describe,
    .multipart_list = cleat__s3_multipart_list,
    .multipart_adopt = cleat__s3_multipart_adopt,
    .close = s3_close,
};

/* What cannot fail. */
static void prepare(struct cleat__s3 *s3, const struct cleat__store_config *config) {
  unsigned limit_s = config->options->time_limit_s;
  s3->store = (struct cleat__store){.ops = &s3_ops,
                                    .capabilities = CLEAT__STORE_CREATE_ONLY | CLEAT__STORE_IF_MATCH,
                                    .min_part_bytes = CLEAT__S3_PART_MIN,
                                    .max_put_bytes = CLEAT__S3_PUT_MAX,
                                    .max_parts = CLEAT__S3_PARTS_MAX,
                                    .max_object_bytes = CLEAT__S3_OBJECT_MAX,
                                    .default_concurrency = CLEAT__S3_CONCURRENCY,
                                    .first_concurrency = CLEAT__S3_CONCURRENCY_FIRST};
  s3->log = config->log;
  cleat__mutex_init(&s3->move_lock);
  cleat__retry_quota_init(&s3->quota);
  cleat__hedge_init(&s3->hedge);
  s3->retry = (struct cleat__retry_config){.clock = config->clock,
                                           .quota = &s3->quota,
                                           .budget_ms = (int64_t)(limit_s > 0 ? limit_s : DEFAULT_TIME_LIMIT_S) * 1000};
}

/* Reports a wrong proxy setting at open and not at the first request. */
static cleat_status open_proxies(struct cleat__s3 *s3, struct cleat_error *err) {
  const struct cleat__http_proxy *ignored = NULL;
  cleat_status status = cleat__http_proxies_init(&s3->proxies, err);
  return status != CLEAT_OK ? status : cleat__http_proxies_find(&s3->proxies, s3->configs[0].base_url, &ignored, err);
}

static cleat_status open_parts(struct cleat__s3 *s3, const char *location, const struct cleat__store_config *config,
                               struct cleat_error *err) {
  const struct cleat_client_options *options = config->options;
  struct cleat__s3_config *settings = &s3->configs[0];
  cleat_status status = cleat__s3_config_init(settings, location, options, err);
  if (status != CLEAT_OK)
    return status;
  status = open_proxies(s3, err);
  if (status != CLEAT_OK)
    return status;
  const struct cleat__s3_chain_options chain = {.client = options,
                                                .profile = settings->profile,
                                                .region = settings->region,
                                                .sts_endpoint = settings->sts_endpoint,
                                                .sts_variant = settings->sts_variant,
                                                .ca_file = settings->ca_file,
                                                .anonymous = settings->anonymous,
                                                .proxies = &s3->proxies,
                                                .clock = config->clock,
                                                .skew_s = &s3->skew_s,
                                                .log = config->log};
  status = cleat__s3_credentials_new(&chain, &s3->chain, err);
  if (status != CLEAT_OK)
    return status;
  struct cleat__http_options http = {
      .ca_file = settings->ca_file, .user_agent = settings->options.user_agent, .proxies = &s3->proxies};
  status = cleat__http_new(&http, &s3->http, err);
  if (status != CLEAT_OK)
    return status;
  if (settings->crc64nvme) {
    s3->crc64 = cleat__alloc(sizeof *s3->crc64);
    if (s3->crc64 == NULL)
      return cleat__error_no_memory(err, "the S3 store");
    cleat__crc64_init(s3->crc64);
  }
  /* AWS documents conditional writes. Some other servers accept the header and ignore it. */
  if (!settings->aws)
    s3->store.capabilities |= CLEAT__STORE_UNPROVEN;
  s3->store.display = cleat__strdup(settings->display);
  if (s3->store.display == NULL)
    return cleat__error_no_memory(err, "the S3 store");
  return CLEAT_OK;
}

cleat_status cleat__store_s3_open(const char *location, const struct cleat__store_config *config,
                                  struct cleat__store **store, struct cleat_error *err) {
  struct cleat__s3 *s3 = cleat__calloc(1, sizeof *s3);
  if (s3 == NULL)
    return cleat__error_no_memory(err, "the S3 store");
  prepare(s3, config);
  cleat_status status = open_parts(s3, location, config, err);
  if (status != CLEAT_OK) {
    s3_close(&s3->store);
    return status;
  }
  *store = &s3->store;
  return CLEAT_OK;
}
