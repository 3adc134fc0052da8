"""The proxies of `deploy/` as they stand there, in front of a server: TLS and nothing else, its versions and suites, and what browsers are told."""

import socket
import ssl
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.gate import Service
from tests.servers import free_port
from tests.servers.proxies import running_haproxy, running_nginx

PROXIES: dict[str, Callable[..., AbstractContextManager[None]]] = {"haproxy": running_haproxy, "nginx": running_nginx}
WITHOUT_SECRECY = "AES256-GCM-SHA384:AES128-GCM-SHA256:AES128-SHA:AES256-SHA"
WEAK = "ECDHE-ECDSA-AES128-SHA:ECDHE-ECDSA-AES256-SHA384:NULL:aNULL"


@dataclass(frozen=True)
class Proxy:
    """A running one, and the certificate that it shows."""

    port: int
    certificate: Path

    @property
    def url(self) -> str:
        return f"https://localhost:{self.port}"

    def shake_hands(self, context: ssl.SSLContext) -> tuple[str | None, str]:
        """Answer version and suite that are agreed on; raises `ssl.SSLError` where there are none."""
        plain = socket.create_connection(("127.0.0.1", self.port), timeout=20)
        with plain, context.wrap_socket(plain, server_hostname="localhost") as secure:
            suite = secure.cipher()
            assert suite is not None
            return secure.version(), suite[0]

    def trusting(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.certificate))


@pytest.fixture(scope="module", params=PROXIES)
def proxy(request: pytest.FixtureRequest, sqlite_local: Service, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    folder = tmp_path_factory.mktemp(request.param)
    identity, port = folder / "sluice.pem", free_port()
    identity.write_bytes(_identity())
    with PROXIES[request.param](folder / "run", [sqlite_local.port] * 3, port, identity=identity):
        yield Proxy(port, identity)


def _identity() -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now, now + timedelta(days=1))
    signed = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False).sign(key, SHA256())
    return signed.public_bytes(Encoding.PEM) + key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


@pytest.mark.asvs("3.4.1")
@pytest.mark.parametrize(("path", "status"), [("/health/live", 200), ("/api/v1/files", 401), ("/nowhere", 404), ("/metrics", 404)])
def test_every_answer_tells_browsers_to_come_by_tls_for_a_year_and_more(proxy: Proxy, path: str, status: int) -> None:
    answer = httpx.get(proxy.url + path, verify=proxy.trusting())
    assert answer.status_code == status
    (said,) = answer.headers.get_list("strict-transport-security")
    age, *more = said.split("; ")
    assert int(age.removeprefix("max-age=")) >= 365 * 86400
    assert more == ["includeSubDomains"]


@pytest.mark.asvs("12.1.1")
def test_the_newest_version_is_preferred_and_old_ones_are_refused(proxy: Proxy) -> None:
    assert proxy.shake_hands(proxy.trusting())[0] == "TLSv1.3"
    for version, works in ((ssl.TLSVersion.TLSv1_2, True), (ssl.TLSVersion.TLSv1_1, False), (ssl.TLSVersion.TLSv1, False)):
        if works:
            assert proxy.shake_hands(_only(proxy, version))[0] == "TLSv1.2"
        else:
            with pytest.raises((ssl.SSLError, ConnectionError)):
                proxy.shake_hands(_only(proxy, version, "ALL:@SECLEVEL=0"))


def _only(proxy: Proxy, version: ssl.TLSVersion, suites: str | None = None) -> ssl.SSLContext:
    context = proxy.trusting()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # that is what is tried
        context.minimum_version = context.maximum_version = version
    if suites:
        context.set_ciphers(suites)
    return context


@pytest.mark.asvs("12.1.2")
def test_the_strongest_suite_is_preferred_and_those_without_secrecy_are_refused(proxy: Proxy) -> None:
    assert proxy.shake_hands(proxy.trusting())[1] == "TLS_AES_256_GCM_SHA384"
    mild = _only(proxy, ssl.TLSVersion.TLSv1_2, "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384")
    assert proxy.shake_hands(mild)[1] == "ECDHE-ECDSA-AES256-GCM-SHA384"
    for suites in (WITHOUT_SECRECY, WEAK):
        with pytest.raises((ssl.SSLError, ConnectionError)):
            proxy.shake_hands(_only(proxy, ssl.TLSVersion.TLSv1_2, f"{suites}:@SECLEVEL=0"))


@pytest.mark.asvs("12.2.1")
def test_nothing_is_answered_without_tls(proxy: Proxy) -> None:
    try:
        answer = httpx.get(f"http://127.0.0.1:{proxy.port}/health/live")
    except httpx.TransportError:
        return  # closed without a word
    assert answer.status_code == 400
    assert "up" not in answer.text
