/* s3/replace.c: a put in the place of the object with a given ETag (If-Match), and what its refusal means.
 *
 * S3 takes the ETag as it tells it, in quotes. Ceph before 2025 answers 412 to that, and takes it without: RFC 9110,
 * 8.8.3, wants the quotes. A 412 says that the object is another one only if it is: so that is looked at, and where the
 * object still has the ETag, the other form is tried. The form that a server took is sent first from then on.
 *
 * A store may refuse the header itself (501, 405). Whoever allows it (or_check) is then served by a look and a put
 * without the condition. All others are told that the store does not support it, each time.
 *
 * Runs on its caller's thread, on its own stack; which form comes first is one atomic of the store. */
#include "storage/s3/s3.h"

#include <stdio.h>
#include <string.h>

/* The other way to write an ETag: without what RFC 9110 puts around it, or with quotes where there are none. */
static void write_otherwise(const char *etag, char other[CLEAT__ETAG_MAX]) {
  const char *quoted = strncmp(etag, "W/", 2) == 0 ? etag + 2 : etag;
  size_t length = strlen(quoted);
  if (length >= 2 && quoted[0] == '"' && quoted[length - 1] == '"')
    snprintf(other, CLEAT__ETAG_MAX, "%.*s", (int)(length - 2), quoted + 1);
  else
    snprintf(other, CLEAT__ETAG_MAX, "\"%.*s\"", CLEAT__ETAG_MAX - 3, etag);
}

/* The put was refused. Its status, told in *err: CLEAT_LOST where the object is another one or gone, which a try of
 * ours whose reply was lost may have done too; CLEAT_OK where it is the one with that ETag; else why nobody knows. */
static cleat_status check_etag(struct cleat__store *store, const char *key, const char *etag,
                               const atomic_bool *cancel, struct cleat_error *err) {
  struct cleat__object object;
  struct cleat_error problem;
  cleat_status status = cleat__s3_head(store, key, &object, cancel, &problem);
  if (status == CLEAT_NOT_FOUND || (status == CLEAT_OK && strcmp(object.etag, etag) != 0))
    return CLEAT_LOST;
  if (status != CLEAT_OK)
    *err = problem;
  return status;
}

/* The object is the one with that ETag, and was not replaced. */
static cleat_status refuse(const struct cleat__s3 *s3, const char *key, struct cleat_error *err) {
  const struct cleat__s3_config *config = &s3->configs[0];
  struct cleat_error refusal = *err;
  /* Others meet there all the time (409): the store would have done it. */
  if (err->http_status != 412) {
    err->status = CLEAT_STORE;
    return err->status;
  }
  (void)cleat__error_set(err, CLEAT_UNSUPPORTED,
                         "PUT s3://%s/%s%s: the store refuses to replace an object by its ETag "
                         "(If-Match), although the object has not changed (HTTP 412%s%s)",
                         config->bucket, config->root, key,
                         refusal.request_id[0] != '\0' ? ", request " : "", refusal.request_id);
  err->http_status = refusal.http_status;
  snprintf(err->s3_code, sizeof err->s3_code, "%s", refusal.s3_code);
  snprintf(err->request_id, sizeof err->request_id, "%s", refusal.request_id);
  cleat__error_hint(err, "no other process has changed it: the store, or a proxy before it, does "
                         "not take If-Match as S3 does; 'cleat doctor' tells what works there");
  return err->status;
}

/* The store takes the form that is not sent first. */
static void learn(struct cleat__s3 *s3, bool otherwise) {
  atomic_store(&s3->store.other_etags, otherwise);
  cleat__log(&s3->log, CLEAT_LOG_INFO,
             "%s refuses an ETag %s in If-Match although it is the object's, and takes it %s",
             s3->store.display, otherwise ? "as it tells it" : "in another form than it tells it",
             otherwise ? "in another form" : "as it is");
}

static cleat_status replace(struct cleat__store *store, const char *key,
                            const struct cleat__span *body, size_t body_count,
                            const struct cleat__put_options *options, const atomic_bool *cancel,
                            struct cleat_error *err) {
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
    status = cleat__s3_put(store, key, body, body_count, &once, cancel, err);
    if (options->failed_tries != NULL)
      *options->failed_tries += failed_tries;
    if (status == CLEAT_OK && form > 0)
      learn(s3, otherwise);
    if (status != CLEAT_LOST)
      return status;
    /* Looked at after each refusal: the object may have been replaced since the one before. */
    status = check_etag(store, key, options->etag, cancel, &problem);
    if (status == CLEAT_LOST)
      return status;
    if (status != CLEAT_OK) {
      *err = problem;
      return status;
    }
    if (err->http_status != 412)
      break;
  }
  return refuse(s3, key, err);
}

/* Without the header. Between the look and the put another writer may come. */
static cleat_status replace_unguarded(struct cleat__store *store, const char *key,
                                      const struct cleat__span *body, size_t body_count,
                                      const struct cleat__put_options *options,
                                      const atomic_bool *cancel, struct cleat_error *err) {
  const struct cleat__s3_config *config = &((struct cleat__s3 *)store)->configs[0];
  struct cleat__put_options unguarded = *options;
  unguarded.condition = CLEAT__PUT_UNGUARDED;
  cleat_status status = check_etag(store, key, options->etag, cancel, err);
  if (status == CLEAT_LOST)
    return cleat__error_set(err, CLEAT_LOST, "s3://%s/%s%s is no longer the one that was seen",
                            config->bucket, config->root, key);
  return status == CLEAT_OK ? cleat__s3_put(store, key, body, body_count, &unguarded, cancel, err)
                            : status;
}

static cleat_status replace_learning(struct cleat__store *store, const char *key,
                                     const struct cleat__span *body, size_t body_count,
                                     const struct cleat__put_options *options,
                                     const atomic_bool *cancel, struct cleat_error *err) {
  struct cleat__s3 *s3 = (struct cleat__s3 *)store;
  struct cleat_error refusal;
  if (options->or_check && cleat__s3_lacks(s3, CLEAT__STORE_NO_IF_MATCH))
    return replace_unguarded(store, key, body, body_count, options, cancel, err);
  cleat_status status = replace(store, key, body, body_count, options, cancel, err);
  if (!options->or_check || !cleat__s3_is_refusal(status, err))
    return status;
  refusal = *err;
  status = replace_unguarded(store, key, body, body_count, options, cancel, err);
  if (status == CLEAT_OK)
    cleat__s3_learn(s3, CLEAT__STORE_NO_IF_MATCH);
  else if (cleat__s3_is_refusal(status, err))
    *err = refusal;
  return status;
}

cleat_status cleat__s3_put_any(struct cleat__store *store, const char *key,
                               const struct cleat__span *body, size_t body_count,
                               const struct cleat__put_options *options, const atomic_bool *cancel,
                               struct cleat_error *err) {
  return options->condition == CLEAT__PUT_IF_MATCH
             ? replace_learning(store, key, body, body_count, options, cancel, err)
             : cleat__s3_put_learning(store, key, body, body_count, options, cancel, err);
}
