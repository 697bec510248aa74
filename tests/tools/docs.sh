#!/usr/bin/env bash
# Builds the pages of docs/ as a site in build/docs, with pages of the C API from the headers. Checks that the site
# loads nothing from elsewhere. Broken links and anchors fail. So do public declarations without a comment.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$ROOT"

site=$ROOT/${BUILD:-build}/docs
api=$ROOT/${BUILD:-build}/docs-api

# read_headers FOLDER OUT: what Doxygen sees in the headers of a folder.
read_headers() {
  mkdir -p "$2" || return 1
  { cat docs/site/Doxyfile &&
    printf 'INPUT = "%s"\nOUTPUT_DIRECTORY = "%s"\nWARN_LOGFILE = "%s"\n' "$1" "$2" "$2/warnings"; } | doxygen -
}

# The pages of the C API.
make_api_pages() {
  rm -rf "$api"
  read_headers api/cleat "$api" && python3 docs/site/api_pages.py pages "$api/xml" "$api/warnings" "$api/pages"
}

# Shows that a declaration without a comment is found.
finds_bare_declarations() {
  local planted=$api/planted found
  mkdir -p "$planted" || return 1
  printf '%s\n' '/* a.h: a header. */' '' '/* Has one. */' 'void told(void);' '' 'void bare(void);' '' \
    'struct naked {' '  int x;' '};' >"$planted/a.h"
  read_headers "$planted" "$planted/out" || return 1
  found=$(python3 docs/site/api_pages.py bare "$planted/out/warnings" 2>&1) && return 1
  [ "$found" = $'C API: bare has no comment\nC API: naked has no comment' ] || { echo "$found" >&2; return 1; }
}

# Scripts, styles, pictures and frames; links that a reader may follow are no matter.
loads_from_elsewhere() {
  grep -rEno --include='*.html' -e '<(script|img|iframe|source)[^>]* src="?(https?:)?//[^ >]*' \
    -e '<link[^>]* href="?(https?:)?//[^ >]*' "$site"
}

"$TOOLS/deps.sh" docs
python=$("$TOOLS/venv.sh" docs)
make_api_pages || die "the pages of the C API cannot be made"
finds_bare_declarations || die "a declaration without a comment is not found"
rm -rf "$site"
# Not --quiet: a warning that is not shown is not counted by --strict.
NO_MKDOCS_2_WARNING=1 "$python" -m mkdocs build --strict --config-file docs/site/mkdocs.yml --site-dir "$site"
! loads_from_elsewhere || die "the site loads from elsewhere"
say "build/docs/index.html"
