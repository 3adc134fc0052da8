"""Questions about texts through a locked worker: its answers, and what a worker that lies gets."""

import io
from collections.abc import AsyncIterator
from datetime import date

import pytest
from PIL import Image, ImageDraw

from sluice_inspect.ocr.languages import installed_languages
from sluice_inspect.registry import FORMATS
from sluice_inspect.sandbox.engine import ZygoteSandbox
from sluice_inspect.sandbox.launch import DEFAULT_JOBS
from sluice_inspect.sandbox.protocol import Completed, Crashed, NoWorker, OverLimit, RunResult
from sluice_inspect.sandbox.text import NoText, TextAnswer, TextUnavailable, ask_text
from sluice_inspect.text_questions import Question, Words
from tests.inspection.document_text.languages import PARAGRAPHS
from tests.required import UNDER_CI
from tests.rows import each_row
from tests.sandbox.conftest import Seal

QUESTION = Question(
    (Words(("human beings",)), Words(("invoice",), "RE-[0-9]+")), ("date",), ("iban",), date(2026, 11, 29)
)
WITHOUT_TEXT = {
    "7z", "aac", "aiff", "avi", "avif", "bmp", "bz2", "flac", "gif", "gz", "heic", "j2k", "jp2", "jpeg", "lz4", "m4a",
    "mkv", "mov", "mp3", "mp4", "ogg", "opus", "otf", "parquet", "png", "rar", "sqlite", "tar", "tiff", "ttf", "wav",
    "webm", "webp", "woff", "woff2", "xz", "zip", "zst",
}  # fmt: skip


@pytest.fixture
async def workers() -> AsyncIterator[ZygoteSandbox]:
    sandbox = ZygoteSandbox(level="strict", workers=1, wait_seconds=60.0, jobs=DEFAULT_JOBS)
    await sandbox.start(every_format=False)
    yield sandbox
    await sandbox.aclose()


async def test_locked_worker_reads_the_text_of_every_format_that_has_some(workers: ZygoteSandbox, seal: Seal) -> None:
    without = set[str]()
    for each in FORMATS:
        if each.missing_reader:
            continue
        name = f"sample.{min(each.extensions)}"
        found = await ask_text(workers, seal(each.sample()), QUESTION, filename=name, tenant_id="tnt_1")
        if isinstance(found, NoText):
            assert found == NoText("format"), name
            without.add(each.name)
    assert without <= WITHOUT_TEXT
    text = f"{PARAGRAPHS['en']} Date: 1.2.2026. DE89 3704 0044 0532 0130 00".encode()
    found = await ask_text(workers, seal(text), QUESTION, filename="a.txt", tenant_id="tnt_1")
    assert found == TextAnswer(frozenset({0}), 38, ("en",), date(2026, 2, 1), {"iban": 1}, is_cut=False)


@pytest.mark.skipif(
    "en" not in installed_languages() and not UNDER_CI,
    reason="Tesseract is not installed: apt-get install tesseract-ocr",
)
async def test_locked_worker_reads_pictures_and_scanned_pages_by_ocr(workers: ZygoteSandbox, seal: Seal) -> None:
    page = Image.new("L", (1000, 300), 250)
    ImageDraw.Draw(page).text((60, 60), "All human beings are born free.\nDate: 1.2.2026", fill=30, font_size=40)
    files = dict[str, bytes]()
    for name, plugin, options in (("a.png", "PNG", {}), ("a.pdf", "PDF", {"append_images": [page], "save_all": True})):
        file = io.BytesIO()
        page.save(file, plugin, **options)
        files[name] = file.getvalue()
    for name, words, pages in (("a.png", 8, 1), ("a.pdf", 16, 2)):
        found = await ask_text(workers, seal(files[name]), QUESTION, filename=name, tenant_id="tnt_1", ocr=["en"])
        expected = TextAnswer(frozenset({0}), words, (), date(2026, 2, 1), {}, is_cut=False, ocr_pages=pages)
        assert found == expected, name
    found = await ask_text(workers, seal(files["a.png"]), QUESTION, filename="a.png", tenant_id="tnt_1")
    assert found == NoText("format")


async def test_models_that_cannot_be_loaded_are_an_outage_with_their_name(workers: ZygoteSandbox, seal: Seal) -> None:
    result = await workers.run("match_text", seal(b"text"), filename="a.txt", tenant_id="tnt_1", ocr=["nosuch"])
    assert isinstance(result, NoWorker)
    assert "esseract" in result.why


class _Worker:
    """A sandbox whose only worker returns this result."""

    def __init__(self, result: RunResult) -> None:
        self._result = result

    async def run(self, *_arguments: object, **_options: object) -> RunResult:
        return self._result


async def _ask(result: RunResult, seal: Seal) -> TextAnswer | NoText:
    worker = _Worker(result)
    return await ask_text(worker, seal(b"x"), QUESTION, filename="", tenant_id="tnt_1")  # type: ignore[arg-type]  # no whole sandbox


def _reply(**payload: object) -> Completed:
    honest = {"found": [0], "words": 3, "languages": ["en"], "date": "2026-01-02", "identifiers": {}, "cut": False}
    honest["ocr_pages"] = 0
    return Completed(honest | payload, 1.0)


@each_row(
    ("result", "why"),
    [
        (_reply(text="of the file"), "damaged"),
        (_reply(found=[2]), "damaged"),
        (_reply(found=[-1]), "damaged"),
        (_reply(found=[True]), "damaged"),
        (_reply(found=["text of the file"]), "damaged"),
        (_reply(words=-1), "damaged"),
        (_reply(words=10**9), "damaged"),
        (_reply(words=True), "damaged"),
        (_reply(languages=["<b>en</b>"]), "damaged"),
        (_reply(languages=["en"] * 99), "damaged"),
        (_reply(languages=[["en"]]), "damaged"),
        (_reply(date="2031-01-01"), "damaged"),
        (_reply(date="text of the file"), "damaged"),
        (_reply(date=20260102), "damaged"),
        (_reply(identifiers={"iban": "DE89"}), "damaged"),
        (_reply(identifiers={"iban": 10**6}), "damaged"),
        (_reply(identifiers={"us_ssn": 1}), "damaged"),
        (_reply(identifiers=["iban"]), "damaged"),
        (_reply(cut=1), "damaged"),
        (_reply(ocr_pages=11), "damaged"),
        (_reply(ocr_pages=True), "damaged"),
        (Completed({"why": "<b>why</b>"}, 1.0), "damaged"),
        (Completed({}, 1.0), "damaged"),
        (Completed({"why": "encrypted"}, 1.0), "encrypted"),
        (Crashed("ended by SIGSEGV", 1.0), "damaged"),
        (OverLimit("cpu", 1.0), "too_complex"),
        (OverLimit("memory", 1.0), "too_complex"),
    ],
    ids=str,
)
async def test_answer_that_no_honest_worker_gives_is_none(seal: Seal, result: RunResult, why: str) -> None:
    assert await _ask(result, seal) == NoText(why)  # type: ignore[arg-type]  # a row of the table


async def test_honest_answer_is_kept_and_an_outage_is_none(seal: Seal) -> None:
    expected = TextAnswer(frozenset({0}), 3, ("en",), date(2026, 1, 2), {}, is_cut=False)
    assert await _ask(_reply(), seal) == expected
    with pytest.raises(TextUnavailable):
        await _ask(NoWorker("no worker was free"), seal)
