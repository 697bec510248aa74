/* s3/learned.c: learns what an S3 store lacks from its refusals, once for each client (the bits of store->lacks). A
 * request is repeated without the refused header or operation. Only an answer that is not a refusal proves that this
 * was the reason.
 *
 * Any thread. The bits are only ever set. */
#include "storage/s3/s3.h"

#include "base/mem.h"

#include <string.h>

/* The texts after "the store …", in the order of the bits. NULL: nothing to log. */
static const char *const FINDINGS[] = {
    "refuses If-None-Match: each put that must not replace an object checks first whether it "
    "exists",
    "refuses x-amz-mp-object-size: the size of each object made of parts is checked afterwards "
    "instead",
    "cannot list the parts of an upload: interrupted uploads are sent again from the start",
    "cannot list unfinished uploads: leftovers of crashed saves cannot be found",
    "says that its lists are url-encoded, but they are not: keys are used as listed",
    NULL,
    "refuses If-Match: a manifest is checked before it is replaced",
};

bool cleat__s3_is_refusal(cleat_status status, const struct cleat_error *err) {
  return status == CLEAT_UNSUPPORTED &&
         (err->http_status == 501 || err->http_status == 405 || strcmp(err->s3_code, "NotImplemented") == 0);
}

bool cleat__s3_lacks(const struct cleat__s3 *s3, unsigned finding) {
  return (atomic_load(&s3->store.lacks) & finding) != 0;
}

void cleat__s3_learn(struct cleat__s3 *s3, unsigned findings) {
  unsigned known = atomic_fetch_or(&s3->store.lacks, findings);
  for (unsigned i = 0; i < sizeof FINDINGS / sizeof FINDINGS[0]; i++) {
    if ((findings & ~known & (1u << i)) != 0 && FINDINGS[i] != NULL)
      cleat__log(&s3->log, CLEAT_LOG_INFO, "%s: the store %s", s3->configs[0].endpoint, FINDINGS[i]);
  }
}

cleat_status cleat__s3_lacking(const struct cleat__s3 *s3, const char *operation, struct cleat_error *err) {
  return cleat__error_set(err, CLEAT_UNSUPPORTED, "%s: %s refused this operation before, so it was not tried again",
                          operation, s3->configs[0].endpoint);
}

cleat_status cleat__s3_check_free(struct cleat__s3 *s3, const char *key, struct cleat__call call) {
  struct cleat__object object;
  struct cleat_error problem;
  cleat_status status = cleat__s3_head(&s3->store, key, &object, cleat__call(call.cancel, &problem));
  if (status == CLEAT_OK)
    return cleat__error_set(call.err, CLEAT_EXISTS, "%s exists already", key);
  if (status == CLEAT_NOT_FOUND && strcmp(problem.s3_code, "NoSuchBucket") != 0)
    return CLEAT_OK;
  *call.err = problem;
  return status;
}

/* ---- keys of lists ---- */

enum cleat__s3_keys cleat__s3_known_keys(const struct cleat__s3 *s3) {
  if (cleat__s3_lacks(s3, CLEAT__STORE_PLAIN_KEYS))
    return CLEAT__S3_KEYS_PLAIN;
  return s3->configs[0].aws || cleat__s3_lacks(s3, CLEAT__STORE_ENCODED_KEYS) ? CLEAT__S3_KEYS_ENCODED
                                                                              : CLEAT__S3_KEYS_UNKNOWN;
}

/* Whether the bucket has an object with exactly this name. */
static bool is_there(struct cleat__s3 *s3, const char *name, const atomic_bool *cancel) {
  const char *root = s3->configs[0].root;
  struct cleat__object object;
  struct cleat_error ignored;
  return strncmp(name, root, strlen(root)) == 0 &&
         cleat__s3_head(&s3->store, name + strlen(root), &object, cleat__call(cancel, &ignored)) == CLEAT_OK;
}

bool cleat__s3_learn_keys(struct cleat__s3 *s3, struct cleat__s3_keys_form *form, const atomic_bool *cancel) {
  if (form->known == CLEAT__S3_KEYS_PLAIN)
    cleat__s3_learn(s3, CLEAT__STORE_PLAIN_KEYS);
  if (form->known != CLEAT__S3_KEYS_UNKNOWN || form->doubtful == NULL)
    return false;
  char *decoded = cleat__strdup(form->doubtful);
  bool encoded = decoded != NULL && cleat__s3_decode(decoded, true) && is_there(s3, decoded, cancel);
  bool plain = !encoded && is_there(s3, form->doubtful, cancel);
  cleat__free(decoded);
  if (encoded || plain)
    cleat__s3_learn(s3, plain ? CLEAT__STORE_PLAIN_KEYS : CLEAT__STORE_ENCODED_KEYS);
  form->known = cleat__s3_known_keys(s3);
  return plain;
}

/* ---- puts that must not replace ---- */

/* Puts without the condition. Another writer may write between the HEAD and the put. */
static cleat_status put_unguarded(struct cleat__store *store, const char *key, struct cleat__spans body,
                                  const struct cleat__put_options *options, struct cleat__call call) {
  struct cleat__put_options unguarded = *options;
  unguarded.condition = CLEAT__PUT_UNGUARDED;
  cleat_status status = cleat__s3_check_free((struct cleat__s3 *)store, key, call);
  return status == CLEAT_OK ? cleat__s3_put(store, key, body, &unguarded, call) : status;
}

cleat_status cleat__s3_put_learning(struct cleat__store *store, const char *key, struct cleat__spans body,
                                    const struct cleat__put_options *options, struct cleat__call call) {
  struct cleat__s3 *s3 = (struct cleat__s3 *)store;
  struct cleat_error refusal;
  if (options->condition != CLEAT__PUT_CREATE_ONLY)
    return cleat__s3_put(store, key, body, options, call);
  if (cleat__s3_lacks(s3, CLEAT__STORE_NO_CREATE_ONLY))
    return put_unguarded(store, key, body, options, call);
  cleat_status status = cleat__s3_put(store, key, body, options, cleat__call(call.cancel, &refusal));
  if (!cleat__s3_is_refusal(status, &refusal)) {
    if (status != CLEAT_OK)
      *call.err = refusal;
    return status;
  }
  status = put_unguarded(store, key, body, options, call);
  if (status == CLEAT_OK)
    cleat__s3_learn(s3, CLEAT__STORE_NO_CREATE_ONLY);
  else if (status == CLEAT_EXISTS)
    cleat__s3_learn(s3, CLEAT__STORE_REFUSED_CREATE_ONLY);
  else if (cleat__s3_is_refusal(status, call.err))
    *call.err = refusal;
  return status;
}
