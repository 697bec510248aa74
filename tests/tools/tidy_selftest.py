#!/usr/bin/env python3
"""Shows that tidy.py reports findings, and that it checks a file again after a change that clang-tidy sees. Prints one
line. The exit status is 1 if it fails."""

import os
import subprocess
import sys
import tempfile

TOOL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tidy.py")
CONFIG = "Checks: '-*,bugprone-sizeof-expression'\nWarningsAsErrors: '*'\nHeaderFilterRegex: '.*'\n"
SOUND = '#include "a.h"\nint main(void) { return (int)sizeof(char); }\n'
WRONG = ("static inline int wrong(void) { int *p = 0; "
         "return (int)(sizeof(int) / sizeof(p)) + (int)sizeof(sizeof(int)); }\n")

# (what is written before, the flags, whether something is found, how many files were known)
STEPS = [
    ({".clang-tidy": CONFIG, "a.c": SOUND, "a.h": "\n", "b.c": "int b;\n"}, [], False, 0),
    ({}, [], False, 2),
    ({"a.h": "\n\n"}, [], False, 1),
    ({}, ["-DB"], False, 0),
    ({"a.h": WRONG}, [], True, 1),
    ({}, [], True, 1),  # findings are not remembered
    ({"a.h": "\n"}, [], False, 2),  # but what was sound is
    ({"b.c": "int b;\n/* */\n"}, [], False, 1),
    ({"b.c": "int b\n"}, [], True, 1),
    ({"b.c": "int b;\n", ".clang-tidy": CONFIG + "# \n"}, [], False, 0),
]


def run(folder, flags):
    process = subprocess.run([sys.executable, TOOL, os.path.join(folder, "cache"), *flags, "--", "a.c", "b.c"],
                             cwd=folder,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return process.returncode, process.stdout


def main():
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for number, (files, flags, finds, known) in enumerate(STEPS):
            for name, text in files.items():
                with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                    file.write(text)
            code, output = run(folder, flags)
            if code != int(finds) or ("2 files, %d of them" % known) not in output:
                wrong += 1
                print("step %d: expected %d known and status %d, got %d:\n%s" % (number, known, finds, code, output))
    print("%s - what clang-tidy found is known until something changes" % ("not ok" if wrong else "ok"))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
