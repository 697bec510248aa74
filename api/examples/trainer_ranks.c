/* trainer_ranks.c: the model of trainer.c, trained by several processes that save one checkpoint together. They can
 * continue with any other number of processes. The bits are the same for each number.
 *
 * Data parallel, with the optimizer's state split into slices, as ZeRO-1 does. Every rank has all weights, learns a
 * part of each batch, and keeps Adam's moments only for its own slice of the numbers. The ranks use shared memory
 * (trainer_ranks_shared.h) where a real job uses collectives. Cleat does not need that memory.
 *
 *   describe()     one table of what this rank has, and which part of the whole that is
 *   resume()       all ranks resume from the same step, each with its slice, from any earlier number of ranks
 *   save_begin()   each rank saves what it has; rank 0 commits when all have done so
 *   move()         the fence, and then the slice's step
 *   train()        the loop
 *
 * A batch always consists of MICRO_BATCHES small batches, which are added up in one order. So the number of ranks does
 * not change the result. When a rank dies, the others end with an error in bounded time. Then all of them are started
 * again. */
#include "trainer_model.h"
#include "trainer_options.h"
#include "trainer_ranks_shared.h"
#include "trainer_results.h"
#include "trainer_text.h"

#include <cleat.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MICRO_BATCH 2 /* examples */
#define LEARNING_RATE 4e-3f
#define LEARNING_RATE_KEPT 0.999f
#define STAGING_BYTES (UINT64_C(64) << 20) /* per rank; the ranks share the machine */
#define PART_BYTES (UINT64_C(8) << 20)
#define ENTRIES_MAX (MODEL_PARAMETERS + 7)
#define NAME_BYTES 48

struct ranks_options {
  const char *text;
  const char *store;
  const char *loss_log;
  const char *dump_weights;
  int64_t steps;
  int64_t save_every;
  int64_t seed;
  int64_t hidden;
  int64_t memory_rows;
  int64_t rank_timeout;
};

/* The state of training, the same on all ranks. */
struct state {
  int64_t step;
  uint64_t random;
  uint64_t turn; /* examples seen: the position in the data */
  float learning_rate;
  uint64_t text; /* its fingerprint */
};

struct trainer {
  struct ranks_options options;
  struct text text;
  struct model model; /* its weights are in `weights`, one parameter after the other */
  float *weights;     /* the weights of all parameters */
  int64_t count;      /* their number */
  int64_t first;      /* this rank's slice of them: its start … */
  int64_t slice;      /* … and its length */
  float *m, *v;       /* Adam's moments, only for the slice */
  struct state state;
  struct state saved; /* the state when the save in flight began */
  unsigned rank, world_size;
  struct shared shared;
  struct cleat_client *client;
  struct cleat_save *save; /* in flight; NULL: none */
  FILE *loss_log;          /* only on rank 0 */
  float loss;
};

/* What is saved as a tensor, or as a part of one. */
struct entry {
  char name[NAME_BYTES];
  enum cleat_dtype dtype;
  int ndim;
  int64_t shape[2];
  bool is_slice;  /* of a tensor of `count` numbers */
  bool is_shared; /* every rank has it; otherwise only rank 0 saves it */
  void *data;
  uint64_t bytes;
};

/* ---- Small things ------------------------------------------------------------------------- */

static bool complain(const struct trainer *t, const char *what, const struct cleat_error *err) {
  if (t->world_size == 0) { /* the rank is not known yet */
    fprintf(stderr, "trainer: %s: %s\n", what, err->message);
  } else {
    fprintf(stderr, "trainer: rank %u: %s: %s\n", t->rank, what, err->message);
  }
  if (err->hint[0]) {
    fprintf(stderr, "hint: %s\n", err->hint);
  }
  return false;
}

/* ---- What is in a checkpoint -------------------------------------------------------------- */

static struct entry scalar(const char *name, enum cleat_dtype dtype, void *data) {
  struct entry entry = {.dtype = dtype, .data = data, .bytes = cleat_dtype_bits(dtype) / 8};
  snprintf(entry.name, sizeof entry.name, "%s", name);
  return entry;
}

static struct entry weight(const struct model_parameter *parameter) {
  struct entry entry = {.dtype = CLEAT_DTYPE_F32, .ndim = 2, .is_shared = true};
  entry.shape[0] = parameter->rows;
  entry.shape[1] = parameter->columns;
  entry.data = parameter->weight;
  entry.bytes = (uint64_t)model_numbers(parameter) * sizeof(float);
  snprintf(entry.name, sizeof entry.name, "model.%s", parameter->name);
  return entry;
}

static struct entry moment(const struct trainer *t, const char *name, float *data) {
  struct entry entry = {.dtype = CLEAT_DTYPE_F32, .ndim = 1, .is_slice = true, .data = data};
  entry.shape[0] = t->slice;
  entry.bytes = (uint64_t)t->slice * sizeof(float);
  snprintf(entry.name, sizeof entry.name, "%s", name);
  return entry;
}

/* Fills the table and returns its length. */
static size_t describe(struct trainer *t, struct state *state, struct entry entries[ENTRIES_MAX]) {
  struct entry *next = entries;
  for (int i = 0; i < MODEL_PARAMETERS; i++) {
    *next++ = weight(&t->model.parameters[i]);
  }
  *next++ = moment(t, "adam.m", t->m);
  *next++ = moment(t, "adam.v", t->v);
  *next++ = scalar("state.step", CLEAT_DTYPE_I64, &state->step);
  *next++ = scalar("state.random", CLEAT_DTYPE_U64, &state->random);
  *next++ = scalar("state.turn", CLEAT_DTYPE_U64, &state->turn);
  *next++ = scalar("state.learning_rate", CLEAT_DTYPE_F32, &state->learning_rate);
  *next++ = scalar("state.text", CLEAT_DTYPE_U64, &state->text);
  return (size_t)(next - entries);
}

/* ---- Resume ------------------------------------------------------------------------------- */

/* A rank can load any slice, whichever ranks saved it. So the moments are spread over the present number of ranks. */
static bool load(struct trainer *t, struct cleat_checkpoint *checkpoint) {
  struct entry entries[ENTRIES_MAX];
  struct cleat_load_request requests[ENTRIES_MAX];
  struct cleat_error err;
  size_t count = describe(t, &t->state, entries);
  for (size_t i = 0; i < count; i++) {
    const struct entry *e = &entries[i];
    requests[i] = (struct cleat_load_request){.name = e->name,
                                              .dtype = e->dtype,
                                              .ndim = e->ndim,
                                              .shape = e->shape,
                                              .start = e->is_slice ? &t->first : NULL,
                                              .data = e->data,
                                              .data_bytes = e->bytes};
  }
  if (cleat_load_tensors(checkpoint, requests, count, NULL, &err)) {
    return complain(t, "cannot resume", &err);
  }
  if (t->state.text != t->text.fingerprint) {
    fprintf(stderr, "trainer: rank %u: cannot resume: the checkpoint was trained on another text than %s\n", t->rank,
            t->options.text);
    return false;
  }
  return true;
}

static bool resume(struct trainer *t) {
  struct cleat_checkpoint *checkpoint;
  struct cleat_error err;
  char changes[120];
  if (cleat_resume(t->client, NULL, &checkpoint, &err)) {
    return complain(t, "cannot resume", &err);
  }
  if (!checkpoint) {
    return t->rank > 0 || printf("starting fresh, ranks: %u\n", t->world_size) > 0;
  }
  bool done = load(t, checkpoint);
  if (done && t->rank == 0) {
    bool changed = cleat_checkpoint_reshard(checkpoint, changes, sizeof changes) > 0;
    printf("resumed from step %" PRId64 ", ranks: %u%s%s\n", t->state.step, t->world_size, changed ? "; " : "",
           changed ? changes : "");
  }
  cleat_checkpoint_free(checkpoint);
  return done;
}

/* ---- Save --------------------------------------------------------------------------------- */

/* Waits until the save in flight, if any, is committed. Then all ranks have saved their parts. */
static bool save_end(struct trainer *t) {
  struct cleat_error err;
  if (!t->save) {
    return true;
  }
  bool committed = !cleat_save_wait(t->save, &err);
  cleat_save_free(t->save);
  t->save = NULL;
  if (!committed) {
    return complain(t, "the checkpoint was not saved", &err);
  }
  if (t->rank == 0) {
    printf("step %" PRId64 " is committed\n", t->saved.step);
  }
  return true;
}

static bool fence(struct trainer *t) {
  struct cleat_error err;
  return !t->save || !cleat_save_wait_staged(t->save, &err) || complain(t, "the checkpoint was not saved", &err);
}

/* Every rank has the weights. Cleat chooses one rank to write each of them. */
static struct cleat_shard shard_of(const struct trainer *t, const struct entry *entry) {
  struct cleat_shard shard = {0};
  if (entry->is_shared) {
    shard.replicas = t->world_size;
    shard.replica = t->rank;
  }
  if (entry->is_slice) {
    shard.global_shape = &t->count;
    shard.start = &t->first;
  }
  return shard;
}

static bool save_begin(struct trainer *t) {
  struct entry entries[ENTRIES_MAX];
  struct cleat_tensor tensors[ENTRIES_MAX];
  struct cleat_shard shards[ENTRIES_MAX];
  struct cleat_error err;
  char metadata[96];
  t->saved = t->state;
  size_t count = describe(t, &t->saved, entries);
  size_t ours = 0;
  for (size_t i = 0; i < count; i++) {
    const struct entry *e = &entries[i];
    if (!e->is_shared && !e->is_slice && t->rank > 0) {
      continue;
    }
    tensors[ours] =
        (struct cleat_tensor){.name = e->name, .dtype = e->dtype, .ndim = e->ndim, .shape = e->shape, .data = e->data};
    shards[ours++] = shard_of(t, e);
  }
  snprintf(metadata, sizeof metadata, "{\"loss\": %.4f, \"learning_rate\": %.3g}", (double)t->loss,
           (double)t->saved.learning_rate);

  struct cleat_save_request request = CLEAT_SAVE_REQUEST_INIT;
  request.step = t->saved.step;
  request.tensors = tensors;
  request.tensor_count = ours;
  request.shards = shards;
  request.metadata = metadata;
  return !cleat_save_async(t->client, &request, &t->save, &err) || complain(t, "the checkpoint was not saved", &err);
}

/* ---- Training ----------------------------------------------------------------------------- */

/* Makes the model add its gradients to this array. */
static void aim_gradients(struct trainer *t, float *gradient) {
  for (int i = 0; i < MODEL_PARAMETERS; i++) {
    t->model.parameters[i].gradient = gradient;
    gradient += model_numbers(&t->model.parameters[i]);
  }
}

/* Learns this rank's share of the batch. The random numbers of a micro-batch depend only on its index, not on the rank
 * that learns it. */
static void learn(struct trainer *t) {
  const uint8_t *targets[MICRO_BATCH];
  uint64_t step_random = model_random(&t->state.random);
  for (unsigned micro = t->rank; micro < MICRO_BATCHES; micro += t->world_size) {
    uint64_t random = step_random + micro;
    random = model_random(&random);
    for (unsigned i = 0; i < MICRO_BATCH; i++) {
      targets[i] = text_example(&t->text, t->state.turn + micro * MICRO_BATCH + i);
    }
    aim_gradients(t, shared_gradient(&t->shared, (int)micro));
    shared_losses(&t->shared)[micro] = model_learn(&t->model, targets, MICRO_BATCH, &random);
  }
  t->state.turn += MICRO_BATCHES * MICRO_BATCH;
}

/* Computes the mean over all micro-batches for this rank's slice. The result is in the first gradient; the others are
 * zero again. */
static float *reduce(const struct trainer *t) {
  float *sum = shared_gradient(&t->shared, 0) + t->first;
  for (int micro = 1; micro < MICRO_BATCHES; micro++) {
    float *gradient = shared_gradient(&t->shared, micro) + t->first;
    for (int64_t i = 0; i < t->slice; i++) {
      sum[i] += gradient[i];
    }
    memset(gradient, 0, (size_t)t->slice * sizeof(float));
  }
  for (int64_t i = 0; i < t->slice; i++) {
    sum[i] /= MICRO_BATCHES;
  }
  return sum;
}

static void update(struct trainer *t) {
  float *gradient = reduce(t);
  float *moved = shared_weights(&t->shared) + t->first;
  t->state.step++;
  model_adam(t->weights + t->first, moved, t->m, t->v, gradient, t->slice,
             model_rate(t->state.step, t->state.learning_rate));
  memset(gradient, 0, (size_t)t->slice * sizeof(float));
  t->state.learning_rate *= LEARNING_RATE_KEPT;
  t->loss = 0;
  for (int micro = 0; micro < MICRO_BATCHES; micro++) {
    t->loss += shared_losses(&t->shared)[micro];
  }
  t->loss /= MICRO_BATCHES;
}

/* One step of all ranks. All gradients are there. Each rank moves its slice, and then every rank takes all weights. A
 * save in flight reads the moments and the weights until the fence. */
static bool move(struct trainer *t) {
  if (!shared_barrier(&t->shared) || !fence(t)) {
    return false;
  }
  update(t);
  if (!shared_barrier(&t->shared)) {
    return false;
  }
  memcpy(t->weights, shared_weights(&t->shared), (size_t)t->count * sizeof(float));
  return true;
}

static bool train(struct trainer *t) {
  while (t->state.step < t->options.steps) {
    learn(t);
    if (!move(t) || !results_log(t->loss_log, t->options.loss_log, t->state.step, t->loss)) {
      return false;
    }
    bool is_last = t->state.step == t->options.steps;
    if ((is_last || t->state.step % t->options.save_every == 0) && (!save_end(t) || !save_begin(t))) {
      return false;
    }
  }
  return save_end(t);
}

/* ---- Results ------------------------------------------------------------------------------ */

static bool report(const struct trainer *t) {
  if (t->rank > 0) {
    return true;
  }
  printf("trained to step %" PRId64 ", loss %a, weights %016" PRIx64 "\n", t->state.step, (double)t->loss,
         text_hash(t->weights, (size_t)t->count * sizeof(float)));
  if (!t->options.dump_weights) {
    return true;
  }
  if (!results_folder(t->options.dump_weights)) {
    return false;
  }
  for (int i = 0; i < MODEL_PARAMETERS; i++) {
    const struct model_parameter *p = &t->model.parameters[i];
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "model.%s", p->name);
    if (!results_dump(t->options.dump_weights, name, p->weight, (uint64_t)model_numbers(p) * sizeof(float))) {
      return false;
    }
  }
  return true;
}

/* ---- Start -------------------------------------------------------------------------------- */

/* Opens a client to learn this process's rank. The client that trains is then told the number of ranks as its
 * topology. */
static bool open_client(struct trainer *t) {
  struct cleat_client_options options = CLEAT_CLIENT_OPTIONS_INIT;
  struct cleat_error err;
  options.staging_bytes = STAGING_BYTES;
  options.part_bytes = PART_BYTES;
  options.staging_on_demand = 1;
  options.rank_timeout_s = (unsigned)t->options.rank_timeout;
  if (cleat_client_open(t->options.store, &options, &t->client, &err)) {
    return complain(t, "cannot use the store", &err);
  }
  t->rank = options.rank = cleat_client_rank(t->client);
  t->world_size = options.world_size = cleat_client_world_size(t->client);
  options.topology.dp = t->world_size;
  cleat_client_close(t->client);
  t->client = NULL;
  if (cleat_client_open(t->options.store, &options, &t->client, &err)) {
    return complain(t, "cannot use the store", &err);
  }
  if (t->world_size > MICRO_BATCHES) {
    fprintf(stderr, "trainer: rank %u: %u ranks are more than the %d micro-batches of a step\n", t->rank, t->world_size,
            MICRO_BATCHES);
    return false;
  }
  return true;
}

/* Makes a model with its weights in one array, one parameter after the other, and the moments of this rank's slice. */
static bool make_model(struct trainer *t) {
  struct model *model = &t->model;
  if (!model_shape(model, (int64_t)t->text.vocabulary_count, t->options.hidden, t->options.memory_rows)) {
    fprintf(stderr, "trainer: --hidden must be a multiple of %d\n", MODEL_LANES);
    return false;
  }
  for (int i = 0; i < MODEL_PARAMETERS; i++) {
    t->count += model_numbers(&model->parameters[i]);
  }
  t->first = t->count * t->rank / t->world_size;
  t->slice = t->count * (t->rank + 1) / t->world_size - t->first;
  t->weights = calloc((size_t)t->count, sizeof(float));
  t->m = calloc((size_t)t->slice, sizeof(float));
  t->v = calloc((size_t)t->slice, sizeof(float));
  if (!t->weights || !t->m || !t->v) {
    errno = ENOMEM;
    return results_fail("make", "the model");
  }
  float *at = t->weights;
  for (int i = 0; i < MODEL_PARAMETERS; i++) {
    model->parameters[i].weight = at;
    at += model_numbers(&model->parameters[i]);
  }
  model_randomize(model, &t->state.random);
  return true;
}

static bool meet(struct trainer *t) {
  const char *start = getenv("CLEAT_START");
  t->shared = (struct shared){
      .rank = t->rank, .world_size = t->world_size, .count = t->count, .timeout_s = t->options.rank_timeout};
  if (t->world_size > 1 && !start) {
    fprintf(stderr, "trainer: rank %u: CLEAT_START is not set: the ranks' shared memory has no name\n", t->rank);
    return false;
  }
  return shared_open(&t->shared, t->world_size > 1 ? start : NULL);
}

static bool start(struct trainer *t) {
  const struct ranks_options *o = &t->options;
  if (!text_read(&t->text, o->text) || !open_client(t)) {
    return false;
  }
  t->state = (struct state){.random = (uint64_t)o->seed, .learning_rate = LEARNING_RATE};
  t->state.text = t->text.fingerprint;
  if (!make_model(t) || !resume(t) || !meet(t)) {
    return false;
  }
  if (o->loss_log && t->rank == 0 && !(t->loss_log = fopen(o->loss_log, t->state.step > 0 ? "a" : "w"))) {
    return results_fail("write", o->loss_log);
  }
  return true;
}

/* Tells the other ranks about a failure: through the shared memory, and for a save in flight through the store. */
static void stop(struct trainer *t, bool done) {
  if (!done) {
    shared_fail(&t->shared);
  }
  if (!done && t->save) {
    cleat_save_cancel(t->save);
  }
  cleat_save_free(t->save); /* first: it waits for the save, which may still use the rest */
  cleat_client_close(t->client);
  if (t->loss_log) {
    fclose(t->loss_log);
  }
  shared_close(&t->shared);
  free(t->weights);
  free(t->m);
  free(t->v);
  text_clear(&t->text);
}

static bool parse(struct ranks_options *o, int argc, char **argv) {
  *o = (struct ranks_options){
      .steps = 1000, .save_every = 100, .seed = 1, .hidden = 128, .memory_rows = 1024, .rank_timeout = 600};
  const struct flag flags[] = {
      {"--text", "the text to learn", &o->text, NULL, 0, 0},
      {"--store", "where checkpoints go: file:///dir or s3://bucket/prefix", &o->store, NULL, 0, 0},
      {"--steps", "train up to this step", NULL, &o->steps, 1, INT64_C(1) << 40},
      {"--save-every", "save after every so many steps", NULL, &o->save_every, 1, 1 << 30},
      {"--seed", "seed of the random numbers", NULL, &o->seed, 0, INT64_MAX},
      {"--hidden", "units of the hidden layer", NULL, &o->hidden, MODEL_LANES, MODEL_HIDDEN_MAX},
      {"--memory-rows", "rows of the memory: the size of a checkpoint", NULL, &o->memory_rows, 1, 1 << 20},
      {"--loss-log", "file for the loss of each step", &o->loss_log, NULL, 0, 0},
      {"--dump-weights", "folder for the final weights, one raw file per parameter", &o->dump_weights, NULL, 0, 0},
      {"--rank-timeout", "seconds to wait for another rank", NULL, &o->rank_timeout, 1, 1 << 20},
      {NULL, NULL, NULL, NULL, 0, 0}};
  if (!options_read("trainer_ranks --text FILE --store URL [FLAG VALUE]...", flags, argc, argv)) {
    return false;
  }
  if (!o->text || !o->store) {
    fprintf(stderr, "trainer: %s is missing\n", o->text ? "--store" : "--text");
    return false;
  }
  return true;
}

int main(int argc, char **argv) {
  struct trainer t = {0};
  if (!parse(&t.options, argc, argv)) {
    return 2;
  }
  setvbuf(stdout, NULL, _IOLBF, 0);
  bool done = start(&t) && train(&t) && report(&t);
  stop(&t, done);
  return done ? 0 : 1;
}
