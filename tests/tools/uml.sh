#!/usr/bin/env bash
# User Mode Linux: a Linux kernel as a program, for tests of features that the kernel of the machine may lack. It comes
# from a Debian package that is unpacked into the cache and not installed, so it needs no root.
#
#   uml.sh install    prints the path of the program and, on a second line, that of its modules; fails if not available
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# Downloads the newest of the machine's Debian release, once.
fetch() {
  local dir=$1 fresh
  command -v apt-get >/dev/null || die "apt-get is needed to download user-mode-linux"
  mkdir -p "$CACHE"
  fresh=$(mktemp -d "$CACHE/uml.XXXXXX")
  # shellcheck disable=SC2064 # the folder of now
  trap "rm -rf '$fresh'" EXIT
  say "downloading user-mode-linux (40 MB, once)"
  (cd "$fresh" && apt-get -q download user-mode-linux >&2) ||
    die "user-mode-linux cannot be downloaded"
  dpkg-deb -x "$fresh"/*.deb "$fresh/root"
  # Whoever was quicker has the same.
  mv -T "$fresh/root" "$dir" 2>/dev/null || [ -d "$dir" ]
}

install_uml() {
  local dir program modules
  [ "$(uname -m)" = x86_64 ] || die "there is no user-mode-linux for $(uname -m)"
  # shellcheck source=/dev/null
  dir=$CACHE/uml-$(. /etc/os-release && echo "${ID:-linux}-${VERSION_ID:-0}")
  [ -d "$dir" ] || fetch "$dir"
  program=$dir/usr/bin/linux.uml
  modules=$(find "$dir/usr/lib/uml/modules" -mindepth 1 -maxdepth 1 -type d | sort -V | tail -n 1)
  [ -x "$program" ] && [ -n "$modules" ] || die "$dir is not user-mode-linux"
  printf '%s\n%s\n' "$program" "$modules"
}

case ${1:-} in
install) install_uml ;;
*) die "usage: uml.sh install" ;;
esac
