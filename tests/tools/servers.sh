#!/usr/bin/env bash
# The S3 servers that the integration tests run on: MinIO and versitygw, each over HTTP and over HTTPS with a private
# CA.
#
#   servers.sh start DIR    starts all; prints shell lines: those of minio.sh for the first one, which most tests use,
#                           and CLEAT_TEST_SERVERS=DIR/known. That folder has a file for each server (minio-http,
#                           minio-https, versitygw-http, versitygw-https) with the shell lines of that server
#   servers.sh stop DIR     stops all that run
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

stop_all() {
  local known name pid
  for known in "$dir"/known/*; do
    pid=$(sed -n 's/^[A-Z0-9]*_PID=//p' "$known" 2>/dev/null || true)
    name=${known##*/}
    [ -z "$pid" ] || "$TOOLS/${name%-*}.sh" stop "$pid"
  done
}

# start_one PROGRAM SCHEME
start_one() {
  local name=$1-$2 tls=
  [ "$2" = http ] || tls=$dir/tls
  "$TOOLS/$1.sh" start "$dir/$name" "$tls" >"$dir/known/$name"
}

start_all() {
  local program scheme
  trap stop_all EXIT
  trap 'exit 130' INT TERM HUP
  mkdir -p "$dir/known"
  "$TOOLS/certificates.sh" "$dir/tls"
  for program in minio versitygw; do
    for scheme in http https; do
      start_one "$program" "$scheme"
    done
  done
  cat "$dir/known/minio-http"
  echo "CLEAT_TEST_SERVERS=$dir/known"
  trap - EXIT INT TERM HUP
}

dir=${2:-}
[ -n "$dir" ] || die "usage: servers.sh start DIR | stop DIR"
case $1 in
start) start_all ;;
stop) stop_all ;;
*) die "usage: servers.sh start DIR | stop DIR" ;;
esac
