#!/usr/bin/env python3
"""Speed and memory of saves and loads, as ratios within one run.

Compared things alternate A B B A, so that a machine whose speed drifts is fair to both. Data is
incompressible and in the page cache. Prints a table, and writes one JSON document of the whole run, which
report.py makes a page of.
"""

import argparse
import os
import subprocess
import sys
import time

from harness import Table, make_file, remove
from header import describe
from limit import Limit
from local import Local
from memory import Memory
from peers import Peers
from scale import Scale
from tls import Tls

HERE = os.path.dirname(os.path.abspath(__file__))
PARTS = ("local", "limit", "scale", "tls", "memory", "peers")
SMOKE_SIZES, SMOKE_SMALL_FILES = [64, 128], 100
SMALL_FILES = 5000


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scratch", required=True)
    parser.add_argument("--store", help="what MinIO keeps its data on, to tell of it", required=True)
    parser.add_argument("--build", default="build")
    parser.add_argument("--json", help="where the document goes, and a page beside it; default: in the build folder, "
                        "bench/results.json for all parts, bench/some/ and bench/smoke/ for less")
    parser.add_argument("--sizes", default="1024,4096,16384", type=lambda text: [int(size) for size in text.split(",")],
                        help="MiB of a checkpoint, comma-separated: the first for speed, all for memory")
    parser.add_argument("--rounds", type=int, default=5, help="how often each comparison is made")
    parser.add_argument("--smoke", action="store_true",
                        help="little data, once: whether all of it works; nothing is judged")
    parser.add_argument("parts", nargs="*", default=PARTS, help=f"some of: {', '.join(PARTS)}; default: all")
    arguments = parser.parse_args()
    if unknown := set(arguments.parts) - set(PARTS):
        parser.error(f"no part {', '.join(sorted(unknown))}: there are {', '.join(PARTS)}")
    if arguments.smoke:
        arguments.sizes, arguments.rounds = SMOKE_SIZES, 1
    # Only a whole run takes the place of a whole run.
    folder = "bench/smoke" if arguments.smoke else "bench" if set(arguments.parts) == set(PARTS) else "bench/some"
    arguments.json = arguments.json or os.path.join(arguments.build, folder, "results.json")
    return arguments


def main():
    arguments = parse()
    header = describe(arguments)
    table = Table()
    tell(header)
    header["seconds"] = {}
    for part in PARTS:
        if part not in arguments.parts:
            continue
        begun = time.monotonic()
        run_part(part, arguments, table, header)
        header["seconds"][part] = round(time.monotonic() - begun)
        table.write(arguments.json, header)
    summary = "All of it works; nothing is judged" if arguments.smoke else table.summary()
    print(f"\n{summary}\n{sum(header['seconds'].values())} s: {header['seconds']}", flush=True)
    folder = os.path.dirname(os.path.abspath(arguments.json))
    return subprocess.run([os.path.join(HERE, "report.sh"), arguments.json, folder], check=False).returncode


def run_part(part, arguments, table, header):
    sizes, scratch = arguments.sizes, arguments.scratch
    made_of = (arguments.build, scratch, table, arguments.rounds)
    if part == "local":
        local(Local(*made_of), sizes[0], table, scratch)
    elif part == "limit":
        table.title("Against the limit: plain sockets on loopback")
        Limit(*made_of).run(2 * sizes[0])  # it is the fastest: a run of some length
    elif part == "scale":
        table.title("Many tensors, many checkpoints")
        Scale(*made_of).run()
    elif part == "tls":
        table.title("What HTTPS adds")
        Tls(*made_of).run(sizes[0])
    elif part == "memory":
        table.title("Memory by size of the checkpoint")
        Memory(*made_of).run(sizes)
    elif part == "peers":
        table.title("Against other tools, on one MinIO")
        peers = Peers(*made_of)
        header["versions"].update(peers.versions())
        peers.run(sizes[0], SMOKE_SMALL_FILES if arguments.smoke else SMALL_FILES)


def local(bench, mib, table, scratch):
    source = os.path.join(scratch, "source")
    table.title("On this machine: folders, the fence")
    make_file(os.path.join(source, "data.bin"), mib)
    bench.against_cp(mib)
    remove(source)
    bench.fence_cost(256)
    bench.fence_cost(1024)


def tell(header):
    machine, settings = header["machine"], header["settings"]
    print(f"{header['versions']['cleat']} ({header['commit']}) on {machine['processor']}, {machine['cores']} cores, "
          f"{machine['memory']}, {machine['kernel']}")
    print(f"staging budget {settings['staging budget']}, parts of {settings['part size']}, "
          f"sizes {settings['sizes']} MiB, {settings['rounds']} rounds")


if __name__ == "__main__":
    sys.exit(main())
