/* layout_recipe.h: what a recipe is made of. For the files layout*.c alone.
 *
 * layout_recipes.c has the table and the reading of names, which is pure; layout_signs.c looks into folders for the
 * signs; layout.c brings both together. */
#ifndef CLEAT_API_RUN_LAYOUT_RECIPE_H
#define CLEAT_API_RUN_LAYOUT_RECIPE_H

#include "api/run/layout.h"

/* What a name in DIR says. */
struct cleat__run_mark {
  int64_t step;
  int64_t version; /* of names of one step, the one with the highest stands for it */
  bool minor;      /* counts for nothing where the recipe finds names that are not */
};

/* What the signs of one scan are looked for with. */
struct cleat__run_look {
  int dir;
  const char *pattern; /* NULL: none */
  /* Of Megatron's tracker, read once a scan. */
  bool tracker_release;
  int64_t tracker_step; /* -1: there is none, or it says "release" or nothing of use */
};

enum { CLEAT__RUN_FOLDER = 1, CLEAT__RUN_FILE = 2 };

struct cleat__run_layout {
  const char *name;
  /* Names are <prefix><number><suffix>, the number padded to `width`. */
  const char *prefix;
  const char *suffix;
  int width;
  unsigned kinds;   /* of CLEAT__RUN_FOLDER and _FILE: what its names may be */
  bool patterned;   /* asked for by --pattern, its names may be files too */
  bool flat;        /* all names of one step are one checkpoint, which lies in DIR itself */
  const char *last; /* names that begin so are put into DIR last; NULL: the order does not matter */
  unsigned settle_ms;
  /* True if the name is one of the recipe's. Pure. */
  bool (*match)(const struct cleat__run_layout *layout, const char *pattern, const char *name,
                struct cleat__run_mark *mark);
  /* For "auto": whether a name that matches is surely the recipe's. NULL: the name says it. */
  bool (*claims)(const struct cleat__run_look *look, const char *name);
  /* Fills has_sign and whole (both false before) of what is complete else. NULL: there is no sign. */
  cleat_status (*inspect)(const struct cleat__run_look *look, struct cleat__run_found *found,
                          struct cleat_error *err);
};

/* All recipes but "auto", in the order in which that asks them, up to NULL. */
extern const struct cleat__run_layout *const cleat__run_recipes[];

/* ---- layout_signs.c ---- */

#define CLEAT__RUN_TRACKER "latest_checkpointed_iteration.txt"

/* Reads what the recipes share. */
void cleat__run_look_init(struct cleat__run_look *look, int dir, const char *pattern);

bool cleat__run_claims_cleat(const struct cleat__run_look *look, const char *name);
bool cleat__run_claims_dcp(const struct cleat__run_look *look, const char *name);
bool cleat__run_claims_torchtune(const struct cleat__run_look *look, const char *name);
bool cleat__run_claims_megatron(const struct cleat__run_look *look, const char *name);

cleat_status cleat__run_inspect_cleat(const struct cleat__run_look *look,
                                      struct cleat__run_found *found, struct cleat_error *err);
cleat_status cleat__run_inspect_dcp(const struct cleat__run_look *look,
                                    struct cleat__run_found *found, struct cleat_error *err);
cleat_status cleat__run_inspect_huggingface(const struct cleat__run_look *look,
                                            struct cleat__run_found *found,
                                            struct cleat_error *err);
cleat_status cleat__run_inspect_megatron(const struct cleat__run_look *look,
                                         struct cleat__run_found *found, struct cleat_error *err);
cleat_status cleat__run_inspect_lightning(const struct cleat__run_look *look,
                                          struct cleat__run_found *found, struct cleat_error *err);
cleat_status cleat__run_inspect_llmc(const struct cleat__run_look *look,
                                     struct cleat__run_found *found, struct cleat_error *err);
cleat_status cleat__run_inspect_infinitrain(const struct cleat__run_look *look,
                                            struct cleat__run_found *found,
                                            struct cleat_error *err);

#endif
