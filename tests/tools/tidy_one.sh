#!/usr/bin/env bash
# Runs clang-tidy on some files, and prints what it says only if it found something: it is chatty otherwise,
# and its lines would mix with those of its neighbours. usage: tidy_one.sh FLAG… -- FILE…
set -euo pipefail

flags=()
while [ "$1" != -- ]; do
  flags+=("$1")
  shift
done
shift
if ! output=$(clang-tidy --quiet "$@" -- "${flags[@]}" 2>&1); then
  printf '%s\n' "$output" | grep -v ' warnings\? generated\.$\|^Suppressed \|^Use -header-filter' || true
  exit 1
fi
