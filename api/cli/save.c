/* save.c: `cleat save`: stores files and folders as one checkpoint.
 *
 * Main thread; the client's threads move the bytes and read the files in place. */
#include "api/cli/cli.h"

#include <inttypes.h>

/* Printed instead of sizes and speed. */
#define SKIPPED_NOTE "it is already committed and is left as it is; skipped"

static const char help[] = "Saves files as the checkpoint of one step. Others see it once it is complete,\n"
                           "and not before.\n"
                           "\n"
                           "A file is stored under its own name. A folder is stored as the files below it,\n"
                           "including hidden ones, under their paths in it. Links to files are followed.\n"
                           "Empty folders are not kept. Tensors in .safetensors files are indexed.\n"
                           "\n"
                           "      --step N         the step, a whole number from 0 on (required)\n"
                           "      --metadata JSON  any JSON value to keep with the step\n"
                           "      --if-exists HOW  if the step already exists, from any writer: fail\n"
                           "                       (default), skip, or replace\n"
                           "      --resume         continue a killed save of this step: stored parts are\n"
                           "                       compared by checksum, and only missing ones are sent. If\n"
                           "                       this save fails too, its parts stay for the next --resume\n";

static int report(const struct cleat__cli *cli, const char *url, const struct cleat_progress *last) {
  bool skipped = last->outcome == CLEAT_OUTCOME_SKIPPED;
  const struct cleat__cli_result result = {.step = cli->options.step,
                                           .outcome = skipped ? "skipped" : "committed",
                                           .text = "saved to",
                                           .note = skipped ? SKIPPED_NOTE : NULL,
                                           .place_key = "url",
                                           .place = url,
                                           .files = last->files_total,
                                           .bytes = last->bytes_total,
                                           .resume = cli->options.resume,
                                           .resumed = last->bytes_resumed,
                                           .seconds = last->elapsed_s};
  return cleat__cli_report(cli, &result);
}

static int fail(const struct cleat__cli *cli, const struct cleat__cli_signals *signals, struct cleat_error *err) {
  if (err->status == CLEAT_EXISTS)
    cleat__error_hint(err, "--if-exists skip leaves it as it is, --if-exists replace replaces it");
  return cleat__cli_job_fail(cli, signals, err);
}

static int save_files(const struct cleat__cli *cli, struct cleat_client *client, const char *url,
                      const struct cleat__cli_sources *sources) {
  struct cleat_save_request request = CLEAT_SAVE_REQUEST_INIT;
  request.step = cli->options.step;
  request.files = sources->files;
  request.file_count = sources->count;
  request.metadata = cli->options.metadata;
  request.if_exists = cli->options.if_exists;
  request.resume = cli->options.resume;

  char title[CLEAT__CLI_FORMAT_MAX];
  snprintf(title, sizeof title, "saving step %" PRId64, request.step);
  struct cleat__cli_signals signals;
  struct cleat__cli_job job = {0};
  struct cleat_progress last;
  struct cleat_error err;
  cleat__error_clear(&err);
  cleat__cli_signals_hold(&signals);
  cleat_status status = cleat_save_async_in_place(client, &request, &job.save, &err);
  if (status == CLEAT_OK)
    status = cleat__cli_job_wait(cli, &job, title, &signals, &last, &err);
  int exit_status = status == CLEAT_OK ? report(cli, url, &last) : fail(cli, &signals, &err);
  cleat_save_free(job.save);
  cleat__cli_signals_release(&signals);
  return exit_status;
}

static int need_step(const struct cleat__cli *cli) {
  struct cleat_error err;
  cleat__error_set(&err, CLEAT_INVALID, "'cleat save' needs --step N");
  cleat__error_hint(&err, "see 'cleat help save'");
  return cleat__cli_fail(cli, &err);
}

static int run(const struct cleat__cli *cli, struct cleat_client *client) {
  const struct cleat__cli_options *options = &cli->options;
  const char *url = options->arguments[options->argument_count - 1];
  struct cleat__cli_sources sources;
  struct cleat_error err;
  if (!options->has_step)
    return need_step(cli);
  if (cleat__cli_sources_collect(options->arguments, options->argument_count - 1, url, &sources, &err) != CLEAT_OK)
    return cleat__cli_fail(cli, &err);
  int exit_status = save_files(cli, client, url, &sources);
  cleat__cli_sources_clear(&sources);
  return exit_status;
}

const struct cleat__cli_command cleat__cli_save = {
    .name = "save",
    .summary = "store files and folders as a checkpoint",
    .synopsis = "save [OPTION]... SOURCE... URL --step N",
    .help = help,
    .arguments = "at least one file or folder, and the store's URL",
    .takes = CLEAT__CLI_TAKES_STEP | CLEAT__CLI_TAKES_SAVE | CLEAT__CLI_TAKES_IF_EXISTS,
    .min_arguments = 2,
    .max_arguments = SIZE_MAX,
    .url_last = true,
    .saves = true,
    .run = run,
};
