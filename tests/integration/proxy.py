"""A proxy between Cleat and MinIO that records every request, and lets a test act at a chosen one.

Requests are passed on unchanged, so their signatures stay valid. One thread for each connection; hooks run on it,
without a lock.
"""

import contextlib
import functools
import re
import socket
import threading
from urllib.parse import parse_qsl, unquote, urlsplit

HEAD_MAX = 65536
CHUNK = 1 << 16
SMALL = 1 << 20  # bodies up to this size are read whole before the request is judged
SECONDS_MAX = 60


class Request:
    """What a test may know of a request: its kind in Cleat's protocol, its key, and who sent it."""

    def __init__(self, head):
        line, _, rest = head.partition(b"\r\n")
        self.method, target, _ = line.decode("latin-1").split(" ", 2)
        self.path, _, query = target.partition("?")
        self.query = dict(parse_qsl(query, keep_blank_values=True))
        self.key = unquote(self.path).partition("/")[2].partition("/")[2]
        length = re.search(rb"\r\ncontent-length:\s*(\d+)", rest, re.I)
        self.length = int(length.group(1)) if length else 0
        self.status = None
        self.number = 0  # the first of its kind has 1

    @functools.cached_property
    def kind(self):
        """create, part, complete, abort; manifest, record, file: puts of these; trial: all that a resume tries the
        store with; else the method in small letters."""
        if self.key.endswith(".trial.json"):
            return "trial"
        if "uploads" in self.query and self.method == "POST":
            return "create"
        if "uploadId" in self.query:
            return {"PUT": "part", "POST": "complete", "DELETE": "abort"}.get(self.method, "parts")
        if self.method == "PUT":
            return "manifest" if self.key.endswith("/manifest.json") else \
                "record" if re.search(r"/rank-\d+\.json$", self.key) else "file"
        return self.method.lower()

    def __repr__(self):
        return "%s %s %s %s" % (self.kind, self.key, self.query, self.status)


class Once:
    """True for the first call alone. Hooks run on several threads at a time, where a look at a list is not enough."""

    def __init__(self):
        self.lock = threading.Lock()

    def __call__(self):
        return self.lock.acquire(blocking=False)


class Broken(Exception):
    """The connection ended in the middle."""


class Reader:
    def __init__(self, connection):
        self.connection = connection
        self.held = b""

    def head(self):
        """Up to and with the blank line; b"" at a clean end."""
        while b"\r\n\r\n" not in self.held:
            data = self.connection.recv(CHUNK)
            if not data and not self.held:
                return b""
            if not data or len(self.held) > HEAD_MAX:
                raise Broken
            self.held += data
        head, _, self.held = self.held.partition(b"\r\n\r\n")
        return head + b"\r\n\r\n"

    def some(self, most):
        if not self.held:
            self.held = self.connection.recv(CHUNK)
            if not self.held:
                raise Broken
        data, self.held = self.held[:most], self.held[most:]
        return data

    def line(self):
        line = b""
        while not line.endswith(b"\r\n"):
            line += self.some(1)
        return line


def status_of(reply):
    line = re.match(rb"HTTP/1\.[01] (\d{3})\b", reply)
    if not line:  # seen from Swift
        raise Broken
    return int(line.group(1))


def copy(reader, to, length):
    while length > 0:
        data = reader.some(length)
        length -= len(data)
        to.sendall(data)


def copy_chunked(reader, to):
    while True:
        line = reader.line()
        to.sendall(line)
        size = int(line.split(b";")[0], 16)
        copy(reader, to, size + 2)
        if size == 0:
            return


class Proxy:
    """`before(request)` runs when a request has come, its body too if it is small; False lets it go nowhere: the
    connection is closed. `after(request)` runs when its reply has come, before it is passed on; False keeps it back."""

    def __init__(self, endpoint, before=None, after=None, port=0):
        self.before, self.after = before, after
        self.target = (urlsplit(endpoint).hostname, urlsplit(endpoint).port)
        self.requests = []
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", port), backlog=128)
        self.url = "http://127.0.0.1:%d" % self.listener.getsockname()[1]
        self.open, self.threads, self.peers = set(), [], set()
        self.accepted = threading.Condition(self.lock)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                connection, peer = self.listener.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.settimeout(SECONDS_MAX)
            thread = threading.Thread(target=self.serve, args=(connection,), daemon=True)
            with self.lock:
                self.open.add(connection)
                self.threads.append(thread)
                self.peers.add(peer)
                thread.start()
                self.accepted.notify_all()

    def serve(self, connection):
        server = socket.create_connection(self.target, timeout=SECONDS_MAX)
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            client_reader, server_reader = Reader(connection), Reader(server)
            while self.relay(connection, client_reader, server, server_reader):
                pass
        except (OSError, Broken):
            pass
        finally:
            with self.lock:
                self.open.discard(connection)
            connection.close()
            server.close()

    def relay(self, connection, client_reader, server, server_reader):
        """One request and its reply."""
        head = client_reader.head()
        if not head:
            return False
        request = Request(head)
        body = b""
        while request.length <= SMALL and len(body) < request.length:
            body += client_reader.some(request.length - len(body))
        with self.lock:
            request.number = 1 + sum(other.kind == request.kind for other in self.requests)
            self.requests.append(request)
        if self.before and self.before(request) is False:
            return False
        server.sendall(head + body)
        if request.length > SMALL:
            copy(client_reader, server, request.length)
        reply = server_reader.head()
        if not reply:
            return False
        request.status = status_of(reply)
        if self.after and self.after(request) is False:
            return False
        connection.sendall(reply)
        length = re.search(rb"\r\ncontent-length:\s*(\d+)", reply, re.I)
        if request.method == "HEAD" or request.status in (204, 304):
            return True
        if re.search(rb"\r\ntransfer-encoding:\s*chunked", reply, re.I):
            copy_chunked(server_reader, connection)
        else:
            copy(server_reader, connection, int(length.group(1)) if length else 0)
        return True

    def count(self, kind):
        with self.lock:
            return sum(request.kind == kind for request in self.requests)

    def upload_keys(self):
        """Keys, in the bucket, for which an upload was begun: MinIO lists the uploads of one exact key alone."""
        with self.lock:
            return sorted(
                {request.key
                 for request in self.requests if "uploads" in request.query and request.method == "POST"})

    def forget(self):
        with self.lock:
            self.requests.clear()

    def settle(self):
        """Waits until every connection has ended, so that nothing more reaches the server; for after a kill."""
        with socket.create_connection(self.listener.getsockname()) as last:  # those before it are accepted before it
            me = last.getsockname()
            with self.accepted:
                assert self.accepted.wait_for(lambda: me in self.peers, SECONDS_MAX)
        with self.lock:
            threads, self.threads = self.threads, []
            self.peers.clear()
        for thread in threads:
            thread.join(SECONDS_MAX)
            assert not thread.is_alive()

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)  # wakes the thread, which close() alone does not
        self.listener.close()
        with self.lock:
            for connection in self.open:
                with contextlib.suppress(OSError):  # its client may have gone
                    connection.shutdown(socket.SHUT_RDWR)


def unfinished_uploads(bucket, keys):
    """Uploads that were neither completed nor aborted, as boto3 sees them: (key, id)."""
    found = []
    for key in keys:
        pages = bucket.client.get_paginator("list_multipart_uploads").paginate(Bucket=bucket.bucket, Prefix=key)
        found += [(upload["Key"], upload["UploadId"]) for page in pages for upload in page.get("Uploads", [])]
    return found


def abort_uploads(bucket, keys):
    for key, upload in unfinished_uploads(bucket, keys):
        bucket.client.abort_multipart_upload(Bucket=bucket.bucket, Key=key, UploadId=upload)
