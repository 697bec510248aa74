"""Independent readers agree: Hugging Face's safetensors, boto3, and `s3` of libs3 read what Cleat stored.

google-crc32c and hashlib compute the checksums. Nothing here is read through Cleat.
"""

import base64
import hashlib
import json
import os
import struct
import subprocess
from pathlib import Path

import google_crc32c
import numpy
import pytest
import safetensors

from helpers import CLEAT, ON_EVERY_SERVER, ON_EVERY_STORE, fill, noise, run
from proxy import unfinished_uploads

SAVE_TENSORS = Path(CLEAT).parent / "tests" / "integration" / "save_tensors"
PART = 5 << 20
BLOCK = 4096
DTYPES = {"BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8,
          "I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32, "C64": 64, "F64": 64, "I64": 64,
          "U64": 64}
SHAPES = {"scalar": [], "none": [0], "hollow": [3, 0, 5], "vector": [8], "matrix": [16, 40], "cube": [4, 6, 8],
          "four.d": [2, 3, 4, 4]}
NAMES = ["größe/世界 😀", 'quote" back\\slash', "a b+c%20&<>'", ".", "n" * 1024]
NUMPY = {"BOOL": "bool", "U8": "uint8", "I8": "int8", "I16": "int16", "U16": "uint16", "F16": "float16", "I32": "int32",
         "U32": "uint32", "F32": "float32", "C64": "complex64", "F64": "float64", "I64": "int64", "U64": "uint64"}


def crc(data):
    return google_crc32c.value(data)


# ---- safetensors --------------------------------------------------------------------------------------------------

def expected_bytes(name, dtype, size):
    """What save_tensors.c fills a tensor of this name with."""
    state = 14695981039346656037
    for byte in name.encode():
        state = (state ^ byte) * 1099511628211 % 2**64
    first = bytearray()
    for _ in range(min(size, BLOCK)):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        first.append(state >> 56)
    data = numpy.resize(numpy.frombuffer(bytes(first), numpy.uint8), size)
    for block in range(1, -(-size // BLOCK)):
        here = slice(block * BLOCK, min((block + 1) * BLOCK, size))
        before = data[(block - 1) * BLOCK:here.stop - BLOCK]
        data[here] = before ^ (block & 255)
    return (data & 1 if dtype == "BOOL" else data).tobytes()


def expected_tensors():
    """Name: (dtype, shape, bytes)."""
    tensors = {}
    for dtype, bits in DTYPES.items():
        for label, shape in SHAPES.items():
            size = int(numpy.prod(shape)) * bits
            if size % 8 == 0:
                name = "%s.%s" % (dtype, label)
                tensors[name] = (dtype, shape, expected_bytes(name, dtype, size // 8))
    for name in NAMES:
        tensors[name] = ("I16", [3, 5], expected_bytes(name, "I16", 30))
    tensors["large"] = ("F32", [1200, 2048], expected_bytes("large", "F32", 1200 * 2048 * 4))
    return tensors


def raw_tensors(data):
    """By the format's description alone: 8 bytes of length, a JSON header, the bytes."""
    length, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    body = data[8 + length:]
    return {name: (entry["dtype"], entry["shape"], body[slice(*entry["data_offsets"])])
            for name, entry in header.items()}


def stored_shards(store, step):
    """File name: bytes, of every .safetensors file of the step."""
    attempt = "step-%012d/%s/" % (step, store.manifest(step)["attempt"])
    return {key[len(attempt):]: store.get(key) for key in store.keys()
            if key.startswith(attempt) and key.endswith(".safetensors")}


def save_tensors(store, step, shard_bytes):
    completed = subprocess.run([SAVE_TENSORS, store.url, str(step), str(shard_bytes)], env=store.environment,
                               capture_output=True, timeout=120)
    assert completed.returncode == 0, completed.stderr
    return stored_shards(store, step)


@ON_EVERY_STORE
@pytest.mark.parametrize("shard_bytes", [0, 2000, 20000])
def test_safetensors_opens_tensors_of_every_kind(store, tmp_path, shard_bytes):
    shards = save_tensors(store, 3, shard_bytes)
    expected = expected_tensors()
    assert len(shards) == 1 if shard_bytes == 0 else len(shards) > 2
    found, raw = {}, {}
    for name, data in shards.items():
        # The library's own parser, for every dtype that it knows.
        for tensor, view in safetensors.deserialize(data):
            assert tensor not in found, tensor
            found[tensor] = (view["dtype"], view["shape"], bytes(view["data"]))
        raw.update(raw_tensors(data))
        # As its users open it, for every dtype that numpy has.
        path = fill(tmp_path, {name: data}) / name
        with safetensors.safe_open(path, framework="numpy") as opened:
            for tensor in opened.keys():
                dtype, shape, content = expected[tensor]
                if dtype in NUMPY:
                    array = opened.get_tensor(tensor)
                    assert array.dtype == NUMPY[dtype] and list(array.shape) == shape, tensor
                    assert array.tobytes() == content, tensor
    assert raw == expected
    assert {name: (shape, data) for name, (_, shape, data) in found.items()} \
        == {name: (shape, data) for name, (_, shape, data) in expected.items()}
    assert {dtype for dtype, _, _ in found.values()} == set(DTYPES)
    for name, (dtype, _, _) in found.items():
        assert dtype == expected[name][0], name


@ON_EVERY_STORE
def test_shards_have_an_index_as_hugging_face_does(store):
    shards = save_tensors(store, 3, 20000)
    assert sorted(shards) == ["model-%05d-of-%05d.safetensors" % (number, len(shards))
                              for number in range(1, len(shards) + 1)]
    index = json.loads(store.get(store.file_key(3, "model.safetensors.index.json")))
    assert index["weight_map"] == {name: shard for shard, data in shards.items() for name in raw_tensors(data)}
    total = sum(len(data) for _, _, data in expected_tensors().values())
    assert index["metadata"]["total_size"] == total
    # A shard is larger than asked for only if one tensor is.
    for data in shards.values():
        sizes = [len(content) for _, _, content in raw_tensors(data).values()]
        assert sum(sizes) <= 20000 or len([size for size in sizes if size > 0]) == 1


def test_one_file_has_no_index(store):
    assert list(save_tensors(store, 0, 0)) == ["model.safetensors"]
    assert not [key for key in store.keys() if key.endswith("index.json")]


# ---- boto3 --------------------------------------------------------------------------------------------------------

@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """Files of every size around a part."""
    return fill(tmp_path_factory.mktemp("sources"), {
        "empty": b"", "one": b"1", "less": noise(PART - 1, 2), "part": noise(PART, 3), "more": noise(PART + 1, 4),
        "deep/er/two parts": noise(2 * PART, 5), "größe+100%.bin": noise(2 * PART + 7, 6)})


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def parts_of(data):
    return [data[at:at + PART] for at in range(0, len(data), PART)]


@ON_EVERY_SERVER
def test_boto3_lists_and_reads_every_object(bucket, sources):
    bucket.save(sources, 42, "--part-size", "5M")
    expected = contents(sources)
    attempt = bucket.manifest(42)["attempt"]
    assert bucket.keys() == sorted(["step-000000000042/manifest.json", "step-000000000042/%s/rank-00000.json" % attempt]
                                   + ["step-000000000042/%s/%s" % (attempt, name) for name in expected])
    for name, data in expected.items():
        assert bucket.get(bucket.file_key(42, name)) == data, name


@ON_EVERY_STORE
def test_the_digests_are_those_of_the_bytes(store, sources):
    store.save(sources, 42, "--part-size", "5M")
    expected = contents(sources)
    rank, = store.manifest(42)["ranks"]
    record = store.get(store.record_key(42))
    assert rank["sha256"] == hashlib.sha256(record).hexdigest()
    assert rank["size"] == len(record)
    files = {file["name"]: file for file in json.loads(record)["files"]}
    assert {name: file["size"] for name, file in files.items()} == {name: len(data) for name, data in expected.items()}
    for name, data in expected.items():
        assert files[name]["part_bytes"] == PART
        assert files[name]["crc32c"] == "".join("%08x" % crc(part) for part in parts_of(data)), name
    assert (rank["files"], rank["bytes"]) == (len(files), sum(map(len, expected.values())))


@ON_EVERY_SERVER
def test_the_server_keeps_the_checksums(bucket, sources):
    """A whole object has the CRC of its bytes; one in parts, the CRC of the parts' CRCs."""
    bucket.save(sources, 42, "--part-size", "5M")
    in_parts = 0
    for name, data in contents(sources).items():
        head = bucket.client.head_object(Bucket=bucket.bucket, Key="run/" + bucket.file_key(42, name),
                                         ChecksumMode="ENABLED")
        kept, _, count = head["ChecksumCRC32C"].partition("-")
        parts = parts_of(data)
        if len(parts) > 1:
            in_parts += 1
            assert count == str(len(parts)), name
            data = b"".join(crc(part).to_bytes(4, "big") for part in parts)
        else:
            assert count == "", name
        assert base64.b64decode(kept) == crc(data).to_bytes(4, "big"), name
    assert in_parts == 3


# ---- libs3 --------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("name", ["empty", "one", "part", "more"])
def test_libs3_reads_an_object_back(bucket, sources, tmp_path, name):
    """A client of its own, in C, which signs with Signature Version 2."""
    bucket.save(sources, 42, "--part-size", "5M")
    environment = {"PATH": os.environ["PATH"], "S3_ACCESS_KEY_ID": os.environ["AWS_ACCESS_KEY_ID"],
                   "S3_SECRET_ACCESS_KEY": os.environ["AWS_SECRET_ACCESS_KEY"],
                   "S3_HOSTNAME": os.environ["CLEAT_TEST_ENDPOINT"].partition("//")[2]}
    target = "%s/run/%s" % (bucket.bucket, bucket.file_key(42, name))
    completed = subprocess.run(["s3", "-u", "get", target, "filename=%s" % (tmp_path / "back")], env=environment,
                               capture_output=True, timeout=60)
    assert completed.returncode == 0 and b"ERROR" not in completed.stdout + completed.stderr, completed
    assert (tmp_path / "back").read_bytes() == (sources / name).read_bytes()


# ---- Unfinished uploads ----------------------------------------------------------------------------------------------

# The proxy reads what passes, which TLS does not let it.
ON_EVERY_PLAIN_SERVER = pytest.mark.parametrize("server", ["minio-http", "versitygw-http"], indirect=True)


def save_in_parts(bucket, sources):
    return bucket.cleat("save", sources, bucket.url, "--step", "1", "--part-size", "5M")


@ON_EVERY_PLAIN_SERVER
def test_a_save_leaves_no_unfinished_upload(proxied, sources):
    assert save_in_parts(proxied, sources).code == 0
    assert len(proxied.proxy.upload_keys()) == 3
    assert unfinished_uploads(proxied, proxied.proxy.upload_keys()) == []


@ON_EVERY_PLAIN_SERVER
def test_this_would_be_seen(bucket):
    """The check itself: MinIO shows an unfinished upload to who asks for its exact key."""
    created = bucket.client.create_multipart_upload(Bucket=bucket.bucket, Key="run/a/b")
    assert unfinished_uploads(bucket, ["run/a/b", "run/a/c"]) == [("run/a/b", created["UploadId"])]
    bucket.client.abort_multipart_upload(Bucket=bucket.bucket, Key="run/a/b", UploadId=created["UploadId"])


@ON_EVERY_PLAIN_SERVER
@pytest.mark.parametrize("kind, number", [("create", 3), ("part", 1), ("part", 4), ("complete", 1), ("complete", 3),
                                          ("record", 2)])
def test_a_failed_save_leaves_nothing(proxied, sources, kind, number):
    """A source is found changed when the server has the n-th request of a kind."""
    bucket, proxy = proxied, proxied.proxy
    changed = []

    def grow(request):
        if request.kind == kind and proxy.count(kind) >= number and not changed:
            changed.append(request)
            with open(sources / "more", "ab") as file:
                file.write(b"x")

    whole = (sources / "more").read_bytes()
    proxy.before = grow
    try:
        result = save_in_parts(proxied, sources)
    finally:
        (sources / "more").write_bytes(whole)
    assert changed
    if kind == "record":  # the first is the claim; at the second all sources have been read and looked at
        assert result.code == 0, result
    else:
        assert result.code == 1 and "more" in result.err, result
        assert bucket.keys() == []
    assert proxy.upload_keys()
    assert unfinished_uploads(bucket, proxy.upload_keys()) == []
