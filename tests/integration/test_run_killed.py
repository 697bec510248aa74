"""A training job under `cleat run` is ended again and again at random moments. It ends with the weights of an
undisturbed job.

The example trainer writes its checkpoints into DIR and knows no other store. `cleat run` saves them to MinIO. Each life
ends by SIGTERM, or by SIGKILL of all its processes. Sometimes DIR is lost too. boto3 is the judge: everything that a
manifest names exists, with the size and the digest in the manifest. Every random choice comes from a printed seed;
CLEAT_TEST_SEED repeats it. CLEAT_TEST_KILLS sets the number of lives before the last one.
"""

import hashlib
import itertools
import os
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from helpers import CLEAT, ROOT, SLOW, Folder
from layout_folders import TRACKER, dcp, llmc, megatron, write_all
from run_jobs import OWN_FOLDER, contents, steps, stored, until
from trainer_log import wait_for_step

KILLS = int(os.environ.get("CLEAT_TEST_KILLS", 8))
STEPS_A_LIFE = 1200
TRAINER = Path(CLEAT).parent / "trainer"
# What a life has at most.
LIFE_S, LIFE_STEPS = 3.0, STEPS_A_LIFE * 3 // 2
SECONDS_MAX = 600 * SLOW


def trainer(directory, *more):
    return [TRAINER, "--text", ROOT / "api" / "examples" / "corpus.txt", "--memory-rows", "1024", "--hidden", "64",
            "--steps", str(STEPS_A_LIFE * KILLS), "--save-every", "300", "--loss-log", directory / "losses",
            "--dump-weights", directory / "state", *more]


def losses(directory):
    """Step to the set of its losses: a step that was trained again after a kill must have only one."""
    found = {}
    for line in (directory / "losses").read_text().splitlines():
        step, loss = line.split()
        found.setdefault(int(step), set()).add(loss)
    return found


def state(directory):
    return {path.name: path.read_bytes() for path in (directory / "state").iterdir()}


def assert_nothing_is_torn(bucket):
    """Returns the steps that are committed."""
    sizes = {entry["Key"][len("run/"):]: entry["Size"]
             for page in bucket.client.get_paginator("list_objects_v2").paginate(Bucket=bucket.bucket, Prefix="run/")
             for entry in page.get("Contents", ())}
    found = steps(bucket)
    for step in found:
        manifest = bucket.manifest(step)
        for rank in manifest["ranks"]:
            text = bucket.get("step-%012d/%s" % (step, rank["key"]))
            assert len(text) == rank["size"] and hashlib.sha256(text).hexdigest() == rank["sha256"]
        files = bucket.record(step)["files"]
        assert any(file["name"].endswith("manifest.json") for file in files)  # the trainer's own, which it writes last
        for file in files:
            assert sizes[bucket.file_key(step, file["name"])] == file["size"], (step, file)
        result = bucket.cleat("verify", bucket.url, "--step", step)
        assert result.code == 0, result
    listed = bucket.cleat("ls", bucket.url, "--json")
    assert [entry["step"] for entry in listed.json["checkpoints"]] == found
    return found


@pytest.mark.parametrize("layout, more, sign", [(llmc, {"ranks": 3}, "DONE_00000020"), (megatron, {}, TRACKER),
                                                (dcp, {}, "step-20")], ids=["llmc", "megatron", "dcp"])
@pytest.mark.parametrize("before", ["nothing", "half"])
def test_killed_at_each_rename_of_a_restore(jobs, folder, tmp_path, dies_at_rename, layout, more, sign, before):
    """What tells the tool that a checkpoint is there comes when all else is, and the next start puts it right."""
    first = jobs(folder, tmp_path / "a")
    first.environment()
    write_all(layout(tmp_path / "a", 20, **more))
    expected = contents(tmp_path / "a")
    first.until_stored(folder, 20)
    assert first.end() == 0
    renames = 0
    while True:
        renames += 1
        directory = tmp_path / ("b%d" % renames)
        directory.mkdir()
        if before == "half":  # another try at the same step, which was stopped
            for _ in itertools.islice(layout(directory, 20, seed=5, **more), 6):
                pass
        job = jobs(folder, directory, environment=dict(dies_at_rename, DIE_AT_RENAME=str(renames)))
        until(lambda: job.process.poll() is not None or (job.aside / "environment").exists(), "the restore ends")
        killed = job.process.poll() is not None
        found = contents(directory)
        if not killed or (directory / sign).exists() and before == "nothing":
            assert found == expected
        if not killed:
            assert job.end() == 0
            break
        assert job.process.returncode == -signal.SIGKILL
        again = jobs(folder, directory)
        assert again.resumed()[0] == 20
        assert contents(directory) == expected
        assert again.end() == 0
    print("%d renames" % (renames - 1))
    assert renames > len({name.partition("/")[0] for name in expected})


def assert_none_is_half(directory, whole, signs):
    """A step whose sign is there has all the rest, byte for byte."""
    found = contents(directory)
    for step, files in whole.items():
        if signs[step] in found:
            assert {name: found.get(name) for name in files} == files, (step, sorted(found))


@pytest.mark.parametrize("layout, more, sign", [(llmc, {"ranks": 2}, "DONE_%08d"), (dcp, {}, "step-%d/.metadata")],
                         ids=["llmc", "dcp"])
def test_killed_at_each_step_of_a_removal(jobs, tmp_path, dies_at_removal, layout, more, sign):
    """--keep-local takes what tells the tool that a checkpoint is whole away before the rest. So no start ever takes
    what a killed removal has left for a checkpoint: not the tool, which looks for the sign alone, nor cleat run, which
    saves what is whole to a store that has nothing yet."""
    signs = {step: sign % step for step in (1, 2)}
    whole, removals, killed = {}, 0, True
    while killed:
        removals += 1
        place = tmp_path / str(removals)
        store, directory = Folder(place / "store"), place / "dir"
        place.mkdir()
        job = jobs(store, directory, "--keep-local", "1",
                   environment=dict(dies_at_removal, DIE_AT_REMOVAL=str(removals)))
        job.environment()
        for step in (1, 2):
            before = contents(directory)
            write_all(layout(directory, step, seed=step, **more))
            whole[step] = {name: data for name, data in contents(directory).items() if name not in before}
        until(lambda: steps(store) == [1, 2], "both are stored")
        until(lambda: job.process.poll() is not None or "deleted step 1 here" in job.log, "the removal ends")
        if job.process.poll() is None:
            job.end()  # where it may be killed too, when it cleans up
        killed = job.process.returncode == -signal.SIGKILL
        assert killed or job.process.returncode == 0
        job.kill()
        assert contents(directory).items() >= whole[2].items()
        assert_none_is_half(directory, whole, signs)
        again = jobs(store, directory, "--keep-local", "1")
        assert again.resumed()[0] == 2
        assert again.end() == 0
        assert {step: stored(store, step) for step in steps(store)} == whole
        assert_none_is_half(directory, whole, signs)
        assert list((directory / OWN_FOLDER).glob("removed-*")) == []
        assert_only_whole_ones_are_saved(jobs, place, whole)
    print("%d steps of a removal" % (removals - 1))
    assert removals > len({name.partition("/")[0] for name in whole[1]})


def assert_only_whole_ones_are_saved(jobs, place, whole):
    """By a start that knows nothing of DIR, to a store that has nothing."""
    shutil.rmtree(place / "dir" / OWN_FOLDER)
    empty = Folder(place / "empty")
    job = jobs(empty, place / "dir")
    job.environment()
    job.until_stored(empty, 2)
    assert job.end() == 0
    for step in steps(empty):
        assert stored(empty, step) == whole[step]


def signed(directory):
    """The steps that the trainer has committed in DIR."""
    return sorted(int(path.parent.name[len("step-"):]) for path in directory.glob("step-*/manifest.json"))


def test_killed_at_random_moments(jobs, bucket, tmp_path):
    seed = int(os.environ.get("CLEAT_TEST_SEED", random.SystemRandom().randrange(1 << 32)))
    print("CLEAT_TEST_SEED=%d" % seed)
    rng = random.Random(seed)
    undisturbed, disturbed, directory = tmp_path / "undisturbed", tmp_path / "disturbed", tmp_path / "dir"
    undisturbed.mkdir()
    disturbed.mkdir()
    subprocess.run(trainer(undisturbed), check=True, stdout=subprocess.DEVNULL, timeout=SECONDS_MAX)

    command = trainer(disturbed, "--store", "file://%s" % directory)
    options = ("--keep-last", "5", "--keep-local", "3")
    counts = dict.fromkeys(("killed", "terminated", "lost", "ended", "resumed from the store"), 0)
    newest = -1
    for life in range(KILLS):
        job = jobs(bucket, directory, *options, command=command)
        before = newest
        moment, step = rng.uniform(0.1, LIFE_S), max(newest, 0) + rng.randrange(LIFE_STEPS)
        status = wait_for_step(job.process, disturbed / "losses", step, moment)
        if status is not None:
            assert status == 0, job.log
            counts["ended"] += 1
            break
        if rng.random() < 0.5:
            began = time.monotonic()
            job.signal(signal.SIGTERM)
            status = job.wait()
            # 0: it had just ended by itself. 143: a signal, before the command or in it.
            assert status in (0, 128 + signal.SIGTERM), job.log
            counts["terminated"] += 1
            how = "SIGTERM, %.1f s" % (time.monotonic() - began)
        else:
            job.kill()
            counts["killed"] += 1
            how = "SIGKILL"
        committed = assert_nothing_is_torn(bucket)
        newest = committed[-1] if committed else -1
        assert newest >= before, "what was stored once is gone"
        if how != "SIGKILL" and "started" in job.log and signed(directory):
            assert signed(directory)[-1] <= newest, "what was whole was not flushed\n" + job.log
        counts["resumed from the store"] += "restored step" in job.log
        lost = rng.random() < 0.4
        if lost:
            shutil.rmtree(directory)
            counts["lost"] += 1
        print("life %d: %s%s, step %d is stored" % (life, how, ", DIR lost" if lost else "", newest))

    last = jobs(bucket, directory, *options, command=command)
    assert last.process.wait(SECONDS_MAX) == 0, last.log
    print(last.log)
    print(counts)
    found = assert_nothing_is_torn(bucket)
    assert found[-1] == STEPS_A_LIFE * KILLS
    here = {name: data for name, data in contents(directory).items()
            if name.startswith("step-%012d/" % found[-1]) and "/.cleat-" not in name}
    assert stored(bucket, found[-1]) == here
    assert not [name for name in here if name.startswith(OWN_FOLDER)]
    assert state(disturbed) == state(undisturbed)
    assert losses(disturbed) == losses(undisturbed)
    assert sum(counts[how] for how in ("killed", "terminated")) > KILLS // 2, counts
