/* main.c: the `cleat` program: finds the command, opens the store, runs it.
 *
 * One thread; the library starts its own. Everything lives on main's stack. */
#include "api/cli/cli.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

static const struct cleat__cli_command *const commands[] = {
    &cleat__cli_save,  &cleat__cli_load,  &cleat__cli_ls, &cleat__cli_show, &cleat__cli_verify, &cleat__cli_doctor,
    &cleat__cli_bench, &cleat__cli_prune, &cleat__cli_gc, &cleat__cli_pin,  &cleat__cli_unpin,  &cleat__cli_run,
};

enum { COMMANDS = sizeof commands / sizeof commands[0] };

static const struct cleat__cli_command *find_command(const char *name) {
  for (size_t i = 0; i < COMMANDS; i++) {
    if (strcmp(commands[i]->name, name) == 0)
      return commands[i];
  }
  return NULL;
}

static int print_help(void) {
  printf("usage: cleat COMMAND [OPTION]... ARGUMENT...\n"
         "\n"
         "Saves training checkpoints to object storage, whole or not at all.\n"
         "\n");
  for (size_t i = 0; i < COMMANDS; i++)
    printf("  %-8s %s\n", commands[i]->name, commands[i]->summary);
  printf("\n"
         "A store is s3://bucket/prefix or file:///folder, such as\n"
         "\n"
         "  cleat save out/ s3://my-bucket/run-17 --step 1200\n"
         "  cleat ls s3://my-bucket/run-17\n"
         "  cleat load s3://my-bucket/run-17 restored/\n"
         "\n"
         "'cleat help COMMAND' tells more, 'man cleat' tells all.\n");
  return CLEAT__CLI_DONE;
}

static int print_command_help(const struct cleat__cli_command *command) {
  printf("usage: cleat %s\n\n%s\n%s", command->synopsis, command->help, cleat__cli_options_help());
  return CLEAT__CLI_DONE;
}

static int print_version(void) {
  int cuda = cleat_cuda_version();
  if (cuda > 0)
    printf("cleat %s, with CUDA %d.%d\n", cleat_version(), cuda / 1000, cuda % 1000 / 10);
  else
    printf("cleat %s, without CUDA\n", cleat_version());
  return CLEAT__CLI_DONE;
}

static int fail_unknown(const struct cleat__cli *cli, const char *word) {
  const char *names[COMMANDS + 4] = {NULL};
  for (size_t i = 0; i < COMMANDS; i++)
    names[i] = commands[i]->name;
  names[COMMANDS] = "help";
  names[COMMANDS + 1] = "version";
  names[COMMANDS + 2] = "completion";
  struct cleat_error err;
  cleat__error_set(&err, CLEAT_INVALID, "'%s' is not a command", word);
  const char *nearest = cleat__cli_nearest(word, names);
  if (nearest)
    cleat__error_hint(&err, "did you mean 'cleat %s'?", nearest);
  else
    cleat__error_hint(&err, "'cleat help' lists the commands");
  return cleat__cli_fail(cli, &err);
}

static int run_help(const struct cleat__cli *cli, int argc, char **argv) {
  if (argc < 2)
    return print_help();
  const struct cleat__cli_command *command = find_command(argv[1]);
  return command ? print_command_help(command) : fail_unknown(cli, argv[1]);
}

static int run_completion(const struct cleat__cli *cli, int argc, char **argv) {
  struct cleat_error err;
  if (argc == 2 && cleat__cli_print_completion(argv[1], commands, COMMANDS))
    return CLEAT__CLI_DONE;
  cleat__error_set(&err, CLEAT_INVALID, "'cleat completion' needs the name of a shell");
  cleat__error_hint(&err, "bash, fish and zsh are known, such as: cleat completion bash");
  return cleat__cli_fail(cli, &err);
}

static const char *url_of(const struct cleat__cli *cli) {
  const struct cleat__cli_options *given = &cli->options;
  return given->arguments[cli->command->url_last ? given->argument_count - 1 : 0];
}

static int run_command(struct cleat__cli *cli, int argc, char **argv) {
  struct cleat_error err;
  cleat__error_clear(&err);
  if (cleat__cli_options_parse(cli->command, argc, argv, &cli->options, &err) != CLEAT_OK)
    return cleat__cli_fail(cli, &err);
  if (cli->options.help)
    return print_command_help(cli->command);
  cli->progress = !cli->options.quiet && cleat__cli_progress_possible();
  if (cli->command->wraps)
    return cli->command->run(cli, NULL);
  struct cleat_client *client = NULL;
  if (cleat__cli_open_client(cli, url_of(cli), cleat__cli_log, cli, &client, &err) != CLEAT_OK) {
    int exit_status = cleat__cli_fail(cli, &err);
    /* Opening reads only the URL and the options, so LIMIT is a usage error. */
    return err.status == CLEAT_LIMIT ? CLEAT__CLI_USAGE : exit_status;
  }
  int exit_status = cli->command->run(cli, client);
  cleat_client_close(client);
  return exit_status;
}

static int dispatch(struct cleat__cli *cli, int argc, char **argv) {
  const char *word = argc > 1 ? argv[1] : "help";
  if (strcmp(word, "help") == 0 || strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
    return run_help(cli, argc - 1, argv + 1);
  if (strcmp(word, "version") == 0 || strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0)
    return print_version();
  if (strcmp(word, "completion") == 0)
    return run_completion(cli, argc - 1, argv + 1);
  cli->command = find_command(word);
  return cli->command ? run_command(cli, argc - 1, argv + 1) : fail_unknown(cli, word);
}

/* A list that a full disk has cut must not look like a success. */
static int close_output(const struct cleat__cli *cli, int exit_status) {
  if (fflush(stdout) == 0 && !ferror(stdout))
    return exit_status;
  struct cleat_error err;
  cleat__error_errno(&err, errno ? errno : EIO, "cannot write to standard output");
  struct cleat__cli silent = *cli;
  silent.options.json = false;
  cleat__cli_fail(&silent, &err);
  return exit_status ? exit_status : CLEAT__CLI_FAILED;
}

int main(int argc, char **argv) {
  struct cleat__cli cli = {0};
  /* Turns a file beyond `ulimit -f` into a write() error with a message, and what was written of it is removed. The
   * library does not change its program's signals. */
  signal(SIGXFSZ, SIG_IGN);
  int exit_status = dispatch(&cli, argc, argv);
  return close_output(&cli, exit_status);
}
