"""The `builtin` scanner: how results of the sandbox become scan results."""

import asyncio
import bz2
import gzip
import lzma
import sys
import zipfile

import pytest

from sluice.kit.health import EngineState
from sluice.scanner import CHECK_AND_SCAN_BYTES, Clean, Incomplete, Infected, ScannerUnavailable, UnpackReport
from sluice.scanner.builtin import BuiltinScanner
from sluice_inspect.sandbox import Completed, Crashed, NoWorker, OverLimit, RunResult
from sluice_inspect.sandbox.engine import ZygoteSandbox
from sluice_inspect.threats import RULES_VERSION
from tests.inspection.threats.containers import mail_with
from tests.inspection.threats.packed_files import EICAR, tarred, zipped
from tests.rows import each_row
from tests.scanner.conftest import Seal
from tests.scanner.in_process_sandbox import InProcessSandbox
from tests.servers import run

GOOD: dict[str, object] = {
    **dict.fromkeys(("encrypted", "opened", "crowded", "hides"), False),
    **dict.fromkeys(("largest", "unpacked", "members", "depth"), 0),
    **{name: [] for name in ("flags", "unopened", "foreign")},
    "threat": None,
    "complete": True,
    "why": "",
    "signatures": RULES_VERSION,
}


def incomplete(why: str, ms: float) -> Incomplete:
    return Incomplete(why, "builtin", RULES_VERSION, ms)


@each_row(
    "result, expected",
    [
        (Completed(GOOD, 2.0), Clean("builtin", RULES_VERSION, 2.0)),
        (Completed({"complete": True, "signatures": RULES_VERSION}, 2.0), Clean("builtin", RULES_VERSION, 2.0)),
        (Completed(GOOD | {"threat": "Bad", "complete": False}, 2.0), Infected("Bad", "builtin", RULES_VERSION, 2.0)),
        (Completed(GOOD | {"complete": False, "why": "too deep"}, 2.0), incomplete("too deep", 2.0)),
        (Completed(GOOD | {"encrypted": True}, 2.0), Clean("builtin", RULES_VERSION, 2.0, flags=("encrypted",))),
        (
            Completed(GOOD | {"flags": ["macro"], "foreign": ["cab"]}, 2.0),
            Clean("builtin", RULES_VERSION, 2.0, flags=("macro", "unopened.cab")),
        ),
        (Crashed("killed", 3.0), incomplete("the scan ended early: killed", 3.0)),
        (OverLimit("cpu", 4.0), incomplete("the scan was stopped at its cpu limit", 4.0)),
        (NoWorker("no child"), ScannerUnavailable("no child", "builtin")),
    ],
)
async def test_sandbox_result_becomes_scan_result(result: RunResult, expected: object, seal: Seal) -> None:
    assert await BuiltinScanner(InProcessSandbox(result)).scan(seal(b"x"), tenant_id="ten_1") == expected


@each_row(
    "report",
    [
        pytest.param({}, id="empty"),
        pytest.param({"signatures": RULES_VERSION}, id="only signatures"),
        pytest.param(GOOD | {"more": 1}, id="unknown field"),
        pytest.param({**GOOD, "signatures": "0"}, id="other rules version"),
        pytest.param(GOOD | {"complete": 1}, id="number instead of flag"),
        pytest.param(GOOD | {"encrypted": None}, id="null instead of flag"),
        pytest.param(GOOD | {"complete": False}, id="incomplete without reason"),
        pytest.param(GOOD | {"why": "a reason"}, id="complete with reason"),
        pytest.param(GOOD | {"threat": "Bad"}, id="complete with threat"),
        pytest.param(GOOD | {"threat": 1, "complete": False}, id="number instead of threat name"),
        pytest.param(GOOD | {"threat": "a\nb", "complete": False}, id="threat name with newline"),
        pytest.param(GOOD | {"threat": "a" * 501, "complete": False}, id="threat name too long"),
        pytest.param(GOOD | {"why": ["x"], "complete": False}, id="list instead of reason"),
        pytest.param(GOOD | {"threat": "", "complete": False}, id="empty threat name"),
        pytest.param(GOOD | {"flags": "macro"}, id="text instead of list"),
        pytest.param(GOOD | {"flags": ["a"] * 101}, id="too many flags"),
        pytest.param(GOOD | {"foreign": [1]}, id="number instead of format name"),
        pytest.param(GOOD | {"largest": -1}, id="negative size"),
        pytest.param(GOOD | {"members": True}, id="flag instead of number"),
        pytest.param(GOOD | {"laid": []}, id="parts without shared buffer"),
    ],
)
async def test_invalid_unpack_report_is_incomplete(report: dict[str, object], seal: Seal) -> None:
    result = await BuiltinScanner(InProcessSandbox(Completed(report, 1.0))).scan(seal(b"x"), tenant_id="ten_1")
    assert isinstance(result, Incomplete)


async def test_encrypted_member_is_incomplete_under_strict_policy(seal: Seal) -> None:
    scanner = BuiltinScanner(InProcessSandbox(Completed(GOOD | {"encrypted": True}, 1.0)), encrypted="incomplete")
    result = await scanner.scan(seal(b"x"), tenant_id="ten_1")
    assert result == incomplete("a part behind a password", 1.0)


async def test_unpack_report_of_check_job_replaces_scan_job_of_a_small_file(seal: Seal) -> None:
    sandbox = InProcessSandbox()
    report: asyncio.Future[UnpackReport | None] = asyncio.get_running_loop().create_future()
    scanner = BuiltinScanner(sandbox)
    scanning = asyncio.create_task(scanner.scan(seal(b"x"), tenant_id="ten_7", unpack_report=report))
    large = seal(b"x" * (CHECK_AND_SCAN_BYTES + 1))
    assert isinstance(await scanner.scan(large, tenant_id="ten_7", unpack_report=report), Clean)
    assert sandbox.asked == [("scan", "", "ten_7")]
    report.set_result(UnpackReport("Own.Threat", "", 1.0))
    assert await scanning == Infected("Own.Threat", "builtin", RULES_VERSION, 1.0)
    assert len(sandbox.asked) == 1


async def test_builtin_health_follows_sandbox_health(seal: Seal) -> None:
    sandbox = InProcessSandbox()
    sandbox.state = "down"
    health = await BuiltinScanner(sandbox).health()
    assert (health.kind, health.name, health.state) == ("scanner", "builtin", EngineState.DOWN)
    assert "not an antivirus" in health.detail


async def test_archive_bomb_in_real_sandbox_is_incomplete(sandbox: ZygoteSandbox, seal: Seal) -> None:
    result = await BuiltinScanner(sandbox).scan(seal(zipped({"zeros": bytes(100 * 2**20)})), tenant_id="ten_1")
    assert isinstance(result, Incomplete)
    assert "times its size" in result.why


async def test_every_archive_format_opens_in_real_sandbox(sandbox: ZygoteSandbox, seal: Seal) -> None:
    scanner = BuiltinScanner(sandbox)
    methods = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
    packed = [zipped({"ü.com": gzip.compress(EICAR)}, method) for method in methods]
    packed += [gzip.compress(EICAR), bz2.compress(EICAR), lzma.compress(EICAR), tarred({"a": EICAR}, "w:xz")]
    packed += [mail_with(EICAR), mail_with(EICAR, encoding="quoted-printable")]
    for data in packed:
        assert isinstance(await scanner.scan(seal(data), tenant_id="ten_1"), Infected)


def test_scanner_modules_load_no_unpacker() -> None:
    program = (
        "import sys, sluice.scanner.builtin, sluice.scanner.clamd.scanner\n"
        "unpackers = {'bz2', 'lzma', 'zipfile', 'tarfile'}\n"
        "print([name for name in sys.modules if name.startswith('sluice_inspect.threats.') or name in unpackers])"
    )
    assert run([sys.executable, "-c", program]).strip() == "[]"
