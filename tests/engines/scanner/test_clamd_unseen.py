"""What a real clamd does not see by itself, or not past its limits: found all the same, or never called clean."""

import asyncio
import gzip
import random
from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from sluice.engines.sandbox import Away, Died, Overran, RunResult
from sluice.engines.sandbox.zygote import ZygoteSandbox
from sluice.engines.scanner import Clean, Glance, Incomplete, Infected, Unavailable
from sluice.engines.scanner.clamd import ClamdScanner
from sluice.engines.scanner.own_look import OwnLook
from tests.engines.scanner.conftest import Seal, running_sandbox
from tests.engines.scanner.twin import InProcessSandbox
from tests.servers.clamd import Clamd, running_clamd
from tests.threats.packing import EICAR, tarred, zipped
from tests.threats.wrappings import TWELVE, UNSEEN, pdf_with, seven_zipped

MIB = 2**20
MARK = random.Random(7).randbytes(40)
"""What only clamd knows for a threat, from a signature of its own: no rule of ours finds it."""
CLEAN = random.Random(8).randbytes(3000)
SIGNATURE = f"Only-Clamd-Knows:0:*:{MARK.hex()}\n"


@pytest.fixture(scope="module")
def knowing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clamd]:
    """A clamd with a signature of its own and tight limits on what is packed."""
    limits = {"MaxRecursion": "5", "MaxFiles": "20", "MaxFileSize": "8M", "MaxScanSize": "30M", "StreamMaxLength": "8M"}
    with running_clamd(tmp_path_factory.mktemp("knowing"), limits, signatures={"own.ndb": SIGNATURE}) as server:
        yield server


@pytest.fixture(scope="module")
def silent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clamd]:
    """The same, but it says OK of what it skips."""
    limits = {"MaxFileSize": "8M", "AlertExceedsMax": "no"}
    with running_clamd(tmp_path_factory.mktemp("silent"), limits, signatures={"own.ndb": SIGNATURE}) as server:
        yield server


@pytest.fixture
async def scanner(knowing: Clamd) -> AsyncIterator[ClamdScanner]:
    opened = ClamdScanner([knowing.address], InProcessSandbox(), largest_bytes=16 * MIB)
    await opened.start()
    yield opened
    await opened.aclose()


@pytest.fixture
async def silencing(silent: Clamd) -> AsyncIterator[ClamdScanner]:
    opened = ClamdScanner([silent.address], InProcessSandbox(), largest_bytes=16 * MIB)
    await opened.start()
    yield opened
    await opened.aclose()


def deep(levels: int, core: bytes) -> bytes:
    data = core
    for _ in range(levels):
        data = gzip.compress(data)
    return data


def many(count: int, last: bytes) -> bytes:
    return zipped({**{f"{number}.txt": b"%d" % number * 20 for number in range(count)}, "last": last})


def cpio(*files: bytes) -> bytes:
    """Answer an archive in the "newc" form of cpio(5), which is not opened here."""

    def entry(name: bytes, content: bytes) -> bytes:
        numbers = (1, 0o100644, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0)
        head = b"070701" + b"".join(b"%08X" % number for number in numbers) + name + b"\0"
        return b"".join(part + bytes(-len(part) % 4) for part in (head, content))

    return b"".join(entry(b"%d" % number, data) for number, data in enumerate(files)) + entry(b"TRAILER!!!", b"")


def large(members: int, last: bytes) -> bytes:
    fill = random.Random(1)
    return zipped({**{f"{number}.bin": fill.randbytes(1000) + bytes(4 * MIB) for number in range(members)}, "last": last})


@pytest.mark.parametrize("name", UNSEEN)
async def test_clamd_is_shown_what_it_does_not_open(scanner: ClamdScanner, seal: Seal, name: str) -> None:
    result = await scanner.scan(seal(UNSEEN[name](MARK)), tenant_id="ten_1")
    assert isinstance(result, Infected)
    assert (result.threat, result.engine) == ("Only-Clamd-Knows.UNOFFICIAL", "clamd 1.4.6")


@pytest.mark.parametrize("name", UNSEEN)
async def test_harmless_parts_that_it_does_not_open_are_clean(scanner: ClamdScanner, seal: Seal, name: str) -> None:
    assert isinstance(await scanner.scan(seal(UNSEEN[name](CLEAN)), tenant_id="ten_1"), Clean)


PAST_LIMITS = [
    pytest.param(deep(9, MARK), deep(9, CLEAN), id="past MaxRecursion"),
    pytest.param(
        zipped({"a.gz": deep(9, zipped({"b": MARK}))}), zipped({"a.gz": deep(9, zipped({"b": CLEAN}))}), id="zip past MaxRecursion"
    ),
    pytest.param(many(50, MARK), many(50, CLEAN), id="past MaxFiles"),
    pytest.param(large(9, MARK), large(9, CLEAN), id="past MaxScanSize"),
]


@pytest.mark.parametrize(("infected", "clean"), PAST_LIMITS)
async def test_what_is_packed_past_its_limits_is_scanned_part_by_part(
    scanner: ClamdScanner, seal: Seal, infected: bytes, clean: bytes
) -> None:
    assert isinstance(await scanner.scan(seal(infected), tenant_id="ten_1"), Infected)
    assert isinstance(await scanner.scan(seal(clean), tenant_id="ten_1"), Clean)


@pytest.mark.parametrize(
    "packed",  # when the test runs, not when every worker collects it
    [
        pytest.param(lambda: CLEAN + bytes(9 * MIB), id="the file itself"),
        pytest.param(lambda: zipped({"a": bytes(9 * MIB) + MARK}), id="a member of a zip, which clamd calls OK"),
        pytest.param(
            lambda: zipped({"a.zip": zipped({"a": bytes(9 * MIB) + MARK})}), id="a member of a zip in a zip, which clamd calls OK"
        ),
        pytest.param(lambda: gzip.compress(bytes(9 * MIB) + MARK), id="behind gzip"),
        pytest.param(lambda: tarred({"a": bytes(9 * MIB) + MARK}, "w:gz"), id="a member of a tar.gz"),
        pytest.param(lambda: pdf_with(bytes(9 * MIB) + MARK), id="an attachment of a PDF"),
    ],
)
async def test_what_is_larger_than_it_scans_is_never_clean(scanner: ClamdScanner, seal: Seal, packed: Callable[[], bytes]) -> None:
    assert isinstance(await scanner.scan(seal(packed()), tenant_id="ten_1"), Incomplete)


@pytest.mark.parametrize(
    ("packed", "why"),
    [
        pytest.param(lambda: deep(20, CLEAN), "Heuristics.Limits.Exceeded.MaxRecursion", id="nested too deep for us as well"),
        pytest.param(
            lambda: seven_zipped(CLEAN, b"\x04\xf7\x11\x02"),
            "packed in a way that nothing here can open: 7z",
            id="a coding that nobody knows",
        ),
        pytest.param(lambda: zipped({"a": bytes(300 * MIB)}), "times its size", id="a bomb"),
    ],
)
async def test_what_nobody_could_look_at_is_never_clean(
    scanner: ClamdScanner, seal: Seal, packed: Callable[[], bytes], why: str
) -> None:
    result = await scanner.scan(seal(packed()), tenant_id="ten_1")
    assert isinstance(result, Incomplete)
    assert why in result.why


async def test_a_limit_met_in_what_only_clamd_opens_is_never_rescued(scanner: ClamdScanner, seal: Seal) -> None:
    for archive in (cpio(deep(9, MARK)), cpio(zipped({"a": CLEAN}), deep(9, MARK)), zipped({"a.cpio": cpio(deep(9, MARK))})):
        assert isinstance(await scanner.scan(seal(archive), tenant_id="ten_1"), Incomplete)


async def test_parts_that_need_much_memory_are_looked_at_a_few_scans_at_a_time(scanner: ClamdScanner, seal: Seal) -> None:
    fill = random.Random(3).randbytes(30_000) * 100
    wrapped = {
        marked: zipped({f"{number}.pdf": pdf_with(fill[number:] + marked) for number in range(4)}) for marked in (MARK, CLEAN)
    }
    results = await asyncio.gather(*(scanner.scan(seal(data), tenant_id="ten_1") for data in [*wrapped.values()] * 3))
    assert [type(result) for result in results] == [Infected, Clean] * 3


async def test_parts_that_do_not_fit_into_memory_are_never_clean(knowing: Clamd, seal: Seal) -> None:
    scanner = ClamdScanner([knowing.address], InProcessSandbox(), largest_bytes=16 * MIB, tray_bytes=MIB)
    result = await scanner.scan(seal(pdf_with(random.Random(1).randbytes(2 * MIB))), tenant_id="ten_1")
    assert isinstance(result, Incomplete)
    assert "more parts that clamd does not see than there is room for" in result.why


async def test_without_memory_to_lay_parts_out_nothing_is_clean(knowing: Clamd, seal: Seal) -> None:
    scanner = ClamdScanner([knowing.address], InProcessSandbox(), largest_bytes=MIB, tray_bytes=-1)  # which no system gives
    result = await scanner.scan(seal(pdf_with(CLEAN)), tenant_id="ten_1")
    assert isinstance(result, Unavailable)
    assert result.why.startswith("no room to lay out")


async def test_what_hides_nothing_is_looked_through_once_and_without_memory_to_lay_parts_out(knowing: Clamd, seal: Seal) -> None:
    sandbox = InProcessSandbox()
    scanner = ClamdScanner([knowing.address], sandbox, largest_bytes=MIB, tray_bytes=-1)
    assert isinstance(await scanner.scan(seal(zipped({"a": CLEAN})), tenant_id="ten_1"), Clean)
    assert [job for job, *_ in sandbox.asked] == ["scan"]


async def test_a_look_that_a_child_took_beside_the_check_is_not_taken_again(knowing: Clamd, seal: Seal) -> None:
    sandbox, glance = InProcessSandbox(), Glance()
    scanner = ClamdScanner([knowing.address], sandbox, largest_bytes=MIB)
    scanning = asyncio.create_task(scanner.scan(seal(CLEAN), tenant_id="ten_1", glance=glance))
    glance.settle(OwnLook("Own.Threat", "", 1.0))
    assert isinstance(await scanning, Infected)
    assert not sandbox.asked


async def test_a_look_that_is_left_to_the_scanner_waits_until_the_check_is_done(knowing: Clamd, seal: Seal) -> None:
    sandbox, glance = InProcessSandbox(), Glance()
    scanner = ClamdScanner([knowing.address], sandbox, largest_bytes=MIB)
    glance.leave()
    scanning = asyncio.create_task(scanner.scan(seal(CLEAN), tenant_id="ten_1", glance=glance))
    await scanner.scan(seal(CLEAN + b" too"), tenant_id="ten_1")  # so long, at least
    (job,) = sandbox.asked
    glance.settle(None)
    assert isinstance(await scanning, Clean)
    assert sandbox.asked == [job, job]


async def test_a_check_that_takes_long_is_not_waited_for_until_the_time_of_the_scan_is_over(knowing: Clamd, seal: Seal) -> None:
    glance = Glance()
    glance.leave()
    scanner = ClamdScanner([knowing.address], InProcessSandbox(), largest_bytes=MIB, scan_seconds=8)
    assert isinstance(await scanner.scan(seal(CLEAN), tenant_id="ten_1", glance=glance), Clean)


async def test_a_rule_of_ours_is_named_as_such(scanner: ClamdScanner, seal: Seal) -> None:
    picture = b'<svg xmlns="http://www.w3.org/2000/svg"><script>1</script></svg>'
    result = await scanner.scan(seal(picture), tenant_id="ten_1")
    assert isinstance(result, Infected)
    assert (result.threat, result.engine) == ("Svg.Script", "builtin")


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (Away("no child"), Unavailable),
        (Died("killed", 1.0), Incomplete),
        (Overran("memory", 1.0), Incomplete),
    ],
)
async def test_without_our_own_look_nothing_is_clean(knowing: Clamd, seal: Seal, answer: RunResult, kind: type) -> None:
    result = await ClamdScanner([knowing.address], InProcessSandbox(answer), largest_bytes=MIB).scan(seal(CLEAN), tenant_id="ten_1")
    assert isinstance(result, kind)


async def test_a_threat_is_one_although_our_own_look_failed(knowing: Clamd, seal: Seal) -> None:
    scanner = ClamdScanner([knowing.address], InProcessSandbox(Away("no child")), largest_bytes=MIB)
    assert isinstance(await scanner.scan(seal(MARK), tenant_id="ten_1"), Infected)


async def test_a_document_behind_a_password_follows_the_policy(knowing: Clamd, seal: Seal) -> None:
    import pikepdf  # noqa: PLC0415  (for its names alone)

    locked = seal(pdf_with(CLEAN, encryption=pikepdf.Encryption(owner="x", user="y", R=6)))
    allowing = await ClamdScanner([knowing.address], InProcessSandbox(), largest_bytes=MIB).scan(locked, tenant_id="ten_1")
    assert isinstance(allowing, Clean)
    assert "encrypted" in allowing.flags
    strict = ClamdScanner([knowing.address], InProcessSandbox(), largest_bytes=MIB, encrypted="incomplete")
    assert isinstance(await strict.scan(locked, tenant_id="ten_1"), Incomplete)


@pytest.mark.parametrize("data", [CLEAN, zipped({"a": CLEAN}), CLEAN + bytes(9 * MIB) + MARK, zipped({"a": bytes(9 * MIB) + MARK})])
async def test_a_clamd_that_is_silent_about_its_limits_is_never_believed(silencing: ClamdScanner, seal: Seal, data: bytes) -> None:
    result = await silencing.scan(seal(data), tenant_id="ten_1")
    assert isinstance(result, Incomplete)
    assert "set AlertExceedsMax yes" in result.why


@pytest.mark.parametrize("name", [*TWELVE, *UNSEEN])
async def test_a_silent_clamd_finds_the_test_virus_in_every_wrapping(silencing: ClamdScanner, seal: Seal, name: str) -> None:
    wrap = TWELVE[name][1] if name in TWELVE else UNSEEN[name]
    assert isinstance(await silencing.scan(seal(wrap(EICAR)), tenant_id="ten_1"), Infected)


async def test_all_of_it_works_in_the_real_sandbox(knowing: Clamd, seal: Seal) -> None:
    async with running_sandbox() as sandbox:
        assert isinstance(sandbox, ZygoteSandbox)
        scanner = ClamdScanner([knowing.address, knowing.tcp_address], sandbox, largest_bytes=16 * MIB)
        for name, wrap in UNSEEN.items():
            result = await scanner.scan(seal(wrap(MARK)), tenant_id="ten_1")
            assert isinstance(result, Infected), name
            assert result.threat == "Only-Clamd-Knows.UNOFFICIAL"
        for data in (deep(9, MARK), many(50, MARK), large(9, MARK)):
            assert isinstance(await scanner.scan(seal(data), tenant_id="ten_1"), Infected)
        for data in (deep(9, CLEAN), many(50, CLEAN), large(9, CLEAN), *(wrap(CLEAN) for wrap in UNSEEN.values())):
            assert isinstance(await scanner.scan(seal(data), tenant_id="ten_1"), Clean)
        await scanner.aclose()
