#!/bin/sh
# The health check of Cleat's images: does `cleat run`, process 1, still turn its loop?
#
# It rewrites its metrics file every 15 s; one that is older than a minute is that of a process that hangs. Before it is
# there, a checkpoint is being restored, which takes as long as it takes. Without --metrics-file, and for every other
# command, process 1 must not be stopped or dead. That a store cannot be reached is no reason to end a training that
# goes on, so it is none to be unhealthy: the metrics tell of it.
# Another process 1, such as a shell that starts `cleat run`, names the file by CLEAT_METRICS_FILE.
set -eu
age_max_s=60

# The value of --metrics-file among the arguments of process 1, up to the command's own.
metrics_file() {
  tr '\0' '\n' </proc/1/cmdline | awk '
    $0 == "--" { exit }
    found { print; exit }
    $0 == "--metrics-file" { found = 1 }
    sub(/^--metrics-file=/, "") { print; exit }'
}

say() {
  echo "cleat-health: $1"
  exit "$2"
}

state=$(sed -n 's/^State:[[:space:]]*\(.\).*/\1/p' /proc/1/status)
case $state in
[TtZX]) say "process 1 is in state $state" 1 ;;
esac
file=${CLEAT_METRICS_FILE:-$(metrics_file)}
[ -n "$file" ] || say "process 1 runs; without --metrics-file no more is known" 0
cd /proc/1/cwd 2>/dev/null || true # a relative path is one of process 1
[ -e "$file" ] || say "no metrics yet: a checkpoint is being restored" 0
age_s=$(($(date +%s) - $(stat -c %Y "$file")))
[ "$age_s" -le "$age_max_s" ] || say "the metrics in $file are $age_s s old: cleat run hangs" 1
say "the metrics are $age_s s old" 0
