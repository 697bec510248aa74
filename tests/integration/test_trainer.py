"""The example trainer, killed and resumed on a folder and on MinIO, compared with an undisturbed run.

Nothing is judged by Cleat. Final states are compared as raw files that the trainer writes itself, and losses by their
bits. Hugging Face's safetensors opens the stored files. Every random choice comes from a printed seed; CLEAT_TEST_SEED
repeats it.
"""

import json
import os
import shutil
import signal
import subprocess
import uuid
from pathlib import Path

import boto3
import pytest
import safetensors.numpy

from helpers import SLOW
from trainer_log import wait_for_step

ROOT = Path(__file__).resolve().parents[2]
CLEAT = Path(os.environ.get("CLEAT", ROOT / "build" / "cleat"))
TRAINER = CLEAT.parent / "trainer"
DEMO = ROOT / "api" / "examples" / "demo.sh"
CORPUS = ROOT / "api" / "examples" / "corpus.txt"

SECONDS_MAX = 300 * SLOW  # a hang is a failure; a slow trainer gets fewer steps to do, too
SMALL = ("--memory-rows", "1024", "--hidden", "64")  # checkpoints of 1 MiB
LARGE = ("--memory-rows", "32768")  # checkpoints of 49 MiB: several parts, so that an upload has a middle


class Folder:
    def __init__(self, path):
        self.path = path / "store"
        self.url = "file://%s" % self.path
        self.environment = dict(os.environ)

    def objects(self):
        """Every file: its key and its bytes."""
        return {str(path.relative_to(self.path)): path.read_bytes()
                for path in self.path.rglob("*") if path.is_file()}

    def empty(self):
        shutil.rmtree(self.path, ignore_errors=True)


class Bucket:
    def __init__(self):
        endpoint = os.environ["CLEAT_TEST_ENDPOINT"]
        self.client = boto3.client("s3", endpoint_url=endpoint)
        self.name = "trainer-%s" % uuid.uuid4().hex[:12]
        self.client.create_bucket(Bucket=self.name)
        self.url = "s3://%s/run" % self.name
        self.environment = dict(os.environ, AWS_ENDPOINT_URL=endpoint)

    def objects(self):
        keys = [entry["Key"] for page in self.client.get_paginator("list_objects_v2").paginate(Bucket=self.name)
                for entry in page.get("Contents", ())]
        return {key.removeprefix("run/"): self.client.get_object(Bucket=self.name, Key=key)["Body"].read()
                for key in keys}

    def empty(self):
        for key in self.objects():
            self.client.delete_object(Bucket=self.name, Key="run/" + key)

    def remove(self):
        for upload in self.client.list_multipart_uploads(Bucket=self.name).get("Uploads", ()):
            self.client.abort_multipart_upload(Bucket=self.name, Key=upload["Key"], UploadId=upload["UploadId"])
        for key in self.objects():
            self.client.delete_object(Bucket=self.name, Key="run/" + key)
        self.client.delete_bucket(Bucket=self.name)


@pytest.fixture(params=("file", "minio"))
def store(request, tmp_path):
    if request.param == "file":
        yield Folder(tmp_path)
        return
    bucket = Bucket()
    yield bucket
    bucket.remove()


def command(folder, *flags):
    """A trainer that logs its losses and dumps its final state in the folder."""
    return [TRAINER, "--text", CORPUS, "--loss-log", folder / "losses", "--dump-weights", folder / "state", *flags]


def train(folder, *flags, environment=None):
    return subprocess.run(command(folder, *flags), env=environment, capture_output=True, text=True,
                          timeout=SECONDS_MAX, check=False)


def state(folder):
    return {path.stem: path.read_bytes() for path in (folder / "state").iterdir()}


def losses(folder):
    """Step to the set of its losses: a step that was trained again after a kill must have only one."""
    found = {}
    for line in (folder / "losses").read_text().splitlines():
        step, loss = line.split()
        found.setdefault(int(step), set()).add(float.fromhex(loss))
    return found


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """What a run that is never saved and never killed ends with; made once for the same flags."""
    done = {}

    def get(*flags):
        if flags not in done:
            folder = tmp_path_factory.mktemp("undisturbed")
            result = train(folder, *flags)
            assert result.returncode == 0, result.stderr
            done[flags] = folder
        return done[flags]

    return get


def assert_identical(folder, expected, steps):
    assert losses(folder) == losses(expected)
    assert sorted(losses(folder)) == list(range(1, steps + 1))
    assert all(len(values) == 1 for values in losses(folder).values())
    assert state(folder) == state(expected)


def committed_steps(store):
    result = subprocess.run([CLEAT, "ls", "--json", store.url], env=store.environment, capture_output=True, text=True,
                            timeout=SECONDS_MAX, check=False)
    assert result.returncode in (0, 3), result.stderr
    return [entry["step"] for entry in json.loads(result.stdout)["checkpoints"]]


def assert_latest_is_whole(store):
    if committed_steps(store):
        result = subprocess.run([CLEAT, "verify", store.url], env=store.environment, capture_output=True, text=True,
                                timeout=SECONDS_MAX, check=False)
        assert result.returncode == 0, result.stderr


def manifests(store):
    return [key for key in store.objects() if key.endswith("manifest.json")]


@pytest.mark.parametrize("save_every", (100, 170))
def test_killed_in_an_upload_resumes_identically(store, tmp_path, undisturbed, rng, save_every):
    steps, save_every = 1000 // SLOW, save_every // SLOW
    flags = (*LARGE, "--steps", str(steps), "--save-every", str(save_every))
    saving = (*flags, "--store", store.url)
    die_in = save_every * rng.randrange(2, 5)
    # Every upload of a run may be too quick to be met in its middle: then all is done anew.
    for _ in range(12):
        store.empty()
        (tmp_path / "losses").unlink(missing_ok=True)
        killed = train(tmp_path, *saving, "--die-in-save", str(die_in), "--die-at-percent", str(rng.randrange(1, 40)),
                       environment=store.environment)
        print(killed.stdout, killed.stderr)
        if killed.returncode != 0:
            break
    assert killed.returncode == -signal.SIGKILL

    committed = committed_steps(store)
    last = max(losses(tmp_path))  # the step whose save did not live
    assert last >= die_in
    assert committed == list(range(save_every, last, save_every))
    assert len(manifests(store)) == len(committed)
    assert_latest_is_whole(store)

    resumed = train(tmp_path, *saving, environment=store.environment)
    assert resumed.returncode == 0, resumed.stderr
    assert "resumed from step %d," % committed[-1] in resumed.stdout
    assert_identical(tmp_path, undisturbed(*flags), steps)
    assert committed_steps(store) == sorted({*range(save_every, steps, save_every), steps})


def test_killed_from_outside_at_random_moments_resumes_identically(store, tmp_path, undisturbed, rng):
    steps, kills_max = 3000 // SLOW, 8
    flags = (*SMALL, "--steps", str(steps), "--save-every", str(40 // SLOW))
    saving = (*flags, "--store", store.url)
    kills = 0
    for _ in range(kills_max):
        step = max(committed_steps(store), default=0) + rng.randrange(steps // kills_max)
        process = subprocess.Popen(command(tmp_path, *saving), env=store.environment, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        if wait_for_step(process, tmp_path / "losses", step, rng.uniform(0.01, 0.5) * SLOW) is not None:
            break
        process.kill()
        kills += process.wait() == -signal.SIGKILL
        assert_latest_is_whole(store)
    final = train(tmp_path, *saving, environment=store.environment)
    print("killed %d times; %s" % (kills, final.stdout.splitlines()[0]))
    assert final.returncode == 0, final.stderr
    assert kills > kills_max // 2
    assert_identical(tmp_path, undisturbed(*flags), steps)


def test_stopped_and_continued_in_short_runs(store, tmp_path, undisturbed):
    """Runs that end by themselves, each a little further; the last one has nothing left to do."""
    flags = (*SMALL, "--save-every", "64")
    for steps in (1, 2, 63, 64, 65, 200, 200):
        result = train(tmp_path, *flags, "--steps", str(steps), "--store", store.url, environment=store.environment)
        assert result.returncode == 0, result.stderr
    assert committed_steps(store) == [1, 2, 63, 64, 65, 128, 192, 200]
    assert_identical(tmp_path, undisturbed(*flags, "--steps", "200"), 200)


def test_safetensors_reads_what_was_saved(store, tmp_path):
    result = train(tmp_path, *LARGE, "--steps", "30", "--store", store.url, environment=store.environment)
    assert result.returncode == 0, result.stderr
    objects = store.objects()
    files = {key: data for key, data in objects.items() if key.endswith(".safetensors")}
    assert len(files) > 1  # the memory and its two moments are 16 MiB each, a file holds 32
    tensors = {}
    for key, data in files.items():
        loaded = safetensors.numpy.load(data)
        assert not loaded.keys() & tensors.keys(), key
        tensors.update(loaded)

    assert {name: array.tobytes() for name, array in tensors.items()} == state(tmp_path)
    assert tensors["model.memory"].shape == (32768, 128)
    assert tensors["model.memory"].dtype == "float32"
    assert tensors["state.step"].shape == ()
    assert int(tensors["state.step"]) == 30
    index_key, = (key for key in objects if key.endswith("model.safetensors.index.json"))
    index = json.loads(objects[index_key])["weight_map"]
    assert {name: index_key.rsplit("/", 1)[0] + "/" + file for name, file in index.items()} == {
        name: key for key, data in files.items() for name in safetensors.numpy.load(data)}
    vocabulary, = (data for key, data in objects.items() if key.endswith("/vocabulary.txt"))
    assert vocabulary == bytes(sorted(set(CORPUS.read_bytes())))


def test_metadata_says_how_training_went(tmp_path):
    store = Folder(tmp_path)
    assert train(tmp_path, *SMALL, "--steps", "10", "--store", store.url).returncode == 0
    result = subprocess.run([CLEAT, "ls", "--json", store.url], capture_output=True, text=True, check=True)
    metadata = json.loads(result.stdout)["checkpoints"][0]["metadata"]
    loss, = losses(tmp_path)[10]
    assert metadata["loss"] == pytest.approx(loss, abs=1e-4)
    assert metadata["learning_rate"] == pytest.approx(4e-3 * 0.999**10, rel=1e-2)


def test_another_shape_is_refused_with_every_name(tmp_path):
    store = Folder(tmp_path)
    flags = ("--steps", "10", "--memory-rows", "1024", "--store", store.url)
    assert train(tmp_path, *flags, "--hidden", "64").returncode == 0
    before = store.objects()
    result = train(tmp_path, *flags, "--hidden", "72")
    assert result.returncode == 1
    assert result.stderr.startswith("trainer: cannot resume: ")
    for name in ("model.hidden.weight", "adam.m.output.weight", "adam.v.memory"):
        assert name in result.stderr
    assert "model.embedding" not in result.stderr
    assert store.objects() == before


def test_another_text_is_refused(tmp_path):
    store = Folder(tmp_path)
    flags = ("--steps", "10", *SMALL, "--store", store.url)
    assert train(tmp_path, *flags).returncode == 0
    other = tmp_path / "other.txt"
    other.write_bytes(CORPUS.read_bytes()[::-1])
    result = train(tmp_path, *flags, "--text", other)
    assert result.returncode == 1
    assert "another text" in result.stderr


def test_a_damaged_checkpoint_is_not_resumed_from(tmp_path):
    store = Folder(tmp_path)
    flags = (*SMALL, "--store", store.url)
    assert train(tmp_path, *flags, "--steps", "10").returncode == 0
    victim, = store.path.rglob("*.safetensors")
    data = bytearray(victim.read_bytes())
    data[-1000] ^= 1
    victim.write_bytes(data)
    result = train(tmp_path, *flags, "--steps", "20")
    assert result.returncode == 1
    assert victim.name in result.stderr
    assert committed_steps(store) == [10]


@pytest.mark.parametrize("flags", (("--steps", "0"), ("--steps", "many"), ("--hidden", "9"), ("--colour", "red"),
                                   ("--seed",)))
def test_wrong_usage(tmp_path, flags):
    result = train(tmp_path, *flags)
    assert result.returncode == 2
    assert result.stderr.startswith("trainer: ")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("url", ("ftp://host/folder", "relative/folder"))
def test_a_store_that_is_none_is_named_with_a_hint(tmp_path, url):
    result = train(tmp_path, "--store", url)
    assert result.returncode == 1
    message, hint = result.stderr.splitlines()
    assert message.startswith("trainer: cannot use the store: ")
    assert url.split("/")[0].rstrip(":") in message
    assert hint.startswith("hint: ")


def test_a_bucket_that_does_not_exist_is_told_before_training(tmp_path):
    environment = dict(os.environ, AWS_ENDPOINT_URL=os.environ["CLEAT_TEST_ENDPOINT"])
    result = train(tmp_path, "--store", "s3://no-such-bucket-%s/run" % uuid.uuid4().hex[:8], environment=environment)
    assert result.returncode == 1
    assert result.stderr.startswith("trainer: cannot resume: ")
    assert "NoSuchBucket" in result.stderr
    assert not list(tmp_path.iterdir())


def demo(build, tmp_path):
    environment = dict(os.environ, BUILD=str(build), TMPDIR=str(tmp_path), CLEAT_DEMO_STEPS=str(4000 // SLOW))
    return subprocess.run([DEMO, "file"], env=environment, capture_output=True, text=True, timeout=SECONDS_MAX,
                          check=False)


def test_demo_proves_it_and_leaves_nothing(tmp_path):
    result = demo(CLEAT.parent, tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "identical" in result.stdout.splitlines()[-1]
    assert "\x1b" not in result.stdout
    assert not list(tmp_path.iterdir())


def test_demo_sees_a_difference(tmp_path):
    """With a trainer that resumes a little wrongly, the demo must not say identical."""
    build, scratch = tmp_path / "build", tmp_path / "scratch"
    build.mkdir()
    scratch.mkdir()
    (build / "cleat").symlink_to(CLEAT)
    trainer = build / "trainer"
    trainer.write_text('#!/bin/sh\ncase "$*" in *--store*) exec "%s" "$@" --seed 2 ;; esac\nexec "%s" "$@"\n'
                       % (TRAINER, TRAINER))
    trainer.chmod(0o755)
    result = demo(build, scratch)
    assert result.returncode == 1
    assert "FAILED" in result.stderr
    assert "identical" not in result.stdout
    assert not list(scratch.iterdir())
