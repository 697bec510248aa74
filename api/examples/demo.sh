#!/usr/bin/env bash
# Shows what Cleat is made for: training saves checkpoints, is killed in the middle of an upload, and continues as if
# nothing had happened. Prints every command that it runs. The exit status is 0 only if the results are identical.
# usage: demo.sh file | minio       (`make demo` and `make demo-minio` build what it needs first)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

readonly TRAINER=${BUILD:-build}/trainer CLEAT=${BUILD:-build}/cleat
readonly STEPS=${CLEAT_DEMO_STEPS:-4000}
readonly SAVE_EVERY=$((STEPS / 5))
readonly DIE_IN=$((3 * SAVE_EVERY)) # or in a later save, if this upload ends too quickly
readonly TRAINING=(--text api/examples/corpus.txt --steps "$STEPS" --save-every "$SAVE_EVERY" --memory-rows 65536)
readonly SIGKILL_STATUS=137

work=
server=
victim=
died_in=
last_good=

clean_up() {
  trap - EXIT INT TERM HUP
  if [ -n "$victim" ]; then
    kill -KILL "$victim" 2>/dev/null || true
    wait "$victim" 2>/dev/null || true
  fi
  if [ -n "$server" ]; then
    tests/tools/minio.sh stop "$server"
  fi
  if [ -n "$work" ]; then
    rm -rf "$work"
  fi
}

# on_signal COMMAND: runs COMMAND on a signal, with the signal's exit status appended.
interrupted=
on_signal() {
  # shellcheck disable=SC2064 # expanded now
  trap "${1}130" INT
  # shellcheck disable=SC2064
  trap "${1}143" TERM
  # shellcheck disable=SC2064
  trap "${1}129" HUP
}

# --- output ----------------------------------------------------------------------------------------------------

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

# Prints a command as a user would type it, with "$work" instead of the long path.
show() {
  local command=$*
  printf '%s$ %s%s\n' "$dim" "${command//"$work"/\$work}" "$plain"
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

# The user's own environment must not change the demo: no rank of a job, no keys, no endpoint, no proxy.
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
}

# MinIO takes a folder in its data folder for a bucket, so the demo needs no other client to create one.
use_minio() {
  local settings
  tests/tools/minio.sh install >/dev/null # takes minutes the first time
  echo "Starting a MinIO of its own …"
  # Signals wait for the second that the start takes. Before that it is not known what to stop.
  on_signal interrupted=
  settings=$(setsid --wait tests/tools/minio.sh start "$work/minio")
  eval "$settings"
  server=$MINIO_PID
  on_signal 'exit '
  [ -z "$interrupted" ] || exit "$interrupted"
  mkdir "$work/minio/data/demo"
  export AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_REGION AWS_ENDPOINT_URL=$CLEAT_TEST_ENDPOINT
  STORE=s3://demo/run
}

# --- the story -------------------------------------------------------------------------------------------------

train_undisturbed() {
  scene "A run without interruption" \
    "A small language model learns a text for $STEPS steps. It is never saved and never stopped:" \
    "every other run must end with the same result, to the last bit."
  run "$TRAINER" "${TRAINING[@]}" --loss-log "$work/undisturbed.log" --dump-weights "$work/undisturbed"
}

# Runs in the background and is waited for. Otherwise bash would print its own line about the killed process.
train_and_die() {
  local percent=$((30 + RANDOM % 40)) status=0
  local command=("$TRAINER" "${TRAINING[@]}" --store "$STORE" --loss-log "$work/killed.log"
    --die-in-save "$DIE_IN" --die-at-percent "$percent")
  scene "The same run, saved every $SAVE_EVERY steps, and killed in the middle of an upload" \
    "Saves run in the background while training continues. When $percent % of step $DIE_IN are uploaded (a new random" \
    "number each time), the process gets SIGKILL. It cannot be caught, and nothing is cleaned up."
  show "${command[@]}"
  "${command[@]}" &
  victim=$!
  wait "$victim" 2>/dev/null || status=$?
  victim=
  [ "$status" = "$SIGKILL_STATUS" ] || fail "the run should have died of SIGKILL, but ended with status $status"
  # A loss is logged before the step is saved. So the last step in the log is the one whose save was killed.
  died_in=$(tail -n 1 "$work/killed.log" | cut -d ' ' -f 1)
  last_good=$((died_in - SAVE_EVERY))
  echo "The process is dead (exit status $status: SIGKILL), in the save of step $died_in."
}

# Shows the store without Cleat: the last complete checkpoint and the half-written one.
show_folder() {
  show "cd $work/store && find $1 $2 -type f -printf '%10s  %p\\n' | sort -k 2"
  (cd "$work/store" && find "$1" "$2" -type f -printf '%10s  %p\n' | sort -k 2)
}

# MinIO keeps an object as a folder with an xl.meta. It keeps the parts of an unfinished upload in another place.
show_bucket() {
  local data=$work/minio/data
  show "cd $data/demo/run && find $1 $2 -name xl.meta | sort"
  (cd "$data/demo/run" && find "$1" "$2" -name xl.meta | sort)
  show "find $data/.minio.sys/multipart -name 'part.?' -printf '%10s  %f of an unfinished upload\\n'"
  find "$data/.minio.sys/multipart" -name 'part.?' -printf '%10s  %f of an unfinished upload\n'
}

show_invisible() {
  local whole half listing remains
  printf -v whole 'step-%012d' "$last_good"
  printf -v half 'step-%012d' "$died_in"
  scene "The half-written checkpoint is in the store, but no reader sees it" \
    "Step $died_in left bytes behind, but no manifest.json, which is written last. A step without it is invisible."
  if [ "$1" = file ]; then
    show_folder "$whole" "$half"
  else
    show_bucket "$whole" "$half"
  fi
  remains=$(find "$work" \( -path "*/$half/*" -o -path '*/.minio.sys/multipart/*' \) -type f | wc -l)
  [ "$remains" -gt 0 ] || fail "the dead upload left nothing behind: it did not die in the middle"
  [ -z "$(find "$work" -path "*/$half/manifest.json*" -print -quit)" ] || fail "step $died_in has a manifest"
  run "$CLEAT" ls "$STORE"
  listing=$("$CLEAT" ls --json "$STORE")
  grep -q "\"step\": *$last_good\b" <<<"$listing" || fail "step $last_good is not listed"
  ! grep -q "\"step\": *$died_in\b" <<<"$listing" || fail "step $died_in is listed"
}

train_on() {
  scene "Started again: it resumes from the last complete checkpoint" \
    "The same command, without the kill. It finds step $last_good by itself and checks every byte of it."
  cp "$work/killed.log" "$work/resumed.log"
  run "$TRAINER" "${TRAINING[@]}" --store "$STORE" --loss-log "$work/resumed.log" \
    --dump-weights "$work/resumed" --sample 160
  run "$CLEAT" ls "$STORE"
  run "$CLEAT" verify "$STORE"
}

# A step that was trained both before and after the kill is in the log twice. uniq merges two equal lines, and keeps
# two that differ.
prove() {
  local states losses
  scene "The proof: as if it had never been killed" \
    "Every tensor (weights, both Adam moments, random state, …) and every loss of all $STEPS steps must be equal."
  run diff -rq "$work/undisturbed" "$work/resumed" || fail "the final states differ"
  show "sort -n $work/resumed.log | uniq | cmp - $work/undisturbed.log"
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
on_signal 'exit '
work=$(mktemp -d "${TMPDIR:-/tmp}/cleat-demo.XXXXXX")
echo "work=$work"
clean_environment
if [ "$1" = file ]; then
  use_folder
else
  use_minio
fi
train_undisturbed
train_and_die
show_invisible "$1"
train_on
prove
