"""The contract of scanners: `builtin` in a real and an in-process sandbox, `clamd` over a socket and over TCP."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
import pytest_asyncio

from sluice.kit.health import EngineState
from sluice.scanner import Clean, Infected, Scanner
from sluice.scanner.builtin import BuiltinScanner
from sluice.scanner.clamd.scanner import ClamdScanner
from sluice_inspect.sandbox.engine import ZygoteSandbox
from tests.inspection.threats.containers import mail_with
from tests.inspection.threats.packed_files import EICAR, tarred, zipped
from tests.rows import each_row
from tests.scanner.conftest import Seal, running_sandbox
from tests.scanner.in_process_sandbox import InProcessSandbox

DOCX = {"[Content_Types].xml": b"<Types/>", "word/document.xml": b"<w/>"}
ENGINES = ("builtin", "builtin, in process", "clamd, unix", "clamd, tcp")


# one event loop for all tests, so that they share one sandbox, which takes a second to start
pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox() -> AsyncIterator[ZygoteSandbox]:
    async with running_sandbox() as started:
        yield started


@pytest_asyncio.fixture(params=ENGINES, loop_scope="module")
async def scanner(request: pytest.FixtureRequest, sandbox: ZygoteSandbox) -> AsyncIterator[Scanner]:
    async with AsyncExitStack() as ends:
        opened: Scanner
        if request.param == "builtin":
            opened = BuiltinScanner(sandbox)
        elif request.param == "builtin, in process":
            opened = BuiltinScanner(InProcessSandbox())
        else:
            server = request.getfixturevalue("clamd")
            address = server.address if request.param == "clamd, unix" else server.tcp_address
            opened = ClamdScanner([address], InProcessSandbox())
        ends.push_async_callback(opened.aclose)
        yield opened


async def test_clean_bytes_are_clean(scanner: Scanner, seal: Seal) -> None:
    for data in (b"", b"x", b"hello" * 50_000, zipped({"a.txt": b"a"}), tarred({"a": b"a"}, "w:gz"), bytes(3_000_000)):
        result = await scanner.scan(seal(data), tenant_id="ten_1")
        assert isinstance(result, Clean)
        assert result.engine.startswith(scanner.name)
        assert result.ms > 0


@each_row(
    "data",
    [
        pytest.param(EICAR, id="alone"),
        pytest.param(b"text\n" + EICAR + b"\ntext", id="inside text"),
        pytest.param(zipped({"a.com": EICAR}), id="zip"),
        pytest.param(zipped({"in.zip": zipped({"a.com": EICAR})}), id="zip in zip"),
        pytest.param(tarred({"a.com": EICAR}, "w:gz"), id="tar.gz"),
        pytest.param(zipped(DOCX | {"word/media/image1.png": EICAR}), id="docx"),
        pytest.param(mail_with(EICAR), id="eml"),
        pytest.param(bytes(3_000_000) + EICAR, id="at the end of many bytes"),
    ],
)
@pytest.mark.asvs("5.4.3")
async def test_eicar_virus_is_infected(scanner: Scanner, seal: Seal, data: bytes) -> None:
    result = await scanner.scan(seal(data), tenant_id="ten_1")
    assert isinstance(result, Infected)
    assert "eicar" in result.threat.lower()


async def test_file_on_disk_is_scanned_from_start_regardless_of_offset(scanner: Scanner, seal: Seal) -> None:
    sealed = seal(EICAR, on_disk=True)
    for _ in range(2):
        assert isinstance(await scanner.scan(sealed, tenant_id="ten_1"), Infected)


async def test_working_scanner_reports_up_or_that_it_is_no_antivirus(scanner: Scanner) -> None:
    health = await scanner.health()
    state = EngineState.DEGRADED if scanner.name == "builtin" else EngineState.UP
    assert (health.kind, health.name, health.state) == ("scanner", scanner.name, state)
    assert health.version


async def test_second_close_is_a_no_op(scanner: Scanner) -> None:
    await scanner.aclose()
    await scanner.aclose()
