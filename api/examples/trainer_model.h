/* trainer_model.h: a character-level language model, small enough to read in one sitting.
 *
 *   the last 16 characters ────────▶ embedding ─▶ hidden ─┐
 *                                                         ├▶ tanh ─▶ dropout ─▶ output ─▶ softmax
 *   hashes of the last 2, 3, 4 and 5 ─▶ memory ───────────┘
 *
 * The memory is a table with a row for each hash of a short run of characters. A step reads and changes only a few of
 * its rows. So the table can be as large as a checkpoint should be, while training stays quick on one core.
 *
 * The model knows nothing of checkpoints. Its parameters are in plain arrays, which the caller saves. The same calls
 * give the same bits: one thread, one order of summation, and randomness from the caller's state. A model is used by
 * one thread at a time, and owns its arrays. */
#ifndef TRAINER_MODEL_H
#define TRAINER_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MODEL_CONTEXT 16 /* how many characters a prediction uses */
#define MODEL_LANES 8    /* `hidden` is a multiple of it: sums run in this many lanes */
#define MODEL_HIDDEN_MAX 1024
#define MODEL_VOCABULARY_MAX 256

enum model_parameter_id {
  MODEL_EMBEDDING,
  MODEL_HIDDEN_WEIGHT,
  MODEL_HIDDEN_BIAS,
  MODEL_OUTPUT_WEIGHT,
  MODEL_OUTPUT_BIAS,
  MODEL_MEMORY,
  MODEL_PARAMETERS /* the number of parameters */
};

/* A parameter with everything that training keeps for it: four arrays of rows × columns. */
struct model_parameter {
  const char *name;
  int64_t rows;
  int64_t columns;
  float *weight;
  float *m;        /* Adam's mean of the gradients */
  float *v;        /* Adam's mean of their squares */
  float *gradient; /* model_learn adds to it, model_update uses and clears it: zero between steps */
};

struct model {
  int64_t vocabulary;
  int64_t hidden;
  struct model_parameter parameters[MODEL_PARAMETERS];
  bool *row_is_touched; /* rows of the memory that this step used; NULL: not tracked … */
  size_t *touched_rows; /* … and a list of them */
  size_t touched_count;
};

/* The next number of a random sequence (SplitMix64). *state is its whole state. */
uint64_t model_random(uint64_t *state);

/* The number of elements in each of its arrays. */
static inline int64_t model_numbers(const struct model_parameter *parameter) {
  return parameter->rows * parameter->columns;
}

/* Sets the names and sizes of all parameters, without arrays, for a caller with its own arrays. False: `hidden` is
 * invalid. */
bool model_shape(struct model *model, int64_t vocabulary, int64_t hidden, int64_t memory_rows);

/* Sets random weights. Biases stay zero. */
void model_randomize(struct model *model, uint64_t *random);

/* Makes a model with random weights and its own arrays. False: out of memory. Call model_clear in either case. */
bool model_init(struct model *model, int64_t vocabulary, int64_t hidden, int64_t memory_rows, uint64_t *random);
void model_clear(struct model *model);

/* Learns from `count` characters. Each of `targets` points to a character (a number below the vocabulary) with
 * MODEL_CONTEXT others before it. Adds to the gradients, does not change the weights, and returns the mean loss in
 * nats. `random` drives dropout. */
float model_learn(struct model *model, const uint8_t *const *targets, size_t count, uint64_t *random);

/* Applies the gradients and clears them: one step of Adam, the `step`th, counted from 1. */
void model_update(struct model *model, int64_t step, float learning_rate);

/* The same in two parts, for `count` numbers anywhere: the step size of the `step`th step, and one step. `weight` is
 * read and `moved` is written; both may be the same. */
float model_rate(int64_t step, float learning_rate);
void model_adam(const float *weight, float *moved, float *m, float *v, const float *gradient, int64_t count,
                float rate);

/* Draws a random character for *target, weighted by the squares of the probabilities. The squares suppress unlikely
 * characters. */
uint8_t model_sample(const struct model *model, const uint8_t *target, uint64_t *random);

#endif
