"""What every comparison needs: child processes with their cost, alternation, and the table of results.

Only the standard library is used.
"""

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

    def __init__(self, command, env=None):
        begun = time.monotonic()
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=env)
        _, status, usage = os.wait4(child.pid, 0)
        self.wall_s = time.monotonic() - begun
        self.cpu_s = usage.ru_utime + usage.ru_stime
        self.peak_mib = usage.ru_maxrss / 1024
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode != 0:
            sys.exit(f"bench: {' '.join(command)} ended with {child.returncode}")


def best(runs):
    return min(run.wall_s for run in runs)


def median(runs):
    return statistics.median(run.wall_s for run in runs)


def least_cpu(runs):
    return min(run.cpu_s for run in runs)


def settled(runs):
    """True when nothing large disturbed the two fastest."""
    fastest, second = sorted(run.wall_s for run in runs)[:2]
    return second <= AGREE * fastest


def alternate(measures, rounds):
    """Calls the measures in turn, forwards and backwards by turns, so that none always has the same one's
    leavings before it. At least `rounds` rounds; then on until the two fastest runs of each agree, or
    patience ends. Returns a list of runs for each measure."""
    runs = [[] for _ in measures]
    for i in range(PATIENCE * rounds):
        if i >= max(rounds, 2) and all(settled(of_one) for of_one in runs):
            break
        order = list(enumerate(measures))
        for k, measure in order if i % 2 == 0 else reversed(order):
            runs[k].append(measure())
    return runs


def make_file(path, mib, block=None):
    """Bytes that nothing can shrink; with `block`, that one repeated."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        for _ in range(mib if block is None else mib * MIB // len(block)):
            file.write(os.urandom(MIB) if block is None else block)
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


def machine():
    cpu = "unknown processor"
    with open("/proc/cpuinfo", encoding="utf-8") as info:
        for line in info:
            if line.startswith("model name"):
                cpu = line.split(":", 1)[1].strip()
                break
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    return f"{cpu}, {os.cpu_count()} cores, {memory_gib:.0f} GiB, Linux {platform.release()}"


class Table:
    """Rows of what was measured, against what is wanted of it."""

    def __init__(self):
        self.rows = []

    def title(self, text):
        print(f"\n{text}", flush=True)

    def row(self, what, value, target="-", holds=True):
        self.rows.append({"what": what, "value": value, "target": target, "holds": holds})
        print(f"  {what:<58} {value:<52} {target:<16} {'yes' if holds else 'NO'}", flush=True)

    def peak(self, what, runs):
        peak = max(run.peak_mib for run in runs)
        limit = STAGING_MIB + ALLOWANCE_MIB
        self.row(f"{what}: peak memory", f"{peak:.0f} MiB", f"≤ {limit} MiB", peak <= limit)

    def write(self, path):
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"machine": machine(), "rows": self.rows}, file, indent=1)

    def all_hold(self):
        return all(row["holds"] for row in self.rows)
