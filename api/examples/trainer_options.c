/* trainer_options.c: parses the command line with one table of flags. Each flag takes a value. */
#include "trainer_options.h"

#include "trainer_model.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_usage(const char *usage, const struct flag *flags) {
  fprintf(stderr, "usage: %s\n", usage);
  for (const struct flag *f = flags; f->name; f++) {
    fprintf(stderr, "  %-18s%s", f->name, f->help);
    if (f->number) {
      fprintf(stderr, " (%" PRId64 ")", *f->number);
    }
    fputc('\n', stderr);
  }
}

static bool set(const struct flag *flag, const char *value) {
  char *end;
  if (flag->text) {
    *flag->text = value;
    return true;
  }
  errno = 0;
  long long number = strtoll(value, &end, 10);
  if (errno || end == value || *end || number < flag->min || number > flag->max) {
    fprintf(stderr, "trainer: %s needs a number from %" PRId64 " to %" PRId64 ", not '%s'\n", flag->name, flag->min,
            flag->max, value);
    return false;
  }
  *flag->number = number;
  return true;
}

static const struct flag *find(const struct flag *flags, const char *name) {
  for (const struct flag *f = flags; f->name; f++) {
    if (strcmp(f->name, name) == 0) {
      return f;
    }
  }
  fprintf(stderr, "trainer: there is no flag %s\n", name);
  return NULL;
}

bool options_read(const char *usage, const struct flag *flags, int argc, char **argv) {
  if (argc < 2) {
    print_usage(usage, flags);
    return false;
  }
  for (int i = 1; i < argc; i += 2) {
    const struct flag *f = find(flags, argv[i]);
    if (!f) {
      return false;
    }
    if (i + 1 == argc) {
      fprintf(stderr, "trainer: %s needs a value\n", f->name);
      return false;
    }
    if (!set(f, argv[i + 1])) {
      return false;
    }
  }
  return true;
}

static bool check(const struct options *o) {
  if (!o->text) {
    fprintf(stderr, "trainer: --text is missing\n");
    return false;
  }
  if (o->device && strcmp(o->device, "cuda") != 0) {
    fprintf(stderr, "trainer: --device takes only cuda, not '%s'\n", o->device);
    return false;
  }
  if (o->hidden % MODEL_LANES != 0) {
    fprintf(stderr, "trainer: --hidden must be a multiple of %d\n", MODEL_LANES);
    return false;
  }
  return true;
}

bool options_parse(struct options *options, int argc, char **argv) {
  struct options o = {
      .steps = 1000, .save_every = 100, .seed = 1, .hidden = 128, .memory_rows = 16384, .die_at_percent = 50};
  const struct flag flags[] = {
      {"--text", "the text to learn", &o.text, NULL, 0, 0},
      {"--store", "where checkpoints go: file:///dir or s3://bucket/prefix", &o.store, NULL, 0, 0},
      {"--steps", "train up to this step", NULL, &o.steps, 1, INT64_C(1) << 40},
      {"--save-every", "save after every so many steps", NULL, &o.save_every, 1, 1 << 30},
      {"--seed", "seed of the random numbers", NULL, &o.seed, 0, INT64_MAX},
      {"--hidden", "units of the hidden layer", NULL, &o.hidden, MODEL_LANES, MODEL_HIDDEN_MAX},
      {"--memory-rows", "rows of the memory: the size of a checkpoint", NULL, &o.memory_rows, 1, 1 << 24},
      {"--loss-log", "file for the loss of each step", &o.loss_log, NULL, 0, 0},
      {"--dump-weights", "folder for the final state, one raw file per tensor", &o.dump_weights, NULL, 0, 0},
      {"--device", "cuda: keep the model in the memory of a GPU", &o.device, NULL, 0, 0},
      {"--sample", "characters that the trained model writes", NULL, &o.sample, 0, 1 << 20},
      {"--die-in-save", "kill -9 during the upload of this step; 0: never", NULL, &o.die_in_save, 0, INT64_MAX},
      {"--die-at-percent", "how far that upload gets", NULL, &o.die_at_percent, 0, 99},
      {NULL, NULL, NULL, NULL, 0, 0}};
  if (!options_read("trainer --text FILE [--store URL] [FLAG VALUE]...", flags, argc, argv) || !check(&o)) {
    return false;
  }
  *options = o;
  return true;
}
