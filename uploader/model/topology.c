/* topology.c: see topology.h. */
#include "uploader/model/topology.h"

#include "base/json_reader.h"
#include "uploader/model/record.h"

#include <stdio.h>
#include <string.h>

enum { DP, TP, PP, CP, EP, SIZES };

static const char *const names[SIZES] = {"dp", "tp", "pp", "cp", "ep"};

static void spread(const struct cleat_topology *topology, unsigned sizes[SIZES]) {
  const unsigned all[SIZES] = {topology->dp, topology->tp, topology->pp, topology->cp, topology->ep};
  memcpy(sizes, all, sizeof all);
}

void cleat__topology_print(const struct cleat_topology *topology, char text[CLEAT__TOPOLOGY_TEXT_MAX]) {
  unsigned sizes[SIZES];
  size_t length = 1;
  spread(topology, sizes);
  text[0] = '{';
  for (unsigned i = 0; i < SIZES; i++)
    if (sizes[i] != 0)
      length += (size_t)snprintf(text + length, CLEAT__TOPOLOGY_TEXT_MAX - length, "%s\"%s\":%u", length > 1 ? "," : "",
                                 names[i], sizes[i]);
  (void)snprintf(text + length, CLEAT__TOPOLOGY_TEXT_MAX - length, "}");
}

void cleat__topology_read(const char *json, struct cleat_topology *topology) {
  struct cleat__json_reader reader;
  struct cleat_error ignored;
  unsigned sizes[SIZES] = {0};
  uint32_t seen = 0;
  unsigned which = 0;
  cleat__json_reader_init(&reader, json, strlen(json), CLEAT__JSON_DEPTH_MAX, "topology", &ignored);
  cleat__json_object(&reader);
  while (cleat__json_field(&reader, names, SIZES, &seen, &which)) {
    uint64_t value = 0;
    if (cleat__json_uint(&reader, &value) && value <= CLEAT__WORLD_SIZE_MAX)
      sizes[which] = (unsigned)value;
  }
  cleat__json_reader_clear(&reader);
  *topology = (struct cleat_topology){sizes[DP], sizes[TP], sizes[PP], sizes[CP], sizes[EP]};
}

/* Appends the text, as far as there is room. */
static size_t add(char *text, size_t size, size_t length, const char *what, unsigned saved, unsigned now) {
  char *at = length < size ? text + length : NULL;
  int added =
      snprintf(at, at != NULL ? size - length : 0, "%s%s %u, then %u", length > 0 ? "; " : "", what, saved, now);
  return length + (added > 0 ? (size_t)added : 0);
}

size_t cleat__topology_differences(const struct cleat_topology *saved, unsigned saved_ranks,
                                   const struct cleat_topology *now, unsigned ranks_now, char *text, size_t size) {
  unsigned before[SIZES], after[SIZES];
  size_t length = 0;
  spread(saved, before);
  spread(now, after);
  if (size > 0)
    text[0] = '\0';
  if (saved_ranks != ranks_now)
    length = add(text, size, length, "ranks", saved_ranks, ranks_now);
  for (unsigned i = 0; i < SIZES; i++)
    if (before[i] != 0 && after[i] != 0 && before[i] != after[i])
      length = add(text, size, length, names[i], before[i], after[i]);
  return length;
}
