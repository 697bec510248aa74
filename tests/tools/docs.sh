#!/usr/bin/env bash
# Builds the pages of docs/ as a site in build/docs, with pages of the C API from the headers, and checks that it loads
# nothing from elsewhere. Broken links and anchors fail, and public declarations without a comment.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$ROOT"

site=$ROOT/${BUILD:-build}/docs
api=$ROOT/${BUILD:-build}/docs-api

# The pages of the C API, by Doxygen.
make_api_pages() {
  rm -rf "$api" && mkdir -p "$api" || return 1
  { cat docs/site/Doxyfile && printf 'OUTPUT_DIRECTORY = "%s"\nWARN_LOGFILE = "%s"\n' "$api" "$api/warnings"; } |
    doxygen - || return 1
  python3 docs/site/api_pages.py pages "$api/xml" "$api/warnings" "$api/pages"
}

# Scripts, styles, pictures and frames; links that a reader may follow are no matter.
loads_from_elsewhere() {
  grep -rEno --include='*.html' '<(script|img|iframe|source)[^>]* src="?(https?:)?//[^ >]*|<link[^>]* href="?(https?:)?//[^ >]*' "$site"
}

"$TOOLS/deps.sh" docs
python=$("$TOOLS/venv.sh" docs)
make_api_pages || die "the pages of the C API cannot be made"
rm -rf "$site"
# Not --quiet: a warning that is not shown is not counted by --strict.
NO_MKDOCS_2_WARNING=1 "$python" -m mkdocs build --strict --config-file docs/site/mkdocs.yml --site-dir "$site"
! loads_from_elsewhere || die "the site loads from elsewhere"
say "build/docs/index.html"
