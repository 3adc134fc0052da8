"""The S3 store on a faulty network: timeouts, lost responses, redirects, certificates."""

import os
import ssl
import time
from pathlib import Path

import pytest

from sluice.kit.health import EngineState
from sluice.storage import StoreError
from sluice.storage.protocol import Timeouts
from sluice.storage.s3 import store
from tests.certificates import self_signed
from tests.servers import free_port
from tests.servers.canned import answering
from tests.servers.faults import Fault, fault_proxy
from tests.servers.radosgw import RadosGateway
from tests.storage.conftest import MakeS3, Seal, all_fail, every_call, read_object

MIB = 1024 * 1024
SHORT_TIMEOUTS = Timeouts(connect_seconds=0.5, request_seconds=1.0, retries=2)
NO_RETRIES = Timeouts(connect_seconds=0.5, request_seconds=1.0, retries=0)


@pytest.mark.parametrize(
    ("host", "sentence"),
    [("127.0.0.1", "The store cannot be reached."), ("nowhere.invalid", "The host name of the store is not known.")],
)
async def test_unreachable_endpoint_fails_quickly(make_s3: MakeS3, seal: Seal, host: str, sentence: str) -> None:
    store = make_s3(endpoint_url=f"http://{host}:{free_port()}", timeouts=SHORT_TIMEOUTS)
    begin = time.monotonic()
    with pytest.raises(StoreError, match=sentence):
        await store.put("a", seal(b"x"), content_type="text/plain")
    assert (await store.health()).detail == sentence
    assert time.monotonic() - begin < 4


async def test_unresponsive_store_times_out(make_s3: MakeS3, gateway: RadosGateway, seal: Seal) -> None:
    async with fault_proxy(gateway.endpoint) as proxy:
        proxy.fault = Fault.BLACK_HOLE
        store = make_s3(endpoint_url=proxy.endpoint, timeouts=SHORT_TIMEOUTS)
        large = store.put("large", seal(bytes(9 * MIB)), content_type="text/plain")
        for call in (*every_call(store, seal, "a"), large):
            begin = time.monotonic()
            await all_fail([call], "did not respond in time")
            assert time.monotonic() - begin < 5


@pytest.mark.parametrize("lost", [1, 2])
async def test_lost_reply_is_tested(make_s3: MakeS3, gateway: RadosGateway, bucket: str, seal: Seal, lost: int) -> None:
    async with fault_proxy(gateway.endpoint) as proxy:
        proxy.fault, proxy.faulty = Fault.LOST_RESPONSE, lost
        store = make_s3(endpoint_url=proxy.endpoint, timeouts=SHORT_TIMEOUTS)
        await store.put("a", seal(b"x"), content_type="text/plain")
        assert proxy.connections > lost
        with pytest.raises(StoreError, match="already"):
            await store.put("a", seal(b"x"), content_type="text/plain")
    assert gateway.keys(bucket) == ["a"]


async def test_large_put_survives_a_lost_reply(make_s3: MakeS3, gateway: RadosGateway, bucket: str, seal: Seal) -> None:
    async with fault_proxy(gateway.endpoint) as proxy:
        proxy.fault, proxy.faulty = Fault.LOST_RESPONSE, 1
        body, store = os.urandom(12 * MIB), make_s3(endpoint_url=proxy.endpoint, timeouts=SHORT_TIMEOUTS)
        await store.put("a", seal(body), content_type="text/plain")
    assert await read_object(make_s3(), "a") == body


async def test_put_over_reset_connection_raises_error_or_is_retried(
    make_s3: MakeS3, gateway: RadosGateway, bucket: str, seal: Seal
) -> None:
    async with fault_proxy(gateway.endpoint) as proxy:
        proxy.fault, proxy.faulty = Fault.RESET, 2
        hasty = make_s3(endpoint_url=proxy.endpoint, timeouts=NO_RETRIES)
        with pytest.raises(StoreError, match="The connection to the store broke"):
            await hasty.put("a", seal(b"x"), content_type="text/plain")
        assert gateway.keys(bucket) == []
        proxy.faulty = 1
        store = make_s3(endpoint_url=proxy.endpoint, timeouts=SHORT_TIMEOUTS)
        await store.put("a", seal(b"x"), content_type="text/plain")
        assert await read_object(store, "a") == b"x"


async def test_truncated_read_raises_error(make_s3: MakeS3) -> None:
    head = "206 Partial Content\r\nETag: a\r\nLast-Modified: Wed, 21 Oct 2015 07:28:00 GMT\r\n"
    head += "Content-Range: bytes 0-9/10"
    for held_back, sentence in ((0, "fewer bytes"), (6, r"^The connection to the store broke\.$")):
        async with answering(head, "only", held_back=held_back) as server:
            store = make_s3(endpoint_url=server.url, timeouts=SHORT_TIMEOUTS)
            await all_fail([read_object(store, "a")], sentence)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.asvs("15.3.2", "1.3.6")
async def test_redirect_is_not_followed(make_s3: MakeS3, seal: Seal, status: int) -> None:
    async with answering("200 OK", "inside", host="127.0.0.2") as inside:
        head = f"{status} Elsewhere\r\nLocation: {inside.url}/secret"
        async with answering(head) as server:
            store = make_s3(endpoint_url=server.url, timeouts=SHORT_TIMEOUTS)
            large = store.put("large", seal(bytes(9 * MIB)), content_type="text/plain")
            await all_fail([*every_call(store, seal, "a"), large])
        assert inside.seen == []


@pytest.mark.asvs("12.3.2")
async def test_untrusted_certificate_is_refused(
    make_s3: MakeS3, seal: Seal, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AWS_ALLOW_INVALID_CERTIFICATES", "true")
    (tmp_path / "pem").write_bytes(b"".join(self_signed(address="127.0.0.1")))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(tmp_path / "pem")
    async with answering("200 OK", "", tls=tls) as server:
        store = make_s3(endpoint_url=server.url, timeouts=SHORT_TIMEOUTS)
        with pytest.raises(StoreError, match=r"^The store's TLS certificate is not trusted\.$"):
            await store.put("a", seal(b"x"), content_type="text/plain")
        assert server.seen == []


async def test_health_check_has_a_shorter_timeout_than_put(
    make_s3: MakeS3, gateway: RadosGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "_HEALTH_SECONDS", 0.3)
    async with fault_proxy(gateway.endpoint) as proxy:
        proxy.fault = Fault.BLACK_HOLE
        health = await make_s3(endpoint_url=proxy.endpoint).health()
    assert (health.state, health.detail) == (EngineState.DOWN, "The store did not respond in time.")
