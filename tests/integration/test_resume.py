"""Saves that are killed and continued by `cleat save --resume`, on a bucket and in a folder.

Nothing is judged by Cleat. boto3 or the file system reads what is committed, and it is compared with the source files.
A proxy counts the sent bytes. Random moments come from a printed seed; CLEAT_TEST_SEED repeats it.
"""

import json
import re
import signal
import subprocess
import threading
import time

import pytest

from helpers import CLEAT, fill, noise
from proxy import Once, abort_uploads, unfinished_uploads

MIB = 1 << 20
SECONDS_MAX = 120
STEP = 5
SAVE = ["--part-size", "5M", "--jobs", "3"]
SIZES = {"a.bin": 23 * MIB, "b.bin": 16 * MIB + 1, "sub/c.bin": 10 * MIB, "small": 1000, "empty": 0}
PARTS = 5 + 4 + 2
# In the name of what a resume tries the store with. gc takes what one leaves that is killed right then.
TRIAL = ".trial."


@pytest.fixture
def store(proxied_or_folder):
    return proxied_or_folder


@pytest.fixture
def source(tmp_path):
    return fill(tmp_path / "source", {name: noise(size, number) for number, (name, size) in enumerate(SIZES.items())})


def start(store, source, *more):
    return subprocess.Popen([CLEAT, "save", source, store.url, "--step", str(STEP), *SAVE, *more],
                            env=store.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def end(process):
    out, err = process.communicate(timeout=SECONDS_MAX)
    return process.returncode, out.decode(), err.decode()


def kill_after(process, seconds):
    try:
        process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
    process.communicate()


def resume(store, source):
    """Resumes, and returns how many bytes were there already."""
    code, out, err = end(start(store, source, "--resume", "--json"))
    assert code == 0, err
    result = json.loads(out)
    assert result["outcome"] == "committed", result
    return result["resumed_bytes"]


def touch(source, name, at=None):
    """Changes one byte, not the size."""
    data = bytearray((source / name).read_bytes())
    data[len(data) // 2 if at is None else at] ^= 1
    (source / name).write_bytes(data)


def settle(store):
    if store.proxy:
        store.proxy.settle()


def leftovers(store):
    """Unfinished uploads, of whichever attempt."""
    if store.proxy:
        return [upload for upload in unfinished_uploads(store, store.proxy.upload_keys()) if TRIAL not in upload[0]]
    return [key for key in store.keys() if ".cleat-" in key and not is_of_the_dead(store, key)]


JOURNAL_HEADER = 264


def is_of_the_dead(store, key):
    """What a process killed in its middle leaves hidden in a folder, and gc's: whether it still lives cannot be seen. A
    put leaves its file. An upload leaves a journal whose header is not written, which says nothing yet. A claim's
    removal leaves the lock on the names of an attempt that nobody goes on with."""
    folder, _, name = key.rpartition("/")
    if name == ".cleat-lock":
        return folder != store.record_key(STEP).rpartition("/")[0]
    if name.startswith(".cleat-upload-") and name.endswith(".parts"):
        return (store.path / key).stat().st_size < JOURNAL_HEADER
    return name.startswith(".cleat-put-")


def assert_committed(store, source, alone=True):
    """What is committed is what lies on disk, byte for byte; `alone`: and nothing else is left."""
    files = {str(path.relative_to(source)): path for path in source.rglob("*") if path.is_file()}
    assert sorted(entry["name"] for entry in store.record(STEP)["files"]) == sorted(files)
    for name, path in files.items():
        assert store.get(store.file_key(STEP, name)) == path.read_bytes(), name
    result = store.cleat("verify", store.url, "--step", STEP)
    assert result.code == 0, result
    if alone:
        assert leftovers(store) == []
        expected = [store.manifest_key(STEP), store.record_key(STEP)] + [store.file_key(STEP, name) for name in files]
        others = [
            key for key in set(store.keys()) - set(expected) if not is_of_the_dead(store, key) and TRIAL not in key
        ]
        assert set(expected) <= set(store.keys())
        # A try that died after its record is whole but for the manifest: what others might commit stays for gc.
        for attempt in {key.split("/")[1] for key in others}:
            names = {key.split("/", 2)[2] for key in others if key.split("/")[1] == attempt}
            record = json.loads(store.get("step-%012d/%s/rank-00000.json" % (STEP, attempt)))
            assert names == {"rank-00000.json"} | {entry["name"] for entry in record["files"]}


def clear(store):
    for key in store.keys():
        store.delete(key)
    if store.proxy:
        abort_uploads(store, store.proxy.upload_keys())
        store.proxy.forget()


def is_committed(store):
    return store.manifest_key(STEP) in store.keys()


def measure(store, source):
    began = time.monotonic()
    code, _, err = end(start(store, source))
    assert code == 0, err
    seconds = time.monotonic() - began
    clear(store)
    return seconds


def test_killed_at_random_and_resumed(store, source, rng):
    """One try is killed anywhere, one source changes, the next goes on: all of it is there, and nothing besides."""
    seconds = measure(store, source)
    found = []
    for number in range(8):
        kill_after(start(store, source), (number + rng.random()) / 8 * seconds)
        settle(store)
        if not is_committed(store):
            touch(source, rng.choice(["a.bin", "b.bin", "sub/c.bin", "small"]))
            found.append(resume(store, source))
            assert_committed(store, source)
        clear(store)
    print("found there already: %s" % found)


def test_killed_while_resuming(store, source, rng):
    """Each try is killed; each goes on with what the one before had done; then one is let through."""
    seconds = measure(store, source)
    kill_after(start(store, source), seconds * 0.4)
    for _ in range(6):
        settle(store)
        if is_committed(store):
            break
        kill_after(start(store, source, "--resume"), rng.random() * seconds)
    settle(store)
    if not is_committed(store):
        resume(store, source)
    assert_committed(store, source)


def test_only_what_is_missing_is_sent(proxied, source):
    """Killed behind the reply to its sixth part: the parts that the server has are not sent again."""
    victim = None

    def after(request):
        if request.kind == "part" and proxied.proxy.count("part") >= 6:
            victim.kill()
        return True

    proxied.proxy.after = after
    victim = start(proxied, source)
    victim.communicate()
    assert victim.returncode == -signal.SIGKILL
    proxied.proxy.after = None
    settle(proxied)
    stored = {(r.key, r.query.get("partNumber"))
              for r in proxied.proxy.requests if r.kind == "part" and r.status == 200}
    assert 0 < len(stored) < PARTS
    proxied.proxy.requests[:] = [r for r in proxied.proxy.requests if r.kind == "create"]
    found = resume(proxied, source)
    sent = [(r.key, r.query.get("partNumber")) for r in proxied.proxy.requests
            if r.kind == "part" and TRIAL not in r.key]
    assert len(sent) == PARTS - len(stored) and not stored & set(sent)
    assert found >= (len(stored) - 3) * 5 * MIB  # three last parts are shorter
    assert_committed(proxied, source)


def stop_in_the_middle(store, source, *more):
    """A save that stands still with some of its parts sent, and is alive."""
    if store.proxy:
        process = None
        # A second SIGSTOP, of another part's thread, might come after SIGCONT.
        started, once = threading.Event(), Once()

        def after(request):
            if request.kind == "part" and store.proxy.count("part") >= 5 and once():
                assert started.wait(SECONDS_MAX)
                process.send_signal(signal.SIGSTOP)
            return True

        store.proxy.after = after
        process = start(store, source, *more)
        started.set()
        while not is_stopped(process):
            assert process.poll() is None
            time.sleep(0.005)
        store.proxy.after = None
        return process
    for _ in range(50):
        process = start(store, source, *more)
        while process.poll() is None and not has_part(store):
            time.sleep(0.001)
        process.send_signal(signal.SIGSTOP)
        while process.poll() is None and not is_stopped(process):
            time.sleep(0.005)
        if process.poll() is None:
            return process
        process.communicate()  # it was faster
        clear(store)
    raise AssertionError("no save was slow enough to be stopped")


def has_part(store):
    """Whether the journal of some upload notes a part behind its header."""
    for path in store.path.rglob(".cleat-upload-*.parts"):
        try:
            if path.stat().st_size > 264:
                return True
        except FileNotFoundError:
            pass
    return False


def is_stopped(process):
    with open("/proc/%d/stat" % process.pid) as file:
        return file.read().rpartition(")")[2].split()[0] == "T"


@pytest.mark.parametrize("changed", [False, True])
def test_the_earlier_process_lives(store, source, changed):
    """It stood still, was taken for dead, and wakes when its save has been resumed: it loses, and does no harm."""
    zombie = stop_in_the_middle(store, source)
    if changed:
        touch(source, "a.bin", 7)
    resume(store, source)
    assert_committed(store, source, alone=False)
    zombie.send_signal(signal.SIGCONT)
    code, _, err = end(zombie)
    assert code == 5, (code, err)
    assert re.search("taken over|another", err), err
    assert_committed(store, source, alone=False)


@pytest.mark.parametrize("moment", ["record", "manifest"])
def test_died_before_its_last_words(proxied, source, moment):
    """All bytes are there. The record, or only the manifest, is not: nothing but that is sent."""
    victim = None

    def before(request):
        # The claim is the first put under the record's key.
        if request.kind == moment and (moment == "manifest" or proxied.proxy.count("record") > 1):
            victim.kill()
            return False
        return True

    proxied.proxy.before = before
    victim = start(proxied, source)
    victim.communicate()
    assert victim.returncode == -signal.SIGKILL
    proxied.proxy.before = None
    settle(proxied)
    proxied.proxy.requests[:] = [r for r in proxied.proxy.requests if r.kind == "create"]
    assert resume(proxied, source) == sum(SIZES.values())
    kinds = {r.kind for r in proxied.proxy.requests if r.method in ("PUT", "POST") and TRIAL not in r.key} - {"create"}
    assert kinds == {"record", "manifest"}
    assert_committed(proxied, source)


def test_nothing_to_resume(store, source):
    result = store.cleat("save", source, store.url, "--step", STEP, "--resume")
    assert result.code == 0 and "nothing was there to resume" in result.out, result
    assert_committed(store, source)
    result = store.cleat("save", source, store.url, "--step", STEP, "--resume")
    assert result.code == 5, result


def test_a_cancelled_resume_keeps_what_it_stored(store, source):
    """Ctrl-C, or the notice before a machine is taken: the next try goes on; without --resume it is removed."""
    process = stop_in_the_middle(store, source, "--resume")
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGCONT)
    code, _, _ = end(process)
    assert code != 0
    result = store.cleat("save", source, store.url, "--step", STEP, "--resume", *SAVE)
    assert result.code == 0 and re.search(r"resumed: .* of .* were there", result.out), result
    assert_committed(store, source)
