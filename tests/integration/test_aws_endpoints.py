"""Requests go to the same URLs as those of botocore, for AWS regions, FIPS, dual-stack, and buckets of all names.

AWS is not contacted. A proxy ends each tunnel in itself, with a certificate for all hosts that botocore names. It
records the request and refuses it. botocore is stopped before it sends.
"""

import contextlib
import itertools
import os
import socket
import ssl
import subprocess
import sys
import threading
from unittest import mock
from urllib.parse import urlsplit

import botocore.exceptions
import botocore.parsers
import botocore.session
import pytest
from botocore.awsrequest import AWSResponse
from botocore.handlers import validate_bucket_name
from botocore.loaders import Loader

from helpers import ROOT, assert_error, fill, noise, run, tree
from loose_s3 import LooseS3
from signing import SigningProxy

sys.path.insert(0, str(ROOT / "tests" / "tools"))
from signature import Head, judge  # noqa: E402

SECONDS_MAX = 60
HEAD_MAX = 65536
SECRET = "the-secret"
KEYS = {"AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": SECRET}
OWN = "https://own.example.com"
ALIAS = "name-hrzrlukc5m36ft7okagglf3gmwluquse1b-s3alias"
BUCKETS = ("bucket", "my.bucket", ALIAS)
# Of each partition, one that no table has, and the two forms of asking for FIPS by the region.
REGIONS = ("us-east-1", "eu-west-1", "cn-north-1", "us-gov-west-1", "us-iso-east-1", "us-isob-east-1", "eu-isoe-west-1",
           "us-isof-south-1", "eusc-de-east-1", "mars-1", "fips-us-gov-west-1", "us-east-1-fips")
VARIANTS = [{}, {"AWS_USE_FIPS_ENDPOINT": "true"}, {"AWS_USE_DUALSTACK_ENDPOINT": "True"},
            {"AWS_USE_FIPS_ENDPOINT": "TRUE", "AWS_USE_DUALSTACK_ENDPOINT": "true"},
            {"AWS_USE_FIPS_ENDPOINT": "maybe", "AWS_USE_DUALSTACK_ENDPOINT": "1"}]
OWN_BUCKETS = ("bucket", "my.bucket", "My_Bucket", "UPPER", "tenant:bucket", "_b", "a..b")
PROFILES = {
    "fips": "use_fips_endpoint = true\n",
    "dualstack": "use_dualstack_endpoint = True\n",
    "both": "use_fips_endpoint = TRUE\nuse_dualstack_endpoint = true\n",
    "old": "s3 =\n  use_dualstack_endpoint = true\n",
    "bad": "use_fips_endpoint = maybe\nuse_dualstack_endpoint = 1\n",
    "path": "use_fips_endpoint = true\ns3 =\n  addressing_style = path\n",
    "virtual": "s3 =\n  addressing_style = virtual\n",
}
ROLE = ("[profile base]\naws_access_key_id = AKID\naws_secret_access_key = %s\n"
        "[profile role]\nrole_arn = arn:aws:iam::123456789012:role/any\nsource_profile = base\n" % SECRET)


# ---- botocore -------------------------------------------------------------------------------------------------------

LOADER = Loader()


class Refused(Exception):
    """botocore says that there is no such endpoint."""


def botocore_urls(service, region, environment, operation, calls, endpoint=None):
    """Where botocore would send each call, without the query."""
    urls = []

    def stop(request, **_):
        urls.append(request.url.partition("?")[0].rstrip("/"))
        return AWSResponse(request.url, 200, {}, mock.Mock(stream=lambda **_: iter(())))

    environment = {"AWS_SHARED_CREDENTIALS_FILE": "/dev/null", "AWS_CONFIG_FILE": "/dev/null",
                   "AWS_S3_US_EAST_1_REGIONAL_ENDPOINT": "regional", **KEYS, **environment}
    with mock.patch.dict(os.environ, environment, clear=True):
        session = botocore.session.Session()
        session.register_component("data_loader", LOADER)
        try:
            client = session.create_client(service, region_name=region, endpoint_url=endpoint)
            # A rule of its own, which other stores do not have.
            client.meta.events.unregister("before-parameter-build.s3", validate_bucket_name)
            client.meta.events.register("before-send.*", stop)
            for call in calls:
                with contextlib.suppress(botocore.parsers.ResponseParserError):  # the reply is empty
                    getattr(client, operation)(**call)
        except (botocore.exceptions.EndpointVariantError, botocore.exceptions.EndpointResolutionError) as refused:
            raise Refused from refused
    return urls


def s3_urls(region, buckets, environment, endpoint=None):
    """None in place of each where there is no such endpoint."""
    try:
        return botocore_urls("s3", region, environment, "list_objects_v2", [{"Bucket": name} for name in buckets],
                             endpoint)
    except Refused:
        return [None] * len(buckets)


def sts_url(region, environment):
    call = {"RoleArn": "arn:aws:iam::123456789012:role/any", "RoleSessionName": "session"}
    try:
        return botocore_urls("sts", region, environment, "assume_role", [call])[0]
    except Refused:
        return None


# ---- Cleat ----------------------------------------------------------------------------------------------------------

class Tunnels:
    """Ends every tunnel in itself; `heads` has what came through, a request each."""

    def __init__(self, folder, hosts):
        names = ",".join("DNS:" + host for host in sorted(hosts))
        self.certificate, key = folder / "public.crt", folder / "private.key"
        subprocess.run([
            "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
            "-subj", "/CN=cleat test", "-addext", "subjectAltName=" + names, "-keyout", key, "-out", self.certificate
        ], check=True, capture_output=True)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(self.certificate, key)
        self.heads, self.hosts = [], []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.thread = threading.Thread(target=self.accept)
        self.thread.start()

    def accept(self):
        while True:
            connection, _ = self.listener.accept()
            connection.settimeout(SECONDS_MAX)
            with connection:
                try:
                    if not self.serve(connection):
                        return
                except (OSError, ValueError) as problem:  # the test sees that a request is missing
                    print("tunnel:", problem)

    @staticmethod
    def read_head(connection):
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            byte = connection.recv(1)
            if not byte or len(head) > HEAD_MAX:
                return head
            head += byte
        return head

    def serve(self, connection):
        """False: it was not Cleat, but close()."""
        line = self.read_head(connection).split(b" ")
        if line[0] != b"CONNECT":
            return False
        self.hosts.append(line[1].decode())
        connection.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
        with self.context.wrap_socket(connection, server_side=True) as inside:
            head = Head(self.read_head(inside))
            inside.recv(head.length)
            self.heads.append(head)
            body = b"<Error><Code>AccessDenied</Code><Message>told to</Message></Error>"
            inside.sendall(b"HTTP/1.1 403 Forbidden\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body) +
                           body)
        return True

    def close(self):
        socket.create_connection(self.listener.getsockname()).close()
        self.thread.join(SECONDS_MAX)
        self.listener.close()

    def url(self, *arguments, **environment):
        """Where one run of Cleat sends its first request, which is signed as it must be; None: it refuses before."""
        self.heads.clear()
        self.hosts.clear()
        result = run(*arguments, environment={
            "PATH": os.environ["PATH"], "AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
            "AWS_EC2_METADATA_DISABLED": "true", "AWS_CA_BUNDLE": str(self.certificate),
            "HTTPS_PROXY": "http://127.0.0.1:%d" % self.listener.getsockname()[1],
            **{name: value for name, value in os.environ.items() if name.endswith("SAN_OPTIONS")}, **environment})
        if not self.heads:
            assert result.code == 2 and not self.hosts, (result, self.hosts)
            assert "AWS has no" in result.err, result
            return None
        head = self.heads[0]
        body = None if head.get("x-amz-content-sha256") else ""
        assert self.hosts[0] == head.get("host") + ":443"
        verdict = judge(head, [SECRET], body)
        assert not verdict.problems and not verdict.must_be_refused, (result, verdict.problems)
        self.region = verdict.region
        return ("https://%s%s" % (head.get("host"), head.path)).rstrip("/")


@pytest.fixture(scope="module")
def tunnels(tmp_path_factory):
    """For every host that any of these tests may ask for."""
    hosts = {urlsplit(OWN).hostname, "bucket." + urlsplit(OWN).hostname}
    for region, environment in itertools.product(REGIONS, VARIANTS):
        urls = s3_urls(region, BUCKETS, environment) + [sts_url(region, environment)]
        hosts |= {urlsplit(url).hostname for url in urls if url}
    tunnels = Tunnels(tmp_path_factory.mktemp("tunnels"), hosts)
    yield tunnels
    tunnels.close()


# ---- The tests ------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("region", REGIONS)
def test_s3_of_aws(tunnels, region):
    for environment in VARIANTS:
        for bucket, expected in zip(BUCKETS, s3_urls(region, BUCKETS, environment), strict=True):
            got = tunnels.url("ls", "s3://%s/run" % bucket, AWS_REGION=region, **KEYS, **environment)
            assert got == expected, (bucket, environment)
            assert not got or tunnels.region == region.replace("fips-", "").replace("-fips", "")


@pytest.mark.parametrize("region", REGIONS)
def test_sts_of_aws(tunnels, region, tmp_path):
    """The store has an endpoint of its own, so that S3 refuses nothing before."""
    (tmp_path / "config").write_text(ROLE)
    for environment in VARIANTS:
        got = tunnels.url("ls", "s3://bucket/run?profile=role&endpoint=" + OWN, AWS_REGION=region,
                          AWS_CONFIG_FILE=str(tmp_path / "config"), **environment)
        assert got == sts_url(region, environment), environment


@pytest.mark.parametrize("profile", PROFILES)
def test_profiles(tunnels, profile, tmp_path):
    (tmp_path / "config").write_text("[default]\nregion = eu-west-1\n" + PROFILES[profile])
    settings = {"AWS_CONFIG_FILE": str(tmp_path / "config")}
    for environment in [{}, {"AWS_USE_FIPS_ENDPOINT": "false"}, {"AWS_USE_DUALSTACK_ENDPOINT": "false"}]:
        for bucket, expected in zip(BUCKETS, s3_urls("eu-west-1", BUCKETS, {**settings, **environment}), strict=True):
            got = tunnels.url("ls", "s3://%s/run" % bucket, **KEYS, **settings, **environment)
            assert got == expected and got, (bucket, environment)


@pytest.mark.parametrize("style", ["auto", "path", "virtual"])
def test_endpoints_of_ones_own(tunnels, style, tmp_path):
    """FIPS and dual-stack mean nothing there, and buckets may have names that AWS does not allow."""
    (tmp_path / "config").write_text("[default]\nregion = mars-1\ns3 =\n  addressing_style = %s\n" % style)
    settings = {"AWS_CONFIG_FILE": str(tmp_path / "config"), "AWS_USE_FIPS_ENDPOINT": "true",
                "AWS_USE_DUALSTACK_ENDPOINT": "true"}
    for path in ("", "/base/path"):
        for bucket, expected in zip(OWN_BUCKETS, s3_urls("mars-1", OWN_BUCKETS, settings, OWN + path), strict=True):
            got = tunnels.url("ls", "s3://%s/run" % bucket, AWS_ENDPOINT_URL_S3=OWN + path, **KEYS, **settings)
            assert got == expected and got, bucket


@pytest.fixture
def loose():
    store = LooseS3()
    yield store
    store.close()


@pytest.mark.parametrize("name", ["tenant:bucket", "My_Bucket", "my.bucket", ":bucket"])
def test_a_save_into_a_bucket_of_another_name(loose, name, tmp_path, monkeypatch):
    """Every request of it is verified by botocore's signer, by its own encoding of the path."""
    monkeypatch.delenv("CLEAT_TEST_SIGNATURES", raising=False)
    proxy = SigningProxy(loose.url, SECRET, tmp_path / "signatures")
    environment = {"PATH": os.environ["PATH"], "AWS_CONFIG_FILE": "/dev/null", "AWS_REGION": "mars-1",
                   "AWS_ENDPOINT_URL": proxy.endpoint, **KEYS}
    names = {"large.bin": noise((5 << 20) + 1), "a:b c": b"1"}
    source, back, url = fill(tmp_path / "in", names), tmp_path / "back", "s3://%s/run" % name
    try:
        for command in (["save", source, url, "--step", 1, "--part-size", "5M"], ["ls", url], ["verify", url],
                        ["load", url, back]):
            result = run(*command, environment=environment)
            assert result.code == 0, result
    finally:
        status, text = proxy.report()
    assert status == 0, text
    assert tree(back) == names
    assert {key.partition("/")[0] for key in loose.objects} == {"run"}


@pytest.mark.parametrize("url, words", [
    ("s3://My_Bucket/run", "at AWS a bucket's name has only a-z"),
    ("s3://tenant:bucket/run", "at AWS a bucket's name has only a-z"),
    ("s3://data--use1-az4--x-s3/run", "CreateSession"),
    ("s3://arn:aws:s3:eu-west-1:123456789012:accesspoint/name", "not supported")])
def test_what_is_refused_before_a_request(url, words):
    for command in (["ls", url], ["doctor", url]):
        result = run(*command, environment={"PATH": os.environ["PATH"], "AWS_CONFIG_FILE": "/dev/null", **KEYS,
                                            "HTTPS_PROXY": "http://127.0.0.1:1"})
        assert_error(result, 2, words)
