"""The S3 store on a network that fails or misleads: bounded waiting, answers that got lost, redirects, certificates."""

import os
import ssl
import time
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from sluice.engines.storage import StoreFault, s3
from sluice.engines.storage.s3_client import Patience
from sluice.kit.health import EngineState
from tests.engines.storage.conftest import MakeS3, Seal, content
from tests.servers import free_port
from tests.servers.canned import answering
from tests.servers.faults import Fault, fault_proxy
from tests.servers.radosgw import RadosGateway

MIB = 1024 * 1024
HASTY = Patience(connect_seconds=0.5, request_seconds=1.0, retries=2)
ONCE = Patience(connect_seconds=0.5, request_seconds=1.0, retries=0)


def own_certificate(folder: Path) -> ssl.SSLContext:
    """Answer a server's TLS context with a certificate for 127.0.0.1 that it has signed itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, SHA256())
    )
    unencrypted = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / "pem").write_bytes(unencrypted + certificate.public_bytes(Encoding.PEM))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "pem")
    return context


@pytest.mark.parametrize(
    ("host", "sentence"),
    [("127.0.0.1", "The store cannot be reached."), ("nowhere.invalid", "The host name of the store is not known.")],
)
async def test_an_endpoint_that_is_not_there_is_known_soon(make_s3: MakeS3, seal: Seal, host: str, sentence: str) -> None:
    store = make_s3(endpoint_url=f"http://{host}:{free_port()}", patience=HASTY)
    begin = time.monotonic()
    with pytest.raises(StoreFault, match=sentence):
        await store.put("a", seal(b"x"), content_type="text/plain")
    assert (await store.health()).detail == sentence
    assert time.monotonic() - begin < 4


async def test_a_store_that_never_answers_is_given_up_within_the_bound(make_s3: MakeS3, gateway: RadosGateway, seal: Seal) -> None:
    async with fault_proxy(gateway.endpoint) as proxy:
        proxy.fault = Fault.BLACK_HOLE
        store = make_s3(endpoint_url=proxy.endpoint, patience=HASTY)
        for call in (
            store.put("a", seal(b"x"), content_type="text/plain"),
            store.put("large", seal(bytes(9 * MIB)), content_type="text/plain"),
            store.size("a"),
            store.delete("a"),
            content(store, "a"),
        ):
            begin = time.monotonic()
            with pytest.raises(StoreFault, match="did not answer in time"):
                await call
            assert time.monotonic() - begin < 5


@pytest.mark.parametrize("lost", [1, 2])
async def test_a_put_whose_answers_are_lost_is_looked_up(
    make_s3: MakeS3, gateway: RadosGateway, bucket: str, seal: Seal, lost: int
) -> None:
    async with fault_proxy(gateway.endpoint) as proxy:
        proxy.fault, proxy.faulty = Fault.LOST_ANSWER, lost
        store = make_s3(endpoint_url=proxy.endpoint, patience=HASTY)
        await store.put("a", seal(b"x"), content_type="text/plain")
        assert proxy.connections > lost
        with pytest.raises(StoreFault, match="already"):
            await store.put("a", seal(b"x"), content_type="text/plain")
    assert gateway.keys(bucket) == ["a"]


async def test_a_large_put_whose_answers_are_lost_is_whole_or_failed(
    make_s3: MakeS3, gateway: RadosGateway, bucket: str, seal: Seal
) -> None:
    async with fault_proxy(gateway.endpoint) as proxy:
        proxy.fault, proxy.faulty = Fault.LOST_ANSWER, 1
        body = os.urandom(12 * MIB)
        await make_s3(endpoint_url=proxy.endpoint, patience=HASTY).put("a", seal(body), content_type="text/plain")
    assert await content(make_s3(), "a") == body


async def test_a_put_that_never_arrived_is_a_fault(make_s3: MakeS3, gateway: RadosGateway, bucket: str, seal: Seal) -> None:
    async with fault_proxy(gateway.endpoint) as proxy:
        proxy.fault, proxy.faulty = Fault.RESET, 2
        with pytest.raises(StoreFault, match="The connection to the store broke"):
            await make_s3(endpoint_url=proxy.endpoint, patience=ONCE).put("a", seal(b"x"), content_type="text/plain")
    assert gateway.keys(bucket) == []


async def test_a_short_break_is_bridged(make_s3: MakeS3, gateway: RadosGateway, seal: Seal) -> None:
    async with fault_proxy(gateway.endpoint) as proxy:
        proxy.fault, proxy.faulty = Fault.RESET, 1
        store = make_s3(endpoint_url=proxy.endpoint, patience=HASTY)
        await store.put("a", seal(b"x"), content_type="text/plain")
        assert await content(store, "a") == b"x"


async def test_a_read_that_is_cut_off_is_a_fault(make_s3: MakeS3) -> None:
    head = "206 Partial Content\r\nETag: a\r\nLast-Modified: Wed, 21 Oct 2015 07:28:00 GMT\r\nContent-Range: bytes 0-9/10"
    async with answering(head, "only") as server:
        with pytest.raises(StoreFault, match="fewer bytes"):
            await content(make_s3(endpoint_url=server.url, patience=HASTY), "a")
    async with answering(head, "only", held_back=6) as server:
        with pytest.raises(StoreFault, match=r"^The connection to the store broke\.$"):
            await content(make_s3(endpoint_url=server.url, patience=HASTY), "a")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.asvs("15.3.2", "1.3.6")
async def test_a_redirect_is_not_followed(make_s3: MakeS3, seal: Seal, status: int) -> None:
    async with answering("200 OK", "inside", host="127.0.0.2") as inside:
        head = f"{status} Elsewhere\r\nLocation: {inside.url}/secret"
        async with answering(head) as server:
            store = make_s3(endpoint_url=server.url, patience=HASTY)
            for call in (
                store.put("a", seal(b"x"), content_type="text/plain"),
                store.put("large", seal(bytes(9 * MIB)), content_type="text/plain"),
                content(store, "a"),
                store.size("a"),
                store.delete("a"),
            ):
                with pytest.raises(StoreFault):
                    await call
        assert inside.seen == []


@pytest.mark.asvs("12.3.2")
async def test_a_certificate_that_nobody_vouches_for_is_refused(
    make_s3: MakeS3, seal: Seal, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AWS_ALLOW_INVALID_CERTIFICATES", "true")
    async with answering("200 OK", "", tls=own_certificate(tmp_path)) as server:
        store = make_s3(endpoint_url=server.url, patience=HASTY)
        with pytest.raises(StoreFault, match=r"^The store's TLS certificate is not trusted\.$"):
            await store.put("a", seal(b"x"), content_type="text/plain")
        assert server.seen == []


async def test_health_gives_up_before_the_patience_of_a_put(
    make_s3: MakeS3, gateway: RadosGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3, "_HEALTH_SECONDS", 0.3)
    async with fault_proxy(gateway.endpoint) as proxy:
        proxy.fault = Fault.BLACK_HOLE
        health = await make_s3(endpoint_url=proxy.endpoint).health()
    assert (health.state, health.detail) == (EngineState.DOWN, "The store did not answer in time.")
