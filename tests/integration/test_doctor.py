"""`cleat doctor` on folders, on MinIO, on servers that ignore, lack or deny something, and on absent ones. Its verdict
is compared with the setup of each store. That it leaves nothing behind is checked from outside."""

import json
import os
import signal
import socket
import subprocess
import uuid

import pytest

from helpers import CLEAT, Folder, assert_error, clean_environment, run, tree, without_capabilities
from loose_s3 import LooseS3
from proxy import Proxy, unfinished_uploads

CHECKS = [
    "keys", "reach", "clock", "access", "addressing", "durable", "put", "get", "range", "list", "list-names",
    "list-folders", "checksum", "create-only", "create-only-race", "if-match", "multipart", "create-only-parts",
    "part-checksum", "list-parts", "abort", "abort-keeps", "delete", "clean-up"
]
NOT_FOR_FOLDERS = {"keys", "clock", "addressing", "create-only-parts"}
SECRET = "wJalrXUtnFEMI-K7MDENG-not-a-real-key"


def doctor(url, environment, *arguments, code=0, **more):
    """Runs it with --json; returns the checks by name."""
    result = run("doctor", url, "--json", *arguments, environment=environment, **more)
    assert result.code == code, result
    report = result.json
    assert [check["name"] for check in report["checks"]] == CHECKS, result
    wrong = [check for check in report["checks"] if check["result"] not in ("ok", "skipped")]
    for check in report["checks"]:
        assert check["seen"] and (check in wrong) == bool(check["meaning"]), check
    assert report["url"] == url
    assert report["safe"] is (code == 0) is not any(check["blocks"] for check in report["checks"]), report
    assert report["warnings"] == sum(not check["blocks"] for check in wrong)
    return {check["name"]: check for check in report["checks"]}


def wrong(checks):
    return {name: check["result"] for name, check in checks.items() if check["result"] not in ("ok", "skipped")}


def blocking(checks):
    return {name for name, check in checks.items() if check["blocks"]}


@pytest.fixture
def loose(request):
    server = LooseS3(**request.param)
    yield server
    server.close()


def loose_environment(server, **more):
    return dict(clean_environment(), AWS_ENDPOINT_URL=server.url, AWS_ACCESS_KEY_ID="AKID", AWS_REGION="us-east-1",
                AWS_SECRET_ACCESS_KEY=SECRET, **more)


# ---- Good stores ---------------------------------------------------------------------------------------------------

def test_a_good_bucket(bucket):
    checks = doctor(bucket.url, bucket.environment)
    assert wrong(checks) == {}
    assert {name for name, check in checks.items() if check["result"] == "skipped"} == {"durable"}
    endpoint = os.environ["CLEAT_TEST_ENDPOINT"]
    assert endpoint in checks["reach"]["seen"]
    assert "environment" in checks["keys"]["seen"]
    assert checks["addressing"]["seen"].startswith("path style, %s/%s" % (endpoint, bucket.bucket))
    assert "refused" in checks["part-checksum"]["seen"] and "8 rounds" in checks["create-only-race"]["seen"]
    assert bucket.keys() == []


@pytest.mark.parametrize("query, checksum", [("checksum=crc64nvme", "CRC-64/NVME"), ("payload=always", "CRC-32C")])
def test_a_good_bucket_with_options(bucket, query, checksum):
    checks = doctor("%s?%s" % (bucket.url, query), bucket.environment)
    assert wrong(checks) == {}
    assert checksum in checks["part-checksum"]["seen"] and "refused" in checks["part-checksum"]["seen"]


def test_switched_off_checksums_are_not_judged(bucket):
    checks = doctor(bucket.url + "?checksum=off", bucket.environment)
    assert wrong(checks) == {}
    assert checks["checksum"]["result"] == checks["part-checksum"]["result"] == "skipped"
    assert checks["abort"]["result"] == "ok"


def test_a_good_folder(folder, small):
    folder.save(small, 1)
    before = folder.keys()
    checks = doctor(folder.url, folder.environment)
    assert set(wrong(checks)) <= {"durable"}  # the folder of the tests may be in memory
    assert {name for name, check in checks.items() if check["result"] == "skipped"} == NOT_FOR_FOLDERS
    assert str(folder.path) in checks["reach"]["seen"]
    assert folder.keys() == before and sorted(path.name for path in folder.path.iterdir()) == ["step-000000000001"]


def test_a_folder_in_memory_warns():
    path = "/dev/shm/cleat-doctor-%s" % uuid.uuid4().hex
    folder = Folder(path)
    try:
        checks = doctor(folder.url, folder.environment)
        assert wrong(checks) == {"durable": "ignored"} and "tmpfs" in checks["reach"]["seen"]
    finally:
        os.rmdir(path)


def test_people_get_a_table(store):
    result = store.cleat("doctor", store.url)
    assert result.code == 0 and result.err == "", result
    lines = result.out.splitlines()
    assert lines[0].split() == ["CHECK", "RESULT", "FOUND"], result
    assert [line.split()[0] for line in lines[1:1 + len(CHECKS)]] == CHECKS, result
    assert "Saves are safe here" in lines[-1], result


def test_nothing_is_left_of_uploads(bucket):
    proxy = Proxy(os.environ["CLEAT_TEST_ENDPOINT"])
    doctor(bucket.url, dict(bucket.environment, AWS_ENDPOINT_URL=proxy.url))
    keys = proxy.upload_keys()
    assert len(keys) == 4 and proxy.count("abort") == 3, keys
    assert unfinished_uploads(bucket, keys) == [] and bucket.keys() == []
    proxy.close()


# ---- Stores that ignore, lack, deny --------------------------------------------------------------------------------

STORES = {
    "good": ({}, {}, set()),
    "ignores create-only": ({"ignore": {"create-only"}}, {"create-only": "ignored"}, set()),
    "lacks create-only": ({"lack": {"create-only"}}, {"create-only": "ignored"}, set()),
    "lacks the size of a Complete": ({"lack": {"size"}}, {}, set()),
    "lacks list-parts": ({"lack": {"list-parts"}}, {"list-parts": "missing"}, set()),
    "claims encoded lists": ({"ignore": {"encoding"}}, {}, set()),
    "hides folders of folders": ({"ignore": {"folders"}}, {"list-folders": "failed"}, set()),
    "refuses backslashes": ({"want": {"no backslashes"}}, {"list-names": "failed"}, set()),
    "takes backslashes for slashes": ({"ignore": {"backslashes"}}, {"list-names": "failed"}, set()),
    "wants named checksums": ({"want": {"named checksums"}}, {}, set()),
    "lets writers race": ({"race": True}, {"create-only-race": "ignored"}, set()),
    "ignores create-only of uploads": ({"ignore": {"create-only-uploads"}}, {"create-only-parts": "ignored"}, set()),
    "lacks create-only of uploads": ({"lack": {"create-only-uploads"}}, {"create-only-parts": "missing"}, set()),
    "denies create-only of uploads": ({"deny": {"create-only-uploads"}}, {"create-only-parts": "failed"}, set()),
    "lacks if-match": ({"lack": {"if-match"}}, {"if-match": "missing"}, set()),
    "denies if-match": ({"deny": {"if-match"}}, {"if-match": "failed"}, {"if-match"}),
    "ignores if-match": ({"ignore": {"if-match"}}, {"if-match": "ignored"}, set()),
    "ignores checksums": ({"ignore": {"checksum"}}, {"checksum": "ignored", "part-checksum": "ignored"}, set()),
    "ignores ranges": ({"ignore": {"range"}}, {"range": "failed", "multipart": "failed"}, {"range", "multipart"}),
    "ignores delete": ({"ignore": {"delete"}}, {"delete": "ignored", "clean-up": "failed"}, set()),
    "is a web page": ({"ignore": {"absence"}}, {"access": "failed"}, {"access"}),
    "aborts the object": ({"ignore": {"kept objects"}}, {"abort-keeps": "failed"}, {"abort-keeps"}),
    "denies abort": ({"deny": {"abort"}}, {"abort": "failed", "clean-up": "failed"}, set()),
    "denies delete": ({"deny": {"delete"}}, {"delete": "failed", "clean-up": "failed"}, set()),
    "denies list": ({"deny": {"list"}}, {"list": "failed"}, {"list"}),
    "denies list-parts": ({"deny": {"list-parts"}}, {"list-parts": "failed", "abort": "failed", "clean-up": "failed"},
                          set()),
    "denies put": ({"deny": {"put"}}, {"put": "failed"}, {"put"}),
    "denies get": ({"deny": {"get"}}, {"access": "failed", "get": "failed"}, {"access", "get"}),
    "lacks multipart": ({"lack": {"create"}}, {"multipart": "missing"}, {"multipart"}),
    "a clock an hour ahead": ({"clock_offset": 3600}, {"clock": "failed"}, set()),
    "a clock two minutes behind": ({"clock_offset": -120}, {"clock": "failed"}, set()),
}


@pytest.mark.parametrize("loose, expected, blocks", STORES.values(), ids=list(STORES), indirect=["loose"])
def test_what_a_store_does_is_what_is_said(loose, expected, blocks):
    checks = doctor("s3://bucket/run", loose_environment(loose), code=1 if blocks else 0)
    assert wrong(checks) == expected, json.dumps(checks, indent=1)
    assert blocking(checks) == blocks
    left = {key for key in loose.objects if "doctor-" in key}
    if not {"delete"} & (set(loose.ignore) | set(loose.deny)):
        assert left == set()
    if "abort" not in loose.deny:
        assert loose.uploads == {}
    folders = {key.split("/")[1] for _, key in loose.requests if "/doctor-" in key}
    assert len(folders) == 1, "one scratch folder alone is written to"
    if checks["clean-up"]["result"] == "failed":
        assert folders.pop() in checks["clean-up"]["hint"]


@pytest.mark.parametrize("loose", [{"ignore": {"create-only"}}], indirect=True)
def test_people_are_told_what_it_means(loose):
    result = run("doctor", "s3://bucket/run", environment=loose_environment(loose))
    assert result.code == 0, result
    assert "\ncreate-only ignored: " in result.out and "  so: only the tokens in their manifests" in result.out, result
    assert result.out.endswith("Saves are safe here, with 1 warning.\n"), result


@pytest.mark.parametrize("loose", [{"deny": {"create-only"}}, {"deny": {"if-match"}}], indirect=True)
def test_no_sentence_contradicts_the_verdict(loose, small):
    """Where no save is safe, nobody is advised how to save there, and a save fails."""
    environment = loose_environment(loose)
    result = run("doctor", "s3://bucket/run", environment=environment)
    assert result.code == 1 and result.out.endswith("Do not save here.\n"), result
    assert "one job at a time" not in result.out and "other saves are not affected" not in result.out, result
    assert run("save", small, "s3://bucket/run", "--step", 1, environment=environment).code != 0


@pytest.mark.parametrize("loose", [{"ignore": {"kept objects"}, "race": True}], indirect=True)
def test_no_advice_beside_a_defect_of_another_kind(loose):
    """A warning advises one job at a time only where that makes saves safe."""
    result = run("doctor", "s3://bucket/run", environment=loose_environment(loose))
    assert result.code == 1 and result.out.endswith("Do not save here.\n"), result
    assert "create-only-race ignored" in result.out and "one job at a time" not in result.out, result


@pytest.mark.parametrize("loose, saved", [({}, True), ({"want": {"no backslashes"}}, False)], indirect=["loose"])
def test_a_save_does_as_is_said_of_names(loose, saved, tmp_path):
    environment = loose_environment(loose)
    check = doctor("s3://bucket/run", environment)["list-names"]
    assert ("'\\' cannot be saved there" in check["meaning"]) is not saved and not check.get("hint"), check
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "e\\f").write_bytes(b"text")
    result = run("save", tmp_path / "odd", "s3://bucket/run", "--step", 1, environment=environment)
    assert (result.code == 0) is saved, result


@pytest.mark.parametrize("loose, resumed", [({}, True), ({"ignore": {"create-only-uploads"}}, False),
                                            ({"lack": {"create-only-uploads"}}, False),
                                            ({"ignore": {"create-only"}}, False), ({"lack": {"create-only"}}, False),
                                            ({"race": True}, False)],
                         indirect=["loose"])
@pytest.mark.parametrize("size", [11 << 20, 1000])
def test_a_resume_does_as_is_said(loose, resumed, size, tmp_path):
    environment = loose_environment(loose)
    checks = doctor("s3://bucket/run", environment)
    meaning = checks["create-only"]["meaning"] + checks["create-only-race"]["meaning"] + (
        checks["create-only-parts"]["meaning"] if size > 1 << 20 else "")
    resumed = resumed or not meaning and size <= 1 << 20  # of completions nothing is asked then
    (tmp_path / "big").mkdir()
    (tmp_path / "big" / "big.bin").write_bytes(bytes(size))
    result = run("save", tmp_path / "big", "s3://bucket/run", "--step", 1, "--resume", "--part-size", "5M",
                 environment=environment)
    words = "cannot be resumed there"
    assert (words in meaning) is (words in result.err) is not resumed, (meaning, result)
    assert (result.code == 0) is resumed, result


@pytest.mark.parametrize("loose", [{"lack": {"if-match"}}, {"ignore": {"if-match"}}], indirect=True)
def test_a_save_does_without_if_match(loose, small, tmp_path):
    """Only --resume and --if-exists replace ask for it."""
    environment = loose_environment(loose)
    assert run("save", small, "s3://bucket/run", "--step", 1, environment=environment).code == 0
    assert run("load", "s3://bucket/run", tmp_path / "back", environment=environment).code == 0
    result = run("save", tmp_path / "absent", "s3://bucket/run", "--step", 2, environment=environment)
    assert result.code == 2 or result.code == 1, result
    assert not any("step-000000000002" in key for key in loose.objects), loose.objects.keys()


@pytest.mark.parametrize("loose", [{"clock_offset": 3600}], indirect=True)
def test_the_clock_is_told_in_seconds(loose):
    seen = doctor("s3://bucket/run", loose_environment(loose))["clock"]["seen"]
    told = int(seen.split(" s ahead")[0].split()[-1])
    assert 3590 <= told <= 3610 and "beyond what S3 allows" in seen


@pytest.mark.parametrize("loose", [{}], indirect=True)
def test_which_keys(loose, tmp_path):
    environment = {name: value for name, value in loose_environment(loose).items()
                   if not name.startswith(("AWS_ACCESS", "AWS_SECRET"))}
    shared = tmp_path / "credentials"
    shared.write_text("[default]\naws_access_key_id = AKID\naws_secret_access_key = %s\n" % SECRET)
    environment = dict(environment, AWS_SHARED_CREDENTIALS_FILE=str(shared))
    assert "shared AWS files" in doctor("s3://bucket/run", environment)["keys"]["seen"]
    process = tmp_path / "process.json"
    process.write_text(json.dumps({"Version": 1, "AccessKeyId": "AKID", "SecretAccessKey": SECRET,
                                   "SessionToken": SECRET, "Expiration": "2099-01-02T03:04:05Z"}))
    shared.write_text("[default]\ncredential_process = cat %s\n" % process)
    assert "they expire at 2099-01-02T03:04:05Z" in doctor("s3://bucket/run", environment)["keys"]["seen"]
    checks = doctor("s3://bucket/run?anonymous=true", environment)
    assert checks["keys"]["result"] == "skipped" and "anonymous" in checks["keys"]["seen"]


# ---- What a save makes of it ---------------------------------------------------------------------------------------

@pytest.mark.parametrize("loose", [{"ignore": {"create-only"}}], indirect=True)
def test_a_save_warns_once_where_create_only_is_ignored(loose, small, tmp_path):
    url, environment = "s3://bucket/run", loose_environment(loose)
    first = run("save", small, url, "--step", 1, environment=environment)
    assert first.code == 0, first
    assert first.err.count("warning") == 1 and "ignores If-None-Match" in first.err and SECRET not in first.err, first
    # The manifest is looked for right before it is put, and read back right after.
    keys = [(operation, key) for operation, key in loose.requests if key.endswith("/manifest.json")]
    assert [operation for operation, _ in keys] == ["get", "get", "put", "get"], keys
    assert run("save", small, url, "--step", 1, environment=environment).code == 5
    assert run("save", small, url, "--step", 2, "--quiet", environment=environment).err == ""
    assert run("load", url, tmp_path / "back", environment=environment).code == 0
    assert tree(tmp_path / "back") == tree(small)


def test_a_save_says_nothing_where_it_is_honoured(bucket, small):
    proxy = Proxy(os.environ["CLEAT_TEST_ENDPOINT"])
    result = run("save", small, bucket.url, "--step", 1, environment=dict(bucket.environment,
                                                                          AWS_ENDPOINT_URL=proxy.url))
    assert result.code == 0 and result.err == "", result
    # The claim, the record in its place, and the one that must be refused.
    assert [request.status for request in proxy.requests if request.kind == "record"] == [200, 200, 412], proxy.requests
    assert proxy.count("manifest") == 1
    proxy.close()


# ---- Places that are wrong -----------------------------------------------------------------------------------------

def skipped_all(checks, *names):
    return all(checks[name]["result"] == "skipped" for name in names)


def test_a_bucket_that_is_not_there(bucket):
    checks = doctor("s3://no-such-%s/run" % uuid.uuid4().hex[:12], bucket.environment, code=1)
    assert wrong(checks) == {"access": "failed"} and "NoSuchBucket" in checks["access"]["seen"]
    assert skipped_all(checks, "put", "multipart", "delete") and checks["reach"]["result"] == "ok"


@pytest.mark.parametrize("change, words", [({"AWS_SECRET_ACCESS_KEY": SECRET}, "SignatureDoesNotMatch"),
                                           ({"AWS_ACCESS_KEY_ID": "AKIDUNKNOWN"}, "InvalidAccessKeyId")])
def test_wrong_keys(bucket, change, words):
    checks = doctor(bucket.url, dict(bucket.environment, **change), code=1)
    assert wrong(checks) == {"access": "failed"} and words in checks["access"]["seen"]
    assert "environment" in checks["access"]["hint"] and skipped_all(checks, "put", "delete")


def test_no_keys(bucket, tmp_path):
    environment = {name: value for name, value in bucket.environment.items()
                   if name not in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")}
    environment.update(AWS_EC2_METADATA_DISABLED="true", HOME=str(tmp_path))
    checks = doctor(bucket.url, environment, code=1)
    assert wrong(checks) == {"keys": "failed"} and "no S3 keys" in checks["keys"]["seen"]
    assert "AWS_ACCESS_KEY_ID" in checks["keys"]["hint"] and skipped_all(checks, "reach", "access", "put")


def test_nobody_there(bucket):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        endpoint = "http://127.0.0.1:%d" % closed.getsockname()[1]
    environment = dict(bucket.environment, AWS_ENDPOINT_URL=endpoint)
    checks = doctor(bucket.url, environment, "--time-limit", "2", code=1)
    assert wrong(checks) == {"reach": "failed"} and endpoint in checks["reach"]["hint"]
    assert checks["keys"]["result"] == "ok" and skipped_all(checks, "clock", "access", "put")
    result = run("doctor", bucket.url, "--time-limit", "2", environment=environment)
    assert result.code == 1 and result.out.endswith("Do not save here.\n"), result


def test_a_silent_server_ends_in_bounded_time(bucket):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        environment = dict(bucket.environment, AWS_ENDPOINT_URL="http://127.0.0.1:%d" % silent.getsockname()[1])
        checks = doctor(bucket.url, environment, "--time-limit", "3", code=1, timeout=60)
    assert wrong(checks) == {"reach": "failed"} and "no answer in time" in checks["reach"]["seen"]


def test_a_folder_that_may_not_be_written(folder):
    folder.path.mkdir(mode=0o555)
    checks = doctor(folder.url, folder.environment, code=1, preexec_fn=without_capabilities)
    assert "put" in wrong(checks) and "Permission denied" in checks["put"]["seen"]
    assert checks["access"]["result"] == "ok" and skipped_all(checks, "get", "multipart", "create-only", "delete")
    assert folder.keys() == []


def test_wrong_usage():
    assert_error(run("doctor"), 2, "needs the store's URL")
    assert_error(run("doctor", "s3://x"), 2, "3 to 63")


# ---- Cut short ----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("kind, number", [("file", 1), ("file", 5), ("get", 3), ("create", 1), ("part", 1), ("part", 3),
                                          ("complete", 1), ("create", 2), ("abort", 1), ("delete", 1)])
def test_ctrl_c_leaves_nothing(bucket, kind, number):
    process = []

    def interrupt(request):
        if request.kind == kind and request.number == number:
            process[0].send_signal(signal.SIGINT)

    proxy = Proxy(os.environ["CLEAT_TEST_ENDPOINT"])
    proxy.before = interrupt
    held = proxy.lock.acquire()  # no request passes before the process is known
    process.append(subprocess.Popen([CLEAT, "doctor", bucket.url], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, env=dict(bucket.environment, AWS_ENDPOINT_URL=proxy.url)))
    assert held
    proxy.lock.release()
    out, err = process[0].communicate(timeout=60)
    proxy.settle()
    keys = proxy.upload_keys()
    proxy.close()
    # The last check may have ended before the signal was seen.
    assert process[0].returncode == 130 or kind == "delete", (out, err)
    assert process[0].returncode != 130 or out == b"", out
    assert bucket.keys() == [] and unfinished_uploads(bucket, keys) == [], (out, err)


def test_what_fails_on_the_way_is_cleaned_up(bucket):
    """Completes never get through: everything else is tried all the same, and nothing stays."""
    proxy = Proxy(os.environ["CLEAT_TEST_ENDPOINT"], before=lambda request: request.kind != "complete")
    checks = doctor(bucket.url, dict(bucket.environment, AWS_ENDPOINT_URL=proxy.url), "--time-limit", "2", code=1)
    proxy.settle()
    assert wrong(checks) == {"multipart": "failed"} and blocking(checks) == {"multipart"}
    assert checks["clean-up"]["result"] == "ok" and checks["delete"]["result"] == "ok"
    assert bucket.keys() == [] and unfinished_uploads(bucket, proxy.upload_keys()) == []
    proxy.close()


# ---- Secrets -------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("loose", [{"deny": {"abort", "list", "delete"}}], indirect=True)
def test_no_secret_is_said(loose, bucket):
    places = [(loose_environment(loose, AWS_SESSION_TOKEN=SECRET + "T"), "s3://bucket/run", SECRET),
              (dict(bucket.environment, AWS_SECRET_ACCESS_KEY=SECRET), bucket.url, SECRET),
              (bucket.environment, bucket.url, bucket.environment["AWS_SECRET_ACCESS_KEY"])]
    for environment, url, secret in places:
        for more in ([], ["--json"]):
            result = run("doctor", url, "-vv", *more, environment=environment)
            assert secret not in result.out + result.err, result
