/* pickle.c: see pickle.h.
 *
 * A value on the stack or in the memo is one word. Its low bits have its kind, the others what is known of it. A text
 * is known by the position of its opcode, and read again when it matters. */
#include "api/run/pickle.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

enum {
  /* values on the stack; Python's own pickles need a few thousand, because it writes items in batches */
  STACK_MAX = 1 << 20,
  PROTOCOL_MIN = 2,
  PROTOCOL_MAX = 5
};

/* ---- Values -------------------------------------------------------------------------------------- */

enum kind {
  OTHER = 0,
  MARK,
  TEXT,   /* with the position of its opcode */
  NUMBER, /* with its value */
  CLASS,  /* the class that is searched for */
  OBJECT, /* an object of that class */
  DICT,   /* with the position of the text that is searched for, or 0 */
  SHARED  /* another reference to a dict: what is added to it is in the other one too */
};

enum { KIND_BITS = 3 };

static uint64_t value_of(enum kind kind, uint64_t more) {
  return more << KIND_BITS | kind;
}

static enum kind kind_of(uint64_t value) {
  return (enum kind)(value & ((1 << KIND_BITS) - 1));
}

/* ---- Opcodes ------------------------------------------------------------------------------------- */

/* What follows an opcode. */
enum argument {
  NO_OPCODE = 0,
  NOTHING,
  BYTES_1, /* a little-endian number of that many bytes */
  BYTES_2,
  BYTES_4,
  BYTES_8,
  SIZED_1, /* a length in that many bytes, and then the data */
  SIZED_4,
  SIZED_8,
  LINES /* two lines */
};

enum effect {
  PASS = 0,
  STOP,
  PUSH,      /* pops `pops` values and pushes one of no interest */
  POP,       /* pops `pops` values */
  POP_MARK,  /* pops everything down to the mark */
  PUSH_MARK, /* pushes a mark */
  PUSH_DICT,
  PUSH_TEXT,
  PUSH_NUMBER,
  FOLD, /* replaces everything down to the mark by one value */
  ADD,  /* adds everything down to the mark to the value below it */
  ITEM, /* adds one key and its value to the dict below */
  ITEMS,
  COPY, /* pushes the top value once more */
  NAMED_CLASS,
  STACK_CLASS,
  CALL,
  NEW_OBJECT,
  BUILD,
  GET,
  PUT,
  MEMOIZE
};

struct opcode {
  uint8_t argument;
  uint8_t effect;
  uint8_t pops;
};

static const struct opcode opcodes[256] = {
    [0x80] = {BYTES_1, PASS, 0}, /* PROTO */
    [0x95] = {BYTES_8, PASS, 0}, /* FRAME */
    ['.'] = {NOTHING, STOP, 1},         ['('] = {NOTHING, PUSH_MARK, 0}, ['0'] = {NOTHING, POP, 1},
    ['1'] = {NOTHING, POP_MARK, 0},     ['2'] = {NOTHING, COPY, 0},      ['N'] = {NOTHING, PUSH, 0}, /* None */
    [0x88] = {NOTHING, PUSH, 0},                                                                     /* True */
    [0x89] = {NOTHING, PUSH, 0},                                                                     /* False */
    ['J'] = {BYTES_4, PUSH_NUMBER, 0},                              /* BININT, which is signed */
    ['K'] = {BYTES_1, PUSH_NUMBER, 0},                              /* BININT1 */
    ['M'] = {BYTES_2, PUSH_NUMBER, 0},                              /* BININT2 */
    ['G'] = {BYTES_8, PUSH, 0},                                     /* BINFLOAT */
    [0x8a] = {SIZED_1, PUSH, 0},                                    /* LONG1 */
    [0x8b] = {SIZED_4, PUSH, 0},                                    /* LONG4 */
    ['X'] = {SIZED_4, PUSH_TEXT, 0},                                /* BINUNICODE */
    [0x8c] = {SIZED_1, PUSH_TEXT, 0},                               /* SHORT_BINUNICODE */
    [0x8d] = {SIZED_8, PUSH_TEXT, 0},                               /* BINUNICODE8 */
    ['B'] = {SIZED_4, PUSH, 0},                                     /* BINBYTES */
    ['C'] = {SIZED_1, PUSH, 0},                                     /* SHORT_BINBYTES */
    [0x8e] = {SIZED_8, PUSH, 0},                                    /* BINBYTES8 */
    [0x96] = {SIZED_8, PUSH, 0},                                    /* BYTEARRAY8 */
    ['T'] = {SIZED_4, PUSH, 0},                                     /* BINSTRING, of Python 2 */
    ['U'] = {SIZED_1, PUSH, 0},                                     /* SHORT_BINSTRING */
    [']'] = {NOTHING, PUSH, 0},                                     /* EMPTY_LIST */
    [')'] = {NOTHING, PUSH, 0},                                     /* EMPTY_TUPLE */
    [0x8f] = {NOTHING, PUSH, 0},                                    /* EMPTY_SET */
    ['}'] = {NOTHING, PUSH_DICT, 0},                                /* EMPTY_DICT */
    ['a'] = {NOTHING, POP, 1},                                      /* APPEND */
    ['e'] = {NOTHING, ADD, 0},                                      /* APPENDS */
    [0x90] = {NOTHING, ADD, 0},                                     /* ADDITEMS */
    [0x91] = {NOTHING, FOLD, 0},                                    /* FROZENSET */
    ['t'] = {NOTHING, FOLD, 0},                                     /* TUPLE */
    ['l'] = {NOTHING, FOLD, 0},                                     /* LIST */
    [0x85] = {NOTHING, PUSH, 1},                                    /* TUPLE1 */
    [0x86] = {NOTHING, PUSH, 2},                                    /* TUPLE2 */
    [0x87] = {NOTHING, PUSH, 3},                                    /* TUPLE3 */
    ['s'] = {NOTHING, ITEM, 0},                                     /* SETITEM */
    ['u'] = {NOTHING, ITEMS, 0},                                    /* SETITEMS */
    ['c'] = {LINES, NAMED_CLASS, 0},                                /* GLOBAL */
    [0x93] = {NOTHING, STACK_CLASS, 0},                             /* STACK_GLOBAL */
    ['R'] = {NOTHING, CALL, 2},                                     /* REDUCE */
    [0x81] = {NOTHING, NEW_OBJECT, 1},                              /* NEWOBJ */
    [0x92] = {NOTHING, NEW_OBJECT, 2},                              /* NEWOBJ_EX */
    ['b'] = {NOTHING, BUILD, 0},        ['h'] = {BYTES_1, GET, 0},  /* BINGET */
    ['j'] = {BYTES_4, GET, 0},                                      /* LONG_BINGET */
    ['q'] = {BYTES_1, PUT, 0},                                      /* BINPUT */
    ['r'] = {BYTES_4, PUT, 0},                                      /* LONG_BINPUT */
    [0x94] = {NOTHING, MEMOIZE, 0},     ['Q'] = {NOTHING, PUSH, 1}, /* BINPERSID */
};

/* ---- Executing ----------------------------------------------------------------------------------- */

/* A growing array of words. */
struct words {
  uint64_t *items;
  size_t count, capacity;
};

struct walk {
  const uint8_t *bytes;
  size_t size;
  size_t at;      /* the position after what was read */
  size_t begin;   /* the position of the present opcode */
  uint64_t given; /* its argument: the number, or the length */
  const struct cleat__run_pickle_query *query;
  struct cleat__run_pickle_answer *answer;
  struct words stack, memo;
  struct words found; /* positions of texts */
  size_t made, built; /* objects of the class */
  struct cleat_error *err;
  cleat_status status; /* the first failure */
  bool over;
};

static bool refuse(struct walk *walk, const char *why) {
  if (walk->status == CLEAT_OK)
    walk->status = cleat__error_set(walk->err, CLEAT_FORMAT, "not understood at byte %zu: %s", walk->begin, why);
  return false;
}

static bool refuse_cut(struct walk *walk) {
  walk->answer->cut = walk->status == CLEAT_OK;
  return refuse(walk, "it is cut off");
}

static bool add(struct walk *walk, struct words *words, uint64_t word) {
  uint64_t *items = cleat__grow(words->items, &words->capacity, words->count, sizeof *items);
  if (!items) {
    walk->status = cleat__error_no_memory(walk->err, "reading a pickle");
    return false;
  }
  words->items = items;
  items[words->count++] = word;
  return true;
}

static bool push(struct walk *walk, uint64_t value) {
  if (walk->stack.count >= STACK_MAX) {
    walk->status = cleat__error_set(walk->err, CLEAT_LIMIT, "over the limit of %d values on the stack", (int)STACK_MAX);
    return false;
  }
  return add(walk, &walk->stack, value);
}

/* Reads the top value. Refuses a mark. */
static bool peek(struct walk *walk, uint64_t *value) {
  if (walk->stack.count == 0 || kind_of(walk->stack.items[walk->stack.count - 1]) == MARK)
    return refuse(walk, "a value is missing");
  *value = walk->stack.items[walk->stack.count - 1];
  return true;
}

static bool pop(struct walk *walk, uint64_t *value) {
  if (!peek(walk, value))
    return false;
  walk->stack.count--;
  return true;
}

static bool pop_some(struct walk *walk, unsigned count) {
  uint64_t value = 0;
  while (count-- > 0)
    if (!pop(walk, &value))
      return false;
  return true;
}

/* Finds where the values above the top mark begin. */
static bool find_mark(struct walk *walk, size_t *first) {
  size_t at = walk->stack.count;
  while (at > 0 && kind_of(walk->stack.items[at - 1]) != MARK)
    at--;
  if (at == 0)
    return refuse(walk, "a mark is missing");
  *first = at;
  return true;
}

static bool pop_mark(struct walk *walk) {
  size_t first = 0;
  if (!find_mark(walk, &first))
    return false;
  walk->stack.count = first - 1;
  return true;
}

/* ---- Arguments ----------------------------------------------------------------------------------- */

static bool read_number(struct walk *walk, unsigned bytes) {
  if (walk->size - walk->at < bytes)
    return refuse_cut(walk);
  walk->given = 0;
  for (unsigned i = 0; i < bytes; i++)
    walk->given |= (uint64_t)walk->bytes[walk->at + i] << (8 * i);
  walk->at += bytes;
  return true;
}

static bool read_sized(struct walk *walk, unsigned bytes) {
  if (!read_number(walk, bytes))
    return false;
  if (walk->size - walk->at < walk->given)
    return refuse_cut(walk);
  walk->at += (size_t)walk->given;
  return true;
}

static bool read_line(struct walk *walk, const char **line, size_t *length) {
  const uint8_t *begin = walk->bytes + walk->at;
  const uint8_t *end = memchr(begin, '\n', walk->size - walk->at);
  if (!end)
    return refuse_cut(walk);
  *line = (const char *)begin;
  *length = (size_t)(end - begin);
  walk->at += *length + 1;
  return true;
}

static bool read_argument(struct walk *walk, unsigned argument) {
  switch ((enum argument)argument) {
  case NOTHING:
  case LINES: /* the lines are read where they matter */
    return true;
  case BYTES_1:
    return read_number(walk, 1);
  case BYTES_2:
    return read_number(walk, 2);
  case BYTES_4:
    return read_number(walk, 4);
  case BYTES_8:
    return read_number(walk, 8);
  case SIZED_1:
    return read_sized(walk, 1);
  case SIZED_4:
    return read_sized(walk, 4);
  case SIZED_8:
    return read_sized(walk, 8);
  case NO_OPCODE:
    break;
  }
  return refuse(walk, "an unknown opcode");
}

/* ---- Texts --------------------------------------------------------------------------------------- */

/* The bytes of the text whose opcode is at `place`. That opcode was checked before. */
static const char *text_at(const struct walk *walk, size_t place, size_t *length) {
  unsigned argument = opcodes[walk->bytes[place]].argument;
  unsigned bytes = argument == SIZED_1 ? 1 : argument == SIZED_4 ? 4 : 8;
  uint64_t count = 0;
  for (unsigned i = 0; i < bytes; i++)
    count |= (uint64_t)walk->bytes[place + 1 + i] << (8 * i);
  *length = (size_t)count;
  return (const char *)walk->bytes + place + 1 + bytes;
}

static bool is_text(const struct walk *walk, uint64_t value, const char *wanted) {
  size_t length;
  if (kind_of(value) != TEXT || !wanted)
    return false;
  const char *text = text_at(walk, (size_t)(value >> KIND_BITS), &length);
  return length == strlen(wanted) && memcmp(text, wanted, length) == 0;
}

/* ---- Effects ------------------------------------------------------------------------------------- */

static bool put_item(struct walk *walk, uint64_t *dict, uint64_t key, uint64_t value) {
  bool wanted = is_text(walk, key, walk->query->text_key);
  if (wanted && kind_of(*dict) == SHARED)
    return refuse(walk, "a dict that is changed through a second reference");
  if (wanted && kind_of(*dict) == DICT)
    *dict = value_of(DICT, kind_of(value) == TEXT ? value >> KIND_BITS : 0);
  for (unsigned i = 0; i < CLEAT__RUN_PICKLE_NUMBERS; i++)
    if (kind_of(value) == NUMBER && walk->answer->numbers[i] < 0 && is_text(walk, key, walk->query->number_keys[i]))
      walk->answer->numbers[i] = (int64_t)(value >> KIND_BITS);
  return true;
}

/* The value that a second reference to `value` pushes. */
static uint64_t again(uint64_t value) {
  switch (kind_of(value)) {
  case DICT:
    return value_of(SHARED, 0);
  case OBJECT:
    return value_of(OTHER, 0);
  default:
    return value;
  }
}

static bool do_item(struct walk *walk) {
  uint64_t key = 0, value = 0, dict = 0;
  if (!pop(walk, &value) || !pop(walk, &key) || !peek(walk, &dict))
    return false;
  return put_item(walk, &walk->stack.items[walk->stack.count - 1], key, value);
}

static bool do_items(struct walk *walk) {
  size_t first = 0, end = walk->stack.count;
  uint64_t dict = 0;
  if (!pop_mark(walk) || !peek(walk, &dict))
    return false;
  first = walk->stack.count + 1;
  if ((end - first) % 2)
    return refuse(walk, "a key without a value");
  uint64_t *items = walk->stack.items;
  bool good = true;
  for (size_t i = first; i < end && good; i += 2)
    good = put_item(walk, &items[first - 2], items[i], items[i + 1]);
  return good;
}

static bool do_number(struct walk *walk) {
  bool negative = walk->given > INT32_MAX;
  return push(walk, negative ? value_of(OTHER, 0) : value_of(NUMBER, walk->given));
}

static bool do_named_class(struct walk *walk) {
  const char *module = "", *name = "", *wanted = walk->query->class_name;
  size_t module_length = 0, length = 0;
  if (!read_line(walk, &module, &module_length) || !read_line(walk, &name, &length))
    return false;
  bool known = wanted && length == strlen(wanted) && memcmp(name, wanted, length) == 0;
  return push(walk, value_of(known ? CLASS : OTHER, 0));
}

static bool do_stack_class(struct walk *walk) {
  uint64_t name = 0, module = 0;
  if (!pop(walk, &name) || !pop(walk, &module))
    return false;
  if (kind_of(name) != TEXT || kind_of(module) != TEXT)
    return refuse(walk, "a class without a name");
  return push(walk, value_of(is_text(walk, name, walk->query->class_name) ? CLASS : OTHER, 0));
}

/* Refuses a call of the class: it could make any object. */
static bool do_call(struct walk *walk) {
  uint64_t arguments = 0, function = 0;
  if (!pop(walk, &arguments) || !pop(walk, &function))
    return false;
  if (kind_of(function) == CLASS)
    return refuse(walk, "an object that a call makes");
  return push(walk, value_of(OTHER, 0));
}

static bool do_new_object(struct walk *walk, unsigned arguments) {
  uint64_t class = 0;
  if (!pop_some(walk, arguments) || !pop(walk, &class))
    return false;
  walk->made += kind_of(class) == CLASS;
  return push(walk, value_of(kind_of(class) == CLASS ? OBJECT : OTHER, 0));
}

static bool do_build(struct walk *walk) {
  uint64_t state = 0, object = 0;
  if (!pop(walk, &state) || !peek(walk, &object))
    return false;
  if (kind_of(object) != OBJECT)
    return true;
  if (kind_of(state) != DICT || state >> KIND_BITS == 0)
    return refuse(walk, "an object without its text");
  walk->built++;
  walk->stack.items[walk->stack.count - 1] = value_of(OTHER, 0);
  return add(walk, &walk->found, state >> KIND_BITS);
}

static bool do_get(struct walk *walk) {
  if (walk->given >= walk->memo.count)
    return refuse(walk, "a memo number that was not stored");
  return push(walk, walk->memo.items[walk->given]);
}

/* Stores a value in the memo. Picklers number memo entries consecutively, so the memo is no longer than the pickle. */
static bool do_put(struct walk *walk, uint64_t index) {
  uint64_t value = 0;
  if (!peek(walk, &value))
    return false;
  if (index > walk->memo.count)
    return refuse(walk, "a memo number out of order");
  if (index == walk->memo.count)
    return add(walk, &walk->memo, again(value));
  walk->memo.items[index] = again(value);
  return true;
}

static bool do_stop(struct walk *walk) {
  uint64_t value = 0;
  if (!pop(walk, &value))
    return false;
  if (walk->stack.count || (walk->at < walk->size && !walk->query->open_end))
    return refuse(walk, "it continues after its end");
  if (walk->made != walk->built)
    return refuse(walk, "an object without its state");
  walk->over = true;
  return true;
}

static bool do_fold(struct walk *walk) {
  return pop_mark(walk) && push(walk, value_of(OTHER, 0));
}

static bool do_add(struct walk *walk) {
  uint64_t list = 0;
  return pop_mark(walk) && peek(walk, &list);
}

static bool do_copy(struct walk *walk) {
  uint64_t value = 0;
  return peek(walk, &value) && push(walk, again(value));
}

static bool execute(struct walk *walk, const struct opcode *opcode) {
  switch ((enum effect)opcode->effect) {
  case PASS:
    return true;
  case STOP:
    return do_stop(walk);
  case PUSH:
    return pop_some(walk, opcode->pops) && push(walk, value_of(OTHER, 0));
  case POP:
    return pop_some(walk, opcode->pops);
  case POP_MARK:
    return pop_mark(walk);
  case PUSH_MARK:
    return push(walk, value_of(MARK, 0));
  case PUSH_DICT:
    return push(walk, value_of(DICT, 0));
  case PUSH_TEXT:
    return push(walk, value_of(TEXT, walk->begin));
  case PUSH_NUMBER:
    return do_number(walk);
  case FOLD:
    return do_fold(walk);
  case ADD:
    return do_add(walk);
  case ITEM:
    return do_item(walk);
  case ITEMS:
    return do_items(walk);
  case COPY:
    return do_copy(walk);
  case NAMED_CLASS:
    return do_named_class(walk);
  case STACK_CLASS:
    return do_stack_class(walk);
  case CALL:
    return do_call(walk);
  case NEW_OBJECT:
    return do_new_object(walk, opcode->pops);
  case BUILD:
    return do_build(walk);
  case GET:
    return do_get(walk);
  case PUT:
    return do_put(walk, walk->given);
  case MEMOIZE:
    return do_put(walk, walk->memo.count);
  }
  return false;
}

static bool step(struct walk *walk) {
  walk->begin = walk->at;
  if (walk->at >= walk->size)
    return refuse_cut(walk);
  const struct opcode *opcode = &opcodes[walk->bytes[walk->at++]];
  return read_argument(walk, opcode->argument) && execute(walk, opcode);
}

/* Reads the protocol, which comes first. */
static bool read_head(struct walk *walk) {
  if (walk->size == 0)
    return refuse_cut(walk);
  if (walk->bytes[0] != 0x80)
    return refuse(walk, "it is not a pickle of protocol 2 to 5");
  if (walk->size == 1)
    return refuse_cut(walk);
  if (walk->bytes[1] < PROTOCOL_MIN || walk->bytes[1] > PROTOCOL_MAX)
    return refuse(walk, "it is not a pickle of protocol 2 to 5");
  return true;
}

/* ---- The answer ---------------------------------------------------------------------------------- */

static int compare_words(const void *a, const void *b) {
  uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
  return (left > right) - (left < right);
}

static bool add_text(struct walk *walk, size_t place) {
  size_t length;
  const char *text = text_at(walk, place, &length);
  walk->begin = place;
  if (memchr(text, '\0', length))
    return refuse(walk, "a text with a NUL");
  char *copy = cleat__strndup(text, length);
  if (!copy)
    walk->status = cleat__error_no_memory(walk->err, "reading a pickle");
  else
    walk->status = cleat__run_names_add(&walk->answer->texts, copy, walk->err);
  cleat__free(copy);
  return walk->status == CLEAT_OK;
}

/* Collects the texts. One text may have many positions, and most objects have the same text as another one. */
static void take_texts(struct walk *walk) {
  struct words *found = &walk->found;
  if (found->count)
    qsort(found->items, found->count, sizeof *found->items, compare_words);
  for (size_t i = 0; i < found->count && walk->status == CLEAT_OK; i++)
    if (i == 0 || found->items[i] != found->items[i - 1])
      add_text(walk, (size_t)found->items[i]);
  cleat__run_names_sort(&walk->answer->texts);
  cleat__run_names_unique(&walk->answer->texts);
}

static void forget(struct cleat__run_pickle_answer *answer) {
  cleat__run_names_clear(&answer->texts);
  for (unsigned i = 0; i < CLEAT__RUN_PICKLE_NUMBERS; i++)
    answer->numbers[i] = -1;
}

cleat_status cleat__run_pickle_read(const void *bytes, size_t size, const struct cleat__run_pickle_query *query,
                                    struct cleat__run_pickle_answer *answer, struct cleat_error *err) {
  struct walk walk = {.bytes = bytes, .size = size, .query = query, .answer = answer, .err = err};
  *answer = (struct cleat__run_pickle_answer){0};
  forget(answer);
  if (read_head(&walk))
    while (!walk.over && step(&walk))
      continue;
  if (walk.status == CLEAT_OK)
    take_texts(&walk);
  if (walk.status != CLEAT_OK)
    forget(answer);
  cleat__free(walk.stack.items);
  cleat__free(walk.memo.items);
  cleat__free(walk.found.items);
  return walk.status;
}

void cleat__run_pickle_clear(struct cleat__run_pickle_answer *answer) {
  cleat__run_names_clear(&answer->texts);
}
