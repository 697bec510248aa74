/* layout_recipe.h: the parts of a recipe. Only for the files layout*.c.
 *
 * layout_recipes.c has the table. layout_names.c parses names, which is pure. layout_signs.c reads signs inside a
 * checkpoint's folder, layout_beside.c those beside it. layout.c puts all together. */
#ifndef CLEAT_API_RUN_LAYOUT_RECIPE_H
#define CLEAT_API_RUN_LAYOUT_RECIPE_H

#include "api/run/layout.h"

/* What a recipe reads from a name in DIR. */
struct cleat__run_mark {
  int64_t step;
  /* of several names of one step, the one with the highest version stands for it */
  int64_t version;
  bool minor; /* counts only if the recipe finds no names that are not minor */
};

/* What the recipes share during one scan of DIR. */
struct cleat__run_scan_context {
  int dir;
  const char *pattern; /* NULL: none */
  /* From the tracker of Megatron and verl, read once per scan. */
  bool tracker_release;
  int64_t tracker_step; /* -1: no tracker, or no number in it (such as "release") */
  /* From DeepSpeed's file `latest`. */
  char latest[256];    /* "": there is none */
  int64_t latest_step; /* -1: it has no number */
};

enum { CLEAT__RUN_FOLDER = 1, CLEAT__RUN_FILE = 2 };

struct cleat__run_layout {
  const char *name;
  /* Names are <prefix><number><suffix>, with the number padded to `width`. */
  const char *prefix;
  const char *suffix;
  int width;
  unsigned kinds;    /* CLEAT__RUN_FOLDER and/or CLEAT__RUN_FILE */
  bool patterned;    /* with --pattern its names may be files too */
  const char *below; /* NULL, or a folder in DIR that is searched too, for "<below>/<name>" */
  bool flat;         /* all names of one step are one checkpoint, which lies in DIR itself */
  const char *last;  /* names with this prefix are put into DIR last; NULL: any order */
  unsigned settle_ms;
  bool listed; /* the files that its sign names must exist (layout_lists.h) */
  /* True if the name belongs to the recipe. Pure. */
  bool (*match)(const struct cleat__run_layout *layout, const char *pattern, const char *name,
                struct cleat__run_mark *mark);
  /* For "auto": whether a matching name certainly belongs to this recipe. NULL: the name is enough. */
  bool (*claims)(const struct cleat__run_scan_context *context, const char *name);
  /* Sets has_sign and whole (both false before) for the checkpoint. NULL: the tool leaves no sign. */
  cleat_status (*inspect)(const struct cleat__run_scan_context *context, struct cleat__run_found *found,
                          struct cleat_error *err);
};

/* All recipes except "auto", ending with NULL. "auto" asks them in this order. */
extern const struct cleat__run_layout *const cleat__run_recipes[];

/* ---- layout_names.c: pure ---- */

typedef bool cleat__run_match_fn(const struct cleat__run_layout *layout, const char *pattern, const char *name,
                                 struct cleat__run_mark *mark);

/* Reads digits. Returns what follows. NULL: there are none, or the number is beyond int64_t. */
const char *cleat__run_read_number(const char *at, int64_t *number, size_t *digits);

/* Returns what follows the prefix. NULL: the name begins otherwise. */
const char *cleat__run_after_prefix(const char *name, const char *prefix);

/* Finds the step in a name: the number after a word for it, such as "step=300", otherwise the last number. */
bool cleat__run_find_step(const char *name, int64_t *step);

cleat__run_match_fn cleat__run_match_plain, cleat__run_match_padded, cleat__run_match_dcp, cleat__run_match_torchtune,
    cleat__run_match_megatron, cleat__run_match_lightning, cleat__run_match_llmc, cleat__run_match_pattern,
    cleat__run_match_deepspeed, cleat__run_match_nemo, cleat__run_match_orbax, cleat__run_match_accelerate,
    cleat__run_match_composer;

/* ---- layout_signs.c ---- */

#define CLEAT__RUN_TRACKER "latest_checkpointed_iteration.txt"
#define CLEAT__RUN_LATEST "latest"
#define CLEAT__RUN_UNFINISHED "-unfinished"

/* In these functions paths are relative to the folder `dir`. True for a file or a link to one. */
bool cleat__run_sign_is_file(int dir, const char *path);
bool cleat__run_sign_is_file_in(int dir, const char *folder, const char *name);
/* True for anything of that name. */
bool cleat__run_sign_exists_in(int dir, const char *folder, const char *name);

/* Reads the first bytes of a file. 0: there is no file, or it is empty. */
size_t cleat__run_sign_read(int dir, const char *path, void *bytes, size_t size);

/* torch.save writes a zip archive. Its end record is written last. */
enum cleat__run_archive { CLEAT__RUN_NO_ARCHIVE, CLEAT__RUN_ARCHIVE_CUT, CLEAT__RUN_ARCHIVE_WHOLE };
enum cleat__run_archive cleat__run_sign_archive(int dir, const char *path);

/* True while NeMo writes or removes a checkpoint: it then has a marker file beside it. */
bool cleat__run_is_unfinished(int dir, const char *path);

bool cleat__run_claims_cleat(const struct cleat__run_scan_context *context, const char *name);
bool cleat__run_claims_dcp(const struct cleat__run_scan_context *context, const char *name);
bool cleat__run_claims_torchtune(const struct cleat__run_scan_context *context, const char *name);

cleat_status cleat__run_inspect_cleat(const struct cleat__run_scan_context *context, struct cleat__run_found *found,
                                      struct cleat_error *err);
cleat_status cleat__run_inspect_dcp(const struct cleat__run_scan_context *context, struct cleat__run_found *found,
                                    struct cleat_error *err);
cleat_status cleat__run_inspect_huggingface(const struct cleat__run_scan_context *context,
                                            struct cleat__run_found *found, struct cleat_error *err);
cleat_status cleat__run_inspect_lightning(const struct cleat__run_scan_context *context, struct cleat__run_found *found,
                                          struct cleat_error *err);
cleat_status cleat__run_inspect_llmc(const struct cleat__run_scan_context *context, struct cleat__run_found *found,
                                     struct cleat_error *err);
cleat_status cleat__run_inspect_infinitrain(const struct cleat__run_scan_context *context,
                                            struct cleat__run_found *found, struct cleat_error *err);
bool cleat__run_claims_orbax(const struct cleat__run_scan_context *context, const char *name);
bool cleat__run_claims_accelerate(const struct cleat__run_scan_context *context, const char *name);
cleat_status cleat__run_inspect_orbax(const struct cleat__run_scan_context *context, struct cleat__run_found *found,
                                      struct cleat_error *err);
cleat_status cleat__run_inspect_composer(const struct cleat__run_scan_context *context, struct cleat__run_found *found,
                                         struct cleat_error *err);

/* ---- layout_beside.c ---- */

/* Reads what the recipes share. */
void cleat__run_scan_context_init(struct cleat__run_scan_context *context, int dir, const char *pattern);

/* True for the name of a tracker file, which is not a checkpoint. */
bool cleat__run_is_tracker(const char *name);

bool cleat__run_claims_megatron(const struct cleat__run_scan_context *context, const char *name);
bool cleat__run_claims_deepspeed(const struct cleat__run_scan_context *context, const char *name);
bool cleat__run_claims_verl(const struct cleat__run_scan_context *context, const char *name);
bool cleat__run_claims_nemo(const struct cleat__run_scan_context *context, const char *name);
cleat_status cleat__run_inspect_megatron(const struct cleat__run_scan_context *context, struct cleat__run_found *found,
                                         struct cleat_error *err);
cleat_status cleat__run_inspect_deepspeed(const struct cleat__run_scan_context *context, struct cleat__run_found *found,
                                          struct cleat_error *err);
cleat_status cleat__run_inspect_verl(const struct cleat__run_scan_context *context, struct cleat__run_found *found,
                                     struct cleat_error *err);
cleat_status cleat__run_inspect_nemo(const struct cleat__run_scan_context *context, struct cleat__run_found *found,
                                     struct cleat_error *err);

#endif
