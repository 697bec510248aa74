/* pin.c: `cleat pin` and `cleat unpin`: protect a step from prune, or end that.
 *
 * Main thread. */
#include "api/cli/cli.h"

#include <inttypes.h>

static const char pin_help[] = "Protects a committed checkpoint from every prune, until it is unpinned.\n"
                               "\n"
                               "      --step N         the step (required)\n";

static const char unpin_help[] = "Removes the protection of 'cleat pin', so that the checkpoint can be pruned.\n"
                                 "\n"
                                 "      --step N         the step (required)\n";

typedef cleat_status pin_fn(struct cleat_client *client, int64_t step, struct cleat_error *err);

static int finish(const struct cleat__cli *cli, const char *outcome) {
  const struct cleat__cli_options *options = &cli->options;
  if (options->json) {
    struct cleat__cli_json json;
    cleat__cli_json_init(&json);
    cleat__cli_json_int(&json, json.root, "step", options->step);
    cleat__cli_json_text(&json, json.root, "outcome", outcome);
    cleat__cli_json_text(&json, json.root, "url", options->arguments[0]);
    return cleat__cli_json_print(&json) ? CLEAT__CLI_DONE : cleat__cli_fail_memory(cli);
  }
  if (!options->quiet)
    printf("step %" PRId64 ": %s\n", options->step, outcome);
  return CLEAT__CLI_DONE;
}

static int change(const struct cleat__cli *cli, struct cleat_client *client, pin_fn *fn, const char *outcome) {
  struct cleat_error err;
  cleat__error_clear(&err);
  if (!cli->options.has_step) {
    cleat__error_set(&err, CLEAT_INVALID, "'cleat %s' needs --step N", cli->command->name);
    return cleat__cli_fail(cli, &err);
  }
  return fn(client, cli->options.step, &err) == CLEAT_OK ? finish(cli, outcome) : cleat__cli_fail(cli, &err);
}

static int run_pin(const struct cleat__cli *cli, struct cleat_client *client) {
  return change(cli, client, cleat_pin, "pinned");
}

static int run_unpin(const struct cleat__cli *cli, struct cleat_client *client) {
  return change(cli, client, cleat_unpin, "unpinned");
}

const struct cleat__cli_command cleat__cli_pin = {
    .name = "pin",
    .summary = "protect a checkpoint from being pruned",
    .synopsis = "pin [OPTION]... URL --step N",
    .help = pin_help,
    .arguments = "the store's URL",
    .takes = CLEAT__CLI_TAKES_STEP,
    .min_arguments = 1,
    .max_arguments = 1,
    .small = true,
    .run = run_pin,
};

const struct cleat__cli_command cleat__cli_unpin = {
    .name = "unpin",
    .summary = "allow a checkpoint to be pruned again",
    .synopsis = "unpin [OPTION]... URL --step N",
    .help = unpin_help,
    .arguments = "the store's URL",
    .takes = CLEAT__CLI_TAKES_STEP,
    .min_arguments = 1,
    .max_arguments = 1,
    .small = true,
    .run = run_unpin,
};
