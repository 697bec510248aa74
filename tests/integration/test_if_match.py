"""A store that answers 412 to If-Match although the object has that ETag. Ceph accepts the ETag only without its
quotes; other stores may accept no form. Every operation that replaces an object works if there is a way. No message
blames another process that does not exist."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from helpers import CLEAT, assert_error, clean_environment, noise, run, tree
from test_doctor import doctor, wrong

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "mock"))
from fault_server import FaultServer  # noqa: E402
from faults import Script  # noqa: E402
from s3_memory import Object  # noqa: E402

URL = "s3://bucket/run"
PROCESS = "another process"


class Place:
    """A server in memory, and what the program says to it."""

    def __init__(self, forms):
        self.server = FaultServer()
        self.store = self.server.store
        self.store.if_match = forms
        self.environment = dict(clean_environment(), AWS_ENDPOINT_URL=self.server.url, AWS_ACCESS_KEY_ID="AKID",
                                AWS_SECRET_ACCESS_KEY="secret", AWS_REGION="us-east-1")

    def cleat(self, *arguments):
        return run(*arguments, environment=self.environment)

    def done(self, *arguments):
        result = self.cleat(*arguments)
        assert result.code == 0 and PROCESS not in result.err, result
        return result

    def steps(self):
        return [checkpoint["step"] for checkpoint in self.done("ls", URL, "--json").json["checkpoints"]]

    def loads(self, source, back, *arguments):
        self.done("load", URL, back, *arguments)
        assert tree(back) == tree(source)


@pytest.fixture
def place(request):
    place = Place(request.param)
    yield place
    place.server.close()


FORMS = pytest.mark.parametrize("place", [("quoted",), ("bare",), ("quoted", "bare")], indirect=True, ids="+".join)
REFUSES = pytest.mark.parametrize("place", [()], indirect=True, ids=["none"])


def kill_in_the_middle(place, source, step):
    """A save that dies when it has uploaded what it has, but for its record."""
    place.server.script = Script("record 2: black-hole")
    place.server.seen.clear()
    process = subprocess.Popen([CLEAT, "save", str(source), URL, "--step", str(step)], env=place.environment,
                               stderr=subprocess.DEVNULL)
    while [seen for seen, _ in list(place.server.seen)].count("record") < 2:
        assert process.poll() is None, "the save has ended before it was killed"
    process.kill()
    process.wait()
    place.server.settle()
    place.server.script = Script()


@FORMS
def test_everything_that_replaces(place, small, tmp_path):
    place.done("save", small, URL, "--step", 1)
    place.loads(small, tmp_path / "back-1")
    (small / "a.bin").write_bytes(noise(50000, seed=2))
    place.done("save", small, URL, "--step", 1, "--if-exists", "replace")
    place.loads(small, tmp_path / "back-2")
    place.done("pin", URL, "--step", 1)
    place.done("save", small, URL, "--step", 2)
    place.done("save", small, URL, "--step", 3)
    place.done("prune", URL, "--keep-last", 1)
    assert place.steps() == [1, 3]
    place.done("unpin", URL, "--step", 1)
    place.done("prune", URL, "--keep-last", 1)
    assert place.steps() == [3]
    place.done("verify", URL)


@FORMS
def test_a_save_that_died_is_resumed(place, tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    (source / "large.bin").write_bytes(noise(20 << 20))
    kill_in_the_middle(place, source, 1)
    assert place.cleat("ls", URL).code == 3
    parts = [step for step, _ in place.server.seen].count("part")
    place.done("save", source, URL, "--step", 1, "--resume")
    assert [step for step, _ in place.server.seen].count("part") == parts, "nothing is sent again"
    place.loads(source, tmp_path / "back")


@FORMS
def test_gc_takes_what_a_save_left(place, small, tmp_path):
    place.done("save", small, URL, "--step", 1)
    kill_in_the_middle(place, small, 2)
    place.store.clock_s = 3600
    left = [key for key in place.store.objects if "step-000000000002" in key]
    assert left
    place.done("gc", URL, "--older-than", "30m")
    assert not any(key in place.store.objects for key in left)
    place.loads(small, tmp_path / "back")


@FORMS
def test_the_doctor_finds_the_form(place):
    checks = doctor(URL, place.environment)
    assert wrong(checks) == {}, json.dumps(checks, indent=1)
    told = "in another form than it returns it" in checks["if-match"]["seen"]
    assert told == ("quoted" not in place.store.if_match), checks["if-match"]


@pytest.mark.parametrize("place", [("bare",)], indirect=True, ids="+".join)
def test_the_form_is_found_once(place, small):
    place.done("save", small, URL, "--step", 1)
    replaced = [key for step, key in place.server.seen if step == "head"]
    assert len(replaced) == 1, place.server.seen
    place.server.seen.clear()
    place.store.if_match = ("quoted",)
    place.done("save", small, URL, "--step", 2)
    assert "head" not in [step for step, _ in place.server.seen], "S3's own form costs nothing"


@FORMS
def test_lost_replies_are_settled(place, small, tmp_path):
    """A retry meets what the try before has written, in any form."""
    place.done("save", small, URL, "--step", 1)
    (small / "a.bin").write_bytes(noise(50000, seed=3))
    place.server.script = Script("record: lost-reply 5 times", "manifest: lost-reply 5 times")
    place.done("save", small, URL, "--step", 1, "--if-exists", "replace")
    place.loads(small, tmp_path / "back")


@FORMS
def test_another_writer_is_still_seen(place, small):
    """The manifest is replaced by another right before the first put in its place."""
    place.done("save", small, URL, "--step", 1)
    key = next(key for key in place.store.objects if key.endswith("/manifest.json"))
    other = json.loads(place.store.objects[key].body)
    other["token"] = "0" * len(other["token"])
    body, put = json.dumps(other).encode(), place.store.put

    def intrude(request):
        if request.key == key:
            place.store.objects[key] = Object(body)
        return put(request)

    place.store.put = intrude
    result = place.cleat("save", small, URL, "--step", 1, "--if-exists", "replace")
    assert_error(result, 5, "committed by another writer, as attempt " + other["attempt"])
    assert place.store.objects[key].body == body


# ---- No form is taken ------------------------------------------------------------------------------------------------

@REFUSES
def test_a_save_goes_without(place, small, tmp_path):
    place.done("save", small, URL, "--step", 1)
    place.loads(small, tmp_path / "back")


@REFUSES
def test_nobody_is_blamed(place, small, tmp_path):
    place.done("save", small, URL, "--step", 1)
    before = dict(place.store.objects)
    result = place.cleat("save", small, URL, "--step", 1, "--if-exists", "replace")
    assert_error(result, 1, "refuses to replace an object by its ETag", "has not changed")
    assert PROCESS not in result.err and "another writer" not in result.err, result
    place.loads(small, tmp_path / "back")
    assert {key: held.body for key, held in before.items()}.items() <= {
        key: held.body for key, held in place.store.objects.items()}.items()


@REFUSES
def test_the_doctor_agrees(place):
    checks = doctor(URL, place.environment)
    assert wrong(checks) == {"if-match": "missing"}, json.dumps(checks, indent=1)
    assert "has not changed" in checks["if-match"]["seen"] and "--resume" in checks["if-match"]["meaning"]
