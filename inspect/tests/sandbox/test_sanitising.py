"""Sanitising through a locked worker: what is left of the files, and what a worker that lies gets."""

import os
from collections.abc import AsyncIterator

import pytest

from sluice_inspect.catalogue import REMOVED
from sluice_inspect.child.shared_buffer import SharedBuffer
from sluice_inspect.inspection import inspect_file
from sluice_inspect.registry import FORMATS
from sluice_inspect.sandbox.engine import ZygoteSandbox
from sluice_inspect.sandbox.launch import DEFAULT_JOBS
from sluice_inspect.sandbox.protocol import Completed, Crashed, NoWorker, OverLimit, RunResult
from sluice_inspect.sandbox.sanitising import (
    LARGEST_SANITISED_BYTES,
    NothingToRemove,
    NotSanitised,
    Removal,
    Sanitised,
    SanitisingUnavailable,
    sanitise,
)
from sluice_inspect.sandbox.sealed import Sealed
from sluice_inspect.source import MemoryBacked
from tests.inspection.formats.image_samples import png_header
from tests.inspection.sanitise import test_documents, test_metadata
from tests.inspection.sanitise.cleaned import hides
from tests.rows import each_row
from tests.sandbox.conftest import Seal

Result = Sanitised | NothingToRemove | NotSanitised


@pytest.fixture
async def workers() -> AsyncIterator[ZygoteSandbox]:
    sandbox = ZygoteSandbox(level="strict", workers=1, wait_seconds=60.0, jobs=DEFAULT_JOBS)
    await sandbox.start(every_format=False)
    yield sandbox
    await sandbox.aclose()


async def _run(
    sandbox: object, file: Sealed, *removals: Removal, name: str = "", breaks: bool = False
) -> tuple[Result, bytes]:
    async with sanitise(
        sandbox,  # type: ignore[arg-type]  # a worker of a test is no whole sandbox
        file, frozenset(removals), breaks_signatures=breaks, filename=name, tenant_id="tnt_1",
    ) as result:  # fmt: skip
        return result, os.pread(result.fd, result.size, 0) if isinstance(result, Sanitised) else b""


async def test_locked_worker_cleans_as_an_unlocked_one(workers: ZygoteSandbox, seal: Seal) -> None:
    for name, content, words in (*test_metadata._samples(), *test_documents._told()):
        result, left = await _run(workers, seal(content), "metadata", name=name)
        assert isinstance(result, Sanitised), (name, result)
        assert set(result.removed) >= words - {"thumbnail"}, name
        assert not hides(left), name
    for name, content, words, _kept in test_documents._active():
        result, _left = await _run(workers, seal(content), "active_content", name=name)
        assert isinstance(result, Sanitised), (name, result)
        assert set(result.removed) == words
        both, _left = await _run(workers, seal(content), "metadata", "active_content", name=name)
        assert isinstance(both, Sanitised)
        assert set(both.removed) >= words
    drawn = set[str]()
    for each in FORMATS:
        if not each.missing_reader:
            name, sample = f"sample.{min(each.extensions)}", each.sample()
            result, left = await _run(workers, seal(sample), "pixels", name=name)
            if isinstance(result, Sanitised):
                drawn.add(each.name)
                with MemoryBacked(left) as source:
                    assert inspect_file(source, filename=name).format == each.name
            else:
                assert result == NotSanitised("format"), name
    assert drawn == {"avif", "bmp", "gif", "j2k", "jp2", "jpeg", "pdf", "png", "tiff", "webp"}
    bomb, _left = await _run(workers, seal(png_header(30_000, 30_000)), "pixels", name="a.png")
    assert bomb == NotSanitised("too_complex")


async def test_signed_document_changes_only_if_it_may(workers: ZygoteSandbox, seal: Seal) -> None:
    signed = test_documents._signed_pdf(catalog="/OpenAction<</S/JavaScript/JS(1)>>")
    refused, _left = await _run(workers, seal(signed), "active_content", name="a.pdf")
    assert refused == NotSanitised("signed")
    result, _left = await _run(workers, seal(signed), "active_content", name="a.pdf", breaks=True)
    assert isinstance(result, Sanitised)
    assert result.removed == ("scripts", "signatures")
    harmless, _left = await _run(workers, seal(test_documents._signed_pdf()), "active_content", name="a.pdf")
    assert harmless == NothingToRemove()


class _Worker:
    """A sandbox whose only worker returns this result, once it has written these bytes."""

    def __init__(self, result: RunResult, written: bytes = b"left") -> None:
        self._result = result
        self._written = written

    async def run(self, *_arguments: object, buffer: SharedBuffer, **_options: object) -> RunResult:
        os.pwrite(buffer.fd, self._written, 0)
        return self._result


def _reply(**payload: object) -> Completed:
    return Completed({"size": 4, "removed": ["gps"], "signed": False} | payload, 1.0)


@each_row(
    ("result", "why"),
    [
        (_reply(more=1), "damaged"),
        (_reply(size=0), "damaged"),
        (_reply(size=-1), "damaged"),
        (_reply(size=True), "damaged"),
        (_reply(size=4.0), "damaged"),
        (_reply(size=LARGEST_SANITISED_BYTES + 1), "damaged"),
        (_reply(removed=[]), "damaged"),
        (_reply(removed=["<b>gps</b>"]), "damaged"),
        (_reply(removed=[["gps"]]), "damaged"),
        (_reply(removed=["gps"] * 99), "damaged"),
        (_reply(signed=1), "damaged"),
        (_reply(signed=True), "signed"),
        (Completed({"nothing": True, "size": 4}, 1.0), "damaged"),
        (Completed({"nothing": 1}, 1.0), "damaged"),
        (Completed({"why": "<b>why</b>"}, 1.0), "damaged"),
        (Completed({}, 1.0), "damaged"),
        (Completed({"why": "encrypted"}, 1.0), "encrypted"),
        (Crashed("ended by SIGSEGV", 1.0), "damaged"),
        (OverLimit("cpu", 1.0), "too_complex"),
        (OverLimit("memory", 1.0), "too_complex"),
    ],
    ids=str,
)
async def test_result_that_no_honest_worker_gives_is_none(seal: Seal, result: RunResult, why: str) -> None:
    assert await _run(_Worker(result), seal(b"x"), "metadata") == (NotSanitised(why), b"")  # type: ignore[arg-type]  # a row of the table


async def test_what_is_left_is_what_the_worker_wrote(seal: Seal) -> None:
    result, left = await _run(_Worker(_reply(removed=["dates", "gps", "gps"])), seal(b"x"), "metadata")
    assert isinstance(result, Sanitised)
    assert (result.removed, left) == (("gps", "dates"), b"left")
    nothing, _left = await _run(_Worker(Completed({"nothing": True}, 1.0)), seal(b"x"), "metadata")
    assert nothing == NothingToRemove()


async def test_sanitising_needs_a_worker_and_a_file_that_it_can_hold(seal: Seal) -> None:
    worker = _Worker(NoWorker("the machine is too busy"))
    with pytest.raises(SanitisingUnavailable, match="too busy"):
        await _run(worker, seal(b"x"), "metadata")
    large = Sealed(-1, LARGEST_SANITISED_BYTES + 1, b"")
    assert await _run(worker, large, "pixels") == (NotSanitised("too_large"), b"")


def test_every_word_is_in_the_catalogue() -> None:
    from sluice_inspect.sandbox import sanitising  # noqa: PLC0415

    assert list(sanitising._REMOVED) == list(REMOVED)
