"""Where the attachments of a PDF are in the file: the streams that readers list as embedded files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pikepdf

from sluice_inspect.budget import CHUNK_BYTES
from sluice_inspect.formats.pdf.raw import has_header
from sluice_inspect.formats.pdf.reading import PdfReading
from sluice_inspect.source import Source

_TREE_DEPTH: Final = 16
_FILES_MOST: Final = 10_000
_DICTIONARY_BYTES: Final = 64 * 1024
_KEYWORDS_MOST: Final = 16  # words `stream` before the data of a stream: its dictionary may have some in strings
_HEADER: Final = b"%PDF"


def attachment_ranges(source: Source) -> list[tuple[int, int]]:
    """Return start and end of the data of each attachment, as it is in the file. None of them if it cannot be read."""
    reading = source.cached(PdfReading)
    if reading.is_costly:
        return []
    try:
        with reading.qpdf() as pdf:
            table = pdf.get_xref_table()
            # Offsets count from the header, which may follow other bytes.
            shift = max(0, source.head.find(_HEADER)) if has_header(source.head) else 0
            ranges = []
            for stream in _embedded_files(pdf):
                entry = table.get(stream.objgen)
                if entry is None or entry.type != 1 or entry.offset is None:
                    continue
                raw = stream.read_raw_bytes()
                ranges += [
                    found for at in {entry.offset, entry.offset + shift} if (found := _range_of(source, at, raw))
                ]
            return ranges
    except (pikepdf.PikepdfError, ValueError, TypeError, RuntimeError, OverflowError, MemoryError):
        return []


def _range_of(source: Source, at: int, raw: bytes) -> tuple[int, int] | None:
    """Return where the stream of the object at `at` has its data, if that is in the file as it is."""
    head = source.read_at(at, _DICTIONARY_BYTES)
    keyword = -1
    for _ in range(_KEYWORDS_MOST):
        keyword = head.find(b"stream", keyword + 1)
        if keyword < 0:
            return None
        begin = keyword + len(b"stream")
        begin += 2 if head.startswith(b"\r\n", begin) else 1
        if raw and _is_at(source, at + begin, raw):
            return at + begin, at + begin + len(raw)
    return None


def _is_at(source: Source, at: int, raw: bytes) -> bool:
    pieces = range(0, len(raw), CHUNK_BYTES)
    return all(
        source.read_at(at + each, CHUNK_BYTES)[: len(raw) - each] == raw[each : each + CHUNK_BYTES] for each in pieces
    )


def _embedded_files(pdf: pikepdf.Pdf) -> Iterator[pikepdf.Stream]:
    """Yield the streams of the files that readers list, each once."""
    seen: set[tuple[int, int]] = set()
    for specification in _specifications(pdf):
        files = specification.get("/EF") if isinstance(specification, pikepdf.Dictionary) else None
        for stream in files.values() if isinstance(files, pikepdf.Dictionary) else ():
            if isinstance(stream, pikepdf.Stream) and stream.objgen not in seen:
                seen.add(stream.objgen)
                yield stream
        if len(seen) > _FILES_MOST:
            return
    # LibreOffice lists the source of a document that it exports with it in the trailer, and nowhere else.
    sources = pdf.trailer.get("/AdditionalStreams")
    yield from (each for each in _items(sources) if isinstance(each, pikepdf.Stream))


def _specifications(pdf: pikepdf.Pdf) -> Iterator[pikepdf.Object]:
    """Yield the file specifications of the catalog, the pages and their annotations (ISO 32000-2, 7.11.4, 14.13)."""
    root = pdf.Root
    names = root.get("/Names")
    seen = set[tuple[int, int]]()
    if isinstance(names, pikepdf.Dictionary):
        yield from _leaves(names.get("/EmbeddedFiles"), 0, seen)
    yield from _items(root.get("/AF"))
    for page in pdf.pages:
        yield from _items(page.obj.get("/AF"))
        for annotation in _items(page.obj.get("/Annots")):
            if isinstance(annotation, pikepdf.Dictionary):
                yield from (annotation[key] for key in ("/FS",) if key in annotation)
                yield from _items(annotation.get("/AF"))
                content = annotation.get("/RichMediaContent")
                if isinstance(content, pikepdf.Dictionary):
                    yield from _leaves(content.get("/Assets"), 0, seen)


def _leaves(node: object, depth: int, seen: set[tuple[int, int]]) -> Iterator[pikepdf.Object]:
    """Yield the values of a name tree (ISO 32000-2, 7.9.6). A part that is listed twice is followed once."""
    if not isinstance(node, pikepdf.Dictionary) or depth > _TREE_DEPTH or node.objgen in seen:
        return
    if node.is_indirect:
        seen.add(node.objgen)
    yield from list(_items(node.get("/Names")))[1::2]
    for kid in _items(node.get("/Kids")):
        yield from _leaves(kid, depth + 1, seen)


def _items(values: object) -> Iterator[pikepdf.Object]:
    if isinstance(values, pikepdf.Array):
        yield from values
