"""Previews through a locked worker: what every format shows, and what a worker that lies gets."""

import os
from collections.abc import Mapping

import pytest

from sluice_inspect.child.shared_buffer import SharedBuffer
from sluice_inspect.registry import FORMATS
from sluice_inspect.sandbox.launch import DEFAULT_JOBS
from sluice_inspect.sandbox.previews import NoPreview, Preview, PreviewUnavailable, render_preview
from sluice_inspect.sandbox.protocol import Completed, Crashed, NoWorker, OverLimit, RunResult
from tests.inspection.formats.image_samples import chess_board, encoded
from tests.rows import each_row
from tests.sandbox.conftest import OpenSandbox, Seal

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


async def test_sample_of_every_format_has_its_preview_or_none(open_sandbox: OpenSandbox, seal: Seal) -> None:
    sandbox = await open_sandbox(jobs=DEFAULT_JOBS)
    found: dict[str, object] = {}
    for each in FORMATS:
        if each.missing_reader:
            continue
        name = f"sample.{min(each.extensions)}"
        shown = await render_preview(sandbox, seal(each.sample()), 200, filename=name, tenant_id="tnt_1")
        if isinstance(shown, Preview):
            found[each.name] = shown.kind, (shown.width, shown.height)
            assert len(shown.pixels) == shown.width * shown.height * 3
            assert len(set(shown.pixels)) > 1, each.name
        else:
            assert shown == NoPreview("format"), each.name
    assert found == {name: _SHOWN[name] for name in found.keys() | _SHOWN.keys()}

    board = encoded(chess_board(2400, 300), "PNG")
    large = await render_preview(sandbox, seal(board), 1200, filename="named.pdf", tenant_id="tnt_1")
    assert isinstance(large, Preview)
    assert (large.kind, large.width, large.height) == ("picture", 1200, 1200)
    cut = await render_preview(sandbox, seal(board[:200]), 200, filename="a.png", tenant_id="tnt_1")
    assert cut == NoPreview("damaged")


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
