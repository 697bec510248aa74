"""Checkpoint folders of training tools, written as the tools write them: the same names, in the same order.

Each function below is a generator that writes one checkpoint of `step` into the folder `directory`. It yields after
each action on the file system, also after half of a file, and the value says what was done, such as "half
step-7/.metadata.tmp". So a test can stop in the middle, or run to the end with write_all(). Contents are real and small
(zip archives of pickles as torch.save makes them, safetensors, pickles, JSON), and depend on `seed`. The order of
writes was observed or comes from the sources of the tools; api/run/README.md says which.
"""

import io
import json
import os
import pickle
import random
import shutil
import struct
import zipfile
from pathlib import Path

import numpy
import safetensors.numpy

TRACKER = "latest_checkpointed_iteration.txt"


def write_all(writer):
    """Runs a generator of this module to its end. Returns what it has done, a list."""
    return list(writer)


def write_until(writer, end):
    """Goes on until something was done whose description ends so; what comes after has not happened then."""
    for done in writer:
        if done.endswith(end):
            return
    raise AssertionError("nothing was done that ends in " + end)


# ---- contents ----------------------------------------------------------------------------------------------


def tensor(seed, count=1024):
    return numpy.random.default_rng(seed).standard_normal(count).astype(numpy.float32)


def archive(seed, **more):
    """What torch.save writes: a zip archive, not compressed, of a pickle and the bytes of each tensor."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as whole:
        for name, data in (("data.pkl", pickle.dumps({"seed": seed, **more}, protocol=2)),
                           ("data/0", tensor(seed).tobytes()), ("version", b"3\n")):
            whole.writestr(zipfile.ZipInfo("archive/" + name), data)  # the time of it is always the same
    return file.getvalue()


def weights(seed):
    return safetensors.numpy.save({"weight": tensor(seed), "bias": tensor(seed + 1, 16)}, metadata={"format": "pt"})


def as_json(value):
    return (json.dumps(value, indent=2) + "\n").encode()


# ---- steps of writing --------------------------------------------------------------------------------------


def make(directory, name):
    os.makedirs(Path(directory, name), exist_ok=True)
    yield "folder " + name


def put(directory, name, data):
    """One file, opened anew and written in two halves."""
    with open(Path(directory, name), "wb", buffering=0) as file:
        yield "empty " + name
        file.write(data[:len(data) // 2])
        yield "half " + name
        file.write(data[len(data) // 2:])
    yield "file " + name


def put_renamed(directory, name, temporary, data):
    """One file under another name, which is then renamed."""
    yield from put(directory, temporary, data)
    os.rename(Path(directory, temporary), Path(directory, name))
    yield "renamed " + name


# ---- the tools ---------------------------------------------------------------------------------------------


def dcp(directory, step, seed=0, ranks=2):
    """PyTorch's distributed checkpoint in torchtitan's folder: the parts of all ranks, then .metadata by a rename."""
    folder = f"step-{step}"
    yield from make(directory, folder)
    for rank in range(ranks):
        yield from put(directory, f"{folder}/__{rank}_0.distcp", archive(seed + rank))
    metadata = pickle.dumps({"step": step, "ranks": ranks})
    yield from put_renamed(directory, f"{folder}/.metadata", f"{folder}/.metadata.tmp", metadata)


def torchtune(directory, epoch, seed=0, last=False, prefix="epoch"):
    """torchtune's checkpoint in Hugging Face's format. The last one of a job has no recipe_state.pt."""
    folder = f"{prefix}_{epoch}"
    yield from make(directory, folder)
    yield from put(directory, f"{folder}/model-00001-of-00001.safetensors", weights(seed))
    index = as_json({"metadata": {}, "weight_map": {"weight": "model-00001-of-00001.safetensors"}})
    yield from put(directory, f"{folder}/model.safetensors.index.json", index)
    yield from put(directory, f"{folder}/config.json", as_json({"model_type": "llama"}))
    if not last:
        yield from put(directory, f"{folder}/recipe_state.pt", archive(seed + 1, epochs_run=epoch + 1))


def huggingface(directory, step, seed=0, ranks=1):
    """The Trainer of transformers. With several ranks nothing makes rank 0 wait for the others' random states."""
    folder = f"checkpoint-{step}"
    yield from make(directory, folder)
    yield from put(directory, f"{folder}/config.json", as_json({"model_type": "gpt2"}))
    yield from put(directory, f"{folder}/generation_config.json", as_json({}))
    yield from put_renamed(directory, f"{folder}/model.safetensors", f"{folder}/.tmpAb3dE9", weights(seed))
    yield from put(directory, f"{folder}/training_args.bin", archive(seed + 1))
    yield from put(directory, f"{folder}/optimizer.pt", archive(seed + 2))
    yield from put(directory, f"{folder}/scheduler.pt", archive(seed + 3))
    states = ["rng_state.pth"] if ranks == 1 else [f"rng_state_{rank}.pth" for rank in range(ranks)]
    yield from put(directory, f"{folder}/{states[0]}", archive(seed + 4))
    yield from put(directory, f"{folder}/trainer_state.json", as_json({"global_step": step, "log_history": []}))
    for rank, state in enumerate(states[1:]):
        yield from put(directory, f"{folder}/{state}", archive(seed + 5 + rank))


def megatron(directory, step, seed=0, ranks=2, legacy=False):
    """Megatron-LM: the folder, then the tracker, which is written over in place."""
    folder = f"iter_{step:07d}"
    yield from make(directory, folder)
    if legacy:
        for rank in range(ranks):
            yield from make(directory, f"{folder}/mp_rank_{rank:02d}")
            yield from put(directory, f"{folder}/mp_rank_{rank:02d}/model_optim_rng.pt", archive(seed + rank))
    else:
        yield from put(directory, f"{folder}/common.pt", archive(seed))
        for rank in range(ranks):
            yield from put(directory, f"{folder}/__{rank}_0.distcp", archive(seed + rank))
        metadata = pickle.dumps({"step": step})
        yield from put_renamed(directory, f"{folder}/.metadata", f"{folder}/.metadata.tmp", metadata)
        backend = as_json({"sharded_backend": "torch_dist", "sharded_backend_version": 1})
        yield from put(directory, f"{folder}/metadata.json", backend)
    yield from put(directory, TRACKER, str(step).encode())


def lightning(directory, step, seed=0, epoch=0, last=None, temporary=None):
    """Lightning's ModelCheckpoint: one archive, which is written elsewhere and moved. `last`: None, "copy" or "link"
    for last.ckpt. `temporary`: a folder on the same file system; None: on another one, where moving is copying."""
    name = f"epoch={epoch}-step={step}.ckpt"
    data = archive(seed, global_step=step, epoch=epoch)
    names = [name, "last.ckpt"] if last == "copy" else [name]
    for each in names:
        if temporary is None:
            yield from put(directory, each, data)
        else:
            Path(temporary, "tmpabcdefgh").write_bytes(data)
            os.rename(Path(temporary, "tmpabcdefgh"), Path(directory, each))
            yield "renamed " + each
    if last == "link":
        Path(directory, "last.ckpt").unlink(missing_ok=True)
        yield "removed last.ckpt"
        os.symlink(name, Path(directory, "last.ckpt"))
        yield "link last.ckpt"


def llmc(directory, step, seed=0, ranks=1):
    """llm.c: the model, a state of each rank, and DONE when all ranks have written theirs."""
    header = struct.pack("<256i", 20240326, 5, 1024, *[0] * 253)
    yield from put(directory, f"model_{step:08d}.bin", header + tensor(seed).tobytes())
    for rank in range(ranks):
        header = struct.pack("<256i", 20240527, 1, ranks, rank, *[0] * 6, step, *[0] * 245)
        yield from put(directory, f"state_{step:08d}_{rank:05d}.bin", header + tensor(seed + rank).tobytes())
    Path(directory, f"DONE_{step:08d}").touch()
    yield f"file DONE_{step:08d}"


def infinitrain_tensors(seed):
    """InfiniTrain's own format: magic, version, count; then name, dtype, shape and bytes of each tensor."""
    data = tensor(seed).tobytes()
    name = b"transformer.wte.weight"
    head = struct.pack("<III", 0x54504B43, 1, 1) + struct.pack("<I", len(name)) + name
    return head + struct.pack("<bIqQ", 9, 1, len(data) // 4, len(data)) + data


def infinitrain(directory, step, seed=0, ddp=1, tp=1, pp=1):
    """InfiniTrain: each rank writes a folder of its own, none waits for another. Its trainer_state.json lacks a comma
    and so is not JSON. The ranks are interleaved as `seed` has it."""
    folder = f"checkpoint_step_{step:06d}"
    world = ddp * tp * pp
    state = "".join(f'  "{key}": {value}{end}\n' for key, value, end in [
        ("n_layer", 12, ","), ("n_head", 12, ","), ("n_kv_head", 12, ","), ("n_embd", 768, ","),
        ("vocab_size", 50257, ""), ("global_step", step, ","), ("consumed_batches", step, ","),
        ("last_lr", 0.001, ","), ("ddp_size", ddp, ","), ("tp_size", tp, ","), ("sp_size", tp, ","),
        ("pp_size", pp, "")])

    def rank_writer(rank):
        part = folder if world == 1 else f"{folder}/rank_{rank:06d}"
        yield from make(directory, part)
        yield from put(directory, f"{part}/model.ckpt", infinitrain_tensors(seed + rank))
        yield from put(directory, f"{part}/optimizer.ckpt", infinitrain_tensors(seed + world + rank))
        yield from put(directory, f"{part}/trainer_state.json", ("{\n" + state + "}\n").encode())

    writers = [rank_writer(rank) for rank in range(world)]
    choice = random.Random(seed)
    while writers:
        writer = choice.choice(writers)
        try:
            yield next(writer)
        except StopIteration:
            writers.remove(writer)


def deepspeed(directory, step, seed=0, ranks=2):
    """DeepSpeed with ZeRO: each rank its part of the optimizer, rank 0 the model before. Rank 0 then names the folder
    in `latest`, which is written over in place, and waits for the others after that alone."""
    folder = f"global_step{step}"
    yield from make(directory, folder)
    for rank in range(1, ranks):
        yield from put(directory, f"{folder}/bf16_zero_pp_rank_{rank}_mp_rank_00_optim_states.pt", archive(seed + rank))
    states = archive(seed, dp_world_size=ranks, mp_world_size=1, global_steps=step)
    yield from put(directory, f"{folder}/mp_rank_00_model_states.pt", states)
    yield from put(directory, f"{folder}/bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt", archive(seed))
    yield from put(directory, "latest", folder.encode())


def nemo(directory, step, seed=0, ranks=2, last=True):
    """NeMo's ModelCheckpoint: a marker, the folder, the marker removed; then all of it again under the name of the
    last."""
    name = f"model_name--val_loss=1.23-step={step}-consumed_samples={step * 8}.0"
    for folder in [name, name + "-last"] if last else [name]:
        yield from put(directory, f"{folder}-unfinished", b"")
        yield from make(directory, f"{folder}/weights")
        yield from put(directory, f"{folder}/weights/common.pt", archive(seed))
        for rank in range(ranks):
            yield from put(directory, f"{folder}/weights/__{rank}_0.distcp", archive(seed + rank))
        metadata = pickle.dumps({"step": step})
        yield from put_renamed(directory, f"{folder}/weights/.metadata", f"{folder}/weights/.metadata.tmp", metadata)
        yield from put(directory, f"{folder}/weights/metadata.json", as_json({"sharded_backend": "torch_dist"}))
        yield from make(directory, f"{folder}/context")
        yield from put(directory, f"{folder}/context/io.json", as_json({}))
        os.unlink(Path(directory, folder + "-unfinished"))
        yield f"removed {folder}-unfinished"


def verl(directory, step, seed=0, ranks=2):
    """verl's trainer with FSDP: the actor's parts, the state of the data loader, then the tracker, in place."""
    folder = f"global_step_{step}"
    yield from make(directory, f"{folder}/actor/huggingface")
    for rank in range(ranks):
        for what in ("model", "optim", "extra_state"):
            yield from put(directory, f"{folder}/actor/{what}_world_size_{ranks}_rank_{rank}.pt", archive(seed + rank))
    yield from put(directory, f"{folder}/actor/huggingface/config.json", as_json({"model_type": "llama"}))
    yield from put(directory, f"{folder}/data.pt", archive(seed))
    yield from put(directory, TRACKER, str(step).encode())


def orbax(directory, step, seed=0):
    """Orbax's CheckpointManager, on a file system that can rename: all under a temporary name, which is renamed."""
    temporary = f"{step}.orbax-checkpoint-tmp"

    def metadata(committed):
        return as_json({"item_handlers": {"state": "StandardCheckpointHandler"}, "init_timestamp_nsecs": 1,
                        "commit_timestamp_nsecs": committed, "custom_metadata": {}})

    yield from make(directory, temporary)
    yield from put(directory, f"{temporary}/_CHECKPOINT_METADATA", metadata(None))
    yield from make(directory, f"{temporary}/state.orbax-checkpoint-tmp/d")
    yield from put(directory, f"{temporary}/state.orbax-checkpoint-tmp/d/0f1e2d", tensor(seed).tobytes())
    yield from put_renamed(directory, f"{temporary}/state.orbax-checkpoint-tmp/manifest.ocdbt",
                           f"{temporary}/state.orbax-checkpoint-tmp/manifest.ocdbt.__lock", b"manifest")
    yield from put(directory, f"{temporary}/state.orbax-checkpoint-tmp/commit_success.txt",
                   b"Checkpoint commit was successful")
    os.rename(Path(directory, f"{temporary}/state.orbax-checkpoint-tmp"), Path(directory, f"{temporary}/state"))
    yield f"renamed {temporary}/state"
    yield from put(directory, f"{temporary}/_CHECKPOINT_METADATA", metadata(1795391636800135669))
    yield from put(directory, f"{temporary}/commit_success.txt", b"Checkpoint commit was successful")
    shutil.rmtree(Path(directory, str(step)), ignore_errors=True)
    os.rename(Path(directory, temporary), Path(directory, str(step)))
    yield f"renamed {step}"


def accelerate(directory, step, seed=0, ranks=1):
    """Accelerate's save_state with automatic names, in a folder of the project's. Nothing says that it is whole."""
    folder = f"checkpoints/checkpoint_{step}"
    yield from make(directory, folder)
    yield from put_renamed(directory, f"{folder}/model.safetensors", f"{folder}/.tmpDU6Mof", weights(seed))
    yield from put(directory, f"{folder}/optimizer.bin", archive(seed))
    yield from put(directory, f"{folder}/scheduler.bin", archive(seed + 1))
    for rank in range(ranks):
        yield from put(directory, f"{folder}/random_states_{rank}.pkl", archive(seed + 2 + rank))
    yield from put(directory, f"{folder}/custom_checkpoint_0.pkl", archive(seed + 20))


def composer(directory, step, seed=0, epoch=0):
    """Composer's CheckpointSaver: rank 0 writes one archive in place; then a link says that it is the latest."""
    name = f"ep{epoch}-ba{step}-rank0.pt"
    yield from put(directory, name, archive(seed, batch=step))
    Path(directory, "latest-rank0.pt").unlink(missing_ok=True)
    os.symlink(name, Path(directory, "latest-rank0.pt"))
    yield "link latest-rank0.pt"


# By the names of --layout. Cleat's own is written by Cleat; "folders" is whatever a pattern says.
LAYOUTS = {
    "dcp": dcp,
    "torchtune": torchtune,
    "huggingface": huggingface,
    "megatron": megatron,
    "lightning": lightning,
    "llmc": llmc,
    "infinitrain": infinitrain,
    "deepspeed": deepspeed,
    "nemo": nemo,
    "verl": verl,
    "orbax": orbax,
    "accelerate": accelerate,
    "composer": composer,
}
