"""Runs as the first process of a User Mode Linux whose root is the host's file system. It exports a folder by the
kernel's NFS server and makes two machines, namespaces with a network, a host name and an NFS client each, that have it
at /mnt/store.

Requests and answers are files of JSON in a folder of the host, N.request and N.answer; 0.answer says that it is up:

    {"do": "start", "on": "a", "argv": […], "env": {…}}       answered by {"code": …, "out": …, "err": …} at its end
    {"do": "signal", "id": 1, "signal": 19}
    {"do": "end"}
"""

import ctypes
import itertools
import json
import lzma
import os
import signal
import socket
import subprocess
import sys
import threading
import time

LIBC = ctypes.CDLL(None, use_errno=True)
NEW_NAMESPACES = 0x40000000 | 0x04000000 | 0x00020000  # network, host name, mounts
MS_PRIVATE_ALL = 1 << 18 | 1 << 14
INIT_MODULE = 175
POWER_OFF = 0x4321FEDC
NEVER = 2147483647
# Anybody, root as root, by number 0, without a look at the folders above.
EXPORT_FLAGS = 0x2 | 0x400 | 0x2000
MACHINES = {"a": 1, "b": 2}
modules, version, folder = sys.argv[1:4]
POLL_SECONDS = 0.01


def check(result, what):
    if result < 0:
        raise OSError(ctypes.get_errno(), "%s: %s" % (what, os.strerror(ctypes.get_errno())))


def mount(source, place, kind, options=""):
    check(LIBC.mount(source.encode(), place.encode(), kind.encode(), 0, options.encode()), "mount " + place)


def load(*names):
    """As modprobe does."""
    found, loaded = {}, set()
    for line in open(modules + "/modules.dep"):
        path, needed = line.split(":")
        found[os.path.basename(path).partition(".")[0]] = (path, needed.split())

    def insert(path):
        if path in loaded:
            return
        loaded.add(path)
        for needed in reversed(found[os.path.basename(path).partition(".")[0]][1]):
            insert(needed)
        image = (lzma.open if path.endswith(".xz") else open)(modules + "/" + path, "rb").read()
        if LIBC.syscall(INIT_MODULE, image, ctypes.c_ulong(len(image)), b"") and ctypes.get_errno() != 17:
            check(-1, "module " + path)

    for name in names:
        if name in found:  # else it is built in
            insert(found[name][0])


def write(path, text):
    """At once: each write is a command."""
    fd = os.open(path, os.O_WRONLY)
    os.write(fd, (text + "\n").encode())
    os.close(fd)


def call(*argv):
    subprocess.run(argv, check=True)


def serve():
    """The kernel's NFS server, told by hand what mountd would tell it."""
    os.makedirs("/mnt/export")
    mount("export", "/mnt/export", "tmpfs")
    mount("nfsd", "/proc/fs/nfsd", "nfsd")
    write("/proc/fs/nfsd/versions", "-3 +4 +4.1 +4.2")
    os.makedirs("/mnt/recovery")
    write("/proc/fs/nfsd/nfsv4recoverydir", "/mnt/recovery")
    door = socket.socket()
    door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    door.bind(("0.0.0.0", 2049))
    door.listen(64)
    write("/proc/fs/nfsd/portlist", str(door.fileno()))
    write("/proc/fs/nfsd/threads", "4")
    write("/proc/fs/nfsd/v4_end_grace", "Y")  # nobody has locks from before
    for number in MACHINES.values():
        write("/proc/net/rpc/auth.unix.ip/channel", "nfsd 10.0.%d.2 %d *" % (number, NEVER))
    write("/proc/net/rpc/nfsd.export/channel", "* /mnt/export %d %d 65534 65534 0" % (NEVER, EXPORT_FLAGS))
    write("/proc/net/rpc/nfsd.fh/channel", "* 1 \\x00000000 %d /mnt/export" % NEVER)


def make_machine(name, number):
    """Returns how a command is begun on it."""
    here, there = "here%d" % number, "there%d" % number
    call("ip", "link", "add", here, "type", "veth", "peer", "name", there)
    call("ip", "addr", "add", "10.0.%d.1/24" % number, "dev", here)
    call("ip", "link", "set", here, "up")
    begun, go = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        check(LIBC.unshare(NEW_NAMESPACES), "unshare")
        check(LIBC.mount(b"none", b"/", None, MS_PRIVATE_ALL, None), "private mounts")
        check(LIBC.sethostname(name.encode(), len(name)), "host name")
        os.write(begun[1], b"x")
        os.read(go[0], 1)
        call("ip", "link", "set", "lo", "up")
        call("ip", "addr", "add", "10.0.%d.2/24" % number, "dev", there)
        call("ip", "link", "set", there, "up")
        mount("10.0.%d.1:/" % number, "/mnt/store", "nfs4",
              "nosharecache,addr=10.0.%d.1,clientaddr=10.0.%d.2,vers=%s" % (number, number, version))
        os.write(begun[1], b"x")
        while True:
            signal.pause()
    os.read(begun[0], 1)
    call("ip", "link", "set", there, "netns", str(pid))
    os.write(go[1], b"x")
    os.close(begun[1])
    if os.read(begun[0], 1) != b"x":
        raise OSError("machine %s has not come up" % name)
    return ["nsenter", "--target", str(pid), "--net", "--uts", "--mount", "--"]


def main():
    os.environ["PATH"] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    mount("proc", "/proc", "proc")
    mount("sys", "/sys", "sysfs")
    mount("mnt", "/mnt", "tmpfs")
    os.makedirs("/mnt/store")
    running = {}

    def answer(number, **fields):
        path = "%s/%d" % (folder, number)
        with open(path, "w") as file:
            file.write(json.dumps(fields))
        os.rename(path, path + ".answer")

    load("nfsd", "nfsv4", "veth")
    call("ip", "link", "set", "lo", "up")
    serve()
    begin = {name: make_machine(name, number) for name, number in MACHINES.items()}

    def wait(number, process):
        out, err = process.communicate()
        answer(number, code=process.returncode, out=out.decode(), err=err.decode())

    answer(0, up=version)
    for number in itertools.count(1):
        while not os.path.exists("%s/%d.request" % (folder, number)):
            time.sleep(POLL_SECONDS)
        with open("%s/%d.request" % (folder, number)) as file:
            request = json.load(file)
        if request["do"] == "end":
            break
        if request["do"] == "signal":
            running[request["id"]].send_signal(request["signal"])
            continue
        # By env: what is preloaded is for the program alone.
        command = begin.get(request["on"], []) + ["env", "-i"] + ["%s=%s" % pair for pair in request["env"].items()]
        process = subprocess.Popen(command + request["argv"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        running[number] = process
        threading.Thread(target=wait, args=(number, process), daemon=True).start()


assert os.getpid() == 1, "this is the first process of a kernel of its own"
try:
    main()
except BaseException as failure:  # whatever it is, this kernel has to end
    print("nfs_room: %r" % failure, file=sys.stderr, flush=True)
LIBC.reboot(POWER_OFF)
