"""The `Content-Disposition` header of a download (RFC 6266)."""

import unicodedata
from typing import Final
from urllib.parse import quote

_NAMELESS: Final = "download"
# attr-char of RFC 5987, section 3.2.1, except letters, digits and `_ . - ~`, which `quote` never escapes.
_ATTRIBUTE_CHARACTERS: Final = "!#$&+^`|"
# These reverse the direction of text and display a name that ends in `.exe` as `exe.fdp`.
_BIDIRECTIONAL: Final = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_UNPRINTABLE: Final = frozenset({"Cc", "Cs", "Zl", "Zp"})


def attachment(filename: str) -> str:
    """Return the header value that makes a client save the download under `filename`."""
    return _named("attachment", filename)


def inline(filename: str) -> str:
    """Return the header value that lets a client show the download, and save it under `filename`."""
    return _named("inline", filename)


def _named(disposition: str, filename: str) -> str:
    """Return a disposition with the name of the file.

    Path separators, control characters and bidirectional marks become `_`. A name outside plain ASCII is given twice:
    with `_` for old clients, and exactly (`filename*`, RFC 5987), which newer clients prefer.
    """
    name = "".join(character if _is_plain(character) else "_" for character in filename) or _NAMELESS
    # RFC 6266, appendix D: some clients decode `%41`, and few unescape quotes.
    fallback = "".join(character if (character.isascii() and character not in '"%') else "_" for character in name)
    if fallback == name:
        return f'{disposition}; filename="{name}"'
    return f"{disposition}; filename=\"{fallback}\"; filename*=UTF-8''{quote(name, safe=_ATTRIBUTE_CHARACTERS)}"


def _is_plain(character: str) -> bool:
    return (
        character not in "/\\"
        and character not in _BIDIRECTIONAL
        and unicodedata.category(character) not in _UNPRINTABLE
    )
