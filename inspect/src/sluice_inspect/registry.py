"""The list of all formats. A new format is a module in `formats/` and its name here."""

from typing import Final

from sluice_inspect.format import Format

# isort: off
from sluice_inspect.formats import (
    aiff, avi, bmp, compressed, csv, docx, eml, epub, flac, gif, html, jpeg, jpeg2000, json, matroska, mp4, mpeg_audio,
    msg, ogg, png, pptx, rar, rtf, sevenzip, sqlite, svg, tar, text, wav, webp, xlsx, xml, yaml,
    zip,  # noqa: A004  (the format's name)
)  # fmt: skip

# isort: on
from sluice_inspect.formats.doc import format as doc
from sluice_inspect.formats.fonts import sfnt, webfont
from sluice_inspect.formats.heif import avif, heic
from sluice_inspect.formats.opendocument.format import ODP, ODS, ODT
from sluice_inspect.formats.parquet import format as parquet
from sluice_inspect.formats.pdf import format as pdf
from sluice_inspect.formats.ppt import format as ppt
from sluice_inspect.formats.tiff import format as tiff
from sluice_inspect.formats.xls import format as xls

# The order in which content is matched: a format in the container of another (docx in zip) comes before the container.
FORMATS: Final[tuple[Format, ...]] = (
    png.FORMAT, jpeg.FORMAT, gif.FORMAT, webp.FORMAT, bmp.FORMAT, tiff.FORMAT, heic.FORMAT, avif.FORMAT, jpeg2000.JP2,
    jpeg2000.J2K,
    sfnt.TTF, sfnt.OTF, webfont.WOFF, webfont.WOFF2,
    pdf.FORMAT, docx.FORMAT, xlsx.FORMAT, pptx.FORMAT, ODT, ODS, ODP, epub.FORMAT, zip.FORMAT,
    doc.FORMAT, xls.FORMAT, ppt.FORMAT, sqlite.FORMAT, parquet.FORMAT, msg.FORMAT, rtf.FORMAT,
    sevenzip.FORMAT, rar.FORMAT, compressed.GZIP, compressed.BZIP2, compressed.XZ, compressed.ZSTANDARD, compressed.LZ4,
    tar.FORMAT,
    flac.FORMAT, ogg.OGG, ogg.OPUS, wav.FORMAT, aiff.FORMAT, avi.FORMAT, mp4.MP4, mp4.MOV, mp4.M4A, matroska.MKV,
    matroska.WEBM, mpeg_audio.AAC, mpeg_audio.MP3,
    json.FORMAT, svg.FORMAT, xml.FORMAT, html.FORMAT, yaml.FORMAT, csv.FORMAT, eml.FORMAT, text.TEXT, text.MARKDOWN,
)  # fmt: skip
_BY_EXTENSION: Final = {extension: each for each in reversed(FORMATS) for extension in each.extensions}


def format_of(extension: str) -> Format | None:
    """Return the format that an extension (lower case, without the dot) names, or None."""
    return _BY_EXTENSION.get(extension)
