#!/usr/bin/env python3
"""Speed and memory of saves and loads, as ratios within one run.

Compared things alternate A B B A, so that a machine whose speed drifts is fair to both. Data is
incompressible and in the page cache. Prints a table, and writes bench.json into the build folder.
"""

import argparse
import os
import subprocess
import sys

import harness
from harness import STAGING_MIB, Table, machine, make_file, remove
from limit import Limit
from local import Local
from peers import Peers
from scale import Scale
from tls import Tls

PARTS = ("local", "limit", "scale", "tls", "peers")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scratch", required=True)
    parser.add_argument("--build", default="build")
    parser.add_argument("--sizes", default="2048,8192", help="MiB of a checkpoint, comma-separated")
    parser.add_argument("--rounds", type=int, default=5, help="at least so many")
    parser.add_argument("--smoke", action="store_true", help="little data, once: whether all of it works; nothing is judged")
    parser.add_argument("parts", nargs="*", default=PARTS, help=f"some of: {', '.join(PARTS)}; default: all")
    arguments = parser.parse_args()
    if arguments.smoke:
        arguments.sizes, arguments.rounds, harness.PATIENCE = "128", 1, 1
    sizes = [int(size) for size in arguments.sizes.split(",")]
    table = Table()
    made_of = (arguments.build, arguments.scratch, table, arguments.rounds)
    version = subprocess.run([os.path.join(arguments.build, "cleat"), "--version"], check=True,
                             stdout=subprocess.PIPE, text=True)
    print(f"{version.stdout.strip()} on {machine()}")
    print(f"staging budget {STAGING_MIB} MiB, parts of 16 MiB, at least {arguments.rounds} rounds")
    if "local" in arguments.parts:
        local(Local(*made_of), sizes, table, arguments.scratch)
    if "limit" in arguments.parts:
        table.title("Against the limit: plain sockets on loopback")
        Limit(*made_of).run(sizes[0])
    if "scale" in arguments.parts:
        table.title("Many tensors, many checkpoints")
        Scale(*made_of).run()
    if "tls" in arguments.parts:
        table.title("What HTTPS adds")
        Tls(*made_of).run(sizes[0])
    if "peers" in arguments.parts:
        table.title("Against other tools, on one MinIO")
        peers = Peers(*made_of)
        peers.versions()
        peers.run(sizes[0])
    table.write(os.path.join(arguments.build, "bench.json"))
    return 0 if table.all_hold() or arguments.smoke else 1


def local(bench, sizes, table, scratch):
    source = os.path.join(scratch, "source")
    table.title("On this machine: folders, memory, the fence")
    for mib in sizes:
        make_file(os.path.join(source, "data.bin"), mib)
        bench.against_cp(mib)
        bench.on_minio(mib)
        remove(source)
    bench.fence_cost(256)
    bench.fence_cost(1024)


if __name__ == "__main__":
    sys.exit(main())
