"""The one list of formats. Adding one is a module in `kinds/` and a line here."""

from typing import Final

from sluice.formats.kind import Kind
from sluice.formats.kinds import (
    aac,
    aiff,
    avi,
    bzip2,
    csv_text,
    doc,
    docx,
    epub,
    flac,
    gif,
    gz,
    jpeg,
    json_text,
    lz4,
    m4a,
    mkv,
    mov,
    mp3,
    mp4,
    odp,
    ods,
    odt,
    ogg,
    opus,
    pdf,
    png,
    pptx,
    rar,
    sevenzip,
    tar,
    text,
    wav,
    webm,
    webp,
    xls,
    xlsx,
    xml_text,
    xz,
    zip,  # noqa: A004  (the format's name)
    zst,
)

KINDS: Final[tuple[Kind, ...]] = (
    png.KIND,
    jpeg.KIND,
    gif.KIND,
    webp.KIND,
    pdf.KIND,
    docx.KIND,
    xlsx.KIND,
    pptx.KIND,
    odt.KIND,
    ods.KIND,
    odp.KIND,
    epub.KIND,
    zip.KIND,
    doc.KIND,
    xls.KIND,
    sevenzip.KIND,
    rar.KIND,
    gz.KIND,
    bzip2.KIND,
    xz.KIND,
    zst.KIND,
    lz4.KIND,
    tar.KIND,
    flac.KIND,
    ogg.KIND,
    opus.KIND,
    wav.KIND,
    aiff.KIND,
    avi.KIND,
    mp4.KIND,
    mov.KIND,
    m4a.KIND,
    mkv.KIND,
    webm.KIND,
    aac.KIND,
    mp3.KIND,
    json_text.KIND,
    xml_text.KIND,
    csv_text.KIND,
    text.KIND,
)
"""In the order in which content is asked for: a format inside another's container (docx in zip) comes before the container."""

_BY_EXTENSION: Final = {extension: kind for kind in reversed(KINDS) for extension in kind.extensions}


def kind_of(extension: str) -> Kind | None:
    """Answer the kind that an extension (lower case, no dot) names, or None."""
    return _BY_EXTENSION.get(extension)
