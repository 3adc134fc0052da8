"""The hostile files of ../shared/attacks in a locked child: what the manifest says of each family, within a second and 256 MB a file.

The manifest's words of other services stand for the codes of this one: `archive_symlink` and `archive_path_traversal` for
`archive_unsafe`, `corrupt_document` for `corrupt_file`, `too_many_frames` for `image_too_large`. Requests and bodies are tested in
tests/edge, file names in tests/api, ciphers in tests/kit.
"""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final

import pytest

from sluice.engines.sandbox.judge import Budget
from sluice.engines.sandbox.launch import DEFAULT_JOBS
from sluice.engines.sandbox.protocol import Ran, Sandbox
from sluice.formats.verdict import Finding, Outcome, Report
from sluice.kit.sealed import Sealed
from tests import attacks
from tests.cli.zygotes import Begun
from tests.engines.sandbox.conftest import Opener, Runner, Sealer

_MEMORY: Final = 256 * 1024**2
_MS: Final = 1000.0
_TRIES: Final = 3
"""How often a file is judged that was too slow: this machine does other things beside."""

Judged = Callable[[list[Path], int], Awaitable[Mapping[str, Report]]]
"""Answers the reports of so many files by the files' names."""

pytestmark = attacks.beside


def _paths(family: str, expected: str = "") -> list[Path]:
    return [attacks.ATTACKS / row["file"] for row in attacks.rows(family) if row["expected"].startswith(expected)]


@pytest.fixture
def judged(open_sandbox: Opener, run: Runner, seal: Sealer) -> Judged:
    """Judge files in a locked child that has 256 MB; each must be judged within a second."""

    async def quickest(sandbox: Sandbox, name: str, sealed: Sealed) -> Ran:
        for _ in range(_TRIES):
            result = await run(sandbox, "check", filename=name, sealed=sealed)
            assert isinstance(result, Ran), (name, result)
            if result.ms <= _MS:
                return result
        raise AssertionError(f"{name}: over {_MS} ms in each of {_TRIES} tries")

    async def judge_all(paths: list[Path], count: int) -> Mapping[str, Report]:
        assert len(paths) == count
        launched = Begun(_MEMORY).launched()
        sandbox = await open_sandbox(jobs=DEFAULT_JOBS, budget=Budget(memory_bytes=_MEMORY), launched=launched)
        reports = {}
        for path in paths:
            result = await quickest(sandbox, path.name, seal(path.read_bytes()))
            reports[path.name.partition("-")[2]] = Report.from_json(result.payload)
        return reports

    return judge_all


def _is_refused(report: Report) -> bool:
    return report.finding is not None or report.integrity is Outcome.CORRUPT


async def test_links_and_ways_out_of_the_folder_are_unsafe(judged: Judged) -> None:
    reports = await judged(_paths("zip-slip"), 10)
    assert {report.finding for report in reports.values()} == {Finding.ARCHIVE_UNSAFE}


async def test_overlapping_members_are_a_bomb(judged: Judged) -> None:
    reports = await judged(_paths("zip-bomb"), 1)
    assert {report.finding for report in reports.values()} == {Finding.ARCHIVE_BOMB}
    assert max(report.ms for report in reports.values()) < 500


_SAME_BYTES_AS_A_FAILURE: Final = "SUCCESS_sloppy-filenames.zip"
"""Listed twice, as good for a lenient reader and as broken for a strict one."""
_LOCKED: Final = "FAILURE_strong_encryption_is_not_supported.zip"
"""Whole, and behind a password: intact files pass."""
_ONE_BYTE_MORE: Final = "_at_the_end_of_the_file_Or_is_the_end_of_central_dir_signature_PK_in_the_com.zip"
"""One byte stands behind its end: bytes behind an archive pass, unless they are a page or another format."""


async def test_archives_that_readers_take_are_intact(judged: Judged) -> None:
    reports = await judged(_paths("zip-malformed", "accept"), 22)
    refused = [name for name, report in reports.items() if _is_refused(report)]
    assert refused == [_SAME_BYTES_AS_A_FAILURE]


async def test_malformed_archives_are_corrupt(judged: Judged) -> None:
    reports = await judged(_paths("zip-malformed", "corrupt"), 24)
    passed = {name: report.integrity for name, report in reports.items() if report.integrity is not Outcome.CORRUPT}
    assert passed == {_LOCKED: Outcome.ENCRYPTED, _ONE_BYTE_MORE: Outcome.OK}


_HARMLESS_XML: Final = {"simple.xml", "simple-ns.xml", "dtd.xml", "dtd_element.xml", "xmlbomb2.xml"}
"""Documents without a DOCTYPE, and with one that names a vocabulary, declares elements, or a word: XML that is in use everywhere."""


async def test_entities_that_multiply_or_lead_elsewhere_are_refused(judged: Judged) -> None:
    reports = await judged(_paths("xml"), 16)
    assert {name for name, report in reports.items() if not _is_refused(report)} == _HARMLESS_XML


async def test_picture_bombs_are_too_large_and_scripts_in_pictures_are_two_formats(judged: Judged) -> None:
    reports = await judged(_paths("image-bomb"), 6)
    too_large = {name for name, report in reports.items() if report.finding is Finding.IMAGE_TOO_LARGE}
    assert too_large == {"lottapixel.jpg", "uber.gif"}
    assert {report.finding for name, report in reports.items() if name not in too_large} == {Finding.POLYGLOT}


async def test_pictures_that_broke_a_decoder_are_judged(judged: Judged) -> None:
    await judged(_paths("image"), 51)


async def test_carriers_of_polyglots_are_what_they_are_named(judged: Judged) -> None:
    reports = await judged(_paths("polyglot"), 79)
    assert [name for name, report in reports.items() if report.finding is not None] == []


async def test_foreign_content_under_the_name_of_a_picture_or_document_is_refused(judged: Judged) -> None:
    paths = [path for path in _paths("filename", "stored only") if path.suffix in {".jpg", ".gif", ".pgif", ".pdf", ".zip"}]
    reports = await judged(paths, 36)
    assert [name for name, report in reports.items() if report.finding is None] == []


async def test_all_other_payloads_are_judged(judged: Judged) -> None:
    paths = [path for path in _paths("filename", "stored only") if path.suffix not in {".jpg", ".gif", ".pgif", ".pdf", ".zip"}]
    await judged(paths, 108 - 36)
