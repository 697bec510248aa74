#!/usr/bin/env bash
# Makes the page of results, and its plots, from the document of a run, with matplotlib in a cached environment of its
# own.
# usage: report.sh RESULTS.json FOLDER
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../tools/common.sh"

# All pinned, the indirect ones too: the same document gives the same page.
readonly PACKAGES="contourpy==1.3.3 cycler==0.12.1 fonttools==4.68.0 kiwisolver==1.5.1 matplotlib==3.10.7 numpy==2.4.6
  packaging==26.3 pillow==13.0.0 pyparsing==3.3.3 python-dateutil==4.0.0 tzdata==2026.6"

key=$(echo "$PACKAGES" | sha256sum | cut -c1-16)
venv=$CACHE/report-$key
mkdir -p "$CACHE"
exec 9>"$CACHE/.report-lock"
flock 9
if [ ! -e "$venv/.complete" ]; then
  say "installing matplotlib"
  rm -rf "$venv"
  /usr/bin/python3 -m venv "$venv" >&2
  # shellcheck disable=SC2086 # a list
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --retries 5 $PACKAGES >&2
  touch "$venv/.complete"
fi
exec 9>&-
"$venv/bin/python" "$ROOT/tests/bench/report.py" "$@"
