#!/usr/bin/env bash
# An s3rver for tests: a small S3 in JavaScript, which keeps objects as files of a folder. It ignores conditions and
# lists no unfinished uploads. An object that is being replaced looks empty for a moment. Usage is that of minio.sh,
# without TLS:
#
#   s3rver.sh install | start DIR | stop PID      start prints S3RVER_PID=…, else what minio.sh prints
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
source "$TOOLS/go_server.sh"

readonly S3RVER_VERSION=3.7.1
# Its indirect packages are those of this day.
readonly PACKAGES_BEFORE=2026-11-01

install_s3rver() {
  local folder=$CACHE/s3rver-$S3RVER_VERSION
  # It needs node to run, and npm to be installed.
  { command -v node && command -v npm; } >/dev/null || "$TOOLS/deps.sh" node >&2
  if [ ! -e "$folder/.complete" ]; then
    mkdir -p "$folder"
    exec 9>"$CACHE/.s3rver-lock"
    flock 9
    # The stamp comes last: an interrupted try is done again.
    if [ ! -e "$folder/.complete" ]; then
      say "installing s3rver $S3RVER_VERSION"
      npm install --silent --no-audit --no-fund --no-package-lock --before="$PACKAGES_BEFORE" --prefix "$folder" \
        "s3rver@$S3RVER_VERSION" >&2
      touch "$folder/.complete"
    fi
    exec 9>&-
  fi
  echo "$folder/node_modules/.bin/s3rver"
}

start_s3rver() {
  local dir=$1 program port try
  program=$(install_s3rver)
  mkdir -p "$dir/data" "$dir/home"
  for ((try = 0; try < START_TRIES; try++)); do
    port=$(free_ports 1)
    # It has one pair of keys, which cannot be chosen, and lists its buckets to whoever has it. It encrypts the token of
    # a list's next page with DES, which OpenSSL has only among its old ciphers.
    if start_server "http://127.0.0.1:$port/cleat-ready" "$dir/s3rver.log" \
      env HOME="$dir/home" NODE_OPTIONS=--openssl-legacy-provider "$program" --directory "$dir/data" \
      --address 127.0.0.1 --port "$port" --silent --no-vhost-buckets --configure-bucket cleat-ready; then
      tell_server S3RVER "http://127.0.0.1:$port" S3RVER S3RVER
      return
    fi
  done
  cat "$dir/s3rver.log" >&2
  die "s3rver did not start in $START_TRIES tries; its log is above"
}

case ${1:-} in
install) install_s3rver ;;
start) start_s3rver "${2:?usage: s3rver.sh start DIR}" ;;
stop) stop_server "${2:?usage: s3rver.sh stop PID}" ;;
*) die "usage: s3rver.sh install | start DIR | stop PID" ;;
esac
