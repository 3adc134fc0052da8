"""The engine `icap:NAME` with Debian's c-icap, and with a server that fails in every way."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from sluice.kit.health import EngineState
from sluice.scanner import Clean, Incomplete, Infected, ScannerUnavailable, ScanResult
from sluice.scanner.icap.connection import IcapAddress
from sluice.scanner.icap.replies import IcapUnavailable
from sluice.scanner.icap.scanner import IcapScanner
from tests.certificates import self_signed
from tests.inspection.threats.containers import REQUIRED_CONTAINERS
from tests.inspection.threats.packed_files import EICAR, mark_encrypted, zipped
from tests.rows import each_row
from tests.scanner.conftest import Seal, scanned
from tests.scanner.faulty_icap import CLEAN, FOUND, FaultyIcap, Request, faulty_icap, sends
from tests.servers.c_icap import CIcap, running_c_icap
from tests.servers.clamd import Clamd

MIB = 2**20
LARGE = b"0123456789abcdef" * (MIB // 4)


@pytest.fixture(scope="module")
def c_icap(clamd: Clamd, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CIcap]:
    with running_c_icap(tmp_path_factory.mktemp("c-icap"), clamd_port=clamd.port) as server:
        yield server


@asynccontextmanager
async def scanner_of(address: str, **options: Any) -> AsyncIterator[IcapScanner]:
    given = {"largest_bytes": 8 * MIB, "stall_seconds": 0.2, "scan_seconds": 20.0} | options
    async with aclosing(IcapScanner("av", IcapAddress.parse(address), **given)) as scanner:
        await scanner.start()
        yield scanner


@pytest.mark.parametrize("method", ["RESPMOD", "REQMOD"])
async def test_real_server_finds_the_virus_in_every_wrapping_and_nothing_in_good_files(
    c_icap: CIcap, seal: Seal, method: str
) -> None:
    async with scanner_of(c_icap.address(), method=method) as scanner:
        for name, wrap in REQUIRED_CONTAINERS.values():
            if name == "e.pdf":  # its attachment is found by our own rules only, beside any engine
                continue
            found = await scanned(scanner, seal(wrap(EICAR)))
            assert isinstance(found, Infected), (name, found)
            assert (found.threat, found.engine) == ("Eicar-Test-Signature.UNOFFICIAL", "icap:av")
            assert isinstance(await scanned(scanner, seal(wrap(b"words"))), Clean), name
        for begins in (b"\x89PNG\r\n\x1a\n", b"\xff\xd8", b"GIF89a", b"%PDF-1.7\n", b"\xd0\xcf\x11\xe0"):
            found = await scanned(scanner, seal(begins + EICAR))  # a type that is not scanned passes
            assert isinstance(found, Infected), begins
        protected = await scanned(
            scanner, seal(mark_encrypted(zipped({"secret": b"words"})))
        )  # of which this clamd sends an alert
        assert isinstance(protected, Clean)
        assert protected.flags == ("encrypted",)
        for data in (b"", b"x", b"x" * 1024, b"x" * 1025, LARGE):  # around the preview
            clean = await scanned(scanner, seal(data))
            assert isinstance(clean, Clean)
            assert clean.signatures.startswith("CI0001-")
        health = await scanner.health()
        assert health.state is EngineState.UP
        assert health.version == "C-ICAP/0.5.10 server - Antivirus service"
        assert scanner.scan_limit == 8 * MIB


async def test_file_beyond_the_limit_of_the_server_which_it_passes_silently_is_incomplete(
    c_icap: CIcap, seal: Seal
) -> None:
    async with scanner_of(c_icap.address("limited")) as scanner:
        assert isinstance(await scanned(scanner, seal(EICAR)), Infected)
        beyond = await scanned(scanner, seal(LARGE))
        assert isinstance(beyond, Incomplete)
        assert scanner.scan_limit is not None
        assert MIB <= scanner.scan_limit <= 2 * MIB


async def test_server_that_refuses_large_files_is_used_for_smaller_ones(seal: Seal) -> None:
    async with faulty_icap(tls=None) as server:
        server.most, server.options = 3 * MIB, b"Methods: RESPMOD\r\nAllow: 204\r\n"
        async with scanner_of(server.address) as scanner:
            assert isinstance(await scanned(scanner, seal(b"x" * (2 * MIB))), Clean)
            assert isinstance(await scanned(scanner, seal(b"x" * (5 * MIB))), Incomplete)
            assert scanner.scan_limit == 2 * MIB, "to the megabyte, with what is around the padding"


async def test_limit_that_is_lowered_is_noticed_at_the_next_test(seal: Seal) -> None:
    async with faulty_icap() as server:
        server.options = b"Methods: RESPMOD\r\nAllow: 204\r\n"
        async with scanner_of(server.address) as scanner:
            assert isinstance(await scanned(scanner, seal(b"x" * (5 * MIB))), Clean)
            server.finds = lambda content: len(content) < 3 * MIB
            server.tag = b"v2"
            await scanner._check()
            assert isinstance(await scanned(scanner, seal(b"y" * (5 * MIB))), Incomplete)
            server.finds, server.tag = (lambda _content: False), b"v3"
            with pytest.raises(IcapUnavailable, match="it does not find the EICAR test virus"):
                await scanner._check()


async def test_fault_of_one_file_takes_the_server_out_of_service_for_no_other(seal: Seal) -> None:
    async with faulty_icap(reset) as server, scanner_of(server.address, grace_seconds=0.0) as scanner:
        assert isinstance(await scanned(scanner, seal(b"poison")), ScannerUnavailable)
        server.respond = sends(CLEAN)
        assert isinstance(await scanned(scanner, seal(b"words")), Clean)


async def test_scan_that_is_cancelled_leaves_no_response_for_another_file(seal: Seal) -> None:
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def wait(server: FaultyIcap, request: Request) -> None:
        asked.set()
        await go_on.wait()
        request.writer.write(CLEAN % server.tag)

    async with faulty_icap(wait) as server, scanner_of(server.address) as scanner:
        scanning = asyncio.create_task(scanned(scanner, seal(b"words")))
        await asked.wait()
        scanning.cancel()
        await asyncio.gather(scanning, return_exceptions=True)
        go_on.set()
        server.respond = sends(FOUND, whole=False)
        assert isinstance(await scanned(scanner, seal(b"other words")), Infected)


async def test_service_that_does_not_find_the_test_virus_is_never_used(c_icap: CIcap, seal: Seal) -> None:
    for service, why in (("echo", "it does not find the EICAR test virus"), ("none", "it has no service at this path")):
        async with scanner_of(c_icap.address(service)) as scanner:
            result = await scanned(scanner, seal(b"words"))
            assert isinstance(result, ScannerUnavailable)
            assert why in result.why
            health = await scanner.health()
            assert (health.state, health.detail) == (EngineState.DOWN, result.why)
            assert scanner.engine_version is None


async def close(_server: FaultyIcap, request: Request) -> None:
    request.writer.close()


async def reset(_server: FaultyIcap, request: Request) -> None:
    request.reset()


async def glance(_server: FaultyIcap, request: Request) -> None:
    """Say "clean" after a preview."""
    request.writer.write(CLEAN % b"v1")


PAGE = b"HTTP/1.1 403 Forbidden\r\n\r\n"
BLOCK = b'ICAP/1.0 200 OK\r\nISTag: "v1"\r\nEncapsulated: res-hdr=0, res-body=%d\r\n\r\n' % len(PAGE) + PAGE
HUGE = b'ICAP/1.0 200 OK\r\nISTag: "v1"\r\nEncapsulated: res-body=0\r\n\r\n'


@each_row(
    "respond, kind, why",
    [
        (sends(CLEAN), Clean, ""),
        (sends(FOUND, whole=False), Infected, ""),
        (sends(BLOCK + b"5\r\nblock\r\n0\r\n\r\n"), Incomplete, "other content (HTTP 403)"),
        (close, ScannerUnavailable, "closed without a response"),
        (reset, ScannerUnavailable, "the connection broke"),
        (sends(CLEAN + b"a body after it"), ScannerUnavailable, "more data after it"),
        (sends(CLEAN + CLEAN), ScannerUnavailable, "more data after it"),
        (sends(b"ICAP/1.0 500 Server error\r\n\r\n"), ScannerUnavailable, "500 Server error"),
        (sends(b"HTTP/1.1 200 OK\r\n\r\n"), ScannerUnavailable, "not of ICAP"),
        (sends(b"ICAP/1.0 204 " + b"x" * 70_000), ScannerUnavailable, "a head of more than"),
        (sends(BLOCK + b"zz\r\n"), ScannerUnavailable, "chunks have no size"),
        (sends(BLOCK + b"5\r\nblockXX"), ScannerUnavailable, "chunks have no end"),
        (sends(HUGE + b"1f400000\r\n" + b"x" * 1_000_000), ScannerUnavailable, "larger than the file"),
        (sends(BLOCK + b"0\r\nX-Virus-ID: EICAR\r\n\r\n"), ScannerUnavailable, "fields behind its last chunk"),
    ],
)
async def test_response_that_is_not_surely_clean_or_infected_is_never_clean(
    seal: Seal, respond: Any, kind: type, why: str
) -> None:
    async with faulty_icap(respond) as server, scanner_of(server.address, scan_seconds=3.0) as scanner:
        result: ScanResult = await scanned(scanner, seal(b"words " * 3_000 + LARGE[: MIB // 2]))
        assert isinstance(result, kind), result
        assert why in str(getattr(result, "why", "")), result
        server.respond = sends(CLEAN)
        assert isinstance(await scanned(scanner, seal(b"other words")), Clean), "it recovers"


async def test_verdict_by_a_preview_alone_is_asked_for_again_with_all_bytes(seal: Seal) -> None:
    data = b"words " * 1000
    for preview in (b"0", b"1024"):
        async with faulty_icap(glance) as server:
            server.options = b"Methods: RESPMOD\r\nAllow: 204\r\nPreview: %s\r\n" % preview
            async with scanner_of(server.address) as scanner:
                await scanner.find_scan_limit(20)  # the search after the start has previews, too
                assert isinstance(await scanned(scanner, seal(data)), Clean)
                assert [len(request.content) for request in server.requests[-2:]] == [int(preview), len(data)]


async def test_server_without_204_returns_the_file_and_any_other_bytes_are_no_ok(seal: Seal) -> None:
    async def echo(_server: FaultyIcap, request: Request) -> None:
        head = b"HTTP/1.1 200 OK\r\n\r\n"
        body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(request.content), request.content.replace(b"changed", b"Changed"))
        fields = b'ISTag: "v1"\r\nEncapsulated: res-hdr=0, res-body=%d\r\n\r\n' % len(head)
        request.writer.write(b"ICAP/1.0 200 OK\r\n" + fields + head + body)

    async with faulty_icap(echo) as server:
        server.options = b"Methods: RESPMOD\r\n"
        async with scanner_of(server.address) as scanner:
            assert isinstance(await scanned(scanner, seal(b"some words")), Clean)
            assert isinstance(await scanned(scanner, seal(b"changed words")), Incomplete)
            assert b"Allow: 204" not in server.requests[0].head


async def test_ok_before_all_bytes_were_sent_is_no_verdict(seal: Seal) -> None:
    async with faulty_icap() as server:
        server.options = b"Methods: RESPMOD\r\n"
        async with scanner_of(server.address) as scanner:
            server.reads_nothing = True
            result = await scanned(scanner, seal(LARGE * 2))
            assert isinstance(result, ScannerUnavailable)
            assert result.why == "a response before all bytes were sent"


async def test_server_that_hangs_is_abandoned_when_it_shows_no_sign_of_life(
    seal: Seal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sluice.scanner.icap.scanner._CONNECT_SECONDS", 0.2)
    async with faulty_icap() as server, scanner_of(server.address) as scanner:
        server.hangs = True
        result = await scanned(scanner, seal(b"words"))
        assert isinstance(result, ScannerUnavailable)
        assert result.why == "no response within 0.2 s"
        assert scanner.engine_version is None


async def test_tls_needs_a_certificate_of_the_given_authority(seal: Seal, tmp_path: Path) -> None:
    certificate, key = self_signed(address="127.0.0.1", is_ca=True)
    (tmp_path / "own.pem").write_bytes(certificate)
    (tmp_path / "key.pem").write_bytes(key)
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(tmp_path / "own.pem", tmp_path / "key.pem")
    async with faulty_icap(tls=serving) as server:
        address = server.address.replace("icap://", "icaps://")
        async with scanner_of(address, tls=ssl.create_default_context(cafile=tmp_path / "own.pem")) as scanner:
            assert isinstance(await scanned(scanner, seal(b"words")), Clean)
        async with scanner_of(address, tls=ssl.create_default_context()) as scanner:
            result = await scanned(scanner, seal(b"words"))
            assert isinstance(result, ScannerUnavailable)
            assert "its certificate is not trusted" in result.why


async def test_connections_are_kept_and_one_that_the_server_closed_is_replaced(seal: Seal) -> None:
    async with faulty_icap() as server, scanner_of(server.address) as scanner:
        await scanner.find_scan_limit(20)  # the search after the start uses a connection of its own meanwhile
        for number in range(4):
            assert isinstance(await scanned(scanner, seal(b"words %d" % number)), Clean)
        ports = [request.writer.get_extra_info("peername")[1] for request in server.requests]
        assert len(set(ports)) == 1
        server.requests[-1].writer.close()
        assert isinstance(await scanned(scanner, seal(b"more words")), Clean)


async def test_version_of_the_signatures_is_the_newest_that_the_server_stated(seal: Seal) -> None:
    async with faulty_icap() as server, scanner_of(server.address) as scanner:
        for tag, newest in ((b"v1", "v1"), (b"v2", "v2"), (b"v1", "v2"), (b"", "v2")):
            server.tag = tag
            result = await scanned(scanner, seal(b"words"))
            assert isinstance(result, Clean)
            assert result.signatures == tag.decode()
            assert scanner.engine_version is not None
            assert scanner.engine_version.signatures == newest


async def test_no_more_scans_run_at_once_than_the_server_allows(seal: Seal) -> None:
    running = most = 0

    async def count(server: FaultyIcap, request: Request) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(20):
            await asyncio.sleep(0)
        running -= 1
        request.writer.write(CLEAN % server.tag)

    async with faulty_icap(count) as server:
        server.options += b"Max-Connections: 2\r\n"
        async with scanner_of(server.address) as scanner:
            results = await asyncio.gather(*(scanned(scanner, seal(b"words %d" % number)) for number in range(9)))
    assert [type(result) for result in results] == [Clean] * 9
    assert most <= 2


@each_row(
    "address",
    [
        *("", "http://av/x", "icap://av", "icap://av/", "icap://:1344/x", "icap://av:port/x", "icap://user@av/x"),
        *("av:1344", "icap://:secret@av/x", "icap://av:0/x", "icap://av/x#y"),
    ],
)
def test_address_that_names_no_service_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="icap://host:port/service"):
        IcapAddress.parse(address)
