"""The rules for untrusted strings: what is stored and displayed, and ids of tenants, which also come from issuers.

File names have further rules in `uploads.names`.
"""

import re
import unicodedata
from typing import Final

TENANT_ID_RULE: Final = "1 to 64 letters, digits, hyphens and underscores"
# The id is part of object keys and log lines: nothing in it may mean anything in a path.
_TENANT_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


def is_plain(text: str, *, lines: bool = False) -> bool:
    """Return whether `text` has no control character (Cc) and no surrogate; `lines` allows tabs and line ends."""
    if text.isprintable():  # the common case, and much faster than asking for the category of each character
        return True
    allowed = "\t\n\r" if lines else ""
    return all(letter in allowed or unicodedata.category(letter) not in {"Cc", "Cs"} for letter in text)


def is_tenant_id(text: str) -> bool:
    """Return whether a text can be the id of a tenant."""
    return _TENANT_ID.fullmatch(text) is not None


def masked(text: str) -> str:
    """Return an identifier as it may be shown: its first and last four characters."""
    return f"{text[:4]}…{text[-4:]}"
