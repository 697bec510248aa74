"""`cleat run` with the folders of each training tool: a checkpoint is saved when it is complete and not before, and
every file is restored.

layout_folders.py writes like the tools and stops at any point. boto3 or the file system reads the stores.
"""

import itertools
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from helpers import CLEAT, Folder, fill, found, noise
from layout_folders import (LAYOUTS, deepspeed, huggingface, infinitrain, lightning, llmc, megatron, nemo, torchtune,
                            write_all, write_until)
from run_jobs import contents, run_metadata, steps, stored, until, write_dcp

CANARY = 999999  # a later step in another layout: when it is stored, an earlier one would be
# Those without a sign are taken when they are quiet; where that is not what is tested, it never happens.
NEVER = ("--quiet-time", "36000")
QUIET = ("--quiet-time", "1")
# How long it must be unchanged; 1 for all others.
SETTLE_S = {layout: 5 for layout in ("huggingface", "deepspeed", "nemo", "verl")}


def path_of(layout, step):
    return {"dcp": "step-{}", "torchtune": "epoch_{}", "huggingface": "checkpoint-{}", "megatron": "iter_{:07d}",
            "lightning": "epoch=0-step={}.ckpt", "llmc": ".", "infinitrain": "checkpoint_step_{:06d}",
            "deepspeed": "global_step{}", "nemo": "model_name--val_loss=1.23-step={}-consumed_samples={}.0",
            "verl": "global_step_{}", "orbax": "{}", "accelerate": "checkpoints/checkpoint_{}",
            "composer": "ep0-ba{}-rank0.pt"}[layout].format(step, step * 8)


def written(tmp_path, layout, step, seed, **more):
    """What the tool writes for this step alone."""
    folder = tmp_path / "expected" / ("%s-%d" % (layout, step))
    folder.mkdir(parents=True)
    write_all(LAYOUTS[layout](folder, step, seed, **more))
    (folder / "latest-rank0.pt").unlink(missing_ok=True)  # a link, which is not saved
    return contents(folder)


# Where several ranks write side by side, there are two of them.
RANKS = {"dcp": {"ranks": 2}, "megatron": {"ranks": 2}, "llmc": {"ranks": 2}, "infinitrain": {"ddp": 2},
         "huggingface": {"ranks": 2}, "nemo": {"last": False}}
# What "auto" knows nothing of without its sign.
SIGNLESS = ("dcp", "verl", "orbax")


@pytest.mark.parametrize("named", ["auto", "named"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_saved_and_restored_file_for_file(jobs, bucket, folder, tmp_path, layout, named):
    store = bucket if named == "auto" else folder
    options = [*QUIET, "--layout", "auto" if named == "auto" else layout]
    more = RANKS.get(layout, {})
    job = jobs(store, tmp_path / "a", *options)
    job.environment()
    expected = {}
    for step in (7, 12):
        write_all(LAYOUTS[layout](tmp_path / "a", step, step, **more))
        expected[step] = written(tmp_path, layout, step, step, **more)
        job.until_stored(store, step)
        if store is folder:
            written_at = max(os.stat(tmp_path / "a" / name).st_mtime for name in expected[step])
            assert os.stat(folder.path / folder.manifest_key(step)).st_mtime - written_at > SETTLE_S.get(layout,
                                                                                                         1) - 0.01
    assert job.end() == 0
    assert {step: stored(store, step) for step in steps(store)} == expected
    assert run_metadata(store, 12)["layout"] == layout

    again = jobs(store, tmp_path / "b", *options)
    assert again.resumed() == (12, path_of(layout, 12))
    assert contents(tmp_path / "b") == expected[12]
    write_all(LAYOUTS[layout](tmp_path / "b", 20, 20, **more))
    again.until_stored(store, 20)
    assert again.end() == 0
    assert steps(store) == [7, 12, 20]
    assert stored(store, 20) == written(tmp_path, layout, 20, 20, **more)

    older = jobs(store, tmp_path / "c", *options, "--step", "7")
    assert older.resumed() == (7, path_of(layout, 7))
    assert contents(tmp_path / "c") == expected[7]
    assert older.end() == 0


@pytest.mark.parametrize("layout", [layout for layout in LAYOUTS if layout not in ("torchtune", "accelerate")])
def test_stopped_anywhere_in_its_writes_it_is_not_saved(jobs, folder, tmp_path, layout):
    """Each step stops one thing later than the one before it; one more tool then writes a checkpoint to its end."""
    more = RANKS.get(layout, {})
    if layout == "huggingface":
        more = {"ranks": 1}  # with more, the last files come after the sign, and nobody can tell
    length = len(write_all(LAYOUTS[layout](fill(tmp_path / "count", {"x": b""}), 1, **more)))
    if layout == "composer":
        length -= 1  # the link comes after it is whole
    job = jobs(folder, tmp_path / "a", *NEVER)
    job.environment()
    for end in range(1, length):
        step = 100 + end
        for done in itertools.islice(LAYOUTS[layout](tmp_path / "a", step, step, **more), end):
            print(done)
        if layout in ("megatron", "verl"):  # else the next one's tracker speaks of this one too
            (tmp_path / "a" / "latest_checkpointed_iteration.txt").unlink(missing_ok=True)
    if layout in SETTLE_S:  # the canary is to be no faster
        write_all(huggingface(tmp_path / "a", CANARY))
    else:
        write_dcp(tmp_path / "a", CANARY)
    job.until_stored(folder, CANARY)
    assert steps(folder) == [CANARY]
    assert job.end() == 0
    assert steps(folder) == [CANARY]  # nor is it at the end
    if layout not in SIGNLESS:
        assert "%d" % (100 + length - 1) in job.log


def test_without_a_sign_it_is_saved_when_quiet_or_at_a_good_end(jobs, folder, tmp_path):
    for number, (options, status, wanted) in enumerate([(NEVER, 0, [3]), (NEVER, 1, []), (QUIET, 1, [3])]):
        directory, store = tmp_path / ("dir-%d" % number), Folder(tmp_path / ("store-%d" % number))
        job = jobs(store, directory, *options)
        job.environment()
        write_all(torchtune(directory, 3))
        if options == QUIET:
            job.until_stored(store, 3)
        assert job.end(status) == status
        assert steps(store) == wanted


def test_a_megatron_folder_of_which_the_tracker_does_not_speak_yet(jobs, folder, tmp_path):
    """The tracker of the step before it does not make it whole, and its own does."""
    job = jobs(folder, tmp_path / "a")
    job.environment()
    write_all(megatron(tmp_path / "a", 10))
    job.until_stored(folder, 10)
    writer = megatron(tmp_path / "a", 20)
    write_until(writer, "file iter_0000020/metadata.json")
    write_dcp(tmp_path / "a", CANARY)
    job.until_stored(folder, CANARY)
    assert steps(folder) == [10, CANARY]
    write_all(writer)
    job.until_stored(folder, 20)
    assert job.end() == 0
    assert stored(folder, 10) == written(tmp_path, "megatron", 10, 0)
    assert stored(folder, 20) == written(tmp_path, "megatron", 20, 0)


def test_megatron_saved_late_has_its_own_tracker(jobs, folder, tmp_path):
    """Two come at once: the tracker speaks of the newer one when the older one is saved."""
    job = jobs(folder, tmp_path / "a")
    job.environment()
    for step in (10, 20):
        write_all(megatron(tmp_path / "a", step))
    job.until_stored(folder, 10, 20)
    assert job.end() == 0
    older = jobs(folder, tmp_path / "b", "--step", "10")
    assert older.resumed() == (10, "iter_0000010")
    assert contents(tmp_path / "b") == written(tmp_path, "megatron", 10, 0)
    assert older.end() == 0


def test_late_files_of_other_ranks_belong_to_it(jobs, folder, tmp_path):
    """The sign of transformers' rank 0 comes while another rank still writes; the settling waits for that."""
    job = jobs(folder, tmp_path / "a")
    job.environment()
    writer = huggingface(tmp_path / "a", 5, ranks=3)
    write_until(writer, "file checkpoint-5/trainer_state.json")
    write_all(writer)
    job.until_stored(folder, 5)
    assert job.end() == 0
    assert stored(folder, 5) == written(tmp_path, "huggingface", 5, 0, ranks=3)


def test_nemos_last_stands_for_its_step(jobs, folder, tmp_path):
    """NeMo resumes by itself from the name that ends in -last alone, and writes that one second."""
    job = jobs(folder, tmp_path / "a")
    job.environment()
    for step in (7, 12):
        write_all(nemo(tmp_path / "a", step, step))
        name = "step=%d-consumed_samples=%d.0-last/weights/common.pt" % (step, 8 * step)
        job.until(lambda: step in steps(folder) and any(file.endswith(name) for file in stored(folder, step)),
                  "the last of step %d is stored" % step)
    assert job.end() == 0
    assert steps(folder) == [7, 12]
    again = jobs(folder, tmp_path / "b")
    assert again.resumed() == (12, path_of("nemo", 12) + "-last")
    assert {name for name in contents(tmp_path / "b") if "-last/" not in name} == set()
    assert again.end() == 0


def test_deepspeed_names_its_newest_folder_before_all_ranks_are_done(jobs, folder, tmp_path):
    """Rank 0 names it in `latest` and waits for nobody. How many ranks there are stands in the model's states."""
    job = jobs(folder, tmp_path / "a")
    job.environment()
    write_all(deepspeed(tmp_path / "a", 7, ranks=3))
    late = tmp_path / "a" / "global_step7" / "bf16_zero_pp_rank_2_mp_rank_00_optim_states.pt"
    data = late.read_bytes()
    late.unlink()
    write_all(huggingface(tmp_path / "a", CANARY))
    job.until_stored(folder, CANARY)
    assert steps(folder) == [CANARY]
    late.write_bytes(data)
    job.until_stored(folder, 7)
    assert job.end() == 0
    assert stored(folder, 7) == written(tmp_path, "deepspeed", 7, 0, ranks=3)


def test_accelerates_older_ones_are_removed_here(jobs, folder, tmp_path):
    """They lie in a folder of DIR, which stays."""
    job = jobs(folder, tmp_path / "a", *QUIET, "--keep-local", "1")
    job.environment()
    for step in (7, 12):
        write_all(LAYOUTS["accelerate"](tmp_path / "a", step, step))
        job.until_stored(folder, step)
    job.until(lambda: [path.name for path in (tmp_path / "a" / "checkpoints").iterdir()] == ["checkpoint_12"],
              "the older one is removed")
    assert job.end() == 0
    (tmp_path / "b" / "checkpoints" / "mine").mkdir(parents=True)
    again = jobs(folder, tmp_path / "b", "--step", "7")
    assert again.resumed() == (7, "checkpoints/checkpoint_7")
    assert contents(tmp_path / "b") == written(tmp_path, "accelerate", 7, 7)
    assert (tmp_path / "b" / "checkpoints" / "mine").is_dir()
    assert again.end() == 0


@pytest.mark.parametrize("last", ["copy", "link"])
def test_lightnings_last_is_no_checkpoint_of_its_own(jobs, folder, tmp_path, last):
    job = jobs(folder, tmp_path / "a")
    job.environment()
    write_all(lightning(tmp_path / "a", 4, last=last))
    job.until_stored(folder, 4)
    assert job.end() == 0
    assert steps(folder) == [4]
    assert stored(folder, 4) == written(tmp_path, "lightning", 4, 0)


def test_two_names_of_one_step(jobs, folder, tmp_path):
    job = jobs(folder, tmp_path / "a", "--layout", "huggingface")
    job.environment()
    write_all(huggingface(tmp_path / "a", 7, seed=1))
    shutil.copytree(tmp_path / "a" / "checkpoint-7", tmp_path / "a" / "checkpoint-007")
    (tmp_path / "a" / "checkpoint-007" / "config.json").write_bytes(b"{}")
    job.until_stored(folder, 7)
    assert job.end() == 0
    assert steps(folder) == [7]
    assert stored(folder, 7) == written(tmp_path, "huggingface", 7, 1)
    assert "checkpoint-007" in job.log


def test_folders_by_a_pattern(jobs, store, tmp_path):
    options = ("--pattern", "ckpt_*", *QUIET)
    job = jobs(store, tmp_path / "a", *options)
    job.environment()
    files = {"ckpt_a3_0010/model.bin": noise(5000), "ckpt_a3_0010/sub/x": b"x"}
    fill(tmp_path / "a", {**files, "other_11/model.bin": b"no", "ckpt_without/model.bin": b"no"})
    job.until_stored(store, 10)
    fill(tmp_path / "a", {"ckpt_12.pt": b"a file"})
    job.until_stored(store, 12)
    assert job.end() == 0
    assert {step: stored(store, step) for step in steps(store)} == {10: files, 12: {"ckpt_12.pt": b"a file"}}
    again = jobs(store, tmp_path / "b", *options, "--step", "10")
    assert again.resumed() == (10, "ckpt_a3_0010")
    assert contents(tmp_path / "b") == files
    assert again.end() == 0


def test_cleats_own_folders(jobs, store, tmp_path):
    """A trainer that saves into DIR with Cleat itself."""
    inner = Folder(tmp_path / "a")
    (tmp_path / "a").mkdir()
    source = fill(tmp_path / "source", {"model.bin": noise(100000), "sub/x": b"x"})
    job = jobs(store, tmp_path / "a")
    job.environment()
    inner.save(source, 7)
    job.until_stored(store, 7)
    assert job.end() == 0
    again = jobs(store, tmp_path / "b")
    assert again.resumed() == (7, "step-%012d" % 7)
    assert contents(tmp_path / "b") == {name: data for name, data in contents(tmp_path / "a").items()
                                        if name.startswith("step-")}
    assert again.end() == 0
    result = Folder(tmp_path / "b").cleat("verify", "file://%s" % (tmp_path / "b"))
    assert result.code == 0, result


def test_what_a_killed_trainer_left_in_cleats_own_folder(jobs, store, tmp_path):
    """Its next start saves the step anew, beside what was never finished; that has names that no store takes."""
    inner, large = Folder(tmp_path / "a"), tmp_path / "large"
    (tmp_path / "a").mkdir()
    with open(large, "wb") as file:
        file.truncate(1 << 30)
    killed = subprocess.Popen([CLEAT, "save", "-q", large, inner.url, "--step", "7"])
    try:
        until(lambda: found(tmp_path / "a", ".cleat-upload-*.parts"), "the save is under way")
    finally:
        killed.kill()
        killed.wait()
    inner.save(fill(tmp_path / "source", {"model.bin": noise(100000)}), 7)
    folder, = (tmp_path / "a").glob("step-*")
    fill(folder, {".cleat-put-0123456789abcdef": b"half", ".cleat-lock": b""})
    job = jobs(store, tmp_path / "a", "--final")
    job.environment()
    fill(tmp_path / "a", {".cleat-lock": b"", "log": b"x"})
    assert job.end() == 0
    assert steps(store) == [7, 8]
    whole = {name: data for name, data in contents(tmp_path / "a").items()
             if name.startswith("step-") and "/.cleat-" not in name}
    assert len(whole) == 4 and stored(store, 7) == whole  # the claim of the one that was killed among them
    assert stored(store, 8) == {**whole, "log": b"x"}


def test_links_and_special_files_in_a_checkpoint(jobs, folder, tmp_path):
    """What cannot be saved as it is, is not saved in part: it is said, and the exit status says so."""
    job = jobs(folder, tmp_path / "a")
    job.environment()
    write_dcp(tmp_path / "a", 1)
    (tmp_path / "elsewhere").mkdir()
    os.symlink(tmp_path / "elsewhere", tmp_path / "a" / "step-1" / "link")
    write_dcp(tmp_path / "a", 2)
    os.mkfifo(tmp_path / "a" / "step-2" / "pipe")
    files = write_dcp(tmp_path / "a", 3)
    job.until_stored(folder, 3)
    status = job.end()
    print(status)
    assert steps(folder) == [3] and stored(folder, 3) == files
    assert status == 125
    assert "step-1" in job.log and "step-2" in job.log
