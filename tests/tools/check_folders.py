#!/usr/bin/env python3
"""Checks that folders of sources depend on each other in one direction only, and that the files of a folder call each
other in one direction only.

usage: check_folders.py ROOT OBJECTS [--list]      OBJECTS holds ROOT/a/b.c as a/b.o

A folder depends on another one if one of its files includes a header of it, or has an undefined symbol that an object
of the other folder defines. Between the files of one folder only symbols count. Prints each circle with the includes
and symbols that cause it, and two lines "ok - …" or "not ok - …". --list also prints what each folder depends on.

If a circle between files is intended, the file that calls upward explains it in the comment at its top:

    /* Circle with other.c: the reason. */

The line may be part of a longer comment. It excludes the calls from its file to other.c from the check. It is an error
if there is no such circle.
"""

import collections
import os
import re
import subprocess
import sys

TOP = ("api", "base", "gpu", "storage", "uploader")
COMMON_HEADERS = re.compile(r"api/cleat(/[^/]+)?\.h")  # open to all: the vocabulary of the interface
EXPLAINED = re.compile(r"^(?:/\*| \*) Circle with (\w+\.c): \S.*\.(?: \*/)?$", re.M)
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)


def sources(root):
    listed = subprocess.run(["git", "-C", root, "ls-files", "-co", "--exclude-standard", "*.c", "*.h"],
                            check=True, stdout=subprocess.PIPE, text=True).stdout.split()
    return [name for name in listed if name.split("/")[0] in TOP and os.path.isfile(os.path.join(root, name))]


def by_include(root, names):
    for name in names:
        with open(os.path.join(root, name), encoding="utf-8") as file:
            for target in INCLUDE.findall(file.read()):
                if target in names and not COMMON_HEADERS.fullmatch(target):
                    yield name, target, "includes " + target


def symbols(path):
    """What an object defines for others, and what it needs."""
    defined, needed = set(), set()
    for line in subprocess.run(["nm", path], check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines():
        *_, kind, symbol = line.split()
        if kind == "U":
            needed.add(symbol)
        elif kind.isupper():
            defined.add(symbol)
    return defined, needed


def by_call(objects, names):
    found = {}
    for name in names:
        path = os.path.join(objects, name[:-2] + ".o")
        if name.endswith(".c") and os.path.exists(path):
            found[name] = symbols(path)
    if not found:
        raise SystemExit("check_folders.py: no objects in " + objects)
    where = {symbol: name for name, (defined, _) in found.items() for symbol in defined}
    for name, (_, needed) in found.items():
        for symbol in sorted(needed & where.keys()):
            yield name, where[symbol], "uses %s of %s" % (symbol, where[symbol])


def circles(edges):
    """Tarjan's strongly connected components that have more than one node."""
    index, low, stack, found = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for target in edges.get(node, ()):
            if target not in index:
                visit(target)
            if target in stack:
                low[node] = min(low[node], low[target])
        if low[node] == index[node]:
            members = stack[stack.index(node):]
            del stack[stack.index(node):]
            if len(members) > 1:
                found.append(sorted(members))

    for node in sorted(edges):
        if node not in index:
            visit(node)
    return found


def graph():
    """What each node depends on, and why: edges[node][target] is a list of reasons."""
    return collections.defaultdict(lambda: collections.defaultdict(list))


def tell(edges, members):
    for node in members:
        for target in sorted(set(edges[node]) & set(members)):
            for why in edges[node][target]:
                print("%s -> %s: %s" % (node, target, why))


def check_folders(dependences, listed):
    edges = graph()
    for name, target, why in dependences:
        if os.path.dirname(name) != os.path.dirname(target):
            edges[os.path.dirname(name)][os.path.dirname(target)].append("%s %s" % (name, why))
    found = circles(edges)
    for members in found:
        tell(edges, members)
    if listed:
        for folder in sorted(edges):
            print("%-20s %s" % (folder, " ".join(sorted(edges[folder]))))
    print("%s - folders depend on each other in one direction" % ("not ok" if found else "ok"))
    return not found


def explained(root, name):
    """The files that the comment at the top of a file explains a circle with."""
    with open(os.path.join(root, name), encoding="utf-8") as file:
        head = file.read().split("*/", 1)[0] + "*/"
    found = EXPLAINED.findall(head) if head.startswith("/*") else []
    return [os.path.join(os.path.dirname(name), other) for other in found]


def check_files(root, calls):
    edges = graph()
    for name, target, why in calls:
        if os.path.dirname(name) == os.path.dirname(target):
            edges[name][target].append(why)
    ring = {name: members for members in circles(edges) for name in members}
    good = True
    for name in [name for name in sources(root) if name.endswith(".c")]:
        for other in explained(root, name):
            if other not in ring.get(name, ()) or edges[name].pop(other, None) is None:
                print("%s explains a circle with %s that is not there" % (name, other))
                good = False
    for members in circles(edges):
        tell(edges, members)
        good = False
    print("%s - files of a folder call each other in one direction" % ("ok" if good else "not ok"))
    return good


def main():
    root, objects = sys.argv[1:3]
    names = sources(root)
    calls = list(by_call(objects, names))
    folders = check_folders([*by_include(root, names), *calls], "--list" in sys.argv)
    return 0 if check_files(root, calls) and folders else 1


if __name__ == "__main__":
    sys.exit(main())
