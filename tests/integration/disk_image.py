"""A disk whose power can be cut: ext4 in a file, on a loop device.

After a power cut, the disk holds what the file system has sent to the device until then. So the file is copied while
the file system is in use. The copy is mounted, which replays its journal. Nothing is synced for that.
"""

import os
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path

from helpers import tree

# /sbin is not on the path of every user.
SEARCH = dict(os.environ, PATH=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


class Unavailable(Exception):
    """No loop device or mount is to be had here: no root, a container, a kernel without them."""


def call(*arguments):
    done = subprocess.run([str(argument) for argument in arguments], env=SEARCH, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise Unavailable("%s: %s" % (" ".join(done.args), done.stdout.strip()))
    return done.stdout.strip()


@contextmanager
def mounted(image, place):
    """Mounts the file and, whatever happens, takes both the mount and the loop device away again."""
    place.mkdir()
    device = call("losetup", "--find", "--show", image)
    try:
        call("mount", "-t", "ext4", device, place)
        try:
            yield place
        finally:
            unmount(place)
    finally:
        call("losetup", "--detach", device)
        place.rmdir()


def unmount(place):
    try:
        call("umount", place)
    except Unavailable:
        call("umount", "--lazy", place)  # the device goes when the last user does
        raise


class Disk:
    """`place` is where it is mounted."""

    def __init__(self, image, place):
        self.image, self.place, self.cuts = image, place, 0
        # Another program's file, and what that does to the disk.
        self.other = os.open(place / "other", os.O_WRONLY | os.O_CREAT, 0o666)
        os.fsync(self.other)

    def commit_names(self):
        """Another program syncs its own file: ext4 puts all names, sizes and times so far on the disk, and nobody
        else's bytes."""
        os.write(self.other, b"x")
        os.fsync(self.other)

    def cut_power(self, folder):
        """The files below `folder`, which is on this disk, as they are after a power cut at this moment; {} if it is
        not there."""
        self.cuts += 1
        copy = self.image.with_suffix(".cut-%d" % self.cuts)
        shutil.copyfile(self.image, copy)
        try:
            with mounted(copy, self.image.with_suffix(".place-%d" % self.cuts)) as place:
                return tree(place / os.path.relpath(folder, self.place))
        finally:
            copy.unlink()


@contextmanager
def disk(folder, size=160 << 20):
    """Raises Unavailable."""
    image = Path(folder, "disk.ext4")
    with open(image, "wb") as file:
        file.truncate(size)
    call("mkfs.ext4", "-q", "-F", image)
    with mounted(image, Path(folder, "disk")) as place:
        made = Disk(image, place)
        try:
            yield made
        finally:
            os.close(made.other)


# ---- Where there is no such disk: the order in which things were done to it ------------------------------------------

def judge_order(record, folder, sign=None):
    """`record` is what preloaded.DISK_RECORD wrote. Everything below `folder` must have been put there so that no power
    cut can harm: before a rename gave a name its place, the bytes and names behind it were synced, and every folder was
    synced after its names had last changed; and the name of `sign`, which tells that all else is there, came after a
    sync of the others."""
    events = [line.split() for line in Path(record).read_text().splitlines()]
    events = [(what, int(inode), int(start)) for what, inode, start in events]

    def last(what, inode, end):
        return max((at for at, event in enumerate(events[:end]) if event[:2] == (what, inode)), default=-1)

    def is_synced(inode, since, end):
        return any(what == "synced" and its == inode and start > since for what, its, start in events[:end])

    def look(path, renamed):
        inode = path.lstat().st_ino
        renamed = max(renamed, last("renamed", inode, len(events)))
        done = "changed" if path.is_dir() else "written"
        if renamed >= 0:
            assert is_synced(inode, last(done, inode, renamed), renamed), \
                "%s took its place before it was synced" % path
        if path.is_dir():
            changed = last(done, inode, len(events))
            assert is_synced(inode, changed, len(events)) or changed < 0, \
                "the names in %s were not synced in the end" % path
            for entry in path.iterdir():
                look(entry, renamed)

    assert any(what == "renamed" for what, _, _ in events), "nothing was recorded"
    look(Path(folder), -1)
    parent = Path(folder).parent.stat().st_ino
    changed = last("changed", parent, len(events))
    assert changed < 0 or is_synced(parent, changed, len(events)), "the name of %s was not synced" % folder
    if sign:
        inode, its = Path(folder).stat().st_ino, Path(folder, sign).lstat().st_ino
        placed = last("renamed", its, len(events))
        assert is_synced(inode, last("changed", inode, placed),
                         placed), "%s came before the names beside it were synced" % sign
