"""Against the limit: a store that costs nothing, and plain sockets that only move bytes.

limit_server drops what is uploaded and makes up what is downloaded; raw_client moves the same bytes over as
many connections. The checkpoint is one safetensors file whose bytes repeat every 16 MiB, its header
included, so that what the server makes up is what was saved.
"""

import json
import os
import struct
import subprocess

from harness import MIB, Run, alternate, best, least_cpu, make_file, median, read_once, remove

CONNECTIONS = 16  # the program's default for s3://
PART_BYTES = 16 * MIB
GB = 1e9


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
        server = subprocess.Popen([self.program("limit_server"), self.path("limit/block")],
                                  stdout=subprocess.PIPE, text=True)
        try:
            port = server.stdout.readline().strip()
            self.compare(mib, port, tensor_bytes)
        finally:
            server.kill()
            server.wait()
            remove(self.path("limit"))

    def compare(self, mib, port, tensor_bytes):
        cleat = os.path.join(self.build, "cleat")
        source = self.path("limit/source")
        env = dict(os.environ, AWS_ENDPOINT_URL=f"http://127.0.0.1:{port}", AWS_REGION="us-east-1",
                   AWS_ACCESS_KEY_ID="limit", AWS_SECRET_ACCESS_KEY="limit")
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
        limit, files, tensors = alternate([raw("upload"), save_files, memory("save", None)], self.rounds)
        self.rows("upload to a server that drops it, from files", mib, files, limit)
        self.rows("upload to a server that drops it, from memory", mib, tensors, limit)
        limit, checked, unchecked = alternate(
            [raw("download"), memory("load", stored), memory("load-unchecked", stored)], self.rounds)
        self.rows("download from a server that makes it up, to memory", mib, checked, limit)
        cost = best(checked) / best(unchecked) - 1
        self.table.row("the checks of a load: more time than without them", f"{100 * cost:.1f} %", "≤ 8 %", cost <= 0.08)

    def rows(self, what, mib, ours, limit):
        ratio = best(limit) / best(ours)
        rate = mib * MIB / GB / best(ours)
        self.table.row(f"{what} ÷ plain sockets", f"{ratio:.2f} ({rate:.2f} GB/s; {len(ours)} rounds, "
                       f"medians {median(limit) / median(ours):.2f})", "≥ 0.75", ratio >= 0.75)
        cpu, plain = (least_cpu(runs) / (mib * MIB / GB) for runs in (ours, limit))
        self.table.row(f"{what}: CPU", f"{cpu:.2f} CPU-s/GB (plain sockets {plain:.2f})", "≤ 0.30", cpu <= 0.30)
