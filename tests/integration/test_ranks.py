"""The example trainer of several ranks: any number of ranks gives the same bits, whichever launcher starts them; and
wrong launches. See rank_jobs.py for how results are compared."""

import os
import signal
import subprocess
from pathlib import Path

import numpy
import pytest
import safetensors

from helpers import ROOT
from rank_jobs import (ENDLESS, PATIENCE, SECONDS_MAX, SMALL, TRAINER, assert_told, assert_whole, launch, losses,
                       results, shared_memory, undisturbed, visible_steps, wait_until, weights)

__all__ = ("launch", "undisturbed")  # fixtures
LAUNCHER = ROOT / "api" / "examples" / "ranks.sh"


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
    numbers = sum(
        int(numpy.prod(shape)) for name, found in shapes.items() for shape in found if name.startswith("model."))
    assert len(shapes["adam.m"]) == len(shapes["adam.v"]) == world
    assert sum(shape[0] for shape in shapes["adam.m"]) == sum(shape[0] for shape in shapes["adam.v"]) == numbers
    # What is replicated, and the state, is written once.
    assert all(len(found) == 1 for name, found in shapes.items() if not name.startswith("adam."))
    assert {name for name in shapes if name.startswith("state.")} == {"state.step", "state.random", "state.turn",
                                                                     "state.learning_rate", "state.text"}


# ---- Launchers -------------------------------------------------------------------------------------------------------

def mpirun(store, start, *flags):
    """Without ssh, and by loopback's means alone."""
    return [
        "mpirun", "-n", "4", "--allow-run-as-root", "--oversubscribe", "-x", "CLEAT_START=" + start, TRAINER, *SMALL,
        "--store", store.url, *map(str, flags)
    ]


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
    assert_launched(mpirun(store, "mpi-%d" % os.getpid()), mpi_environment(store, tmp_path), store, tmp_path,
                    undisturbed)


def test_mpirun_ends_all_when_one_is_killed(store, tmp_path):
    assert_ended_with_the_first(mpirun(store, "mpi-%d" % os.getpid()), mpi_environment(store, tmp_path), store)


def loop(store):
    return [LAUNCHER, "4", TRAINER, *SMALL, "--store", store.url]


def test_a_plain_loop(store, tmp_path, undisturbed):
    assert_launched(loop(store), store.environment, store, tmp_path, undisturbed)


def test_a_plain_loop_ends_all_when_one_is_killed(store):
    assert_ended_with_the_first(loop(store), store.environment, store)


# ---- What is wrong with a launch -------------------------------------------------------------------------------------

def assert_refused(job, *words, knows_its_rank=True):
    """Every rank ends with a clear line."""
    codes = job.wait()
    assert codes == [1] * len(codes), [job.err(number) for number in range(len(codes))]
    for number in range(len(codes)):
        assert_told(job, number, *words, knows_its_rank=knows_its_rank)


def test_several_ranks_without_a_start(store, tmp_path, launch):
    job = launch(store, tmp_path, 3, "--steps", 5, CLEAT_START="")
    assert_refused(job, "3 ranks need a common name for this start", knows_its_rank=False)
    assert all("CLEAT_START" in job.err(number).splitlines()[1] for number in range(3))
    assert store.keys() == []


@pytest.mark.parametrize("variable, value, words", (
    ("CLEAT_SESSION", "a/b", ("the session's name", "a/b")), ("CLEAT_SESSION", "..", ("the session's name",)),
    ("CLEAT_START", "a/b", ("the start's name", "a/b")), ("CLEAT_RANK", "3", ("rank 3 is outside a world of 3",)),
    ("CLEAT_RANK", "-1", ("CLEAT_RANK must be a number", "-1")), ("CLEAT_WORLD_SIZE", "", ("CLEAT_WORLD_SIZE",)),
    ("CLEAT_WORLD_SIZE", "many", ("CLEAT_WORLD_SIZE must be a number", "many"))))
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
    assert_told(job, 1, "rank 1 has world size 3, rank 0 has 2")
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
    assert old.wait() == [1, 1]
    # Ranks that meet in training may learn of it from the one that saw it first.
    why = "superseded by start " + new.start
    told = [old.err(number) for number in range(2)]
    assert any(why in text for text in told), told
    for number in range(2):
        assert_told(old, number, why if why in told[number] else "rank %d has failed" % (1 - number))
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
