#!/usr/bin/env bash
# Makes a Python environment for tests, once for each content of its requirements file. Prints the path of its python.
# usage: venv.sh [NAME]    uses requirements-NAME.txt; without NAME requirements.txt, which most tests need
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

requirements=$TOOLS/requirements${1:+-$1}.txt
python=$(PATH=/usr/bin:$PATH command -v python3) || die "python3 is missing: run 'make deps'"
key=$({ cat "$requirements" && "$python" -c 'import sys; print(sys.version)'; } | sha256sum | cut -c1-16)
venv=$CACHE/venv${1:+-$1}-$key

mkdir -p "$CACHE"
exec 9>"$CACHE/.venv-lock${1:+-$1}"
flock 9
# The stamp comes last: an interrupted try is done again from the start.
if [ ! -e "$venv/.complete" ]; then
  say "making the Python environment of the tests${1:+: $1}"
  rm -rf "$venv"
  "$python" -m venv "$venv" >&2
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --retries 5 \
    -r "$requirements" >&2
  touch "$venv/.complete"
fi
echo "$venv/bin/python"
