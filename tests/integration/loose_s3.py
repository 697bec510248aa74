"""A small S3 server that misbehaves on request. It can ignore conditions and checksums, deny operations, let writers
race, and have a wrong clock. It requires no signatures: those are tested against real servers."""

import base64
import hashlib
import http.server
import threading
import time
from email.utils import formatdate
from urllib.parse import parse_qsl, quote, unquote, urlsplit
from xml.sax.saxutils import escape

SECONDS_MAX = 20
CHECKED_MAX = 100000  # bodies beyond are taken as they come: the CRC below is slow


def crc32c_table():
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


TABLE = crc32c_table()


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 255] ^ (crc >> 8)
    return base64.b64encode((crc ^ 0xFFFFFFFF).to_bytes(4, "big")).decode()


class Refused(Exception):
    def __init__(self, status, code):
        super().__init__(code)
        self.status, self.code = status, code


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def date_time_string(self, timestamp=None):
        return formatdate((timestamp or time.time()) + self.server.store.clock_offset, usegmt=True)

    def answer(self, status, body=b"", headers=()):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def handle_any(self):
        length = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(length)
        url = urlsplit(self.path)
        query = dict(parse_qsl(url.query, keep_blank_values=True))
        key = unquote(url.path).lstrip("/").partition("/")[2]
        if "backslashes" in self.server.store.ignore:
            key = key.replace("\\", "/")
        try:
            self.server.store.check_clock(self.headers)
            self.answer(*self.server.store.serve(self.command, key, query, self.headers, body))
        except Refused as refused:
            xml = "<Error><Code>%s</Code><Message>told to</Message></Error>" % refused.code
            self.answer(refused.status, xml.encode() if refused.code else b"")

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_any


class LooseS3:
    """`ignore`: of create-only, create-only-uploads, if-match, checksum, delete, range, absence, encoding, which lists
    then claim and have not, "kept objects" (an abort removes the object of its key), "folders" (a list leaves folders
    out that hold no object but in folders), and "backslashes", taken for slashes; `deny`: operations answered with 403;
    `lack`: with 501, also requests with the headers of create-only, if-match and size, and of create-only-uploads:
    completions with the first of them; `want`: of "named checksums" (a Complete must name those of its parts), "unnamed
    checksums" (it must name none), "no checksums" (400 to each), "no backslashes" (400 without a reason to each such
    key). `race`: two conditional puts of a key whose name holds "/race-" or ".trial." look for it before either stores
    it. `empty`: so often each manifest reads as empty."""

    def __init__(self, ignore=(), deny=(), lack=(), want=(), race=False, clock_offset=0, empty=0):
        self.ignore, self.deny, self.lack, self.race, self.clock_offset = ignore, deny, lack, race, clock_offset
        self.want, self.empty, self.empty_left = want, empty, {}
        self.objects, self.uploads, self.count = {}, {}, 0
        self.requests = []
        self.lock = threading.Lock()
        self.barrier = threading.Barrier(2)
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.store = self
        self.url = "http://127.0.0.1:%d" % self.server.server_port
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def check_clock(self, headers):
        if abs(self.clock_offset) < 900 or "X-Amz-Date" not in headers:
            return
        told = time.mktime(time.strptime(headers["X-Amz-Date"], "%Y%m%dT%H%M%SZ")) - time.timezone
        if abs(told - time.time() - self.clock_offset) > 900:
            raise Refused(403, "RequestTimeTooSkewed")

    def operation(self, method, key, query):
        if "uploads" in query:
            return "create" if method == "POST" else "list-uploads"
        if "uploadId" in query:
            return {"PUT": "part", "POST": "complete", "DELETE": "abort", "GET": "list-parts"}[method]
        if method == "GET" and not key:
            return "list"
        return {"PUT": "put", "GET": "get", "HEAD": "head", "DELETE": "delete"}[method]

    def serve(self, method, key, query, headers, body):
        operation = self.operation(method, key, query)
        with self.lock:
            self.requests.append((operation, key))
        conditions = {"create-only": "If-None-Match", "if-match": "If-Match", "size": "x-amz-mp-object-size"}
        asked = {name for name, header in conditions.items() if operation in ("put", "complete") and header in headers}
        if operation == "complete" and "create-only" in asked:
            asked.add("create-only-uploads")
        if operation in self.deny or asked & set(self.deny):
            raise Refused(403, "AccessDenied")
        if operation in self.lack or asked & set(self.lack):
            raise Refused(501, "NotImplemented")
        if "no backslashes" in self.want and "\\" in key:
            raise Refused(400, "")
        if "no checksums" in self.want and any(name.lower().startswith("x-amz-checksum-") for name in headers):
            raise Refused(400, "InvalidArgument")
        return getattr(self, "do_" + operation.replace("-", "_"))(key, query, headers, body)

    def check_body(self, headers, body):
        told = headers.get("x-amz-checksum-crc32c")
        if told and "checksum" not in self.ignore and len(body) <= CHECKED_MAX and told != crc32c(body):
            raise Refused(400, "BadDigest")

    def etag(self, body):
        if "named checksums" in self.want:
            return '"%s"' % hashlib.md5(body).hexdigest()
        self.count += 1
        return '"%d-%d"' % (len(body), self.count)

    def check_conditions(self, key, headers):
        there = self.objects.get(key)
        if "If-None-Match" in headers and "create-only" not in self.ignore and there:
            raise Refused(412, "PreconditionFailed")
        if "If-Match" in headers and "if-match" not in self.ignore and (not there or there[1] != headers["If-Match"]):
            raise Refused(412, "PreconditionFailed")

    def do_put(self, key, _query, headers, body):
        self.check_body(headers, body)
        with self.lock:
            self.check_conditions(key, headers)
        if self.race and "If-None-Match" in headers and ("/race-" in key or ".trial." in key):
            self.barrier.wait(SECONDS_MAX)
        with self.lock:
            etag = self.etag(body)
            self.objects[key] = (body, etag)
        return 200, b"", [("ETag", etag)]

    def find(self, key):
        with self.lock:
            if key not in self.objects and "absence" in self.ignore:
                return b"<html>welcome</html>", '"page"'
            if key not in self.objects:
                raise Refused(404, "NoSuchKey")
            return self.objects[key]

    def is_emptied(self, key):
        """Whether a manifest that is there is to be shown as empty once more."""
        with self.lock:
            left = self.empty_left.setdefault(key, self.empty) if key.endswith("/manifest.json") else 0
            self.empty_left[key] = left - 1
        return left > 0

    def do_get(self, key, _query, headers, _body):
        body, etag = self.find(key)
        if self.is_emptied(key):
            return 200, b"", [("ETag", etag)]
        told = headers.get("Range")
        if not told or "range" in self.ignore:
            return 200, body, [("ETag", etag)]
        first, last = (int(number) for number in told[len("bytes="):].split("-"))
        if first >= len(body):
            raise Refused(416, "InvalidRange")
        piece = body[first:last + 1]
        place = "bytes %d-%d/%d" % (first, first + len(piece) - 1, len(body))
        return 206, piece, [("ETag", etag), ("Content-Range", place)]

    def do_head(self, key, *_):
        body, etag = self.find(key)
        return 200, body, [("ETag", etag)]

    def do_delete(self, key, *_):
        with self.lock:
            if "delete" not in self.ignore:
                self.objects.pop(key, None)
        return 204, b""

    def do_list(self, _key, query, _headers, _body):
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        entries, prefixes = [], set()
        encode = str if "encoding" in self.ignore else quote
        with self.lock:
            for key in sorted(self.objects):
                rest = key[len(prefix):]
                if not key.startswith(prefix):
                    continue
                if delimiter and "folders" in self.ignore and rest.count(delimiter) > 1:
                    continue
                if delimiter and delimiter in rest:
                    prefixes.add(prefix + rest.partition(delimiter)[0] + delimiter)
                else:
                    entries.append("<Contents><Key>%s</Key><Size>%d</Size></Contents>"
                                   % (escape(encode(key)), len(self.objects[key][0])))
        folded = "".join("<CommonPrefixes><Prefix>%s</Prefix></CommonPrefixes>" % escape(encode(name))
                         for name in sorted(prefixes))
        xml = "<ListBucketResult><EncodingType>url</EncodingType><IsTruncated>false</IsTruncated>%s%s" \
              "</ListBucketResult>"
        return 200, (xml % ("".join(entries), folded)).encode()

    # ---- uploads ----

    def upload(self, query):
        if query["uploadId"] not in self.uploads:
            raise Refused(404, "NoSuchUpload")
        return self.uploads[query["uploadId"]]

    def do_create(self, key, *_):
        with self.lock:
            self.count += 1
            name = "u%d" % self.count
            self.uploads[name] = (key, {})
        return 200, ("<InitiateMultipartUploadResult><UploadId>%s</UploadId></InitiateMultipartUploadResult>"
                     % name).encode()

    def do_part(self, _key, query, headers, body):
        self.check_body(headers, body)
        with self.lock:
            etag = self.etag(body)
            self.upload(query)[1][int(query["partNumber"])] = (body, etag)
        return 200, b"", [("ETag", etag)]

    def do_complete(self, key, query, headers, body):
        with self.lock:
            parts = self.upload(query)[1]
            if "named checksums" in self.want and body.count(b"<ChecksumCRC32C>") != len(parts):
                raise Refused(400, "InvalidRequest")
            if "unnamed checksums" in self.want and b"<Checksum" in body:
                raise Refused(400, "MalformedXML")
            if "create-only-uploads" not in self.ignore:
                self.check_conditions(key, headers)
            body = b"".join(parts[number][0] for number in sorted(parts))
            etag = self.etag(body)
            self.objects[key] = (body, etag)
            del self.uploads[query["uploadId"]]
        return 200, ("<CompleteMultipartUploadResult><ETag>%s</ETag></CompleteMultipartUploadResult>"
                     % escape(etag)).encode()

    def do_list_parts(self, _key, query, *_):
        with self.lock:
            parts = self.upload(query)[1]
            listed = "".join("<Part><PartNumber>%d</PartNumber><Size>%d</Size><ETag>%s</ETag></Part>"
                             % (number, len(parts[number][0]), escape(parts[number][1])) for number in sorted(parts))
        return 200, ("<ListPartsResult><IsTruncated>false</IsTruncated>%s</ListPartsResult>" % listed).encode()

    def do_list_uploads(self, _key, query, *_):
        prefix = query.get("prefix", "")
        with self.lock:
            listed = "".join(
                "<Upload><Key>%s</Key><UploadId>%s</UploadId><Initiated>2020-01-01T00:00:00Z</Initiated></Upload>" %
                (escape(key), name) for name, (key, _) in self.uploads.items() if key.startswith(prefix))
        return 200, ("<ListMultipartUploadsResult><IsTruncated>false</IsTruncated>%s</ListMultipartUploadsResult>"
                     % listed).encode()

    def do_abort(self, key, query, *_):
        with self.lock:
            self.upload(query)
            if "kept objects" in self.ignore:
                self.objects.pop(key, None)
            del self.uploads[query["uploadId"]]
        return 204, b""
