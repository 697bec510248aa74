"""What every comparison needs: child processes with their cost, alternation, and the results.

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

GB = 1e9
MIB = 1 << 20
STAGING_MIB = 256  # the program's default
ALLOWANCE_MIB = 48
AGREE = 1.1  # two runs that differ by less were disturbed by nothing large
WARM_MAX_MIB = 4096
TOUCH = "import mmap, sys; mmap.mmap(-1, int(sys.argv[1]), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE)"


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


def each_round(one, other, of=lambda run: run.wall_s):
    """The ratio one ÷ other of every round: what disturbs a round disturbs both."""
    return [of(a) / of(b) for a, b in zip(one, other)]


def cpu_per_gb(runs, size_bytes):
    return [run.cpu_s / (size_bytes / GB) for run in runs]


def settled(runs):
    """True when nothing large disturbed the two fastest."""
    fastest, second = sorted(run.wall_s for run in runs)[:2]
    return second <= AGREE * fastest


def warm(mib):
    """Touches the memory that moving `mib` MiB can need: pages of the source's and the target's copies, and the staging
    buffers. A virtual machine gives free memory back to its host within seconds, and getting a page again costs the one
    that needs it first several microseconds: on the machine of the results, the same download of 1 GiB took 0.7 s, or
    1.9, or 2.9, for nothing else. Done before every run, whoever's it is."""
    with open("/proc/meminfo", encoding="ascii") as file:
        (available,) = (int(line.split()[1]) // 1024 for line in file if line.startswith("MemAvailable:"))
    mib = min(2 * mib + 2 * STAGING_MIB, WARM_MAX_MIB, available // 2)
    subprocess.run([sys.executable, "-c", TOUCH, str(mib * MIB)], check=True)


def alternate(measures, rounds, mib, patience=1):
    """Calls the measures, which move `mib` MiB each, in turn, forwards and backwards by turns, so that none always has
    the same one's leavings before it. `rounds` rounds, which is what a median wants; for a judgement by the fastest
    run, on until the two fastest of each agree, or `patience` times the rounds are done. Returns a list of runs for
    each measure."""
    runs = [[] for _ in measures]
    for i in range(patience * rounds if rounds > 1 else 1):
        if i >= max(rounds, 2) and all(settled(of_one) for of_one in runs):
            break
        order = list(enumerate(measures))
        for k, measure in order if i % 2 == 0 else reversed(order):
            warm(mib)
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


def size_name(mib):
    return f"{mib // 1024} GiB" if mib % 1024 == 0 else f"{mib} MiB"


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


class Table:
    """What was measured: every run (`samples`), what the runs say against what is wanted (`figure`), and
    what is told beside (`row`). Prints it as it comes, and keeps it for the document of the whole run."""

    def __init__(self):
        self.experiments, self.figures, self.rows = {}, [], []

    def title(self, text):
        print(f"\n{text}", flush=True)

    def samples(self, experiment, subject, size_bytes, runs):
        """Keeps all runs of one subject of an experiment, in the order of rounds."""
        kept = self.experiments.setdefault(experiment, {"bytes": size_bytes, "subjects": {}})
        kept["subjects"][subject] = [vars(run) for run in runs]

    def figure(self, name, what, values, limit=None, at_least=False, unit="", digits=2, note=""):
        """One figure, a value for each round. It is reached where the median is on the limit's right side."""
        middle = statistics.median(values)
        reached = None if limit is None else middle >= limit if at_least else middle <= limit
        self.figures.append({
            "name": name, "what": what, "values": values, "limit": limit, "at_least": at_least, "unit": unit,
            "digits": digits, "note": note, "reached": reached
        })
        self.line(what, said(self.figures[-1]), wanted(self.figures[-1]), reached is not False)

    def row(self, what, value, target="-", holds=True):
        self.rows.append({"what": what, "value": value, "target": target, "holds": holds})
        self.line(what, value, target, holds)

    def line(self, what, value, target, holds):
        print(f"  {what:<64} {value:<56} {target:<16} {'yes' if holds else 'NO'}", flush=True)

    def peak(self, what, runs):
        peak = max(run.peak_mib for run in runs)
        limit = STAGING_MIB + ALLOWANCE_MIB
        self.row(f"{what}: peak memory", f"{peak:.0f} MiB", f"≤ {limit} MiB", peak <= limit)

    def write(self, path, header):
        """Replaces the document; called after each part, so that a run that is cut short leaves what it has."""
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        with open(path + ".new", "w", encoding="utf-8") as file:
            json.dump({"format": 1, "header": header, "figures": self.figures, "rows": self.rows,
                       "experiments": self.experiments}, file, indent=1)
        os.replace(path + ".new", path)

    def summary(self):
        judged = [figure for figure in self.figures if figure["reached"] is not None]
        missed = [figure["what"] for figure in judged if not figure["reached"]]
        missed += [row["what"] for row in self.rows if not row["holds"]]
        return f"{len(judged)} figures, {len(missed)} not reached" + "".join(f"\n  not reached: {what}"
                                                                             for what in missed)


def said(figure):
    """median (min – max; rounds) unit"""
    values, digits, unit = figure["values"], figure["digits"], figure["unit"]
    middle = f"{statistics.median(values):.{digits}f}"
    if len(values) == 1:
        return f"{middle}{unit} (1 round)"
    return f"{middle}{unit} ({min(values):.{digits}f} – {max(values):.{digits}f}; {len(values)} rounds)"


def wanted(figure):
    if figure["limit"] is None:
        return "-"
    return f"{'≥' if figure['at_least'] else '≤'} {figure['limit']:.{figure['digits']}f}{figure['unit']}"
