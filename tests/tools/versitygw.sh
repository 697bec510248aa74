#!/usr/bin/env bash
# A versitygw server for tests, the second real S3 server. It keeps objects as files of a folder (its posix backend).
# Their metadata are in extended attributes, or in separate files if the file system has none. It is built once from its
# pinned source by `go install` and cached outside the tree. Usage is that of minio.sh:
#
#   versitygw.sh install | start DIR [TLS] | stop PID      start prints VERSITYGW_PID=…, else what minio.sh prints
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
source "$TOOLS/go_server.sh"

readonly VERSITYGW_VERSION=v1.7.0
# What its go.mod asks for, and the release that is fetched when the machine has only an older one.
readonly GO_MINOR_MIN=25
readonly GO_TOOLCHAIN=v0.0.1-go1.25.7

install_versitygw() {
  install_go_program "$VERSITYGW_VERSION" versitygw \
    "github.com/versity/versitygw/cmd/versitygw@$VERSITYGW_VERSION" "$GO_MINOR_MIN" "$GO_TOOLCHAIN"
}

has_attributes() {
  python3 - "$1" <<'PY' 2>/dev/null
import os, sys
os.setxattr(sys.argv[1], "user.cleat-test", b"1")
PY
}

start_versitygw() {
  local dir=$1 tls=${2:-} program port try user secret scheme=http options=() backend=()
  program=$(install_versitygw)
  "$TOOLS/deps.sh" server
  mkdir -p "$dir/data" "$dir/home"
  user=cleat-$(random_hex 4)
  secret=$(random_hex 16)
  if [ -n "$tls" ]; then
    scheme=https options=(--cert "$tls/server/public.crt" --key "$tls/server/private.key")
  fi
  if ! has_attributes "$dir/data"; then
    mkdir -p "$dir/meta"
    backend=(--sidecar "$dir/meta")
  fi
  for ((try = 0; try < START_TRIES; try++)); do
    port=$(free_ports 1)
    if start_server "$scheme://127.0.0.1:$port/health" "$dir/versitygw.log" \
      env HOME="$dir/home" ROOT_ACCESS_KEY="$user" ROOT_SECRET_KEY="$secret" \
      "$program" --quiet --health /health --port "127.0.0.1:$port" "${options[@]}" \
      posix "${backend[@]}" "$dir/data"; then
      tell_server VERSITYGW "$scheme://127.0.0.1:$port" "$user" "$secret" ${tls:+"$tls/ca.crt"}
      return
    fi
  done
  cat "$dir/versitygw.log" >&2
  die "versitygw did not start in $START_TRIES tries; its log is above"
}

case ${1:-} in
install) install_versitygw ;;
start) start_versitygw "${2:?usage: versitygw.sh start DIR [TLS]}" "${3:-}" ;;
stop) stop_server "${2:?usage: versitygw.sh stop PID}" ;;
*) die "usage: versitygw.sh install | start DIR [TLS] | stop PID" ;;
esac
