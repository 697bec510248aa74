"""`cleat run` with missing or wrong input: it fails before the command starts, or does not disturb the command."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import time

import pytest

from helpers import CLEAT, fill, run, tree
from proxy import Proxy
from run_jobs import OWN_FAILURE, OWN_FOLDER, contents, steps, stored, write_dcp

FAST_S = 60


def assert_not_started(job, *words, status=OWN_FAILURE):
    assert job.wait() == status
    assert not (job.aside / "environment").exists()
    for word in words:
        assert str(word) in job.log, (word, job.log)


# ---- Options --------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("arguments, word", [
    (["--dir", "DIR", "--", "true"], "--store"),
    (["--store", "URL", "--", "true"], "--dir"),
    (["--store", "URL", "--dir", "DIR"], "command"),
    (["--store", "URL", "--dir", "DIR", "--"], "command"),
    (["--store", "URL", "--dir", "DIR", "--layout", "tar", "--", "true"], "dcp"),
    (["--store", "URL", "--dir", "DIR", "--layout", "dcp", "--pattern", "x*", "--", "true"], "--pattern"),
    (["--store", "URL", "--dir", "DIR", "--log", "xml", "--", "true"], "json"),
    (["--store", "URL", "--dir", "DIR", "--grace", "soon", "--", "true"], "soon"),
    (["--store", "URL", "--dir", "DIR", "--grace", "-1", "--", "true"], "-1"),
    (["--store", "URL", "--dir", "DIR", "--quiet-time", "0", "--", "true"], "quiet-time"),
    (["--store", "URL", "--dir", "DIR", "--keep-last", "0", "--", "true"], "keep-last"),
    (["--store", "URL", "--dir", "DIR", "--keep-local", "x", "--", "true"], "keep-local"),
    (["--store", "URL", "--dir", "DIR", "--step", "first", "--", "true"], "first"),
    (["--store", "URL", "--dir", "DIR", "--if-exists", "perhaps", "--", "true"], "perhaps"),
    (["--store", "URL", "--dir", "DIR", "--no-such-option", "--", "true"], "no-such-option"),
    (["--store", "ftp://host/x", "--dir", "DIR", "--", "true"], "ftp"),
    (["--store", "relative", "--dir", "DIR", "--", "true"], "relative"),
])
def test_wrong_options(folder, tmp_path, arguments, word):
    words = {"DIR": str(tmp_path / "a"), "URL": folder.url}
    result = run("run", *[words.get(argument, argument) for argument in arguments])
    assert result.code == (OWN_FAILURE if word in ("ftp", "relative") else 2), result
    assert word in result.err and result.out == "", result
    assert len(result.err.splitlines()) <= 2, result
    assert not folder.path.exists()


# ---- DIR -------------------------------------------------------------------------------------------------------------

def test_dir_is_made_but_not_the_one_above_it(jobs, folder, tmp_path):
    assert_not_started(jobs(folder, tmp_path / "no" / "a"), tmp_path / "no" / "a", "hint: ")
    job = jobs(folder, tmp_path / "a")
    job.environment()
    assert job.end() == 0


def test_dir_is_a_file(jobs, folder, tmp_path):
    (tmp_path / "a").write_text("text")
    assert_not_started(jobs(folder, tmp_path / "a"), tmp_path / "a")
    assert (tmp_path / "a").read_text() == "text"


@pytest.mark.parametrize("place", ["a", "a/store", "a/deep/er", "link/store"])
def test_the_store_lies_in_dir(jobs, folder, tmp_path, place):
    (tmp_path / "a").mkdir()
    os.symlink("a", tmp_path / "link")
    folder.url = "file://%s" % (tmp_path / place)
    assert_not_started(jobs(folder, tmp_path / "a"), "lies in the folder")


def test_dir_by_a_link_and_a_relative_name(jobs, folder, tmp_path):
    (tmp_path / "real").mkdir()
    os.symlink("real", tmp_path / "a")
    job = jobs(folder, "a", "--layout", "dcp", cwd=tmp_path,
               command=["/bin/sh", "-c", 'read -r status < "$1/end"', "sh", tmp_path / "job-0"])
    job.tell("0")
    assert job.wait() == 0
    assert os.path.islink(tmp_path / "a") and (tmp_path / "real" / OWN_FOLDER).is_dir()


def test_dir_goes_away_while_the_command_runs(jobs, folder, tmp_path):
    job = jobs(folder, tmp_path / "a")
    job.environment()
    files = write_dcp(tmp_path / "a", 1)
    job.until_stored(folder, 1)
    os.rename(tmp_path / "a", tmp_path / "b")
    job.end()
    assert stored(folder, 1) == files


# ---- The store -------------------------------------------------------------------------------------------------------

@contextlib.contextmanager
def closed_port():
    """One where nobody listens; bound, so that nobody else can."""
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


def test_a_store_that_does_not_answer(jobs, bucket, tmp_path):
    """Without --offline-ok it fails fast. With it, what the command writes is saved when the store comes back; a step
    that the store turns out to have stays as it is there, by --if-exists skip."""
    first = jobs(bucket, tmp_path / "a")
    first.environment()
    old = write_dcp(tmp_path / "a", 1, {"__0_0.distcp": b"old"})
    first.until_stored(bucket, 1)
    assert first.end() == 0
    with closed_port() as port:
        began = time.monotonic()
        environment = {"AWS_ENDPOINT_URL": "http://127.0.0.1:%d" % port}
        refused = jobs(bucket, tmp_path / "b", environment=environment)
        job = jobs(bucket, tmp_path / "c", "--offline-ok", environment=environment)
        ended = jobs(bucket, tmp_path / "d", "--offline-ok", "--flush", "1", environment=environment)
        assert_not_started(refused, "127.0.0.1:%d" % port)
        assert "--offline-ok" in refused.log
        assert time.monotonic() - began < FAST_S
        assert job.resumed() is None
        assert ended.resumed() is None
        write_dcp(tmp_path / "d", 7)
        ended.signal(signal.SIGTERM)
        assert ended.wait() == 128 + signal.SIGTERM
        assert "step-7" in ended.log  # it is told what is lost
        write_dcp(tmp_path / "c", 1, {"__0_0.distcp": b"new"})
        new = write_dcp(tmp_path / "c", 2)
    proxy = Proxy(bucket.server.endpoint, port=port)
    try:
        job.until_stored(bucket, 2)
        assert job.end() == 0
    finally:
        proxy.close()
    assert stored(bucket, 1) == old and stored(bucket, 2) == new


@pytest.mark.parametrize("options", [[], ["--offline-ok"]])
def test_no_such_bucket(jobs, bucket, tmp_path, options):
    """An answer, so --offline-ok has nothing to say."""
    url, bucket.url = bucket.url, "s3://%s-not/run" % bucket.bucket
    assert_not_started(jobs(bucket, tmp_path / "a", *options), "NoSuchBucket", bucket.bucket + "-not")
    bucket.url = url


def test_wrong_keys(jobs, bucket, tmp_path):
    job = jobs(bucket, tmp_path / "a", "--offline-ok", environment={"AWS_SECRET_ACCESS_KEY": "wrong" * 4})
    assert_not_started(job, "SignatureDoesNotMatch")


# ---- The restore -----------------------------------------------------------------------------------------------------

def store_one(jobs, store, directory, size=300000):
    job = jobs(store, directory)
    job.environment()
    files = write_dcp(directory, 1, {"part-%d" % part: b"%d" % part * size for part in range(6)})
    job.until_stored(store, 1)
    assert job.end() == 0
    return files


def assert_nothing_half_restored(directory):
    assert contents(directory) == {}
    assert [name for name in tree(directory / OWN_FOLDER) if name.startswith("room/")] == []


@pytest.mark.parametrize("full_after", [0, 1, 400000, 1700000])
def test_the_disk_is_full(jobs, folder, bad_disk, tmp_path, full_after):
    files = store_one(jobs, folder, tmp_path / "a")
    job = jobs(folder, tmp_path / "b", environment=dict(bad_disk, FULL_AFTER=str(full_after)))
    assert_not_started(job, "No space left on device")
    assert_nothing_half_restored(tmp_path / "b")
    again = jobs(folder, tmp_path / "b")
    assert again.resumed() == (1, "step-1")
    assert contents(tmp_path / "b") == files
    assert again.end() == 0


@pytest.mark.parametrize("how", ["changed", "cut", "gone"])
def test_damage_in_the_store(jobs, folder, tmp_path, how):
    store_one(jobs, folder, tmp_path / "a")
    key = folder.file_key(1, "step-1/part-4")
    data = bytearray(folder.get(key))
    data[1000] ^= 1
    if how == "gone":
        folder.delete(key)
    else:
        folder.put(key, bytes(data) if how == "changed" else bytes(data[:-1]))
    assert_not_started(jobs(folder, tmp_path / "b"), "part-4")
    assert_nothing_half_restored(tmp_path / "b")


def test_names_that_lead_out_of_dir(jobs, folder, tmp_path):
    """A path in the metadata is a stranger's: it does not leave DIR."""
    store_one(jobs, folder, tmp_path / "a", 10)
    manifest = folder.manifest(1)
    for path in ("../../etc", "/etc", "a/../../b", ""):
        manifest["metadata"]["run"]["path"] = path
        folder.put_manifest(1, manifest)
        job = jobs(folder, tmp_path / ("b%d" % len(os.listdir(tmp_path))))
        _, place = job.resumed()
        assert not place.startswith("..") and not place.startswith("/")
        assert job.end() == 0


def test_a_clock_that_jumps(jobs, folder, tmp_path, jumping_clock):
    """Nothing is waited for by the wall clock: all is saved, in time and in order, ended in time, and restored."""
    options = ("--log", "json", "--metrics-file", tmp_path / "metrics", "--grace", "60", "--flush", "60")
    job = jobs(folder, tmp_path / "a", *options, environment=jumping_clock)
    job.environment()
    files = {}
    for step in (1, 2, 3):
        files[step] = write_dcp(tmp_path / "a", step)
        job.until_stored(folder, step)
    files[4] = write_dcp(tmp_path / "a", 4)
    job.signal(signal.SIGTERM)
    assert job.wait() == 128 + signal.SIGTERM
    assert steps(folder) == [1, 2, 3, 4] and {step: stored(folder, step) for step in files} == files
    lines = [json.loads(line) for line in job.log.splitlines() if line.startswith("{")]
    assert [line["step"] for line in lines if line["event"] == "saved"] == [1, 2, 3, 4]
    hours = {line["time"][:13] for line in lines}
    assert len(hours) > 1, "the clock did not jump"
    again = jobs(folder, tmp_path / "b", environment=jumping_clock)
    assert again.resumed() == (4, "step-4")
    assert contents(tmp_path / "b") == files[4]
    assert again.end() == 0


def test_a_name_in_the_way(jobs, folder, tmp_path):
    """A half-written folder of the same step gives way; a file that is not the checkpoint's stays."""
    files = store_one(jobs, folder, tmp_path / "a", 10)
    fill(tmp_path / "b", {"step-1/part-0": b"half", "step-1/stray": b"stray", "notes.txt": b"mine"})
    job = jobs(folder, tmp_path / "b")
    assert job.resumed() == (1, "step-1")
    assert contents(tmp_path / "b") == {**files, "notes.txt": b"mine"}
    assert sorted(os.listdir(tmp_path / "b" / OWN_FOLDER / "room")) == []  # what gave way is gone
    assert job.end() == 0


def test_standard_error_that_nobody_reads(folder, tmp_path):
    """The reader of the log ends before the training: that goes on."""
    script = 'sleep 1; mkdir "$1/step-1"; echo x > "$1/step-1/.metadata"; exit 6'
    process = subprocess.Popen([
        CLEAT, "run", "--store", folder.url, "--dir", tmp_path / "a", "--", "/bin/sh", "-c", script, "sh",
        tmp_path / "a"
    ], stderr=subprocess.PIPE, env=folder.environment)
    process.stderr.close()
    assert process.wait(FAST_S) == 6
    assert steps(folder) == [1]
