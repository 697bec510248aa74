/* tensor.c: see tensor.h. Pure, thread-safe, allocates nothing. */
#include "uploader/model/tensor.h"

#include "uploader/model/name.h"

#include <assert.h>
#include <string.h>

/* ---- Data types --------------------------------------------------------------------------- */

struct dtype_info {
  const char *name;
  size_t length;
  unsigned bits;
};

/* Indexed by number. Unused numbers have no name. */
static const struct dtype_info dtypes[] = {
#define DTYPE_ROW(number, name, bits) [number] = {#name, sizeof #name - 1, bits},
    CLEAT_DTYPE_MAP(DTYPE_ROW)
#undef DTYPE_ROW
};

enum { DTYPES = sizeof dtypes / sizeof dtypes[0] };

/* All zero if the number is not a dtype. */
static const struct dtype_info *dtype_info(enum cleat_dtype dtype) {
  int number = (int)dtype;
  return &dtypes[number > 0 && number < DTYPES ? number : 0];
}

const char *cleat__dtype_name(enum cleat_dtype dtype) {
  return dtype_info(dtype)->name;
}

unsigned cleat__dtype_bits(enum cleat_dtype dtype) {
  return dtype_info(dtype)->bits;
}

bool cleat__dtype_parse(const char *name, size_t length, enum cleat_dtype *dtype) {
  for (int i = 1; i < DTYPES; i++)
    if (dtypes[i].length == length && memcmp(dtypes[i].name, name, length) == 0) {
      *dtype = (enum cleat_dtype)i;
      return true;
    }
  return false;
}

/* ---- Byte counts -------------------------------------------------------------------------- */

/* The tensor's name for an error message. */
static const char *quoted(const struct cleat__tensor_spec *tensor, char text[CLEAT__QUOTE_MAX]) {
  return cleat__name_quote(tensor->name, strlen(tensor->name), text);
}

/* Bytes of a box of `shape`, which has no negative size. */
static cleat_status box_bytes(const struct cleat__tensor_spec *tensor, const int64_t *shape, uint64_t *bytes,
                              struct cleat_error *err) {
  char name[CLEAT__QUOTE_MAX];
  uint64_t bits = cleat__dtype_bits(tensor->dtype);
  uint64_t count = 1;
  for (int i = 0; i < tensor->ndim; i++) {
    assert(shape[i] >= 0);
    if (__builtin_mul_overflow(count, (uint64_t)shape[i], &count))
      return cleat__error_set(err, CLEAT_INVALID, "tensor %s: its shape overflows at dimension %d",
                              quoted(tensor, name), i);
  }
  if (__builtin_mul_overflow(count, bits, &bits))
    return cleat__error_set(err, CLEAT_INVALID, "tensor %s: %llu elements of %s overflow", quoted(tensor, name),
                            (unsigned long long)count, cleat__dtype_name(tensor->dtype));
  if (bits % 8 != 0)
    return cleat__error_set(err, CLEAT_UNSUPPORTED, "tensor %s: %llu elements of %s do not fill whole bytes",
                            quoted(tensor, name), (unsigned long long)count, cleat__dtype_name(tensor->dtype));
  *bytes = bits / 8;
  return CLEAT_OK;
}

cleat_status cleat__tensor_bytes(const struct cleat__tensor_spec *tensor, uint64_t *bytes, struct cleat_error *err) {
  char name[CLEAT__QUOTE_MAX];
  if (cleat__dtype_bits(tensor->dtype) == 0)
    return cleat__error_set(err, CLEAT_INVALID, "tensor %s: %d is not a data type", quoted(tensor, name),
                            (int)tensor->dtype);
  if (tensor->ndim < 0 || tensor->ndim > CLEAT_MAX_DIMS)
    return cleat__error_set(err, CLEAT_INVALID, "tensor %s: %d dimensions, not 0 to %d", quoted(tensor, name),
                            tensor->ndim, CLEAT_MAX_DIMS);
  if (tensor->ndim > 0 && tensor->shape == NULL)
    return cleat__error_set(err, CLEAT_INVALID, "tensor %s: has no shape", quoted(tensor, name));
  for (int i = 0; i < tensor->ndim; i++)
    if (tensor->shape[i] < 0)
      return cleat__error_set(err, CLEAT_INVALID, "tensor %s: size %lld of dimension %d is negative",
                              quoted(tensor, name), (long long)tensor->shape[i], i);
  cleat_status status = box_bytes(tensor, tensor->shape, bytes, err);
  if (status == CLEAT_UNSUPPORTED)
    err->status = status = CLEAT_INVALID; /* a whole tensor of such a size cannot exist */
  return status;
}

/* ---- Slices ------------------------------------------------------------------------------- */

static int64_t slice_start(struct cleat__slice slice, int dim) {
  return slice.start == NULL ? 0 : slice.start[dim];
}

static int64_t slice_size(const struct cleat__tensor_spec *tensor, struct cleat__slice slice, int dim) {
  return slice.shape == NULL ? tensor->shape[dim] : slice.shape[dim];
}

cleat_status cleat__slice_bytes(const struct cleat__tensor_spec *tensor, struct cleat__slice slice, uint64_t *bytes,
                                struct cleat_error *err) {
  int64_t shape[CLEAT_MAX_DIMS];
  for (int i = 0; i < tensor->ndim; i++) {
    int64_t start = slice_start(slice, i);
    shape[i] = slice_size(tensor, slice, i);
    if (start >= 0 && shape[i] >= 0 && shape[i] <= tensor->shape[i] - start)
      continue;
    char name[CLEAT__QUOTE_MAX];
    return cleat__error_set(
        err, CLEAT_INVALID, "tensor %s: a slice of %lld from %lld exceeds dimension %d, whose size is %lld",
        quoted(tensor, name), (long long)shape[i], (long long)start, i, (long long)tensor->shape[i]);
  }
  return box_bytes(tensor, shape, bytes, err);
}

bool cleat__slice_is_whole(const struct cleat__tensor_spec *tensor, struct cleat__slice slice) {
  for (int i = 0; i < tensor->ndim; i++)
    if (slice_start(slice, i) != 0 || slice_size(tensor, slice, i) != tensor->shape[i])
      return false;
  return true;
}

/* ---- Runs --------------------------------------------------------------------------------- */

/* What a piece and a wanted slice have in common along one dimension, in elements. */
struct overlap {
  int64_t count;        /* 0 or negative: nothing */
  int64_t piece_start;  /* from the start of the piece */
  int64_t wanted_start; /* from the start of the wanted slice */
  int64_t piece_size;
  int64_t wanted_size;
};

static struct overlap overlap_of(const struct cleat__tensor_spec *tensor, struct cleat__slice piece,
                                 struct cleat__slice wanted, int dim) {
  int64_t piece_low = slice_start(piece, dim);
  int64_t wanted_low = slice_start(wanted, dim);
  struct overlap o = {.piece_size = slice_size(tensor, piece, dim), .wanted_size = slice_size(tensor, wanted, dim)};
  int64_t low = piece_low > wanted_low ? piece_low : wanted_low;
  int64_t piece_high = piece_low + o.piece_size;
  int64_t wanted_high = wanted_low + o.wanted_size;
  o.count = (piece_high < wanted_high ? piece_high : wanted_high) - low;
  o.piece_start = low - piece_low;
  o.wanted_start = low - wanted_low;
  return o;
}

/* Adds a dimension to step through, outside those added before. Offsets and strides are in bits here, so that elements
 * smaller than a byte can be handled. */
static void add_dim(struct cleat__slice_runs *runs, int64_t count, uint64_t piece_stride, uint64_t wanted_stride) {
  assert(runs->dims < CLEAT_MAX_DIMS && count > 1);
  runs->count[runs->dims] = count;
  runs->index[runs->dims] = 0;
  runs->piece_stride[runs->dims] = piece_stride;
  runs->wanted_stride[runs->dims] = wanted_stride;
  runs->dims++;
}

/* Converts bits to bytes. False: something is not a whole number of bytes. */
static bool bits_to_bytes(struct cleat__slice_runs *runs) {
  uint64_t all = runs->run.piece_offset | runs->run.wanted_offset | runs->run.length;
  for (int i = 0; i < runs->dims; i++)
    all |= runs->piece_stride[i] | runs->wanted_stride[i];
  if (all % 8 != 0)
    return false;
  runs->run.piece_offset /= 8;
  runs->run.wanted_offset /= 8;
  runs->run.length /= 8;
  for (int i = 0; i < runs->dims; i++) {
    runs->piece_stride[i] /= 8;
    runs->wanted_stride[i] /= 8;
  }
  return true;
}

cleat_status cleat__slice_runs_begin(const struct cleat__tensor_spec *tensor, struct cleat__slice piece,
                                     struct cleat__slice wanted, struct cleat__slice_runs *runs,
                                     struct cleat_error *err) {
  assert(tensor->ndim >= 0 && tensor->ndim <= CLEAT_MAX_DIMS);
  uint64_t piece_stride = cleat__dtype_bits(tensor->dtype);
  uint64_t wanted_stride = piece_stride;
  bool contiguous = true; /* in both, from this dimension to the innermost */
  runs->done = false;
  runs->dims = 0;
  runs->run = (struct cleat__run){0, 0, piece_stride};
  /* First check whether there is an overlap. Otherwise the strides could overflow below. */
  for (int i = 0; i < tensor->ndim && !runs->done; i++)
    runs->done = overlap_of(tensor, piece, wanted, i).count <= 0;
  for (int i = tensor->ndim - 1; i >= 0 && !runs->done; i--) {
    const struct overlap o = overlap_of(tensor, piece, wanted, i);
    if (contiguous)
      runs->run.length *= (uint64_t)o.count;
    else if (o.count > 1)
      add_dim(runs, o.count, piece_stride, wanted_stride);
    contiguous = contiguous && o.count == o.piece_size && o.count == o.wanted_size;
    runs->run.piece_offset += (uint64_t)o.piece_start * piece_stride;
    runs->run.wanted_offset += (uint64_t)o.wanted_start * wanted_stride;
    piece_stride *= (uint64_t)o.piece_size;
    wanted_stride *= (uint64_t)o.wanted_size;
  }
  if (!runs->done && !bits_to_bytes(runs)) {
    char name[CLEAT__QUOTE_MAX];
    return cleat__error_set(err, CLEAT_UNSUPPORTED, "tensor %s: the slice begins or ends inside a byte of %s",
                            quoted(tensor, name), cleat__dtype_name(tensor->dtype));
  }
  return CLEAT_OK;
}

bool cleat__slice_runs_next(struct cleat__slice_runs *runs, struct cleat__run *run) {
  int dim = 0;
  if (runs->done)
    return false;
  *run = runs->run;
  /* Counts up like an odometer; dimension 0 is the innermost. */
  for (; dim < runs->dims; dim++) {
    if (++runs->index[dim] < runs->count[dim])
      break;
    uint64_t steps = (uint64_t)runs->count[dim] - 1;
    runs->run.piece_offset -= steps * runs->piece_stride[dim];
    runs->run.wanted_offset -= steps * runs->wanted_stride[dim];
    runs->index[dim] = 0;
  }
  if (dim == runs->dims) {
    runs->done = true;
    return true;
  }
  runs->run.piece_offset += runs->piece_stride[dim];
  runs->run.wanted_offset += runs->wanted_stride[dim];
  return true;
}

void cleat__slice_runs_seek(struct cleat__slice_runs *runs, uint64_t piece_offset) {
  struct cleat__run skipped;
  if (runs->done || piece_offset < runs->run.piece_offset)
    return;
  /* Finds the last run that begins at or before the offset, from the outermost dimension inwards. */
  uint64_t left = piece_offset - runs->run.piece_offset;
  for (int dim = runs->dims; dim-- > 0;) {
    assert(runs->piece_stride[dim] > 0);
    uint64_t last = (uint64_t)runs->count[dim] - 1;
    uint64_t steps = left / runs->piece_stride[dim] < last ? left / runs->piece_stride[dim] : last;
    runs->index[dim] = (int64_t)steps;
    runs->run.piece_offset += steps * runs->piece_stride[dim];
    runs->run.wanted_offset += steps * runs->wanted_stride[dim];
    left -= steps * runs->piece_stride[dim];
  }
  if (runs->run.piece_offset + runs->run.length <= piece_offset)
    (void)cleat__slice_runs_next(runs, &skipped);
}
