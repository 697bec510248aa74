#!/usr/bin/env python3
"""A proxy between all tests and an S3 server. It verifies the signature of each request of Cleat with botocore.

    signing_proxy.py start URL DIR [--tls CERTIFICATE KEY CA]
        starts a proxy in front of the server at URL and prints CLEAT_TEST_ENDPOINT=…, the URL of the proxy. With
        --tls it speaks TLS on both sides: with its own certificate, and to a server with a certificate of the CA.
    signing_proxy.py stop DIR
        ends all proxies that were started with DIR. Each leaves its report there.
    signing_proxy.py report [--full] DIR
        adds up all reports, as lines of a header test: "ok - 1234 requests re-verified, 0 wrong". With --full, each
        kind of request that a whole run sends must be among them.

Bytes are passed on as they come, in both directions, before they are checked. Requests of Cleat are recognized by their
User-Agent. Secrets come from AWS_SECRET_ACCESS_KEY and from answers of STS that pass through. They are never written.
One thread, asyncio; a connection owns its two transports.
"""

import argparse
import asyncio
import collections
import hashlib
import os
import re
import signal
import ssl
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

HEAD_MAX = 1 << 16
STS_REPLY_MAX = 1 << 16
HIGH_WATER = 1 << 20  # bytes that wait for a slow reader before the writer is made to wait
LINGER_S = 5  # for a client that is still sending when the server has hung up: its reply must not be lost
STOP_S_MAX = 10
# What the requests of a whole run of the integration tests must show, each at least once.
KINDS = ("odd keys", "odd queries", "signed payloads", "unsigned payloads", "session tokens", "virtual-host names",
         "SSE-C keys", "SSE-KMS", "tags", "requests to STS", "requests by TLS", "clocks that are off",
         "secrets that are wrong")


class Tally:
    """What one proxy has seen."""

    def __init__(self, secrets, is_tls):
        self.secrets = list(secrets)
        self.is_tls = is_tls
        self.verified = self.others = self.cut = self.waiting = 0
        self.wrong = []
        self.kinds = collections.Counter()

    def blame(self, head, problem):
        self.wrong.append("%s: %s" % (head.line, problem))

    def write(self, path):
        """The report is there whole or not at all."""
        lines = ["verified %d" % self.verified, "others %d" % self.others, "cut %d" % self.cut]
        lines += ["kind %d %s" % (number, kind) for kind, number in sorted(self.kinds.items())]
        lines += ["wrong %s" % text for text in self.wrong]
        new = path.with_suffix(".new")
        new.write_text("".join(line + "\n" for line in lines))
        new.rename(path)


def kinds_of(head, verdict, is_tls):
    host = head.get("host").partition(":")[0]
    unreserved = re.compile("[A-Za-z0-9._~/-]*")
    payload = head.get("x-amz-content-sha256")
    marks = {
        "odd keys": not unreserved.fullmatch(head.path),
        "odd queries": any(not unreserved.fullmatch(pair.partition("=")[2].replace("%2F", "/"))
                           for pair in head.query.split("&")),
        "unsigned payloads": payload == "UNSIGNED-PAYLOAD" and head.length > 0,
        "signed payloads": payload != "UNSIGNED-PAYLOAD" and head.length > 0,
        "session tokens": head.get("x-amz-security-token") is not None,
        "virtual-host names": host.endswith(".localhost"),
        "SSE-C keys": head.get("x-amz-server-side-encryption-customer-key") is not None,
        "SSE-KMS": head.get("x-amz-server-side-encryption") == "aws:kms",
        "tags": head.get("x-amz-tagging") is not None,
        "requests by TLS": is_tls,
        "requests to STS": verdict.service == "sts",
        "clocks that are off": (verdict.must_be_refused or "").startswith("the clock"),
        "secrets that are wrong": (verdict.must_be_refused or "").startswith("the secret"),
    }
    return [kind for kind, is_so in marks.items() if is_so]


class Exchange:
    """One request of Cleat's and the status of its reply."""

    def __init__(self, head, tally):
        import signature  # botocore is slow to load, and `report` does without
        self.head, self.tally, self.judge = head, tally, signature.judge
        self.unsigned = signature.UNSIGNED
        self.claimed = head.get("x-amz-content-sha256")
        self.hasher = None if self.claimed == self.unsigned else hashlib.sha256()
        self.verdict = None
        if self.claimed is not None:
            self.decide(None)

    def decide(self, body_sha256):
        self.verdict = self.judge(self.head, self.tally.secrets, body_sha256)
        self.tally.verified += 1
        if self.verdict.problems:
            self.tally.blame(self.head, "; ".join(self.verdict.problems))
        self.tally.kinds.update(kinds_of(self.head, self.verdict, self.tally.is_tls))

    def body(self, data):
        if self.hasher:
            self.hasher.update(data)

    def sent(self):
        """The body is complete."""
        if self.hasher and self.claimed is None:
            self.decide(self.hasher.hexdigest())
        elif self.hasher and self.hasher.hexdigest() != self.claimed:
            self.tally.blame(self.head, "the body is not what x-amz-content-sha256 says")

    def answered(self, status):
        why = self.verdict.must_be_refused if self.verdict else None
        if why and status < 400:
            self.tally.blame(self.head, "answered with %d although %s" % (status, why))


class Requests:
    """Cuts what a client sends into heads and bodies. Feeding it never fails: what is no HTTP is blamed."""

    def __init__(self, tally):
        self.tally = tally
        self.held = bytearray()
        self.left = 0  # bytes of the current body that are yet to come
        self.exchange = None
        self.status_wanted = self.is_sts = self.is_lost = False
        self.reply = bytearray()

    def feed(self, data):
        view = memoryview(data)
        while len(view) > 0 and not self.is_lost:
            view = self.feed_body(view) if self.left > 0 else self.feed_head(view)

    def feed_body(self, view):
        part, rest = view[:self.left], view[self.left:]
        self.left -= len(part)
        if self.exchange:
            self.exchange.body(part)
            if self.left == 0:
                self.exchange.sent()
        return rest

    def feed_head(self, view):
        before = len(self.held)
        self.held += view
        end = self.held.find(b"\r\n\r\n", max(0, before - 3))
        if end < 0:
            if len(self.held) > HEAD_MAX:
                self.is_lost = True
            return view[:0]
        head, self.held = bytes(self.held[:end]), bytearray()
        self.begin(head)
        return view[end + 4 - before:]

    def begin(self, data):
        import signature
        try:
            head = signature.Head(data)
            self.left = head.length
        except ValueError:
            self.is_lost = True
            if b"\r\nuser-agent: cleat/" in data.lower():
                self.tally.wrong.append("%r: no HTTP" % data[:200])
            return
        if head.get("transfer-encoding"):
            self.is_lost = True  # another client's: nothing of Cleat's follows on this connection
        self.reply, self.status_wanted = bytearray(), True
        self.is_sts = "/sts/aws4_request" in (head.get("authorization") or "")
        if not (head.get("user-agent") or "").startswith("cleat/"):
            self.exchange = None
            self.tally.others += 1
            return
        self.exchange = Exchange(head, self.tally)
        if self.is_lost:
            self.tally.blame(head, "transfer-encoding is sent")
        elif self.left == 0:
            self.exchange.sent()

    def answer(self, data):
        """What the server says: of interest are the status and, of STS, the keys."""
        if not self.status_wanted and not self.is_sts:
            return
        self.reply += data[:STS_REPLY_MAX - len(self.reply)]
        match = re.match(rb"HTTP/1\.[01] (\d{3})", self.reply)
        if self.status_wanted and match and not match.group(1).startswith(b"1"):
            self.status_wanted = False
            if self.exchange:
                self.exchange.answered(int(match.group(1)))
        secret = re.search(rb"<SecretAccessKey>([^<]+)</SecretAccessKey>", self.reply) if self.is_sts else None
        if secret and secret.group(1).decode() not in self.tally.secrets:
            self.tally.secrets.append(secret.group(1).decode())

    def end(self):
        """The client has gone."""
        if self.exchange and self.left > 0:
            self.tally.cut += 1


class Side(asyncio.Protocol):
    """One of the two ends of a connection."""

    def __init__(self, link):
        self.link = link
        self.transport = None

    def connection_made(self, transport):
        self.transport = transport
        transport.set_write_buffer_limits(high=HIGH_WATER)
        self.link.made(self)

    def data_received(self, data):
        self.link.data(self, data)

    def eof_received(self):
        self.link.ended(self)
        return not self.link.is_tls  # the other direction lives on

    def connection_lost(self, problem):
        self.link.lost(self)

    def pause_writing(self):
        self.link.other(self).pause(True)

    def resume_writing(self):
        self.link.other(self).pause(False)

    def pause(self, on):
        if self.transport and not self.transport.is_closing():
            (self.transport.pause_reading if on else self.transport.resume_reading)()


class Link:
    """A client's connection and the server's that belongs to it."""

    def __init__(self, proxy):
        self.proxy, self.is_tls = proxy, proxy.tally.is_tls
        self.requests = Requests(proxy.tally)
        self.client, self.server = Side(self), Side(self)
        self.early = []  # what came before there was somebody to hand it to
        self.gone = set()
        self.task = None

    def other(self, side):
        return self.server if side is self.client else self.client

    def made(self, side):
        if side is self.client:
            self.task = asyncio.get_running_loop().create_task(self.connect())
        else:
            side.transport.writelines(self.early)

    async def connect(self):
        try:
            await self.proxy.connect(lambda: self.server)
        except OSError:
            self.client.transport.abort()
            return
        if self.client in self.gone:
            self.server.transport.close()

    def data(self, side, data):
        to = self.other(side)
        if to.transport is None:
            self.early.append(data)
        elif not to.transport.is_closing():
            to.transport.write(data)
        if side is self.server:
            self.requests.answer(data)
        elif to not in self.gone:  # else it has hung up; the client will see that after the reply
            self.requests.feed(data)

    def ended(self, side):
        """One end sends no more; what it sent is delivered first."""
        if side is self.server:
            self.hang_up()
            return
        for transport in (self.server.transport, self.client.transport):
            if transport:
                transport.close()

    def hang_up(self):
        """The server has gone. The client's bytes that are under way are taken and dropped, for else it would be reset
        and lose the reply."""
        transport = self.client.transport
        if transport.is_closing():
            return
        if transport.can_write_eof():
            transport.write_eof()
            transport.resume_reading()
            asyncio.get_running_loop().call_later(LINGER_S, transport.close)
        else:
            transport.close()

    def lost(self, side):
        self.gone.add(side)
        if side is self.client:
            self.requests.end()
            if self.server.transport:
                self.server.transport.close()
        else:
            self.hang_up()


class SigningProxy:
    def __init__(self, upstream, tally, tls=None):
        self.upstream, self.tally = urlsplit(upstream), tally
        self.accepting = self.asking = None
        if tls:
            certificate, key, ca = tls
            self.accepting = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.accepting.load_cert_chain(certificate, key)
            self.asking = ssl.create_default_context(cafile=ca)

    async def connect(self, factory):
        await asyncio.get_running_loop().create_connection(
            factory, self.upstream.hostname, self.upstream.port, ssl=self.asking)

    async def serve(self, report):
        loop, stop = asyncio.get_running_loop(), asyncio.Event()
        loop.add_signal_handler(signal.SIGTERM, stop.set)
        server = await loop.create_server(lambda: Link(self).client, self.upstream.hostname, 0, backlog=512,
                                          ssl=self.accepting)
        port = server.sockets[0].getsockname()[1]
        print("CLEAT_TEST_ENDPOINT=%s://%s:%d" % (self.upstream.scheme, self.upstream.hostname, port), flush=True)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # whoever waits for the end of this is let go
        await stop.wait()
        self.tally.write(report)


def start(arguments):
    """Runs `serve` behind the caller's back and hands on what it says."""
    folder = Path(arguments.folder)
    folder.mkdir(exist_ok=True)
    name = str(folder / ("%03d" % len(list(folder.glob("*.log")))))
    tls = ["--tls", *arguments.tls] if arguments.tls else []
    with open(name + ".log", "xb") as log:
        child = subprocess.Popen([sys.executable, __file__, "serve", arguments.url, name + ".txt", *tls],
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, start_new_session=True)
    Path(name + ".pid").write_text(str(child.pid))
    out = child.stdout.read().decode()
    if "CLEAT_TEST_ENDPOINT" not in out:
        sys.exit("signing_proxy.py: it did not start: %s" % Path(name + ".log").read_text())
    print(out, end="")


def is_running(pid):
    try:
        os.kill(pid, 0)
        return Path("/proc/%d/stat" % pid).read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def stop(arguments):
    files = list(Path(arguments.folder).glob("*.pid"))
    for file in files:
        if is_running(int(file.read_text())):
            os.kill(int(file.read_text()), signal.SIGTERM)
    deadline = time.monotonic() + STOP_S_MAX
    for file in files:
        while is_running(int(file.read_text())) and time.monotonic() < deadline:
            time.sleep(0.02)
        if is_running(int(file.read_text())):
            os.kill(int(file.read_text()), signal.SIGKILL)
        file.unlink()


def serve(arguments):
    sys.path.insert(0, str(Path(__file__).parent))
    import signature  # noqa: F401, loaded before the first request waits for it
    tally = Tally([os.environ["AWS_SECRET_ACCESS_KEY"]], bool(arguments.tls))
    asyncio.run(SigningProxy(arguments.url, tally, arguments.tls).serve(Path(arguments.report)))


def report(arguments):
    """Exit status 1 when anything is not as it should be."""
    counts, kinds, wrong, lost = collections.Counter(), collections.Counter(), [], []
    for log in sorted(Path(arguments.folder).glob("*.log")):
        text = log.with_suffix(".txt")
        if not text.exists() or log.read_text():
            lost.append("not ok - a verifying proxy failed: %s" % (log.read_text()[-2000:] or "it left no report"))
        for line in text.read_text().splitlines() if text.exists() else []:
            word, _, rest = line.partition(" ")
            if word == "wrong":
                wrong.append("not ok - signature: %s" % rest)
            elif word == "kind":
                kinds[rest.partition(" ")[2]] += int(rest.partition(" ")[0])
            else:
                counts[word] += int(rest)
    lines = lost + wrong
    total = "%d requests re-verified, %d wrong" % (counts["verified"], len(wrong))
    if not wrong:
        lines.append("%s - %s" % ("ok" if counts["verified"] else "not ok", total))
    for kind in KINDS if arguments.full else ():
        lines.append("%s - among them: %d %s" % ("ok" if kinds[kind] else "not ok", kinds[kind], kind))
    print("\n".join(lines))
    print("%s; %d of them ended in the middle of their body; %d requests of other clients" % (
        total, counts["cut"], counts["others"]))
    sys.exit(any(line.startswith("not ok") for line in lines))


def main():
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(required=True)
    for name, function, last in (("start", start, "folder"), ("serve", serve, "report")):
        command = commands.add_parser(name)
        command.add_argument("url")
        command.add_argument(last)
        command.add_argument("--tls", nargs=3)
        command.set_defaults(run=function)
    command = commands.add_parser("stop")
    command.add_argument("folder")
    command.set_defaults(run=stop)
    command = commands.add_parser("report")
    command.add_argument("--full", action="store_true")
    command.add_argument("folder")
    command.set_defaults(run=report)
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
