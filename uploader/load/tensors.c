/* Loads slices of tensors straight into the caller's memory.
 *
 * The plan turns requests into wants: what a request needs of a piece, as a range of a file. It turns wants into
 * fetches: the parts that these ranges touch, each once. A fetch walks the runs of its wants, receives each run at its
 * destination, and drops the gaps. A part goes through a buffer instead if it has many runs, if two requests want the
 * same bytes, or if a destination is in device memory. Destinations of different fetches never overlap, so tasks need
 * no lock. */
#include "base/mem.h"
#include "uploader/load/job.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Smallest hole, in bytes, that is not fetched when checksums are off: fetching it would cost more than another
 * request. */
#define HOLE_BYTES_MIN ((size_t)1 << 20)

/* ---- Plan ------------------------------------------------------------------------------------- */

static struct cleat__tensor_spec spec_of(const struct cleat__checkpoint_tensor *tensor) {
  return (struct cleat__tensor_spec){tensor->info.name, tensor->info.dtype, tensor->info.ndim, tensor->info.shape};
}

static cleat_status runs_of(const struct cleat_load *load, const struct cleat__want *want,
                            struct cleat__slice_runs *runs, struct cleat_error *err) {
  struct cleat__tensor_spec spec = spec_of(want->tensor);
  struct cleat__slice piece = {want->piece->start, want->piece->shape};
  struct cleat__slice wanted = {load->wanted[want->request].start, load->wanted[want->request].shape};
  return cleat__slice_runs_begin(&spec, piece, wanted, runs, err);
}

/* Returns the bytes of all runs. *end: where the last one ends in the piece. */
static uint64_t runs_extent(const struct cleat__slice_runs *runs, uint64_t *end) {
  uint64_t bytes = runs->run.length;
  *end = runs->run.piece_offset + runs->run.length;
  for (int i = 0; i < runs->dims; i++) {
    bytes *= (uint64_t)runs->count[i];
    *end += ((uint64_t)runs->count[i] - 1) * runs->piece_stride[i];
  }
  return bytes;
}

/* Adds a want for each piece of the tensor that request `index` needs. */
static cleat_status want_pieces(struct cleat_load *load, size_t index, const struct cleat__checkpoint_tensor *tensor,
                                uint64_t bytes, struct cleat_error *err) {
  uint64_t covered = 0;
  for (size_t i = 0; i < tensor->piece_count && bytes > 0; i++) {
    struct cleat__want want = {
        .file = tensor->pieces[i].file, .request = index, .piece = tensor->pieces[i].piece, .tensor = tensor};
    struct cleat__slice_runs runs;
    uint64_t end = 0;
    cleat_status status = runs_of(load, &want, &runs, err);
    if (status != CLEAT_OK)
      return status;
    if (runs.done)
      continue;
    covered += runs_extent(&runs, &end);
    want.begin = want.piece->offset + runs.run.piece_offset;
    want.end = want.piece->offset + end;
    load->wants[load->want_count++] = want;
  }
  if (covered == bytes)
    return CLEAT_OK;
  return cleat__error_set(err, CLEAT_FORMAT, "step %lld: the pieces of tensor %s do not add up to the whole tensor",
                          (long long)load->checkpoint->manifest.step, tensor->info.name);
}

static int want_compare(const void *a, const void *b) {
  const struct cleat__want *left = a;
  const struct cleat__want *right = b;
  if (left->file != right->file)
    return left->file < right->file ? -1 : 1;
  if (left->begin != right->begin)
    return left->begin < right->begin ? -1 : 1;
  return left->end < right->end ? -1 : left->end > right->end;
}

static cleat_status wants_allocate(struct cleat_load *load, const struct cleat_load_request *requests, size_t count,
                                   struct cleat_error *err) {
  size_t pieces = 0;
  size_t dims = 0;
  for (size_t i = 0; i < count; i++) {
    const struct cleat__checkpoint_tensor *tensor = cleat__checkpoint_find(load->checkpoint, requests[i].name);
    if (tensor != NULL)
      pieces += tensor->piece_count;
    dims += (size_t)requests[i].ndim;
  }
  load->wanted = cleat__calloc(count, sizeof(*load->wanted));
  load->wants = cleat__calloc(pieces, sizeof(*load->wants));
  load->dims = cleat__calloc(dims * 2, sizeof(*load->dims));
  bool ok = load->wanted != NULL && load->wants != NULL && load->dims != NULL;
  return ok ? CLEAT_OK : cleat__error_no_memory(err, "the load");
}

static cleat_status wants_make(struct cleat_load *load, const struct cleat_load_request *requests,
                               const struct cleat_place *places, size_t count, struct cleat_error *err) {
  cleat_status status = wants_allocate(load, requests, count, err);
  int64_t *dims = load->dims;
  for (size_t i = 0; status == CLEAT_OK && i < count; i++) {
    const struct cleat_load_request *request = &requests[i];
    const struct cleat__checkpoint_tensor *tensor = cleat__checkpoint_find(load->checkpoint, request->name);
    if (tensor == NULL)
      continue; /* missing is allowed; otherwise the match had failed */
    struct cleat__wanted_tensor *wanted = &load->wanted[i];
    wanted->data = request->data;
    wanted->start = dims;
    wanted->shape = dims + request->ndim;
    dims += 2 * request->ndim;
    for (int d = 0; d < request->ndim; d++) {
      wanted->start[d] = request->start != NULL ? request->start[d] : 0;
      wanted->shape[d] = request->shape[d];
    }
    if (places != NULL && request->data_bytes > 0)
      status = cleat__lanes_find(&load->lanes, &places[i], request->data, &wanted->lane, err);
    if (status != CLEAT_OK)
      cleat__error_context(err, "tensor %s", request->name);
    else
      status = want_pieces(load, i, tensor, request->data_bytes, err);
  }
  if (status == CLEAT_OK && load->want_count > 0) {
    qsort(load->wants, load->want_count, sizeof(*load->wants), want_compare);
  }
  return status;
}

/* Upper bound on the want's runs in a range of `bytes` bytes. */
static uint64_t runs_within(const struct cleat_load *load, const struct cleat__want *want, uint64_t bytes) {
  struct cleat__slice_runs runs;
  struct cleat_error ignored;
  if (runs_of(load, want, &runs, &ignored) != CLEAT_OK || runs.dims == 0)
    return 1;
  return bytes / runs.piece_stride[0] + 2; /* the innermost stride is the shortest */
}

/* Whether the part's runs can be received straight at their destinations. */
static bool is_direct(const struct cleat_load *load, const struct cleat__fetch *fetch, uint64_t part_begin,
                      uint64_t part_end) {
  uint64_t runs = 0;
  uint64_t reached = 0;
  for (size_t i = fetch->first_want; i < load->want_count; i++) {
    const struct cleat__want *want = &load->wants[i];
    if (want->file != fetch->file || want->begin >= part_end)
      break;
    if (want->end <= part_begin)
      continue;
    if (want->begin < reached)
      return false; /* two requests want the same range */
    if (load->wanted[want->request].lane != CLEAT__LANE_HOST)
      return false; /* a socket cannot write to device memory */
    reached = want->end;
    runs += runs_within(load, want, part_end - part_begin);
    if (runs > CLEAT__LOAD_SPANS_MAX)
      return false;
  }
  return true;
}

/* Adds the parts that wants[first .. last) touch. These wants all have the same file. */
static void fetches_of_file(struct cleat_load *load, size_t first, size_t last) {
  assert(first < last);
  const size_t file = load->wants[first].file;
  const uint64_t part_bytes = load->checkpoint->files[file].info.part_bytes;
  size_t next_part = 0;
  size_t first_alive = first; /* the first want that reaches into the current part */
  for (size_t i = first; i < last; i++) {
    assert(load->wants[i].file == file && load->wants[i].begin < load->wants[i].end);
    assert(i == first || load->wants[i - 1].begin <= load->wants[i].begin); /* sorted */
    size_t from = (size_t)(load->wants[i].begin / part_bytes);
    size_t to = (size_t)((load->wants[i].end - 1) / part_bytes);
    for (size_t part = from > next_part ? from : next_part; part <= to; part++) {
      while (load->wants[first_alive].end <= part * part_bytes)
        first_alive++;
      struct cleat__fetch *fetch = &load->fetches[load->fetch_count++];
      *fetch = (struct cleat__fetch){.file = file, .part = part, .first_want = first_alive};
      uint64_t begin = cleat__load_part_begin(load, fetch);
      uint64_t bytes = cleat__load_part_bytes(load, fetch);
      fetch->buffered = !is_direct(load, fetch, begin, begin + bytes);
      load->bytes_total += bytes;
      next_part = part + 1;
    }
  }
}

static cleat_status fetches_make(struct cleat_load *load, struct cleat_error *err) {
  size_t parts = 0;
  for (size_t i = 0; i < load->want_count; i++) {
    if (i > 0 && load->wants[i].file == load->wants[i - 1].file)
      continue;
    parts += (size_t)load->checkpoint->files[load->wants[i].file].info.part_count;
  }
  load->fetches = cleat__calloc(parts, sizeof(*load->fetches));
  if (load->fetches == NULL)
    return cleat__error_no_memory(err, "the load");
  for (size_t first = 0, last = 0; first < load->want_count; first = last) {
    while (last < load->want_count && load->wants[last].file == load->wants[first].file)
      last++;
    fetches_of_file(load, first, last);
  }
  return CLEAT_OK;
}

cleat_status cleat__load_plan_tensors(struct cleat_load *load, const struct cleat_load_request *requests,
                                      const struct cleat_place *places, size_t count, struct cleat_error *err) {
  cleat_status status = wants_make(load, requests, places, count, err);
  return status == CLEAT_OK ? fetches_make(load, err) : status;
}

/* ---- Walk: the runs of one part, in the order of the file ----------------------------------------- */

struct walk {
  const struct cleat_load *load;
  size_t file;
  uint64_t begin, end; /* of the part, or of a range of it */
  size_t next_want;
  const struct cleat__want *want; /* the want whose runs are walked; NULL: take the next one */
  struct cleat__slice_runs runs;
};

/* A run, cut to the part or range. */
struct stretch {
  uint64_t offset; /* within the part or range */
  size_t length;
  char *to;
  size_t request;
};

/* Walks a range of the part. Stretches are cut to it, and their offsets start at it. */
static struct walk walk_range(const struct cleat_load *load, const struct cleat__fetch *fetch, uint64_t offset,
                              uint64_t bytes) {
  uint64_t begin = cleat__load_part_begin(load, fetch) + offset;
  return (struct walk){
      .load = load, .file = fetch->file, .begin = begin, .end = begin + bytes, .next_want = fetch->first_want};
}

static struct walk walk_begin(const struct cleat_load *load, const struct cleat__fetch *fetch) {
  return walk_range(load, fetch, 0, cleat__load_part_bytes(load, fetch));
}

/* Moves to the next want that reaches into the part. */
static bool walk_next_want(struct walk *walk) {
  const struct cleat_load *load = walk->load;
  for (; walk->next_want < load->want_count; walk->next_want++) {
    const struct cleat__want *want = &load->wants[walk->next_want];
    struct cleat_error ignored;
    if (want->file != walk->file || want->begin >= walk->end)
      return false;
    if (want->end <= walk->begin)
      continue;
    walk->next_want++;
    walk->want = want;
    /* This call succeeded when the plan was made, so it cannot fail now. */
    if (runs_of(load, want, &walk->runs, &ignored) != CLEAT_OK)
      return false;
    if (walk->begin > want->piece->offset) {
      cleat__slice_runs_seek(&walk->runs, walk->begin - want->piece->offset);
    }
    return true;
  }
  return false;
}

static bool walk_next(struct walk *walk, struct stretch *stretch) {
  struct cleat__run run;
  for (;;) {
    if (walk->want == NULL && !walk_next_want(walk))
      return false;
    if (cleat__slice_runs_next(&walk->runs, &run) && walk->want->piece->offset + run.piece_offset < walk->end) {
      break;
    }
    walk->want = NULL;
  }
  uint64_t from = walk->want->piece->offset + run.piece_offset;
  uint64_t to = from + run.length;
  assert(to > walk->begin && from < walk->end);
  uint64_t cut = from < walk->begin ? walk->begin - from : 0;
  if (to > walk->end)
    to = walk->end;
  stretch->offset = from + cut - walk->begin;
  stretch->length = (size_t)(to - from - cut);
  stretch->to = walk->load->wanted[walk->want->request].data + run.wanted_offset + cut;
  stretch->request = walk->want->request;
  return true;
}

/* ---- Direct: received where it belongs ---------------------------------------------------------- */

/* Describes the whole part as spans: runs go to their destinations, gaps are dropped. */
static cleat_status direct_spans(const struct cleat_load *load, const struct cleat__fetch *fetch,
                                 struct cleat__span **spans, size_t *count, struct cleat_error *err) {
  struct stretch stretch;
  size_t stretches = 0;
  struct walk walk = walk_begin(load, fetch);
  while (walk_next(&walk, &stretch))
    stretches++;
  struct cleat__span *fresh = cleat__calloc(2 * stretches + 1, sizeof(*fresh));
  if (fresh == NULL)
    return cleat__error_no_memory(err, "a part");
  uint64_t reached = 0;
  size_t made = 0;
  walk = walk_begin(load, fetch);
  while (walk_next(&walk, &stretch)) {
    if (stretch.offset > reached) {
      fresh[made++] = (struct cleat__span){NULL, (size_t)(stretch.offset - reached)};
    }
    assert(stretch.offset >= reached); /* is_direct has checked that no two overlap */
    fresh[made++] = (struct cleat__span){stretch.to, stretch.length};
    reached = stretch.offset + stretch.length;
  }
  uint64_t bytes = walk.end - walk.begin;
  if (bytes > reached)
    fresh[made++] = (struct cleat__span){NULL, (size_t)(bytes - reached)};
  assert(made <= 2 * stretches + 1 && cleat__spans_length(cleat__spans(fresh, made)) == bytes);
  *spans = fresh;
  *count = made;
  return CLEAT_OK;
}

/* Fetches without a check, and leaves out large holes. */
static cleat_status fetch_between_holes(struct cleat_load *load, const struct cleat__fetch *fetch,
                                        struct cleat__spans spans, struct cleat_error *err) {
  uint64_t offset = cleat__load_part_begin(load, fetch);
  cleat_status status = CLEAT_OK;
  for (size_t i = 0, first = 0; status == CLEAT_OK && i <= spans.count; i++) {
    bool edge = i == 0 || i == spans.count - 1; /* gaps at both ends need not be fetched */
    bool hole = i < spans.count && spans.items[i].base == NULL && (edge || spans.items[i].length >= HOLE_BYTES_MIN);
    if (i < spans.count && !hole)
      continue;
    uint64_t bytes = cleat__spans_length(cleat__spans(spans.items + first, i - first));
    if (bytes > 0) {
      status = cleat__load_fetch_range(load, fetch, offset, cleat__spans(spans.items + first, i - first), err);
    }
    offset += bytes + (i < spans.count ? spans.items[i].length : 0);
    first = i + 1;
  }
  return status;
}

static cleat_status fetch_direct(struct cleat_load *load, const struct cleat__fetch *fetch, struct cleat_error *err) {
  struct cleat__span *spans = NULL;
  size_t count = 0;
  cleat_status status = direct_spans(load, fetch, &spans, &count, err);
  if (status != CLEAT_OK)
    return status;
  status = load->verify ? cleat__load_fetch_part(load, fetch, cleat__spans(spans, count), err)
                        : fetch_between_holes(load, fetch, cleat__spans(spans, count), err);
  cleat__free(spans);
  return status;
}

/* ---- Buffered: received in a buffer, then scattered ------------------------------------------------ */

/* Copies the range from the buffer to its destinations. Returns when all bytes are there or, after a failure, when no
 * copy runs any more. The stretches of a slice are equally spaced, so they become the rows of one copy. */
static cleat_status scatter(struct cleat_load *load, const struct cleat__load_task *task, uint64_t offset,
                            const struct cleat__span *range, struct cleat_error *err) {
  assert(offset + range->length <= cleat__load_part_bytes(load, &task->fetch));
  struct cleat__batch batch;
  struct stretch stretch;
  struct walk walk = walk_range(load, &task->fetch, offset, range->length);
  cleat_status status = CLEAT_OK;
  cleat__batch_init(&batch, &load->lanes);
  while (status == CLEAT_OK && walk_next(&walk, &stretch)) {
    struct cleat__stretch copied = {stretch.to, (const char *)range->base + stretch.offset, stretch.length};
    status = cleat__batch_add(&batch, load->wanted[stretch.request].lane, stretch.request + 1, copied, err);
  }
  return cleat__batch_end(&batch, status, err);
}

cleat_status cleat__load_process_tensors(struct cleat_load *load, struct cleat__load_task *task,
                                         struct cleat_error *err) {
  return task->fetch.buffered ? cleat__load_fetch_buffered(load, task, scatter, err)
                              : fetch_direct(load, &task->fetch, err);
}
