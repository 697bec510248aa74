"""Memory of saves and loads by size of the checkpoint, and what the default budget costs against a larger one.

Up to MINIO_MAX_MIB on MinIO; at every size on the server that drops what is saved and makes up what is loaded, where
the store is never what holds a buffer. There the file is one of zeros that takes no disk, so that 16 GiB fit.
"""

import os
import shutil

from harness import (ALLOWANCE_MIB, GB, MIB, STAGING_MIB, Run, alternate, each_round, make_file, median, read_once,
                     remove, size_name)
from limit import PART_BYTES, free_store

LARGE_BUDGET = "1G"
LOSS_MAX = 5
MINIO_MAX_MIB = 4096
LONG_MIB = 4096  # from here on, each size is measured once: a peak does not wander
PEAK_MAX_MIB = STAGING_MIB + ALLOWANCE_MIB


class Memory:
    def __init__(self, build, scratch, table, rounds):
        self.build, self.scratch, self.table, self.rounds = build, scratch, table, rounds
        self.cleat = os.path.join(build, "cleat")
        self.saved = 0

    def path(self, name):
        return os.path.join(self.scratch, name)

    def run(self, sizes):
        for mib in sizes:
            if mib <= MINIO_MAX_MIB and self.fits(3 * mib):
                make_file(self.path("source/data.bin"), mib)
                self.measure("minio", "MinIO", mib, dict(os.environ), mib == sizes[0])
        block = self.path("zeros")
        with open(block, "wb") as file:
            file.truncate(PART_BYTES)
        with free_store(self.build, block) as env:
            for mib in sizes:
                if self.fits(mib):
                    self.make_zeros(mib)
                    self.measure("free", "a store at no cost", mib, env, mib == sizes[0])
        os.remove(block)

    def fits(self, mib):
        free = shutil.disk_usage(self.scratch).free // MIB
        if free < mib + 1024:
            self.table.row(f"memory at {mib} MiB: left out", f"needs {mib} MiB of disk, {free} MiB are free")
        return free >= mib + 1024

    def make_zeros(self, mib):
        os.makedirs(self.path("source"))
        with open(self.path("source/data.bin"), "wb") as file:
            file.truncate(mib * MIB)

    def measure(self, server, where, mib, env, with_rate):
        rounds = self.rounds if mib < LONG_MIB else 1
        read_once(self.path("source"))
        budgets = (None, LARGE_BUDGET) if with_rate else (None,)
        saves = alternate([lambda budget=budget: self.save(env, budget) for budget in budgets], rounds, mib)
        remove(self.path("source"))
        loads = alternate([lambda budget=budget: self.load(env, budget) for budget in budgets], rounds, mib)
        self.forget()
        remove(self.path("out"))
        for what, runs in (("save", saves), ("load", loads)):
            self.tell(f"memory-{server}-{what}-{mib}", f"{what} of {size_name(mib)}, {where}", mib * MIB, runs,
                      with_rate)

    def tell(self, name, what, size, runs, with_rate):
        self.table.samples(name, "256 MiB", size, runs[0])
        self.table.figure(name, f"{what}: peak memory", [run.peak_mib for run in runs[0]], PEAK_MAX_MIB, unit=" MiB",
                          digits=0)
        if with_rate:
            self.table.samples(name, "1 GiB", size, runs[1])
            loss = [100 * (1 - ratio) for ratio in each_round(runs[1], runs[0])]
            self.table.figure(
                name.rsplit("-", 1)[0] + "-loss", f"{what}: rate lost against a budget of 1 GiB", loss, LOSS_MAX,
                unit=" %", digits=1,
                note=f"{size / GB / median(runs[0]):.2f} against {size / GB / median(runs[1]):.2f} GB/s")

    def save(self, env, budget):
        """What the one before has stored goes; the last one stays, for the loads."""
        self.forget()
        os.sync()
        self.saved += 1
        return Run([self.cleat, "save", "-q", self.path("source"), self.url(), "--step", "1", *staging(budget)], env)

    def load(self, env, budget):
        remove(self.path("out"))
        os.sync()
        return Run([self.cleat, "load", "-q", self.url(), self.path("out"), "--step", "1", *staging(budget)], env)

    def url(self):
        return f"s3://bench/memory-{self.saved}"

    def forget(self):
        """On one drive, MinIO keeps an object in a folder of its name."""
        remove(self.path(f"minio/data/bench/memory-{self.saved}"))


def staging(budget):
    return ["--staging", budget] if budget else []
