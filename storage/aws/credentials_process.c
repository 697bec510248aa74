/* aws/credentials_process.c: keys that a program prints. See aws/provider.h.
 *
 * The command line is split like in Python's shlex, which the AWS CLI uses. No shell is
 * involved. The program runs in its own process group, inherits no files and has no input. Its
 * stderr is dropped, because it may contain secrets. For the same reason no message shows the
 * command line. Time and output are limited. At either limit the whole group is killed. All of
 * it runs on the thread of the caller. */
#include "storage/aws/provider.h"

#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Time limit of the program. Lower: helpers that ask a slow identity provider fail. Higher: a
 * helper that hangs delays the save. */
#define PROCESS_MS 60000
#define TICK_MS 20 /* time between checks of the clock, the cancel flag and the child */

extern char **environ;

/* ---- The command line ---- */

struct splitter {
  const char *at;
  char *to;
};

/* Takes the text up to the closing quote. False: there is none. */
static bool take_quoted(struct splitter *splitter, char quote) {
  while (*splitter->at != '\0' && *splitter->at != quote) {
    char next = splitter->at[1];
    if (quote == '"' && *splitter->at == '\\' && (next == '"' || next == '\\'))
      splitter->at++;
    *splitter->to++ = *splitter->at++;
  }
  if (*splitter->at == '\0')
    return false;
  splitter->at++;
  return true;
}

static bool take_word(struct splitter *splitter) {
  while (*splitter->at != '\0' && !strchr(" \t\r\n", *splitter->at)) {
    char c = *splitter->at++;
    if (c == '\'' || c == '"') {
      if (!take_quoted(splitter, c))
        return false;
    } else if (c == '\\') {
      if (*splitter->at == '\0')
        return false;
      *splitter->to++ = *splitter->at++;
    } else {
      *splitter->to++ = c;
    }
  }
  *splitter->to++ = '\0';
  return true;
}

cleat_status cleat__s3_split_command(const char *command, char ***words, struct cleat_error *err) {
  size_t length = strlen(command);
  size_t room = length / 2 + 2; /* every word except the last takes two bytes; plus the NULL */
  char **made = cleat__calloc(1, room * sizeof *made + length + 1);
  if (!made)
    return cleat__error_no_memory(err, "the credential_process");
  struct splitter splitter = {.at = command, .to = (char *)(made + room)};
  size_t count = 0;
  bool good = true;
  for (;;) {
    splitter.at += strspn(splitter.at, " \t\r\n");
    if (*splitter.at == '\0' || !good)
      break;
    made[count++] = splitter.to;
    good = take_word(&splitter);
  }
  if (good && count > 0) {
    *words = made;
    return CLEAT_OK;
  }
  cleat__free(made);
  return cleat__error_set(err, CLEAT_INVALID, "credential_process: the command line %s",
                          good ? "is empty" : "has an open quote or ends with a backslash");
}

/* ---- The program ---- */

struct process {
  const struct cleat__s3_search *search;
  int64_t deadline_ms;
  pid_t pid;
  int fd;          /* the read end of its standard output */
  bool ended;      /* waitpid() has returned its status */
  int wait_status; /* also 0 if the status is lost */
  bool closed;     /* its output was read to the end */
  bool too_long;
  size_t size;
  char output[CLEAT__S3_ANSWER_MAX + 1]; /* one extra byte detects too much output */
};

static int set_actions(posix_spawn_file_actions_t *actions, int output) {
  int code = posix_spawn_file_actions_addopen(actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  if (code == 0)
    code = posix_spawn_file_actions_adddup2(actions, output, STDOUT_FILENO);
  if (code == 0)
    code = posix_spawn_file_actions_addopen(actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  return code == 0 ? posix_spawn_file_actions_addclosefrom_np(actions, STDERR_FILENO + 1) : code;
}

static int set_attributes(posix_spawnattr_t *attributes) {
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  int code =
      posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  if (code == 0)
    code = posix_spawnattr_setpgroup(attributes, 0);
  if (code == 0)
    code = posix_spawnattr_setsigmask(attributes, &none);
  return code == 0 ? posix_spawnattr_setsigdefault(attributes, &all) : code;
}

/* Starts the program. Returns 0 or an errno value. */
static int spawn(char **words, int output, pid_t *pid) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  if (posix_spawn_file_actions_init(&actions) != 0)
    return ENOMEM;
  if (posix_spawnattr_init(&attributes) != 0) {
    posix_spawn_file_actions_destroy(&actions);
    return ENOMEM;
  }
  int code = set_actions(&actions, output);
  if (code == 0)
    code = set_attributes(&attributes);
  if (code == 0)
    code = posix_spawnp(pid, words[0], &actions, &attributes, words, environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return code;
}

static cleat_status start(struct process *process, char **words, const char *place, struct cleat_error *err) {
  int ends[2];
  if (cleat__fault_point())
    return cleat__error_no_memory(err, "the credential_process");
  if (pipe2(ends, O_CLOEXEC) != 0)
    return cleat__error_errno(err, errno, "%s: a pipe for credential_process", place);
  (void)fcntl(ends[0], F_SETFL, O_NONBLOCK);
  int code = spawn(words, ends[1], &process->pid);
  close(ends[1]);
  if (code == 0) {
    process->fd = ends[0];
    return CLEAT_OK;
  }
  close(ends[0]);
  /* Only the name of the program: its arguments may be secrets. */
  (void)cleat__error_errno(err, code, "%s: credential_process %.200s cannot be started", place, words[0]);
  if (err->status != CLEAT_NO_MEMORY)
    err->status = CLEAT_DENIED;
  return err->status;
}

static void check_end(struct process *process, int flags) {
  if (process->ended)
    return;
  pid_t got = waitpid(process->pid, &process->wait_status, flags);
  if (got < 0 && errno == EINTR)
    return;
  /* An error means that the host program ignores SIGCHLD or waits for all its children. Then the
   * exit status is lost, and the output must be enough. */
  process->ended = got != 0;
}

static void read_output(struct process *process) {
  for (;;) {
    size_t room = sizeof process->output - process->size;
    if (room == 0) {
      process->too_long = true;
      return;
    }
    ssize_t got = read(process->fd, process->output + process->size, room);
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0) {
      /* A grandchild that lives on may keep the pipe open. The end of the child is enough. */
      process->closed = got == 0 || errno != EAGAIN || process->ended;
      return;
    }
    process->size += (size_t)got;
  }
}

static int64_t now_ms(void) {
  const struct cleat__clock *clock = cleat__clock_system();
  return clock->monotonic_ms(clock->ctx);
}

static cleat_status attend(struct process *process, const char *place, struct cleat_error *err) {
  const atomic_bool *cancel = process->search->cancel;
  while (!(process->ended && process->closed)) {
    struct pollfd ready = {.fd = process->closed ? -1 : process->fd, .events = POLLIN};
    (void)poll(&ready, 1, TICK_MS);
    /* first, so that everything it wrote before its end is read below */
    check_end(process, WNOHANG);
    if (!process->closed)
      read_output(process);
    if (process->too_long)
      return cleat__error_set(err, CLEAT_DENIED, "%s: credential_process printed more than %u bytes", place,
                              CLEAT__S3_ANSWER_MAX);
    if (cancel && atomic_load(cancel))
      return cleat__error_set(err, CLEAT_CANCELLED, "cancelled");
    if (now_ms() >= process->deadline_ms && !(process->ended && process->closed)) {
      (void)cleat__error_set(err, CLEAT_TIMEOUT, "%s: credential_process took too long and was killed", place);
      err->retryable = 1;
      return err->status;
    }
  }
  return CLEAT_OK;
}

/* Kills the remaining processes of the group, before its number can be reused. */
static void stop(struct process *process) {
  if (!process->ended) {
    (void)kill(-process->pid, SIGKILL);
    while (!process->ended)
      check_end(process, 0);
  }
  close(process->fd);
}

static cleat_status judge_end(const struct process *process, const char *place, struct cleat_error *err) {
  int status = process->wait_status;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
    return CLEAT_OK;
  if (WIFEXITED(status))
    (void)cleat__error_set(err, CLEAT_DENIED, "%s: credential_process ended with exit status %d", place,
                           WEXITSTATUS(status));
  else
    (void)cleat__error_set(err, CLEAT_DENIED, "%s: credential_process was ended by signal %d", place, WTERMSIG(status));
  cleat__error_hint(err, "run the command by hand to see its messages");
  return err->status;
}

static cleat_status run(struct process *process, char **words, const char *place, struct cleat_error *err) {
  cleat_status status = start(process, words, place, err);
  if (status)
    return status;
  status = attend(process, place, err);
  stop(process);
  return status ? status : judge_end(process, place, err);
}

cleat_status cleat__s3_from_process(const struct cleat__s3_search *search, const char *command, const char *place,
                                    struct cleat__s3_credentials *keys, struct cleat_error *err) {
  char **words = NULL;
  cleat_status status = cleat__s3_split_command(command, &words, err);
  if (status) {
    if (status != CLEAT_NO_MEMORY)
      cleat__error_context(err, "%s", place);
    return status;
  }
  int64_t limit_ms = search->settings->process_ms;
  struct process *process = cleat__calloc(1, sizeof *process);
  if (process) {
    process->search = search;
    process->deadline_ms = now_ms() + (limit_ms > 0 ? limit_ms : PROCESS_MS);
    status = run(process, words, place, err);
  } else {
    status = cleat__error_no_memory(err, "the credential_process");
  }
  const struct cleat__s3_keys_document document = {.place = place, .token_name = "SessionToken", .needs_version = true};
  if (!status)
    status = cleat__s3_keys_json(process->output, process->size, &document, keys, err);
  if (process)
    explicit_bzero(process, sizeof *process);
  cleat__free(process);
  explicit_bzero(words[0], strlen(command) + 1); /* one block holds all words */
  cleat__free(words);
  return status;
}
