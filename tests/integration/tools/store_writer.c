/* store_writer.c: counts in an object of a store, as one of several writers who do so at the same time.
 *
 *   store_writer URL KEY TIMES
 *
 * Adds 1 to the number in the object TIMES times, each time only if nobody has changed it since it was read. Exit
 * status 0: the object was there whenever it was read, and TIMES changes were reported as done. The number of all
 * writers together is in it in the end, unless a change was lost. */
#include "storage/common/store.h"

#include "base/checksum.h"
#include "base/mem.h"
#include "storage/open.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *key;
static const atomic_bool go_on = false;
static struct cleat_error err;

static cleat_status put(struct cleat__store *store, long number, enum cleat__put_condition condition,
                        const char *etag) {
  char text[24];
  struct cleat__span span = {.base = text, .length = (size_t)snprintf(text, sizeof text, "%019ld", number)};
  struct cleat__put_options options = {.condition = condition, .etag = etag};
  options.crc32c = cleat__crc32c(0, text, span.length);
  return cleat__store_put(store, key, cleat__spans(&span, 1), &options, cleat__call(&go_on, &err));
}

static int fail(const char *what) {
  fprintf(stderr, "%s: %s\n", what, err.message);
  return 1;
}

int main(int argc, char **argv) {
  static const struct cleat_client_options options = CLEAT_CLIENT_OPTIONS_INIT;
  struct cleat__store_config config = {.options = &options, .clock = cleat__clock_system()};
  struct cleat__store *store = NULL;
  if (argc != 4 || cleat__store_open(argv[1], &config, &store, &err) != CLEAT_OK)
    return fail("open");
  key = argv[2];
  cleat_status status = put(store, 0, CLEAT__PUT_CREATE_ONLY, NULL);
  if (status != CLEAT_OK && status != CLEAT_EXISTS)
    return fail("create");
  for (long done = 0; done < strtol(argv[3], NULL, 10);) {
    struct cleat__small small = {0};
    if (cleat__store_get_small(store, key, 64, &small, cleat__call(&go_on, &err)) != CLEAT_OK)
      return fail("read");
    status = put(store, strtol(small.bytes, NULL, 10) + 1, CLEAT__PUT_IF_MATCH, small.etag);
    cleat__free(small.bytes);
    if (status != CLEAT_OK && status != CLEAT_LOST)
      return fail("replace");
    done += status == CLEAT_OK;
  }
  cleat__store_close(store);
  return 0;
}
