#!/usr/bin/env python3
"""Shows that each rule of lint_source.py can fail. It plants violations in a small repository, which must be found, and
look-alikes, which must pass."""

import os
import subprocess
import sys
import tempfile

TOOL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lint_source.py")
FOLDERS = ("api", "base", "docker", "docs", "gpu", "mk", "storage", "tests", "uploader")

# Definitions, and what only looks like one; a drawing. They lie in every little repository.
BYTES_CODE = ("int declared(int x);\nint plain(int x) {\n  return called(x);\n}\n"
              "static const char *\nbroken(const char *a,\n       int b) {\n  if (called(b)) {\n  }\n  return a;\n}\n")
BYTES_DRAWING = "<text>plain()</text>\n<text>declared()</text>\n"
WALKED = "| function | file |\n|---|---|\n"

# A public header with one declaration below what is given.
HEAD = "/* a.h: a header. */\n#ifndef CLEAT_A_H\n#define CLEAT_A_H\n\n%s\n#endif\n"
STATUS = "CLEAT_API CLEAT_MUST_USE cleat_status cleat_a(int x,\n                                      int y);\n"

# (file, text, what the finding says or None if it must pass)
CASES = [
    ("base/a.c", '#include "storage/common/store.h"\n', "base may not include storage/common/store.h"),
    ("storage/a.c", '#include "gpu/device.h"\n', "storage may not include gpu/device.h"),
    ("gpu/a.c", '#include "storage/common/store.h"\n', "gpu may not include storage/common/store.h"),
    ("storage/a.c", '#include "uploader/save/plan.h"\n', "storage may not include uploader/save/plan.h"),
    ("uploader/a.c", '#include "api/manager/manager.h"\n', "uploader may not include api/manager/manager.h"),
    ("uploader/a.c", '#include "../api/manager/manager.h"\n', "uploader may not include api/manager/manager.h"),
    ("api/a.c", '#include "api/cli/x.h"\n', "api may not include api/cli/x.h"),
    ("api/cli/a.c", '#include "uploader/save/plan.h"\n', "api/cli may not include uploader/save/plan.h"),
    ("api/examples/a.c", '#include "base/mem.h"\n', "api/examples may not include base/mem.h"),
    ("api/cleat.h", '#include "base/error.h"\n', "includes base/error.h, but a public header"),
    ("api/cleat/a.h", '#include "base/error.h"\n', "includes base/error.h, but a public header"),
    ("api/cleat/a.h", '#include "../argument.h"\n', "includes api/argument.h, but a public header"),
    ("api/cleat/a.h", '#include "../cleat.h"\n', "includes api/cleat.h, but a public header"),
    ("api/cleat.h", '#include "cleat/a.h"\n', None),
    ("api/cleat/b.h", '#include "a.h"\n', None),
    ("base/a.c", '#include "api/cleat.h"\n#include "api/cleat/a.h"\n#include "base/mem.h"\n', None),
    ("base/a.c", '#include "api/cleat/deeper/a.h"\n', "base may not include api/cleat/deeper/a.h"),
    ("api/cli/a.c", '#include "api/cli/x.h"\n#include "base/mem.h"\n#include "api/cleat.h"\n', None),
    ("uploader/a.c", '#include "uploader/x.h"\n#include "storage/common/store.h"\n#include "gpu/device.h"\n', None),
    ("tests/unit/a.c", '#include "uploader/save/plan.h"\n#include "storage/s3/s3.h"\n', None),
    ("base/a.c", "void f(char *d) { strcpy(d, d); }\n", "strcpy"),
    ("base/a.c", "void f(char *d) { strcat(d, d); }\n", "strcat"),
    ("base/a.c", "void f(char *d) { sprintf(d, d); }\n", "sprintf"),
    ("base/a.c", "void f(char *d) { vsprintf (d, d, 0); }\n", "vsprintf"),
    ("base/a.c", "void f(char *d) { gets(d); }\n", "gets"),
    ("base/a.c", "void f(char *d) { strtok(d, d); }\n", "strtok"),
    ("tests/unit/a.c", "int f(char *d) { return atoi(d); }\n", "atoi"),
    ("base/a.c", "void f(void) { alloca(1); }\n", "alloca"),
    ("base/a.c", "void f(void) { setjmp(x); }\n", "setjmp"),
    ("base/a.c", "void f(void) { longjmp(x, 1); }\n", "longjmp"),
    ("api/cli/a.c", "void f(void) { abort(); }\n", "abort"),
    ("uploader/a.c", "void f(void) { exit(1); }\n", "exit"),
    ("uploader/a.c", 'void f(void) { printf("x"); }\n', "printf"),
    ("uploader/a.c", 'void f(void) { fprintf(stderr, "x"); }\n', "stderr"),
    ("uploader/a.c", 'void f(void) { fputs("x", stdout); }\n', "stdout"),
    ("storage/a.c", "void f(void) { g(malloc(3)); }\n", "malloc"),
    ("storage/a.c", "void f(void *x) { free(x); }\n", "free"),
    ("api/cli/a.c", "void f(char *x) { strdup(x); }\n", "strdup"),
    ("base/b.c", "void f(void *x) { realloc(x, 3); }\n", "realloc"),
    ("tests/unit/a.c", "void f(void) { sleep(1); }\n", "sleep"),
    ("storage/a.c", "void f(void) { usleep(1); }\n", "usleep"),
    ("base/mem.c", "void f(void) { free(malloc(3)); }\n", None),
    ("storage/a.c", "/* free(x) */ // malloc(3)\nchar *s = \"printf(\"; void f(void) { o->free(x); o.abort(y); }\n",
     None),
    ("storage/a.c", "void f(void) { snprintf(b, 1, s); my_exit(1); strtok_r(a, b, c); cleat__mem_free(x); }\n", None),
    ("api/cli/a.c", 'void f(void) { printf("x"); fprintf(stderr, "x"); exit(1); }\n', None),
    ("tests/unit/a.c", "void f(void *x) { free(x); abort(); }\n", None),
    ("base/a.c", "\n" * 601, "601 lines"),
    ("base/a.c", "\n" * 600, None),
    ("api/cleat.h", "\n" * 401, "401 lines"),
    ("api/cleat.h", "\n" * 400, None),
    ("api/cleat/a.h", "\n" * 401, "401 lines"),
    ("api/cleat/a.h", "\n" * 400, None),
    ("base/README.md", None, "base/README.md:1: folder_readmes: missing"),
    ("base/deeper/a.c", "int x;\n", "base/deeper/README.md:1: folder_readmes: missing"),
    ("notes.txt", "x\n", "does not belong at the top"),
    ("extra/a.c", "int x;\n", "does not belong at the top"),
    ("tests/data.bin", "\0" * ((1 << 20) + 1), "a binary of 1048577 bytes"),
    ("tests/data.txt", "x" * ((1 << 20) + 1), None),
    ("docs/a.md", "[x](b.md)\n", "docs/a.md:1: markdown_links: links to docs/b.md, which is not there"),
    ("docs/a.md", "# One\n\n[x](#two)\n", "docs/a.md:3: markdown_links: links to docs/a.md, which has no heading #two"),
    ("docs/a.md", "[x](../base/README.md#none)\n", "links to base/README.md, which has no heading #none"),
    ("docs/a.md", "# `cleat run`, in short\n[x](#cleat-run-in-short) [y](../base) [z](https://e.org/#x) `[c](d.md)`\n"
     "```c\n# no[x](y.md)\n```\n", None),
    ("docs/operations.md", "## Troubleshooting by message\n\n| message or hint says | cause |\n|---|---|\n"
     "| the moon … is full | no |\n", "docs/operations.md:5: quoted_messages: no message says 'the moon'"),
    ("docs/way-of-a-byte.md", WALKED + "| `f` | api/cleat/a.h |\n",
     "docs/way-of-a-byte.md:3: named_functions: api/cleat/a.h does not define f"),
    ("docs/way-of-a-byte.md", WALKED + "| `f` | base/a.c |\n", "needs functions and their file, not 'base/a.c'"),
    ("docs/way-of-a-byte.md", WALKED + "| | base/README.md |\n", "needs functions and their file"),
    ("docs/way-of-a-byte.md", WALKED + "| `declared` | base/b.c |\n",
     "docs/way-of-a-byte.md:3: named_functions: base/b.c does not define declared"),
    ("docs/way-of-a-byte.md", WALKED + "| `called` | base/b.c |\n", "base/b.c does not define called"),
    ("docs/way-of-a-byte.md", WALKED + "| `plain`, `broken` | base/b.c |\n![x](b.svg)\n",
     "docs/b.svg:2: named_functions: draws declared,"),
    ("docs/way-of-a-byte.md", WALKED + "| `plain`, `broken` | base/b.c |\n", None),
    ("api/cleat/a.h", HEAD % "struct a {\n  int x;\n};\n", "api/cleat/a.h:5: public_comments: a has no comment"),
    ("api/cleat/a.h", HEAD % "/* A. */\n\nvoid f(int x);\n", "f has no comment"),
    ("api/cleat/a.h", HEAD % "enum e { A };\n", "e has no comment"),
    ("api/cleat/a.h", HEAD % "#define CLEAT_A 1\n", "CLEAT_A has no comment"),
    ("api/cleat/a.h", HEAD % "typedef void f(int x);\n", "f has no comment"),
    ("api/cleat/a.h", HEAD % "/* Both. */\nvoid f(int x);\nvoid g(int x);\n", "f shares a comment"),
    ("api/cleat/a.h", HEAD % ("/* Goes. */\n" + STATUS), 'cleat_a has no line that begins with "Errors: "'),
    ("api/cleat/a.h", HEAD % "/* Goes. */\nint f(int x);\n", 'f has no line that begins with "Returns: "'),
    ("api/cleat/a.h", HEAD % "/* Goes. */\nvoid *f(int x);\n", 'f has no line that begins with "Returns: "'),
    ("api/cleat/a.h", HEAD % ("/* %s. */\nvoid f(int x);\n" % ("x" * 91)), "over 90 characters"),
    ("api/cleat/a.h", HEAD % "/* A. */\nstruct a {\n  int x; /* that is\n          * x */\n};\n",
     "api/cleat/a.h:7: public_comments: a comment that takes more than one line"),
    ("api/cleat/a.h",
     HEAD % ("struct b;\n\n/* Goes: on.\n * Errors: no. */\n" + STATUS + "\n/* A. */\nstruct a {\n  int x; "
             "/* x */\n};\n#define A_INIT { 1 }\n\n/* Is.\n * Returns: 1. */\nint f(int x);\n"
             "\n/* Not. */\nvoid g(int x);\n"), None),
    ("base/a.c", "/* %s */\n" % ("x" * 115), "base/a.c:1: line_lengths: 121 columns"),
    ("base/a.c", "/* %s */\n" % ("x" * 114), None),
    ("base/a.c", "/* %s */\n" % ("é" * 114), None),
    ("base/a.h", "/* %s */\n" % ("x" * 115), "base/a.h:1: line_lengths: 121 columns"),
    ("docs/a.md", "x\n" + "x" * 121 + "\n", "docs/a.md:2: line_lengths: 121 columns"),
    ("docs/a.md", "| %s |\n" % ("x" * 200), None),
    ("docs/a.md", "See https://%s\n" % ("x" * 200), None),
    ("tests/a.py", "x = '%s'\n" % ("x" * 200), "206 columns"),
    ("tests/a.sh", "# %s | x\n" % ("x" * 200), "206 columns"),
    ("tests/a.txt", "x" * 200, None),
    ("tests/tools/long_lines.txt", "# Long.\nbase/b.c\n", "long_lines.txt:2: line_lengths: base/b.c has no long line"),
    ("tests/tools/long_lines.txt", "base/none.c\n", "line_lengths: base/none.c has no long line"),
    ("tests/tools/long_lines.txt", "api/long.c\n", None),
    ("docs/operations.md", "## Other\n\n| message or hint says | cause |\n|---|---|\n| the moon | no |\n", None),
]


def lint(name, text):
    """Runs the tool on a sound little repository, with one file written (or, for None, left out)."""
    with tempfile.TemporaryDirectory() as root:
        subprocess.run(["git", "init", "-q", root], check=True)
        files = {folder + "/README.md": "x\n" for folder in (*FOLDERS, "api/cleat", "api/cli", "api/examples")}
        files["api/cleat/a.h"] = "\n"
        files["README.md"] = "x\n"
        files["base/b.c"] = BYTES_CODE
        files["docs/b.svg"] = BYTES_DRAWING
        if "long.c" in (text or ""):
            files["api/long.c"] = "/* %s */\n" % ("x" * 200)
        files[name] = text
        for path, content in files.items():
            if content is not None:
                os.makedirs(os.path.join(root, os.path.dirname(path)), exist_ok=True)
                with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                    file.write(content)
        run = subprocess.run([sys.executable, TOOL, root], stdout=subprocess.PIPE, text=True)
        return run.returncode, run.stdout


def main():
    wrong = 0
    for name, text, expected in CASES:
        code, output = lint(name, text)
        right = code == 0 if expected is None else code == 1 and expected in output
        if not right:
            wrong += 1
            print("%s %r: expected %r, got %d:\n%s" % (name, (text or "")[:60], expected, code, output))
    print("%s - lint rules find the %d planted cases" % ("not ok" if wrong else "ok", len(CASES)))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
