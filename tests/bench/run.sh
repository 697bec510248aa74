#!/usr/bin/env bash
# The benchmark: starts two MinIOs of its own, one with TLS, runs bench.py, stops what it started.
# usage: run.sh [--sizes MIB,…] [--rounds N] [--json FILE] [--smoke] [PART…]    see bench.py
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../tools/common.sh"
cd "$ROOT"

scratch=$(mktemp -d "${TMPDIR:-/tmp}/cleat-bench.XXXXXX")
store=
readonly STORE_GIB=6 # at most 4 GiB are stored at a time, and MinIO sets old data aside for a moment
MINIO_PID=
HTTPS_PID=

stop_all() {
  local pid
  trap - EXIT INT TERM HUP
  for pid in $MINIO_PID $HTTPS_PID; do
    "$TOOLS/minio.sh" stop "$pid"
  done
  rm -rf "$scratch" ${store:+"$store"}
}
trap stop_all EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# The disk of the MinIOs: memory where that has room, so that the tools are compared and not their waits for one disk.
make_store() {
  local free_kib memory_kib
  free_kib=$(df --output=avail /dev/shm 2>/dev/null | tail -n 1)
  memory_kib=$(awk '/MemAvailable/ {print $2}' /proc/meminfo)
  if [ "${free_kib:-0}" -gt $((STORE_GIB << 20)) ] && [ "$memory_kib" -gt $((3 * STORE_GIB << 20)) ]; then
    store=$(mktemp -d /dev/shm/cleat-bench.XXXXXX)
  else
    store=$scratch/disk # not a name that a part uses
  fi
  mkdir -p "$store/minio" "$store/minio-https"
  ln -s "$store/minio" "$store/minio-https" "$scratch"
}

"$TOOLS/deps.sh" build server
make_store
"$TOOLS/certificates.sh" "$scratch/tls"
eval "$("$TOOLS/minio.sh" start "$scratch/minio-https" "$scratch/tls")"
HTTPS_PID=$MINIO_PID MINIO_PID=
export CLEAT_BENCH_HTTPS=$CLEAT_TEST_ENDPOINT CLEAT_BENCH_CA=$AWS_CA_BUNDLE
export CLEAT_BENCH_HTTPS_KEY=$AWS_ACCESS_KEY_ID CLEAT_BENCH_HTTPS_SECRET=$AWS_SECRET_ACCESS_KEY
unset AWS_CA_BUNDLE
eval "$("$TOOLS/minio.sh" start "$scratch/minio")"
export AWS_ENDPOINT_URL=$CLEAT_TEST_ENDPOINT AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_REGION
mkdir -p "$scratch"/minio{,-https}/data/bench # on one drive, a folder is a bucket
python3 tests/bench/bench.py --store "$store" --scratch "$scratch" --build "${BUILD:-build}" "$@"
