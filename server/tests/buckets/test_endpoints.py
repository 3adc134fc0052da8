"""Which S3 endpoints a tenant may name: only those on the operator's list, as bare origins."""

import asyncio
import hashlib
import os
from collections.abc import Collection

import pytest

from sluice.buckets.endpoints import EndpointRefused, EndpointWatch, Resolve, require_allowed, require_public
from sluice.storage import StoreError
from sluice.storage.s3.store import S3Store
from sluice_inspect.sandbox.sealed import Sealed
from tests.rows import each_row

LISTED = ("s3.example.org", "minio.example.org:9000")


@each_row(
    "origin",
    [
        "https://s3.example.org",
        "https://s3.example.org:8443",
        "https://S3.EXAMPLE.ORG/",
        "http://minio.example.org:9000",
    ],
)
@pytest.mark.asvs("13.2.4")
def test_listed_host_is_allowed(origin: str) -> None:
    require_allowed(origin, LISTED)


@pytest.mark.asvs("1.3.6")
@each_row(
    "endpoint",
    [
        *(f"http://{host}" for host in ("169.254.169.254", "localhost", "127.0.0.1:9000", "[::1]", "2130706433")),
        *("http://minio.example.org", "https://user:password@s3.example.org", "https://", "https://[", ""),
        *(
            f"https://s3.example.org{rest}"
            for rest in (".evil.example", "@evil.example", "/path", "?x=y", "#x", ":99999")
        ),
        *("ftp://s3.example.org", "file:///etc/passwd", "gopher://s3.example.org", "//s3.example.org"),
    ],
)
@pytest.mark.asvs("13.2.4")
def test_unlisted_endpoint_is_refused(endpoint: str) -> None:
    for refused, listed in ((endpoint, LISTED), ("https://s3.example.org", ())):
        with pytest.raises(EndpointRefused):
            require_allowed(refused, listed)


def resolves_to(*addresses: str) -> Resolve:
    """Return a resolver that always gives the same addresses."""

    async def resolve(_host: str) -> Collection[str]:
        return addresses

    return resolve


@pytest.mark.asvs("1.3.6")
@each_row(
    "address",
    [
        *("127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0"),
        *("::1", "fe80::1", "fd00::1", "::ffff:10.0.0.1"),
        *("64:ff9b::10.0.0.1", "64:ff9b::169.254.169.254", "64:ff9b:1::a00:1"),  # by a NAT64 (RFC 6052, RFC 8215)
        *("2002:a00:1::", "2002:a9fe:a9fe::1", "2001:0:a00:1::"),  # by 6to4 and Teredo
        *("::10.0.0.1", "::ffff:0:10.0.0.1", "fec0::1", "ff02::1", "ff0e::1", "5f00::1", "100::1"),
        *("224.0.0.1", "192.0.0.8", "255.255.255.255", "240.0.0.1", "no address"),
        # services inside a cloud machine: metadata, credentials, the wire server
        *("168.63.129.16", "169.254.170.2", "169.254.169.253", "100.100.100.200", "192.0.0.192", "fd00:ec2::254"),
        *("fd20:ce::254", "::ffff:168.63.129.16", "::168.63.129.16", "64:ff9b::168.63.129.16", "2002:a83f:8110::1"),
        *("198.18.0.1", "192.88.99.1", "192.31.196.1", "192.52.193.1", "192.175.48.1", "198.51.100.1", "203.0.113.1"),
        *("::ffff:127.0.0.1", "::127.0.0.1", "2001:db8::1", "2001:2::1", "2001:20::1", "3fff::1", "2620:4f:8000::1"),
        # Teredo (RFC 4380): the server, and the client's address with its bits inverted
        *("2001:0:a83f:8110::1", "2001:0:5db8:d822:0:ffff:f5ff:fffe"),
    ],
)
@pytest.mark.asvs("13.2.5")
async def test_listed_name_that_resolves_to_a_private_address_is_refused(address: str) -> None:
    with pytest.raises(EndpointRefused):
        await require_public("https://s3.example.org", LISTED, resolves_to("93.184.216.34", address))


@each_row("address", ["93.184.216.34", "2606:2800:220:1::1", "64:ff9b::93.184.216.34"])
async def test_listed_name_may_resolve_to_a_public_address(address: str) -> None:
    assert await require_public("https://s3.example.org", LISTED, resolves_to(address)) == (address,)


async def test_name_may_resolve_into_a_listed_network() -> None:
    list_objects = (*LISTED, "10.0.0.0/8", "fd00::/8")
    await require_public("https://s3.example.org", list_objects, resolves_to("10.1.2.3", "fd00::1", "93.184.216.34"))
    with pytest.raises(EndpointRefused):
        await require_public("https://s3.example.org", list_objects, resolves_to("192.168.1.1"))


@each_row("endpoint", ["http://127.0.0.1:9000", "http://[::1]:9000", "http://localhost:9000"])
async def test_listed_address_may_be_private_and_a_name_without_one_is_left_to_the_probe(endpoint: str) -> None:
    await require_public(endpoint, LISTED, resolves_to("127.0.0.1"))
    await require_public("https://s3.example.org", LISTED, resolves_to())


@each_row("address", ["168.63.129.16", "::ffff:168.63.129.16", "64:ff9b::169.254.169.254"])
async def test_cloud_address_is_allowed_only_by_a_network_that_names_it(address: str) -> None:
    with pytest.raises(EndpointRefused):
        await require_public("https://s3.example.org", (*LISTED, "0.0.0.0/0", "::/0"), resolves_to(address))
    await require_public("https://s3.example.org", (*LISTED, "168.63.129.16/32"), resolves_to("168.63.129.16"))


class RebindingResolver:
    """A resolver whose address can be changed, and which counts its lookups."""

    def __init__(self) -> None:
        self.address = "93.184.216.34"
        self.lookups = 0

    async def resolve(self, _host: str) -> Collection[str]:
        self.lookups += 1
        return (self.address,)


@pytest.mark.asvs("1.3.6")
async def test_name_rebound_to_a_private_address_is_refused_at_the_next_use() -> None:
    names, moment = RebindingResolver(), 0.0
    watch = EndpointWatch("https://s3.example.org", LISTED, names.resolve, seconds=2.0, clock=lambda: moment)
    await watch.require()
    names.address = "169.254.169.254"
    moment = 1.9
    await watch.require()
    assert names.lookups == 1
    moment = 2.0
    for _ in range(2):
        with pytest.raises(EndpointRefused):
            await watch.require()
    names.address = "93.184.216.34"
    await watch.require()
    assert names.lookups == 4


@pytest.mark.asvs("1.3.6", "13.2.4")
async def test_host_that_is_no_longer_listed_is_refused_at_the_next_use() -> None:
    listed = list(LISTED)
    watch = EndpointWatch("https://s3.example.org", listed, resolves_to("93.184.216.34"), seconds=60)
    await watch.require()
    listed.remove("s3.example.org")
    with pytest.raises(EndpointRefused, match="not among those that the operator allows"):
        await watch.require()


@pytest.mark.asvs("1.3.6")
async def test_store_sends_nothing_to_a_rebound_name() -> None:
    async def refuse() -> None:
        raise StoreError("turned")

    connections = []
    server = await asyncio.start_server(lambda _reader, writer: connections.append(writer), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    store = S3Store("bucket", "us-east-1", "a", "b", endpoint_url=f"http://127.0.0.1:{port}", before=refuse)
    sealed = Sealed(os.memfd_create("sealed"), 0, hashlib.sha256(b"").digest())
    for use in (
        store.put("k", sealed, content_type="x/y"),
        store.size("k"),
        store.delete("k"),
        store.is_ours("k"),
        store.presign("k", expires_in=60, filename="a.txt", content_type="text/plain"),
        store.delete_many(["k"]),
        store.probe(),
    ):
        with pytest.raises(StoreError, match="turned"):
            await use
    os.close(sealed.fd)
    for listing in (store.read("k"), store.list_objects("")):
        with pytest.raises(StoreError, match="turned"):
            await anext(aiter(listing))
    assert connections == []
    server.close()
