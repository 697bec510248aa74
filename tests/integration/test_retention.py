"""What is kept and what is removed: prune, gc, pin and unpin, on folders and on MinIO.

Nothing is judged by Cleat. boto3 or the file system finds and reads what is left, and it is compared byte for byte with
the state before. Ages cannot be set on a bucket. So --older-than is short there, and the test waits until the clock of
the server has passed it.
"""

import email.utils
import json
import os
import re
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request

import pytest

from helpers import CLEAT, Folder, assert_error, fill, noise
from proxy import unfinished_uploads

MIB = 1 << 20
SECONDS_MAX = 120
DAY = 86400


@pytest.fixture
def source(tmp_path):
    return fill(tmp_path / "source", {"model.bin": noise(70000), "sub/b.txt": b"two\n", "empty": b""})


def contents(store):
    """Every object: its key and bytes."""
    return {key: store.get(key) for key in store.keys()}


def count(folder):
    """How many files are there now, while others remove some."""
    return sum(len(files) for _, _, files in os.walk(folder.path))


def of_step(found, step):
    return {key: data for key, data in found.items() if key.startswith("step-%012d/" % step)}


def steps(store):
    """Without Cleat: a step is visible if it has a manifest."""
    found = [re.fullmatch(r"step-(\d{12})/manifest\.json", key) for key in store.keys()]
    return sorted(int(match.group(1)) for match in found if match)


def save_steps(store, source, numbers):
    for step in numbers:
        (source / "step.txt").write_bytes(b"%d" % step)
        store.save(source, step)


def prune(store, *arguments, code=0):
    result = store.cleat("prune", store.url, *arguments, "--json")
    assert result.code == code, result
    return result.json


def gc(store, *arguments, code=0):
    result = store.cleat("gc", store.url, *arguments, "--json")
    assert result.code == code, result
    return result.json


def grow_old(store, key=None):
    """Makes all that is there (or one key) older than a day in a folder; on a bucket, older than `older(store)`
    says."""
    if isinstance(store, Folder):
        then = time.time() - 3 * DAY
        for path in store.path.rglob("*"):
            if path.is_file() and (key is None or path == store.path / key):
                os.utime(path, (then, then))
        return
    # The server's clock in whole seconds; --older-than 1s wants more than one between.
    begun = server_time(store)
    while server_time(store) < begun + 3:
        time.sleep(0.1)  # the condition is the server's clock


def server_time(store):
    try:
        headers = urllib.request.urlopen(store.server.direct).headers
    except urllib.error.HTTPError as refused:
        headers = refused.headers
    return email.utils.parsedate_to_datetime(headers["Date"]).timestamp()


def older(store):
    return [] if isinstance(store, Folder) else ["--older-than", "1s"]


# ---- Prune -----------------------------------------------------------------------------------------------------------

def test_prune_keeps_what_it_should(store, source):
    save_steps(store, source, range(1, 11))
    assert store.cleat("pin", store.url, "--step", 2).out == "step 2: pinned\n"
    store.put("notes.txt", b"mine")
    store.put("step-000000000001/notes.txt", b"mine")
    before = contents(store)
    told = prune(store, "--keep-last", 3, "--keep-every", 4, "--dry-run")
    assert contents(store) == before
    done = prune(store, "--keep-last", 3, "--keep-every", 4)
    kept = [2, 4, 8, 9, 10]
    gone = [1, 3, 5, 6, 7]
    expected = {key: data for key, data in before.items() if not any(of_step({key: data}, step) for step in gone)}
    expected["step-000000000001/notes.txt"] = b"mine"
    assert contents(store) == expected
    assert steps(store) == kept
    # What it says is what was there.
    assert [entry["step"] for entry in done["removed"]] == gone and done["kept"] == len(kept)
    assert dict(told, dry_run=False) == done and told["dry_run"] is True
    for entry in done["removed"]:
        files = {key: data for key, data in of_step(before, entry["step"]).items() if not key.endswith("notes.txt")}
        assert (entry["objects"], entry["bytes"]) == (len(files), sum(map(len, files.values()))), entry
        assert entry["kind"] == "checkpoint" and entry["status"] == "OK"
        assert {key.split("/")[1] for key in files} == {"manifest.json", entry["name"]}
    assert done["bytes"] == sum(entry["bytes"] for entry in done["removed"])
    assert store.cleat("unpin", store.url, "--step", 2).code == 0
    assert [entry["step"] for entry in prune(store, "--keep-last", 1)["removed"]] == [2, 4, 8, 9]
    assert steps(store) == [10]
    assert prune(store, "--keep-last", 1)["removed"] == []


def test_prune_for_people(store, source):
    save_steps(store, source, [7, 8])
    result = store.cleat("prune", store.url, "--keep-last", 1, "--dry-run")
    lines = result.out.splitlines()
    assert result.code == 0 and result.err == "" and len(lines) == 3, result
    assert lines[0].split() == ["WHAT", "STEP", "OBJECTS", "SIZE", "NAME"]
    assert lines[1].split()[:3] == ["checkpoint", "7", "6"]
    assert re.fullmatch(r"1 checkpoint would be removed, .* freed; 1 kept", lines[2])
    assert store.cleat("prune", "-q", store.url, "--keep-last", 1).out.count("\n") == 2
    assert store.cleat("prune", store.url, "--keep-last", 1).out == "nothing to remove; 1 kept\n"


def test_what_cannot_be_read_is_left_and_told(store, source):
    save_steps(store, source, [1, 2, 3, 4])
    store.put(store.manifest_key(2), b"not a manifest")
    before = contents(store)
    result = store.cleat("prune", store.url, "--keep-last", 2, "--json")
    assert result.code == 0 and [entry["step"] for entry in result.json["removed"]] == [1], result
    assert re.match(r"cleat: warning: left alone: step 2: manifest: ", result.err), result
    assert {key for key in before if key not in of_step(before, 1)} == set(store.keys())
    # gc leaves all of it alone, too.
    store.put("step-000000000002/0123456789abcdef/model.bin", b"x")
    grow_old(store)
    assert gc(store, *older(store))["removed"] == []


@pytest.mark.parametrize("arguments, words", [
    (["prune"], "needs the store's URL"),
    (["prune", "URL"], "needs --keep-last"),
    (["prune", "URL", "--keep-every", "5"], "needs --keep-last"),
    (["prune", "URL", "--keep-last"], "--keep-last needs a value"),
    (["prune", "URL", "--keep-last", "0"], "--keep-last"),
    (["prune", "URL", "--keep-last", "-1"], "--keep-last"),
    (["prune", "URL", "--keep-last", "3x"], "--keep-last"),
    (["prune", "URL", "--keep-last", "99999999999"], "--keep-last"),
    (["prune", "URL", "--keep-last", "1", "--keep-every", "0"], "--keep-every"),
    (["prune", "URL", "--keep-last", "1", "--keep-every", "-5"], "--keep-every"),
    (["prune", "URL", "--keep-last", "1", "--keep-every", "99999999999999999999"], "--keep-every"),
    (["prune", "URL", "--keep-last", "1", "--older-than", "1h"], "no option --older-than"),
    (["prune", "URL", "--keep-lsat", "1"], "no option --keep-lsat"),
    (["gc"], "needs the store's URL"),
    (["gc", "URL", "--older-than", "24"], "not an age"),
    (["gc", "URL", "--older-than", "24y"], "not an age"),
    (["gc", "URL", "--older-than", "h"], "not an age"),
    (["gc", "URL", "--older-than", "0h"], "not an age"),
    (["gc", "URL", "--older-than", "-1h"], "not an age"),
    (["gc", "URL", "--older-than", "1h30m"], "not an age"),
    (["gc", "URL", "--older-than", "99999999999999999999d"], "not an age"),
    (["gc", "URL", "--keep-last", "1"], "no option --keep-last"),
    (["pin", "URL"], "needs --step"),
    (["unpin", "URL"], "needs --step"),
    (["pin", "URL", "--step", "-1"], "a step cannot be negative"),
])
def test_bad_usage(folder, source, arguments, words):
    save_steps(folder, source, [1, 2])
    before = contents(folder)
    arguments = [folder.url if argument == "URL" else argument for argument in arguments]
    assert_error(folder.cleat(*arguments), 2, words)
    assert contents(folder) == before


@pytest.mark.parametrize("word, meant", [("prun", "prune"), ("gcc", "gc"), ("pinn", "pin"), ("unpinn", "unpin")])
def test_the_nearest_command(folder, word, meant):
    assert "'cleat %s'" % meant in assert_error(folder.cleat(word), 2, "is not a command")[1]


def test_steps_that_are_not_there(store, source):
    assert_error(store.cleat("pin", store.url, "--step", 5), 3, "step 5 is not committed")
    assert_error(store.cleat("unpin", store.url, "--step", 5), 3, "step 5 is not committed")
    save_steps(store, source, [5])
    result = store.cleat("pin", store.url, "--step", 5, "--json")
    assert result.json == {"step": 5, "outcome": "pinned", "url": store.url}
    assert store.cleat("show", store.url, "--json").json["checkpoint"]["pinned"] is True
    assert "step 5, pinned\n" in store.cleat("show", store.url).out
    for _ in range(2):
        assert store.cleat("unpin", store.url, "--step", 5, "--json").json["outcome"] == "unpinned"
    assert store.cleat("show", store.url, "--json").json["checkpoint"]["pinned"] is False
    assert prune(store, "--keep-last", 1)["removed"] == []


def test_an_empty_store_and_a_missing_bucket(store):
    assert prune(store, "--keep-last", 1) == {"url": store.url, "dry_run": False, "kept": 0, "bytes": 0, "removed": []}
    assert gc(store) == {"url": store.url, "dry_run": False, "kept": 0, "bytes": 0, "removed": []}
    if not isinstance(store, Folder):
        url = store.url.replace(store.bucket, "none-" + store.bucket)
        for command in (["prune", "--keep-last", 1], ["gc"], ["pin", "--step", 1], ["unpin", "--step", 1]):
            assert_error(store.cleat(command[0], url, *command[1:]), 1, "NoSuchBucket", "none-" + store.bucket)


def test_a_load_that_is_overtaken(proxied, source, tmp_path):
    save_steps(proxied, source, [1, 2])

    def pruned_now(request):
        if request.method == "GET" and request.key.endswith("/model.bin"):
            proxied.proxy.before = None
            assert proxied.cleat("prune", proxied.url, "--keep-last", 1).code == 0

    proxied.proxy.before = pruned_now
    result = proxied.cleat("load", proxied.url, tmp_path / "back", "--step", 1)
    assert_error(result, 1, "step 1 was removed while it was loaded")
    assert not (tmp_path / "back").exists()


# ---- Killed ----------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("number", [1, 2, 3, 7, 12, 19])
def test_a_prune_that_is_killed(proxied, source, number):
    """At its n-th removal: whole checkpoints alone are visible, and gc frees the rest."""
    save_steps(proxied, source, range(1, 6))
    before = contents(proxied)
    proxied.proxy.settle()
    proxied.proxy.forget()
    ready, killed = threading.Event(), []

    def kill(request):
        ready.wait()
        if request.method == "DELETE" and proxied.proxy.count("delete") >= number and not killed:
            killed.append(request)
            process.kill()
            process.wait()

    proxied.proxy.before = kill
    process = subprocess.Popen([CLEAT, "prune", proxied.url, "--keep-last", "1", "--jobs", "2"],
                               env=proxied.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    ready.set()
    process.communicate(timeout=SECONDS_MAX)
    proxied.proxy.settle()
    proxied.proxy.before = None
    assert killed and process.returncode == -signal.SIGKILL
    for step in steps(proxied):
        assert of_step(contents(proxied), step) == of_step(before, step)
        assert proxied.cleat("verify", proxied.url, "--step", step).code == 0
    assert 5 in steps(proxied)
    grow_old(proxied)
    left = steps(proxied)
    gc(proxied, *older(proxied))
    assert contents(proxied) == {key: data for step in left for key, data in of_step(before, step).items()}
    prune(proxied, "--keep-last", 1)
    assert contents(proxied) == of_step(before, 5)


def test_prunes_of_a_folder_that_are_killed(folder, source):
    """At moments all over it."""
    for moment in range(8):
        save_steps(folder, source, range(20 * moment, 20 * moment + 20))
        before = contents(folder)
        process = subprocess.Popen([CLEAT, "prune", folder.url, "--keep-last", "1"], env=folder.environment,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        # Killed once so many objects are gone, however fast it is.
        while process.poll() is None and count(folder) > len(before) - 10 * moment:
            pass
        process.kill()
        process.communicate()
        left = steps(folder)
        assert max(left) == 20 * moment + 19
        for step in left:
            # A process that is killed while it removes something leaves the lock on that folder's names to gc.
            found = {name: text for name, text in contents(folder).items() if not name.endswith("/.cleat-lock")}
            assert of_step(found, step) == of_step(before, step)
        prune(folder, "--keep-last", 1)
        grow_old(folder)
        gc(folder)
        assert contents(folder) == of_step(before, max(left))


# ---- gc --------------------------------------------------------------------------------------------------------------

def start_save(store, source, step, *more):
    return subprocess.Popen([
        CLEAT, "save", source, store.url, "--step",
        str(step), "--part-size", "5M", "--jobs", "2", *more
    ], env=store.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@pytest.mark.parametrize("kind, number", [("record", 1), ("file", 1), ("create", 1), ("part", 2), ("part", 5),
                                          ("complete", 1), ("record", 2), ("manifest", 1)])
def test_gc_after_a_killed_save(proxied, source, tmp_path, kind, number):
    large = fill(tmp_path / "large", {"a.bin": noise(11 * MIB), "b.bin": noise(16 * MIB, 2), "small": b"small"})
    save_steps(proxied, source, [1])
    before = contents(proxied)
    proxied.proxy.settle()
    proxied.proxy.forget()
    ready, killed = threading.Event(), []

    def kill(request):
        ready.wait()
        if request.kind == kind and proxied.proxy.count(kind) >= number and not killed:
            killed.append(request)
            process.kill()
            process.wait()
            return False
        return True

    proxied.proxy.before = kill
    process = start_save(proxied, large, 2)
    ready.set()
    process.communicate(timeout=SECONDS_MAX)
    proxied.proxy.settle()
    proxied.proxy.before = None
    assert killed and process.returncode == -signal.SIGKILL
    uploads = unfinished_uploads(proxied, proxied.proxy.upload_keys())
    leftovers = len(proxied.keys()) - len(before) + len(uploads)
    # A day has not gone by: nothing is removed.
    assert gc(proxied)["removed"] == []
    assert len(proxied.keys()) - len(before) + len(unfinished_uploads(proxied,
                                                                      proxied.proxy.upload_keys())) == leftovers
    grow_old(proxied)
    told = gc(proxied, *older(proxied), "--dry-run")
    assert len(unfinished_uploads(proxied, proxied.proxy.upload_keys())) == len(uploads)
    done = gc(proxied, *older(proxied))
    assert sum(entry["objects"] for entry in done["removed"]) == leftovers
    assert [entry["objects"] for entry in told["removed"]] == [entry["objects"] for entry in done["removed"]]
    assert contents(proxied) == before
    assert unfinished_uploads(proxied, proxied.proxy.upload_keys()) == []


def test_gc_after_killed_saves_to_a_folder(folder, source, tmp_path):
    large = fill(tmp_path / "large", {"a.bin": noise(11 * MIB), "b.bin": noise(16 * MIB, 2), "small": b"small"})
    save_steps(folder, source, [1])
    before = contents(folder)
    for _ in range(6):
        process = start_save(folder, large, 2)
        while process.poll() is None and count(folder) <= len(before) + 1:
            pass
        process.kill()
        process.communicate()
        if process.returncode == 0:
            continue  # it was faster
        assert gc(folder)["removed"] == []
        grow_old(folder)
        gc(folder)
        found = contents(folder)
        if 2 in steps(folder):
            folder_of_two = folder.path / "step-000000000002"
            subprocess.run(["rm", "-r", str(folder_of_two)], check=True)
            found = contents(folder)
        assert found == before
        assert not (folder.path / "step-000000000002").exists()


def test_gc_beside_a_running_save(proxied, source, tmp_path):
    """It has begun uploads, stored files and a claim; gc with the usual grace removes nothing of it, nor does prune."""
    large = fill(tmp_path / "large", {"a.bin": noise(11 * MIB), "small": b"small"})
    save_steps(proxied, source, [1, 2])
    collected = []

    def collect(request):
        if request.kind in ("part", "complete", "manifest"):
            collected.append((request.kind, proxied.cleat("gc", proxied.url, "--json"),
                              proxied.cleat("prune", proxied.url, "--keep-last", 1, "--json")))

    ready = threading.Event()

    def before(request):
        ready.wait()
        collect(request)

    proxied.proxy.before = before
    process = start_save(proxied, large, 3)
    ready.set()
    out, err = process.communicate(timeout=SECONDS_MAX)
    proxied.proxy.before = None
    assert process.returncode == 0, err
    assert {kind for kind, _, _ in collected} == {"part", "complete", "manifest"}
    for _, gc_result, prune_result in collected:
        assert gc_result.code == 0 and gc_result.json["removed"] == [], gc_result
        assert prune_result.code == 0, prune_result
    assert steps(proxied) == [2, 3]
    assert proxied.cleat("verify", proxied.url, "--step", 3).code == 0
    assert proxied.get(proxied.file_key(3, "a.bin")) == (large / "a.bin").read_bytes()


def test_gc_beside_a_running_save_to_a_folder(folder, tmp_path, bad_disk):
    """Its upload is days old by the date of its files, and locked by the process: it stays."""
    large = fill(tmp_path / "large", {"a.bin": noise(16 * MIB)})
    folder.environment = dict(folder.environment, SLOW_MS="20", **bad_disk)
    process = start_save(folder, large, 3)
    folder.environment = {
        name: value
        for name, value in folder.environment.items() if name not in ("LD_PRELOAD", "SLOW_MS")
    }
    # A part is noted in the journal, behind its header: from then on the upload is all there is to be.
    while process.poll() is None and not any(path.stat().st_size > 264
                                             for path in folder.path.glob("*/*/.cleat-upload-*.parts")):
        pass
    assert process.poll() is None
    process.send_signal(signal.SIGSTOP)
    grow_old(folder)
    before = folder.keys()
    result = gc(folder)
    assert result["removed"] == [] and result["kept"] == 1
    assert folder.keys() == before
    process.send_signal(signal.SIGCONT)
    out, err = process.communicate(timeout=SECONDS_MAX)
    assert process.returncode == 0, err
    assert folder.get(folder.file_key(3, "a.bin")) == (large / "a.bin").read_bytes()


def test_other_leftovers(store, source):
    save_steps(store, source, [1])
    before = contents(store)
    leftovers = ["doctor-0123456789abcdef/whole", "bench-0123456789abcdef/parts-1", "step-000000000007/pin.json",
                 "step-000000000001/0123456789abcdef/model.bin", "starts/000001.json", "starts/000001/rank-00001.json"]
    foreign = [
        "doctor-who/tardis", "step-000000000001/notes/readme", "starts/readme", "starts/000002.json",
        "starts/000003.json", "run-18/step-000000000001/0123456789abcdef/model.bin"
    ]
    for key in leftovers + foreign:
        store.put(key, b"12345")
    grow_old(store)
    told = gc(store, *older(store), "--dry-run")
    assert set(store.keys()) == {*before, *leftovers, *foreign}
    done = gc(store, *older(store))
    assert set(store.keys()) == {*before, *foreign}
    assert [entry["kind"] for entry in done["removed"]] == ["attempt", "scratch", "scratch", "start", "pin"]
    assert told["removed"] == done["removed"] and done["bytes"] == 5 * len(leftovers)
    result = store.cleat("gc", store.url)
    assert result.code == 0 and re.fullmatch(r"nothing to remove; \d+ left for now\n", result.out), result
    assert {key: store.get(key) for key in before} == before


def test_a_doctor_and_a_bench_that_were_killed(proxied):
    for command in (["doctor"], ["bench", "--size", "40M", "--jobs", "2"]):
        ready, killed = threading.Event(), []

        def kill(request):
            ready.wait()
            if request.method == "PUT" and request.kind == "file" and proxied.proxy.count("file") >= 2 and not killed:
                killed.append(request)
                process.kill()
                process.wait()

        proxied.proxy.forget()
        proxied.proxy.before = kill
        process = subprocess.Popen([CLEAT, command[0], proxied.url, *command[1:]], env=proxied.environment,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        ready.set()
        process.communicate(timeout=SECONDS_MAX)
        proxied.proxy.settle()
        proxied.proxy.before = None
        assert killed
    assert proxied.keys() != []
    assert gc(proxied)["removed"] == []
    grow_old(proxied)
    assert {entry["kind"] for entry in gc(proxied, *older(proxied))["removed"]} == {"scratch"}
    assert proxied.keys() == []


def test_what_cannot_be_removed_is_told(proxied, source):
    save_steps(proxied, source, [1, 2, 3])
    before = contents(proxied)
    key = proxied.file_key(1, "model.bin")
    # As for a key that may not delete: the proxy answers nothing, and so the time limit ends it.
    proxied.proxy.before = lambda request: not (request.method == "DELETE" and request.key.endswith(key))
    result = proxied.cleat("prune", proxied.url, "--keep-last", 1, "--json", "--time-limit", 2)
    proxied.proxy.before = None
    assert_error(result, 1, key)
    document = json.loads(result.out)
    assert [entry["status"] == "OK" for entry in document["removed"]] == [False, True]
    assert document["error"]["status"] == document["removed"][0]["status"]
    assert set(proxied.keys()) == {key, *of_step(before, 3)}
