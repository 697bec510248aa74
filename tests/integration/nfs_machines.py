"""Two machines that share a folder by NFS, each with its own caches. They are namespaces of a User Mode Linux, whose
kernel has the NFS server and the clients (tools/nfs_room.py). If User Mode Linux is not available, this machine plays
both, with a preloaded library that behaves as an NFS client does (preloaded.NFS_CLIENT)."""

import itertools
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import preloaded
from helpers import CLEAT, ROOT, Result, clean_environment

SECONDS_MAX = 120


class Unavailable(Exception):
    """No User Mode Linux is to be had here."""


class Process:
    """A program that runs on a machine."""

    def __init__(self, argv):
        self.argv = argv

    def ended(self, code, out, err):
        return Result(self.argv[1:], subprocess.CompletedProcess(self.argv, code, out, err))


class Machine:
    def __init__(self, room, name):
        self.room, self.name = room, name

    def start(self, *argv, environment=None):
        argv = [str(argument) for argument in argv]
        return self.room.start(self.name, argv, dict(clean_environment(), **(environment or {})))

    def run(self, *argv, **more):
        return self.start(*argv, **more).wait()

    def cleat(self, *arguments, **more):
        return self.run(CLEAT, *arguments, **more)


class Room:
    """What both kinds have: machines a and b, and the server's own view."""

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="cleat-nfs-"))
        self.numbers = itertools.count(1)
        self.a, self.b, self.server = Machine(self, "a"), Machine(self, "b"), Machine(self, "server")

    def close(self):
        shutil.rmtree(self.folder)


class LinuxProcess(Process):
    def __init__(self, room, machine, argv, environment):
        super().__init__(argv)
        self.room = room
        self.number = room.send(do="start", on=machine, argv=argv, env=environment)

    def signal(self, number):
        self.room.send(do="signal", id=self.number, signal=int(number))

    def wait(self):
        answer = self.room.answer(self.number)
        return self.ended(answer["code"], answer["out"].encode(), answer["err"].encode())


class LinuxRoom(Room):
    place, exported, scratch = "/mnt/store", "/mnt/export", "/mnt"

    def __init__(self, version):
        found = subprocess.run([ROOT / "tests/tools/uml.sh", "install"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True)
        if found.returncode:
            raise Unavailable(found.stderr.strip().splitlines()[-1])
        super().__init__()
        self.kind = "NFS %s between two machines of a User Mode Linux" % version
        program, modules = found.stdout.split()
        with open(self.folder / "log", "w") as log:
            self.process = subprocess.Popen([
                program, "mem=512M", "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "rw", "quiet", "con=null",
                "con0=null,fd:2", "init=" + os.path.realpath("/usr/bin/python3"), "--",
                str(ROOT / "tests/integration/tools/nfs_room.py"), modules, version,
                str(self.folder)
            ], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        try:
            self.answer(0)
        except AssertionError as failure:
            self.close()
            raise Unavailable(str(failure))

    def send(self, **request):
        number = next(self.numbers)
        path = self.folder / ("%d" % number)
        path.write_text(json.dumps(request))
        path.rename(path.with_suffix(".request"))
        return number

    def answer(self, number):
        path = self.folder / ("%d.answer" % number)
        until(lambda: path.exists() or self.process.poll() is not None)
        assert path.exists(), "User Mode Linux has ended: " + (self.folder / "log").read_text()[-300:].replace(
            "\n", "; ")
        return json.loads(path.read_text())

    def start(self, machine, argv, environment):
        return LinuxProcess(self, machine, argv, environment)

    def close(self):
        self.send(do="end")
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, 9)  # with all processes of that kernel: they are one group
            self.process.wait()
        super().close()


class LocalProcess(Process):
    def __init__(self, argv, environment):
        super().__init__(argv)
        self.process = subprocess.Popen(argv, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE)

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self):
        out, err = self.process.communicate(timeout=SECONDS_MAX)
        return self.ended(self.process.returncode, out, err)


class LocalRoom(Room):
    """The stand-in."""

    def __init__(self, why):
        super().__init__()
        self.kind = "a stand-in for NFS: " + why
        self.place = self.exported = str(self.folder / "store")
        self.scratch = str(self.folder)
        os.mkdir(self.place)
        self.preloaded = preloaded.build(self.folder, preloaded.NFS_CLIENT)["LD_PRELOAD"]

    def start(self, machine, argv, environment):
        if machine != "server":
            libraries = [environment["LD_PRELOAD"]] if "LD_PRELOAD" in environment else []
            environment = dict(environment, LD_PRELOAD=":".join([*libraries, self.preloaded]))
        return LocalProcess(argv, environment)


def make_room(version="4.2"):
    if os.environ.get("CLEAT_TEST_NFS") == "stand-in":
        return LocalRoom("CLEAT_TEST_NFS asks for it")
    try:
        return LinuxRoom(version)
    except Unavailable as why:
        return LocalRoom(str(why))


def until(condition):
    """Waits for what has to come."""
    end = time.monotonic() + SECONDS_MAX
    while not condition():
        assert time.monotonic() < end, "it does not come"
        time.sleep(0.02)
