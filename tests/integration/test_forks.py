"""Programs that fork while they save to a real server. The parent and the children have a client each.

The moments come from a printed seed; CLEAT_TEST_SEED repeats it. boto3 reads what is stored.
"""

import os
import random
import subprocess
import sys
from pathlib import Path

import numpy
import pytest

from helpers import CLEAT

BUILD = Path(CLEAT).parent
FORK_CHILDREN = BUILD / "tests" / "integration" / "fork_children"
CHILDREN = 10
FIRST_CHILD = 1000000
SIZE = 6 << 20
SECONDS_MAX = 300

ON_MINIO = pytest.mark.parametrize("server", ["minio-http", "minio-https"], indirect=True)


def expected(step):
    """What fork_children.c fills the tensor of this step with."""
    index = numpy.arange(SIZE, dtype=numpy.uint32)
    return (index * numpy.uint32(2 * step + 1) + (index >> 8)).astype(numpy.uint8).tobytes()


def steps_of(bucket):
    return {int(key.split("/")[0][len("step-"):]) for key in bucket.keys() if key.endswith("/manifest.json")}


@ON_MINIO
def test_forks_amid_saves(bucket):
    seed = int(os.environ.get("CLEAT_TEST_SEED", random.SystemRandom().randrange(1 << 31)))
    print("CLEAT_TEST_SEED=%d" % seed)
    ended = subprocess.run([FORK_CHILDREN, bucket.url, str(CHILDREN), str(seed)], env=bucket.environment,
                           capture_output=True, timeout=SECONDS_MAX)
    assert ended.returncode == 0 and ended.stderr == b"", ended
    word, last = ended.stdout.split()
    assert word == b"saved" and int(last) > 0
    steps = {*range(int(last) + 1), *range(FIRST_CHILD, FIRST_CHILD + CHILDREN)}
    assert steps_of(bucket) == steps
    for step in steps:
        (file,) = bucket.record(step)["files"]
        assert bucket.get(bucket.file_key(step, file["name"])).endswith(expected(step)), step


# ctypes lets go of Python's lock in a call, so that a fork meets the other thread amid one.
FROM_PYTHON = r"""
import ctypes, os, signal, sys, threading
library, url, children = ctypes.CDLL(sys.argv[1]), sys.argv[2].encode(), int(sys.argv[3])
library.cleat_client_close.argtypes = [ctypes.c_void_p]
library.cleat_client_close.restype = None
library.cleat_status_name.restype = ctypes.c_char_p

def name(status):
    return library.cleat_status_name(status).decode()

def connect():
    client = ctypes.c_void_p()
    status = library.cleat_client_open(url, None, ctypes.byref(client), None)
    assert status == 0, name(status)
    return client

def latest(client):
    step = ctypes.c_int64(-7)
    return name(library.cleat_latest(client, ctypes.byref(step), None)), step.value

def poll():
    while not enough.is_set():
        assert latest(client) == ("OK", 4)

client, enough = connect(), threading.Event()
threads = [threading.Thread(target=poll) for _ in range(2)]
for thread in threads:
    thread.start()
for _ in range(children):
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        assert latest(client) == ("UNSUPPORTED", -7)
        library.cleat_client_close(client)
        own = connect()
        assert latest(own) == ("OK", 4)
        library.cleat_client_close(own)
        sys.exit(0)
    assert os.waitpid(child, 0)[1] == 0
enough.set()
for thread in threads:
    thread.join()
assert latest(client) == ("OK", 4)
library.cleat_client_close(client)
"""


@ON_MINIO
def test_forks_of_python(bucket, small):
    bucket.save(small, 4)
    ended = subprocess.run([sys.executable, "-c", FROM_PYTHON, BUILD / "libcleat.so", bucket.url, str(CHILDREN)],
                           env=bucket.environment, capture_output=True, timeout=SECONDS_MAX)
    assert ended.returncode == 0, ended
