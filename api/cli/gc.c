/* gc.c: `cleat gc`: deletes leftovers of crashed saves.
 *
 * Main thread; the client's threads delete. Signals have their usual effect. */
#include "api/cli/cli.h"

static const char help[] = "Deletes leftovers of crashed saves: attempts that no manifest names, unfinished\n"
                           "uploads, folders of 'cleat doctor' and 'cleat bench', pins of steps that no\n"
                           "longer exist, notes of old starts, and hidden files in folders. A leftover is\n"
                           "deleted only if the newest thing in it is old enough. Objects that are not\n"
                           "Cleat's are left alone.\n"
                           "\n"
                           "      --older-than AGE keep what is younger: 90m, 24h or 7d (24h). It must be\n"
                           "                       longer than any save takes, or a running save is deleted\n"
                           "      --dry-run        print what would be deleted, and delete nothing\n";

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
    .summary = "delete leftovers of crashed saves",
    .synopsis = "gc [OPTION]... URL",
    .help = help,
    .arguments = "the store's URL",
    .takes = CLEAT__CLI_TAKES_GC | CLEAT__CLI_TAKES_DRY_RUN,
    .min_arguments = 1,
    .max_arguments = 1,
    .small = true,
    .run = run,
};
