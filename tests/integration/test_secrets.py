"""No message or log line contains a secret, whatever stores, proxies, files and programs answer.

Each test runs the program with -v -v, so that it prints as much as possible, against a server that repeats what it
received. Its output is searched for pieces of 12 bytes of every planted secret. The server adds the signatures and
authorizations that it saw.
"""

import base64
import os
import re
import socket
import threading
import time
from xml.sax.saxutils import escape

import pytest

from helpers import clean_environment, fill, run

SECONDS_MAX = 60  # no case may come near
PIECE = 12
SECRET = "plantedSecretAccessKey/0123456789+abcdefghij"
TOKEN = "plantedSessionToken//" + "FwoGZXIvYXdzEBYaDKdUvVxTqNo8" * 4 + "=="
SSE_C = base64.b64encode(b"planted SSE-C key of 32 bytes !!").decode()
PROXY_PASSWORD = "plantedProxyPassword0123456789"
WEB_TOKEN = "plantedWebToken.eyJhbGciOiJSUzI1NiJ9.c2lnbmF0dXJl"
CONTAINER_TOKEN = "plantedContainerToken0123456789"
PROXY_BASIC = base64.b64encode(("user:" + PROXY_PASSWORD).encode()).decode()
PLANTED = [SECRET, TOKEN, SSE_C, PROXY_PASSWORD, WEB_TOKEN, CONTAINER_TOKEN, PROXY_BASIC]
SENSITIVE = re.compile(
    r"(?:authorization|security-token|customer-key|Authorization): ([^\r\n]+)|Signature=([0-9a-f]{64})", re.I)


class Echo:
    """An HTTP server that answers each request with one of its headers after the other, in the way of `reply`."""

    def __init__(self, reply):
        self.reply, self.seen, self.requests = reply, set(), 0
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = "http://127.0.0.1:%d" % self.socket.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        with connection:
            connection.settimeout(20)
            data = b""
            try:
                while b"\r\n\r\n" not in data:
                    more = connection.recv(65536)
                    if not more:
                        return
                    data += more
                head, _, body = data.partition(b"\r\n\r\n")
                text = head.decode("latin-1")
                length = re.search(r"content-length: *(\d+)", text, re.I)
                while length and len(body) < int(length.group(1)):
                    more = connection.recv(65536)
                    if not more:
                        return
                    body += more
                sensitive = [found[0] or found[1] for found in SENSITIVE.findall(text)]
                sensitive += re.findall(r"Signature=([0-9a-f]{64})", text)
                self.seen.update(secret for secret in sensitive if "Credential=" not in secret)
                texts = sensitive + [body.decode("latin-1")[-400:], text]
                self.requests += 1
                connection.sendall(self.reply(texts[self.requests % len(texts)]).encode("latin-1", "replace"))
            except OSError:
                return

    def close(self):
        self.socket.close()


def http(status, body, *headers):
    return "\r\n".join(["HTTP/1.1 " + status, "Connection: close", *headers, "", body])


def line(text):
    return text.replace("\r", " ").replace("\n", " ")


REPLIES = {
    "message": lambda text: http("400 Bad", "<Error><Code>Echo</Code><Message>%s</Message></Error>" % escape(text)),
    "code": lambda text: http("403 No", "<Error><Code>%s</Code></Error>" % escape(text)),
    "request id": lambda text: http("400 Bad", "", "x-amz-request-id: " + line(text)[:90]),
    "region": lambda text: http("301 Moved", "", "x-amz-bucket-region: " + line(text)[:60]),
    "location": lambda text: http("307 Moved", "", "Location: http://127.0.0.1:1/?" + line(text)),
    "status line": lambda text: http("400 " + line(text), ""),
    "no http": lambda text: text,
    "again": lambda text: http("503 Slow", "<Error><Code>SlowDown</Code><Message>%s</Message></Error>" % escape(text)),
    "inside a 200": lambda text: http("200 OK", "<Error><Code>Echo</Code><Message>%s</Message></Error>" % escape(text)),
    "html": lambda text: http("200 OK", "<html>%s</html>" % escape(text)),
    "sts": lambda text: http(
        "400 Bad", "<ErrorResponse><Error><Code>Echo</Code><Message>%s</Message></Error></ErrorResponse>" % escape(text)
    ),
    "json": lambda text: http("200 OK", '{"Code":"Success","AccessKeyId":"%s"' % line(text).replace('"', "")),
    "text": lambda text: http("200 OK", line(text)),
}


@pytest.fixture
def echo(request):
    server = Echo(REPLIES[request.param])
    yield server
    server.close()


def environment(home, **more):
    clean = {name: value for name, value in clean_environment().items()
             if not name.startswith("AWS_") and not name.lower().endswith("_proxy")}
    return dict(clean, HOME=str(home), AWS_EC2_METADATA_DISABLED="true", AWS_REGION="us-east-1", **more)


def search(result, secrets):
    said = result.out + result.err
    for secret in secrets:
        for start in range(0, max(len(secret) - PIECE, 0) + 1):
            piece = secret[start:start + PIECE]
            assert len(piece) < PIECE or piece not in said, "%r of %r in: %s" % (piece, secret, result)


def check(url, source, around, seen=()):
    """Each command fails, in bounded time, with a message, and says nothing that was planted or seen on the wire."""
    for arguments in (["ls", url], ["save", source, url, "--step", "1"], ["load", url, str(source) + "-back"]):
        before = time.monotonic()
        result = run(*arguments, "-v", "-v", "--time-limit", "2", environment=around, timeout=SECONDS_MAX)
        assert time.monotonic() - before < SECONDS_MAX
        assert result.code not in (0, 3) and "cleat: " in result.err, result
        search(result, PLANTED + sorted(seen))


STORE = [
    "message", "code", "request id", "region", "location", "status line", "no http", "again", "inside a 200", "html"
]


@pytest.mark.parametrize("echo", STORE, indirect=True)
def test_stores_that_say_it_back(echo, tmp_path, small):
    around = environment(tmp_path, AWS_ACCESS_KEY_ID="AKIDPLANTED", AWS_SECRET_ACCESS_KEY=SECRET,
                         AWS_SESSION_TOKEN=TOKEN, CLEAT_SSE_C_KEY=SSE_C, AWS_ENDPOINT_URL=echo.url)
    check("s3://bucket/run", small, around, echo.seen)
    assert TOKEN in echo.seen and SSE_C in echo.seen and any(re.fullmatch("[0-9a-f]{64}", text) for text in echo.seen)


@pytest.mark.parametrize("echo", ["message", "status line", "no http", "location", "html"], indirect=True)
def test_proxies_that_say_it_back(echo, tmp_path, small):
    proxy = echo.url.replace("http://", "http://user:%s@" % PROXY_PASSWORD)
    for scheme in ("http", "https"):
        around = environment(tmp_path, AWS_ACCESS_KEY_ID="AKIDPLANTED", AWS_SECRET_ACCESS_KEY=SECRET,
                             AWS_SESSION_TOKEN=TOKEN, http_proxy=proxy, https_proxy=proxy,
                             AWS_ENDPOINT_URL="%s://192.0.2.1:9000" % scheme)
        check("s3://bucket/run", small, around, echo.seen)
    assert "Basic " + PROXY_BASIC in echo.seen


@pytest.mark.parametrize("proxy",
                         ["http://user:%s@host:99999", "ftp://user:%s@host", "http://user:%s@", "http://user:%s@a b"])
def test_proxies_that_are_none(tmp_path, small, proxy):
    around = environment(tmp_path, AWS_ACCESS_KEY_ID="AKIDPLANTED", AWS_SECRET_ACCESS_KEY=SECRET,
                         http_proxy=proxy % PROXY_PASSWORD, AWS_ENDPOINT_URL="http://192.0.2.1:9000")
    check("s3://bucket/run", small, around)


@pytest.mark.parametrize("echo", ["sts", "message", "html", "location", "text", "no http"], indirect=True)
def test_sts_that_says_it_back(echo, tmp_path, small):
    token = tmp_path / "token"
    token.write_text(WEB_TOKEN)
    around = environment(tmp_path, AWS_WEB_IDENTITY_TOKEN_FILE=str(token), AWS_ROLE_ARN="arn:aws:iam::1:role/r",
                         AWS_ENDPOINT_URL_STS=echo.url, AWS_ENDPOINT_URL_S3="http://127.0.0.1:1")
    check("s3://bucket/run", small, around, echo.seen)
    assert echo.requests > 0


@pytest.mark.parametrize("echo", ["json", "text", "html", "location", "message", "no http"], indirect=True)
def test_metadata_that_say_it_back(echo, tmp_path, small):
    places = [
        dict(AWS_CONTAINER_CREDENTIALS_FULL_URI=echo.url + "/keys", AWS_CONTAINER_AUTHORIZATION_TOKEN=CONTAINER_TOKEN),
        dict(AWS_EC2_METADATA_DISABLED="false", AWS_EC2_METADATA_SERVICE_ENDPOINT=echo.url)
    ]
    for place in places:
        around = dict(environment(tmp_path, AWS_ENDPOINT_URL_S3="http://127.0.0.1:1"), **place)
        check("s3://bucket/run", small, around, echo.seen)
    assert CONTAINER_TOKEN in echo.seen


@pytest.mark.parametrize("token", [
    CONTAINER_TOKEN + "\nX-Evil: 1", CONTAINER_TOKEN + "\r\n\r\nGET / HTTP/1.1", "\x01" + CONTAINER_TOKEN
])
@pytest.mark.parametrize("echo", ["message"], indirect=True)
def test_tokens_that_would_end_a_header(echo, tmp_path, small, token):
    around = environment(tmp_path, AWS_ENDPOINT_URL=echo.url)
    check("s3://bucket/run", small,
          dict(around, AWS_ACCESS_KEY_ID="AKID", AWS_SECRET_ACCESS_KEY=SECRET, AWS_SESSION_TOKEN=token))
    check("s3://bucket/run", small, dict(around, AWS_CONTAINER_CREDENTIALS_FULL_URI=echo.url,
                                         AWS_CONTAINER_AUTHORIZATION_TOKEN=token))
    (tmp_path / "token").write_bytes(token.encode())
    check("s3://bucket/run", small, dict(around, AWS_CONTAINER_CREDENTIALS_FULL_URI=echo.url,
                                         AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE=str(tmp_path / "token")))
    assert echo.requests == 0


def a_file(path, what):
    if what == "folder":
        path.mkdir()
    elif what == "pipe":
        os.mkfifo(path)
    elif what == "zeros":
        path.symlink_to("/dev/zero")
    elif what == "100 MB":
        path.write_text("[default]\naws_secret_access_key = %s\n" % SECRET)
        os.truncate(path, 100 << 20)
    else:
        path.write_bytes({
            "no section": b"aws_secret_access_key = %b\n",
            "no equal sign": b"[default]\n%b\n",
            "open section": b"[default\naws_secret_access_key = %b\n",
            "a NUL": b"[default]\naws_access_key_id = a\naws_secret_access_key = %b\0\n",
            "a line end in quotes": b"[default]\naws_access_key_id = a\naws_secret_access_key = \"%b\n x\"\n",
            "half a pair": b"[default]\naws_secret_access_key = %b\n",
            "no newline": b"[default] %b" + b"x" * 4000000,
            "binary": b"[default]\n\x7fELF\x02\x01\x01\xff\xfe%b\n",
        }[what] % SECRET.encode())


@pytest.mark.parametrize("what", [
    "folder", "pipe", "zeros", "100 MB", "no section", "no equal sign", "open section", "a NUL", "a line end in quotes",
    "half a pair", "no newline", "binary"
])
def test_files_of_keys_that_are_none(tmp_path, small, what):
    a_file(tmp_path / "keys", what)
    around = environment(tmp_path, AWS_SHARED_CREDENTIALS_FILE=str(tmp_path / "keys"),
                         AWS_ENDPOINT_URL="http://127.0.0.1:1")
    check("s3://bucket/run", small, around)


@pytest.mark.parametrize("program", [
    "echo %s; exit 3", "echo %s >&2; kill -9 $$", "echo '{\"Version\":1,\"AccessKeyId\":\"%s'", "yes %s",
    "yes %s >&2 & echo %s; wait", "head -c 10000000 /dev/urandom", "echo %s; (sleep 30; echo %s) & exit 1"
])
def test_programs_that_say_it(tmp_path, small, program):
    script = tmp_path / "tool"
    script.write_text("#!/bin/sh\n[ \"$2\" = %s ] || exit 9\n%s\n" % (SECRET, program.replace("%s", SECRET).replace(
        " & echo", " & p=$!; echo").replace("wait", "kill $p")))
    script.chmod(0o755)
    fill(tmp_path, {".aws/config": ("[default]\ncredential_process = %s --password %s\n" % (script, SECRET)).encode()})
    check("s3://bucket/run", small, environment(tmp_path, AWS_ENDPOINT_URL="http://127.0.0.1:1"))


@pytest.mark.parametrize("url", [
    "s3://AKID:%s@bucket/run", "s3://%s@bucket", "s3://bucket/run?sse_c_key=%s", "s3://bucket/run?sse-c-key=%s",
    "s3://bucket/run?endpoint=http%%3A%%2F%%2Fuser%%3A%s%%40host", "http://user:%s@host/bucket",
    "s3://bucket/run?secret_access_key=%s", "s3://bucket/run?session-token=%s", "s3://bucket/run?x=%s"
])
def test_secrets_in_urls(tmp_path, small, url):
    around = environment(tmp_path, AWS_ACCESS_KEY_ID="AKIDPLANTED", AWS_SECRET_ACCESS_KEY=SECRET)
    check(url % SECRET, small, around)
