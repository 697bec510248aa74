#!/usr/bin/env bash
# Tells the story that Cleat is made for: training saves checkpoints, is killed in the middle of an upload, and
# continues as if nothing had happened. Every command that it runs is shown. Exit status 0 only if the proof holds.
# usage: demo.sh file | minio       (`make demo` and `make demo-minio` build what it needs first)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

readonly TRAINER=${BUILD:-build}/trainer CLEAT=${BUILD:-build}/cleat
readonly STEPS=4000 SAVE_EVERY=1000 DIE_IN=3000 LAST_GOOD=2000
readonly TRAINING=(--text api/examples/corpus.txt --steps "$STEPS" --save-every "$SAVE_EVERY" --memory-rows 65536)
readonly SIGKILL_STATUS=137

work=
server=

clean_up() {
  trap - EXIT INT TERM HUP
  if [ -n "$server" ]; then
    tests/tools/minio.sh stop "$server"
  fi
  if [ -n "$work" ]; then
    rm -rf "$work"
  fi
}

# --- how it looks ----------------------------------------------------------------------------------------------

bold='' dim='' green='' red='' plain=''
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then
  bold=$'\e[1m' dim=$'\e[2m' green=$'\e[32m' red=$'\e[31m' plain=$'\e[0m'
fi

scenes=0
scene() {
  scenes=$((scenes + 1))
  printf '\n%s%d. %s%s\n' "$bold" "$scenes" "$1" "$plain"
  shift
  if [ $# -gt 0 ]; then
    printf '   %s\n' "$@"
  fi
}

# Shows a command as one could type it.
show() {
  printf '%s$ %s%s\n' "$dim" "$*" "$plain"
}

run() {
  show "$@"
  "$@"
}

fail() {
  printf '%sFAILED: %s%s\n' "$red" "$*" "$plain" >&2
  exit 1
}

# --- where checkpoints go --------------------------------------------------------------------------------------

# Nothing of the user's own setting may change the story: no job's rank, no keys, no other endpoint, no proxy.
clean_environment() {
  local name
  for name in $(compgen -e); do
    case $name in
    AWS_* | CLEAT_* | SLURM_* | OMPI_* | RANK | WORLD_SIZE) unset "$name" ;;
    esac
  done
  export AWS_CONFIG_FILE=/dev/null AWS_SHARED_CREDENTIALS_FILE=/dev/null AWS_EC2_METADATA_DISABLED=true
  export NO_PROXY=127.0.0.1,localhost no_proxy=127.0.0.1,localhost
}

use_folder() {
  STORE=file://$work/store
  raw=$work/store
}

# To MinIO a folder in its data folder is a bucket, so the demo needs no other client to make one.
use_minio() {
  local settings
  echo "Starting a MinIO of its own …"
  settings=$(tests/tools/minio.sh start "$work/minio")
  eval "$settings"
  server=$MINIO_PID
  mkdir "$work/minio/data/demo"
  export AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_REGION AWS_ENDPOINT_URL=$CLEAT_TEST_ENDPOINT
  STORE=s3://demo/run
  raw=$work/minio/data
}

# --- the story -------------------------------------------------------------------------------------------------

train_undisturbed() {
  scene "A run that nobody disturbs" \
    "A small language model learns a text for $STEPS steps. It is never saved and never stopped:" \
    "what it ends with is what every other run must end with, to the last bit."
  run "$TRAINER" "${TRAINING[@]}" --loss-log "$work/undisturbed.log" --dump-weights "$work/undisturbed"
}

# In the background and waited for: bash would otherwise add a line of its own about the death.
train_and_die() {
  local percent=$((30 + RANDOM % 40)) status=0
  local command=("$TRAINER" "${TRAINING[@]}" --store "$STORE" --loss-log "$work/killed.log"
    --die-in-save "$DIE_IN" --die-at-percent "$percent")
  scene "The same run, saved every $SAVE_EVERY steps, and killed in the middle of an upload" \
    "Saves go on in the background while training does. At $percent % of the upload of step $DIE_IN (a new random" \
    "number each time) the process gets SIGKILL: nothing can catch it, nothing is tidied up."
  show "${command[@]}"
  "${command[@]}" &
  wait $! 2>/dev/null || status=$?
  [ "$status" = "$SIGKILL_STATUS" ] || fail "the run was to die of SIGKILL, but ended with status $status"
  echo "The process is dead (exit status $status: SIGKILL)."
}

# The files of the raw store, largest folders first shown as they are: no Cleat involved.
show_raw() {
  show "find $raw -type f -printf '%10s  %P\n'"
  find "$raw" -type f \( -path '*/step-*' -o -path '*/multipart/*' \) -printf '%10s  %P\n' | sort -k 2
}

show_invisible() {
  local listing orphans manifest
  printf -v manifest 'step-%012d/manifest.json' "$DIE_IN"
  scene "The half-written checkpoint is in the store, and yet it does not exist" \
    "Step $DIE_IN left bytes behind, but no manifest.json, which is written last. So no reader sees it." \
    "(Cleat removes such remains later, when they are surely nobody's.)"
  show_raw
  orphans=$(find "$raw" -type f -newer "$work/killed.log" -size +0 | wc -l)
  [ -z "$(find "$raw" -path "*/$manifest*" -print -quit)" ] || fail "step $DIE_IN has a manifest"
  [ "$orphans" -gt 0 ] || fail "the dead upload left nothing behind: it did not die in the middle"
  run "$CLEAT" ls "$STORE"
  listing=$("$CLEAT" ls --json "$STORE")
  grep -q "\"step\": *$LAST_GOOD\b" <<<"$listing" || fail "step $LAST_GOOD is not listed"
  ! grep -q "\"step\": *$DIE_IN\b" <<<"$listing" || fail "step $DIE_IN is listed"
}

train_on() {
  scene "Started again: it resumes from the last whole checkpoint" \
    "The same command, without the kill. It finds step $LAST_GOOD by itself and checks every byte of it."
  cp "$work/killed.log" "$work/resumed.log"
  run "$TRAINER" "${TRAINING[@]}" --store "$STORE" --loss-log "$work/resumed.log" \
    --dump-weights "$work/resumed" --sample 160
  run "$CLEAT" ls "$STORE"
  run "$CLEAT" verify "$STORE"
}

# A step that was trained twice, before the kill and after it, stands twice in the log; with equal losses the two
# lines are one to sort.
prove() {
  local states losses
  scene "The proof: as if it had never been killed" \
    "Every tensor (weights, both Adam moments, random state, …) and every loss of all $STEPS steps must be equal."
  run diff -r "$work/undisturbed" "$work/resumed" || fail "the final states differ"
  show "sort -nu resumed.log | cmp - undisturbed.log"
  sort -n "$work/resumed.log" | uniq | cmp - "$work/undisturbed.log" || fail "the losses differ"
  states=$(cat "$work"/resumed/* | sha256sum | cut -c1-16)
  losses=$(wc -l <"$work/undisturbed.log")
  printf '%sidentical%s: %s tensors (SHA-256 %s…) and %s losses, to the last bit. It took %s s.\n' "$green$bold" \
    "$plain" "$(find "$work/resumed" -type f | wc -l)" "$states" "$losses" "$SECONDS"
}

case ${1:-} in
file | minio) ;;
*)
  echo "usage: demo.sh file | minio" >&2
  exit 2
  ;;
esac
for program in "$TRAINER" "$CLEAT"; do
  [ -x "$program" ] || fail "$program is missing: run 'make' first"
done
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP
work=$(mktemp -d "${TMPDIR:-/tmp}/cleat-demo.XXXXXX")
clean_environment
if [ "$1" = file ]; then
  use_folder
else
  use_minio
fi
train_undisturbed
train_and_die
show_invisible
train_on
prove
