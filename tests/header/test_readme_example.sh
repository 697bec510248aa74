#!/usr/bin/env bash
# The C examples in README.md compile against the installed tree, and the first one runs, as printed.
set -euo pipefail
source "$(dirname "$0")/checks.sh"

# The nth ```c block.
extract() {
  awk -v n="$1" '/^```/ { if (inside) exit; inside = ($0 == "```c" && ++seen == n); next } inside' "$ROOT/README.md" \
    >"$work/example.c"
  [ -s "$work/example.c" ]
}

# A function of an example, without a program around it; CUDA is the stand-in's header.
compile_alone() {
  extract "$1" || return 1
  # shellcheck disable=SC2046 # the flags are words
  gcc -std=c11 -Wall -Wextra -Werror -I"$ROOT/tests/fake_cudart" -c "$work/example.c" $(installed_flags --cflags) \
    -o "$work/example.o"
}

compile() {
  # shellcheck disable=SC2046 # the flags are words
  gcc -std=c11 -Wall -Wextra -Werror "$work/example.c" $(installed_flags --cflags --libs) -o "$work/example"
}

run() {
  mkdir "$work/cwd"
  cd "$work/cwd" && HOME=$work/cwd LD_LIBRARY_PATH=$work/root/usr/local/lib "$work/example"
}

check "README.md has a C example" extract 1
check "make install" install_tree
check "the example compiles" compile
# What the example names as its store, and nothing that was there before.
readonly STORE=/tmp/cleat-run-17
[ -e "$STORE" ] && existed=yes || existed=
check "the example runs" run
check "the example of CUDA compiles" compile_alone 2
check "the example of a loop compiles" compile_alone 3
check "the example of ranks compiles" compile_alone 4
[ -n "$existed" ] || rm -rf "$STORE"
exit $result
