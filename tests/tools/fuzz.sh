#!/usr/bin/env bash
# Runs fuzz targets with libFuzzer, one after the other; `make fuzz` is this script.
# usage: fuzz.sh SECONDS [TARGET…]    runs each target for SECONDS; without names, all of tests/fuzz/fuzz_*.c
#
# Each target starts from tests/fuzz/corpus/TARGET and from the inputs that earlier runs found. Those, the findings and
# the logs are in the build folder. A finding is a crash, a leak, an input that takes 5 s, or one that takes too much
# memory (FUZZ_MALLOC_MB in one piece, FUZZ_RSS_MB in all). The record gets a line for each run: target, seconds,
# executions, coverage, findings. The exit status is 1 after a finding.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$ROOT"

[ $# -gt 0 ] && [[ $1 =~ ^[0-9]+$ ]] || die "usage: fuzz.sh SECONDS [TARGET…]"
seconds=$1
shift
readonly WORK=$ROOT/build/fuzz
# The readers' own limits are below: 8 MiB for a page of XML. ASan keeps freed memory for a while.
readonly MALLOC_MB=${FUZZ_MALLOC_MB:-32} RSS_MB=${FUZZ_RSS_MB:-1024}

build() {
  "$TOOLS/deps.sh" fuzz
  run_make fuzz-programs BUILD=build/fuzz CC=clang SANITIZE=fuzzer-no-link,address,undefined >&2
}

# The number behind "stat::NAME:" in a log; 0 when it is not there.
stat_of() {
  sed -n "s/^stat::$1: *//p" "$2" | tail -n 1 | grep . || echo 0
}

run_target() {
  local target=$1 log=$WORK/log/$1 status=0 started=$SECONDS coverage
  local program=$WORK/tests/fuzz/fuzz_$target seeds=tests/fuzz/corpus/$target
  [ -x "$program" ] || die "no target '$target'"
  [ -d "$seeds" ] || die "no corpus for '$target'"
  mkdir -p "$WORK/log" "$WORK/corpus/$target" "$WORK/findings/$target"
  ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=print_stacktrace=1 nice -n 19 "$program" "$WORK/corpus/$target" "$seeds" \
    -max_total_time="$seconds" -timeout=5 -report_slow_units=5 -rss_limit_mb="$RSS_MB" -malloc_limit_mb="$MALLOC_MB" \
    -max_len=16384 -len_control=20 -artifact_prefix="$WORK/findings/$target/" -print_final_stats=1 \
    >"$log" 2>&1 || status=$?
  coverage=$(grep -o 'cov: [0-9]*' "$log" | tail -n 1)
  printf '%s  %-12s %5d s  %11d executions  %s  %s\n' "$(date -u +%FT%TZ)" "$target" "$((SECONDS - started))" \
    "$(stat_of number_of_executed_units "$log")" "${coverage:-cov: 0}" \
    "$([ "$status" = 0 ] && echo 'no finding' || echo "FINDING: exit status $status, see $log")" | tee -a "$WORK/record"
  return "$status"
}

build
if [ $# -eq 0 ]; then
  for source in tests/fuzz/fuzz_*.c; do
    target=${source##*/fuzz_}
    set -- "$@" "${target%.c}"
  done
fi
result=0
for target in "$@"; do
  run_target "$target" || result=1
done
find "$WORK/findings" -type f | sed 's/^/finding: /'
exit "$result"
