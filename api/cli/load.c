/* load.c: `cleat load`: restores the files of a checkpoint into a folder.
 *
 * Main thread; the client's threads move the bytes. */
#include "api/cli/cli.h"

#include <inttypes.h>

static const char help[] = "Restores every file of a checkpoint into the folder DEST and checks every byte.\n"
                           "DEST appears complete or not at all. If it already exists, it is refused.\n"
                           "\n"
                           "      --step N         the step; the newest if it is not given\n"
                           "  -f, --force          write into DEST although it exists; its files are\n"
                           "                       replaced once all are fetched and checked; others stay\n";

static int load_files(const struct cleat__cli *cli, struct cleat_checkpoint *checkpoint, const char *destination) {
  const struct cleat_checkpoint_info *info = cleat_checkpoint_info(checkpoint);
  struct cleat_load_options options = CLEAT_LOAD_OPTIONS_INIT;
  options.force = cli->options.force;

  char title[CLEAT__CLI_FORMAT_MAX];
  snprintf(title, sizeof title, "loading step %" PRId64, info->step);
  struct cleat__cli_signals signals;
  struct cleat_load *load = NULL;
  struct cleat_progress last;
  struct cleat_error err;
  cleat__error_clear(&err);
  cleat__cli_signals_hold(&signals);
  cleat_status started = cleat_load_files_async(checkpoint, destination, &options, &load, &err);
  int exit_status = cleat__cli_load_finish(cli, started, load, title, &signals, &last, &err);
  if (exit_status != CLEAT__CLI_DONE)
    return exit_status;
  const struct cleat__cli_result result = {.step = info->step,
                                           .attempt = info->attempt,
                                           .outcome = "loaded",
                                           .text = "loaded into",
                                           .place_key = "destination",
                                           .place = destination,
                                           .files = info->files,
                                           .bytes = info->bytes,
                                           .seconds = last.elapsed_s};
  return cleat__cli_report(cli, &result);
}

static int run(const struct cleat__cli *cli, struct cleat_client *client) {
  struct cleat_checkpoint *checkpoint = NULL;
  int exit_status = cleat__cli_open_checkpoint(cli, client, &checkpoint);
  if (exit_status != CLEAT__CLI_DONE)
    return exit_status;
  exit_status = load_files(cli, checkpoint, cli->options.arguments[1]);
  cleat_checkpoint_free(checkpoint);
  return exit_status;
}

const struct cleat__cli_command cleat__cli_load = {
    .name = "load",
    .summary = "restore a checkpoint's files into a folder",
    .synopsis = "load [OPTION]... URL DEST",
    .help = help,
    .arguments = "the store's URL and a folder to restore into",
    .takes = CLEAT__CLI_TAKES_STEP | CLEAT__CLI_TAKES_FORCE,
    .min_arguments = 2,
    .max_arguments = 2,
    .run = run,
};
