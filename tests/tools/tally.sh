# shellcheck shell=bash
# Sourced by scripts that run checks one after another. Each check prints a line "ok - …" or "not ok - …". The last line
# is "N passed, M failed", which .ci/run adds up.

passed=0
failed=0

# check NAME COMMAND…: what the command says is shown.
check() {
  local what=$1
  shift
  if "$@"; then
    echo "ok - $what"
    passed=$((passed + 1))
  else
    echo "not ok - $what"
    failed=$((failed + 1))
  fi
}

# Ends the script. A run that checked nothing has failed.
finish() {
  echo "$passed passed, $failed failed"
  exit $((failed > 0 || passed == 0))
}
