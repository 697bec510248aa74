/* prune.c: `cleat prune`: removes old checkpoints.
 *
 * Main thread; the client's threads remove. Signals have their usual effect: wherever it is interrupted, what is left
 * visible is whole. */
#include "api/cli/cli.h"

static const char help[] =
    "Removes old committed checkpoints: of each its manifest first, then the files\n"
    "that it named. Kept are the newest N, the steps that --keep-every asks for,\n"
    "pinned steps, and in any case the newest one. What cannot be read is left alone,\n"
    "and told. Saves and loads may go on meanwhile.\n"
    "\n"
    "      --keep-last N    how many of the newest to keep, 1 or more (required)\n"
    "      --keep-every M   keep the steps that are multiples of M, too\n"
    "      --dry-run        say what would be removed, and remove nothing\n";

static int run(const struct cleat__cli *cli, struct cleat_client *client) {
  struct cleat_prune_options options = CLEAT_PRUNE_OPTIONS_INIT;
  struct cleat_removals *removals = NULL;
  struct cleat_error err;
  cleat__error_clear(&err);
  if (cli->options.keep_last == 0) {
    cleat__error_set(&err, CLEAT_INVALID, "'cleat prune' needs --keep-last N");
    cleat__error_hint(&err,
                      "--keep-last 3 keeps the newest three; --dry-run says what that removes");
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
