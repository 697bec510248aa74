#!/usr/bin/env bash
# The C examples of README.md and of the pages in docs/ compile against the installed tree, as printed, and whole
# programs run. README.md has lines alone, which stand in a function here.
set -euo pipefail
source "$(dirname "$0")/checks.sh"

readonly WORDS_MAX=700

# The nth ```c block of a page.
extract() {
  awk -v n="$2" '/^```/ { if (inside) exit; inside = ($0 == "```c" && ++seen == n); next } inside' "$ROOT/$1" \
    >"$work/example.c"
  [ -s "$work/example.c" ]
}

blocks() {
  grep -c '^```c$' "$ROOT/$1"
}

# CUDA is the stand-in's header.
compile_alone() {
  # shellcheck disable=SC2046 # the flags are words
  gcc -std=c11 -Wall -Wextra -Werror -I"$ROOT/tests/fake_cudart" -c "$work/example.c" $(installed_flags --cflags) \
    -o "$work/example.o"
}

lines_compile() {
  extract README.md "$1" && {
    echo '#include <cleat.h>'
    echo 'cleat_status example(struct cleat_client *client, const struct cleat_tensor *tensors, size_t count);'
    echo 'cleat_status example(struct cleat_client *client, const struct cleat_tensor *tensors, size_t count) {'
    echo 'struct cleat_save *save = NULL; struct cleat_error err; cleat_status status;'
    cat "$work/example.c"
    echo 'return status; }'
  } >"$work/lines.c" && mv "$work/lines.c" "$work/example.c" && compile_alone
}

example_compiles() {
  extract "$1" "$2" && compile_alone
}

program_runs() {
  extract "$1" "$2" || return 1
  # shellcheck disable=SC2046 # the flags are words
  gcc -std=c11 -Wall -Wextra -Werror "$work/example.c" $(installed_flags --cflags --libs) -o "$work/example" || return 1
  mkdir -p "$work/cwd"
  (cd "$work/cwd" && HOME=$work/cwd LD_LIBRARY_PATH=$work/root/usr/local/lib "$work/example")
}

short() {
  [ "$(wc -w <"$ROOT/README.md")" -le "$WORDS_MAX" ]
}

check "README.md has at most $WORDS_MAX words" short
check "README.md has a C example" extract README.md 1
check "make install" install_tree
# What the program names as its store, and nothing that was there before.
readonly STORE=/tmp/cleat-run-17
[ -e "$STORE" ] && existed=yes || existed=
for ((i = 1; i <= $(blocks README.md); i++)); do
  check "README.md: the lines of example $i compile" lines_compile "$i"
done
programs=0
for page in "$ROOT"/docs/*.md; do
  page=docs/$(basename "$page")
  for ((i = 1; i <= $(blocks "$page" || true); i++)); do
    check "$page: example $i compiles" example_compiles "$page" "$i"
    if grep -q '^int main(' "$work/example.c"; then
      programs=$((programs + 1))
      check "$page: example $i runs" program_runs "$page" "$i"
    fi
  done
done
check "the pages have a whole program" [ "$programs" -gt 0 ]
[ -n "$existed" ] || rm -rf "$STORE"
exit $result
