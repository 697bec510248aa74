"""Tests layout_folders.py itself: contents match their names, and the file that each layout writes last is its
completion marker. (The tests of `cleat run` check what the program does with the folders.)"""

import json
import pickle
import zipfile
from pathlib import Path

import pytest
import safetensors

import layout_folders

# How the description of the last thing done ends.
LAST = {
    "dcp": "renamed step-7/.metadata",
    "torchtune": "file epoch_7/recipe_state.pt",
    "huggingface": "file checkpoint-7/trainer_state.json",
    "megatron": "file latest_checkpointed_iteration.txt",
    "lightning": "file epoch=0-step=7.ckpt",
    "llmc": "file DONE_00000007",
    "infinitrain": "file checkpoint_step_000007/trainer_state.json",
    "deepspeed": "file latest",
    "nemo": "removed model_name--val_loss=1.23-step=7-consumed_samples=56.0-last-unfinished",
    "verl": "file latest_checkpointed_iteration.txt",
    "orbax": "renamed 7",
    "accelerate": "file checkpoints/checkpoint_7/custom_checkpoint_0.pkl",
    "composer": "link latest-rank0.pt",
}


def open_file(path):
    """Reads it as what its name says. True: the name says something."""
    if path.suffix in (".pt", ".pth", ".ckpt", ".distcp"):
        if "checkpoint_step_" in str(path.parent):
            return path.read_bytes().startswith(b"CKPT")
        assert zipfile.ZipFile(path).testzip() is None
    elif path.suffix == ".safetensors":
        with safetensors.safe_open(path, "numpy") as file:
            assert file.get_tensor("weight").shape == (1024,)
    elif path.name == ".metadata":
        assert pickle.loads(path.read_bytes())["step"] == 7
    elif path.suffix == ".json" and path.parent.name != "checkpoint_step_000007":
        json.loads(path.read_text())
    else:
        return False
    return True


@pytest.mark.parametrize("name", sorted(LAST))
def test_each_layout(tmp_path, name):
    write = layout_folders.LAYOUTS[name]
    done = layout_folders.write_all(write(tmp_path, 7, seed=1))
    assert done[-1] == LAST[name]
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any([open_file(path) for path in files]) or name in ("llmc", "orbax")
    contents = {path: path.read_bytes() for path in files}
    layout_folders.write_all(write(tmp_path, 7, seed=1))
    assert contents == {path: path.read_bytes() for path in files}


def test_it_stops_in_the_middle(tmp_path):
    writer = layout_folders.dcp(tmp_path, 7)
    layout_folders.write_until(writer, "half step-7/.metadata.tmp")
    assert sorted(path.name for path in Path(tmp_path, "step-7").iterdir()) == [
        ".metadata.tmp", "__0_0.distcp", "__1_0.distcp"]
    layout_folders.write_all(writer)
    assert Path(tmp_path, "step-7/.metadata").exists()
    with pytest.raises(AssertionError):
        layout_folders.write_until(layout_folders.dcp(tmp_path, 8), "file nothing")
