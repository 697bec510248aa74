#!/usr/bin/env python3
"""Whether folders of sources depend on each other in one direction: by what they include, and by what they call.

usage: check_folders.py ROOT OBJECTS [--list]      OBJECTS holds ROOT/a/b.c as a/b.o

A folder depends on another where one of its files includes a header of it, or has an undefined symbol that an object of
the other defines. Prints each circle with the includes and symbols that make it, and "ok - …" or "not ok - …"; --list
also prints what each folder depends on.
"""

import collections
import os
import re
import subprocess
import sys

TOP = ("api", "base", "gpu", "storage", "uploader")
COMMON_HEADERS = re.compile(r"api/cleat(/[^/]+)?\.h")  # open to all: the vocabulary of the interface
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
    """Tarjan's strongly connected components that have more than one folder."""
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


def main():
    root, objects = sys.argv[1:3]
    names = sources(root)
    edges = collections.defaultdict(lambda: collections.defaultdict(list))
    for name, target, why in [*by_include(root, names), *by_call(objects, names)]:
        if os.path.dirname(name) != os.path.dirname(target):
            edges[os.path.dirname(name)][os.path.dirname(target)].append("%s %s" % (name, why))
    found = circles(edges)
    for members in found:
        for folder in members:
            for target in sorted(set(edges[folder]) & set(members)):
                for why in edges[folder][target]:
                    print("%s -> %s: %s" % (folder, target, why))
    if "--list" in sys.argv:
        for folder in sorted(edges):
            print("%-20s %s" % (folder, " ".join(sorted(edges[folder]))))
    print("%s - folders depend on each other in one direction" % ("not ok" if found else "ok"))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
