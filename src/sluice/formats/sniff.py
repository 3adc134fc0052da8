"""What is this content? Looks at bytes, never at names; what a name promises is in `extensions.py`, whether it is kept is judged in `check.py`."""

import re
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Final

import pylibmagic  # noqa: F401  (puts the bundled library where python-magic looks for it)

from sluice.formats.kind import Kind
from sluice.formats.source import Source
from sluice.formats.text.webpage import is_web_page

if TYPE_CHECKING:
    import magic

UNKNOWN: Final = "application/octet-stream"

_LIBMAGIC_BYTES: Final = 16 * 1024
_MEDIA_TYPE: Final = re.compile(r"[a-z]+/[a-z0-9][a-z0-9.+-]{0,99}")
_VAGUE: Final = re.compile(r"application/octet-stream|application/x-(empty|data|dosexec-fragment)|inode/.*")


def looks_like_html(source: Source) -> bool:
    """Answer whether the file begins as a web page does: what a failed download leaves under the name of the wanted file."""
    return is_web_page(source.head)


def recognise(source: Source, kinds: Iterable[Kind], first: Kind | None) -> Kind | None:
    """Answer the first binary kind that knows the content. `first` is asked first: a .zip that holds a .docx's members is a zip."""
    if first is not None and first.recognises(source):
        return first
    return next((kind for kind in kinds if not kind.is_text and kind.recognises(source)), None)


def is_plain_text(source: Source) -> bool:
    """Answer whether the first 4 KiB hold nothing but characters: such a file is no image, whatever its first letters are."""
    return not source.head[:4096].translate(None, _TEXT_BYTES)


_TEXT_BYTES: Final = bytes([*b"\t\n\r\f\x1b", *range(0x20, 0x7F), *range(0x80, 0x100)])


def content_type_of(source: Source) -> str:
    """Answer libmagic's media type of content that no kind knows, `application/octet-stream` where it has none."""
    if source.size == 0:
        return UNKNOWN
    found = _libmagic().from_buffer(source.head[:_LIBMAGIC_BYTES])
    return found if _MEDIA_TYPE.fullmatch(found) and not _VAGUE.fullmatch(found) else UNKNOWN


def preload() -> None:
    """Load libmagic's database now, while there is a file system to load it from."""
    _libmagic()


@cache
def _libmagic() -> "magic.Magic":
    import magic  # noqa: PLC0415  (loading its library is what `preload` is for)

    reader = magic.Magic(mime=True)
    reader.from_buffer(b"the first look compiles regular expressions")
    return reader
