"""Previews through a locked worker: what every format shows, and what a worker that lies gets."""

import io
import os
import struct
import zipfile
import zlib
from collections.abc import AsyncIterator, Mapping

import pytest

from sluice_inspect.child.shared_buffer import SharedBuffer
from sluice_inspect.formats import docx
from sluice_inspect.registry import FORMATS
from sluice_inspect.sandbox.engine import ZygoteSandbox
from sluice_inspect.sandbox.launch import DEFAULT_JOBS
from sluice_inspect.sandbox.previews import NoPreview, Preview, PreviewUnavailable, render_preview
from sluice_inspect.sandbox.protocol import Completed, Crashed, NoWorker, OverLimit, RunResult
from tests.inspection.formats.image_samples import chess_board, encoded, png_chunk, png_header
from tests.inspection.formats.pdf_samples import pdf, stream
from tests.rows import each_row
from tests.sandbox.conftest import Seal

_SHEET = (141, 200)
# By the name of the format: the kind of its preview, and its size if that is not the size of the sample.
_SHOWN: Mapping[str, tuple[str, tuple[int, int]]] = {
    **dict.fromkeys(("avif", "bmp", "gif", "heic", "j2k", "jp2", "jpeg", "png", "tiff", "webp"), ("picture", (64, 64))),
    "pdf": ("page", (200, 167)),
    **dict.fromkeys(("avi", "mkv", "mov", "mp4", "webm"), ("frame", (64, 64))),
    **dict.fromkeys(("7z", "bz2", "gz", "lz4", "rar", "tar", "xz", "zip", "zst"), ("members", _SHEET)),
    **dict.fromkeys(("csv", "eml", "html", "json", "md", "rtf", "svg", "text", "xml", "yaml"), ("text", _SHEET)),
    **dict.fromkeys(
        ("doc", "docx", "epub", "msg", "odp", "ods", "odt", "ppt", "pptx", "xls", "xlsx"), ("text", _SHEET)
    ),
}


@pytest.fixture
async def workers() -> AsyncIterator[ZygoteSandbox]:
    sandbox = ZygoteSandbox(level="strict", workers=1, wait_seconds=60.0, jobs=DEFAULT_JOBS)
    await sandbox.start(every_format=False)
    yield sandbox
    await sandbox.aclose()


async def test_sample_of_every_format_has_its_preview_or_none(workers: ZygoteSandbox, seal: Seal) -> None:
    found: dict[str, object] = {}
    for each in FORMATS:
        if each.missing_reader:
            continue
        name, sample = f"sample.{min(each.extensions)}", each.sample()
        shown = await render_preview(workers, seal(sample), 200, filename=name, tenant_id="tnt_1")
        if isinstance(shown, Preview):
            found[each.name] = shown.kind, (shown.width, shown.height)
            assert len(shown.pixels) == shown.width * shown.height * 3
            assert len(set(shown.pixels)) > 1, each.name
        else:
            assert shown == NoPreview("format"), each.name
        for share in (0.4, 0.9):
            cut = seal(sample[: int(len(sample) * share)])
            part = await render_preview(workers, cut, 1200, filename=name, tenant_id="tnt_1")
            assert isinstance(part, Preview) or part.why in {"damaged", "format"}, each.name
    assert found == {name: _SHOWN[name] for name in found.keys() | _SHOWN.keys()}

    board = encoded(chess_board(2400, 300), "PNG")
    large = await render_preview(workers, seal(board), 1200, filename="named.pdf", tenant_id="tnt_1")
    assert isinstance(large, Preview)
    assert (large.kind, large.width, large.height) == ("picture", 1200, 1200)
    damaged = await render_preview(workers, seal(board[:200]), 200, filename="a.png", tenant_id="tnt_1")
    assert damaged == NoPreview("damaged")


def _document_with_actions(content: str) -> bytes:
    script = "<</S/JavaScript/JS(app.alert\\(1\\))>>"
    link = "<</Type/Annot/Subtype/Link/Rect[0 0 99 99]/Border[0 0 0]/A<</S/URI/URI(http://127.0.0.1:1/)>>>>"
    return pdf(
        content,
        page="/Annots[100 0 R]/AA<</O 101 0 R>>",
        catalog="/OpenAction 101 0 R/Names<</EmbeddedFiles<</Names[(a.exe)102 0 R]>>>>",
        objects={
            100: link,
            101: script,
            102: "<</Type/Filespec/F(a.exe)/EF<</F 103 0 R>>>>",
            103: stream(b"MZ", "/Type/EmbeddedFile"),
        },
    )


def _letter_with_template() -> bytes:
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    relations = (
        '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="r1"'
        f' Type="{office}/attachedTemplate" Target="http://127.0.0.1:1/t.dotm" TargetMode="External"/></Relationships>'
    )
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(docx.FORMAT.sample())) as sample, zipfile.ZipFile(file, "w") as package:
        for name in sample.namelist():
            package.writestr(name, relations if name == "word/_rels/document.xml.rels" else sample.read(name))
    return file.getvalue()


def _wide_picture(side: int) -> bytes:
    """Return a PNG of one bit a pixel, which packs to a thousandth."""
    header = struct.pack(">LLBBBBB", side, side, 1, 0, 0, 0, 0)
    packed = zlib.compress(bytes(side * (1 + -(-side // 8))), 1)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        png_chunk(*each) for each in ((b"IHDR", header), (b"IDAT", packed), (b"IEND", b""))
    )


_DRAWING = (
    b'<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"><script>alert(1)</script>'
    b'<image href="http://127.0.0.1:1/a.png"/><use href="file:///etc/passwd#a"/></svg>'
)
_LETTER = "BT /F 24 Tf 50 700 Td (A letter) Tj ET"


async def test_hostile_file_gives_pixels_or_a_reason(workers: ZygoteSandbox, seal: Seal) -> None:
    async def preview(name: str, content: bytes) -> Preview | NoPreview:
        return await render_preview(workers, seal(content), 200, filename=name, tenant_id="tnt_1")

    page = await preview("a.pdf", pdf(_LETTER))
    assert isinstance(page, Preview)
    assert await preview("a.pdf", _document_with_actions(_LETTER)) == page
    assert await preview("a.pdf", pdf(_LETTER, *["0 0 9 9 re f"] * 9_999)) == page
    assert await preview("a.svg", _DRAWING) == await preview("a.txt", _DRAWING)
    assert await preview("a.docx", _letter_with_template()) == await preview("a.docx", docx.FORMAT.sample())
    line = await preview("a.txt", b"word " * 20_000_000)
    assert line == await preview("a.txt", b"word " * 5_000)

    assert await preview("a.png", png_header(30_000, 30_000)) == NoPreview("too_complex")
    wide = await preview("a.png", _wide_picture(12_000))
    assert isinstance(wide, Preview)
    assert (wide.width, wide.height) == (200, 200)
    assert await preview("a.zip", _DRAWING[:0]) == NoPreview("format")


class _Worker:
    """A sandbox whose only worker returns this result, once it has written these bytes."""

    def __init__(self, result: RunResult, written: bytes = b"") -> None:
        self._result = result
        self._written = written

    async def run(self, *_arguments: object, buffer: SharedBuffer, **_options: object) -> RunResult:
        os.pwrite(buffer.fd, self._written, 0)
        return self._result


_PIXELS = bytes([1, 2, 3]) * 6


@each_row(
    ("result", "written", "why"),
    [
        (Completed({"kind": "page", "width": 3, "height": 2, "more": 1}, 1.0), _PIXELS, "damaged"),
        (Completed({"kind": "script", "width": 3, "height": 2}, 1.0), _PIXELS, "damaged"),
        (Completed({"kind": "page", "width": 3, "height": 1}, 1.0), _PIXELS, "damaged"),
        (Completed({"kind": "page", "width": 201, "height": 1}, 1.0), _PIXELS, "damaged"),
        (Completed({"kind": "page", "width": 0, "height": 2}, 1.0), b"", "damaged"),
        (Completed({"kind": "page", "width": -3, "height": -2}, 1.0), _PIXELS, "damaged"),
        (Completed({"kind": "page", "width": True, "height": True}, 1.0), b"abc", "damaged"),
        (Completed({"kind": "page", "width": 3.0, "height": 2}, 1.0), _PIXELS, "damaged"),
        (Completed({"kind": ["page"], "width": 3, "height": 2}, 1.0), _PIXELS, "damaged"),
        (Completed({"why": "<b>why</b>"}, 1.0), b"", "damaged"),
        (Completed({"why": "format", "kind": "page"}, 1.0), b"", "damaged"),
        (Completed({}, 1.0), b"", "damaged"),
        (Completed({"why": "encrypted"}, 1.0), b"", "encrypted"),
        (Crashed("ended by SIGSEGV", 1.0), b"", "damaged"),
        (OverLimit("cpu", 1.0), b"", "too_complex"),
        (OverLimit("memory", 1.0), b"", "too_complex"),
    ],
    ids=str,
)
async def test_result_that_is_no_preview_is_none(seal: Seal, result: RunResult, written: bytes, why: str) -> None:
    worker: object = _Worker(result, written)
    assert await render_preview(worker, seal(b"x"), 200, filename="", tenant_id="tnt_1") == NoPreview(why)  # type: ignore[arg-type]  # no more of a sandbox is used


async def test_preview_needs_a_worker(seal: Seal) -> None:
    worker: object = _Worker(NoWorker("the machine is too busy"))
    with pytest.raises(PreviewUnavailable, match="too busy"):
        await render_preview(worker, seal(b"x"), 200, filename="", tenant_id="tnt_1")  # type: ignore[arg-type]  # see above


async def test_pixels_are_those_that_the_worker_wrote(seal: Seal) -> None:
    worker: object = _Worker(Completed({"kind": "page", "width": 3, "height": 2}, 1.0), _PIXELS)
    shown = await render_preview(worker, seal(b"x"), 1200, filename="", tenant_id="tnt_1")  # type: ignore[arg-type]  # see above
    assert shown == Preview("page", 3, 2, _PIXELS)
