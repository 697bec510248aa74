#!/usr/bin/env bash
# The C example in README.md compiles against the installed tree and runs, as printed.
set -euo pipefail
source "$(dirname "$0")/checks.sh"

# The first ```c block.
extract() {
  awk '/^```/ { if (inside) exit; inside = ($0 == "```c"); next } inside' "$ROOT/README.md" >"$work/example.c"
  [ -s "$work/example.c" ]
}

compile() {
  # shellcheck disable=SC2046 # the flags are words
  gcc -std=c11 -Wall -Wextra -Werror "$work/example.c" $(installed_flags --cflags --libs) -o "$work/example"
}

run() {
  mkdir "$work/cwd"
  cd "$work/cwd" && HOME=$work/cwd LD_LIBRARY_PATH=$work/root/usr/local/lib "$work/example"
}

check "README.md has a C example" extract
check "make install" install_tree
check "the example compiles" compile
# What the example names as its store, and nothing that was there before.
readonly STORE=/tmp/cleat-run-17
[ -e "$STORE" ] && existed=yes || existed=
check "the example runs" run
[ -n "$existed" ] || rm -rf "$STORE"
exit $result
