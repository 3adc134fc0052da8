"""What is encoded in texts of no known format, such as style sheets and Markdown: addresses with a file, uuencode."""

from collections.abc import Iterator, Sequence
from typing import Final

from sluice_inspect.parts import Part, windows
from sluice_inspect.source import RandomAccess
from sluice_inspect.threats.detect import ascii_of
from sluice_inspect.threats.encoded import has_address, text_parts
from sluice_inspect.threats.mail import begins_uuencoded, uuencoded_parts

_SEARCHED_BYTES: Final = 1024**2
_OVERLAP_BYTES: Final = 2048  # longer than what is searched for
_HEAD_BYTES: Final = 4096
_CONTROLS: Final = bytes((*range(8), *range(0x0E, 0x1B), *range(0x1C, 0x20)))
# Their readers replace escapes and references, by which an address may be written so that no search finds it.
_STYLED: Final = frozenset({"css", "md", "markdown"})


def is_other_text(head: bytes, formats: Sequence[str], extension: str) -> bool:
    """Return whether bytes that begin with `head` are a text of no other format than perhaps mail."""
    if any(each != "mail" for each in formats):
        return False
    begin = ascii_of(head[:_HEAD_BYTES])
    return extension in _STYLED or len(begin.translate(None, _CONTROLS)) == len(begin)


def other_text_parts(source: RandomAccess, extension: str, *, is_mail: bool) -> Iterator[Part]:
    """Yield what is encoded in a text. In a mail, uuencoded parts are read before."""
    if extension in _STYLED or any(map(has_address, _pieces(source))):
        yield from text_parts(source)
    if not is_mail and any(map(begins_uuencoded, _pieces(source))):
        yield from uuencoded_parts(source)


def is_encoded_other_text(window: bytes) -> bool:
    """Return whether something encoded begins in `window`, a part of a text that is too large to be read whole."""
    return has_address(window) or begins_uuencoded(window)


def _pieces(source: RandomAccess) -> Iterator[bytes]:
    return (window for _, window in windows(source, _SEARCHED_BYTES, _OVERLAP_BYTES))
