/* client.c: opens a command's client with the options of the command line.
 *
 * Main thread. The caller closes the client. */
#include "api/cli/cli.h"

#include <stdlib.h>
#include <string.h>

cleat_status cleat__cli_open_client(const struct cleat__cli *cli, const char *url, cleat_log_fn *log, void *log_user,
                                    struct cleat_client **client, struct cleat_error *err) {
  /* Small commands give up early. If somebody waits for a list, a misspelt server name is likelier than a slow
   * server. */
  static const unsigned small_time_limit_s = 60;
  const struct cleat__cli_options *given = &cli->options;
  struct cleat_client_options options = CLEAT_CLIENT_OPTIONS_INIT;
  options.staging_bytes = given->staging_bytes ? given->staging_bytes : cli->command->staging_bytes;
  options.staging_on_demand = 1;
  options.part_bytes = given->part_bytes;
  options.concurrency = given->jobs;
  options.time_limit_s = given->time_limit_s;
  options.endpoint = given->endpoint;
  options.region = given->region;
  /* A launcher's rank variables are for the job that it launches, not for a program beside it. Saves obey Cleat's own
   * variables. `cleat run` is itself launched, on each machine. */
  bool of_ranks =
      cli->command->wraps || (strcmp(cli->command->name, "save") == 0 && getenv("CLEAT_WORLD_SIZE") != NULL);
  if (cli->command->wraps)
    options.rank_timeout_s = given->run.rank_timeout_s;
  options.world_size = of_ranks ? 0 : 1;
  options.log = log;
  options.log_user = log_user;
  if (cli->command->small && !options.time_limit_s)
    options.time_limit_s = small_time_limit_s;
  return cleat_client_open(url, &options, client, err);
}
