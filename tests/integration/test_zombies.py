"""Zombies: a save is stopped near its end, `save --resume` runs elsewhere as if the first process were dead, and then
the first one wakes up.

Exactly one of them wins, and what it committed stays, whichever conditions the store honours. The store is read without
Cleat and compared with the sources of the winner. CLEAT_TEST_ZOMBIES sets how many there are on each store.
CLEAT_TEST_SEED repeats their moments.
"""

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import time

import pytest

from helpers import CLEAT, Bucket, Folder, Server, clean_environment, fill, found, noise
from loose_s3 import LooseS3

MIB = 1 << 20
SECONDS_MAX = 120
COUNT = int(os.environ.get("CLEAT_TEST_ZOMBIES", 12))
COUNT_MAX = 100  # of one store: each leaves 17 MB there, or twice that
SIZES = {"a.bin": 11 * MIB, "b.bin": 6 * MIB, "c": 3000, "empty": 0}
LOST = 5
POLL_SECONDS = 0.1
LOCKED_POLLS = 20  # of a lock that is held all the time: by the process that is stopped
WARM = 3  # saves that are measured; the first one to a server may be slow


class Loose(Folder):
    """A store that ignores conditions, as Garage does."""

    def __init__(self, *ignore):
        self.server = LooseS3(ignore=ignore)
        self.url = "s3://bucket/run"
        self.environment = dict(clean_environment(), AWS_ACCESS_KEY_ID="k", AWS_SECRET_ACCESS_KEY="s",
                                AWS_REGION="us-east-1", AWS_ENDPOINT_URL=self.server.url)

    def keys(self):
        return sorted(key[len("run/"):] for key in list(self.server.objects))

    def get(self, key):
        return self.server.objects["run/" + key][0]

    def remove(self):
        self.server.close()


STORES = {"minio": lambda _: Bucket(Server("minio-http")),
          "versitygw": lambda _: Bucket(Server("versitygw-http")),
          "folder": lambda path: Folder(path),
          "ignores-conditions": lambda _: Loose("create-only", "if-match"),
          "ignores-if-match": lambda _: Loose("if-match"),
          "ignores-them-at-complete": lambda _: Loose("create-only-uploads")}


@pytest.fixture(params=list(STORES))
def store(request, tmp_path):
    made = STORES[request.param](tmp_path / "store")
    # versitygw looks first and stores later: it is no better than one that ignores conditions.
    made.heeds = request.param in ("minio", "folder")
    yield made
    if hasattr(made, "remove"):
        made.remove()


@pytest.fixture
def sources(tmp_path):
    """Two folders with the same names and sizes: one byte differs in two of the files."""
    files = {name: noise(size, number) for number, (name, size) in enumerate(SIZES.items())}
    other = {
        name: data[:-1] + bytes([data[-1] ^ 1]) if name in ("a.bin", "c") else data
        for name, data in files.items()
    }
    return fill(tmp_path / "first", files), fill(tmp_path / "other", other)


def start(store, source, step, *more):
    return subprocess.Popen([
        CLEAT, "save", source, store.url, "--step",
        str(step), "--part-size", "5M", "--jobs", "3", *more
    ], env=store.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def end(process):
    _, err = process.communicate(timeout=SECONDS_MAX)
    return process.returncode, err.decode()


def stop_after(process, seconds):
    """False: it has ended before."""
    try:
        process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGSTOP)
    return process.returncode is None


def until_ended_or_held_up(store, process):
    """In a folder a process may be stopped in the milliseconds for which it holds the lock on names. Then all others
    wait until it goes on, or for their time limit."""
    locked = 0
    while process.poll() is None and locked < LOCKED_POLLS:
        try:
            process.wait(timeout=POLL_SECONDS)
        except subprocess.TimeoutExpired:
            locked = locked + 1 if is_locked(store) else 0


def is_locked(store):
    if not isinstance(store, Folder) or isinstance(store, Loose):
        return False
    for path in found(store.path, ".cleat-lock"):
        with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
    return False


def measure(store, source, step):
    began = time.monotonic()
    code, err = end(start(store, source, step))
    assert code == 0, err
    return time.monotonic() - began


def committed(store, step):
    """The files of what is committed, read past Cleat."""
    manifest = store.manifest(step)
    folder = "step-%012d/" % step
    record = json.loads(store.get(folder + manifest["ranks"][0]["key"]))
    return {
        file["name"]: store.get("%s%s/%s" % (folder, manifest["attempt"], file["name"]))
        for file in record["files"]
    }


def judge(store, step, codes, sources):
    """Exactly one has won, and what is there is what it had."""
    assert sorted(code == 0 for code, _ in codes) == [False, True], codes
    winner = 0 if codes[0][0] == 0 else 1
    loser, said = codes[1 - winner]
    if store.heeds:
        assert loser == LOST, codes
    else:
        assert loser in (1, LOST), codes
    assert said.startswith("cleat:"), said
    files = {name: (sources[winner] / name).read_bytes() for name in SIZES}
    assert committed(store, step) == files
    result = store.cleat("verify", store.url, "--step", step)
    assert result.code == 0, result
    listed = store.cleat("ls", store.url, "--json")
    assert listed.code == 0, listed


@pytest.mark.parametrize("count", [min(COUNT_MAX, COUNT - done) for done in range(0, COUNT, COUNT_MAX)])
def test_zombies(store, sources, rng, count):
    """Of both, also where the second has other bytes of the same sizes."""
    seconds, met, won = min(measure(store, sources[0], step) for step in range(1, WARM + 1)), 0, [0, 0]
    for step in range(WARM + 1, WARM + count + 1):
        second = sources[rng.randrange(2)]
        both = rng.random() < 0.5  # they run side by side, or one after the other
        first = start(store, sources[0], step)
        stopped = stop_after(first, seconds * rng.uniform(0.4, 1))
        process = start(store, second, step, "--resume")
        if both:
            stop_after(process, seconds * rng.uniform(0, 0.8))
            if process.returncode is None:
                first.send_signal(signal.SIGCONT)
                process.send_signal(signal.SIGCONT)
        until_ended_or_held_up(store, process)
        first.send_signal(signal.SIGCONT)
        code, err = end(process)
        codes = [end(first), (code, err)]
        print("step %d: %s" % (step, codes))
        judge(store, step, codes, (sources[0], second))
        met += stopped
        won[codes[0][0] != 0] += 1
    print("%d of %d were stopped; the first won %d, the second %d" % (met, count, *won))
    for step in range(1, WARM + count + 1):  # later saves have harmed none
        assert committed(store, step).keys() == SIZES.keys()
