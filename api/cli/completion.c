/* completion.c: `cleat completion SHELL`: prints the completion script of a shell, made from the tables of commands and
 * options.
 *
 * Main thread. The scripts are self-contained and run no program. `make install` installs them where shells search. */
#include "api/cli/cli.h"

#include "api/run/layout.h"

#include <string.h>

/* How to complete an option's value. */
enum value { VALUE_NONE, VALUE_TEXT, VALUE_FILE, VALUE_FOLDER, VALUE_WORDS };

struct choice {
  const char *option;
  enum value value;
  const char *words; /* for VALUE_WORDS, separated by blanks; NULL: the layouts */
};

/* Options whose value is not just any text. */
static const struct choice choices[] = {
    {"if-exists", VALUE_WORDS, "fail skip replace"},
    {"layout", VALUE_WORDS, NULL},
    {"log", VALUE_WORDS, "human json"},
    {"dir", VALUE_FOLDER, NULL},
    {"metadata", VALUE_FILE, NULL},
    {"metrics-file", VALUE_FILE, NULL},
};

static const struct choice *choice_of(const struct cleat__cli_option *option) {
  static const struct choice none = {"", VALUE_NONE, ""}, text = {"", VALUE_TEXT, ""};
  for (size_t i = 0; i < sizeof choices / sizeof choices[0]; i++) {
    if (strcmp(choices[i].option, option->name) == 0)
      return &choices[i];
  }
  return option->has_value ? &text : &none;
}

static void put_words(const struct choice *choice) {
  const char *const *names = cleat__run_layout_names();
  if (choice->words != NULL)
    fputs(choice->words, stdout);
  for (size_t i = 0; choice->words == NULL && names[i] != NULL; i++)
    printf("%s%s", i > 0 ? " " : "", names[i]);
}

/* ---- bash ---- */

static void put_bash_values(void) {
  struct cleat__cli_option option;
  puts("  case $previous in");
  for (size_t i = 0; cleat__cli_option_at(i, &option); i++) {
    const struct choice *choice = choice_of(&option);
    if (choice->value == VALUE_NONE)
      continue;
    printf("  --%s%s%s) ", option.name, option.letter ? " | -" : "",
           option.letter ? (char[]){option.letter, '\0'} : "");
    if (choice->value == VALUE_WORDS) {
      fputs("mapfile -t COMPREPLY < <(compgen -W \"", stdout);
      put_words(choice);
      fputs("\" -- \"$current\")", stdout);
    } else if (choice->value == VALUE_TEXT) {
      fputs("COMPREPLY=()", stdout);
    } else {
      printf("mapfile -t COMPREPLY < <(compgen -%c -- \"$current\")", choice->value == VALUE_FOLDER ? 'd' : 'f');
    }
    puts("; return ;;");
  }
  puts("  esac");
}

static void put_bash(const struct cleat__cli_command *const *commands, size_t count) {
  struct cleat__cli_option option;
  puts("# bash completion for cleat\n"
       "_cleat() {\n"
       "  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} options=");
  fputs("  if [ \"$COMP_CWORD\" = 1 ]; then\n    mapfile -t COMPREPLY < <(compgen -W \"", stdout);
  for (size_t i = 0; i < count; i++)
    printf("%s ", commands[i]->name);
  puts("completion help version\" -- \"$current\")\n    return\n  fi");
  put_bash_values();
  puts("  case ${COMP_WORDS[1]} in");
  for (size_t i = 0; i < count; i++) {
    printf("  %s) options=\"", commands[i]->name);
    for (size_t j = 0; cleat__cli_option_at(j, &option); j++) {
      if (cleat__cli_takes_option(commands[i], &option))
        printf("--%s ", option.name);
    }
    puts("\" ;;");
  }
  puts("  completion) mapfile -t COMPREPLY < <(compgen -W \"bash fish zsh\" -- \"$current\"); "
       "return ;;\n"
       "  esac\n"
       "  case $current in\n"
       "  -*) mapfile -t COMPREPLY < <(compgen -W \"$options\" -- \"$current\") ;;\n"
       "  *) mapfile -t COMPREPLY < <(compgen -f -- \"$current\") ;;\n"
       "  esac\n"
       "}\n"
       "complete -o filenames -F _cleat cleat");
}

/* ---- zsh ---- */

static void put_zsh_option(const struct cleat__cli_option *option) {
  const struct choice *choice = choice_of(option);
  const char letter[] = {option->letter, '\0'};
  if (option->letter)
    printf(" '(-%s --%s)'{-%s,--%s}'", letter, option->name, letter, option->name);
  else
    printf(" '--%s", option->name);
  if (choice->value != VALUE_NONE)
    printf("=:%s:", option->name);
  if (choice->value == VALUE_WORDS) {
    fputs("(", stdout);
    put_words(choice);
    fputs(")", stdout);
  } else if (choice->value == VALUE_FILE || choice->value == VALUE_FOLDER) {
    fputs(choice->value == VALUE_FOLDER ? "_files -/" : "_files", stdout);
  }
  fputs("'", stdout);
}

static void put_zsh(const struct cleat__cli_command *const *commands, size_t count) {
  struct cleat__cli_option option;
  puts("#compdef cleat\n"
       "_cleat() {\n"
       "  local -a commands=(");
  for (size_t i = 0; i < count; i++)
    printf("    \"%s:%s\"\n", commands[i]->name, commands[i]->summary);
  puts("    'completion:print completions for a shell'\n"
       "    'help:tell more about a command'\n"
       "    'version:print the version'\n"
       "  )\n"
       "  if ((CURRENT == 2)); then\n"
       "    _describe command commands\n"
       "    return\n"
       "  fi\n"
       "  local command=$words[2]\n"
       "  shift words\n"
       "  ((CURRENT--))\n"
       "  case $command in");
  for (size_t i = 0; i < count; i++) {
    printf("  %s) _arguments -s", commands[i]->name);
    for (size_t j = 0; cleat__cli_option_at(j, &option); j++) {
      if (cleat__cli_takes_option(commands[i], &option))
        put_zsh_option(&option);
    }
    puts(" '*:file:_files' ;;");
  }
  puts("  completion) _values shell bash fish zsh ;;\n"
       "  esac\n"
       "}\n"
       "_cleat \"$@\"");
}

/* ---- fish ---- */

static void put_fish_option(const char *command, const struct cleat__cli_option *option) {
  const struct choice *choice = choice_of(option);
  printf("complete -c cleat -n '__fish_seen_subcommand_from %s' -l %s", command, option->name);
  if (option->letter)
    printf(" -s %c", option->letter);
  if (choice->value == VALUE_TEXT)
    fputs(" -x", stdout);
  if (choice->value == VALUE_FILE)
    fputs(" -r -F", stdout);
  if (choice->value == VALUE_FOLDER)
    fputs(" -x -a '(__fish_complete_directories)'", stdout);
  if (choice->value == VALUE_WORDS) {
    fputs(" -x -a '", stdout);
    put_words(choice);
    fputs("'", stdout);
  }
  puts("");
}

static void put_fish(const struct cleat__cli_command *const *commands, size_t count) {
  struct cleat__cli_option option;
  puts("# fish completion for cleat");
  for (size_t i = 0; i < count; i++) {
    printf("complete -c cleat -f -n __fish_use_subcommand -a %s -d \"%s\"\n", commands[i]->name, commands[i]->summary);
    for (size_t j = 0; cleat__cli_option_at(j, &option); j++) {
      if (cleat__cli_takes_option(commands[i], &option))
        put_fish_option(commands[i]->name, &option);
    }
  }
  puts("complete -c cleat -f -n __fish_use_subcommand -a completion -d 'print completions for a "
       "shell'\n"
       "complete -c cleat -f -n __fish_use_subcommand -a help -d 'tell more about a command'\n"
       "complete -c cleat -f -n __fish_use_subcommand -a version -d 'print the version'\n"
       "complete -c cleat -f -n '__fish_seen_subcommand_from completion' -a 'bash fish zsh'");
}

bool cleat__cli_print_completion(const char *shell, const struct cleat__cli_command *const *commands, size_t count) {
  if (strcmp(shell, "bash") == 0)
    put_bash(commands, count);
  else if (strcmp(shell, "fish") == 0)
    put_fish(commands, count);
  else if (strcmp(shell, "zsh") == 0)
    put_zsh(commands, count);
  else
    return false;
  return true;
}
