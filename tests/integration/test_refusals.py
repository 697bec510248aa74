"""Stores that refuse a part of S3, or implement it differently: what Cleat learns, what it leaves out, and what it
says. Each server (loose_s3.py) has one such difference. Stored objects are read from it without Cleat."""

import os
import signal
import subprocess
import time

import pytest

from helpers import CLEAT, assert_error, clean_environment, fill, noise, run
from loose_s3 import LooseS3

MIB = 1 << 20
SECONDS_MAX = 60
SIZES = {"big.bin": 11 * MIB, "small": 1000, "a+b%2Bc d.bin": 100}
PARTS = ["--part-size", "5M", "--jobs", "1"]
URL = "s3://bucket/run"

STORES = {
    "good": {},
    "refuses create-only": {"lack": {"create-only"}},
    "refuses the size": {"lack": {"size"}},
    "refuses both": {"lack": {"create-only", "size"}},
    "refuses if-match": {"lack": {"if-match"}},
    "refuses all conditions": {"lack": {"create-only", "if-match", "size"}},
    "lists no parts": {"lack": {"list-parts"}},
    "lists no uploads": {"lack": {"list-uploads"}},
    "lists nothing unfinished": {"lack": {"list-uploads", "list-parts"}},
    "wants named checksums": {"want": {"named checksums"}},
    "claims encoded lists": {"ignore": {"encoding"}},
    "shows manifests as empty": {"empty": 3},
}


@pytest.fixture
def loose(request):
    server = LooseS3(**request.param)
    yield server
    server.close()


ON_EACH = pytest.mark.parametrize("loose", STORES.values(), ids=list(STORES), indirect=True)


@pytest.fixture
def source(tmp_path):
    return fill(tmp_path / "source", {name: noise(size, number) for number, (name, size) in enumerate(SIZES.items())})


def environment(server):
    return dict(clean_environment(), AWS_ENDPOINT_URL=server.url, AWS_ACCESS_KEY_ID="AKID", AWS_REGION="us-east-1",
                AWS_SECRET_ACCESS_KEY="not-a-real-key")


def save(server, source, step, *more):
    return run("save", source, URL, "--step", str(step), *PARTS, *more, environment=environment(server))


def expect_loaded(server, source, folder, *more):
    result = run("load", URL, folder, *more, environment=environment(server))
    assert result.code == 0, result
    for name in SIZES:
        with open(os.path.join(source, name), "rb") as wanted, open(os.path.join(folder, name), "rb") as found:
            assert wanted.read() == found.read(), name


@ON_EACH
def test_a_checkpoint_comes_back(loose, source, tmp_path):
    for step in (1, 2):
        assert save(loose, source, step).code == 0
    expect_loaded(loose, source, tmp_path / "latest")
    result = save(loose, source, 2)
    assert_error(result, 5, "committed already")
    assert save(loose, source, 2, "--if-exists", "replace").code == 0
    expect_loaded(loose, source, tmp_path / "replaced", "--step", "2")
    assert run("prune", URL, "--keep-last", "1", environment=environment(loose)).code == 0
    assert not [key for key in loose.objects if "/step-000000000001/" in key]


@ON_EACH
def test_a_killed_save_is_gone_on_with(loose, source, tmp_path):
    saving = subprocess.Popen([CLEAT, "save", source, URL, "--step", "3", *PARTS], env=environment(loose),
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    end = time.monotonic() + SECONDS_MAX
    while time.monotonic() < end and saving.poll() is None and not any(parts for _, parts in loose.uploads.values()):
        time.sleep(0.001)
    saving.send_signal(signal.SIGKILL)
    saving.communicate()
    result = save(loose, source, 3, "--resume")
    if set(loose.lack) & {"create-only", "if-match"}:
        assert_error(result, 1, "conditions of puts")
        result = save(loose, source, 3)
    # It may have been done already.
    assert result.code == 0 or "committed already" in result.err, result
    expect_loaded(loose, source, tmp_path / "out", "--step", "3")


@ON_EACH
def test_gc_goes_on(loose, source):
    assert save(loose, source, 1).code == 0
    with loose.lock:
        loose.uploads["dead"] = ("run/step-000000000009/aaaaaaaaaaaaaaaa/big.bin", {1: (b"x" * MIB, '"e"')})
    result = run("gc", URL, "--older-than", "1s", environment=environment(loose))
    assert result.code == 0, result
    listed = "list-uploads" not in loose.lack
    assert ("cannot list unfinished uploads" in result.err) is not listed, result
    assert ("dead" in loose.uploads) is not listed


@pytest.mark.parametrize("loose", [{"lack": {"create-only"}}, {"ignore": {"create-only"}}], indirect=True)
def test_it_is_said_once_that_nothing_keeps_writers_apart(loose, source):
    result = save(loose, source, 1)
    assert result.code == 0 and result.err.count("If-None-Match") == 1, result
    report = run("doctor", URL, "--json", environment=environment(loose))
    assert report.code == 0 and report.json["safe"], report


@pytest.mark.parametrize("loose", [{"want": {"no checksums"}}], indirect=True)
def test_refused_checksums_name_the_option(loose, source, tmp_path):
    refused = save(loose, source, 1)
    assert_error(refused, 1, "InvalidArgument")
    assert "checksum=off" in refused.err, refused
    url = URL + "?checksum=off"
    assert run("save", source, url, "--step", "1", *PARTS, environment=environment(loose)).code == 0
    assert run("load", url, tmp_path / "out", environment=environment(loose)).code == 0


@pytest.mark.parametrize("loose", [{"want": {"unnamed checksums"}}], indirect=True)
def test_a_refused_list_of_checksums_names_the_option(loose, source, tmp_path):
    """Swift's Complete takes no checksums."""
    refused = save(loose, source, 1)
    assert_error(refused, 4, "MalformedXML")
    assert refused.err.index("checksum=off") < refused.err.index("AWS_REQUEST_CHECKSUM_CALCULATION"), refused
    url = URL + "?checksum=off"
    assert run("save", source, url, "--step", "1", *PARTS, environment=environment(loose)).code == 0


@pytest.mark.parametrize("loose", [{"want": {"no backslashes"}}], indirect=True)
def test_a_refused_name_is_no_question_of_checksums(loose, tmp_path):
    """What was refused is not left behind, though it cannot be removed either; all else of that save is removed."""
    folder = fill(tmp_path / "named", {"a\\b.bin": b"x" * 100, "plain": b"y"})
    refused = save(loose, folder, 1)
    assert_error(refused, 1, "HTTP 400")
    assert "checksum" not in refused.err and "behind" not in refused.err, refused
    assert not loose.objects, sorted(loose.objects)


@pytest.mark.parametrize("loose", [{"empty": 1000}], indirect=True)
def test_a_manifest_that_stays_empty_is_damaged(loose, source, tmp_path):
    assert save(loose, source, 1).code == 0
    assert_error(run("load", URL, tmp_path / "out", environment=environment(loose)), 4, "damaged")


@pytest.mark.parametrize("loose", [{"lack": {"if-match"}}, {"lack": {"if-match", "create-only"}}], indirect=True)
def test_a_replace_looks_first_and_warns(loose, source, tmp_path):
    """The doctor says what Cleat does."""
    for _ in range(2):
        result = save(loose, source, 1, "--if-exists", "replace")
        assert result.code == 0, result
    assert result.err.count("let one job at a time save there") == 1, result
    expect_loaded(loose, source, tmp_path / "out")
    report = run("doctor", URL, "--json", environment=environment(loose))
    assert report.json["safe"], report
    check = next(check for check in report.json["checks"] if check["name"] == "if-match")
    assert check["result"] == "missing" and "checks before it replaces" in check["seen"], check


CONDITIONS = {
    "ignores create-only": ({"ignore": {"create-only"}}, "conditions of puts"),
    "refuses if-match": ({"lack": {"if-match"}}, "conditions of puts"),
    "looks first and stores later": ({"race": True}, "conditions of puts"),
    "ignores those of uploads": ({"ignore": {"create-only-uploads"}}, "when an upload is completed"),
}


@pytest.mark.parametrize("loose, why", CONDITIONS.values(), ids=list(CONDITIONS), indirect=["loose"])
def test_a_refused_resume_says_what_the_store_ignores(loose, why, source):
    result = save(loose, source, 1, "--resume")
    assert_error(result, 1, why)
    assert "warning" not in result.err and result.err.count("sent again") == 1, result
    assert not loose.objects and not loose.uploads


@pytest.mark.parametrize("loose", [{"lack": {"if-match"}}], indirect=True)
def test_run_goes_on_where_a_resume_is_refused(loose, source, tmp_path):
    folder = tmp_path / "checkpoints"
    command = "mkdir -p %s && for n in 1 2; do cp -r %s %s/step-$n; sleep 1; done" % (folder, source, folder)
    result = run("run", "--store", URL, "--dir", folder, "--layout", "folders", "--quiet-time", "1", "--", "sh", "-c",
                 command, environment=environment(loose))
    assert result.code == 0, result
    assert result.err.count("conditions of puts") == 1, result
    assert result.err.count("sends the whole step again") == 1, result
    assert {key for key in loose.objects if key.endswith("/manifest.json")} == {
        "run/step-%012d/manifest.json" % step for step in (1, 2)}
