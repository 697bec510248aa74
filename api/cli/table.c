/* table.c: prints columns for people.
 *
 * Cells are kept until the table is printed, because a column is as wide as its widest cell. A
 * table is used by one thread and owns its cells. */
#include "api/cli/cli.h"

#include "base/mem.h"
#include "base/utf8.h"

#include <stdarg.h>
#include <string.h>

enum { GAP = 2, COLUMNS_MAX = 8 };

void cleat__cli_table_init(struct cleat__cli_table *table, const char *align) {
  *table = (struct cleat__cli_table){.align = align};
}

void cleat__cli_table_clear(struct cleat__cli_table *table) {
  for (size_t i = 0; i < table->count; i++)
    cleat__free(table->cells[i]);
  cleat__free(table->cells);
  *table = (struct cleat__cli_table){.align = table->align};
}

void cleat__cli_table_add(struct cleat__cli_table *table, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(NULL, 0, format, arguments);
  va_end(arguments);
  char **cells = cleat__grow(table->cells, &table->capacity, table->count, sizeof *cells);
  table->cells = cells ? cells : table->cells;
  char *cell = cells && length >= 0 ? cleat__alloc((size_t)length + 1) : NULL;
  if (!cell) {
    table->failed = true;
    return;
  }
  va_start(arguments, format);
  vsnprintf(cell, (size_t)length + 1, format, arguments);
  va_end(arguments);
  table->cells[table->count++] = cell;
}

void cleat__cli_table_add_row(struct cleat__cli_table *table, const char *const *cells) {
  for (size_t i = 0; table->align[i]; i++)
    cleat__cli_table_add(table, "%s", cells[i]);
}

/* Finds the widest cell of each column. */
static void measure(const struct cleat__cli_table *table, size_t columns, size_t widths[COLUMNS_MAX]) {
  memset(widths, 0, COLUMNS_MAX * sizeof widths[0]);
  for (size_t i = 0; i < table->count; i++) {
    size_t width = cleat__cli_format_columns(table->cells[i]);
    if (width > widths[i % columns])
      widths[i % columns] = width;
  }
}

static void put_blanks(size_t count) {
  for (size_t i = 0; i < count; i++)
    fputc(' ', stdout);
}

/* Prints a cell, cut to `room` columns. 0: not cut. */
static void put_cell(const char *cell, size_t room) {
  static const char dots[] = "...";
  if (!room || cleat__cli_format_columns(cell) <= room) {
    cleat__cli_put_text(stdout, cell);
    return;
  }
  const char *end = cell + strlen(cell), *cut = cell;
  for (size_t columns = sizeof dots - 1; columns < room; columns++) {
    uint32_t code;
    size_t length = cleat__utf8_next(cut, end, &code);
    cut += length ? length : 1;
  }
  char *start = cleat__strndup(cell, (size_t)(cut - cell));
  cleat__cli_put_text(stdout, start ? start : "");
  fputs(dots, stdout);
  cleat__free(start);
}

/* Prints blanks only when text follows, so that no line ends in blanks. */
static void put_row(char *const *cells, const char *align, const size_t *widths, size_t indent, size_t room) {
  size_t blanks = indent;
  for (size_t i = 0; align[i]; i++) {
    bool right = align[i] == 'r', last = !align[i + 1];
    size_t fill = widths[i] - cleat__cli_format_columns(cells[i]);
    blanks += right ? fill : 0;
    if (*cells[i]) {
      put_blanks(blanks);
      blanks = 0;
      put_cell(cells[i], last && !right ? room : 0);
    }
    blanks += GAP + (right ? 0 : fill);
  }
  fputc('\n', stdout);
}

bool cleat__cli_table_print(const struct cleat__cli_table *table, unsigned indent, size_t width) {
  enum { LAST_MIN = 16 }; /* a cell with less room is useless */
  size_t widths[COLUMNS_MAX], columns = strlen(table->align), used = indent;
  if (table->failed)
    return false;
  measure(table, columns, widths);
  for (size_t i = 0; i + 1 < columns; i++)
    used += widths[i] + GAP;
  size_t room = !width ? 0 : width > used + LAST_MIN ? width - used : LAST_MIN;
  for (size_t i = 0; i + columns <= table->count; i += columns)
    put_row(table->cells + i, table->align, widths, indent, room);
  return true;
}
