#!/usr/bin/env python3
"""Man pages of the C API, section 3, from the headers in api/cleat: one for each function and type, and cleat(3).

usage: man_pages.py OUT      writes OUT/*.3

Needs Python alone. A function and a struct of the same name share a page. cleat(3) is api/cleat.3.in, with the lists of
calls and constants and the rules of cleat.h put in. The date of all pages is that of cleat(1).
"""

import os
import re
import sys
import textwrap

from headers import HEADERS, all_headers, labelled, plain, summary

API = os.path.dirname(os.path.normpath(HEADERS))
OVERVIEW = "cleat"
# As a reader meets them.
ORDER = [
    "client", "save", "catalog", "load", "resume", "manager", "manager_ops", "retention", "doctor", "bench", "progress",
    "types", "error", "common"
]
COLUMNS = 70  # of text in the source of a page
OPAQUE_MAX = 8  # a type that more functions take is in the overview, and their list says nothing
FOR_HEADERS = {"CLEAT_API", "CLEAT_MUST_USE", "CLEAT_INIT_OF"}  # no macros for users
SENTENCE_END = re.compile(r"(?<=[.!?])(?<!e\.g\.)([)\"']*) +(?=[\"(*]?\\?[fBIR]*[A-Z`*])")
ITEM = re.compile(r"^(?:- |(\w+)  +)(?=\S)(.*)")


class Page:
    def __init__(self, name):
        self.name = name
        self.parts = []  # (kind, text of the declaration, block)

    def of(self, *kinds):
        return [part for part in self.parts if part[0] in kinds]

    @property
    def about(self):
        """What the name line says: of the function, where there is one."""
        comment = (self.of("function") or self.of("struct", "enum", "typedef"))[0][2].comment
        said = summary(comment)
        return said if re.match(r"[A-Z]{2}|CUDA", said) else said[0].lower() + said[1:]


class Api:
    """All headers: {name: Page}, the constants, the statuses."""

    def __init__(self):
        self.headers = all_headers()
        self.pages, self.constants, self.statuses = {}, [], set()
        self.topics = []  # (header, what it is of, names of its functions)
        for header, (blocks, head) in self.headers.items():
            maps = []
            self.topics.append((header, " ".join(plain(head)[0].split("\n")), []))
            for block in blocks:
                maps = self.take(block, maps)

    def take(self, block, maps):
        for kind, name, text in block.declarations():
            if kind == "macro":
                if name.endswith("_MAP"):
                    self.statuses.update(re.findall(r"X\(\d+, (\w+), \"", "\n".join(block.lines)))
                    return [block]
                if len(list(block.declarations())) == 1 and name not in FOR_HEADERS:
                    self.constants.append((name, block))
                continue
            page = self.pages.setdefault(name, Page(name))
            page.parts.append((kind, text, block))
            if kind == "function":
                self.topics[-1][2].append(name)
            if maps and kind == "enum":
                page.parts.extend(("map", "", a_map) for a_map in maps)
                maps = []
        return maps

    def named(self, text):
        """The pages whose name stands in a text."""
        return {name for name in re.findall(r"\bcleat_\w+", text) if name in self.pages}


def roff(text):
    return text.replace("\\", "\\e")


def inline(text, api):
    """Words of a comment: names of pages, parameters and constants in their fonts."""
    def font(match):
        word = match.group()
        if word.startswith("`"):
            inner = word[1:-1]
            return "\\fB%s\\fR" % inner if inner in api.pages else "\\fI%s\\fR" % inner
        is_function = word in api.pages and api.pages[word].of("function")
        return "\\fB%s\\fR%s" % (word, "()" if is_function else "")
    return re.sub(r"`[^`]*`|\b(?:cleat|CLEAT)_\w+|\b\w+(?=\(\))", font, roff(text))


def lines_of(text, api):
    """Text, each sentence on lines of its own, as mdoc wants it."""
    sentences = SENTENCE_END.sub(r"\1\n", inline(" ".join(text.split()), api)).split("\n")
    shown = [line for one in sentences
             for line in textwrap.wrap(one, COLUMNS, break_long_words=False, break_on_hyphens=False)]
    return ["\\&" + line if line[:1] in (".", "'") else line for line in shown]


def listed(items, api):
    """Items of a list: [(term or None, text)]."""
    terms = any(term for term, _ in items)
    said = [".Bl -tag -width Ds" if terms else ".Bl -dash -compact"]
    for term, text in items:
        said += [".It Fa %s" % term if term else ".It"] + lines_of(text, api)
    return said + [".El"]


def paragraphs(comment, api):
    """The text of a comment as mdoc, without what has a section of its own; and that, by label."""
    rest, labels = labelled(plain(comment))
    said = []
    for paragraph in rest:
        if said:
            said.append(".Pp")
        text, items = [], []
        for line in paragraph.split("\n"):
            item = ITEM.match(line.strip()) if line.startswith(" ") else None
            if item:
                items.append((item.group(1), item.group(2)))
            elif items and line.startswith(" "):
                items[-1] = (items[-1][0], items[-1][1] + " " + line.strip())
            else:
                if items:
                    said += lines_of(" ".join(text), api) + listed(items, api)
                    text, items = [], []
                text.append(line)
        said += lines_of(" ".join(text), api) if text else []
        said += listed(items, api) if items else []
    return said, labels


def literal(lines):
    return [".Bd -literal"] + ["\\&" + roff(line) if line[:1] in (".", "'") else roff(line) for line in lines] + [".Ed"]


def declaration(page, block):
    """As it stands in the header. The values that an enum has from a map are written out."""
    helper = re.search(r"#define \w+_ENUM\(.* (\w+)\) (\w+)##name = number,", "\n".join(block.lines))
    if not helper:
        return block.lines
    said = [block.lines[0]]
    for _, _, a_map in page.of("map"):
        for number, name, rest in re.findall(r"X\((\d+), (\w+), (.*?)\)(?= |$)", "\n".join(a_map.lines), re.M):
            about = rest.strip('"') if rest.startswith('"') else "%s %s" % (rest, helper.group(1))
            said.append("  %s%s = %s, /* %s */" % (helper.group(2), name, number, about))
    return said + [block.lines[-1]]


def parameters(text):
    """The type of a function, and its parameters."""
    flat = " ".join(re.sub(r"\bCLEAT_(API|MUST_USE)\b", "", text).split()).rstrip(";")
    returned, name, given = re.match(r"(.*?)\b(\w+) ?\((.*)\)$", flat).groups()
    return returned.strip(), name, given.split(", ")


def synopsis(page):
    said = [".In cleat.h"]
    for kind, text, _ in page.parts:
        if kind in ("function", "typedef"):
            returned, name, given = parameters(text)
            said += [".Ft " + returned, ".Fo " + name] + [".Fa \"%s\"" % one for one in given] + [".Fc"]
        elif kind in ("struct", "enum"):
            said += [".Vt %s %s ;" % (kind, page.name)]
    return said


def description(page, api):
    said, labels = [], {}
    for kind, _, block in sorted(page.parts, key=lambda part: part[0] != "function"):
        if kind == "map":
            said += [".Pp", ".Dv %s :" % next(block.declarations())[1]]
        elif said:
            said.append(".Ss %s %s" % (kind, page.name))
        text, found = paragraphs(block.comment, api)
        said += text
        labels.update(found)
        if kind not in ("function", "map"):
            said += literal(declaration(page, block))
    return said, labels


def with_statuses(text, api):
    """A list of errors: statuses by their whole names."""
    return re.sub(r"\b[A-Z_]{2,}\b", lambda match: "CLEAT_" + match.group() if match.group() in api.statuses
                  else match.group(), text)


def ends(page, labels, api):
    """RETURN VALUES and ERRORS."""
    if not page.of("function"):
        return []
    returned = parameters(page.of("function")[0][1])[0]
    if returned == "void":
        return []
    if returned != "cleat_status":
        return [".Sh RETURN VALUES"] + lines_of(labels["Returns"][0].upper() + labels["Returns"][1:], api)
    return [".Sh RETURN VALUES",
            ".Fn %s" % page.name,
            "returns",
            ".Dv CLEAT_OK ,",
            "which is 0, or the status of its failure.",
            "On failure",
            ".Fa err ,",
            "unless it is",
            ".Dv NULL ,",
            "has the details.",
            ".Sh ERRORS"] + lines_of(with_statuses(labels["Errors"][0].upper() + labels["Errors"][1:], api), api) + [
                ".Pp",
                ".Xr cleat_status 3",
                "lists all statuses, and",
                ".Xr cleat 3",
                "has the errors that every function may return."]


def see_also(page, api):
    names = set()
    for kind, text, block in page.parts:
        names |= api.named(text) | api.named(
            block.comment) | (api.named("\n".join(block.lines)) if kind != "map" else set())
    if not page.of("function"):
        users = {name for name, other in api.pages.items() for _, text, _ in other.parts
                 if re.search(r"\b%s\b" % page.name, text)}
        names |= users if len(users) <= OPAQUE_MAX else set()
    if any(parameters(text)[0] == "cleat_status" for _, text, _ in page.of("function")):
        names |= {"cleat_error", "cleat_status"}
    return sorted((names | {OVERVIEW}) - {page.name})


def references(names):
    return [".Xr %s 3%s" % (name, " ," if name != names[-1] else "") for name in names]


def head(name, about, date):
    return [".\\\" Made from the headers in api/cleat by docs/site/man_pages.py.",
            ".Dd " + date, ".Dt %s 3" % name.upper(), ".Os", ".Sh NAME", ".Nm " + name, ".Nd " + about]


def page_of(page, api, date):
    text, labels = description(page, api)
    said = head(page.name, roff(page.about.replace("`", "")), date)
    said += [".Sh SYNOPSIS"] + synopsis(page) + [".Sh DESCRIPTION"] + text + ends(page, labels, api)
    return said + [".Sh SEE ALSO"] + references(see_also(page, api))


def calls(api):
    """All functions and types, by header."""
    said = []
    if sorted(ORDER) != sorted(api.headers):
        raise SystemExit("man_pages.py: ORDER has other headers than api/cleat")
    for header, about, names in sorted(api.topics, key=lambda topic: ORDER.index(topic[0])):
        types = [name for name, page in api.pages.items() if not page.of("function")
                 and any(part[2] in api.headers[header][0] for part in page.parts)]
        topic = about[about.index(": ") + 2:].rstrip(".")
        said += [".Ss " + topic[0].upper() + topic[1:]]
        said += [".In cleat/%s.h" % header, ".Bl -tag -width Ds -compact"]
        for name in names + types:
            said += [".It Xr %s 3" % name] + lines_of(api.pages[name].about + ".", api)
        said.append(".El")
    return said


def constants(api):
    said = [".Bl -tag -width Ds"]
    for name, block in api.constants:
        said += [".It Dv " + name] + paragraphs(block.comment, api)[0]
    return said + [".El"]


def rules(api):
    """The rules at the head of cleat.h, by their label; those without one under ""."""
    with open(os.path.join(API, "cleat.h"), encoding="utf-8") as file:
        head_comment = file.read().split("*/")[0]
    found, items = {"": []}, []
    for line in plain(head_comment + "*/")[-1].split("\n"):
        if line.startswith(" - "):
            items.append([line[3:], []])
        elif line.startswith("     - "):
            items[-1][1].append(line[7:])
        elif line.startswith("       "):
            items[-1][1][-1] += " " + line.strip()
        elif line.startswith("   "):
            if items[-1][1]:
                items[-1].append(line.strip())
            else:
                items[-1][0] += " " + line.strip()
    for text, below, *rest in items:
        label = re.match(r"([A-Z][a-z ]+): ", text)
        if not label:
            found[""].append((None, text))
            continue
        said = lines_of(text[label.end()].upper() + text[label.end() + 1:], api)
        said += listed([(None, item) for item in below], api) if below else []
        found[label.group(1)] = said + (lines_of(" ".join(rest), api) if rest else [])
    found[""] = listed(found[""], api)
    return found


def overview(api, date):
    said, given = [], rules(api)
    with open(os.path.join(API, "cleat.3.in"), encoding="utf-8") as file:
        for line in file.read().splitlines():
            place = re.match(r"@(DATE|CALLS|CONSTANTS|RULES|RULE (.*))@$", line)
            if not place:
                said.append(line.replace("@DATE@", date))
            elif place.group(2):
                said += given.pop(place.group(2))
            else:
                said += {"CALLS": calls, "CONSTANTS": constants}[place.group(1)](api) if place.group(1) != "RULES" \
                    else given.pop("")
    if given:
        raise SystemExit("man_pages.py: api/cleat.3.in has no place for the rules of " + ", ".join(given))
    return said


def date_of_program():
    with open(os.path.join(API, "cli", "cleat.1"), encoding="utf-8") as file:
        return re.search(r"^\.Dd (.*)", file.read(), re.M).group(1)


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    api, date, out = Api(), date_of_program(), sys.argv[1]
    os.makedirs(out, exist_ok=True)
    texts = {name: page_of(page, api, date) for name, page in api.pages.items()}
    texts[OVERVIEW] = overview(api, date)
    for name in os.listdir(out):
        if name.endswith(".3"):
            os.remove(os.path.join(out, name))
    for name, lines in texts.items():
        with open(os.path.join(out, name + ".3"), "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
