"""file:// on NFS: two machines share a folder, each with an NFS client and its caches. Stale caches never cause a wrong
result: exactly one of two writers wins, nothing is lost, and files of living processes are not touched. nfs_machines.py
describes the machines."""

import itertools
import json
import re
import signal

import pytest

from helpers import CLEAT, ROOT, fill, noise
from nfs_machines import LinuxRoom, make_room, until

MIB = 1 << 20
FILES = {"model.bin": noise(2 * MIB, 1), "sub/more.bin": noise(MIB + 1, 2), "small": b"small"}
WRITER = ROOT / "build/tests/integration/store_writer"
# What the program reads or writes takes a while, so that there is time to stop it.
SLOW = {"SLOW_MS": "100"}
SLOW_READ = {"SLOW_READ_MS": "300"}
ROUNDS = 2
BUSY_CHANGES = 20
OUTS = itertools.count(1)


@pytest.fixture(scope="module")
def room():
    made = make_room()
    print(made.kind)
    yield made
    made.close()


@pytest.fixture(scope="module")
def slowly(tmp_path_factory):
    import preloaded
    return preloaded.build(tmp_path_factory.mktemp("slow"), preloaded.BAD_DISK)


@pytest.fixture
def store(room, request):
    """A folder of its own on the shared one."""
    name = re.sub(r"\W+", "-", request.node.name)
    return Store(room, name)


@pytest.fixture
def source(tmp_path):
    return fill(tmp_path / "source", FILES)


class Store:
    def __init__(self, room, name):
        self.room, self.name = room, name
        self.url = "file://%s/%s" % (room.place, name)

    def names(self):
        """All files, as the server has them."""
        found = self.room.server.run("find", "%s/%s" % (self.room.exported, self.name), "-type", "f", "-printf", "%P\n")
        return sorted(found.out.split()) if found.code == 0 else []

    def save(self, machine, source, step, *more, **with_environment):
        return machine.cleat("save", source, self.url, "--step", step, "--part-size", "1M", "--json", *more,
                             **with_environment)

    def start_save(self, machine, source, step, *more, **with_environment):
        return machine.start(CLEAT, "save", source, self.url, "--step", step, "--part-size", "1M", "--jobs", 1,
                             "--json", *more, **with_environment)

    def assert_loads(self, machine, source, *more):
        out = "%s/out-%s-%s-%d" % (self.room.scratch, self.name, machine.name, next(OUTS))
        result = machine.cleat("load", self.url, out, *more)
        assert result.code == 0, result
        compared = machine.run("diff", "-r", source, out)
        assert compared.code == 0, compared

    def steps(self, machine):
        result = machine.cleat("ls", self.url, "--json")
        assert result.code in (0, 3), result
        return [entry["step"] for entry in json.loads(result.out)["checkpoints"]] if result.code == 0 else []

    def make_old(self):
        """As if nobody had touched it for days."""
        self.room.server.run("find", "%s/%s" % (self.room.exported, self.name), "-exec", "touch", "-d", "3 days ago",
                             "{}", "+")


def other(tmp_path, name="other"):
    return fill(tmp_path / name, {"model.bin": noise(2 * MIB, 7), "small": b"other"})


def test_each_sees_what_the_other_has_saved(room, store, source, tmp_path):
    second = other(tmp_path)
    assert store.steps(room.b) == []  # which its client remembers
    assert store.save(room.a, source, 1).code == 0
    assert store.steps(room.b) == [1]
    store.assert_loads(room.b, source)
    assert store.save(room.b, second, 2).code == 0
    assert store.steps(room.a) == [1, 2]
    store.assert_loads(room.a, second)
    assert store.save(room.a, second, 1, "--if-exists", "replace").code == 0
    store.assert_loads(room.b, second, "--step", 1)
    assert [name for name in store.names() if ".cleat-" in name or ".nfs" in name] == []


def test_no_update_is_lost(room, store):
    """Who replaces an object only if it is the one that was seen."""
    writers = [machine.start(WRITER, store.url, "folder/number", BUSY_CHANGES) for machine in (room.a, room.b, room.a)]
    for writer in writers:
        result = writer.wait()
        assert result.code == 0, result
    number = room.server.run("cat", "%s/%s/folder/number" % (room.exported, store.name))
    assert int(number.out) == 3 * BUSY_CHANGES
    assert store.names() == ["folder/number"]


def test_one_of_two_writers_wins(room, store, source, tmp_path):
    sources = {"a": source, "b": other(tmp_path)}
    for step in range(ROUNDS):
        racers = {name: store.start_save(getattr(room, name), sources[name], step) for name in sources}
        results = {name: racer.wait() for name, racer in racers.items()}
        winners = [name for name, result in results.items() if result.code == 0]
        assert len(winners) == 1, results
        assert all(result.code in (0, 1, 5) for result in results.values()), results
        for machine in (room.a, room.b):
            store.assert_loads(machine, sources[winners[0]], "--step", step)


def test_of_two_who_replace_one_is_left(room, store, source, tmp_path):
    sources = {"a": source, "b": other(tmp_path)}
    assert store.save(room.a, source, 1).code == 0
    for _ in range(ROUNDS):
        racers = {
            name: store.start_save(getattr(room, name), sources[name], 1, "--if-exists", "replace")
            for name in sources
        }
        results = {name: racer.wait() for name, racer in racers.items()}
        winners = [name for name, result in results.items() if result.code == 0]
        assert winners, results
        assert room.a.cleat("verify", store.url).code == 0
        assert room.b.cleat("verify", store.url).code == 0
        if len(winners) == 1:
            store.assert_loads(room.b, sources[winners[0]])


def room_find(store, *wanted):
    found = store.room.server.run("find", "%s/%s" % (store.room.exported, store.name), *wanted)
    return found.out.split()


def stopped_save(store, machine, source, step, slowly, *more):
    """A save that is stopped as soon as it sends a file in parts."""
    process = store.start_save(machine, source, step, *more, environment=dict(slowly, **SLOW))
    # A part is noted behind what the journal begins with.
    until(lambda: room_find(store, "-name", "*.parts", "-size", "+270c"))
    process.signal(signal.SIGSTOP)
    return process


def test_gc_leaves_the_upload_of_another_machine(room, store, source, slowly):
    process = stopped_save(store, room.a, source, 1, slowly)
    store.make_old()
    before = [name for name in store.names() if ".cleat-upload-" in name]
    result = room.b.cleat("gc", store.url)
    assert result.code == 0, result
    assert [name for name in store.names() if ".cleat-upload-" in name] == before
    process.signal(signal.SIGCONT)
    result = process.wait()
    assert result.code == 0, result
    store.assert_loads(room.b, source)


def test_gc_takes_the_upload_of_the_dead(room, store, source, slowly):
    process = stopped_save(store, room.a, source, 1, slowly)
    process.signal(signal.SIGKILL)
    process.wait()
    store.make_old()
    result = room.b.cleat("gc", store.url)
    assert result.code == 0, result
    assert store.names() == []


def test_a_resume_while_the_first_is_stopped(room, store, source, slowly):
    process = stopped_save(store, room.a, source, 1, slowly)
    resumed = store.save(room.b, source, 1, "--resume")
    process.signal(signal.SIGCONT)
    first = process.wait()
    assert [resumed.code, first.code].count(0) == 1, (resumed, first)
    for machine in (room.a, room.b):
        assert machine.cleat("verify", store.url).code == 0
        store.assert_loads(machine, source)


def test_a_resume_after_the_first_has_died(room, store, source, slowly):
    process = stopped_save(store, room.a, source, 1, slowly)
    process.signal(signal.SIGKILL)
    process.wait()
    resumed = store.save(room.b, source, 1, "--resume")
    assert resumed.code == 0, resumed
    store.assert_loads(room.a, source)


@pytest.mark.parametrize("pruner", ["a", "b"])
def test_a_load_while_it_is_pruned(room, store, source, slowly, tmp_path, pruner):
    """The load has the checkpoint whole, or says that it is gone; what stands in the folder meanwhile is in nobody's
    way."""
    second = other(tmp_path)
    assert store.save(room.a, source, 1).code == 0
    assert store.save(room.a, second, 2).code == 0
    out = "%s/out-%s" % (room.scratch, store.name)
    load = room.a.start(CLEAT, "load", store.url, out, "--step", 1, "--jobs", 1, environment=dict(slowly, **SLOW_READ))
    until(lambda: room.server.run("find", room.scratch, "-maxdepth", "3", "-name", "*.cleat-load-*").out)
    load.signal(signal.SIGSTOP)
    machine = getattr(room, pruner)
    result = machine.cleat("prune", store.url, "--keep-last", 1)
    assert result.code == 0, result
    for machine in (room.a, room.b):
        assert store.steps(machine) == [2]
        result = machine.cleat("gc", store.url)
        assert result.code == 0, result
    load.signal(signal.SIGCONT)
    result = load.wait()
    assert result.code in (0, 1, 3), result
    if result.code == 0:
        assert room.a.run("diff", "-r", source, out).code == 0
    else:
        assert "removed" in result.err or "gone" in result.err or "not" in result.err, result
    until(lambda: [name for name in store.names() if name.startswith("step-%012d" % 1)] == [])
    store.assert_loads(room.b, second)


def test_the_doctor_says_what_it_is(room, store):
    result = room.a.cleat("doctor", store.url, "--json")
    assert result.code == 0, result
    if isinstance(room, LinuxRoom):
        assert "nfs 4.2" in result.out, result


# Some of the driver's own tests, on NFS.
PROGRAMS = ["test_store_file_publish", "test_store_file_sweep"]


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_own_tests_of_the_driver(room, program):
    result = room.a.run(ROOT / "build/tests/unit" / program, environment={"TMPDIR": room.place, "CK_FORK": "no"})
    assert result.code == 0, result
