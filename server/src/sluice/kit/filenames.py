"""Names that strangers gave their files, made harmless to show and to save."""

import re
import unicodedata
from typing import Final

_NAMELESS: Final = "download"
# These reverse the direction of text and display a name that ends in `.exe` as `exe.fdp`.
_BIDIRECTIONAL: Final = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_UNPRINTABLE: Final = frozenset({"Cc", "Cs", "Zl", "Zp"})
# Microsoft, "Naming Files, Paths, and Namespaces": Windows opens a device for such a name, whatever its extension is.
_DEVICE: Final = re.compile(r"(?:con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]|conin\$|conout\$)[ ]*(?:\.|$)", re.IGNORECASE)
_NOT_ON_WINDOWS: Final = str.maketrans(dict.fromkeys('<>:"|?*', "_"))
_LONGEST_BYTES: Final = 200
_LONGEST_EXTENSION: Final = 20


def displayed(filename: str) -> str:
    """Return a name with `_` for path separators, control characters and marks that reverse the direction of text."""
    return "".join(character if _is_plain(character) else "_" for character in filename) or _NAMELESS


def saved_as(filename: str) -> str:
    """Return a name under which a file may be written into any folder of any system, with its extension."""
    name = displayed(filename).translate(_NOT_ON_WINDOWS).strip(" .") or _NAMELESS
    stem, dot, extension = name.rpartition(".")
    if not stem or len(extension) > _LONGEST_EXTENSION:
        stem, dot, extension = name, "", ""
    room = _LONGEST_BYTES - len(f"{dot}{extension}".encode())
    name = stem.encode()[:room].decode(errors="ignore") + dot + extension
    return f"_{name}" if _DEVICE.match(name) else name


def _is_plain(character: str) -> bool:
    return (
        character not in "/\\"
        and character not in _BIDIRECTIONAL
        and unicodedata.category(character) not in _UNPRINTABLE
    )
