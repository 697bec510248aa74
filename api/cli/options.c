/* options.c: parses the command line, with getopt_long and one table of options.
 *
 * Main thread only: getopt_long keeps its state in variables of the C library. All texts in the
 * options belong to argv. */
#include "api/cli/cli.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

enum {
  LONG_ONLY = 256, /* above all characters, which are the codes of options with a short form */
  OPTION_DRY_RUN = LONG_ONLY,
  OPTION_DIR,
  OPTION_ENDPOINT,
  OPTION_FINAL,
  OPTION_FLUSH,
  OPTION_RANK_TIMEOUT,
  OPTION_GRACE,
  OPTION_IF_EXISTS,
  OPTION_JSON,
  OPTION_KEEP_EVERY,
  OPTION_KEEP_LAST,
  OPTION_KEEP_LOCAL,
  OPTION_LAYOUT,
  OPTION_LOG,
  OPTION_METADATA,
  OPTION_METRICS_FILE,
  OPTION_NO_RESTORE,
  OPTION_OFFLINE_OK,
  OPTION_ALLOW_UNSAVED,
  OPTION_OLDER_THAN,
  OPTION_PART_SIZE,
  OPTION_PATTERN,
  OPTION_QUIET_TIME,
  OPTION_REGION,
  OPTION_RESUME,
  OPTION_SIZE,
  OPTION_STAGING,
  OPTION_STEP,
  OPTION_STORE,
  OPTION_TIME_LIMIT
};

struct row {
  const char *name;
  int argument; /* no_argument or required_argument */
  int code;
  unsigned takes; /* 0: every command has it */
};

static const struct row rows[] = {
    {"allow-unsaved", no_argument, OPTION_ALLOW_UNSAVED, CLEAT__CLI_TAKES_RUN},
    {"dir", required_argument, OPTION_DIR, CLEAT__CLI_TAKES_RUN},
    {"dry-run", no_argument, OPTION_DRY_RUN, CLEAT__CLI_TAKES_DRY_RUN},
    {"endpoint", required_argument, OPTION_ENDPOINT, 0},
    {"final", no_argument, OPTION_FINAL, CLEAT__CLI_TAKES_RUN},
    {"flush", required_argument, OPTION_FLUSH, CLEAT__CLI_TAKES_RUN},
    {"rank-timeout", required_argument, OPTION_RANK_TIMEOUT, CLEAT__CLI_TAKES_RUN},
    {"force", no_argument, 'f', CLEAT__CLI_TAKES_FORCE},
    {"grace", required_argument, OPTION_GRACE, CLEAT__CLI_TAKES_RUN},
    {"help", no_argument, 'h', 0},
    {"if-exists", required_argument, OPTION_IF_EXISTS, CLEAT__CLI_TAKES_IF_EXISTS},
    {"jobs", required_argument, 'j', 0},
    {"json", no_argument, OPTION_JSON, 0},
    {"keep-every", required_argument, OPTION_KEEP_EVERY, CLEAT__CLI_TAKES_PRUNE},
    {"keep-last", required_argument, OPTION_KEEP_LAST, CLEAT__CLI_TAKES_KEEP_LAST},
    {"keep-local", required_argument, OPTION_KEEP_LOCAL, CLEAT__CLI_TAKES_RUN},
    {"layout", required_argument, OPTION_LAYOUT, CLEAT__CLI_TAKES_RUN},
    {"log", required_argument, OPTION_LOG, CLEAT__CLI_TAKES_RUN},
    {"metadata", required_argument, OPTION_METADATA, CLEAT__CLI_TAKES_SAVE},
    {"metrics-file", required_argument, OPTION_METRICS_FILE, CLEAT__CLI_TAKES_RUN},
    {"no-restore", no_argument, OPTION_NO_RESTORE, CLEAT__CLI_TAKES_RUN},
    {"offline-ok", no_argument, OPTION_OFFLINE_OK, CLEAT__CLI_TAKES_RUN},
    {"older-than", required_argument, OPTION_OLDER_THAN, CLEAT__CLI_TAKES_GC},
    {"part-size", required_argument, OPTION_PART_SIZE, 0},
    {"pattern", required_argument, OPTION_PATTERN, CLEAT__CLI_TAKES_RUN},
    {"quiet", no_argument, 'q', 0},
    {"quiet-time", required_argument, OPTION_QUIET_TIME, CLEAT__CLI_TAKES_RUN},
    {"region", required_argument, OPTION_REGION, 0},
    {"resume", no_argument, OPTION_RESUME, CLEAT__CLI_TAKES_SAVE},
    {"size", required_argument, OPTION_SIZE, CLEAT__CLI_TAKES_SIZE},
    {"staging", required_argument, OPTION_STAGING, 0},
    {"step", required_argument, OPTION_STEP, CLEAT__CLI_TAKES_STEP},
    {"store", required_argument, OPTION_STORE, CLEAT__CLI_TAKES_RUN},
    {"time-limit", required_argument, OPTION_TIME_LIMIT, 0},
    {"verbose", no_argument, 'v', 0},
};

enum { ROWS = sizeof rows / sizeof rows[0], SHORT_MAX = 2 * ROWS + 3 };

bool cleat__cli_option_at(size_t index, struct cleat__cli_option *option) {
  if (index >= ROWS)
    return false;
  const struct row *row = &rows[index];
  *option = (struct cleat__cli_option){.name = row->name,
                                       .letter = row->code < LONG_ONLY ? (char)row->code : '\0',
                                       .has_value = row->argument == required_argument,
                                       .takes = row->takes};
  return true;
}

bool cleat__cli_takes_option(const struct cleat__cli_command *command, const struct cleat__cli_option *option) {
  return option->takes == 0 || (option->takes & command->takes) != 0;
}

const char *cleat__cli_options_help(void) {
  return "Options of every command:\n"
         "      --json           print one JSON document on standard output\n"
         "  -q, --quiet          no progress, no closing line, no warnings\n"
         "  -v, --verbose        log what happens; given twice: in detail\n"
         "      --endpoint URL   the S3 server, such as http://127.0.0.1:9000\n"
         "      --region NAME    the S3 region\n"
         "      --staging SIZE   memory for copies in flight (256M)\n"
         "      --part-size SIZE size of the parts of a file (16M)\n"
         "  -j, --jobs N         the most transfers in flight (64; 4 for folders)\n"
         "      --time-limit S   seconds per request (900; 60 if little data is moved)\n"
         "  -h, --help           show this help\n";
}

/* Reads a decimal number. A sign, blanks or following text are errors. */
static bool read_number(const char *text, int64_t *value) {
  if (*text < '0' || *text > '9')
    return false;
  char *end = NULL;
  errno = 0;
  long long number = strtoll(text, &end, 10);
  if (errno || *end)
    return false;
  *value = number;
  return true;
}

static cleat_status set_step(const char *text, struct cleat__cli_options *options, struct cleat_error *err) {
  int64_t ignored;
  if (text[0] == '-' && read_number(text + 1, &ignored)) {
    cleat__error_set(err, CLEAT_INVALID, "--step %s: a step cannot be negative", text);
    return err->status;
  }
  if (!read_number(text, &options->step)) {
    cleat__error_set(err, CLEAT_INVALID, "--step '%s': not a step", text);
    cleat__error_hint(err, "a step is a whole number from 0 to 9223372036854775807");
    return err->status;
  }
  options->has_step = true;
  return CLEAT_OK;
}

/* `unit` names what the number counts. */
static cleat_status set_count(const char *name, const char *unit, const char *text, unsigned *count,
                              struct cleat_error *err) {
  int64_t value;
  if (!read_number(text, &value) || value < 1 || value > INT32_MAX)
    return cleat__error_set(err, CLEAT_INVALID, "--%s '%s': not a number of %s", name, text, unit);
  *count = (unsigned)value;
  return CLEAT_OK;
}

static cleat_status set_size(const char *name, const char *text, uint64_t *bytes, struct cleat_error *err) {
  if (cleat__cli_format_read_size(text, bytes))
    return CLEAT_OK;
  cleat__error_set(err, CLEAT_INVALID, "--%s '%s': not a size", name, text);
  cleat__error_hint(err, "sizes are written as 67108864, 65536K, 64M or 64MiB, or 1G");
  return err->status;
}

static cleat_status set_keep_every(const char *text, int64_t *every, struct cleat_error *err) {
  int64_t value = 0;
  if (!read_number(text, &value) || value < 1)
    return cleat__error_set(err, CLEAT_INVALID, "--keep-every '%s': not a number of steps", text);
  *every = value;
  return CLEAT_OK;
}

static cleat_status set_older_than(const char *text, uint64_t *seconds, struct cleat_error *err) {
  if (cleat__cli_format_read_age(text, seconds))
    return CLEAT_OK;
  cleat__error_set(err, CLEAT_INVALID, "--older-than '%s': not an age", text);
  cleat__error_hint(err, "ages are written as 90m, 24h or 7d: minutes, hours, days");
  return err->status;
}

static cleat_status set_if_exists(const char *text, struct cleat__cli_options *options, struct cleat_error *err) {
  static const char *const names[] = {"fail", "skip", "replace"};
  static const enum cleat_if_exists values[] = {CLEAT_IF_EXISTS_FAIL, CLEAT_IF_EXISTS_SKIP, CLEAT_IF_EXISTS_REPLACE};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    if (strcmp(text, names[i]) == 0) {
      options->if_exists = values[i];
      options->has_if_exists = true;
      return CLEAT_OK;
    }
  }
  return cleat__error_set(err, CLEAT_INVALID, "--if-exists '%s': not fail, skip or replace", text);
}

/* Reads a number of seconds. 0 is allowed, and means no time at all. */
static cleat_status set_patience(const char *name, const char *text, unsigned *seconds, bool *given,
                                 struct cleat_error *err) {
  int64_t value;
  if (!read_number(text, &value) || value > INT32_MAX)
    return cleat__error_set(err, CLEAT_INVALID, "--%s '%s': not a number of seconds", name, text);
  *seconds = (unsigned)value;
  *given = true;
  return CLEAT_OK;
}

static cleat_status set_run_value(int code, const char *value, struct cleat__cli_run_options *run,
                                  struct cleat_error *err) {
  switch (code) {
  case OPTION_GRACE:
    return set_patience("grace", value, &run->grace_s, &run->has_grace, err);
  case OPTION_FLUSH:
    return set_patience("flush", value, &run->flush_s, &run->has_flush, err);
  case OPTION_QUIET_TIME:
    return set_count("quiet-time", "seconds", value, &run->quiet_time_s, err);
  case OPTION_RANK_TIMEOUT:
    return set_count("rank-timeout", "seconds", value, &run->rank_timeout_s, err);
  case OPTION_KEEP_LOCAL:
    return set_count("keep-local", "checkpoints", value, &run->keep_local, err);
  case OPTION_DIR:
    run->dir = value;
    return CLEAT_OK;
  case OPTION_LAYOUT:
    run->layout = value;
    return CLEAT_OK;
  case OPTION_LOG:
    run->log = value;
    return CLEAT_OK;
  case OPTION_METRICS_FILE:
    run->metrics_file = value;
    return CLEAT_OK;
  case OPTION_PATTERN:
    run->pattern = value;
    return CLEAT_OK;
  default: /* OPTION_STORE, the last one with a value */
    run->store = value;
    return CLEAT_OK;
  }
}

static cleat_status set_value(int code, const char *value, struct cleat__cli_options *options,
                              struct cleat_error *err) {
  switch (code) {
  case OPTION_STEP:
    return set_step(value, options, err);
  case OPTION_STAGING:
    return set_size("staging", value, &options->staging_bytes, err);
  case OPTION_PART_SIZE:
    return set_size("part-size", value, &options->part_bytes, err);
  case OPTION_SIZE:
    return set_size("size", value, &options->size_bytes, err);
  case OPTION_IF_EXISTS:
    return set_if_exists(value, options, err);
  case 'j':
    return set_count("jobs", "requests", value, &options->jobs, err);
  case OPTION_KEEP_LAST:
    return set_count("keep-last", "checkpoints", value, &options->keep_last, err);
  case OPTION_KEEP_EVERY:
    return set_keep_every(value, &options->keep_every, err);
  case OPTION_OLDER_THAN:
    return set_older_than(value, &options->older_than_s, err);
  case OPTION_TIME_LIMIT:
    return set_count("time-limit", "seconds", value, &options->time_limit_s, err);
  case OPTION_METADATA:
    options->metadata = value;
    return CLEAT_OK;
  case OPTION_ENDPOINT:
    options->endpoint = value;
    return CLEAT_OK;
  case OPTION_REGION:
    options->region = value;
    return CLEAT_OK;
  default:
    return set_run_value(code, value, &options->run, err);
  }
}

/* False: the option takes a value. */
static bool set_flag(int code, struct cleat__cli_options *options) {
  switch (code) {
  case OPTION_JSON:
    options->json = true;
    return true;
  case OPTION_RESUME:
    options->resume = true;
    return true;
  case OPTION_DRY_RUN:
    options->dry_run = true;
    return true;
  case OPTION_FINAL:
    options->run.final = true;
    return true;
  case OPTION_NO_RESTORE:
    options->run.no_restore = true;
    return true;
  case OPTION_ALLOW_UNSAVED:
    options->run.allow_unsaved = true;
    return true;
  case OPTION_OFFLINE_OK:
    options->run.offline_ok = true;
    return true;
  case 'f':
    options->force = true;
    return true;
  case 'h':
    options->help = true;
    return true;
  case 'q':
    options->quiet = true;
    return true;
  case 'v':
    options->verbose++;
    return true;
  default:
    return false;
  }
}

/* The tables for getopt_long, for the options of one command. */
struct syntax {
  struct option longs[ROWS + 1];
  char shorts[SHORT_MAX];
  const char *names[ROWS + 1]; /* of the long options, ending with NULL */
};

static void syntax_make(const struct cleat__cli_command *command, struct syntax *syntax) {
  size_t count = 0, length = 0;
  memset(syntax, 0, sizeof *syntax);
  /* options after the first argument belong to that argument's command */
  if (command->wraps)
    syntax->shorts[length++] = '+';
  syntax->shorts[length++] = ':'; /* reports a missing value differently from an unknown option */
  for (size_t i = 0; i < ROWS; i++) {
    if (rows[i].takes && !(rows[i].takes & command->takes))
      continue;
    syntax->names[count] = rows[i].name;
    syntax->longs[count++] = (struct option){rows[i].name, rows[i].argument, NULL, rows[i].code};
    if (rows[i].code < LONG_ONLY)
      syntax->shorts[length++] = (char)rows[i].code;
    if (rows[i].code < LONG_ONLY && rows[i].argument == required_argument)
      syntax->shorts[length++] = ':';
  }
}

/* True if other commands have the option but this one does not. */
static bool is_elsewhere(const char *word) {
  for (size_t i = 0; i < ROWS; i++) {
    if (strcmp(word, rows[i].name) == 0)
      return true;
  }
  return false;
}

static cleat_status refuse(const char *command, const char *word, const struct syntax *syntax,
                           struct cleat_error *err) {
  if (optopt && word[0] == '-' && word[1] != '-')
    return cleat__error_set(err, CLEAT_INVALID, "'cleat %s' has no option -%c", command, optopt);
  if (optopt)
    return cleat__error_set(err, CLEAT_INVALID, "'%s': the option takes no value", word);
  word += strspn(word, "-");
  char name[64];
  snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "="), word);
  cleat__error_set(err, CLEAT_INVALID, "'cleat %s' has no option --%s", command, name);
  const char *nearest = is_elsewhere(name) ? NULL : cleat__cli_nearest(name, syntax->names);
  if (nearest)
    cleat__error_hint(err, "did you mean --%s?", nearest);
  return err->status;
}

static cleat_status parse_options(const struct cleat__cli_command *command, int argc, char **argv,
                                  struct cleat__cli_options *options, struct cleat_error *err) {
  struct syntax syntax;
  syntax_make(command, &syntax);
  opterr = 0;
  for (;;) {
    int code = getopt_long(argc, argv, syntax.shorts, syntax.longs, NULL);
    if (code == -1)
      return CLEAT_OK;
    if (code == ':')
      return cleat__error_set(err, CLEAT_INVALID, "%s needs a value", argv[optind - 1]);
    if (code == '?')
      return refuse(command->name, argv[optind - 1], &syntax, err);
    if (set_flag(code, options))
      continue;
    if (set_value(code, optarg, options, err) != CLEAT_OK)
      return err->status;
  }
}

static cleat_status check_arguments(const struct cleat__cli_command *command, const struct cleat__cli_options *options,
                                    struct cleat_error *err) {
  if (options->argument_count > command->max_arguments)
    return cleat__error_set(err, CLEAT_INVALID, "'%s' is one argument too many for 'cleat %s'",
                            options->arguments[command->max_arguments], command->name);
  if (options->argument_count < command->min_arguments)
    return cleat__error_set(err, CLEAT_INVALID, "'cleat %s' needs %s", command->name, command->arguments);
  size_t own = command->wraps ? 1 : options->argument_count;
  for (size_t i = 0; i < own; i++) {
    if (!*options->arguments[i])
      return cleat__error_set(err, CLEAT_INVALID, "an argument of 'cleat %s' is empty", command->name);
  }
  return CLEAT_OK;
}

/* An error in the command line must be JSON too, even if --json comes after it. */
static bool asks_json(int argc, char *const *argv) {
  for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
    if (strcmp(argv[i], "--json") == 0)
      return true;
  }
  return false;
}

cleat_status cleat__cli_options_parse(const struct cleat__cli_command *command, int argc, char **argv,
                                      struct cleat__cli_options *options, struct cleat_error *err) {
  *options = (struct cleat__cli_options){.step = CLEAT_STEP_LATEST, .json = !command->wraps && asks_json(argc, argv)};
  cleat_status status = parse_options(command, argc, argv, options, err);
  if (status == CLEAT_OK && !options->help) {
    options->arguments = argv + optind;
    options->argument_count = (size_t)(argc - optind);
    status = check_arguments(command, options, err);
  }
  if (status != CLEAT_OK && !err->hint[0])
    cleat__error_hint(err, "see 'cleat help %s'", command->name);
  return status;
}
