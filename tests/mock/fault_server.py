#!/usr/bin/env python3
"""An S3 server that misbehaves by script: on a store in memory, or in front of a real one.

usage: fault_server.py [--upstream http://127.0.0.1:9000] ['part 3: slow-down twice' …]

prints its endpoint and serves until it is ended. See faults.py for the script. One thread a connection; a request and
its reply are held whole, so this is for bodies of some megabytes.
"""

import http.client
import select
import socket
import struct
import sys
import threading
import time
from urllib.parse import urlsplit

from faults import Gone, Script
from s3_memory import MemoryStore
from s3_wire import Reply, Request

HEAD_MAX = 65536
CHUNK = 1 << 20
UPSTREAM_S = 60
HOLD_S = 0.5  # how often a fault that does nothing looks whether the client is gone


class Wire:
    """The client's end of a connection. Every method raises Gone when that end is no longer there."""

    def __init__(self, connection, ended):
        self.connection = connection
        self.ended = ended  # an Event: the client is known to be gone
        self.held = b""

    def receive(self, most):
        try:
            data = self.connection.recv(most)
        except OSError:
            data = b""
        if not data:
            raise Gone
        return data

    def head(self):
        while b"\r\n\r\n" not in self.held:
            if len(self.held) > HEAD_MAX:
                raise Gone
            self.held += self.receive(CHUNK)
        head, _, self.held = self.held.partition(b"\r\n\r\n")
        return head + b"\r\n\r\n"

    def take(self, length):
        """Just so many bytes."""
        pieces = [self.held[:length]]
        self.held = self.held[length:]
        missing = length - len(pieces[0])
        while missing > 0:
            pieces.append(self.receive(min(missing, CHUNK)))
            missing -= len(pieces[-1])
        return b"".join(pieces)

    def send(self, data):
        try:
            self.connection.sendall(data)
        except OSError:
            raise Gone from None

    def hold(self, seconds):
        """Does nothing for so long, or until the client goes; what it has sent meanwhile stays unread."""
        poll = select.poll()
        poll.register(self.connection, select.POLLRDHUP | select.POLLHUP | select.POLLERR | select.POLLNVAL)
        until = time.monotonic() + seconds
        while seconds > 0:
            # The end of a connection cannot come through while data that nobody reads stands before it.
            if poll.poll(min(seconds, HOLD_S) * 1000) or self.ended.is_set():
                raise Gone
            seconds = until - time.monotonic()

    def drain(self):
        while True:
            self.receive(CHUNK)

    def half_close(self):
        try:
            self.connection.shutdown(socket.SHUT_WR)
        except OSError:
            raise Gone from None

    def reset(self):
        """The client gets RST, not FIN."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        raise Gone

    def close(self):
        raise Gone


class Upstream:
    """A real server as a store: requests travel on byte for byte, so that their signatures hold."""

    def __init__(self, endpoint):
        self.address = (urlsplit(endpoint).hostname, urlsplit(endpoint).port)

    def answer(self, request):
        with socket.create_connection(self.address, timeout=UPSTREAM_S) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.sendall(request.head)
            connection.sendall(request.body)
            response = http.client.HTTPResponse(connection, method=request.method)
            response.begin()
            body = response.read()
            reply = Reply(response.status, response.getheaders(), body)
        reply.bare = request.method == "HEAD"
        # The body is passed on in one piece, and a fault may make it another.
        reply.replace("Transfer-Encoding", None)
        if not reply.bare:
            reply.replace("Content-Length", None)
        return reply


class FaultServer:
    """`script` may be changed at any time; `seen` are step and key of all requests."""

    def __init__(self, store=None, script=None):
        self.store = store if store is not None else MemoryStore()
        self.script = script or Script()
        self.lock = threading.Lock()
        self.ended = threading.Event()
        self.seen, self.open, self.threads, self.peers = [], set(), [], set()
        self.accepted = threading.Condition(self.lock)
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.url = "http://127.0.0.1:%d" % self.listener.getsockname()[1]
        self.acceptor = threading.Thread(target=self.accept, daemon=True)
        self.acceptor.start()

    def accept(self):
        while True:
            try:
                connection, peer = self.listener.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            thread = threading.Thread(target=self.serve, args=(connection,), daemon=True)
            with self.lock:
                self.open.add(connection)
                self.threads.append(thread)
                self.peers.add(peer)
                thread.start()
                self.accepted.notify_all()

    def serve(self, connection):
        wire = Wire(connection, self.ended)
        try:
            while True:
                self.exchange(wire)
        except Gone:
            pass
        finally:
            with self.lock:
                self.open.discard(connection)
            connection.close()

    def exchange(self, wire):
        """One request and its reply."""
        request = Request(wire.head())
        with self.lock:
            self.seen.append((request.step, request.key))
        fault = self.script.pick(request)
        if fault:
            fault.arrive(wire, request)
        if request.headers.get("expect", "").lower() == "100-continue":
            wire.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.body = wire.take(request.length)
        reply = fault.answer(request, self.store) if fault else self.store.answer(request)
        if fault and reply:
            fault.change(request, reply)
        if fault:
            fault.send(wire, request, reply)
        else:
            wire.send(reply.encode())
        if reply.header("Connection") == "close":
            wire.close()

    def keys(self, step):
        """Of all requests of that step."""
        with self.lock:
            return {key for seen, key in self.seen if seen == step}

    def settle(self):
        """Waits until every connection has ended, so that nothing more reaches the store: for after the client has."""
        with socket.create_connection(self.listener.getsockname()) as last:  # those before it are accepted before it
            me = last.getsockname()
            with self.accepted:
                assert self.accepted.wait_for(lambda: me in self.peers, UPSTREAM_S)
        self.join()

    def join(self):
        self.ended.set()
        with self.lock:
            threads, self.threads = self.threads, []
            self.peers.clear()
        for thread in threads:
            thread.join(UPSTREAM_S)
            assert not thread.is_alive(), "a connection of a client that has ended is still open"
        self.ended.clear()

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)  # wakes the thread, which close() alone does not
        self.listener.close()
        self.acceptor.join(UPSTREAM_S)
        with self.lock:
            for connection in self.open:
                connection.shutdown(socket.SHUT_RDWR)
        self.join()


def main(arguments):
    store = None
    if arguments[:1] == ["--upstream"]:
        store, arguments = Upstream(arguments[1]), arguments[2:]
    try:
        server = FaultServer(store, Script(*arguments))
    except ValueError as problem:
        sys.exit("fault_server.py: %s" % problem)
    print(server.url, flush=True)
    while True:
        time.sleep(60)


if __name__ == "__main__":
    main(sys.argv[1:])
