"""The rules of lint_source.py for pages in Markdown. `tree` is its Tree."""

import os
import re

FENCE = re.compile(r"^(```|~~~).*?^\1[^\n]*$", re.S | re.M)
CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} +(.*?) *#*$", re.M)
# Every string of a C file, those that stand one behind another as one.
STRINGS = re.compile(r'"(?:\\.|[^"\\\n])*"(?:\s*"(?:\\.|[^"\\\n])*")*')
SEAM = re.compile(r'"\s*"')

FUNCTIONS_PAGE = "docs/way-of-a-byte.md"
PICTURE = re.compile(r"!\[[^\]]*\]\(([^)\s]+\.svg)\)")
DRAWN = re.compile(r">(\w+)\(\)<")
# From the beginning of a line that is not indented, over line ends, to the body's brace.
DEFINITION = r"^[A-Za-z_][^;{}=#]*?\b%s\)?\([^;{}]*\)\s*\{"

MESSAGES_PAGE = "docs/operations.md"
MESSAGES_HEADING = "## Troubleshooting by message"
QUOTES_COLUMN = "message or hint says"


def blank(match):
    return re.sub(r"[^\n]", " ", match.group())


def prose(text):
    """The page without blocks of code."""
    return FENCE.sub(blank, text)


def anchors(text):
    """What headings are called in links, as GitHub does: lower case, no punctuation, a hyphen for each blank."""
    found = set()
    for heading in HEADING.findall(prose(text)):
        heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        number = 0
        while (name if number == 0 else "%s-%d" % (name, number)) in found:
            number += 1
        found.add(name if number == 0 else "%s-%d" % (name, number))
    return found


def markdown_links(tree):
    """A link to a file or heading of the repository leads there."""
    known = set(tree.names)
    folders = {folder for name in tree.names for folder in parents(name)}
    for name in tree.names:
        if not name.endswith(".md"):
            continue
        text = CODE.sub(blank, prose(tree.read(name)))
        for match in LINK.finditer(text):
            if re.match(r"[a-z]+:", match.group(1)):
                continue
            path, _, anchor = match.group(1).partition("#")
            target = os.path.normpath(os.path.join(os.path.dirname(name), path)) if path else name
            line = text.count("\n", 0, match.start()) + 1
            if target not in known and target not in folders:
                yield name, line, "links to %s, which is not there" % target
            elif anchor and target.endswith(".md") and anchor not in anchors(tree.read(target)):
                yield name, line, "links to %s, which has no heading #%s" % (target, anchor)


def parents(name):
    folder = os.path.dirname(name)
    while folder:
        yield folder
        folder = os.path.dirname(folder)


def messages(tree):
    """All strings of the library and the program, as one text."""
    found = []
    for name in tree.sources:
        if not name.startswith("tests/"):
            for match in STRINGS.finditer(tree.read(name)):
                found.append(SEAM.sub("", match.group())[1:-1].replace('\\"', '"'))
    return "\n".join(found)


def quoted_messages(tree):
    """What the page for operators quotes is what a message or hint says; "…" stands for what varies."""
    if not tree.exists(MESSAGES_PAGE):
        return
    said = messages(tree)
    section = quotes = False
    for number, line in enumerate(tree.read(MESSAGES_PAGE).splitlines(), 1):
        if line.startswith("## "):
            section = line == MESSAGES_HEADING
        first = line.split("|")[1].strip() if line.startswith("|") else None
        if first == QUOTES_COLUMN or first is None:
            quotes = first is not None
        elif section and quotes and first.strip("-"):
            for piece in re.split("…|, ", first):
                if piece.strip() not in said:
                    yield MESSAGES_PAGE, number, "no message says '%s'" % piece.strip()


def tables(text):
    """The rows of each table, as (number of line, {column: cell})."""
    columns = None
    for number, line in enumerate(prose(text).splitlines(), 1):
        if not line.startswith("|"):
            columns = None
            continue
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if columns is None:
            columns = cells
        elif cells[0].strip("-") or not all(set(cell) <= set("-:") for cell in cells):
            yield number, dict(zip(columns, cells))


def named_functions(tree):
    """The page that follows a byte names functions in their files, and its drawings name no others."""
    if not tree.exists(FUNCTIONS_PAGE):
        return
    text = tree.read(FUNCTIONS_PAGE)
    known = set()
    for number, row in tables(text):
        names = CODE.findall(row.get("function", ""))
        known.update(name.strip("`") for name in names)
        if "function" in row and not (names and tree.exists(row.get("file", ""))):
            yield FUNCTIONS_PAGE, number, "a row needs functions and their file, not '%s'" % row.get("file", "")
            continue
        code = tree.read(row["file"]) if names else ""
        for name in names:
            if not re.search(DEFINITION % re.escape(name.strip("`")), code, re.M):
                yield FUNCTIONS_PAGE, number, "%s does not define %s" % (row["file"], name.strip("`"))
    for picture in PICTURE.findall(text):
        drawing = os.path.join(os.path.dirname(FUNCTIONS_PAGE), picture)
        if tree.exists(drawing):
            for match in DRAWN.finditer(tree.read(drawing)):
                if match.group(1) not in known:
                    yield drawing, tree.read(drawing).count("\n", 0, match.start()) + 1, \
                        "draws %s, which no table of %s has" % (match.group(1), FUNCTIONS_PAGE)
