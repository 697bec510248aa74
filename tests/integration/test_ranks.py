"""The example trainer of several ranks: the same bits for every number of them, killed and resumed with another one.

The judge is not Cleat: losses are compared by their bits, weights as raw files that the trainer writes itself, moments as
Hugging Face's safetensors and numpy put them together from the files of all ranks; what a manifest names is looked for with
boto3. Random choices come from a seed that is printed; CLEAT_TEST_SEED repeats it. CLEAT_TEST_KILLS says how often ranks are
killed: half as often as the saves of test_kill.py.
"""

import hashlib
import json
import os
import random
import re
import signal
import struct
import subprocess
import time
from pathlib import Path

import numpy
import pytest
import safetensors
import safetensors.numpy

from helpers import CLEAT, ROOT, Folder

TRAINER = Path(CLEAT).parent / "trainer_ranks"
LAUNCHER = ROOT / "api" / "examples" / "ranks.sh"
CORPUS = ROOT / "api" / "examples" / "corpus.txt"
SECONDS_MAX = 300 * (10 if "thread" in os.environ.get("SANITIZE", "") else 1)  # a hang is a failure
KILLS = max(1, int(os.environ.get("CLEAT_TEST_KILLS", 20)) // 2)
SMALL = ("--text", CORPUS, "--hidden", "64", "--memory-rows", "1024")  # checkpoints of 1 MiB
ENDLESS = ("--steps", str(10**9))
PATIENCE = ("--rank-timeout", "3")  # where a rank is missing; who is only slow may be taken for missing


@pytest.fixture
def rng():
    seed = int(os.environ.get("CLEAT_TEST_SEED", random.SystemRandom().randrange(1 << 32)))
    print("CLEAT_TEST_SEED=%d" % seed)
    return random.Random(seed)


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
        self.environment = {**store.environment, "CLEAT_START": self.start, "CLEAT_WORLD_SIZE": str(world), **environment}
        self.ranks, self.processes = [], []
        for rank in range(world) if ranks is None else ranks:
            self.add(rank)

    def add(self, rank, *flags, **environment):
        number = len(self.ranks)
        told = {"CLEAT_RANK": str(rank), **self.environment, **environment}
        with open(self.path(number, "out"), "wb") as out, open(self.path(number, "err"), "wb") as err:
            self.processes.append(subprocess.Popen([*self.command, *map(str, flags)], stdin=subprocess.DEVNULL, stdout=out,
                                                   stderr=err, env={name: value for name, value in told.items() if value}))
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
    assert lines[0].startswith("trainer: rank %d: " % job.ranks[number] if knows_its_rank else "trainer: cannot use"), lines
    assert len(lines) == 1 or lines[1].startswith("hint: "), lines
    for word in words:
        assert word in lines[0], lines


# ---- What is stored ----------------------------------------------------------------------------------------------------

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
    return {name: (entry["dtype"], entry["shape"], 8 + length + entry["data_offsets"][0]) for name, entry in header.items()}


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
                slices = tuple(slice(at, at + size) for at, size in zip(piece.get("start", [0] * len(shape)), array.shape))
                assert list(array.shape) == piece.get("shape", shape)
                assert raw_header(data[piece["file"]])[name] == (tensor["dtype"], list(array.shape), piece["offset"])
                into[slices] = array
                filled.setdefault(name, numpy.zeros(shape, int))[slices] += 1
    assert all((count == 1).all() for count in filled.values())
    return {name: array.tobytes() for name, array in whole.items()}


# ---- The same bits -------------------------------------------------------------------------------------------------------

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


def test_four_ranks_train_as_one_does(store, tmp_path, undisturbed, launch):
    job = launch(store, tmp_path, 4, "--steps", 200, "--save-every", 30, *results(tmp_path))
    assert job.wait() == [0] * 4, [job.err(rank) for rank in range(4)]
    assert job.out().splitlines()[-1] == undisturbed(200).final
    assert [job.out(rank) for rank in (1, 2, 3)] == [""] * 3
    assert assert_whole(store) == [30, 60, 90, 120, 150, 180, 200]
    undisturbed(200).assert_identical(store, tmp_path)
    manifest = store.manifest(200)
    assert (manifest["world_size"], manifest["topology"], manifest["start"]) == (4, {"dp": 4}, job.start)
    assert manifest["metadata"]["loss"] == pytest.approx(max(losses(tmp_path)[200]), abs=1e-4)


@pytest.mark.parametrize("world", (2, 3, 5, 12))
def test_any_number_of_ranks_trains_as_one_does(folder, tmp_path, undisturbed, launch, world):
    job = launch(folder, tmp_path, world, "--steps", 200, "--save-every", 70, *results(tmp_path))
    assert job.wait() == [0] * world, [job.err(rank) for rank in range(world)]
    undisturbed(200).assert_identical(folder, tmp_path)
    assert not shared_memory(job.start).exists()


def test_stopped_and_continued_with_other_ranks(folder, tmp_path, undisturbed, launch):
    """Slices are cut anew each time; the last start has nothing left to do."""
    steps, before = 0, 0
    for world, steps in ((4, 50), (3, 99), (6, 100), (1, 101), (12, 190), (2, 200), (5, 200)):
        job = launch(folder, tmp_path, world, "--steps", steps, "--save-every", 40, *results(tmp_path))
        assert job.wait() == [0] * world, [job.err(rank) for rank in range(world)]
        if before:
            assert "ranks %d, then %d" % (before, world) in job.out()
            assert "dp %d, then %d" % (before, world) in job.out()
        before = world if steps < 200 else 2
    undisturbed(200).assert_identical(folder, tmp_path)


def test_safetensors_opens_the_file_of_every_rank(store, tmp_path, launch):
    world = 3
    assert launch(store, tmp_path, world, "--steps", 5).wait() == [0] * world
    shapes = {}
    for rank in range(world):
        file, = store.record(5, rank)["files"]
        path = tmp_path / file["name"]
        path.write_bytes(store.get(store.file_key(5, file["name"])))
        with safetensors.safe_open(path, framework="numpy") as opened:
            assert len(opened.keys()) > 0
            for name in opened.keys():
                shapes.setdefault(name, []).append(opened.get_tensor(name).shape)
    numbers = sum(int(numpy.prod(shape)) for name, found in shapes.items() for shape in found if name.startswith("model."))
    assert len(shapes["adam.m"]) == len(shapes["adam.v"]) == world
    assert sum(shape[0] for shape in shapes["adam.m"]) == sum(shape[0] for shape in shapes["adam.v"]) == numbers
    # What is replicated, and the state, is written once.
    assert all(len(found) == 1 for name, found in shapes.items() if not name.startswith("adam."))
    assert {name for name in shapes if name.startswith("state.")} == {"state.step", "state.random", "state.turn",
                                                                     "state.learning_rate", "state.text"}


# ---- Killed ----------------------------------------------------------------------------------------------------------------

def steps_done(folder):
    path = folder / "losses"
    lines = path.read_text().splitlines() if path.exists() else []
    return max([int(line.split()[0]) for line in lines], default=0)


def kill(job, victims):
    """Which of them were still running."""
    for victim in victims:
        job.processes[victim].kill()
    return [victim for victim in victims if job.processes[victim].wait() == -signal.SIGKILL]


def assert_survivors_give_up(job, killed):
    codes = job.wait()
    for number, code in enumerate(codes):
        if number not in killed:
            assert code == 1, (number, codes, job.err(number))
            assert_told(job, number)


def train_and_kill(store, tmp_path, launch, rng, world):
    """Never ends by itself before the kill, of one rank or of all; unless its ranks are so slow that they give up on each
    other: False."""
    before, further = steps_done(tmp_path), rng.randrange(1, 60)
    job = launch(store, tmp_path, world, *ENDLESS, "--save-every", 7, *PATIENCE, *results(tmp_path))
    wait_until(lambda: steps_done(tmp_path) >= before + further or not job.is_running())
    victims = list(range(world)) if rng.random() < 0.3 else [rng.randrange(world)]
    killed = kill(job, victims)
    assert_survivors_give_up(job, killed)
    print("%d ranks, ranks %s killed after step %d" % (world, killed, steps_done(tmp_path)))
    assert all(step % 7 == 0 for step in assert_whole(store))
    return killed == victims


def test_killed_and_resumed_with_other_ranks(store, tmp_path, undisturbed, launch, rng):
    for world in (4, 3, 6):
        tries = 0
        while not train_and_kill(store, tmp_path, launch, rng, world):
            tries += 1
            assert tries < 20
    # A little further than all before it.
    steps = max(losses(tmp_path)) + 37
    job = launch(store, tmp_path, 2, "--steps", steps, "--save-every", 7, *results(tmp_path))
    assert job.wait() == [0, 0], (job.err(0), job.err(1))
    undisturbed(steps).assert_identical(store, tmp_path)


def sweep(store, keep):
    """Makes room, never through Cleat: all but this step and the starts."""
    kept = ("starts/", "step-%012d/manifest.json" % keep, "step-%012d/%s/" % (keep, store.manifest(keep)["attempt"]))
    for key in store.keys():
        if not key.startswith(kept):
            store.delete(key)


def attempts_without_manifest(store):
    found = {match.groups() for match in (re.match(r"step-(\d+)/(\w+)/", key) for key in store.keys()) if match}
    return {(int(step), attempt) for step, attempt in found
            if int(step) not in visible_steps(store) or store.manifest(int(step))["attempt"] != attempt}


def test_one_of_four_ranks_is_killed_at_random_moments(bucket, tmp_path, launch, rng):
    flags = (*ENDLESS, "--save-every", 5)
    job = launch(bucket, tmp_path, 4, *flags)
    began = time.monotonic()
    wait_until(lambda: len(visible_steps(bucket)) >= 4)
    window = time.monotonic() - began
    assert_survivors_give_up(job, kill(job, range(4)))
    latest = max(assert_whole(bucket))
    print("four checkpoints take %.2f s" % window)
    done, missed, unfinished = 0, 0, 0
    while done < KILLS:
        job = launch(bucket, tmp_path, 4, *flags, *PATIENCE)
        moment = (done + rng.random()) / KILLS * window
        try:
            job.processes[done % 4].wait(timeout=moment)  # slow ranks may give up on each other
        except subprocess.TimeoutExpired:
            pass
        killed = kill(job, [done % 4])
        assert_survivors_give_up(job, killed)
        steps = assert_whole(bucket)
        left = attempts_without_manifest(bucket)
        assert max(steps) >= latest
        print("rank %s killed after %.3f s: steps %d to %d, %d attempts came to nothing" % (killed, moment, latest, max(steps),
                                                                                      len(left)))
        latest = max(steps)
        sweep(bucket, latest)
        done += len(killed)
        missed += not killed
        unfinished += len(left) > 0
        assert missed < 10 * KILLS
    job = launch(bucket, tmp_path, 3, "--steps", latest + 5, "--save-every", 5)
    assert job.wait() == [0] * 3, [job.err(number) for number in range(3)]
    assert assert_whole(bucket) == [latest, latest + 5]
    print("%d killed, %d of them while saving; %d had given up before" % (done, unfinished, missed))


# ---- Launchers -----------------------------------------------------------------------------------------------------------------

def mpirun(store, start, *flags):
    """Without ssh, and by loopback's means alone."""
    return ["mpirun", "-n", "4", "--allow-run-as-root", "--oversubscribe", "-x", "CLEAT_START=" + start, TRAINER, *SMALL,
            "--store", store.url, *map(str, flags)]


def mpi_environment(store, tmp_path):
    short = tmp_path / "m"  # it makes sockets there, whose paths must be short
    short.mkdir(exist_ok=True)
    return dict(store.environment, OMPI_MCA_plm="isolated", OMPI_MCA_btl="self,vader", TMPDIR=str(short))


def children(pid):
    """All processes below one."""
    try:
        direct = [int(child) for child in Path("/proc/%d/task/%d/children" % (pid, pid)).read_text().split()]
    except FileNotFoundError:
        return []
    return direct + [below for child in direct for below in children(child)]


def is_alive(pid):
    """Not so if it only waits for somebody to ask how it ended."""
    try:
        return Path("/proc/%d/stat" % pid).read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def ranks_of(pid):
    found = []
    for child in children(pid):
        try:
            if os.readlink("/proc/%d/exe" % child) == str(TRAINER.resolve()):
                found.append(child)
        except FileNotFoundError:
            pass
    return found


def assert_launched(command, environment, store, tmp_path, undisturbed):
    flags = ("--save-every", "30", *map(str, results(tmp_path)))
    completed = subprocess.run([*command, "--steps", "200", *flags], env=environment, capture_output=True, text=True,
                               timeout=SECONDS_MAX, check=False)
    assert completed.returncode == 0, completed.stderr
    assert completed.stdout.splitlines()[-1] == undisturbed(200).final
    undisturbed(200).assert_identical(store, tmp_path)
    assert store.manifest(200)["world_size"] == 4


def assert_ended_with_the_first(command, environment, store):
    """One rank is killed; the launcher ends the others, in less than their own patience, and says so by its status."""
    with subprocess.Popen([*command, *ENDLESS, "--save-every", "5", "--rank-timeout", "100000"], env=environment,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            for line in process.stdout:
                if "is committed" in line:
                    break
            ranks = ranks_of(process.pid)
            assert len(ranks) == 4
            os.kill(ranks[2], signal.SIGKILL)
            process.communicate(timeout=SECONDS_MAX)
        finally:
            process.kill()
    assert process.returncode not in (0, None)
    wait_until(lambda: not any(is_alive(pid) for pid in ranks))
    assert len(assert_whole(store)) >= 1


def test_mpirun(store, tmp_path, undisturbed):
    assert_launched(mpirun(store, "mpi-1"), mpi_environment(store, tmp_path), store, tmp_path, undisturbed)


def test_mpirun_ends_all_when_one_is_killed(store, tmp_path):
    assert_ended_with_the_first(mpirun(store, "mpi-1"), mpi_environment(store, tmp_path), store)


def loop(store):
    return [LAUNCHER, "4", TRAINER, *SMALL, "--store", store.url]


def test_a_plain_loop(store, tmp_path, undisturbed):
    assert_launched(loop(store), store.environment, store, tmp_path, undisturbed)


def test_a_plain_loop_ends_all_when_one_is_killed(store):
    assert_ended_with_the_first(loop(store), store.environment, store)


# ---- What is wrong with a launch ---------------------------------------------------------------------------------------------

def assert_refused(job, *words, knows_its_rank=True):
    """Every rank ends with a clear line."""
    codes = job.wait()
    assert codes == [1] * len(codes), [job.err(number) for number in range(len(codes))]
    for number in range(len(codes)):
        assert_told(job, number, *words, knows_its_rank=knows_its_rank)


def test_several_ranks_without_a_start(store, tmp_path, launch):
    job = launch(store, tmp_path, 3, "--steps", 5, CLEAT_START="")
    assert_refused(job, "3 ranks, and no name for this start", knows_its_rank=False)
    assert all("CLEAT_START" in job.err(number).splitlines()[1] for number in range(3))
    assert store.keys() == []


@pytest.mark.parametrize("variable, value, words", (
    ("CLEAT_SESSION", "a/b", ("the session's name", "a/b")), ("CLEAT_SESSION", "..", ("the session's name",)),
    ("CLEAT_START", "a/b", ("the start's name", "a/b")), ("CLEAT_RANK", "3", ("rank 3 is outside a world of 3",)),
    ("CLEAT_RANK", "-1", ("CLEAT_RANK is no number", "-1")), ("CLEAT_WORLD_SIZE", "", ("CLEAT_WORLD_SIZE",)),
    ("CLEAT_WORLD_SIZE", "many", ("CLEAT_WORLD_SIZE is no number", "many"))))
def test_a_process_that_is_told_nonsense(folder, tmp_path, launch, variable, value, words):
    job = launch(folder, tmp_path, 3, "--steps", 5, ranks=[0], **{variable: value})
    assert_refused(job, *words, knows_its_rank=False)
    assert folder.keys() == []


def test_sessions_do_not_meet(store, tmp_path, undisturbed, launch):
    """Two jobs under one URL, at once, with one name for their starts."""
    for name in "ab":
        (tmp_path / name).mkdir()
    jobs = [launch(store, tmp_path, 2, "--steps", 200, *results(tmp_path / name), start="same-%d" % os.getpid() + name,
                   CLEAT_SESSION="session-" + name) for name in "ab"]
    assert [job.wait() for job in jobs] == [[0, 0], [0, 0]]
    assert {key.split("/")[0] for key in store.keys()} == {"session-a", "session-b"}
    for name in "ab":
        assert losses(tmp_path / name) == losses(undisturbed(200).folder)
        assert weights(tmp_path / name) == weights(undisturbed(200).folder)


def test_ranks_that_disagree_on_their_number(store, tmp_path, launch):
    job = launch(store, tmp_path, 2, "--steps", 5, ranks=[])
    job.add(0, *PATIENCE)
    job.add(1, CLEAT_WORLD_SIZE="3")
    assert_refused(job)
    assert_told(job, 0, "rank 1 has not come")
    assert_told(job, 1, "rank 1 knows of 3 ranks, rank 0 of 2")
    assert visible_steps(store) == []


@pytest.mark.parametrize("twin", (0, 1))
def test_two_processes_of_one_rank(store, tmp_path, undisturbed, launch, twin):
    """One of them is refused; the job is not disturbed by it."""
    job = launch(store, tmp_path, 3, "--steps", 200, "--save-every", 50, *results(tmp_path), ranks=[0, 1, 2, twin])
    codes = job.wait()
    assert sorted(codes) == [0, 0, 0, 1], [job.err(number) for number in range(4)]
    refused = codes.index(1)
    assert job.ranks[refused] == twin
    assert_told(job, refused, "two processes act as rank %d" % twin, job.start)
    assert assert_whole(store) == [50, 100, 150, 200]
    undisturbed(200).assert_identical(store, tmp_path)


def test_a_start_that_was_used_before(store, tmp_path, launch):
    first = launch(store, tmp_path, 3, "--steps", 5)
    assert first.wait() == [0] * 3
    before = {key: store.get(key) for key in store.keys()}
    assert_refused(launch(store, tmp_path, 3, "--steps", 10, start=first.start), "was used before")
    assert {key: store.get(key) for key in store.keys()} == before


def test_a_rank_that_never_comes_is_named(store, tmp_path, launch):
    """By the first that has waited long enough, and then by all."""
    job = launch(store, tmp_path, 4, "--steps", 5, ranks=[0, 3])
    wait_until(lambda: job.has_come(0) and job.has_come(3))
    job.add(1, *PATIENCE)
    assert_refused(job, "rank 2 has not come")
    assert visible_steps(store) == []


def test_rank_0_never_comes(store, tmp_path, launch):
    job = launch(store, tmp_path, 4, "--steps", 5, *PATIENCE, ranks=[1, 2, 3])
    assert_refused(job, "rank 0 of start " + job.start, "within 3 s")
    assert store.keys() == []


def test_a_failure_of_rank_0_is_told_to_all(store, tmp_path, launch):
    assert launch(store, tmp_path, 1, "--steps", 5).wait() == [0]
    key = store.manifest_key(5)
    store.put(key, b"{}")
    job = launch(store, tmp_path, 3, "--steps", 10)
    assert_refused(job, "no whole checkpoint", "all damaged")
    assert all("rank 0: " in job.err(number) for number in (1, 2))


def test_an_earlier_start_is_superseded(store, tmp_path, launch):
    """The job that was taken for dead ends, and says whose turn it is; the one that took over is not disturbed."""
    old = launch(store, tmp_path, 2, *ENDLESS, "--save-every", 5)
    wait_until(lambda: len(visible_steps(store)) >= 2)
    new = launch(store, tmp_path, 3, "--steps", 10**5, "--save-every", 10**5)
    assert_refused(old, "superseded by start " + new.start)
    assert new.is_running(), [new.err(number) for number in range(3)]
    new.close()
    assert_whole(store)


def test_another_model_is_refused_by_every_rank(folder, tmp_path, launch):
    assert launch(folder, tmp_path, 2, "--steps", 5).wait() == [0, 0]
    assert_refused(launch(folder, tmp_path, 3, "--steps", 10, "--hidden", "72"), "model.hidden.weight")
    assert visible_steps(folder) == [5]


@pytest.mark.parametrize("flags", (("--steps", "0"), ("--device", "cuda"), ("--rank-timeout", "0"), ("--seed",)))
def test_wrong_usage(folder, tmp_path, launch, flags):
    job = launch(folder, tmp_path, 1, *flags)
    assert job.wait() == [2]
    assert job.err(0).startswith("trainer: ")
    assert folder.keys() == []
