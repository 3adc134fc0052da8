"""`Inspector`: files judged in locked processes, through the door that users of the library take."""

import io
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sluice_inspect import Inspector, InspectorUnavailable, JobLimits, SandboxBroken, Verdict
from sluice_inspect.registry import FORMATS
from sluice_inspect.sandbox import NoWorker
from sluice_inspect.sandbox.engine import ZygoteSandbox
from sluice_inspect.sandbox.supervisor import Supervisor, WorkerUnavailable
from sluice_inspect.threats import EICAR
from tests.rows import each_row

SAMPLES = {each.name: each for each in FORMATS if not each.missing_reader}
PNG = SAMPLES["png"].sample()
LARGE = PNG + bytes(2 * 1024**2)
"""Larger than what is checked and scanned in one job."""


@pytest.fixture(scope="module")
def inspector() -> Iterator[Inspector]:
    with Inspector() as running:
        yield running


def judge(inspector: Inspector, content: bytes, name: str) -> Verdict:
    return inspector.inspect(io.BytesIO(content), filename=name)


@each_row(
    ("content", "name", "reason", "is_refused"),
    [
        (PNG, "photo.png", "ok", False),
        (SAMPLES["pdf"].sample(), "invoice.pdf", "ok", False),
        (SAMPLES["docx"].sample(), "letter.docx", "ok", False),
        (SAMPLES["zip"].sample(), "files.zip", "ok", False),
        (SAMPLES["csv"].sample(), "table.csv", "ok", False),
        (PNG[: len(PNG) // 2], "photo.png", "corrupt", True),
        (b"<html><body>502 Bad Gateway</body></html>", "photo.png", "type_mismatch", True),
        (b"   \n", "note.txt", "blank", True),
        (EICAR, "note.txt", "threat", True),
        (LARGE, "photo.png", "ok", False),
        (LARGE, "photo.jpg", "type_mismatch", True),
    ],
)
def test_file_is_judged_with_its_reason(
    inspector: Inspector, content: bytes, name: str, reason: str, *, is_refused: bool
) -> None:
    verdict = judge(inspector, content, name)
    assert (verdict.reason, verdict.is_refused) == (reason, is_refused)
    assert bool(verdict.detail) == is_refused


def test_path_is_judged_by_its_own_name_or_the_given_one(inspector: Inspector, tmp_path: Path) -> None:
    path = tmp_path / "photo.png"
    path.write_bytes(PNG)
    assert inspector.inspect(path).reason == inspector.inspect(str(path)).reason == "ok"
    assert inspector.inspect(path, filename="photo.jpg").reason == "type_mismatch"


def test_file_object_is_read_from_its_beginning(inspector: Inspector) -> None:
    file = io.BytesIO(PNG)
    file.seek(5)
    assert inspector.inspect(file, filename="photo.png").reason == "ok"
    assert file.tell() == len(PNG)


def test_unreadable_file_and_missing_name_are_errors_of_the_caller(inspector: Inspector, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        inspector.inspect(tmp_path / "nothing.png")
    with pytest.raises(ValueError, match="needs the filename"):
        inspector.inspect(io.BytesIO(PNG))


def test_threads_share_the_processes(inspector: Inspector) -> None:
    with ThreadPoolExecutor(8) as threads:
        verdicts = list(threads.map(lambda _: judge(inspector, PNG, "photo.png"), range(24)))
    assert {verdict.reason for verdict in verdicts} == {"ok"}


def test_file_that_reaches_a_limit_is_unreadable_and_refused() -> None:
    with Inspector(limits=JobLimits(memory_bytes=0)) as inspector:
        verdict = judge(inspector, SAMPLES["pdf"].sample(), "invoice.pdf")
    assert (verdict.reason, verdict.report, verdict.is_refused) == ("unreadable", None, True)
    assert verdict.detail


@pytest.mark.parametrize("content", [PNG, LARGE], ids=["small", "large"])
def test_no_free_process_says_nothing_of_the_file(
    inspector: Inspector, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    async def run(*_arguments: object, **_named: object) -> NoWorker:
        return NoWorker("none is free")

    monkeypatch.setattr(ZygoteSandbox, "run", run)
    with pytest.raises(InspectorUnavailable, match=r"^none is free$"):
        judge(inspector, content, "photo.png")


def test_start_is_refused_where_processes_cannot_be_confined(monkeypatch: pytest.MonkeyPatch) -> None:
    async def try_level(_supervisor: Supervisor, level: str) -> None:
        raise WorkerUnavailable(f"no {level} here")

    monkeypatch.setattr(Supervisor, "try_level", try_level)
    threads = threading.active_count()
    with pytest.raises(SandboxBroken, match=r"no strict here.*no seccomp here"):
        Inspector().start()
    assert threading.active_count() == threads


def test_closed_inspector_ends_its_processes_and_starts_again() -> None:
    def children() -> set[str]:
        return {each for path in Path("/proc/self/task").glob("*/children") for each in path.read_text().split()}

    inspector = Inspector()
    threads, others = threading.active_count(), children()
    for _ in range(2):
        assert judge(inspector, PNG, "photo.png").reason == "ok"
        inspector.close()
        inspector.close()
        assert threading.active_count() == threads
        assert children() <= others


def test_process_forked_later_starts_its_own(inspector: Inspector) -> None:
    child = os.fork()
    if child == 0:  # an exit by an exception would run the fixtures of the parent
        code = 1
        try:
            code = 0 if judge(inspector, PNG, "photo.png").reason == "ok" else 2
            inspector.close()
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert judge(inspector, PNG, "photo.png").reason == "ok"
