"""TLS of the proxy configurations in `deploy/`: versions, cipher suites, HSTS, and no plain HTTP."""

import socket
import ssl
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.certificates import self_signed
from tests.servers import free_port
from tests.servers.proxies import running_haproxy, running_nginx
from tests.service import Service

PROXIES: dict[str, Callable[..., AbstractContextManager[None]]] = {"haproxy": running_haproxy, "nginx": running_nginx}
WITHOUT_FORWARD_SECRECY = "AES256-GCM-SHA384:AES128-GCM-SHA256:AES128-SHA:AES256-SHA"
WEAK = "ECDHE-ECDSA-AES128-SHA:ECDHE-ECDSA-AES256-SHA384:NULL:aNULL"


@dataclass(frozen=True)
class Proxy:
    """A running proxy and its certificate."""

    port: int
    certificate: Path

    @property
    def url(self) -> str:
        return f"https://localhost:{self.port}"

    def handshake(self, context: ssl.SSLContext) -> tuple[str | None, str]:
        """Return the negotiated version and cipher suite. Raises `ssl.SSLError` when there is none."""
        plain = socket.create_connection(("127.0.0.1", self.port), timeout=20)
        with plain, context.wrap_socket(plain, server_hostname="localhost") as secure:
            cipher = secure.cipher()
            assert cipher is not None
            return secure.version(), cipher[0]

    def client_context(self) -> ssl.SSLContext:
        """Return a client context that trusts the certificate."""
        return ssl.create_default_context(cafile=str(self.certificate))


@pytest.fixture(scope="module", params=PROXIES)
def proxy(
    request: pytest.FixtureRequest, sqlite_local: Service, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Proxy]:
    folder = tmp_path_factory.mktemp(request.param)
    identity, port = folder / "sluice.pem", free_port()
    identity.write_bytes(b"".join(self_signed()))
    with PROXIES[request.param](folder / "run", [sqlite_local.port] * 3, port, identity=identity):
        yield Proxy(port, identity)


@pytest.mark.asvs("3.4.1")
@pytest.mark.parametrize(
    ("path", "status"), [("/health/live", 200), ("/api/v1/files", 401), ("/nowhere", 404), ("/metrics", 404)]
)
def test_every_response_has_hsts_for_at_least_a_year(proxy: Proxy, path: str, status: int) -> None:
    response = httpx.get(proxy.url + path, verify=proxy.client_context())
    assert response.status_code == status
    (header,) = response.headers.get_list("strict-transport-security")
    age, *more = header.split("; ")
    assert int(age.removeprefix("max-age=")) >= 365 * 86400
    assert more == ["includeSubDomains"]


@pytest.mark.asvs("12.1.1")
def test_prefers_tls_1_3_and_rejects_tls_1_1_and_older(proxy: Proxy) -> None:
    assert proxy.handshake(proxy.client_context())[0] == "TLSv1.3"
    assert proxy.handshake(_only(proxy, ssl.TLSVersion.TLSv1_2))[0] == "TLSv1.2"
    for version in (ssl.TLSVersion.TLSv1_1, ssl.TLSVersion.TLSv1):
        with pytest.raises((ssl.SSLError, ConnectionError)):
            proxy.handshake(_only(proxy, version, "ALL:@SECLEVEL=0"))


def _only(proxy: Proxy, version: ssl.TLSVersion, suites: str | None = None) -> ssl.SSLContext:
    """Return a client context that offers one TLS version, and these cipher suites if given."""
    context = proxy.client_context()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # old versions are deprecated, and are tried on purpose
        context.minimum_version = context.maximum_version = version
    if suites:
        context.set_ciphers(suites)
    return context


@pytest.mark.asvs("12.1.2")
def test_prefers_the_strongest_cipher_and_rejects_those_without_forward_secrecy(proxy: Proxy) -> None:
    assert proxy.handshake(proxy.client_context())[1] == "TLS_AES_256_GCM_SHA384"
    weaker_first = _only(proxy, ssl.TLSVersion.TLSv1_2, "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384")
    assert proxy.handshake(weaker_first)[1] == "ECDHE-ECDSA-AES256-GCM-SHA384"
    for suites in (WITHOUT_FORWARD_SECRECY, WEAK):
        with pytest.raises((ssl.SSLError, ConnectionError)):
            proxy.handshake(_only(proxy, ssl.TLSVersion.TLSv1_2, f"{suites}:@SECLEVEL=0"))


@pytest.mark.asvs("12.2.1")
def test_plain_http_is_not_served(proxy: Proxy) -> None:
    try:
        response = httpx.get(f"http://127.0.0.1:{proxy.port}/health/live")
    except httpx.TransportError:
        return  # closed without a response
    assert response.status_code == 400
    assert "up" not in response.text
