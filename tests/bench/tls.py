"""What HTTPS adds: CPU of saves and loads over TLS, against that over HTTP and of AES-GCM for the same bytes."""

import json
import os
import subprocess

from harness import MIB, Run, alternate, least_cpu, make_file, read_once, remove

GB = 1e9
SHARE_MAX = 1.25


class Tls:
    """Needs CLEAT_BENCH_HTTPS and CLEAT_BENCH_CA: a second MinIO, with the keys of the first."""

    def __init__(self, build, scratch, table, rounds):
        self.scratch, self.table, self.rounds = scratch, table, rounds
        self.cleat, self.gcm = os.path.join(build, "cleat"), os.path.join(build, "tests/bench/gcm")
        self.plain = dict(os.environ)
        self.sealed = dict(os.environ, AWS_ENDPOINT_URL=os.environ["CLEAT_BENCH_HTTPS"], AWS_CA_BUNDLE=os.environ["CLEAT_BENCH_CA"],
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
        plain, sealed = alternate([lambda: self.save(self.plain, "minio"), lambda: self.save(self.sealed, "minio-https")], self.rounds)
        self.row("save", mib, plain, sealed, min(cost["seal_cpu_s"] for cost in told))
        for env in (self.plain, self.sealed):
            Run([self.cleat, "save", "-q", source, "s3://bench/tls", "--step", "1"], env)
        plain, sealed = alternate([lambda: self.load(self.plain), lambda: self.load(self.sealed)], self.rounds)
        self.row("load", mib, plain, sealed, min(cost["open_cpu_s"] for cost in told))
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
        size = mib * MIB / GB
        bound = least_cpu(plain) + gcm_s
        share = least_cpu(sealed) / bound
        self.table.row(f"HTTPS {what} of {mib} MiB: CPU ÷ (HTTP + AES-GCM)",
                       f"{share:.2f} ({least_cpu(sealed) / size:.2f} ÷ ({least_cpu(plain) / size:.2f} + {gcm_s / size:.2f}) CPU-s/GB)",
                       f"≤ {SHARE_MAX}", share <= SHARE_MAX)
