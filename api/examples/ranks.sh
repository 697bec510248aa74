#!/usr/bin/env bash
# Runs a job of several ranks on this machine, as `mpirun -n N` does. Each process gets its rank, the number of ranks
# and the name of this start. When one of them fails or dies, all are ended, and its exit status is that of the job.
# usage: ranks.sh N COMMAND…
set -euo pipefail
[ $# -ge 2 ] || { echo "usage: ranks.sh N COMMAND…" >&2; exit 2; }
export CLEAT_WORLD_SIZE=$1
shift
# A name that no other start has: an id from a job scheduler, or a random one.
: "${CLEAT_START:=$(od -An -N8 -tx1 /dev/urandom | tr -d ' \n')}"
export CLEAT_START

pids=()
end_all() {
  trap - EXIT INT TERM HUP
  [ ${#pids[@]} = 0 ] || kill "${pids[@]}" 2>/dev/null || true
  wait
}
trap end_all EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP

for ((rank = 0; rank < CLEAT_WORLD_SIZE; rank++)); do
  CLEAT_RANK=$rank "$@" &
  pids+=($!)
done
for _ in "${pids[@]}"; do
  wait -n # waits for the rank that ends next; set -e makes its failure ours
done
