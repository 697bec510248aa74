"""Judges one request head as it was sent: is its Signature Version 4 the one that botocore computes?

botocore's signer makes the canonical request from the raw path and query, from the headers that the request lists as
signed, and from its payload hash. No code of Cleat is involved. It also checks rules that apply to every request to S3.
Pure except for the clock.
"""

import datetime
import hashlib
import hmac
import re
from urllib.parse import quote, unquote_to_bytes

from botocore.auth import S3SigV4Auth, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

UNSIGNED = "UNSIGNED-PAYLOAD"
EMPTY_SHA256 = hashlib.sha256(b"").hexdigest()
SKEW_S_MAX = 15 * 60  # AWS and MinIO refuse more
# Secrets that tests use to be refused. A request that is signed by one must be.
WRONG_SECRETS = ("this-is-not-the-secret", "wrong" * 4, "wJalrXUtnFEMI-K7MDENG-not-a-real-key")
AUTHORIZATION = re.compile(r"AWS4-HMAC-SHA256 Credential=([^/, ]+)/(\d{8})/([^/, ]+)/([^/, ]+)/aws4_request, "
                           r"SignedHeaders=([a-z0-9;-]+), Signature=([0-9a-f]{64})")


class Head:
    """A request line and its headers, undecoded."""

    def __init__(self, data):
        line, *lines = data.decode("latin-1").rstrip("\r\n").split("\r\n")
        self.line = line
        self.method, self.target, self.version = line.split(" ")
        self.path, _, self.query = self.target.partition("?")
        self.headers = [(name.strip().lower(), value.strip()) for name, _, value in
                        (line.partition(":") for line in lines)]

    def get(self, name):
        """The value, or None; a header that comes twice is a problem of its own."""
        return next((value for key, value in self.headers if key == name), None)

    @property
    def length(self):
        return int(self.get("content-length") or 0)


def canonical(text, safe):
    """Percent-encoded as S3 does: each byte but the unreserved ones, uppercase, once."""
    return quote(unquote_to_bytes(text), safe=safe)


def encoding_problems(head):
    if not head.path.startswith("/") or canonical(head.path, "/-._~") != head.path:
        yield "the path is not encoded as S3 does"
    for pair in filter(None, head.query.split("&")):
        key, _, value = pair.partition("=")
        if canonical(key, "-._~") != key or canonical(value, "-._~") != value:
            yield "the query is not encoded as S3 does: %s" % pair


def header_problems(head, signed):
    names = [name for name, _ in head.headers]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield "%s comes twice" % name
    if signed != sorted(set(signed)):
        yield "the signed headers are not in order"
    for name in names:
        if (name == "host" or name.startswith("x-amz-")) and name not in signed:
            yield "%s is not signed" % name
    for name in signed:
        if name not in names:
            yield "%s is signed and not sent" % name
        if name in ("accept-encoding", "user-agent", "connection", "expect"):
            yield "%s is signed, which a proxy may change" % name
    if "transfer-encoding" in names:
        yield "transfer-encoding is sent"
    # Asked where an answer may have been lost, of a body that there is.
    if "expect" in names and (head.get("expect") != "100-continue" or head.length == 0):
        yield "expect is sent: %s, for %d bytes" % (head.get("expect"), head.length)
    if head.method in ("PUT", "POST") and not (head.get("content-length") or "").isdigit():
        yield "there is no content-length"
    if head.version != "HTTP/1.1" or "host" not in names:
        yield "it is not HTTP/1.1 with a host"


def seconds_off(date, now):
    """How far the request's clock is from ours; None when the date is none."""
    try:
        told = datetime.datetime.strptime(date, "%Y%m%dT%H%M%SZ").replace(tzinfo=datetime.timezone.utc)
    except ValueError:
        return None
    return abs((now - told).total_seconds())


def sign(head, secret, access_key, region, service, signed, payload_hash):
    """What botocore says that the signature is."""
    signer = (S3SigV4Auth if service == "s3" else SigV4Auth)(Credentials(access_key, secret), service, region)
    request = AWSRequest(method=head.method, url="http://%s%s" % (head.get("host"), head.target))
    for name, value in head.headers:
        if name in signed:
            request.headers.add_header(name, value)
    if "x-amz-content-sha256" not in signed:
        signer.payload = lambda _: payload_hash
    request.context["timestamp"] = head.get("x-amz-date")
    return signer.signature(signer.string_to_sign(request, signer.canonical_request(request)), request)


class Verdict:
    """problems: what is wrong, in words. must_be_refused: why the server must say no, or None."""

    def __init__(self):
        self.problems = []
        self.must_be_refused = None
        self.region = self.service = None


def judge(head, secrets, body_sha256=None, now=None):
    """`secrets`: all that may have signed it. `body_sha256`: of the whole body; needed where no header tells it."""
    verdict = Verdict()
    match = AUTHORIZATION.fullmatch(head.get("authorization") or "")
    if not match:
        verdict.problems.append("there is no Authorization of Signature Version 4")
        return verdict
    access_key, day, verdict.region, verdict.service, signed, signature = match.groups()
    signed = signed.split(";")
    date = head.get("x-amz-date") or ""
    payload_hash = head.get("x-amz-content-sha256")
    verdict.problems += [*encoding_problems(head), *header_problems(head, signed)]
    off = seconds_off(date, now or datetime.datetime.now(datetime.timezone.utc))
    if off is None or not date.startswith(day):
        verdict.problems.append("x-amz-date %s does not fit the scope %s" % (date, day))
    elif off > SKEW_S_MAX:
        verdict.must_be_refused = "the clock is off by %d s" % off
    if payload_hash is None and verdict.service == "s3":
        verdict.problems.append("x-amz-content-sha256 is missing")
    elif payload_hash is not None and payload_hash != UNSIGNED and not re.fullmatch("[0-9a-f]{64}", payload_hash):
        verdict.problems.append("x-amz-content-sha256 is no SHA-256")
    if verdict.problems:
        return verdict
    for secret in [*secrets, *WRONG_SECRETS]:
        expected = sign(head, secret, access_key, verdict.region, verdict.service, signed, payload_hash or body_sha256)
        if hmac.compare_digest(expected, signature):
            if secret in WRONG_SECRETS:
                verdict.must_be_refused = "the secret is wrong"
            return verdict
    verdict.problems.append("the signature is not botocore's")
    return verdict
