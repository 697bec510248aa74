#!/usr/bin/env python3
"""Runs clang-tidy on C files, one for each core at a time, and remembers the files without findings.

usage: tidy.py CACHE FLAG… -- FILE…

Such a file is not checked again until something that clang-tidy sees changes: its version, .clang-tidy, the flags, or
one byte of the file or of a header that it includes, also of the system. CACHE is the folder of the results. It holds
an empty file for each one, named by a digest of all this. Results that were not used for 30 days are removed. Findings
are printed each time. The exit status is 1 if there are any.
"""

import concurrent.futures
import hashlib
import os
import re
import subprocess
import sys
import time

CONFIG = ".clang-tidy"
KEPT_SECONDS = 30 * 86400
# What clang-tidy says beside its findings.
NOISE = re.compile(r"^\d+ warnings? .*generated\.$|^Suppressed |^Use -header-filter|^$")


def digest_of(path, known={}):
    """Of a file's bytes. Most files include the same headers."""
    if path not in known:
        with open(path, "rb") as file:
            known[path] = hashlib.sha256(file.read()).hexdigest()
    return known[path]


def files_read(source, flags):
    """The source and every header that it includes, or None where a compiler cannot read it."""
    run = subprocess.run(["clang", "-M", *flags, source], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    if run.returncode != 0:
        return None
    _, _, names = run.stdout.replace("\\\n", " ").partition(":")
    return sorted(set(names.split()))


def key_of(source, flags, common):
    names = files_read(source, flags)
    if names is None or not all(os.path.isfile(name) for name in names):
        return None
    text = "\n".join([common, source, *flags, *("%s %s" % (name, digest_of(name)) for name in names)])
    return hashlib.sha256(text.encode()).hexdigest()


def check(source, flags, cache, common):
    """(whether it was known, what is wrong or None)"""
    key = key_of(source, flags, common)
    mark = key and os.path.join(cache, key)
    if mark and os.path.exists(mark):
        os.utime(mark)
        return True, None
    run = subprocess.run(["clang-tidy", "--quiet", source, "--", *flags], stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, text=True)
    if run.returncode != 0:
        lines = [line for line in run.stdout.splitlines() if not NOISE.match(line)]
        return False, "\n".join(lines) or "%s: clang-tidy ended with %d" % (source, run.returncode)
    if mark:
        with open(mark, "w", encoding="utf-8"):
            pass
    return False, None


def forget_old(cache):
    for entry in os.scandir(cache):
        if entry.stat().st_mtime < time.time() - KEPT_SECONDS:
            os.unlink(entry.path)


def main():
    words = sys.argv[1:]
    if "--" not in words[1:]:
        raise SystemExit("usage: tidy.py CACHE FLAG… -- FILE…")
    cache, end = words[0], words.index("--")
    flags, sources = words[1:end], words[end + 1:]
    os.makedirs(cache, exist_ok=True)
    version = subprocess.run(["clang-tidy", "--version"], check=True, stdout=subprocess.PIPE, text=True).stdout
    common = version + digest_of(CONFIG)
    known = bad = 0
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for was_known, wrong in pool.map(lambda source: check(source, flags, cache, common), sources):
            known += was_known
            if wrong:
                bad += 1
                print(wrong, flush=True)
    forget_old(cache)
    print("%d files, %d of them as they were when nothing was found, %d with findings" % (len(sources), known, bad))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
