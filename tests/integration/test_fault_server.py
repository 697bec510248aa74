"""The scripted fault server works as an S3 server for other clients, and does what its scripts say."""

import time

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, ConnectionClosedError

from fault_matrix import FaultServer, Object, Script

PART = 5 << 20


@pytest.fixture
def server():
    server = FaultServer()
    yield server
    server.close()


@pytest.fixture
def client(server):
    client = boto3.client("s3", endpoint_url=server.url, region_name="us-east-1", aws_access_key_id="a",
                          aws_secret_access_key="s", config=Config(retries={"total_max_attempts": 1}))
    yield client
    client.close()


def test_another_client_can_use_it(server, client):
    client.put_object(Bucket="b", Key="x/1 +%", Body=b"0123456789")
    client.put_object(Bucket="b", Key="x/y/2", Body=b"")
    assert client.get_object(Bucket="b", Key="x/1 +%", Range="bytes=2-4")["Body"].read() == b"234"
    assert client.head_object(Bucket="b", Key="x/1 +%")["ContentLength"] == 10
    listed = client.list_objects_v2(Bucket="b", Prefix="x/", Delimiter="/")
    assert [entry["Key"] for entry in listed["Contents"]] == ["x/1 +%"]
    assert [entry["Prefix"] for entry in listed["CommonPrefixes"]] == ["x/y/"]
    pages = client.get_paginator("list_objects_v2").paginate(Bucket="b", PaginationConfig={"PageSize": 1})
    assert [entry["Key"] for page in pages for entry in page["Contents"]] == ["x/1 +%", "x/y/2"]
    client.delete_object(Bucket="b", Key="x/1 +%")
    assert list(server.store.objects) == ["x/y/2"]


def test_uploads_in_parts(server, client):
    upload = client.create_multipart_upload(Bucket="b", Key="k")["UploadId"]
    bodies = [b"a" * PART, b"b"]
    parts = [{"PartNumber": number, "ETag": client.upload_part(Bucket="b", Key="k", UploadId=upload, PartNumber=number,
                                                                Body=body)["ETag"]}
             for number, body in enumerate(bodies, 1)]
    assert [part["Size"] for part in client.list_parts(Bucket="b", Key="k", UploadId=upload)["Parts"]] == [PART, 1]
    client.complete_multipart_upload(Bucket="b", Key="k", UploadId=upload, MultipartUpload={"Parts": parts})
    assert server.store.objects["k"].body == b"".join(bodies) and server.store.uploads == {}
    other = client.create_multipart_upload(Bucket="b", Key="k")["UploadId"]
    client.abort_multipart_upload(Bucket="b", Key="k", UploadId=other)
    assert server.store.uploads == {}


def test_conditions(server, client):
    etag = client.put_object(Bucket="b", Key="k", Body=b"1", IfNoneMatch="*")["ETag"]
    for condition in ({"IfNoneMatch": "*"}, {"IfMatch": '"other"'}):
        with pytest.raises(ClientError, match="PreconditionFailed"):
            client.put_object(Bucket="b", Key="k", Body=b"2", **condition)
    client.put_object(Bucket="b", Key="k", Body=b"3", IfMatch=etag)
    server.store.preconditions = False
    client.put_object(Bucket="b", Key="k", Body=b"4", IfNoneMatch="*")
    assert server.store.objects["k"].body == b"4"


def test_what_is_refused(server, client):
    with pytest.raises(ClientError, match="BadDigest"):
        client.put_object(Bucket="b", Key="k", Body=b"1", ChecksumCRC32C="AAAAAA==")
    server.store.clock_s = 3600
    with pytest.raises(ClientError, match="RequestTimeTooSkewed"):
        client.put_object(Bucket="b", Key="k", Body=b"1")
    assert server.store.objects == {}
    server.store.clock_s, server.store.region = 0, "eu-north-7"
    client.put_object(Bucket="b", Key="k", Body=b"1")  # botocore follows the region that it is told
    assert [step for step, _ in server.seen[-2:]] == ["file", "file"] and list(server.store.objects) == ["k"]


def test_a_script_strikes_where_and_as_often_as_it_says(server, client):
    server.script = Script("file 2: slow-down twice", "file: lost-reply once")
    outcomes = []
    for number in range(5):
        try:
            client.put_object(Bucket="b", Key="k%d" % number, Body=b"1")
            outcomes.append("ok")
        except ClientError as problem:
            outcomes.append(problem.response["Error"]["Code"])
        except ConnectionClosedError:
            outcomes.append("lost")
    assert outcomes == ["lost", "SlowDown", "SlowDown", "ok", "ok"]
    assert sorted(server.store.objects) == ["k0", "k3", "k4"]


@pytest.mark.parametrize("line", ["file slow-down", "file: nonsense", "file: slow-down thrice", ""])
def test_scripts_that_are_none(line):
    with pytest.raises(ValueError, match="not a line of a script"):
        Script(line)


def test_flipped_bits(server, client):
    server.store.objects["k"] = Object(b"\0" * 9)
    server.script = Script("get-part: flip-reply once", "file: flip-request once")
    assert client.get_object(Bucket="b", Key="k")["Body"].read() == b"\0\0\0\0\1\0\0\0\0"
    with pytest.raises(ClientError, match="BadDigest"):
        client.put_object(Bucket="b", Key="f", Body=b"\0" * 9, ChecksumCRC32C=Object(b"\0" * 9).crc32c)
    assert client.get_object(Bucket="b", Key="k")["Body"].read() == b"\0" * 9


def test_a_silent_server_ends_with_its_client(server):
    """Nothing is left running when the client gives up."""
    server.script = Script("get-part: black-hole always")
    client = boto3.client("s3", endpoint_url=server.url, region_name="us-east-1", aws_access_key_id="a",
                          aws_secret_access_key="s", config=Config(retries={"total_max_attempts": 1}, read_timeout=1))
    with pytest.raises(Exception, match="Read timeout"):
        client.get_object(Bucket="b", Key="k")
    client.close()
    began = time.monotonic()
    server.settle()
    assert time.monotonic() - began < 30
