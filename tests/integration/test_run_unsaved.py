"""`cleat run` with a command whose output nobody saves: a warning comes while it can still be corrected, and the exit
status is not 0."""

import os

import pytest

from helpers import ROOT, fill, noise
from layout_folders import huggingface, write_all, write_until
from run_jobs import OWN_FAILURE, contents, steps, stored, write_dcp

LARGE = 1 << 20  # a name with so much below it may be a checkpoint
METADATA = ROOT / "tests" / "fuzz" / "corpus" / "pickle" / "torch-2.15-two-ranks"


def test_files_of_an_unknown_tool(jobs, folder, tmp_path):
    """While the command runs and at the end, with names and sizes."""
    job = jobs(folder, tmp_path / "a")
    job.environment()
    fill(tmp_path / "a",
         {"saved/at-7/weights.pt": noise(LARGE), "saved/at-7/rank1/weights.pt": noise(5), "small": b"x"})
    job.until(lambda: '2 names with 3 files, 1.0 MiB, such as "saved" (1.0 MiB), "small" (1 B)' in job.log,
              "it is said that nothing of this is a checkpoint")
    assert job.log.count("such as") == 1
    assert job.end() == OWN_FAILURE
    assert job.log.count('such as "saved" (1.0 MiB)') == 2
    assert "--allow-unsaved" in job.log
    assert steps(folder) == []


@pytest.mark.parametrize("files, options, status, wanted", [
    ({"model.pt": noise(LARGE)}, ["--allow-unsaved"], 0, 0),
    ({"model.pt": noise(LARGE)}, ["--final"], 0, 0),
    ({"model.pt": noise(LARGE)}, [], 7, 7),
    ({"model.pt": noise(LARGE)}, [], 0, OWN_FAILURE),
    ({"model.pt": noise(LARGE)}, ["--layout", "huggingface"], 0, OWN_FAILURE),
    ({"a/%d.pt" % part: noise(LARGE // 4) for part in range(4)}, [], 0, OWN_FAILURE),
    ({"model.pt": noise(LARGE - 1), "other.pt": noise(LARGE - 1)}, [], 0, 0),
    ({"train.log": noise(LARGE), "runs/events.out.tfevents.1.host": noise(LARGE), ".cache/x": noise(LARGE)}, [], 0, 0),
    ({"model.pt": noise(LARGE), "step_7/x": b"x"}, ["--pattern", "step_*"], 0, 0),
    ({"tokenizer.model": noise(1000)}, [], 0, 0),
    ({}, [], 0, 0),
])
def test_what_the_end_is(jobs, folder, tmp_path, files, options, status, wanted):
    job = jobs(folder, tmp_path / "a", *options)
    job.environment()
    fill(tmp_path / "a", files)
    assert job.end(status) == wanted
    unsaved = not steps(folder) and any(not name.endswith("log") and name[0] != "." and "tfevents" not in name
                                        for name in files)
    assert ("nothing that the command wrote" in job.log) == unsaved


def test_what_was_there_before_is_not_the_commands(jobs, folder, tmp_path):
    fill(tmp_path / "a", {"base-model/weights.pt": noise(LARGE), "data/x": noise(LARGE)})
    job = jobs(folder, tmp_path / "a")
    job.environment()
    os.chmod(tmp_path / "a" / "base-model" / "weights.pt", 0o600)
    os.rename(tmp_path / "a" / "data", tmp_path / "a" / "dataset")
    assert job.end() == 0
    assert "nothing that" not in job.log


def test_after_a_restore(jobs, folder, tmp_path):
    """What was restored is in the store already; what the command writes then is not."""
    job = jobs(folder, tmp_path / "a")
    job.environment()
    write_dcp(tmp_path / "a", 7, {"__0_0.distcp": noise(LARGE)})
    job.until_stored(folder, 7)
    fill(tmp_path / "a", {"final.pt": noise(LARGE)})
    assert job.end() == 0  # something was saved
    for number, (files, wanted) in enumerate([({}, 0), ({"final.pt": noise(LARGE)}, OWN_FAILURE)]):
        again = jobs(folder, tmp_path / ("b%d" % number))
        assert again.resumed() == (7, "step-7")
        fill(again.directory, files)
        assert again.end() == wanted
        assert ("nothing that" in again.log) == bool(files)
        there = jobs(folder, again.directory)  # held this time
        assert there.resumed() == (7, "step-7")
        assert there.end() == 0


@pytest.mark.parametrize("options, wanted", [([], OWN_FAILURE), (["--allow-unsaved"], 0)])
def test_checkpoints_none_of_which_became_whole(jobs, folder, tmp_path, options, wanted):
    """However small: its tool began it."""
    job = jobs(folder, tmp_path / "a", *options)
    job.environment()
    write_until(huggingface(tmp_path / "a", 7), "file checkpoint-7/optimizer.pt")
    assert job.end() == wanted
    assert "NOT SAVED: step 7 (checkpoint-7)" in job.log
    left = jobs(folder, tmp_path / "a", *options)
    left.environment()
    assert left.end() == 0  # that is not what this command has written


def write_two_ranks(directory, step):
    """What PyTorch wrote with two ranks, as on the machine of the first one."""
    return write_dcp(directory, step, {"__0_0.distcp": b"%d" % step * 1000}, METADATA.read_bytes())


def test_files_that_are_on_another_machine(jobs, folder, tmp_path):
    """.metadata names them. It is said while the command runs, and what comes late makes it whole."""
    job = jobs(folder, tmp_path / "a")
    job.environment()
    files = write_two_ranks(tmp_path / "a", 7)
    told = "'step-7' is not saved: it is incomplete: 1 of the files that it names is missing here, " \
           "such as '__1_0.distcp'"
    job.until(lambda: told in job.log, "it is said that a file is elsewhere")
    assert steps(folder) == []
    (tmp_path / "late").write_bytes(b"late")
    os.rename(tmp_path / "late", tmp_path / "a" / "step-7" / "__1_0.distcp")
    job.until_stored(folder, 7)
    assert job.end() == 0
    assert stored(folder, 7) == {**files, "step-7/__1_0.distcp": b"late"}


def test_a_part_of_a_checkpoint_is_no_success(jobs, folder, tmp_path):
    """Although an older one was saved."""
    job = jobs(folder, tmp_path / "a")
    job.environment()
    write_dcp(tmp_path / "a", 6)
    job.until_stored(folder, 6)
    write_two_ranks(tmp_path / "a", 7)
    assert job.end() == OWN_FAILURE
    assert "NOT SAVED: step 7 (step-7): it is incomplete: 1 of the files that it names is missing here, such as " \
           "'__1_0.distcp'" in job.log
    assert steps(folder) == [6]
    again = jobs(folder, tmp_path / "a")
    assert again.resumed() == (6, "step-6")
    assert again.end() == 0
    assert contents(tmp_path / "a")["step-7/.metadata"] == METADATA.read_bytes()


def test_a_list_that_cannot_be_read(jobs, folder, tmp_path):
    job = jobs(folder, tmp_path / "a")
    job.environment()
    for step in (6, 7):
        write_dcp(tmp_path / "a", step)
    job.until_stored(folder, 6, 7)
    assert job.end() == 0
    assert job.log.count("/.metadata', which names the checkpoint's files, cannot be read: not understood") == 1
