"""Reading the text of a document, by what its format is."""

from __future__ import annotations

from typing import Final

from sluice_inspect.document_text import office, texts
from sluice_inspect.document_text.extent import Extent
from sluice_inspect.document_text.pdf import pdf_text
from sluice_inspect.format import Family
from sluice_inspect.inspection import identify
from sluice_inspect.office.default_password import decrypted
from sluice_inspect.report import Limits, Unsupported
from sluice_inspect.sniff import is_plain_text
from sluice_inspect.source import MemoryBacked, Source

_READERS: Final = {**texts.READERS, **office.READERS, "pdf": pdf_text}


def read_text(source: Source, filename: str, extent: Extent, limits: Limits) -> str:
    """Return the text of a document, as much as `extent` says. Raise an `InspectionError` that says why there is none.

    `filename` helps to recognise the format, as it does when the file is inspected.
    """
    document = decrypted(source)
    if document is None:
        return _read(source, filename, extent, limits)
    with MemoryBacked(document) as content:
        return _read(content, filename, extent, limits)


def _read(source: Source, filename: str, extent: Extent, limits: Limits) -> str:
    found, content_type = identify(source, filename, limits)
    if found is not None and found.name in _READERS:
        return _READERS[found.name](source, limits, extent)
    if found is not None and found.family is Family.PICTURE and extent.pictures is not None:
        return extent.pictures.read_picture(source, found.name, limits)
    if found is None and source.size and is_plain_text(source):
        read = texts.mail_text if content_type == "message/rfc822" else texts.plain_text
        return read(source, limits, extent)
    raise Unsupported("files of this format have no text that is read")
