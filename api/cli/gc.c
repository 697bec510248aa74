/* gc.c: `cleat gc`: removes what saves that died have left.
 *
 * Main thread; the client's threads remove. Signals have their usual effect. */
#include "api/cli/cli.h"

static const char help[] =
    "Removes what was left behind: tries at saving that no manifest names, unfinished\n"
    "uploads, folders of 'cleat doctor' and 'cleat bench', pins of steps that are\n"
    "gone, notes of old starts, hidden files in folders; all of it only when the\n"
    "newest thing in it is old enough. What Cleat did not make is left alone.\n"
    "\n"
    "      --older-than AGE leave what is younger: 90m, 24h or 7d (24h). It must be\n"
    "                       longer than a save takes: one that goes on is removed\n"
    "      --dry-run        say what would be removed, and remove nothing\n";

static int run(const struct cleat__cli *cli, struct cleat_client *client) {
  struct cleat_gc_options options = CLEAT_GC_OPTIONS_INIT;
  struct cleat_removals *removals = NULL;
  struct cleat_error err;
  cleat__error_clear(&err);
  options.older_than_s = cli->options.older_than_s;
  options.dry_run = cli->options.dry_run;
  cleat_status status = cleat_gc(client, &options, &removals, &err);
  if (removals == NULL)
    return cleat__cli_fail(cli, &err);
  const struct cleat__cli_removal_report report = {.removals = removals,
                                                   .noun = "leftover",
                                                   .kept = "left for now",
                                                   .dry_run = cli->options.dry_run,
                                                   .err = status == CLEAT_OK ? NULL : &err};
  int exit_status = cleat__cli_report_removals(cli, &report);
  cleat_removals_free(removals);
  return exit_status;
}

const struct cleat__cli_command cleat__cli_gc = {
    .name = "gc",
    .summary = "remove what saves that died have left",
    .synopsis = "gc [OPTION]... URL",
    .help = help,
    .arguments = "the store's URL",
    .takes = CLEAT__CLI_TAKES_GC | CLEAT__CLI_TAKES_DRY_RUN,
    .min_arguments = 1,
    .max_arguments = 1,
    .small = true,
    .run = run,
};
