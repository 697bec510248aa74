/* earlier.c: see earlier.h. All facts about processes come from /proc (proc(5)). */
#include "api/run/earlier.h"

#include "api/program/json.h"
#include "api/run/state.h"
#include "base/checksum.h"
#include "base/mem.h"

#include <ctype.h>
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME "command.json"

enum { FORMAT = 1, WORDS_MAX = 120 };

/* The process that command.json names. */
struct earlier {
  int64_t pid, started, supervisor, supervisor_started, pids;
  char boot[CLEAT__RUN_BOOT_MAX];
  char mark[CLEAT__RUN_MARK_MAX];
  char words[WORDS_MAX]; /* the command line, for messages */
};

/* ---- What /proc says ------------------------------------------------------------------------------------- */

static int64_t namespace_of_pids(void) {
  struct stat info;
  return stat("/proc/self/ns/pid", &info) == 0 ? (int64_t)info.st_ino : 0;
}

/* The start time of a process. -1: no such process, or a zombie. In /proc/PID/stat field 3 is the state and field 22
 * the start time. */
static int64_t started_at(int64_t pid) {
  char path[64], text[1024] = "", state = 'Z';
  long long started = -1;
  snprintf(path, sizeof path, "/proc/%" PRId64 "/stat", pid);
  FILE *file = fopen(path, "re");
  if (!file)
    return -1;
  size_t got = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  text[got] = '\0';
  const char *rest = strrchr(text, ')'); /* the name may contain spaces and brackets */
  if (!rest ||
      sscanf(rest + 1, // NOLINT(cert-err34-c): the kernel's
             " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %lld", &state, &started) != 2)
    return -1;
  return state == 'Z' || state == 'X' ? -1 : started;
}

static void make_printable(char *text) {
  for (; *text; text++)
    if (iscntrl((unsigned char)*text))
      *text = '?';
}

static void read_words(int64_t pid, char words[WORDS_MAX]) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%" PRId64 "/cmdline", pid);
  FILE *file = fopen(path, "re");
  size_t got = file ? fread(words, 1, WORDS_MAX - 1, file) : 0;
  if (file)
    fclose(file);
  for (size_t i = 0; i + 1 < got; i++)
    if (!words[i])
      words[i] = ' ';
  words[got] = '\0';
  make_printable(words);
}

/* True if the process was started with that variable. The environment of other users' processes cannot be read. */
static bool has_variable(const char *pid, const char *variable) {
  char path[300];
  size_t at = 0;
  bool same = true, found = false;
  int c;
  snprintf(path, sizeof path, "/proc/%s/environ", pid);
  FILE *file = fopen(path, "re");
  if (!file)
    return false;
  while (!found && (c = getc(file)) != EOF) {
    found = c == '\0' && same && variable[at] == '\0';
    same = c == '\0' || (same && variable[at] == c);
    at = c != '\0' && same ? at + 1 : 0;
  }
  fclose(file);
  return found;
}

/* Finds one leftover process of the command. 0: none. *count: how many there are. */
static int64_t find_left(const char *mark, unsigned *count) {
  char variable[sizeof CLEAT__RUN_MARK + CLEAT__RUN_MARK_MAX];
  int64_t first = 0;
  DIR *proc = opendir("/proc");
  *count = 0;
  snprintf(variable, sizeof variable, CLEAT__RUN_MARK "=%s", mark);
  for (const struct dirent *entry; proc && (entry = readdir(proc)) != NULL;) {
    int64_t pid;
    if (!cleat__run_step_read(entry->d_name, &pid) || pid == getpid() || !has_variable(entry->d_name, variable))
      continue;
    ++*count;
    if (!first)
      first = pid;
  }
  if (proc)
    closedir(proc);
  return first;
}

/* ---- The file -------------------------------------------------------------------------------------------- */

static bool read_number(const cJSON *root, const char *name, int64_t *value) {
  const char *text = cleat__cli_json_member_text(root, name);
  return text && cleat__run_step_read(text, value);
}

static bool read_text(const cJSON *root, const char *name, char *text, size_t size) {
  const char *found = cleat__cli_json_member_text(root, name);
  if (!found || strlen(found) >= size)
    return false;
  memcpy(text, found, strlen(found) + 1);
  make_printable(text);
  return true;
}

static bool read_document(const cJSON *root, struct earlier *earlier) {
  const cJSON *format = cJSON_GetObjectItemCaseSensitive(root, "format");
  return cJSON_IsNumber(format) && format->valueint == FORMAT && read_number(root, "pid", &earlier->pid) &&
         read_number(root, "started", &earlier->started) && read_number(root, "supervisor", &earlier->supervisor) &&
         read_number(root, "supervisor_started", &earlier->supervisor_started) &&
         read_number(root, "pids", &earlier->pids) && earlier->pid > 0 &&
         read_text(root, "boot", earlier->boot, sizeof earlier->boot) &&
         read_text(root, "id", earlier->mark, sizeof earlier->mark) &&
         read_text(root, "command", earlier->words, sizeof earlier->words);
}

/* False: the file is missing, or what it says is not valid in this boot and pid namespace. */
static bool read_earlier(const char *dir, struct earlier *earlier) {
  char boot[CLEAT__RUN_BOOT_MAX];
  char *folder = cleat__strprintf("%s/" CLEAT__RUN_STATE_FOLDER, dir);
  char *text = folder ? cleat__run_state_text(folder, NAME) : NULL;
  cJSON *root = text ? cJSON_Parse(text) : NULL;
  bool good = root && read_document(root, earlier);
  cJSON_Delete(root);
  cleat__free(text);
  cleat__free(folder);
  cleat__run_state_boot(boot);
  return good && boot[0] && strcmp(boot, earlier->boot) == 0 && earlier->pids == namespace_of_pids();
}

static void put_number(struct cleat__cli_json *json, const char *name, int64_t value) {
  char text[24];
  snprintf(text, sizeof text, "%" PRId64, value);
  cleat__cli_json_text(json, json->root, name, text);
}

static void join(char *const *words, char text[WORDS_MAX]) {
  size_t length = 0;
  text[0] = '\0';
  for (; *words && length < WORDS_MAX - 1; words++) {
    snprintf(text + length, WORDS_MAX - length, "%s%s", length ? " " : "", *words);
    length += strlen(text + length);
  }
  make_printable(text);
}

static char *make_document(pid_t pid, const char *mark, char *const *command) {
  struct cleat__cli_json json;
  char boot[CLEAT__RUN_BOOT_MAX], words[WORDS_MAX];
  cleat__run_state_boot(boot);
  join(command, words);
  cleat__cli_json_init(&json);
  cleat__cli_json_int(&json, json.root, "format", FORMAT);
  put_number(&json, "pid", pid);
  put_number(&json, "started", started_at(pid));
  put_number(&json, "supervisor", getpid());
  put_number(&json, "supervisor_started", started_at(getpid()));
  put_number(&json, "pids", namespace_of_pids());
  cleat__cli_json_text(&json, json.root, "boot", boot);
  cleat__cli_json_text(&json, json.root, "id", mark);
  cleat__cli_json_text(&json, json.root, "command", words);
  char *text = json.failed ? NULL : cJSON_Print(json.root);
  cJSON_Delete(json.root);
  return text;
}

/* ---- Interface --------------------------------------------------------------------------------------------- */

cleat_status cleat__run_earlier_mark(char mark[CLEAT__RUN_MARK_MAX], struct cleat_error *err) {
  if (cleat__random_hex((CLEAT__RUN_MARK_MAX - 1) / 2, mark) == CLEAT_OK)
    return CLEAT_OK;
  return cleat__error_set(err, CLEAT_INTERNAL, "the system's random generator failed");
}

cleat_status cleat__run_earlier_note(const struct cleat__run_state *state, pid_t pid, const char *mark,
                                     char *const *command, struct cleat_error *err) {
  char *text = make_document(pid, mark, command);
  cleat_status status = cleat__run_state_write(state, NAME, text, err);
  cJSON_free(text);
  return status;
}

void cleat__run_earlier_forget(const struct cleat__run_state *state) {
  char *path = state->folder ? cleat__strprintf("%s/" NAME, state->folder) : NULL;
  if (path)
    (void)unlink(path);
  cleat__free(path);
}

bool cleat__run_earlier_is_ending(const char *dir) {
  struct earlier earlier;
  return read_earlier(dir, &earlier) && started_at(earlier.supervisor) != earlier.supervisor_started;
}

cleat_status cleat__run_earlier_check(const char *dir, struct cleat_error *err) {
  struct earlier earlier;
  unsigned count = 0;
  if (!read_earlier(dir, &earlier))
    return CLEAT_OK;
  if (started_at(earlier.pid) == earlier.started && earlier.started >= 0) {
    cleat__error_set(err, CLEAT_BUSY,
                     "the command of an earlier 'cleat run' still works on '%s': process %" PRId64 ", %s", dir,
                     earlier.pid, earlier.words);
    cleat__error_hint(err,
                      "that 'cleat run' was killed, and its command was not: end the process first (kill %" PRId64 ")",
                      earlier.pid);
    return err->status;
  }
  int64_t left = find_left(earlier.mark, &count);
  if (!left)
    return CLEAT_OK;
  read_words(left, earlier.words);
  cleat__error_set(err, CLEAT_BUSY,
                   "an earlier 'cleat run' on '%s' left %u running processes of its command, such as %" PRId64 ", %s",
                   dir, count, left, earlier.words);
  cleat__error_hint(err, "that 'cleat run' was killed: end them first; or, if they do not write there, "
                         "remove " CLEAT__RUN_STATE_FOLDER "/" NAME " there");
  return err->status;
}
