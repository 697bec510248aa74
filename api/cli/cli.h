/* cli.h: what the files of the `cleat` program share.
 *
 * The program is a thin shell over api/cleat.h: a command (save.c, load.c, …) turns its arguments
 * into calls of the public interface, main.c picks the command, and the rest is how things look.
 * Only the main thread runs code of this folder, but for the log function in output.c. Nothing
 * here is global: a struct cleat__cli, on main's stack, is handed to every command. */
#ifndef CLEAT_API_CLI_CLI_H
#define CLEAT_API_CLI_CLI_H

#include "api/program/format.h"
#include "api/program/json.h"
#include "api/program/sources.h"
#include "base/error.h"

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>

/* What the program's exit status says; scripts depend on the numbers (see cleat.1). */
enum cleat__cli_exit {
  CLEAT__CLI_DONE = 0,
  CLEAT__CLI_FAILED = 1,
  CLEAT__CLI_USAGE = 2,
  CLEAT__CLI_NOTHING = 3,
  CLEAT__CLI_DAMAGED = 4,
  CLEAT__CLI_LOST = 5,
  CLEAT__CLI_SIGNAL = 128 /* plus the signal's number */
};

/* Which options a command takes beyond the common ones. */
enum cleat__cli_takes {
  CLEAT__CLI_TAKES_STEP = 1u << 0,
  CLEAT__CLI_TAKES_FORCE = 1u << 1,
  CLEAT__CLI_TAKES_SAVE = 1u << 2, /* --metadata, --resume */
  CLEAT__CLI_TAKES_SIZE = 1u << 3,
  CLEAT__CLI_TAKES_PRUNE = 1u << 4, /* --keep-every */
  CLEAT__CLI_TAKES_GC = 1u << 5,    /* --older-than */
  CLEAT__CLI_TAKES_DRY_RUN = 1u << 6,
  CLEAT__CLI_TAKES_IF_EXISTS = 1u << 7,
  CLEAT__CLI_TAKES_KEEP_LAST = 1u << 8,
  CLEAT__CLI_TAKES_RUN = 1u << 9 /* those of struct cleat__cli_run_options */
};

/* What `cleat run` alone takes. */
struct cleat__cli_run_options {
  const char *store; /* NULL: not given, as of all texts here */
  const char *dir;
  const char *layout;
  const char *pattern;
  const char *log;
  const char *metrics_file;
  bool has_grace, has_flush;
  unsigned quiet_time_s; /* 0: not given */
  unsigned grace_s;
  unsigned flush_s;
  unsigned keep_local;     /* 0: not given */
  unsigned rank_timeout_s; /* 0: not given */
  bool final;
  bool no_restore;
  bool offline_ok;
  bool allow_unsaved;
};

/* The command line, parsed. Strings belong to argv. */
struct cleat__cli_options {
  bool help;
  bool json;
  bool quiet;
  unsigned verbose; /* how often -v was given: 1 info, 2 debug */
  bool force;
  bool has_step;
  int64_t step; /* CLEAT_STEP_LATEST unless given */
  bool has_if_exists;
  enum cleat_if_exists if_exists;
  bool resume;
  const char *metadata;
  const char *endpoint;
  const char *region;
  uint64_t staging_bytes; /* 0: not given */
  uint64_t part_bytes;    /* 0: not given */
  uint64_t size_bytes;    /* 0: not given */
  unsigned keep_last;     /* 0: not given */
  int64_t keep_every;     /* 0: not given */
  uint64_t older_than_s;  /* 0: not given */
  bool dry_run;
  struct cleat__cli_run_options run;
  unsigned jobs;          /* 0: not given */
  unsigned time_limit_s;  /* 0: not given */
  char *const *arguments; /* what is no option */
  size_t argument_count;
};

struct cleat__cli;

/* One command. All texts are static. */
struct cleat__cli_command {
  const char *name;
  const char *summary;   /* for the list of commands */
  const char *synopsis;  /* after "cleat " */
  const char *help;      /* what it does and its own options; ends in a newline */
  const char *arguments; /* named when they are missing */
  unsigned takes;        /* of enum cleat__cli_takes */
  size_t min_arguments;
  size_t max_arguments;
  bool small; /* moves no data, or little at a time: its time limit is short */
  bool
      wraps; /* what follows its options is a command line of its own; it opens the client itself */
  bool saves;             /* it looks for no checkpoint: see cleat__cli_exit_status */
  bool url_last;          /* the store's URL is the last argument, not the first */
  uint64_t staging_bytes; /* unless --staging is given; 0: the library's default */
  /* Returns the exit status. `client` is NULL for one that wraps. */
  int (*run)(const struct cleat__cli *cli, struct cleat_client *client);
};

extern const struct cleat__cli_command cleat__cli_save;
extern const struct cleat__cli_command cleat__cli_load;
extern const struct cleat__cli_command cleat__cli_ls;
extern const struct cleat__cli_command cleat__cli_show;
extern const struct cleat__cli_command cleat__cli_verify;
extern const struct cleat__cli_command cleat__cli_doctor;
extern const struct cleat__cli_command cleat__cli_bench;
extern const struct cleat__cli_command cleat__cli_prune;
extern const struct cleat__cli_command cleat__cli_gc;
extern const struct cleat__cli_command cleat__cli_pin;
extern const struct cleat__cli_command cleat__cli_unpin;
extern const struct cleat__cli_command cleat__cli_run;

/* What a command is given. */
struct cleat__cli {
  const struct cleat__cli_command *command; /* NULL before one was found */
  struct cleat__cli_options options;
  bool progress; /* stderr is a terminal that may be drawn on */
};

/* ---- client.c ------------------------------------------------------------------------------ */

/* Opens a client of the store at `url` as the options say; what it has to tell goes to `log`. */
cleat_status cleat__cli_open_client(const struct cleat__cli *cli, const char *url,
                                    cleat_log_fn *log, void *log_user, struct cleat_client **client,
                                    struct cleat_error *err);

/* ---- options.c ----------------------------------------------------------------------------- */

/* Reads argv[0] (the command's name) and what follows; moves the arguments to argv's end. Error: INVALID. */
cleat_status cleat__cli_options_parse(const struct cleat__cli_command *command, int argc,
                                      char **argv, struct cleat__cli_options *options,
                                      struct cleat_error *err);

/* The options that every command has, as help text. Static. */
const char *cleat__cli_options_help(void);

/* One row of the table of options. */
struct cleat__cli_option {
  const char *name;
  char letter; /* of the short form; 0: none */
  bool has_value;
  unsigned takes; /* 0: every command has it */
};

/* Option number `index`, by name. False: there are no more. */
bool cleat__cli_option_at(size_t index, struct cleat__cli_option *option);
bool cleat__cli_takes_option(const struct cleat__cli_command *command,
                             const struct cleat__cli_option *option);

/* ---- completion.c -------------------------------------------------------------------------- */

/* Prints the completions of `shell` (bash, fish, zsh) to stdout. False: there is no such shell. */
bool cleat__cli_print_completion(const char *shell,
                                 const struct cleat__cli_command *const *commands, size_t count);

/* ---- nearest.c -------------------------------------------------------------------------- */

/* The nearest of the names up to NULL, if it is near enough to have been meant; else NULL. */
const char *cleat__cli_nearest(const char *word, const char *const *names);

/* ---- output.c ------------------------------------------------------------------------------ */

/* Says what went wrong on stderr, and on stdout too under --json. Returns the exit status. */
int cleat__cli_fail(const struct cleat__cli *cli, const struct cleat_error *err);

/* The exit status for an error of a command. */
int cleat__cli_exit_status(const struct cleat__cli *cli, const struct cleat_error *err);

/* The same for output that memory did not suffice for. */
int cleat__cli_fail_memory(const struct cleat__cli *cli);

/* "cleat: warning: <message>" on stderr. */
void cleat__cli_warn(const char *message);

/* cleat_log_fn for the client; `user` is a const struct cleat__cli. Called from any thread. */
void cleat__cli_log(void *user, enum cleat_log_level level, const char *line);

/* The end of a save, load or verify, as one line or as JSON. Returns the exit status. */
struct cleat__cli_result {
  int64_t step;
  const char *attempt;   /* NULL: not known */
  const char *outcome;   /* JSON only: "committed", "skipped", … */
  const char *text;      /* people: what follows the sizes; NULL: no sizes, `note` alone */
  const char *note;      /* people: replaces sizes and speed */
  const char *place_key; /* JSON: "url" or "destination" */
  const char *place;
  uint64_t files;
  uint64_t bytes;
  bool resume;      /* something was to be resumed */
  uint64_t resumed; /* of the bytes: they were there already */
  double seconds;
};
int cleat__cli_report(const struct cleat__cli *cli, const struct cleat__cli_result *result);

/* ---- removals.c ---------------------------------------------------------------------------- */

/* What prune and gc have done. */
struct cleat__cli_removal_report {
  const struct cleat_removals *removals;
  const char *noun; /* what was removed: "checkpoint" */
  const char *kept; /* what the others are: "kept" */
  bool dry_run;
  const struct cleat_error *err; /* NULL: all went well */
};

/* Prints it. Returns the exit status. */
int cleat__cli_report_removals(const struct cleat__cli *cli,
                               const struct cleat__cli_removal_report *report);

/* ---- table.c: columns for people ------------------------------------------------------------ */

struct cleat__cli_table {
  const char *align; /* one 'l' or 'r' a column */
  char **cells;
  size_t count;
  size_t capacity;
  bool failed;
};

void cleat__cli_table_init(struct cleat__cli_table *table, const char *align);
void cleat__cli_table_clear(struct cleat__cli_table *table);

/* Adds the next cell, row by row. */
void cleat__cli_table_add(struct cleat__cli_table *table, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Adds a row of fixed texts, one a column. */
void cleat__cli_table_add_row(struct cleat__cli_table *table, const char *const *cells);

/* Prints the rows to stdout, each after `indent` blanks; the last column is cut so that a row fits
 * into `width` columns (0: never cut). False: out of memory, nothing printed. */
bool cleat__cli_table_print(const struct cleat__cli_table *table, unsigned indent, size_t width);

/* ---- progress.c: the line on a terminal -------------------------------------------------------- */

struct cleat__cli_progress {
  bool active;       /* a terminal is there, and --quiet is not */
  bool drawn;        /* a line is on the screen */
  const char *title; /* borrowed */
  double drawn_at;   /* of cleat__seconds */
  double sampled_at;
  uint64_t sampled_bytes;
  double rate; /* bytes a second, smoothed; 0: not known yet */
};

void cleat__cli_progress_init(struct cleat__cli_progress *progress, const struct cleat__cli *cli,
                              const char *title);

/* Draws the line, unless it was drawn within the last tenth of a second. */
void cleat__cli_progress_draw(struct cleat__cli_progress *progress,
                              const struct cleat_progress *now);

/* The same for a line of the caller's, after the title; it is cut to the terminal. */
void cleat__cli_progress_note(struct cleat__cli_progress *progress, const char *text);

/* Takes the line off the screen. */
void cleat__cli_progress_clear(struct cleat__cli_progress *progress);

/* True if stderr is a terminal that lines may be redrawn on. */
bool cleat__cli_progress_possible(void);

/* Columns of the terminal at `fd`; 0: it is none. */
size_t cleat__cli_terminal_columns(int fd);

/* ---- job.c: opening, and waiting for a save, a load, a doctor or a bench ----------------------------------------- */

/* A running save, load, doctor or bench: one of them is set. */
struct cleat__cli_job {
  struct cleat_save *save;
  struct cleat_load *load;
  struct cleat_doctor *doctor; /* shows no progress: it counts no bytes */
  struct cleat_bench *bench;   /* shows what it measures, and no end */
};

/* Signals that end a job in an orderly way, held back while it runs. */
struct cleat__cli_signals {
  sigset_t held;
  sigset_t before;
  int caught; /* the first that came; 0: none */
};

/* From here on SIGINT, SIGTERM and SIGHUP wait for cleat__cli_job_wait, unless they are ignored. */
void cleat__cli_signals_hold(struct cleat__cli_signals *signals);
void cleat__cli_signals_release(struct cleat__cli_signals *signals);

/* Waits for the job's end, showing progress; the first signal cancels the job and a second one
 * kills the program. *last is how far it came. */
cleat_status cleat__cli_job_wait(const struct cleat__cli *cli, const struct cleat__cli_job *job,
                                 const char *title, struct cleat__cli_signals *signals,
                                 struct cleat_progress *last, struct cleat_error *err);

/* Opens the checkpoint that --step names, or the newest, and says why if it cannot; returns the exit
 * status. "Nothing found" is then true: where there are checkpoints but none is whole, it is damage. */
int cleat__cli_open_checkpoint(const struct cleat__cli *cli, struct cleat_client *client,
                               struct cleat_checkpoint **checkpoint);

/* Runs a load or verify that was started; frees it. Returns the exit status and, when that is 0, fills *last. */
int cleat__cli_load_finish(const struct cleat__cli *cli, cleat_status started,
                           struct cleat_load *load, const char *title,
                           struct cleat__cli_signals *signals, struct cleat_progress *last,
                           struct cleat_error *err);

/* The exit status after a job that failed: that of the signal that ended it, or that of the error. */
int cleat__cli_job_fail(const struct cleat__cli *cli, const struct cleat__cli_signals *signals,
                        const struct cleat_error *err);

#endif
