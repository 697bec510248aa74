"""What every server must do for Cleat, and how each one differs.

boto3 finds the differences without Cleat, as evidence for the table of docs/stores.md. If a server changes, these tests
fail first.
"""

import base64
import hashlib
import subprocess
import threading

import botocore.config
import botocore.exceptions
import google_crc32c
import pytest

from helpers import Meeting, CLEAT, ON_EVERY_SERVER, SECONDS_MAX, assert_error, fill, noise, tree
from proxy import Proxy

MIB = 1 << 20
LARGE = 5 * MIB + 17  # two parts of 5 MiB
SSE_C_KEY = base64.b64encode(bytes(range(32))).decode()


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return fill(tmp_path_factory.mktemp("source"), {"small.bin": noise(70000), "large.bin": noise(LARGE), "empty": b"",
                                                    "deep/er/größe+100% a&b=c;d.bin": noise(1000, 2)})


def refused(call, **arguments):
    """The code of the error that the server answers with."""
    with pytest.raises(botocore.exceptions.ClientError) as caught:
        call(**arguments)
    return caught.value.response["Error"]["Code"]


def crc32c(data):
    return base64.b64encode(google_crc32c.value(data).to_bytes(4, "big")).decode()


# ---- What Cleat rests on ---------------------------------------------------------------------------------------------

# versitygw refuses such a put before it has read the body, and closes the connection: over TLS that loses its answer to
# boto3, which does not try again what it takes for a wrong certificate. There test_store.c is the judge, through Cleat.
WHERE_BOTO3_HEARS_A_REFUSAL = pytest.mark.parametrize("server", ["minio-http", "minio-https", "versitygw-http"],
                                                      indirect=True)


@WHERE_BOTO3_HEARS_A_REFUSAL
def test_create_only_and_if_match_hold_one_after_another(bucket):
    put = dict(Bucket=bucket.bucket, Key="a/marker")
    first = bucket.client.put_object(Body=b"one", IfNoneMatch="*", **put)["ETag"]
    assert refused(bucket.client.put_object, Body=b"two", IfNoneMatch="*", **put) == "PreconditionFailed"
    bucket.client.put_object(Body=b"three", IfMatch=first, **put)
    assert refused(bucket.client.put_object, Body=b"four", IfMatch=first, **put) == "PreconditionFailed"
    assert bucket.client.get_object(**put)["Body"].read() == b"three"
    bucket.client.delete_object(**put)
    assert bucket.client.delete_object(**put)["ResponseMetadata"]["HTTPStatusCode"] == 204
    assert refused(bucket.client.put_object, Body=b"five", IfMatch=first, **put) in ("PreconditionFailed", "NoSuchKey")


def race(bucket, key, rounds, racers=8):
    """How many of `racers` creators of one key were told that they have won, in the round with the most."""
    clients = [bucket.server.client(config=botocore.config.Config(retries={"max_attempts": 1})) for _ in range(racers)]
    most = 0
    for number in range(rounds):
        barrier, won, told = threading.Barrier(racers), [], []

        def create(client, body):
            barrier.wait()
            try:
                client.put_object(Bucket=bucket.bucket, Key="run/%s-%d" % (key, number), Body=body, IfNoneMatch="*")
                won.append(body)
            except botocore.exceptions.ClientError as error:
                told.append(error.response["Error"]["Code"])

        threads = [
            threading.Thread(target=create, args=(client, b"%d" % place)) for place, client in enumerate(clients)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert set(told) <= {"PreconditionFailed", "ConditionalRequestConflict"
                             } and len(won) + len(told) == racers, told
        assert bucket.get("%s-%d" % (key, number)) in won
        most = max(most, len(won))
    print("at most %d of %d creators won in %d rounds" % (most, racers, rounds))
    return most


@WHERE_BOTO3_HEARS_A_REFUSAL
def test_creators_that_race(bucket):
    """MinIO decides under a lock. versitygw looks first and puts later: several may win, and the last one stands."""
    most = race(bucket, "race", 20)
    assert most == 1 if bucket.server.kind == "minio" else most >= 1


@ON_EVERY_SERVER
def test_checksums_are_checked_and_kept(bucket):
    whole, wrong = crc32c(b"123456789"), crc32c(b"12345678")
    put = dict(Bucket=bucket.bucket, Key="run/c", Body=b"123456789")
    assert refused(bucket.client.put_object, ChecksumCRC32C=wrong,
                   **put) in ("BadDigest", "XAmzContentChecksumMismatch")
    bucket.client.put_object(ChecksumCRC32C=whole, **put)
    head = bucket.client.head_object(Bucket=bucket.bucket, Key="run/c", ChecksumMode="ENABLED")
    assert head["ChecksumCRC32C"] == whole
    # S3 tells an MD5 in the ETag of an object that was put whole; nothing of Cleat rests on it.
    assert head["ETag"] == '"%s"' % hashlib.md5(put["Body"]).hexdigest()


@ON_EVERY_SERVER
def test_parts_keep_their_checksums(bucket):
    upload = dict(Bucket=bucket.bucket, Key="run/deep/parts")
    upload["UploadId"] = bucket.client.create_multipart_upload(ChecksumAlgorithm="CRC32C", **upload)["UploadId"]
    bodies = [noise(5 * MIB), noise(1000, 2)]
    assert refused(bucket.client.upload_part, PartNumber=1, Body=bodies[0], ChecksumCRC32C=crc32c(b"x"), **upload) \
        in ("BadDigest", "XAmzContentChecksumMismatch")
    etags = [bucket.client.upload_part(PartNumber=number + 1, Body=body, ChecksumCRC32C=crc32c(body), **upload)["ETag"]
             for number, body in enumerate(bodies)]
    parts = bucket.client.list_parts(**upload)["Parts"]
    assert [(part["PartNumber"], part["Size"], part["ETag"], part["ChecksumCRC32C"]) for part in parts] == \
        [(number + 1, len(body), etags[number], crc32c(body)) for number, body in enumerate(bodies)]
    # MinIO lists the uploads of one exact key alone, versitygw those below a prefix, as S3 does.
    below = bucket.client.list_multipart_uploads(Bucket=bucket.bucket, Prefix="run/").get("Uploads", [])
    exact = bucket.client.list_multipart_uploads(Bucket=bucket.bucket, Prefix=upload["Key"]).get("Uploads", [])
    assert [entry["UploadId"] for entry in exact] == [upload["UploadId"]]
    assert below == ([] if bucket.server.kind == "minio" else exact)
    bucket.client.complete_multipart_upload(MultipartUpload={"Parts": [
        {"PartNumber": number + 1, "ETag": etags[number], "ChecksumCRC32C": crc32c(body)}
        for number, body in enumerate(bodies)]}, **upload)
    head = bucket.client.head_object(Bucket=bucket.bucket, Key=upload["Key"], ChecksumMode="ENABLED")
    both = b"".join(google_crc32c.value(body).to_bytes(4, "big") for body in bodies)
    assert (head["ChecksumCRC32C"], head["ChecksumType"]) == (crc32c(both) + "-2", "COMPOSITE")


# ---- The options of buckets ------------------------------------------------------------------------------------------

def save_and_load(bucket, source, tmp_path, query):
    url = "%s?%s" % (bucket.url, query)
    result = bucket.cleat("save", source, url, "--step", 3, "--part-size", "5M")
    assert result.code == 0 and result.err == "", result
    result = bucket.cleat("load", url, tmp_path / "back")
    assert result.code == 0 and tree(tmp_path / "back") == tree(source), result
    assert bucket.cleat("verify", url).code == 0
    return {key: bucket.client.head_object(Bucket=bucket.bucket, Key="run/" + key, ChecksumMode="ENABLED")
            for key in bucket.keys()}


@ON_EVERY_SERVER
@pytest.mark.parametrize("payload", ["auto", "always", "never"])
@pytest.mark.parametrize("checksum, name", [("crc32c", "ChecksumCRC32C"), ("crc64nvme", "ChecksumCRC64NVME"),
                                            ("off", None)])
def test_checksums_and_payload_signing(bucket, source, tmp_path, payload, checksum, name):
    heads = save_and_load(bucket, source, tmp_path, "payload=%s&checksum=%s" % (payload, checksum))
    assert len(heads) == 6
    for key, head in heads.items():
        assert name is None or name in head, (key, head)


@ON_EVERY_SERVER
def test_tags(bucket, source, tmp_path):
    for key in save_and_load(bucket, source, tmp_path, "tags=team%3Dml%26run%20no%3D1"):
        tags = bucket.client.get_object_tagging(Bucket=bucket.bucket, Key="run/" + key)["TagSet"]
        assert {tag["Key"]: tag["Value"] for tag in tags} == {"team": "ml", "run no": "1"}, key


@ON_EVERY_SERVER
def test_storage_class(bucket, source, tmp_path):
    """versitygw has one class, and takes every other one for it without a word."""
    heads = save_and_load(bucket, source, tmp_path, "storage_class=REDUCED_REDUNDANCY")
    kept = {head.get("StorageClass") for head in heads.values()}
    assert kept == ({"REDUCED_REDUNDANCY"} if bucket.server.kind == "minio" else {"STANDARD"})


@ON_EVERY_SERVER
def test_encryption_that_a_server_does_not_have(bucket, source):
    """MinIO has no KMS here and says so. versitygw ignores the wish: Cleat notices, and takes the plain bytes away."""
    for name in ("small.bin", "large.bin"):
        result = bucket.cleat("save", source / name, bucket.url + "?sse=AES256", "--step", 3, "--part-size", "5M")
        if bucket.server.kind == "minio":
            assert_error(result, 1, "NotImplemented")
        else:
            lines = assert_error(result, 1, "did not encrypt")
            assert bucket.server.endpoint in lines[1], result
        assert bucket.keys() == []
        assert bucket.client.list_multipart_uploads(Bucket=bucket.bucket).get("Uploads", []) == []


@pytest.mark.parametrize("server", ["versitygw-https"], indirect=True)
def test_a_customers_key_that_is_ignored(bucket, source):
    bucket.environment["CLEAT_SSE_C_KEY"] = SSE_C_KEY
    for name in ("small.bin", "large.bin"):
        result = bucket.cleat("save", source / name, bucket.url, "--step", 3, "--part-size", "5M")
        assert_error(result, 1, "did not encrypt")
        assert bucket.keys() == [] and SSE_C_KEY[:8] not in result.err


@ON_EVERY_SERVER
def test_the_owner_that_is_expected(bucket, source, tmp_path):
    """MinIO takes any; versitygw compares it with the access key that made the bucket, which no 12 digits are."""
    result = bucket.cleat("save", source, bucket.url + "?bucket_owner=123456789012", "--step", 1)
    if bucket.server.kind == "minio":
        assert result.code == 0, result
    else:
        assert_error(result, 1, "AccessDenied")


# ---- Two writers -----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("server", ["versitygw-http"], indirect=True)
def test_two_writers_where_the_store_looks_before_it_puts(bucket, tmp_path):
    """One step, committed by two at the same time. Both may be told that they have; what stands is one of theirs,
    whole; and who is told that it lost has lost."""
    proxy = Proxy(bucket.server.endpoint)
    environment = dict(bucket.environment, AWS_ENDPOINT_URL=proxy.url)
    met, twice = 0, 0
    sources = [fill(tmp_path / name, {"large.bin": noise(LARGE, place + 5), name: b"mine"})
               for place, name in enumerate("ab")]
    for step in range(10):
        proxy.before = meeting = Meeting()
        processes = [subprocess.Popen([CLEAT, "save", source, bucket.url, "--step", str(step), "--part-size", "5M"],
                                      env=environment, stderr=subprocess.PIPE) for source in sources]
        ended = [(process.communicate(timeout=SECONDS_MAX)[1], process.returncode) for process in processes]
        codes = [code for _, code in ended]
        assert set(codes) <= {0, 5} and 0 in codes, ended
        met += meeting.met == 2
        twice += codes == [0, 0]
        assert bucket.cleat("verify", bucket.url, "--step", step).code == 0
        assert bucket.cleat("load", bucket.url, tmp_path / ("back%d" % step), "--step", step).code == 0
        stands = tree(tmp_path / ("back%d" % step))
        assert stands in [tree(source) for source, code in zip(sources, codes) if code == 0], codes
    proxy.close()
    print("met in %d of 10 rounds; both were told that they had committed in %d" % (met, twice))
    assert met > 0
