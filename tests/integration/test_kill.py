"""Saves that are killed, stopped, or raced: a reader sees only complete checkpoints.

Nothing is judged by Cleat. boto3 reads what is stored, and its SHA-256 is compared with that of the source. The same is
done for loaded files. boto3 also searches for leftovers. Random moments come from a printed seed; CLEAT_TEST_SEED
repeats it. CLEAT_TEST_KILLS and CLEAT_TEST_RACES set how often; `make endurance` sets both to 200.
"""

import collections
import hashlib
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import threading
import time

import pytest

from helpers import Meeting, CLEAT, Folder, fill, noise, safetensors, tree
from proxy import Once, abort_uploads, unfinished_uploads

MIB = 1 << 20
SECONDS_MAX = 120
SAVE = ["--part-size", "5M", "--jobs", "4"]
KILLS = int(os.environ.get("CLEAT_TEST_KILLS", 50))
RACES = int(os.environ.get("CLEAT_TEST_RACES", 40))


@pytest.fixture
def store(proxied_or_folder):
    return proxied_or_folder


# ---- What is saved, and what must come back -------------------------------------------------------------------------

class Sources:
    """Files whose bytes differ from step to step, in parts all over; remembers their digests."""

    def __init__(self, folder, sizes):
        self.folder = folder
        self.sizes = sizes
        self.digests = {}
        self.step = None
        for number, (name, size) in enumerate(sizes.items()):
            # One tensor that fills the file, so that Cleat has a header to read.
            data = noise(size, number + 1)
            if name.endswith(".safetensors"):
                data = safetensors({"t%d" % number: {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}, data)
            fill(folder, {name: data})

    def turn(self, step):
        """Writes the step's number into each MiB of every file."""
        for name, size in self.sizes.items():
            with open(self.folder / name, "r+b") as file:
                end = file.seek(0, os.SEEK_END)
                for at in range(end - size, end - 8, MIB):
                    file.seek(at)
                    file.write(b"%08d" % step)
        self.digests[step] = digests(self.folder)
        return step


def digests(folder):
    found = {}
    for path in folder.rglob("*"):
        if path.is_file():
            with open(path, "rb") as file:
                found[str(path.relative_to(folder))] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def start_save(store, sources, step, *more, **environment):
    return subprocess.Popen([CLEAT, "save", sources.folder, store.url, "--step", str(step), *SAVE, *more],
                            env=dict(store.environment, **environment), stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def end(process):
    out, err = process.communicate(timeout=SECONDS_MAX)
    return process.returncode, out.decode(), err.decode()


def listed(store):
    result = store.cleat("ls", store.url, "--json")
    assert result.code in (0, 3) and "damaged" not in result.json, result
    return [entry["step"] for entry in result.json["checkpoints"]]


def load(store, tmp_path, *arguments):
    """The step that was loaded, and the digests of its files."""
    back = tmp_path / "back"
    result = store.cleat("load", store.url, back, "--json", *arguments)
    assert result.code == 0, result
    found = digests(back)
    shutil.rmtree(back)
    return result.json["step"], found


def sha256_of(store, key):
    return hashlib.sha256(store.get(key)).hexdigest()


def visible_steps(store):
    """Without Cleat: a step is visible if it has a manifest."""
    manifests = [re.fullmatch(r"step-(\d{12})/manifest\.json", key) for key in store.keys()]
    return sorted(int(match.group(1)) for match in manifests if match)


def assert_stored(store, step, digests_wanted):
    """Without Cleat: what the manifest names is there, bit for bit as it was to be saved."""
    assert sha256_of(store, store.record_key(step)) == store.manifest(step)["ranks"][0]["sha256"]
    found = {file["name"]: sha256_of(store, store.file_key(step, file["name"])) for file in store.record(step)["files"]}
    assert found == digests_wanted, "step %d is visible and not what was saved" % step


def assert_whole(store, tmp_path, sources, steps):
    """Just these steps are there, bit for bit; the latest loads, the others verify."""
    assert listed(store) == sorted(steps)
    assert visible_steps(store) == sorted(steps)
    for step in steps:
        assert_stored(store, step, sources.digests[step])
    assert load(store, tmp_path) == (max(steps), sources.digests[max(steps)])
    for step in sorted(steps)[:-1]:
        result = store.cleat("verify", store.url, "--step", step)
        assert result.code == 0, result


def sweep(store, keep):
    """Makes room: removes everything of other steps, and what killed saves left behind; never through Cleat."""
    wanted = [
        "step-%012d/%s" % (step, rest) for step in keep for rest in ("manifest.json", store.manifest(step)["attempt"])
    ]
    for key in store.keys():
        if not key.startswith(tuple(wanted)):
            store.delete(key)
    if store.proxy:
        abort_uploads(store, store.proxy.upload_keys())
        store.proxy.forget()


def assert_orphans_are_listed(store):
    """Every upload that was begun and not ended stands in ListMultipartUploads, and no other; how many."""
    if not store.proxy:
        return 0
    with store.proxy.lock:
        done = [(request.kind, request.key) for request in store.proxy.requests if request.status in (200, 204)]
    ended = {key for kind, key in done if kind in ("complete", "abort")}
    begun = {key for kind, key in done if kind == "create"} - ended
    assert {key for key, _ in unfinished_uploads(store, store.proxy.upload_keys())} == begun
    return len(begun)


def settle(store):
    """After a kill: what was on its way has arrived, or never will."""
    if store.proxy:
        store.proxy.settle()


# ---- Killed at random moments ----------------------------------------------------------------------------------------

def measure(store, sources, step):
    """Seconds of an undisturbed save."""
    began = time.monotonic()
    code, out, err = end(start_save(store, sources, step))
    assert code == 0, err
    return time.monotonic() - began


def kill_after(process, seconds):
    """True if it was still running."""
    try:
        process.wait(timeout=seconds)
        process.communicate()
        return False
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return process.returncode == -signal.SIGKILL


def torment(store, tmp_path, rng, sources, kills):
    """Kills as many saves, at moments spread evenly over a save; after each, all that is visible is whole."""
    # As long as the saves before it took, for the machine may have become slower or faster.
    seconds = collections.deque((measure(store, sources, sources.turn(step)) for step in (0, 1, 2)), maxlen=9)
    latest, visible, missed, orphans = 2, 0, 0, 0
    sweep(store, [latest])
    print("an undisturbed save takes %s s" % ", ".join("%.3f" % each for each in seconds))
    for number in range(kills):
        moment = (number + rng.random()) / kills * statistics.median(seconds)
        step = sources.turn(latest + 1)
        start = "start-%d" % step
        while not kill_after(start_save(store, sources, step, CLEAT_START=start), moment):
            # It was faster than those before it. Forgotten, and tried again a little earlier.
            settle(store)
            sweep(store, [latest])
            moment *= 0.95
            missed += 1
            assert missed < 10 * kills
        settle(store)

        survived = step in listed(store)
        visible += survived
        left = assert_orphans_are_listed(store)
        orphans += left > 0
        print("killed after %.3f s: %s, %d unfinished uploads" % (moment, "visible" if survived else "invisible", left))
        assert_whole(store, tmp_path, sources, [latest, step] if survived else [latest])

        # The same start tries again, as a restarted job would.
        began = time.monotonic()
        code, out, err = end(start_save(store, sources, step, "--json", "--if-exists", "skip", CLEAT_START=start))
        assert code == 0, err
        assert json.loads(out)["outcome"] == ("skipped" if survived else "committed")
        if not survived:
            seconds.append(time.monotonic() - began)
        settle(store)
        if not survived:
            assert listed(store) == [latest, step]
        latest = step
        sweep(store, [latest])
    assert_whole(store, tmp_path, sources, [latest])
    print("%d killed, %d of them after the commit, %d with unfinished uploads, all of them listed; "
          "%d ended too soon to be killed" % (kills, visible, orphans, missed))


# Some 20 requests.
LARGE = {"model-00001-of-00002.safetensors": 16 * MIB, "model-00002-of-00002.safetensors": 16 * MIB,
         "optimizer/state.bin": 11 * MIB + 77, "config.json": 1000, "tokenizer.json": 2 * MIB}


def test_killed_at_random_moments_on_minio(proxied, tmp_path, rng):
    torment(proxied, tmp_path, rng, Sources(tmp_path / "in", LARGE), KILLS)


@pytest.mark.parametrize("server", ["versitygw-http"], indirect=True)
def test_killed_at_random_moments_on_versitygw(proxied, tmp_path, rng):
    torment(proxied, tmp_path, rng, Sources(tmp_path / "in", LARGE), KILLS // 5)


def test_killed_at_random_moments_on_a_folder(tmp_path, rng):
    folder = Folder(tmp_path / "store")
    folder.proxy = None
    torment(folder, tmp_path, rng, Sources(tmp_path / "in", LARGE), KILLS * 2 // 5)


# ---- Killed at every step of the protocol ----------------------------------------------------------------------------

SMALL = {"model.safetensors": 6 * MIB, "optimizer.bin": 5 * MIB + 1, "config.json": 100}


@pytest.mark.parametrize("server", ["minio-http", "versitygw-http"], indirect=True)
@pytest.mark.parametrize("when", ["before", "during", "after"])
@pytest.mark.parametrize("kind, number", [("file", 1), ("create", 1), ("create", 2), ("part", 1), ("part", 3),
                                          ("part", 4), ("complete", 1), ("complete", 2), ("record", 1), ("record", 2),
                                          ("manifest", 1)])
def test_killed_at_each_request(proxied, tmp_path, kind, number, when):
    """Before the server has the n-th request of a kind, before its reply is under way, or before the reply comes."""
    sources = Sources(tmp_path / "in", SMALL)
    code, _, err = end(start_save(proxied, sources, sources.turn(1)))
    assert code == 0, err
    proxied.proxy.settle()
    proxied.proxy.forget()
    ready, caught = threading.Event(), []

    def kill(request):
        process.kill()
        process.wait()
        caught.append(request)

    def is_it(request):
        return request.kind == kind and proxied.proxy.count(kind) >= number and not caught

    def before(request):
        ready.wait()
        if when != "after" and is_it(request):
            kill(request)
            return when == "during"
        return True

    def after(request):
        if when == "after" and is_it(request):
            kill(request)

    proxied.proxy.before, proxied.proxy.after = before, after
    process = start_save(proxied, sources, sources.turn(2), CLEAT_START="a")
    ready.set()
    process.communicate(timeout=SECONDS_MAX)
    proxied.proxy.settle()
    assert process.returncode == -signal.SIGKILL and caught, (process.returncode, proxied.proxy.requests)

    committed = kind == "manifest" and when != "before"
    assert_whole(proxied, tmp_path, sources, [1, 2] if committed else [1])
    proxied.proxy.before = proxied.proxy.after = None
    code, out, err = end(start_save(proxied, sources, 2, "--json", "--if-exists", "skip", CLEAT_START="a"))
    assert code == 0 and json.loads(out)["outcome"] == ("skipped" if committed else "committed"), (out, err)
    assert_whole(proxied, tmp_path, sources, [1, 2])


# ---- Stopped by a signal ---------------------------------------------------------------------------------------------

@pytest.mark.parametrize("number, code", [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
@pytest.mark.parametrize("kind, nth", [("get", 1), ("file", 1), ("create", 1), ("part", 1), ("part", 4),
                                       ("complete", 1), ("complete", 2), ("record", 1)])
def test_a_signal_leaves_no_object_and_no_upload(proxied, tmp_path, kind, nth, number, code):
    sources = Sources(tmp_path / "in", SMALL)
    sources.turn(1)
    ready, caught, once = threading.Event(), [], Once()

    def before(request):
        ready.wait()
        if request.kind == kind and proxied.proxy.count(kind) >= nth and once():  # a second signal would end it at once
            caught.append(request)
            process.send_signal(number)
            time.sleep(0.2)  # so that it arrives before the request ends

    proxied.proxy.before = before
    process = start_save(proxied, sources, 1)
    ready.set()
    ended, out, err = end(process)
    assert caught and ended == code and out == "", (ended, out, err)
    assert "cancelled" in err.splitlines()[-1], err
    proxied.proxy.settle()
    assert proxied.keys() == []
    assert unfinished_uploads(proxied, proxied.proxy.upload_keys()) == []


# ---- Two at once -----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("proxied_or_folder, options",
                         [("bucket", []), ("folder", []), ("bucket", ["--if-exists", "replace"])],
                         indirect=["proxied_or_folder"])
def test_two_processes_save_one_step(store, tmp_path, options):
    rounds = RACES if options == [] and store.proxy else RACES // 2
    both = [Sources(tmp_path / name, {"large.bin": 5 * MIB + 1, "small.bin": 1000, name: 10}) for name in "ab"]
    met = 0
    for step in range(rounds):
        for number, sources in enumerate(both):
            sources.turn(10 * step + number)
            sources.digests[step] = digests(sources.folder)
        if store.proxy:
            store.proxy.before = meeting = Meeting()
        processes = [start_save(store, sources, step, *options) for sources in both]
        ended = [end(process) for process in processes]
        assert sorted(code for code, _, _ in ended) == [0, 5], ended
        winner = [code for code, _, _ in ended].index(0)
        loser_says = ended[1 - winner][2]
        lines = loser_says.splitlines()
        late = "step %d was committed by another writer, as attempt %s" % (step, store.manifest(step)["attempt"])
        later = "step %d is committed already, by another start" % step  # it came so late that it sent nothing
        assert len(lines) == 2 and (late in lines[0] or later in lines[0]) and lines[1].startswith("hint: "), ended
        if store.proxy:
            store.proxy.before = None
            met += meeting.met == 2
        assert load(store, tmp_path, "--step", str(step)) == (step, both[winner].digests[step])
        assert_stored(store, step, both[winner].digests[step])
        # The loser took its bytes away again.
        folder = "step-%012d/" % step
        expected = {"%s%s/%s" % (folder, store.manifest(step)["attempt"], name)
                    for name in [*tree(both[winner].folder), "rank-00000.json"]} | {folder + "manifest.json"}
        settle(store)
        assert {key for key in store.keys() if key.startswith(folder)} == expected
    assert listed(store) == visible_steps(store) == list(range(rounds))
    print("%d races: one winner each, the other told with status 5" % rounds)
    if store.proxy:
        print("both wanted to commit at the same time in %d of %d rounds" % (met, rounds))
        assert met > rounds / 2
        assert unfinished_uploads(store, store.proxy.upload_keys()) == []
