/* layout_recipes.c: the table of recipes. Pure. */
#include "api/run/layout_recipe.h"

#include "base/mem.h"

#include <inttypes.h>
#include <string.h>

static const struct cleat__run_layout recipe_cleat = {
    .name = "cleat",
    .prefix = "step-",
    .suffix = "",
    .width = 12,
    .kinds = CLEAT__RUN_FOLDER,
    .settle_ms = CLEAT__RUN_SETTLE_MS,
    .match = cleat__run_match_padded,
    .claims = cleat__run_claims_cleat,
    .inspect = cleat__run_inspect_cleat,
};

static const struct cleat__run_layout recipe_torchtune = {
    .name = "torchtune",
    .prefix = "epoch_",
    .suffix = "",
    .kinds = CLEAT__RUN_FOLDER,
    .settle_ms = CLEAT__RUN_QUIET_MS,
    .match = cleat__run_match_torchtune,
    .claims = cleat__run_claims_torchtune,
};

static const struct cleat__run_layout recipe_dcp = {
    .name = "dcp",
    .prefix = "step-",
    .suffix = "",
    .kinds = CLEAT__RUN_FOLDER,
    .settle_ms = CLEAT__RUN_SETTLE_MS,
    .listed = true,
    .match = cleat__run_match_dcp,
    .claims = cleat__run_claims_dcp,
    .inspect = cleat__run_inspect_dcp,
};

static const struct cleat__run_layout recipe_huggingface = {
    .name = "huggingface",
    .prefix = "checkpoint-",
    .suffix = "",
    .kinds = CLEAT__RUN_FOLDER,
    .settle_ms = CLEAT__RUN_SETTLE_LONG_MS,
    .listed = true,
    .match = cleat__run_match_plain,
    .inspect = cleat__run_inspect_huggingface,
};

static const struct cleat__run_layout recipe_megatron = {
    .name = "megatron",
    .prefix = "iter_",
    .suffix = "",
    .width = 7,
    .kinds = CLEAT__RUN_FOLDER,
    .last = CLEAT__RUN_TRACKER,
    .settle_ms = CLEAT__RUN_SETTLE_MS,
    .listed = true,
    .match = cleat__run_match_megatron,
    .claims = cleat__run_claims_megatron,
    .inspect = cleat__run_inspect_megatron,
};

static const struct cleat__run_layout recipe_lightning = {
    .name = "lightning",
    .prefix = "step=",
    .suffix = ".ckpt",
    .kinds = CLEAT__RUN_FILE | CLEAT__RUN_FOLDER,
    .settle_ms = CLEAT__RUN_SETTLE_MS,
    .listed = true,
    .match = cleat__run_match_lightning,
    .inspect = cleat__run_inspect_lightning,
};

static const struct cleat__run_layout recipe_llmc = {
    .name = "llmc",
    .width = 8,
    .kinds = CLEAT__RUN_FILE,
    .flat = true,
    .last = "DONE_",
    .settle_ms = CLEAT__RUN_SETTLE_MS,
    .match = cleat__run_match_llmc,
    .inspect = cleat__run_inspect_llmc,
};

static const struct cleat__run_layout recipe_infinitrain = {
    .name = "infinitrain",
    .prefix = "checkpoint_step_",
    .suffix = "",
    .width = 6,
    .kinds = CLEAT__RUN_FOLDER,
    .settle_ms = CLEAT__RUN_SETTLE_MS,
    .match = cleat__run_match_padded,
    .inspect = cleat__run_inspect_infinitrain,
};

static const struct cleat__run_layout recipe_deepspeed = {
    .name = "deepspeed",
    .prefix = "global_step",
    .suffix = "",
    .kinds = CLEAT__RUN_FOLDER,
    .last = CLEAT__RUN_LATEST,
    .settle_ms = CLEAT__RUN_SETTLE_LONG_MS,
    .listed = true,
    .match = cleat__run_match_deepspeed,
    .claims = cleat__run_claims_deepspeed,
    .inspect = cleat__run_inspect_deepspeed,
};

static const struct cleat__run_layout recipe_nemo = {
    .name = "nemo",
    .prefix = "step=",
    .suffix = "-last",
    .kinds = CLEAT__RUN_FOLDER,
    .settle_ms = CLEAT__RUN_SETTLE_LONG_MS,
    .listed = true,
    .match = cleat__run_match_nemo,
    .claims = cleat__run_claims_nemo,
    .inspect = cleat__run_inspect_nemo,
};

static const struct cleat__run_layout recipe_verl = {
    .name = "verl",
    .prefix = "global_step_",
    .suffix = "",
    .kinds = CLEAT__RUN_FOLDER,
    .last = CLEAT__RUN_TRACKER,
    .settle_ms = CLEAT__RUN_SETTLE_LONG_MS,
    .listed = true,
    .match = cleat__run_match_plain,
    .claims = cleat__run_claims_verl,
    .inspect = cleat__run_inspect_verl,
};

static const struct cleat__run_layout recipe_orbax = {
    .name = "orbax",
    .prefix = "",
    .suffix = "",
    .kinds = CLEAT__RUN_FOLDER,
    .settle_ms = CLEAT__RUN_SETTLE_MS,
    .match = cleat__run_match_orbax,
    .claims = cleat__run_claims_orbax,
    .inspect = cleat__run_inspect_orbax,
};

static const struct cleat__run_layout recipe_accelerate = {
    .name = "accelerate",
    .prefix = "checkpoint_",
    .suffix = "",
    .kinds = CLEAT__RUN_FOLDER,
    .below = "checkpoints",
    .settle_ms = CLEAT__RUN_QUIET_MS,
    .listed = true,
    .match = cleat__run_match_accelerate,
    .claims = cleat__run_claims_accelerate,
};

static const struct cleat__run_layout recipe_composer = {
    .name = "composer",
    .prefix = "ep0-ba",
    .suffix = "-rank0.pt",
    .kinds = CLEAT__RUN_FOLDER | CLEAT__RUN_FILE,
    .settle_ms = CLEAT__RUN_SETTLE_MS,
    .listed = true,
    .match = cleat__run_match_composer,
    .inspect = cleat__run_inspect_composer,
};

static bool claims_nothing(const struct cleat__run_scan_context *context, const char *name) {
  (void)context, (void)name;
  return false;
}

static const struct cleat__run_layout recipe_folders = {
    .name = "folders",
    .prefix = "step-",
    .suffix = "",
    .kinds = CLEAT__RUN_FOLDER,
    .patterned = true,
    .settle_ms = CLEAT__RUN_QUIET_MS,
    .match = cleat__run_match_pattern,
    .claims = claims_nothing,
};

/* The first recipe that claims a name gets it. Cleat's step-000000000007 is first, because it may contain anything,
 * also DCP's .metadata. */
const struct cleat__run_layout *const cleat__run_recipes[] = {
    &recipe_cleat,      &recipe_torchtune, &recipe_dcp,         &recipe_huggingface,
    &recipe_megatron,   &recipe_verl,      &recipe_deepspeed,   &recipe_nemo,
    &recipe_lightning,  &recipe_llmc,      &recipe_infinitrain, &recipe_composer,
    &recipe_accelerate, &recipe_orbax,     &recipe_folders,     NULL,
};

/* Its paths are named as most tools name them. */
static const struct cleat__run_layout recipe_auto = {
    .name = "auto", .prefix = "step-", .suffix = "", .claims = claims_nothing};

const struct cleat__run_layout *cleat__run_layout_find(const char *name) {
  if (strcmp(name, recipe_auto.name) == 0)
    return &recipe_auto;
  for (size_t i = 0; cleat__run_recipes[i]; i++)
    if (strcmp(name, cleat__run_recipes[i]->name) == 0)
      return cleat__run_recipes[i];
  return NULL;
}

const char *cleat__run_layout_name(const struct cleat__run_layout *layout) {
  return layout->name;
}

const char *const *cleat__run_layout_names(void) {
  static const char *const names[] = {"auto",      "cleat",      "dcp",         "torchtune", "huggingface", "megatron",
                                      "lightning", "llmc",       "infinitrain", "deepspeed", "nemo",        "verl",
                                      "orbax",     "accelerate", "composer",    "folders",   NULL};
  return names;
}

char *cleat__run_layout_path(const struct cleat__run_layout *layout, int64_t step) {
  if (layout->flat)
    return cleat__strdup(".");
  return cleat__strprintf("%s%0*" PRId64 "%s", layout->prefix, layout->width, step, layout->suffix);
}

bool cleat__run_layout_goes_last(const struct cleat__run_layout *layout, const char *name) {
  return layout->last && cleat__run_after_prefix(name, layout->last);
}
