"""HTTP and S3 as values: a request, a reply, and what kind of step in Cleat's protocol a request is.

Nothing here knows sockets. Heads are kept byte for byte, since a signature covers them.
"""

import re
from urllib.parse import parse_qsl, unquote
from xml.sax.saxutils import escape

REASONS = {200: "OK", 204: "No Content", 206: "Partial Content", 301: "Moved Permanently", 307: "Temporary Redirect",
           400: "Bad Request", 403: "Forbidden", 404: "Not Found", 408: "Request Timeout", 409: "Conflict",
           412: "Precondition Failed", 416: "Range Not Satisfiable", 429: "Too Many Requests",
           500: "Internal Server Error", 501: "Not Implemented", 502: "Bad Gateway", 503: "Service Unavailable"}


class Request:
    """One request; `body` comes later than the head. `step` and `number` say where in the protocol it stands."""

    def __init__(self, head):
        self.head = head
        lines = head.decode("latin-1").split("\r\n")
        self.method, self.target, _ = lines[0].split(" ", 2)
        self.path, _, query = self.target.partition("?")
        self.query = dict(parse_qsl(query, keep_blank_values=True))
        self.bucket, _, self.key = unquote(self.path)[1:].partition("/")
        pairs = (line.partition(":") for line in lines[1:] if line)
        self.headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        self.length = int(self.headers.get("content-length", 0))
        self.body = b""

    @property
    def step(self):
        """create, part, complete, abort, parts; manifest, record, file: puts of these; get-manifest, get-record,
        get-part; list, head, delete; trial: all that a resume tries the store with."""
        key = self.key
        if key.endswith(".trial.json"):
            return "trial"
        what = "manifest" if key.endswith("/manifest.json") else "record" if re.search(r"/rank-\d+\.json$", key) else ""
        if "uploads" in self.query and self.method == "POST":
            return "create"
        if "uploadId" in self.query:
            return {"PUT": "part", "POST": "complete", "DELETE": "abort"}.get(self.method, "parts")
        if self.method == "PUT":
            return what or "file"
        if self.method == "GET":
            return "get-" + (what or "part") if key else "list"
        return self.method.lower()

    @property
    def number(self):
        """Of a part that is sent. Requests of other steps are counted as they come."""
        return int(self.query["partNumber"]) if self.step == "part" else None

    @property
    def range(self):
        """First and last byte asked for, or None."""
        match = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("range", ""))
        return (int(match.group(1)), int(match.group(2))) if match else None

    def __repr__(self):
        return "%s %s" % (self.method, self.target)


class Reply:
    """One reply. Content-Length is that of the body unless `headers` says otherwise, as a fault may."""

    def __init__(self, status, headers=None, body=b""):
        self.status, self.headers, self.body = status, dict(headers or {}), body
        self.bare = False  # to a HEAD: the length is told, the body is not sent

    def header(self, name):
        return next((value for key, value in self.headers.items() if key.lower() == name.lower()), None)

    def replace(self, name, value):
        """Sets one header, whatever its case; None removes it."""
        self.headers = {key: held for key, held in self.headers.items() if key.lower() != name.lower()}
        if value is not None:
            self.headers[name] = value

    def head(self):
        if self.header("Content-Length") is None and self.status != 204:
            self.headers["Content-Length"] = str(len(self.body))
        lines = ["HTTP/1.1 %d %s" % (self.status, REASONS.get(self.status, "Unknown"))]
        lines += ["%s: %s" % pair for pair in self.headers.items()]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")

    def encode(self):
        return self.head() + (b"" if self.bare else self.body)


def xml(text):
    return b'<?xml version="1.0" encoding="UTF-8"?>\n' + text.encode()


def element(name, value):
    return "<%s>%s</%s>" % (name, escape(str(value)), name)


def error(status, code, message="as the script says", more="", headers=None):
    """An <Error> as S3 sends it."""
    body = "<Error>%s%s%s<RequestId>FAULT</RequestId></Error>" % (element("Code", code), element("Message",
                                                                                                 message), more)
    return Reply(status, dict({"Content-Type": "application/xml", "x-amz-request-id": "FAULT"}, **(headers or {})),
                 xml(body))
