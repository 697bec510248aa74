/* nearest.c: finds the name that was meant by a mistyped command or option.
 *
 * Pure. Uses the Levenshtein distance, with two rows on the stack. Words longer than a row are
 * never close. */
#include "api/cli/cli.h"

#include <string.h>

enum { WORD_MAX = 32 };

static unsigned least(unsigned a, unsigned b, unsigned c) {
  unsigned ab = a < b ? a : b;
  return ab < c ? ab : c;
}

/* The number of letters to add, remove or change. Both words have at most WORD_MAX letters. */
static unsigned distance(const char *a, const char *b) {
  unsigned above[WORD_MAX + 1], row[WORD_MAX + 1];
  size_t length = strlen(b);
  for (size_t j = 0; j <= length; j++)
    above[j] = (unsigned)j;
  for (size_t i = 0; a[i]; i++) {
    row[0] = (unsigned)i + 1;
    for (size_t j = 0; j < length; j++)
      row[j + 1] = least(above[j + 1] + 1, row[j] + 1, above[j] + (a[i] != b[j]));
    memcpy(above, row, (length + 1) * sizeof row[0]);
  }
  return above[length];
}

const char *cleat__cli_nearest(const char *word, const char *const *names) {
  size_t length = strlen(word);
  if (length > WORD_MAX)
    return NULL;
  /* With more than three changes, or more than half of its letters, it is a different word. */
  unsigned best = length / 2 < 3 ? (unsigned)(length / 2) + 1 : 4;
  const char *nearest = NULL;
  for (; *names; names++) {
    unsigned found = distance(word, *names);
    if (found < best) {
      best = found;
      nearest = *names;
    }
  }
  return nearest;
}
