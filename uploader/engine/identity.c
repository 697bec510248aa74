/* identity.c: see identity.h. */
#include "uploader/engine/identity.h"

#include "base/checksum.h"
#include "base/mem.h"
#include "uploader/model/name.h"
#include "uploader/model/record.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Launchers, and the variables by which each tells a process its rank. */
static const struct launcher {
  const char *rank;
  const char *world_size;
  const char *step; /* must be set as well; NULL: no such variable */
} launchers[] = {
    {"CLEAT_RANK", "CLEAT_WORLD_SIZE", NULL},
    {"RANK", "WORLD_SIZE", NULL},
    /* A batch script has the first two as well, but is a single process. Only the steps of srun have the third. */
    {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_STEP_ID"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", NULL},
};

#define LAUNCHERS (sizeof launchers / sizeof launchers[0])
#define OURS 0u
#define TORCHRUN 1u
#define SLURM 2u

static const char *variable(const char *name) {
  const char *value = getenv(name);
  return value != NULL && *value != '\0' ? value : NULL;
}

static cleat_status number(const char *name, unsigned *value, struct cleat_error *err) {
  const char *text = variable(name);
  char *end = NULL;
  errno = 0;
  unsigned long parsed = strtoul(text, &end, 10);
  if (*text < '0' || *text > '9' || *end != '\0' || errno != 0 || parsed > CLEAT__WORLD_SIZE_MAX)
    return cleat__error_set(err, CLEAT_INVALID, "%s must be a number from 0 to %d, but is %s", name,
                            CLEAT__WORLD_SIZE_MAX, text);
  *value = (unsigned)parsed;
  return CLEAT_OK;
}

/* Returns the first launcher that has set all its variables. LAUNCHERS: none. */
static size_t find_launcher(void) {
  for (size_t i = 0; i < LAUNCHERS; i++) {
    const struct launcher *launcher = &launchers[i];
    if (variable(launcher->rank) != NULL && variable(launcher->world_size) != NULL &&
        (launcher->step == NULL || variable(launcher->step) != NULL))
      return i;
  }
  return LAUNCHERS;
}

static cleat_status check_rank(unsigned rank, unsigned world_size, struct cleat_error *err) {
  if (world_size > CLEAT__WORLD_SIZE_MAX)
    return cleat__error_set(err, CLEAT_LIMIT, "a world size of %u is above the limit of %d", world_size,
                            CLEAT__WORLD_SIZE_MAX);
  if (world_size > 0 && rank < world_size)
    return CLEAT_OK;
  cleat_status status = cleat__error_set(err, CLEAT_INVALID, "rank %u is outside a world of %u", rank, world_size);
  cleat__error_hint(err, "ranks are numbered from 0 to the world size minus one");
  return status;
}

static cleat_status find_rank(const struct cleat_client_options *options, size_t *launcher,
                              struct cleat__identity *identity, struct cleat_error *err) {
  *launcher = LAUNCHERS;
  identity->rank = options->rank;
  identity->world_size = options->world_size;
  if (options->world_size != 0)
    return check_rank(options->rank, options->world_size, err);
  identity->rank = 0;
  identity->world_size = 1;
  *launcher = find_launcher();
  if (*launcher != OURS && (variable(launchers[OURS].rank) != NULL || variable(launchers[OURS].world_size) != NULL))
    return cleat__error_set(err, CLEAT_INVALID,
                            "CLEAT_RANK and CLEAT_WORLD_SIZE must be set together, but one is not set");
  if (*launcher == LAUNCHERS)
    return CLEAT_OK;
  cleat_status status = number(launchers[*launcher].rank, &identity->rank, err);
  if (status == CLEAT_OK)
    status = number(launchers[*launcher].world_size, &identity->world_size, err);
  return status == CLEAT_OK ? check_rank(identity->rank, identity->world_size, err) : status;
}

static cleat_status no_start(unsigned world_size, size_t launcher, struct cleat_error *err) {
  cleat_status status = cleat__error_set(
      err, CLEAT_INVALID, "%u ranks need a common name for this start of the job, and none is set", world_size);
  cleat__error_hint(err, launcher == TORCHRUN
                             ? "set the start option to a random id that rank 0 broadcasts; torchrun's run id "
                               "is the same after a restart"
                             : "set CLEAT_START, or the start option, to an id that all ranks share and no "
                               "other start has");
  return status;
}

/* The name that the option or the environment gives. NULL, without an error: there is none. `own`: room for a name that
 * is built here. */
static const char *given_start(const char *option, size_t launcher, char own[CLEAT__ID_MAX + 1]) {
  const char *name = option != NULL && *option != '\0' ? option : variable("CLEAT_START");
  if (name != NULL || launcher != SLURM || variable("SLURM_JOB_ID") == NULL)
    return name;
  const char *restarts = variable("SLURM_RESTART_COUNT"); /* unset before the first restart */
  int length = snprintf(own, CLEAT__ID_MAX + 1, "slurm-%s-%s-%s", variable("SLURM_JOB_ID"),
                        restarts != NULL ? restarts : "0", variable("SLURM_STEP_ID"));
  return length > 0 && length <= CLEAT__ID_MAX ? own : NULL;
}

static cleat_status find_start(const char *option, size_t launcher, struct cleat__identity *identity,
                               struct cleat_error *err) {
  assert(identity->world_size >= 1 && identity->rank < identity->world_size);
  char own[CLEAT__ID_MAX + 1];
  const char *name = given_start(option, launcher, own);
  if (name == NULL && identity->world_size > 1)
    return no_start(identity->world_size, launcher, err);
  if (name == NULL) {
    if (cleat__random_hex(16, own) != CLEAT_OK)
      return cleat__error_set(err, CLEAT_INTERNAL, "the system's random generator failed");
    name = own;
  }
  /* The name goes into the manifest, whose readers accept only such names. */
  cleat_status status = cleat__name_check_id("the start's name", name, strlen(name), err);
  if (status != CLEAT_OK) {
    cleat__error_hint(err, "set CLEAT_START, or the start option, to an id of this start");
    return status;
  }
  identity->start = cleat__strdup(name);
  return identity->start != NULL ? CLEAT_OK : cleat__error_no_memory(err, "the start's name");
}

cleat_status cleat__identity_find(const struct cleat_client_options *options, struct cleat__identity *identity,
                                  struct cleat_error *err) {
  struct cleat__identity found = {0};
  size_t launcher = LAUNCHERS;
  cleat_status status = find_rank(options, &launcher, &found, err);
  if (status == CLEAT_OK)
    status = find_start(options->start, launcher, &found, err);
  if (status == CLEAT_OK)
    *identity = found;
  return status;
}

cleat_status cleat__identity_url(const char *url, const char *session, char **full, struct cleat_error *err) {
  const char *name = session != NULL && *session != '\0' ? session : variable("CLEAT_SESSION");
  if (url == NULL || name == NULL) {
    *full = url != NULL ? cleat__strdup(url) : NULL;
    return url == NULL || *full != NULL ? CLEAT_OK : cleat__error_no_memory(err, "the URL");
  }
  cleat_status status = cleat__name_check_id("the session's name", name, strlen(name), err);
  if (status != CLEAT_OK) {
    cleat__error_hint(err, "a session is one folder below the URL: letters, digits, '.', '_' and '-'");
    return status;
  }
  /* s3:// options follow a '?'. The name of a folder may contain one. */
  size_t length = strncmp(url, "s3://", 5) == 0 ? strcspn(url, "?") : strlen(url);
  size_t trimmed = length;
  while (trimmed > 0 && url[trimmed - 1] == '/')
    trimmed--;
  *full = cleat__strprintf("%.*s/%s%s", (int)trimmed, url, name, url + length);
  return *full != NULL ? CLEAT_OK : cleat__error_no_memory(err, "the URL");
}

cleat_status cleat__identity_attempt(const char *start, int64_t step, unsigned nth, char attempt[17],
                                     struct cleat_error *err) {
  assert(step >= 0);
  uint8_t digest[CLEAT__SHA256_BYTES];
  char text[CLEAT__ID_MAX + 64];
  int length = snprintf(text, sizeof text, "attempt\n%s\n%lld\n%u", start, (long long)step, nth);
  /* the length of a start's name is limited */
  assert(length > 0 && (size_t)length < sizeof text);
  if (cleat__sha256(text, (size_t)length, digest) != CLEAT_OK)
    return cleat__error_no_memory(err, "a digest");
  cleat__hex(digest, 8, attempt);
  return CLEAT_OK;
}
