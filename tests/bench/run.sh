#!/usr/bin/env bash
# The benchmark: starts a MinIO of its own, runs bench.py, stops what it started.
# usage: run.sh [--sizes MIB,…] [--rounds N] [PART…]    see bench.py
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../tools/common.sh"
cd "$ROOT"

scratch=$(mktemp -d "${TMPDIR:-/tmp}/cleat-bench.XXXXXX")
MINIO_PID=

stop_all() {
  trap - EXIT INT TERM HUP
  if [ -n "$MINIO_PID" ]; then
    "$TOOLS/minio.sh" stop "$MINIO_PID"
  fi
  rm -rf "$scratch"
}
trap stop_all EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

"$TOOLS/deps.sh" build server
mkdir -p "$scratch/minio"
eval "$("$TOOLS/minio.sh" start "$scratch/minio")"
export AWS_ENDPOINT_URL=$CLEAT_TEST_ENDPOINT AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_REGION
mkdir -p "$scratch/minio/data/bench" # on one drive, a folder is a bucket
python3 tests/bench/bench.py --scratch "$scratch" --build "${BUILD:-build}" "$@"
