#!/usr/bin/env bash
# Fails unless the symbols that a libcleat.so exports are exactly the functions that cleat.h declares.
# usage: check_symbols.sh HEADER LIBRARY
set -euo pipefail

# A name before "(" is a declaration, except in a typedef and before a pointer to a function: status (*callback)(…).
declared() {
  "${CC:-gcc}" -E -P "$1" | tr '\n;' ' \n' | grep -v '\btypedef\b' |
    grep -oP '\bcleat_\w+(?=\s*\((?!\s*\*))' | sort -u
}

exported() {
  nm -D --defined-only "$1" | awk '{ print $NF }' | sed 's/@.*//' | sort -u
}

[ $# = 2 ] || { echo "usage: check_symbols.sh HEADER LIBRARY" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
declared "$1" >"$work/declared"
exported "$2" >"$work/exported"
[ -s "$work/declared" ] || { echo "no function found in $1" >&2; exit 1; }
sed 's/^/declared but not exported: /' <(comm -23 "$work/declared" "$work/exported")
sed 's/^/exported but not declared: /' <(comm -13 "$work/declared" "$work/exported")
cmp -s "$work/declared" "$work/exported"
