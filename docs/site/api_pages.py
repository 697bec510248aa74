#!/usr/bin/env python3
"""The pages of the C API: from the headers in api/cleat, by way of Doxygen, to Markdown.

usage: api_pages.py filter HEADER          the header for Doxygen: its plain comments as Doxygen's, line by line
       api_pages.py bare LOG               fails if Doxygen's warnings name declarations without a comment
       api_pages.py pages XML LOG OUT      the pages, out of Doxygen's XML and its warnings

Doxygen says what is declared where, and what has no comment. The text is taken from the header as it stands there.
"""

import os
import re
import sys
import xml.etree.ElementTree as ElementTree

from headers import COMMENT, HEADERS, SECTION, all_headers, blocks_of, findings, plain

WARNING = re.compile(r"warning: (?:Member (\w+).*? \((function|typedef|enumeration|macro definition)\) of file \S+"
                     r"|Compound (\w+)) is not documented")
ITEM = re.compile(r"^  (\w+)  +(?=\S)(.*)", re.M)
NAME = re.compile(r"`[^`]*`|\b(?:cleat|CLEAT)_\w+")


def for_doxygen(text):
    """The same lines, with Doxygen's comments. The text in them is not used, and so has nothing that Doxygen heeds."""
    blocks, head = blocks_of(text)
    follows = {number for block in blocks if block.comment for number in block.starts[1:]}
    # The _INIT macro of a struct, and what makes the values of an enum.
    follows |= {number for block in blocks for number, line in enumerate(block.lines, block.first)
                if line.startswith("#define") and number > block.first and not block.lines[0].startswith("#")}

    def turn(match):
        line = text[text.rfind("\n", 0, match.start()) + 1:match.start()]
        words = re.sub(r"[<>@\\%#&]", " ", match.group()[2:])
        if match.group() == head:
            return "/** @file */ " + match.group()
        if SECTION.match(match.group()) or match.group().startswith("/* -- "):
            return match.group()
        return ("/**<" if line.strip() else "/**") + words

    lines = COMMENT.sub(turn, text).split("\n")
    return "\n".join("/** Shares a comment. */ " + line if number in follows else line
                     for number, line in enumerate(lines, 1))


def declared(folder):
    """(header, line) → name, of all that Doxygen found."""
    places = {}
    for name in os.listdir(folder):
        if not name.endswith(".xml") or name == "index.xml":
            continue
        for node in ElementTree.parse(os.path.join(folder, name)).iter():
            place = node.find("location")
            if place is None:
                continue
            if node.tag == "memberdef" and node.get("kind") in ("function", "typedef", "enum", "define") and \
                    node.get("id").find("_8h_1") > 0:
                places.setdefault((os.path.basename(place.get("file")), int(place.get("line"))), node.findtext("name"))
            elif node.tag == "compounddef" and node.get("kind") == "struct":
                places[os.path.basename(place.get("file")), int(place.get("line"))] = node.findtext("compoundname")
    return places


def bare(log):
    """What Doxygen found to have no comment."""
    with open(log, encoding="utf-8") as file:
        names = {match.group(1) or match.group(3) for match in map(WARNING.search, file) if match}
    return ["%s has no comment" % name for name in sorted(names)]


def against_the_rules():
    for name in sorted(os.listdir(HEADERS)):
        if name.endswith(".h"):
            with open(os.path.join(HEADERS, name), encoding="utf-8") as file:
                for line, what in findings(file.read()):
                    yield "api/cleat/%s:%d: %s" % (name, line, what)


def linked(text, links, page):
    def link(match):
        if match.group().startswith("`") or match.group() not in links:
            return match.group() if match.group().startswith("`") else "`%s`" % match.group()
        target, anchor = links[match.group()]
        return "[`%s`](%s#%s)" % (match.group(), "" if target == page else target + ".md", anchor)

    pieces, at = [], 0
    for match in NAME.finditer(text):
        pieces += [re.sub(r"([*_<\[\]])", r"\\\1", text[at:match.start()]), link(match)]
        at = match.end()
    return "".join(pieces + [re.sub(r"([*_<\[\]])", r"\\\1", text[at:])])


def prose(comment, links, page):
    """A comment as Markdown. Indented paragraphs are code. Items of a list begin with a hyphen, or with a name and two
    blanks."""
    said = []
    for paragraph in plain(comment):
        lines = ITEM.sub(r"- `\1`: \2", paragraph).split("\n")
        if all(line.startswith("  ") for line in lines):
            said.append("```c\n%s\n```" % "\n".join(line[2:] for line in lines))
            continue
        in_list = False
        shown = []
        for line in lines:
            item, was_in_list = line.lstrip().startswith("- "), in_list
            in_list = item or (in_list and line.startswith(" "))
            if in_list != was_in_list or re.match(r"(Errors|Returns): ", line):
                shown.append("")
            shown.append(("  " if in_list and not item else "") + line.strip())
        said.append(re.sub(r"(?m)^(Errors|Returns): ", r"**\1:** ", linked("\n".join(shown).strip("\n"), links, page)))
    return "\n\n".join(said)


def code(block):
    """The declarations as printed, without the macros for the compiler."""
    shown, cut = [], 0
    for line in block.lines:
        short = re.sub(r"^CLEAT_API (CLEAT_MUST_USE )?", "", line)
        if short != line:
            cut = len(line) - len(short)
        elif not line.startswith(" " * (cut + 4)):
            cut = 0
        shown.append(short if short != line else line[cut:])
    return "```c\n%s\n```" % "\n".join(shown)


def write_page(page, head, blocks, links, out):
    title, _, about = re.sub(r"^/\* ", "/* ", head).partition(": ")
    text = ["# %s" % title[3:], prose("/* " + about[0].upper() + about[1:], links, page),
            "`#include <cleat/%s.h>`, or `<cleat.h>` for all of them." % page]
    section = ""
    for block in blocks:
        if not block.names:
            continue
        if block.section != section:
            section = block.section
            text.append("## " + section)
        text.append("### " + block.names[0])
        if block.comment:
            text.append(prose(block.comment, links, page))
        text.append(code(block))
    with open(os.path.join(out, page + ".md"), "w", encoding="utf-8") as file:
        file.write("\n\n".join(text) + "\n")


def write_pages(folder, out):
    places, pages, links = declared(folder), all_headers(), {}
    for page, (blocks, _) in pages.items():
        for block in blocks:
            block.names = [places[page + ".h", number] for number in range(block.first, block.last + 1)
                           if (page + ".h", number) in places]
            for name in block.names:
                links[name] = (page, block.names[0].lower())
    missing = sorted(set(places.values()) - set(links))
    os.makedirs(out, exist_ok=True)
    for page, (blocks, head) in pages.items():
        write_page(page, head, blocks, links, out)
    return ["%s is on no page" % name for name in missing if not name.endswith("_H")]


def main():
    if sys.argv[1:2] == ["filter"] and len(sys.argv) == 3:
        with open(sys.argv[2], encoding="utf-8") as file:
            sys.stdout.write(for_doxygen(file.read()))
        return 0
    if sys.argv[1:2] == ["bare"] and len(sys.argv) == 3:
        wrong = bare(sys.argv[2])
    elif sys.argv[1:2] == ["pages"] and len(sys.argv) == 5:
        wrong = bare(sys.argv[3]) + list(against_the_rules()) + write_pages(sys.argv[2], sys.argv[4])
    else:
        raise SystemExit(__doc__)
    for line in wrong:
        print("C API: " + line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
