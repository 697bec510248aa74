#!/usr/bin/env python3
"""The rules of this repository that no compiler checks. Each rule is one function that yields findings.

usage: lint_source.py [ROOT]

Prints "file:line: rule: what" for each finding, and one line "ok - rule" or "not ok - rule" for each rule. The exit
status is 1 if there are findings.
"""

import os
import re
import subprocess
import sys

from lint_headers import public_comments
from lint_lines import line_lengths
from lint_markdown import markdown_links, named_functions, quoted_messages

LINES_MAX = 600  # a longer file is split by verb
HEADER_LINES_MAX = 400  # a public header: users read it from beginning to end
BINARY_BYTES_MAX = 1 << 20

# What a file in this folder may include from. The public headers are open to all: they hold the common vocabulary
# (status codes, dtypes) and include nothing else of ours.
COMMON_HEADER = "api/cleat.h"
COMMON_FOLDER = "api/cleat"
LAYERS = {
    "base": {"base"},
    "storage": {"storage", "base"},
    "gpu": {"gpu", "base"},
    "uploader": {"uploader", "storage", "gpu", "base"},
    "api": {"api", "uploader", "storage", "gpu", "base"},
    "api/agent": {"api", "base"},
    "api/cli": {"api", "api/program", "api/run", "base"},
    "api/program": {"api", "base"},
    "api/run": {"api", "api/program", "base"},
    "api/examples": set(),
    "api/python": set(),
}
FOLDERS = ("api", "base", "docker", "docs", "gpu", "mk", "storage", "tests", "uploader")
NO_README = {"api/manager"}  # README.md of api/ tells of it
TOP_FILES = {"CONTRIBUTING.md", "LICENSE", "Makefile", "README.md"}

# (pattern, where it is allowed: a tuple of path prefixes, what to use instead)
PROGRAMS = ("api/cli/", "api/program/", "api/run/", "api/agent/", "api/examples/")
TESTS = ("tests/",)
BANNED = [
    (r"strcpy|stpcpy|strcat|strncat|sprintf|vsprintf|gets", (), "a bounded buffer (base/buffer.h) or snprintf"),
    (r"strtok", (), "strtok_r"),
    (r"atoi|atol|atoll|atof", (), "strtoll or strtoull with every error checked"),
    (r"alloca|setjmp|longjmp|sigsetjmp|siglongjmp", (), "ordinary memory and return values"),
    (r"abort", TESTS, "an error that is returned"),
    (r"exit|quick_exit", PROGRAMS + TESTS, "an error that is returned"),
    (r"printf|vprintf|puts|putchar|perror", PROGRAMS + TESTS, "the log or an error: the library prints nothing"),
    (r"malloc|calloc|realloc|reallocarray|free|strdup|strndup|asprintf|vasprintf|aligned_alloc|posix_memalign",
     ("base/mem.c", "api/examples/") + TESTS, "base/mem.h, where a test can make it fail"),
    (r"sleep|usleep", ("base/clock.c",), "base/clock.h, or a poll of the condition"),
    (r"nanosleep|clock_nanosleep", ("base/clock.c", "api/examples/") + TESTS, "base/clock.h"),
]
# No "." or "->" before the name: a member of a table of operations may be called what it likes.
BANNED_CALLS = [(re.compile(r"(?<![\w.>])(%s)\s*\(" % names), allowed, instead)
                for names, allowed, instead in BANNED]
STREAMS = re.compile(r"(?<![\w.>])v?f(?:printf|puts|putc|write)\s*\([^;]*\b(stderr|stdout)\b")
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)
COMMENT_OR_LITERAL = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.S)


def blank(match):
    """A comment or literal as white space of the same lines."""
    return re.sub(r"[^\n]", " ", match.group())


def code_only(text):
    return COMMENT_OR_LITERAL.sub(blank, text)


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


class Tree:
    """The files that git has or would add."""

    def __init__(self, root):
        self.root = root
        listed = subprocess.run(["git", "-C", root, "ls-files", "-co", "--exclude-standard", "-z"],
                                check=True, stdout=subprocess.PIPE).stdout
        names = {name for name in listed.decode().split("\0") if name}
        self.names = sorted(name for name in names if os.path.isfile(os.path.join(root, name)))
        self.sources = [name for name in self.names if name.endswith((".c", ".h"))]
        if not self.names:
            raise SystemExit("lint_source.py: no files in " + root)

    def read(self, name):
        with open(os.path.join(self.root, name), encoding="utf-8", errors="replace") as file:
            return file.read()

    def size(self, name):
        return os.path.getsize(os.path.join(self.root, name))

    def exists(self, name):
        return os.path.isfile(os.path.join(self.root, name))


def layer_of(name):
    """The longest entry of LAYERS that holds the file, or None."""
    folder = os.path.dirname(name)
    while folder and folder not in LAYERS:
        folder = os.path.dirname(folder)
    return folder or None


def is_common(name):
    return name == COMMON_HEADER or (os.path.dirname(name) == COMMON_FOLDER and name.endswith(".h"))


def resolve(tree, name, included):
    """The included file's name from the root: beside the includer, else from the root (-I.)."""
    beside = os.path.normpath(os.path.join(os.path.dirname(name), included))
    return beside if included.startswith(".") or tree.exists(beside) else os.path.normpath(included)


def include_directions(tree):
    """Includes point down: api > uploader > {storage, gpu} > base."""
    for name in tree.sources:
        layer = layer_of(name)
        if layer is None:
            continue
        text = tree.read(name)
        for match in INCLUDE.finditer(text):
            target = resolve(tree, name, match.group(1))
            line = line_of(text, match.start(1))
            if is_common(name):
                if os.path.dirname(target) != COMMON_FOLDER:
                    yield name, line, "includes %s, but a public header includes only those of api/cleat" % target
            elif is_common(target) or os.path.dirname(target) == layer:
                continue
            elif target.split("/")[0] not in LAYERS[layer] or layer_of(target) not in LAYERS[layer] | {layer}:
                yield name, line, "%s may not include %s" % (layer, target)


def banned_functions(tree):
    """No function whose use is an error waiting to happen, or that belongs to another layer."""
    for name in tree.sources:
        code = code_only(tree.read(name))
        for pattern, allowed, instead in BANNED_CALLS:
            if name.startswith(allowed):
                continue
            for match in pattern.finditer(code):
                yield name, line_of(code, match.start(1)), "%s: use %s" % (match.group(1), instead)
        if not name.startswith(PROGRAMS + TESTS):
            for match in STREAMS.finditer(code):
                yield name, line_of(code, match.start()), "writes to %s" % match.group(1)


def file_lengths(tree):
    """Files stay short enough to read."""
    for name in tree.names:
        if name.endswith((".c", ".h", ".mk", ".py", ".sh")) or os.path.basename(name) == "Makefile":
            lines = tree.read(name).count("\n")
            most = HEADER_LINES_MAX if is_common(name) else LINES_MAX
            if lines > most:
                yield name, lines, "%d lines, at most %d" % (lines, most)


def folder_readmes(tree):
    """Every folder at the top says what it is, and every folder of sources below it."""
    below = {os.path.dirname(name) for name in tree.sources if name.split("/")[0] in LAYERS}
    for folder in sorted({*FOLDERS, ".", *below} - NO_README):
        if not tree.exists(os.path.join(folder, "README.md")):
            yield os.path.normpath(os.path.join(folder, "README.md")), 1, "missing"


def top_level(tree):
    """Nothing else at the top."""
    for name in tree.names:
        first = name.split("/")[0]
        if not first.startswith(".") and first not in (TOP_FILES if first == name else FOLDERS):
            yield name, 1, "does not belong at the top of the repository"


def large_binaries(tree):
    """No binary over 1 MiB."""
    for name in tree.names:
        if tree.size(name) > BINARY_BYTES_MAX:
            with open(os.path.join(tree.root, name), "rb") as file:
                if b"\0" in file.read():
                    yield name, 1, "a binary of %d bytes" % tree.size(name)


RULES = (include_directions, banned_functions, file_lengths, folder_readmes, top_level, large_binaries, markdown_links,
         named_functions, quoted_messages, public_comments, line_lengths)


def main():
    tree = Tree(sys.argv[1] if len(sys.argv) > 1 else ".")
    found = False
    for rule in RULES:
        findings = list(rule(tree))
        for name, line, what in findings:
            print("%s:%d: %s: %s" % (name, line, rule.__name__, what))
        print("%s - %s" % ("not ok" if findings else "ok", rule.__name__))
        found = found or bool(findings)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
