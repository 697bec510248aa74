"""A restore that was reported as done survives a power cut. At no moment would a power cut leave a name without its
bytes.

The test uses a disk of its own whose power is cut while it is in use (disk_image.py). The order of writes, syncs and
renames is judged too. Without loop devices, that is the only test.
"""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from disk_image import judge_order
from helpers import CLEAT, SECONDS_MAX, fill, noise, run, tree
from layout_folders import megatron, write_all
from run_jobs import OWN_FOLDER, contents, write_dcp

# Large ones, of several parts; folders within folders; more small ones than are synced at once.
FILES = {
    "model-1.bin": noise(5 << 20, 1), "sub/model-2.bin": noise(3 << 20, 2), "sub/deep/er/state": noise(70000, 3),
    "empty": b"", **{"small/%d/%d" % (i % 3, i): noise(100 + i, 4 + i % 5)
                     for i in range(150)}
}
OLDER = {"model-1.bin": noise(5 << 20, 9), "sub/deep/er/state": b"older", "mine": b"mine"}


@pytest.fixture
def saved(folder, tmp_path):
    """A store on the host's own disk with step 1."""
    assert run("save", fill(tmp_path / "source", FILES), folder.url, "--step", 1, "--part-size", "1M").code == 0
    return folder


def prepared(place, forced):
    """Where to load to, the options for that, and what is to be there in the end."""
    if not forced:
        return place / "out", [], dict(FILES)
    fill(place / "out", OLDER)
    os.sync()
    return place / "out", ["--force"], {**OLDER, **FILES}


FORCED = pytest.mark.parametrize("forced", [False, True], ids=["new", "forced"])


@FORCED
def test_what_is_loaded_survives(saved, power, disk_record, tmp_path, forced):
    out, options, wanted = prepared(power.place if power else tmp_path, forced)
    record = tmp_path / "record"
    result = run("load", saved.url, out, *options, environment=dict(saved.environment, **disk_record,
                                                                    DISK_RECORD=str(record)))
    assert result.code == 0, result
    assert tree(out) == wanted
    if power:
        assert power.cut_power(out) == wanted
        power.commit_names()
        assert power.cut_power(out) == wanted
    judge_order(record, out)


def stops(process):
    """Yields each time that the process is stopped; ends with it."""
    while True:
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            process.returncode = os.waitstatus_to_exitcode(status)
            return
        yield
        os.kill(process.pid, signal.SIGCONT)


@FORCED
def test_no_name_is_there_before_its_bytes(saved, power, disk_record, tmp_path, forced):
    """Right after each rename another program's sync puts all names so far on the disk, and the power is cut."""
    out, options, wanted = prepared(power.place if power else tmp_path, forced)
    older = tree(out) if forced else {}
    environment = dict(saved.environment, **disk_record, STOP_AFTER_RENAME=str(out),
                       DISK_RECORD=str(tmp_path / "record"))
    process = subprocess.Popen([CLEAT, "load", saved.url, out, *options], env=environment)
    try:
        moments = 0
        for _ in stops(process):
            moments += 1
            if not power or moments > 12:
                continue
            power.commit_names()
            left = power.cut_power(out)
            left = {name: data for name, data in left.items() if not name.startswith(".cleat-load-")}
            assert forced or left == wanted
            assert [name for name, data in left.items() if data not in (wanted.get(name), older.get(name))] == []
    finally:
        if process.returncode is None:
            process.kill()
            process.wait(SECONDS_MAX)
    assert process.returncode == 0 and moments == (len(FILES) if forced else 1)
    assert tree(out) == wanted
    judge_order(tmp_path / "record", out)


# ---- cleat run -------------------------------------------------------------------------------------------------------

def seed(jobs, store, directory, step):
    job = jobs(store, directory)
    job.environment()
    files = write_dcp(directory, step,
                      {"__0_0.distcp": noise(5 << 20, 1), "sub/__1_0.distcp": noise(300000, 2), "empty": b""})
    job.until_stored(store, step)
    assert job.end() == 0
    return files


def own(files):
    return {name: data for name, data in files.items() if name.startswith(OWN_FOLDER + "/state")}


def others(files):
    return {name: data for name, data in files.items() if not name.startswith(OWN_FOLDER + "/")}


def test_what_a_job_goes_on_from_survives(folder, power, jobs, disk_record, tmp_path):
    files = seed(jobs, folder, tmp_path / "first", 300)
    place, record = (power.place if power else tmp_path) / "job", tmp_path / "record"
    job = jobs(folder, place, environment=dict(disk_record, DISK_RECORD=str(record)))
    assert job.resumed() == (300, "step-300")
    if power:
        for _ in range(2):
            left = power.cut_power(place)
            assert others(left) == files
            state = json.loads(own(left)[OWN_FOLDER + "/state.json"])
            assert [entry["step"] for entry in state["committed"]] == ["300"]
            power.commit_names()
    for path in (place / "step-300", place / OWN_FOLDER / "state.json", place):
        judge_order(record, path)
    assert job.end() == 0


def test_nothing_says_that_it_is_there_before_it_is(folder, power, jobs, disk_record, tmp_path):
    """As above; also of state.json, which says that DIR holds the checkpoint, and of a checkpoint that is in the
    way."""
    files = seed(jobs, folder, tmp_path / "first", 300)
    place = (power.place if power else tmp_path) / "job"
    old = write_dcp(place, 300, {"__0_0.distcp": b"of another run"})
    os.sync()
    job = jobs(folder, place, environment=dict(disk_record, STOP_AFTER_RENAME=str(place),
                                               DISK_RECORD=str(tmp_path / "record")))
    moments = []
    while not (job.aside / "environment").exists():
        found, status = os.waitpid(job.process.pid, os.WUNTRACED | os.WNOHANG)
        assert not found or os.WIFSTOPPED(status), job.log
        if found:
            moments.append((place / OWN_FOLDER / "state.json").exists())
            if power:
                power.commit_names()
                left = power.cut_power(place)
                assert others(left) in (old, files)
                assert others(left) == files or not own(left)
            os.kill(found, signal.SIGCONT)
    assert moments[:2] == [False, True] and all(moments[1:])  # the checkpoint, then what speaks of it
    assert tree(place / "step-300") == {name.partition("/")[2]: data for name, data in files.items()}
    judge_order(tmp_path / "record", place / "step-300")
    assert job.end() == 0


def test_the_sign_is_there_after_all_else(folder, power, jobs, disk_record, tmp_path):
    """Of a checkpoint of several names, the last of which tells its tool that the others are there."""
    job = jobs(folder, tmp_path / "first")
    job.environment()
    write_all(megatron(tmp_path / "first", 300))
    files = contents(tmp_path / "first")
    job.until_stored(folder, 300)
    assert job.end() == 0
    place, record, tracker = (power.place
                              if power else tmp_path) / "job", tmp_path / "record", "latest_checkpointed_iteration.txt"
    job = jobs(folder, place, environment=dict(disk_record, DISK_RECORD=str(record)))
    assert job.resumed() == (300, "iter_0000300")
    judge_order(record, place, sign=tracker)
    if power:
        assert others(power.cut_power(place)) == files
    assert job.end() == 0
