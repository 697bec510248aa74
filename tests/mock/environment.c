/* environment.c: see environment.h. */
#include "tests/mock/environment.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void environment_unset(const char *prefix) {
  extern char **environ;
  char name[128];
  for (char **at = environ; *at != NULL;) {
    bool ours = strncmp(*at, prefix, strlen(prefix)) == 0 && strcspn(*at, "=") < sizeof name;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(*at, "="), *at);
    if (ours)
      unsetenv(name); /* moves the rest up */
    else
      at++;
  }
}
