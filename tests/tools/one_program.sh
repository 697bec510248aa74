#!/usr/bin/env bash
# Runs one of several test programs that run at the same time. Shows its whole output after it has ended. Keeps the
# output in FOLDER/NAME.log and the exit status in FOLDER/NAME.status.
# usage: one_program.sh FOLDER SECONDS COMMAND… PROGRAM
set -euo pipefail

folder=$1 seconds=$2
shift 2
log=$folder/$(basename "${!#}").log
status=0
echo "== ${!#}" >"$log"
# In the foreground: the program stays in the process group that its caller ends.
timeout --foreground -k 10 "$seconds" "$@" >>"$log" 2>&1 </dev/null || status=$?
[ "$status" != 124 ] || echo "ended after $seconds s" >>"$log"
echo "$status" >"${log%.log}.status"
flock "$folder" cat "$log"
