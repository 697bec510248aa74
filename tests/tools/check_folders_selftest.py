#!/usr/bin/env python3
"""Shows that check_folders.py can fail. It has folders that include from each other, folders and files that call each
other, and cases that are allowed."""

import os
import subprocess
import sys
import tempfile

TOOL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "check_folders.py")
SOUND = {
    "base/a.c": "int a(void); int a(void) { return 1; }\n", "base/a.h": "int a(void);\n",
    "storage/b.c": '#include "base/a.h"\nint b(void); int b(void) { return a(); }\n', "storage/b.h": "int b(void);\n"
}

# (files that are added or replaced, what is said, or None if all is well)
CASES = [
    ({}, None),
    ({"base/a.h": '#include "storage/b.h"\nint a(void);\n'}, "base -> storage: base/a.h includes storage/b.h"),
    ({"base/a.c": "int b(void); int a(void); int a(void) { return b(); }\n"},
     "base -> storage: base/a.c uses b of storage/b.c"),
    ({"storage/c/c.c": "int b(void); int c(void); int c(void) { return b(); }\n"}, None),
]

# The public headers are open to all: api needs base, and base includes them.
PUBLIC = {"api/d.c": '#include "base/a.h"\nint d(void); int d(void) { return a(); }\n', "api/d.h": "int d(void);\n",
          "api/cleat.h": "\n", "api/cleat/error.h": "\n"}
CASES += [
    ({**PUBLIC, "base/e.h": '#include "api/cleat.h"\n#include "api/cleat/error.h"\n'}, None),
    ({**PUBLIC, "base/e.h": '#include "api/d.h"\n'}, "base -> api: base/e.h includes api/d.h"),
]

# Two files of one folder that call each other: that is to be explained by the one that calls upward.
UP = "int c(void); int a(void); int a(void) { return c(); }\n"
DOWN = {"base/c.c": "int a(void); int c(void); int c(void) { return a(); }\n"}
CASES += [
    ({"base/c.c": DOWN["base/c.c"]}, None),
    ({"base/a.c": UP, **DOWN}, "base/a.c -> base/c.c: uses c of base/c.c"),
    ({"base/a.c": "/* Circle with c.c: it is a test. */\n" + UP, **DOWN}, None),
    ({"base/a.c": "/* a.c: adds.\n *\n * Circle with c.c: it is a test. */\n" + UP, **DOWN}, None),
    ({"base/a.c": "/* Circle with c.c: */\n" + UP, **DOWN}, "base/a.c -> base/c.c"),
    ({"base/a.c": "/* Circle with d.c: it is another. */\n" + UP, **DOWN}, "base/a.c -> base/c.c"),
    ({"base/a.c": UP + "/* Circle with c.c: too far below. */\n", **DOWN}, "base/a.c -> base/c.c"),
    ({"base/a.c": "/* Circle with c.c: there is none. */\n" + SOUND["base/a.c"]},
     "base/a.c explains a circle with base/c.c that is not there"),
    ({"base/a.c": "/* Circle with c.c: there is none. */\n" + UP,
      "base/c.c": "int c(void); int c(void) { return 2; }\n"},
     "base/a.c explains a circle with base/c.c that is not there"),
]


def check(added):
    with tempfile.TemporaryDirectory() as root:
        subprocess.run(["git", "init", "-q", root], check=True)
        files = {**SOUND, **added}
        for name, text in files.items():
            os.makedirs(os.path.join(root, os.path.dirname(name)), exist_ok=True)
            with open(os.path.join(root, name), "w", encoding="utf-8") as file:
                file.write(text)
        for name in files:
            if name.endswith(".c"):
                target = os.path.join(root, "obj", name[:-2] + ".o")
                os.makedirs(os.path.dirname(target), exist_ok=True)
                subprocess.run([os.environ.get("CC", "gcc"), "-I.", "-c", name, "-o", target], cwd=root, check=True)
        run = subprocess.run([sys.executable, TOOL, root, os.path.join(root, "obj")], stdout=subprocess.PIPE, text=True)
        return run.returncode, run.stdout


def main():
    bad = 0
    for added, says in CASES:
        code, out = check(added)
        good = (code == 0) == (says is None) and (says or "") in out
        bad += not good
        print("%s - check_folders.py on %s" % ("ok" if good else "not ok", ", ".join(added) or "sound folders"))
        if not good:
            print(out)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
