"""What HTTPS adds: CPU of saves and loads over TLS, against that over HTTP and of AES-GCM for the same bytes."""

import json
import os
import statistics
import subprocess

from harness import GB, MIB, Run, alternate, make_file, read_once, remove

SHARE_MAX = 1.25


class Tls:
    """Needs CLEAT_BENCH_HTTPS and CLEAT_BENCH_CA: a second MinIO, with the keys of the first."""

    def __init__(self, build, scratch, table, rounds):
        self.scratch, self.table, self.rounds = scratch, table, rounds
        self.cleat, self.gcm = os.path.join(build, "cleat"), os.path.join(build, "tests/bench/gcm")
        self.plain = dict(os.environ)
        self.sealed = dict(os.environ, AWS_ENDPOINT_URL=os.environ["CLEAT_BENCH_HTTPS"],
                           AWS_CA_BUNDLE=os.environ["CLEAT_BENCH_CA"],
                           AWS_ACCESS_KEY_ID=os.environ["CLEAT_BENCH_HTTPS_KEY"],
                           AWS_SECRET_ACCESS_KEY=os.environ["CLEAT_BENCH_HTTPS_SECRET"])

    def path(self, name):
        return os.path.join(self.scratch, name)

    def run(self, mib):
        source = self.path("source")
        make_file(os.path.join(source, "data.bin"), mib)
        read_once(source)
        told = [json.loads(subprocess.run([self.gcm, str(mib * MIB)], check=True, stdout=subprocess.PIPE).stdout)
                for _ in range(self.rounds)]
        plain, sealed = alternate([
            lambda: self.save(self.plain, "minio"), lambda: self.save(self.sealed, "minio-https")
        ], self.rounds, mib)
        self.row("save", mib, plain, sealed, statistics.median(cost["seal_cpu_s"] for cost in told))
        for env in (self.plain, self.sealed):
            Run([self.cleat, "save", "-q", source, "s3://bench/tls", "--step", "1"], env)
        plain, sealed = alternate([lambda: self.load(self.plain), lambda: self.load(self.sealed)], self.rounds, mib)
        self.row("load", mib, plain, sealed, statistics.median(cost["open_cpu_s"] for cost in told))
        for name in ("source", "out", "minio/data/bench/tls", "minio-https/data/bench/tls"):
            remove(self.path(name))

    def save(self, env, server):
        run = Run([self.cleat, "save", "-q", self.path("source"), "s3://bench/tls", "--step", "1"], env)
        remove(self.path(f"{server}/data/bench/tls"))
        os.sync()
        return run

    def load(self, env):
        remove(self.path("out"))
        return Run([self.cleat, "load", "-q", "s3://bench/tls", self.path("out")], env)

    def row(self, what, mib, plain, sealed, gcm_s):
        size = mib * MIB
        self.table.samples(f"https-{what}", "HTTP", size, plain)
        self.table.samples(f"https-{what}", "HTTPS", size, sealed)
        shares = [over_tls.cpu_s / (bare.cpu_s + gcm_s) for over_tls, bare in zip(sealed, plain)]
        seconds = [statistics.median(run.cpu_s for run in runs) / (size / GB) for runs in (sealed, plain)]
        self.table.figure(f"https-{what}", f"HTTPS {what}: CPU ÷ (HTTP + AES-GCM)", shares, SHARE_MAX,
                          note=f"{seconds[0]:.2f} ÷ ({seconds[1]:.2f} + {gcm_s / (size / GB):.2f}) CPU-s/GB")
