"""Against cp, on file://; what the fence costs."""

import json
import os
import statistics
import subprocess

from harness import ALLOWANCE_MIB, MIB, Run, alternate, best, median, read_once, remove


class Local:
    def __init__(self, build, scratch, table, rounds):
        self.scratch, self.table, self.rounds = scratch, table, rounds
        self.cleat = os.path.join(build, "cleat")
        self.fence = os.path.join(build, "tests/bench/fence")

    def path(self, name):
        return os.path.join(self.scratch, name)

    # -- file:// against cp ---------------------------------------------------------------------------

    @staticmethod
    def measure(command, source, target):
        """Every run begins alike: no target, nothing dirty, the source in the page cache."""
        remove(target)
        os.sync()
        read_once(source)
        return Run(command)

    def pair(self, ours, theirs, source, target, mib):
        runs = alternate([lambda command=command: self.measure(command, source, target)
                          for command in (ours, theirs)], self.rounds, mib, patience=2)
        remove(target)
        return runs

    def against_cp(self, mib):
        source, store, target = self.path("source"), self.path("store"), self.path("target")
        saves, copies = self.pair(
            [self.cleat, "save", "-q", source, "file://" + target, "--step", "1"],
            ["sh", "-c", f"cp -r {source} {target} && sync {target}/*"], source, target, mib)
        self.speed(f"file:// save of {mib} MiB ÷ cp and sync", mib, saves, copies)
        self.keep("file-save", mib, saves, copies)
        Run([self.cleat, "save", "-q", source, "file://" + store, "--step", "1"])
        loads, copies = self.pair(
            [self.cleat, "load", "-q", "file://" + store, target], ["cp", "-r", store, target], store, target, mib)
        self.speed(f"file:// load of {mib} MiB ÷ cp", mib, loads, copies)
        self.keep("file-load", mib, loads, copies)
        self.table.peak(f"file:// save and load of {mib} MiB", saves + loads)
        remove(store)

    def keep(self, experiment, mib, ours, theirs):
        self.table.samples(experiment, "cleat", mib * MIB, ours)
        self.table.samples(experiment, "cp", mib * MIB, theirs)

    def speed(self, what, mib, ours, theirs):
        """Judged by the fastest run of each: both wait for the one disk, which is nobody's alone."""
        ratio = best(theirs) / best(ours)
        self.table.row(what, f"{ratio:.2f} ({mib / 1024 / best(ours):.2f} GiB/s; {len(ours)} rounds, "
                       f"medians {median(theirs) / median(ours):.2f})", "≥ 0.8", ratio >= 0.8)

    # -- the fence ------------------------------------------------------------------------------------

    def fence_cost(self, mib):
        text = subprocess.run([self.fence, "file://" + self.path("fence"), str(mib), str(self.rounds + 1)],
                              check=True, stdout=subprocess.PIPE).stdout
        remove(self.path("fence"))
        result = json.loads(text)
        rounds = result["rounds"][1:]  # the first one warms both up
        copied = statistics.median(r["memcpy_s"] for r in rounds)
        fenced = statistics.median(r["fence_s"] for r in rounds)
        self.table.row(f"fence of an async save of {mib} MiB ÷ one memcpy",
                 f"{fenced / copied:.2f} ({fenced * 1000:.0f} ms)", "≤ 1.5", fenced <= 1.5 * copied)
        above = result["above_source_mib"]
        limit = result["budget_mib"] + ALLOWANCE_MIB
        self.table.row(f"async save of {mib} MiB: memory above the source", f"{above:.0f} MiB",
                 f"≤ {limit:.0f} MiB", above <= limit)
