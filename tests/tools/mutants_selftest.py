#!/usr/bin/env python3
"""Shows that mutants.py can fail. It plants mutants of each kind in a small repository and checks the verdicts. It also
stops mutants.py while a test hangs, which must leave nothing behind."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time

TOOL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "mutants.py")

MAKEFILE = """\
BUILD ?= build
ALL_CFLAGS = -Werror -Wall $(CFLAGS)
$(BUILD)/.flags: force
\t@mkdir -p $(@D); echo '$(ALL_CFLAGS)' | cmp -s - $@ || echo '$(ALL_CFLAGS)' > $@
$(BUILD)/obj/%.o: %.c $(BUILD)/.flags
\t@mkdir -p $(@D); echo $< >>$${COMPILED:-/dev/null}
\t@gcc -O0 $(ALL_CFLAGS) -c $< -o $@
$(BUILD)/tests/unit/test_%: $(BUILD)/obj/tests/unit/test_%.o $(BUILD)/obj/sum.o
\t@mkdir -p $(@D); gcc $^ -o $@
.PHONY: force
.SECONDARY:
"""

SUM = """\
int sum(int a, int b);
int unused(int a);
static int twice(int a) {
  return 2 * a;
}
int sum(int a, int b) {
  return a + b;
}
int unused(int a) {
  return twice(a);
}
"""

# A program of the form of Check's: it says what it counted, of a case that may be chosen.
PROGRAM = """\
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int sum(int a, int b);
#define START_TEST(name) int name(void)
START_TEST(adds);
START_TEST(adds) { return %s; }
int main(void) {
  const char *only = getenv("CK_RUN_CASE");
  int checks = !only || strcmp(only, "sum of two") == 0, bad = adds();
  printf("%%d%%%%: Checks: %%d, Failures: %%d, Errors: 0\\n", 100, checks, checks && bad);
  if (checks && bad)
    printf("test_sum.c:1:F:sum of two:adds:0: wrong\\n");
  return checks && bad;
}
"""

PATCH = """\
Mutant: %s
Caught-by: %s

--- a/sum.c
+++ b/sum.c
@@ -%d,3 +%d,3 @@
 %s
-%s
+%s
 %s
"""


def patch(test, new, old="  return a + b;", line=6, before="int sum(int a, int b) {", words="sums are wrong"):
    return PATCH % (words, test, line, line, before, old, new, "}")


# (name, patch, what is said of it)
CASES = [
    ("caught", patch("unit test_sum", "  return a - b;"), "ok - caught: caught by unit test_sum ("),
    ("caught-by-case", patch("unit test_sum sum of two",
                             "  return a - b;"), "ok - caught-by-case: caught by unit test_sum sum of two ("),
    ("caught-by-function", patch("unit test_sum adds",
                                 "  return a - b;"), "ok - caught-by-function: caught by unit test_sum adds ("),
    ("caught-elsewhere", patch("unit test_positive subtracts", "  return -1;"),
     "not ok - caught-elsewhere: unit test_positive subtracts says nothing: others fail"),
    ("crashes", patch("unit test_sum",
                      "  return *(volatile int *)0 + a + b;"), "ok - crashes: caught by unit test_sum ("),
    ("warns", patch("unit test_positive", "  return -1;", "  return twice(a);", 9,
                    "int unused(int a) {"), "not ok - warns: survived unit test_positive: sums are wrong"),
    ("survives", patch("unit test_positive",
                       "  return b + a;"), "not ok - survives: survived unit test_positive: sums are wrong"),
    ("hangs", patch("unit test_sum",
                    "  for (volatile int i = 0; i < 1;) {\n+  }\n+  return a + b;").replace("+6,3", "+6,5"),
     "ok - hangs: caught by the time limit alone, "),
    ("stale", patch("unit test_sum", "  return a - b;", "  return a + b + 0;"), "not ok - stale: does not apply"),
    ("broken", patch("unit test_sum", "  return a ++ b;"), "not ok - broken: does not compile"),
    ("red", patch("unit test_red", "  return a - b;"), "not ok - red: unit test_red: the sound tree fails it: failed"),
    ("no-case", patch("unit test_sum product", "  return a - b;"),
     "not ok - no-case: unit test_sum product: the sound tree fails it: ran no check"),
    ("headless", patch("unit test_sum", "  return a - b;").replace("Caught-by: ", "By: "),
     "not ok - headless: its head has 0 lines 'Caught-by: …', not one"),
    ("formless", patch("unit sum", "  return a - b;"), "not ok - formless: Caught-by: 'unit sum' is none of the forms"),
]


def write(root, name, text):
    path = os.path.join(root, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def plant(root):
    subprocess.run(["git", "init", "-q", root], check=True)
    write(root, ".gitignore", "/build/\n")
    write(root, "Makefile", MAKEFILE)
    write(root, "sum.c", SUM)
    write(root, "tests/unit/test_sum.c", PROGRAM % "sum(2, 3) != 5")
    write(root, "tests/unit/test_positive.c", PROGRAM % "sum(2, 3) < 1" +
          "START_TEST(subtracts);\nSTART_TEST(subtracts) { return 0; }\n")
    write(root, "tests/unit/test_red.c", PROGRAM % "sum(2, 3) == 5")
    for name, text, _ in CASES:
        write(root, "tests/mutants/%s.patch" % name, text)


def start(root, scratch, **more):
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith(("MUTANTS", "MAKE", "MFLAGS", "CFLAGS", "BUILD"))}
    environment.update({"TMPDIR": scratch, "MUTANTS_SECONDS": "3", **more})
    return subprocess.Popen([sys.executable, TOOL, root], env=environment, text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT)


def run(root, scratch, **more):
    process = start(root, scratch, **more)
    output = process.communicate()[0]
    return process.returncode, output


def look_at_all(root, scratch):
    code, output = run(root, scratch)
    good = sum(said.startswith("ok") for _, _, said in CASES)
    last = "%d passed, %d failed" % (good, len(CASES) - good)
    for name, _, said in CASES:
        if not re.search("^" + re.escape(said), output, re.M):
            yield "%s: expected '%s'" % (name, said), output
    if code != 1 or output.rstrip().split("\n")[-1] != last:
        yield "exit status %d, expected 1 and '%s'" % (code, last), output
    with open(os.path.join(root, "sum.c"), encoding="utf-8") as file:
        if file.read() != SUM or os.path.exists(os.path.join(root, "build")):
            yield "the tree itself was changed", output


def look_at_choices(root, scratch):
    code, output = run(root, scratch, MUTANTS="caught caught-by-case", MUTANTS_JOBS="1")
    if code != 0 or not output.endswith("\n2 passed, 0 failed\n"):
        yield "two by name: exit status %d" % code, output
    code, output = run(root, scratch, MUTANTS="unknown")
    if code == 0 or "there is no tests/mutants/unknown.patch" not in output:
        yield "an unknown name: exit status %d" % code, output
    seen = []
    for turn in range(3):
        _, output = run(root, scratch, MUTANTS_TURN="%d/3" % (turn + 40))
        seen += re.findall(r"^(?:not )?ok - ([\w-]+):", output, re.M)
    if sorted(seen) != sorted(name for name, _, _ in CASES):
        yield "three turns", "\n".join(sorted(seen))


def look_at_dates(root, scratch):
    """What is built in the tree is used: nothing of it is compiled again, but what a mutant changes."""
    subprocess.run(["make", "-s", "-C", root, "build/tests/unit/test_sum"], check=True)
    with tempfile.NamedTemporaryFile("r", encoding="utf-8") as compiled:
        code, output = run(root, scratch, MUTANTS="caught caught-by-case", MUTANTS_JOBS="1", COMPILED=compiled.name)
        names = compiled.read().split()
        if code != 0 or names != ["sum.c", "sum.c"]:
            yield "a tree that is built: compiled is %s" % names, output


def look_at_an_end(root, scratch):
    """Stopped while a test hangs: the hung program is ended, and no copy is left."""
    process = start(root, scratch, MUTANTS="hangs", MUTANTS_SECONDS="600")
    hung = []
    while process.poll() is None and not hung:
        time.sleep(0.05)
        hung = [pid for pid in os.listdir("/proc") if pid.isdigit() and is_hung(pid, scratch)]
    process.send_signal(signal.SIGTERM)
    output = process.communicate()[0]
    if process.returncode != 128 + signal.SIGTERM:
        yield "stopped: exit status %d" % process.returncode, output
    if any(is_hung(pid, scratch) for pid in hung):
        yield "a test goes on after the end", output


def is_hung(pid, scratch):
    """A test's program of a copy that has used a tenth of a second of processor."""
    try:
        with open("/proc/%s/stat" % pid, encoding="ascii", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
        return os.readlink("/proc/%s/exe" % pid).startswith(scratch) and int(fields[11]) >= 10
    except (OSError, ValueError):
        return False


def main():
    wrong = 0
    with tempfile.TemporaryDirectory() as root, tempfile.TemporaryDirectory() as scratch:
        plant(root)
        for look in (look_at_all, look_at_choices, look_at_dates, look_at_an_end):
            for what, output in look(root, scratch):
                wrong += 1
                print("%s:\n%s" % (what, output))
            if os.listdir(scratch):
                wrong += 1
                print("%s leaves %s" % (look.__name__, os.listdir(scratch)))
    print("%s - mutants.py tells %d planted mutants, and leaves nothing behind" %
          ("not ok" if wrong else "ok", len(CASES)))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
