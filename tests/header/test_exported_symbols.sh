#!/usr/bin/env bash
# libcleat.so exports what cleat.h declares and nothing else; its soname is the promised one.
set -euo pipefail
source "$(dirname "$0")/checks.sh"

has_soname() {
  objdump -p "$BUILD/libcleat.so" | grep -q 'SONAME  *libcleat\.so\.0$'
}

check "exports equal declarations" "$ROOT/tests/tools/check_symbols.sh" "$ROOT/api/cleat.h" "$BUILD/libcleat.so"
check "soname is libcleat.so.0" has_soname
exit $result
