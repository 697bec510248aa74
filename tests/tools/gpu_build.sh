#!/usr/bin/env bash
# Compiles and links the CUDA driver of gpu/ with the real CUDA Runtime, on a machine that has neither CUDA nor a
# device. Prints a line "ok - …" or "not ok - …" for each check, and then "N passed, M failed".
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
source "$TOOLS/tally.sh"
cd "$ROOT"

# The stand-in's functions are declared by its own header; here the real one is what they must agree with.
stand_in_agrees() {
  local file
  for file in tests/fake_cudart/*.c; do
    "${CC:-gcc}" -std=c11 -D_GNU_SOURCE -I. -isystem "$CUDA/include" -Wall -Wextra -Werror -fsyntax-only "$file" ||
      return 1
  done
}

# The first C example of the guide, which is the one for CUDA.
guide_compiles() {
  local example
  example=$(awk '/^```/ { if (inside) exit; inside = ($0 == "```c"); next } inside' docs/c-guide.md)
  grep -q '^#include <cuda_runtime_api.h>' <<<"$example" &&
    "${CC:-gcc}" -std=c11 -Iapi -isystem "$CUDA/include" -Wall -Wextra -Werror -fsyntax-only -x c - <<<"$example"
}

# It must start where there is no driver, so nothing of CUDA may be a library that it needs.
needs_no_driver() {
  ! readelf -d "$1" | grep -E 'NEEDED.*(libcuda|libcudart)'
}

"$TOOLS/deps.sh" build server
CUDA=$("$TOOLS/cuda.sh")
export CUDA
build=${BUILD:-build}/cuda
check "the CUDA driver compiles and links" run_make CUDA="$CUDA" BUILD="$build" all \
  "$build"/tests/gpu/{test_cuda,test_cuda_graphs,bench_cuda,absent}
check "the standalone build for a GPU machine" run_make CUDA="$CUDA" BUILD="$build/standalone" STANDALONE=1 lib \
  "$build"/standalone/tests/gpu/{test_cuda,test_cuda_graphs,bench_cuda}
check "the stand-in's calls are declared as the real ones" stand_in_agrees
check "the GPU example of docs/c-guide.md compiles" guide_compiles
check "cleat --version tells" grep -q 'with CUDA' <("$build/cleat" --version)
check "the program needs no driver" needs_no_driver "$build/cleat"
check "the library needs no driver" needs_no_driver "$build/libcleat.so"
check "without a driver, host memory works and CUDA memory is refused" "$build/tests/gpu/absent"
check "the benchmark builds on the stand-in" run_make "${BUILD:-build}/tests/gpu/fake_bench_cuda" CUDA=0
say "the benchmark on the stand-in, whose figures mean nothing"
check "the benchmark runs to its end" "${BUILD:-build}/tests/gpu/fake_bench_cuda" 64
finish
