"""Jobs of several ranks for tests: the example trainer_ranks, what it has stored, and a run for comparison.

Nothing is judged by Cleat. Losses are compared by their bits. Weights are compared as raw files that the trainer writes
itself. Moments are compared as safetensors of Hugging Face and numpy assemble them from the files of all ranks. boto3
searches for everything that a manifest names.
"""

import hashlib
import json
import os
import re
import struct
import subprocess
import time
from pathlib import Path

import numpy
import pytest
import safetensors.numpy

from helpers import CLEAT, ROOT, SLOW, Folder

TRAINER = Path(CLEAT).parent / "trainer_ranks"
CORPUS = ROOT / "api" / "examples" / "corpus.txt"
SECONDS_MAX = 300 * SLOW  # a hang is a failure
SMALL = ("--text", CORPUS, "--hidden", "64", "--memory-rows", "1024")  # checkpoints of 1 MiB
ENDLESS = ("--steps", str(10**9))
PATIENCE = ("--rank-timeout", "3")  # where a rank is missing; who is only slow may be taken for missing


# ---- Jobs -----------------------------------------------------------------------------------------------------------

class Job:
    """The processes of one start, all of them or some ranks. What is added later may be told other things."""

    count = 0

    def __init__(self, store, folder, world, *flags, start=None, ranks=None, **environment):
        Job.count += 1
        self.start = start or "start-%d-%d" % (os.getpid(), Job.count)
        self.folder = folder / ("job-%d" % Job.count)
        self.folder.mkdir(parents=True)
        self.command = [TRAINER, *SMALL, "--store", store.url, *map(str, flags)]
        self.environment = {
            **store.environment, "CLEAT_START": self.start, "CLEAT_WORLD_SIZE": str(world), **environment
        }
        self.ranks, self.processes = [], []
        for rank in range(world) if ranks is None else ranks:
            self.add(rank)

    def add(self, rank, *flags, **environment):
        number = len(self.ranks)
        told = {"CLEAT_RANK": str(rank), **self.environment, **environment}
        with open(self.path(number, "out"), "wb") as out, open(self.path(number, "err"), "wb") as err:
            self.processes.append(subprocess.Popen([*self.command, *map(str, flags)], stdin=subprocess.DEVNULL,
                                                   stdout=out, stderr=err,
                                                   env={name: value for name, value in told.items() if value}))
        self.ranks.append(rank)

    def has_come(self, rank):
        """To the first barrier: its counter stands in the shared memory."""
        path = shared_memory(self.start)
        counters = path.read_bytes()[:96] if path.exists() else b""
        return len(counters) == 96 and struct.unpack("<12Q", counters)[rank] > 0

    def path(self, number, what):
        return self.folder / ("%d.%s" % (number, what))

    def out(self, number=0):
        return self.path(number, "out").read_text()

    def err(self, number):
        return self.path(number, "err").read_text()

    def wait(self):
        """The exit statuses; SECONDS_MAX is for all together."""
        until = time.monotonic() + SECONDS_MAX
        try:
            return [process.wait(timeout=max(0.1, until - time.monotonic())) for process in self.processes]
        finally:
            self.close()

    def close(self):
        for process in self.processes:
            process.kill()
            process.wait()
        shared_memory(self.start).unlink(missing_ok=True)

    def is_running(self):
        return all(process.poll() is None for process in self.processes)


def shared_memory(start):
    return Path("/dev/shm/cleat-trainer-%d-%s" % (os.getuid(), start))


@pytest.fixture
def launch():
    """Starts jobs, and ends what is left of them."""
    jobs = []

    def start(*arguments, **more):
        jobs.append(Job(*arguments, **more))
        return jobs[-1]

    yield start
    for job in jobs:
        job.close()


def wait_until(condition):
    until = time.monotonic() + SECONDS_MAX
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.002)


def assert_told(job, number, *words, knows_its_rank=True):
    """One line of what went wrong, and at most a hint."""
    lines = job.err(number).splitlines()
    assert 1 <= len(lines) <= 2, lines
    begins = "trainer: rank %d: " % job.ranks[number] if knows_its_rank else "trainer: cannot use"
    assert lines[0].startswith(begins), lines
    assert len(lines) == 1 or lines[1].startswith("hint: "), lines
    for word in words:
        assert word in lines[0], lines


# ---- What is stored --------------------------------------------------------------------------------------------------

def sizes(store):
    """Key: bytes, without Cleat."""
    if isinstance(store, Folder):
        return {key: (store.path / key).stat().st_size for key in store.keys()}
    pages = store.client.get_paginator("list_objects_v2").paginate(Bucket=store.bucket, Prefix="run/")
    return {entry["Key"][len("run/"):]: entry["Size"] for page in pages for entry in page.get("Contents", [])}


def visible_steps(store):
    matches = [re.fullmatch(r"step-(\d{12})/manifest\.json", key) for key in store.keys()]
    return sorted(int(match.group(1)) for match in matches if match)


def assert_whole(store):
    """What is visible is whole, for us and for Cleat. Returns the steps."""
    steps, found = visible_steps(store), sizes(store)
    for step in steps:
        manifest = store.manifest(step)
        assert [entry["rank"] for entry in manifest["ranks"]] == list(range(manifest["world_size"]))
        for rank, entry in enumerate(manifest["ranks"]):
            record = store.get(store.record_key(step, rank))
            assert (len(record), hashlib.sha256(record).hexdigest()) == (entry["size"], entry["sha256"])
            for file in json.loads(record)["files"]:
                assert found.get(store.file_key(step, file["name"])) == file["size"], (step, rank, file)
    listed = store.cleat("ls", store.url, "--json")
    assert listed.code in (0, 3) and "damaged" not in listed.json, listed
    assert [entry["step"] for entry in listed.json["checkpoints"]] == steps
    if steps:
        result = store.cleat("verify", store.url)
        assert result.code == 0, result
    return steps


def raw_header(data):
    """Name: (dtype, shape, where its bytes begin in the file), by the description of the format alone."""
    length, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    return {
        name: (entry["dtype"], entry["shape"], 8 + length + entry["data_offsets"][0])
        for name, entry in header.items()
    }


def assemble(store, step):
    """Every tensor of a step, from the files of all its ranks. None may have a hole, or a number twice."""
    whole, filled = {}, {}
    for rank in range(store.manifest(step)["world_size"]):
        record = store.record(step, rank)
        data = {index: store.get(store.file_key(step, file["name"])) for index, file in enumerate(record["files"])}
        arrays = {index: safetensors.numpy.load(content) for index, content in data.items()}
        named = {(piece["file"], tensor["name"]) for tensor in record["tensors"] for piece in tensor["pieces"]}
        assert named == {(index, name) for index, found in arrays.items() for name in found}
        for tensor in record["tensors"]:
            name, shape = tensor["name"], tensor["shape"]
            into = whole.setdefault(name, numpy.zeros(shape, arrays[tensor["pieces"][0]["file"]][name].dtype))
            assert list(into.shape) == shape
            for piece in tensor["pieces"]:
                array = arrays[piece["file"]][name]
                slices = tuple(
                    slice(at, at + size) for at, size in zip(piece.get("start", [0] * len(shape)), array.shape))
                assert list(array.shape) == piece.get("shape", shape)
                assert raw_header(data[piece["file"]])[name] == (tensor["dtype"], list(array.shape), piece["offset"])
                into[slices] = array
                filled.setdefault(name, numpy.zeros(shape, int))[slices] += 1
    assert all((count == 1).all() for count in filled.values())
    return {name: array.tobytes() for name, array in whole.items()}


# ---- The same bits ---------------------------------------------------------------------------------------------------

def results(folder):
    """Flags that write them."""
    return ("--loss-log", folder / "losses", "--dump-weights", folder / "weights")


def losses(folder):
    """Step to the set of its losses: a step that was trained again must have only one."""
    found = {}
    for line in (folder / "losses").read_text().splitlines():
        step, loss = line.split()
        found.setdefault(int(step), set()).add(float.fromhex(loss))
    return found


def weights(folder):
    return {path.stem: path.read_bytes() for path in (folder / "weights").iterdir()}


class Reference:
    """One rank that nobody disturbed."""

    def __init__(self, folder, steps):
        self.folder, self.steps = folder, steps
        self.store = Folder(folder / "store")
        job = Job(self.store, folder, 1, "--steps", steps, "--save-every", 10**6, *results(folder), start="undisturbed")
        assert job.wait() == [0], job.err(0)
        self.final = job.out().splitlines()[-1]
        self.tensors = assemble(self.store, steps)

    def assert_identical(self, store, folder):
        assert sorted(losses(folder)) == list(range(1, self.steps + 1))
        assert losses(folder) == losses(self.folder)
        assert all(len(values) == 1 for values in losses(folder).values())
        assert weights(folder) == weights(self.folder)
        assert assemble(store, self.steps) == self.tensors
        assert weights(folder) == {name: data for name, data in self.tensors.items() if name.startswith("model.")}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """Made once for the same number of steps."""
    done = {}

    def get(steps):
        if steps not in done:
            done[steps] = Reference(tmp_path_factory.mktemp("undisturbed"), steps)
        return done[steps]

    return get
