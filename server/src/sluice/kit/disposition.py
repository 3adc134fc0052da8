"""The `Content-Disposition` header of a download (RFC 6266)."""

from typing import Final
from urllib.parse import quote

from sluice.kit.filenames import displayed

# attr-char of RFC 5987, section 3.2.1, except letters, digits and `_ . - ~`, which `quote` never escapes.
_ATTRIBUTE_CHARACTERS: Final = "!#$&+^`|"


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
    name = displayed(filename)
    # RFC 6266, appendix D: some clients decode `%41`, and few unescape quotes.
    fallback = "".join(character if (character.isascii() and character not in '"%') else "_" for character in name)
    if fallback == name:
        return f'{disposition}; filename="{name}"'
    return f"{disposition}; filename=\"{fallback}\"; filename*=UTF-8''{quote(name, safe=_ATTRIBUTE_CHARACTERS)}"
