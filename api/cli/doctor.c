/* doctor.c: `cleat doctor`: tests what a store can and cannot do, and what that means for a save.
 *
 * Main thread; the checks run on a thread of the client. The exit status says whether saves are
 * safe. */
#include "api/cli/cli.h"

#include <unistd.h>

static const char help[] = "Tests everything on a store that saves and loads rely on. Prints what the store\n"
                           "can do, what it lacks, what it accepts but ignores, and what that means for a\n"
                           "save. It stores about 5 MiB in a folder of its own, and removes that at the end.\n"
                           "The exit status is 0 if saves are safe, and 1 if they are not.\n";

static bool is_wrong(const struct cleat_check *check) {
  return check->result != CLEAT_CHECK_OK && check->result != CLEAT_CHECK_SKIPPED;
}

/* Counts the checks with a problem that does not make saves unsafe. */
static size_t count_warnings(const struct cleat_doctor *doctor) {
  size_t warnings = 0;
  for (size_t i = 0; i < cleat_doctor_count(doctor); i++) {
    const struct cleat_check *check = cleat_doctor_check(doctor, i);
    warnings += is_wrong(check) && !check->blocks ? 1 : 0;
  }
  return warnings;
}

static bool print_table(const struct cleat_doctor *doctor) {
  static const char *const headings[] = {"CHECK", "RESULT", "FOUND"};
  struct cleat__cli_table table;
  cleat__cli_table_init(&table, "lll");
  cleat__cli_table_add_row(&table, headings);
  for (size_t i = 0; i < cleat_doctor_count(doctor); i++) {
    const struct cleat_check *check = cleat_doctor_check(doctor, i);
    cleat__cli_table_add(&table, "%s", check->name);
    cleat__cli_table_add(&table, "%s", cleat_check_result_name(check->result));
    cleat__cli_table_add(&table, "%s", check->seen);
  }
  bool printed = cleat__cli_table_print(&table, 0, cleat__cli_terminal_columns(STDOUT_FILENO));
  cleat__cli_table_clear(&table);
  return printed;
}

static void put_line(const char *label, const char *text) {
  fputs(label, stdout);
  cleat__cli_put_text(stdout, text);
  fputc('\n', stdout);
}

/* Prints problems in full, because the table may be cut on a terminal. */
static void print_meanings(const struct cleat_doctor *doctor) {
  for (size_t i = 0; i < cleat_doctor_count(doctor); i++) {
    const struct cleat_check *check = cleat_doctor_check(doctor, i);
    if (!is_wrong(check))
      continue;
    printf("\n%s %s: ", check->name, cleat_check_result_name(check->result));
    put_line("", check->seen);
    put_line("  so: ", check->meaning);
    if (check->hint[0])
      put_line("  hint: ", check->hint);
  }
}

static void print_end(const struct cleat_doctor *doctor) {
  char warnings[CLEAT__CLI_FORMAT_MAX];
  size_t count = count_warnings(doctor);
  cleat__cli_format_count(count, "warning", warnings);
  if (!cleat_doctor_safe(doctor))
    printf("\nDo not save here.\n");
  else if (count)
    printf("\nSaves are safe here, with %s.\n", warnings);
  else
    printf("\nSaves are safe here.\n");
}

static bool print_json(const struct cleat__cli *cli, const struct cleat_doctor *doctor) {
  struct cleat__cli_json json;
  cleat__cli_json_init(&json);
  cleat__cli_json_text(&json, json.root, "url", cli->options.arguments[0]);
  cleat__cli_json_bool(&json, json.root, "safe", cleat_doctor_safe(doctor) != 0);
  cleat__cli_json_uint(&json, json.root, "warnings", count_warnings(doctor));
  cJSON *checks = cleat__cli_json_array(&json, json.root, "checks");
  for (size_t i = 0; i < cleat_doctor_count(doctor); i++) {
    const struct cleat_check *check = cleat_doctor_check(doctor, i);
    cJSON *object = cleat__cli_json_object(&json, checks, NULL);
    cleat__cli_json_text(&json, object, "name", check->name);
    cleat__cli_json_text(&json, object, "result", cleat_check_result_name(check->result));
    cleat__cli_json_bool(&json, object, "blocks", check->blocks != 0);
    cleat__cli_json_text(&json, object, "seen", check->seen);
    cleat__cli_json_text(&json, object, "meaning", check->meaning);
    cleat__cli_json_text(&json, object, "hint", check->hint);
  }
  return cleat__cli_json_print(&json);
}

static int report(const struct cleat__cli *cli, const struct cleat_doctor *doctor) {
  bool printed = cli->options.json ? print_json(cli, doctor) : print_table(doctor);
  if (!printed)
    return cleat__cli_fail_memory(cli);
  if (!cli->options.json) {
    print_meanings(doctor);
    print_end(doctor);
  }
  return cleat_doctor_safe(doctor) ? CLEAT__CLI_DONE : CLEAT__CLI_FAILED;
}

static int run(const struct cleat__cli *cli, struct cleat_client *client) {
  struct cleat__cli_signals signals;
  struct cleat__cli_job job = {.save = NULL};
  struct cleat_progress last;
  struct cleat_error err;
  cleat__error_clear(&err);
  cleat__cli_signals_hold(&signals);
  cleat_status status = cleat_doctor_async(client, &job.doctor, &err);
  if (status == CLEAT_OK)
    status = cleat__cli_job_wait(cli, &job, "", &signals, &last, &err);
  int exit_status = status == CLEAT_OK ? report(cli, job.doctor) : cleat__cli_job_fail(cli, &signals, &err);
  cleat_doctor_free(job.doctor);
  cleat__cli_signals_release(&signals);
  return exit_status;
}

const struct cleat__cli_command cleat__cli_doctor = {
    .name = "doctor",
    .summary = "test what a store can and cannot do",
    .synopsis = "doctor [OPTION]... URL",
    .help = help,
    .arguments = "the store's URL",
    .min_arguments = 1,
    .max_arguments = 1,
    .small = true,
    .run = run,
};
