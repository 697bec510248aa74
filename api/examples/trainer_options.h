/* trainer_options.h: the command line of the trainer. */
#ifndef TRAINER_OPTIONS_H
#define TRAINER_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

/* Texts belong to the command line. NULL: the flag was not given. */
struct options {
  const char *text;
  const char *store;
  const char *loss_log;
  const char *dump_weights;
  const char *device;
  int64_t steps;
  int64_t save_every;
  int64_t seed;
  int64_t hidden;
  int64_t memory_rows;
  int64_t sample;
  int64_t die_in_save;
  int64_t die_at_percent;
};

/* One flag, which takes a value: a text, or a number from min to max. */
struct flag {
  const char *name; /* NULL: the end of the table */
  const char *help;
  const char **text;
  int64_t *number;
  int64_t min;
  int64_t max;
};

/* Parses a command line with a table. False: wrong usage, as stderr says. */
bool options_read(const char *usage, const struct flag *flags, int argc, char **argv);

/* Parses the trainer's command line. False: wrong usage, as stderr says. */
bool options_parse(struct options *options, int argc, char **argv);

#endif
