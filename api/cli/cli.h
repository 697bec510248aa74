/* cli.h: shared by the files of the `cleat` program.
 *
 * The program is a thin shell over api/cleat.h. Each command (save.c, load.c, …) turns its arguments into calls of the
 * public interface. main.c selects the command. The other files are about input and output. Only the main thread runs
 * code of this folder, except for the log function in output.c. There are no global variables: every command gets a
 * struct cleat__cli, which lives on main's stack. */
#ifndef CLEAT_API_CLI_CLI_H
#define CLEAT_API_CLI_CLI_H

#include "api/program/format.h"
#include "api/program/json.h"
#include "api/program/sources.h"
#include "base/error.h"

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>

/* The program's exit statuses. Scripts depend on the numbers (see cleat.1). */
enum cleat__cli_exit {
  CLEAT__CLI_DONE = 0,
  CLEAT__CLI_FAILED = 1,
  CLEAT__CLI_USAGE = 2,
  CLEAT__CLI_NOTHING = 3,
  CLEAT__CLI_DAMAGED = 4,
  CLEAT__CLI_LOST = 5,
  CLEAT__CLI_SIGNAL = 128 /* plus the signal's number */
};

/* The options that a command takes beyond the common ones. */
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

/* Options of `cleat run` alone. */
struct cleat__cli_run_options {
  const char *store; /* NULL: not given; so for all texts here */
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
  char *const *arguments; /* the arguments that are not options */
  size_t argument_count;
};

struct cleat__cli;

/* One command. All texts are static. */
struct cleat__cli_command {
  const char *name;
  const char *summary;   /* for the list of commands */
  const char *synopsis;  /* after "cleat " */
  const char *help;      /* what it does and its own options; ends in a newline */
  const char *arguments; /* named in the message when they are missing */
  unsigned takes;        /* a set of enum cleat__cli_takes */
  size_t min_arguments;
  size_t max_arguments;
  bool small; /* moves little or no data: its time limit is short */
  /* its arguments are a command line of their own; it opens the client itself */
  bool wraps;
  bool saves;             /* it does not look for a checkpoint: see cleat__cli_exit_status */
  bool url_last;          /* the store's URL is the last argument, not the first */
  uint64_t staging_bytes; /* the default for --staging; 0: the library's default */
  /* Returns the exit status. `client` is NULL for a command that wraps. */
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

/* What a command gets. */
struct cleat__cli {
  const struct cleat__cli_command *command; /* NULL: not yet found */
  struct cleat__cli_options options;
  bool progress; /* stderr is a terminal that can show progress */
};

/* ---- client.c ------------------------------------------------------------------------------ */

/* Opens a client of the store at `url` with the given options. Its log lines go to `log`. */
cleat_status cleat__cli_open_client(const struct cleat__cli *cli, const char *url, cleat_log_fn *log, void *log_user,
                                    struct cleat_client **client, struct cleat_error *err);

/* ---- options.c ----------------------------------------------------------------------------- */

/* Parses argv: argv[0] is the command's name. Moves the arguments to argv's end. Error: INVALID. */
cleat_status cleat__cli_options_parse(const struct cleat__cli_command *command, int argc, char **argv,
                                      struct cleat__cli_options *options, struct cleat_error *err);

/* The help text for the options of every command. Static. */
const char *cleat__cli_options_help(void);

/* One row of the table of options. */
struct cleat__cli_option {
  const char *name;
  char letter; /* the short form; 0: none */
  bool has_value;
  unsigned takes; /* 0: every command has it */
};

/* Gets option number `index`, in the order of names. False: there are no more. */
bool cleat__cli_option_at(size_t index, struct cleat__cli_option *option);
bool cleat__cli_takes_option(const struct cleat__cli_command *command, const struct cleat__cli_option *option);

/* ---- completion.c -------------------------------------------------------------------------- */

/* Prints the completion script of `shell` (bash, fish, zsh) to stdout. False: unknown shell. */
bool cleat__cli_print_completion(const char *shell, const struct cleat__cli_command *const *commands, size_t count);

/* ---- nearest.c -------------------------------------------------------------------------- */

/* Finds the name that is closest to a mistyped word. NULL: none is close enough. `names` ends with NULL. */
const char *cleat__cli_nearest(const char *word, const char *const *names);

/* ---- output.c ------------------------------------------------------------------------------ */

/* Prints an error on stderr, and with --json on stdout too. Returns the exit status. */
int cleat__cli_fail(const struct cleat__cli *cli, const struct cleat_error *err);

/* The exit status for an error of a command. */
int cleat__cli_exit_status(const struct cleat__cli *cli, const struct cleat_error *err);

/* The same if there is no memory for the output. */
int cleat__cli_fail_memory(const struct cleat__cli *cli);

/* Prints "cleat: warning: <message>" on stderr. */
void cleat__cli_warn(const char *message);

/* cleat_log_fn for the client; `user` is a const struct cleat__cli. Called from any thread. */
void cleat__cli_log(void *user, enum cleat_log_level level, const char *line);

/* Prints the result of a save, load or verify, as one line or as JSON. Returns the exit status. */
struct cleat__cli_result {
  int64_t step;
  const char *attempt;   /* NULL: not known */
  const char *outcome;   /* JSON only: "committed", "skipped", … */
  const char *text;      /* people: follows the sizes; NULL: prints `note` without sizes */
  const char *note;      /* people: replaces sizes and speed */
  const char *place_key; /* JSON: "url" or "destination" */
  const char *place;
  uint64_t files;
  uint64_t bytes;
  bool resume;      /* --resume was given */
  uint64_t resumed; /* bytes that were already stored */
  double seconds;
};
int cleat__cli_report(const struct cleat__cli *cli, const struct cleat__cli_result *result);

/* ---- removals.c ---------------------------------------------------------------------------- */

/* What prune and gc have removed. */
struct cleat__cli_removal_report {
  const struct cleat_removals *removals;
  const char *noun; /* the kind of thing that was removed: "checkpoint" */
  const char *kept; /* the word for the others: "kept" */
  bool dry_run;
  const struct cleat_error *err; /* NULL: no error */
};

/* Prints the report. Returns the exit status. */
int cleat__cli_report_removals(const struct cleat__cli *cli, const struct cleat__cli_removal_report *report);

/* ---- table.c: columns for people ------------------------------------------------------------ */

struct cleat__cli_table {
  const char *align; /* one 'l' or 'r' per column */
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

/* Adds a row of fixed texts, one per column. */
void cleat__cli_table_add_row(struct cleat__cli_table *table, const char *const *cells);

/* Prints the rows to stdout, each after `indent` blanks. Cuts the last column so that a row fits into `width` columns
 * (0: never cuts). False: out of memory, and nothing was printed. */
bool cleat__cli_table_print(const struct cleat__cli_table *table, unsigned indent, size_t width);

/* ---- progress.c: the line on a terminal -------------------------------------------------------- */

struct cleat__cli_progress {
  bool active;       /* there is a terminal, and --quiet is not given */
  bool drawn;        /* the line is on the screen */
  const char *title; /* borrowed */
  double drawn_at;   /* when it was drawn, as cleat__seconds */
  double sampled_at;
  uint64_t sampled_bytes;
  double rate; /* bytes per second, smoothed; 0: not yet known */
};

void cleat__cli_progress_init(struct cleat__cli_progress *progress, const struct cleat__cli *cli, const char *title);

/* Draws the progress line, at most every tenth of a second. */
void cleat__cli_progress_draw(struct cleat__cli_progress *progress, const struct cleat_progress *now);

/* Draws the title and a line of the caller's text, cut to the terminal's width. */
void cleat__cli_progress_note(struct cleat__cli_progress *progress, const char *text);

/* Removes the line from the screen. */
void cleat__cli_progress_clear(struct cleat__cli_progress *progress);

/* True if stderr is a terminal on which a line can be redrawn. */
bool cleat__cli_progress_possible(void);

/* Columns of the terminal at `fd`. 0: it is not a terminal. */
size_t cleat__cli_terminal_columns(int fd);

/* ---- job.c: opening, and waiting for a save, a load, a doctor or a bench ----------------------------------------- */

/* A running save, load, doctor or bench. One of the pointers is set. */
struct cleat__cli_job {
  struct cleat_save *save;
  struct cleat_load *load;
  struct cleat_doctor *doctor; /* shows no progress, because it counts no bytes */
  struct cleat_bench *bench;   /* shows what it measures, but no percentage */
};

/* The signals that end a job in an orderly way. They are blocked while it runs. */
struct cleat__cli_signals {
  sigset_t held;
  sigset_t before;
  int caught; /* the first signal that came; 0: none */
};

/* Blocks SIGINT, SIGTERM and SIGHUP from now on, unless they are ignored. cleat__cli_job_wait receives them. */
void cleat__cli_signals_hold(struct cleat__cli_signals *signals);
void cleat__cli_signals_release(struct cleat__cli_signals *signals);

/* Waits for the job's end and shows progress. The first signal cancels the job; a second one kills the program. *last
 * is its last progress. */
cleat_status cleat__cli_job_wait(const struct cleat__cli *cli, const struct cleat__cli_job *job, const char *title,
                                 struct cleat__cli_signals *signals, struct cleat_progress *last,
                                 struct cleat_error *err);

/* Opens the checkpoint that --step names, or the newest. Reports an error, and returns the exit status. "Nothing found"
 * means that there is no checkpoint. If there are checkpoints but all are damaged, the status says so. */
int cleat__cli_open_checkpoint(const struct cleat__cli *cli, struct cleat_client *client,
                               struct cleat_checkpoint **checkpoint);

/* Waits for a load or verify that was started, and frees it. Returns the exit status; if it is 0, fills *last. */
int cleat__cli_load_finish(const struct cleat__cli *cli, cleat_status started, struct cleat_load *load,
                           const char *title, struct cleat__cli_signals *signals, struct cleat_progress *last,
                           struct cleat_error *err);

/* The exit status after a failed job: that of the signal that ended it, or that of the error. */
int cleat__cli_job_fail(const struct cleat__cli *cli, const struct cleat__cli_signals *signals,
                        const struct cleat_error *err);

#endif
