/* s3/facts.c: facts about the endpoint for the doctor: where requests go, which credentials sign them, and the clock
 * of the store.
 *
 * Runs on the thread of the caller, on its own stack. No text holds a secret: credentials are described by their
 * source. */
#include "storage/s3/s3.h"

#include <stdio.h>
#include <string.h>

#define ANSWER_MAX 65536 /* limit of bytes of an object that should not exist */

static void tell_place(struct cleat__s3 *s3, struct cleat__store_facts *facts) {
  const struct cleat__s3_config *config = cleat__s3_config_now(s3);
  const struct cleat__s3_config *opened = &s3->configs[0];
  char moved[2 * CLEAT__S3_REGION_MAX + 64] = "";
  if (config != opened)
    snprintf(moved, sizeof moved, " (the store's answer to %s: set AWS_REGION to it)", opened->region);
  snprintf(facts->place, sizeof facts->place, "%s", config->endpoint);
  snprintf(facts->addressing, sizeof facts->addressing, "%s style, %s%s, region %s%s",
           config->virtual_host ? "virtual-host" : "path", config->base_url, config->base_path, config->region, moved);
  snprintf(facts->checksum, sizeof facts->checksum, "%s",
           !opened->checksums  ? ""
           : opened->crc64nvme ? "CRC-64/NVME"
                               : "CRC-32C");
}

static void tell_keys(struct cleat__s3 *s3, const atomic_bool *cancel, struct cleat__store_facts *facts) {
  struct cleat__s3_credentials keys;
  struct cleat_error ignored;
  facts->needs_keys = !s3->configs[0].anonymous;
  snprintf(facts->keys, sizeof facts->keys, "%s", cleat__s3_credentials_source(s3->chain));
  /* After a failed search for credentials, a second search would only take the time again. */
  if (facts->keys[0] == '\0' || cleat__s3_credentials_get(s3->chain, &keys, cleat__call(cancel, &ignored)) != CLEAT_OK)
    return;
  facts->keys_end_s = keys.expires_s;
  cleat__s3_credentials_wipe(&keys);
}

static void tell_clock(struct cleat__s3 *s3, const char *date, struct cleat__store_facts *facts) {
  const struct cleat__clock *clock = s3->retry.clock;
  int64_t store_s = 0;
  facts->has_clock = cleat__http_date(date, &store_s);
  if (facts->has_clock)
    facts->clock_offset_s = store_s - clock->wall_s(clock->ctx);
}

cleat_status cleat__s3_describe(struct cleat__store *store, const char *key, struct cleat__store_facts *facts,
                                struct cleat__call call) {
  struct cleat__s3 *s3 = (struct cleat__s3 *)store;
  struct cleat__http_reply reply;
  struct cleat_error problem;
  /* A GET and not a HEAD: the reply to a HEAD cannot say why it failed. */
  struct cleat__s3_request request = {
      .operation = "GET", .kind = CLEAT__S3_GET, .method = "GET", .key = key, .text_cap = ANSWER_MAX};
  cleat__http_reply_init(&reply);
  cleat_status status = cleat__s3_send(s3, &request, &reply, cleat__call(call.cancel, &problem));
  memset(facts, 0, sizeof *facts);
  tell_place(s3, facts);
  tell_keys(s3, call.cancel, facts);
  tell_clock(s3, reply.date, facts);
  int reply_status = reply.status;
  cleat__http_reply_clear(&reply);
  if (status == CLEAT_OK) {
    status =
        cleat__error_set(call.err, CLEAT_STORE,
                         "%s returned an object for a random name: it seems to answer every request", facts->place);
    call.err->http_status = reply_status;
    cleat__error_hint(call.err, "check that this is the endpoint of an S3 store and not of a web page");
    return status;
  }
  if (status == CLEAT_NOT_FOUND && strcmp(problem.s3_code, "NoSuchBucket") != 0)
    return CLEAT_OK;
  *call.err = problem;
  return status;
}
