#!/usr/bin/env bash
# Checks the models of this folder with spin, each configuration of the table below; `make model` is this script.
# usage: run.sh [WORD…]          cases whose line has every WORD
#        run.sh --trace [WORD…]  and the counterexample of each that has one, as a story
#
# One line a case: "ok - …" or "not ok - …". A search that was cut short, by depth, memory or time, is "not ok".
# CPU_SECONDS, MEMORY_MIB, DEPTH: what one search may take. Two run at a time.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly CPU_SECONDS=${CPU_SECONDS:-300} MEMORY_MIB=${MEMORY_MIB:-1900} DEPTH=${DEPTH:-20000}

# expectation | model | configuration | in words
#   holds       every property, in every state that can be reached
#   breaks N    property N of README.md is violated; 7: a process cannot go on
#   reaches N   the place SEEN(N) can be reached: the proof is not one of nothing; properties are not looked at
cases() {
  cat <<'END'
holds|commit|RANKS=3 JOBS=1 TRIES=2 LATE DEATHS APART|one start of 3 ranks, two tries
holds|commit|RANKS=3 JOBS=2 TRIES=1 LATE|two starts of 3 ranks, the second is refused
holds|commit|RANKS=3 JOBS=2 TRIES=1 REPLACE|two starts of 3 ranks, each replaces what it finds
holds|commit|RANKS=3 JOBS=1 TRIES=2 REPLACE AGAIN|one start of 3 ranks saves the step twice, and replaces
holds|commit|RANKS=2 JOBS=1 TRIES=2 REPLACE AGAIN LATE DEATHS|one start of 2 ranks saves the step twice, and replaces, with requests that arrive late
holds|commit|RANKS=2 JOBS=2 TRIES=1 LATE DEATHS APART|two starts of 2 ranks, each request a step
holds|commit|RANKS=2 JOBS=2 TRIES=1 REPLACE LATE DEATHS APART|two starts of 2 ranks, replacing, each request a step
holds|commit|RANKS=3 JOBS=1 TRIES=2 GC DEATHS|two tries of 3 ranks, and gc that keeps the grace time
holds|commit|RANKS=2 JOBS=1 TRIES=2 LATE GC DEATHS APART|two tries of 2 ranks, and gc that keeps the grace time, each request a step
holds|commit|RANKS=2 JOBS=2 TRIES=1 REPLACE LATE GC DEATHS|two starts, replacing, and gc that keeps the grace time
holds|resume|JOBS=2 RANKS=3 LATE|two starts of 3 ranks agree on the step to resume from
holds|resume|JOBS=3 RANKS=2|three starts of 2 ranks agree on the step to resume from
holds|retention|PRUNES=2 GC|save, replace, load, gc and two prunes
holds|commit|RANKS=3 JOBS=1 TRIES=2 ZOMBIES TOMBSTONES|mended by tombstones: gc, and zombies of any age
holds|commit|RANKS=2 JOBS=1 TRIES=2 LATE ZOMBIES TOMBSTONES APART|mended by tombstones: gc, zombies, requests that arrive late
holds|commit|RANKS=2 JOBS=2 TRIES=1 REPLACE LATE ZOMBIES TOMBSTONES|mended by tombstones: gc, zombies, two starts, replacing
holds|commit|RANKS=3 JOBS=1 TRIES=2 ZOMBIES DATED|mended by dates: no manifest is put when its attempt is old
holds|retention|PRUNES=2 GC AGAIN TOMBSTONES|mended by tombstones: a manifest that is put again after a prune
breaks 1|commit|RANKS=3 JOBS=1 TRIES=2 SHARED_FOLDER|no attempt id: all tries share one folder
breaks 1|commit|RANKS=3 JOBS=1 TRIES=2 MANIFEST_FIRST|the manifest before the records
breaks 1|retention|PRUNES=1 DATA_FIRST|prune deletes data before the manifest
breaks 4|commit|RANKS=3 JOBS=2 TRIES=1 NO_CREATE_ONLY|two starts, and create-only is not asked for
breaks 4|commit|RANKS=2 JOBS=1 TRIES=2 REPLACE AGAIN OURS_IS_ENOUGH|a start that has committed the step takes that for the next save of it
breaks 9|commit|RANKS=3 JOBS=1 TRIES=2 REPLACE AGAIN ALL_JUDGE|every rank judges for itself what stands in the way of a replacement
breaks 1|commit|RANKS=3 JOBS=1 TRIES=2 NO_READ_BACK|rank 0 does not read back after a lost reply
breaks 1|commit|RANKS=3 JOBS=1 TRIES=2 CLEANS_AT_DEADLINE|a rank whose record stands removes its bytes at its own deadline
breaks 1|commit|RANKS=3 JOBS=1 TRIES=2 LATE CLEANS_IN_DOUBT|a rank that does not know of its record removes its bytes
breaks 5|resume|JOBS=2 RANKS=3 NO_AGREEMENT|no agreement: each rank lists for itself
breaks 5|resume|JOBS=2 RANKS=3 NO_READ_BACK|a start takes another number after a lost reply
breaks 5|resume|JOBS=2 RANKS=3 LATE OWN_IDEA|rank 0 resumes from what it meant to register, not from what it reads back
breaks 6|resume|JOBS=2 RANKS=3 NAME_IN_KEY|two starts can have one number: the start's name is in the key
breaks 6|resume|JOBS=2 RANKS=3 NO_FENCE|no look at starts/ before a commit
breaks 6|commit|RANKS=3 JOBS=2 TRIES=1 NO_FENCE|no look at starts/ before the manifest
breaks 8|commit|RANKS=3 JOBS=1 TRIES=2 ZOMBIES|gc without the grace rule
breaks 1|commit|RANKS=3 JOBS=1 TRIES=1 SLEEPERS|rank 0 sleeps through the grace time when it has seen all records
breaks 1|commit|RANKS=3 JOBS=1 TRIES=1 SLEEPERS LISTS_AGAIN|the same, and rank 0 lists once more before the manifest
breaks 8|commit|RANKS=2 JOBS=2 TRIES=1 REPLACE ZOMBIES TOMBSTONES FORGETS_GRAVES|tombstones, but a save that replaces one does not say again what it names
breaks 8|retention|PRUNES=1 GC NO_GRACE|gc without the grace rule, beside a save and prune
breaks 1|retention|PRUNES=1 AGAIN|a manifest that is put again after a prune
breaks 8|retention|PRUNES=1 WHOLE_FOLDER|prune deletes the folder of the step, not what its manifest named
breaks 3|retention|PRUNES=1 PRUNES_NEWEST|prune does not spare the newest
breaks 3|retention|PRUNES=1 DELETES_TO_REPLACE|a replacing save deletes the manifest before it puts its own
breaks 2|retention|PRUNES=1 GC NAMED_IS_ENOUGH|a load takes a replaced checkpoint for a damaged one
breaks 7|commit|RANKS=3 JOBS=1 TRIES=2 NO_DEADLINE|waits without a deadline
reaches 1|commit|RANKS=3 JOBS=1 TRIES=2 LATE|a second try commits
reaches 2|commit|RANKS=3 JOBS=1 TRIES=2 LATE|a manifest stands that arrived late
reaches 3|commit|RANKS=3 JOBS=2 TRIES=1|a start is told that it is superseded
reaches 4|commit|RANKS=3 JOBS=2 TRIES=1|a start is told that it lost
reaches 5|commit|RANKS=3 JOBS=1 TRIES=2 LATE|a rank whose record stands removes its bytes
reaches 6|commit|RANKS=3 JOBS=1 TRIES=2 LATE GC|gc removes an object of an attempt
reaches 7|commit|RANKS=3 JOBS=1 TRIES=2 LATE|the step is saved already when a try begins
reaches 8|commit|RANKS=3 JOBS=2 TRIES=1|a superseded start commits, having looked before
reaches 9|commit|RANKS=2 JOBS=2 TRIES=1 REPLACE ZOMBIES TOMBSTONES|a save goes on in place of what gc has changed
reaches 10|commit|RANKS=3 JOBS=1 TRIES=1 SLEEPERS LISTS_AGAIN|a manifest that is put after gc removed what it names
reaches 11|commit|RANKS=2 JOBS=2 TRIES=1 REPLACE|a rank finds that what it stored was committed, and replaced since
reaches 21|resume|JOBS=2 RANKS=3 LATE|a number is taken
reaches 22|resume|JOBS=2 RANKS=3 LATE|an entry is settled by reading it back
reaches 23|resume|JOBS=2 RANKS=3 LATE|a start is told that it is superseded
reaches 24|resume|JOBS=2 RANKS=3 LATE|a start resumes from another step than the newest, committed since
reaches 31|retention|PRUNES=2 GC|a load succeeds
reaches 32|retention|PRUNES=2 GC|a load is told that its checkpoint was removed
reaches 33|retention|PRUNES=2 GC|a load is told that its checkpoint was replaced
reaches 34|retention|PRUNES=2 GC|a piece is removed
END
}

# flags_of CONFIGURATION EXPECTATION: what spin is told.
flags_of() {
  local word
  for word in $1; do
    printf -- '-D%s ' "$word"
  done
  case $2 in
  reaches*) echo "-DONLY=99 -DWITNESS=${2#reaches }" ;;
  breaks*) echo "-DONLY=${2#breaks }" ;;
  *) echo ;;
  esac
}

# build MODEL CONFIGURATION EXPECTATION: pan, in the current folder. A search that goes through all states is worth -O2.
build() {
  local flags optimize=-O1
  read -ra flags < <(flags_of "$2" "$3")
  [ "$3" != holds ] || optimize=-O2
  spin "${flags[@]}" -a "$here/$1.pml" >spin.log 2>&1 || return 1
  gcc "$optimize" -w -DSAFETY -DMEMLIM="$MEMORY_MIB" -o pan pan.c >>spin.log 2>&1
}

# The search, into pan.log; what it took of a processor into seconds: of the clock it says nothing on a busy machine.
search() {
  local TIMEFORMAT=%U status=0
  # shellcheck disable=SC2016 # expanded by the inner shell
  { time bash -c 'ulimit -t "$1" && exec ./pan -m"$2" -w23 >pan.log 2>&1' _ "$CPU_SECONDS" "$DEPTH"; } 2>seconds ||
    status=$?
  [ "$status" = 0 ] || echo "interrupted: exit status $status" >>pan.log
}

# What the search in pan.log came to, in the words of an expectation; or why it says nothing.
verdict() {
  local error
  error=$(sed -n 's/^pan:[0-9]*: \(.*\) (at depth [0-9]*)$/\1/p' pan.log | head -n 1)
  case $error in
  *invalid\ end\ state*) echo "breaks 7" ;;
  *assertion\ violated*==100*) sed -n 's/.*[( ]\([0-9]*\)==100.*/breaks \1/p' <<<"$error" ;;
  *assertion\ violated*!=*) sed -n 's/.*[( ]\([0-9]*\)!=\1).*/reaches \1/p' <<<"$error" ;;
  "") is_complete && echo "holds" || echo "the search was not exhaustive" ;;
  *) echo "$error" ;;
  esac
}

is_complete() {
  grep -q 'errors: 0$' pan.log &&
    ! grep -Eqi 'not completed|too small|out of memory|memlim|interrupted|hash-?compact|bitstate' pan.log
}

figures() {
  awk '/states, stored/ { states = $1 }
    /depth reached/ { depth = $0; sub(/.*depth reached /, "", depth); sub(/,.*/, "", depth) }
    /total actual memory/ { memory = $1 }
    END { printf "%s states, depth %s, %.0f MiB, ", states, depth, memory }' pan.log
  printf '%.1f s' "$(tail -n 1 seconds)"
}

# One case, by its line; the folder is its own.
run_case() {
  local expectation model configuration words seen
  IFS='|' read -r expectation model configuration words <<<"$1"
  if ! build "$model" "$configuration" "$expectation"; then
    cat spin.log
    echo "not ok - $words: $model.pml does not compile"
    return
  fi
  search
  seen=$(verdict)
  if [ "$seen" = "$expectation" ]; then
    case $expectation in
    holds) echo "ok - $words ($(figures))" ;;
    reaches*) echo "ok - reached: $words" ;;
    *) echo "ok - caught: $words (${expectation/breaks/property})" ;;
    esac
  else
    tail -n 30 pan.log
    echo "not ok - $words: $model.pml $configuration: expected '$expectation', seen '$seen'"
  fi
  if [ -n "${TRACE:-}" ] && ls ./*.trail >/dev/null 2>&1; then
    tell "$model" "$configuration" "$expectation"
  fi
}

# The counterexample, by what the processes print on the way.
tell() {
  local flags
  read -ra flags < <(flags_of "$2" "$3")
  cp "$here"/*.pml .
  touch "$1.pml.trail"
  spin "${flags[@]}" -t -T "$1.pml" | sed -e '/^spin: trail ends/,$d' -e '/^spin: text of/d' -e 's/^/    /'
}

# Two at a time, and the slow ones first; what each says is printed in one piece.
if [ "${1:-}" = --case ]; then
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  cd "$work"
  said=$(run_case "$2")
  echo "$said"
  exit 0
fi

command -v spin >/dev/null || { echo "not ok - spin is not installed: make deps"; exit 1; }
if [ "${1:-}" = --trace ]; then
  export TRACE=1
  shift
fi
chosen=$(cases)
for word in "$@"; do
  chosen=$(grep -F -- "$word" <<<"$chosen") || { echo "not ok - no case has '$word'"; exit 1; }
done
all=$(mktemp)
trap 'rm -f "$all"' EXIT
tr '\n' '\0' <<<"$chosen" | xargs -0 -r -n 1 -P 2 "$here/run.sh" --case | tee "$all"
! grep -q '^not ok' "$all"
