/* manager_fixture.h: a manager on the bucket of checkpoint_fixture.h. One at a time, in globals that the test's thread
 * owns. All functions end the test on an unexpected failure. */
#ifndef CLEAT_TESTS_MOCK_MANAGER_FIXTURE_H
#define CLEAT_TESTS_MOCK_MANAGER_FIXTURE_H

#include "tests/mock/checkpoint_fixture.h"

extern struct cleat_manager_options options; /* of the next manager that is opened */
extern struct cleat_manager *manager;        /* NULL until then */

/* The bucket, the client, a model without tensors; options that save every ten steps. */
void manager_setup(void);

/* Closes the manager before the client. */
void manager_teardown(void);

void manager_open(void);

/* The job ends: closes the manager and the client. */
void manager_end(void);

/* Runs with fallible call number n failing. Returns whether there was such a call. If there was none, n is over 50 and
 * the run has ended well. Its status is that of `err`. */
bool manager_fails_at(unsigned long n, cleat_status (*run)(void), struct cleat_error *err);

#endif
