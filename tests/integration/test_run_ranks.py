"""`cleat run` on several machines, each with its own folder: one checkpoint with all parts, or none. The machines are
folders here. They know of each other only through the store."""

import json
import os
import random
import re
import shutil
import signal
import time
from pathlib import Path

import pytest

from helpers import ROOT, noise
from run_jobs import OWN_FAILURE, OWN_FOLDER, contents, steps, until
from test_run_held import HELD, Gate, links, open_files

ABSENT = "-"  # a rank whose machine never starts

# What torch 2.15 wrote: it names __0_0.distcp and __1_0.distcp.
METADATA = (ROOT / "tests/fuzz/corpus/pickle/torch-2.15-two-ranks").read_bytes()


@pytest.fixture
def machines(jobs, tmp_path):
    """Starts a `cleat run` for each of the folders, as the ranks of one start; waits until all commands run."""
    started = []

    def start(store, *options, names="ab", wait=True, **more):
        started.append(None)
        made = []
        for rank, name in enumerate(names):
            environment = {"CLEAT_RANK": str(rank), "CLEAT_WORLD_SIZE": str(len(names)),
                           "CLEAT_START": "start-%d" % len(started), **more.get("environment", {})}
            if name != ABSENT:
                made.append(jobs(store, tmp_path / name, "--rank-timeout", "60", *options, environment=environment))
        for job in made if wait else ():
            job.environment()
        return made

    return start


def put(directory, name, data):
    path = Path(directory, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return {name: data}


def shard(directory, step, rank, seed=0):
    return put(directory, "step-%d/__%d_0.distcp" % (step, rank), noise(50000, seed + 10 * step + rank))


def sign(directory, step):
    """As DCP does it: last of all, by a rename."""
    put(directory, "step-%d/.metadata.tmp" % step, METADATA)
    os.rename(Path(directory, "step-%d/.metadata.tmp" % step), Path(directory, "step-%d/.metadata" % step))
    return {"step-%d/.metadata" % step: METADATA}


def write_all(tmp_path, step, seed=0):
    """One checkpoint of machines a and b; rank 0's sign comes last. Returns all of its files."""
    return {
        **shard(tmp_path / "b", step, 1, seed), **shard(tmp_path / "a", step, 0, seed), **sign(tmp_path / "a", step)
    }


def stored(store, step):
    """The files of all ranks, read past Cleat."""
    manifest, folder, files = store.manifest(step), "step-%012d/" % step, {}
    for rank in manifest["ranks"]:
        for file in json.loads(store.get(folder + rank["key"]))["files"]:
            data = store.get("%s%s/%s" % (folder, manifest["attempt"], file["name"]))
            assert len(data) == file["size"] and file["name"] not in files
            files[file["name"]] = data
    return files


def end(made):
    for job in made:
        job.tell("0")
    return [job.wait() for job in made]


# ---- All is well ---------------------------------------------------------------------------------------------------

def test_one_checkpoint_of_all_parts(machines, store, tmp_path):
    made = machines(store)
    files = {step: write_all(tmp_path, step) for step in (1, 2)}
    made[0].until_stored(store, 1, 2)
    assert {step: stored(store, step) for step in files} == files
    assert store.manifest(2)["ranks"][1]["key"].endswith("rank-00001.json")
    assert end(made) == [0, 0]
    # Two machines that have nothing get all of it, both.
    again = machines(store, names="cd")
    assert [job.resumed() for job in again] == [(2, "step-2")] * 2
    for name in "cd":
        assert contents(tmp_path / name) == files[2]
    assert end(again) == [0, 0]


def test_the_machines_of_before_get_what_they_lack(machines, folder, tmp_path):
    """Each has its own part still; the next start may be sharded in another way. What is whole is not restored
    again."""
    made = machines(folder)
    files = write_all(tmp_path, 1)
    made[0].until_stored(folder, 1)
    assert end(made) == [0, 0]
    for life in range(2):
        again = machines(folder)
        assert [job.resumed() for job in again] == [(1, "step-1")] * 2
        assert contents(tmp_path / "a") == contents(tmp_path / "b") == files
        assert end(again) == [0, 0]
        assert [("restored step" in job.log) for job in again] == [life == 0] * 2


def test_a_part_whose_tool_lists_nothing(machines, folder, tmp_path):
    """Nothing in rank 0's folder says that files are missing there: it is restored all the same."""
    made = machines(folder)
    files = {**put(tmp_path / "b", "checkpoint-1/rng_state_1.pth", b"random"),
             **put(tmp_path / "a", "checkpoint-1/rng_state_0.pth", b"random too"),
             **put(tmp_path / "a", "checkpoint-1/trainer_state.json", b"{}\n")}
    made[0].until_stored(folder, 1)
    assert stored(folder, 1) == files
    assert end(made) == [0, 0]
    again = machines(folder)
    assert [job.resumed() for job in again] == [(1, "checkpoint-1")] * 2
    assert contents(tmp_path / "a") == contents(tmp_path / "b") == files
    assert end(again) == [0, 0]


def test_what_is_not_signed_is_not_saved(machines, folder, tmp_path):
    made = machines(folder)
    shard(tmp_path / "a", 1, 0)
    shard(tmp_path / "b", 1, 1)
    files = write_all(tmp_path, 2)
    made[0].until_stored(folder, 2)
    assert steps(folder) == [2] and stored(folder, 2) == files
    assert end(made) == [0, 0]


def test_a_file_that_all_machines_write(machines, folder, tmp_path):
    """It is stored once, as rank 0 has it."""
    made = machines(folder)
    put(tmp_path / "b", "step-1/config.json", b"of b, and longer")
    config = put(tmp_path / "a", "step-1/config.json", b"of a")
    files = write_all(tmp_path, 1)
    made[0].until_stored(folder, 1)
    assert stored(folder, 1) == {**files, **config}
    assert end(made) == [0, 0]


def test_a_machine_without_files_of_the_checkpoint(machines, folder, tmp_path):
    """Of a tool of which rank 0 alone writes."""
    made = machines(folder, "--layout", "huggingface")
    files = {**put(tmp_path / "a", "checkpoint-1/pytorch_model.bin", b"weights"),
             **put(tmp_path / "a", "checkpoint-1/trainer_state.json", b"{}\n")}
    made[0].until_stored(folder, 1)
    assert stored(folder, 1) == files
    assert end(made) == [0, 0]


def test_where_links_are_refused(machines, folder, tmp_path, no_links):
    """What rank 0 holds has no folder: it reads what the sign names through its descriptors."""
    made = machines(folder, environment=no_links)
    files = write_all(tmp_path, 1)
    made[0].until_stored(folder, 1)
    assert stored(folder, 1) == files
    # The sign still counts: a part that is nowhere is missed.
    files = {**shard(tmp_path / "a", 2, 0), **sign(tmp_path / "a", 2)}
    made[0].until(lambda: "step-2/__1_0.distcp" in made[0].log, "the leader says what is missing")
    assert steps(folder) == [1]
    files.update(shard(tmp_path / "b", 2, 1))
    made[0].until_stored(folder, 2)
    assert stored(folder, 2) == files
    assert end(made) == [0, 0]


def test_sigterm_saves_the_last_one(machines, folder, tmp_path):
    made = machines(folder, "--flush", "60")
    files = write_all(tmp_path, 1)
    for job in made:
        job.signal(signal.SIGTERM)
    assert [job.wait() for job in made] == [143, 143]
    assert stored(folder, 1) == files


# ---- A tool that removes its part ------------------------------------------------------------------------------------

class ShardGate(Gate):
    """Shards wait at it; orders pass."""

    def before(self, request):
        return super().before(request) if request.key.endswith(".distcp") else True


@pytest.mark.parametrize("when", ["settles", "is-uploaded"])
@pytest.mark.parametrize("linked", [True, False], ids=["links", "descriptors"])
def test_a_part_that_is_removed_once_its_order_was_heard(machines, proxied, tmp_path, no_links, when, linked):
    """Another rank than 0 holds it from then on, and saves it whole."""
    made = machines(proxied, environment={} if linked else no_links)
    gate = ShardGate(proxied)
    files = write_all(tmp_path, 1)
    if linked:
        made[1].until(lambda: list((tmp_path / "b").glob(HELD + "/*/*/step-1/__1_0.distcp")), "the part is held")
    else:
        made[1].until(lambda: open_files(made[1], tmp_path / "b"), "the part is held")
    if when == "is-uploaded":
        made[1].until(
            lambda: any(request.kind == "file" and "__1_0" in request.key for request in proxied.proxy.requests),
            "the part is being uploaded")
    shutil.rmtree(tmp_path / "b" / "step-1")
    gate.opened.set()
    made[0].until_stored(proxied, 1)
    assert stored(proxied, 1) == files
    assert all("changed" not in job.log and "not saved" not in job.log for job in made)
    made[1].until(lambda: links(tmp_path / "b") == 0 and not open_files(made[1], tmp_path / "b"), "it is let go")
    assert end(made) == [0, 0]


def test_a_part_that_is_removed_before_its_order(machines, proxied, tmp_path):
    """Nobody has it: nothing is committed, all say what is missing, and a later step is saved."""
    made = machines(proxied)
    shard(tmp_path / "b", 1, 1)
    shutil.rmtree(tmp_path / "b" / "step-1")
    shard(tmp_path / "a", 1, 0)
    sign(tmp_path / "a", 1)
    for job in made:
        job.until(lambda: "step-1/__1_0.distcp" in job.log, "it says what is missing")
    assert steps(proxied) == []
    files = write_all(tmp_path, 2)
    made[0].until_stored(proxied, 2)
    assert steps(proxied) == [2] and stored(proxied, 2) == files
    for job in made:
        job.tell("0")
    made[0].wait(), made[1].wait()
    assert steps(proxied) == [2]


# ---- A part is missing -----------------------------------------------------------------------------------------------

def test_a_part_is_never_taken_for_the_whole(machines, folder, tmp_path):
    """What the sign names is nowhere: nothing is committed, and why is said. Once it is there, all is."""
    made = machines(folder)
    files = {**shard(tmp_path / "a", 1, 0), **sign(tmp_path / "a", 1)}
    made[0].until(lambda: "step-1/__1_0.distcp" in made[0].log, "the leader says what is missing")
    made[1].until(lambda: "__1_0.distcp" in made[1].log, "the other rank says so too")
    assert steps(folder) == []
    files.update(shard(tmp_path / "b", 1, 1))
    made[0].until_stored(folder, 1)
    assert stored(folder, 1) == files
    assert end(made) == [0, 0]


def test_a_machine_that_is_gone(machines, folder, tmp_path):
    """The others say who has not come, in bounded time; nothing is committed, and none says that it is done."""
    made = machines(folder, "--rank-timeout", "2")
    made[1].kill()
    write_all(tmp_path, 1)
    made[0].until(lambda: re.search(r"rank 1\b", made[0].log), "it says who has not come")
    made[0].tell("0")
    assert made[0].wait() == OWN_FAILURE
    assert steps(folder) == []


def test_the_leader_is_gone(machines, folder, tmp_path):
    made = machines(folder, "--rank-timeout", "2")
    made[0].kill()
    made[1].tell("0")
    assert made[1].wait() == OWN_FAILURE
    assert "rank 0" in made[1].log and steps(folder) == []


def test_a_machine_does_not_start(machines, folder):
    """Rank 0 never comes."""
    job, = machines(folder, "--rank-timeout", "2", names=ABSENT + "b", wait=False)
    assert job.wait() == OWN_FAILURE
    assert not (job.aside / "environment").exists()
    assert "rank 0" in job.log


def test_a_part_of_a_later_step_is_put_aside(machines, folder, tmp_path):
    """All go on from one step, also the machine that has its part of a later one."""
    made = machines(folder)
    files = write_all(tmp_path, 1)
    made[0].until_stored(folder, 1)
    made[1].kill()
    shard(tmp_path / "a", 2, 0)
    sign(tmp_path / "a", 2)
    made[0].kill()
    again = machines(folder)
    assert [job.resumed() for job in again] == [(1, "step-1")] * 2
    assert contents(tmp_path / "a") == contents(tmp_path / "b") == files
    assert "step 1" in again[0].log and OWN_FOLDER in again[0].log
    assert end(again) == [0, 0]


def test_machines_that_are_killed_at_random(machines, store, tmp_path):
    """Every step that is there has all its parts, of one life of the job; and each start finds the newest."""
    seed = int(os.environ.get("CLEAT_TEST_SEED", random.randrange(1 << 30)))
    print("CLEAT_TEST_SEED=%d" % seed)
    dice, written, step, newest = random.Random(seed), {}, 0, None
    for life in range(5):
        made = machines(store, "--rank-timeout", "3")
        assert [job.resumed() for job in made] == [newest and (newest, "step-%d" % newest)] * 2
        for name in "ab" if newest else ():
            found = contents(tmp_path / name)
            assert {file: data
                    for file, data in found.items() if file.startswith("step-%d/" % newest)} == written[newest]
            assert max(int(re.match(r"step-(\d+)/", file).group(1)) for file in found) == newest
        step = newest or 0
        until_ms, victim = time.monotonic() + dice.uniform(1, 5), made[dice.randrange(2)]
        while time.monotonic() < until_ms:
            step += 1
            written[step] = write_all(tmp_path, step, seed=1000 * life)
            time.sleep(dice.uniform(0, 0.5))
        if life == 2 and not newest:  # the dice may give each life too little time to save a step
            made[0].until(lambda: steps(store), "a step is saved")
        victim.kill()
        for job in made:
            job.kill()
        found = steps(store)
        for one in found:
            assert stored(store, one) == written[one], one
        newest = found[-1] if found else None
        for name in "ab":
            if dice.random() < 0.5:
                shutil.rmtree(tmp_path / name)
    assert newest


# ---- Who is who ------------------------------------------------------------------------------------------------------

def test_a_folder_that_all_share(machines, folder, tmp_path):
    """One saves; the others run their commands, and begin when it is restored."""
    made = machines(folder, names="aaa")
    files = {**shard(tmp_path / "a", 1, 0), **shard(tmp_path / "a", 1, 1), **sign(tmp_path / "a", 1)}
    made[0].until_stored(folder, 1)
    assert stored(folder, 1) == files
    assert all("same folder" in job.log for job in made[1:]) and "same folder" not in made[0].log
    assert end(made) == [0, 0, 0]
    for name in files:
        (tmp_path / "a" / name).unlink()
    (tmp_path / "a" / "step-1").rmdir()
    again = machines(folder, names="aaa")
    assert [job.resumed() for job in again] == [(1, "step-1")] * 3
    assert all("step-1" in (job.aside / "names").read_text() for job in again)
    assert end(again) == [0, 0, 0]


def test_two_ranks_of_one_machine(machines, folder, tmp_path):
    """Their folder is not rank 0's: one of them has it, the other is told what to do."""
    made = machines(folder, names="abb", wait=False)
    until(lambda: [job for job in made[1:] if job.process.poll() is not None], "one of them ends")
    refused, = [job for job in made[1:] if job.process.poll() is not None]
    assert refused.wait() == OWN_FAILURE and "one 'cleat run' per machine" in refused.log
    assert not (refused.aside / "environment").exists()


@pytest.mark.parametrize("variables", [{"RANK": "1", "WORLD_SIZE": "2"}, {"CLEAT_RANK": "0", "CLEAT_WORLD_SIZE": "2"},
                                       {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2"}])
def test_a_start_without_a_name(jobs, folder, tmp_path, variables):
    job = jobs(folder, tmp_path / "a", environment=variables)
    assert job.wait() == OWN_FAILURE
    assert "CLEAT_START" in job.log and "CLEAT_WORLD_SIZE=1" in job.log
    assert not (job.aside / "environment").exists()
    # Said to be alone, it is.
    alone = jobs(folder, tmp_path / "a", environment={**variables, "CLEAT_RANK": "0", "CLEAT_WORLD_SIZE": "1"})
    alone.environment()
    assert alone.end() == 0


def test_slurm_names_the_start(jobs, folder, tmp_path):
    made = [jobs(folder, tmp_path / name, environment={
        "SLURM_PROCID": str(rank), "SLURM_NTASKS": "2", "SLURM_STEP_ID": "0", "SLURM_JOB_ID": "17"})
        for rank, name in enumerate("ab")]
    for job in made:
        job.environment()
    files = write_all(tmp_path, 1)
    made[0].until_stored(folder, 1)
    assert stored(folder, 1) == files and folder.manifest(1)["start"] == "slurm-17-0-0"
    assert end(made) == [0, 0]


@pytest.mark.parametrize("option", [["--final"], ["--keep-local", "1"], ["--offline-ok"]])
def test_options_that_do_not_go_with_it(machines, folder, option):
    job, _ = machines(folder, *option, wait=False)
    assert job.wait() == OWN_FAILURE
    assert option[0] in job.log
