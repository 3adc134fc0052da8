"""The way to an endpoint in plain http: the address that was judged is the one that is called, whatever the name leads to for others."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from urllib.parse import urlsplit

import httpx
import pytest

from sluice.engines.storage import StoreFault
from sluice.engines.storage.s3 import S3Store
from sluice.engines.storage.s3_client import Patience
from sluice.engines.storage.s3_relay import Relay
from tests.engines.storage.conftest import MakeS3, Seal, content
from tests.servers import free_port
from tests.servers.canned import answering
from tests.servers.faults import Fault, fault_proxy
from tests.servers.radosgw import RadosGateway

MIB = 1024 * 1024
HASTY = Patience(connect_seconds=0.5, request_seconds=2.0, retries=1)
NAME = "store.sluice.invalid"
"""Leads nowhere (RFC 6761): who asked a name server for it could not call it."""


@dataclass
class Names:
    """The judge: what it was asked, and where it says that all lead."""

    addresses: Collection[str] = ("127.0.0.1",)
    asked: list[str] = field(default_factory=list)

    async def lead(self, origin: str) -> Collection[str]:
        self.asked.append(origin)
        if not self.addresses:
            raise StoreFault("astray")
        return self.addresses


@asynccontextmanager
async def relayed(make_s3: MakeS3, names: Names, endpoint: str, **more: object) -> AsyncIterator[S3Store]:
    relay = Relay(names.lead, 0.5)
    await relay.start()
    port = urlsplit(endpoint).port
    store = make_s3(endpoint_url=f"http://{NAME}:{port}", relay_url=relay.url, **({"patience": HASTY} | more))
    try:
        yield store
    finally:
        await store.aclose()
        await relay.aclose()


@pytest.mark.asvs("1.3.6")
async def test_a_store_is_used_at_the_judged_address_alone(make_s3: MakeS3, gateway: RadosGateway, seal: Seal) -> None:
    names, large = Names(), bytes(range(256)) * 4096 * 20
    async with relayed(make_s3, names, gateway.endpoint, patience=Patience()) as store:
        await store.put("a b+c/é=1", seal(b"small"), content_type="text/plain")
        await store.put("large", seal(large), content_type="text/plain")
        assert await content(store, "a b+c/é=1") == b"small"
        assert await content(store, "large") == large
        assert await store.size("large") == len(large)
        assert await store.size("none") is None
        assert [one.key for batch in [batch async for batch in store.listed("")] for one in batch] == ["a b+c/é=1", "large"]
        assert await store.abort_stale_parts("", timedelta(0), lambda _key: True) == 0
        await store.delete("large")
        with pytest.raises(KeyError):
            await content(store, "large")
        await asyncio.gather(*(store.size("a b+c/é=1") for _ in range(40)))
    assert set(names.asked) == {f"http://{NAME}:{urlsplit(gateway.endpoint).port}"}


@pytest.mark.asvs("1.3.6")
async def test_each_connection_is_judged_anew_and_a_refused_one_is_not_made(make_s3: MakeS3, seal: Seal) -> None:
    names = Names()
    async with answering("200 OK") as server, relayed(make_s3, names, server.url) as store:
        await store.size("a")
        seen = len(server.seen)
        names.addresses = ()
        calls: list[Callable[[], Awaitable[object]]] = [
            lambda: store.put("a", seal(b"x"), content_type="text/plain"),
            lambda: store.size("a"),
            lambda: store.delete("a"),
            lambda: content(store, "a"),
            lambda: store.abort_stale_parts("", timedelta(0), lambda _key: True),
        ]
        for call in calls:
            with pytest.raises(StoreFault):
                await call()
        assert len(server.seen) == seen > 0


async def _leads_nowhere(make_s3: MakeS3, seal: Seal, redirect: str) -> None:
    """Have a store answer every request with a redirect to a listed host inside, and see that nobody goes there."""
    async with answering("200 OK", "inside", host="127.0.0.2") as inside:
        head = f"{redirect}\r\nLocation: {inside.url}/secret"
        names = Names(("127.0.0.1", "127.0.0.2"))
        async with answering(head) as server, relayed(make_s3, names, server.url) as store:
            for call in (store.put("a", seal(b"x"), content_type="text/plain"), content(store, "a"), store.size("a")):
                with pytest.raises(StoreFault):
                    await call
        assert inside.seen == []
        assert set(names.asked) == {f"http://{NAME}:{urlsplit(server.url).port}"}


@pytest.mark.asvs("1.3.6", "15.3.2")
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed(make_s3: MakeS3, seal: Seal, status: int) -> None:
    await _leads_nowhere(make_s3, seal, f"{status} Elsewhere")


@pytest.mark.asvs("1.3.6", "15.3.2")
@pytest.mark.parametrize(
    "before",
    [
        "HTTP/1.1 100 Continue\r\n\r\n",
        "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n",
        "HTTP/1.1 101 Other\r\n\r\n",
    ],
)
async def test_a_redirect_behind_an_interim_answer_is_not_followed(make_s3: MakeS3, seal: Seal, before: str) -> None:
    await _leads_nowhere(make_s3, seal, f"{before.removeprefix('HTTP/1.1 ')}HTTP/1.1 307 Elsewhere")


@pytest.mark.parametrize("status", [" 302 Elsewhere", "+302 Elsewhere", "0302 Elsewhere", "\t302 Elsewhere"])
async def test_an_answer_that_could_be_read_as_a_redirect_is_none(make_s3: MakeS3, seal: Seal, status: str) -> None:
    async with answering("200 OK", "inside", host="127.0.0.2") as inside:
        names = Names(("127.0.0.1", "127.0.0.2"))
        async with answering(f"{status}\r\nLocation: {inside.url}/secret") as server, relayed(make_s3, names, server.url) as store:
            with pytest.raises(StoreFault):
                await store.put("a", seal(b"x"), content_type="text/plain")
        assert inside.seen == []
        assert set(names.asked) == {f"http://{NAME}:{urlsplit(server.url).port}"}


async def test_an_interim_answer_is_no_answer(make_s3: MakeS3) -> None:
    head = "103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 206 OK\r\nContent-Range: bytes 0-4/5\r\n"
    head += 'Last-Modified: Sat, 21 Nov 2026 00:00:00 GMT\r\nETag: "a"'
    async with answering(head, "whole") as server, relayed(make_s3, Names(), server.url) as store:
        assert await content(store, "a") == b"whole"


async def test_a_store_that_is_away_is_told_as_such(make_s3: MakeS3, seal: Seal) -> None:
    async with relayed(make_s3, Names(), f"http://127.0.0.1:{free_port()}") as store:
        for call in (store.put("a", seal(b"x"), content_type="text/plain"), store.size("a")):
            with pytest.raises(StoreFault, match=r"^The store cannot be reached\.$"):
                await call


async def test_the_next_address_is_tried_when_one_does_not_answer(make_s3: MakeS3, gateway: RadosGateway, seal: Seal) -> None:
    async with relayed(make_s3, Names(("127.0.0.3", "127.0.0.1")), gateway.endpoint) as store:
        await store.put("a", seal(b"x"), content_type="text/plain")
        assert await content(store, "a") == b"x"


@pytest.mark.parametrize("fault", [Fault.CUT, Fault.LOST_ANSWER, Fault.RESET])
async def test_an_answer_that_is_cut_off_is_a_fault_and_never_a_shorter_object(
    make_s3: MakeS3, gateway: RadosGateway, seal: Seal, fault: Fault
) -> None:
    async with fault_proxy(gateway.endpoint) as proxy, relayed(make_s3, Names(), proxy.endpoint) as store:
        await store.put("a", seal(bytes(MIB)), content_type="text/plain")
        proxy.fault = fault
        with pytest.raises(StoreFault):
            await content(store, "a")


@pytest.mark.parametrize(
    "line",
    [
        *("CONNECT store.sluice.invalid:443 HTTP/1.1", "GET / HTTP/1.1", "GET http:///a HTTP/1.1", "GET http://a:b/ HTTP/1.1"),
        *("GET ftp://a/ HTTP/1.1", "GET http://a", "GET  http://a/ HTTP/1.1", "\x00\xff", "", "GET http://[/ HTTP/1.1"),
    ],
)
async def test_what_is_no_request_for_a_store_leads_nowhere(line: str) -> None:
    names = Names()
    relay = Relay(names.lead, 0.5)
    await relay.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", int(relay.url.rpartition(":")[2]))
    writer.write(line.encode("latin-1") + b"\r\n\r\n")
    assert (await asyncio.wait_for(reader.read(), 10)).startswith(b"HTTP/1.1 502 ")
    writer.close()
    await relay.aclose()
    assert names.asked == []


async def test_a_relay_that_was_closed_takes_nothing() -> None:
    relay = Relay(Names().lead, 0.5)
    await relay.start()
    url = relay.url
    for _ in range(2):
        await relay.aclose()
    async with httpx.AsyncClient(proxy=url) as client:
        with pytest.raises(httpx.HTTPError):
            await client.get(f"http://{NAME}/")
