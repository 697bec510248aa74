"""The rules of lint_source.py for comments in the public headers. `tree` is its Tree."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/site"))
from headers import findings  # noqa: E402

PUBLIC_FOLDER = "api/cleat"


def public_comments(tree):
    """Every public declaration has a comment above it, with what the pages that are made from it need."""
    for name in tree.sources:
        if os.path.dirname(name) == PUBLIC_FOLDER:
            for line, what in findings(tree.read(name)):
                yield name, line, what
