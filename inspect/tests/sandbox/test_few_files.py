"""The sandbox of a command: it loads what the named files need, and the rest for the first file that needs more."""

import ast
import hashlib
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from functools import cache

import pytest
import pytest_asyncio

from sluice_inspect.registry import FORMATS
from sluice_inspect.sandbox import Completed, FewFiles, RunResult
from sluice_inspect.sandbox.engine import ZygoteSandbox
from sluice_inspect.sandbox.sealed import Sealed
from tests.rows import each_row
from tests.run_length import LONG_RUN

LIBRARIES = ("PIL.Image", "av", "cryptography", "lxml.etree", "magic", "msoffcrypto", "numpy", "pikepdf", "yara_x")
LOADED_AFTER = """
import sys
from sluice_inspect.child import jobs, late_imports
jobs.preload_for(sys.argv[1].split(), scanned=False)
late = late_imports.LateModule
print(sorted(name for name, module in sys.modules.items() if not isinstance(module, late)))
"""
LEFT_BY_LOADING_ALL = """
import sys
from sluice_inspect.child import jobs, late_imports
if len(sys.argv) > 1:
    jobs.preload_for(sys.argv[1:], scanned=True)
jobs.preload()
assert late_imports._finder not in sys.meta_path
print([name for name, module in sys.modules.items() if isinstance(module, late_imports.LateModule)])
"""
SAMPLES = {each.name: each for each in FORMATS if not each.missing_reader}


@cache
def loaded_for(extensions: str) -> set[str]:
    command = [sys.executable, "-c", LOADED_AFTER, extensions]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(ast.literal_eval(run.stdout))


_NEEDED: dict[str, set[str]] = {
    "docx png": {"PIL.Image", "lxml.etree", "numpy"},
    "pdf": {"numpy", "pikepdf"},
    "csv": set(),
    "docx": {"lxml.etree"},
    "png": {"PIL.Image", "numpy"},
}


@each_row(("extensions", "libraries"), list(_NEEDED.items())[: None if LONG_RUN else 4])
def test_libraries_that_the_files_do_not_need_are_not_loaded(extensions: str, libraries: set[str]) -> None:
    assert loaded_for(extensions) & set(LIBRARIES) == libraries


def test_formats_that_the_files_do_not_have_are_not_loaded() -> None:
    formats = {name for name in loaded_for("docx") if name.startswith("sluice_inspect.formats.")}
    shared = ("compressed", "docx", "rar", "sevenzip", "tar", "zip")  # what may be packed in one
    assert formats <= {f"sluice_inspect.formats.{name}" for name in shared}


def test_formats_that_begin_otherwise_are_not_loaded_for_a_text() -> None:
    loaded = loaded_for("csv")
    assert {f"sluice_inspect.formats.{name}" for name in ("csv", "tar")} <= loaded
    assert {f"sluice_inspect.formats.{name}" for name in ("pdf", "png", "docx", "rtf", "heif")}.isdisjoint(loaded)


@each_row("extensions", [["csv"], []] if LONG_RUN else [["csv"]])
def test_nothing_is_postponed_once_all_is_loaded(extensions: list[str]) -> None:
    command = [sys.executable, "-c", LEFT_BY_LOADING_ALL, *extensions]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def whole() -> AsyncIterator[ZygoteSandbox]:
    """A sandbox that has loaded all formats."""
    sandbox = ZygoteSandbox()
    await sandbox.start(every_format=False)
    yield sandbox
    await sandbox.aclose()


async def _run(sandbox: ZygoteSandbox, content: bytes, filename: str) -> RunResult:
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.flush()
        sealed = Sealed(file.fileno(), len(content), hashlib.sha256(content).digest())
        return await sandbox.run("check_and_scan", sealed, filename=filename, tenant_id="one")


async def _judged(sandbox: ZygoteSandbox, content: bytes, filename: str) -> object:
    result = await _run(sandbox, content, filename)
    assert isinstance(result, Completed), result
    check = result.payload["check"]
    assert isinstance(check, dict)
    return {**result.payload, "check": {**check, "ms": 0}}


_FORMATS = ("avif", "csv", "docx", "gz", "html", "jpeg", "pdf", "png", "rar", "rtf", "svg", "xls", "xlsx", "zip")


@pytest.mark.asyncio(loop_scope="module")
@each_row("name", _FORMATS if LONG_RUN else ("csv", "docx", "pdf", "rar"))
async def test_file_of_a_named_format_is_judged_with_what_is_loaded_for_it(name: str, whole: ZygoteSandbox) -> None:
    extension, content = min(SAMPLES[name].extensions), SAMPLES[name].sample()
    sandbox = ZygoteSandbox()
    await sandbox.start(every_format=False, only=FewFiles(frozenset({extension}), scanned=True))
    pool = sandbox._pool
    try:
        found = await _judged(sandbox, content, f"sample.{extension}")
        assert found == await _judged(whole, content, f"sample.{extension}")
        assert sandbox._pool is pool
    finally:
        await sandbox.aclose()


_TABLES = (b"BM,b\n1,2\n", SAMPLES["gif"].sample(), b"\n%PDF-1.4,b\n", b"GIF89a,b\n1,2\n")


@pytest.mark.asyncio(loop_scope="module")
@each_row("content", _TABLES if LONG_RUN else _TABLES[:2])
async def test_table_that_begins_as_another_format_is_judged_with_all_loaded(
    content: bytes, whole: ZygoteSandbox
) -> None:
    sandbox = ZygoteSandbox()
    await sandbox.start(every_format=False, only=FewFiles(frozenset({"csv"}), scanned=False))
    try:
        assert await _judged(sandbox, content, "a.csv") == await _judged(whole, content, "a.csv")
        assert sandbox._only is None
    finally:
        await sandbox.aclose()


@pytest.mark.asyncio(loop_scope="module")
@each_row("name", ["pdf", "mp3", "xls"] if LONG_RUN else ["mp3"])
async def test_rest_is_loaded_for_a_file_that_is_not_what_its_name_says(name: str, whole: ZygoteSandbox) -> None:
    sandbox = ZygoteSandbox()
    await sandbox.start(every_format=False, only=FewFiles(frozenset({"docx"}), scanned=True))
    pool = sandbox._pool
    try:
        for content in (SAMPLES[name].sample(), SAMPLES["docx"].sample()):
            assert await _judged(sandbox, content, "a.docx") == await _judged(whole, content, "a.docx")
        assert sandbox._pool is not pool
        assert (await sandbox.health()).limits["restarts"] == 0
    finally:
        await sandbox.aclose()
