"""OpenDocument presentations (.odp, templates): what of them a reader sees. Packages are read by `odf`, ink is found by `odf_ink`.

Slides, their notes and comments count. What stands on master slides does not, nor empty placeholders, slide numbers, dates and footers, and
text boxes without text.
"""

from collections.abc import Mapping
from typing import Final

from sluice.formats.kind import Kind
from sluice.formats.office.odf import check_package, family_of
from sluice.formats.office.odf_ink import Ink, shows_something
from sluice.formats.office.odf_names import PRESENTATION
from sluice.formats.office.odf_sample import make_package
from sluice.formats.office.zip_documents import open_document
from sluice.formats.source import Source
from sluice.formats.verdict import Limits

_FURNITURE: Final = frozenset({"date-time", "footer", "header", "page-number"})
_FIELDS: Final = frozenset({"presentation:date-time", "presentation:footer", "presentation:header", "text:page-number"})


class _Slides(Ink):
    """The ink of all slides and their notes."""

    white_is_unseen = False

    def __init__(self, soft_seconds: float) -> None:
        super().__init__(soft_seconds)
        self._placeholder_from = 0
        """How deep the placeholder lies that is open, 0 outside of any. What is drawn in one is drawn for who edits it."""

    def mutes(self, name: str, attributes: Mapping[str, str]) -> bool:
        return name in _FIELDS or attributes.get(PRESENTATION + "class") in _FURNITURE or super().mutes(name, attributes)

    def opened(self, name: str, attributes: Mapping[str, str]) -> None:
        if attributes.get(PRESENTATION + "placeholder") == "true" and not self._placeholder_from:
            self._placeholder_from = len(self.stack)
        if name == "table:table":
            self.object_seen(name)

    def closed(self, _name: str) -> None:
        if len(self.stack) < self._placeholder_from:
            self._placeholder_from = 0

    def object_seen(self, name: str) -> None:
        if not self._placeholder_from:
            super().object_seen(name)


def blank(source: Source, limits: Limits) -> str | None:
    """Answer that no slide shows anything, and that none has notes or comments."""
    if shows_something(open_document(source, limits), _Slides(limits.soft_seconds)):
        return None
    return "no slide shows any text, picture, shape or object"


KIND: Final = Kind(
    name="odp",
    content_type="application/vnd.oasis.opendocument.presentation",
    extensions=frozenset({"odp", "otp"}),
    recognises=lambda source: family_of(source) == "presentation",
    check=check_package,
    sample=lambda: make_package(
        "presentation", "<draw:page><draw:frame><draw:text-box><text:p>Sluice</text:p></draw:text-box></draw:frame></draw:page>"
    ),
    blank=blank,
)
