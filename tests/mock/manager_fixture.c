/* manager_fixture.c: see manager_fixture.h. */
#include "tests/mock/manager_fixture.h"

#include "base/mem.h"
#include "tests/mock/store_check.h"

struct cleat_manager_options options;
struct cleat_manager *manager;

void manager_setup(void) {
  static const struct cleat_manager_options init = CLEAT_MANAGER_OPTIONS_INIT;
  desk_setup_empty();
  options = init;
  options.save_interval = 10;
}

void manager_end(void) {
  cleat_manager_close(manager);
  manager = NULL;
  if (client != NULL)
    kit_close_idle(client);
  client = NULL;
}

void manager_teardown(void) {
  manager_end();
  desk_teardown();
}

void manager_open(void) {
  struct cleat_error err;
  ck_ok(cleat_manager_open(client, &options, &manager, &err));
}

bool manager_fails_at(unsigned long n, cleat_status (*run)(void), struct cleat_error *err) {
  memset(err, 0, sizeof *err);
  cleat__fault_arm(n, false);
  cleat_status status = run();
  unsigned long calls = cleat__fault_disarm();
  ck_assert_int_eq(err->status, status);
  if (calls >= n)
    return true;
  ck_assert_int_eq(status, CLEAT_OK);
  ck_assert_uint_gt(n, 50);
  return false;
}
