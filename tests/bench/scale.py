"""Many tensors in one checkpoint, many checkpoints in one store, many ranks of one job: what grows, grows in
proportion."""

import json
import os
import statistics
import subprocess

from harness import Run, remove

TENSORS = 100_000
CHECKPOINTS = 1000
CPU_MAX_S = 0.25
LIST_MAX_S = 2.0
RANKS = 1024
RESHARD_MAX = 1.1


class Scale:
    def __init__(self, build, scratch, table, rounds):
        self.scratch, self.table, self.rounds = scratch, table, rounds
        self.cleat = os.path.join(build, "cleat")
        self.scale = os.path.join(build, "tests/bench/scale")
        self.ranks = os.path.join(build, "tests/bench/ranks")

    def run(self):
        self.tensors()
        self.checkpoints()
        self.commits()
        self.reshard()

    def measure(self, what, url, count):
        told = subprocess.run([self.scale, what, url, str(count)], check=True, stdout=subprocess.PIPE).stdout
        return json.loads(told)

    def tensors(self):
        folder = os.path.join(self.scratch, "scale")
        cost = {}
        for count in (TENSORS // 10, TENSORS):
            cost[count] = []
            for _ in range(self.rounds):
                remove(folder)
                cost[count].append(self.measure("tensors", "file://" + folder, count))
        remove(folder)
        for name, what in (("save_cpu_s", "planned and saved, record and all"), ("open_cpu_s", "opened and walked")):
            few, many = ([1000 * run[name] for run in cost[count]] for count in (TENSORS // 10, TENSORS))
            self.table.figure("tensors-" + name.split("_", 1)[0], f"{TENSORS:,} tensors {what}: CPU", many,
                              1000 * CPU_MAX_S, unit=" ms", digits=0,
                              note=f"{statistics.median(few):.0f} ms for a tenth of them")

    def checkpoints(self):
        url = "s3://bench/scale"
        self.measure("checkpoints", url, CHECKPOINTS)
        runs = [Run([self.cleat, "ls", url]) for _ in range(self.rounds)]
        self.table.figure("list", f"cleat ls of {CHECKPOINTS:,} checkpoints on MinIO", [run.wall_s for run in runs],
                          LIST_MAX_S, unit=" s")
        remove(os.path.join(self.scratch, "minio/data/bench/scale"))

    def of_ranks(self, *arguments):
        """One run of the ranks of a job, in a folder of its own."""
        folder = os.path.join(self.scratch, "ranks")
        remove(folder)
        told = subprocess.run([self.ranks, arguments[0], folder, *map(str, arguments[1:])], check=True,
                              stdout=subprocess.PIPE).stdout
        remove(folder)
        return json.loads(told)

    def commits(self):
        """From the last rank record to the visible manifest, in proportion to the ranks."""
        cost = {count: [1000 * self.of_ranks("commit", count)["commit_s"] for _ in range(self.rounds)]
                for count in (RANKS // 4, RANKS)}
        self.table.figure("ranks-commit", f"{RANKS:,} ranks: from the last rank record to the manifest", cost[RANKS],
                          None, unit=" ms", digits=0,
                          note=f"{statistics.median(cost[RANKS // 4]):.0f} ms for a quarter of them")

    def reshard(self):
        self.table.figure("ranks-reshard", "64 ranks' shards loaded by 48: bytes read ÷ bytes asked for",
                          [self.of_ranks("reshard", 64, 48)["read"] for _ in range(self.rounds)], RESHARD_MAX, digits=3)
