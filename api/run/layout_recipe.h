/* layout_recipe.h: what a recipe is made of. For the files layout*.c alone.
 *
 * layout_recipes.c has the table, layout_names.c the reading of names, which is pure; layout_signs.c looks into folders
 * for the signs, layout_beside.c for those that lie beside the folder; layout.c brings all together. */
#ifndef CLEAT_API_RUN_LAYOUT_RECIPE_H
#define CLEAT_API_RUN_LAYOUT_RECIPE_H

#include "api/run/layout.h"

/* What a name in DIR says. */
struct cleat__run_mark {
  int64_t step;
  int64_t version; /* of names of one step, the one with the highest stands for it */
  bool minor;      /* counts for nothing where the recipe finds names that are not */
};

/* What the recipes share during one scan of DIR. */
struct cleat__run_scan_context {
  int dir;
  const char *pattern; /* NULL: none */
  /* Of Megatron's and verl's tracker, read once a scan. */
  bool tracker_release;
  int64_t tracker_step; /* -1: there is none, or it says "release" or nothing of use */
  /* Of DeepSpeed's `latest`. */
  char latest[256];    /* "": there is none */
  int64_t latest_step; /* -1: it has no number */
};

enum { CLEAT__RUN_FOLDER = 1, CLEAT__RUN_FILE = 2 };

struct cleat__run_layout {
  const char *name;
  /* Names are <prefix><number><suffix>, the number padded to `width`. */
  const char *prefix;
  const char *suffix;
  int width;
  unsigned kinds;    /* of CLEAT__RUN_FOLDER and _FILE: what its names may be */
  bool patterned;    /* asked for by --pattern, its names may be files too */
  const char *below; /* NULL, or a folder in DIR whose names count as well, as "<below>/<name>" */
  bool flat;         /* all names of one step are one checkpoint, which lies in DIR itself */
  const char *last; /* names that begin so are put into DIR last; NULL: the order does not matter */
  unsigned settle_ms;
  bool listed; /* what its sign names has to be there (layout_lists.h) */
  /* True if the name is one of the recipe's. Pure. */
  bool (*match)(const struct cleat__run_layout *layout, const char *pattern, const char *name,
                struct cleat__run_mark *mark);
  /* For "auto": whether a name that matches is surely the recipe's. NULL: the name says it. */
  bool (*claims)(const struct cleat__run_scan_context *context, const char *name);
  /* Fills has_sign and whole (both false before) of what is complete else. NULL: there is no sign. */
  cleat_status (*inspect)(const struct cleat__run_scan_context *context,
                          struct cleat__run_found *found, struct cleat_error *err);
};

/* All recipes but "auto", in the order in which that asks them, up to NULL. */
extern const struct cleat__run_layout *const cleat__run_recipes[];

/* ---- layout_names.c: pure ---- */

typedef bool cleat__run_match_fn(const struct cleat__run_layout *layout, const char *pattern,
                                 const char *name, struct cleat__run_mark *mark);

/* Reads digits. Returns what follows; NULL: there are none, or they are beyond int64_t. */
const char *cleat__run_read_number(const char *at, int64_t *number, size_t *digits);

/* What stands behind the prefix; NULL: the name begins otherwise. */
const char *cleat__run_after_prefix(const char *name, const char *prefix);

/* The step that is told by a word before it, such as "step=300", else the last number in the name. */
bool cleat__run_find_step(const char *name, int64_t *step);

cleat__run_match_fn cleat__run_match_plain, cleat__run_match_padded, cleat__run_match_dcp,
    cleat__run_match_torchtune, cleat__run_match_megatron, cleat__run_match_lightning,
    cleat__run_match_llmc, cleat__run_match_pattern, cleat__run_match_deepspeed,
    cleat__run_match_nemo, cleat__run_match_orbax, cleat__run_match_accelerate,
    cleat__run_match_composer;

/* ---- layout_signs.c ---- */

#define CLEAT__RUN_TRACKER "latest_checkpointed_iteration.txt"
#define CLEAT__RUN_LATEST "latest"
#define CLEAT__RUN_UNFINISHED "-unfinished"

/* Paths are relative to the folder `dir`. What is a file or a link to one. */
bool cleat__run_sign_is_file(int dir, const char *path);
bool cleat__run_sign_is_file_in(int dir, const char *folder, const char *name);
/* Whatever it is. */
bool cleat__run_sign_exists_in(int dir, const char *folder, const char *name);

/* The file's first bytes; 0: there is none, or nothing in it. */
size_t cleat__run_sign_read(int dir, const char *path, void *bytes, size_t size);

/* What torch.save writes is a zip archive, whose end record comes last. */
enum cleat__run_archive { CLEAT__RUN_NO_ARCHIVE, CLEAT__RUN_ARCHIVE_CUT, CLEAT__RUN_ARCHIVE_WHOLE };
enum cleat__run_archive cleat__run_sign_archive(int dir, const char *path);

/* NeMo says by a file beside a checkpoint that it is being written or removed. */
bool cleat__run_is_unfinished(int dir, const char *path);

bool cleat__run_claims_cleat(const struct cleat__run_scan_context *context, const char *name);
bool cleat__run_claims_dcp(const struct cleat__run_scan_context *context, const char *name);
bool cleat__run_claims_torchtune(const struct cleat__run_scan_context *context, const char *name);

cleat_status cleat__run_inspect_cleat(const struct cleat__run_scan_context *context,
                                      struct cleat__run_found *found, struct cleat_error *err);
cleat_status cleat__run_inspect_dcp(const struct cleat__run_scan_context *context,
                                    struct cleat__run_found *found, struct cleat_error *err);
cleat_status cleat__run_inspect_huggingface(const struct cleat__run_scan_context *context,
                                            struct cleat__run_found *found,
                                            struct cleat_error *err);
cleat_status cleat__run_inspect_lightning(const struct cleat__run_scan_context *context,
                                          struct cleat__run_found *found, struct cleat_error *err);
cleat_status cleat__run_inspect_llmc(const struct cleat__run_scan_context *context,
                                     struct cleat__run_found *found, struct cleat_error *err);
cleat_status cleat__run_inspect_infinitrain(const struct cleat__run_scan_context *context,
                                            struct cleat__run_found *found,
                                            struct cleat_error *err);
bool cleat__run_claims_orbax(const struct cleat__run_scan_context *context, const char *name);
bool cleat__run_claims_accelerate(const struct cleat__run_scan_context *context, const char *name);
cleat_status cleat__run_inspect_orbax(const struct cleat__run_scan_context *context,
                                      struct cleat__run_found *found, struct cleat_error *err);
cleat_status cleat__run_inspect_composer(const struct cleat__run_scan_context *context,
                                         struct cleat__run_found *found, struct cleat_error *err);

/* ---- layout_beside.c ---- */

/* Reads what the recipes share. */
void cleat__run_scan_context_init(struct cleat__run_scan_context *context, int dir,
                                  const char *pattern);

/* A name in DIR that is some tool's tracker, and no checkpoint. */
bool cleat__run_is_tracker(const char *name);

bool cleat__run_claims_megatron(const struct cleat__run_scan_context *context, const char *name);
bool cleat__run_claims_deepspeed(const struct cleat__run_scan_context *context, const char *name);
bool cleat__run_claims_verl(const struct cleat__run_scan_context *context, const char *name);
bool cleat__run_claims_nemo(const struct cleat__run_scan_context *context, const char *name);
cleat_status cleat__run_inspect_megatron(const struct cleat__run_scan_context *context,
                                         struct cleat__run_found *found, struct cleat_error *err);
cleat_status cleat__run_inspect_deepspeed(const struct cleat__run_scan_context *context,
                                          struct cleat__run_found *found, struct cleat_error *err);
cleat_status cleat__run_inspect_verl(const struct cleat__run_scan_context *context,
                                     struct cleat__run_found *found, struct cleat_error *err);
cleat_status cleat__run_inspect_nemo(const struct cleat__run_scan_context *context,
                                     struct cleat__run_found *found, struct cleat_error *err);

#endif
