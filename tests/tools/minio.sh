#!/usr/bin/env bash
# A MinIO server for tests: built once from its pinned source by `go install`, cached outside the tree.
#
#   minio.sh install          builds it if it is not in the cache; prints the path of the program
#   minio.sh start DIR [TLS]  starts it on a free loopback port, data and log in DIR, waits until it answers;
#                             prints shell lines: CLEAT_TEST_ENDPOINT=… MINIO_PID=… AWS_ACCESS_KEY_ID=…
#                             AWS_SECRET_ACCESS_KEY=… AWS_REGION=…; with TLS, a folder of certificates.sh, it speaks
#                             only HTTPS, and AWS_CA_BUNDLE=… is printed too
#   minio.sh stop PID         stops it and waits until it is gone
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
source "$TOOLS/go_server.sh"

# The last state of the project, which takes no more changes. Module proxies know it by its full
# pseudo-version; the bare commit would need a look at the repository itself.
readonly MINIO_VERSION=v0.0.0-20260212201848-7aac2a2c5b7c
readonly MINIO_KEY=7aac2a2c5b7c
# What MinIO's go.mod asks for, and the release that is fetched when the machine has only an older one.
readonly GO_MINOR_MIN=24
readonly GO_TOOLCHAIN=v0.0.1-go1.24.13

install_minio() {
  install_go_program "$MINIO_KEY" minio "github.com/minio/minio@$MINIO_VERSION" "$GO_MINOR_MIN" "$GO_TOOLCHAIN"
}

start_minio() {
  local dir=$1 tls=${2:-} program port console try user secret scheme=http certs=$1/home/certs
  program=$(install_minio)
  "$TOOLS/deps.sh" server
  mkdir -p "$dir/data" "$dir/home"
  user=cleat-$(random_hex 4)
  secret=$(random_hex 16)
  if [ -n "$tls" ]; then
    scheme=https certs=$tls/server
  fi
  # What is deleted leaves the disk at once, not after five minutes.
  for ((try = 0; try < START_TRIES; try++)); do
    read -r port console <<<"$(free_ports 2)"
    if start_server "$scheme://127.0.0.1:$port/minio/health/ready" "$dir/minio.log" \
      env HOME="$dir/home" MINIO_ROOT_USER="$user" MINIO_ROOT_PASSWORD="$secret" MINIO_BROWSER=off MINIO_UPDATE=off \
      MINIO_API_DELETE_CLEANUP_INTERVAL=5s "$program" server --quiet --certs-dir "$certs" --address "127.0.0.1:$port" \
      --console-address "127.0.0.1:$console" "$dir/data"; then
      tell_server MINIO "$scheme://127.0.0.1:$port" "$user" "$secret" ${tls:+"$tls/ca.crt"}
      return
    fi
  done
  cat "$dir/minio.log" >&2
  die "MinIO did not start in $START_TRIES tries; its log is above"
}

case ${1:-} in
install) install_minio ;;
start) start_minio "${2:?usage: minio.sh start DIR [TLS]}" "${3:-}" ;;
stop) stop_server "${2:?usage: minio.sh stop PID}" ;;
*) die "usage: minio.sh install | start DIR [TLS] | stop PID" ;;
esac
