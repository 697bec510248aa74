/* command_find.c: finds the file for a command's name. See command.h. No state. */
#include "api/run/command_private.h"

#include "base/mem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The search path of execvp when PATH is not set: glibc's confstr(_CS_PATH). */
#define DEFAULT_PATH "/bin:/usr/bin"

/* Returns 0, or the errno value that execve would give. */
static int check_program(const char *path) {
  struct stat info;
  if (stat(path, &info) != 0)
    return errno;
  if (!S_ISREG(info.st_mode))
    return S_ISDIR(info.st_mode) ? EISDIR : EACCES;
  return eaccess(path, X_OK) == 0 ? 0 : errno;
}

static bool is_absent(int code) {
  return code == ENOENT || code == ENOTDIR;
}

static cleat_status refuse(const char *name, const char *path, int code, struct cleat_error *err) {
  if (code == EISDIR)
    (void)cleat__error_set(err, CLEAT_DENIED, "%s is a folder, not a program", path);
  else if (code == EACCES)
    (void)cleat__error_errno(err, code, "%s cannot be executed", path);
  else
    return cleat__error_errno(err, code, "cannot check the command %s", path);
  err->status = CLEAT_DENIED;
  if (code == EACCES)
    cleat__error_hint(err, "run chmod +x on it, or put its interpreter before it: python3 %.100s", name);
  return err->status;
}

static cleat_status find_as_it_is(const char *name, char **path, struct cleat_error *err) {
  int code = check_program(name);
  if (is_absent(code))
    return cleat__error_set(err, CLEAT_NOT_FOUND, "there is no program %s", name);
  if (code)
    return refuse(name, name, code, err);
  char *copy = cleat__strdup(name);
  if (!copy)
    return cleat__error_no_memory(err, "the command's name");
  *path = copy;
  return CLEAT_OK;
}

/* An empty element of PATH means the working folder. */
static char *join(const char *folder, size_t length, const char *name) {
  return length == 0 ? cleat__strprintf("./%s", name) : cleat__strprintf("%.*s/%s", (int)length, folder, name);
}

static cleat_status find_along(const char *search, const char *name, char **path, struct cleat_error *err) {
  /* As execvp does: skips files that cannot be executed, and reports them only if no other file is
   * found. */
  int refused = 0;
  for (const char *at = search;; at++) {
    size_t length = strcspn(at, ":");
    char *candidate = join(at, length, name);
    if (!candidate)
      return cleat__error_no_memory(err, "the command's name");
    int code = check_program(candidate);
    if (code == 0) {
      *path = candidate;
      return CLEAT_OK;
    }
    if (!is_absent(code) && !refused) {
      refused = code;
      (void)refuse(name, candidate, code, err);
    }
    cleat__free(candidate);
    at += length;
    if (*at == '\0')
      break;
  }
  if (refused)
    return err->status;
  (void)cleat__error_set(err, CLEAT_NOT_FOUND, "there is no program %s along PATH", name);
  cleat__error_hint(err, "PATH is %.200s", search);
  return err->status;
}

cleat_status cleat__run_command_locate(const char *name, char **path, struct cleat_error *err) {
  if (name[0] == '\0')
    return cleat__error_set(err, CLEAT_NOT_FOUND, "the command's name is empty");
  if (strchr(name, '/'))
    return find_as_it_is(name, path, err);
  const char *search = getenv("PATH");
  return find_along(search ? search : DEFAULT_PATH, name, path, err);
}

cleat_status cleat__run_command_find(const char *name, struct cleat_error *err) {
  char *path = NULL;
  cleat_status status = cleat__run_command_locate(name, &path, err);
  if (!status)
    cleat__free(path);
  return status;
}

int cleat__run_command_error_status(const struct cleat_error *err) {
  switch (err->status) {
  case CLEAT_NOT_FOUND:
    return CLEAT__RUN_NOT_FOUND;
  case CLEAT_DENIED:
    return CLEAT__RUN_NOT_EXECUTABLE;
  default:
    return 1;
  }
}
