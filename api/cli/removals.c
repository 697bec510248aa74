/* removals.c: prints what `cleat prune` and `cleat gc` have removed, or would remove: a table, or
 * one JSON document.
 *
 * Main thread. */
#include "api/cli/cli.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

static const char *status_text(const struct cleat_removal *removal) {
  return removal->status == CLEAT_OK ? "" : cleat_status_text(removal->status);
}

static size_t count_failed(const struct cleat_removals *removals) {
  size_t failed = 0;
  for (size_t i = 0; i < cleat_removals_count(removals); i++)
    failed += cleat_removals_get(removals, i)->status != CLEAT_OK;
  return failed;
}

static void add_row(struct cleat__cli_table *table, const struct cleat_removal *removal, bool failed) {
  char size[CLEAT__CLI_FORMAT_MAX];
  cleat__cli_format_size((double)removal->bytes, size);
  cleat__cli_table_add(table, "%s", cleat_removal_kind_name(removal->kind));
  if (removal->step >= 0)
    cleat__cli_table_add(table, "%" PRId64, removal->step);
  else
    cleat__cli_table_add(table, "%s", "");
  cleat__cli_table_add(table, "%" PRIu64, removal->objects);
  cleat__cli_table_add(table, "%s", size);
  cleat__cli_table_add(table, "%s", removal->name);
  if (failed)
    cleat__cli_table_add(table, "%s", status_text(removal));
}

static bool print_table(const struct cleat_removals *removals) {
  static const char *const headings[] = {"WHAT", "STEP", "OBJECTS", "SIZE", "NAME", "FAILED"};
  struct cleat__cli_table table;
  bool failed = count_failed(removals) > 0;
  if (cleat_removals_count(removals) == 0)
    return true;
  cleat__cli_table_init(&table, failed ? "lrrrll" : "lrrrl");
  cleat__cli_table_add_row(&table, headings);
  for (size_t i = 0; i < cleat_removals_count(removals); i++)
    add_row(&table, cleat_removals_get(removals, i), failed);
  bool printed = cleat__cli_table_print(&table, 0, cleat__cli_terminal_columns(STDOUT_FILENO));
  cleat__cli_table_clear(&table);
  return printed;
}

/* Prints "2 checkpoints removed, 1.5 GiB freed; 3 kept". */
static void print_summary(const struct cleat__cli_removal_report *report) {
  size_t count = cleat_removals_count(report->removals);
  char things[CLEAT__CLI_FORMAT_MAX], size[CLEAT__CLI_FORMAT_MAX];
  cleat__cli_format_count(count, report->noun, things);
  cleat__cli_format_size((double)cleat_removals_bytes(report->removals), size);
  if (count == 0)
    printf("nothing to remove");
  else if (report->dry_run)
    printf("%s would be removed, %s freed", things, size);
  else if (report->err != NULL)
    printf("%s tried, %s freed", things, size);
  else
    printf("%s removed, %s freed", things, size);
  printf("; %zu %s\n", cleat_removals_kept(report->removals), report->kept);
}

static bool print_json(const struct cleat__cli *cli, const struct cleat__cli_removal_report *report) {
  struct cleat__cli_json json;
  cleat__cli_json_init(&json);
  cleat__cli_json_text(&json, json.root, "url", cli->options.arguments[0]);
  cleat__cli_json_bool(&json, json.root, "dry_run", report->dry_run);
  cleat__cli_json_uint(&json, json.root, "kept", cleat_removals_kept(report->removals));
  cleat__cli_json_uint(&json, json.root, "bytes", cleat_removals_bytes(report->removals));
  cJSON *removed = cleat__cli_json_array(&json, json.root, "removed");
  for (size_t i = 0; i < cleat_removals_count(report->removals); i++) {
    const struct cleat_removal *removal = cleat_removals_get(report->removals, i);
    cJSON *object = cleat__cli_json_object(&json, removed, NULL);
    cleat__cli_json_text(&json, object, "kind", cleat_removal_kind_name(removal->kind));
    if (removal->step >= 0)
      cleat__cli_json_int(&json, object, "step", removal->step);
    cleat__cli_json_text(&json, object, "name", removal->name);
    cleat__cli_json_uint(&json, object, "objects", removal->objects);
    cleat__cli_json_uint(&json, object, "bytes", removal->bytes);
    cleat__cli_json_text(&json, object, "status", cleat_status_name(removal->status));
  }
  if (report->err != NULL)
    cleat__cli_json_error(&json, cleat__cli_json_object(&json, json.root, "error"), report->err);
  return cleat__cli_json_print(&json);
}

/* With --json a failure is already in the document, so it is not printed again. */
int cleat__cli_report_removals(const struct cleat__cli *cli, const struct cleat__cli_removal_report *report) {
  bool printed = cli->options.json ? print_json(cli, report) : print_table(report->removals);
  if (!printed)
    return cleat__cli_fail_memory(cli);
  if (!cli->options.json && !cli->options.quiet)
    print_summary(report);
  if (report->err == NULL)
    return CLEAT__CLI_DONE;
  struct cleat__cli told = *cli;
  told.options.json = false;
  return cleat__cli_fail(&told, report->err);
}
