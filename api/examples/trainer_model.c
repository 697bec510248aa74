/* trainer_model.c: forward pass, backward pass and Adam for the model of trainer_model.h, in plain
 * loops.
 *
 * Sums run in MODEL_LANES lanes, in an order that this code fixes. So the compiler can use vector
 * instructions without reordering anything, and the bits never change. */
#include "trainer_model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define EMBEDDING_COLUMNS 16
#define INPUTS ((int64_t)MODEL_CONTEXT * EMBEDDING_COLUMNS)
#define NGRAM_MIN 2 /* the memory uses the last 2 … */
#define NGRAM_MAX 5 /* … to 5 characters */
#define NGRAMS (NGRAM_MAX - NGRAM_MIN + 1)
#define DROPOUT_CHANCE 0.1f
#define ADAM_BETA1 0.9f
#define ADAM_BETA2 0.99f
#define ADAM_EPSILON 1e-8f

/* The results of the forward pass that the backward pass of one example needs. */
struct activations {
  float inputs[INPUTS];
  size_t memory_rows[NGRAMS];
  float hidden[MODEL_HIDDEN_MAX]; /* after tanh */
  /* dropout: 0, or the factor that compensates for the dropped ones */
  float keep[MODEL_HIDDEN_MAX];
  float kept[MODEL_HIDDEN_MAX]; /* hidden × keep */
  float chances[MODEL_VOCABULARY_MAX];
};

/* ---- Numbers ------------------------------------------------------------------------------ */

uint64_t model_random(uint64_t *state) {
  uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

/* A random number from 0 to 1, without 1. */
static float uniform(uint64_t *random) {
  return (float)(model_random(random) >> 40) * 0x1p-24f;
}

/* into += scale × from */
static void add_scaled(float *restrict into, const float *restrict from, float scale, int64_t n) {
  for (int64_t i = 0; i < n; i += MODEL_LANES) {
    for (int lane = 0; lane < MODEL_LANES; lane++) {
      into[i + lane] += scale * from[i + lane];
    }
  }
}

static float dot(const float *a, const float *b, int64_t n) {
  float lanes[MODEL_LANES] = {0};
  for (int64_t i = 0; i < n; i += MODEL_LANES) {
    for (int lane = 0; lane < MODEL_LANES; lane++) {
      lanes[lane] += a[i + lane] * b[i + lane];
    }
  }
  float sum = 0;
  for (int lane = 0; lane < MODEL_LANES; lane++) {
    sum += lanes[lane];
  }
  return sum;
}

static void softmax(float *values, int64_t n) {
  float largest = values[0];
  for (int64_t i = 1; i < n; i++) {
    largest = fmaxf(largest, values[i]);
  }
  float sum = 0;
  for (int64_t i = 0; i < n; i++) {
    values[i] = expf(values[i] - largest);
    sum += values[i];
  }
  for (int64_t i = 0; i < n; i++) {
    values[i] /= sum;
  }
}

/* ---- Making and clearing ------------------------------------------------------------------ */

static void parameter_shape(struct model_parameter *parameter, const char *name, int64_t rows, int64_t columns) {
  *parameter = (struct model_parameter){.name = name, .rows = rows, .columns = columns};
}

static bool parameter_init(struct model_parameter *parameter) {
  size_t count = (size_t)model_numbers(parameter);
  parameter->weight = calloc(count, sizeof(float));
  parameter->m = calloc(count, sizeof(float));
  parameter->v = calloc(count, sizeof(float));
  parameter->gradient = calloc(count, sizeof(float));
  return parameter->weight && parameter->m && parameter->v && parameter->gradient;
}

static void parameter_clear(struct model_parameter *parameter) {
  free(parameter->weight);
  free(parameter->m);
  free(parameter->v);
  free(parameter->gradient);
}

/* Sets the weights to random numbers from -range to range. Biases stay zero. */
static void randomize(struct model_parameter *parameter, float range, uint64_t *random) {
  for (int64_t i = 0; i < model_numbers(parameter); i++) {
    parameter->weight[i] = range * (2 * uniform(random) - 1);
  }
}

bool model_shape(struct model *model, int64_t vocabulary, int64_t hidden, int64_t memory_rows) {
  *model = (struct model){.vocabulary = vocabulary, .hidden = hidden};
  struct model_parameter *p = model->parameters;
  parameter_shape(&p[MODEL_EMBEDDING], "embedding", vocabulary, EMBEDDING_COLUMNS);
  parameter_shape(&p[MODEL_HIDDEN_WEIGHT], "hidden.weight", INPUTS, hidden);
  parameter_shape(&p[MODEL_HIDDEN_BIAS], "hidden.bias", 1, hidden);
  parameter_shape(&p[MODEL_OUTPUT_WEIGHT], "output.weight", vocabulary, hidden);
  parameter_shape(&p[MODEL_OUTPUT_BIAS], "output.bias", 1, vocabulary);
  parameter_shape(&p[MODEL_MEMORY], "memory", memory_rows, hidden);
  return hidden <= MODEL_HIDDEN_MAX && hidden % MODEL_LANES == 0;
}

void model_randomize(struct model *model, uint64_t *random) {
  struct model_parameter *p = model->parameters;
  randomize(&p[MODEL_EMBEDDING], 1, random);
  randomize(&p[MODEL_HIDDEN_WEIGHT], sqrtf(3.0f / (float)INPUTS), random);
  randomize(&p[MODEL_OUTPUT_WEIGHT], sqrtf(3.0f / (float)model->hidden), random);
  randomize(&p[MODEL_MEMORY], 0.05f, random);
}

bool model_init(struct model *model, int64_t vocabulary, int64_t hidden, int64_t memory_rows, uint64_t *random) {
  if (!model_shape(model, vocabulary, hidden, memory_rows)) {
    return false;
  }
  model->row_is_touched = calloc((size_t)memory_rows, sizeof(bool));
  model->touched_rows = calloc((size_t)memory_rows, sizeof(size_t));
  bool made = model->row_is_touched && model->touched_rows;
  for (int i = 0; i < MODEL_PARAMETERS; i++) {
    made = made && parameter_init(&model->parameters[i]);
  }
  if (made) {
    model_randomize(model, random);
  }
  return made;
}

void model_clear(struct model *model) {
  for (int i = 0; i < MODEL_PARAMETERS; i++) {
    parameter_clear(&model->parameters[i]);
  }
  free(model->row_is_touched);
  free(model->touched_rows);
}

/* ---- Forward ------------------------------------------------------------------------------ */

static const float *weights(const struct model *model, enum model_parameter_id id, int64_t row) {
  const struct model_parameter *p = &model->parameters[id];
  return p->weight + row * p->columns;
}

/* The memory's row for the `length` characters before *target. */
static size_t memory_row(const struct model *model, const uint8_t *target, int length) {
  uint64_t hash = (uint64_t)length;
  for (int i = 1; i <= length; i++) {
    hash = hash * MODEL_VOCABULARY_MAX + target[-i];
  }
  return model_random(&hash) % (uint64_t)model->parameters[MODEL_MEMORY].rows;
}

static void embed(const struct model *model, const uint8_t *target, struct activations *a) {
  for (int i = 0; i < MODEL_CONTEXT; i++) {
    const float *embedding = weights(model, MODEL_EMBEDDING, target[i - MODEL_CONTEXT]);
    memcpy(&a->inputs[i * EMBEDDING_COLUMNS], embedding, EMBEDDING_COLUMNS * sizeof(float));
  }
  for (int i = 0; i < NGRAMS; i++) {
    a->memory_rows[i] = memory_row(model, target, NGRAM_MIN + i);
  }
}

static void hidden_layer(const struct model *model, struct activations *a) {
  memcpy(a->hidden, weights(model, MODEL_HIDDEN_BIAS, 0), (size_t)model->hidden * sizeof(float));
  for (int64_t i = 0; i < INPUTS; i++) {
    add_scaled(a->hidden, weights(model, MODEL_HIDDEN_WEIGHT, i), a->inputs[i], model->hidden);
  }
  for (int i = 0; i < NGRAMS; i++) {
    const float *row = weights(model, MODEL_MEMORY, (int64_t)a->memory_rows[i]);
    add_scaled(a->hidden, row, 1, model->hidden);
  }
  for (int64_t i = 0; i < model->hidden; i++) {
    a->hidden[i] = tanhf(a->hidden[i]);
  }
}

/* `random` NULL: nothing is dropped. */
static void dropout(const struct model *model, uint64_t *random, struct activations *a) {
  for (int64_t i = 0; i < model->hidden; i++) {
    a->keep[i] = 1;
    if (random) {
      a->keep[i] = uniform(random) < DROPOUT_CHANCE ? 0 : 1 / (1 - DROPOUT_CHANCE);
    }
    a->kept[i] = a->hidden[i] * a->keep[i];
  }
}

static void output_layer(const struct model *model, struct activations *a) {
  const float *bias = weights(model, MODEL_OUTPUT_BIAS, 0);
  for (int64_t i = 0; i < model->vocabulary; i++) {
    a->chances[i] = bias[i] + dot(weights(model, MODEL_OUTPUT_WEIGHT, i), a->kept, model->hidden);
  }
  softmax(a->chances, model->vocabulary);
}

static void forward(const struct model *model, const uint8_t *target, uint64_t *random, struct activations *a) {
  embed(model, target, a);
  hidden_layer(model, a);
  dropout(model, random, a);
  output_layer(model, a);
}

uint8_t model_sample(const struct model *model, const uint8_t *target, uint64_t *random) {
  struct activations a;
  float sum = 0;
  uint8_t chosen = 0;
  forward(model, target, NULL, &a);
  for (int64_t i = 0; i < model->vocabulary; i++) {
    a.chances[i] *= a.chances[i];
    sum += a.chances[i];
  }
  float rest = sum * uniform(random);
  while (chosen < model->vocabulary - 1 && (rest -= a.chances[chosen]) >= 0) {
    chosen++;
  }
  return chosen;
}

/* ---- Backward ----------------------------------------------------------------------------- */

static float *gradients(const struct model *model, enum model_parameter_id id, int64_t row) {
  const struct model_parameter *p = &model->parameters[id];
  return p->gradient + row * p->columns;
}

/* Propagates the output's error to the hidden layer, before its tanh. */
static void output_backward(struct model *model, uint8_t target, float scale, const struct activations *a,
                            float *hidden_error) {
  memset(hidden_error, 0, (size_t)model->hidden * sizeof(float));
  for (int64_t i = 0; i < model->vocabulary; i++) {
    float error = scale * (a->chances[i] - (i == target ? 1.0f : 0.0f));
    gradients(model, MODEL_OUTPUT_BIAS, 0)[i] += error;
    add_scaled(gradients(model, MODEL_OUTPUT_WEIGHT, i), a->kept, error, model->hidden);
    add_scaled(hidden_error, weights(model, MODEL_OUTPUT_WEIGHT, i), error, model->hidden);
  }
  for (int64_t i = 0; i < model->hidden; i++) {
    hidden_error[i] *= a->keep[i] * (1 - a->hidden[i] * a->hidden[i]);
  }
}

static void memory_backward(struct model *model, const struct activations *a, const float *hidden_error) {
  for (int i = 0; i < NGRAMS; i++) {
    size_t row = a->memory_rows[i];
    add_scaled(gradients(model, MODEL_MEMORY, (int64_t)row), hidden_error, 1, model->hidden);
    if (model->row_is_touched && !model->row_is_touched[row]) {
      model->row_is_touched[row] = true;
      model->touched_rows[model->touched_count++] = row;
    }
  }
}

static void hidden_backward(struct model *model, const uint8_t *target, const struct activations *a,
                            const float *hidden_error) {
  add_scaled(gradients(model, MODEL_HIDDEN_BIAS, 0), hidden_error, 1, model->hidden);
  for (int64_t i = 0; i < INPUTS; i++) {
    add_scaled(gradients(model, MODEL_HIDDEN_WEIGHT, i), hidden_error, a->inputs[i], model->hidden);
    uint8_t character = target[i / EMBEDDING_COLUMNS - MODEL_CONTEXT];
    gradients(model, MODEL_EMBEDDING, character)[i % EMBEDDING_COLUMNS] +=
        dot(weights(model, MODEL_HIDDEN_WEIGHT, i), hidden_error, model->hidden);
  }
}

float model_learn(struct model *model, const uint8_t *const *targets, size_t count, uint64_t *random) {
  struct activations a;
  float hidden_error[MODEL_HIDDEN_MAX];
  float loss = 0;
  float scale = 1 / (float)count;
  for (size_t i = 0; i < count; i++) {
    forward(model, targets[i], random, &a);
    loss -= logf(fmaxf(a.chances[*targets[i]], 1e-30f));
    output_backward(model, *targets[i], scale, &a, hidden_error);
    memory_backward(model, &a, hidden_error);
    hidden_backward(model, targets[i], &a, hidden_error);
  }
  return loss * scale;
}

/* ---- Adam --------------------------------------------------------------------------------- */

float model_rate(int64_t step, float learning_rate) {
  /* Compensates for the means, which start at zero. */
  double correction = sqrt(1 - pow(ADAM_BETA2, (double)step)) / (1 - pow(ADAM_BETA1, (double)step));
  return learning_rate * (float)correction;
}

void model_adam(const float *weight, float *moved, float *m, float *v, const float *gradient, int64_t count,
                float rate) {
  for (int64_t i = 0; i < count; i++) {
    float g = gradient[i];
    m[i] = ADAM_BETA1 * m[i] + (1 - ADAM_BETA1) * g;
    v[i] = ADAM_BETA2 * v[i] + (1 - ADAM_BETA2) * g * g;
    moved[i] = weight[i] - rate * m[i] / (sqrtf(v[i]) + ADAM_EPSILON);
  }
}

static void adam(struct model_parameter *p, int64_t first_row, int64_t rows, float rate) {
  int64_t at = first_row * p->columns;
  int64_t count = rows * p->columns;
  model_adam(p->weight + at, p->weight + at, p->m + at, p->v + at, p->gradient + at, count, rate);
  memset(p->gradient + at, 0, (size_t)count * sizeof(float));
}

void model_update(struct model *model, int64_t step, float learning_rate) {
  float rate = model_rate(step, learning_rate);
  for (int i = 0; i < MODEL_PARAMETERS; i++) {
    if (i != MODEL_MEMORY) {
      adam(&model->parameters[i], 0, model->parameters[i].rows, rate);
    }
  }
  for (size_t i = 0; i < model->touched_count; i++) {
    adam(&model->parameters[MODEL_MEMORY], (int64_t)model->touched_rows[i], 1, rate);
    model->row_is_touched[model->touched_rows[i]] = false;
  }
  model->touched_count = 0;
}
