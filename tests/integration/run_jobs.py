"""Jobs under `cleat run`: tests start them, control them, kill them with all their processes, and read what is stored.

By default the command of a Job is a shell. It writes down its environment and the content of DIR, and then waits for
its exit status. Meanwhile the test itself writes the checkpoints, step by step. Cleat is never asked what is stored.
"""

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

from helpers import CLEAT, tree

SECONDS_MAX = 120  # a hang is a failure
OWN_FOLDER = ".cleat-run"
OWN_FAILURE = 125

# $1: the folder where it meets the test, $2: DIR.
WAIT = 'env > "$1/environment.new"; ls -A "$2" > "$1/names"; mv "$1/environment.new" "$1/environment"; ' \
       'read -r status < "$1/end"; exit "$status"'


def until(condition, what):
    """Polls until `condition` returns something true, and returns that."""
    end = time.monotonic() + SECONDS_MAX
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, "waited in vain: %s" % what
        time.sleep(0.02)


# ---- What is stored ------------------------------------------------------------------------------------------------

def steps(store):
    """The steps that are committed: those that have a manifest."""
    found = (re.fullmatch(r"step-(\d{12})/manifest\.json", key) for key in store.keys())
    return sorted(int(match.group(1)) for match in found if match)


def stored(store, step):
    """The files of a committed step and their bytes, read past Cleat; the record says which and how long. All of one
    attempt, also if another one takes its place meanwhile; then a key may be missing."""
    manifest, folder = store.manifest(step), "step-%012d/" % step
    files = {}
    for file in json.loads(store.get(folder + manifest["ranks"][0]["key"]))["files"]:
        data = store.get("%s%s/%s" % (folder, manifest["attempt"], file["name"]))
        assert len(data) == file["size"], (step, file)
        files[file["name"]] = data
    return files


def run_metadata(store, step):
    return store.manifest(step)["metadata"]["run"]


def contents(directory):
    """DIR without what is Cleat's own."""
    return {name: data for name, data in tree(directory).items() if not name.startswith(OWN_FOLDER + "/")}


# ---- A checkpoint that needs no tool --------------------------------------------------------------------------------

def write_dcp(directory, step, files=None, metadata=None):
    """Like DCP's: parts, then .metadata by a rename. Returns what is to be found in the store."""
    metadata = metadata or b"metadata of %d" % step
    files = files or {"__0_0.distcp": b"%d" % step * 1000}
    folder = Path(directory, "step-%d" % step)
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    (folder / ".metadata.tmp").write_bytes(metadata)
    os.rename(folder / ".metadata.tmp", folder / ".metadata")
    return {"step-%d/%s" % (step, name): data
            for name, data in {**files, ".metadata": metadata}.items()}


# ---- Processes ------------------------------------------------------------------------------------------------------

def processes():
    """pid: (state, parent, session) of all that there are."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            found[int(entry.name)] = (fields[0], int(fields[1]), int(fields[3]))
    return found


def members(session):
    """Those of a session that are not zombies."""
    return [pid for pid, (state, _, its) in processes().items() if its == session and state not in "ZX"]


def kill_session(session, number=signal.SIGKILL):
    """The whole of it, also what is started meanwhile."""
    while pids := members(session):
        for pid in pids:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass


class Job:
    """A `cleat run` in a session of its own. `aside` is a folder for the test and the command to meet in."""

    def __init__(self, store, directory, aside, *options, command=None, environment=None, prefix=(), **more):
        self.directory, self.aside = Path(directory), Path(aside)
        self.aside.mkdir(parents=True)
        os.mkfifo(self.aside / "end")
        if command is None:
            command = ["/bin/sh", "-c", WAIT, "command", self.aside, self.directory]
        arguments = [*prefix, CLEAT, "run", "--store", store.url, "--dir", directory, *options, "--", *command]
        with open(self.aside / "log", "wb") as log:
            self.process = subprocess.Popen([str(argument) for argument in arguments],
                                            env=dict(store.environment, **(environment or
                                                                           {})), stdin=subprocess.DEVNULL,
                                            stdout=subprocess.DEVNULL, stderr=log, start_new_session=True, **more)

    @property
    def log(self):
        return (self.aside / "log").read_text()

    @property
    def events(self):
        """With --log json: a dict each line."""
        return [json.loads(line) for line in self.log.splitlines()]

    def until(self, condition, what):
        def look():
            value = condition()
            assert value or self.process.poll() is None, "it has ended with %s while waiting: %s\n%s" % (
                self.process.returncode, what, self.log)
            return value
        try:
            return until(look, what)
        except AssertionError:
            print(self.log)
            raise

    def until_written(self, name):
        """What the command has written into a file in `aside`, which it renames to that name when it is whole."""
        self.until((self.aside / name).exists, "the command writes '%s'" % name)
        return (self.aside / name).read_text()

    def environment(self):
        """What the command was started with; waits for its start."""
        lines = self.until_written("environment").splitlines()
        return dict(line.split("=", 1) for line in lines if "=" in line)

    def resumed(self):
        """CLEAT_RESUME_STEP and what CLEAT_RESUME_DIR is below DIR; None: neither is set."""
        environment = self.environment()
        step, place = environment.get("CLEAT_RESUME_STEP"), environment.get("CLEAT_RESUME_DIR")
        assert (step is None) == (place is None)
        return step and (int(step), os.path.relpath(place, os.path.realpath(self.directory)))

    def until_stored(self, store, *wanted):
        self.until(lambda: set(wanted) <= set(steps(store)), "steps %s are stored" % (wanted,))

    def tell(self, text):
        """Hands a line to the command that waits, however long it takes to start."""
        def write():
            try:
                end = os.open(self.aside / "end", os.O_WRONLY | os.O_NONBLOCK)
            except OSError:
                return False  # nobody reads yet
            os.write(end, text.encode() + b"\n")
            os.close(end)
            return True
        self.until(write, "the command listens")

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self):
        try:
            return self.process.wait(SECONDS_MAX)
        finally:
            print(self.log)

    def end(self, status=0):
        """Tells the command to end so, and waits; returns the exit status of cleat run."""
        self.tell(str(status))
        return self.wait()

    def kill(self):
        """All of it, at once."""
        kill_session(self.process.pid)
        self.process.wait(SECONDS_MAX)
