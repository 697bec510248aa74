/* train_managed.c: a training loop that holds a manager, by the public API, for test_manager.py.
 *
 *   train_managed URL LAST [interval=N] [keep=N] [load=auto|never|force] [session=NAME] [die=STEP]
 *                 [there=STEP] [like=URL] [without=PATTERN] [spoil=STEP back=STEP] [again=fail|skip|replace]
 *
 * Its weights follow from the steps alone, so that a run that was killed and resumed must end as one that was
 * not. What it did stands on standard output, a line each: "resumed 20", "scratch", "value NAME NUMBER", "saving 30",
 * "failed MESSAGE", "latest 40", "hash X". With die=STEP it kills itself after that step, whatever is being saved, once
 * the step `there` is committed. With spoil=STEP back=STEP the weights go wrong behind step `back`; at step `spoil` the
 * run goes back there ("back 20"), once, and with die=0 kills itself then. With again=HOW the last step is saved once
 * more, with other weights, and "again STATUS OUTCOME" says what came of it. One thread. */
#include <cleat.h>

#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WEIGHTS 300000 /* of 8 bytes each: some MiB */

struct job {
  const char *url;
  int64_t last;
  int64_t interval;
  int keep;
  enum cleat_manager_load_mode load;
  const char *session;
  int64_t die;
  const char *like;
  const char *without[2];
  int64_t there;
  int64_t spoil, back; /* 0: never */
  int again;           /* of enum cleat_if_exists; -1: not */
};

struct state {
  uint64_t *layer[2];
  uint64_t *moments;
  int64_t position;
  double best;
};

static int complain(const char *what, const struct cleat_error *err) {
  fprintf(stderr, "train_managed: %s: %s: %s\n%s\n", what, cleat_status_name(err->status), err->message, err->hint);
  return 1;
}

static void print_log(void *user, enum cleat_log_level level, const char *line) {
  (void)user;
  if (level == CLEAT_LOG_WARNING)
    fprintf(stderr, "warning: %s\n", line);
}

static bool parse(struct job *job, int argc, char **argv) {
  static const char *const modes[] = {"auto", "never", "force"};
  if (argc < 3)
    return false;
  job->url = argv[1];
  job->last = strtoll(argv[2], NULL, 10);
  for (int i = 3; i < argc; i++) {
    char *value = strchr(argv[i], '=');
    if (value == NULL)
      return false;
    *value++ = '\0';
    if (strcmp(argv[i], "interval") == 0)
      job->interval = strtoll(value, NULL, 10);
    else if (strcmp(argv[i], "keep") == 0)
      job->keep = (int)strtol(value, NULL, 10);
    else if (strcmp(argv[i], "session") == 0)
      job->session = value;
    else if (strcmp(argv[i], "die") == 0)
      job->die = strtoll(value, NULL, 10);
    else if (strcmp(argv[i], "like") == 0)
      job->like = value;
    else if (strcmp(argv[i], "without") == 0)
      job->without[0] = value;
    else if (strcmp(argv[i], "there") == 0)
      job->there = strtoll(value, NULL, 10);
    else if (strcmp(argv[i], "spoil") == 0)
      job->spoil = strtoll(value, NULL, 10);
    else if (strcmp(argv[i], "back") == 0)
      job->back = strtoll(value, NULL, 10);
    else if (strcmp(argv[i], "again") == 0)
      job->again = strcmp(value, "fail") == 0 ? 0 : strcmp(value, "skip") == 0 ? 1 : 2;
    else if (strcmp(argv[i], "load") != 0)
      return false;
    for (int mode = 0; strcmp(argv[i], "load") == 0 && mode < 3; mode++)
      if (strcmp(value, modes[mode]) == 0)
        job->load = (enum cleat_manager_load_mode)mode;
  }
  return true;
}

/* ---- The state, by name ------------------------------------------------------------------------- */

static const int64_t weights_shape[] = {WEIGHTS};

#define TENSORS 4

static void describe(struct state *state, struct cleat_tensor tensors[TENSORS]) {
  const struct cleat_tensor all[TENSORS] = {{"layers.0.weight", CLEAT_DTYPE_U64, 1, weights_shape, state->layer[0]},
                                            {"layers.1.weight", CLEAT_DTYPE_U64, 1, weights_shape, state->layer[1]},
                                            {"optimizer.moments", CLEAT_DTYPE_U64, 1, weights_shape, state->moments},
                                            {"optimizer.position", CLEAT_DTYPE_I64, 0, NULL, &state->position}};
  memcpy(tensors, all, sizeof all);
}

/* Loads what there is to resume from, or (`back` above 0) goes back to that step. */
static int load(struct cleat_manager *manager, struct state *state, int64_t back) {
  struct cleat_tensor tensors[TENSORS];
  struct cleat_load_request requests[TENSORS];
  struct cleat_error err;
  int64_t step = 0;
  describe(state, tensors);
  for (size_t i = 0; i < TENSORS; i++) {
    const struct cleat_tensor *tensor = &tensors[TENSORS - 1 - i]; /* in another order */
    requests[i] = (struct cleat_load_request){tensor->name,
                                              tensor->dtype,
                                              tensor->ndim,
                                              tensor->shape,
                                              NULL,
                                              (void *)(uintptr_t)tensor->data,
                                              tensor->ndim > 0 ? WEIGHTS * sizeof(uint64_t) : sizeof(int64_t)};
  }
  cleat_status status = back > 0 ? cleat_manager_rollback(manager, back, requests, TENSORS, NULL, &err)
                                 : cleat_manager_load(manager, requests, TENSORS, NULL, &err);
  if (status != CLEAT_OK)
    return complain(back > 0 ? "rollback" : "load", &err);
  (void)cleat_manager_should_load(manager, &step);
  printf("%s %" PRId64 "\n", back > 0 ? "back" : "resumed", step);
  const struct cleat_value *best = cleat_manager_value(manager, "best_metric");
  if (best != NULL)
    printf("value best_metric %.17g\n", best->number);
  if (state->position != step * 17)
    return fprintf(stderr, "train_managed: position %" PRId64 "\n", state->position), 1;
  return 0;
}

static void update(struct state *state, int64_t step) {
  for (size_t i = 0; i < WEIGHTS; i++) {
    state->moments[i] = state->moments[i] * UINT64_C(6364136223846793005) + (uint64_t)step + i;
    state->layer[0][i] ^= state->moments[i] >> 7;
    state->layer[1][i] += state->layer[0][i];
  }
  state->position = step * 17;
  state->best = 1.0 / (double)step;
}

static uint64_t hash(const struct state *state) {
  uint64_t sum = UINT64_C(14695981039346656037);
  for (size_t i = 0; i < WEIGHTS; i++)
    sum = (sum ^ state->layer[0][i] ^ (state->layer[1][i] << 1) ^ (state->moments[i] << 2)) * UINT64_C(1099511628211);
  return sum;
}

/* ---- Training ----------------------------------------------------------------------------------- */

/* Training goes on when an earlier save failed, and ends when this one cannot be begun. */
static int save(struct cleat_manager *manager, struct state *state, int64_t step) {
  struct cleat_tensor tensors[TENSORS];
  struct cleat_save_request request = CLEAT_SAVE_REQUEST_INIT;
  struct cleat_manager_save_options more = CLEAT_MANAGER_SAVE_OPTIONS_INIT;
  const struct cleat_value values[] = {
      {.name = "best_metric", .number = state->best},
      {.name = "data_position", .type = CLEAT_VALUE_INTEGER, .integer = state->position}};
  struct cleat_error err;
  describe(state, tensors);
  request.step = step;
  request.tensors = tensors, request.tensor_count = TENSORS;
  more.values = values, more.value_count = 2;
  printf("saving %" PRId64 "\n", step);
  if (cleat_manager_save(manager, &request, &more, &err) != CLEAT_OK) {
    printf("failed %s\n", err.message);
    return strstr(err.message, "was not saved") != NULL ? 0 : complain("save", &err);
  }
  return 0;
}

static void die(struct cleat_manager *manager, int64_t there) {
  struct cleat_manager_progress now;
  do {
    sched_yield();
    cleat_manager_progress(manager, &now);
  } while (now.newest_committed < there && now.failed == 0);
  raise(SIGKILL);
}

/* The last step once more, of other weights. */
static void save_again(struct cleat_manager *manager, const struct job *job, struct state *state) {
  static const char *const names[] = {"PENDING", "COMMITTED", "ALREADY", "SKIPPED"};
  struct cleat_tensor tensors[TENSORS];
  struct cleat_save_request request = CLEAT_SAVE_REQUEST_INIT;
  enum cleat_outcome outcome = CLEAT_OUTCOME_PENDING;
  struct cleat_error err;
  state->layer[0][0] ^= 1;
  describe(state, tensors);
  request.step = job->last;
  request.tensors = tensors, request.tensor_count = TENSORS;
  request.if_exists = (enum cleat_if_exists)job->again;
  request.outcome = &outcome;
  cleat_status status = cleat_manager_save(manager, &request, NULL, &err);
  printf("again %s %s\n", cleat_status_name(status), names[outcome]);
}

/* The weights are wrong behind a step, until the run goes back to it. */
static int spoil(struct cleat_manager *manager, struct job *job, struct state *state, int64_t *step) {
  if (job->spoil == 0 || *step <= job->back)
    return 0;
  if (*step < job->spoil) {
    state->layer[0][0] ^= 1;
    return 0;
  }
  job->spoil = 0;
  *step = job->back;
  int failed = load(manager, state, job->back);
  fflush(stdout);
  if (failed == 0 && job->die == 0)
    raise(SIGKILL);
  return failed;
}

static int loop(struct cleat_manager *manager, struct job *job, struct state *state, int64_t step) {
  struct cleat_error err;
  while (step++ < job->last) {
    if (cleat_manager_wait_staged(manager, &err) != CLEAT_OK)
      return complain("fence", &err);
    update(state, step);
    if (spoil(manager, job, state, &step) != 0 ||
        (cleat_manager_should_save(manager, step) && save(manager, state, step) != 0))
      return 1;
    fflush(stdout);
    if (step == job->die)
      die(manager, job->there);
  }
  return 0;
}

static int train(struct cleat_manager *manager, struct job *job, struct state *state) {
  struct cleat_error err;
  int64_t step = 0;
  int64_t latest = 0;
  if (cleat_manager_should_load(manager, &step)) {
    if (load(manager, state, 0) != 0)
      return 1;
    (void)cleat_manager_should_load(manager, &step);
  } else {
    printf("scratch\n");
  }
  if (loop(manager, job, state, step) != 0)
    return 1;
  if (job->again >= 0)
    save_again(manager, job, state);
  if (cleat_manager_finalize(manager, 1, 1, &err) != CLEAT_OK)
    return complain("finalize", &err);
  if (cleat_manager_find_latest(manager, &latest, &err) != CLEAT_OK)
    return complain("latest", &err);
  printf("latest %" PRId64 "\nhash %016" PRIx64 "\n", latest, hash(state));
  return 0;
}

/* The checkpoint whose files are imitated, or NULL. */
static int open_like(const char *url, struct cleat_client **client, struct cleat_checkpoint **like) {
  struct cleat_error err;
  if (url == NULL)
    return 0;
  if (cleat_client_open(url, NULL, client, &err) != CLEAT_OK ||
      cleat_checkpoint_open(*client, CLEAT_STEP_LATEST, like, &err) != CLEAT_OK)
    return complain("like", &err);
  return 0;
}

static int run(struct job *job, struct state *state) {
  struct cleat_client_options client_options = CLEAT_CLIENT_OPTIONS_INIT;
  struct cleat_manager_options options = CLEAT_MANAGER_OPTIONS_INIT;
  struct cleat_client *client = NULL;
  struct cleat_client *input = NULL;
  struct cleat_checkpoint *like = NULL;
  struct cleat_manager *manager = NULL;
  struct cleat_error err;
  client_options.log = options.log = print_log;
  client_options.session = job->session;
  options.save_interval = job->interval;
  options.final_step = job->last;
  options.keep_last = job->keep;
  options.load = job->load;
  options.final_without = job->without;
  int failed = open_like(job->like, &input, &like);
  options.like = like;
  if (failed == 0 && cleat_client_open(job->url, &client_options, &client, &err) != CLEAT_OK)
    failed = complain("client", &err);
  if (failed == 0 && cleat_manager_open(client, &options, &manager, &err) != CLEAT_OK)
    failed = complain("manager", &err);
  if (failed == 0)
    failed = train(manager, job, state);
  cleat_manager_close(manager);
  cleat_client_close(client);
  cleat_checkpoint_free(like);
  cleat_client_close(input);
  return failed;
}

int main(int argc, char **argv) {
  struct job job = {.interval = 10, .die = -1, .again = -1};
  struct state state = {.best = 1};
  if (!parse(&job, argc, argv)) {
    fprintf(stderr, "usage: train_managed URL LAST [NAME=VALUE]...\n");
    return 2;
  }
  state.layer[0] = calloc(WEIGHTS, sizeof(uint64_t));
  state.layer[1] = calloc(WEIGHTS, sizeof(uint64_t));
  state.moments = calloc(WEIGHTS, sizeof(uint64_t));
  bool have = state.layer[0] != NULL && state.layer[1] != NULL && state.moments != NULL;
  int failed = have ? run(&job, &state) : 1;
  free(state.layer[0]);
  free(state.layer[1]);
  free(state.moments);
  return failed;
}
