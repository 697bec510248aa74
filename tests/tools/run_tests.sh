#!/usr/bin/env bash
# Builds and runs tests; `make test` is this script with every group.
# usage: run_tests.sh GROUP…    groups: unit torture corpora model gpu header integration stores endurance mutants
#
# The last line is "N passed, M failed": the sum of the checks of Check, the lines of the header tests and the tests of
# pytest. A program that crashes, hangs, cannot run or prints nothing counts as a failure. So do a skipped test and a
# group without tests. At the end it stops all processes that it started and removes its temporary files, also after a
# failure or Ctrl-C.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$ROOT"

# A hang is a failure: the longest that one program, and the whole of pytest, may take.
readonly PROGRAM_SECONDS=${CLEAT_TEST_PROGRAM_SECONDS:-900}
readonly MUTANTS_ALL_SECONDS=14400
PYTEST_SECONDS=${CLEAT_TEST_PYTEST_SECONDS:-1800}

# Most of what the integration tests do is to wait: four at a time keep two cores half busy. A file's tests stay
# together: they share fixtures.
readonly SIDE_BY_SIDE=(-n 4 --dist loadfile)

passed=0
failed=0
failures=()
job=
scratch=

# Ends what tests left behind, such as the trainer of a `cleat run` whose test was killed. They have our TMPDIR.
end_leftovers() {
  local process
  for process in /proc/[0-9]*; do
    if grep -qzxF "TMPDIR=$scratch/tmp" "$process/environ" 2>/dev/null; then
      say "left behind: $(tr '\0' ' ' <"$process/cmdline" 2>/dev/null | cut -c 1-120)"
      kill -KILL "${process#/proc/}" 2>/dev/null || true
    fi
  done
}

# Stops what was started, whatever the reason; only once. What cannot be stopped or removed is a failure.
stop_all() {
  trap - EXIT ERR INT TERM HUP
  if [ -n "$job" ]; then
    kill -TERM -- "-$job" 2>/dev/null || true
    for _ in {1..50}; do
      kill -0 -- "-$job" 2>/dev/null || break
      sleep 0.1
    done
    kill -KILL -- "-$job" 2>/dev/null || true
  fi
  if [ -d "$scratch/signatures" ]; then
    "$TOOLS/signing_proxy.py" stop "$scratch/signatures" || fail 1 "a verifying proxy was not stopped"
  fi
  if [ -n "$scratch" ]; then
    "$TOOLS/servers.sh" stop "$scratch/servers" || fail 1 "a test server was not stopped"
    end_leftovers
    chmod -R u+rwX "$scratch" 2>/dev/null || true
    rm -rf "$scratch" || fail 1 "$scratch was not removed"
  fi
}

interrupted() {
  say "interrupted"
  stop_all
  exit "$1"
}

# Tests see the server that was started for them and nothing of the user's own: no keys, no profile, no
# endpoint, no proxy between them and loopback, no rank or start from a job that this shell may belong to.
clean_environment() {
  local name
  for name in $(compgen -e); do
    case $name in
    CLEAT_TEST_*) ;;
    AWS_* | CLEAT_* | SLURM_* | OMPI_* | RANK | WORLD_SIZE | LOCAL_RANK | MASTER_ADDR | MASTER_PORT) unset "$name" ;;
    esac
  done
  export AWS_EC2_METADATA_DISABLED=true AWS_CONFIG_FILE=/dev/null AWS_SHARED_CREDENTIALS_FILE=/dev/null
  local loopback=127.0.0.1,localhost,::1
  export NO_PROXY=${NO_PROXY:+$NO_PROXY,}$loopback no_proxy=${no_proxy:+$no_proxy,}$loopback
  export LC_ALL=C.UTF-8 TMPDIR=$scratch/tmp PYTHONDONTWRITEBYTECODE=1
  export CK_DEFAULT_TIMEOUT=60 # Check ends a test after 4 s, which is short on a busy machine
}

fail() {
  failed=$((failed + $1))
  failures+=("$2")
  say "FAILED: $2"
}

# Runs "$@" with a time limit, shows its output and keeps it in $1. Its exit status is the program's.
run_logged() {
  local seconds=$1 log=$2 status=0
  shift 2
  # Job control gives the job a process group of its own: it can be ended with all its children.
  set -m
  # shellcheck disable=SC2016 # expanded by the inner shell
  timeout -k 10 "$seconds" bash -c 'set -o pipefail; log=$1; shift; "$@" 2>&1 | tee "$log"' _ "$log" "$@" \
    </dev/null &
  job=$!
  set +m
  wait "$job" || status=$?
  # What a program left behind must not outlive it.
  kill -KILL -- "-$job" 2>/dev/null || true
  job=
  [ "$status" != 124 ] || say "ended after $seconds s: $*"
  return "$status"
}

# ThreadSanitizer of gcc 12 cannot start where the kernel spreads mappings wider than it knows.
runner=()
choose_runner() {
  case ${SANITIZE:-} in
  *thread*) ! setarch "$(uname -m)" -R true 2>/dev/null || runner=(setarch "$(uname -m)" -R) ;;
  esac
}

# A Check program that ended with status $3 and printed what is in file $2: its result is the line "100%: Checks: 12,
# Failures: 0, Errors: 0".
judge_check_program() {
  local what=$1 log=$2 status=$3 checks=0 bad=0
  read -r checks bad < <(
    sed -n 's/^[0-9]*%: Checks: \([0-9]*\), Failures: \([0-9]*\), Errors: \([0-9]*\).*/\1 \2 \3/p' "$log" |
      awk '{ c += $1; b += $2 + $3 } END { print c + 0, b + 0 }')
  passed=$((passed + checks - bad))
  if [ "$bad" -gt 0 ]; then
    fail "$bad" "$what: $bad of $checks checks"
  elif [ "$status" -ne 0 ]; then
    fail 1 "$what: exit status $status"
  elif [ "$checks" -eq 0 ]; then
    fail 1 "$what: ran no check"
  fi
}

# run_check_program PROGRAM [NAME=value…]: what follows it is added to its environment.
run_check_program() {
  local program=$1 what="$1${2:+ ($2)}" log=$scratch/output status=0
  shift
  say "$what"
  run_logged "$PROGRAM_SECONDS" "$log" env "$@" "${runner[@]}" "$program" || status=$?
  judge_check_program "$what" "$log" "$status"
}

list_programs() {
  mapfile -t programs < <(run_make -s "print-$1" | grep . || true)
  [ ${#programs[@]} -gt 0 ] || fail 1 "no tests in tests/$1"
}

# Check programs that share nothing: most of what they do is to wait, too.
run_check_group() {
  local programs program name logs=$scratch/checks
  list_programs "$1"
  rm -rf "$logs"
  mkdir "$logs"
  printf '%s\n' "${programs[@]}" >"$logs/programs"
  run_logged $((PROGRAM_SECONDS * 4)) "$scratch/output" xargs -a "$logs/programs" -P 4 -I '{}' \
    "$TOOLS/one_program.sh" "$logs" "$PROGRAM_SECONDS" "${runner[@]}" '{}' || fail 1 "the programs of tests/$1"
  for program in "${programs[@]}"; do
    name=${program##*/}
    if [ -e "$logs/$name.status" ]; then
      judge_check_program "$program" "$logs/$name.log" "$(cat "$logs/$name.status")"
    else
      fail 1 "$program: did not end"
    fi
  done
}

# Those that share a server, one after the other.
run_server_programs() {
  local programs program
  list_programs integration
  for program in "${programs[@]}"; do
    run_check_program "$program"
  done
}

# The table of cases that every store must pass, on the servers that are not the first, which has had its turn. The
# cases of file:// need no server.
run_store_tables() {
  local known programs program settings
  mapfile -t programs < <(run_make -s print-integration | grep /test_store)
  for known in "$CLEAT_TEST_SERVERS"/*; do
    [ "${known##*/}" != minio-http ] || continue
    mapfile -t settings <"$known"
    for program in "${programs[@]}"; do
      run_check_program "$program" "CLEAT_TEST_SERVER=${known##*/}" CK_RUN_CASE=s3 "${settings[@]}"
    done
  done
}

# A program that prints "ok - …" and "not ok - …" lines: a header test, or a fuzz target at its
# corpus; "${@:2}" are its arguments.
run_line_test() {
  local script=$1 log=$scratch/output status=0 good bad
  say "$*"
  run_logged "$PROGRAM_SECONDS" "$log" "${runner[@]}" "$@" || status=$?
  good=$(grep -c '^ok ' "$log") || true
  bad=$(grep -c '^not ok ' "$log") || true
  passed=$((passed + good))
  if [ "$bad" -gt 0 ]; then
    fail "$bad" "$script"
  elif [ "$status" -ne 0 ] || [ "$good" -eq 0 ]; then
    fail 1 "$script: exit status $status after $good checks"
  fi
}

run_header_group() {
  local script
  for script in tests/header/test_*.sh; do
    run_line_test "$script"
  done
}

# Every fuzz target replays its corpus; a target without corpus and a corpus without target are failures.
run_corpora_group() {
  local programs program corpus
  mapfile -t programs < <(run_make -s print-fuzz | grep . || true)
  [ ${#programs[@]} -gt 0 ] || fail 1 "no targets in tests/fuzz"
  for program in "${programs[@]}"; do
    run_line_test "$program" "tests/fuzz/corpus/${program##*/fuzz_}"
  done
  for corpus in tests/fuzz/corpus/*; do
    [ -e "tests/fuzz/fuzz_${corpus##*/}.c" ] || fail 1 "$corpus: there is no such target"
  done
}

# The models of the protocol, checked by spin.
run_model_group() {
  run_line_test tests/model/run.sh
}

# CUDA memory on the stand-in for the CUDA Runtime. A case that is skipped there is a failure.
run_gpu_group() {
  local programs program
  mapfile -t programs < <(run_make -s print-gpu | grep . || true)
  [ ${#programs[@]} -gt 0 ] || fail 1 "no tests in tests/gpu"
  for program in "${programs[@]}"; do
    run_line_test "$program"
    ! grep -q '^skipped ' "$scratch/output" || fail 1 "$program skips cases"
  done
  run_line_test tests/gpu/trainer.sh "${BUILD:-build}/tests/gpu/fake_trainer"
}

# pytest's JUnit file has the exact counts; a skipped or expected-to-fail test counts as failed.
read_junit() {
  python3 - "$1" <<'PY'
import sys, xml.etree.ElementTree as tree
total = bad = 0
for suite in tree.parse(sys.argv[1]).getroot().iter("testsuite"):
    total += int(suite.get("tests"))
    bad += int(suite.get("failures")) + int(suite.get("errors")) + int(suite.get("skipped"))
print(total - bad, bad)
PY
}

# run_pytest WHAT…: a part of tests/integration, and how each of its requests was signed.
run_pytest() {
  local python log=$scratch/output junit=$scratch/junit.xml table=${BUILD:-build}/faults.txt status=0 good=0 bad=0
  python=$("$TOOLS/venv.sh")
  rm -f "$table"
  say "$*"
  CLEAT=$ROOT/${BUILD:-build}/cleat run_logged "$PYTEST_SECONDS" "$log" "${runner[@]}" "$python" -m pytest \
    -p no:cacheprovider -o tmp_path_retention_policy=failed -ra -v --durations=5 --junitxml="$junit" "$@" || status=$?
  if [ -e "$junit" ]; then
    read -r good bad < <(read_junit "$junit") || good=0 bad=0
  fi
  if [ -e "$table" ]; then
    cat "$table"
  fi
  passed=$((passed + good))
  if [ "$bad" -gt 0 ]; then
    fail "$bad" "$*: $bad failed or skipped"
  elif [ "$status" -ne 0 ] || [ "$good" -eq 0 ]; then
    fail 1 "$*: pytest ended with $status after $good tests"
  fi
}

# judge_signatures [--full]: what the proxies before the servers have seen.
judge_signatures() {
  "$TOOLS/signing_proxy.py" stop "$CLEAT_TEST_SIGNATURES"
  run_line_test "$TOOLS/signing_proxy.py" report "$@" "$CLEAT_TEST_SIGNATURES"
}

# The Check programs that need a server, then pytest. CLEAT_TEST_SELECT, words for pytest, is a choice among its tests.
run_integration_group() {
  local select=()
  run_server_programs
  run_store_tables
  read -ra select <<<"${CLEAT_TEST_SELECT:-}"
  if [ ${#select[@]} -eq 0 ]; then
    run_pytest "${SIDE_BY_SIDE[@]}" tests/integration
    judge_signatures --full
  else
    run_pytest "${SIDE_BY_SIDE[@]}" "${select[@]}"
    judge_signatures
  fi
}

# Servers that speak S3 in ways of their own, each started and tried; STORES is a choice among them. Prints the table of
# what was seen.
run_stores_group() {
  local table=${BUILD:-build}/stores.jsonl
  PYTEST_SECONDS=${CLEAT_TEST_PYTEST_SECONDS:-7200}
  rm -f "$table"
  export CLEAT_TEST_OTHERS=${STORES:-ceph garage moto s3mock s3proxy s3rver s3s_fs swift} CLEAT_TEST_OTHERS_TABLE=$table
  export CLEAT_TEST_KILLS=${CLEAT_TEST_KILLS:-30} CLEAT_TEST_RACES=${CLEAT_TEST_RACES:-20}
  export CLEAT_TEST_ZOMBIES=${CLEAT_TEST_ZOMBIES:-60}
  run_pytest tests/integration/test_other_servers.py
  python3 "$TOOLS/stores_table.py" "$table"
}

# Kills and races until luck is no excuse.
run_endurance_group() {
  PYTEST_SECONDS=${CLEAT_TEST_PYTEST_SECONDS:-7200}
  export CLEAT_TEST_KILLS=${CLEAT_TEST_KILLS:-200} CLEAT_TEST_RACES=${CLEAT_TEST_RACES:-200}
  run_pytest tests/integration/test_kill.py tests/integration/test_ranks_killed.py -s \
    -k 'random_moments or two_processes'
  CLEAT_TEST_ZOMBIES=${CLEAT_TEST_ZOMBIES:-1000} run_pytest tests/integration/test_zombies.py -s
  run_pytest tests/integration/endurance_huggingface.py -s
  judge_signatures
}

# The bugs of tests/mutants, each put into a copy of the tree, which its test must find.
run_mutants_group() {
  local log=$scratch/output status=0 good=0 bad=0
  run_logged "$MUTANTS_ALL_SECONDS" "$log" "$TOOLS/mutants.py" || status=$?
  rm -rf "$scratch/findings/"* # what a sanitizer says of a mutant is no finding
  read -r good bad < <(
    sed -n 's/^\([0-9]\+\) passed, \([0-9]\+\) failed$/\1 \2/p' "$log" | tail -n 1 | grep . || echo 0 0)
  passed=$((passed + good))
  if [ "$bad" -gt 0 ]; then
    fail "$bad" "mutants: $bad"
  elif [ "$status" -ne 0 ] || [ "$good" -eq 0 ]; then
    fail 1 "mutants: exit status $status after $good"
  fi
}

# What sanitizers find goes into files, so that no test can take it for an expected failure.
listen_to_sanitizers() {
  [ -n "${SANITIZE:-}" ] || return 0
  PYTEST_SECONDS=${CLEAT_TEST_PYTEST_SECONDS:-5400} # all of it is several times as slow
  mkdir "$scratch/findings"
  export CK_FORK=${CK_FORK:-no}
  export ASAN_OPTIONS=log_path=$scratch/findings/asan:exitcode=97:detect_leaks=1
  export UBSAN_OPTIONS=log_path=$scratch/findings/ubsan:print_stacktrace=1
  export TSAN_OPTIONS=log_path=$scratch/findings/tsan:exitcode=97
}

# A line of this kind alone is none: a test killed the program while it was being searched for leaks.
readonly KILLED_IN_LEAK_CHECK='^==[0-9]+==Unable to get registers from thread [0-9]+\.$'
judge_sanitizers() {
  [ -n "${SANITIZE:-}" ] || return 0
  local finding found=0
  for finding in "$scratch"/findings/*; do
    if [ ! -e "$finding" ] || ! grep -qvE "$KILLED_IN_LEAK_CHECK" "$finding"; then
      continue
    fi
    found=1
    head -n 60 "$finding"
    fail 1 "sanitizer: $(grep -m 1 -E 'ERROR|WARNING|runtime error' "$finding" || echo "${finding##*/}")"
  done
  if [ "$found" = 0 ]; then
    passed=$((passed + 1))
    echo "ok - no finding of the sanitizers ($SANITIZE)"
  fi
}

start_servers() {
  local lines
  say "starting MinIO and versitygw"
  lines=$("$TOOLS/servers.sh" start "$scratch/servers") || return 1
  eval "$lines"
  export CLEAT_TEST_ENDPOINT CLEAT_TEST_SERVERS AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_REGION
}

# put_proxy_before FILE: the server that FILE describes, as minio.sh prints it, gets a proxy that verifies how each
# request is signed; FILE then names the proxy, and the server itself as CLEAT_TEST_DIRECT.
put_proxy_before() {
  local line ca direct tls=()
  direct=$(sed -n 's/^CLEAT_TEST_ENDPOINT=//p' "$1")
  ca=$(sed -n 's/^AWS_CA_BUNDLE=//p' "$1")
  [ -z "$ca" ] || tls=(--tls "${ca%/*}/server/public.crt" "${ca%/*}/server/private.key" "$ca")
  line=$(AWS_SECRET_ACCESS_KEY=$(sed -n 's/^AWS_SECRET_ACCESS_KEY=//p' "$1") "$("$TOOLS/venv.sh")" \
    "$TOOLS/signing_proxy.py" start "$direct" "$CLEAT_TEST_SIGNATURES" "${tls[@]}") ||
    return 1
  sed -i "s|^CLEAT_TEST_ENDPOINT=.*|$line\nCLEAT_TEST_DIRECT=$direct|" "$1"
}

# What the tests know as a server is its proxy. CLEAT_TEST_DIRECT is the first server itself, for tests that damage
# requests on their way.
start_signing_proxies() {
  local file
  export CLEAT_TEST_SIGNATURES=$scratch/signatures CLEAT_TEST_DIRECT=$CLEAT_TEST_ENDPOINT
  # versitygw verifies strictly itself, and often refuses before it has read the body, then closes: a proxy that is
  # still sending would lose its answer.
  for file in "$CLEAT_TEST_SERVERS"/minio-*; do
    put_proxy_before "$file" || return 1
  done
  eval "$(grep ^CLEAT_TEST_ENDPOINT= "$CLEAT_TEST_SERVERS/minio-http")"
}

build() {
  local group targets=()
  for group in "$@"; do
    case $group in
    unit | torture) targets+=("$group-programs") ;;
    integration | stores | endurance) targets+=(all integration-programs) ;;
    corpora) targets+=(fuzz-programs) ;;
    model | mutants) ;;
    gpu) targets+=(gpu-programs) ;;
    header) targets+=(all) ;;
    *) die "unknown group '$group'" ;;
    esac
  done
  "$TOOLS/deps.sh" test || return 1
  [ ${#targets[@]} -gt 0 ] || return 0
  say "building"
  run_make "${targets[@]}"
}

# needs_servers GROUP…
needs_servers() {
  case " $* " in
  *" integration "* | *" endurance "*) return 0 ;;
  *" mutants "*) "$TOOLS/mutants.py" --groups | grep -qx integration ;;
  *) return 1 ;;
  esac
}

finish() {
  stop_all
  if [ ${#failures[@]} -gt 0 ]; then
    printf 'FAILED: %s\n' "${failures[@]}"
  fi
  echo "$passed passed, $failed failed"
  exit $((failed > 0 || passed == 0))
}

# This script itself has met an error, at a full disk for example. What has been counted is told all the same.
ended_early() {
  fail 1 "run_tests.sh ended at line $failed_line"
  finish
}

[ $# -gt 0 ] || die "usage: run_tests.sh unit|torture|corpora|model|gpu|header|integration|stores|endurance|mutants…"
failed_line='?'
set -E
trap 'failed_line=$LINENO' ERR
trap ended_early EXIT
trap 'interrupted 130' INT
trap 'interrupted 143' TERM
trap 'interrupted 129' HUP
scratch=$(mktemp -d "${TMPDIR:-/tmp}/cleat-test.XXXXXX")
mkdir "$scratch/tmp"

build "$@" || { fail 1 "the build"; finish; }
clean_environment
choose_runner
listen_to_sanitizers
if needs_servers "$@"; then
  start_servers || { fail 1 "a test server did not start"; finish; }
  start_signing_proxies || { fail 1 "the verifying proxy did not start"; finish; }
fi
for group in "$@"; do
  case $group in
  unit | torture) run_check_group "$group" ;;
  *) "run_${group}_group" ;;
  esac
done

judge_sanitizers
finish
