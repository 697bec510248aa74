"""Fixtures of the integration tests.

A test with the fixture `bucket` runs on MinIO over HTTP; with @ON_EVERY_SERVER, on each of the servers. A test with the
fixture `store` runs on a folder and on that MinIO; with @ON_EVERY_STORE, on a folder and on each of the servers. If a
server cannot do something, the test expects that. It is never a skip.
"""

import contextlib
import os
import random

import pytest

import disk_image
import preloaded
from helpers import Bucket, Folder, Server, fill, noise
from proxy import Proxy, abort_uploads
from run_jobs import Job

# Sanitizers may hold locks of their own at a fork, or allow no thread in the child of one: there the unit tests have to
# do.
collect_ignore = ["test_forks.py"] if os.environ.get("SANITIZE") else []


@pytest.fixture
def server(request):
    """Tests against a server fail without it; they are never skipped."""
    return Server(getattr(request, "param", "minio-http"))


@pytest.fixture(scope="session")
def minio():
    """The server that most tests use."""
    return Server("minio-http")


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path / "store")


@pytest.fixture
def bucket(server):
    bucket = Bucket(server)
    yield bucket
    bucket.remove()


@pytest.fixture(params=["folder", "minio-http"])
def store(request):
    """Each test that takes it runs on a folder and on a bucket of a server."""
    if request.param == "folder":
        yield request.getfixturevalue("folder")
        return
    bucket = Bucket(Server(request.param))
    yield bucket
    bucket.remove()


@pytest.fixture
def jobs(tmp_path):
    """Starts jobs under `cleat run`, and kills at the end what is left of them: jobs(store, DIR, options…)."""
    started = []

    def start(store, directory, *options, **more):
        started.append(Job(store, directory, tmp_path / ("job-%d" % len(started)), *options, **more))
        return started[-1]

    yield start
    for job in started:
        job.kill()


@pytest.fixture
def proxied(bucket):
    """A bucket behind a proxy that a test may give hooks."""
    proxy = Proxy(bucket.server.endpoint)
    bucket.environment["AWS_ENDPOINT_URL"] = proxy.url
    bucket.proxy = proxy
    yield bucket
    proxy.close()
    abort_uploads(bucket, proxy.upload_keys())


@pytest.fixture(params=["bucket", "folder"])
def proxied_or_folder(request, tmp_path):
    """The same, then a folder, whose proxy is None."""
    if request.param == "bucket":
        return request.getfixturevalue("proxied")
    folder = Folder(tmp_path / "store")
    folder.proxy = None
    return folder


@pytest.fixture
def rng():
    """Random numbers. The seed is printed, and CLEAT_TEST_SEED repeats it."""
    seed = int(os.environ.get("CLEAT_TEST_SEED", random.SystemRandom().randrange(1 << 32)))
    print("CLEAT_TEST_SEED=%d" % seed)
    return random.Random(seed)


@pytest.fixture
def small(tmp_path):
    """A few small files to save."""
    return fill(tmp_path / "small", {"a.bin": noise(70000), "sub/b.txt": b"two\n", "empty": b""})


@pytest.fixture(scope="session")
def bad_disk(tmp_path_factory):
    """Environment of a program whose disk is full after FULL_AFTER bytes, or takes SLOW_MS for each write and
    SLOW_READ_MS for each read at a place; or that reads from the file UNTIL_GROWN only when it has grown again."""
    return preloaded.build(tmp_path_factory.mktemp("disk"), preloaded.BAD_DISK)


@pytest.fixture(scope="session")
def no_links(tmp_path_factory):
    """Environment of a program whose file system refuses hard links."""
    return preloaded.build(tmp_path_factory.mktemp("links"), preloaded.NO_LINKS)


@pytest.fixture(scope="session")
def dies_at_rename(tmp_path_factory):
    """Environment of a program that is killed right before its DIE_AT_RENAMEth renameat2()."""
    return preloaded.build(tmp_path_factory.mktemp("rename"), preloaded.DIES_AT_RENAME)


@pytest.fixture(scope="session")
def dies_at_removal(tmp_path_factory):
    """Environment of a `cleat run` that is killed right before its DIE_AT_REMOVALth change of names in a removal from
    DIR."""
    return preloaded.build(tmp_path_factory.mktemp("removal"), preloaded.DIES_AT_REMOVAL)


@pytest.fixture(scope="session")
def disk_record(tmp_path_factory):
    """Environment of a program that writes into the file DISK_RECORD what it does to the disk, in order, and is stopped
    after each rename to a path that begins with STOP_AFTER_RENAME."""
    return preloaded.build(tmp_path_factory.mktemp("record"), preloaded.DISK_RECORD)


@pytest.fixture
def power(tmp_path):
    """A disk whose power can be cut (disk_image.py), or None where no loop device is to be had; then a test judges the
    order in which things went to the disk instead."""
    with contextlib.ExitStack() as stack:
        try:
            disk = stack.enter_context(disk_image.disk(tmp_path))
        except disk_image.Unavailable as why:
            print("no disk whose power can be cut: %s" % why)
            disk = None
        yield disk


@pytest.fixture(scope="session")
def jumping_clock(tmp_path_factory):
    """Environment of a program whose wall clock jumps by two hours, to and fro, every few times that it is read."""
    return preloaded.build(tmp_path_factory.mktemp("clock"), preloaded.JUMPING_CLOCK)
