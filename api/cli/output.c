/* output.c: prints results and errors.
 *
 * Errors are two lines, as git prints them: "cleat: <message>" and "hint: <what to do>". Everything
 * runs on the main thread, except cleat__cli_log. The client's threads call it. It writes each line
 * in one piece and shares no data that changes. */
#include "api/cli/cli.h"

#include "base/utf8.h"

#include <string.h>

int cleat__cli_exit_status(const struct cleat__cli *cli, const struct cleat_error *err) {
  bool saving = cli->command != NULL && cli->command->saves;
  switch (err->status) {
  case CLEAT_OK:
    return CLEAT__CLI_DONE;
  case CLEAT_INVALID:
    return CLEAT__CLI_USAGE;
  case CLEAT_NOT_FOUND:
    /* Scripts start from scratch on status 3. So only "there is no checkpoint" may give it: not a
     * mistyped bucket, and not a save, which does not look for a checkpoint. */
    return saving || strcmp(err->s3_code, "NoSuchBucket") == 0 ? CLEAT__CLI_FAILED : CLEAT__CLI_NOTHING;
  case CLEAT_INTEGRITY:
  case CLEAT_FORMAT:
  case CLEAT_NEWER:
    return CLEAT__CLI_DAMAGED;
  case CLEAT_LOST:
    return CLEAT__CLI_LOST;
  case CLEAT_LIMIT: /* a limit of what is stored, or of what is to be stored */
    return saving ? CLEAT__CLI_FAILED : CLEAT__CLI_DAMAGED;
  /* a step may exist because of another writer; a destination is the user's own argument */
  case CLEAT_EXISTS:
    return saving ? CLEAT__CLI_LOST : CLEAT__CLI_FAILED;
  default:
    return CLEAT__CLI_FAILED;
  }
}

static void put_line(const char *label, const char *text) {
  fputs(label, stderr);
  cleat__cli_put_text(stderr, text);
  fputc('\n', stderr);
}

int cleat__cli_fail(const struct cleat__cli *cli, const struct cleat_error *err) {
  fflush(stdout);
  put_line("cleat: ", err->message[0] ? err->message : cleat_status_text(err->status));
  if (err->hint[0])
    put_line("hint: ", err->hint);
  if (cli->options.json) {
    struct cleat__cli_json json;
    cleat__cli_json_init(&json);
    cleat__cli_json_error(&json, cleat__cli_json_object(&json, json.root, "error"), err);
    cleat__cli_json_print(&json);
  }
  return cleat__cli_exit_status(cli, err);
}

void cleat__cli_warn(const char *message) {
  put_line("cleat: warning: ", message);
}

void cleat__cli_log(void *user, enum cleat_log_level level, const char *line) {
  const struct cleat__cli *cli = user;
  const struct cleat__cli_options *options = &cli->options;
  const char *label = level == CLEAT_LOG_WARNING ? "warning: " : "";
  bool shown = level == CLEAT_LOG_WARNING ? !options->quiet : options->verbose > (level == CLEAT_LOG_DEBUG);
  /* A progress line may be on the screen where this line goes. It is cleared, and drawn again
   * below. */
  if (shown)
    fprintf(stderr, "%scleat: %s%s\n", cli->progress ? "\r\033[K" : "", label, line);
}

int cleat__cli_fail_memory(const struct cleat__cli *cli) {
  struct cleat_error err;
  cleat__error_no_memory(&err, "the output");
  return cleat__cli_fail(cli, &err);
}

static int report_json(const struct cleat__cli *cli, const struct cleat__cli_result *result) {
  struct cleat__cli_json json;
  cleat__cli_json_init(&json);
  cleat__cli_json_int(&json, json.root, "step", result->step);
  cleat__cli_json_text(&json, json.root, "outcome", result->outcome);
  if (result->attempt)
    cleat__cli_json_text(&json, json.root, "attempt", result->attempt);
  cleat__cli_json_text(&json, json.root, result->place_key, result->place);
  cleat__cli_json_uint(&json, json.root, "files", result->files);
  cleat__cli_json_uint(&json, json.root, "bytes", result->bytes);
  if (result->resume)
    cleat__cli_json_uint(&json, json.root, "resumed_bytes", result->resumed);
  cleat__cli_json_seconds(&json, json.root, "seconds", result->seconds);
  return cleat__cli_json_print(&json) ? CLEAT__CLI_DONE : cleat__cli_fail_memory(cli);
}

static void report_text(const struct cleat__cli_result *result) {
  char files[CLEAT__CLI_FORMAT_MAX], size[CLEAT__CLI_FORMAT_MAX];
  char time[CLEAT__CLI_FORMAT_MAX], rate[CLEAT__CLI_FORMAT_MAX];
  printf("step %lld: ", (long long)result->step);
  if (result->note) {
    printf("%s\n", result->note);
    return;
  }
  cleat__cli_format_count(result->files, "file", files);
  cleat__cli_format_size((double)result->bytes, size);
  cleat__cli_format_duration(result->seconds, time);
  printf("%s, %s %s ", files, size, result->text);
  cleat__cli_put_text(stdout, result->place);
  printf(" in %s", time);
  if (result->seconds > 0) {
    cleat__cli_format_size((double)result->bytes / result->seconds, rate);
    printf(" (%s/s)", rate);
  }
  if (result->resume && result->resumed > 0) {
    cleat__cli_format_size((double)result->resumed, rate);
    printf("; resumed: %s of %s were there", rate, size);
  } else if (result->resume) {
    printf("; nothing was there to resume");
  }
  putchar('\n');
}

int cleat__cli_report(const struct cleat__cli *cli, const struct cleat__cli_result *result) {
  if (cli->options.json)
    return report_json(cli, result);
  if (!cli->options.quiet)
    report_text(result);
  return CLEAT__CLI_DONE;
}
