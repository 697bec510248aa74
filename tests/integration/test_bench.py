"""`cleat bench`: what it prints, and the documents of --json. The bytes that it reports were moved. It leaves nothing
behind after a run, a failure, a refusal or Ctrl-C, as seen from outside. No rate and no time is judged."""

import json
import os
import re
import signal
import socket
import subprocess
import uuid

import pytest

from helpers import CLEAT, Server, assert_error, clean_environment, run, without_capabilities
from loose_s3 import LooseS3
from proxy import Proxy, unfinished_uploads
from test_cli_terminal import CLEAR, lines_drawn, on_terminal

PART = 5 << 20
SMALL = ("--part-size", "5M", "--size", "30M", "--jobs", "2")
SECRET = "wJalrXUtnFEMI-K7MDENG-not-a-real-key"
LATENCY = {"requests", "median_ms", "p95_ms"}
RUNG = {"jobs", "parts", "bytes", "bytes_per_second", "part_median_ms", "cpu_seconds_per_gb"}
SIDE = {"bytes", "best_jobs", "default_jobs", "default_share", "stopped", "rungs"}


def bench(url, environment, *arguments):
    result = run("bench", url, "--json", *arguments, environment=environment)
    assert result.code == 0 and result.err == "", result
    return result.json


def jobs(side):
    return [rung["jobs"] for rung in side["rungs"]]


def check_side(side):
    assert set(side) == SIDE
    assert side["bytes"] == sum(rung["bytes"] for rung in side["rungs"])
    best = max(rung["bytes_per_second"] for rung in side["rungs"])
    rates = {rung["jobs"]: rung["bytes_per_second"] for rung in side["rungs"]}
    assert side["best_jobs"] == next(count for count, rate in rates.items() if rate >= 0.95 * best)
    share = rates.get(side["default_jobs"], 0) / best
    assert abs(side["default_share"] - share) < 0.002, side
    for rung in side["rungs"]:
        assert set(rung) == RUNG
        assert rung["parts"] >= max(2, rung["jobs"]) and rung["bytes"] == rung["parts"] * PART
        assert rung["bytes_per_second"] > 0 and rung["part_median_ms"] >= 0 and rung["cpu_seconds_per_gb"] >= 0


def check_report(report, url):
    assert set(report) == {"url", "place", "part_bytes", "cached", "latency", "upload", "download"}
    assert report["url"] == url and report["part_bytes"] == PART
    latency = report["latency"]
    assert latency.pop("bytes") == 4096 and set(latency) == {"put", "get", "head"}
    for times in latency.values():
        assert set(times) == LATENCY and 3 <= times["requests"] <= 20
        assert 0 <= times["median_ms"] <= times["p95_ms"]
    check_side(report["upload"])
    check_side(report["download"])


# ---- Reports -------------------------------------------------------------------------------------------------------

def test_a_bucket_in_json(bucket):
    report = bench(bucket.url, bucket.environment, *SMALL)
    check_report(report, bucket.url)
    assert report["place"] == bucket.environment["AWS_ENDPOINT_URL"] and report["cached"] is False
    for side in (report["upload"], report["download"]):
        assert jobs(side) == [1, 2] and side["default_jobs"] == 51 and side["default_share"] == 0
        assert side["stopped"] == "jobs" and side["bytes"] <= 30 << 20
    assert bucket.keys() == []


def test_a_folder_in_json(folder, small):
    folder.save(small, 1)
    before = folder.keys()
    report = bench(folder.url, folder.environment, *SMALL, "--jobs", "4", "--size", "60M")
    check_report(report, folder.url)
    assert str(folder.path) in report["place"] and report["cached"] is True
    for side in (report["upload"], report["download"]):
        assert side["default_jobs"] == 4 and jobs(side)[:2] == [1, 2]
    assert folder.keys() == before and [path.name for path in folder.path.iterdir()] == ["step-000000000001"]


def test_what_is_said_was_moved(bucket):
    """In real parts, each upload completed or dropped, and downloads by ranges of what was completed."""
    proxy = Proxy(os.environ["CLEAT_TEST_ENDPOINT"])
    report = bench(bucket.url, dict(bucket.environment, AWS_ENDPOINT_URL=proxy.url), *SMALL)
    requests = list(proxy.requests)
    proxy.close()
    parts = [request for request in requests if request.kind == "part"]
    fetched = [request for request in requests if request.kind == "get" and "/parts-" in request.key]
    assert {request.length for request in parts} == {PART}
    assert len(parts) == sum(rung["parts"] for rung in report["upload"]["rungs"])
    assert len(fetched) == sum(rung["parts"] for rung in report["download"]["rungs"])
    assert {request.status for request in fetched} == {206}
    kinds = [request.kind for request in requests]
    assert kinds.count("create") == kinds.count("complete") + kinds.count("abort") >= 2
    assert len({request.key.split("/")[1] for request in requests}) == 1, "one scratch folder alone"
    assert re.fullmatch("bench-[0-9a-f]{16}", requests[0].key.split("/")[1])
    assert bucket.keys() == [] and unfinished_uploads(bucket, proxy.upload_keys()) == []


def test_the_ends_of_the_ladder(bucket):
    size = bench(bucket.url, bucket.environment, "--part-size", "5M", "--size", "10M")
    assert jobs(size["upload"]) == [1] and size["upload"]["stopped"] == "size"
    staging = bench(bucket.url, bucket.environment, "--part-size", "5M", "--size", "30M", "--staging", "10M")
    assert jobs(staging["upload"]) == [1, 2] and staging["upload"]["stopped"] == "staging"
    assert jobs(staging["download"]) == [1, 2] and staging["download"]["stopped"] == "staging"


def test_people_get_tables_and_a_conclusion(store):
    result = store.cleat("bench", store.url, *SMALL)
    assert result.code == 0 and result.err == "", result
    lines = result.out.splitlines()
    row = r" *(1|2) at once +[\d.]+ [KMG]iB/s +[\d.]+ ms +\d+\.\d\d s  #+( best)?"
    assert lines[0].endswith(", parts of 5.0 MiB"), result
    assert [line.split()[0] for line in lines if line.startswith(("put", "get", "head"))] == ["put", "get", "head"]
    assert len([line for line in lines if re.fullmatch(row, line)]) == 4, result
    assert sum(line.endswith("# best") for line in lines) == 2, result
    assert max(line.count("#") for line in lines) == 24, result
    end = r"the default(, 4, was not measured| tries up to 51 and finds the best number)\."
    assert any(re.fullmatch(r"Best for uploads: [12] at once, [\d.]+ [KMG]iB/s; " + end, line)
               for line in lines), result
    assert ("page cache" in result.out) == (store.url.startswith("file:")), result
    assert re.fullmatch(r"Uploaded [\d.]+ MiB and downloaded [\d.]+ MiB; nothing is left.", lines[-1]), result


def test_a_chart_of_blocks_needs_utf8_and_a_terminal(folder):
    for language, blocks in (("C.UTF-8", True), ("C", False)):
        environment = dict(folder.environment, TERM="xterm", LC_ALL=language)
        code, screen = on_terminal(["bench", folder.url, *SMALL], environment)
        assert code == 0, screen
        assert ("\u2588" in screen) is blocks and ("###" in screen) is not blocks, screen
    drawn = lines_drawn(screen)
    assert drawn and all(
        re.fullmatch(r"measuring  (small requests|cleaning up|(up|down)loads(, [12] at once: [\d.]+ [KM]?i?B)?)", line)
        for line in drawn), screen
    assert screen.split(CLEAR)[-1].startswith(str(folder.path)), "the line is gone in the end"
    result = run("bench", folder.url, *SMALL, environment=dict(folder.environment, LC_ALL="C.UTF-8"))
    assert "###" in result.out and "\u2588" not in result.out, result


# ---- Usage ---------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("arguments, words", [
    ([], "needs the store's URL"), (["s3://x"], "3 to 63"), (["s3://bucket/run", "--step", "1"], "no option --step"),
    (["s3://bucket/run", "more"], "one argument too many"), (["s3://bucket/run", "--size", "much"], "not a size"),
    (["s3://bucket/run", "--size", "31M"], "are less than two parts"), (["s3://bucket/run", "--jobs", "0"], "not a number"),
    (["s3://bucket/run", "--staging", "1M"], "staging budget"), (["ftp://x/y"], "ftp")])
def test_wrong_usage(arguments, words):
    assert_error(run("bench", *arguments, environment=clean_environment()), 2, words)


# ---- Stores that refuse --------------------------------------------------------------------------------------------

def test_a_bucket_that_is_not_there(bucket):
    result = run("bench", "s3://no-such-%s/run" % uuid.uuid4().hex[:12], *SMALL, environment=bucket.environment)
    assert_error(result, 1, "NoSuchBucket")
    assert result.out == ""


def test_nobody_there(bucket):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        endpoint = "http://127.0.0.1:%d" % closed.getsockname()[1]
    result = run("bench", bucket.url, *SMALL, "--time-limit", "1", "--json",
                 environment=dict(bucket.environment, AWS_ENDPOINT_URL=endpoint))
    assert_error(result, 1, "cannot connect")
    assert result.json["error"]["status"] == "NETWORK"


def test_who_may_only_read(bucket):
    allowed = {"Effect": "Allow", "Principal": {"AWS": ["*"]}, "Action": ["s3:GetObject", "s3:ListBucket"],
               "Resource": ["arn:aws:s3:::%s" % bucket.bucket, "arn:aws:s3:::%s/*" % bucket.bucket]}
    bucket.client.put_bucket_policy(Bucket=bucket.bucket,
                                    Policy=json.dumps({"Version": "2012-10-17", "Statement": [allowed]}))
    environment = dict(bucket.environment, AWS_ENDPOINT_URL=bucket.server.direct)  # nothing is signed
    result = run("bench", bucket.url + "?anonymous=true", *SMALL, environment=environment)
    lines = assert_error(result, 1, "PUT ", "AccessDenied", "/small")
    assert "warning" not in result.err and "remove" not in lines[-1], result
    assert len(lines) == 2 and result.out == "" and bucket.keys() == [], result


def test_a_folder_that_may_not_be_written(folder):
    folder.path.mkdir(mode=0o555)
    result = run("bench", folder.url, *SMALL, environment=folder.environment, preexec_fn=without_capabilities)
    assert_error(result, 1, "Permission denied")
    assert folder.keys() == []


def test_a_folder_that_cannot_be(folder):
    """Not 3, which would say that there is no checkpoint."""
    assert_error(run("bench", "file:///proc/no-such-folder", *SMALL, environment=folder.environment), 1,
                 "/proc/no-such-folder")


def test_a_full_disk(folder, bad_disk):
    folder.path.mkdir()
    result = run("bench", folder.url, *SMALL, environment=dict(folder.environment, FULL_AFTER=str(12 << 20),
                                                               **bad_disk))
    assert_error(result, 1, "No space left")
    assert [str(path) for path in folder.path.rglob("*")] == []


@pytest.mark.parametrize("denied, uploads", [("delete", 0), ("create", 0), ("complete", 1), ("part", 1)])
def test_what_is_denied_ends_it(denied, uploads, tmp_path):
    server = LooseS3(deny={denied})
    environment = dict(clean_environment(), AWS_ENDPOINT_URL=server.url, AWS_ACCESS_KEY_ID="AKID",
                       AWS_SECRET_ACCESS_KEY=SECRET, AWS_REGION="us-east-1")
    result = run("bench", "s3://bucket/run", *SMALL, environment=environment)
    server.close()
    assert_error(result, 1, "AccessDenied")
    assert SECRET not in result.out + result.err
    assert sum(operation == "create" and denied != "create" for operation, _ in server.requests) == uploads
    assert server.uploads == {} and len(server.objects) == (denied == "delete"), server.objects.keys()
    if denied == "delete":
        key, = server.objects
        folder = key.split("/")[1]
        assert "cleat: warning: the bench's object %s/small is still there: " % folder in result.err, result
        assert "hint: remove the folder %s below s3://bucket/run by other means" % folder in result.err, result


def test_bytes_that_come_back_changed(bucket):
    """boto3 replaces the object by one that differs in its last byte, right before it is read."""
    replaced = []

    def replace(request):
        if request.kind == "get" and "/parts-" in request.key and not replaced:
            replaced.append(request.key)
            key = request.key.partition("/")[2]
            data = bucket.get(key)
            bucket.put(key, data[:-1] + bytes([data[-1] ^ 1]))

    proxy = Proxy(Server("minio-http").endpoint, before=replace)
    result = run("bench", bucket.url, *SMALL, environment=dict(bucket.environment, AWS_ENDPOINT_URL=proxy.url))
    proxy.close()
    assert replaced and bucket.keys() == [], result
    assert_error(result, 4, "came back changed", replaced[0].partition("/")[2])


# ---- Cut short -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind, number", [("file", 1), ("get", 10), ("head", 3), ("delete", 1), ("create", 1),
                                          ("part", 1), ("part", 5), ("complete", 1), ("create", 2), ("delete", 2),
                                          ("get", 25)])
def test_ctrl_c_leaves_nothing(bucket, kind, number):
    process = []

    def interrupt(request):
        if request.kind == kind and request.number == number:
            process[0].send_signal(signal.SIGINT)

    proxy = Proxy(Server("minio-http").endpoint)
    proxy.before = interrupt
    with proxy.lock:  # no request passes before the process is known
        process.append(subprocess.Popen([CLEAT, "bench", bucket.url, *SMALL], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        env=dict(bucket.environment, AWS_ENDPOINT_URL=proxy.url)))
    out, err = process[0].communicate(timeout=60)
    proxy.settle()
    keys = proxy.upload_keys()
    proxy.close()
    assert process[0].returncode == 130 and out == b"", (out, err)
    assert b"is still there" not in err, err
    assert bucket.keys() == [] and unfinished_uploads(bucket, keys) == [], (out, err)


def test_ctrl_c_leaves_nothing_in_a_folder(folder, bad_disk):
    """A disk that takes its time, so that the signal comes in the middle of the uploads."""
    folder.path.mkdir()
    process = subprocess.Popen([CLEAT, "bench", folder.url, *SMALL], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, env=dict(folder.environment, SLOW_MS="20", **bad_disk))
    while process.poll() is None and not any(name.startswith(".cleat-upload-")
                                             for _, _, names in os.walk(folder.path) for name in names):
        pass
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130 and out == b"", (out, err)
    assert [str(path) for path in folder.path.rglob("*")] == [], err
