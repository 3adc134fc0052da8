"""OpenDocument texts (.odt, templates, master documents): what of them a reader sees. Packages are read by `odf`, ink is found by `odf_ink`.

Headers and footers are stationery and do not count; neither do prompts, hidden text, white text where nothing is coloured, and empty
tables without lines. Notes and comments do.
"""

from typing import Final

from sluice.formats.kind import Kind
from sluice.formats.office.odf import check_package, family_of
from sluice.formats.office.odf_ink import Ink, shows_something
from sluice.formats.office.odf_sample import make_package
from sluice.formats.office.zip_documents import open_document
from sluice.formats.source import Source
from sluice.formats.verdict import Limits


def blank(source: Source, limits: Limits) -> str | None:
    """Answer that the text, its notes and comments show nothing."""
    if shows_something(open_document(source, limits), Ink(limits.soft_seconds)):
        return None
    return "the document shows no text, picture, shape or object"


KIND: Final = Kind(
    name="odt",
    content_type="application/vnd.oasis.opendocument.text",
    extensions=frozenset({"odt", "ott", "odm", "otm", "oth"}),
    recognises=lambda source: family_of(source) == "text",
    check=check_package,
    sample=lambda: make_package("text", "<text:p>Sluice</text:p>"),
    blank=blank,
)
