#!/usr/bin/env bash
# An s3s-fs for tests: a small S3 in Rust in front of a folder. Its lists claim to be url-encoded and are not. It lists
# no unfinished uploads. Usage is that of minio.sh, without TLS:
#
#   s3s_fs.sh install | start DIR | stop PID      start prints S3S_FS_PID=…, else what minio.sh prints
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
source "$TOOLS/go_server.sh"
source "$TOOLS/rust_server.sh"

readonly VERSION=0.14.1
readonly RUST_MINOR=92

install_s3s_fs() {
  "$TOOLS/deps.sh" server
  install_rust_program s3s-fs "$VERSION" "$RUST_MINOR" --features binary
}

# It answers nobody without a signature, so that a refusal is an answer too.
is_ready() {
  python3 - "$1" <<'PY' 2>/dev/null
import sys, urllib.error, urllib.request
try:
    urllib.request.build_opener(urllib.request.ProxyHandler({})).open(sys.argv[1], timeout=5)
except urllib.error.HTTPError as error:
    sys.exit(0 if error.code == 403 else 1)
PY
}

start_s3s_fs() {
  local dir=$1 program port user secret try
  program=$(install_s3s_fs)
  mkdir -p "$dir/data" "$dir/home"
  user=cleat-$(random_hex 4)
  secret=$(random_hex 16)
  for ((try = 0; try < START_TRIES; try++)); do
    port=$(free_ports 1)
    if start_server "http://127.0.0.1:$port/" "$dir/s3s-fs.log" env HOME="$dir/home" RUST_LOG=error "$program" \
      --host 127.0.0.1 --port "$port" --access-key "$user" --secret-key "$secret" "$dir/data"; then
      tell_server S3S_FS "http://127.0.0.1:$port" "$user" "$secret"
      return
    fi
  done
  cat "$dir/s3s-fs.log" >&2
  die "s3s-fs did not start in $START_TRIES tries; its log is above"
}

case ${1:-} in
install) install_s3s_fs ;;
start) start_s3s_fs "${2:?usage: s3s_fs.sh start DIR}" ;;
stop) stop_server "${2:?usage: s3s_fs.sh stop PID}" ;;
*) die "usage: s3s_fs.sh install | start DIR | stop PID" ;;
esac
