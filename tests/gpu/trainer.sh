#!/usr/bin/env bash
# The trainer with its model in device memory: stopped and started again, it has the bits of one that never stopped, and
# of one on the host.
# usage: trainer.sh PROGRAM
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d "${TMPDIR:-/tmp}/cleat-trainer.XXXXXX")
trap 'rm -rf "$work"' EXIT
program=$1

train() {
  "$program" --text api/examples/corpus.txt --hidden 16 --memory-rows 1000 --save-every 3 "$@" >>"$work/log" 2>&1 ||
    { cat "$work/log"; echo "not ok - the trainer runs: $*"; exit 1; }
}
same() {
  if [ -n "$(ls "$work/$2" 2>/dev/null)" ] && diff -r "$work/$2" "$work/$3"; then
    echo "ok - $1"
  else
    echo "not ok - $1"
    exit 1
  fi
}

train --steps 12 --dump-weights "$work/host"
train --steps 12 --device cuda --dump-weights "$work/whole"
same "the device's bits are the host's" whole host
train --steps 7 --device cuda --store "file://$work/run"
train --steps 12 --device cuda --store "file://$work/run" --dump-weights "$work/resumed"
grep -q "resumed from step 7" "$work/log" || { echo "not ok - it resumes"; exit 1; }
same "a resumed run has the bits of one that never stopped" resumed whole
train --steps 9 --store "file://$work/other"
train --steps 12 --device cuda --store "file://$work/other" --dump-weights "$work/moved"
same "a run moves from the host to the device" moved whole
