/* prune.c: `cleat prune`: removes old checkpoints.
 *
 * Main thread; the client's threads remove. Signals have their usual effect. An interruption at any point leaves only
 * complete checkpoints visible. */
#include "api/cli/cli.h"

static const char help[] = "Removes old committed checkpoints. Of each it removes the manifest first, then\n"
                           "the files that the manifest names. It keeps the newest N, the steps that --keep-\n"
                           "every names, pinned steps, and always the newest one. Steps that cannot be read\n"
                           "are left alone and reported. Saves and loads may run at the same time.\n"
                           "\n"
                           "      --keep-last N    how many of the newest to keep, 1 or more (required)\n"
                           "      --keep-every M   also keep the steps that are multiples of M\n"
                           "      --dry-run        print what would be removed, and remove nothing\n";

static int run(const struct cleat__cli *cli, struct cleat_client *client) {
  struct cleat_prune_options options = CLEAT_PRUNE_OPTIONS_INIT;
  struct cleat_removals *removals = NULL;
  struct cleat_error err;
  cleat__error_clear(&err);
  if (cli->options.keep_last == 0) {
    cleat__error_set(&err, CLEAT_INVALID, "'cleat prune' needs --keep-last N");
    cleat__error_hint(&err, "--keep-last 3 keeps the newest three; --dry-run prints what that removes");
    return cleat__cli_fail(cli, &err);
  }
  options.keep_last = cli->options.keep_last;
  options.keep_every = cli->options.keep_every;
  options.dry_run = cli->options.dry_run;
  cleat_status status = cleat_prune(client, &options, &removals, &err);
  if (removals == NULL)
    return cleat__cli_fail(cli, &err);
  const struct cleat__cli_removal_report report = {.removals = removals,
                                                   .noun = "checkpoint",
                                                   .kept = "kept",
                                                   .dry_run = cli->options.dry_run,
                                                   .err = status == CLEAT_OK ? NULL : &err};
  int exit_status = cleat__cli_report_removals(cli, &report);
  cleat_removals_free(removals);
  return exit_status;
}

const struct cleat__cli_command cleat__cli_prune = {
    .name = "prune",
    .summary = "remove old checkpoints",
    .synopsis = "prune [OPTION]... URL --keep-last N",
    .help = help,
    .arguments = "the store's URL",
    .takes = CLEAT__CLI_TAKES_PRUNE | CLEAT__CLI_TAKES_KEEP_LAST | CLEAT__CLI_TAKES_DRY_RUN,
    .min_arguments = 1,
    .max_arguments = 1,
    .small = true,
    .run = run,
};
