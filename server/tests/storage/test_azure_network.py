"""The store of Azure on a faulty network, and the hosts that it talks to."""

import os
import ssl
import time
from pathlib import Path

import pytest

from sluice.kit.health import EngineState
from sluice.storage import PROBES, AzureSettings, Connection, StoreError, Timeouts
from sluice.storage.azure import store
from sluice.storage.azure.store import open_container
from sluice.storage.s3.relay import Relay
from sluice.storage.transport import NoResponse, Transport
from tests.certificates import self_signed
from tests.servers import free_port
from tests.servers.azurite import Azurite
from tests.servers.canned import answering
from tests.servers.faults import Fault, fault_proxy
from tests.storage.conftest import MakeAzure, Seal, all_fail, every_call, read_object

MIB = 1024 * 1024
QUICK = Timeouts(connect_seconds=0.5, request_seconds=1.0, retries=2)


async def test_unreachable_endpoint_fails_quickly(make_azure: MakeAzure, seal: Seal) -> None:
    for host, sentence in (
        ("127.0.0.1", "The store cannot be reached."),
        ("acmeuploads.nowhere.invalid", "The host name of the store is not known."),
    ):
        begin = time.monotonic()
        made = make_azure(endpoint_url=f"http://{host}:{free_port()}", timeouts=QUICK)
        with pytest.raises(StoreError, match=sentence):
            await made.put("a", seal(b"x"), content_type="text/plain")
        assert (await made.health()).detail == sentence
        assert time.monotonic() - begin < 4


async def test_account_that_does_not_exist_is_named(azurite: Azurite, monkeypatch: pytest.MonkeyPatch) -> None:
    async def send(self: Transport, *_: object) -> None:
        raise NoResponse(self._unknown_host, may_have_arrived=False)

    monkeypatch.setattr(Transport, "send", send)
    made = open_container(AzureSettings("nosuchaccount", "account_key"), "files", azurite.key, Connection(PROBES))
    with pytest.raises(StoreError, match=r"^There is no storage account of this name: its host is not known\.$"):
        await made.probe()


async def test_unresponsive_store_times_out(make_azure: MakeAzure, azurite: Azurite, seal: Seal) -> None:
    async with fault_proxy(azurite.endpoint) as proxy:
        proxy.fault = Fault.BLACK_HOLE
        made = make_azure(endpoint_url=proxy.endpoint, timeouts=Timeouts(0.3, 0.3, retries=2), rest_seconds=0.0)
        for call in (*every_call(made, seal, "a"), made.put("large", seal(bytes(9 * MIB)), content_type="text/plain")):
            begin = time.monotonic()
            await all_fail([call], "did not respond in time")
            assert time.monotonic() - begin < 3


@pytest.mark.parametrize("size", [1, 12 * MIB])
async def test_put_survives_lost_replies(
    make_azure: MakeAzure, azurite: Azurite, container: str, seal: Seal, size: int
) -> None:
    body = os.urandom(size)
    async with fault_proxy(azurite.endpoint) as proxy:
        proxy.fault, proxy.faulty = Fault.LOST_RESPONSE, 2
        made = make_azure(endpoint_url=proxy.endpoint, timeouts=QUICK)
        await made.put("a", seal(body), content_type="text/plain")
        with pytest.raises(StoreError, match="already"):
            await made.put("a", seal(body), content_type="text/plain")
    assert azurite.keys(container, include="uncommittedblobs") == ["a"]
    assert await read_object(make_azure(), "a") == body


async def test_put_that_fails_between_its_blocks_leaves_none(
    make_azure: MakeAzure, azurite: Azurite, container: str, seal: Seal
) -> None:
    async with fault_proxy(azurite.endpoint) as proxy:
        proxy.cuts = [number * 8 * MIB for number in (2, 3, 4)]
        once = Timeouts(connect_seconds=0.5, request_seconds=5.0, retries=0)
        made = make_azure(endpoint_url=proxy.endpoint, timeouts=once)
        with pytest.raises(StoreError, match=r"^The connection to the store broke\.$"):
            await made.put("a", seal(bytes(40 * MIB)), content_type="text/plain")
    assert azurite.keys(container, include="uncommittedblobs") == []


async def test_truncated_read_raises_error(make_azure: MakeAzure) -> None:
    head = "206 Partial Content\r\nETag: a\r\nContent-Range: bytes 0-9/10"
    for held_back, sentence in ((0, "fewer bytes"), (6, r"^The connection to the store broke\.$")):
        async with answering(head, "only", held_back=held_back) as server:
            await all_fail([read_object(make_azure(endpoint_url=server.url, timeouts=QUICK), "a")], sentence)


async def test_interim_responses_are_skipped_and_what_is_no_response_is_a_broken_connection(
    make_azure: MakeAzure,
) -> None:
    once = Timeouts(connect_seconds=0.5, request_seconds=5.0, retries=0)
    interim, done = "100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: a", "\r\n\r\nHTTP/1.1 202 Accepted"
    endless = "100 Continue" + "\r\n\r\nHTTP/1.1 103 Early Hints" * 350_000
    for head, is_refused in ((interim + done, False), (endless + done, True), ("nothing of HTTP", True)):
        async with answering(head) as server:
            made = make_azure(endpoint_url=server.url, timeouts=once)
            if is_refused:
                await all_fail([made.delete("a")], r"^The connection to the store broke\.$")
            else:
                await made.delete("a")
            assert len(server.seen) == 1


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.asvs("15.3.2", "1.3.6")
async def test_redirect_is_not_followed(make_azure: MakeAzure, seal: Seal, status: int) -> None:
    async with answering("200 OK", "inside", host="127.0.0.2") as inside:
        async with answering(f"{status} Elsewhere\r\nLocation: {inside.url}/secret") as server:
            made = make_azure(endpoint_url=server.url, timeouts=QUICK, rest_seconds=0.0)
            large = made.put("large", seal(bytes(9 * MIB)), content_type="text/plain")
            calls = [*every_call(made, seal, "a"), large, made.probe(), anext(made.list_objects(""))]
            await all_fail(calls, "sends the request on to another host, which is not followed")
        assert inside.seen == []


@pytest.mark.asvs("12.3.2")
async def test_untrusted_certificate_is_refused(make_azure: MakeAzure, seal: Seal, tmp_path: Path) -> None:
    (tmp_path / "pem").write_bytes(b"".join(self_signed(address="127.0.0.1")))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(tmp_path / "pem")
    async with answering("200 OK", "", tls=tls) as server:
        made = make_azure(endpoint_url=server.url, timeouts=QUICK)
        with pytest.raises(StoreError, match=r"^The store's TLS certificate is not trusted\.$"):
            await made.put("a", seal(b"x"), content_type="text/plain")
        assert server.seen == []


async def test_store_ignores_the_environment(
    make_azure: MakeAzure, seal: Seal, monkeypatch: pytest.MonkeyPatch
) -> None:
    evil = f"http://127.0.0.1:{free_port()}"
    names = "HTTP_PROXY http_proxy ALL_PROXY AZURE_STORAGE_ENDPOINT AZURE_AUTHORITY_HOST AZURE_STORAGE_TOKEN"
    for name in names.split():
        monkeypatch.setenv(name, evil)
    made = make_azure()
    await made.put("a", seal(b"x"), content_type="text/plain")
    assert await read_object(made, "a") == b"x"


async def test_no_request_is_sent_that_is_not_allowed(make_azure: MakeAzure, seal: Seal) -> None:
    async def refuse() -> None:
        raise StoreError("not there")

    async with answering("200 OK") as server:
        made = make_azure(endpoint_url=server.url, before=refuse)
        large = made.put("large", seal(bytes(9 * MIB)), content_type="text/plain")
        calls = [*every_call(made, seal, "a"), large, made.probe(), made.delete_many(["a"]), made.is_ours("a")]
        await all_fail(calls, "not there")
        assert server.seen == []


async def test_requests_go_through_the_relay(make_azure: MakeAzure, azurite: Azurite, seal: Seal) -> None:
    asked: list[str] = []

    async def resolve(origin: str) -> list[str]:
        asked.append(origin)
        return ["127.0.0.1"]

    relay, port = Relay(resolve, 1.0), azurite.endpoint.rpartition(":")[2]
    url = relay.url
    await relay.start()
    made = make_azure(endpoint_url=f"http://azurite:{port}", relay_url=url, timeouts=QUICK)
    body = os.urandom(9 * MIB)
    await made.put("a", seal(body), content_type="text/plain")
    assert await read_object(made, "a") == body
    assert await made.delete_many(["a"]) == {}
    assert set(asked) == {f"http://azurite:{port}"}
    await made.aclose()
    await relay.aclose()


async def test_health_check_has_a_shorter_timeout_than_put(
    make_azure: MakeAzure, azurite: Azurite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "_HEALTH_SECONDS", 0.3)
    async with fault_proxy(azurite.endpoint) as proxy:
        proxy.fault = Fault.BLACK_HOLE
        health = await make_azure(endpoint_url=proxy.endpoint).health()
    assert (health.state, health.detail) == (EngineState.DOWN, "The store did not respond in time.")
