/* verify.c: `cleat verify`: reads every byte of a checkpoint again and checks it.
 *
 * Main thread; the client's threads move the bytes. */
#include "api/cli/cli.h"

#include <inttypes.h>

static const char help[] = "Reads a checkpoint from the store and checks the manifest, the records of the\n"
                           "ranks, and every part of every file against the checksums of the save. Writes\n"
                           "nothing.\n"
                           "\n"
                           "      --step N         the step; the newest if it is not given\n";

static int verify(const struct cleat__cli *cli, struct cleat_checkpoint *checkpoint) {
  const struct cleat_checkpoint_info *info = cleat_checkpoint_info(checkpoint);
  char title[CLEAT__CLI_FORMAT_MAX];
  snprintf(title, sizeof title, "verifying step %" PRId64, info->step);
  struct cleat__cli_signals signals;
  struct cleat_load *load = NULL;
  struct cleat_progress last;
  struct cleat_error err;
  cleat__error_clear(&err);
  cleat__cli_signals_hold(&signals);
  cleat_status started = cleat_verify_async(checkpoint, &load, &err);
  int exit_status = cleat__cli_load_finish(cli, started, load, title, &signals, &last, &err);
  if (exit_status != CLEAT__CLI_DONE)
    return exit_status;
  const struct cleat__cli_result result = {.step = info->step,
                                           .attempt = info->attempt,
                                           .outcome = "verified",
                                           .text = "verified in",
                                           .place_key = "url",
                                           .place = cli->options.arguments[0],
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
  exit_status = verify(cli, checkpoint);
  cleat_checkpoint_free(checkpoint);
  return exit_status;
}

const struct cleat__cli_command cleat__cli_verify = {
    .name = "verify",
    .summary = "read a checkpoint again and check every byte",
    .synopsis = "verify [OPTION]... URL",
    .help = help,
    .arguments = "the store's URL",
    .takes = CLEAT__CLI_TAKES_STEP,
    .min_arguments = 1,
    .max_arguments = 1,
    .run = run,
};
