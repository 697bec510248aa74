#!/usr/bin/env python3
"""Prints figures of the sources for comparison with other code bases, as a Markdown table. Run by `make metrics`.

usage: metrics.py [ROOT]      needs Universal Ctags

Functions are those that ctags finds in .c files, with their first and last line. Parameters are counted by the commas
at depth one of a signature. A sentence ends with '.', '?', '!' or ':' before white space. Code blocks and tables are
skipped.
"""

import json
import os
import re
import subprocess
import sys

PRODUCT = ("api", "base", "gpu", "storage", "uploader")
MANY_FIELDS = 20
MANY_PARAMETERS = 6
PROSE = ("README.md", "docs", *(folder + "/" for folder in PRODUCT))


def listed(root, *patterns):
    out = subprocess.run(["git", "-C", root, "ls-files", "-co", "--exclude-standard", *patterns], check=True,
                         stdout=subprocess.PIPE, text=True).stdout
    return [name for name in out.split("\n") if name and os.path.isfile(os.path.join(root, name))]


def read(root, name):
    with open(os.path.join(root, name), encoding="utf-8", errors="replace") as file:
        return file.read()


def spread(values):
    """Median, 90th percentile and maximum."""
    values = sorted(values)
    return tuple(values[min(len(values) - 1, int(len(values) * share))] for share in (0.5, 0.9, 1))


def tags(root, names, kinds):
    out = subprocess.run([
        "ctags", "--output-format=json", "--languages=C", "--map-C=+.h", "--kinds-C=" + kinds, "--fields=+neS", "-f",
        "-", *names
    ], check=True, stdout=subprocess.PIPE, cwd=root, text=True).stdout
    return [json.loads(line) for line in out.splitlines()]


def parameters(signature):
    depth, count = 0, 1
    inner = signature.strip()[1:-1].strip()
    for letter in inner:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        count += letter == "," and depth == 0
    return 0 if inner in ("", "void") else count


def fields(root, names):
    found = {}
    for tag in tags(root, names, "m"):
        if tag.get("scopeKind") == "struct":
            key = (tag["path"], tag["scope"])
            found[key] = found.get(key, 0) + 1
    return found


def comment_share(text):
    lines = text.split("\n")
    comments = sum(block.count("\n") + 1 for block in re.findall(r"/\*.*?\*/|//[^\n]*", text, re.S))
    return comments, len(lines)


def prose(text):
    """Sentences of a page, without code blocks, tables, headings and lists' marks."""
    text = re.sub(r"```.*?```", "", text, flags=re.S)
    kept = [line for line in text.split("\n") if not re.match(r"\s*(\||#|<|!\[)|    ", line)]
    sentences = re.split(r"(?<=[.?!:])\s+", " ".join(kept))
    return [sentence for sentence in sentences if len(sentence.split()) > 2]


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else "."
    sources = [name for name in listed(root, "*.c", "*.h") if name.startswith(PRODUCT) and "/examples/" not in name]
    code = [name for name in sources if name.endswith(".c")]
    tests = [name for name in listed(root, "tests") if name.endswith((".c", ".h", ".py", ".sh"))]
    lines = {name: read(root, name).count("\n") for name in sources + tests}
    functions = [tag for tag in tags(root, code, "f") if "end" in tag]
    lengths = [tag["end"] - tag["line"] + 1 for tag in functions]
    many = [tag["name"] for tag in functions if parameters(tag.get("signature", "()")) > MANY_PARAMETERS]
    comments = [comment_share(read(root, name)) for name in sources]
    asserts = sum(len(re.findall(r"\bassert\w*\s*\(|CLEAT__ASSERT", read(root, name))) for name in code)
    pages = [name for name in listed(root, "*.md") if name.startswith(PROSE)]
    sentences = [sentence for name in pages for sentence in prose(read(root, name))]
    rows = [
        (".c lines, median / p90 / max", "%d / %d / %d" % spread(lines[name] for name in code)),
        ("function, median / p90 / max", "%d / %d / %d" % spread(lengths)),
        ("comment lines %", "%d" % (100 * sum(c for c, _ in comments) / sum(n for _, n in comments))),
        ("tests : source lines", "%.1f" % (sum(lines[name] for name in tests) / sum(lines[name] for name in sources))),
        ("structs with over %d fields" % MANY_FIELDS, "%d" % sum(n > MANY_FIELDS
                                                                 for n in fields(root, sources).values())),
        ("functions with over %d parameters, per 1,000" % MANY_PARAMETERS,
         "%.0f" % (1000 * len(many) / len(functions))),
        ("asserts", "%d" % asserts),
        ("README words", "%d" % len(read(root, "README.md").split())),
        ("commas a sentence", "%.2f" % (sum(sentence.count(",") for sentence in sentences) / len(sentences))),
        ("words a sentence", "%.1f" % (sum(len(sentence.split()) for sentence in sentences) / len(sentences))),
    ]
    print("| | Cleat |\n|---|---|")
    for name, value in rows:
        print("| %s | %s |" % (name, value))


if __name__ == "__main__":
    main()
