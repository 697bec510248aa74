"""Against the limit: a store that costs nothing, and plain sockets that only move bytes.

limit_server drops what is uploaded and makes up what is downloaded; raw_client moves the same bytes over as
many connections. The checkpoint is one safetensors file whose bytes repeat every 16 MiB, its header
included, so that what the server makes up is what was saved.
"""

import contextlib
import json
import os
import statistics
import struct
import subprocess

from harness import GB, MIB, Run, alternate, cpu_per_gb, each_round, make_file, median, read_once, remove, size_name

CONNECTIONS = 16  # the program's default for s3://
PART_BYTES = 16 * MIB


@contextlib.contextmanager
def free_store(build, block_path):
    """limit_server, whose large objects are made of that block: the environment with which the program finds it."""
    server = subprocess.Popen([os.path.join(build, "tests/bench/limit_server"), block_path], stdout=subprocess.PIPE,
                              text=True)
    try:
        port = server.stdout.readline().strip()
        yield dict(os.environ, AWS_ENDPOINT_URL=f"http://127.0.0.1:{port}", AWS_REGION="us-east-1",
                   AWS_ACCESS_KEY_ID="limit", AWS_SECRET_ACCESS_KEY="limit")
    finally:
        server.kill()
        server.wait()


def safetensors_block(mib):
    """The header of a tensor "data" that fills `mib` MiB with it, and random bytes up to a part's size."""
    size = mib * MIB
    header_bytes = 4096
    header = json.dumps({"data": {"dtype": "U8", "shape": [size - header_bytes],
                                  "data_offsets": [0, size - header_bytes]}}).encode()
    return (struct.pack("<Q", header_bytes - 8) + header.ljust(header_bytes - 8)
            + os.urandom(PART_BYTES - header_bytes)), size - header_bytes


class Timed:
    """What a program measured of itself."""

    def __init__(self, command, env):
        text = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=env).stdout
        told = json.loads(text)
        self.wall_s, self.cpu_s = told["wall_s"], told["cpu_s"]


class Limit:
    def __init__(self, build, scratch, table, rounds):
        self.build, self.scratch, self.table, self.rounds = build, scratch, table, rounds

    def path(self, name):
        return os.path.join(self.scratch, name)

    def program(self, name):
        return os.path.join(self.build, "tests/bench", name)

    def run(self, mib):
        block, tensor_bytes = safetensors_block(mib)
        os.makedirs(self.path("limit"), exist_ok=True)
        with open(self.path("limit/block"), "wb") as file:
            file.write(block)
        make_file(self.path("limit/source/model.safetensors"), mib, block)
        with free_store(self.build, self.path("limit/block")) as env:
            self.compare(mib, env, tensor_bytes)
        remove(self.path("limit"))

    def compare(self, mib, env, tensor_bytes):
        cleat = os.path.join(self.build, "cleat")
        source = self.path("limit/source")
        port = env["AWS_ENDPOINT_URL"].rsplit(":", 1)[1]
        parts = str(mib * MIB // PART_BYTES)
        count = [0]

        def url():
            count[0] += 1
            return f"s3://bench/limit-{count[0]}"

        def raw(what):
            return lambda: Run([self.program("raw_client"), what, port, str(CONNECTIONS), parts, str(PART_BYTES)])

        def save_files():
            return Run([cleat, "save", "-q", source, url(), "--step", "1"], env)

        def memory(what, where):
            return lambda: Timed([self.program("memory"), what, where or url(), str(tensor_bytes)], env)

        read_once(source)
        stored = "s3://bench/limit-stored"
        Run([cleat, "save", "-q", source, stored, "--step", "1"], env)
        limit, files, tensors = alternate([raw("upload"), save_files, memory("save", None)], self.rounds, mib)
        self.rows("upload", mib, limit, {"files": files, "memory": tensors})
        limit, checked, unchecked = alternate(
            [raw("download"), memory("load", stored), memory("load-unchecked", stored)], self.rounds, mib)
        self.rows("download", mib, limit, {"memory": checked})
        self.table.samples("limit-download", "memory, unchecked", mib * MIB, unchecked)
        cost = [100 * (ratio - 1) for ratio in each_round(checked, unchecked)]
        self.table.figure("crc-cost", "the checks of a load: more time than without them", cost, 8, unit=" %", digits=1)

    def rows(self, direction, mib, limit, ours):
        size = mib * MIB
        self.table.samples(f"limit-{direction}", "plain sockets", size, limit)
        plain = median(limit)
        for where, runs in ours.items():
            self.table.samples(f"limit-{direction}", where, size, runs)
            way = f"{direction} of {size_name(mib)} {'from' if direction == 'upload' else 'to'} {where}"
            self.table.figure(f"limit-{direction}-{where}", f"{way} ÷ plain sockets", each_round(limit, runs), 0.75,
                              at_least=True,
                              note=f"{size / GB / median(runs):.2f} against {size / GB / plain:.2f} GB/s")
            self.table.figure(f"limit-{direction}-{where}-cpu", f"{way}: CPU-s/GB", cpu_per_gb(runs, size), 0.30,
                              note=f"plain sockets {statistics.median(cpu_per_gb(limit, size)):.2f}")
