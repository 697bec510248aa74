/* trainer.c: trains a small language model and saves it with Cleat while training continues. When
 * it is started again, it continues from the last checkpoint. The resulting bits are the same as
 * without an interruption.
 *
 * What to read first, in the order in which a training job needs it:
 *
 *   describe()     one table of everything that a resume needs; saving and loading both use it
 *   resume()       loads the newest checkpoint, or starts fresh if there is none
 *   save_begin()   starts a save, which runs in the background
 *   fence()        waits until the weights may change
 *   save_end()     waits until the checkpoint is committed
 *   train()        the loop that calls them
 *
 * One thread trains; Cleat's own threads upload. A failed save ends the training with its message.
 * The earlier checkpoints are untouched, so the next start only loses time. */
#include "trainer_device.h"
#include "trainer_model.h"
#include "trainer_options.h"
#include "trainer_results.h"
#include "trainer_text.h"

#include <cleat.h>

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define BATCH 32                         /* examples per step */
#define LEARNING_RATE 4e-3f              /* at the start … */
#define LEARNING_RATE_KEPT 0.999f        /* … and the factor by which each step multiplies it */
#define SHARD_BYTES (UINT64_C(32) << 20) /* gives files of a handy size */
#define TENSORS_MAX (3 * MODEL_PARAMETERS + 5)
#define NAME_BYTES 48

/* The state of training besides the model's arrays. Without any one of these fields, a resumed run
 * would drift. */
struct state {
  int64_t step;        /* steps done */
  uint64_t random;     /* the random generator's state, for dropout */
  uint64_t turn;       /* examples seen: the position in the data */
  float learning_rate; /* for the next step */
  uint64_t text;       /* fingerprint of the text: resuming with another text is a mistake */
};

struct trainer {
  struct options options;
  struct text text;
  struct model model;
  struct device device; /* with --device cuda: holds the model's arrays */
  struct state state;
  struct state saved;          /* the state when the save in flight began */
  struct cleat_client *client; /* NULL without --store */
  struct cleat_save *save;     /* in flight; NULL: none */
  FILE *loss_log;
};

/* Something that is saved as a tensor. */
struct entry {
  char name[NAME_BYTES];
  enum cleat_dtype dtype;
  int ndim;
  int64_t shape[2];
  void *data;
  uint64_t bytes;
};

/* ---- Small things ------------------------------------------------------------------------- */

/* Prints an error of Cleat: one line says what failed, where and why; another one what to do. */
static bool complain(const char *what, const struct cleat_error *err) {
  fprintf(stderr, "trainer: %s: %s\n", what, err->message);
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

static struct entry matrix(const char *prefix, const struct model_parameter *parameter, float *data) {
  struct entry entry = {.dtype = CLEAT_DTYPE_F32, .ndim = 2, .data = data};
  entry.shape[0] = parameter->rows;
  entry.shape[1] = parameter->columns;
  entry.bytes = (uint64_t)model_numbers(parameter) * sizeof(float);
  snprintf(entry.name, sizeof entry.name, "%s%s", prefix, parameter->name);
  return entry;
}

/* Fills the table and returns its length. */
static size_t describe(struct model *model, struct state *state, struct entry entries[TENSORS_MAX]) {
  struct entry *next = entries;
  for (int i = 0; i < MODEL_PARAMETERS; i++) {
    const struct model_parameter *parameter = &model->parameters[i];
    *next++ = matrix("model.", parameter, parameter->weight);
    *next++ = matrix("adam.m.", parameter, parameter->m);
    *next++ = matrix("adam.v.", parameter, parameter->v);
  }
  *next++ = scalar("state.step", CLEAT_DTYPE_I64, &state->step);
  *next++ = scalar("state.random", CLEAT_DTYPE_U64, &state->random);
  *next++ = scalar("state.turn", CLEAT_DTYPE_U64, &state->turn);
  *next++ = scalar("state.learning_rate", CLEAT_DTYPE_F32, &state->learning_rate);
  *next++ = scalar("state.text", CLEAT_DTYPE_U64, &state->text);
  return (size_t)(next - entries);
}

/* With --device cuda the model is saved from and loaded into device memory, after the work that the
 * training's stream has queued. The state stays on the host. */
static struct cleat_place place_of(const struct trainer *t, const struct entry *entry) {
  struct cleat_place place = {.device = CLEAT_DEVICE_HOST};
  if (device_address(&t->device, entry->data)) {
    place.device = CLEAT_DEVICE_CUDA;
    place.stream = t->device.stream;
  }
  return place;
}

static void *data_of(const struct trainer *t, const struct entry *entry) {
  void *memory = device_address(&t->device, entry->data);
  return memory ? memory : entry->data;
}

/* ---- Resume ------------------------------------------------------------------------------- */

/* Strict: the checkpoint must have exactly the tensors of the table, with these dtypes and
 * shapes. */
static bool load(struct trainer *t, struct cleat_checkpoint *checkpoint) {
  struct entry entries[TENSORS_MAX];
  struct cleat_load_request requests[TENSORS_MAX];
  struct cleat_place places[TENSORS_MAX];
  struct cleat_load_options options = CLEAT_LOAD_OPTIONS_INIT;
  struct cleat_error err;
  size_t count = describe(&t->model, &t->state, entries);
  for (size_t i = 0; i < count; i++) {
    const struct entry *e = &entries[i];
    requests[i] = (struct cleat_load_request){.name = e->name,
                                              .dtype = e->dtype,
                                              .ndim = e->ndim,
                                              .shape = e->shape,
                                              .data = data_of(t, e),
                                              .data_bytes = e->bytes};
    places[i] = place_of(t, e);
  }
  options.places = places;
  if (cleat_load_tensors(checkpoint, requests, count, &options, &err)) {
    return complain("cannot resume", &err);
  }
  const struct cleat_checkpoint_info *info = cleat_checkpoint_info(checkpoint);
  printf("resumed from step %" PRId64 ", saved %s, %.1f MiB, every part checked\n", info->step, info->created,
         (double)info->bytes / (1 << 20));
  return true;
}

static bool resume(struct trainer *t) {
  struct cleat_checkpoint *checkpoint;
  struct cleat_error err;
  if (cleat_checkpoint_open(t->client, CLEAT_STEP_LATEST, &checkpoint, &err)) {
    /* A store without checkpoints is a normal start. A missing bucket is a mistake, and better
     * reported now than at the first save. In that case NOT_FOUND comes from the server, with a
     * code. */
    if (err.status != CLEAT_NOT_FOUND || err.s3_code[0]) {
      return complain("cannot resume", &err);
    }
    printf("starting fresh: %s\n", err.message);
    return true;
  }
  bool done = load(t, checkpoint);
  cleat_checkpoint_free(checkpoint);
  if (done && t->state.text != t->text.fingerprint) {
    fprintf(stderr, "trainer: cannot resume: the checkpoint was trained on another text than %s\n", t->options.text);
    return false;
  }
  return done;
}

/* ---- Save --------------------------------------------------------------------------------- */

/* Waits until the save in flight, if any, is committed. */
static bool save_end(struct trainer *t) {
  struct cleat_error err;
  if (!t->save) {
    return true;
  }
  bool committed = !cleat_save_wait(t->save, &err);
  cleat_save_free(t->save);
  t->save = NULL;
  if (!committed) {
    return complain("the checkpoint was not saved", &err);
  }
  printf("step %" PRId64 " is committed\n", t->saved.step);
  return true;
}

/* Waits until the save in flight, if any, has copied its last byte. The weights must not change
 * before. */
static bool fence(struct trainer *t) {
  struct cleat_error err;
  if (t->save && cleat_save_wait_staged(t->save, &err)) {
    return complain("the checkpoint was not saved", &err);
  }
  return true;
}

/* For demonstrations: sends SIGKILL to this process once the upload has come this far. It cannot be
 * caught, and nothing is cleaned up. If the upload ends before that, the function returns, and the
 * next save gets its turn. */
static void die_in_upload(const struct trainer *t) {
  struct cleat_progress now;
  do {
    sched_yield();
    cleat_save_progress(t->save, &now);
    uint64_t percent = now.bytes_done * 100 / now.bytes_total;
    if (percent >= (uint64_t)t->options.die_at_percent && now.bytes_done < now.bytes_total) {
      printf("step %" PRId64 ": %" PRIu64 " of %" PRIu64 " bytes are uploaded (%" PRIu64 " %%): kill -9\n",
             t->saved.step, now.bytes_done, now.bytes_total, percent);
      fflush(stdout);
      raise(SIGKILL);
    }
  } while (now.phase == CLEAT_PHASE_RUNNING);
}

/* Starts a save. The next batch may be learned meanwhile, because that only reads the weights. But
 * it changes `state`, so the save reads a copy of it. */
static bool save_begin(struct trainer *t, float loss) {
  struct entry entries[TENSORS_MAX];
  struct cleat_tensor tensors[TENSORS_MAX];
  struct cleat_place places[TENSORS_MAX];
  struct cleat_error err;
  char metadata[96];
  t->saved = t->state;
  size_t count = describe(&t->model, &t->saved, entries);
  for (size_t i = 0; i < count; i++) {
    const struct entry *e = &entries[i];
    tensors[i] = (struct cleat_tensor){
        .name = e->name, .dtype = e->dtype, .ndim = e->ndim, .shape = e->shape, .data = data_of(t, e)};
    places[i] = place_of(t, e);
  }
  struct cleat_file vocabulary = {
      .name = "vocabulary.txt", .data = t->text.vocabulary, .data_bytes = t->text.vocabulary_count};
  snprintf(metadata, sizeof metadata, "{\"loss\": %.4f, \"learning_rate\": %.3g}", (double)loss,
           (double)t->saved.learning_rate);

  struct cleat_save_request request = CLEAT_SAVE_REQUEST_INIT;
  request.step = t->saved.step;
  request.tensors = tensors;
  request.tensor_count = count;
  request.places = places;
  request.files = &vocabulary;
  request.file_count = 1;
  request.metadata = metadata;
  request.shard_bytes = SHARD_BYTES;
  if (cleat_save_async(t->client, &request, &t->save, &err)) {
    return complain("the checkpoint was not saved", &err);
  }
  if (t->options.die_in_save && t->saved.step >= t->options.die_in_save) {
    die_in_upload(t);
  }
  return true;
}

/* ---- Training ----------------------------------------------------------------------------- */

static float learn(struct trainer *t) {
  const uint8_t *targets[BATCH];
  for (int i = 0; i < BATCH; i++) {
    targets[i] = text_example(&t->text, t->state.turn++);
  }
  return model_learn(&t->model, targets, BATCH, &t->state.random);
}

static void update(struct trainer *t) {
  t->state.step++;
  model_update(&t->model, t->state.step, t->state.learning_rate);
  t->state.learning_rate *= LEARNING_RATE_KEPT;
}

static bool train(struct trainer *t) {
  while (t->state.step < t->options.steps) {
    if (!device_pull(&t->device)) {
      return false;
    }
    float loss = learn(t); /* Cleat copies and uploads meanwhile */
    if (!fence(t)) {
      return false;
    }
    update(t); /* changes what a save in flight still reads; the fence has waited for that */
    if (!device_push(&t->device) || !results_log(t->loss_log, t->options.loss_log, t->state.step, loss)) {
      return false;
    }
    bool is_last = t->state.step == t->options.steps;
    if (!is_last && t->state.step % t->options.save_every != 0) {
      continue;
    }
    printf("step %" PRId64 ": loss %.3f\n", t->state.step, (double)loss);
    if (t->client && (!save_end(t) || !save_begin(t, loss))) {
      return false;
    }
  }
  return save_end(t);
}

/* ---- Results ------------------------------------------------------------------------------ */

/* Lets the model write text. It uses its own random state, so that training is not affected. */
static void print_sample(const struct trainer *t) {
  uint64_t random = 1;
  uint8_t window[MODEL_CONTEXT + 1];
  memcpy(window, t->text.symbols, sizeof window);
  for (int64_t i = 0; i < t->options.sample; i++) {
    window[MODEL_CONTEXT] = model_sample(&t->model, &window[MODEL_CONTEXT], &random);
    putchar(t->text.vocabulary[window[MODEL_CONTEXT]]);
    memmove(window, window + 1, MODEL_CONTEXT);
  }
  putchar('\n');
}

static uint64_t weights_hash(const struct model *model) {
  uint64_t hashes[MODEL_PARAMETERS];
  for (int i = 0; i < MODEL_PARAMETERS; i++) {
    const struct model_parameter *p = &model->parameters[i];
    hashes[i] = text_hash(p->weight, (size_t)model_numbers(p) * sizeof(float));
  }
  return text_hash(hashes, sizeof hashes);
}

/* Writes everything that is in a checkpoint, one raw file per tensor, to compare runs without
 * Cleat. */
static bool dump_all(struct trainer *t) {
  struct entry entries[TENSORS_MAX];
  if (!results_folder(t->options.dump_weights)) {
    return false;
  }
  size_t count = describe(&t->model, &t->state, entries);
  for (size_t i = 0; i < count; i++) {
    const struct entry *e = &entries[i];
    if (!results_dump(t->options.dump_weights, e->name, e->data, e->bytes)) {
      return false;
    }
  }
  return true;
}

static bool report(struct trainer *t) {
  printf("trained to step %" PRId64 ", weights %016" PRIx64 "\n", t->state.step, weights_hash(&t->model));
  if (t->options.sample > 0) {
    print_sample(t);
  }
  return !t->options.dump_weights || dump_all(t);
}

/* ---- Start -------------------------------------------------------------------------------- */

/* Moves the whole model to the device. */
static bool to_device(struct trainer *t) {
  struct entry entries[TENSORS_MAX];
  (void)describe(&t->model, &t->state, entries);
  if (!device_open(&t->device)) {
    return false;
  }
  for (int i = 0; i < 3 * MODEL_PARAMETERS; i++) {
    if (!device_add(&t->device, entries[i].data, entries[i].bytes)) {
      return false;
    }
  }
  return true;
}

static bool start(struct trainer *t) {
  const struct options *o = &t->options;
  struct cleat_error err;
  if (!text_read(&t->text, o->text)) {
    return false;
  }
  t->state = (struct state){.random = (uint64_t)o->seed, .learning_rate = LEARNING_RATE};
  t->state.text = t->text.fingerprint;
  if (!model_init(&t->model, (int64_t)t->text.vocabulary_count, o->hidden, o->memory_rows, &t->state.random)) {
    errno = ENOMEM;
    return results_fail("make", "the model");
  }
  if (o->device && !to_device(t)) {
    return false;
  }
  struct cleat_client_options options = CLEAT_CLIENT_OPTIONS_INIT;
  options.cuda = t->device.stream != NULL;
  if (o->store && cleat_client_open(o->store, &options, &t->client, &err)) {
    return complain("cannot use the store", &err);
  }
  if (t->client && !resume(t)) {
    return false;
  }
  /* A resumed run appends to the log of the one before. */
  if (o->loss_log && !(t->loss_log = fopen(o->loss_log, t->state.step > 0 ? "a" : "w"))) {
    return results_fail("write", o->loss_log);
  }
  return true;
}

static void stop(struct trainer *t) {
  cleat_save_free(t->save); /* first: it waits for the save, which may still use the rest */
  cleat_client_close(t->client);
  if (t->loss_log) {
    fclose(t->loss_log);
  }
  device_close(&t->device);
  model_clear(&t->model);
  text_clear(&t->text);
}

int main(int argc, char **argv) {
  struct trainer t = {0};
  if (!options_parse(&t.options, argc, argv)) {
    return 2;
  }
  setvbuf(stdout, NULL, _IOLBF, 0);
  bool done = start(&t) && train(&t) && device_pull(&t.device) && report(&t);
  stop(&t);
  return done ? 0 : 1;
}
