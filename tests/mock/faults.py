"""What can go wrong with one request, and the script that says with which.

A fault may act in four places: when the head has come and the body has not (`arrive`), instead of or around the store
(`answer`), on the finished reply (`change`), and on its way out (`send`). What it does not override happens as usual.
A script is made of lines such as

    part 3: slow-down twice        the third part is refused twice, then taken
    complete: lost-reply           the first Complete is carried out, and its reply is lost
    get-part: flip-reply always    no part ever arrives as it was sent

`FAULTS` names them all. Faults have no state but their own fields; each script makes its own.
"""

import re
import threading
import time

from s3_wire import Reply, element, error

FOREVER_S = 3600  # longer than any test: the client gives up before


class Gone(Exception):
    """The connection has ended, by a fault or by the client."""


class Fault:
    def arrive(self, wire, request):
        pass

    def answer(self, request, store):
        return store.answer(request)

    def change(self, request, reply):
        pass

    def send(self, wire, request, reply):
        wire.send(reply.encode())


# ---- Connections -----------------------------------------------------------------------------------------------------

class ResetAtOnce(Fault):
    """The connection is reset when the head has come."""

    def arrive(self, wire, request):
        wire.reset()


class ResetMidBody(Fault):
    """… when half of the body has come."""

    def arrive(self, wire, request):
        wire.take(request.length // 2)
        wire.reset()


class ResetAfterSend(Fault):
    """… when all of it has come; the store never sees it."""

    def answer(self, request, store):
        return None

    def send(self, wire, request, reply):
        wire.reset()


class LostReply(Fault):
    """The store does what was asked, and the connection is reset instead of a reply."""

    def send(self, wire, request, reply):
        wire.reset()


class LostReplyUnconditional(LostReply):
    """The same, on a store that takes If-None-Match and If-Match and does not look at them."""

    def answer(self, request, store):
        store.preconditions = False
        return store.answer(request)


class ResetMidReply(Fault):
    def send(self, wire, request, reply):
        data = reply.encode()
        wire.send(data[:len(data) - max(1, len(reply.body)) // 2 - 1])
        wire.reset()


class BlackHole(Fault):
    """Nothing of the body is read, and nothing is ever said."""

    def arrive(self, wire, request):
        wire.hold(FOREVER_S)


class SilentReply(Fault):
    """The store does what was asked, and nothing is ever said."""

    def send(self, wire, request, reply):
        wire.hold(FOREVER_S)


class SlowRequest(Fault):
    """One byte of the body is read every two seconds."""

    def arrive(self, wire, request):
        while True:
            wire.take(1)
            wire.hold(2)


class SlowReply(Fault):
    """The store does what was asked, and one byte of the reply is sent every two seconds."""

    def send(self, wire, request, reply):
        for byte in reply.encode():
            wire.send(bytes([byte]))
            wire.hold(2)


class HalfClose(Fault):
    """The server says that it will send no more, and reads on."""

    def arrive(self, wire, request):
        wire.half_close()
        wire.drain()


class HalfCloseMidReply(Fault):
    def send(self, wire, request, reply):
        data = reply.encode()
        wire.send(data[:len(data) - max(1, len(reply.body)) // 2 - 1])
        wire.half_close()
        wire.drain()


# ---- Refusals --------------------------------------------------------------------------------------------------------

class Refusal(Fault):
    """The store sees nothing of it; a reply of one's own instead. To a HEAD, without its body."""

    def __init__(self, status, code, more="", **headers):
        self.make = lambda: error(status, code, more=more, headers={name.replace("_", "-"): value
                                                                    for name, value in headers.items()})

    def answer(self, request, store):
        reply = self.make()
        reply.bare = request.method == "HEAD"
        return reply


class Skewed(Fault):
    """The store's clock is off from now on; `answer` is its own, so that a client which learns it gets through."""

    def __init__(self, seconds):
        self.seconds = seconds

    def answer(self, request, store):
        store.clock_s = self.seconds
        return store.answer(request)


class AlwaysSkewed(Refusal):
    """… and every time is wrong for it."""

    def __init__(self, seconds):
        Fault.__init__(self)
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds))
        self.make = lambda: error(403, "RequestTimeTooSkewed", more=element("ServerTime", now))


class OtherRegion(Fault):
    """The bucket is in another region from now on."""

    def __init__(self, region):
        self.region = region

    def answer(self, request, store):
        store.region = self.region
        return store.answer(request)


class Redirect(Refusal):
    """… to `location`, where nobody may send a signature."""

    def __init__(self, location):
        Fault.__init__(self)
        self.make = lambda: Reply(307, {"Location": location, "Content-Type": "text/plain"}, b"there")


class ErrorInside200(Refusal):
    def __init__(self, code="InternalError"):
        Fault.__init__(self)
        self.make = lambda: Reply(200, {"Content-Type": "application/xml"}, error(200, code).body)


class DoneButGone(Fault):
    """The store does what was asked, and says that there is no such upload: what a repeated Complete meets."""

    def answer(self, request, store):
        store.answer(request)
        return error(404, "NoSuchUpload")


class Page(Refusal):
    """A captive portal, or a gateway's own page, with the status of a success."""

    def __init__(self):
        Fault.__init__(self)
        self.make = lambda: Reply(200, {"Content-Type": "text/html"}, b"<html><head><title>Sign in<body>Welcome<br>")


# ---- Replies that are not what they should be ------------------------------------------------------------------------

class WhiteSpace(Fault):
    """The head of a 200, white space for some seconds, then the reply: the store's, or an <Error> that stands for
    it."""

    def __init__(self, seconds, code=None):
        self.seconds, self.code = seconds, code

    def answer(self, request, store):
        return error(200, self.code) if self.code else store.answer(request)

    def send(self, wire, request, reply):
        reply.replace("Transfer-Encoding", "chunked")
        wire.send(re.sub(rb"Content-Length: \d+\r\n", b"", reply.head()))
        for _ in range(int(self.seconds * 10)):
            wire.send(b"1\r\n \r\n")
            wire.hold(0.1)
        wire.send(b"%x\r\n%s\r\n0\r\n\r\n" % (len(reply.body), reply.body))


class Truncated(Fault):
    """Half of the body, and a length that agrees."""

    def change(self, request, reply):
        reply.body = reply.body[:len(reply.body) // 2]


class Partial(Fault):
    """Half of the body, the length of the whole, and the end of the connection."""

    def send(self, wire, request, reply):
        wire.send(reply.head() + reply.body[:len(reply.body) // 2])
        wire.close()


class Overlong(Fault):
    """All of the body behind half of its length."""

    def change(self, request, reply):
        reply.replace("Content-Length", str(len(reply.body) // 2))


class NoETag(Fault):
    def change(self, request, reply):
        reply.replace("ETag", None)
        reply.body = re.sub(rb"<ETag>.*?</ETag>", b"", reply.body) if reply.body.startswith(b"<?xml") else reply.body


class FlipReply(Fault):
    """One bit: of an XML document's last tag, of the middle of another body, else of the ETag."""

    def change(self, request, reply):
        if reply.body:
            at = reply.body.rfind(b"</") if reply.body.startswith(b"<?xml") else len(reply.body) // 2
            reply.body = flipped(reply.body, at)
        elif reply.header("ETag"):
            reply.replace("ETag", flipped(reply.header("ETag").encode(), 2).decode("latin-1"))


class FlipRequest(Fault):
    """One bit in the middle of the body, before the store has it."""

    def answer(self, request, store):
        request.body = flipped(request.body, len(request.body) // 2)
        return store.answer(request)


class OtherRange(Fault):
    def change(self, request, reply):
        told = reply.header("Content-Range")
        if told:
            reply.replace("Content-Range", re.sub(r"\d+", lambda number: str(int(number.group()) + 1), told, count=1))


class NoRange(Fault):
    """The store ignores Range and sends the whole object, as a proxy without ranges does."""

    def answer(self, request, store):
        request.headers.pop("range", None)
        return store.answer(request)


class ManyHeaders(Fault):
    def send(self, wire, request, reply):
        head, blank, body = reply.encode().partition(b"\r\n\r\n")
        wire.send(head + b"".join(b"\r\nx-amz-meta-%06d: all of them" % number
                                  for number in range(100000)) + blank + body)


def flipped(data, at):
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1:]


# name: how to make it
FAULTS = {
    "reset": ResetAtOnce, "reset-mid-body": ResetMidBody, "reset-after-send": ResetAfterSend,
    "lost-reply": LostReply, "lost-reply-unconditional": LostReplyUnconditional, "reset-mid-reply": ResetMidReply,
    "black-hole": BlackHole, "silent-reply": SilentReply, "slow-request": SlowRequest, "slow-reply": SlowReply,
    "half-close": HalfClose, "half-close-mid-reply": HalfCloseMidReply,
    "slow-down": lambda: Refusal(503, "SlowDown"),
    "internal-error": lambda: Refusal(500, "InternalError"),
    "too-many": lambda: Refusal(429, "TooManyRequests", Retry_After="1"),
    "request-timeout": lambda: Refusal(408, "RequestTimeout", Connection="close"),
    "bad-gateway": lambda: Refusal(502, "BadGateway"),
    "denied": lambda: Refusal(403, "AccessDenied"),
    "expired-token": lambda: Refusal(400, "ExpiredToken"),
    "conflict": lambda: Refusal(409, "ConditionalRequestConflict"),
    "precondition": lambda: Refusal(412, "PreconditionFailed"),
    "no-upload": lambda: Refusal(404, "NoSuchUpload"), "done-but-gone": DoneButGone,
    "ahead": lambda: Skewed(3600), "behind": lambda: Skewed(-3600),
    "always-ahead": lambda: AlwaysSkewed(3600), "always-behind": lambda: AlwaysSkewed(-3600),
    "other-region": lambda: OtherRegion("eu-north-7"),
    "always-other-region": lambda: Refusal(400, "AuthorizationHeaderMalformed", more=element("Region", "eu-south-9")),
    "moved": lambda: Refusal(301, "PermanentRedirect", x_amz_bucket_region="eu-south-9"),
    "redirect": lambda: Redirect("http://127.0.0.1:9/"),
    "error-in-200": ErrorInside200, "html": Page,
    "white-space": lambda: WhiteSpace(2), "white-space-error": lambda: WhiteSpace(1, "InternalError"),
    "endless-white-space": lambda: WhiteSpace(FOREVER_S),
    "truncated": Truncated, "partial": Partial, "overlong": Overlong, "no-etag": NoETag,
    "flip-reply": FlipReply, "flip-request": FlipRequest, "other-range": OtherRange, "no-range": NoRange,
    "many-headers": ManyHeaders,
}

TIMES = {"once": 1, "twice": 2, "always": None}
LINE = re.compile(r"\s*([a-z-]+)(?:\s+(\d+))?\s*:\s*([a-z0-9-]+)(?:\s+(once|twice|always|(\d+) times))?\s*")


class Rule:
    """One line of a script. A part is named by its number, any other request by how many of its step came before."""

    def __init__(self, step, fault, number=None, times=1):
        self.step, self.number, self.fault, self.times = step, number, fault, times
        self.seen = self.hits = 0

    @classmethod
    def parse(cls, line):
        match = LINE.fullmatch(line)
        if not match or match.group(3) not in FAULTS:
            raise ValueError("not a line of a script: %r; faults are %s" % (line, " ".join(FAULTS)))
        step, number, fault, times, count = match.groups()
        return cls(step, FAULTS[fault](), int(number) if number else None,
                   int(count) if count else TIMES[times or "once"])

    def takes(self, request):
        if self.step != request.step:
            return False
        self.seen += 1
        place = self.seen if request.number is None else request.number
        if self.number and (place < self.number if request.number is None else place != self.number):
            return False
        if self.times is not None and self.hits >= self.times:
            return False
        self.hits += 1
        return True


class Script:
    """Rules in order; the first that takes a request has it. Threads may share it."""

    def __init__(self, *rules):
        self.rules = [Rule.parse(rule) if isinstance(rule, str) else rule for rule in rules]
        self.lock = threading.Lock()

    def pick(self, request):
        with self.lock:
            return next((rule.fault for rule in self.rules if rule.takes(request)), None)

    @property
    def hits(self):
        with self.lock:
            return sum(rule.hits for rule in self.rules)
