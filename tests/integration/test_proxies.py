"""The way to the store: proxies of both kinds, TLS and its certificates, several addresses of one name.

The proxy is a real one: it forwards requests in absolute form, opens tunnels, and records its requests. The store is
MinIO under the name store.test, which only the resolver and the proxy of this test know.
"""

import base64
import contextlib
import http.server
import json
import os
import re
import select
import socket
import ssl
import subprocess
import threading
from urllib.parse import urlsplit

import pytest

import preloaded
from helpers import assert_error, fill, noise, tree

LARGE = (5 << 20) + 17  # two parts of 5 MiB
SECONDS_MAX = 60
SECRET = "hidden-pass"
USER = "proxy-user:" + SECRET
HEAD_MAX = 65536


# ---- The proxy ------------------------------------------------------------------------------------------------------

def read_head(connection):
    """Up to and with the blank line, a byte at a time: what follows belongs to somebody else. b"" at the end."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        byte = connection.recv(1)
        if not byte or len(head) > HEAD_MAX:
            return b""
        head += byte
    return head


def tunnel(one, two):
    """Both ways on one thread, since a TLS connection has room for no more; until either side ends."""
    other = {one: two, two: one}
    while True:
        held = [side for side in other if isinstance(side, ssl.SSLSocket) and side.pending()]
        for side in held or select.select(list(other), [], [], SECONDS_MAX)[0]:
            data = side.recv(1 << 16)
            if not data:
                return
            other[side].sendall(data)


class Listener:
    """Serves each connection on a thread of its own."""

    def __init__(self, address="127.0.0.1", context=None):
        self.context = context
        self.lock = threading.Lock()
        self.socket = socket.create_server((address, 0), backlog=128)
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            connection.settimeout(SECONDS_MAX)
            threading.Thread(target=self.run, args=(connection,), daemon=True).start()

    def run(self, connection):
        with contextlib.suppress(OSError), connection:
            if self.context:
                connection = self.context.wrap_socket(connection, server_side=True)
            self.serve(connection)

    def close(self):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()


class ForwardProxy(Listener):
    """Every name that ends in .test is this machine. `refuse` is a status line to answer instead."""

    def __init__(self, user=None, refuse=None, context=None):
        self.user, self.refuse, self.heads = user, refuse, []
        super().__init__(context=context)

    def serve(self, connection):
        head = read_head(connection)
        with self.lock:
            self.heads.append(head)
        if not head:
            return
        token = re.search(rb"\r\nproxy-authorization: basic (\S+)", head, re.I)
        if self.user and (not token or base64.b64decode(token.group(1)).decode() != self.user):
            self.refuse = "407 Proxy Authentication Required"
        if self.refuse:
            connection.sendall(b"HTTP/1.1 %s\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno" %
                               self.refuse.encode())
            return
        method, target, version = head.split(b"\r\n", 1)[0].split(b" ")
        rest = head.split(b"\r\n", 1)[1]
        url = urlsplit("//" + target.decode() if method == b"CONNECT" else target.decode())
        assert url.hostname.endswith(".test") and url.port, head
        with socket.create_connection(("127.0.0.1", url.port), timeout=SECONDS_MAX) as server:
            if method == b"CONNECT":
                connection.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                # One request a connection, so that each is seen; the store is told to close it.
                path = target[target.index(url.netloc.encode()) + len(url.netloc):]
                rest = re.sub(rb"proxy-[a-z]+:[^\r]*\r\n", b"", rest, flags=re.I)
                server.sendall(b"%s %s %s\r\nConnection: close\r\n%s" % (method, path, version, rest))
            tunnel(connection, server)

    def targets(self):
        with self.lock:
            return [b" ".join(head.split(b"\r\n")[0].split(b" ")[:2]).decode() for head in self.heads if head]


class Relay(Listener):
    """Passes everything on to the server; over TLS where there is a context. Counts its connections by address."""

    def __init__(self, endpoint, address="127.0.0.1", context=None):
        self.target = (urlsplit(endpoint).hostname, urlsplit(endpoint).port)
        self.addresses = []
        super().__init__(address, context)

    def serve(self, connection):
        with self.lock:
            self.addresses.append(connection.getsockname()[0])
        with socket.create_connection(self.target, timeout=SECONDS_MAX) as server:
            tunnel(connection, server)


# ---- Fixtures -------------------------------------------------------------------------------------------------------

@pytest.fixture(scope="module")
def preload(tmp_path_factory):
    return preloaded.build(tmp_path_factory.mktemp("faked"), preloaded.OTHER_WORLD)


@pytest.fixture
def started():
    """Listeners that are closed in the end."""
    with contextlib.ExitStack() as stack:
        yield lambda listener: stack.callback(listener.close) and listener


@pytest.fixture
def place(bucket, preload):
    """The bucket under the name store.test."""
    port = urlsplit(os.environ["CLEAT_TEST_ENDPOINT"]).port
    proxies = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
    bucket.environment = {name: value for name, value in bucket.environment.items() if name.lower() not in proxies}
    bucket.environment.update(AWS_ENDPOINT_URL="http://store.test:%d" % port, **preload,
                              FAKED_NAMES="127.0.0.1")
    bucket.port = port
    return bucket


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return fill(tmp_path_factory.mktemp("source"), {"small.bin": noise(70000), "large.bin": noise(LARGE), "empty": b""})


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A certificate of store.test and proxy.test, which vouches for itself; and its key."""
    folder = tmp_path_factory.mktemp("certificate")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=cleat test",
                    "-addext", "subjectAltName=DNS:store.test,DNS:proxy.test",
                    "-keyout", folder / "key.pem", "-out", folder / "crt.pem"], check=True, stderr=subprocess.DEVNULL)
    return folder


def tls(certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "crt.pem", certificate / "key.pem")
    return context


def round_trip(place, source, tmp_path, **environment):
    """Saves with two parts and loads; every request as chatty as can be, and not a word of the password."""
    place.environment.update(environment)
    saved = place.cleat("save", source, place.url, "--step", "1", "--part-size", "5M", "-vv")
    loaded = place.cleat("load", place.url, tmp_path / "back", "-vv")
    assert saved.code == 0 and loaded.code == 0, (saved, loaded)
    assert tree(tmp_path / "back") == tree(source)
    assert SECRET not in saved.err + loaded.err + saved.out + loaded.out


# ---- Which way ------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("variable", ["http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"])
def test_http_is_forwarded(place, source, tmp_path, started, variable):
    proxy = started(ForwardProxy(user=USER))
    round_trip(place, source, tmp_path, **{variable: "http://%s@127.0.0.1:%d" % (USER, proxy.port)})
    targets = proxy.targets()
    assert len(targets) > 8 and all("//store.test:%d/%s" % (place.port, place.bucket) in target for target in targets)
    assert all(b"\r\nhost: store.test:%d\r\n" % place.port in head.lower() for head in proxy.heads if head)


def test_https_goes_through_a_tunnel(place, source, tmp_path, started, certificate):
    """What the proxy sees is where to, and its own password: not a header of the request, not a byte of it."""
    front = started(Relay(os.environ["CLEAT_TEST_ENDPOINT"], context=tls(certificate)))
    proxy = started(ForwardProxy(user=USER))
    round_trip(place, source, tmp_path, HTTPS_PROXY="http://%s@127.0.0.1:%d" % (USER, proxy.port),
               http_proxy="http://127.0.0.1:1", AWS_CA_BUNDLE=str(certificate / "crt.pem"),
               AWS_ENDPOINT_URL="https://store.test:%d" % front.port)
    assert set(proxy.targets()) == {"CONNECT store.test:%d" % front.port}
    seen = b"".join(proxy.heads).lower()
    assert b"x-amz" not in seen and b"aws4" not in seen and b"\r\nproxy-authorization: basic" in seen


def test_the_way_to_the_proxy_may_be_tls(place, source, tmp_path, started, certificate):
    proxy = started(ForwardProxy(user=USER, context=tls(certificate)))
    round_trip(place, source, tmp_path, http_proxy="https://%s@proxy.test:%d" % (USER, proxy.port),
               AWS_CA_BUNDLE=str(certificate / "crt.pem"))
    assert len(proxy.targets()) > 8


@pytest.mark.parametrize("exceptions, passes", [("store.test", True), ("test", True), (".test", True), ("*.test", True),
                                                ("other.test, store.test", True), ("*", True),
                                                ("store.test:{port}", True), ("store.test:1", False),
                                                ("ore.test", False), ("127.0.0.1", False), ("", False)])
@pytest.mark.parametrize("variable", ["NO_PROXY", "no_proxy"])
def test_exceptions(place, source, started, variable, exceptions, passes):
    proxy = started(ForwardProxy())
    place.environment.update({"HTTP_PROXY": "127.0.0.1:%d" % proxy.port, variable: exceptions.format(port=place.port)})
    assert place.cleat("ls", place.url).code == 3
    assert (proxy.targets() == []) == passes


def test_this_machine_is_not_asked_through_a_proxy(place, source, tmp_path, started):
    proxy = started(ForwardProxy())
    round_trip(place, source, tmp_path, HTTP_PROXY="http://127.0.0.1:%d" % proxy.port,
               AWS_ENDPOINT_URL=os.environ["CLEAT_TEST_ENDPOINT"])
    assert proxy.targets() == []


def test_a_header_of_a_cgi_program_is_no_proxy(place, started):
    proxy = started(ForwardProxy())
    place.environment.update(HTTP_PROXY="http://127.0.0.1:%d" % proxy.port, REQUEST_METHOD="GET")
    assert place.cleat("ls", place.url).code == 3
    assert proxy.targets() == []


# ---- Proxies that do not do it --------------------------------------------------------------------------------------

@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("user, refuse", [("proxy-user:hidden-other", None), ("", None), (USER, "403 Forbidden")])
def test_a_proxy_that_refuses(place, started, scheme, user, refuse):
    """Told at once: trying again would not help."""
    proxy = started(ForwardProxy(user=USER, refuse=refuse))
    url = "http://%s127.0.0.1:%d" % (user + "@" if user else "", proxy.port)
    place.environment.update({scheme + "_proxy": url}, AWS_ENDPOINT_URL="%s://store.test:%d" % (scheme, place.port))
    result = place.cleat("ls", place.url, "-vv")
    lines = assert_error(result, 1)
    assert "hidden" not in result.err and len(proxy.targets()) == 1, result
    if refuse is None or scheme == "https":
        assert "PROXY" in lines[-1], result


def test_a_proxy_that_is_not_there(place):
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
    place.environment["HTTP_PROXY"] = "http://%s@127.0.0.1:%d" % (USER, port)
    result = place.cleat("ls", place.url, "--time-limit", "2", "-vv")
    assert_error(without_info(result), 1, "HTTP_PROXY")
    assert SECRET not in result.err


def without_info(result):
    result.err = "".join(line + "\n" for line in result.err.splitlines() if line.startswith(("cleat: ", "hint: "))
                         and "trying again" not in line)
    return result


def test_what_is_no_proxy_is_told_by_its_variable(place):
    place.environment["all_proxy"] = "socks://%s@127.0.0.1:1080" % USER
    result = place.cleat("ls", place.url)
    assert_error(result, 2, "all_proxy")
    assert SECRET not in result.err
    # It is not needed for this machine.
    place.environment["AWS_ENDPOINT_URL"] = os.environ["CLEAT_TEST_ENDPOINT"]
    assert place.cleat("ls", place.url).code == 3


# ---- Keys -----------------------------------------------------------------------------------------------------------

class Metadata(http.server.BaseHTTPRequestHandler):
    """As EC2's: a token, the role's name, its keys."""

    def answer(self, text):
        with self.server.lock:
            self.server.asked.append(self.path)
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def do_PUT(self):
        self.answer("token")

    def do_GET(self):
        keys = {"Code": "Success", "AccessKeyId": os.environ["AWS_ACCESS_KEY_ID"],
                "SecretAccessKey": os.environ["AWS_SECRET_ACCESS_KEY"]}
        self.answer("role" if self.path.endswith("/security-credentials/") else json.dumps(keys))

    def log_message(self, *arguments):
        pass


def test_metadata_is_never_asked_through_a_proxy(place, started):
    proxy = started(ForwardProxy())
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Metadata)
    server.lock, server.asked = threading.Lock(), []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    place.environment.pop("AWS_EC2_METADATA_DISABLED", None)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        del place.environment[name]
    place.environment.update(HTTP_PROXY="http://127.0.0.1:%d" % proxy.port, HOME="/nonexistent",
                             AWS_EC2_METADATA_SERVICE_ENDPOINT="http://metadata.test:%d" % server.server_port)
    result = place.cleat("ls", place.url)
    server.shutdown()
    server.server_close()
    assert result.code == 3 and len(server.asked) == 3, result
    assert proxy.targets() and all("store.test" in target for target in proxy.targets())


def use_role(place, tmp_path):
    """Keys of a role, from MinIO's own token service, which has the name sts.test."""
    config = fill(tmp_path, {"config": (
        "[profile train]\nrole_arn = arn:minio:iam:::role/any\nsource_profile = base\n[profile base]\n"
        "aws_access_key_id = %s\naws_secret_access_key = %s\n" % (
            place.environment.pop("AWS_ACCESS_KEY_ID"), place.environment.pop("AWS_SECRET_ACCESS_KEY"))).encode()})
    place.environment.update(AWS_CONFIG_FILE=str(config / "config"), AWS_PROFILE="train",
                             AWS_SHARED_CREDENTIALS_FILE="/nonexistent",
                             AWS_ENDPOINT_URL_STS="http://sts.test:%d" % place.port)


def test_sts_is_asked_through_the_proxy(place, source, tmp_path, started):
    proxy = started(ForwardProxy())
    use_role(place, tmp_path / "aws")
    round_trip(place, source, tmp_path, HTTP_PROXY="http://127.0.0.1:%d" % proxy.port)
    assert "POST http://sts.test:%d/" % place.port in proxy.targets()


@pytest.mark.parametrize("skew_s", [-3600, 3600])
@pytest.mark.parametrize("with_role", [False, True])
def test_a_clock_that_is_an_hour_off(place, source, tmp_path, skew_s, with_role):
    """The store's time and that of its token service are learnt; nobody need notice."""
    if with_role:
        use_role(place, tmp_path / "aws")
    round_trip(place, source, tmp_path, FAKED_SKEW_S=str(skew_s))


# ---- TLS ------------------------------------------------------------------------------------------------------------

def https(place, started, certificate, context, **more):
    front = started(Relay(os.environ["CLEAT_TEST_ENDPOINT"], context=context))
    place.environment.update(AWS_ENDPOINT_URL="https://store.test:%d" % front.port, **more)
    return front


def test_a_certificate_must_be_vouched_for(place, started, certificate):
    https(place, started, certificate, tls(certificate))
    assert_error(place.cleat("ls", place.url), 1, "TLS")
    place.environment["AWS_CA_BUNDLE"] = str(certificate / "crt.pem")
    assert place.cleat("ls", place.url).code == 3
    # It is that of another host.
    place.environment["AWS_ENDPOINT_URL"] = place.environment["AWS_ENDPOINT_URL"].replace("store", "other")
    assert_error(place.cleat("ls", place.url), 1, "TLS")


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion")
@pytest.mark.parametrize("version, good", [(ssl.TLSVersion.TLSv1_1, False), (ssl.TLSVersion.TLSv1_2, True)])
def test_tls_is_1_2_at_least(place, started, tmp_path, certificate, version, good):
    """Also where this machine's OpenSSL would take less."""
    fill(tmp_path, {"openssl.cnf": b"openssl_conf = a\n[a]\nssl_conf = b\n[b]\nsystem_default = c\n[c]\n"
                                   b"MinProtocol = TLSv1\nCipherString = DEFAULT:@SECLEVEL=0\n"})
    context = tls(certificate)
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    context.minimum_version = ssl.TLSVersion.TLSv1
    context.maximum_version = version
    front = https(place, started, certificate, context, AWS_CA_BUNDLE=str(certificate / "crt.pem"),
                  OPENSSL_CONF=str(tmp_path / "openssl.cnf"))
    control = subprocess.run(["openssl", "s_client", "-connect", "127.0.0.1:%d" % front.port, "-CAfile",
                              certificate / "crt.pem"],
                             env=dict(os.environ, OPENSSL_CONF=str(tmp_path / "openssl.cnf")), stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS_MAX)
    assert b"Verify return code: 0" in control.stdout, control.stdout
    result = place.cleat("ls", place.url, "--time-limit", "2")
    if good:
        assert result.code == 3, result
    else:
        assert_error(result, 1)


# ---- Addresses ------------------------------------------------------------------------------------------------------

def test_connections_spread_over_the_addresses_of_a_name(place, source, tmp_path, started):
    """The resolver names them in one order, always; 8 threads that all took the first would find one server."""
    relay = started(Relay(os.environ["CLEAT_TEST_ENDPOINT"], address="0.0.0.0"))
    addresses = ["127.0.0.%d" % number for number in range(1, 9)]
    files = fill(tmp_path / "many", {"%d.bin" % number: noise(100000, number) for number in range(40)})
    place.environment.update(AWS_ENDPOINT_URL="http://store.test:%d" % relay.port, FAKED_NAMES=",".join(addresses))
    for step in range(1, 4):
        place.save(files, step, "--jobs", "8")
    assert len(relay.addresses) > 6 and len(set(relay.addresses)) > 1, relay.addresses
