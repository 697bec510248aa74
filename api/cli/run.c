/* run.c: `cleat run`: runs a training command under api/run/.
 *
 * Main thread, before any other thread has started. */
#include "api/cli/cli.h"
#include "api/run/run.h"

#include <string.h>
#include <unistd.h>

/* Together two minutes, the notice that AWS gives a spot machine. */
enum { GRACE_S = 60, FLUSH_S = 60 };

/* Lower: a machine with a large part or a slow network makes the save fail on all. Higher: a dead machine delays the
 * others for longer. */
enum { RANK_TIMEOUT_S = 600 };

static const char help[] = "Runs COMMAND, which writes its checkpoints into DIR and needs no change. First\n"
                           "the newest checkpoint of the store is restored into DIR. The command finds\n"
                           "CLEAT_RESUME_STEP and CLEAT_RESUME_DIR in its environment. While it runs, each\n"
                           "checkpoint that it completes is saved. SIGTERM is passed on. Then the command\n"
                           "has time to end, and what is not saved yet is saved, newest first. The exit\n"
                           "status is the command's (125 if that is 0 and something could not be saved).\n"
                           "Works as process 1 of a container.\n"
                           "\n"
                           "      --store URL      the store (required)\n"
                           "      --dir DIR        the folder of the checkpoints (required)\n"
                           "      --layout NAME    the tool that writes them: auto (default), cleat, dcp,\n"
                           "                       torchtune, huggingface, megatron, lightning, llmc,\n"
                           "                       infinitrain, deepspeed, nemo, verl, orbax, accelerate,\n"
                           "                       composer, or folders\n"
                           "      --pattern GLOB   layout folders: their names; the number after a word such\n"
                           "                       as step or epoch is the step, otherwise the last number\n"
                           "      --quiet-time S   seconds without a change until a checkpoint counts as\n"
                           "                       complete, if its tool writes no completion marker (30)\n"
                           "      --step N         restore this step, not the newest; later steps are\n"
                           "                       replaced when the command reaches them\n"
                           "      --no-restore     restore nothing\n"
                           "      --offline-ok     start even if the store does not answer\n"
                           "      --grace S        seconds for the command after SIGTERM (60)\n"
                           "      --flush S        seconds after that for saving (60)\n"
                           "      --keep-last N    keep N checkpoints in the store\n"
                           "      --keep-local N   keep N in DIR; one is deleted once it is in the store\n"
                           "      --final          when the command ends well, save all of DIR\n"
                           "      --allow-unsaved  end as the command did even if nothing that it wrote is a\n"
                           "                       checkpoint that can be saved\n"
                           "      --rank-timeout S several machines: how long a rank that is ready waits for\n"
                           "                       the others (600)\n"
                           "      --if-exists HOW  a step that another start has saved: skip (default), fail,\n"
                           "                       or replace\n"
                           "      --log FORMAT     human (default) or json, one line each on standard error\n"
                           "      --metrics-file F write metrics for Prometheus to this file\n";

static cleat_status refuse(struct cleat_error *err, const char *option, const char *value, const char *names) {
  cleat__error_set(err, CLEAT_INVALID, "--%s '%s': not a valid value", option, value);
  cleat__error_hint(err, "use one of: %s", names);
  return err->status;
}

static cleat_status set_layout(const struct cleat__cli_run_options *given, struct cleat__run_options *options,
                               struct cleat_error *err) {
  char names[256] = "";
  const char *name = given->layout ? given->layout : given->pattern ? "folders" : "auto";
  options->layout = cleat__run_layout_find(name);
  options->pattern = given->pattern;
  if (options->layout && given->pattern && strcmp(name, "folders") != 0)
    return cleat__error_set(err, CLEAT_INVALID, "--pattern is only for --layout folders");
  if (options->layout)
    return CLEAT_OK;
  for (const char *const *known = cleat__run_layout_names(); *known; known++) {
    size_t length = strlen(names);
    snprintf(names + length, sizeof names - length, "%s%s", length ? ", " : "", *known);
  }
  return refuse(err, "layout", name, names);
}

static cleat_status set_log(const struct cleat__cli_options *given, struct cleat__run_options *options,
                            struct cleat_error *err) {
  const char *format = given->run.log ? given->run.log : given->json ? "json" : "human";
  options->report = (struct cleat__run_report_options){
      .out = stderr, .format = CLEAT__RUN_LOG_HUMAN, .quiet = given->quiet, .metrics_path = given->run.metrics_file};
  if (strcmp(format, "json") == 0)
    options->report.format = CLEAT__RUN_LOG_JSON;
  else if (strcmp(format, "human") != 0)
    return refuse(err, "log", format, "human, json");
  return CLEAT_OK;
}

static cleat_status set_options(const struct cleat__cli_options *given, struct cleat__run_options *options,
                                struct cleat_error *err) {
  const struct cleat__cli_run_options *run = &given->run;
  if (!run->store || !run->dir) {
    cleat__error_set(err, CLEAT_INVALID, "'cleat run' needs --%s", run->store ? "dir DIR" : "store URL");
    cleat__error_hint(err, "see 'cleat help run'");
    return err->status;
  }
  options->url = run->store;
  options->dir = run->dir;
  options->step = given->step;
  options->quiet_s = run->quiet_time_s;
  options->grace_s = run->has_grace ? run->grace_s : GRACE_S;
  options->flush_s = run->has_flush ? run->flush_s : FLUSH_S;
  options->keep_last = given->keep_last;
  options->keep_local = run->keep_local;
  options->rank_timeout_s = run->rank_timeout_s ? run->rank_timeout_s : RANK_TIMEOUT_S;
  /* A start from an older step replaces the later steps. */
  options->if_exists = given->has_step ? CLEAT_IF_EXISTS_REPLACE : CLEAT_IF_EXISTS_SKIP;
  if (given->has_if_exists)
    options->if_exists = given->if_exists;
  options->no_restore = run->no_restore;
  options->offline_ok = run->offline_ok;
  options->allow_unsaved = run->allow_unsaved;
  options->final = run->final;
  options->command = given->arguments;
  cleat_status status = set_layout(run, options, err);
  return status == CLEAT_OK ? set_log(given, options, err) : status;
}

static cleat_status open_client(void *user, struct cleat__run_report *report, struct cleat_client **client,
                                struct cleat_error *err) {
  const struct cleat__cli *cli = user;
  return cleat__cli_open_client(cli, cli->options.run.store, cleat__run_report_log, report, client, err);
}

static int run(const struct cleat__cli *cli, struct cleat_client *client) {
  struct cleat__run_options options = {0};
  struct cleat_error err;
  struct cleat__cli own = *cli;
  (void)client;
  if (set_options(&cli->options, &options, &err) != CLEAT_OK)
    return cleat__cli_fail(cli, &err);
  bool hangs = false;
  int exit_status = cleat__run(&options, open_client, &own, &hangs, &err);
  if (err.status != CLEAT_OK)
    cleat__cli_fail(cli, &err);
  if (hangs) {
    fflush(NULL);
    _exit(exit_status);
  }
  return exit_status;
}

const struct cleat__cli_command cleat__cli_run = {
    .name = "run",
    .summary = "run a training command and save its checkpoints",
    .synopsis = "run --store URL --dir DIR [OPTION]... [--] COMMAND [ARGUMENT]...",
    .help = help,
    .arguments = "a command to run",
    .takes = CLEAT__CLI_TAKES_RUN | CLEAT__CLI_TAKES_STEP | CLEAT__CLI_TAKES_IF_EXISTS | CLEAT__CLI_TAKES_KEEP_LAST,
    .min_arguments = 1,
    .max_arguments = SIZE_MAX,
    .wraps = true,
    .run = run,
};
