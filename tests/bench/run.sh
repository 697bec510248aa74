#!/usr/bin/env bash
# The benchmark: starts two MinIOs of its own, one with TLS, runs bench.py, stops what it started.
# usage: run.sh [--sizes MIB,…] [--rounds N] [PART…]    see bench.py
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../tools/common.sh"
cd "$ROOT"

scratch=$(mktemp -d "${TMPDIR:-/tmp}/cleat-bench.XXXXXX")
MINIO_PID=
HTTPS_PID=

stop_all() {
  local pid
  trap - EXIT INT TERM HUP
  for pid in $MINIO_PID $HTTPS_PID; do
    "$TOOLS/minio.sh" stop "$pid"
  done
  rm -rf "$scratch"
}
trap stop_all EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

"$TOOLS/deps.sh" build server
mkdir -p "$scratch/minio" "$scratch/minio-https"
"$TOOLS/certificates.sh" "$scratch/tls"
eval "$("$TOOLS/minio.sh" start "$scratch/minio-https" "$scratch/tls")"
HTTPS_PID=$MINIO_PID MINIO_PID=
export CLEAT_BENCH_HTTPS=$CLEAT_TEST_ENDPOINT CLEAT_BENCH_CA=$AWS_CA_BUNDLE
export CLEAT_BENCH_HTTPS_KEY=$AWS_ACCESS_KEY_ID CLEAT_BENCH_HTTPS_SECRET=$AWS_SECRET_ACCESS_KEY
unset AWS_CA_BUNDLE
eval "$("$TOOLS/minio.sh" start "$scratch/minio")"
export AWS_ENDPOINT_URL=$CLEAT_TEST_ENDPOINT AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_REGION
mkdir -p "$scratch"/minio{,-https}/data/bench # on one drive, a folder is a bucket
python3 tests/bench/bench.py --scratch "$scratch" --build "${BUILD:-build}" "$@"
