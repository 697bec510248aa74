#!/usr/bin/env bash
# A moto server for tests: a mock of AWS in Python, which keeps objects in memory and checks no signature. It is an
# example of stores that answer differently from AWS. It proves little about signing and checksums. Usage is that of
# minio.sh, without TLS:
#
#   moto.sh install | start DIR | stop PID      start prints MOTO_PID=…, else what minio.sh prints
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
source "$TOOLS/go_server.sh"

install_moto() {
  local python
  python=$("$TOOLS/venv.sh" moto)
  echo "${python%/*}/moto_server"
}

start_moto() {
  local dir=$1 program port try
  program=$(install_moto)
  mkdir -p "$dir/home"
  for ((try = 0; try < START_TRIES; try++)); do
    port=$(free_ports 1)
    if start_server "http://127.0.0.1:$port/moto-api/data.json" "$dir/moto.log" \
      env HOME="$dir/home" "$program" -H 127.0.0.1 -p "$port"; then
      tell_server MOTO "http://127.0.0.1:$port" cleat-moto cleat-moto-secret
      return
    fi
  done
  cat "$dir/moto.log" >&2
  die "moto did not start in $START_TRIES tries; its log is above"
}

case ${1:-} in
install) install_moto ;;
start) start_moto "${2:?usage: moto.sh start DIR}" ;;
stop) stop_server "${2:?usage: moto.sh stop PID}" ;;
*) die "usage: moto.sh install | start DIR | stop PID" ;;
esac
