#!/usr/bin/env bash
# The checks of `make lint`: format, clang-tidy, the rules of lint_source.py (include directions, banned functions, file
# lengths, …), shellcheck and the exported symbols. All checks run. The exit status is 1 if one failed.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$ROOT"

result=0
report() {
  if [ "$1" = 0 ]; then
    echo "ok - $2"
  else
    echo "not ok - $2"
    result=1
  fi
}

listed() {
  git ls-files -co --exclude-standard -z -- "$@" | sort -zu | existing
}

# A file that git knows may have been removed.
existing() {
  local file
  while IFS= read -r -d '' file; do
    [ ! -e "$file" ] || printf '%s\0' "$file"
  done
}

# The formatter is pinned: two versions never agree on everything.
check_format() {
  local status=0
  listed '*.c' '*.h' | xargs -0 -r "$(dirname "$("$TOOLS/venv.sh")")/clang-format" --dry-run -Werror || status=$?
  report "$status" clang-format
}

# Headers are read through the files that include them (HeaderFilterRegex). What needs CUDA's header gets the
# stand-in's.
check_tidy() {
  local status=0 flags
  flags="$(run_make -s print-tidy-flags CUDA=0) -Iapi -isystem tests/fake_cudart -DCLEAT_FAKE_CUDART -DTRAINER_CUDA"
  # shellcheck disable=SC2086 # the flags are words
  listed '*.c' | xargs -0 -r -n 5000 "$TOOLS/tidy.py" "$CACHE/clang-tidy" $flags -- || status=$?
  report "$status" clang-tidy
}

check_shell() {
  local status=0
  listed '*.sh' .ci/run | xargs -0 -r shellcheck -x -S warning -P tests/tools -P tests/header || status=$?
  report "$status" shellcheck
}

check_symbols() {
  local status=0
  "$TOOLS/check_symbols.sh" api/cleat.h "${BUILD:-build}/libcleat.so" || status=$?
  report "$status" "exported symbols"
}

check_folders() {
  python3 "$TOOLS/check_folders.py" "$ROOT" "${BUILD:-build}/obj" || result=1
}

"$TOOLS/deps.sh" lint
run_make all >&2 || report 1 "the sources build"
python3 "$TOOLS/lint_selftest.py" || result=1
python3 "$TOOLS/mutants_selftest.py" || result=1
python3 "$TOOLS/check_folders_selftest.py" || result=1
python3 "$TOOLS/tidy_selftest.py" || result=1
python3 "$TOOLS/lint_source.py" || result=1
check_format
check_shell
check_symbols
check_folders
[ "${1:-}" = quick ] || check_tidy # most of the time of all this, unless its results are known
exit $result
