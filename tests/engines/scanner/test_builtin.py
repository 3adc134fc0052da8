"""The engine `builtin`: what the sandbox and its child say, and what is made of it."""

import bz2
import gzip
import lzma
import sys
import zipfile

import pytest

from sluice.engines.sandbox import Away, Died, Overran, Ran, RunResult
from sluice.engines.sandbox.zygote import ZygoteSandbox
from sluice.engines.scanner import Clean, Glance, Incomplete, Infected, Unavailable
from sluice.engines.scanner.builtin import BuiltinScanner
from sluice.kit.health import EngineState
from sluice.threats import RULES_VERSION
from tests.engines.scanner.conftest import Seal
from tests.engines.scanner.twin import InProcessSandbox
from tests.servers import run
from tests.threats.packing import EICAR, tarred, zipped
from tests.threats.test_known_threats import mail_with

GOOD: dict[str, object] = {
    "threat": None,
    "complete": True,
    "why": "",
    "signatures": RULES_VERSION,
    "encrypted": False,
    "opened": False,
    "crowded": False,
    "hides": False,
    "flags": [],
    "unopened": [],
    "foreign": [],
    "largest": 0,
    "unpacked": 0,
    "members": 0,
    "depth": 0,
}


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        (Ran(GOOD, 2.0), Clean("builtin", RULES_VERSION, 2.0)),
        (Ran({"complete": True, "signatures": RULES_VERSION}, 2.0), Clean("builtin", RULES_VERSION, 2.0)),
        (Ran(GOOD | {"threat": "Bad", "complete": False}, 2.0), Infected("Bad", "builtin", RULES_VERSION, 2.0)),
        (Ran(GOOD | {"complete": False, "why": "too deep"}, 2.0), Incomplete("too deep", "builtin", RULES_VERSION, 2.0)),
        (Ran(GOOD | {"encrypted": True}, 2.0), Clean("builtin", RULES_VERSION, 2.0, flags=("encrypted",))),
        (
            Ran(GOOD | {"flags": ["macro"], "foreign": ["cab"]}, 2.0),
            Clean("builtin", RULES_VERSION, 2.0, flags=("macro", "unopened.cab")),
        ),
        (Died("killed", 3.0), Incomplete("the scan ended early: killed", "builtin", RULES_VERSION, 3.0)),
        (Overran("cpu", 4.0), Incomplete("the scan was stopped at its cpu limit", "builtin", RULES_VERSION, 4.0)),
        (Away("no child"), Unavailable("no child", "builtin")),
    ],
)
async def test_what_the_sandbox_says_becomes_a_result(answers: RunResult, expected: object, seal: Seal) -> None:
    assert await BuiltinScanner(InProcessSandbox(answers)).scan(seal(b"x"), tenant_id="ten_1") == expected


@pytest.mark.parametrize(
    "lie",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"signatures": RULES_VERSION}, id="neither complete nor why not"),
        pytest.param(GOOD | {"more": 1}, id="another field"),
        pytest.param({**GOOD, "signatures": "0"}, id="other rules"),
        pytest.param(GOOD | {"complete": 1}, id="a number for a flag"),
        pytest.param(GOOD | {"encrypted": None}, id="null for a flag"),
        pytest.param(GOOD | {"complete": False}, id="incomplete for no reason"),
        pytest.param(GOOD | {"why": "a reason"}, id="complete and a reason"),
        pytest.param(GOOD | {"threat": "Bad"}, id="complete and a threat"),
        pytest.param(GOOD | {"threat": 1, "complete": False}, id="a number for a name"),
        pytest.param(GOOD | {"threat": "a\nb", "complete": False}, id="a name over two lines"),
        pytest.param(GOOD | {"threat": "a" * 501, "complete": False}, id="a name without end"),
        pytest.param(GOOD | {"why": ["x"], "complete": False}, id="a list for a reason"),
        pytest.param(GOOD | {"threat": "", "complete": False}, id="no name for a threat"),
        pytest.param(GOOD | {"flags": "macro"}, id="a text for names"),
        pytest.param(GOOD | {"flags": ["a"] * 101}, id="names without end"),
        pytest.param(GOOD | {"foreign": [1]}, id="a number for a packing"),
        pytest.param(GOOD | {"largest": -1}, id="a size below zero"),
        pytest.param(GOOD | {"members": True}, id="a flag for a number"),
        pytest.param(GOOD | {"laid": []}, id="places without a tray"),
    ],
)
async def test_a_lying_child_is_never_believed(lie: dict[str, object], seal: Seal) -> None:
    result = await BuiltinScanner(InProcessSandbox(Ran(lie, 1.0))).scan(seal(b"x"), tenant_id="ten_1")
    assert isinstance(result, Incomplete)


async def test_members_behind_a_password_are_incomplete_where_the_policy_says_so(seal: Seal) -> None:
    scanner = BuiltinScanner(InProcessSandbox(Ran(GOOD | {"encrypted": True}, 1.0)), encrypted="incomplete")
    result = await scanner.scan(seal(b"x"), tenant_id="ten_1")
    assert result == Incomplete("a part behind a password", "builtin", RULES_VERSION, 1.0)


async def test_the_sandbox_learns_the_tenant_and_no_name(seal: Seal) -> None:
    sandbox = InProcessSandbox()
    await BuiltinScanner(sandbox).scan(seal(b"x"), tenant_id="ten_7")
    assert sandbox.asked == [("scan", "", "ten_7")]


async def test_a_look_that_is_left_to_it_is_taken_at_once(seal: Seal) -> None:
    glance = Glance()
    glance.leave()
    assert isinstance(await BuiltinScanner(InProcessSandbox()).scan(seal(b"x"), tenant_id="ten_7", glance=glance), Clean)


async def test_it_is_as_well_as_its_sandbox(seal: Seal) -> None:
    sandbox = InProcessSandbox()
    sandbox.state = EngineState.DOWN
    health = await BuiltinScanner(sandbox).health()
    assert (health.kind, health.name, health.state) == ("scanner", "builtin", EngineState.DOWN)
    assert "not an antivirus" in health.detail


async def test_a_bomb_in_the_real_sandbox_is_incomplete(sandbox: ZygoteSandbox, seal: Seal) -> None:
    result = await BuiltinScanner(sandbox).scan(seal(zipped({"zeros": bytes(100 * 2**20)})), tenant_id="ten_1")
    assert isinstance(result, Incomplete)
    assert "times its size" in result.why


async def test_every_kind_of_packing_opens_in_the_real_sandbox(sandbox: ZygoteSandbox, seal: Seal) -> None:
    scanner = BuiltinScanner(sandbox)
    methods = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
    packed = [zipped({"ü.com": gzip.compress(EICAR)}, method) for method in methods]
    packed += [gzip.compress(EICAR), bz2.compress(EICAR), lzma.compress(EICAR), tarred({"a": EICAR}, "w:xz")]
    packed += [mail_with(EICAR), mail_with(EICAR, encoding="quoted-printable")]
    for data in packed:
        assert isinstance(await scanner.scan(seal(data), tenant_id="ten_1"), Infected)


def test_the_engine_loads_no_unpacker_into_the_server() -> None:
    program = (
        "import sys, sluice.engines.scanner.builtin, sluice.engines.scanner.clamd\n"
        "print([name for name in sys.modules if name.startswith('sluice.threats.') or name in {'bz2', 'lzma', 'zipfile', 'tarfile'}])"
    )
    assert run([sys.executable, "-c", program]).strip() == "['sluice.threats.eicar']"
