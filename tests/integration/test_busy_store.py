"""The number of transfers in flight follows what a store gives, in both directions, and stays within --jobs.

The store sleeps for as long as it says, so what is asserted does not rest on the speed of the machine, as long as that
one does some hundred requests a second.

How evenly the first requests go decides how far the program climbs: where some are late, it takes 32 in flight for
better than 16. So a slowed-down program gets a slower store. Its own clocks do not slow down with it: what goes by
them, like the tries with more after a store has asked for less, comes more often in as many requests.
"""

import statistics
import sys
from pathlib import Path

import pytest

from helpers import SLOW, clean_environment, fill, noise, run, tree

sys.path.insert(0, str(Path(__file__).parents[1] / "mock"))
from busy_store import BusyStore  # noqa: E402
from fault_server import FaultServer  # noqa: E402
from s3_memory import MemoryStore  # noqa: E402

SLOWER = 4 if SLOW > 1 else 1
# A request of the store, which is to take far longer than what the program does for it.
SECONDS = 0.08 * SLOWER
# On a busy machine the store may find 32 in flight when it becomes slow, and as many second tries follow: from there
# the way down takes 500 requests.
PHASES = [(0, {"best": 20}), (600, {"best": 5}), (1500, {"best": 20})]
FILES = 2200


@pytest.fixture
def busy():
    server = FaultServer(BusyStore(MemoryStore(), best=20, seconds=SECONDS))
    yield server
    server.close()


def files(folder, count):
    return fill(folder, {"%04d" % number: noise(2000, number) for number in range(count)})


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return files(tmp_path_factory.mktemp("source"), FILES)


def cleat(server, *arguments):
    environment = dict(clean_environment(), AWS_ENDPOINT_URL=server.url, AWS_REGION="us-east-1",
                       AWS_ACCESS_KEY_ID="key", AWS_SECRET_ACCESS_KEY="secret")
    result = run(*arguments, environment=environment, timeout=300 * SLOWER)
    assert result.code == 0, result
    return result


def settled(loads, first, last):
    """How many were in flight in the second half of a phase; the median, as tries go beyond it."""
    return statistics.median(loads[(first + last) // 2:last])


@pytest.mark.parametrize("direction", ["save", "load"])
def test_a_best_that_moves(busy, source, tmp_path, direction):
    store = busy.store
    if direction == "load":
        store.seconds = 0
        cleat(busy, "save", source, "s3://bucket/run", "--step", 1)
        store.seconds, store.loads = SECONDS, []
    store.plan = PHASES[:]
    if direction == "save":
        cleat(busy, "save", source, "s3://bucket/run", "--step", 1)
    else:
        cleat(busy, "load", "s3://bucket/run", tmp_path / "loaded")
        assert tree(tmp_path / "loaded") == tree(source)
    ends = [PHASES[1][0], PHASES[2][0], FILES]
    found = [settled(store.loads, phase[0], end) for phase, end in zip(PHASES, ends)]
    print("in flight at a best of 20, 5, 20: %s" % ", ".join("%g" % value for value in found))
    assert 12 <= found[0] <= 32 and 3 <= found[1] <= 10 and 12 <= found[2] <= 32, found


def test_a_store_that_asks_for_less(busy, tmp_path):
    store = busy.store
    store.best, store.refuse = 1000, 10
    count = 1500 // SLOWER  # in the same time
    cleat(busy, "save", files(tmp_path / "source", count), "s3://bucket/run", "--step", 1)
    found = settled(store.loads, 0, len(store.loads))
    print("in flight where more than 10 are refused: %g, %d refused" % (found, store.refused))
    assert 4 <= found < 10  # at 10, it tries for more at every turn: it does not hear
    # More is tried again by the clock: one in twenty where a request takes 0.08 s.
    assert 0 < store.refused < count * SLOWER / 20


@pytest.mark.parametrize("jobs", [1, 3])
def test_never_more_than_asked_for(busy, source, jobs, tmp_path):
    few = fill(tmp_path / "few", {str(number): noise(100) for number in range(10)})
    cleat(busy, "save", few, "s3://bucket/run", "--step", 1, "--jobs", jobs)
    cleat(busy, "load", "s3://bucket/run", tmp_path / "loaded", "--jobs", jobs)
    assert max(busy.store.loads) == jobs
