"""The public headers in api/cleat as blocks of declarations with their comments, and the rules for these comments.

The headers have plain comments above declarations. Declarations without a blank line between them share one. The pages
of the site (api_pages.py) and the man pages (man_pages.py) are made from this, and `make lint` checks the rules.
"""

import os
import re

HEADERS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../api/cleat")
SUMMARY_MAX = 90  # the first sentence of a comment is the line that whatis(1) shows

COMMENT = re.compile(r"/\*.*?\*/", re.S)
SECTION = re.compile(r"^/\* ---- (.*?) -+ \*/$")
NOT_SHOWN = re.compile(r"#(include|ifn?def|if|else|endif|undef)\b|extern \"C\"|\}$|(struct|union) \w+;$|#define \w+_H$")
MACRO = re.compile(r"^#define (\w+)")
TYPE = re.compile(r"^(?:typedef )?(struct|enum|union) (\w+) \{")
FUNCTION = re.compile(r"\b(\w+)\s*\(")
LABEL = re.compile(r"^(Errors|Returns): ", re.M)


class Block:
    """Declarations that stand together, and their comment."""

    def __init__(self, section, comment, first):
        self.section, self.comment, self.first = section, comment, first
        self.lines = []
        self.starts = []  # numbers of the lines that begin a declaration
        self.names = []

    @property
    def last(self):
        return self.first + len(self.lines) - 1

    def declarations(self):
        """(kind, name, text without comments) of each, where kind is macro, struct, enum, typedef or function."""
        code = without_comments("\n".join(self.lines))
        bounds = [start - self.first for start in self.starts] + [len(code)]
        for begin, end in zip(bounds, bounds[1:]):
            text = "\n".join(code[begin:end]).rstrip()
            macro, of_type = MACRO.match(text), TYPE.match(text)
            if macro:
                yield "macro", macro.group(1), text
            elif of_type:
                yield of_type.group(1), of_type.group(2), text
            else:
                yield "typedef" if text.startswith("typedef") else "function", FUNCTION.search(text).group(1), text


def without_comments(text):
    """The same lines, with blanks where comments are."""
    return COMMENT.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text).split("\n")


def comment_at(lines, at):
    last = at
    while "*/" not in lines[last]:
        last += 1
    return "\n".join(lines[at:last + 1]), last + 1


def is_whole(code, depth, in_macro):
    """Whether a declaration ends with this line."""
    return depth == 0 and (not code.endswith("\\") if in_macro else code.endswith(";"))


def blocks_of(text):
    """The blocks of a header, and the comment at its head."""
    lines, code = text.split("\n"), without_comments(text)
    found, head, section, comment, block = [], None, "", None, None
    at, depth, whole, in_macro = 0, 0, True, False
    while at < len(lines):
        line = lines[at]
        if whole and line.startswith("/*"):
            said, at = comment_at(lines, at)
            block = None
            if SECTION.match(said):
                section = SECTION.match(said).group(1)
            elif head is None:
                head = said
            else:
                comment = said
            continue
        if whole and (not line or NOT_SHOWN.match(line)):
            block = None
            comment = found[-1].comment if line == "#else" and found else comment if line else None
        else:
            if block is None:
                block = Block(section, comment, at + 1)
                found.append(block)
                comment = None
            if whole:
                block.starts.append(at + 1)
                in_macro = line.startswith("#define")
            block.lines.append(line)
            depth += len(re.findall(r"[({]", code[at])) - len(re.findall(r"[)}]", code[at]))
            whole = is_whole(code[at].rstrip(), depth, in_macro)
        at += 1
    return found, head


def plain(comment):
    """A comment's text, as paragraphs of lines."""
    lines = [re.sub(r"^ \* ?|^/\* ?", "", line) for line in re.sub(r" *\*/$", "", comment).split("\n")]
    return re.split(r"\n\s*\n", "\n".join(lines).strip("\n"))


def labelled(paragraphs):
    """The paragraphs without those that begin with a label, and {label: text} of these."""
    rest, labels = [], {}
    for paragraph in paragraphs:
        pieces = LABEL.split(paragraph)
        if pieces[0].strip():
            rest.append(pieces[0].rstrip("\n"))
        labels.update((label, " ".join(text.split())) for label, text in zip(pieces[1::2], pieces[2::2]))
    return rest, labels


def summary(comment):
    """The first sentence, without its full stop."""
    first = " ".join(plain(comment)[0].split("\n"))
    return re.split(r"(?<=[^.])[.:](?: |$)", first, maxsplit=1)[0]


def rules_of_functions(block):
    functions = [declaration for declaration in block.declarations() if declaration[0] == "function"]
    if functions and len(list(block.declarations())) > 1:
        yield "%s shares a comment: each function has its own" % functions[0][1]
    labels = labelled(plain(block.comment))[1]
    for _, name, text in functions:
        returned = text[:text.index(name)]
        if "cleat_status" in returned.split():
            if "Errors" not in labels:
                yield "the comment of %s has no line that begins with \"Errors: \"" % name
        elif not returned.endswith("void ") and "Returns" not in labels:
            yield "the comment of %s has no line that begins with \"Returns: \"" % name


def findings(text):
    """(line, what) of everything in a header that is against the rules."""
    for number, line in enumerate(text.split("\n"), 1):
        before, begun, behind = line.rpartition("/*")
        if begun and before.strip() and "*/" not in behind:
            yield number, "a comment that takes more than one line stands above its declaration"
    for block in blocks_of(text)[0]:
        if block.comment is None:
            for _, name, _ in block.declarations():
                yield block.first, "%s has no comment" % name
            continue
        if len(summary(block.comment)) > SUMMARY_MAX:
            yield block.first, "the first sentence above it is over %d characters" % SUMMARY_MAX
        for what in rules_of_functions(block):
            yield block.first, what


def all_headers():
    """{name without .h: (blocks, comment at the head)} of api/cleat."""
    found = {}
    for name in sorted(os.listdir(HEADERS)):
        if name.endswith(".h"):
            with open(os.path.join(HEADERS, name), encoding="utf-8") as file:
                found[name[:-2]] = blocks_of(file.read())
    return found
