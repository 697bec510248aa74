"""The signer of botocore verifies every request of Cleat on its way (tools/signing_proxy.py). These tests show that the
proxy detects wrong requests. They also send the requests that other tests do not send: odd keys and queries, session
tokens, keys from STS."""

import hashlib
import http.client
import http.server
import os
import re
import threading
from datetime import datetime, timedelta, timezone

import boto3
import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from helpers import fill, noise, tree
from signing import SigningProxy

SECRET = "the-secret"
MIB = 1 << 20


# ---- The judge ------------------------------------------------------------------------------------------------------

class Anything(http.server.BaseHTTPRequestHandler):
    """A server that says yes to everything, as MinIO would not."""

    protocol_version = "HTTP/1.1"

    def handle_any(self):
        self.rfile.read(int(self.headers["Content-Length"] or 0))
        self.send_response(403 if "refuse" in self.path else 200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_PUT = do_POST = handle_any

    def log_message(self, *ignored):
        pass


@pytest.fixture
def judge(tmp_path, monkeypatch):
    """What is sent wrongly on purpose belongs to no report but the test's."""
    monkeypatch.delenv("CLEAT_TEST_SIGNATURES", raising=False)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Anything) as server:
        threading.Thread(target=server.serve_forever).start()
        proxy = SigningProxy("http://127.0.0.1:%d" % server.server_port, SECRET, tmp_path / "signatures")
        yield proxy
        proxy.report()
        server.shutdown()


class Sent:
    """A request as botocore signs it, to be spoilt before it is sent."""

    def __init__(self, judge, method="PUT", target="/bucket/a%20b%2Bc?prefix=%2B%20", body=b"12345", payload=None,
                 secret=SECRET, ago=0, more=()):
        self.method, self.target, self.body, self.port = method, target, body, judge.port
        timestamp = (datetime.now(timezone.utc) - timedelta(seconds=ago)).strftime("%Y%m%dT%H%M%SZ")
        request = AWSRequest(method, "http://127.0.0.1:%d%s" % (judge.port, target))
        self.headers = {"host": "127.0.0.1:%d" % judge.port, "x-amz-date": timestamp,
                        "x-amz-content-sha256": payload or hashlib.sha256(body).hexdigest(), **dict(more)}
        for name, value in self.headers.items():
            request.headers[name] = value
        request.context["timestamp"] = timestamp
        signer = S3SigV4Auth(Credentials("key", secret), "s3", "mars-1")
        signature = signer.signature(signer.string_to_sign(request, signer.canonical_request(request)), request)
        self.headers["authorization"] = "AWS4-HMAC-SHA256 Credential=%s, SignedHeaders=%s, Signature=%s" % (
            signer.scope(request), ";".join(sorted(name for name in self.headers)), signature)
        self.headers["user-agent"] = "cleat/0"
        if body:
            self.headers["content-length"] = str(len(body))

    def send(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.putrequest(self.method, self.target, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            connection.putheader(name, value)
        connection.endheaders(self.body)
        connection.getresponse().read()
        connection.close()


GOOD = [{}, {"method": "GET", "body": b"", "target": "/bucket?list-type=2&prefix=%C3%BC~%2A&delimiter=%2F"},
        {"payload": "UNSIGNED-PAYLOAD"}, {"body": b"x" * 3000000}, {"more": {"x-amz-meta-a": "1"}},
        {"ago": 3600, "target": "/refuse"}, {"secret": "wrong" * 4, "target": "/refuse"}]


def test_what_is_right_passes(judge):
    for more in GOOD:
        Sent(judge, **more).send()
    asking = Sent(judge)
    asking.headers["expect"] = "100-continue"
    asking.send()
    other = Sent(judge)
    other.headers.update({"user-agent": "Boto3/1", "authorization": "none"})
    other.send()
    status, text = judge.report()
    assert status == 0 and "ok - %d requests re-verified, 0 wrong" % (len(GOOD) + 1) in text, text
    assert "1 requests of other clients" in text, text


def spoil(name, value):
    def change(sent):
        if value is None:
            del sent.headers[name]
        else:
            sent.headers[name] = value(sent.headers.get(name)) if callable(value) else value
    return change


def other_target(target):
    def change(sent):
        sent.target = target
    return change


def other_body(sent):
    sent.body = b"12346"


WRONG = {
    "another signature": ({}, spoil("authorization", lambda was: was[:-4] + "0000"), "not botocore's"),
    "another secret": ({"secret": "other"}, None, "not botocore's"),
    "another path": ({}, other_target("/bucket/a%20b%2Bd?prefix=%2B%20"), "not botocore's"),
    "another query": ({}, other_target("/bucket/a%20b%2Bc?prefix=%2B%21"), "not botocore's"),
    "another value of a signed header": ({"more": {"x-amz-meta-a": "1"}}, spoil("x-amz-meta-a", "2"), "not botocore's"),
    "no signature": ({}, spoil("authorization", None), "no Authorization"),
    "header that is not signed": ({}, spoil("x-amz-meta-a", "1"), "x-amz-meta-a is not signed"),
    "host that is not signed": ({}, spoil("authorization", lambda was: was.replace("host;", "")), "host is not signed"),
    "signed header that is not sent": ({"more": {"x-amz-meta-a": "1"}}, spoil("x-amz-meta-a", None), "not sent"),
    "accept-encoding": ({"more": {"accept-encoding": "gzip"}}, None, "accept-encoding is signed"),
    "expectation without a body": ({"method": "GET", "body": b""}, spoil("expect", "100-continue"), "expect is sent"),
    "another expectation": ({}, spoil("expect", "200-ok"), "expect is sent"),
    "small letters in the path": ({"target": "/bucket/a%2b"}, None, "the path is not encoded"),
    "plus sign in the path": ({"target": "/bucket/a+b"}, None, "the path is not encoded"),
    "plus sign in the query": ({"target": "/bucket?prefix=a+b"}, None, "the query is not encoded"),
    "letters encoded": ({"target": "/bucket/%61"}, None, "the path is not encoded"),
    "clock": ({"ago": 1200}, None, "although the clock"),
    "wrong secret that is taken": ({"secret": "wrong" * 4}, None, "although the secret"),
    "another day": ({}, spoil("x-amz-date", lambda was: "2001" + was[4:]), "does not fit"),
    "no hash": ({}, spoil("x-amz-content-sha256", None), "missing"),
    "another body": ({}, other_body, "the body is not"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_found(judge, case):
    more, change, words = WRONG[case]
    Sent(judge).send()
    sent = Sent(judge, **more)
    if change:
        change(sent)
    sent.send()
    status, text = judge.report()
    lines = [line for line in text.splitlines() if line.startswith("not ok - signature: ")]
    assert status == 1 and len(lines) == 1 and sent.target in lines[0] and words in lines[0], text
    assert "2 requests re-verified, 1 wrong" in text and SECRET not in text, text


def test_nothing_verified_is_a_failure(judge):
    status, text = judge.report()
    assert status == 1 and "not ok - 0 requests re-verified, 0 wrong" in text


# ---- Odd keys and queries --------------------------------------------------------------------------------------------

ODD = [*" !\"#$%&'()*+,-.:;<=>@[]^_`{|}~", "a", "Z", "0", "%20", "%2F", "ü", "é", "世界", "😀", "+ +"]


def odd_name(rng):
    """Of one or several segments, none of which means anything to a file system."""
    segments = ["".join(rng.choices(ODD, k=rng.randint(1, 8))) for _ in range(rng.randint(1, 3))]
    return "/".join("x" + segment if segment.strip(". ") == "" else segment for segment in segments)


def test_odd_names_and_prefixes(bucket, tmp_path, rng):
    """Names of files and folders of the bucket that need encoding, in paths and in queries."""
    for number in range(10):
        sizes = [rng.choice([0, 1, 1000]) for _ in range(6)] + [5 * MIB + 1]
        names = {"%d%s" % (place, odd_name(rng)): noise(size, place) for place, size in enumerate(sizes)}
        source, back = fill(tmp_path / ("in-%d" % number), names), tmp_path / ("back-%d" % number)
        prefix = "run/%d%s" % (number, odd_name(rng))
        url = "s3://%s/%s" % (bucket.bucket, prefix)
        print(url, sorted(names))
        saved = bucket.cleat("save", source, url, "--step", 1, "--part-size", "5M")
        assert saved.code == 0, saved
        for command in (["ls", url], ["show", url], ["verify", url], ["load", url, back]):
            result = bucket.cleat(*command)
            assert result.code == 0, result
        assert tree(back) == names
        stored = {
            key[len(prefix) - len("run/") + 1:]
            for key in bucket.keys() if ("run/" + key).startswith(prefix + "/")
        }
        assert {re.sub("^step-0+1/[0-9a-f]+/", "", key) for key in stored} >= set(names), stored


# ---- Keys of a session -----------------------------------------------------------------------------------------------

def save_and_load(bucket, source, back):
    saved = bucket.cleat("save", source, bucket.url, "--step", 1, "--part-size", "5M")
    assert saved.code == 0, saved
    loaded = bucket.cleat("load", bucket.url, back)
    assert loaded.code == 0 and tree(back) == tree(source), loaded


@pytest.fixture
def source(tmp_path):
    return fill(tmp_path / "in", {"large.bin": noise(5 * MIB + 1), "small.bin": b"1"})


def test_a_session_token(bucket, source, tmp_path):
    keys = boto3.client("sts", endpoint_url=os.environ["CLEAT_TEST_ENDPOINT"],
                        region_name=os.environ["AWS_REGION"]).assume_role(RoleArn="arn:aws:iam::123456789012:role/any",
                                                                          RoleSessionName="test")["Credentials"]
    bucket.environment.update(AWS_ACCESS_KEY_ID=keys["AccessKeyId"], AWS_SECRET_ACCESS_KEY=keys["SecretAccessKey"],
                              AWS_SESSION_TOKEN=keys["SessionToken"])
    save_and_load(bucket, source, tmp_path / "back")
    bucket.environment["AWS_SESSION_TOKEN"] = "x" + keys["SessionToken"]
    result = bucket.cleat("ls", bucket.url, "--json")
    assert result.code == 1 and result.json["error"]["status"] == "DENIED", result


def test_keys_of_a_role(bucket, source, tmp_path):
    """Cleat asks MinIO's STS itself."""
    (tmp_path / "config").write_text(
        "[profile base]\naws_access_key_id = %s\naws_secret_access_key = %s\n"
        "[profile job]\nrole_arn = arn:aws:iam::123456789012:role/any\nsource_profile = base\n" % (
            bucket.environment.pop("AWS_ACCESS_KEY_ID"), bucket.environment.pop("AWS_SECRET_ACCESS_KEY")))
    bucket.environment.update(AWS_CONFIG_FILE=str(tmp_path / "config"), AWS_PROFILE="job",
                              AWS_ENDPOINT_URL_STS=os.environ["CLEAT_TEST_ENDPOINT"])
    save_and_load(bucket, source, tmp_path / "back")
