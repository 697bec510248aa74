#!/usr/bin/env bash
# A Garage for tests: one node and one replica, with all data, settings and logs in DIR. It ignores conditional writes.
# Usage is that of minio.sh, without TLS:
#
#   garage.sh install | start DIR | stop PID      start prints GARAGE_PID=…, else what minio.sh prints
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
source "$TOOLS/go_server.sh"
source "$TOOLS/rust_server.sh"

readonly VERSION=2.5.0
readonly RUST_MINOR=92

install_garage() {
  "$TOOLS/deps.sh" server
  install_rust_program garage "$VERSION" "$RUST_MINOR" --no-default-features --features bundled-libs,lmdb
}

# write_config DIR S3_PORT RPC_PORT ADMIN_PORT
write_config() {
  cat >"$1/garage.toml" <<CONFIG
metadata_dir = "$1/meta"
data_dir = "$1/data"
db_engine = "lmdb"
replication_factor = 1
rpc_bind_addr = "127.0.0.1:$3"
rpc_public_addr = "127.0.0.1:$3"
rpc_secret = "$(random_hex 32)"
allow_world_readable_secrets = true
[s3_api]
api_bind_addr = "127.0.0.1:$2"
s3_region = "us-east-1"
[admin]
api_bind_addr = "127.0.0.1:$4"
CONFIG
}

start_garage() {
  local dir program s3 rpc admin user secret try
  program=$(install_garage)
  mkdir -p "$1"
  dir=$(cd "$1" && pwd)
  # It takes keys of this form alone.
  user=GK$(random_hex 12)
  secret=$(random_hex 32)
  for ((try = 0; try < START_TRIES; try++)); do
    read -r s3 rpc admin <<<"$(free_ports 3)"
    rm -rf "${dir:?}"/*
    mkdir "$dir/home"
    write_config "$dir" "$s3" "$rpc" "$admin"
    # The node takes the whole layout, and the key may create buckets, before the first port is open.
    if start_server "http://127.0.0.1:$admin/health" "$dir/garage.log" env HOME="$dir/home" RUST_LOG=garage=warn \
      GARAGE_DEFAULT_ACCESS_KEY="$user" GARAGE_DEFAULT_SECRET_KEY="$secret" \
      "$program" -c "$dir/garage.toml" server --single-node --default-access-key; then
      tell_server GARAGE "http://127.0.0.1:$s3" "$user" "$secret"
      return
    fi
    # shellcheck disable=SC2154 # start_server has set it
    stop_server "$server_pid"
  done
  cat "$dir/garage.log" >&2
  die "Garage did not start in $START_TRIES tries; its log is above"
}

case ${1:-} in
install) install_garage ;;
start) start_garage "${2:?usage: garage.sh start DIR}" ;;
stop) stop_server "${2:?usage: garage.sh stop PID}" ;;
*) die "usage: garage.sh install | start DIR | stop PID" ;;
esac
