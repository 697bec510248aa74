/* ls.c: `cleat ls`: lists the committed checkpoints of a store, newest last.
 *
 * Main thread. A step with an unreadable manifest is reported on stderr after the list, and by the
 * exit status. Somebody who prunes or resumes by this list must know that it is incomplete. */
#include "api/cli/cli.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

static const char help[] = "Lists the committed checkpoints, newest last. Incomplete saves are not shown.\n"
                           "Steps with a damaged manifest are named on standard error, and the exit status\n"
                           "is 4. It is 3 if there is no checkpoint.\n";

static bool has_metadata(const struct cleat_list *list) {
  for (size_t i = 0; i < cleat_list_count(list); i++) {
    if (strcmp(cleat_list_get(list, i)->metadata, "{}") != 0)
      return true;
  }
  return false;
}

static void add_row(struct cleat__cli_table *table, const struct cleat_checkpoint_info *info, bool metadata) {
  char created[CLEAT__CLI_FORMAT_MAX], size[CLEAT__CLI_FORMAT_MAX];
  cleat__cli_format_local(info->created, created);
  cleat__cli_format_size((double)info->bytes, size);
  cleat__cli_table_add(table, "%" PRId64, info->step);
  cleat__cli_table_add(table, "%s", created);
  cleat__cli_table_add(table, "%s", size);
  cleat__cli_table_add(table, "%" PRIu64, info->files);
  cleat__cli_table_add(table, "%u", info->ranks);
  if (metadata)
    cleat__cli_table_add(table, "%s", strcmp(info->metadata, "{}") == 0 ? "" : info->metadata);
}

static bool print_table(const struct cleat_list *list) {
  if (!cleat_list_count(list))
    return true;
  static const char *const headings[] = {"STEP", "CREATED", "SIZE", "FILES", "RANKS", "METADATA"};
  struct cleat__cli_table table;
  bool metadata = has_metadata(list);
  cleat__cli_table_init(&table, metadata ? "rlrrrl" : "rlrrr");
  cleat__cli_table_add_row(&table, headings);
  for (size_t i = 0; i < cleat_list_count(list); i++)
    add_row(&table, cleat_list_get(list, i), metadata);
  bool printed = cleat__cli_table_print(&table, 0, cleat__cli_terminal_columns(STDOUT_FILENO));
  cleat__cli_table_clear(&table);
  return printed;
}

/* "damaged" is present only if there are damaged steps. */
static bool print_json(const struct cleat_list *list) {
  struct cleat__cli_json json;
  cleat__cli_json_init(&json);
  cJSON *checkpoints = cleat__cli_json_array(&json, json.root, "checkpoints");
  for (size_t i = 0; i < cleat_list_count(list); i++)
    cleat__cli_json_checkpoint(&json, cleat__cli_json_object(&json, checkpoints, NULL), cleat_list_get(list, i));
  cJSON *damaged = cleat_list_damaged(list) ? cleat__cli_json_array(&json, json.root, "damaged") : NULL;
  for (size_t i = 0; i < cleat_list_damaged(list); i++)
    cleat__cli_json_error(&json, cleat__cli_json_object(&json, damaged, NULL), cleat_list_damage(list, i));
  return cleat__cli_json_print(&json);
}

/* Reports problems on stderr after the list. Returns the exit status. */
static int report(const struct cleat__cli *cli, const struct cleat_list *list) {
  fflush(stdout);
  for (size_t i = 0; i < cleat_list_damaged(list); i++)
    cleat__cli_warn(cleat_list_damage(list, i)->message);
  if (cleat_list_damaged(list))
    return CLEAT__CLI_DAMAGED;
  if (cleat_list_count(list))
    return CLEAT__CLI_DONE;
  struct cleat_error err;
  cleat__error_set(&err, CLEAT_NOT_FOUND, "no checkpoint in %s", cli->options.arguments[0]);
  struct cleat__cli quiet = *cli;
  quiet.options.json = false; /* the empty list is the JSON document */
  return cleat__cli_fail(&quiet, &err);
}

static int run(const struct cleat__cli *cli, struct cleat_client *client) {
  struct cleat_list *list = NULL;
  struct cleat_error err;
  cleat__error_clear(&err);
  if (cleat_list(client, &list, &err) != CLEAT_OK)
    return cleat__cli_fail(cli, &err);
  bool printed = cli->options.json ? print_json(list) : print_table(list);
  int exit_status = printed ? report(cli, list) : cleat__cli_fail_memory(cli);
  cleat_list_free(list);
  return exit_status;
}

const struct cleat__cli_command cleat__cli_ls = {
    .name = "ls",
    .summary = "list the committed checkpoints",
    .synopsis = "ls [OPTION]... URL",
    .help = help,
    .arguments = "the store's URL",
    .min_arguments = 1,
    .max_arguments = 1,
    .small = true,
    .run = run,
};
