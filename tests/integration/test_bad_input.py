"""Wrong input and wrong places, for the program and the API: each has its own error, ends in bounded time, and leaves
nothing behind.

Cases of test_cli.py, test_cli_sources.py (malformed .safetensors, names, links) and test_cli_damage.py (manifests,
records, stored bytes) are not repeated here.
"""

import os
import resource
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest

from helpers import CLEAT, Folder, Result, assert_error, fill, noise, run, tree, without_capabilities
from proxy import Proxy, unfinished_uploads

BAD_REQUESTS = Path(CLEAT).parent / "tests" / "integration" / "bad_requests"
MIB = 1 << 20
NO_HOST = "%064d.example" % 0  # a label over 63 bytes: no resolver is asked, so this needs no network


def commands(url, source, tmp_path):
    """Every command, as it meets a store for the first time."""
    return [["ls", url], ["show", url], ["verify", url], ["load", url, tmp_path / "back"],
            ["save", source, url, "--step", "1"]]


def run_at_once(commands, environments, seconds):
    """Runs all of them side by side, each against all environments; yields (environment, result) in that order."""
    running = []
    for environment in environments:
        for command in commands:
            arguments = [str(argument) for argument in command]
            running.append((environment, arguments, subprocess.Popen(
                [CLEAT, *arguments], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE)))
    deadline = time.monotonic() + seconds
    try:
        for environment, arguments, process in running:
            out, err = process.communicate(timeout=max(1, deadline - time.monotonic()))
            yield environment, Result(arguments, subprocess.CompletedProcess(arguments, process.returncode, out, err))
    finally:
        for _, _, process in running:
            process.kill()
            process.wait()


def error_of(result, code, status, *words):
    """Checks how a run with --json ended: the code, the status, one line; and that it says all of `words`."""
    assert result.code == code, result
    error = result.json["error"]
    assert error["status"] == status and "\n" not in error["message"], result
    for word in words:
        assert str(word) in error["message"] + error["hint"], (word, result)
    return error


# ---- URLs ---------------------------------------------------------------------------------------------------------

URLS = {
    "/tmp/x": "file:///tmp/x", "x": "file:///absolute/path", "http://host/x": '"http"', "ftp://x/y": '"ftp"',
    "file://": "three slashes", "file://relative/x": "three slashes", "s3://": "the bucket is missing",
    "s3:///x": "the bucket is missing", "s3:/b": "s3://bucket/prefix", "s3://ab": "3 to 63",
    "s3://%s/x" % ("b" * 64): "3 to 63", "s3://UPPER/x": "a-z", "s3://bk t/x": "a-z", "s3://bkt/a//x": "empty segment",
    "s3://bkt/../x": '".."', "s3://bkt/x?colour=red": "colour"
}


@pytest.mark.parametrize("url", URLS)
def test_a_wrong_url_says_what_is_wrong(url, small, tmp_path):
    for command in commands(url, small, tmp_path):
        error_of(run(*command, "--json", timeout=10), 2, "INVALID", URLS[url])
    assert not (tmp_path / "back").exists()


@pytest.mark.parametrize("endpoint, words", [
    ("nonsense", "http://"), ("ftp://x", "http://"), ("http://", "host"), ("http://127.0.0.1:99999", "port"),
    ("http://127.0.0.1:x", "port"), ("http://user:secretword@127.0.0.1:9", "endpoint"), ("", None)])
def test_a_wrong_endpoint_says_what_is_wrong(bucket, small, tmp_path, endpoint, words):
    for command in commands(bucket.url, small, tmp_path):
        result = bucket.cleat(*command, "--endpoint", endpoint, "--json", timeout=60)
        if words is None:  # as if it were not set: the environment has one
            assert result.code in (0, 3), result
        else:
            error_of(result, 2, "INVALID", words)
        assert "secretword" not in result.out + result.err


# ---- Buckets, keys --------------------------------------------------------------------------------------------------

def test_a_missing_bucket_is_named_by_every_command(bucket, small, tmp_path):
    url = "s3://%s-not/run" % bucket.bucket
    for command in commands(url, small, tmp_path):
        error = error_of(bucket.cleat(*command, "--json", timeout=60), 1, "NOT_FOUND", "%s-not" % bucket.bucket)
        assert error["s3_code"] == "NoSuchBucket" and not error["retryable"], error
    assert not (tmp_path / "back").exists()


@pytest.mark.parametrize("change, code, word", [
    ({"AWS_SECRET_ACCESS_KEY": "wrong" * 4}, "SignatureDoesNotMatch", "AWS_SECRET_ACCESS_KEY"),
    ({"AWS_ACCESS_KEY_ID": "nobody"}, "InvalidAccessKeyId", "AWS_ACCESS_KEY_ID")])
def test_wrong_keys_say_which(bucket, small, tmp_path, change, code, word):
    bucket.save(small, 0)
    before = bucket.keys()
    environment = dict(bucket.environment, **change)
    for command in commands(bucket.url, small, tmp_path):
        result = bucket.cleat(*command, "--json", environment=environment, timeout=60)
        error = error_of(result, 1, "DENIED", word)
        assert error["s3_code"] == code and not error["retryable"], result
        assert environment["AWS_SECRET_ACCESS_KEY"] not in result.out + result.err
    assert bucket.keys() == before and not (tmp_path / "back").exists()


# ---- Endpoints that do not answer ------------------------------------------------------------------------------------

class Server:
    """Accepts connections and does to each what `behave` says."""

    def __init__(self, behave):
        self.behave = behave
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.url = "http://127.0.0.1:%d" % self.listener.getsockname()[1]
        self.kept = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
                self.kept.append(connection)
                self.behave(connection)
            except OSError:
                if self.listener.fileno() < 0:
                    return

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for connection in self.kept:
            connection.close()


def say(text):
    def behave(connection):
        connection.settimeout(5)
        connection.recv(65536)
        connection.sendall(text)
        connection.close()
    return behave


SERVERS = {
    "black hole": (lambda connection: None, "TIMEOUT", "no answer"),
    "hangs up": (lambda connection: connection.close(), "NETWORK", "broke"),
    "speaks something else": (say(b"SSH-2.0-OpenSSH_9.2p1 Debian\r\n"), "STORE", "not from an S3 store"),
    "is a web page": (say(b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\nConnection: close\r\n\r\n<html>hi</p>\n"), "STORE",
                      "not from an S3 store"),
    "refuses": (say(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 5\r\nConnection: close\r\n\r\nno!\r\n"), "DENIED",
                "403"),
    "is overloaded": (say(b"HTTP/1.1 503 Slow\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"), "STORE", "503"),
}


@pytest.mark.parametrize("kind", SERVERS)
def test_a_server_that_is_no_store(bucket, small, tmp_path, kind):
    """Not even a limit of seconds is overrun, whatever it does."""
    behave, status, words = SERVERS[kind]
    server = Server(behave)
    environment = dict(bucket.environment, AWS_ENDPOINT_URL=server.url)
    limited = [[*command, "--time-limit", "3", "--json"] for command in commands(bucket.url, small, tmp_path)]
    try:
        for _, result in run_at_once(limited, [environment], 30):
            error = error_of(result, 1, status, words)
            if kind != "refuses":
                assert error["hint"], result
    finally:
        server.close()
    assert not (tmp_path / "back").exists()


def test_unreachable_endpoints_are_given_up_in_time(bucket, small, tmp_path):
    """Without any option: nothing was ever there, so nobody wants to wait a quarter of an hour."""
    server = Server(SERVERS["black hole"][0])
    closed = socket.socket()  # bound, so that nobody else gets that port, and never listening
    closed.bind(("127.0.0.1", 0))
    refused = "http://127.0.0.1:%d" % closed.getsockname()[1]
    endpoints = {refused: ("NETWORK", "cannot connect"), "http://" + NO_HOST: ("NETWORK", "host name"),
                 server.url: ("TIMEOUT", "no answer")}
    unlimited = [[*command, "--json"] for command in commands(bucket.url, small, tmp_path)]
    environments = [dict(bucket.environment, AWS_ENDPOINT_URL=endpoint) for endpoint in endpoints]
    try:
        for environment, result in run_at_once(unlimited, environments, 90):
            endpoint = environment["AWS_ENDPOINT_URL"]
            error = error_of(result, 1, *endpoints[endpoint], endpoint)
            assert error["retryable"], error
    finally:
        server.close()
        closed.close()
    assert not (tmp_path / "back").exists()


def test_a_plain_server_where_tls_is_asked_for(bucket, small, tmp_path):
    endpoint = bucket.environment["AWS_ENDPOINT_URL"].replace("http://", "https://")
    for command in commands(bucket.url, small, tmp_path):
        result = bucket.cleat(*command, "--endpoint", endpoint, "--json", timeout=60)
        assert result.code == 1 and "TLS" in result.json["error"]["message"] + result.json["error"]["hint"], result


def test_a_server_that_goes_away_in_the_middle_of_a_save(bucket, tmp_path):
    """It answered before, so the save goes on trying, but not beyond its limit; what it says is of the network."""
    source = fill(tmp_path / "in", {"large.bin": noise(12 * MIB)})
    proxy = Proxy(os.environ["CLEAT_TEST_ENDPOINT"])
    environment = dict(bucket.environment, AWS_ENDPOINT_URL=proxy.url)
    proxy.before = lambda request: request.kind != "part"
    began = time.monotonic()
    result = bucket.cleat("save", source, bucket.url, "--step", "1", "--part-size", "5M", "--time-limit", "4", "--json",
                          environment=environment, timeout=120)
    proxy.close()
    assert time.monotonic() - began < 60
    error = error_of(result, 1, "NETWORK", "large.bin")
    assert error["retryable"], error
    assert bucket.cleat("ls", bucket.url).code == 3


# ---- Requests by the API ---------------------------------------------------------------------------------------------

def test_requests_that_cannot_be_right(store):
    """Steps below zero, duplicate names, unknown dtypes, shapes that overflow, and more: all refused before a byte is
    sent, each in words of its own."""
    completed = subprocess.run([BAD_REQUESTS, store.url], env=store.environment, capture_output=True, timeout=60)
    assert completed.returncode == 0, completed
    lines = [line.split("\t") for line in completed.stdout.decode("utf-8", "replace").splitlines()]
    cases = {label: (status, message) for label, status, message in lines}
    assert cases.pop("good") == ("OK", "")
    assert cases.pop("file that does not exist")[0] == "NOT_FOUND"
    assert {status for status, _ in cases.values()} == {"INVALID"}, cases
    assert len(cases) >= 30
    for label, words in {"duplicate tensor name": "good", "unknown dtype": "21", "shape overflows": "overflows",
                         "shape overflows to zero": "overflows", "shape below zero": "-2", "step below zero": "-1",
                         "too many dimensions": "33", "duplicate file name": "good.bin", "file name ..": '".."',
                         "absolute file name": "/etc/x", "metadata that is no JSON": "metadata"}.items():
        assert words in cases[label][1], (label, cases[label])
    # One step, of the good request, with one file.
    assert len(store.keys()) == 3, store.keys()
    assert store.cleat("verify", store.url).code == 0


# ---- Sources that change while they are read -------------------------------------------------------------------------

def assert_changed(result, store, source):
    error_of(result, 1, "CHANGED", source)
    assert store.keys() == []


@pytest.mark.parametrize("size", [3000, 12 * MIB])
def test_a_source_that_grows_all_the_time(store, bad_disk, tmp_path, size):
    """A log that is still written, surely also between the look at its size and each read."""
    source = fill(tmp_path / "in", {"model.bin": noise(100), "log": noise(size)}) / "log"
    stop, began = threading.Event(), threading.Event()

    def write():
        with open(source, "ab", buffering=0) as file:
            while not stop.is_set():
                file.write(b"one more line\n")
                began.set()

    writer = threading.Thread(target=write)
    writer.start()
    began.wait()
    try:
        result = store.cleat("save", tmp_path / "in", store.url, "--step", "1", "--part-size", "5M", "--json",
                             environment=dict(store.environment, **bad_disk, UNTIL_GROWN=str(source)))
    finally:
        stop.set()
        writer.join()
    assert_changed(result, store, source)


@pytest.mark.parametrize("how", ["shorter", "longer", "empty", "rewritten", "replaced"])
def test_a_source_that_changes_in_the_middle(bucket, tmp_path, how):
    """Between the first request for an upload and its first part."""
    source = fill(tmp_path / "in", {"large.bin": noise(17 * MIB)}) / "large.bin"
    proxy, done = Proxy(os.environ["CLEAT_TEST_ENDPOINT"]), []

    def change(request):
        if request.kind != "create" or done:
            return
        done.append(request)
        if how == "rewritten":
            with open(source, "r+b") as file:
                file.write(b"other")
        elif how == "replaced":
            (tmp_path / "new").write_bytes(noise(17 * MIB, 2))
            (tmp_path / "new").rename(source)
        else:
            os.truncate(source, {"shorter": 17 * MIB - 1, "longer": 17 * MIB + 1, "empty": 0}[how])

    proxy.before = change
    try:
        result = bucket.cleat("save", source, bucket.url, "--step", "1", "--part-size", "5M", "--json",
                              environment=dict(bucket.environment, AWS_ENDPOINT_URL=proxy.url))
    finally:
        proxy.close()
    assert done
    assert_changed(result, bucket, source)
    assert unfinished_uploads(bucket, proxy.upload_keys()) == []


# ---- Disks that are full, folders that are read-only -----------------------------------------------------------------

class Disk:
    """A small file system of its own, seen only by what `run` runs; it is gone when its holder is."""

    def __init__(self, folder, size):
        folder.mkdir()
        self.path = folder
        script = 'mount -t tmpfs -o size=%d none "$0" && echo ready && exec cat' % size
        for options in (["--mount"], ["--mount", "--user", "--map-root-user"]):
            self.holder = subprocess.Popen(["unshare", *options, "sh", "-c", script, folder], stdin=subprocess.PIPE,
                                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            if self.holder.stdout.readline() == b"ready\n":
                user = ["--user", "--preserve-credentials"] if "--user" in options else []
                self.enter = ["nsenter", "--target", str(self.holder.pid), *user, "--mount", "--wd=%s" % folder]
                return
            self.close()
        self.enter = None

    def run(self, *command):
        return subprocess.run([*self.enter, *map(str, command)], capture_output=True, timeout=120)

    def cleat(self, store, *arguments):
        arguments = [str(argument) for argument in arguments]
        completed = subprocess.run([*self.enter, CLEAT, *arguments], env=store.environment, capture_output=True,
                                   timeout=120)
        return Result(arguments, completed)

    def files(self):
        return sorted(self.run("find", ".", "-type", "f").stdout.decode().split())

    def close(self):
        self.holder.stdin.close()
        self.holder.stdout.close()
        self.holder.wait(timeout=10)


@pytest.fixture
def disk(tmp_path):
    disk = Disk(tmp_path / "disk", 20 * MIB)
    yield disk
    if disk.enter:
        disk.close()


@pytest.mark.parametrize("sizes", [[30 * MIB], [9 * MIB, 9 * MIB], [30000] * 600])
def test_a_full_disk_below_the_store(disk, tmp_path, bad_disk, sizes):
    """A real one, where the kernel lets us make one; else one that is acted. A large file, some, very many."""
    store = Folder(disk.path / "store")
    first = fill(tmp_path / "first", {"a.bin": noise(5 * MIB)})
    large = fill(tmp_path / "large", {"%d.bin" % number: noise(size, number) for number, size in enumerate(sizes)})
    if disk.enter:
        def cleat(*arguments):
            return disk.cleat(store, *arguments)
    else:
        def cleat(*arguments):
            full = dict(bad_disk, FULL_AFTER=str(8 * MIB))
            return store.cleat(*arguments, environment=dict(store.environment, **full))
    assert cleat("save", first, store.url, "--step", "1").code == 0
    before = disk.files() if disk.enter else store.keys()
    error_of(cleat("save", large, store.url, "--step", "2", "--json"), 1, "NO_SPACE", store.path)
    assert (disk.files() if disk.enter else store.keys()) == before
    assert [entry["step"] for entry in cleat("ls", store.url, "--json").json["checkpoints"]] == [1]
    assert cleat("verify", store.url).code == 0


def test_a_full_disk_below_the_destination(store, disk, tmp_path, bad_disk):
    store.save(fill(tmp_path / "in", {"a.bin": noise(1000), "b.bin": noise(30 * MIB), "c/d.bin": noise(10)}), 1)
    back = disk.path / "back"
    if disk.enter:
        for _ in range(2):
            error_of(disk.cleat(store, "load", store.url, back, "--json"), 1, "NO_SPACE", back)
            assert disk.run("ls", "-A", ".").stdout == b""
        disk.run("sh", "-c", "mkdir back && echo old > back/a.bin")
        error_of(disk.cleat(store, "load", store.url, back, "--force", "--json"), 1, "NO_SPACE", back)
        assert disk.run("sh", "-c", "find . -mindepth 1; cat back/a.bin").stdout == b"./back\n./back/a.bin\nold\n"
    else:
        full = dict(store.environment, **bad_disk, FULL_AFTER=str(MIB))
        error_of(store.cleat("load", store.url, back, "--json", environment=full), 1, "NO_SPACE", back)
        assert not back.exists()


def no_large_files(signal_too=True):
    """For preexec_fn: no file over 1 MiB, as `ulimit -f` does."""
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (MIB, MIB))
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL if signal_too else signal.SIG_IGN)
    return limit


@pytest.mark.parametrize("size", [3 * MIB, 40 * MIB])
@pytest.mark.parametrize("signal_too", [False, True])
def test_a_limit_on_the_size_of_files(folder, tmp_path, size, signal_too):
    source = fill(tmp_path / "in", {"a.bin": noise(1000), "large.bin": noise(size)})
    limited = no_large_files(signal_too)
    error_of(folder.cleat("save", source, folder.url, "--step", "1", "--json", preexec_fn=limited), 1, "NO_SPACE",
             "large.bin")
    assert folder.keys() == []
    folder.save(source, 1)
    result = folder.cleat("load", folder.url, tmp_path / "back", "--json", preexec_fn=limited)
    error_of(result, 1, "NO_SPACE", "large.bin")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "store"]


def test_a_read_only_file_system(store, disk, tmp_path, small):
    """For root too. Where no file system can be made: a folder that may not be written."""
    inside = Folder(disk.path / "store")
    store.save(small, 1)
    if disk.enter:
        assert disk.cleat(inside, "save", small, inside.url, "--step", "1").code == 0
        assert disk.run("mount", "-o", "remount,ro", disk.path).returncode == 0
        before = disk.files()

        def cleat(of, *arguments):
            return disk.cleat(of, *arguments)
    else:
        inside.save(small, 1)
        before = inside.keys()
        for path in [disk.path, *disk.path.rglob("*")]:
            path.chmod(0o555)

        def cleat(of, *arguments):
            return of.cleat(*arguments, preexec_fn=without_capabilities)
    error_of(cleat(inside, "save", small, inside.url, "--step", "2", "--json"), 1, "DENIED", disk.path)
    elsewhere = "file://%s" % (disk.path / "new" / "store")
    error_of(cleat(inside, "save", small, elsewhere, "--step", "2", "--json"), 1, "DENIED", disk.path)
    for arguments in ([], ["--force"]):
        error_of(cleat(store, "load", store.url, disk.path / "back", "--json", *arguments), 1, "DENIED",
                 disk.path / "back")
    assert (disk.files() if disk.enter else inside.keys()) == before
    # Reading is all that is needed for reading.
    for command in (["ls", inside.url], ["show", inside.url], ["verify",
                                                               inside.url], ["load", inside.url, tmp_path / "back"]):
        result = cleat(inside, *command)
        assert result.code == 0, result
    assert tree(tmp_path / "back") == tree(small)


# ---- Destinations ----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("what", ["empty folder", "folder", "file", "link to a folder", "dangling link", "device"])
def test_a_destination_that_exists_in_any_form(store, small, tmp_path, what):
    store.save(small, 1)
    back, outside = tmp_path / "back", fill(tmp_path / "outside", {"a.bin": b"mine"})
    if what == "empty folder":
        back.mkdir()
    elif what == "folder":
        fill(back, {"keep": b"mine"})
    elif what == "file":
        back.write_bytes(b"mine")
    elif what == "link to a folder":
        back.symlink_to(outside)
    elif what == "dangling link":
        back.symlink_to(tmp_path / "nowhere")
    else:
        back = Path("/dev/null")
    before = (tree(back), tree(tmp_path), sorted(tmp_path.iterdir()))
    lines = assert_error(store.cleat("load", store.url, back), 1, back)
    assert "--force" in lines[1]
    assert (tree(back), tree(tmp_path), sorted(tmp_path.iterdir())) == before


def test_force_follows_no_link_at_any_depth(store, tmp_path):
    store.save(fill(tmp_path / "in", {"a/b/c.bin": b"new", "d.bin": b"new", "e/f.bin": b"new"}), 1)
    outside = fill(tmp_path / "outside", {"c.bin": b"mine", "d.bin": b"mine", "b/c.bin": b"mine"})
    for link, target in {"a": outside, "a/b": outside, "d.bin": outside / "d.bin", "e/f.bin": outside / "none"}.items():
        back = tmp_path / ("back-" + link.replace("/", "-"))
        (back / link).parent.mkdir(parents=True)
        (back / link).symlink_to(target)
        result = store.cleat("load", store.url, back, "--force")
        assert tree(outside) == {"c.bin": b"mine", "d.bin": b"mine", "b/c.bin": b"mine"}, result
        if result.code == 0:
            assert tree(back) == tree(tmp_path / "in") and not (back / link).is_symlink()
        else:
            assert_error(result, 1, link)
            assert tree(back) == ({} if link != "d.bin" else {"d.bin": b"mine"})


def test_a_destination_whose_parent_is_not_there(store, small, tmp_path):
    store.save(small, 1)
    result = store.cleat("load", store.url, tmp_path / "none" / "back")
    if result.code == 0:  # made with its parents
        assert tree(tmp_path / "none" / "back") == tree(small)
    else:
        assert_error(result, 1, tmp_path / "none")
        assert not (tmp_path / "none").exists()
