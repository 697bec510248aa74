"""Bytes that are damaged or lost between Cleat and a real store, in either direction.

A proxy flips one bit of a body, at a place that a seed chooses (CLEAT_TEST_SEED repeats it), or cuts a reply short. If
that happens once, the only effect must be one more request. If it happens always, the operation must fail and name the
place. boto3 reads what is stored, and loaded files are compared byte by byte. Neither may ever differ from what was
saved.
"""

import concurrent.futures
import hashlib
import os
import re
import threading
import time

import pytest

from helpers import assert_error, fill, noise, tree
from proxy import Proxy, Request, abort_uploads, copy_chunked

PART = 5 << 20
FILES = {"small.bin": noise(70000), "large.bin": noise(2 * PART + 1000)}
SAVE = ["--part-size", "5M", "--jobs", "2", "--meta", '{"note": "abcdefgh"}']

# How bodies are guarded, as a query of the URL.
GUARDS = {"crc32c": "", "signed": "?payload=always", "crc64nvme": "?checksum=crc64nvme", "sha256": "?checksum=off",
          "nothing": "?checksum=off&payload=never"}


# ---- A proxy that changes what passes -------------------------------------------------------------------------------

class Reply:
    """The head as it came, and the body without its framing."""

    def __init__(self, head, body):
        self.head, self.body = head, body
        self.status = int(head.split(b" ", 2)[1])

    def whole(self):
        return set_header(self.head, b"Content-Length", b"%d" % len(self.body)) + self.body


def set_header(head, name, value):
    """value None: without it."""
    head = re.sub(rb"\r\n%s:[^\r]*" % name, b"", head, flags=re.I)
    return head if value is None else head[:-2] + name + b": " + value + b"\r\n\r\n"


def read_chunks(reader):
    body = b""
    while size := int(reader.line().split(b";")[0], 16):
        body += read_exactly(reader, size)
        reader.line()
    reader.line()
    return body


def read_exactly(reader, length):
    parts = []
    while length > 0:
        parts.append(reader.some(length))
        length -= len(parts[-1])
    return b"".join(parts)


class Changer(Proxy):
    """`send(request, body)` is the body that the server gets; `reply(request, reply)` the bytes that Cleat gets, of a
    successful one. Either may be None."""

    def __init__(self, send=None, reply=None):
        self.send, self.reply = send, reply
        super().__init__(os.environ.get("CLEAT_TEST_DIRECT") or os.environ["CLEAT_TEST_ENDPOINT"])

    def relay(self, connection, client_reader, server, server_reader):
        head = client_reader.head()
        if not head:
            return False
        request = Request(head)
        body = read_exactly(client_reader, request.length)
        with self.lock:
            self.requests.append(request)
        server.sendall(head + (self.send(request, body) if self.send else body))
        head = server_reader.head()
        if not head:
            return False
        request.status = int(head.split(b" ", 2)[1])
        length = re.search(rb"\r\ncontent-length:\s*(\d+)", head, re.I)
        if request.method == "HEAD" or request.status in (204, 304):
            body = b""
        elif re.search(rb"\r\ntransfer-encoding:\s*chunked", head, re.I):
            body, head = read_chunks(server_reader), set_header(head, b"Transfer-Encoding", None)
        else:
            body = read_exactly(server_reader, int(length.group(1)) if length else 0)
        reply = Reply(head, body)
        if request.method == "HEAD" or request.status in (204, 304):
            connection.sendall(head)
            return True
        changed = self.reply(request, reply) if self.reply and request.status < 300 else None
        connection.sendall(changed if changed is not None else reply.whole())
        return changed is None or not changed.endswith(CUT)


CUT = b"\0cut here\0"  # at the end of a reply: the connection is closed after it, and this is not sent


def kind_of(request):
    """Of what is read: record, manifest, data or list; else the proxy's kind."""
    if request.kind != "get":
        return request.kind
    if "list-type" in request.query:
        return "list"
    key = request.key
    return "manifest" if key.endswith("/manifest.json") else "record" if re.search(r"/rank-\d+\.json$", key) else "data"


class Flips:
    """Flips one bit of bodies of one kind: the first time, or every time."""

    def __init__(self, rng, kind, always):
        self.rng, self.kind, self.always = rng, kind, always
        self.lock, self.count = threading.Lock(), 0

    def flip(self, request, body):
        with self.lock:
            if kind_of(request) != self.kind or not body or (self.count and not self.always):
                return body
            self.count += 1
            place, bit = self.rng.randrange(len(body)), self.rng.randrange(8)
        print("flip: %r byte %d of %d, bit %d" % (request, place, len(body), bit))
        return body[:place] + bytes([body[place] ^ 1 << bit]) + body[place + 1:]

    def reply(self, request, reply):
        reply.body = self.flip(request, reply.body)


# ---- Fixtures and judges --------------------------------------------------------------------------------------------

@pytest.fixture
def source(tmp_path):
    return fill(tmp_path / "source", FILES)


@pytest.fixture
def through(bucket):
    """through(...): the bucket behind a proxy that changes what passes."""
    direct, proxies = bucket.environment["AWS_ENDPOINT_URL"], []

    def start(**hooks):
        proxies.append(Changer(**hooks))
        bucket.environment["AWS_ENDPOINT_URL"] = proxies[-1].url
        return proxies[-1]

    yield start
    bucket.environment["AWS_ENDPOINT_URL"] = direct
    for proxy in proxies:
        proxy.close()
        abort_uploads(bucket, proxy.upload_keys())


def direct(bucket):
    """From here on without the proxy."""
    bucket.environment["AWS_ENDPOINT_URL"] = os.environ.get("CLEAT_TEST_DIRECT") or os.environ["CLEAT_TEST_ENDPOINT"]


def stored(bucket, step):
    """The files of a step, read by boto3, checked against what the manifest says of the record."""
    manifest = bucket.manifest(step)
    record = bucket.get(bucket.record_key(step))
    assert hashlib.sha256(record).hexdigest() == manifest["ranks"][0]["sha256"]
    return {name: bucket.get(bucket.file_key(step, name)) for name in FILES}


def assert_nothing_visible(bucket):
    assert not [key for key in bucket.keys() if key.endswith("manifest.json")]
    assert bucket.cleat("ls", bucket.url).code == 3


# ---- What is sent ---------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("guard", ["crc32c", "signed", "crc64nvme", "sha256"])
@pytest.mark.parametrize("kind", ["part", "file", "record", "manifest", "complete"])
def test_a_bit_that_flips_once_on_its_way_to_the_store(bucket, through, source, tmp_path, rng, guard, kind):
    flips = Flips(rng, kind, False)
    proxy = through(send=flips.flip)
    url = bucket.url + GUARDS[guard]
    saved = bucket.cleat("save", source, url, "--step", 1, *SAVE)
    assert saved.code == 0 and flips.count == 1, saved
    # MinIO reads a list of parts no further than it must, and so may not notice what changes nothing.
    if kind != "complete" or proxy.count(kind) > 1:
        # Under a record's key the claim is put, the record, and once more, to see whether the store minds create-only.
        assert proxy.count(kind) == {"part": 3, "record": 3}.get(kind, 1) + 1
        # MinIO answers 500 to some lists of parts that make no sense.
        refused = [request for request in proxy.requests if request.kind == kind and request.status in (400, 500)]
        assert len(refused) == 1
    direct(bucket)
    assert stored(bucket, 1) == FILES and bucket.manifest(1)["metadata"] == {"note": "abcdefgh"}
    assert bucket.cleat("load", url, tmp_path / "back").code == 0 and tree(tmp_path / "back") == FILES


WHERE = {
    "part": ["part ", "large.bin"], "file": ["small.bin"], "record": ["rank-00000.json"], "manifest": ["manifest.json"],
    "complete": ["large.bin"]
}


@pytest.mark.parametrize("guard", ["crc32c", "signed", "crc64nvme", "sha256"])
@pytest.mark.parametrize("kind", ["part", "file", "record", "manifest", "complete"])
def test_bits_that_flip_on_their_way_to_the_store_for_good(bucket, through, source, rng, guard, kind):
    flips = Flips(rng, kind, True)
    through(send=flips.flip)
    saved = bucket.cleat("save", source, bucket.url + GUARDS[guard], "--step", 7, *SAVE)
    if kind == "complete" and saved.code == 0:  # what flipped changes nothing
        direct(bucket)
        assert stored(bucket, 7) == FILES
        return
    # A list of parts may be damaged so that it still is one, of parts that are not there.
    assert_error(saved, saved.code if kind == "complete" else 4, "step-000000000007", *WHERE[kind])
    assert 4 <= flips.count <= 12, flips.count
    direct(bucket)
    assert_nothing_visible(bucket)
    if kind != "manifest":
        assert bucket.keys() == []
        return
    # All but the manifest is there, for a save that goes on with it.
    assert bucket.cleat("save", source, bucket.url, "--step", 7, "--resume", *SAVE).code == 0
    assert stored(bucket, 7) == FILES


@pytest.mark.parametrize("guard", ["crc32c", "crc64nvme"])
def test_an_etag_that_is_damaged_on_its_way_back(bucket, through, source, guard):
    """The completion is refused, and made good from the store's own list of the parts."""
    damaged = []

    def damage(request, reply):
        if request.kind != "part":
            return None
        damaged.append(request)
        etag = re.search(rb'\r\netag:\s*"([0-9a-f]+)', reply.head, re.I).group(1)
        other = bytes([etag[0] ^ 1]) + etag[1:]
        return set_header(reply.head, b"ETag", b'"' + other + b'"') + reply.body

    proxy = through(reply=damage)
    saved = bucket.cleat("save", source, bucket.url + GUARDS[guard], "--step", 1, *SAVE)
    assert saved.code == 0 and len(damaged) == 3, saved
    assert 200 in [request.status for request in proxy.requests if request.kind == "complete"]
    direct(bucket)
    assert stored(bucket, 1) == FILES


@pytest.mark.parametrize("kind", ["part", "file", "record", "manifest"])
def test_what_nothing_guards_is_found_by_the_load(bucket, through, source, tmp_path, rng, kind):
    """checksum=off with payload=never: the bit arrives in the store, and whoever loads is told, or loads the same
    bytes: what the manifest says of other things than files and records (the user's notes) is guarded by nothing
    then."""
    flips = Flips(rng, kind, False)
    # A claim that is damaged is another's: that save ends.
    through(send=lambda request, body: body if b"cleat.claim" in body else flips.flip(request, body))
    url = bucket.url + GUARDS["nothing"]
    saved = bucket.cleat("save", source, url, "--step", 7, *SAVE)
    assert saved.code == 0 and flips.count == 1, saved
    direct(bucket)
    loaded = bucket.cleat("load", url, tmp_path / "back", "--step", 7)
    if kind == "manifest" and loaded.code == 0:
        assert tree(tmp_path / "back") == FILES
        return
    assert_error(loaded, 4, *{"manifest": []}.get(kind, WHERE[kind]), *(["7"] if kind != "manifest" else []))
    assert not (tmp_path / "back").exists()


# ---- What is received -----------------------------------------------------------------------------------------------

@pytest.fixture
def saved(bucket, source):
    def save(guard):
        for step in (3, 12):
            result = bucket.cleat("save", source, bucket.url + GUARDS[guard], "--step", step, *SAVE)
            assert result.code == 0, result
        return bucket.url + GUARDS[guard]
    return save


@pytest.mark.parametrize("guard", ["crc32c", "crc64nvme", "sha256"])
@pytest.mark.parametrize("kind", ["data", "record", "manifest", "list"])
def test_a_bit_that_flips_once_on_its_way_back(bucket, saved, through, tmp_path, rng, guard, kind):
    url = saved(guard)
    flips = Flips(rng, kind, False)
    proxy = through(reply=flips.reply)
    result = bucket.cleat("load", url, tmp_path / "back", "--json", *([] if kind == "list" else ["--step", "12"]))
    assert flips.count == 1 and result.code == 0, result
    assert tree(tmp_path / "back") == FILES
    assert kind == "list" or result.json["step"] == 12
    # Without a checksum of the whole document, a bit of it that changes no meaning goes unseen.
    if kind in ("data", "record") or (kind == "manifest" and guard != "sha256"):
        assert sum(kind_of(request) == kind for request in proxy.requests) == {"data": 4}.get(kind, 1) + 1


@pytest.mark.parametrize("guard", ["crc32c", "crc64nvme", "sha256"])
@pytest.mark.parametrize("kind, words", [("data", ["step 12", "part "]),
                                         ("record", ["step-000000000012", "rank-00000"]),
                                         ("manifest", ["step-000000000012"])])
def test_bits_that_flip_on_their_way_back_for_good(bucket, saved, through, tmp_path, rng, guard, kind, words):
    url = saved(guard)
    flips = Flips(rng, kind, True)
    through(reply=flips.reply)
    for command in (["load", url, tmp_path / "back", "--step", 12], ["verify", url, "--step", 12]):
        result = bucket.cleat(*command)
        if guard == "sha256" and kind != "data":
            words = {"record": ["step 12", "rank-00000"], "manifest": []}[kind]
        if guard == "sha256" and kind == "manifest" and result.code == 0:
            continue  # what flipped changes nothing of the files
        assert_error(result, 4, *words)
        assert command[0] == "verify" or not (tmp_path / "back").exists()
    assert not (tmp_path / "back").exists() or tree(tmp_path / "back") == FILES


def test_lists_that_are_always_damaged(bucket, saved, through, tmp_path, rng):
    """S3 gives no checksum for them: what is loaded is whole in any case, or nothing is."""
    url = saved("crc32c")
    flips = Flips(rng, "list", True)
    through(reply=flips.reply)
    for number in range(20):
        back = tmp_path / ("back-%d" % number)
        result = bucket.cleat("load", url, back, "--time-limit", "5")
        assert (result.code == 0 and tree(back) == FILES) or (result.code != 0 and not back.exists()), result
    assert flips.count >= 20


# ---- Replies that are cut -------------------------------------------------------------------------------------------

def shorter(reply):
    """Fewer bytes than the head says, then the end of the connection."""
    return reply.whole()[:-len(reply.body) // 2] + CUT


def length_of_what_is_left(reply):
    """A head that fits the bytes, but for the range."""
    reply.body = reply.body[:len(reply.body) // 2]
    return reply.whole()


def no_length(reply):
    """A body that ends with its connection ends anywhere."""
    return set_header(reply.head, b"Content-Length", None) + reply.body[:len(reply.body) // 2] + CUT


def cut_chunks(reply):
    head = set_header(set_header(reply.head, b"Content-Length", None), b"Transfer-Encoding", b"chunked")
    half = reply.body[:len(reply.body) // 2]
    return head + b"%x\r\n%s\r\n" % (len(half), half) + CUT


def range_beside(reply):
    """As many bytes as were asked for, from another place."""
    first, last, total = map(int, re.search(rb"bytes (\d+)-(\d+)/(\d+)", reply.head).groups())
    reply.head = set_header(reply.head, b"Content-Range", b"bytes %d-%d/%d" % (first + 1, last + 1, total))
    return reply.whole()


def other_bytes(reply):
    """200 for a range: as many bytes, from the start of the object."""
    reply.head = reply.head.replace(b"206 Partial Content", b"200 OK", 1)
    reply.head = set_header(reply.head, b"Content-Range", None)
    reply.body = FILES["large.bin"][:len(reply.body)]
    return reply.whole()


def end_of_the_object(reply):
    """All of the head says that the object ends here."""
    first = int(re.search(rb"bytes (\d+)-", reply.head).group(1))
    reply.body = reply.body[:len(reply.body) // 2]
    end = first + len(reply.body)
    reply.head = set_header(reply.head, b"Content-Range", b"bytes %d-%d/%d" % (first, end - 1, end))
    return reply.whole()


def partial(reply):
    """A part of a document that was asked for whole."""
    total, reply.body = len(reply.body), reply.body[:len(reply.body) // 2]
    reply.head = reply.head.replace(b"200 OK", b"206 Partial Content", 1)
    reply.head = set_header(reply.head, b"Content-Range", b"bytes 0-%d/%d" % (len(reply.body) - 1, total))
    return reply.whole()


CUTS = [(kind, cut) for kind in ("data", "record", "manifest", "list") for cut in (shorter, no_length, cut_chunks)]
CUTS += [("data", cut) for cut in (length_of_what_is_left, range_beside, other_bytes, end_of_the_object)]
CUTS += [(kind, cut) for kind in ("record", "manifest") for cut in (length_of_what_is_left, partial)]


def cutting(kind, cut, always):
    """Parts of the large file but its first, whose beginning is that of the object."""
    seen = []

    def hook(request, reply):
        if kind_of(request) != kind or (kind == "data" and b"bytes %d-" % PART not in reply.head) or (seen and
                                                                                                      not always):
            return None
        seen.append(request)
        return cut(reply)
    return hook, seen


@pytest.mark.parametrize("kind, cut", CUTS)
def test_a_reply_that_is_cut_is_never_data(bucket, saved, through, tmp_path, kind, cut):
    url = saved("crc32c")
    step = [] if kind == "list" else ["--step", "12"]
    hook, seen = cutting(kind, cut, False)
    through(reply=hook)
    once = bucket.cleat("load", url, tmp_path / "once", *step)
    # An object that ends too soon, as all of the reply says, is damage; no retry would bring the rest.
    if cut is end_of_the_object:
        assert_error(once, 4, "step 12", "part 2", "large.bin")
        assert not (tmp_path / "once").exists()
    else:
        assert once.code == 0 and tree(tmp_path / "once") == FILES, once
    assert len(seen) == 1
    hook, seen = cutting(kind, cut, True)
    through(reply=hook)
    result = bucket.cleat("load", url, tmp_path / "always", "--time-limit", "3", *step)
    assert result.code in (1, 4) and result.err.startswith("cleat: "), result
    assert not (tmp_path / "always").exists() and seen


# ---- Replies that trickle -------------------------------------------------------------------------------------------

class Trickler(Changer):
    """The first request of a kind crawls: its body is read, or its reply sent, at a byte a second. That of a record
    crawls with its headers."""

    def __init__(self, kind):
        self.kind, self.crawled = kind, 0
        super().__init__()

    def crawls(self, request):
        with self.lock:
            first = kind_of(request) == self.kind and not self.crawled
            self.crawled += first
        return first

    def crawl(self, connection, request):
        while request.length and connection.recv(1):
            time.sleep(1)
        # It will never be whole.
        head = (b"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-69999/70000" if "data" == self.kind
                else b"HTTP/1.1 200 OK\r\nETag: \"e\"") + b"\r\nContent-Length: 70000\r\n\r\n"
        if self.kind != "record":
            connection.sendall(head)
        for byte in head + b"x" * 1000:
            connection.sendall(bytes([byte]))
            time.sleep(1)

    def relay(self, connection, client_reader, server, server_reader):
        head = client_reader.head()
        if not head:
            return False
        request = Request(head)
        with self.lock:
            self.requests.append(request)
        if self.crawls(request):
            self.crawl(connection, request)
            return False
        server.sendall(head + read_exactly(client_reader, request.length))
        reply = server_reader.head()
        length = re.search(rb"\r\ncontent-length:\s*(\d+)", reply, re.I)
        connection.sendall(reply)
        if request.method != "HEAD" and re.search(rb"\r\ntransfer-encoding:\s*chunked", reply, re.I):
            copy_chunked(server_reader, connection)
        elif request.method != "HEAD" and length:
            connection.sendall(read_exactly(server_reader, int(length.group(1))))
        return True


@pytest.fixture
def trickler(bucket):
    """trickler(kind): a URL of the bucket whose first request of the kind crawls; and its proxy."""
    proxies = []

    def start(kind):
        proxies.append(Trickler(kind))
        return "%s?endpoint=%s" % (bucket.url, proxies[-1].url), proxies[-1]

    yield start
    for proxy in proxies:
        proxy.close()
        abort_uploads(bucket, proxy.upload_keys())


def test_what_trickles_is_given_up_and_tried_again(bucket, source, tmp_path, trickler):
    """At a byte a second each of these would take hours. All at once, since each takes half a minute."""
    direct(bucket)
    del bucket.environment["AWS_ENDPOINT_URL"]
    urls = {kind: trickler(kind) for kind in ("part", "file", "manifest", "record", "data")}
    sent = {kind: fill(tmp_path / kind, FILES) for kind in ("part", "file")}
    saved = bucket.cleat("save", source, urls["data"][0], "--step", 1, *SAVE)
    assert saved.code == 0, saved

    def run(kind):
        if kind in sent:
            step = {"part": 2, "file": 3}[kind]
            return bucket.cleat("save", sent[kind], urls[kind][0], "--step", step, *SAVE, timeout=400)
        return bucket.cleat("load", urls[kind][0], tmp_path / kind, "--step", 1, "-v", timeout=400)

    with concurrent.futures.ThreadPoolExecutor() as pool:
        results = dict(zip(urls, pool.map(run, urls)))
    for kind, (_, proxy) in urls.items():
        assert results[kind].code == 0 and proxy.crawled == 1, (kind, results[kind])
        assert tree(tmp_path / kind) == FILES
    for kind in ("manifest", "record", "data"):
        assert re.search("no byte moved for 30 s|fewer than 1024 bytes a second moved for 30 s",
                         results[kind].err), kind
    direct(bucket)
    assert stored(bucket, 2) == stored(bucket, 3) == FILES
