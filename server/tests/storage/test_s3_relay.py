"""The relay to endpoints over plain http: only the checked address is called, whatever the name resolves to later."""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from urllib.parse import urlsplit

import httpx
import pytest

from sluice.storage import StoreError
from sluice.storage.protocol import Timeouts
from sluice.storage.s3.relay import Relay
from sluice.storage.s3.store import S3Store
from tests.rows import each_row
from tests.servers import free_port
from tests.servers.canned import answering
from tests.servers.faults import Fault, fault_proxy
from tests.servers.radosgw import RadosGateway
from tests.storage.conftest import MakeS3, Seal, all_fail, every_call, read_object

MIB = 1024 * 1024
SHORT_TIMEOUTS = Timeouts(connect_seconds=0.5, request_seconds=2.0, retries=1)
NAME = "store.sluice.invalid"
"""A name that no name server resolves (RFC 6761)."""


@dataclass
class AddressCheck:
    """The address check: it records the origins and allows `addresses` for all of them."""

    addresses: Collection[str] = ("127.0.0.1",)
    origins: list[str] = field(default_factory=list)

    async def resolve(self, origin: str) -> Collection[str]:
        self.origins.append(origin)
        if not self.addresses:
            raise StoreError("not allowed")
        return self.addresses


@asynccontextmanager
async def relayed(make_s3: MakeS3, check: AddressCheck, endpoint: str, **more: object) -> AsyncIterator[S3Store]:
    relay = Relay(check.resolve, 0.5)
    await relay.start()
    port = urlsplit(endpoint).port
    store = make_s3(endpoint_url=f"http://{NAME}:{port}", relay_url=relay.url, **({"timeouts": SHORT_TIMEOUTS} | more))
    try:
        yield store
    finally:
        await store.aclose()
        await relay.aclose()


@pytest.mark.asvs("1.3.6")
async def test_relay_uses_only_the_checked_address(make_s3: MakeS3, gateway: RadosGateway, seal: Seal) -> None:
    check, large = AddressCheck(), bytes(range(256)) * 4096 * 20
    async with relayed(make_s3, check, gateway.endpoint, timeouts=Timeouts()) as store:
        await store.put("a b+c/é=1", seal(b"small"), content_type="text/plain")
        await store.put("large", seal(large), content_type="text/plain")
        assert await read_object(store, "a b+c/é=1") == b"small"
        assert await read_object(store, "large") == large
        assert await store.size("large") == len(large)
        assert await store.size("none") is None
        assert [one.key async for batch in store.list_objects("") for one in batch] == ["a b+c/é=1", "large"]
        assert await store.abort_stale_parts("", timedelta(0), lambda _key: True) == 0
        await store.delete("large")
        with pytest.raises(KeyError):
            await read_object(store, "large")
        await asyncio.gather(*(store.size("a b+c/é=1") for _ in range(40)))
    assert set(check.origins) == {f"http://{NAME}:{urlsplit(gateway.endpoint).port}"}


@pytest.mark.asvs("1.3.6")
async def test_relay_checks_each_connection_and_blocks_refused_ones(make_s3: MakeS3, seal: Seal) -> None:
    check = AddressCheck()
    async with answering("200 OK") as server, relayed(make_s3, check, server.url) as store:
        await store.size("a")
        seen = len(server.seen)
        check.addresses = ()
        abort = store.abort_stale_parts("", timedelta(0), lambda _key: True)
        await all_fail([*every_call(store, seal, "a"), abort])
        assert len(server.seen) == seen > 0


EARLY = "103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 307 Elsewhere"


@pytest.mark.asvs("1.3.6", "15.3.2")
@pytest.mark.parametrize(
    "redirect",
    [f"{status} Elsewhere" for status in (301, 302, 303, 307, 308)]
    + [f"{status} Other\r\n\r\nHTTP/1.1 307 Elsewhere" for status in (100, 101)]
    + [EARLY, *(f"{malformed} Elsewhere" for malformed in (" 302", "+302", "0302", "\t302"))],
)
async def test_redirect_is_not_followed(make_s3: MakeS3, seal: Seal, redirect: str) -> None:
    """Every request is redirected to an allowed internal host, and that host gets no request."""
    async with answering("200 OK", "inside", host="127.0.0.2") as inside:
        check = AddressCheck(("127.0.0.1", "127.0.0.2"))
        head = f"{redirect}\r\nLocation: {inside.url}/secret"
        async with answering(head) as server, relayed(make_s3, check, server.url) as store:
            put = store.put("a", seal(b"x"), content_type="text/plain")
            await all_fail([put, read_object(store, "a"), store.size("a")])
        assert inside.seen == []
        assert set(check.origins) == {f"http://{NAME}:{urlsplit(server.url).port}"}


async def test_interim_response_is_skipped(make_s3: MakeS3) -> None:
    head = "103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 206 OK\r\nContent-Range: bytes 0-4/5\r\n"
    head += 'Last-Modified: Sat, 21 Nov 2026 00:00:00 GMT\r\nETag: "a"'
    async with answering(head, "whole") as server, relayed(make_s3, AddressCheck(), server.url) as store:
        assert await read_object(store, "a") == b"whole"


async def test_unreachable_store_is_reported_through_relay(make_s3: MakeS3, seal: Seal) -> None:
    async with relayed(make_s3, AddressCheck(), f"http://127.0.0.1:{free_port()}") as store:
        await all_fail(every_call(store, seal, "a"), r"^The store cannot be reached\.$")


async def test_relay_tries_next_address_when_one_is_silent(make_s3: MakeS3, gateway: RadosGateway, seal: Seal) -> None:
    async with relayed(make_s3, AddressCheck(("127.0.0.3", "127.0.0.1")), gateway.endpoint) as store:
        await store.put("a", seal(b"x"), content_type="text/plain")
        assert await read_object(store, "a") == b"x"


@pytest.mark.parametrize("fault", [Fault.CUT, Fault.LOST_RESPONSE, Fault.RESET])
async def test_truncated_response_is_an_error(make_s3: MakeS3, gateway: RadosGateway, seal: Seal, fault: Fault) -> None:
    async with fault_proxy(gateway.endpoint) as proxy, relayed(make_s3, AddressCheck(), proxy.endpoint) as store:
        await store.put("a", seal(bytes(MIB)), content_type="text/plain")
        proxy.fault = fault
        with pytest.raises(StoreError):
            await read_object(store, "a")


@each_row(
    "line",
    [
        "CONNECT store.sluice.invalid:443 HTTP/1.1",
        *("GET / HTTP/1.1", "GET http:///a HTTP/1.1", "GET http://a:b/ HTTP/1.1"),
        *("GET ftp://a/ HTTP/1.1", "GET http://a", "GET  http://a/ HTTP/1.1", "\x00\xff", "", "GET http://[/ HTTP/1.1"),
    ],
)
async def test_relay_rejects_request_that_is_not_for_a_store(line: str) -> None:
    check = AddressCheck()
    relay = Relay(check.resolve, 0.5)
    await relay.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", int(relay.url.rpartition(":")[2]))
    writer.write(line.encode("latin-1") + b"\r\n\r\n")
    assert (await asyncio.wait_for(reader.read(), 10)).startswith(b"HTTP/1.1 502 ")
    writer.close()
    await relay.aclose()
    assert check.origins == []


async def test_closed_relay_accepts_no_requests() -> None:
    relay = Relay(AddressCheck().resolve, 0.5)
    await relay.start()
    url = relay.url
    for _ in range(2):
        await relay.aclose()
    async with httpx.AsyncClient(proxy=url) as client:
        with pytest.raises(httpx.HTTPError):
            await client.get(f"http://{NAME}/")
