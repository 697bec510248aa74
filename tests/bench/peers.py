"""Against the tools that people use today: the same MinIO, the same data, the same run.

Each tool has 16 connections and parts of 16 MiB, where it lets one choose. What each has uploaded, and downloaded, is
compared with the source once, before its times count. A tool that is then far behind is measured by that run alone.
"""

import filecmp
import os
import statistics
import subprocess
import sys
from urllib.parse import urlsplit

from harness import GB, MIB, Run, alternate, each_round, make_file, median, read_once, remove, size_name

CONNECTIONS = 16
PART_BYTES = 16 * MIB
BUCKET = "bench"
HERE = os.path.dirname(os.path.abspath(__file__))
SMALL_BYTES = 64 << 10
CPU_SHARE_MAX = 1 / 3
FAR = 3


class Peer:
    """A tool: the commands that upload a folder to BUCKET/prefix, and download that into a folder."""

    name = "?"
    only_large = False  # it has no way to move a folder of many files

    def __init__(self, program, scratch):
        self.program, self.scratch, self.env = program, scratch, dict(os.environ)

    def version(self):
        told = subprocess.run([self.program, "--version"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              env=self.env, check=False)
        return told.stdout.strip().splitlines()[0]


class Cleat(Peer):
    name = "cleat"

    def upload(self, folder, prefix):
        return [self.program, "save", "-q", folder, f"s3://{BUCKET}/{prefix}", "--step", "1"]

    def download(self, folder, prefix):
        return [self.program, "load", "-q", f"s3://{BUCKET}/{prefix}", folder]


class S5cmd(Peer):
    name = "s5cmd"

    def version(self):
        return subprocess.run([self.program, "version"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()

    def copy(self, source, target):
        n = str(CONNECTIONS)
        return [self.program, "--endpoint-url", self.env["AWS_ENDPOINT_URL"], "--log", "error", "--numworkers", n, "cp",
                "--concurrency", n, "--part-size", str(PART_BYTES // MIB), source, target]

    def upload(self, folder, prefix):
        return self.copy(folder + "/", f"s3://{BUCKET}/{prefix}/")

    def download(self, folder, prefix):
        return self.copy(f"s3://{BUCKET}/{prefix}/*", folder + "/")


class Rclone(Peer):
    """Without what its manual lets one save: a first pass for a file's MD5, and a look at what is there already. Parts
    are checked by their MD5 all the same. Its HEAD after an upload stays: without, it takes an upload in parts for
    empty."""

    name = "rclone"

    def __init__(self, program, scratch):
        super().__init__(program, scratch)
        self.env.update(RCLONE_CONFIG=os.path.join(scratch, "rclone.conf"), RCLONE_CONFIG_STORE_TYPE="s3",
                        RCLONE_CONFIG_STORE_PROVIDER="Minio", RCLONE_CONFIG_STORE_ENV_AUTH="true",
                        RCLONE_CONFIG_STORE_ENDPOINT=self.env["AWS_ENDPOINT_URL"],
                        RCLONE_CONFIG_STORE_REGION=self.env["AWS_REGION"])
        with open(self.env["RCLONE_CONFIG"], "w", encoding="utf-8"):
            pass

    def copy(self, source, target):
        n = str(CONNECTIONS)
        part = f"{PART_BYTES // MIB}Mi"
        return [
            self.program, "copy", "--s3-no-check-bucket", "--s3-disable-checksum", "--no-check-dest",
            "--s3-upload-concurrency", n, "--s3-chunk-size", part, "--s3-upload-cutoff", part, "--multi-thread-streams",
            n, "--multi-thread-chunk-size", part, "--multi-thread-cutoff", part, "--transfers", n, "--checkers", n,
            source, target
        ]

    def upload(self, folder, prefix):
        return self.copy(folder, f"store:{BUCKET}/{prefix}")

    def download(self, folder, prefix):
        return self.copy(f"store:{BUCKET}/{prefix}", folder)


class Mc(Peer):
    name = "mc"

    def __init__(self, program, scratch):
        super().__init__(program, scratch)
        place = urlsplit(self.env["AWS_ENDPOINT_URL"])
        self.env["MC_HOST_store"] = (f"{place.scheme}://{self.env['AWS_ACCESS_KEY_ID']}:"
                                     f"{self.env['AWS_SECRET_ACCESS_KEY']}@{place.netloc}")
        self.env["MC_CONFIG_DIR"] = os.path.join(scratch, "mc")
        self.env["MC_UPLOAD_MULTIPART_SIZE"] = f"{PART_BYTES // MIB}MiB"
        self.env["MC_UPLOAD_MULTIPART_THREADS"] = str(CONNECTIONS)

    def upload(self, folder, prefix):
        return [self.program, "cp", "--quiet", "--recursive", folder + "/", f"store/{BUCKET}/{prefix}/"]

    def download(self, folder, prefix):
        return [self.program, "cp", "--quiet", "--recursive", f"store/{BUCKET}/{prefix}/", folder + "/"]


class Aws(Peer):
    """The AWS command line, version 1, which is the one that the Python registry has. Version 2 can use the CRT client:
    see Crt, which is that client without the command line."""

    name = "aws"

    def __init__(self, program, scratch):
        super().__init__(program, scratch)
        self.env["AWS_CONFIG_FILE"] = os.path.join(scratch, "aws.config")
        with open(self.env["AWS_CONFIG_FILE"], "w", encoding="utf-8") as file:
            file.write("[default]\ns3 =\n  addressing_style = path\n"
                       f"  max_concurrent_requests = {CONNECTIONS}\n  multipart_chunksize = {PART_BYTES // MIB}MB\n")

    def copy(self, source, target):
        return [self.program, "s3", "cp", "--only-show-errors", "--recursive", source, target]

    def upload(self, folder, prefix):
        return self.copy(folder, f"s3://{BUCKET}/{prefix}/")

    def download(self, folder, prefix):
        return self.copy(f"s3://{BUCKET}/{prefix}/", folder)


class PythonPeer(Peer):
    """A library, used as tests/bench/peer_python.py does."""

    library = "?"
    package = "?"

    def version(self):
        code = f"import importlib.metadata as m; print(m.version('{self.package}'))"
        told = subprocess.run([self.program, "-c", code], stdout=subprocess.PIPE, text=True, check=True)
        return f"{self.package} {told.stdout.strip()}"

    def move(self, what, folder, prefix):
        return [self.program, os.path.join(HERE, "peer_python.py"), self.library, what, folder, BUCKET, prefix,
                str(CONNECTIONS), str(PART_BYTES)]

    def upload(self, folder, prefix):
        return self.move("upload", folder, prefix)

    def download(self, folder, prefix):
        return self.move("download", folder, prefix)


class Boto3(PythonPeer):
    name, library, package = "boto3", "boto3", "boto3"


class Crt(PythonPeer):
    """The AWS CRT client below s3transfer, as version 2 of the AWS command line uses it; boto3 itself would not let it
    speak HTTP."""

    name, library, package = "aws-crt", "crt", "awscrt"


class Connector(PythonPeer):
    name, library, package = "s3torchconnector", "connector", "s3torchconnectorclient"


class Libs3(Peer):
    """One file, one connection, no multipart: 5 GiB at most."""

    name = "libs3"
    only_large = True

    def __init__(self, program, scratch):
        super().__init__(program, scratch)
        self.env.update(S3_ACCESS_KEY_ID=self.env["AWS_ACCESS_KEY_ID"],
                        S3_HOSTNAME=urlsplit(self.env["AWS_ENDPOINT_URL"]).netloc,
                        S3_SECRET_ACCESS_KEY=self.env["AWS_SECRET_ACCESS_KEY"])

    def version(self):
        told = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", "libs3-2"], stdout=subprocess.PIPE, text=True,
                              check=False)
        return "libs3 " + (told.stdout or "of unknown version")

    def upload(self, folder, prefix):
        (name,) = os.listdir(folder)
        return [self.program, "-u", "put", f"{BUCKET}/{prefix}/{name}", "filename=" + os.path.join(folder, name)]

    def download(self, folder, prefix):
        os.makedirs(folder, exist_ok=True)
        return [
            self.program, "-u", "get", f"{BUCKET}/{prefix}/data.bin", "filename=" + os.path.join(folder, "data.bin")
        ]


PEERS = {"s5cmd": S5cmd, "rclone": Rclone, "mc": Mc, "aws": Aws, "s3": Libs3}


def same_trees(one, other):
    """Byte for byte; names that begin with a dot are nobody's data."""
    compared = filecmp.dircmp(one, other, hide=[])
    if compared.left_only or compared.right_only or compared.funny_files:
        return False
    return filecmp.cmpfiles(one, other, compared.common_files, shallow=False)[0] == compared.common_files and all(
        same_trees(os.path.join(one, name), os.path.join(other, name)) for name in compared.common_dirs)


class Peers:
    def __init__(self, build, scratch, table, rounds):
        self.scratch, self.table, self.rounds = scratch, table, rounds
        told = subprocess.run([os.path.join(HERE, "peers.sh")], check=True, stdout=subprocess.PIPE, text=True)
        programs = dict(line.split("\t") for line in told.stdout.splitlines())
        self.tools = [Cleat(os.path.join(build, "cleat"), scratch)]
        self.tools += [kind(programs[name], scratch) for name, kind in PEERS.items()]
        self.tools += [
            Boto3(programs["python"], scratch),
            Crt(programs["python"], scratch),
            Connector(programs["python"], scratch)
        ]

    def path(self, name):
        return os.path.join(self.scratch, name)

    def versions(self):
        known = {tool.name: tool.version() for tool in self.tools[1:]}
        for name, version in known.items():
            print(f"  {name}: {version}")
        return known

    def run(self, mib, small_files):
        source = self.path("source")
        make_file(os.path.join(source, "data.bin"), mib)
        self.compare("large", f"of {size_name(mib)} in one file", source, mib * MIB, self.tools)
        remove(source)
        for i in range(small_files):
            path = os.path.join(source, f"{i // 1000}", f"{i:05d}.bin")
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(os.urandom(SMALL_BYTES))
        os.sync()
        self.compare("small", f"of {small_files:,} files of 64 KiB", source, small_files * SMALL_BYTES,
                     [tool for tool in self.tools if not tool.only_large])
        remove(source)

    def compare(self, name, what, source, size, tools):
        """Each tool is tried first, which tells whether it moves the bytes, and whether it is far behind."""
        read_once(source)
        tried = {tool: self.attempt(tool, source) for tool in tools}
        tools = [tool for tool in tools if tried[tool] is not None]
        if len(tools) < 2:
            sys.exit("bench: no other tool works here")
        for way, measure in (("upload", lambda tool, _: self.upload(tool, source)), ("download", self.download)):
            if way == "download":
                self.store(tools[:2], source)
            first = {tool: tried[tool][way] for tool in tools}
            close = [tool for tool in tools if not far_behind(tool, first)]
            prefixes = {tool: self.prefix(tool if tool.name == "cleat" else tools[1]) for tool in tools}
            runs = alternate([lambda tool=tool: measure(tool, prefixes[tool]) for tool in close], self.rounds,
                             size // MIB)
            of_each = dict(zip(close, runs))
            self.judge(f"{way}-{name}", f"{way} {what}", size,
                       [(tool, of_each.get(tool, [first[tool]])) for tool in tools], close)
        for tool in tools[:2]:
            self.forget(tool)

    def store(self, tools, source):
        """What cleat downloads is its own; all others download what the first of them has stored."""
        for tool in tools:
            self.upload(tool, source, keep=True)

    def prefix(self, tool):
        return "peer-" + tool.name.split()[0]

    def forget(self, tool):
        """On one drive, MinIO keeps an object in a folder of its name."""
        remove(self.path(f"minio/data/{BUCKET}/{self.prefix(tool)}"))

    def upload(self, tool, source, keep=False):
        self.forget(tool)
        os.sync()
        run = Run(tool.upload(source, self.prefix(tool)), tool.env)
        if not keep:
            self.forget(tool)
        return run

    def download(self, tool, prefix):
        remove(self.path("out"))
        os.sync()
        os.makedirs(self.path("out"))
        return Run(tool.download(self.path("out") if tool.name != "cleat" else self.path("out/new"), prefix), tool.env)

    def attempt(self, tool, source):
        """One upload and one download. A tool that does not move the bytes is left out, and said so."""
        try:
            runs = {"upload": self.upload(tool, source, keep=True), "download": self.download(tool, self.prefix(tool))}
            out = self.path("out" if tool.name != "cleat" else "out/new")
            same = same_trees(source, out)
            self.forget(tool)
            if same:
                return runs
            reason = "what it downloads is not what it uploaded"
        except SystemExit as failure:
            reason = str(failure)
        self.table.row(f"{tool.name}: left out", reason)
        if tool.name == "cleat":
            sys.exit("bench: cleat itself does not work here")
        return None

    def judge(self, name, what, size, measured, close):
        for tool, runs in measured:
            self.table.samples(name, tool.name, size, runs)
            self.table.line(
                f"{what}: {tool.name}",
                f"{size / GB / median(runs):.2f} GB/s, {middle_cpu(runs) / (size / GB):.2f} CPU-s/GB, "
                f"{max(run.peak_mib for run in runs):.0f} MiB, rounds: {len(runs)}", "-", True)
        ours, others = measured[0][1], [(tool, runs) for tool, runs in measured[1:] if tool in close]
        fastest, of_fastest = min(others, key=lambda pair: median(pair[1]))
        self.table.figure(
            name, f"{what}: rate ÷ the fastest other tool's", each_round(of_fastest, ours), 1.0, at_least=True,
            note=f"{fastest.name}; {size / GB / median(ours):.2f} against {size / GB / median(of_fastest):.2f} GB/s")
        frugal, of_frugal = min(others, key=lambda pair: middle_cpu(pair[1]))
        self.table.figure(
            name + "-cpu", f"{what}: CPU ÷ the most frugal other tool's",
            each_round(ours, of_frugal, lambda run: run.cpu_s), CPU_SHARE_MAX if name.endswith("large") else None,
            note=f"{frugal.name}; {middle_cpu(ours) / (size / GB):.2f} against "
                 f"{middle_cpu(of_frugal) / (size / GB):.2f} CPU-s/GB")


def far_behind(tool, first):
    """True for a tool that took FAR times as long as another, and as much CPU: the one run is its measurement, since it
    can become neither the fastest nor the most frugal."""
    others = [run for other, run in first.items() if other is not tool and other.name != "cleat"]
    return (tool.name != "cleat" and bool(others) and first[tool].wall_s > FAR * min(run.wall_s for run in others)
            and first[tool].cpu_s > FAR * min(run.cpu_s for run in others))


def middle_cpu(runs):
    return statistics.median(run.cpu_s for run in runs)
