#!/usr/bin/env bash
# cleat.h stands alone: as C11 and as C++17, pedantic, with gcc and with clang, included first or twice.
set -euo pipefail
source "$(dirname "$0")/checks.sh"

printf '#include "cleat.h"\n#include "cleat.h"\nint main(void) { return cleat_version() == 0; }\n' >"$work/a.c"
cp "$work/a.c" "$work/a.cc"
cp "$ROOT/api/cleat.h" "$work/cleat.h"
strict=(-pedantic -Wall -Wextra -Werror -I"$work" -fsyntax-only)

for compiler in gcc clang; do
  check "cleat.h is C11 for $compiler" "$compiler" -std=c11 -Wconversion -Wshadow -Wstrict-prototypes "${strict[@]}" "$work/a.c"
done
for compiler in g++ clang++; do
  check "cleat.h is C++17 for $compiler" "$compiler" -std=c++17 "${strict[@]}" "$work/a.cc"
done
exit $result
