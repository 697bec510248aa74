#!/usr/bin/env bash
# Installs missing Debian packages. If none is missing, it ends quickly and does nothing.
# usage: deps.sh GROUP…    groups: build server ceph swift go rust node java test fuzz lint metrics docs docker compose
#                                  debootstrap all
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

packages_of() {
  case $1 in
  build) echo gcc libc6-dev make pkg-config libcurl4-openssl-dev libssl-dev libexpat1-dev libcjson-dev libisal-dev ;;
  server) echo ca-certificates openssl python3 util-linux ;;
  ceph) echo "$(packages_of server)" ceph-mon ceph-osd radosgw ceph-common ;;
  swift) echo "$(packages_of server)" python3-swift python3-setuptools ;;
  go) echo ca-certificates golang-go ;;
  rust) echo ca-certificates gcc libc6-dev make pkg-config cargo-web rustc-web ;;
  node) echo ca-certificates nodejs npm ;;
  java) echo ca-certificates default-jre-headless maven ;;
  test) echo "$(packages_of build)" "$(packages_of server)" check g++ clang python3-venv libs3-2 \
    util-linux mount e2fsprogs mandoc openmpi-bin spin fish zsh ;;
  fuzz) echo "$(packages_of build)" clang libclang-rt-dev ;;
  docs) echo ca-certificates doxygen python3 python3-venv ;;
  docker) echo ca-certificates docker.io ;;
  compose) echo docker-compose ;;
  debootstrap) echo debootstrap ;;
  lint) echo "$(packages_of build)" git python3 check python3-venv ca-certificates clang clang-tidy shellcheck ;;
  metrics) echo git python3 universal-ctags ;;
  all) echo "$(packages_of test)" "$(packages_of fuzz)" "$(packages_of lint)" ;;
  *) die "unknown group '$1'" ;;
  esac
}

is_installed() {
  [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

missing_packages() {
  local package
  for package in $(printf '%s\n' "$@" | sort -u); do
    is_installed "$package" || echo "$package"
  done
}

# apt-get as root, or by sudo.
as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    die "need root or sudo to install: ${missing[*]}"
  fi
}

# One process at a time owns dpkg; another one (a parallel make, unattended upgrades) may hold it for a while.
apt_get() {
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 "$@"
}

[ $# -gt 0 ] || die "usage: deps.sh GROUP…"
wanted=()
for group in "$@"; do
  read -r -a packages <<<"$(packages_of "$group")"
  wanted+=("${packages[@]}")
done
if ! command -v dpkg-query >/dev/null; then
  die "not a Debian system: install the equivalents of: ${wanted[*]}"
fi

mapfile -t missing < <(missing_packages "${wanted[@]}")
if [ ${#missing[@]} -gt 0 ]; then
  say "installing: ${missing[*]}"
  apt_get update >&2
  apt_get install -y --no-install-recommends "${missing[@]}" >&2
fi
