/* replicas.c: see replicas.h. */
#include "uploader/model/replicas.h"

#include "base/checksum.h"
#include "base/mem.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Room for the names, places and sizes of a set, for the digest. */
#define DIGEST_TEXT_MAX ((size_t)1 << 30)

/* Sorts set by set. Within a set the largest come first, so that small ones even out the loads at the end. */
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
  assert(count > 0);
  unsigned least = 0;
  for (unsigned i = 1; i < count; i++)
    if (loads[i] < loads[least])
      least = i;
  return least;
}

static void deal(struct cleat__replica **pieces, size_t count, uint64_t *loads) {
  for (size_t i = 0; i < count; i++) {
    assert(pieces[i]->replicas == pieces[0]->replicas && pieces[i]->replica < pieces[i]->replicas);
    unsigned writer = least_loaded(loads, pieces[i]->replicas);
    /* An empty piece counts as one byte, so that not all of them go to one replica. */
    loads[writer] += pieces[i]->bytes > 0 ? pieces[i]->bytes : 1;
    pieces[i]->ours = writer == pieces[i]->replica;
  }
}

/* Digest of what all replicas of a set know alike. */
static cleat_status digest_set(struct cleat__replica *const *pieces, size_t count, char *hex, struct cleat_error *err) {
  uint8_t digest[CLEAT__SHA256_BYTES];
  struct cleat__buffer text;
  cleat__buffer_init(&text, DIGEST_TEXT_MAX);
  cleat_status status = CLEAT_OK;
  for (size_t i = 0; i < count && status == CLEAT_OK; i++) {
    const struct cleat__replica *piece = pieces[i];
    status = cleat__buffer_print(&text, "%s\n%" PRIu64, piece->name, piece->bytes);
    for (int d = 0; piece->start != NULL && d < piece->ndim && status == CLEAT_OK; d++)
      status = cleat__buffer_print(&text, " %" PRId64, piece->start[d]);
    if (status == CLEAT_OK)
      status = cleat__buffer_append(&text, "\n", 1);
  }
  if (status == CLEAT_OK)
    status = cleat__sha256(text.data, text.length, digest);
  cleat__buffer_clear(&text);
  if (status != CLEAT_OK)
    return cleat__error_no_memory(err, "the choice among replicas");
  cleat__hex(digest, CLEAT__REPLICA_DIGEST_LENGTH / 2, hex);
  return CLEAT_OK;
}

/* Checks that this rank has one replica number in the set. */
static cleat_status check_set(struct cleat__replica *const *pieces, size_t count, struct cleat_error *err) {
  assert(count > 0);
  for (size_t i = 1; i < count; i++)
    if (pieces[i]->replica != pieces[0]->replica)
      return cleat__error_set(err, CLEAT_INVALID,
                              "a rank is one of the %u replicas of group %u, but tensor %s has "
                              "number %u, and %s has number %u",
                              pieces[0]->replicas, pieces[0]->group, pieces[0]->name, pieces[0]->replica,
                              pieces[i]->name, pieces[i]->replica);
  return CLEAT_OK;
}

static cleat_status tell_set(struct cleat__replica *const *pieces, size_t count, struct cleat__record *record,
                             struct cleat_error *err) {
  const struct cleat__replica *first = pieces[0];
  char hex[CLEAT__REPLICA_DIGEST_LENGTH + 1];
  cleat_status status = check_set(pieces, count, err);
  if (status == CLEAT_OK)
    status = digest_set(pieces, count, hex, err);
  if (status != CLEAT_OK)
    return status;
  struct cleat__replica_set *set = &record->replica_sets[record->replica_set_count++];
  *set = (struct cleat__replica_set){first->replicas, first->replica, first->group, NULL, NULL};
  set->first = cleat__arena_text(&record->arena, first->name, strlen(first->name));
  set->digest = cleat__arena_text(&record->arena, hex, strlen(hex));
  return set->first != NULL && set->digest != NULL ? CLEAT_OK
                                                   : cleat__error_no_memory(err, "the choice among replicas");
}

static bool is_same_set(const struct cleat__replica *a, const struct cleat__replica *b) {
  return a->replicas == b->replicas && a->group == b->group;
}

static cleat_status deal_sets(struct cleat__replica **pieces, size_t count, struct cleat__record *record,
                              struct cleat_error *err) {
  cleat_status status = CLEAT_OK;
  for (size_t begin = 0, end = 0; begin < count && status == CLEAT_OK; begin = end) {
    assert(pieces[begin]->replicas > 1);
    while (end < count && is_same_set(pieces[begin], pieces[end]))
      end++;
    uint64_t *loads = cleat__calloc(pieces[begin]->replicas, sizeof *loads);
    if (loads == NULL)
      return cleat__error_no_memory(err, "the choice among replicas");
    deal(pieces + begin, end - begin, loads);
    cleat__free(loads);
    status = tell_set(pieces + begin, end - begin, record, err);
  }
  return status;
}

/* Allocates room in the record for all sets of the sorted pieces. */
static cleat_status make_room(struct cleat__replica *const *pieces, size_t count, struct cleat__record *record,
                              struct cleat_error *err) {
  size_t sets = 0;
  for (size_t i = 0; i < count; i++)
    sets += i == 0 || !is_same_set(pieces[i - 1], pieces[i]);
  if (sets > CLEAT__RECORD_REPLICA_SETS_MAX)
    return cleat__error_set(err, CLEAT_LIMIT, "%zu groups of replicas are over the limit of %d", sets,
                            CLEAT__RECORD_REPLICA_SETS_MAX);
  record->replica_sets = cleat__arena_alloc(&record->arena, sets, sizeof *record->replica_sets);
  return record->replica_sets != NULL ? CLEAT_OK : cleat__error_no_memory(err, "the choice among replicas");
}

static cleat_status check(const struct cleat__replica *piece, struct cleat_error *err) {
  if (piece->replicas > CLEAT__WORLD_SIZE_MAX)
    return cleat__error_set(err, CLEAT_INVALID, "tensor %s: %u replicas are more than %d ranks", piece->name,
                            piece->replicas, CLEAT__WORLD_SIZE_MAX);
  if (piece->replica >= piece->replicas && piece->replica > 0)
    return cleat__error_set(err, CLEAT_INVALID, "tensor %s: replica number %u is not below the number of replicas, %u",
                            piece->name, piece->replica, piece->replicas);
  return CLEAT_OK;
}

cleat_status cleat__replicas_choose(struct cleat__replica *pieces, size_t count, struct cleat__record *record,
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
    status = make_room(shared, filled, record, err);
  }
  if (status == CLEAT_OK) {
    status = deal_sets(shared, filled, record, err);
  }
  cleat__free(shared);
  return status;
}

/* ---- At the commit ------------------------------------------------------------------------------ */

static int same_told(const struct cleat__replica_set *a, const struct cleat__replica_set *b) {
  int order = strcmp(a->digest, b->digest);
  if (order != 0)
    return order;
  if (a->replicas != b->replicas)
    return a->replicas < b->replicas ? -1 : 1;
  return a->group < b->group ? -1 : a->group > b->group;
}

static int told_compare(const void *a, const void *b) {
  const struct cleat__told_set *left = a;
  const struct cleat__told_set *right = b;
  int order = same_told(left->set, right->set);
  if (order != 0)
    return order;
  if (left->set->replica != right->set->replica)
    return left->set->replica < right->set->replica ? -1 : 1;
  return left->rank < right->rank ? -1 : left->rank > right->rank;
}

static cleat_status refuse_told(const struct cleat__told_set *first, size_t replica, bool twice,
                                struct cleat_error *err) {
  cleat_status status = cleat__error_set(
      err, CLEAT_MISMATCH, "rank %u says that tensor %s is held by %u ranks, but %s of them is replica %zu",
      first->rank, first->set->first, first->set->replicas, twice ? "more than one" : "none", replica);
  cleat__error_hint(err, "all replicas of a group must name the same tensors, and be numbered from 0");
  return status;
}

cleat_status cleat__replicas_check(struct cleat__told_set *told, size_t count, struct cleat_error *err) {
  qsort(told, count, sizeof *told, told_compare);
  for (size_t begin = 0, end = 0; begin < count; begin = end) {
    while (end < count && same_told(told[begin].set, told[end].set) == 0) {
      size_t expected = end - begin, found = told[end].set->replica;
      if (found != expected)
        return refuse_told(&told[begin], found < expected ? found : expected, found < expected, err);
      end++;
    }
    if (end - begin != told[begin].set->replicas)
      return refuse_told(&told[begin], end - begin, false, err);
  }
  return CLEAT_OK;
}
