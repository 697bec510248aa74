"""A request that is far slower than its peers is sent a second time, in both directions, and the first try delays
nothing.

The server does its work and never answers, or answers very slowly. Without a second try, 30 seconds pass until the
connection is given up. The only assumption on speed: a part of the others takes less time than that.
"""

import re
import sys
from pathlib import Path

import pytest

from helpers import clean_environment, fill, noise, run, tree

sys.path.insert(0, str(Path(__file__).parents[1] / "mock"))
from fault_server import FaultServer  # noqa: E402
from faults import Script  # noqa: E402

PART = 5 << 20
FILES = {"large.bin": noise(18 * PART + 77)}
SENT_TWICE = r"%s.*: slower than its peers, so it was sent twice; the second answer came first"


@pytest.fixture
def server():
    server = FaultServer()
    yield server
    server.close()


def cleat(server, *arguments):
    environment = dict(clean_environment(), AWS_ENDPOINT_URL=server.url, AWS_REGION="us-east-1",
                       AWS_ACCESS_KEY_ID="key", AWS_SECRET_ACCESS_KEY="secret")
    result = run(*arguments, "-v", "--jobs", "4", environment=environment, timeout=300)
    assert result.code == 0, result
    return result


def count(server, step):
    return sum(seen == step for seen, _ in server.seen)


@pytest.mark.parametrize("fault", ["silent-reply", "black-hole"])
def test_a_part_that_is_sent(server, tmp_path, fault):
    source = fill(tmp_path / "source", FILES)
    server.script = Script("part 13: %s" % fault)
    result = cleat(server, "save", source, "s3://bucket/run", "--step", 1, "--part-size", "5M")
    assert server.script.hits == 1
    assert re.search(SENT_TWICE % "UploadPart 13", result.err), result
    assert count(server, "part") == 19 + 1
    cleat(server, "load", "s3://bucket/run", tmp_path / "loaded")
    assert tree(tmp_path / "loaded") == tree(source)


@pytest.mark.parametrize("fault", ["silent-reply", "slow-reply"])
@pytest.mark.parametrize("command", ["load", "verify"])
def test_a_part_that_is_fetched(server, tmp_path, fault, command):
    source = fill(tmp_path / "source", FILES)
    cleat(server, "save", source, "s3://bucket/run", "--step", 1, "--part-size", "5M")
    server.script = Script("get-part 13: %s" % fault)
    server.seen.clear()
    if command == "load":
        result = cleat(server, "load", "s3://bucket/run", tmp_path / "loaded")
        assert tree(tmp_path / "loaded") == tree(source)
    else:
        result = cleat(server, "verify", "s3://bucket/run")
    assert server.script.hits == 1
    assert re.search(SENT_TWICE % "GET", result.err), result
    assert count(server, "get-part") == 19 + 1


def test_a_store_that_is_slow_with_everything(server, tmp_path):
    """All parts but the first few are stuck alike: none of them is a straggler, and none is sent twice."""
    source = fill(tmp_path / "source", FILES)
    server.script = Script("part: silent-reply 4 times")
    result = cleat(server, "save", source, "s3://bucket/run", "--step", 1, "--part-size", "5M", "--time-limit", "100")
    assert "sent twice" not in result.err, result
