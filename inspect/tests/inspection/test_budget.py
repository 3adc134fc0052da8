"""All examinations of a file share one budget of processor time."""

import io
import time

import pytest

from sluice_inspect.budget import Deadline, shared_time
from sluice_inspect.formats import docx
from sluice_inspect.inspection import inspect_file, preload
from sluice_inspect.report import Limits, Outcome
from tests.inspection.formats.office_packages import package_of, parts_of
from tests.inspection.growth import slowness

PARAGRAPHS = 150_000


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    preload()


def use(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def test_deadlines_share_the_time_of_a_file() -> None:
    with shared_time(0.05):
        use(0.06)
        assert Deadline(20).has_passed
        with shared_time(20):
            assert Deadline(20).has_passed
    assert not Deadline(20).has_passed


def test_deadline_may_end_before_the_shared_time() -> None:
    with shared_time(20):
        assert Deadline(-1).has_passed
        assert not Deadline(10).has_passed


def test_document_is_not_blank_when_the_time_of_the_file_is_over() -> None:
    empty = b"".join(b'<w:p w:x="%d"/>' % number for number in range(PARAGRAPHS))
    parts = parts_of(docx.FORMAT.sample())
    before, _, behind = parts["word/document.xml"].partition(b"<w:p>")
    data = package_of(parts | {"word/document.xml": before + empty + behind[behind.index(b"</w:body>") :]})
    began = time.process_time()
    report = inspect_file(io.BytesIO(data), filename="a.docx", limits=Limits(total_seconds=0.2))
    assert (report.outcome, report.blank) == (Outcome.OK, False)
    assert time.process_time() - began < slowness()
    assert inspect_file(io.BytesIO(data), filename="a.docx", limits=Limits(total_seconds=60)).blank
