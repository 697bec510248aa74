"""What the figures depend on: the machine, the versions, the commit, the settings. No name of a host, no path."""

import os
import platform
import re
import shutil
import subprocess
import time

from harness import STAGING_MIB

HERE = os.path.dirname(os.path.abspath(__file__))


def told(*command):
    """The first line that a command says, or "unknown"."""
    try:
        output = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return (output.strip().splitlines() or ["unknown"])[0]


def from_file(path, pattern):
    with open(path, encoding="utf-8") as file:
        found = re.search(pattern, file.read(), re.M)
    return found.group(1).strip() if found else "unknown"


def machine():
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    return {"processor": from_file("/proc/cpuinfo", r"^model name\s*:(.*)"), "cores": os.cpu_count(),
            "memory": f"{memory_gib:.0f} GiB", "kernel": f"{platform.system()} {platform.release()}",
            "system": from_file("/etc/os-release", r'^PRETTY_NAME="?([^"\n]*)')}


def commit():
    described = told("git", "-C", HERE, "rev-parse", "HEAD")
    changed = subprocess.run(["git", "-C", HERE, "diff", "--quiet", "HEAD"], stderr=subprocess.DEVNULL,
                             check=False).returncode
    return described if changed == 0 else described + ", with changes"


def disk(scratch):
    kind = told("stat", "-f", "-c", "%T", scratch)
    return f"{kind}, {shutil.disk_usage(scratch).free >> 30} GiB free"


def versions(program):
    known = {
        "cleat": told(program, "--version"), "compiler": told("gcc", "--version"), "python": platform.python_version(),
        "MinIO": from_file(os.path.join(HERE, "../tools/minio.sh"), r"MINIO_VERSION=(\S+)")
    }
    for library in ("libcurl", "libcrypto", "libisal"):
        known[library] = told("pkg-config", "--modversion", library)
    return known


def describe(arguments):
    return {
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "commit": commit(), "machine": machine(),
        "disk": disk(arguments.scratch), "disk of MinIO": disk(arguments.store),
        "versions": versions(os.path.join(arguments.build, "cleat")), "settings": {
            "sizes": arguments.sizes, "rounds": arguments.rounds, "parts": list(arguments.parts),
            "smoke": arguments.smoke, "staging budget": f"{STAGING_MIB} MiB", "part size": "16 MiB",
            "requests in flight": 16
        }
    }
