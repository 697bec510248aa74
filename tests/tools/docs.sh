#!/usr/bin/env bash
# Builds the pages of docs/ as a site in build/docs, and checks that it loads nothing from elsewhere. Broken links and
# anchors fail.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$ROOT"

site=$ROOT/${BUILD:-build}/docs

# Scripts, styles, pictures and frames; links that a reader may follow are no matter.
loads_from_elsewhere() {
  grep -rEno --include='*.html' '<(script|img|iframe|source)[^>]* src="?(https?:)?//[^ >]*|<link[^>]* href="?(https?:)?//[^ >]*' "$site"
}

"$TOOLS/deps.sh" docs
python=$("$TOOLS/venv.sh" docs)
rm -rf "$site"
# Not --quiet: a warning that is not shown is not counted by --strict.
NO_MKDOCS_2_WARNING=1 "$python" -m mkdocs build --strict --config-file docs/site/mkdocs.yml --site-dir "$site"
! loads_from_elsewhere || die "the site loads from elsewhere"
say "build/docs/index.html"
