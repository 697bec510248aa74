"""A store that keeps its objects in memory and answers what Cleat asks of S3, and no more: put with conditions, get
with ranges, head, list, delete, and uploads in parts and their list.

Checksums, sizes and dates are checked as S3 checks them; signatures are not (MinIO is there for that). Threads may
share a store: each request is answered under one lock, with nothing else done there.
"""

import base64
import datetime
import email.utils
import hashlib
import re
import threading
import time
import uuid
from urllib.parse import quote
from xml.etree import ElementTree

import google_crc32c

from s3_wire import Reply, element, error, xml

PART_MIN = 5 << 20
SKEW_MAX_S = 900


def date(moment):
    return datetime.datetime.fromtimestamp(moment, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.000Z")


class Object:
    def __init__(self, body, etag=None, made=None):
        self.body, self.made = body, time.time() if made is None else made
        crc32c = google_crc32c.value(body)
        self.etag = etag or '"%08x-%d"' % (crc32c, len(body))  # opaque; MD5 would cost more than all the rest
        self.crc32c = base64.b64encode(crc32c.to_bytes(4, "big")).decode()


class Upload:
    def __init__(self, key):
        self.key, self.parts, self.made = key, {}, time.time()


class MemoryStore:
    """Any bucket name is this one bucket. `objects` and `uploads` may be looked at and changed while no request
    runs."""

    def __init__(self, objects=None):
        self.objects = dict(objects or {})  # key: Object
        self.uploads = {}  # id: Upload
        self.lock = threading.Lock()
        self.preconditions = True  # False: accepted, and ignored
        self.if_match = ("quoted",)  # the forms of an ETag that If-Match takes: "quoted", "bare"; 412 to all others
        self.clock_s = 0  # how far this store's clock is ahead
        self.region = None  # requests signed for another are refused; None: none is

    def now(self):
        return time.time() + self.clock_s

    def answer(self, request):
        with self.lock:
            reply = self.refuse(request) or self.operation(request)(request)
        reply.bare = request.method == "HEAD"
        reply.replace("Date", email.utils.formatdate(self.now(), usegmt=True))
        return reply

    # ---- What is looked at first ----

    def refuse(self, request):
        return self.wrong_time(request) or self.wrong_region(request) or self.wrong_body(request)

    def wrong_time(self, request):
        signed = request.headers.get("x-amz-date")
        if not signed:
            return error(403, "AccessDenied", "not signed")
        then = datetime.datetime.strptime(signed, "%Y%m%dT%H%M%SZ").replace(tzinfo=datetime.timezone.utc)
        if abs(then.timestamp() - self.now()) <= SKEW_MAX_S:
            return None
        now = datetime.datetime.fromtimestamp(self.now(), datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        return error(403, "RequestTimeTooSkewed", "too far from the server's time", element("ServerTime", now))

    def wrong_region(self, request):
        scope = re.search(r"Credential=[^/]+/\d+/([^/]+)/", request.headers.get("authorization", ""))
        if self.region is None or (scope and scope.group(1) == self.region):
            return None
        return error(400, "AuthorizationHeaderMalformed", "the region is wrong", element("Region", self.region),
                     {"x-amz-bucket-region": self.region})

    @staticmethod
    def wrong_body(request):
        if len(request.body) != request.length:
            return error(400, "IncompleteBody")
        crc32c, sha256 = request.headers.get("x-amz-checksum-crc32c"), request.headers.get("x-amz-content-sha256", "")
        if crc32c and crc32c != Object(request.body).crc32c:
            return error(400, "BadDigest", "the CRC32C does not match")
        if re.fullmatch("[0-9a-f]{64}", sha256) and sha256 != hashlib.sha256(request.body).hexdigest():
            return error(400, "XAmzContentSHA256Mismatch")
        return None

    def operation(self, request):
        if "uploads" in request.query and request.method == "POST":
            return self.create
        if "uploadId" in request.query:
            return {"PUT": self.part, "POST": self.complete, "DELETE": self.abort, "GET": self.parts}[request.method]
        if not request.key:
            return self.open_uploads if "uploads" in request.query else self.list
        return {"PUT": self.put, "GET": self.get, "HEAD": self.get, "DELETE": self.delete}[request.method]

    # ---- Objects ----

    def put(self, request):
        held = self.objects.get(request.key)
        if self.preconditions:
            wanted = request.headers.get("if-match")
            if request.headers.get("if-none-match") == "*" and held:
                return error(412, "PreconditionFailed")
            if wanted and not held:
                return error(404, "NoSuchKey")
            if wanted and not self.is_match(held.etag, wanted):
                return error(412, "PreconditionFailed")
        self.objects[request.key] = made = Object(request.body)
        return Reply(200, {"ETag": made.etag})

    def is_match(self, etag, wanted):
        forms = {"quoted": etag, "bare": etag.strip('"')}
        return any(forms[form] == wanted for form in self.if_match)

    def get(self, request):
        held = self.objects.get(request.key)
        if not held:
            return error(404, "NoSuchKey")
        headers = {"ETag": held.etag, "Content-Type": "application/octet-stream"}
        if request.headers.get("x-amz-checksum-mode", "").upper() == "ENABLED" and not request.range:
            headers["x-amz-checksum-crc32c"] = held.crc32c
        if not request.range:
            return Reply(200, headers, held.body)
        first, last = request.range
        if first >= len(held.body):
            return error(416, "InvalidRange")
        last = min(last, len(held.body) - 1)
        headers["Content-Range"] = "bytes %d-%d/%d" % (first, last, len(held.body))
        return Reply(206, headers, held.body[first:last + 1])

    def delete(self, request):
        self.objects.pop(request.key, None)
        return Reply(204)

    def list(self, request):
        query = request.query
        prefix, delimiter, most = query.get("prefix", ""), query.get("delimiter", ""), int(query.get("max-keys", 1000))
        entries = {}
        for key in sorted(self.objects):
            rest = key[len(prefix):]
            if key.startswith(prefix):
                folded = delimiter and delimiter in rest
                entries[prefix + rest.partition(delimiter)[0] + delimiter if folded else key] = folded
        names = sorted(name for name in entries if name > query.get("continuation-token", ""))
        page, more = names[:most], len(names) > most
        text = "".join(
            "<CommonPrefixes>%s</CommonPrefixes>" % element("Prefix", quote(name)) if entries[name] else
            "<Contents>%s%s%s%s</Contents>" % (
                element("Key", quote(name)), element("Size", len(self.objects[name].body)),
                element("ETag", self.objects[name].etag),
                element("LastModified", date(self.objects[name].made))) for name in page)
        text += element("IsTruncated", "true" if more else "false")
        text += element("NextContinuationToken", page[-1]) if more else ""
        return Reply(200, {"Content-Type": "application/xml"},
                     xml("<ListBucketResult>%s%s%s</ListBucketResult>" % (element("Prefix", quote(prefix)),
                                                                          element("EncodingType", "url"), text)))

    # ---- Uploads in parts ----

    def create(self, request):
        name = uuid.uuid4().hex
        self.uploads[name] = Upload(request.key)
        text = element("Bucket", request.bucket) + element("Key", request.key) + element("UploadId", name)
        return Reply(200, {"Content-Type": "application/xml"},
                     xml("<InitiateMultipartUploadResult>%s</InitiateMultipartUploadResult>" % text))

    def upload(self, request):
        held = self.uploads.get(request.query["uploadId"])
        return held if held and held.key == request.key else None

    def part(self, request):
        upload = self.upload(request)
        if not upload:
            return error(404, "NoSuchUpload")
        upload.parts[int(request.query["partNumber"])] = made = Object(request.body)
        return Reply(200, {"ETag": made.etag, "x-amz-checksum-crc32c": made.crc32c})

    def complete(self, request):
        upload = self.upload(request)
        if not upload:
            return error(404, "NoSuchUpload")
        try:
            document = ElementTree.fromstring(request.body)
            named = [(int(part.findtext("{*}PartNumber")), part.findtext("{*}ETag")) for part in document]
        except (ElementTree.ParseError, TypeError, ValueError):
            return error(400, "MalformedXML")
        if not named or any(part.tag.rpartition("}")[2] != "Part" for part in document):
            return error(400, "MalformedXML")
        if [number for number, _ in named] != sorted({number for number, _ in named}):
            return error(400, "InvalidPartOrder")
        if any(number not in upload.parts or upload.parts[number].etag != etag for number, etag in named):
            return error(400, "InvalidPart")
        chosen = [upload.parts[number] for number, _ in named]
        if any(len(part.body) < PART_MIN for part in chosen[:-1]):
            return error(400, "EntityTooSmall")
        if self.preconditions and request.headers.get("if-none-match") == "*" and request.key in self.objects:
            return error(412, "PreconditionFailed")
        body = b"".join(part.body for part in chosen)
        if int(request.headers.get("x-amz-mp-object-size", len(body))) != len(body):
            return error(400, "InvalidRequest", "the object has another size")
        etag = '"%s-%d"' % (hashlib.md5("".join(part.etag for part in chosen).encode()).hexdigest(), len(chosen))
        self.objects[request.key] = Object(body, etag)
        del self.uploads[request.query["uploadId"]]
        text = element("Bucket", request.bucket) + element("Key", request.key) + element("ETag", etag)
        return Reply(200, {"Content-Type": "application/xml"},
                     xml("<CompleteMultipartUploadResult>%s</CompleteMultipartUploadResult>" % text))

    def open_uploads(self, request):
        text = "".join("<Upload>%s%s%s</Upload>" % (element("Key", quote(held.key)), element("UploadId", name),
                                                       element("Initiated", date(held.made)))
                       for name, held in sorted(self.uploads.items(), key=lambda item: (item[1].key, item[0]))
                       if held.key.startswith(request.query.get("prefix", "")))
        return Reply(200, {"Content-Type": "application/xml"},
                     xml("<ListMultipartUploadsResult>%s%s%s</ListMultipartUploadsResult>" % (
                         element("EncodingType", "url"), element("IsTruncated", "false"), text)))

    def abort(self, request):
        if not self.upload(request):
            return error(404, "NoSuchUpload")
        del self.uploads[request.query["uploadId"]]
        return Reply(204)

    def parts(self, request):
        upload = self.upload(request)
        if not upload:
            return error(404, "NoSuchUpload")
        text = "".join(
            "<Part>%s%s%s%s</Part>" % (element("PartNumber", number), element("ETag", part.etag),
                                       element("Size", len(part.body)), element("ChecksumCRC32C", part.crc32c))
            for number, part in sorted(upload.parts.items()))
        return Reply(200, {"Content-Type": "application/xml"},
                     xml("<ListPartsResult>%s%s</ListPartsResult>" % (element("IsTruncated", "false"), text)))
