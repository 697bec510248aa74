"""`cleat run` with a folder that changes while it is read: no mixture of versions is ever committed.

A proxy in front of MinIO tells the test when a save is half done. Then the files change. boto3 reads the store: each
file contains the number of its generation, and a committed checkpoint has only one generation.
"""

import os
import random
import shutil
import threading
import time

import pytest

from run_jobs import contents, steps, stored, write_dcp

MIB = 1 << 20
QUIET = ("--layout", "folders", "--quiet-time", "1")


def generation(number, count=4, size=1000):
    return {"part-%d" % part: b"%08d" % number * (size // 8) for part in range(count)}


def generations(files):
    """The generations that the parts among some files are of; a part that is torn in itself counts as several."""
    return {data[at:at + 8] for name, data in files.items() if "/part-" in name
            for at in {0, *range(0, len(data), 4096), len(data) - 8}}


class Meddler:
    """Does something, a few times, when a request of a kind comes."""

    def __init__(self, store, kind, times, act):
        self.kind, self.times, self.act = kind, times, act
        self.lock = threading.Lock()
        store.proxy.before = self.before

    def before(self, request):
        with self.lock:
            if request.kind == self.kind and self.times:
                self.times -= 1
                self.act()
        return True


@pytest.mark.parametrize("layout", ["signed", "unsigned"])
@pytest.mark.parametrize("kind, size", [("file", 1000), ("record", 1000), ("part", 20 * MIB)])
def test_rewritten_in_the_middle_of_a_save(jobs, proxied, tmp_path, layout, kind, size):
    """Three times over; then it is left alone, and saved as it is then."""
    number = 0

    def rewrite():
        nonlocal number
        number += 1
        write_dcp(tmp_path / "a", 1, generation(number, 2, size))

    job = jobs(proxied, tmp_path / "a", *(QUIET if layout == "unsigned" else ()))
    job.environment()
    meddler = Meddler(proxied, kind, 3, rewrite)
    rewrite()
    job.until(lambda: meddler.times == 0 and steps(proxied) == [1], "it is left alone and saved")
    assert generations(stored(proxied, 1)) == {b"%08d" % number}
    assert number == 4
    assert job.end() == 0
    assert contents(tmp_path / "a") == stored(proxied, 1)


@pytest.mark.parametrize("kind", ["file", "record"])
def test_a_file_is_added_in_the_middle_of_a_save(jobs, proxied, tmp_path, kind):
    """None of those that are being read changes. Whole is what has the late one, too."""
    job = jobs(proxied, tmp_path / "a")
    job.environment()
    meddler = Meddler(proxied, kind, 1, lambda: (tmp_path / "a" / "step-1" / "late").write_bytes(b"late"))
    write_dcp(tmp_path / "a", 1, generation(1))
    job.until(lambda: meddler.times == 0 and steps(proxied) == [1], "it is saved")
    assert stored(proxied, 1) == contents(tmp_path / "a")
    assert job.end() == 0


def test_rewritten_at_any_time(jobs, store, tmp_path):
    """A writer that never asks: whatever is committed at any moment is of one generation. Where a machine that is busy
    made it pause for the quiet time in the middle of a generation, that one may be met by half: nothing tells it from
    whole."""
    seed = int(os.environ.get("CLEAT_TEST_SEED", random.SystemRandom().randrange(1 << 32)))
    print("CLEAT_TEST_SEED=%d" % seed)
    rng = random.Random(seed)
    job = jobs(store, tmp_path / "a", *QUIET)
    job.environment()
    folder = tmp_path / "a" / "step-1"
    folder.mkdir()
    seen, paused = set(), set()
    for number in range(1, 7):
        last = time.monotonic()
        for name, data in generation(number, 6, 4096).items():
            (folder / name).write_bytes(data)
            time.sleep(rng.uniform(0, 0.05))
            last, before = time.monotonic(), last
            if last - before > 0.8:
                paused.add(b"%08d" % number)
        time.sleep(rng.choice([0, 0.3, 1.0, 1.3, 1.6]))
        if steps(store):
            seen |= generations(contents_of(store, paused))
    job.until(lambda: steps(store) and generations(contents_of(store, paused)) == {b"%08d" % 6}, "the last is saved")
    print("seen: %s" % sorted(seen))
    assert job.end() == 0


def contents_of(store, paused=()):
    """Of step 1, which may be replaced while it is read: then once more."""
    while True:
        try:
            files = stored(store, 1)
        except Exception as error:  # boto3's classes are made at run time
            if type(error).__name__ not in ("NoSuchKey", "FileNotFoundError"):
                raise
            continue
        found = generations(files)
        assert len(found) == 1 or max(found) in paused, (found, paused)
        return files


@pytest.mark.parametrize("when", ["leaving", "ended"])
def test_changed_in_a_save_that_the_end_of_the_command_meets(jobs, proxied, tmp_path, when):
    """The last thing the command does is to change what is just being saved. Nothing comes after it: what is stored in
    the end is what lies in DIR."""
    job = jobs(proxied, tmp_path / "a", *QUIET)
    job.environment()

    def change():
        write_dcp(tmp_path / "a", 1, generation(2))
        if when == "ended":
            job.tell("0")
            job.until(lambda: "ended" in job.log, "the command's end is seen")

    Meddler(proxied, "file", 1, change)
    write_dcp(tmp_path / "a", 1, generation(1))
    if when == "leaving":
        job.until(lambda: proxied.proxy.count("file"), "it is being saved")
        job.tell("0")
    assert job.wait() == 0
    assert stored(proxied, 1) == contents(tmp_path / "a")
    assert generations(stored(proxied, 1)) == {b"%08d" % 2}


@pytest.mark.parametrize("kind", ["file", "record"])
def test_deleted_while_it_is_read(jobs, proxied, tmp_path, kind):
    """It is held, and saved as it was."""
    job = jobs(proxied, tmp_path / "a")
    job.environment()
    Meddler(proxied, kind, 1, lambda: shutil.rmtree(tmp_path / "a" / "step-1"))
    older = write_dcp(tmp_path / "a", 1, generation(1))
    job.until(lambda: not (tmp_path / "a" / "step-1").exists(), "it is deleted")
    newer = write_dcp(tmp_path / "a", 2)
    job.until_stored(proxied, 1, 2)
    assert job.end() == 0
    assert stored(proxied, 1) == older and stored(proxied, 2) == newer
    assert "could not be saved" not in job.log


def remove_slowly(job, store, directory, names, first_step):
    """File by file, as a tool that keeps its newest ones alone does on a slow disk: between two removals Cleat looks
    at everything, as it saves a new checkpoint each time."""
    for step, name in enumerate(names, first_step):
        os.unlink(directory / name)
        write_dcp(directory, step)
        job.until_stored(store, step)


def test_a_tool_removes_what_is_stored(jobs, folder, tmp_path):
    job = jobs(folder, tmp_path / "a")
    job.environment()
    files = write_dcp(tmp_path / "a", 1, generation(1))
    job.until_stored(folder, 1)
    manifest = folder.manifest(1)
    remove_slowly(job, folder, tmp_path / "a", ["step-1/part-0", "step-1/part-1", "step-1/.metadata"], 2)
    shutil.rmtree(tmp_path / "a" / "step-1")
    assert job.end() == 0
    assert folder.manifest(1) == manifest and stored(folder, 1) == files


def test_what_is_stored_with_a_sign_stays_as_it_is(jobs, folder, tmp_path):
    """Notes that somebody adds later are no reason to replace it."""
    job = jobs(folder, tmp_path / "a")
    job.environment()
    files = write_dcp(tmp_path / "a", 1, generation(1))
    job.until_stored(folder, 1)
    manifest = folder.manifest(1)
    (tmp_path / "a" / "step-1" / "notes").write_bytes(b"good one")
    for step in (2, 3):
        write_dcp(tmp_path / "a", step)
        job.until_stored(folder, step)
    assert job.end() == 0
    assert folder.manifest(1) == manifest and stored(folder, 1) == files


def test_what_is_stored_without_a_sign_and_grows_is_replaced(jobs, folder, tmp_path):
    job = jobs(folder, tmp_path / "a", *QUIET)
    job.environment()
    write_dcp(tmp_path / "a", 1, generation(1))
    job.until_stored(folder, 1)
    attempt = folder.manifest(1)["attempt"]
    (tmp_path / "a" / "step-1" / "late").write_bytes(b"late")
    job.until(lambda: folder.manifest(1)["attempt"] != attempt, "it is replaced")
    assert job.end() == 0
    assert stored(folder, 1) == contents(tmp_path / "a")


def test_a_tool_without_a_sign_removes_what_is_stored(jobs, folder, tmp_path):
    job = jobs(folder, tmp_path / "a", *QUIET)
    job.environment()
    files = write_dcp(tmp_path / "a", 1, generation(1))
    job.until_stored(folder, 1)
    manifest = folder.manifest(1)
    remove_slowly(job, folder, tmp_path / "a", ["step-1/part-0", "step-1/part-1", "step-1/.metadata"], 2)
    assert job.end() == 0
    assert folder.manifest(1) == manifest and stored(folder, 1) == files


def test_a_tool_removes_what_could_not_be_stored_yet(jobs, proxied, tmp_path):
    """Its sign is still there, its first file is not: what is saved is what is held, never what is left."""
    job = jobs(proxied, tmp_path / "a")
    job.environment()
    done = threading.Event()

    def before(request):
        if request.kind == "file" and "step-1/" in request.key and not done.is_set():
            os.unlink(tmp_path / "a" / "step-1" / "part-0")
            done.set()
        return True

    proxied.proxy.before = before
    files = write_dcp(tmp_path / "a", 1, generation(1))
    job.until(done.is_set, "it is tried")
    remove_slowly(job, proxied, tmp_path / "a", ["step-1/part-1", "step-1/part-2"], 2)
    assert job.end() == 0
    assert steps(proxied) == [1, 2, 3] and stored(proxied, 1) == files
