"""Servers that implement S3 differently: what the doctor says of each, and what then happens there.

CLEAT_TEST_OTHERS names them. tests/tools/<name>.sh starts each one once. If a server cannot do something, the test
expects that. It is never a skip. The stores are read without Cleat. CLEAT_TEST_OTHERS_TABLE names a file: each test
adds its results to it, and the documents of the doctor are stored beside it.
"""

import json
import os
import re
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import NamedTuple

import boto3
import botocore.config
import pytest

from helpers import CLEAT, ROOT, Bucket, Meeting, clean_environment, fill, noise, tree
from proxy import Proxy
from run_jobs import steps, write_dcp
from test_zombies import SIZES, committed, end, judge, start, stop_after

MIB = 1 << 20
SECONDS_MAX = 600  # of one start: Ceph and Java on a busy machine
TABLE_SECONDS_MAX = 900  # of one program of the store table
STORE_TABLE = ("test_store", "test_store_keys", "test_store_multipart", "test_store_s3")
ZOMBIES = int(os.environ.get("CLEAT_TEST_ZOMBIES", 6))
KILLS = int(os.environ.get("CLEAT_TEST_KILLS", 6))
RACES = int(os.environ.get("CLEAT_TEST_RACES", 4))
DOCTOR_TRIES = 5
LOST, DAMAGED = 5, 4
PARTS = ("--part-size", "5M", "--jobs", "3")
NAMES = {"big.bin": 11 * MIB, "a+b%2Bc d.bin": 70001, "empty": 0, "sub/ünï.txt": 12}


class Ways(NamedTuple):
    """What a server is known to do. `options` are those of the URL, without which it is not safe."""
    options: str = ""
    one_writer: bool = True  # of two that commit at once one wins, and the other is told
    resumes: bool = True     # a killed save is gone on with
    lists: bool = True       # leftovers of killed saves are seen and removed
    aborts: bool = True      # an abort leaves an object of the same key alone
    # Of two objects put at once one remains, and not the bytes of one with the checksum of the other.
    whole: bool = True


WAYS = {
    "ceph": Ways(resumes=False),
    "garage": Ways(one_writer=False, resumes=False),
    "moto": Ways(),
    "s3mock": Ways(one_writer=False, resumes=False, aborts=False),
    "s3proxy": Ways(),
    "s3rver": Ways(one_writer=False, resumes=False, lists=False),
    "s3s_fs": Ways(one_writer=False, resumes=False, whole=False),
    "swift": Ways(options="?checksum=off", one_writer=False, resumes=False),
}


class Other:
    """A server that runs, with the interface of helpers.Server."""

    def __init__(self, name, folder):
        self.name, self.kind, self.ways = name, name, WAYS[name]
        self.script = ROOT / "tests" / "tools" / (name + ".sh")
        with open(folder / "out", "w+") as out:
            subprocess.run([self.script, "start", folder], stdout=out, check=True, timeout=SECONDS_MAX)
            out.seek(0)
            settings = dict(line.split("=", 1) for line in out.read().splitlines())
        self.endpoint = self.direct = settings["CLEAT_TEST_ENDPOINT"]
        self.pid = settings[name.upper() + "_PID"]
        self.keys = {key: settings[key] for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION")}
        self.environment = dict(clean_environment(), AWS_ENDPOINT_URL=self.endpoint, **self.keys)

    def client(self):
        config = botocore.config.Config(s3={"addressing_style": "path"}, request_checksum_calculation="when_required",
                                        response_checksum_validation="when_required")
        return boto3.client("s3", endpoint_url=self.endpoint, config=config, region_name=self.keys["AWS_REGION"],
                            aws_access_key_id=self.keys["AWS_ACCESS_KEY_ID"],
                            aws_secret_access_key=self.keys["AWS_SECRET_ACCESS_KEY"])

    def stop(self):
        subprocess.run([self.script, "stop", self.pid], check=True)


@pytest.fixture(scope="module", params=os.environ.get("CLEAT_TEST_OTHERS", "").split() or ["moto", "s3rver"])
def other(request):
    with tempfile.TemporaryDirectory(prefix="cleat-other-") as folder:
        server = Other(request.param, Path(folder))
        yield server
        server.stop()


class OtherBucket(Bucket):
    def get(self, key):
        """s3rver shows an object that was just put as empty for a moment."""
        data = super().get(key)
        for _ in range(10 if key.endswith(".json") else 0):
            if data:
                break
            time.sleep(0.2)
            data = super().get(key)
        return data


@pytest.fixture
def store(other):
    bucket = OtherBucket(other)
    bucket.url += other.ways.options
    bucket.heeds = other.ways.resumes
    bucket.ways = other.ways
    return bucket  # it goes with the server


@pytest.fixture
def note(other):
    """note(column, text): what was seen, for the table."""
    def add(column, text):
        print("%s, %s: %s" % (other.name, column, text))
        path = os.environ.get("CLEAT_TEST_OTHERS_TABLE")
        if path:
            with open(path, "a") as table:
                table.write(json.dumps({"server": other.name, "column": column, "text": text}) + "\n")
    return add


def files_of(names, seed=0):
    return {name: noise(size, seed + number) for number, (name, size) in enumerate(names.items())}


def expect_loaded(store, folder, wanted, *more):
    result = store.cleat("load", store.url, folder, *more)
    assert result.code == 0, result
    assert tree(folder) == wanted


# ---- What is said, and whether it is so ------------------------------------------------------------------------------

def is_atomic(document):
    told = {check["name"]: check["result"] for check in document["checks"]}
    return told["create-only"] == told["create-only-race"] == "ok"


def test_the_verdict(store, note):
    result = store.cleat("doctor", store.url, "--json")
    document = result.json
    if os.environ.get("CLEAT_TEST_OTHERS_TABLE"):
        path = Path(os.environ["CLEAT_TEST_OTHERS_TABLE"]).parent / ("doctor-%s.json" % store.server.name)
        path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    odd = ["%s %s" % (check["name"], check["result"]) for check in document["checks"] if check["result"] != "ok"]
    note("doctor", ("safe" if document["safe"] else "not safe") + ("; " + ", ".join(odd) if odd else ""))
    assert document["safe"] is store.ways.aborts, result
    assert result.code == (0 if document["safe"] else 1), result
    atomic = is_atomic(document)
    for _ in range(DOCTOR_TRIES):  # its races find most servers that look first and store later, not all
        atomic = atomic and (store.ways.one_writer or is_atomic(store.cleat("doctor", store.url, "--json").json))
    assert atomic is store.ways.one_writer, document
    # Nothing of it stays.
    assert [key for key in store.keys() if store.ways.lists] == []


def test_saves_and_loads(store, tmp_path, note):
    files = files_of(NAMES)
    source = fill(tmp_path / "source", files)
    assert store.cleat("save", source, store.url, "--step", "1", *PARTS).code == 0
    expect_loaded(store, tmp_path / "one", files)
    assert store.cleat("verify", store.url).code == 0
    again = store.cleat("save", source, store.url, "--step", "1", *PARTS)
    assert again.code == LOST and "committed already" in again.err, again
    assert store.cleat("save", source, store.url, "--step", "1", "--if-exists", "skip", *PARTS).code == 0
    other_files = files_of(NAMES, seed=100)
    fill(source, other_files)
    replaced = store.cleat("save", source, store.url, "--step", "1", "--if-exists", "replace", *PARTS)
    assert replaced.code == 0, replaced
    expect_loaded(store, tmp_path / "two", other_files)
    note("saves, loads", "%d files, exists, skip, replace: as they should" % len(files))


def test_what_stays(store, tmp_path, note):
    """prune, pin, gc: and what they leave loads."""
    files = files_of({"a.bin": 5 * MIB + 1, "b": 10})
    source = fill(tmp_path / "source", files)
    for step in range(1, 5):
        assert store.cleat("save", source, store.url, "--step", str(step), *PARTS).code == 0
    assert store.cleat("pin", store.url, "--step", "2").code == 0
    assert store.cleat("prune", store.url, "--keep-last", "1").code == 0
    assert steps(store) == [2, 4]
    time.sleep(1.1)  # the age is the server's
    assert store.cleat("gc", store.url, "--older-than", "1s").code == 0
    for step in (2, 4):
        expect_loaded(store, tmp_path / ("back-%d" % step), files, "--step", str(step))
    assert store.cleat("unpin", store.url, "--step", "2").code == 0
    assert store.cleat("prune", store.url, "--keep-last", "1").code == 0
    assert steps(store) == [4]
    note("prune, gc, pin", "as they should")


# ---- What each operation of a store promises -------------------------------------------------------------------------

@pytest.mark.parametrize("program", STORE_TABLE)
def test_the_store_table(other, program, note):
    """The cases that each server passes. tests/mock/server_ways.c says what this one lacks, and what is then expected.
    """
    environment = dict(other.environment, CLEAT_TEST_ENDPOINT=other.endpoint, CLEAT_TEST_SERVER=other.name,
                       CLEAT_TEST_OPTIONS=other.ways.options, CK_RUN_CASE="s3")
    ended = subprocess.run([Path(CLEAT).parent / "tests" / "integration" / program], env=environment, text=True,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=TABLE_SECONDS_MAX)
    checks = re.search(r"^100%: Checks: ([1-9][0-9]*), Failures: 0, Errors: 0$", ended.stdout, re.MULTILINE)
    assert ended.returncode == 0 and checks, ended.stdout
    note(program, "all %s cases" % checks[1])


# ---- Two at once -----------------------------------------------------------------------------------------------------

def test_races(store, tmp_path, note):
    """Two processes commit one step at once. Whatever the server heeds, what is there is what one of them had, or is
    found to be damaged."""
    files = [files_of({"a.bin": 5 * MIB + 1, "b": 10, name: 5}, seed) for seed, name in enumerate("xy")]
    sources = [fill(tmp_path / str(number), one) for number, one in enumerate(files)]
    proxy, one, damaged = Proxy(store.server.endpoint), 0, 0
    environment = dict(store.environment, AWS_ENDPOINT_URL=proxy.url)
    try:
        for step in range(RACES):
            proxy.before = Meeting()
            racing = [subprocess.Popen([CLEAT, "save", source, store.url, "--step", str(step), *PARTS], env=environment,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE) for source in sources]
            codes = [end(process)[0] for process in racing]
            winners = [number for number, code in enumerate(codes) if code == 0]
            assert winners and all(code in (0, LOST) for code in codes), codes
            if store.ways.one_writer:
                assert len(winners) == 1, codes
            one += len(winners) == 1
            back = tmp_path / ("back-%d" % step)
            result = store.cleat("load", store.url, back, "--step", str(step))
            if result.code == DAMAGED and not store.ways.whole:
                damaged += 1
                continue
            assert result.code == 0, result
            assert tree(back) in [files[number] for number in winners]
    finally:
        proxy.close()
    note("races", "%d of %d with one winner" % (one, RACES) + (", %d damaged" % damaged if damaged else ""))


def test_zombies(store, tmp_path, rng, note):
    """As in test_zombies.py: exactly one wins, and what it committed stays."""
    first = {name: noise(size, number) for number, (name, size) in enumerate(SIZES.items())}
    second = {
        name: data[:-1] + bytes([data[-1] ^ 1]) if name in ("a.bin", "c") else data
        for name, data in first.items()
    }
    sources = [fill(tmp_path / "first", first), fill(tmp_path / "other", second)]
    began = time.monotonic()
    assert end(start(store, sources[0], 1))[0] == 0
    seconds = time.monotonic() - began
    met, won = 0, [0, 0]
    for step in range(2, ZOMBIES + 2):
        chosen = sources[rng.randrange(2)]
        zombie = start(store, sources[0], step)
        met += stop_after(zombie, seconds * rng.uniform(0.4, 1))
        code, err = end(start(store, chosen, step, "--resume"))
        zombie.send_signal(signal.SIGCONT)
        codes = [end(zombie), (code, err)]
        judge(store, step, codes, (sources[0], chosen))
        won[codes[0][0] != 0] += 1
    for step in range(1, ZOMBIES + 2):
        assert committed(store, step).keys() == SIZES.keys()
    note("zombies", "%d of %d stopped; the first won %d, the second %d" % (met, ZOMBIES, *won))


def test_kills(store, tmp_path, rng, note):
    """A save is killed at a random moment; the next one, with resume where the server allows that, stores all of it."""
    files = files_of({"a.bin": 11 * MIB, "b.bin": 6 * MIB, "c": 3000})
    source = fill(tmp_path / "source", files)
    began = time.monotonic()
    assert end(start(store, source, 1))[0] == 0
    seconds, killed = time.monotonic() - began, 0
    more = ["--resume"] if store.ways.resumes else []
    for step in range(2, KILLS + 2):
        saving = start(store, source, step)
        try:
            saving.wait(timeout=seconds * rng.uniform(0, 1))
        except subprocess.TimeoutExpired:
            killed += 1
        saving.kill()
        end(saving)
        code, err = end(start(store, source, step, *more))
        assert code == 0 or (code == LOST and "committed already" in err), err
        assert committed(store, step) == files
    time.sleep(1.1)  # the age is the server's
    assert store.cleat("gc", store.url, "--older-than", "1s").code == 0
    assert steps(store) == list(range(1, KILLS + 2))
    for step in steps(store):
        assert committed(store, step) == files
    note("kills", "%d of %d killed in the middle; all stored by the next try" % (killed, KILLS))


# ---- A training ------------------------------------------------------------------------------------------------------

def test_cleat_run(store, jobs, tmp_path, note):
    """A training is killed with its machine, and goes on elsewhere from what is stored."""
    made = jobs(store, tmp_path / "first")
    made.environment()
    wanted = write_dcp(made.directory, 1)
    made.until_stored(store, 1)
    wanted = write_dcp(made.directory, 2)
    made.until_stored(store, 2)
    made.kill()
    again = jobs(store, tmp_path / "second")
    assert again.resumed() == (2, "step-2")
    found = tree(tmp_path / "second" / "step-2")
    assert found and {"step-2/" + name: data for name, data in found.items()} == wanted
    assert again.end() == 0
    note("cleat run", "killed, restored elsewhere")


def test_two_machines(store, jobs, tmp_path, note):
    """One checkpoint of both machines' parts."""
    made = []
    for rank, name in enumerate("ab"):
        made.append(jobs(store, tmp_path / name, "--rank-timeout", "60", environment={
            "CLEAT_RANK": str(rank), "CLEAT_WORLD_SIZE": "2", "CLEAT_START": "start"}))
    for job in made:
        job.environment()
    metadata = (ROOT / "tests/fuzz/corpus/pickle/torch-2.15-two-ranks").read_bytes()
    fill(tmp_path / "b", {"step-1/__1_0.distcp": noise(50000, 2)})
    fill(tmp_path / "a", {"step-1/__0_0.distcp": noise(50000, 1), "step-1/.metadata.tmp": metadata})
    os.rename(tmp_path / "a" / "step-1" / ".metadata.tmp", tmp_path / "a" / "step-1" / ".metadata")
    made[0].until_stored(store, 1)
    assert len(store.manifest(1)["ranks"]) == 2
    for job in made:
        job.tell("0")
    assert [job.wait() for job in made] == [0, 0]
    note("ranks", "two machines, one checkpoint")
