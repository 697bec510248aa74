"""The number of transfers in flight adapts to the store, in both directions, and stays within --jobs.

The store sleeps for a known time. So the assertions do not depend on the speed of the machine, as long as it manages a
hundred requests a second.

The program increases the number more slowly if the first requests take uneven times: if some are late, 32 in flight
looks better than 16. So a program that is slowed down gets a slower store. Its own clocks do not slow down with it.
Actions that depend on time happen more often in the same number of requests, such as trying more transfers after the
store has asked for less.
"""

import statistics
import sys
from pathlib import Path

import pytest

from helpers import SLOW, clean_environment, fill, noise, run, tree

sys.path.insert(0, str(Path(__file__).parents[1] / "mock"))
from busy_store import SETTLED, BusyStore  # noqa: E402
from fault_server import FaultServer  # noqa: E402
from s3_memory import MemoryStore  # noqa: E402

SLOWER = 4 if SLOW > 1 else 1
# A request of the store, which is to take far longer than what the program does for it.
SECONDS = 0.08 * SLOWER
# How many may be in flight where 20 are best, and where 5 are.
NEAR_20, NEAR_5 = (12, 32), (3, 8)
# Where a round is disturbed, the next try waits, so the way from one best to the next is 300 requests or a thousand.
FILES = 4000


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


@pytest.mark.parametrize("direction", ["save", "load"])
def test_a_best_that_moves(busy, source, tmp_path, direction):
    """To where it is best, down when the store becomes slow, and up again; each best stays until that is seen."""
    store = busy.store
    if direction == "load":
        store.seconds = 0
        cleat(busy, "save", source, "s3://bucket/run", "--step", 1)
        store.seconds, store.loads = SECONDS, []
    store.plan = [(NEAR_20, {"best": 5}), (NEAR_5, {"best": 20}), (NEAR_20, {"seconds": 0})]
    if direction == "save":
        cleat(busy, "save", source, "s3://bucket/run", "--step", 1)
    else:
        cleat(busy, "load", "s3://bucket/run", tmp_path / "loaded")
        assert tree(tmp_path / "loaded") == tree(source)
    print("at a best of 20, 5, 20: %s"
          % ", ".join("%g in flight after %d requests" % (load, count) for count, load in store.settled))
    assert len(store.settled) == 3, "and then %g" % statistics.median(store.loads[-SETTLED:])


def test_a_store_that_asks_for_less(busy, tmp_path):
    store = busy.store
    store.best, store.refuse = 1000, 10
    count = 1500 // SLOWER  # in the same time
    cleat(busy, "save", files(tmp_path / "source", count), "s3://bucket/run", "--step", 1)
    found = statistics.median(store.loads[len(store.loads) // 2:])  # as tries go beyond it
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
