"""Many tensors in one checkpoint, and many checkpoints in one store: what grows, grows in proportion."""

import json
import os
import subprocess

from harness import Run, best, median, remove

TENSORS = 100_000
CHECKPOINTS = 1000
CPU_MAX_S = 0.25
LIST_MAX_S = 2.0


class Scale:
    def __init__(self, build, scratch, table, rounds):
        self.scratch, self.table, self.rounds = scratch, table, rounds
        self.cleat = os.path.join(build, "cleat")
        self.scale = os.path.join(build, "tests/bench/scale")

    def run(self):
        self.tensors()
        self.checkpoints()

    def measure(self, what, url, count):
        told = subprocess.run([self.scale, what, url, str(count)], check=True, stdout=subprocess.PIPE).stdout
        return json.loads(told)

    def tensors(self):
        folder = os.path.join(self.scratch, "scale")
        cost = {}
        for count in (TENSORS // 10, TENSORS):
            runs = []
            for _ in range(self.rounds):
                remove(folder)
                runs.append(self.measure("tensors", "file://" + folder, count))
            cost[count] = [min(run[name] for run in runs) for name in ("save_cpu_s", "open_cpu_s")]
        remove(folder)
        for i, what in enumerate(("planned and saved, record and all", "opened and walked")):
            few, many = cost[TENSORS // 10][i], cost[TENSORS][i]
            self.table.row(f"{TENSORS} tensors {what}", f"{1000 * many:.0f} ms of CPU ({1000 * few:.0f} ms for a tenth)",
                           f"≤ {1000 * CPU_MAX_S:.0f} ms", many <= CPU_MAX_S)

    def checkpoints(self):
        url = "s3://bench/scale"
        self.measure("checkpoints", url, CHECKPOINTS)
        runs = [Run([self.cleat, "ls", url]) for _ in range(self.rounds)]
        self.table.row(f"cleat ls of {CHECKPOINTS} checkpoints on MinIO", f"{best(runs):.2f} s (median {median(runs):.2f})",
                       f"≤ {LIST_MAX_S:.0f} s", best(runs) <= LIST_MAX_S)
        remove(os.path.join(self.scratch, "minio/data/bench/scale"))
