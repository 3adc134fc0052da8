"""The header that names a download (RFC 6266). What names are accepted at upload is decided there, not here."""

import unicodedata
from typing import Final
from urllib.parse import quote

_NAMELESS: Final = "download"
# attr-char of RFC 5987, section 3.2.1, beyond letters, digits and what `quote` always leaves (`_ . - ~`)
_ATTRIBUTE_CHARACTERS: Final = "!#$&+^`|"
# these turn the direction of text and make `exe.fdp` out of a name that ends in `.exe`
_BIDIRECTIONAL: Final = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_UNPRINTABLE: Final = frozenset({"Cc", "Cs", "Zl", "Zp"})


def attachment(filename: str) -> str:
    """Answer the value of `Content-Disposition` that saves a download under `filename`.

    Path separators, control characters and what turns the direction of text become `_`. A name outside plain ASCII is given
    twice: once with `_` for what an old client cannot read, once exactly (`filename*`, RFC 5987), which newer clients prefer.
    """
    name = "".join(character if _is_plain(character) else "_" for character in filename) or _NAMELESS
    fallback = "".join(character if _is_quotable(character) else "_" for character in name)
    if fallback == name:
        return f'attachment; filename="{name}"'
    return f"attachment; filename=\"{fallback}\"; filename*=UTF-8''{quote(name, safe=_ATTRIBUTE_CHARACTERS)}"


def _is_plain(character: str) -> bool:
    return character not in "/\\" and character not in _BIDIRECTIONAL and unicodedata.category(character) not in _UNPRINTABLE


def _is_quotable(character: str) -> bool:
    """Say whether clients agree on the character inside quotes: some decode `%41`, few unescape quotes (RFC 6266, appendix D)."""
    return character.isascii() and character not in '"%'
