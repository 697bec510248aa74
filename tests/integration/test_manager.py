"""A training loop with a manager (tools/train_managed.c), on a folder and on MinIO.

Nothing is judged by the manager. Stored objects are listed and read from the store itself. Final states of runs are
compared by their hashes.
"""

import json
import signal
import struct
import subprocess
from pathlib import Path

import pytest

from helpers import CLEAT, Folder, fill, safetensors

PROGRAM = Path(CLEAT).parent / "tests" / "integration" / "train_managed"
SECONDS_MAX = 120


class Run:
    """How a run ended and what it said."""

    def __init__(self, store, last, *settings, url=None, code=0):
        done = subprocess.run([PROGRAM, url or store.url, str(last), *settings], env=store.environment,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=SECONDS_MAX)
        self.err = done.stderr.decode()
        self.lines = done.stdout.decode().splitlines()
        assert done.returncode == code, (done.returncode, self.lines, self.err)

    def said(self, word):
        return [line.split(" ", 1)[1] for line in self.lines if line.startswith(word + " ")]


def steps(store, below=""):
    """What is committed, from the store's keys alone."""
    return [int(key.split("step-")[1].split("/")[0]) for key in store.keys()
            if key.startswith(below) and key.endswith("/manifest.json")]


def objects(store):
    """All of every step. Starts are registered besides."""
    return [key for key in store.keys() if key.startswith("step-")]


def tensors(store, step):
    """Tensor to file, from the rank record."""
    record = store.record(step)
    return {tensor["name"]: record["files"][tensor["pieces"][0]["file"]]["name"] for tensor in record["tensors"]}


def flip(store, step, offset):
    key = store.file_key(step, "model.safetensors")
    data = bytearray(store.get(key))
    data[offset] ^= 1
    store.put(key, bytes(data))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The hash that 45 steps end with when nothing goes wrong."""
    folder = Folder(tmp_path_factory.mktemp("undisturbed") / "store")
    return Run(folder, 45).said("hash")


def resumed(run, seen, may_follow):
    """Where it went on: from the newest that was seen, or from the one whose commit the dead had asked for already."""
    (step,) = map(int, run.said("resumed"))
    assert step in (seen[-1], may_follow)
    return step


def test_a_killed_run_goes_on_as_if_nothing_had_happened(store, undisturbed):
    """Killed twice, with saves under way, it ends as the run that was not."""
    Run(store, 45, "die=24", "there=10", code=-signal.SIGKILL)
    first = steps(store)
    assert first in ([10], [10, 20])
    again = Run(store, 45, "die=41", "there=30", code=-signal.SIGKILL)
    resumed(again, first, 20)
    second = steps(store)
    assert second in ([10, 20, 30], [10, 20, 30, 40])
    last = Run(store, 45)
    step = resumed(last, second, 40)
    assert last.said("value") == ["best_metric %.17g" % (1 / step)]
    assert last.said("hash") == undisturbed
    assert last.said("latest") == ["45"]
    assert steps(store) == [10, 20, 30, 40, 45]
    assert store.manifest(45)["metadata"] == {"best_metric": 1 / 45, "data_position": 45 * 17}


def test_the_final_step_is_saved_once_also_on_the_interval(store):
    run = Run(store, 30)
    assert run.said("saving") == ["10", "20", "30"]
    assert steps(store) == [10, 20, 30]
    # Once more, from the end: there is nothing left to do.
    there = objects(store)
    again = Run(store, 30)
    assert again.said("resumed") == ["30"] and again.said("saving") == []
    assert objects(store) == there


def test_a_run_goes_back_and_ends_as_if_nothing_had_gone_wrong(store, undisturbed):
    run = Run(store, 45, "spoil=36", "back=20")
    assert run.said("saving") == ["10", "20", "30", "30", "40", "45"]
    assert run.said("back") == ["20"]
    assert run.said("hash") == undisturbed
    assert steps(store) == [10, 20, 30, 40, 45]
    # What was saved before it went back is in the store no more, for nobody.
    again = Run(store, 45)
    assert again.said("resumed") == ["45"] and again.said("hash") == undisturbed


def test_what_is_superseded_is_not_resumed_from_after_a_kill(store, undisturbed):
    """Killed right after it went back, before anything new was saved."""
    run = Run(store, 45, "spoil=36", "back=20", "die=0", code=-signal.SIGKILL)
    assert run.said("back") == ["20"]
    assert steps(store) == [10, 20]
    last = Run(store, 45)
    assert last.said("resumed") == ["20"]
    assert last.said("hash") == undisturbed
    assert steps(store) == [10, 20, 30, 40, 45]


@pytest.mark.parametrize("how, said", [("fail", "EXISTS PENDING"), ("skip", "OK SKIPPED"), ("replace", "OK COMMITTED")])
def test_the_last_step_once_more(store, how, said):
    """By the same client, with other weights: nobody is told a success that is none."""
    run = Run(store, 25, "again=" + how)
    assert run.said("again") == [said]
    assert steps(store) == [10, 20, 25]
    # What the store has of it, a run without steps left tells.
    stored = Run(store, 25)
    assert stored.said("resumed") == ["25"]
    assert (stored.said("hash") == run.said("hash")) == (how == "replace")


@pytest.mark.parametrize("keep, left", [("0", [10, 20, 30, 40, 45]), ("-1", [45]), ("1", [40, 45]),
                                        ("2", [30, 40, 45])])
def test_keep_last(store, keep, left):
    Run(store, 45, "keep=" + keep)
    assert steps(store) == left
    # What is removed is removed whole.
    assert {int(key.split("step-")[1].split("/")[0]) for key in objects(store)} == set(left)


def test_sessions_do_not_mix(store):
    Run(store, 25, "session=a", "keep=-1")
    other = Run(store, 15, "session=b", "keep=-1")
    assert other.lines[0] == "scratch"
    assert steps(store, "a/") == [25] and steps(store, "b/") == [15]
    assert Run(store, 35, "session=a", "keep=1").said("resumed") == ["25"]
    assert steps(store, "b/") == [15]


def test_loading_is_wanted_or_not_or_forced(store):
    assert "loading is forced" in Run(store, 15, "load=force", code=1).err
    assert Run(store, 15, "load=never").lines[0] == "scratch"
    assert Run(store, 25, "load=force").said("resumed") == ["15"]
    refused = Run(store, 45, "load=never", code=1)
    assert refused.said("failed") == ["step 10 is not newer than the latest, step 25"]
    assert steps(store) == [10, 15, 20, 25]


def test_damaged_checkpoints_are_skipped_with_a_warning_and_saved_anew(store, undisturbed):
    Run(store, 45, "die=45", code=-signal.SIGKILL)
    there = steps(store)
    assert there == [10, 20, 30, 40, 45]  # the final save is synchronous
    store.delete(store.file_key(45, "model.safetensors"))
    flip(store, 40, 100000)
    run = Run(store, 45)
    assert run.said("resumed") == ["30"]
    assert run.err.count("passed over") == 2, run.err
    assert run.said("saving") == ["40", "45"]
    assert run.said("hash") == undisturbed
    for step in (40, 45):
        assert store.cleat("verify", store.url, "--step", step).code == 0


def test_output_files_are_those_of_the_input_model(store, tmp_path):
    """A model of somebody else's, in two files with an index, is saved, trained, and comes out in the same files."""
    names = {
        "layers.0.weight": "model-00002-of-00002.safetensors", "layers.1.weight": "model-00001-of-00002.safetensors"
    }
    files = {}
    for tensor, file in names.items():
        header = {tensor: {"dtype": "U64", "shape": [300000], "data_offsets": [0, 2400000]}}
        files[file] = safetensors(header, bytes(2400000))
    files["model.safetensors.index.json"] = json.dumps({"metadata": {}, "weight_map": names}).encode()
    store.save(fill(tmp_path / "model", files), 0)
    Run(store, 25, "like=" + store.url, "without=optimizer.*", "load=never")
    assert tensors(store, 25) == names == tensors(store, 0)
    assert sorted(file["name"] for file in store.record(25)["files"]) == sorted(files)
    assert tensors(store, 20) == dict(names, **{"optimizer.moments": "training-state.safetensors",
                                                "optimizer.position": "training-state.safetensors"})
    index = json.loads(store.get(store.file_key(25, "model.safetensors.index.json")))
    assert index["weight_map"] == names
    for tensor, file in names.items():
        data = store.get(store.file_key(25, file))
        header = json.loads(data[8:8 + struct.unpack("<Q", data[:8])[0]])
        assert set(header) - {"__metadata__"} == {tensor}


def test_a_final_checkpoint_without_optimizer_state_cannot_be_resumed_strictly(store):
    Run(store, 25, "without=optimizer.*")
    refused = Run(store, 35, code=1)
    assert "missing: \"optimizer.moments\"; missing" not in refused.err  # in the order of the requests
    assert "missing: \"optimizer.position\"; missing: \"optimizer.moments\"" in refused.err, refused.err
