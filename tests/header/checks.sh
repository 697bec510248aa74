# shellcheck shell=bash disable=SC2034
# Sourced by the header tests: one line "ok - …" or "not ok - …" for each check, and a scratch folder.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
BUILD=$ROOT/${BUILD:-build}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
result=0

# check NAME COMMAND…: the command's output is shown if it fails.
check() {
  local name=$1
  shift
  if "$@" >"$work/.output" 2>&1; then
    echo "ok - $name"
  else
    cat "$work/.output"
    echo "not ok - $name"
    result=1
  fi
}

# Installs the build into $work/root, as a packager would.
install_tree() {
  "${MAKE:-make}" --no-print-directory -C "$ROOT" install DESTDIR="$work/root" PREFIX=/usr/local
}

installed_flags() {
  PKG_CONFIG_PATH=$work/root/usr/local/lib/pkgconfig \
    pkg-config --define-variable=prefix="$work/root/usr/local" "$@" cleat
}
