"""A kept connection closes after it has taken a complete request, without a reply. The server may carry out that
request at any later time. Until then, nothing that a manifest names is removed, and no manifest names an object that
does not exist.

Scripted faults decide what the server does with each request. Nothing depends on time.
"""

import re
import sys
from pathlib import Path

import pytest

from helpers import clean_environment, fill, noise, run, tree

sys.path.insert(0, str(Path(__file__).parents[1] / "mock"))
from fault_server import FaultServer  # noqa: E402
from faults import Fault, Rule, Script  # noqa: E402
from s3_wire import Reply, xml  # noqa: E402

URL = "s3://bucket/run"
MANIFEST = "run/step-000000000001/manifest.json"
DONE = "<CompleteMultipartUploadResult><ETag>&quot;early-3&quot;</ETag></CompleteMultipartUploadResult>"
CLOSED = "%s .*: try 1 failed .*a kept connection was closed before a reply"


@pytest.fixture
def server():
    server = FaultServer()
    yield server
    server.close()


@pytest.fixture
def source(tmp_path):
    return fill(tmp_path / "source", {"a.bin": noise(12_000_000), "b.txt": b"b\n"})


def cleat(server, *arguments):
    environment = dict(clean_environment(), AWS_ENDPOINT_URL=server.url, AWS_REGION="us-east-1",
                       AWS_ACCESS_KEY_ID="key", AWS_SECRET_ACCESS_KEY="secret")
    return run(*arguments, "-v", environment=environment)


def save(server, source):
    return cleat(server, "save", source, URL, "--step", 1, "--part-size", "5M")


def loads(server, source, to):
    result = cleat(server, "load", URL, to, "--step", 1)
    assert result.code == 0, result
    return tree(to) == tree(source)


class Taken(Fault):
    """Takes the first request whole and closes. `meanwhile` happens before the client can know, and all that follows
    goes to the store, or to `later`. The first copy lands when the test says so."""

    def __init__(self, meanwhile=None, later=None):
        self.requests, self.kept, self.meanwhile, self.later = [], None, meanwhile, later
        self.peers = set()

    def arrive(self, wire, request):
        # Whether this connection has carried a request before.
        self.kept = wire.connection.getpeername() in self.peers if self.kept is None else self.kept

    def answer(self, request, store):
        self.requests.append(request)
        if len(self.requests) > 1:
            return (self.later or store.answer)(request)
        if self.meanwhile:
            self.meanwhile()
        return None

    def send(self, wire, request, reply):
        if reply is None:
            wire.close()
        wire.send(reply.encode())

    def land(self, store):
        store.preconditions = False
        reply = store.answer(self.requests[0])
        assert reply.status == 200
        return reply


class Watch(Fault):
    """Notes who was there before."""

    def __init__(self, taken):
        self.taken = taken

    def arrive(self, wire, request):
        self.taken.peers.add(wire.connection.getpeername())


def script(taken, step):
    """`taken` for that step, and every other request is noted."""
    others = ("list", "head", "create", "part", "file", "record", "manifest", "get-manifest", "complete", "get-record")
    return Script(Rule(step, taken, times=None),
                  *(Rule(other, Watch(taken), times=None) for other in others if other != step))


def test_a_manifest_that_lands_after_another_writer_has_won(server, source, tmp_path):
    """The second copy is refused, since the other's manifest stands; the first takes its place later, as it does on a
    store that looked at the condition when the request began."""
    other = fill(tmp_path / "other", {"a.bin": noise(3_000_000)})
    assert save(server, other).code == 0
    winner = server.store.objects.pop(MANIFEST)
    taken = Taken(meanwhile=lambda: server.store.objects.update({MANIFEST: winner}))
    server.script = script(taken, "manifest")
    result = save(server, source)
    assert taken.kept and len(taken.requests) == 2, "the fault did not meet a kept connection"
    assert result.code == 5, result
    assert re.search(CLOSED % "PUT", result.err), result
    server.script = Script()
    assert loads(server, other, tmp_path / "winner")
    taken.land(server.store)
    assert loads(server, source, tmp_path / "loaded")


def test_a_complete_that_lands_after_it_was_called_done(server, source, tmp_path):
    """The second copy is told "done" while the store still works at the first (versitygw)."""
    landed = []

    def later(request):
        """The first copy lands when the third has come: the client has found nothing after the second."""
        if len(taken.requests) == 3:
            landed.append(taken.land(server.store))
        return Reply(200, {"Content-Type": "application/xml"}, xml(DONE))

    taken = Taken(later=later)
    server.script = script(taken, "complete")
    result = save(server, source)
    assert taken.kept, "the fault did not meet a kept connection"
    assert result.code == 0, result
    assert re.search(CLOSED % "CompleteMultipartUpload", result.err), result
    assert len(taken.requests) == 3 and landed
    assert loads(server, source, tmp_path / "loaded")
