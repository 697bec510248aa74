"""HTTPS with a private CA, and its failures: each one ends at once and says what is wrong and what to do."""

import socket
import ssl
import subprocess
import threading
from urllib.parse import urlsplit

import pytest

from helpers import ON_EVERY_SERVER, ROOT, Server, assert_error, run

TLS_SERVERS = ("minio-https", "versitygw-https")
PLAIN_SERVERS = ("minio-http", "versitygw-http")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run([ROOT / "tests" / "tools" / "certificates.sh", folder], check=True)
    return folder


def ls(server, time_limit_s=60, **changes):
    """What must fail, before anything is looked for. Only what is tried again needs the time limit."""
    environment = {name: value for name, value in dict(server.environment, **changes).items() if value is not None}
    return run("ls", "s3://bucket/run", "--time-limit", time_limit_s, environment=environment)


def on_every(servers):
    return pytest.mark.parametrize("server", servers, indirect=True)


@on_every(TLS_SERVERS)
def test_a_private_ca_must_be_named(server):
    lines = assert_error(ls(server, AWS_CA_BUNDLE=None), 1, "TLS failed", "certificate")
    assert "AWS_CA_BUNDLE" in lines[1] and server.endpoint in lines[1], lines


@on_every(TLS_SERVERS)
def test_another_ca(server, certificates):
    lines = assert_error(ls(server, AWS_CA_BUNDLE=str(certificates / "other.crt")), 1, "TLS failed", "certificate")
    assert "AWS_CA_BUNDLE" in lines[1], lines


@on_every(TLS_SERVERS)
@pytest.mark.parametrize("content", [None, b"", b"not a certificate\n"])
def test_a_ca_file_that_is_none(server, tmp_path, content):
    path = tmp_path / "ca.crt"
    if content is not None:
        path.write_bytes(content)
    lines = assert_error(ls(server, AWS_CA_BUNDLE=str(path)), 2, "CA file", path)
    assert "AWS_CA_BUNDLE" in " ".join(lines), lines


@ON_EVERY_SERVER
def test_the_ca_may_stand_in_the_url(bucket, small):
    """And elsewhere it does no harm."""
    ca = bucket.environment.pop("AWS_CA_BUNDLE", "/etc/ssl/certs/ca-certificates.crt")
    bucket.url += "?ca_file=%s" % ca
    bucket.save(small, 1)
    assert bucket.cleat("verify", bucket.url).code == 0


@on_every(TLS_SERVERS)
def test_plain_http_to_a_tls_port(server):
    """MinIO says what is wrong, once; versitygw hangs up, however often it is tried."""
    plain = server.direct.replace("https://", "http://")
    result = ls(server, time_limit_s=2, AWS_ENDPOINT_URL=plain)
    lines = assert_error(result, 1, *(["TLS failed", "plain HTTP"] if server.kind == "minio" else []))
    assert plain in lines[1] and "https://" in lines[1], lines


@on_every(PLAIN_SERVERS)
def test_tls_to_a_plain_port(server):
    endpoint = server.direct.replace("http://", "https://")
    lines = assert_error(ls(server, AWS_ENDPOINT_URL=endpoint), 1, "TLS failed")
    assert "does not speak TLS" in lines[1] and "http://" in lines[1], lines


# ---- Handshakes that are cut -----------------------------------------------------------------------------------------

class Cutter:
    """A way to a server on which every other connection, the first among them, ends when the handshake has begun."""

    def __init__(self, endpoint):
        self.target = (urlsplit(endpoint).hostname, urlsplit(endpoint).port)
        self.cut, self.passed, self.threads = 0, 0, []
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.endpoint = "https://127.0.0.1:%d" % self.socket.getsockname()[1]
        self.start(self.serve)

    def start(self, what, *arguments):
        self.threads.append(threading.Thread(target=what, args=arguments))
        self.threads[-1].start()

    def serve(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            hello = connection.recv(65536)
            if self.cut <= self.passed:
                self.cut += 1
                connection.close()
                continue
            self.passed += 1
            beyond = socket.create_connection(self.target)
            beyond.sendall(hello)
            self.start(self.pass_on, connection, beyond)
            self.start(self.pass_on, beyond, connection)

    @staticmethod
    def pass_on(source, to):
        try:
            while data := source.recv(65536):
                to.sendall(data)
            to.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # the other direction has ended the connection

    def __enter__(self):
        return self

    def __exit__(self, *ignored):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        for thread in self.threads:
            thread.join()


@on_every(TLS_SERVERS)
def test_a_connection_that_ends_within_the_handshake(server):
    """The store's own answer comes, as without the cut."""
    calm = ls(server)
    with Cutter(server.direct) as cutter:
        result = ls(server, AWS_ENDPOINT_URL=cutter.endpoint)
    assert cutter.cut >= 1 and cutter.passed >= 1
    assert "TLS" not in result.err, result
    assert (result.code, result.out) == (calm.code, calm.out), (calm, result)


# ---- Certificates that no server should have -------------------------------------------------------------------------

class Listener:
    """Shows a certificate to everybody, and says nothing more."""

    def __init__(self, folder, most=ssl.TLSVersion.TLSv1_3):
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(folder / "public.crt", folder / "private.key")
        self.context.set_ciphers("ALL:@SECLEVEL=0")
        self.context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
        self.context.maximum_version = most
        self.handshakes = []
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.endpoint = "https://127.0.0.1:%d" % self.socket.getsockname()[1]
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def serve(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            connection.settimeout(20)
            try:
                with self.context.wrap_socket(connection, server_side=True):
                    self.handshakes.append(None)
            except OSError as error:
                self.handshakes.append(error)

    def __enter__(self):
        return self

    def __exit__(self, *ignored):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        self.thread.join()


@pytest.mark.parametrize("name, word, advice", [("expired", "has expired", "has an expired certificate"),
                                                ("elsewhere", "127.0.0.1", "other host names")])
def test_a_certificate_that_does_not_fit(certificates, server, name, word, advice):
    with Listener(certificates / name) as listener:
        result = ls(server, AWS_ENDPOINT_URL=listener.endpoint, AWS_CA_BUNDLE=str(certificates / "ca.crt"))
    lines = assert_error(result, 1, "TLS failed", word)
    assert advice in lines[1] and listener.endpoint in lines[1], lines
    assert len(listener.handshakes) == 1  # such a thing is not tried again


def test_tls_before_1_2_is_refused(certificates, server):
    with Listener(certificates / "server", most=ssl.TLSVersion.TLSv1_1) as listener:
        result = ls(server, AWS_ENDPOINT_URL=listener.endpoint, AWS_CA_BUNDLE=str(certificates / "ca.crt"))
    lines = assert_error(result, 1, "TLS failed")
    assert "TLS 1.2" in lines[1], lines
    assert listener.handshakes and None not in listener.handshakes


def test_the_listener_would_be_trusted(certificates, server):
    """The check of the checks: with the right certificate the handshake goes through."""
    with Listener(certificates / "server") as listener:
        ls(server, time_limit_s=2, AWS_ENDPOINT_URL=listener.endpoint, AWS_CA_BUNDLE=str(certificates / "ca.crt"))
    assert None in listener.handshakes
