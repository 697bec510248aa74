# shellcheck shell=bash disable=SC2034
# Sourced by the scripts of this folder: paths of the repository and the caches, and functions for messages.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
TOOLS=$ROOT/tests/tools
CACHE=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/cleat

say() {
  printf '%s\n' "== $*" >&2
}

die() {
  printf '%s\n' "${0##*/}: $*" >&2
  exit 1
}

# The arguments for a make that a script starts: as many jobs as cores, unless the caller's make deals them out.
make_jobs() {
  case ${MAKEFLAGS:-} in
  *--jobserver*) ;;
  *) printf -- '-j%s' "$(nproc)" ;;
  esac
}

run_make() {
  # shellcheck disable=SC2046 # no argument at all when there is nothing to say
  "${MAKE:-make}" --no-print-directory -C "$ROOT" $(make_jobs) "$@"
}
