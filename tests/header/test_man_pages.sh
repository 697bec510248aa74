#!/usr/bin/env bash
# Man pages of the library, as installed: each exported function and each public type has one, all of them render, name
# no page that is not there, and the program of cleat(3) compiles and runs.
set -euo pipefail
source "$(dirname "$0")/checks.sh"

pages=$work/root/usr/local/share/man/man3

# has_pages NAME…
has_pages() {
  local name
  [ $# -gt 0 ] || { echo "no names"; return 1; }
  for name in "$@"; do
    [ -f "$pages/$name.3" ] || { echo "no page: $name(3)"; return 1; }
  done
}

functions() {
  nm -D --defined-only "$BUILD/libcleat.so" | awk '{ print $NF }' | sed 's/@.*//'
}

types() {
  sed -nE 's/^(typedef )?(struct|enum) (cleat_[a-z0-9_]+) \{.*/\3/p' "$ROOT"/api/cleat/*.h
}

# What mandoc has against it, but for pages of others that are not installed here.
is_sound() {
  mandoc -T lint "$1" | grep -v 'STYLE: referenced manual not found: Xr' >"$work/lint" || true
  cat "$work/lint"
  [ ! -s "$work/lint" ]
}

# shows PAGE HEADING…: the page as text has these headings.
shows() {
  local heading
  mandoc -T utf8 "$1" | sed 's/.\x08//g' >"$work/text" || return 1
  for heading in "${@:2}"; do
    grep -qx "$heading" "$work/text" || { echo "$1 has no $heading"; return 1; }
  done
}

all_are_sound() {
  local page
  for page in "$pages"/*.3; do
    is_sound "$page" || { echo "$page"; return 1; }
  done
}

# A page of a function also has its prototype.
all_render() {
  local page name
  for page in "$pages"/*.3; do
    shows "$page" NAME SYNOPSIS DESCRIPTION "SEE ALSO" || return 1
  done
  for name in $(functions); do
    shows "$pages/$name.3" NAME && grep -q "^ *$name(.*[,;]$" "$work/text" || { echo "no prototype: $name"; return 1; }
  done
}

# What a status means stands on every page of a function that returns one.
errors_are_told() {
  local page
  for page in $(grep -l '^\.Ft cleat_status' "$pages"/*.3); do
    shows "$page" "RETURN VALUES" ERRORS || return 1
  done
}

references_lead_somewhere() {
  local name section
  grep -ho '^\.\(It \)\?Xr .*' "$pages"/*.3 | sed 's/^\.It /./' | sort -u | while read -r _ name section _; do
    [ -f "${pages%3}$section/$name.$section" ] || { echo "no such page: $name($section)"; return 1; }
  done
}

overview_names_every_function() {
  local name
  for name in $(functions); do
    grep -qx "\.It Xr $name 3" "$pages/cleat.3" || { echo "not in cleat(3): $name"; return 1; }
  done
}

program_of_the_overview_runs() {
  sed -n '/^#include <cleat.h>/,/^\.Ed/p' "$pages/cleat.3" | sed -e '$d' -e 's/\\e/\\/g' >"$work/p.c"
  # shellcheck disable=SC2046 # the flags are words
  gcc -std=c11 -Wall -Wextra -Werror "$work/p.c" $(installed_flags --cflags --libs) -o "$work/p" &&
    HOME=$work LD_LIBRARY_PATH=$work/root/usr/local/lib "$work/p" "file://$work/store" >"$work/said" &&
    [ "$(cat "$work/said")" = "step 1200: 6" ]
}

no_pages_left() {
  "${MAKE:-make}" --no-print-directory -s -C "$ROOT" uninstall DESTDIR="$work/root" PREFIX=/usr/local &&
    [ -z "$(ls "$pages")" ]
}

check "make install" install_tree
# shellcheck disable=SC2046 # names are words
check "each function has a page" has_pages $(functions)
# shellcheck disable=SC2046
check "each type has a page" has_pages $(types)
check "mandoc has nothing against a page" all_are_sound
check "each page renders" all_render
check "pages of functions tell errors" errors_are_told
check "each page that is named is there" references_lead_somewhere
check "cleat(3) names each function" overview_names_every_function
check "the program of cleat(3) runs" program_of_the_overview_runs
check "make uninstall removes the pages" no_pages_left
exit $result
