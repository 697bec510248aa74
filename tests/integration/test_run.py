"""`cleat run`: what it restores before the command starts, saves while it runs, and keeps.

Nothing is judged by Cleat. boto3 or the file system reads stores and DIR, and the command writes down what it saw.
"""

import os
import re
import shutil

import pytest

from helpers import fill, noise, tree
from run_jobs import OWN_FAILURE, OWN_FOLDER, contents, run_metadata, steps, stored, write_dcp


def seed(jobs, store, directory, *numbers):
    """A first job that leaves these steps in the store. Returns the files of each."""
    job = jobs(store, directory)
    job.environment()
    files = {step: write_dcp(directory, step) for step in numbers}
    job.until_stored(store, *numbers)
    assert job.end() == 0
    return files


# ---- Restoring -------------------------------------------------------------------------------------------------------

def test_saves_then_restores_then_finds_it_there(jobs, store, tmp_path):
    job = jobs(store, tmp_path / "a", environment={"CLEAT_RESUME_STEP": "77", "CLEAT_RESUME_DIR": "/of/another"})
    assert job.resumed() is None  # a new job; what an outer one was told is not for it
    assert (job.aside / "names").read_text() == OWN_FOLDER + "\n"
    files = {step: write_dcp(tmp_path / "a", step) for step in (100, 200)}
    job.until_stored(store, 100, 200)
    assert job.end() == 0
    for step in (100, 200):
        assert stored(store, step) == files[step]
        assert run_metadata(store, step).items() >= {"layout": "dcp", "path": "step-%d" % step,
                                                     "step": str(step)}.items()

    again = jobs(store, tmp_path / "b")
    assert again.resumed() == (200, "step-200")
    assert (again.aside / "names").read_text().split() == [OWN_FOLDER, "step-200"]
    assert contents(tmp_path / "b") == files[200]
    assert again.end() == 0
    assert steps(store) == [100, 200]

    before = {path: path.stat() for path in (tmp_path / "b" / "step-200").iterdir()}
    held = jobs(store, tmp_path / "b")
    assert held.resumed() == (200, "step-200")
    assert held.end() == 0
    after = {path: path.stat() for path in before}
    assert {path: (info.st_ino, info.st_mtime_ns, info.st_ctime_ns) for path, info in after.items()} == \
        {path: (info.st_ino, info.st_mtime_ns, info.st_ctime_ns) for path, info in before.items()}


def test_the_folder_of_the_first_job_is_held_too(jobs, store, tmp_path):
    seed(jobs, store, tmp_path / "a", 100)
    before = (tmp_path / "a" / "step-100" / "__0_0.distcp").stat()
    keys = store.keys()
    held = jobs(store, tmp_path / "a")
    assert held.resumed() == (100, "step-100")
    assert held.end() == 0
    assert (tmp_path / "a" / "step-100" / "__0_0.distcp").stat().st_ino == before.st_ino
    assert store.keys() == keys


def test_damaged_contents_in_dir_are_restored_again(jobs, folder, tmp_path):
    files = seed(jobs, folder, tmp_path / "a", 100)
    (tmp_path / "a" / "step-100" / "__0_0.distcp").write_bytes(b"half")
    job = jobs(folder, tmp_path / "a")
    assert job.resumed() == (100, "step-100")
    assert contents(tmp_path / "a") == files[100]
    assert job.end() == 0
    assert stored(folder, 100) == files[100]


def test_a_lost_state_costs_nothing(jobs, folder, tmp_path):
    files = seed(jobs, folder, tmp_path / "a", 100)
    for text in (None, b"{", b"[]", b'{"entries": 3}', b"\0" * 100):
        state = tmp_path / "a" / OWN_FOLDER / "state.json"
        state.unlink(missing_ok=True)
        if text is not None:
            state.write_bytes(text)
        keys = folder.keys()
        job = jobs(folder, tmp_path / "a")
        assert job.resumed() == (100, "step-100")
        assert job.end() == 0
        assert contents(tmp_path / "a") == files[100] and folder.keys() == keys


def test_dir_is_ahead_of_the_store(jobs, folder, tmp_path):
    """A whole checkpoint that was written and not saved is what the job goes on from, and it is saved."""
    seed(jobs, folder, tmp_path / "a", 100)
    newer = write_dcp(tmp_path / "a", 200)
    job = jobs(folder, tmp_path / "a")
    assert job.resumed() == (200, "step-200")
    job.until_stored(folder, 200)
    assert job.end() == 0
    assert stored(folder, 200) == newer


def test_an_unfinished_newer_one_does_not_count(jobs, folder, tmp_path):
    files = seed(jobs, folder, tmp_path / "a", 100)
    write_dcp(tmp_path / "a", 200)
    (tmp_path / "a" / "step-200" / ".metadata").unlink()
    shutil.rmtree(tmp_path / "a" / "step-100")
    job = jobs(folder, tmp_path / "a")
    assert job.resumed() == (100, "step-100")
    assert job.end() == 0
    assert contents(tmp_path / "a" / "step-100").keys() == {".metadata", "__0_0.distcp"}
    assert steps(folder) == [100] and stored(folder, 100) == files[100]


def test_no_restore(jobs, store, tmp_path):
    seed(jobs, store, tmp_path / "a", 100)
    job = jobs(store, tmp_path / "b", "--no-restore")
    assert job.resumed() is None
    assert contents(tmp_path / "b") == {}
    files = write_dcp(tmp_path / "b", 200)
    job.until_stored(store, 200)
    assert job.end() == 0
    assert stored(store, 200) == files


def test_an_older_step_by_wish(jobs, store, tmp_path):
    files = seed(jobs, store, tmp_path / "a", 100, 200)
    job = jobs(store, tmp_path / "b", "--step", "100")
    assert job.resumed() == (100, "step-100")
    assert contents(tmp_path / "b") == files[100]
    assert "the store has newer steps, up to 200" in job.log
    # Another branch begins here: what it comes to takes the place of what was.
    other = write_dcp(tmp_path / "b", 200, {"__0_0.distcp": b"another branch"})
    assert job.end() == 0
    assert stored(store, 200) == other and steps(store) == [100, 200]
    # Also where a newer one lies.
    shutil.rmtree(tmp_path / "a" / "step-100")
    other = jobs(store, tmp_path / "a", "--step", "100")
    assert other.resumed() == (100, "step-100")
    assert contents(tmp_path / "a") == {**files[100], **files[200]}
    assert other.end() == 0


def test_a_step_that_is_not_there_starts_nothing(jobs, folder, tmp_path):
    seed(jobs, folder, tmp_path / "a", 100)
    job = jobs(folder, tmp_path / "b", "--step", "150")
    assert job.wait() == OWN_FAILURE
    assert not (job.aside / "environment").exists()
    assert "150" in job.log
    assert contents(tmp_path / "b") == {}


def test_what_cleat_save_has_stored_is_restored_too(jobs, store, tmp_path):
    source = fill(tmp_path / "source", {"model.bin": noise(100000), "sub/x": b"x"})
    store.save(source, 7)
    job = jobs(store, tmp_path / "b", "--layout", "huggingface")
    step, place = job.resumed()
    assert (step, tree(tmp_path / "b" / place)) == (7, tree(source))
    assert job.end() == 0
    assert steps(store) == [7]


@pytest.mark.parametrize("how", ["skip", "fail", "replace"])
def test_a_step_that_another_start_has_saved(jobs, folder, tmp_path, how):
    """A job that went back to step 100 comes to step 200 once more, with other contents."""
    files = seed(jobs, folder, tmp_path / "a", 100, 200)
    job = jobs(folder, tmp_path / "b", "--step", "100", "--if-exists", how)
    job.environment()
    other = write_dcp(tmp_path / "b", 200, {"__0_0.distcp": b"other"})
    newer = write_dcp(tmp_path / "b", 300)
    job.until_stored(folder, 300)
    assert job.end() == (OWN_FAILURE if how == "fail" else 0)
    assert stored(folder, 200) == (other if how == "replace" else files[200])
    assert stored(folder, 300) == newer


# ---- Saving ----------------------------------------------------------------------------------------------------------

def test_names_out_of_order(jobs, folder, tmp_path):
    job = jobs(folder, tmp_path / "a")
    job.environment()
    late = write_dcp(tmp_path / "a", 300)
    job.until_stored(folder, 300)
    early = write_dcp(tmp_path / "a", 20)
    job.until_stored(folder, 20)
    assert job.end() == 0
    assert stored(folder, 300) == late and stored(folder, 20) == early
    again = jobs(folder, tmp_path / "b")
    assert again.resumed() == (300, "step-300")
    assert again.end() == 0


def test_thousands_of_files_in_one_folder(jobs, folder, tmp_path):
    job = jobs(folder, tmp_path / "a")
    job.environment()
    files = write_dcp(tmp_path / "a", 1, {"part-%05d" % number: b"%d" % number for number in range(3000)})
    job.until_stored(folder, 1)
    assert job.end() == 0
    assert stored(folder, 1) == files
    again = jobs(folder, tmp_path / "b")
    assert again.resumed() == (1, "step-1")
    assert contents(tmp_path / "b") == files
    assert again.end() == 0


def test_names_with_odd_characters(jobs, store, tmp_path):
    job = jobs(store, tmp_path / "a b")
    job.environment()
    files = write_dcp(tmp_path / "a b", 1, {"with space": b"1", "über/ä%2F": b"2", "a+b&c=d": b"3", "empty": b""})
    job.until_stored(store, 1)
    assert job.end() == 0
    again = jobs(store, tmp_path / "c")
    assert again.resumed() == (1, "step-1")
    assert contents(tmp_path / "c") == files
    assert again.end() == 0


def test_keep_last(jobs, store, tmp_path):
    job = jobs(store, tmp_path / "a", "--keep-last", "2")
    job.environment()
    files = {}
    for step in (1, 2, 3, 4):
        files[step] = write_dcp(tmp_path / "a", step)
        job.until_stored(store, step)
    job.until(lambda: steps(store) == [3, 4], "the older ones are removed")
    assert job.end() == 0
    assert {step: stored(store, step) for step in steps(store)} == {3: files[3], 4: files[4]}
    assert sorted(path.name for path in (tmp_path / "a").glob("step-*")) == ["step-%d" % step for step in files]


def test_keep_local_removes_what_is_committed_and_nothing_else(jobs, bucket, tmp_path):
    """While there is no bucket, all stays."""
    job = jobs(bucket, tmp_path / "a", "--keep-local", "1")
    job.environment()
    bucket.client.delete_bucket(Bucket=bucket.bucket)
    files = {step: write_dcp(tmp_path / "a", step) for step in (1, 2, 3)}
    job.until(lambda: len(re.findall("step [123] could not be saved", job.log)) >= 3, "each is tried")
    present = {"step-1", "step-2", "step-3"}
    assert {path.name for path in (tmp_path / "a").glob("step-*")} == present
    bucket.client.create_bucket(Bucket=bucket.bucket)
    while present != {"step-3"}:
        present = {path.name for path in (tmp_path / "a").glob("step-*")}
        assert {1, 2, 3} - {int(name[len("step-"):]) for name in present} <= set(steps(bucket))
        assert job.process.poll() is None, job.log
    job.until_stored(bucket, 1, 2, 3)
    assert job.end() == 0
    assert {step: stored(bucket, step) for step in steps(bucket)} == files


def test_final(jobs, store, tmp_path):
    job = jobs(store, tmp_path / "a", "--final")
    job.environment()
    old, new = (write_dcp(tmp_path / "a", step) for step in (100, 200))
    fill(tmp_path / "a", {"losses.txt": b"1.5\n", "logs/events.out": noise(5000)})
    os.symlink("losses.txt", tmp_path / "a" / "latest")
    job.until_stored(store, 100, 200)
    assert steps(store) == [100, 200]
    assert job.end() == 0
    assert steps(store) == [100, 200, 201]
    files = stored(store, 201)
    assert files.items() >= {**new, "losses.txt": b"1.5\n", "logs/events.out": noise(5000)}.items()
    assert not files.keys() & (old.keys() | {OWN_FOLDER + "/state.json"})

    again = jobs(store, tmp_path / "b", "--final")
    assert again.resumed() == (200, "step-200")
    assert contents(tmp_path / "b") == files
    assert again.end() == 0


def test_final_state_without_any_checkpoint(jobs, store, tmp_path):
    job = jobs(store, tmp_path / "a", "--final")
    job.environment()
    files = {"model.pt": noise(5000), "logs/events.out": b"x"}
    fill(tmp_path / "a", files)
    assert job.end() == 0
    assert steps(store) == [0] and stored(store, 0) == files
    again = jobs(store, tmp_path / "b")
    assert again.resumed() is None
    assert contents(tmp_path / "b") == files
    assert again.end() == 0
    assert "restored step 0" in again.log


def test_a_final_state_leaves_what_is_in_the_folder(jobs, folder, tmp_path):
    job = jobs(folder, tmp_path / "a", "--final")
    job.environment()
    fill(tmp_path / "a", {"log": b"first", "other": b"same"})
    assert job.end() == 0
    fill(tmp_path / "a", {"log": b"first and second"})
    again = jobs(folder, tmp_path / "a")
    again.environment()
    assert contents(tmp_path / "a") == {"log": b"first and second", "other": b"same"}
    assert again.end() == 0


def test_a_checkpoint_takes_the_place_of_a_final_state(jobs, store, tmp_path):
    """Its number was the next one, which is nobody's until a job that goes on comes to it."""
    job = jobs(store, tmp_path / "a", "--final")
    job.environment()
    write_dcp(tmp_path / "a", 100)
    assert job.end() == 0
    assert steps(store) == [100, 101]
    again = jobs(store, tmp_path / "b")
    assert again.resumed() == (100, "step-100")
    files = write_dcp(tmp_path / "b", 101)
    assert again.end() == 0
    assert steps(store) == [100, 101] and stored(store, 101) == files


def test_no_final_state_of_a_command_that_failed(jobs, folder, tmp_path):
    job = jobs(folder, tmp_path / "a", "--final")
    job.environment()
    write_dcp(tmp_path / "a", 100)
    job.until_stored(folder, 100)
    assert job.end(3) == 3
    assert steps(folder) == [100]


def test_the_end_flushes_what_is_not_settled(jobs, store, tmp_path):
    """A command that ends right after its last checkpoint, as they all do."""
    job = jobs(store, tmp_path / "a")
    job.environment()
    files = {step: write_dcp(tmp_path / "a", step) for step in (1, 2)}
    assert job.end() == 0
    assert {step: stored(store, step) for step in steps(store)} == files


def test_a_second_one_on_the_same_folder_is_refused(jobs, folder, tmp_path):
    first = jobs(folder, tmp_path / "a")
    first.environment()
    second = jobs(folder, tmp_path / "a")
    assert second.wait() == OWN_FAILURE
    assert not (second.aside / "environment").exists()
    assert str(tmp_path / "a") in second.log
    files = write_dcp(tmp_path / "a", 1)
    first.until_stored(folder, 1)
    assert first.end() == 0
    assert stored(folder, 1) == files
    third = jobs(folder, tmp_path / "a")  # the lock goes with its process
    assert third.resumed() == (1, "step-1")
    assert third.end() == 0
