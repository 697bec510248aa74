/* environment.h: the environment of a test. */
#ifndef CLEAT_TESTS_MOCK_ENVIRONMENT_H
#define CLEAT_TESTS_MOCK_ENVIRONMENT_H

/* Removes all variables whose names begin so. It is no clearenv(): Check has variables of its own. */
void environment_unset(const char *prefix);

#endif
