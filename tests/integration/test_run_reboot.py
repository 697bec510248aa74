"""`cleat run` at its start: the content of DIR counts as the checkpoint of the store only if its bytes are verified.

After a power cut, a file may have its name, size and times, but contain zeros. The tests make such a file. They write
the zeros, let a job with another store take the fingerprint of the file, and put that into state.json for the first
store.
"""

import json
import os

import pytest

import preloaded
from helpers import Folder, noise
from run_jobs import OWN_FOLDER, contents, run_metadata, stored, write_dcp

FILES = {"__0_0.distcp": noise(3 << 20, 1), "__1_0.distcp": noise(100000, 2)}
BOOT = open("/proc/sys/kernel/random/boot_id").read().strip()
ANOTHER_BOOT = "01234567-89ab-cdef-0123-456789abcdef"


def state_of(directory):
    return json.loads((directory / OWN_FOLDER / "state.json").read_text())


def write_state(directory, state):
    (directory / OWN_FOLDER / "state.json").write_text(json.dumps(state))


def set_boot(directory, boot):
    """None: as a version wrote it that knew of none."""
    state = state_of(directory)
    for entry in state["committed"]:
        entry.pop("boot")
        if boot is not None:
            entry["boot"] = boot
    write_state(directory, state)


def seed(jobs, store, directory, *options):
    job = jobs(store, directory, *options)
    job.environment()
    files = write_dcp(directory, 100, FILES)
    job.until_stored(store, 100)
    assert job.end() == 0
    assert [entry["boot"] for entry in state_of(directory)["committed"]] == [BOOT]
    return files


def damage(jobs, store, directory, tmp_path, boot):
    """Zeros in the middle of a file, of which state.json says that it is what the store has."""
    path = directory / "step-100" / "__0_0.distcp"
    before = path.stat()
    with open(path, "r+b") as file:
        file.seek(1 << 20)
        file.write(bytes(4096))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    other = Folder(tmp_path / "other-store")
    job = jobs(other, directory)
    job.environment()
    job.until_stored(other, 100)
    assert job.end() == 0
    state = state_of(directory)
    state["store"] = store.url
    state["committed"][0]["id"] = run_metadata(store, 100)["id"]
    write_state(directory, state)
    set_boot(directory, boot)
    return contents(directory)


def inodes(directory):
    return {path.name: (path.stat().st_ino, path.stat().st_ctime_ns) for path in (directory / "step-100").iterdir()}


@pytest.mark.parametrize("boot", [ANOTHER_BOOT, None, "", "x" * 100], ids=["another", "unknown", "empty", "odd"])
def test_zeros_after_a_reboot_are_found_and_restored_over(jobs, folder, tmp_path, boot):
    directory = tmp_path / "a"
    files = seed(jobs, folder, directory)
    assert damage(jobs, folder, directory, tmp_path, boot) != files
    job = jobs(folder, directory)
    assert job.resumed() == (100, "step-100")
    assert contents(directory) == files
    assert job.end() == 0
    assert "is damaged" in job.log and "step-100/__0_0.distcp" in job.log and "restored step 100" in job.log
    assert [entry["boot"] for entry in state_of(directory)["committed"]] == [BOOT]
    assert stored(folder, 100) == files


def test_in_the_same_boot_the_bytes_are_not_read(jobs, folder, tmp_path):
    """So the zeros, which no power cut can have left by then, are not found."""
    directory = tmp_path / "a"
    files = seed(jobs, folder, directory)
    damaged = damage(jobs, folder, directory, tmp_path, BOOT)
    before = inodes(directory)
    job = jobs(folder, directory)
    assert job.resumed() == (100, "step-100")
    assert job.end() == 0
    assert contents(directory) == damaged != files
    assert inodes(directory) == before and "damaged" not in job.log


def test_what_is_whole_after_a_reboot_is_checked_once(jobs, folder, tmp_path):
    directory = tmp_path / "a"
    files = seed(jobs, folder, directory)
    set_boot(directory, ANOTHER_BOOT)
    before = inodes(directory)
    told = []
    for _ in range(2):
        job = jobs(folder, directory)
        assert job.resumed() == (100, "step-100")
        assert job.end() == 0
        told.append("its bytes match" in job.log)
        assert [entry["boot"] for entry in state_of(directory)["committed"]] == [BOOT]
    assert told == [True, False]
    assert inodes(directory) == before and contents(directory) == files


def test_what_was_restored_is_known(jobs, folder, tmp_path):
    seed(jobs, folder, tmp_path / "a")
    for told in (False, False):
        job = jobs(folder, tmp_path / "b")
        assert job.resumed() == (100, "step-100")
        assert job.end() == 0
        assert ("its bytes match" in job.log) == told
    assert [entry["boot"] for entry in state_of(tmp_path / "b")["committed"]] == [BOOT]


def test_a_lost_state_means_that_the_bytes_are_checked(jobs, folder, tmp_path):
    seed(jobs, folder, tmp_path / "a")
    (tmp_path / "a" / OWN_FOLDER / "state.json").unlink()
    before = inodes(tmp_path / "a")
    job = jobs(folder, tmp_path / "a")
    assert job.resumed() == (100, "step-100")
    assert job.end() == 0
    assert "its bytes match" in job.log and inodes(tmp_path / "a") == before


def test_the_final_state_is_checked_too(jobs, folder, tmp_path):
    """With what lies beside the checkpoint: a file there that is damaged is replaced, which otherwise stays."""
    directory = tmp_path / "a"
    directory.mkdir()
    (directory / "log.txt").write_bytes(noise(50000, 5))
    job = jobs(folder, directory, "--final")
    job.environment()
    write_dcp(directory, 100, FILES)
    job.until_stored(folder, 100)
    assert job.end() == 0
    whole = contents(directory)
    set_boot(directory, ANOTHER_BOOT)
    held = jobs(folder, directory)
    assert held.resumed() == (100, "step-100")
    assert held.end() == 0 and "its bytes match" in held.log
    assert contents(directory) == whole

    # The fingerprint of the damaged state is that of another store's final one.
    (directory / "log.txt").write_bytes(bytes(50000))
    other = Folder(tmp_path / "other-store")
    job = jobs(other, directory, "--final")
    job.environment()
    assert job.end() == 0
    state, last = state_of(
        directory), max(int(name[5:]) for name in os.listdir(folder.path) if name.startswith("step-"))
    entry = max(state["committed"], key=lambda entry: int(entry["step"]))
    write_state(directory, dict(state, store=folder.url, committed=[dict(entry, step=str(last), boot=ANOTHER_BOOT,
                                                                           id=run_metadata(folder, last)["id"])]))
    job = jobs(folder, directory)
    assert job.resumed() == (100, "step-100")
    assert job.end() == 0
    assert "is damaged" in job.log and "log.txt" in job.log
    assert contents(directory) == whole


def test_a_long_check_is_shown(jobs, folder, bad_disk, tmp_path):
    directory = tmp_path / "a"
    seed(jobs, folder, directory)
    set_boot(directory, ANOTHER_BOOT)
    job = jobs(folder, directory, environment=dict(bad_disk, SLOW_READ_MS="2000"))
    job.until(lambda: "checking the folder's checkpoint: " in job.log, "progress")
    assert not (job.aside / "environment").exists()
    job.kill()


# ---- Newer than the store --------------------------------------------------------------------------------------------

DOUBT = "cannot be detected"


def start_ahead(jobs, store, directory, **more):
    """A start on a DIR whose newest checkpoint, 200, no store has; whether it is said that it may be damaged."""
    write_dcp(directory, 200, FILES)
    job = jobs(store, directory, **more)
    assert job.resumed() == (200, "step-200")
    job.until_stored(store, 200)
    assert job.end() == 0
    return DOUBT in job.log and "step-200" in job.log


@pytest.mark.parametrize("boot", [BOOT, ANOTHER_BOOT, None], ids=["same", "another", "unknown"])
def test_a_newer_one_of_another_boot_is_doubted(jobs, folder, tmp_path, boot):
    seed(jobs, folder, tmp_path / "a")
    set_boot(tmp_path / "a", boot)
    assert start_ahead(jobs, folder, tmp_path / "a") == (boot != BOOT)


def test_a_newer_one_from_before_the_machine_came_up_is_doubted(jobs, folder, tmp_path):
    """By the times of its files, also where nothing was ever stored. The faked clock says that the machine came up
    tomorrow."""
    tomorrow = dict(preloaded.build(tmp_path, preloaded.OTHER_WORLD), FAKED_SKEW_S="86400")
    assert start_ahead(jobs, folder, tmp_path / "a", environment=tomorrow)
    assert not start_ahead(jobs, Folder(tmp_path / "other-store"), tmp_path / "b")
