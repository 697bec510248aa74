/* replicas.c: see replicas.h. */
#include "uploader/replicas.h"

#include "base/mem.h"
#include "uploader/record.h"

#include <stdlib.h>
#include <string.h>

/* Those of one set after another; in it the largest first, so that the small ones even out what they left. */
static int compare(const void *a, const void *b) {
  const struct cleat__replica *left = *(struct cleat__replica *const *)a;
  const struct cleat__replica *right = *(struct cleat__replica *const *)b;
  if (left->replicas != right->replicas)
    return left->replicas < right->replicas ? -1 : 1;
  if (left->group != right->group)
    return left->group < right->group ? -1 : 1;
  if (left->bytes != right->bytes)
    return left->bytes > right->bytes ? -1 : 1;
  return strcmp(left->name, right->name);
}

static unsigned least_loaded(const uint64_t *loads, unsigned count) {
  unsigned least = 0;
  for (unsigned i = 1; i < count; i++)
    if (loads[i] < loads[least])
      least = i;
  return least;
}

static void deal(struct cleat__replica **pieces, size_t count, uint64_t *loads) {
  for (size_t i = 0; i < count; i++) {
    unsigned writer = least_loaded(loads, pieces[i]->replicas);
    /* A piece of no bytes costs a little, too: not all of them go to one. */
    loads[writer] += pieces[i]->bytes > 0 ? pieces[i]->bytes : 1;
    pieces[i]->ours = writer == pieces[i]->replica;
  }
}

static cleat_status deal_sets(struct cleat__replica **pieces, size_t count, struct cleat_error *err) {
  cleat_status status = CLEAT_OK;
  for (size_t begin = 0, end = 0; begin < count && status == CLEAT_OK; begin = end) {
    const struct cleat__replica *first = pieces[begin];
    while (end < count && pieces[end]->replicas == first->replicas && pieces[end]->group == first->group)
      end++;
    uint64_t *loads = cleat__calloc(first->replicas, sizeof *loads);
    if (loads == NULL)
      status = cleat__error_no_memory(err, "the choice among replicas");
    else
      deal(pieces + begin, end - begin, loads);
    cleat__free(loads);
  }
  return status;
}

static cleat_status check(const struct cleat__replica *piece, struct cleat_error *err) {
  if (piece->replicas > CLEAT__WORLD_SIZE_MAX)
    return cleat__error_set(err, CLEAT_INVALID, "tensor %s: %u replicas are more than %d ranks",
                            piece->name, piece->replicas, CLEAT__WORLD_SIZE_MAX);
  if (piece->replica >= piece->replicas && piece->replica > 0)
    return cleat__error_set(err, CLEAT_INVALID, "tensor %s: replica %u of %u is none", piece->name,
                            piece->replica, piece->replicas);
  return CLEAT_OK;
}

cleat_status cleat__replicas_choose(struct cleat__replica *pieces, size_t count,
                                    struct cleat_error *err) {
  struct cleat__replica **shared = cleat__calloc(count, sizeof(struct cleat__replica *));
  if (shared == NULL)
    return cleat__error_no_memory(err, "the choice among replicas");
  cleat_status status = CLEAT_OK;
  size_t filled = 0;
  for (size_t i = 0; i < count && status == CLEAT_OK; i++) {
    status = check(&pieces[i], err);
    pieces[i].ours = pieces[i].replicas < 2;
    if (!pieces[i].ours)
      shared[filled++] = &pieces[i];
  }
  if (status == CLEAT_OK) {
    qsort(shared, filled, sizeof(struct cleat__replica *), compare);
    status = deal_sets(shared, filled, err);
  }
  cleat__free(shared);
  return status;
}
