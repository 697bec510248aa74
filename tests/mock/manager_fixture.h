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

#endif
