"""The options of s3:// buckets on a real server: a MinIO for this test, with TLS by a private CA, a KMS key, and
virtual-host names. boto3 reads what the server stores."""

import base64
import hashlib
import os
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request

import boto3
import botocore.config
import botocore.exceptions
import pytest

from helpers import ROOT, assert_error, clean_environment, fill, noise, run, tree
from signing import SigningProxy

KEY = bytes(range(7, 39))
KEY_TEXT = base64.b64encode(KEY).decode()
KMS_KEY = "cleat-test-key"
LARGE = (5 << 20) + 17  # two parts of 5 MiB
START_S_MAX = 30


def make_certificate(folder):
    folder.mkdir(parents=True)
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=cleat test",
                    "-addext", "subjectAltName=IP:127.0.0.1,DNS:options.localhost",
                    "-keyout", folder / "private.key", "-out", folder / "public.crt"],
                   check=True, stderr=subprocess.DEVNULL)
    return folder / "public.crt"


def is_ready(port, ca):
    try:
        context = ssl.create_default_context(cafile=ca)
        with urllib.request.urlopen("https://127.0.0.1:%d/minio/health/ready" % port, context=context, timeout=5):
            return True
    except (urllib.error.URLError, OSError):
        return False


class Server:
    """A MinIO with TLS and a KMS key."""

    def __init__(self, folder):
        self.ca = make_certificate(folder / "certs")
        with socket.socket() as one, socket.socket() as two:
            one.bind(("127.0.0.1", 0))
            two.bind(("127.0.0.1", 0))
            self.port, console = one.getsockname()[1], two.getsockname()[1]
        program = subprocess.run([ROOT / "tests/tools/minio.sh", "install"], check=True, stdout=subprocess.PIPE,
                                 text=True).stdout.strip()
        environment = dict(os.environ, HOME=str(folder), MINIO_ROOT_USER="cleat-user",
                           MINIO_ROOT_PASSWORD="cleat-secret", MINIO_BROWSER="off", MINIO_UPDATE="off",
                           MINIO_DOMAIN="localhost",
                           MINIO_KMS_SECRET_KEY="%s:%s" % (KMS_KEY, base64.b64encode(bytes(32)).decode()))
        with open(folder / "log", "wb") as log:
            self.process = subprocess.Popen(
                [program, "server", "--quiet", "--certs-dir", folder / "certs", "--address", "127.0.0.1:%d" % self.port,
                 "--console-address", "127.0.0.1:%d" % console, folder / "data"],
                env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        end = time.monotonic() + START_S_MAX
        while not is_ready(self.port, self.ca):
            assert self.process.poll() is None and time.monotonic() < end, (folder / "log").read_text()
            time.sleep(0.1)
        self.proxy = SigningProxy("https://127.0.0.1:%d" % self.port, "cleat-secret", folder / "signatures",
                                  (self.ca, folder / "certs" / "private.key", self.ca))
        self.endpoint, self.port = self.proxy.endpoint, self.proxy.port
        self.client = boto3.client("s3", endpoint_url=self.endpoint, verify=str(self.ca), region_name="us-east-1",
                                   aws_access_key_id="cleat-user", aws_secret_access_key="cleat-secret",
                                   config=botocore.config.Config(s3={"addressing_style": "path"}))
        self.client.create_bucket(Bucket="options")
        self.environment = dict(clean_environment(), AWS_ENDPOINT_URL=self.endpoint, AWS_CA_BUNDLE=str(self.ca),
                                AWS_ACCESS_KEY_ID="cleat-user", AWS_SECRET_ACCESS_KEY="cleat-secret",
                                AWS_REGION="us-east-1")

    def stop(self):
        self.process.terminate()
        self.process.wait()
        self.proxy.stop()

    def heads(self, prefix, **more):
        """Every object below the prefix, as HEAD tells it, by key."""
        entries = self.client.list_objects_v2(Bucket="options", Prefix=prefix + "/")["Contents"]
        return {entry["Key"]: self.client.head_object(Bucket="options", Key=entry["Key"], **more) for entry in entries}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("minio-tls"))
    yield server
    server.stop()


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return fill(tmp_path_factory.mktemp("source"), {"small.bin": noise(70000), "large.bin": noise(LARGE), "empty": b""})


def round_trip(server, source, tmp_path, query, environment=None):
    """Saves and loads; returns the prefix, which no other test uses."""
    environment = dict(server.environment, **(environment or {}))
    tmp_path.mkdir(exist_ok=True)
    prefix = hashlib.sha256(str(tmp_path).encode()).hexdigest()[:12]
    url = "s3://options/%s?%s" % (prefix, query)
    saved = run("save", source, url, "--step", 3, "--part-size", "5M", environment=environment)
    assert saved.code == 0 and saved.err == "", saved
    loaded = run("load", url, tmp_path / "back", environment=environment)
    assert loaded.code == 0, loaded
    assert tree(tmp_path / "back") == tree(source)
    assert run("verify", url, environment=environment).code == 0
    return prefix


def crc64nvme(data):
    """The definition, a byte at a time, from no library."""
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x9A6C9329AC4BC9B5 if byte & 1 else 0)
        table.append(byte)
    crc = 2**64 - 1
    for byte in data:
        crc = crc >> 8 ^ table[(crc ^ byte) & 255]
    return base64.b64encode((crc ^ 2**64 - 1).to_bytes(8, "big")).decode()


def test_tags(server, source, tmp_path):
    prefix = round_trip(server, source, tmp_path, "tags=team%3Dml%26run%20no%3Da%2520b%253D%252B1")
    for key in server.heads(prefix):
        tags = server.client.get_object_tagging(Bucket="options", Key=key)["TagSet"]
        assert {tag["Key"]: tag["Value"] for tag in tags} == {"team": "ml", "run no": "a b=+1"}, key


def test_storage_class(server, source, tmp_path):
    prefix = round_trip(server, source, tmp_path, "storage_class=REDUCED_REDUNDANCY")
    assert {head.get("StorageClass") for head in server.heads(prefix).values()} == {"REDUCED_REDUNDANCY"}


def test_storage_class_that_the_server_lacks(server, source):
    result = run("save", source, "s3://options/class?storage_class=ONEZONE_IA", "--step", 1,
                 environment=server.environment)
    assert_error(result, 1, "InvalidStorageClass")


@pytest.mark.parametrize("query, sse, key", [
    ("sse=AES256", "AES256", None),
    ("sse=aws:kms", "aws:kms", KMS_KEY),
    ("sse=aws:kms&sse-kms-key-id=%s&sse-bucket-key=true" % KMS_KEY, "aws:kms", KMS_KEY)])
def test_encryption_by_the_server(server, source, tmp_path, query, sse, key):
    prefix = round_trip(server, source, tmp_path, query)
    for name, head in server.heads(prefix).items():
        assert head["ServerSideEncryption"] == sse, name
        assert key is None or head["SSEKMSKeyId"].endswith(key), name


def test_a_kms_key_that_is_not_there(server, source):
    result = run("save", source, "s3://options/nokey?sse=aws:kms&sse_kms_key_id=nobody", "--step", 1,
                 environment=server.environment)
    lines = assert_error(result, 1, "kms:KeyNotFound")
    assert "sse_kms_key_id" in lines[1], result


def test_encryption_by_the_customers_key(server, source, tmp_path):
    prefix = round_trip(server, source, tmp_path, "payload=auto", {"CLEAT_SSE_C_KEY": KEY_TEXT})
    assert prefix in {key.split("/")[0] for key in server.heads(prefix, SSECustomerAlgorithm="AES256",
                                                                SSECustomerKey=KEY)}
    key = next(key for key in server.heads(prefix, SSECustomerAlgorithm="AES256", SSECustomerKey=KEY)
               if key.endswith("large.bin"))
    got = server.client.get_object(Bucket="options", Key=key, SSECustomerAlgorithm="AES256", SSECustomerKey=KEY)
    assert got["Body"].read() == noise(LARGE)
    with pytest.raises(botocore.exceptions.ClientError):
        server.client.head_object(Bucket="options", Key=key)
    # Without the key, and with another one, nothing is read; with it in a file, all is.
    url = "s3://options/%s" % prefix
    assert run("load", url, tmp_path / "none", environment=server.environment).code == 1
    other = dict(server.environment, CLEAT_SSE_C_KEY=base64.b64encode(bytes(32)).decode())
    result = run("load", url, tmp_path / "other", environment=other)
    assert result.code == 1 and not (tmp_path / "other").exists(), result
    (tmp_path / "key").write_bytes(KEY)
    result = run("load", "%s?sse_c_key_file=%s" % (url, tmp_path / "key"), tmp_path / "again",
                 environment=server.environment)
    assert result.code == 0 and tree(tmp_path / "again") == tree(source), result


def test_the_customers_key_is_told_nowhere(server, source):
    environment = dict(server.environment, CLEAT_SSE_C_KEY=KEY_TEXT)
    result = run("save", source, "s3://no-such-bucket-here/x", "--step", 1, "-vv", environment=environment)
    assert result.code == 1 and KEY_TEXT[:8] not in result.err + result.out, result
    result = run("save", source, "s3://options/x?sse-c-key=" + KEY_TEXT, "--step", 1, environment=server.environment)
    assert_error(result, 2, "must not be in a URL")
    assert KEY_TEXT[:8] not in result.err, result


@pytest.mark.parametrize("payload", ["auto", "always", "never"])
@pytest.mark.parametrize("checksum, name", [("crc32c", "ChecksumCRC32C"), ("crc64nvme", "ChecksumCRC64NVME"),
                                            ("off", None)])
def test_checksums_and_payload_signing(server, source, tmp_path, payload, checksum, name):
    prefix = round_trip(server, source, tmp_path, "payload=%s&checksum=%s" % (payload, checksum))
    for key, head in server.heads(prefix, ChecksumMode="ENABLED").items():
        # MinIO makes a CRC-64/NVME of its own where a body comes without a checksum.
        assert name is None or name in head, (key, head)
        if checksum == "crc64nvme" and key.endswith("large.bin"):
            assert head["ChecksumType"] == "FULL_OBJECT"
            assert head[name] == crc64nvme(noise(LARGE))


def test_what_other_accounts_need_is_sent(server, source, tmp_path):
    round_trip(server, source, tmp_path, "request_payer=requester&bucket_owner=123456789012&user_agent=trainer/7%20(x)")


def test_addressing(server, source, tmp_path):
    """The certificate names the address, and the bucket before localhost, but not localhost alone."""
    round_trip(server, source, tmp_path / "virtual", "style=virtual&endpoint=https://localhost:%d" % server.port)
    round_trip(server, source, tmp_path / "path", "style=path")
    result = run("ls", "s3://options/x?style=path&endpoint=https://localhost:%d" % server.port,
                 environment=server.environment)
    assert_error(result, 1, "localhost")


@pytest.mark.parametrize("query, word", [("sse=none", "AES256, aws:kms"), ("storage_class=GLACIER", "STANDARD_IA"),
                                         ("tags=a", "key=value"), ("bucket_owner=me", "12 digits"),
                                         ("request_payer=me", "requester"), ("payload=maybe", "auto, always"),
                                         ("checksum=md5", "crc64nvme"),
                                         ("sse_c_key_file=/no/such/file", "/no/such/file"),
                                         ("colour=red", "unknown option")])
def test_bad_values_are_told_before_anything_is_sent(source, query, word):
    result = run("save", source, "s3://bucket/x?" + query, "--step", 1,
                 environment=dict(clean_environment(), AWS_ENDPOINT_URL="http://127.0.0.1:1"))
    assert_error(result, 2, word)
