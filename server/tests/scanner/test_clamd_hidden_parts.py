"""Content that a real clamd does not open, or only up to its limits: it is scanned anyway, or the file is not clean."""

import asyncio
import gzip
import io
import random
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing
from functools import partial
from typing import Any

import pytest

from sluice.scanner import Clean, Incomplete, Infected, ScannerUnavailable
from sluice.scanner.clamd.connection import ClamdAddress, ClamdClient, ClamdTimeouts
from sluice.scanner.clamd.replies import ClamdVerdict
from sluice.scanner.clamd.scanner import ClamdScanner
from sluice_inspect.sandbox import Crashed, NoWorker, OverLimit, RunResult, Sandbox
from sluice_inspect.sandbox.engine import ZygoteSandbox
from sluice_inspect.sandbox.unpack import CHECK_AND_SCAN_BYTES, UnpackReport
from tests.inspection.threats.containers import MISSED_BY_CLAMD, REQUIRED_CONTAINERS, pdf_with, seven_zipped
from tests.inspection.threats.packed_files import EICAR, tarred, zipped
from tests.rows import each_row
from tests.scanner.conftest import Seal, running_sandbox, scanned
from tests.scanner.in_process_sandbox import InProcessSandbox
from tests.servers.clamd import Clamd, running_clamd

MIB = 2**20
SILENT_DEPTH = 15
"""Levels that a clamd with `MaxRecursion 16` opens below a file."""
MARKED = random.Random(7).randbytes(40)
"""Bytes that only the signature of clamd finds: no builtin rule matches them."""
CLEAN = random.Random(8).randbytes(3000)
LARGE = random.Random(9).randbytes(CHECK_AND_SCAN_BYTES + 1)
SIGNATURE = f"Only-Clamd-Knows:0:*:{MARKED.hex()}\n"


LIMITS = {"MaxRecursion": "5", "MaxFiles": "20", "MaxFileSize": "2M", "MaxScanSize": "16M", "StreamMaxLength": "2M"}
NO_ALERTS = {"MaxFileSize": "2M", "MaxScanSize": "8M", "AlertExceedsMax": "no"}


@pytest.fixture(scope="module")
def tight_clamd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clamd]:
    """A clamd with its own signature and tight limits for archives."""
    with running_clamd(tmp_path_factory.mktemp("tight"), LIMITS, signatures={"own.ndb": SIGNATURE}) as server:
        yield server


@pytest.fixture(scope="module")
def clamd_without_alerts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clamd]:
    """A clamd with its own signature that reports OK when a limit is exceeded."""
    with running_clamd(tmp_path_factory.mktemp("no-alerts"), NO_ALERTS, signatures={"own.ndb": SIGNATURE}) as server:
        yield server


def scanner_of(server: Clamd, sandbox: Sandbox | None = None, **options: Any) -> ClamdScanner:
    return ClamdScanner([server.address], sandbox or InProcessSandbox(), **({"largest_bytes": 4 * MIB} | options))


@pytest.fixture
async def scanner(tight_clamd: Clamd) -> AsyncIterator[ClamdScanner]:
    async with aclosing(scanner_of(tight_clamd)) as opened:
        await opened.start()
        yield opened


@pytest.fixture
async def scanner_without_alerts(clamd_without_alerts: Clamd) -> AsyncIterator[ClamdScanner]:
    async with aclosing(scanner_of(clamd_without_alerts)) as opened:
        await opened.start()
        yield opened


def gzipped(levels: int, core: bytes) -> bytes:
    data = core
    for _ in range(levels):
        data = gzip.compress(data)
    return data


def many_members(count: int, last: bytes) -> bytes:
    return zipped({**{f"{number}.txt": b"%d" % number * 20 for number in range(count)}, "last": last})


def cpio(*files: bytes) -> bytes:
    """Return an archive in the "newc" format of cpio(5), which the sandbox does not open."""

    def entry(name: bytes, content: bytes) -> bytes:
        numbers = (1, 0o100644, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0)
        head = b"070701" + b"".join(b"%08X" % number for number in numbers) + name + b"\0"
        return b"".join(part + bytes(-len(part) % 4) for part in (head, content))

    return b"".join(entry(b"%d" % number, data) for number, data in enumerate(files)) + entry(b"TRAILER!!!", b"")


def many_megabytes(members: int, last: bytes) -> bytes:
    fill = random.Random(1)
    fillers = {f"{number}.bin": fill.randbytes(1000) + bytes(MIB) for number in range(members)}
    return zipped({**fillers, "last": last})


@each_row("name", MISSED_BY_CLAMD)
async def test_parts_that_clamd_does_not_open_are_scanned(scanner: ClamdScanner, seal: Seal, name: str) -> None:
    result = await scanned(scanner, seal(MISSED_BY_CLAMD[name](MARKED)))
    assert isinstance(result, Infected)
    assert (result.threat, result.engine) == ("Only-Clamd-Knows.UNOFFICIAL", "clamd 1.4.6")
    assert isinstance(await scanned(scanner, seal(MISSED_BY_CLAMD[name](CLEAN))), Clean)


@each_row(
    "pack",
    [
        pytest.param(partial(gzipped, 9), id="over MaxRecursion"),
        pytest.param(lambda last: zipped({"a.gz": gzipped(9, zipped({"b": last}))}), id="zip over MaxRecursion"),
        pytest.param(partial(many_members, 50), id="over MaxFiles"),
        pytest.param(partial(many_megabytes, 17), id="over MaxScanSize"),
    ],
)
async def test_content_beyond_clamd_limits_is_scanned_part_by_part(
    scanner: ClamdScanner, seal: Seal, pack: Callable[[bytes], bytes]
) -> None:
    assert isinstance(await scanned(scanner, seal(pack(MARKED))), Infected)
    assert isinstance(await scanned(scanner, seal(pack(CLEAN))), Clean)


@each_row(
    "packed",  # built when the test runs, not when it is collected
    [
        pytest.param(lambda: CLEAN + bytes(9 * MIB // 4), id="file itself"),
        pytest.param(lambda: zipped({"a": bytes(9 * MIB // 4) + MARKED}), id="zip member that clamd reports OK"),
        pytest.param(lambda: zipped({"a.zip": zipped({"a": bytes(9 * MIB // 4) + MARKED})}), id="in a zip in a zip"),
        pytest.param(lambda: gzip.compress(bytes(9 * MIB // 4) + MARKED), id="gzip"),
        pytest.param(lambda: tarred({"a": bytes(9 * MIB // 4) + MARKED}, "w:gz"), id="tar.gz member"),
        pytest.param(lambda: pdf_with(bytes(9 * MIB // 4) + MARKED), id="PDF attachment"),
        # formats that only clamd opens
        pytest.param(lambda: cpio(gzipped(9, MARKED)), id="cpio"),
        pytest.param(lambda: cpio(zipped({"a": CLEAN}), gzipped(9, MARKED)), id="cpio with a zip"),
        pytest.param(lambda: zipped({"a.cpio": cpio(gzipped(9, MARKED))}), id="cpio in a zip"),
    ],
)
async def test_part_over_a_limit_is_never_clean(scanner: ClamdScanner, seal: Seal, packed: Callable[[], bytes]) -> None:
    assert isinstance(await scanned(scanner, seal(packed())), Incomplete)


@each_row(
    "packed, why",
    [
        (lambda: gzipped(20, CLEAN), "Heuristics.Limits.Exceeded.MaxRecursion"),
        (lambda: seven_zipped(CLEAN, b"\x04\xf7\x11\x02"), "packed in a way that nothing here can open: 7z"),
        (lambda: zipped({"a": bytes(300 * MIB)}), "times its size"),
    ],
)
async def test_content_that_cannot_be_unpacked_is_never_clean(
    scanner: ClamdScanner, seal: Seal, packed: Callable[[], bytes], why: str
) -> None:
    result = await scanner.scan(seal(packed()), tenant_id="ten_1")
    assert isinstance(result, Incomplete)
    assert why in result.why


async def test_concurrent_scans_with_large_parts_get_correct_results(scanner: ClamdScanner, seal: Seal) -> None:
    fill = random.Random(3).randbytes(15_000) * 100

    def wrapped(last: bytes) -> bytes:
        return zipped({f"{number}.pdf": pdf_with(fill[number:] + last) for number in range(6)})

    files = [wrapped(MARKED), wrapped(CLEAN)] * 3
    results = await asyncio.gather(*(scanned(scanner, seal(data)) for data in files))
    assert [type(result) for result in results] == [Infected, Clean] * 3


async def test_parts_that_do_not_fit_into_buffer_are_never_clean(tight_clamd: Clamd, seal: Seal) -> None:
    scanner = scanner_of(tight_clamd, buffer_bytes=MIB)
    result = await scanned(scanner, seal(pdf_with(random.Random(1).randbytes(3 * MIB // 2))))
    assert isinstance(result, Incomplete)
    assert "more parts that clamd does not see than there is room for" in result.why


async def test_scan_is_unavailable_without_a_buffer_that_is_needed(tight_clamd: Clamd, seal: Seal) -> None:
    sandbox = InProcessSandbox()
    scanner = scanner_of(tight_clamd, sandbox, buffer_bytes=-1)  # no system can allocate this
    assert isinstance(await scanned(scanner, seal(zipped({"a": CLEAN}))), Clean)  # it has no hidden parts
    assert [job for job, *_ in sandbox.asked] == ["scan"]
    result = await scanned(scanner, seal(pdf_with(CLEAN)))
    assert isinstance(result, ScannerUnavailable)
    assert result.why.startswith("no room to lay out")


def pending_report() -> "asyncio.Future[UnpackReport | None]":
    return asyncio.get_running_loop().create_future()


@each_row("report, kind, jobs", [(UnpackReport("Own.Threat", "", 1.0), Infected, []), (None, Clean, ["scan"])])
async def test_scan_job_runs_only_when_check_job_has_no_unpack_report(
    tight_clamd: Clamd, seal: Seal, *, report: UnpackReport | None, kind: type, jobs: list[str]
) -> None:
    sandbox, pending = InProcessSandbox(), pending_report()
    scanning = asyncio.create_task(scanned(scanner_of(tight_clamd, sandbox), seal(CLEAN), unpack_report=pending))
    pending.set_result(report)
    assert isinstance(await scanning, kind)
    assert [job for job, *_ in sandbox.asked] == jobs


async def test_scan_waits_for_the_unpack_report_without_threat_until_its_deadline(
    tight_clamd: Clamd, seal: Seal
) -> None:
    result = await scanned(scanner_of(tight_clamd), seal(MARKED), unpack_report=pending_report())
    assert isinstance(result, Infected)
    report, scanner = pending_report(), scanner_of(tight_clamd, scan_seconds=0.5)
    assert isinstance(await scanned(scanner, seal(CLEAN), unpack_report=report), ScannerUnavailable)
    assert not report.done()
    scanner = scanner_of(tight_clamd, largest_bytes=2 * MIB, scan_seconds=8)
    assert isinstance(await scanned(scanner, seal(LARGE), unpack_report=pending_report()), Clean)


async def test_sandbox_scans_large_file_after_its_check(tight_clamd: Clamd, seal: Seal) -> None:
    sandbox, report = InProcessSandbox(), pending_report()
    scanner = scanner_of(tight_clamd, sandbox, largest_bytes=2 * MIB)
    scanning = asyncio.create_task(scanned(scanner, seal(LARGE), unpack_report=report))
    await scanned(scanner, seal(LARGE + b" too"))  # takes long enough for the first scan to wait
    (job,) = sandbox.asked
    report.set_result(None)
    assert isinstance(await scanning, Clean)
    assert sandbox.asked == [job, job]


async def test_threat_found_by_builtin_rule_names_builtin_engine(scanner: ClamdScanner, seal: Seal) -> None:
    picture = b'<svg xmlns="http://www.w3.org/2000/svg"><script>1</script></svg>'
    result = await scanner.scan(seal(picture), tenant_id="ten_1")
    assert isinstance(result, Infected)
    assert (result.threat, result.engine) == ("Svg.Script", "builtin")


@each_row(
    "job_result, kind",
    [
        (NoWorker("no child"), ScannerUnavailable),
        (Crashed("killed", 1.0), Incomplete),
        (OverLimit("memory", 1.0), Incomplete),
    ],
)
async def test_scan_whose_unpack_job_fails_is_never_clean_and_has_the_threat_that_clamd_finds(
    tight_clamd: Clamd, seal: Seal, job_result: RunResult, kind: type
) -> None:
    scanner = scanner_of(tight_clamd, InProcessSandbox(job_result))
    assert isinstance(await scanned(scanner, seal(CLEAN)), kind)
    assert isinstance(await scanned(scanner, seal(MARKED)), Infected)


async def test_encrypted_document_follows_the_policy(tight_clamd: Clamd, seal: Seal) -> None:
    import pikepdf  # noqa: PLC0415  (only for its names)

    encrypted = seal(pdf_with(CLEAN, encryption=pikepdf.Encryption(owner="x", user="y", R=6)))
    allowing = await scanned(scanner_of(tight_clamd), encrypted)
    assert isinstance(allowing, Clean)
    assert "encrypted" in allowing.flags
    assert isinstance(await scanned(scanner_of(tight_clamd, encrypted="incomplete"), encrypted), Incomplete)


@each_row(
    "data, kind",
    [
        pytest.param(lambda: CLEAN, Clean, id="plain"),
        pytest.param(lambda: zipped({"a": CLEAN}), Clean, id="zip"),
        pytest.param(lambda: gzipped(SILENT_DEPTH, CLEAN), Clean, id="as deep as it scans"),
        pytest.param(lambda: pdf_with(CLEAN), Clean, id="PDF attachment"),
        pytest.param(lambda: many_megabytes(7, CLEAN), Clean, id="nearly as much as it scans"),
        pytest.param(lambda: pdf_of_pictures(2), Clean, id="pictures of a PDF"),
        pytest.param(lambda: CLEAN + bytes(9 * MIB // 4) + MARKED, Incomplete, id="file itself"),
        pytest.param(lambda: zipped({"a": bytes(9 * MIB // 4) + MARKED}), Incomplete, id="zip member"),
        pytest.param(lambda: gzipped(SILENT_DEPTH + 1, CLEAN), Incomplete, id="deeper than it scans"),
        pytest.param(lambda: many_members(4001, CLEAN), Incomplete, id="more members than were tried"),
        pytest.param(lambda: many_megabytes(9, CLEAN), Incomplete, id="more in all than it scans"),
        pytest.param(lambda: cpio(CLEAN), Incomplete, id="packed in a way that only clamd opens"),
        pytest.param(lambda: zipped({"a": cpio(CLEAN)}), Incomplete, id="packed so within an archive"),
        pytest.param(lambda: pdf_of_pictures(9), Incomplete, id="too large pictures of a PDF"),
    ],
)
async def test_clamd_without_limit_alerts_is_believed_only_within_its_limits(
    scanner_without_alerts: ClamdScanner, seal: Seal, data: Callable[[], bytes], kind: type
) -> None:
    assert isinstance(await scanned(scanner_without_alerts, seal(data())), kind)


async def test_part_is_found_that_clamd_skips_silently_behind_what_it_counts_twice(
    scanner_without_alerts: ClamdScanner, clamd_without_alerts: Clamd, seal: Seal
) -> None:
    # clamd counts the text of a message once more, and then has nothing left for the last member.
    mail = b"From: a@example.com\nSubject: x\n\n" + b"words words\n" * (7 * MIB // 48)
    mails = {f"{number}.eml": mail + b"%d" % number for number in range(3)}
    archive = seal(zipped({**mails, "b": bytes(7 * MIB // 4) + MARKED}))
    alone = ClamdClient(ClamdAddress.parse(clamd_without_alerts.address), ClamdTimeouts(2, 10))
    assert (await alone.scan_once(archive, by_descriptor=True)).verdict is ClamdVerdict.CLEAN
    assert isinstance(await scanner_without_alerts.scan(archive, tenant_id="ten_1"), Infected)


def pdf_of_pictures(count: int) -> bytes:
    """Return a PDF with pictures of 1 MiB each."""
    import pikepdf  # noqa: PLC0415  (only for its writer)

    out = io.BytesIO()
    with pikepdf.new() as document:
        for number in range(count):
            picture = pikepdf.Stream(document, random.Random(number).randbytes(1000) * (MIB // 1000))
            picture.Type, picture.Subtype = pikepdf.Name.XObject, pikepdf.Name.Image
            picture.Width, picture.Height, picture.BitsPerComponent = 1024, 1024, 8
            picture.ColorSpace = pikepdf.Name.DeviceGray
            document.add_blank_page().Resources = pikepdf.Dictionary(XObject=pikepdf.Dictionary(I=picture))
        document.save(out, compress_streams=True)
    return out.getvalue()


@each_row("name", [*REQUIRED_CONTAINERS, *MISSED_BY_CLAMD])
async def test_clamd_without_alerts_finds_viruses(scanner_without_alerts: ClamdScanner, seal: Seal, name: str) -> None:
    wrap = REQUIRED_CONTAINERS[name][1] if name in REQUIRED_CONTAINERS else MISSED_BY_CLAMD[name]
    assert isinstance(await scanner_without_alerts.scan(seal(wrap(EICAR)), tenant_id="ten_1"), Infected)


async def test_hidden_parts_are_scanned_in_real_sandbox(tight_clamd: Clamd, seal: Seal) -> None:
    async with running_sandbox() as sandbox:
        assert isinstance(sandbox, ZygoteSandbox)
        scanner = ClamdScanner([tight_clamd.address, tight_clamd.tcp_address], sandbox, largest_bytes=4 * MIB)
        for name, wrap in MISSED_BY_CLAMD.items():
            result = await scanned(scanner, seal(wrap(MARKED)))
            assert isinstance(result, Infected), name
            assert result.threat == "Only-Clamd-Knows.UNOFFICIAL"
            assert isinstance(await scanned(scanner, seal(wrap(CLEAN))), Clean), name
        for pack in (partial(gzipped, 9), partial(many_members, 50), partial(many_megabytes, 17)):
            assert isinstance(await scanned(scanner, seal(pack(MARKED))), Infected)
            assert isinstance(await scanned(scanner, seal(pack(CLEAN))), Clean)
        await scanner.aclose()
