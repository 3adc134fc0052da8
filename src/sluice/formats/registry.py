"""The one list of formats. Adding one is a module in `kinds/` and a line here."""

from typing import Final

from sluice.formats.kind import Kind
from sluice.formats.kinds import csv_text, docx, gif, jpeg, json_text, pdf, png, pptx, text, webp, xlsx, xml_text, zip  # noqa: A004  (the format's name)

KINDS: Final[tuple[Kind, ...]] = (
    png.KIND,
    jpeg.KIND,
    gif.KIND,
    webp.KIND,
    pdf.KIND,
    docx.KIND,
    xlsx.KIND,
    pptx.KIND,
    zip.KIND,
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
