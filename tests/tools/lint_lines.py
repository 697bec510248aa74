"""The rule of lint_source.py for the length of lines. `tree` is its Tree."""

COLUMNS_MAX = 120
WRAPPED = (".c", ".h", ".md", ".py", ".sh", ".1", ".3.in", ".ci/run")

# Files that had longer lines when this rule began, and pages that a program writes. One that has none any more is a
# finding, so that the list only gets shorter.
EXCEPTIONS = "tests/tools/long_lines.txt"


def is_free(name, line):
    """A URL cannot be broken, nor a row of a table."""
    return "://" in line or (name.endswith(".md") and line.lstrip().startswith("|"))


def long_lines(tree, name):
    for number, line in enumerate(tree.read(name).split("\n"), 1):
        if len(line) > COLUMNS_MAX and not is_free(name, line):
            yield number, len(line)


def line_lengths(tree):
    """Lines of code and prose end at one column."""
    listed = tree.read(EXCEPTIONS).split("\n") if tree.exists(EXCEPTIONS) else []
    excepted = {line: number for number, line in enumerate(listed, 1) if line and not line.startswith("#")}
    for name, number in excepted.items():
        if not tree.exists(name) or not any(long_lines(tree, name)):
            yield EXCEPTIONS, number, "%s has no long line any more: take it out" % name
    for name in tree.names:
        if name.endswith(WRAPPED) and name not in excepted:
            for number, length in long_lines(tree, name):
                yield name, number, "%d columns, at most %d" % (length, COLUMNS_MAX)
