/* retention.c: the public functions of retention. They only check arguments; see cleat.c. */
#include "api/argument.h"
#include "uploader/retention/retention.h"

static cleat_status below_zero(const char *what, int64_t number, struct cleat_error *err) {
  return cleat__error_set(err, CLEAT_INVALID, "%s %lld is negative", what, (long long)number);
}

/* Hands the list to the caller, or frees it if the caller does not want it. */
static cleat_status give_removals(cleat_status status, struct cleat_removals *made, struct cleat_removals **removals) {
  if (removals != NULL)
    *removals = made;
  else
    cleat__removals_free(made);
  return status;
}

cleat_status cleat_prune(struct cleat_client *client, const struct cleat_prune_options *options,
                         struct cleat_removals **removals, struct cleat_error *err) {
  ERR_OR_LOCAL(err);
  struct cleat_prune_options known;
  struct cleat_removals *made = NULL;
  if (check_client(client, errp) != CLEAT_OK)
    return tell(errp->status, errp, err);
  if (options == NULL)
    return tell(missing(errp, "options"), errp, err);
  cleat_status status = take_struct(&known, sizeof(known), options, "prune options", errp);
  if (status == CLEAT_OK && known.keep_every < 0)
    status = below_zero("keep_every", known.keep_every, errp);
  if (status == CLEAT_OK)
    status = cleat__retention_prune(client, &known, &made, errp);
  return tell(give_removals(status, made, removals), errp, err);
}

cleat_status cleat_gc(struct cleat_client *client, const struct cleat_gc_options *options,
                      struct cleat_removals **removals, struct cleat_error *err) {
  ERR_OR_LOCAL(err);
  struct cleat_gc_options known;
  struct cleat_removals *made = NULL;
  if (check_client(client, errp) != CLEAT_OK)
    return tell(errp->status, errp, err);
  cleat_status status = take_struct(&known, sizeof(known), options, "gc options", errp);
  if (status == CLEAT_OK)
    status = cleat__retention_gc(client, &known, &made, errp);
  return tell(give_removals(status, made, removals), errp, err);
}

size_t cleat_removals_count(const struct cleat_removals *removals) {
  return cleat__removals_count(removals);
}

const struct cleat_removal *cleat_removals_get(const struct cleat_removals *removals, size_t index) {
  return cleat__removals_get(removals, index);
}

size_t cleat_removals_kept(const struct cleat_removals *removals) {
  return cleat__removals_kept(removals);
}

uint64_t cleat_removals_bytes(const struct cleat_removals *removals) {
  return cleat__removals_bytes(removals);
}

void cleat_removals_free(struct cleat_removals *removals) {
  cleat__removals_free(removals);
}

const char *cleat_removal_kind_name(enum cleat_removal_kind kind) {
  static const char *const names[] = {"checkpoint", "attempt", "upload", "scratch", "pin", "unfinished", "start"};
  size_t index = (size_t)kind;
  return index < sizeof names / sizeof names[0] ? names[index] : "unknown";
}

cleat_status cleat_pin(struct cleat_client *client, int64_t step, struct cleat_error *err) {
  ERR_OR_LOCAL(err);
  if (check_client(client, errp) != CLEAT_OK)
    return tell(errp->status, errp, err);
  return tell(step < 0 ? below_zero("step", step, errp) : cleat__pin_put(client, step, errp), errp, err);
}

cleat_status cleat_unpin(struct cleat_client *client, int64_t step, struct cleat_error *err) {
  ERR_OR_LOCAL(err);
  if (check_client(client, errp) != CLEAT_OK)
    return tell(errp->status, errp, err);
  return tell(step < 0 ? below_zero("step", step, errp) : cleat__pin_remove(client, step, errp), errp, err);
}

cleat_status cleat_pinned(struct cleat_client *client, int64_t step, int *pinned, struct cleat_error *err) {
  ERR_OR_LOCAL(err);
  bool is_pinned = false;
  if (check_client(client, errp) != CLEAT_OK)
    return tell(errp->status, errp, err);
  if (pinned == NULL)
    return tell(missing(errp, "pinned"), errp, err);
  cleat_status status = step < 0 ? below_zero("step", step, errp) : cleat__pin_check(client, step, &is_pinned, errp);
  if (status == CLEAT_OK)
    *pinned = is_pinned ? 1 : 0;
  return tell(status, errp, err);
}
