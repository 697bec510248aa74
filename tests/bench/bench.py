#!/usr/bin/env python3
"""Speed and memory of saves and loads, as ratios within one run.

Compared things alternate A B B A, so that a machine whose speed drifts is fair to both. Data is
incompressible and in the page cache. Prints a table, and writes bench.json into the build folder.
"""

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import time

MIB = 1 << 20
STAGING_MIB = 256  # the program's default
ALLOWANCE_MIB = 48
PATIENCE = 5  # at most so many times the rounds that were asked for
AGREE = 1.1  # two runs that differ by less were disturbed by nothing large


class Run:
    """One child process: wall and CPU seconds, peak memory."""

    def __init__(self, command):
        begun = time.monotonic()
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        self.wall_s = time.monotonic() - begun
        self.cpu_s = usage.ru_utime + usage.ru_stime
        self.peak_mib = usage.ru_maxrss / 1024
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode != 0:
            sys.exit(f"bench: {' '.join(command)} ended with {child.returncode}")


def make_file(path, mib):
    os.makedirs(os.path.dirname(path))
    with open(path, "wb") as file:
        for _ in range(mib):
            file.write(os.urandom(MIB))
        file.flush()
        os.fsync(file.fileno())


def remove(path):
    shutil.rmtree(path, ignore_errors=True)


def read_once(folder):
    """Brings a folder's files into the page cache."""
    block = bytearray(MIB)
    for root, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(root, name), "rb", buffering=0) as file:
                while file.readinto(block):
                    pass


def settled(runs):
    fastest, second = sorted(run.wall_s for run in runs)[:2]
    return second <= AGREE * fastest


class Bench:
    def __init__(self, arguments):
        self.scratch = arguments.scratch
        self.rounds = arguments.rounds
        self.cleat = os.path.join(arguments.build, "cleat")
        self.fence = os.path.join(arguments.build, "tests/bench/fence")
        self.rows = []

    def path(self, name):
        return os.path.join(self.scratch, name)

    def row(self, what, value, target, holds):
        self.rows.append({"what": what, "value": value, "target": target, "holds": holds})
        print(f"  {what:<58} {value:<46} {target:<16} {'yes' if holds else 'NO'}", flush=True)

    # -- file:// against cp ---------------------------------------------------------------------------

    def measure(self, command, source, target):
        """Every run begins alike: no target, nothing dirty, the source in the page cache, and the same
        command just run and its target removed, so that free memory was in use a moment ago."""
        for _ in range(2):
            remove(target)
            os.sync()
            read_once(source)
            run = Run(command)
        return run

    def alternate(self, ours, theirs, source, target):
        """A B, B A, A B, …: neither always has the other's leavings before it. At least the rounds that
        were asked for; then on until the two fastest runs of each agree, or patience ends."""
        runs = {id(ours): [], id(theirs): []}
        for i in range(PATIENCE * self.rounds):
            if i >= self.rounds and all(settled(of_one) for of_one in runs.values()):
                break
            for command in (ours, theirs) if i % 2 == 0 else (theirs, ours):
                runs[id(command)].append(self.measure(command, source, target))
        remove(target)
        return runs[id(ours)], runs[id(theirs)]

    def against_cp(self, mib):
        source, store, target = self.path("source"), self.path("store"), self.path("target")
        saves, copies = self.alternate(
            [self.cleat, "save", "-q", source, "file://" + target, "--step", "1"],
            ["sh", "-c", f"cp -r {source} {target} && sync {target}/*"], source, target)
        self.speed(f"file:// save of {mib} MiB ÷ cp and sync", mib, saves, copies)
        Run([self.cleat, "save", "-q", source, "file://" + store, "--step", "1"])
        loads, copies = self.alternate(
            [self.cleat, "load", "-q", "file://" + store, target], ["cp", "-r", store, target], store, target)
        self.speed(f"file:// load of {mib} MiB ÷ cp", mib, loads, copies)
        self.memory(f"file:// save and load of {mib} MiB", saves + loads)
        remove(store)

    def speed(self, what, mib, ours, theirs):
        """Judged by the fastest run of each: a virtual machine's host takes free memory away when it
        likes, and a run that has to get it back takes up to eight times as long, whoever it is."""
        best, middle = (pick(t.wall_s for t in theirs) / pick(o.wall_s for o in ours)
                        for pick in (min, statistics.median))
        spread = f"{len(ours)} rounds, medians {middle:.2f}"
        rate = mib / 1024 / min(o.wall_s for o in ours)
        self.row(what, f"{best:.2f} ({rate:.2f} GiB/s; {spread})", "≥ 0.8", best >= 0.8)

    def memory(self, what, runs):
        peak = max(run.peak_mib for run in runs)
        limit = STAGING_MIB + ALLOWANCE_MIB
        self.row(f"{what}: peak memory", f"{peak:.0f} MiB", f"≤ {limit} MiB", peak <= limit)

    # -- s3:// ----------------------------------------------------------------------------------------

    def on_minio(self, mib):
        """Speed against other tools is another matter; here, memory, and the rate for the record."""
        saves, loads = [], []
        for step in range(1, self.rounds + 1):
            url = f"s3://bench/run-{mib}-{step}"
            saves.append(Run([self.cleat, "save", "-q", self.path("source"), url, "--step", "1"]))
            loads.append(Run([self.cleat, "load", "-q", url, self.path("out")]))
            remove(self.path("out"))
            remove(self.path(f"minio/data/bench/run-{mib}-{step}"))
        self.memory(f"s3:// save and load of {mib} MiB", saves + loads)
        for name, runs in (("save", saves), ("load", loads)):
            wall = statistics.median(run.wall_s for run in runs)
            cpu = statistics.median(run.cpu_s for run in runs) / (mib / 1024)
            self.row(f"s3:// {name} of {mib} MiB (MinIO beside it)",
                     f"{mib / 1024 / wall:.2f} GiB/s, {cpu:.2f} CPU-s/GiB", "-", True)

    # -- the fence ------------------------------------------------------------------------------------

    def fence_cost(self, mib):
        text = subprocess.run([self.fence, "file://" + self.path("fence"), str(mib), str(self.rounds + 1)],
                              check=True, stdout=subprocess.PIPE).stdout
        remove(self.path("fence"))
        result = json.loads(text)
        rounds = result["rounds"][1:]  # the first one warms both up
        copied = statistics.median(r["memcpy_s"] for r in rounds)
        fenced = statistics.median(r["fence_s"] for r in rounds)
        self.row(f"fence of an async save of {mib} MiB ÷ one memcpy",
                 f"{fenced / copied:.2f} ({fenced * 1000:.0f} ms)", "≤ 1.5", fenced <= 1.5 * copied)
        above = result["above_source_mib"]
        limit = result["budget_mib"] + ALLOWANCE_MIB
        self.row(f"async save of {mib} MiB: memory above the source", f"{above:.0f} MiB",
                 f"≤ {limit:.0f} MiB", above <= limit)


def header():
    cpu = "unknown processor"
    with open("/proc/cpuinfo", encoding="utf-8") as info:
        for line in info:
            if line.startswith("model name"):
                cpu = line.split(":", 1)[1].strip()
                break
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    return f"{cpu}, {os.cpu_count()} cores, {memory_gib:.0f} GiB, Linux {platform.release()}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scratch", required=True)
    parser.add_argument("--build", default="build")
    parser.add_argument("--sizes", default="2048,8192", help="MiB of a checkpoint, comma-separated")
    parser.add_argument("--rounds", type=int, default=4)
    arguments = parser.parse_args()
    bench = Bench(arguments)
    version = subprocess.run([bench.cleat, "--version"], check=True, stdout=subprocess.PIPE, text=True)
    print(f"{version.stdout.strip()} on {header()}")
    print(f"staging budget {STAGING_MIB} MiB, parts of 16 MiB, {arguments.rounds} rounds\n")
    for mib in (int(size) for size in arguments.sizes.split(",")):
        make_file(bench.path("source/data.bin"), mib)
        bench.against_cp(mib)
        bench.on_minio(mib)
        remove(bench.path("source"))
    bench.fence_cost(256)
    bench.fence_cost(1024)
    with open(os.path.join(arguments.build, "bench.json"), "w", encoding="utf-8") as file:
        json.dump({"machine": header(), "rows": bench.rows}, file, indent=1)
    return 0 if all(row["holds"] for row in bench.rows) else 1


if __name__ == "__main__":
    sys.exit(main())
