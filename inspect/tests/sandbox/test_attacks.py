"""The hostile files of ../shared/attacks in a locked child: each family gets the verdict of the manifest.

The limits are one second and 256 MB per file. The manifest uses codes of other services: `archive_symlink` and
`archive_path_traversal` mean `archive_unsafe`, `corrupt_document` means `corrupt_file`, and `too_many_frames` means
`image_too_large`. Requests and bodies are tested in server/tests/http1, file names in server/tests/api, ciphers in server/tests/kit.
"""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final

import pytest

from sluice_inspect.report import Finding, Outcome, Report
from sluice_inspect.sandbox.launch import DEFAULT_JOBS
from sluice_inspect.sandbox.protocol import Completed, JobLimits, Sandbox
from sluice_inspect.sandbox.sealed import Sealed
from tests import attacks
from tests.cli.zygotes import ForkedZygote
from tests.sandbox.conftest import OpenSandbox, RunJob, Seal

_MEMORY: Final = 256 * 1024**2
_MAX_MS: Final = 1000.0
_ATTEMPTS: Final = 3
"""How often a file is checked that was too slow, because the machine may be busy."""

CheckAll = Callable[[list[Path], int], Awaitable[Mapping[str, Report]]]
"""Returns the reports of the files by filename; the number is how many files are expected."""

pytestmark = attacks.needs_attacks


def _paths(family: str, expected: str = "") -> list[Path]:
    rows = [row for row in attacks.manifest_rows(family) if row["expected"].startswith(expected)]
    return [attacks.ATTACKS / row["file"] for row in rows]


@pytest.fixture
def check_all(open_sandbox: OpenSandbox, run: RunJob, seal: Seal) -> CheckAll:
    """Check files in a locked child with 256 MB; each must be checked within a second."""

    async def check_within_time(sandbox: Sandbox, name: str, sealed: Sealed) -> Completed:
        for _ in range(_ATTEMPTS):
            result = await run(sandbox, "check", filename=name, sealed=sealed)
            assert isinstance(result, Completed), (name, result)
            if result.ms <= _MAX_MS:
                return result
        raise AssertionError(f"{name}: over {_MAX_MS} ms in each of {_ATTEMPTS} tries")

    async def check_files(paths: list[Path], count: int) -> Mapping[str, Report]:
        assert len(paths) == count
        launched = ForkedZygote(_MEMORY).launched()
        sandbox = await open_sandbox(jobs=DEFAULT_JOBS, limits=JobLimits(memory_bytes=_MEMORY), launched=launched)
        reports = {}
        for path in paths:
            result = await check_within_time(sandbox, path.name, seal(path.read_bytes()))
            reports[path.name.partition("-")[2]] = Report.from_json(result.payload)
        return reports

    return check_files


def _is_refused(report: Report) -> bool:
    return report.finding is not None or report.integrity is Outcome.CORRUPT


async def test_archives_with_links_or_path_traversal_are_unsafe_and_overlapping_ones_bombs(check_all: CheckAll) -> None:
    reports = await check_all(_paths("zip-slip"), 10)
    assert {report.finding for report in reports.values()} == {Finding.ARCHIVE_UNSAFE}
    reports = await check_all(_paths("zip-bomb"), 1)
    assert {report.finding for report in reports.values()} == {Finding.ARCHIVE_BOMB}
    assert max(report.ms for report in reports.values()) < 500


_ALSO_LISTED_AS_FAILURE: Final = "SUCCESS_sloppy-filenames.zip"
"""Listed twice, as good for a lenient reader and as broken for a strict one."""
_ENCRYPTED: Final = "FAILURE_strong_encryption_is_not_supported.zip"
"""Intact but encrypted: encrypted files pass."""
_ONE_TRAILING_BYTE: Final = "_at_the_end_of_the_file_Or_is_the_end_of_central_dir_signature_PK_in_the_com.zip"
"""Has one byte after its end: trailing bytes pass, unless they are a page or another format."""


async def test_readable_archives_are_intact_and_malformed_ones_corrupt(check_all: CheckAll) -> None:
    reports = await check_all(_paths("zip-malformed", "accept"), 22)
    assert [name for name, report in reports.items() if _is_refused(report)] == [_ALSO_LISTED_AS_FAILURE]
    reports = await check_all(_paths("zip-malformed", "corrupt"), 24)
    passed = {name: report.integrity for name, report in reports.items() if report.integrity is not Outcome.CORRUPT}
    assert passed == {_ENCRYPTED: Outcome.ENCRYPTED, _ONE_TRAILING_BYTE: Outcome.OK}


_HARMLESS_XML: Final = {"simple.xml", "simple-ns.xml", "dtd.xml", "dtd_element.xml", "xmlbomb2.xml"}
"""Documents without a DOCTYPE, or with one that names a vocabulary or declares elements or one word: common XML."""


async def test_expanding_and_external_xml_entities_are_refused(check_all: CheckAll) -> None:
    reports = await check_all(_paths("xml"), 16)
    assert {name for name, report in reports.items() if not _is_refused(report)} == _HARMLESS_XML


async def test_image_bombs_are_too_large_and_embedded_scripts_are_polyglots(check_all: CheckAll) -> None:
    reports = await check_all(_paths("image-bomb"), 6)
    too_large = {name for name, report in reports.items() if report.finding is Finding.IMAGE_TOO_LARGE}
    assert too_large == {"lottapixel.jpg", "uber.gif"}
    assert {report.finding for name, report in reports.items() if name not in too_large} == {Finding.POLYGLOT}


async def test_polyglot_carriers_have_no_finding(check_all: CheckAll) -> None:
    reports = await check_all(_paths("polyglot"), 79)
    assert [name for name, report in reports.items() if report.finding is not None] == []


_FORMATS: Final = {".jpg", ".gif", ".pgif", ".pdf", ".zip"}


async def test_foreign_content_under_image_or_document_name_is_refused(check_all: CheckAll) -> None:
    paths = [path for path in _paths("filename", "stored only") if path.suffix in _FORMATS]
    reports = await check_all(paths, 36)
    assert [name for name, report in reports.items() if report.finding is None] == []


async def test_decoder_crash_samples_and_other_payloads_are_checked(check_all: CheckAll) -> None:
    await check_all(_paths("image"), 51)
    paths = [path for path in _paths("filename", "stored only") if path.suffix not in _FORMATS]
    await check_all(paths, 108 - 36)
