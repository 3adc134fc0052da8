"""Which strings from strangers can be kept and shown. Names of files have rules of their own in `uploads.names`."""

import unicodedata


def is_plain(text: str, *, lines: bool = False) -> bool:
    """Answer whether `text` holds no control character (Unicode Cc) and no surrogate; `lines` allows tabs and line ends."""
    allowed = "\t\n\r" if lines else ""
    return all(letter in allowed or unicodedata.category(letter) not in {"Cc", "Cs"} for letter in text)
