"""Which S3 endpoints a tenant may name: those on the operator's list, as bare origins, and no other."""

import asyncio
import hashlib
import os
from collections.abc import Collection

import pytest

from sluice.buckets.endpoints import EndpointRefused, EndpointWatch, Resolve, require_allowed, require_public
from sluice.engines.storage import StoreFault
from sluice.engines.storage.s3 import S3Store
from sluice.kit.sealed import Sealed

LISTED = ("s3.example.org", "minio.example.org:9000")


@pytest.mark.parametrize(
    "endpoint",
    ["https://s3.example.org", "https://s3.example.org:8443", "https://S3.EXAMPLE.ORG/", "http://minio.example.org:9000"],
)
@pytest.mark.asvs("13.2.4")
def test_a_listed_host_is_allowed(endpoint: str) -> None:
    require_allowed(endpoint, LISTED)


@pytest.mark.asvs("1.3.6")
@pytest.mark.parametrize(
    "endpoint",
    [
        "http://169.254.169.254",
        "http://localhost",
        "http://127.0.0.1:9000",
        "http://[::1]",
        "http://2130706433",
        "http://minio.example.org",
        "https://s3.example.org.evil.example",
        "https://s3.example.org@evil.example",
        "https://user:password@s3.example.org",
        "https://s3.example.org/path",
        "https://s3.example.org?x=y",
        "https://s3.example.org#x",
        "ftp://s3.example.org",
        "file:///etc/passwd",
        "gopher://s3.example.org",
        "//s3.example.org",
        "https://",
        "https://s3.example.org:99999",
        "https://[",
        "",
    ],
)
@pytest.mark.asvs("13.2.4")
def test_any_other_is_refused(endpoint: str) -> None:
    with pytest.raises(EndpointRefused):
        require_allowed(endpoint, LISTED)


@pytest.mark.asvs("1.3.6")
def test_without_a_list_there_is_none() -> None:
    with pytest.raises(EndpointRefused):
        require_allowed("https://s3.example.org", ())


def leading_to(*addresses: str) -> Resolve:
    """A resolver that answers the same to everybody, in place of a name server that turns."""

    async def resolve(_host: str) -> Collection[str]:
        return addresses

    return resolve


@pytest.mark.asvs("1.3.6")
@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "::1",
        "fe80::1",
        "fd00::1",
        "::ffff:10.0.0.1",
        *("64:ff9b::10.0.0.1", "64:ff9b::169.254.169.254", "64:ff9b:1::a00:1"),  # by a NAT64 (RFC 6052, RFC 8215)
        *("2002:a00:1::", "2002:a9fe:a9fe::1", "2001:0:a00:1::"),  # by 6to4 and Teredo
        *("::10.0.0.1", "::ffff:0:10.0.0.1", "fec0::1", "ff02::1", "ff0e::1", "5f00::1", "100::1"),
        *("224.0.0.1", "192.0.0.8", "255.255.255.255", "240.0.0.1", "no address"),
    ],
)
@pytest.mark.asvs("13.2.5")
async def test_a_listed_name_that_leads_into_a_private_network_is_refused(address: str) -> None:
    with pytest.raises(EndpointRefused):
        await require_public("https://s3.example.org", LISTED, leading_to("93.184.216.34", address))


@pytest.mark.parametrize("address", ["93.184.216.34", "2606:2800:220:1::1", "64:ff9b::93.184.216.34"])
async def test_a_listed_name_may_lead_to_a_public_address(address: str) -> None:
    assert await require_public("https://s3.example.org", LISTED, leading_to(address)) == (address,)


async def test_a_listed_network_lets_a_name_lead_into_it() -> None:
    listed = (*LISTED, "10.0.0.0/8", "fd00::/8")
    await require_public("https://s3.example.org", listed, leading_to("10.1.2.3", "fd00::1", "93.184.216.34"))
    with pytest.raises(EndpointRefused):
        await require_public("https://s3.example.org", listed, leading_to("192.168.1.1"))


@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:9000", "http://[::1]:9000", "http://localhost:9000"])
async def test_an_address_that_is_listed_itself_says_where_it_leads(endpoint: str) -> None:
    await require_public(endpoint, LISTED, leading_to("127.0.0.1"))


async def test_a_name_without_an_address_is_left_to_the_probe() -> None:
    await require_public("https://s3.example.org", LISTED, leading_to())


class Turning:
    """A name server's twin that is turned from one address to another, and counts how often it was asked."""

    def __init__(self) -> None:
        self.address = "93.184.216.34"
        self.asked = 0

    async def resolve(self, _host: str) -> Collection[str]:
        self.asked += 1
        return (self.address,)


@pytest.mark.asvs("1.3.6")
async def test_a_name_that_is_turned_to_a_private_network_is_refused_at_its_next_use() -> None:
    names, moment = Turning(), 0.0
    watch = EndpointWatch("https://s3.example.org", LISTED, names.resolve, seconds=2.0, clock=lambda: moment)
    await watch.require()
    names.address = "169.254.169.254"
    moment = 1.9
    await watch.require()
    assert names.asked == 1
    moment = 2.0
    for _ in range(2):
        with pytest.raises(EndpointRefused):
            await watch.require()
    names.address = "93.184.216.34"
    await watch.require()
    assert names.asked == 4


@pytest.mark.asvs("1.3.6")
async def test_a_store_whose_name_was_turned_is_sent_nothing() -> None:
    async def refuse() -> None:
        raise StoreFault("turned")

    connections = []
    server = await asyncio.start_server(lambda _reader, writer: connections.append(writer), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    store = S3Store("bucket", "us-east-1", "a", "b", endpoint_url=f"http://127.0.0.1:{port}", before=refuse)
    sealed = Sealed(os.memfd_create("sealed"), 0, hashlib.sha256(b"").digest())
    for use in (store.put("k", sealed, content_type="x/y"), store.size("k"), store.delete("k"), store.is_ours("k"), store.probe()):
        with pytest.raises(StoreFault, match="turned"):
            await use
    os.close(sealed.fd)
    for listing in (store.read("k"), store.listed("")):
        with pytest.raises(StoreFault, match="turned"):
            await anext(aiter(listing))
    assert connections == []
    server.close()
