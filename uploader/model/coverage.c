/* coverage.c: see coverage.h.
 *
 * Pieces make up a tensor if they do not overlap and are together as large as the tensor. A sweep along the dimension
 * that is cut most finds overlaps. So shards of rows or of columns cost time in proportion to their number and that of
 * their neighbours. A hole is located only if there is one. */
#include "uploader/model/coverage.h"

#include "base/mem.h"
#include "uploader/model/name.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Room for a slice as text, for errors. */
#define BOX_TEXT_MAX 256

struct box {
  int64_t start[CLEAT_MAX_DIMS];
  int64_t end[CLEAT_MAX_DIMS];
};

/* A piece in the sweep. */
struct placed {
  const struct cleat__owned_slice *piece;
  int64_t from, to; /* range along the dimension of the sweep */
};

static int64_t start_of(struct cleat__slice slice, int dim) {
  return slice.start != NULL ? slice.start[dim] : 0;
}

static int64_t end_of(const struct cleat__tensor_spec *tensor, struct cleat__slice slice, int dim) {
  return start_of(slice, dim) + (slice.shape != NULL ? slice.shape[dim] : tensor->shape[dim]);
}

static struct box box_of(const struct cleat__tensor_spec *tensor, struct cleat__slice slice) {
  struct box box;
  for (int d = 0; d < tensor->ndim; d++) {
    box.start[d] = start_of(slice, d);
    box.end[d] = end_of(tensor, slice, d);
  }
  return box;
}

/* Sets *both to the intersection. False: it is empty. */
static bool intersect(const struct box *a, const struct box *b, int ndim, struct box *both) {
  for (int d = 0; d < ndim; d++) {
    both->start[d] = a->start[d] > b->start[d] ? a->start[d] : b->start[d];
    both->end[d] = a->end[d] < b->end[d] ? a->end[d] : b->end[d];
    if (both->start[d] >= both->end[d])
      return false;
  }
  return true;
}

/* "[0:4, 8:16]" */
static const char *box_print(const struct box *box, int ndim, char text[BOX_TEXT_MAX]) {
  size_t length = (size_t)snprintf(text, BOX_TEXT_MAX, "[");
  for (int d = 0; d < ndim && length < BOX_TEXT_MAX - 1; d++) {
    int added = snprintf(text + length, BOX_TEXT_MAX - length, "%s%" PRId64 ":%" PRId64, d > 0 ? ", " : "",
                         box->start[d], box->end[d]);
    length += added > 0 ? (size_t)added : 0;
  }
  if (length < BOX_TEXT_MAX - 1)
    (void)snprintf(text + length, BOX_TEXT_MAX - length, "]");
  return text;
}

/* ---- Overlaps ----------------------------------------------------------------------------------- */

/* The dimension along which the pieces cover the smallest share of the tensor. */
static int sweep_dimension(const struct cleat__tensor_spec *tensor, const struct cleat__owned_slice *pieces,
                           size_t count) {
  assert(tensor->ndim > 0 && count > 0);
  int best = 0;
  double shortest = 2.0;
  for (int d = 0; d < tensor->ndim; d++) {
    double sum = 0;
    for (size_t i = 0; i < count; i++)
      sum += (double)(end_of(tensor, pieces[i].slice, d) - start_of(pieces[i].slice, d));
    double share = sum / (double)count / (double)tensor->shape[d];
    if (share < shortest) {
      shortest = share;
      best = d;
    }
  }
  return best;
}

static int placed_compare(const void *a, const void *b) {
  const struct placed *left = a;
  const struct placed *right = b;
  if (left->from != right->from)
    return left->from < right->from ? -1 : 1;
  return left->piece->rank < right->piece->rank ? -1 : left->piece->rank > right->piece->rank;
}

static cleat_status refuse_overlap(const struct cleat__tensor_spec *tensor, unsigned a, unsigned b,
                                   const struct box *both, struct cleat_error *err) {
  char box[BOX_TEXT_MAX];
  char name[CLEAT__QUOTE_MAX];
  cleat_status status = cleat__error_set(err, CLEAT_MISMATCH, "tensor %s: ranks %u and %u both hold %s",
                                         cleat__name_quote(tensor->name, strlen(tensor->name), name), a < b ? a : b,
                                         a < b ? b : a, tensor->ndim == 0 ? "it" : box_print(both, tensor->ndim, box));
  cleat__error_hint(err, "if several ranks hold the same piece, set `replicas` in its shard");
  return status;
}

static cleat_status find_overlap(const struct cleat__tensor_spec *tensor, const struct placed *placed, size_t count,
                                 struct cleat_error *err) {
  for (size_t i = 0; i < count; i++) {
    struct box box = box_of(tensor, placed[i].piece->slice);
    for (size_t k = i + 1; k < count && placed[k].from < placed[i].to; k++) {
      struct box other = box_of(tensor, placed[k].piece->slice);
      struct box both = {.start = {0}};
      if (intersect(&box, &other, tensor->ndim, &both))
        return refuse_overlap(tensor, placed[i].piece->rank, placed[k].piece->rank, &both, err);
    }
  }
  return CLEAT_OK;
}

/* ---- Holes -------------------------------------------------------------------------------------- */

static uint64_t volume(const struct box *box, int ndim) {
  uint64_t count = 1;
  for (int d = 0; d < ndim; d++) {
    assert(box->start[d] <= box->end[d]);
    count *= (uint64_t)(box->end[d] - box->start[d]);
  }
  return count;
}

/* Whether some of the box is in no piece. The pieces must not overlap. */
static bool is_lacking(const struct cleat__tensor_spec *tensor, const struct cleat__owned_slice *pieces, size_t count,
                       const struct box *box) {
  uint64_t held = 0;
  for (size_t i = 0; i < count; i++) {
    struct box piece = box_of(tensor, pieces[i].slice);
    struct box both = {.start = {0}};
    if (intersect(box, &piece, tensor->ndim, &both))
      held += volume(&both, tensor->ndim);
  }
  return held < volume(box, tensor->ndim);
}

/* Splits the box at an edge of `piece`, which overlaps it. */
static void split(const struct box *box, const struct box *piece, int ndim, struct box *low, struct box *high) {
  *low = *high = *box;
  for (int d = 0; d < ndim; d++) {
    if (piece->start[d] > box->start[d]) {
      low->end[d] = high->start[d] = piece->start[d];
      return;
    }
    if (piece->end[d] < box->end[d]) {
      low->end[d] = high->start[d] = piece->end[d];
      return;
    }
  }
}

/* Narrows the box, which is not fully covered, until no piece overlaps it. */
static void narrow_to_hole(const struct cleat__tensor_spec *tensor, const struct cleat__owned_slice *pieces,
                           size_t count, struct box *box) {
  assert(is_lacking(tensor, pieces, count, box));
  for (size_t i = 0; i < count;) {
    struct box piece = box_of(tensor, pieces[i].slice);
    struct box low, high;
    if (!intersect(box, &piece, tensor->ndim, &low)) {
      i++; /* the piece does not overlap parts of this box either */
      continue;
    }
    split(box, &piece, tensor->ndim, &low, &high);
    *box = is_lacking(tensor, pieces, count, &low) ? low : high;
  }
}

static cleat_status refuse_hole(const struct cleat__tensor_spec *tensor, const struct cleat__owned_slice *pieces,
                                size_t count, struct cleat_error *err) {
  struct cleat__slice whole = {NULL, NULL};
  struct box hole = box_of(tensor, whole);
  char box[BOX_TEXT_MAX];
  char name[CLEAT__QUOTE_MAX];
  narrow_to_hole(tensor, pieces, count, &hole);
  cleat_status status = cleat__error_set(err, CLEAT_MISMATCH, "tensor %s: no rank holds %s",
                                         cleat__name_quote(tensor->name, strlen(tensor->name), name),
                                         box_print(&hole, tensor->ndim, box));
  cleat__error_hint(err, "every rank must save its piece, in the same step");
  return status;
}

/* ---- Both --------------------------------------------------------------------------------------- */

static uint64_t elements(const struct cleat__tensor_spec *tensor, struct cleat__slice slice) {
  struct box box = box_of(tensor, slice);
  return volume(&box, tensor->ndim);
}

cleat_status cleat__coverage_check(const struct cleat__tensor_spec *tensor, struct cleat__owned_slice *pieces,
                                   size_t count, struct cleat_error *err) {
  assert(tensor->ndim >= 0 && tensor->ndim <= CLEAT_MAX_DIMS);
  struct cleat__slice whole = {NULL, NULL};
  uint64_t wanted = elements(tensor, whole);
  if (wanted == 0 || (count == 1 && cleat__slice_is_whole(tensor, pieces[0].slice)))
    return CLEAT_OK;
  struct placed *placed = cleat__calloc(count, sizeof *placed);
  if (placed == NULL)
    return cleat__error_no_memory(err, "the check of a tensor's pieces");
  int dim = tensor->ndim > 0 ? sweep_dimension(tensor, pieces, count) : 0;
  size_t filled = 0;
  uint64_t held = 0;
  for (size_t i = 0; i < count; i++) {
    uint64_t size = elements(tensor, pieces[i].slice);
    if (size == 0)
      continue;
    held += size;
    placed[filled++] = (struct placed){
        .piece = &pieces[i],
        .from = tensor->ndim > 0 ? start_of(pieces[i].slice, dim) : 0,
        .to = tensor->ndim > 0 ? end_of(tensor, pieces[i].slice, dim) : 1,
    };
  }
  qsort(placed, filled, sizeof *placed, placed_compare);
  cleat_status status = find_overlap(tensor, placed, filled, err);
  if (status == CLEAT_OK && held != wanted)
    status = refuse_hole(tensor, pieces, count, err);
  cleat__free(placed);
  return status;
}
