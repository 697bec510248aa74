#!/usr/bin/env bash
# Each public header stands alone: as C11 and as C++17, pedantic, with gcc and with clang, included first or twice. They
# lie where they are installed, and nothing else of ours is beside them.
set -euo pipefail
source "$(dirname "$0")/checks.sh"

mkdir -p "$work/include/cleat"
cp "$ROOT/api/cleat.h" "$work/include"
cp "$ROOT"/api/cleat/*.h "$work/include/cleat"
strict=(-pedantic -Wall -Wextra -Werror -I"$work/include" -fsyntax-only)

# compiles HEADER: with all four compilers.
compiles() {
  local compiler
  printf '#include <%s>\n#include <%s>\nint main(void) { return 0; }\n' "$1" "$1" >"$work/a.c"
  cp "$work/a.c" "$work/a.cc"
  for compiler in gcc clang; do
    "$compiler" -std=c11 -Wconversion -Wshadow -Wstrict-prototypes "${strict[@]}" "$work/a.c" || return 1
  done
  for compiler in g++ clang++; do
    "$compiler" -std=c++17 "${strict[@]}" "$work/a.cc" || return 1
  done
}

# The umbrella has the declarations of all of them.
includes_every_header() {
  local header
  for header in "$ROOT"/api/cleat/*.h; do
    grep -qxF "#include \"cleat/${header##*/}\"" "$ROOT/api/cleat.h" || { echo "not in cleat.h: $header"; return 1; }
  done
}

for header in cleat.h $(cd "$ROOT/api" && echo cleat/*.h); do
  check "$header is C11 and C++17" compiles "$header"
done
check "cleat.h includes every header" includes_every_header
exit $result
