"""What the tests of the program share: they run it, read stores from outside, and make files.

Stores are read and damaged through the file system and boto3, never through Cleat. Cleat must not judge itself.
"""

import ctypes
import fnmatch
import functools
import hashlib
import json
import os
import struct
import subprocess
import threading
import uuid
from pathlib import Path

import boto3
import pytest

ROOT = Path(__file__).resolve().parents[2]
CLEAT = os.environ.get("CLEAT_BIN") or os.environ.get("CLEAT") or str(ROOT / "build" / "cleat")
SECONDS_MAX = 120  # a hang is a failure
# How many times as long the programs may compute: those with ThreadSanitizer are that much slower.
SLOW = 10 if "thread" in os.environ.get("SANITIZE", "") else 1


class Result:
    """How one run of the program ended."""

    def __init__(self, arguments, completed):
        self.arguments = arguments
        self.code = completed.returncode
        self.out = completed.stdout.decode("utf-8")
        self.err = completed.stderr.decode("utf-8")

    @property
    def json(self):
        return json.loads(self.out)

    def __repr__(self):
        return "cleat %s\n=> %d\nstdout: %s\nstderr: %s" % (" ".join(self.arguments), self.code, self.out, self.err)


def run(*arguments, environment=None, **more):
    arguments = [str(argument) for argument in arguments]
    more.setdefault("timeout", SECONDS_MAX)
    more.setdefault("stdin", subprocess.DEVNULL)
    if "stdout" not in more:
        more["stdout"] = subprocess.PIPE
    completed = subprocess.run([CLEAT, *arguments], env=environment, stderr=subprocess.PIPE, **more)
    completed.stdout = completed.stdout or b""
    return Result(arguments, completed)


def clean_environment():
    """The environment without anything that would make a run a rank, name a start, or find another server."""
    return {name: value for name, value in os.environ.items()
            if not name.startswith(("CLEAT_", "SLURM_", "OMPI_")) and name not in ("RANK", "WORLD_SIZE")}


SERVERS = ("minio-http", "minio-https", "versitygw-http", "versitygw-https")
# For tests that take `server` or `bucket`, and for those that take `store`: the table that every server must pass.
ON_EVERY_SERVER = pytest.mark.parametrize("server", SERVERS, indirect=True)
ON_EVERY_STORE = pytest.mark.parametrize("store", ("folder", *SERVERS), indirect=True)


class Server:
    """One of the S3 servers that tests/tools/servers.sh has started."""

    def __init__(self, name):
        settings = {}
        assert os.environ.get("CLEAT_TEST_ENDPOINT"), "no test server; `make integration` starts those that are needed"
        if name == "minio-http":
            settings = os.environ  # perhaps one that was started alone
        else:
            known = os.environ.get("CLEAT_TEST_SERVERS")
            assert known, "no %s: CLEAT_TEST_SERVERS is not set; tests/tools/servers.sh starts all servers" % name
            settings = dict(line.split("=", 1) for line in (Path(known) / name).read_text().splitlines())
        self.name, self.kind = name, name.partition("-")[0]
        self.endpoint = settings["CLEAT_TEST_ENDPOINT"]
        # Without the proxy that verifies signatures.
        self.direct = settings.get("CLEAT_TEST_DIRECT", self.endpoint)
        self.settings = {key: settings[key] for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION")}
        self.ca = settings.get("AWS_CA_BUNDLE")
        if self.ca:
            self.settings["AWS_CA_BUNDLE"] = self.ca
        self.environment = dict(clean_environment(), AWS_ENDPOINT_URL=self.endpoint, **self.settings)

    def client(self, **more):
        """boto3's, which knows nothing of the others."""
        return boto3.client("s3", endpoint_url=self.endpoint, verify=self.ca, region_name=self.settings["AWS_REGION"],
                            aws_access_key_id=self.settings["AWS_ACCESS_KEY_ID"],
                            aws_secret_access_key=self.settings["AWS_SECRET_ACCESS_KEY"], **more)


class Store:
    """A place to save to, as the program sees it (url, environment) and as the tests do (keys, get, put, delete)."""

    def cleat(self, *arguments, **more):
        more.setdefault("environment", self.environment)
        return run(*arguments, **more)

    def save(self, source, step, *arguments):
        result = self.cleat("save", source, self.url, "--step", step, *arguments)
        assert result.code == 0, result
        return result

    # ---- The documents of a step ----

    def manifest_key(self, step):
        return "step-%012d/manifest.json" % step

    def manifest(self, step):
        return json.loads(self.get(self.manifest_key(step)))

    def record_key(self, step, rank=0):
        return "step-%012d/%s" % (step, self.manifest(step)["ranks"][rank]["key"])

    def record(self, step, rank=0):
        return json.loads(self.get(self.record_key(step, rank)))

    def file_key(self, step, name):
        return "step-%012d/%s/%s" % (step, self.manifest(step)["attempt"], name)

    def put_manifest(self, step, manifest):
        self.put(self.manifest_key(step), json.dumps(manifest).encode())

    def put_record(self, step, record):
        """Puts the record and makes the manifest vouch for it, so that only the record's contents are at fault."""
        text = record if isinstance(record, bytes) else json.dumps(record).encode()
        manifest = self.manifest(step)
        self.put(self.record_key(step), text)
        manifest["ranks"][0]["size"] = len(text)
        manifest["ranks"][0]["sha256"] = hashlib.sha256(text).hexdigest()
        self.put_manifest(step, manifest)


class Folder(Store):
    def __init__(self, path):
        self.path = Path(path)
        self.url = "file://%s" % path
        self.environment = clean_environment()

    def keys(self):
        # As os.walk does it: a folder that is removed meanwhile is none.
        return sorted(os.path.relpath(os.path.join(folder, name), self.path)
                      for folder, _, names in os.walk(self.path) for name in names)

    def get(self, key):
        return (self.path / key).read_bytes()

    def put(self, key, data):
        path = self.path / key
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            path.chmod(0o644)
        path.write_bytes(data)

    def delete(self, key):
        (self.path / key).unlink()


class Bucket(Store):
    def __init__(self, server):
        self.server = server
        self.client = server.client()
        self.bucket = "cli-%s" % uuid.uuid4().hex[:12]
        self.client.create_bucket(Bucket=self.bucket)
        self.url = "s3://%s/run" % self.bucket
        self.environment = dict(server.environment)

    def keys(self):
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix="run/")
        return sorted(entry["Key"][len("run/"):] for page in pages for entry in page.get("Contents", []))

    def uploads(self, key):
        """Unfinished uploads of one key: MinIO lists them by the whole key alone."""
        return self.client.list_multipart_uploads(Bucket=self.bucket, Prefix="run/" + key).get("Uploads", [])

    def get(self, key):
        return self.client.get_object(Bucket=self.bucket, Key="run/" + key)["Body"].read()

    def put(self, key, data):
        self.client.put_object(Bucket=self.bucket, Key="run/" + key, Body=data)

    def delete(self, key):
        self.client.delete_object(Bucket=self.bucket, Key="run/" + key)

    def remove(self):
        for key in self.keys():
            self.delete(key)
        self.client.delete_bucket(Bucket=self.bucket)


def found(folder, pattern):
    """The paths of the files below a folder whose name matches. Unlike rglob, while others remove folders there."""
    return [Path(at, name) for at, _, names in os.walk(folder) for name in fnmatch.filter(names, pattern)]


def tree(folder):
    """Every file below a folder: its path and its bytes."""
    folder = Path(folder)
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def fill(folder, files):
    for name, data in files.items():
        path = Path(folder) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return Path(folder)


@functools.lru_cache(maxsize=16)
def noise(size, seed=1):
    """Bytes without any pattern, the same for the same seed."""
    return hashlib.shake_256(b"%d" % seed).digest(size)


def safetensors(header, data=b""):
    """A .safetensors file with any header: a dict, or bytes that need not even be JSON."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def without_capabilities():
    """For preexec_fn: root may read and write everything, which no permission test survives; this takes it away."""
    pr_capbset_drop, cap_dac_override, cap_dac_read_search = 24, 1, 2
    libc = ctypes.CDLL(None, use_errno=True)
    for capability in (cap_dac_override, cap_dac_read_search):
        if os.getuid() == 0 and libc.prctl(pr_capbset_drop, capability, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_CAPBSET_DROP)")


def assert_error(result, code, *words):
    """The exit status, and one line on stderr that says all of `words`; warnings before, at most a hint after it."""
    assert result.code == code, result
    lines = result.err.splitlines()
    while lines and lines[0].startswith("cleat: warning: "):
        del lines[0]
    assert lines and lines[0].startswith("cleat: "), result
    assert len(lines) == 1 or (len(lines) == 2 and lines[1].startswith("hint: ")), result
    for word in words:
        assert str(word) in lines[0], (word, result)
    return lines


class Meeting:
    """Holds back the requests to commit until two have come, then lets both go."""

    def __init__(self):
        self.barrier = threading.Barrier(2)
        self.met = 0

    def __call__(self, request):
        if request.kind == "manifest":
            try:
                self.barrier.wait(timeout=10)
                self.met += 1
            except threading.BrokenBarrierError:
                pass  # the other one saw that it had lost before it came so far
