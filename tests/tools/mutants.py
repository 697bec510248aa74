#!/usr/bin/env python3
"""Applies each bug of tests/mutants to a copy of the tree, and shows that the test that the bug names fails.

usage: mutants.py [--groups] [ROOT]      --groups only prints the groups of tests that the chosen mutants need

Environment:
  MUTANTS="name …"         only these mutants
  MUTANTS_GROUPS="unit …"  only these groups
  MUTANTS_TURN=k/n         every n-th mutant; another k chooses others
  MUTANTS_SECONDS=N        time limit of a test; default 120 s, or 8 times what the test takes on the unchanged tree
  MUTANTS_JOBS=N           how many to run in parallel; default one for each core, at most 4

Prints one line for each mutant, "ok - …" or "not ok - …", and a last line "N passed, M failed". A mutant counts as
failed if its test passes, if the patch does not apply, if the result does not compile, or if the unchanged tree fails
the same test. tests/mutants/README.md says how to write a patch.
"""

import glob
import os
import queue
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

BUILD_SECONDS = 900
SECONDS_LEAST = 120
TIMES_AS_LONG = 8
TAIL = 15  # lines of what a failed program said

CHECKS = re.compile(r"^\d+%: Checks: (\d+), Failures: (\d+), Errors: (\d+)", re.M)
GROUPS = ("unit", "torture", "gpu", "integration", "model")
FORMS = {
    "unit": r"(test_\w+)(?: (.+))?",
    "torture": r"(test_\w+)(?: (.+))?",
    "gpu": r"(fake_\w+)(?: (.+))?",
    "integration": r"(tests/integration/test_\w+\.py::\S+)()",
    "model": r"()(.*)",
}


class Wrong(Exception):
    """A mutant that proves nothing, and why."""


class Test:
    """What must fail: a group of the tests, one of its programs, a case of that."""

    def __init__(self, words):
        self.words = words
        group, _, rest = words.partition(" ")
        match = re.fullmatch(FORMS.get(group, "$^"), rest)
        if not match:
            raise Wrong("Caught-by: '%s' is none of the forms of tests/mutants/README.md" % words)
        self.group, self.name, self.case = group, match.group(1), match.group(2) or ""

    def targets(self, build):
        if self.group == "integration":
            return ["all", "integration-programs"]
        return [] if self.group == "model" else ["%s/tests/%s/%s" % (build, self.group, self.name)]

    def command(self, tree):
        """The words of the command, and what is added to its environment."""
        if self.group == "integration":
            python = subprocess.run([tree.path("tests/tools/venv.sh")], check=True, stdout=subprocess.PIPE,
                                    text=True).stdout.strip()
            words = [python, "-m", "pytest", "-p", "no:cacheprovider", "-q", "-ra", self.name]
            return words, {"CLEAT": tree.path(tree.build, "cleat")}
        if self.group == "model":
            return [tree.path("tests/model/run.sh")] + shlex.split(self.case), {}
        variable = "CLEAT_GPU_CASE" if self.group == "gpu" else "CK_RUN_CASE"
        added = {"CK_DEFAULT_TIMEOUT": "4", "CK_TIMEOUT_MULTIPLIER": "4", "CK_FORK": "yes"}  # some hang
        if self.case and not self.is_function(tree):
            added[variable] = self.case
        return [tree.path(tree.build, "tests", self.group, self.name)], added

    def is_function(self, tree):
        """Whether the case is one of Check's functions, of which none can be run alone: all run, and only it counts."""
        source = tree.source(self.group, self.name)
        return ("START_TEST(%s)" % self.case).encode() in source

    def failed_elsewhere(self, tree, output):
        """A program says ":F:" and the case, and the function, of each failure; E is a crash or its time limit."""
        return self.is_function(tree) and not re.search(r":[FE]:[^:]*:%s:" % re.escape(self.case), output)

    def count(self, output):
        """How many checks passed and how many did not, by what the program said."""
        if self.group in ("unit", "torture"):
            found = [[int(number) for number in numbers] for numbers in CHECKS.findall(output)]
            bad = sum(failures + errors for _, failures, errors in found)
            return sum(checks for checks, _, _ in found) - bad, bad
        if self.group == "integration":
            last = output.rstrip().rpartition("\n")[2]
            bad = re.findall(r"(\d+) (?:failed|errors?|skipped|xfailed|xpassed)", last)
            return sum(int(number) for number in re.findall(r"(\d+) passed", last)), sum(int(number) for number in bad)
        return len(re.findall(r"^ok ", output, re.M)), len(re.findall(r"^(?:not ok|skipped) ", output, re.M))


class Mutant:
    """A patch with its head."""

    def __init__(self, path):
        self.path = path
        self.name = os.path.basename(path)[:-len(".patch")]
        with open(path, encoding="utf-8") as file:
            head = re.split(r"^(?:diff |--- )", file.read(), maxsplit=1, flags=re.M)[0]
        self.words, self.test, self.wrong = "", None, None
        try:
            self.words = self.field(head, "Mutant")
            self.test = Test(self.field(head, "Caught-by"))
        except Wrong as wrong:
            self.wrong = str(wrong)

    @staticmethod
    def field(head, name):
        found = re.findall(r"^%s: *(\S.*?) *$" % name, head, re.M)
        if len(found) != 1:
            raise Wrong("its head has %d lines '%s: …', not one" % (len(found), name))
        return found[0]


class Children:
    """Every process that was started, each in a session of its own, so that it can be ended with what it started."""

    def __init__(self):
        self.lock = threading.Lock()
        self.running = set()
        self.over = False

    def run(self, words, seconds, **more):
        """Exit status, None after the time limit; output."""
        with tempfile.TemporaryFile() as output:
            with self.lock:
                if self.over:
                    raise SystemExit
                process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                                           start_new_session=True, **more)
                self.running.add(process)
            try:
                status = process.wait(timeout=seconds)
            except subprocess.TimeoutExpired:
                status = None
            self.end(process)
            output.seek(0)
            return status, output.read().decode(errors="replace")

    def end(self, process):
        """What a program left behind must not outlive it."""
        with self.lock:
            self.running.discard(process)
            self.kill(process)
        process.wait()

    @staticmethod
    def kill(process):
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def end_all(self):
        with self.lock:
            self.over = True
            for process in self.running:
                self.kill(process)


def tail(output):
    return "".join("    %s\n" % line for line in output.rstrip().split("\n")[-TAIL:])


def make_environment():
    """That of a make which we start: the caller's variables, but not his jobs, which are dealt out by pipes."""
    environment = dict(os.environ)
    flags = environment.get("MAKEFLAGS", "").split(" ")
    kept = [flag for flag in flags if not flag.startswith(("-j", "--jobserver", "-n", "-o"))]
    environment["MAKEFLAGS"] = " ".join(kept)
    environment.pop("MFLAGS", None)
    return environment


class Tree:
    """A copy of the repository that bugs are put into, with what is built of it."""

    def __init__(self, root, build, children):
        self.root, self.build, self.children = root, build, children
        self.environment = make_environment()

    def path(self, *parts):
        return os.path.join(self.root, *parts)

    def make(self, targets, jobs=1, more=()):
        words = [os.environ.get("MAKE", "make"), "--no-print-directory", "-C", self.root, "-j%d" % jobs]
        status, output = self.children.run(words + list(more) + targets, BUILD_SECONDS, env=self.environment)
        if status != 0:
            errors = [line for line in output.split("\n") if re.search(r"error[: ]|\*\*\*|undefined reference", line)]
            raise Wrong("does not compile\n" + tail("\n".join(errors) or output))

    def build_mutated(self, targets):
        """Warnings are no errors: a bug may well leave a function that nobody uses. Its flag must not make all anew."""
        flags = (os.environ.get("CFLAGS", "") + " -Wno-error").strip()
        if targets:
            self.make(targets, 1, ["-o", self.build + "/.flags", "-o", "force", "CFLAGS=" + flags])

    def git_apply(self, patch, *options):
        environment = dict(os.environ, GIT_CEILING_DIRECTORIES=os.path.dirname(self.root))
        return self.children.run(["git", "apply", *options, patch], 60, cwd=self.root, env=environment)

    def apply(self, patch):
        """What the files were before, by their names; None where there was none."""
        status, names = self.git_apply(patch, "--numstat")
        check, words = self.git_apply(patch, "--check")
        if status != 0 or check != 0:
            raise Wrong("does not apply\n" + tail(words if check != 0 else names))
        before = {}
        for line in names.splitlines():
            name = line.split("\t", 2)[2]
            before[name] = self.read(name)
        status, words = self.git_apply(patch)
        if status != 0:
            self.revert(before)
            raise Wrong("does not apply\n" + tail(words))
        return before

    def source(self, group, name):
        """A test's source. Those of tests/unit lie in folders."""
        found = glob.glob(self.path("tests", group, "**", name + ".c"), recursive=True)
        return self.read(os.path.relpath(found[0], self.path())) if found else b""

    def read(self, name):
        try:
            with open(self.path(name), "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None

    def revert(self, before):
        """The files get a new date, so that make does not take the mutant's objects for theirs."""
        for name, content in before.items():
            if content is None:
                if os.path.exists(self.path(name)):
                    os.remove(self.path(name))
                continue
            with open(self.path(name), "wb") as file:
                file.write(content)

    def run(self, test, seconds):
        """Passed, failed, or hung; how long it took; output."""
        words, added = test.command(self)
        started = time.monotonic()
        status, output = self.children.run(words, seconds, cwd=self.root, env=dict(os.environ, **added))
        took = time.monotonic() - started
        good, bad = test.count(output)
        if status is None:
            return "hung", took, output
        if status == 0 and bad == 0:
            return ("passed" if good > 0 else "ran no check"), took, output
        if test.group == "integration" and status != 1:
            return "pytest ended with %d" % status, took, output
        if test.failed_elsewhere(self, output):
            return "others fail", took, output
        return ("failed" if status != 0 else "skipped"), took, output


class Run:
    """All of it: the copies, and what came of the mutants."""

    def __init__(self, root, mutants):
        self.root, self.mutants = root, mutants
        self.build = os.environ.get("BUILD", "build")
        if os.path.isabs(self.build):
            raise SystemExit("mutants.py: BUILD must be a folder of the tree")
        self.jobs = int(os.environ.get("MUTANTS_JOBS") or min(4, len(os.sched_getaffinity(0))))
        self.children = Children()
        self.scratch = tempfile.mkdtemp(prefix="cleat-mutants.")
        self.lock = threading.Lock()
        self.limits, self.baseline = {}, {}  # by the words of the test
        self.threads = []
        self.passed = self.failed = 0

    def tell(self, good, words):
        with self.lock:
            if self.children.over:
                return
            self.passed += good
            self.failed += not good
            print(("ok - " if good else "not ok - ") + words.rstrip(), flush=True)

    def copy_sources(self, tree):
        """With their dates, and what is built of them: what has not changed is not compiled again."""
        names = subprocess.run(["git", "-C", self.root, "ls-files", "-co", "--exclude-standard", "-z"], check=True,
                               stdout=subprocess.PIPE, text=True).stdout.split("\0")
        for name in sorted(set(filter(None, names))):
            copy_file(os.path.join(self.root, name), tree.path(name))

    def copy_built(self, tree):
        """Objects alone: an archive or a program may be older than the list of what goes into it."""
        built = os.path.join(self.root, self.build)
        copy_file(os.path.join(built, ".flags"), tree.path(self.build, ".flags"))
        if os.path.isdir(os.path.join(built, "obj")):
            shutil.copytree(os.path.join(built, "obj"), tree.path(self.build, "obj"), symlinks=True)

    def prepare(self):
        """One sound copy, built, and as many more as are worked on side by side."""
        first = Tree(os.path.join(self.scratch, "0"), self.build, self.children)
        targets = sorted(
            {target
             for mutant in self.mutants if mutant.test for target in mutant.test.targets(self.build)})
        self.copy_sources(first)
        self.copy_built(first)
        if targets:
            first.make(targets, len(os.sched_getaffinity(0)))
        trees = [first]
        for number in range(1, min(self.jobs, len(self.mutants))):
            trees.append(Tree(os.path.join(self.scratch, str(number)), self.build, self.children))
            shutil.copytree(first.root, trees[-1].root, symlinks=True)
        return trees

    def side_by_side(self, trees, work, items):
        """work(tree, item) for each item, a thread a tree."""
        waiting, broken = queue.SimpleQueue(), []
        for item in items:
            waiting.put(item)

        def worker(tree):
            try:
                while not self.children.over:
                    work(tree, waiting.get_nowait())
            except queue.Empty:
                pass
            except Exception as error:  # pylint: disable=broad-except
                broken.append(error)
                raise

        self.threads = [threading.Thread(target=worker, args=(tree,), daemon=True) for tree in trees]
        for thread in self.threads:
            thread.start()
        for thread in self.threads:
            thread.join()
        if broken:
            raise broken[0]

    def try_sound(self, tree, test):
        limit = float(os.environ.get("MUTANTS_SECONDS") or BUILD_SECONDS)
        verdict, took, output = tree.run(test, limit)
        self.baseline[test.words] = None if verdict == "passed" else "the sound tree fails it: %s\n%s" % (
            "time limit of %.0f s" % limit if verdict == "hung" else verdict, tail(output))
        self.limits[test.words] = float(os.environ.get("MUTANTS_SECONDS") or max(SECONDS_LEAST, TIMES_AS_LONG * took))

    def try_mutant(self, tree, mutant):
        try:
            if mutant.wrong:
                raise Wrong(mutant.wrong)
            if self.baseline[mutant.test.words]:
                raise Wrong("%s: %s" % (mutant.test.words, self.baseline[mutant.test.words]))
            before = tree.apply(mutant.path)
            try:
                tree.build_mutated(mutant.test.targets(self.build))
                self.judge(mutant, *tree.run(mutant.test, self.limits[mutant.test.words]))
            finally:
                tree.revert(before)
        except Wrong as wrong:
            self.tell(False, "%s: %s" % (mutant.name, wrong))

    def judge(self, mutant, verdict, took, output):
        test, name = mutant.test.words, mutant.name
        if verdict == "hung":
            self.tell(True, "%s: caught by the time limit alone, %.0f s of %s" % (name, took, test))
        elif verdict == "failed" and "Test timeout expired" in output:
            self.tell(True, "%s: caught by %s, whose own time limit ended a case (%.1f s)" % (name, test, took))
        elif verdict == "failed":
            self.tell(True, "%s: caught by %s (%.1f s)" % (name, test, took))
        elif verdict == "passed":
            self.tell(False, "%s: survived %s: %s" % (name, test, mutant.words))
        else:
            self.tell(False, "%s: %s says nothing: %s\n%s" % (name, test, verdict, tail(output)))

    def all(self):
        tests = {mutant.test.words: mutant.test for mutant in self.mutants if mutant.test}
        try:
            trees = self.prepare()
        except Wrong as wrong:
            self.tell(False, "the sound tree %s" % wrong)
            return
        self.side_by_side(trees, self.try_sound, list(tests.values()))
        self.side_by_side(trees, self.try_mutant, self.mutants)

    def clear(self):
        self.children.end_all()
        for thread in self.threads:
            thread.join(10)
        # What was killed may not be gone yet, and may make a file in a folder that is being removed.
        for _ in range(100):
            shutil.rmtree(self.scratch, ignore_errors=True)
            if not os.path.exists(self.scratch):
                break
            time.sleep(0.1)


def copy_file(source, target):
    if not os.path.lexists(source):
        return
    os.makedirs(os.path.dirname(target), exist_ok=True)
    shutil.copy2(source, target, follow_symlinks=False)


def chosen(root):
    folder = os.path.join(root, "tests/mutants")
    found = [Mutant(os.path.join(folder, name)) for name in sorted(os.listdir(folder)) if name.endswith(".patch")]
    names = os.environ.get("MUTANTS", "").split()
    unknown = set(names) - {mutant.name for mutant in found}
    if unknown:
        raise SystemExit("mutants.py: there is no tests/mutants/%s.patch" % sorted(unknown)[0])
    groups = os.environ.get("MUTANTS_GROUPS", "").split()
    found = [mutant for mutant in found if (not names or mutant.name in names) and
             (not groups or mutant.test is None or mutant.test.group in groups)]
    turn = os.environ.get("MUTANTS_TURN")
    if not turn:
        return found
    if not re.fullmatch(r"\d+/0*[1-9]\d*", turn):
        raise SystemExit("mutants.py: MUTANTS_TURN is '%s', not k/n" % turn)
    first, step = (int(number) for number in turn.split("/"))
    return found[first % step::step]


def main():
    arguments = sys.argv[1:]
    only_groups = arguments[:1] == ["--groups"]
    root = os.path.abspath((arguments[only_groups:] or [os.path.join(os.path.dirname(__file__), "../..")])[0])
    mutants = chosen(root)
    if only_groups:
        groups = {mutant.test.group for mutant in mutants if mutant.test}
        print("\n".join(group for group in GROUPS if group in groups))
        return 0
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    run = Run(root, mutants)
    try:
        run.all()
    finally:
        run.clear()
    print("%d passed, %d failed" % (run.passed, run.failed))
    return 0 if run.failed == 0 and run.passed > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
