/* s3/replace.c: replaces the object that has a given ETag (If-Match), and handles refusals.
 *
 * S3 accepts the ETag as it returns it, in quotes. Ceph before 2025 answers 412 to that and accepts only the ETag
 * without quotes, although RFC 9110, 8.8.3, requires them. So a 412 does not prove that the object has changed.
 * After a 412, a HEAD checks the ETag. If the object still has it, the put is tried with the other form. The form
 * that a server accepted is sent first from then on.
 *
 * A store may refuse the header itself (501, 405). If the caller allows it (or_check), the object is checked with a
 * HEAD and put without the condition. All other callers get UNSUPPORTED, each time.
 *
 * Runs on the thread of the caller, on its own stack. One atomic of the store says which form comes first. */
#include "storage/s3/s3.h"

#include <stdio.h>
#include <string.h>

/* Writes the other form of an ETag: without the quotes (and W/) of RFC 9110, or with quotes if it has none. */
static void write_otherwise(const char *etag, char other[CLEAT__ETAG_MAX]) {
  const char *quoted = strncmp(etag, "W/", 2) == 0 ? etag + 2 : etag;
  size_t length = strlen(quoted);
  if (length >= 2 && quoted[0] == '"' && quoted[length - 1] == '"')
    snprintf(other, CLEAT__ETAG_MAX, "%.*s", (int)(length - 2), quoted + 1);
  else
    snprintf(other, CLEAT__ETAG_MAX, "\"%.*s\"", CLEAT__ETAG_MAX - 3, etag);
}

/* Called after the put was refused. Returns the status that is also in *err. CLEAT_LOST: the object has another ETag
 * or is gone; an earlier try of this put whose reply was lost may have done that too. CLEAT_OK: it still has that
 * ETag. Others: the check failed. */
static cleat_status check_etag(struct cleat__store *store, const char *key, const char *etag, struct cleat__call call) {
  struct cleat__object object;
  struct cleat_error problem;
  cleat_status status = cleat__s3_head(store, key, &object, cleat__call(call.cancel, &problem));
  if (status == CLEAT_NOT_FOUND || (status == CLEAT_OK && strcmp(object.etag, etag) != 0))
    return CLEAT_LOST;
  if (status != CLEAT_OK)
    *call.err = problem;
  return status;
}

/* Fails: the object still has that ETag and was not replaced. */
static cleat_status refuse(const struct cleat__s3 *s3, const char *key, struct cleat_error *err) {
  const struct cleat__s3_config *config = &s3->configs[0];
  struct cleat_error refusal = *err;
  /* 409: a conflict with other writers. The store does support the condition. */
  if (err->http_status != 412) {
    err->status = CLEAT_STORE;
    return err->status;
  }
  (void)cleat__error_set(err, CLEAT_UNSUPPORTED,
                         "PUT s3://%s/%s%s: the store refuses to replace an object by its ETag "
                         "(If-Match), although the object has not changed (HTTP 412%s%s)",
                         config->bucket, config->root, key, refusal.request_id[0] != '\0' ? ", request " : "",
                         refusal.request_id);
  err->http_status = refusal.http_status;
  snprintf(err->s3_code, sizeof err->s3_code, "%s", refusal.s3_code);
  snprintf(err->request_id, sizeof err->request_id, "%s", refusal.request_id);
  cleat__error_hint(err, "no other process has changed the object: the store, or a proxy in front of it, does "
                         "not handle If-Match as S3 does; 'cleat doctor' shows what it supports");
  return err->status;
}

/* Remembers and logs that the store accepts the form that is not sent first. */
static void learn(struct cleat__s3 *s3, bool otherwise) {
  atomic_store(&s3->store.other_etags, otherwise);
  cleat__log(&s3->log, CLEAT_LOG_INFO, "%s refuses the ETag of an object in If-Match %s, and accepts it %s",
             s3->store.display, otherwise ? "as it returned it" : "in another form",
             otherwise ? "in another form" : "as it returned it");
}

static cleat_status replace(struct cleat__store *store, const char *key, struct cleat__spans body,
                            const struct cleat__put_options *options, struct cleat__call call) {
  struct cleat__s3 *s3 = (struct cleat__s3 *)store;
  struct cleat__put_options once = *options;
  struct cleat_error problem;
  char other[CLEAT__ETAG_MAX];
  unsigned failed_tries = 0;
  bool otherwise = atomic_load(&store->other_etags);
  cleat_status status = CLEAT_OK;
  write_otherwise(options->etag, other);
  once.failed_tries = &failed_tries;
  for (int form = 0; form < 2; form++, otherwise = !otherwise) {
    failed_tries = 0;
    once.etag = otherwise ? other : options->etag;
    status = cleat__s3_put(store, key, body, &once, call);
    if (options->failed_tries != NULL)
      *options->failed_tries += failed_tries;
    if (status == CLEAT_OK && form > 0)
      learn(s3, otherwise);
    if (status != CLEAT_LOST)
      return status;
    /* Checked after each refusal: the object may have been replaced since the last one. */
    status = check_etag(store, key, options->etag, cleat__call(call.cancel, &problem));
    if (status == CLEAT_LOST)
      return status;
    if (status != CLEAT_OK) {
      *call.err = problem;
      return status;
    }
    if (call.err->http_status != 412)
      break;
  }
  return refuse(s3, key, call.err);
}

/* Puts without the condition. Another writer may write between the HEAD and the put. */
static cleat_status replace_unguarded(struct cleat__store *store, const char *key, struct cleat__spans body,
                                      const struct cleat__put_options *options, struct cleat__call call) {
  const struct cleat__s3_config *config = &((struct cleat__s3 *)store)->configs[0];
  struct cleat__put_options unguarded = *options;
  unguarded.condition = CLEAT__PUT_UNGUARDED;
  cleat_status status = check_etag(store, key, options->etag, call);
  if (status == CLEAT_LOST)
    return cleat__error_set(call.err, CLEAT_LOST, "s3://%s/%s%s has changed since it was read", config->bucket,
                            config->root, key);
  return status == CLEAT_OK ? cleat__s3_put(store, key, body, &unguarded, call) : status;
}

static cleat_status replace_learning(struct cleat__store *store, const char *key, struct cleat__spans body,
                                     const struct cleat__put_options *options, struct cleat__call call) {
  struct cleat__s3 *s3 = (struct cleat__s3 *)store;
  struct cleat_error refusal;
  if (options->or_check && cleat__s3_lacks(s3, CLEAT__STORE_NO_IF_MATCH))
    return replace_unguarded(store, key, body, options, call);
  cleat_status status = replace(store, key, body, options, call);
  if (!options->or_check || !cleat__s3_is_refusal(status, call.err))
    return status;
  refusal = *call.err;
  status = replace_unguarded(store, key, body, options, call);
  if (status == CLEAT_OK)
    cleat__s3_learn(s3, CLEAT__STORE_NO_IF_MATCH);
  else if (cleat__s3_is_refusal(status, call.err))
    *call.err = refusal;
  return status;
}

cleat_status cleat__s3_put_any(struct cleat__store *store, const char *key, struct cleat__spans body,
                               const struct cleat__put_options *options, struct cleat__call call) {
  return options->condition == CLEAT__PUT_IF_MATCH ? replace_learning(store, key, body, options, call)
                                                   : cleat__s3_put_learning(store, key, body, options, call);
}
