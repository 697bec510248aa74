/* bench.c: `cleat bench`: measures how fast a store is from this machine, and the best number of requests in flight.
 *
 * Main thread; the client's threads measure. */
#include "api/cli/cli.h"

#include <langinfo.h>
#include <locale.h>
#include <string.h>
#include <unistd.h>

enum { CHART_COLUMNS = 24, EIGHTHS = 8 };

/* 32 parts of the usual size. */
#define STAGING_BYTES (512ull << 20)
/* The staging memory of commands that save and load, if it is not configured. */
#define USUAL_STAGING_BYTES (256ull << 20)

static const char help[] = "Measures how fast a store is from this machine: first the time of small\n"
                           "requests, then the rate of uploads and downloads in parts. It tries 1, 2, 4 and\n"
                           "more parts in flight, until more bring no gain. It prints the best number and\n"
                           "compares it with the default. It stores everything in a folder of its own, and\n"
                           "removes that at the end.\n"
                           "\n"
                           "      --size SIZE      the most to upload, and the most to download (8G)\n"
                           "\n"
                           "Here --jobs is the most parts in flight to try (32). --staging is 512M unless it\n"
                           "is given: each part in flight needs staging memory of its size.\n";

/* ---- people ---- */

/* True if the terminal shows block characters of eighths. Otherwise '#' stands for a whole block. */
static bool has_blocks(void) {
  locale_t locale = newlocale(LC_CTYPE_MASK, "", (locale_t)0);
  bool blocks = locale != (locale_t)0 && isatty(STDOUT_FILENO) && strcmp(nl_langinfo_l(CODESET, locale), "UTF-8") == 0;
  if (locale != (locale_t)0)
    freelocale(locale);
  return blocks;
}

/* Draws a bar of `share` (0 to 1) of the chart's width. `text` has three bytes per column and a NUL. */
static void format_bar(double share, bool blocks, char text[3 * CHART_COLUMNS + 1]) {
  unsigned eighths = (unsigned)(share * CHART_COLUMNS * EIGHTHS + 0.5);
  size_t length = 0;
  for (; eighths >= EIGHTHS; eighths -= EIGHTHS) {
    if (blocks)
      memcpy(text + length, "\xe2\x96\x88", 3); /* U+2588, full block */
    else
      text[length] = '#';
    length += blocks ? 3 : 1;
  }
  if (eighths > 0 && blocks) {
    memcpy(text + length, "\xe2\x96\x88", 3);
    text[length + 2] = (char)(0x90 - eighths); /* U+258F, an eighth, to U+2589, seven */
    length += 3;
  }
  text[length] = '\0';
}

static void format_ms(double seconds, char text[CLEAT__CLI_FORMAT_MAX]) {
  double ms = seconds * 1000;
  int digits = ms < 0.9995 ? 3 : ms < 9.995 ? 2 : ms < 99.95 ? 1 : 0;
  snprintf(text, CLEAT__CLI_FORMAT_MAX, "%.*f ms", digits, ms);
}

static double highest_rate(const struct cleat_bench_side *side) {
  double rate = 0;
  for (size_t i = 0; i < side->count; i++)
    rate = side->rungs[i].bytes_per_s > rate ? side->rungs[i].bytes_per_s : rate;
  return rate;
}

static void add_latency(struct cleat__cli_table *table, const char *name, const struct cleat_bench_latency *latency) {
  char median[CLEAT__CLI_FORMAT_MAX], p95[CLEAT__CLI_FORMAT_MAX];
  format_ms(latency->median_s, median);
  format_ms(latency->p95_s, p95);
  cleat__cli_table_add(table, "%s", name);
  cleat__cli_table_add(table, "%s", median);
  cleat__cli_table_add(table, "%s", p95);
  cleat__cli_table_add(table, "%u", latency->requests);
}

static bool print_latencies(const struct cleat_bench_report *report) {
  static const char *const headings[] = {"4 KIB", "MEDIAN", "P95", "REQUESTS"};
  struct cleat__cli_table table;
  cleat__cli_table_init(&table, "lrrr");
  cleat__cli_table_add_row(&table, headings);
  add_latency(&table, "put", &report->put);
  add_latency(&table, "get", &report->get);
  add_latency(&table, "head", &report->head);
  bool printed = cleat__cli_table_print(&table, 0, 0);
  cleat__cli_table_clear(&table);
  return printed;
}

static bool print_side(const char *heading, const struct cleat_bench_side *side) {
  const char *const headings[] = {heading, "RATE", "PART", "CPU/GB", ""};
  char rate[CLEAT__CLI_FORMAT_MAX], part[CLEAT__CLI_FORMAT_MAX], bar[3 * CHART_COLUMNS + 1];
  double highest = highest_rate(side);
  bool blocks = has_blocks();
  struct cleat__cli_table table;
  cleat__cli_table_init(&table, "rrrrl");
  cleat__cli_table_add_row(&table, headings);
  for (size_t i = 0; i < side->count; i++) {
    const struct cleat_bench_rung *rung = &side->rungs[i];
    cleat__cli_format_size(rung->bytes_per_s, rate);
    format_ms(rung->part_median_s, part);
    format_bar(highest > 0 ? rung->bytes_per_s / highest : 0, blocks, bar);
    cleat__cli_table_add(&table, "%u at once", rung->concurrency);
    cleat__cli_table_add(&table, "%s/s", rate);
    cleat__cli_table_add(&table, "%s", part);
    cleat__cli_table_add(&table, "%.2f s", rung->cpu_s_per_gb);
    cleat__cli_table_add(&table, "%s%s", bar, i == side->best ? " best" : "");
  }
  putchar('\n');
  bool printed = cleat__cli_table_print(&table, 0, 0);
  cleat__cli_table_clear(&table);
  return printed;
}

static uint64_t side_bytes(const struct cleat_bench_side *side) {
  uint64_t bytes = 0;
  for (size_t i = 0; i < side->count; i++)
    bytes += side->rungs[i].bytes;
  return bytes;
}

/* If more parts in flight might be faster, says why they were not tried. */
static void print_stop(const char *name, const struct cleat_bench_side *side) {
  static const struct {
    const char *stopped;
    const char *text;
  } rows[] = {
      {"jobs", "--jobs limits it"},
      {"staging", "--staging has no room for more parts"},
      {"size", "--size limits it"},
      {"slow", "it would take too long"},
  };
  /* An earlier number of parts was just as fast, so more would hardly help. */
  if (side->best + 1 < side->count)
    return;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    if (strcmp(side->stopped, rows[i].stopped) == 0)
      printf("More %ss at once were not tried: %s.\n", name, rows[i].text);
  }
}

/* Prints "for uploads: 16 at once", and how far the default is from that. */
static void print_conclusion(const char *name, const struct cleat_bench_side *side, bool finds) {
  const struct cleat_bench_rung *best = &side->rungs[side->best];
  char rate[CLEAT__CLI_FORMAT_MAX];
  cleat__cli_format_size(best->bytes_per_s, rate);
  printf("Best %s: %u at once, %s/s; ", name, best->concurrency, rate);
  if (finds && best->concurrency <= side->usual) {
    printf("the default tries up to %u and finds the best number.\n", side->usual);
    return;
  }
  printf("the default, %s%u, ", finds ? "up to " : "", side->usual);
  if (side->usual_share <= 0)
    printf("was not measured.\n");
  else if (side->usual_share >= 0.95)
    printf("is as fast.\n");
  else
    printf("is %.0f %% slower.\n", 100 * (1 - side->usual_share));
}

/* Says how much staging memory the best number needs: files are read and written through it. */
static void print_staging(const struct cleat_bench_report *report) {
  const struct cleat_bench_side *up = &report->upload, *down = &report->download;
  unsigned most = up->rungs[up->best].concurrency;
  if (down->rungs[down->best].concurrency > most)
    most = down->rungs[down->best].concurrency;
  uint64_t needed = most * report->part_bytes;
  if (needed > USUAL_STAGING_BYTES)
    printf("For %u at once give --staging %lluM.\n", most, (unsigned long long)((needed + (1u << 20) - 1) >> 20));
}

static void print_end(const struct cleat_bench_report *report) {
  char up[CLEAT__CLI_FORMAT_MAX], down[CLEAT__CLI_FORMAT_MAX];
  cleat__cli_format_size((double)side_bytes(&report->upload), up);
  cleat__cli_format_size((double)side_bytes(&report->download), down);
  putchar('\n');
  print_conclusion("for uploads", &report->upload, !report->cached);
  print_conclusion("for downloads", &report->download, !report->cached);
  print_staging(report);
  print_stop("upload", &report->upload);
  print_stop("download", &report->download);
  if (report->cached)
    printf("The downloads came from this machine's page cache, not from the disk.\n");
  printf("Uploaded %s and downloaded %s; nothing is left.\n", up, down);
}

static bool print_text(const struct cleat_bench_report *report) {
  char part[CLEAT__CLI_FORMAT_MAX];
  cleat__cli_format_size((double)report->part_bytes, part);
  cleat__cli_put_text(stdout, report->place);
  printf(", parts of %s\n\n", part);
  if (!print_latencies(report) || !print_side("UPLOADS", &report->upload) ||
      !print_side("DOWNLOADS", &report->download))
    return false;
  print_end(report);
  return true;
}

/* ---- scripts ---- */

static void add_latency_json(struct cleat__cli_json *json, cJSON *parent, const char *name,
                             const struct cleat_bench_latency *latency) {
  cJSON *object = cleat__cli_json_object(json, parent, name);
  cleat__cli_json_uint(json, object, "requests", latency->requests);
  cleat__cli_json_seconds(json, object, "median_ms", 1000 * latency->median_s);
  cleat__cli_json_seconds(json, object, "p95_ms", 1000 * latency->p95_s);
}

static void add_side_json(struct cleat__cli_json *json, const char *name, const struct cleat_bench_side *side) {
  cJSON *object = cleat__cli_json_object(json, json->root, name);
  cleat__cli_json_uint(json, object, "bytes", side_bytes(side));
  cleat__cli_json_uint(json, object, "best_jobs", side->rungs[side->best].concurrency);
  cleat__cli_json_uint(json, object, "default_jobs", side->usual);
  cleat__cli_json_seconds(json, object, "default_share", side->usual_share);
  cleat__cli_json_text(json, object, "stopped", side->stopped);
  cJSON *rungs = cleat__cli_json_array(json, object, "rungs");
  for (size_t i = 0; i < side->count; i++) {
    const struct cleat_bench_rung *rung = &side->rungs[i];
    cJSON *row = cleat__cli_json_object(json, rungs, NULL);
    cleat__cli_json_uint(json, row, "jobs", rung->concurrency);
    cleat__cli_json_uint(json, row, "parts", rung->parts);
    cleat__cli_json_uint(json, row, "bytes", rung->bytes);
    cleat__cli_json_uint(json, row, "bytes_per_second", (uint64_t)rung->bytes_per_s);
    cleat__cli_json_seconds(json, row, "part_median_ms", 1000 * rung->part_median_s);
    cleat__cli_json_seconds(json, row, "cpu_seconds_per_gb", rung->cpu_s_per_gb);
  }
}

static bool print_json(const struct cleat__cli *cli, const struct cleat_bench_report *report) {
  struct cleat__cli_json json;
  cleat__cli_json_init(&json);
  cleat__cli_json_text(&json, json.root, "url", cli->options.arguments[0]);
  cleat__cli_json_text(&json, json.root, "place", report->place);
  cleat__cli_json_uint(&json, json.root, "part_bytes", report->part_bytes);
  cleat__cli_json_bool(&json, json.root, "cached", report->cached != 0);
  cJSON *latency = cleat__cli_json_object(&json, json.root, "latency");
  cleat__cli_json_uint(&json, latency, "bytes", report->small_bytes);
  add_latency_json(&json, latency, "put", &report->put);
  add_latency_json(&json, latency, "get", &report->get);
  add_latency_json(&json, latency, "head", &report->head);
  add_side_json(&json, "upload", &report->upload);
  add_side_json(&json, "download", &report->download);
  return cleat__cli_json_print(&json);
}

/* ---- running ---- */

/* An error of the store always means 1. It must not look like "no checkpoint" (3) or a usage error. */
static int fail(const struct cleat__cli *cli, const struct cleat__cli_signals *signals, const struct cleat_error *err) {
  int exit_status = cleat__cli_job_fail(cli, signals, err);
  return exit_status < CLEAT__CLI_SIGNAL && err->status != CLEAT_INTEGRITY ? CLEAT__CLI_FAILED : exit_status;
}

static int run(const struct cleat__cli *cli, struct cleat_client *client) {
  struct cleat__cli_signals signals;
  struct cleat__cli_job job = {.save = NULL};
  struct cleat_progress last;
  struct cleat_error err;
  struct cleat_bench_options options = CLEAT_BENCH_OPTIONS_INIT;
  options.max_concurrency = cli->options.jobs;
  options.max_bytes = cli->options.size_bytes;
  cleat__error_clear(&err);
  cleat__cli_signals_hold(&signals);
  cleat_status status = cleat_bench_async(client, &options, &job.bench, &err);
  int exit_status = status == CLEAT_OK ? CLEAT__CLI_DONE : cleat__cli_fail(cli, &err);
  if (status == CLEAT_OK) {
    status = cleat__cli_job_wait(cli, &job, "measuring", &signals, &last, &err);
    exit_status = status == CLEAT_OK ? CLEAT__CLI_DONE : fail(cli, &signals, &err);
  }
  if (status == CLEAT_OK) {
    const struct cleat_bench_report *report = cleat_bench_report(job.bench);
    bool printed = cli->options.json ? print_json(cli, report) : print_text(report);
    exit_status = printed ? CLEAT__CLI_DONE : cleat__cli_fail_memory(cli);
  }
  cleat_bench_free(job.bench);
  cleat__cli_signals_release(&signals);
  return exit_status;
}

const struct cleat__cli_command cleat__cli_bench = {
    .name = "bench",
    .summary = "measure how fast a store is from here",
    .synopsis = "bench [OPTION]... URL",
    .help = help,
    .arguments = "the store's URL",
    .takes = CLEAT__CLI_TAKES_SIZE,
    .min_arguments = 1,
    .max_arguments = 1,
    .small = true,
    .staging_bytes = STAGING_BYTES,
    .run = run,
};
