"""What `cleat save` accepts and refuses: names, links, special files, malformed tensors, files that change during the
save."""

import os
import signal
import socket
import struct
import subprocess
import time

import pytest

from helpers import CLEAT, Folder, assert_error, fill, noise, safetensors, tree, without_capabilities

LARGE = 64 << 20  # four parts
HUGE = 1 << 62


def assert_nothing_saved(store, result=None):
    assert store.cleat("ls", store.url).code == 3, result
    assert store.keys() == [], result


# ---- Names, links, folders -----------------------------------------------------------------------

def test_missing_source(folder, small, tmp_path):
    for sources in ([tmp_path / "none"], [small, tmp_path / "none"]):
        result = folder.cleat("save", *sources, folder.url, "--step", "1")
        assert_error(result, 1, tmp_path / "none", "No such file")
        assert_nothing_saved(folder)


def test_the_url_in_the_wrong_place(folder, small):
    result = folder.cleat("save", folder.url, small, "--step", "1")
    assert result.code == 2, result
    result = folder.cleat("save", folder.url, small, folder.url, "--step", "1")
    assert "comes last" in assert_error(result, 1, folder.url)[1]


def test_two_sources_of_one_name(folder, tmp_path):
    fill(tmp_path, {"x/model.bin": b"1", "y/model.bin": b"2"})
    for sources in (["x/model.bin", "y/model.bin"], ["x", "y"], ["x", "y/model.bin"], ["x", "x"]):
        paths = [tmp_path / source for source in sources]
        result = folder.cleat("save", *paths, folder.url, "--step", "1")
        names = {str(path) if path.suffix else "%s/model.bin" % path for path in paths}
        assert_error(result, 2, "'model.bin'", *names)
    assert_nothing_saved(folder)


def test_a_file_named_as_another_ones_folder(folder, tmp_path):
    fill(tmp_path, {"x/model": b"1", "y/model/part": b"2"})
    assert_error(folder.cleat("save", tmp_path / "x", tmp_path / "y", folder.url, "--step", "1"), 2, "model")
    assert_nothing_saved(folder)


def test_empty_folders(folder, tmp_path, small):
    (tmp_path / "empty" / "inner").mkdir(parents=True)
    assert_error(folder.cleat("save", tmp_path / "empty", folder.url, "--step", "1"), 2, "no file below")
    assert_nothing_saved(folder)
    result = folder.cleat("save", tmp_path / "empty", small, folder.url, "--step", "1")
    assert result.code == 0, result
    folder.cleat("load", folder.url, tmp_path / "back")
    assert sorted(path.name for path in (tmp_path / "back").iterdir()) == ["a.bin", "empty", "sub"]


def test_links_to_files_are_followed(folder, tmp_path):
    """A folder as Hugging Face's cache keeps it: every file of a snapshot is a link to a blob."""
    fill(tmp_path, {"blobs/1234": noise(5000), "blobs/5678": b"{}"})
    snapshot = tmp_path / "snapshots" / "main"
    snapshot.mkdir(parents=True)
    (snapshot / "model.bin").symlink_to("../../blobs/1234")
    (snapshot / "config.json").symlink_to(tmp_path / "blobs" / "5678")
    (tmp_path / "latest").symlink_to(snapshot)
    for step, source in enumerate([snapshot, tmp_path / "latest", str(tmp_path / "latest") + "/"]):
        folder.save(source, step)
        folder.cleat("load", folder.url, tmp_path / ("back%d" % step))
        assert tree(tmp_path / ("back%d" % step)) == {"model.bin": noise(5000), "config.json": b"{}"}
        assert not (tmp_path / ("back%d" % step) / "model.bin").is_symlink()


def test_links_to_folders_are_refused(folder, small, tmp_path):
    (small / "sub" / "up").symlink_to("..")
    assert_error(folder.cleat("save", small, folder.url, "--step", "1"), 2, small / "sub" / "up", "a link to a folder")
    assert_nothing_saved(folder)


def test_dangling_links_are_refused(folder, small):
    (small / "gone").symlink_to("nowhere")
    assert_error(folder.cleat("save", small, folder.url, "--step", "1"), 2, small / "gone", "leads nowhere")
    (small / "gone").unlink()
    (small / "loop").symlink_to("loop")
    assert_error(folder.cleat("save", small, folder.url, "--step", "1"), 2, small / "loop")
    assert_nothing_saved(folder)


def test_special_files_are_refused(folder, small, tmp_path):
    os.mkfifo(small / "pipe")
    assert_error(folder.cleat("save", small, folder.url, "--step", "1"), 2, small / "pipe")
    assert_error(folder.cleat("save", small / "pipe", folder.url, "--step", "1"), 2, small / "pipe")
    (small / "pipe").unlink()
    with socket.socket(socket.AF_UNIX) as listener:
        here = os.getcwd()
        os.chdir(small)  # a socket's path may have 107 bytes
        try:
            listener.bind("socket")
        finally:
            os.chdir(here)
        assert_error(folder.cleat("save", small, folder.url, "--step", "1"), 2, small / "socket")
    assert_error(folder.cleat("save", "/dev/zero", folder.url, "--step", "1"), 2, "/dev/zero")
    assert_nothing_saved(folder)


def test_a_tree_that_is_too_deep_is_refused(folder, tmp_path):
    deep = tmp_path / "deep"
    path = deep.joinpath(*["d"] * 120)
    path.mkdir(parents=True)
    (path / "file").write_bytes(b"x")
    assert_error(folder.cleat("save", deep, folder.url, "--step", "1"), 1, "folders deep")
    assert_nothing_saved(folder)


def test_the_store_inside_a_source_is_refused(tmp_path, small):
    inner = Folder(small / "store")
    inner.save(small, 1)  # it does not exist yet: nothing of it can be saved
    assert_error(inner.cleat("save", small, inner.url, "--step", "2"), 2, small / "store", "the store")
    assert_error(inner.cleat("save", small / "store", inner.url, "--step", "2"), 2, "the store")
    assert [entry["step"] for entry in inner.cleat("ls", inner.url, "--json").json["checkpoints"]] == [1]


@pytest.mark.parametrize("name", [b"new\nline", b"escape\x1b[31m", b"delete\x7f", b"not utf-8 \xff\xfe",
                                  b"rank-00000.json", b"n" * 200 + b"/" + b"n" * 200 + b"/" + b"n" * 200 + b"/"
                                  + b"n" * 200])
def test_names_that_no_store_should_have(folder, tmp_path, name):
    path = os.path.join(os.fsencode(tmp_path / "odd"), name)
    os.makedirs(os.path.dirname(path))
    with open(path, "wb") as file:
        file.write(b"x")
    result = folder.cleat("save", tmp_path / "odd", folder.url, "--step", "1", "--json")
    assert result.code == 2 and result.json["error"]["status"] == "INVALID", result
    assert len(result.err.splitlines()) <= 2 and "\x1b" not in result.err, result
    assert_nothing_saved(folder)


def test_a_message_never_carries_control_characters(folder, tmp_path):
    result = folder.cleat("save", str(tmp_path / "no\x1b]0;title\x07\nfile"), folder.url, "--step", "1")
    assert_error(result, 1, "no?]0;title??file")


def test_more_files_than_may_be_open(folder, tmp_path):
    files = {"many/%d/file-%04d" % (number % 7, number): b"%d" % number for number in range(1500)}
    fill(tmp_path / "in", files)
    folder.save(tmp_path / "in", 1)
    assert folder.cleat("load", folder.url, tmp_path / "back").code == 0
    assert tree(tmp_path / "back") == files


def test_metadata(folder, small):
    for step, text in enumerate(["null", "0", '"x"', "[1,[2]]", '{"a":{"b":1}}']):
        folder.save(small, step, "--metadata", text)
    shown = [entry["metadata"] for entry in folder.cleat("ls", folder.url, "--json").json["checkpoints"]]
    assert shown == [None, 0, "x", [1, [2]], {"a": {"b": 1}}]


@pytest.mark.parametrize("text", ["", "{", "{'a': 1}", "nul", "1 2", "[1,]", '{"a":01}', "NaN", "[" * 5000])
def test_metadata_that_is_no_json(folder, small, text):
    result = folder.cleat("save", small, folder.url, "--step", "1", "--metadata", text)
    assert_error(result, 2, "metadata")
    assert_nothing_saved(folder)


# ---- Large files ---------------------------------------------------------------------------------

def peak_kib(folder, *arguments):
    """The most memory that the program had, by the kernel's count."""
    command = [CLEAT, *(str(argument) for argument in arguments), "--part-size", "4K", "--staging", "4K"]
    process = subprocess.Popen(command, env=folder.environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, command
    return usage.ru_maxrss


def test_parts_larger_than_the_staging_memory(folder, tmp_path):
    """More than 10,000 parts of 4 KiB: they are of 8 KiB, and all staging memory is one buffer of 4 KiB."""
    (tmp_path / "few.bin").write_bytes(noise(100 << 10))
    (tmp_path / "many.bin").write_bytes(noise(48 << 20))
    least = peak_kib(folder, "save", tmp_path / "few.bin", folder.url, "--step", "1")
    url = folder.url
    for arguments in (("save", tmp_path / "many.bin", url, "--step", "2"), ("verify", url),
                      ("load", url, tmp_path / "back", "--step", "2")):
        peak = peak_kib(folder, *arguments)
        assert peak < least + (12 << 10), (arguments, peak, least)
    assert folder.record(2)["files"][0]["part_bytes"] == 8192
    assert (tmp_path / "back" / "many.bin").read_bytes() == noise(48 << 20)


# ---- .safetensors files --------------------------------------------------------------------------

F32 = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
MALFORMED = {
    "empty": b"",
    "cut in the length": b"\x10\0\0",
    "cut in the header": safetensors({"a": F32}, bytes(8))[:20],
    "cut in the data": safetensors({"a": F32}, bytes(8))[:-1],
    "without its data": safetensors({"a": F32}),
    "more data than tensors": safetensors({"a": F32}, bytes(9)),
    "header longer than the file": struct.pack("<Q", 5000) + b"{}",
    "header of 2^63 bytes": struct.pack("<Q", 1 << 63) + b"{}",
    "header of 2^64 - 1 bytes": struct.pack("<Q", (1 << 64) - 1) + b"{}",
    "header over the limit": struct.pack("<Q", 100000001) + b"{" + b" " * 100000000,
    "not JSON": safetensors(b"{abc}"),
    "not an object": safetensors(b"[]"),
    "not UTF-8": safetensors(b'{"\xff\xfe":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}'),
    "a pickle": b"\x80\x04\x95" + noise(100),
    "overlap": safetensors({"a": F32, "b": dict(F32, data_offsets=[4, 12])}, bytes(12)),
    "two at one place": safetensors({"a": F32, "b": F32}, bytes(8)),
    "hole": safetensors({"a": F32, "b": dict(F32, data_offsets=[12, 20])}, bytes(20)),
    "hole in front": safetensors({"a": dict(F32, data_offsets=[4, 12])}, bytes(12)),
    "end before begin": safetensors({"a": dict(F32, data_offsets=[8, 0])}, bytes(8)),
    "offsets below zero": safetensors({"a": dict(F32, data_offsets=[-8, 0])}, bytes(8)),
    "offsets too few": safetensors({"a": dict(F32, data_offsets=[8])}, bytes(8)),
    "offsets of 2^64": safetensors({"a": dict(F32, data_offsets=[0, 1 << 64])}, bytes(8)),
    "size is not shape": safetensors({"a": dict(F32, shape=[3])}, bytes(8)),
    "shape overflows": safetensors({"a": dict(F32, shape=[HUGE, 4])}, bytes(8)),
    "shape overflows to zero": safetensors({"a": dict(F32, shape=[1 << 32, 1 << 32], data_offsets=[0, 0])}),
    "shape below zero": safetensors({"a": dict(F32, shape=[-2])}, bytes(8)),
    "shape of fractions": safetensors({"a": dict(F32, shape=[1.5])}, bytes(8)),
    "unknown dtype": safetensors({"a": dict(F32, dtype="F33")}, bytes(8)),
    "no dtype": safetensors({"a": {"shape": [2], "data_offsets": [0, 8]}}, bytes(8)),
    "no shape": safetensors({"a": {"dtype": "F32", "data_offsets": [0, 8]}}, bytes(8)),
    "two of one name": safetensors(b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},'
                                   b'"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}', bytes(2)),
    "too many dimensions": safetensors({"a": {"dtype": "U8", "shape": [1] * 33, "data_offsets": [0, 1]}}, bytes(1)),
    "nested without end": safetensors(b'{"a":' + b"[" * 100000),
}


@pytest.mark.parametrize("kind", MALFORMED)
def test_malformed_safetensors(folder, tmp_path, kind):
    source = fill(tmp_path / "in", {"good.bin": b"good", "bad.safetensors": MALFORMED[kind]})
    result = folder.cleat("save", source, folder.url, "--step", "1", "--json")
    assert result.code == 4, result
    assert result.json["error"]["status"] in ("FORMAT", "LIMIT"), result
    assert "bad.safetensors" in result.err.splitlines()[0] and len(result.err.splitlines()) <= 2, result
    assert_nothing_saved(folder)


def test_any_other_name_may_hold_anything(folder, tmp_path):
    files = {"%d.bin" % number: data for number, data in enumerate(MALFORMED.values())}
    folder.save(fill(tmp_path / "in", files), 1)
    assert folder.cleat("load", folder.url, tmp_path / "back").code == 0
    assert tree(tmp_path / "back") == files


def test_safetensors_without_tensors(folder, tmp_path):
    files = {"empty.safetensors": safetensors({}), "meta.safetensors": safetensors({"__metadata__": {"a": "b"}}),
             "padded.safetensors": safetensors(b'{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}     ')}
    folder.save(fill(tmp_path / "in", files), 1)
    assert [tensor["name"] for tensor in folder.cleat("show", folder.url, "--json").json["tensors"]] == ["a"]


# ---- Places that cannot be written ---------------------------------------------------------------

def test_store_beneath_a_file(tmp_path, small):
    (tmp_path / "file").write_bytes(b"mine")
    store = Folder(tmp_path / "file" / "store")
    result = store.cleat("save", small, store.url, "--step", "1", "--json")
    assert result.code == 2 and result.json["error"]["status"] == "INVALID", result
    assert str(tmp_path / "file") in result.err, result
    assert (tmp_path / "file").read_bytes() == b"mine"


def test_destination_without_a_parent(folder, tmp_path, small):
    folder.save(small, 1)
    assert_error(folder.cleat("load", folder.url, tmp_path / "none" / "back"), 1, tmp_path / "none" / "back")
    assert not (tmp_path / "none").exists()


def test_destination_beneath_a_file(folder, tmp_path, small):
    folder.save(small, 1)
    (tmp_path / "file").write_bytes(b"mine")
    result = folder.cleat("load", folder.url, tmp_path / "file" / "back")
    assert_error(result, 1, tmp_path / "file" / "back")
    assert (tmp_path / "file").read_bytes() == b"mine"


def test_read_only_store(tmp_path, small):
    store = Folder(tmp_path / "store")
    store.path.mkdir()
    store.path.chmod(0o555)
    result = store.cleat("save", small, store.url, "--step", "1", "--json", preexec_fn=without_capabilities)
    store.path.chmod(0o755)
    assert result.code == 1 and result.json["error"]["status"] == "DENIED", result
    assert_nothing_saved(store)


def test_read_only_destination(folder, tmp_path, small):
    folder.save(small, 1)
    parent = tmp_path / "parent"
    parent.mkdir()
    parent.chmod(0o555)
    result = folder.cleat("load", folder.url, parent / "back", "--json", preexec_fn=without_capabilities)
    parent.chmod(0o755)
    assert result.code == 1 and result.json["error"]["status"] == "DENIED", result
    assert list(parent.iterdir()) == []


def test_unreadable_source(folder, small):
    (small / "a.bin").chmod(0)
    result = folder.cleat("save", small, folder.url, "--step", "1", "--json", preexec_fn=without_capabilities)
    assert result.code == 1 and result.json["error"]["status"] == "DENIED", result
    assert str(small / "a.bin") in result.err, result
    assert_nothing_saved(folder)


def test_full_disk(folder, tmp_path, bad_disk):
    files = fill(tmp_path / "in", {"large": noise(3 << 20)})
    folder.save(files, 1)
    before = folder.keys()
    environment = dict(folder.environment, **bad_disk, FULL_AFTER=str(1 << 20))

    result = folder.cleat("save", files, folder.url, "--step", "2", "--json", environment=environment)
    assert result.code == 1 and result.json["error"]["status"] == "NO_SPACE", result
    assert folder.keys() == before

    for arguments in ([], ["--force"]):
        result = folder.cleat("load", folder.url, tmp_path / "back", "--json", *arguments, environment=environment)
        assert result.code == 1 and result.json["error"]["status"] == "NO_SPACE", result
        assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "store"], result

    back = fill(tmp_path / "back", {"large": b"old"})
    result = folder.cleat("load", folder.url, back, "--force", environment=environment)
    assert result.code == 1 and tree(back) == {"large": b"old"}, result


# ---- Caught in the middle ------------------------------------------------------------------------

@pytest.fixture
def large(tmp_path):
    path = tmp_path / "large.bin"
    with open(path, "wb") as file:
        file.write(noise(1 << 20))
        file.truncate(LARGE)
    yield path
    path.unlink()


class Caught:
    """A save to a slow disk that is stopped (SIGSTOP) as soon as its first bytes are in the store."""

    def __init__(self, store, bad_disk, *arguments, slow_ms=20):
        self.store = store
        self.before = store.keys()
        self.process = subprocess.Popen([CLEAT, "save", *map(str, arguments), store.url, "--step", "1", "--jobs", "1"],
                                        env=dict(store.environment, **bad_disk, SLOW_MS=str(slow_ms)),
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        deadline = time.monotonic() + 60
        while store.keys() == self.before:
            assert self.process.poll() is None and time.monotonic() < deadline, self.process.communicate()
        self.process.send_signal(signal.SIGSTOP)
        assert not any("step-000000000001/manifest" in key for key in store.keys()), "too fast to be caught"

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)
        out, err = self.process.communicate(timeout=60)
        return self.process.returncode, out.decode(), err.decode()


@pytest.mark.parametrize("how", ["shorter", "longer", "written", "replaced", "removed"])
def test_a_source_that_changes_while_it_is_read(folder, bad_disk, large, how):
    caught = Caught(folder, bad_disk, large)
    if how == "shorter":
        os.truncate(large, LARGE - 1)
    elif how == "longer":
        os.truncate(large, LARGE + 1)
    elif how == "written":
        with open(large, "r+b") as file:
            file.write(b"x")
    else:
        large.unlink()
        if how == "replaced":
            os.truncate(os.open(large, os.O_CREAT | os.O_WRONLY), LARGE)
    code, out, err = caught.go_on()
    large.touch()
    if how == "removed" and code == 0:
        return  # it was open, so its bytes were still there: what was saved is whole
    assert code == 1 and out == "" and str(large) in err, (code, out, err)
    assert_nothing_saved(folder)


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_ends_a_save_in_good_order(folder, bad_disk, large, number, code):
    caught = Caught(folder, bad_disk, large)
    caught.process.send_signal(number)
    ended, out, err = caught.go_on()
    assert ended == code and out == "", (ended, out, err)
    assert "cancelled" in err.splitlines()[-1], err
    assert_nothing_saved(folder)


def test_a_signal_leaves_nothing_in_a_bucket(bucket, tmp_path):
    """Neither the small file that is stored already, nor the parts of the large one."""
    fill(tmp_path / "in", {"a.bin": noise(1000)})
    with open(tmp_path / "in" / "b.bin", "wb") as file:
        file.truncate(3 * LARGE)
    process = subprocess.Popen([CLEAT, "save", tmp_path / "in", bucket.url, "--step", "1", "--jobs", "1"],
                               env=bucket.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    upload = None
    while not upload or not bucket.uploads(upload):
        assert process.poll() is None, process.communicate()
        upload = next((key.replace("a.bin", "b.bin") for key in bucket.keys()), None)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130 and out == b"", (process.returncode, out, err)
    assert bucket.keys() == [] and bucket.uploads(upload) == []


def test_a_signal_that_is_ignored_stays_ignored(folder, bad_disk, large):
    """nohup, and shells without job control."""
    previous = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        caught = Caught(folder, bad_disk, large)
    finally:
        signal.signal(signal.SIGHUP, previous)
    caught.process.send_signal(signal.SIGHUP)
    ended, out, err = caught.go_on()
    assert ended == 0, (ended, out, err)


def test_a_second_signal_ends_it_at_once(folder, bad_disk, large):
    """The save hangs in a write that takes ten seconds, so that it cannot end in good order before."""
    caught = Caught(folder, bad_disk, large, slow_ms=10000)
    caught.process.send_signal(signal.SIGCONT)
    time.sleep(0.5)  # into the write
    caught.process.send_signal(signal.SIGINT)
    line = caught.process.stderr.readline()
    assert b"again" in line, line
    started = time.monotonic()
    caught.process.send_signal(signal.SIGINT)
    caught.process.communicate(timeout=30)
    assert caught.process.returncode == -signal.SIGINT and time.monotonic() - started < 5
    assert folder.cleat("ls", folder.url).code == 3


def test_a_save_that_is_killed_leaves_what_was_there(folder, bad_disk, large, small, tmp_path):
    folder.save(small, 0)
    caught = Caught(folder, bad_disk, large)
    caught.process.kill()
    caught.process.communicate()
    assert [entry["step"] for entry in folder.cleat("ls", folder.url, "--json").json["checkpoints"]] == [0]
    assert folder.cleat("load", folder.url, tmp_path / "back").code == 0
    assert tree(tmp_path / "back") == tree(small)
    folder.save(small, 1)  # the step can be saved after all
