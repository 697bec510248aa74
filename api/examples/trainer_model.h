/* trainer_model.h: a character-level language model, small enough to read in one sitting.
 *
 *   the last 16 characters ────────▶ embedding ─▶ hidden ─┐
 *                                                         ├▶ tanh ─▶ dropout ─▶ output ─▶ softmax
 *   hashes of the last 2, 3, 4 and 5 ─▶ memory ───────────┘
 *
 * The memory is a table with a row for each hash of a short run of characters. A step reads and
 * changes only the few rows that it meets, so the table can be made as large as a checkpoint needs
 * to be while training stays quick on one core.
 *
 * The model knows nothing of checkpoints: its parameters lie in plain arrays for the caller to
 * save. The same calls give the same bits: one thread, one order of summation, randomness from the
 * caller's state. A model is used by one thread at a time, and owns its arrays. */
#ifndef TRAINER_MODEL_H
#define TRAINER_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MODEL_CONTEXT 16 /* characters that the prediction may look at */
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
  MODEL_PARAMETERS /* how many there are */
};

/* A parameter with all that training keeps for it; four arrays of rows × columns. */
struct model_parameter {
  const char *name;
  int64_t rows;
  int64_t columns;
  float *weight;
  float *m;        /* Adam's mean of the gradients */
  float *v;        /* Adam's mean of their squares */
  float *gradient; /* made by model_learn, spent by model_update: zero between steps */
};

struct model {
  int64_t vocabulary;
  int64_t hidden;
  struct model_parameter parameters[MODEL_PARAMETERS];
  bool *row_is_touched; /* rows of the memory that this step met; NULL: nobody asks … */
  size_t *touched_rows; /* … and a list of them */
  size_t touched_count;
};

/* The next number of a random sequence; *state is all that there is to it (SplitMix64). */
uint64_t model_random(uint64_t *state);

/* How many numbers each of its arrays has. */
static inline int64_t model_numbers(const struct model_parameter *parameter) {
  return parameter->rows * parameter->columns;
}

/* What parameters there are, how they are called and how large they are; without arrays, for a caller who has
 * his own. False: `hidden` is not possible. */
bool model_shape(struct model *model, int64_t vocabulary, int64_t hidden, int64_t memory_rows);

/* Random weights. Biases stay as they are: zero. */
void model_randomize(struct model *model, uint64_t *random);

/* Both, with arrays of the model's own: makes a model with random weights. False: out of memory. model_clear it in
 * either case. */
bool model_init(struct model *model, int64_t vocabulary, int64_t hidden, int64_t memory_rows,
                uint64_t *random);
void model_clear(struct model *model);

/* Learns from `count` characters: each of `targets` points to a character (a number below the
 * vocabulary) with MODEL_CONTEXT others before it. Adds up the gradients, leaves the weights
 * alone, and returns the mean loss in nats. `random` drives dropout. */
float model_learn(struct model *model, const uint8_t *const *targets, size_t count,
                  uint64_t *random);

/* Spends the gradients: one step of Adam, the `step`th, counted from 1. */
void model_update(struct model *model, int64_t step, float learning_rate);

/* The same by hand, for `count` numbers that lie anywhere: how far the `step`th step goes; one step. `weight` is
 * read, `moved` is written, and may be the same. */
float model_rate(int64_t step, float learning_rate);
void model_adam(const float *weight, float *moved, float *m, float *v, const float *gradient,
                int64_t count, float rate);

/* Draws a character to stand at *target, by the squares of the chances: that leaves out what the
 * model does not believe in itself. */
uint8_t model_sample(const struct model *model, const uint8_t *target, uint64_t *random);

#endif
