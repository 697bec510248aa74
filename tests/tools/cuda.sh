#!/usr/bin/env bash
# Gets the headers and the static Runtime that compile and link the CUDA driver of gpu/. Needs no installed CUDA and no
# device. They come from Python's package registry and are cached outside the tree. Prints the folder for `make CUDA=…`.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# The Runtime, the headers that it includes, and what they must hash to.
readonly RUNTIME=13.5.37 RUNTIME_SHA256=df2b79a8852f10d1fef8c848489c49eebb5754051bf870202a862831412b179d
readonly CRT=13.5.37 CRT_SHA256=e898b7f73d3035fa89915a3f7bf3b54a73e90249746111aed295822c4729bb29

[ "$(uname -m)" = x86_64 ] || die "the packages are pinned for x86_64 alone; install CUDA and use CUDA=DIR"
cuda=$CACHE/cuda-$RUNTIME-$CRT
mkdir -p "$CACHE"
exec 9>"$CACHE/.cuda-lock"
flock 9
# The stamp comes last: an interrupted try is done again from the start.
if [ ! -e "$cuda/.complete" ]; then
  say "getting the CUDA Runtime $RUNTIME"
  rm -rf "$cuda"
  mkdir -p "$cuda"
  printf 'nvidia-cuda-runtime==%s --hash=sha256:%s\nnvidia-cuda-crt==%s --hash=sha256:%s\n' \
    "$RUNTIME" "$RUNTIME_SHA256" "$CRT" "$CRT_SHA256" >"$cuda/requirements.txt"
  "$("$TOOLS/venv.sh")" -m pip install --quiet --disable-pip-version-check --no-input --retries 5 --no-deps \
    --only-binary=:all: --require-hashes --target "$cuda/site" -r "$cuda/requirements.txt" >&2
  touch "$cuda/.complete"
fi
echo "$cuda/site/nvidia/cu${RUNTIME%%.*}"
